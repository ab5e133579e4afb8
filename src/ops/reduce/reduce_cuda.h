/* reduce_cuda.h -- sums on CUDA: over the middle of (A, M, K), for every operator that needs one,
 * and over a block in double. */
#ifndef OPS_REDUCE_REDUCE_CUDA_H
#define OPS_REDUCE_REDUCE_CUDA_H

#include "ops/reduce/rows_cuda.h"

typedef struct SumJob {
    AnyIn        x, y; /* y.p NULL: x alone, else x y */
    AnyOut       out;  /* (A, K) */
    int64_t      a, m, k;
    float        scale;
    const float *before;    /* added to the result, or NULL */
    AnyIn        gate;      /* (A, K): `gated` becomes x times it; p NULL: none */
    AnyOut       gated;     /* (A, M, K) */
    float       *col_sums;  /* of `gated` (ops/linear/column_sums.h), or NULL */
    int64_t      rows_each; /* rows per partial column sum */
} SumJob;

size_t         sum_bytes(int64_t a, int64_t m, int64_t k, int sms); /* of workspace */
/* with partial column sums */
size_t         sum_col_sums_bytes(int64_t a, int64_t m, int64_t k, int64_t rows_each);
extern "C" Err sum_choose_cuda(const Node *n, const Device *device, Choice *choice);
Err            sum_cuda_run(const Call *call, const SumJob *job);

/* As block_sum of ops/ops_cuda.h; `sums` is shared memory of 32 doubles. */
__device__ __forceinline__ double block_sum_double(double x, double *sums)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : 0.0;
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    __syncthreads();
    return x;
}

#endif
