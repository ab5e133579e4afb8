/* dml_cuda.cu -- discretised mixture of logistics on CUDA.
 *
 * A block loads DML_ROWS rows into shared memory, coalesced, and a thread works on one of them:
 * nothing per component is written to global memory. Formulas as in dml_cpu.c. */
#include "ops/loss/loss_cuda.h"
#include "ops/elementwise/math_cuda.h"

extern "C" {
#include "ops/loss/dml.h"
}

enum { DML_ROWS = 64 };

typedef struct DmlJob {
    AnyIn          x;
    const int32_t *target;
    int64_t        rows;
    int            k, levels;
} DmlJob;

/* Words of shared memory of a row: [logits | means | log scales | log p]; odd, to avoid bank
 * conflicts. */
__host__ __device__ static inline int row_words(int k) { return 4 * k + 1; }

static size_t dml_shared(int k) { return (size_t)DML_ROWS * row_words(k) * sizeof(float); }

__device__ __forceinline__ void rows_load(const DmlJob &job, int64_t first, float *rows)
{
    int width = 3 * job.k, words = row_words(job.k);
    int count = (int)(job.rows - first < DML_ROWS ? job.rows - first : DML_ROWS) * width;
    for (int i = threadIdx.x; i < count; i += DML_ROWS)
        any_get<1>(job.x, first * width + i, &rows[i / width * words + i % width]);
}

typedef struct Bin { /* of the target: its middle, and is it at an edge? */
    float value;
    bool  low, high;
} Bin;

/* log p of the bin under one component, and its slopes by mean and log scale. */
__device__ __forceinline__ float component(const DmlJob &job, Bin bin, float mean, float raw,
                                           float *d_mean, float *d_scale)
{
    float half = 1.0f / (float)job.levels;
    float log_scale = raw < -7.0f ? -7.0f : raw, inverse = expf(-log_scale),
          centre = bin.value - mean;
    float plus = inverse * (centre + half), minus = inverse * (centre - half),
          mid = inverse * centre;
    /* 1 - e^-d */
    float d = 2.0f * half * inverse, th = tanhf(0.5f * d), width = 2.0f * th / (1.0f + th);
    float over = sigmoidf(-plus), under = sigmoidf(minus); /* the mass above, below the bin */
    float p = sigmoidf(plus) * sigmoidf(-minus) * width;
    bool  plain = p > 1e-5f;

    float soft = softplusf(bin.low ? plus : bin.high ? minus : mid);
    float log_p = plain ? logf(p) : mid - log_scale - 2.0f * soft + logf(2.0f * half);
    log_p = bin.low ? plus - soft : bin.high ? -soft : log_p;

    float tilt = 1.0f - 2.0f * sigmoidf(mid); /* by mid, in the tail */
    float by_mean = bin.low ? over : bin.high ? -under : plain ? over - under : tilt;
    float by_scale = plain ? -plus * over + minus * under - d * (1.0f - width) / width
                           : -mid * tilt - 1.0f;
    by_scale = bin.low ? -plus * over : bin.high ? minus * under : by_scale;
    *d_mean = -inverse * by_mean;
    *d_scale = raw < -7.0f ? 0.0f : by_scale;
    return log_p;
}

__device__ __forceinline__ float log_sum(const float *x, int k) /* log sum exp of k numbers */
{
    float largest = x[0], sum = 0;
    for (int j = 1; j < k; j++)
        largest = x[j] > largest ? x[j] : largest;
    for (int j = 0; j < k; j++)
        sum += expf(x[j] - largest);
    return largest + logf(sum);
}

/* A row in shared memory: means and log scales become the slopes, log p is added to the logits. */
__device__ __forceinline__ void row_components(const DmlJob &job, int32_t target, float *row)
{
    int k = job.k;
    Bin bin = { 2.0f * (float)target / (float)job.levels - 1.0f, target == 0,
                target == job.levels - 1 };
    for (int j = 0; j < k; j++) {
        float d_mean, d_scale,
            log_p = component(job, bin, row[k + j], row[2 * k + j], &d_mean, &d_scale);
        row[k + j] = d_mean;
        row[2 * k + j] = d_scale;
        row[3 * k + j] = log_p + row[j];
    }
}

