/* scalar_norm_cpu.c -- SaShiMi's norm, (s / std) * (x - mean + m), on the CPU: row by row.
 *
 * As published it has no epsilon: a row of equal values gives infinities or NaN, here too.
 */
#include "ops/norm/layernorm.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/reduce/row_sums.h"

#include <math.h>

enum { STAGE_FLOATS = 4096 };

typedef struct ScalarRows {
    int64_t rows, width, stage_rows;
    int     threads;
} ScalarRows;

static ScalarRows scalar_rows(const Node *n, const Device *device)
{
    int64_t width = dim(in_shape(n, 0), -1), rows = shape_rows(in_shape(n, 0));
    return (ScalarRows){ .rows = rows,
                         .width = width,
                         .stage_rows = STAGE_FLOATS / width > 1 ? STAGE_FLOATS / width : 1,
                         .threads = parallel_threads(device->threads, rows) };
}

/* Sums of dm and ds per thread, then stages of the tensors that are not fp32. */
static size_t scalar_bytes(const ScalarRows *job, int stages, Type type)
{
    int64_t floats = type == F32 ? 0 : stages * job->stage_rows * job->width;
    return (size_t)job->threads * (2 * sizeof(double) + (size_t)floats * sizeof(float));
}

static float *scalar_stage(const ScalarRows *job, int stages, Type type, void *workspace,
                           int thread)
{
    int64_t floats = type == F32 ? 0 : stages * job->stage_rows * job->width;
    return (float *)((double *)workspace + 2 * job->threads) + thread * floats;
}

Err scalar_norm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    ScalarRows job = scalar_rows(n, device);
    choice->workspace_bytes = scalar_bytes(&job, 2, in_type(n, 0));
    return OK;
}

Err scalar_norm_cpu(const Call *call)
{
    const Node *n = call->node;
    ScalarRows  job = scalar_rows(n, call->device);
    Type        type = in_type(n, 0);
    int64_t     w = job.width;
    float       one[2], m = *row_load(in_type(n, 1), call->in[1], 0, 1, one);
    float       s = *row_load(in_type(n, 2), call->in[2], 0, 1, one + 1);

#pragma omp parallel num_threads(job.threads)
    {
        float  *stage = scalar_stage(&job, 2, type, call->workspace, omp_get_thread_num());
        int64_t from, to;
        parallel_range(job.rows, 1, omp_get_thread_num(), job.threads, &from, &to);
        for (int64_t r = from, some; r < to; r += some) {
            some = to - r < job.stage_rows ? to - r : job.stage_rows;
            const float *x = row_load(type, call->in[0], r * w, some * w, stage);
            float       *y = row_open(type, call->out[0], r * w, stage + job.stage_rows * w);
            for (int64_t i = 0; i < some; i++) {
                const float *xi = x + i * w;
                float       *yi = y + i * w, mean = row_sum(xi, w) / (float)w;
                float        scale = s / sqrtf(row_deviation(xi, w, mean) / (float)w);
#pragma omp simd
                for (int64_t c = 0; c < w; c++)
                    yi[c] = scale * (xi[c] - mean + m);
            }
            row_store(type, call->out[0], r * w, some * w, y);
        }
    }
    return OK;
}

Err scalar_norm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    ScalarRows job = scalar_rows(n, device);
    choice->workspace_bytes = scalar_bytes(&job, 3, in_type(n, 0));
    return OK;
}

/* With c = x - mean: dx = s/std (dy - mean(dy) - c mean(dy (c + m)) / std^2),
 * dm = sum s/std dy, ds = sum dy (c + m) / std. */
Err scalar_norm_grad_cpu(const Call *call)
{
    const Node *n = call->node;
    ScalarRows  job = scalar_rows(n, call->device);
    Type        type = in_type(n, 0), type_dy = in_type(n, 3);
    int64_t     w = job.width;
    double     *sums = call->workspace;
    float       one[2], m = *row_load(in_type(n, 1), call->in[1], 0, 1, one);
    float       s = *row_load(in_type(n, 2), call->in[2], 0, 1, one + 1);

#pragma omp parallel num_threads(job.threads)
    {
        int     t = omp_get_thread_num();
        float  *stage = scalar_stage(&job, 3, type, call->workspace, t);
        double  sum_m = 0, sum_s = 0;
        int64_t from, to;
        parallel_range(job.rows, 1, t, job.threads, &from, &to);
        for (int64_t r = from, some; r < to; r += some) {
            some = to - r < job.stage_rows ? to - r : job.stage_rows;
            const float *x = row_load(type, call->in[0], r * w, some * w, stage);
            const float *dy = row_load(type_dy, call->in[3], r * w, some * w,
                                       stage + job.stage_rows * w);
            float       *dx = call->out[0]
                                  ? row_open(type, call->out[0], r * w, stage + 2 * job.stage_rows * w)
                                  : NULL;
            for (int64_t i = 0; i < some; i++) {
                const float *xi = x + i * w, *di = dy + i * w;
                float        mean = row_sum(xi, w) / (float)w;
                float        rstd = 1 / sqrtf(row_deviation(xi, w, mean) / (float)w);
                float        sum = row_sum(di, w), dot = row_dot(xi, mean - m, di, 0, w);
                float        mean_sum = sum / (float)w, mean_dot = dot * rstd * rstd / (float)w;
                sum_m += (double)(s * rstd * sum);
                sum_s += (double)(rstd * dot);
                if (!dx)
                    continue;
                float *yi = dx + i * w;
#pragma omp simd
                for (int64_t c = 0; c < w; c++)
                    yi[c] = s * rstd * (di[c] - mean_sum - (xi[c] - mean) * mean_dot);
                if (call->in[4])
                    row_add(type, call->in[4], (r + i) * w, w, yi);
            }
            if (dx)
                row_store(type, call->out[0], r * w, some * w, dx);
        }
        sums[2 * t] = sum_m;
        sums[2 * t + 1] = sum_s;
    }
    for (int i = 1; i < 3; i++) {
        double sum = 0;
        for (int t = 0; t < job.threads; t++)
            sum += sums[2 * t + i - 1];
        if (call->out[i])
            *(float *)call->out[i] = (float)sum;
    }
    return OK;
}
