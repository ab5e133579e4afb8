/* sashimi_step.c -- SaShiMi one step at a time, for sampling.
 *
 * A stage takes one vector and returns one. Each stage but the last collects four input vectors. At
 * the fourth, the next stage runs on them, pooled; its output is unpooled into a queue of four
 * vectors, which are added during the NEXT four steps: this is the shift of the training form. So
 * stage i runs at every 4^i-th step.
 *
 * S4 states are double (ops/s4/s4_step.h), all else is fp32. Weights are stored as (in, out), so
 * that products run along the outputs. The features of pools are in the order of the collected
 * vectors, s*H+h. */
#include "models/sashimi.h"

#include "ops/s4/s4_step.h"
#include "ops/elementwise/vmath.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct Dense { /* y = x w + b */
    int64_t in, out;
    float  *w, *b;
} Dense;

typedef struct ScalarNorm {
    float m, s;
} ScalarNorm;

typedef struct Pair { /* an S4 block and a feed-forward block */
    ScalarNorm before_s4, before_ff;
    S4Step    *s4;
    float     *d;
    Dense      mix, ff_in, ff_out;
} Pair;

typedef struct SashimiStage {
    int64_t width;
    Pair   *pairs;    /* layers */
    Dense   down, up; /* to and from the next stage; the last stage has none */
} SashimiStage;

struct SashimiNet {
    const Sashimi *m;
    SashimiStage   stages[SASHIMI_MAX_POOLS + 1];
    float         *embedding; /* (levels of a token, width) */
    float         *norm_w, *norm_b;
    Dense          head;
    int64_t        widest; /* floats of the largest temporary vector */
};

typedef struct StageState {
    double **states;         /* of each S4 */
    float   *inputs, *queue; /* (4, width): collected inputs; output of the next stage */
    float   *x;              /* input, then output of this stage */
    float   *first;          /* input of its blocks, for the skip */
    int      collected;      /* 0..3 */
} StageState;

struct SashimiState {
    StageState stages[SASHIMI_MAX_POOLS + 1];
    double    *sums;
    float     *a, *b; /* temporary vectors */
};

/* ---- weights ---- */

typedef struct WeightReader {
    Pool    *pool;
    Sampler *sampler;
    char     prefix[128];
} WeightReader;

static void reader_at(WeightReader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void reader_at(WeightReader *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->prefix, sizeof r->prefix, fmt, args);
    va_end(args);
}

/* Copies the weight: the sampler's pointer may be valid only until the next call. */
static float *read_weight(const WeightReader *r, Pool *pool, const char *name, int64_t n)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", r->prefix, name);
    const float *from = r->sampler->weight(r->sampler, full);
    float       *to = NEWN(pool, float, n);
    REQUIRE(from != NULL);
    memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

static void transpose(const float *from, int64_t rows, int64_t cols, float *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            to[c * rows + r] = from[r * cols + c];
}

static Dense read_dense(const WeightReader *r, const char *name, int64_t in, int64_t out)
{
    char  weight[64], bias[64];
    Pool *work = pool_new(r->pool, "dense");
    Dense d = { .in = in, .out = out, .w = NEWN(r->pool, float, (in * out)) };
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    transpose(read_weight(r, work, weight, in * out), out, in, d.w);
    d.b = read_weight(r, r->pool, bias, out);
    pool_free(work);
    return d;
}

/* w = g v / |v|, with the features of the finer side permuted from h*4+s to s*H+h. */
static Dense read_pool(const WeightReader *r, int64_t in, int64_t out, bool down)
{
    Pool  *work = pool_new(r->pool, "pool");
    Dense  d = { in, out, NEWN(r->pool, float, (in * out)), NEWN(r->pool, float, out) };
    float *g = read_weight(r, work, ".weight_g", out);
    float *v = read_weight(r, work, ".weight_v", in * out);
    float *b = read_weight(r, work, ".bias", out);
    for (int64_t o = 0; o < out; o++) {
        int64_t to = down ? o : o % 4 * (out / 4) + o / 4;
        double  sum = 0;
        for (int64_t i = 0; i < in; i++)
            sum += (double)v[o * in + i] * (double)v[o * in + i];
        for (int64_t i = 0; i < in; i++) {
            int64_t at = down ? i % 4 * (in / 4) + i / 4 : i;
            d.w[at * out + to] = (float)((double)g[o] * (double)v[o * in + i] / sqrt(sum));
        }
        d.b[to] = b[o];
    }
    pool_free(work);
    return d;
}