__global__ void __launch_bounds__(DML_ROWS) dml_rows(DmlJob job, LossEnd end)
{
    extern __shared__ float rows[];
    LossSum                 mine = { 0, 0 };
    float                  *row = rows + threadIdx.x * row_words(job.k);
    for (int64_t first = (int64_t)blockIdx.x * DML_ROWS; first < job.rows;
         first += (int64_t)gridDim.x * DML_ROWS) {
        int64_t at = first + threadIdx.x;
        int32_t target = at < job.rows ? job.target[at] : (int32_t)LOSS_IGNORE;
        rows_load(job, first, rows);
        __syncthreads();
        if (target != LOSS_IGNORE) {
            row_components(job, target, row);
            double nll = (double)log_sum(row, job.k) - (double)log_sum(row + 3 * job.k, job.k);
            mine.sum += target >= 0 && target < job.levels ? nll : (double)NAN;
            mine.counted += 1;
        }
        __syncthreads();
    }
    loss_give(mine, end);
}

/* With r_j the share of component j in the target's probability, the gradient by its logit is
 * pi_j - r_j, by its other parameters -r_j times the slope of log p_j. A block reads all its rows
 * before it writes them, so dx may be x. */
__global__ void __launch_bounds__(DML_ROWS)
    dml_grad_rows(DmlJob job, AnyOut dx, const float *denominator, const float *dy, float scale)
{
    extern __shared__ float rows[];
    int                     k = job.k, width = 3 * k, words = row_words(k);
    float                  *row = rows + threadIdx.x * words, factor = scale / *denominator * *dy;
    for (int64_t first = (int64_t)blockIdx.x * DML_ROWS; first < job.rows;
         first += (int64_t)gridDim.x * DML_ROWS) {
        int64_t at = first + threadIdx.x;
        int32_t target = at < job.rows ? job.target[at] : (int32_t)LOSS_IGNORE;
        rows_load(job, first, rows);
        __syncthreads();
        if (target == LOSS_IGNORE || factor == 0)
            for (int j = 0; j < width; j++)
                row[j] = 0;
        else {
            row_components(job, target, row);
            float log_pi = log_sum(row, k), log_all = log_sum(row + 3 * k, k);
            for (int j = 0; j < k; j++) {
                float share = expf(row[3 * k + j] - log_all), pi = expf(row[j] - log_pi);
                row[j] = factor * (pi - share);
                row[k + j] *= -factor * share;
                row[2 * k + j] *= -factor * share;
            }
        }
        __syncthreads();
        int count = (int)(job.rows - first < DML_ROWS ? job.rows - first : DML_ROWS) * width;
        for (int i = threadIdx.x; i < count; i += DML_ROWS)
            any_put<1>(dx, first * width + i, &rows[i / width * words + i % width]);
        __syncthreads();
    }
}

static DmlJob dml_job(const Call *call)
{
    Shape s = in_shape(call->node, 0);
    return { any_in(call, 0), (const int32_t *)call->in[1], shape_rows(s), (int)dim(s, -1) / 3,
             ATTR(call->node, LossAttr)->levels };
}

extern "C" Err dml_loss_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    int sms = ((const CudaHandle *)device->handle)->sms;
    choice->workspace_bytes = (size_t)loss_blocks(shape_rows(in_shape(n, 0)), DML_ROWS, sms) *
                              sizeof(LossSum);
    return OK;
}

extern "C" Err dml_loss_cuda(const Call *call)
{
    DmlJob  job = dml_job(call);
    LossEnd end = { (LossSum *)call->workspace,
                    (const float *)call->in[2],
                    (float *)call->out[0],
                    (float *)call->out[1],
                    (double)ATTR(call->node, LossAttr)->scale,
                    0 };
    int64_t blocks = loss_blocks(job.rows, DML_ROWS, cuda_handle(call)->sms);
    dml_rows<<<(unsigned)blocks, DML_ROWS, dml_shared(job.k), cuda_stream(call)>>>(job, end);
    CUDA_LAUNCHED();
    return loss_end(call, end, blocks);
}

extern "C" Err dml_loss_grad_cuda(const Call *call) /* in: x, target, denominator, dy */
{
    DmlJob   job = dml_job(call);
    unsigned blocks = cuda_blocks(call, job.rows, DML_ROWS);
    dml_grad_rows<<<blocks, DML_ROWS, dml_shared(job.k), cuda_stream(call)>>>(
        job, any_out(call, 0), (const float *)call->in[2], (const float *)call->in[3],
        ATTR(call->node, LossAttr)->scale);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(dml_loss, .choose = dml_loss_choose_cuda, .run = dml_loss_cuda)
CUDA_KERNEL(dml_loss_grad, .run = dml_loss_grad_cuda)
