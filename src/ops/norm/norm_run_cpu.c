/* norm_run_cpu.c -- act(weight * (x - mean) * rstd + bias) and its gradients, two passes over x
 * each. */
#include "ops/norm/norm_cpu.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/elementwise/vmath.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float norm_act(NormAct act, float z)
{
    switch (act) {
    case NORM_SILU: return z * vsigmoid(z);
    case NORM_RELU: return z < 0 ? 0 : z; /* NaN stays */
    case NORM_GELU: return vgelu(z);
    default: return z;
    }
}

INLINE float norm_act_slope(NormAct act, float z)
{
    switch (act) {
    case NORM_SILU: {
        float s = vsigmoid(z);
        return s * (1 + z * (1 - s));
    }
    case NORM_RELU: return z > 0 ? 1.0f : 0.0f;
    case NORM_GELU: return vgelu_slope(z);
    default: return 1;
    }
}

/* The constants of every column. */
typedef struct NormColumns {
    const float *mean, *rstd, *weight, *bias, *mean_one, *mean_two;
} NormColumns;

INLINE void block_forward(NormAct act, const NormBlock *b, NormColumns k, const float *x, float *y)
{
    for (int64_t r = 0; r < b->rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < b->cols; c++) {
            int64_t i = r * b->cols + c;
            y[i] = norm_act(act, (x[i] - k.mean[c]) * k.rstd[c] * k.weight[c] + k.bias[c]);
        }
}

/* Sums of dz and dz * xhat over the rows of a block, dz = dy act'(z). */
INLINE void block_sums(NormAct act, const NormBlock *b, NormColumns k, const float *x,
                       const float *dy, float *restrict one, float *restrict two)
{
    for (int64_t c = 0; c < b->cols; c++)
        one[c] = two[c] = 0;
    for (int64_t r = 0; r < b->rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < b->cols; c++) {
            int64_t i = r * b->cols + c;
            float   xhat = (x[i] - k.mean[c]) * k.rstd[c];
            float   dz = dy[i] * norm_act_slope(act, xhat * k.weight[c] + k.bias[c]);
            one[c] += dz;
            two[c] += dz * xhat;
        }
}

INLINE void block_backward(NormAct act, const NormBlock *b, NormColumns k, const float *x,
                           const float *dy, float *dx)
{
    for (int64_t r = 0; r < b->rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < b->cols; c++) {
            int64_t i = r * b->cols + c;
            float   xhat = (x[i] - k.mean[c]) * k.rstd[c];
            float   dz = dy[i] * norm_act_slope(act, xhat * k.weight[c] + k.bias[c]);
            dx[i] = k.rstd[c] * (dz * k.weight[c] - k.mean_one[c] - xhat * k.mean_two[c]);
        }
}

/* One copy of a loop per activation, so that each is straight vector code. */
#define PER_ACT(act, loop, ...)                                                                    \
    do {                                                                                           \
        switch (act) {                                                                             \
        case NORM_SILU: loop(NORM_SILU, __VA_ARGS__); break;                                       \
        case NORM_RELU: loop(NORM_RELU, __VA_ARGS__); break;                                       \
        case NORM_GELU: loop(NORM_GELU, __VA_ARGS__); break;                                       \
        default: loop(NORM_LINEAR, __VA_ARGS__); break;                                            \
        }                                                                                          \
    } while (0)

static void run_forward(NormAct act, const NormBlock *b, NormColumns k, const float *x, float *y)
{
    PER_ACT(act, block_forward, b, k, x, y);
}

static void run_sums(NormAct act, const NormBlock *b, NormColumns k, const float *x,
                     const float *dy, float *one, float *two)
{
    PER_ACT(act, block_sums, b, k, x, dy, one, two);
}

static void run_backward(NormAct act, const NormBlock *b, NormColumns k, const float *x,
                         const float *dy, float *dx)
{
    PER_ACT(act, block_backward, b, k, x, dy, dx);
}

static Type norm_stage_type(const NormRun *run)
{
    return run->type_x != F32 ? run->type_x : run->type_y;
}

static NormNeeds norm_forward_needs(const NormRun *run)
{
    return (NormNeeds){ .stages = 2, .type = norm_stage_type(run) };
}

static NormNeeds norm_backward_needs(const NormRun *run)
{
    return (NormNeeds){ .totals = true, .stages = 3, .type = norm_stage_type(run) };
}

size_t norm_forward_bytes(const NormRun *run)
{
    return norm_work_bytes(&run->plan, norm_forward_needs(run));
}