static ScalarNorm read_norm(const WeightReader *r)
{
    Pool      *work = pool_new(r->pool, "norm");
    ScalarNorm norm = { *read_weight(r, work, ".norm.norm.m", 1),
                        *read_weight(r, work, ".norm.norm.s", 1) };
    pool_free(work);
    return norm;
}

static Err read_s4(const WeightReader *r, int64_t width, int64_t pairs, int64_t length,
                   S4Step **step)
{
    Pool    *work = pool_new(r->pool, "s4");
    S4Params params = {
        .channels = width,
        .pairs = pairs,
        .inv_dt = read_weight(r, work, ".layer.layer.kernel.inv_dt", width),
        .c = read_weight(r, work, ".layer.layer.kernel.C", 2 * width * pairs),
        .b = read_weight(r, work, ".layer.layer.kernel.B", 2 * pairs),
        .p = read_weight(r, work, ".layer.layer.kernel.P", 2 * pairs),
        .a_real = read_weight(r, work, ".layer.layer.kernel.A_real", pairs),
        .a_imag = read_weight(r, work, ".layer.layer.kernel.A_imag", pairs),
    };
    TRY(s4_step_new(r->pool, &params, length, step));
    pool_free(work);
    return OK;
}

/* Blocks first, first + 1, ... of the list called `list`. */
static Err read_pairs(WeightReader *r, const Sashimi *m, int64_t stage, const char *list, int first,
                      Pair *pairs)
{
    int64_t width = sashimi_width(m, stage);
    for (int i = 0; i < m->layers; i++) {
        Pair *p = &pairs[i];
        reader_at(r, "%s.%d", list, first + 2 * i);
        p->before_s4 = read_norm(r);
        TRY(read_s4(r, width, m->state / 2, sashimi_length(m, stage), &p->s4));
        p->d = read_weight(r, r->pool, ".layer.layer.D", width);
        p->mix = read_dense(r, ".layer.output_linear.0", width, 2 * width);
        reader_at(r, "%s.%d", list, first + 2 * i + 1);
        p->before_ff = read_norm(r);
        p->ff_in = read_dense(r, ".layer.ff.0.0", width, m->ff * width);
        p->ff_out = read_dense(r, ".layer.ff.2", m->ff * width, width);
    }
    return OK;
}

Err sashimi_net_new(Pool *pool, const Sashimi *m, Sampler *s, SashimiNet **out)
{
    SashimiNet  *net = NEW(pool, SashimiNet);
    WeightReader r = { .pool = pool, .sampler = s };
    int          last = (int)m->pools;
    *net = (SashimiNet){ .m = m };
    net->embedding = read_weight(&r, pool, "encoder.0.embedding.weight",
                                 sashimi_levels(m) * m->width);
    for (int i = 0; i <= last; i++) {
        SashimiStage *stage = &net->stages[i];
        char          list[64] = "model.c_layers";
        *stage = (SashimiStage){ .width = sashimi_width(m, i),
                                 .pairs = NEWN(pool, Pair, m->layers) };
        if (i < last) {
            int64_t below = sashimi_width(m, i + 1);
            reader_at(&r, "model.d_layers.%d.linear", i);
            stage->down = read_pool(&r, 4 * stage->width, below, true);
            snprintf(list, sizeof list, "model.u_layers.%d", last - 1 - i);
            reader_at(&r, "%s.0.linear", list);
            stage->up = read_pool(&r, below, 4 * stage->width, false);
        }
        TRY(read_pairs(&r, m, i, list, i < last, stage->pairs));
        int64_t wide = (m->ff > 2 ? m->ff : 2) * stage->width;
        net->widest = wide > net->widest ? wide : net->widest;
    }
    reader_at(&r, "model.");
    net->norm_w = read_weight(&r, pool, "norm.weight", m->width);
    net->norm_b = read_weight(&r, pool, "norm.bias", m->width);
    net->head = read_dense(&r, "output_head.projection", m->width, sashimi_outputs(m));
    *out = net;
    return OK;
}

