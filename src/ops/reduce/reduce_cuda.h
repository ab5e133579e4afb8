/* reduce_cuda.h -- sums on CUDA: over the middle of (A, M, K), for all that are such sums, and of a
 * block in double. */
#ifndef OPS_REDUCE_REDUCE_CUDA_H
#define OPS_REDUCE_REDUCE_CUDA_H

#include "ops/reduce/rows_cuda.h"

typedef struct SumJob {
    AnyIn   x, y;                /* y.p NULL: x alone, else x y */
    AnyOut  out;                 /* (A, K) */
    int64_t a, m, k;
    float   scale;
    const float *before;         /* added to the result, or NULL */
    AnyIn   gate;                /* (A, K): x times it goes to `gated` in passing; p NULL: no */
    AnyOut  gated;               /* (A, M, K) */
    float  *lines;               /* of `gated`, where they are asked for (ops/linear/column_sums.h) */
    int64_t each;                /* rows of a line */
} SumJob;

size_t sum_bytes(int64_t a, int64_t m, int64_t k, int sms);      /* of workspace */
size_t sum_lines_bytes(int64_t a, int64_t m, int64_t k, int64_t each);   /* with lines */
extern "C" Err sum_choose_cuda(const Node *n, const Device *device, Choice *choice);
Err    sum_cuda_run(const Call *call, const SumJob *job);

/* As block_sum of ops/ops_cuda.h; `lines` is shared memory of 32 doubles. */
__device__ __forceinline__ double block_sum_double(double x, double *lines)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    if (threadIdx.x % 32 == 0)
        lines[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? lines[threadIdx.x % 32] : 0.0;
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    __syncthreads();
    return x;
}

#endif