size_t norm_backward_bytes(const NormRun *run)
{
    return norm_work_bytes(&run->plan, norm_backward_needs(run));
}

void norm_forward(const NormRun *run, void *workspace)
{
    const NormPlan *plan = &run->plan;
    NormWork        work = norm_work(plan, norm_forward_needs(run), workspace);

#pragma omp parallel num_threads(plan->threads)
    {
        int    t = omp_get_thread_num();
        float *mean = norm_vector(plan, &work, t, 0), *rstd = norm_vector(plan, &work, t, 1);
        float *weight = norm_vector(plan, &work, t, 2), *bias = norm_vector(plan, &work, t, 3);
        if (!run->fixed)
            norm_statistics(plan, &work, run->type_x, run->x, run->eps, run->statistics);
        norm_spread_affine(plan, run->type_w, run->weight, 1, weight);
        norm_spread_affine(plan, run->type_w, run->bias, 0, bias);
        for (NormSpan p = norm_span_first(plan, t); p.count; p = norm_span_next(plan, p)) {
            NormColumns k = { .mean = mean, .rstd = rstd, .weight = weight, .bias = bias };
            norm_spread_statistics(plan, run->statistics, p.sample, mean, rstd);
            for (NormBlock b = { 0 }; norm_block_next(plan, &p, &b);) {
                int64_t      n = b.rows * b.cols;
                const float *x = row_load(run->type_x, run->x, b.first, n,
                                          norm_stage(plan, &work, t, 0));
                float *y = row_open(run->type_y, run->y, b.first, norm_stage(plan, &work, t, 1));
                run_forward(run->act, &b, k, x, y);
                row_store(run->type_y, run->y, b.first, n, y);
            }
        }
    }
}

void norm_backward(const NormRun *run, void *workspace)
{
    const NormPlan *plan = &run->plan;
    NormWork        work = norm_work(plan, norm_backward_needs(run), workspace);
    bool            sums = !run->fixed || run->dweight || run->dbias;

#pragma omp parallel num_threads(plan->threads)
    {
        int    t = omp_get_thread_num();
        float *mean = norm_vector(plan, &work, t, 0), *rstd = norm_vector(plan, &work, t, 1);
        float *weight = norm_vector(plan, &work, t, 2), *bias = norm_vector(plan, &work, t, 3);
        float *one = norm_vector(plan, &work, t, 4), *two = norm_vector(plan, &work, t, 5);
        float *stage_x = norm_stage(plan, &work, t, 0), *stage_dy = norm_stage(plan, &work, t, 1);
        NormColumns k = { mean, rstd, weight, bias, one, two };
        norm_spread_affine(plan, run->type_w, run->weight, 1, weight);
        norm_spread_affine(plan, run->type_w, run->bias, 0, bias);

        for (NormSpan p = norm_span_first(plan, t); sums && p.count; p = norm_span_next(plan, p)) {
            norm_spread_statistics(plan, run->statistics, p.sample, mean, rstd);
            for (NormBlock b = { 0 }; norm_block_next(plan, &p, &b);) {
                int64_t n = b.rows * b.cols;
                run_sums(run->act, &b, k, row_load(run->type_x, run->x, b.first, n, stage_x),
                         row_load(run->type_y, run->dy, b.first, n, stage_dy), one, two);
                norm_add_sums(plan, &work, &p, &b, one, two);
            }
        }
        if (sums) {
            norm_totals(plan, &work);
            norm_affine_grads(plan, &work, run->dweight, run->dbias);
        }
        for (NormSpan p = norm_span_first(plan, t); run->dx && p.count;
             p = norm_span_next(plan, p)) {
            norm_spread_statistics(plan, run->statistics, p.sample, mean, rstd);
            if (run->fixed) /* given statistics do not depend on x */
                memset(one, 0, (size_t)plan->wide * 2 * sizeof *one);
            else
                norm_spread_means(plan, &work, p.sample, weight, one, two);
            for (NormBlock b = { 0 }; norm_block_next(plan, &p, &b);) {
                int64_t      n = b.rows * b.cols;
                const float *x = row_load(run->type_x, run->x, b.first, n, stage_x);
                const float *dy = row_load(run->type_y, run->dy, b.first, n, stage_dy);
                float *dx = row_open(run->type_x, run->dx, b.first, norm_stage(plan, &work, t, 2));
                run_backward(run->act, &b, k, x, dy, dx);
                if (run->before)
                    row_add(run->type_x, run->before, b.first, n, dx);
                row_store(run->type_x, run->dx, b.first, n, dx);
            }
        }
    }
}