SashimiState *sashimi_state_new(Pool *pool, const SashimiNet *net)
{
    const Sashimi *m = net->m;
    SashimiState  *state = NEW(pool, SashimiState);
    *state = (SashimiState){ .sums = NEWN(pool, double, net->widest),
                             .a = NEWN(pool, float, net->widest),
                             .b = NEWN(pool, float, net->widest) };
    for (int i = 0; i <= m->pools; i++) {
        int64_t  width = net->stages[i].width;
        double **states = NEWN(pool, double *, m->layers);
        for (int j = 0; j < m->layers; j++)
            states[j] = NEWN(pool, double, s4_state_count(net->stages[i].pairs[j].s4));
        state->stages[i] = (StageState){
            .states = states,
            .inputs = NEWN(pool, float, 4 * width),
            .queue = NEWN(pool, float, 4 * width),
            .x = NEWN(pool, float, width),
            .first = NEWN(pool, float, width),
        };
    }
    return state;
}

/* ---- one step ---- */

static void dense(const Dense *d, const float *restrict x, float *restrict y)
{
    int64_t i = 0;
    memcpy(y, d->b, (size_t)d->out * sizeof *y);
    for (; i + 4 <= d->in; i += 4) { /* four rows at once: a quarter of the loads of y */
        const float *w0 = d->w + i * d->out, *w1 = w0 + d->out;
        const float *w2 = w1 + d->out, *w3 = w2 + d->out;
#pragma omp simd
        for (int64_t o = 0; o < d->out; o++)
            y[o] += x[i] * w0[o] + x[i + 1] * w1[o] + x[i + 2] * w2[o] + x[i + 3] * w3[o];
    }
    for (; i < d->in; i++)
#pragma omp simd
        for (int64_t o = 0; o < d->out; o++)
            y[o] += x[i] * d->w[i * d->out + o];
}

static void gelu_rows(float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.5f * x[i] * (1 + verf(x[i] * 0.70710678f));
}

static void mean_and_variance(const float *x, int64_t n, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *variance = squares / (double)n;
}

static void scalar_norm_row(ScalarNorm norm, const float *x, int64_t n, float *y)
{
    double mean, variance;
    mean_and_variance(x, n, &mean, &variance);
    double scale = (double)norm.s / sqrt(variance);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(scale * ((double)x[i] - mean + (double)norm.m));
}

/* x becomes blocks(x) + x. */
static void stage_blocks(const SashimiNet *net, const SashimiStage *stage, StageState *at,
                         SashimiState *state)
{
    int64_t width = stage->width;
    float  *x = at->x, *a = state->a, *b = state->b;
    memcpy(at->first, x, (size_t)width * sizeof *x);
    for (int l = 0; l < net->m->layers; l++) {
        const Pair *p = &stage->pairs[l];
        scalar_norm_row(p->before_s4, x, width, a);
        s4_step(p->s4, at->states[l], state->sums, a, b);
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            b[i] += p->d[i] * a[i];
        gelu_rows(b, width);
        dense(&p->mix, b, a);
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            x[i] += a[i] * vsigmoid(a[i + width]);
        scalar_norm_row(p->before_ff, x, width, a);
        dense(&p->ff_in, a, b);
        gelu_rows(b, p->ff_in.out);
        dense(&p->ff_out, b, a);
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            x[i] += a[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < width; i++)
        x[i] += at->first[i];
}

/* Runs stage i: its input and then its output are in stages[i].x. */
static void stage_step(const SashimiNet *net, SashimiState *state, int i)
{
    const SashimiStage *stage = &net->stages[i];
    StageState         *at = &state->stages[i];
    int64_t             width = stage->width;
    if (i < net->m->pools) {
        float *late = at->queue + at->collected * width, *here = at->inputs + at->collected * width;
        for (int64_t h = 0; h < width; h++) {
            here[h] = at->x[h];
            at->x[h] += late[h];
        }
        if (++at->collected == 4) { /* all of the queue has been used: refill it */
            StageState *below = &state->stages[i + 1];
            dense(&stage->down, at->inputs, below->x);
            stage_step(net, state, i + 1);
            dense(&stage->up, below->x, at->queue);
            at->collected = 0;
        }
    }
    stage_blocks(net, stage, at, state);
}

void sashimi_step(const SashimiNet *net, SashimiState *state, int64_t token, float *outputs)
{
    int64_t width = net->m->width;
    float  *x = state->stages[0].x;
    double  mean, variance;
    memcpy(x, net->embedding + token * width, (size_t)width * sizeof *x);
    stage_step(net, state, 0);
    mean_and_variance(x, width, &mean, &variance);
    double scale = 1 / sqrt(variance + 1e-5);
    for (int64_t h = 0; h < width; h++)
        x[h] = (float)(((double)x[h] - mean) * scale) * net->norm_w[h] + net->norm_b[h];
    dense(&net->head, x, outputs);
}
