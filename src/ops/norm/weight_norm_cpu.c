/* weight_norm_cpu.c -- w = g v / |v| on the CPU, one row at a time. */
#include "ops/norm/weight_norm.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/reduce/row_sums.h"

#include <math.h>

typedef struct WeightNormSize {
    int64_t rows, width;
    int     threads;
} WeightNormSize;

static WeightNormSize weight_of(const Node *n, const Device *device)
{
    Shape   v = in_shape(n, 1);
    int64_t count = shape_count(v);
    return (WeightNormSize){ v.dim[0], count / v.dim[0],
                             parallel_threads(device->threads, v.dim[0]) };
}

/* Rows are converted here: v, and w or dw. */
static size_t weight_bytes(const Node *n, const Device *device)
{
    WeightNormSize job = weight_of(n, device);
    return (size_t)(2 * job.threads * job.width) * sizeof(float);
}

Err weight_norm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = weight_bytes(n, device);
    return OK;
}

Err weight_norm_cpu(const Call *call)
{
    const Node    *n = call->node;
    WeightNormSize job = weight_of(n, call->device);
    int64_t        w = job.width;

#pragma omp parallel num_threads(job.threads)
    {
        float  *stage = (float *)call->workspace + 2 * omp_get_thread_num() * w, one;
        int64_t from, to;
        parallel_range(job.rows, 1, omp_get_thread_num(), job.threads, &from, &to);
        for (int64_t r = from; r < to; r++) {
            const float *v = row_load(in_type(n, 1), call->in[1], r * w, w, stage);
            float       *y = row_open(out_type(n, 0), call->out[0], r * w, stage + w);
            float        length = sqrtf(row_dot(v, 0, v, 0, w));
            float        scale = *row_load(in_type(n, 0), call->in[0], r, 1, &one) / length;
#pragma omp simd
            for (int64_t c = 0; c < w; c++)
                y[c] = scale * v[c];
            row_store(out_type(n, 0), call->out[0], r * w, w, y);
        }
    }
    return OK;
}

Err weight_norm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = weight_bytes(n, device);
    return OK;
}

/* dg = dw.v / |v|;  dv = g / |v| (dw - v dw.v / |v|^2) */
Err weight_norm_grad_cpu(const Call *call)
{
    const Node    *n = call->node;
    WeightNormSize job = weight_of(n, call->device);
    int64_t        w = job.width;
    float         *dg = call->out[0], *dv = call->out[1];

#pragma omp parallel num_threads(job.threads)
    {
        float  *stage = (float *)call->workspace + 2 * omp_get_thread_num() * w, one;
        int64_t from, to;
        parallel_range(job.rows, 1, omp_get_thread_num(), job.threads, &from, &to);
        for (int64_t r = from; r < to; r++) {
            const float *v = row_load(in_type(n, 1), call->in[1], r * w, w, stage);
            const float *dw = row_load(in_type(n, 2), call->in[2], r * w, w, stage + w);
            float        square = row_dot(v, 0, v, 0, w), dot = row_dot(dw, 0, v, 0, w);
            float        length = sqrtf(square);
            float        scale = *row_load(in_type(n, 0), call->in[0], r, 1, &one) / length;
            float        along = dot / square;
            if (dg)
                dg[r] = dot / length;
            if (dv)
#pragma omp simd
                for (int64_t c = 0; c < w; c++)
                    dv[r * w + c] = scale * (dw[c] - v[c] * along);
        }
    }
    return OK;
}
