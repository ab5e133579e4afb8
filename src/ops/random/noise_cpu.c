/* noise_cpu.c -- random numbers and dropout on the CPU. */
#include "ops/random/noise.h"

#include "base/random.h"
#include "ops/optimizer/optim.h"
#include "ops/parallel.h"
#include "ops/reduce/rows.h"

static RandomKey noise_key(const Call *call, int counters_in)
{
    const int32_t *c = call->in[counters_in];
    return (RandomKey){
        .seed = (uint64_t)(uint32_t)c[COUNTER_SEED_HIGH] << 32 | (uint32_t)c[COUNTER_SEED_LOW],
        .stream = ATTR(call->node, NoiseAttr)->stream,
        .step = (uint32_t)c[COUNTER_STEP],
    };
}

/* The number of this micro-batch's first element (of `count`) within the step. */
static uint64_t noise_first(const Call *call, int counters_in, int64_t count)
{
    const int32_t *c = call->in[counters_in];
    return (uint64_t)(uint32_t)c[COUNTER_MICRO] * (uint64_t)count;
}

static void normal_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                       float *out)
{
    (void)in;
    int64_t count = shape_count(out_shape(call->node, 0));
    random_normals(noise_key(call, 0), noise_first(call, 0, count) + (uint64_t)first, n, out);
}

static void uniform_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                        float *out)
{
    (void)in;
    int64_t count = shape_count(out_shape(call->node, 0));
    random_uniforms(noise_key(call, 0), noise_first(call, 0, count) + (uint64_t)first, n, out);
}

/* clang-format off */
Err random_normal_cpu(const Call *call)  { return rows_run(call, 0, normal_row); }
Err random_uniform_cpu(const Call *call) { return rows_run(call, 0, uniform_row); }
/* clang-format on */

Err random_ints_cpu(const Call *call)
{
    int64_t   count = shape_count(out_shape(call->node, 0));
    RandomKey key = noise_key(call, 0);
    uint64_t  first = noise_first(call, 0, count);
    uint32_t  below = ATTR(call->node, NoiseAttr)->below;
    int32_t  *out = call->out[0];
    for (int64_t i = 0; i < count; i++)
        out[i] = (int32_t)random_below_at(key, first + (uint64_t)i, below);
    return OK;
}

static void dropout_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                        float *out)
{
    float        rate = ATTR(call->node, NoiseAttr)->rate, scale = 1 / (1 - rate), u[ROW_BLOCK];
    const float *x = in[0];
    int64_t      count = shape_count(out_shape(call->node, 0));
    random_uniforms(noise_key(call, 1), noise_first(call, 1, count) + (uint64_t)first, n, u);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = u[i] < rate ? 0.0f : x[i] * scale;
}

static void drop_samples_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                             float *out)
{
    Shape     s = out_shape(call->node, 0);
    int64_t   samples = s.dim[0], each = shape_count(s) / samples;
    float     rate = ATTR(call->node, NoiseAttr)->rate;
    RandomKey key = noise_key(call, 1);
    uint64_t  base = noise_first(call, 1, samples);
    for (int64_t i = 0; i < n;) {
        int64_t sample = (first + i) / each, end = (sample + 1) * each - first;
        bool    dropped = random_uniform_at(key, base + (uint64_t)sample) < rate;
        for (end = end < n ? end : n; i < end; i++)
            out[i] = dropped ? 0.0f : in[0][i];
    }
}

/* clang-format off */
Err dropout_cpu(const Call *call)      { return rows_run(call, 1, dropout_row); }
Err drop_samples_cpu(const Call *call) { return rows_run(call, 1, drop_samples_row); }
/* clang-format on */
