/* softmax_cuda.h -- rows shared among threads on CUDA, and the sum of exponentials over a row.
 *
 * A row belongs to `lanes` threads: a power of two within a warp, or all of a block where rows are
 * long. A row is read twice, the second time from the cache. */
#ifndef OPS_REDUCE_SOFTMAX_CUDA_H
#define OPS_REDUCE_SOFTMAX_CUDA_H

#include "ops/reduce/rows_cuda.h"

enum { SOFT_THREADS = 256, SOFT_LONG = 2048 };

typedef struct RowTeam {
    int64_t rows, n;
    int     lanes;               /* SOFT_THREADS: the block */
} RowTeam;

static inline RowTeam row_team(int64_t rows, int64_t n, PackOf pack)
{
    int lanes = 1;
    if (n > SOFT_LONG)
        return { rows, n, SOFT_THREADS };
    while (lanes < 32 && (int64_t)lanes * pack.n * 2 < n)
        lanes *= 2;
    return { rows, n, lanes };
}

/* All threads of the block must call these together, those of absent rows too. */
__device__ __forceinline__ float team_sum(float x, int lanes, float *shared)
{
    if (lanes == SOFT_THREADS)
        return block_sum(x, shared);
    for (int d = lanes / 2; d; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

__device__ __forceinline__ float team_max(float x, int lanes, float *shared)
{
    if (lanes == SOFT_THREADS)
        return block_max(x, shared);
    for (int d = lanes / 2; d; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

typedef struct RowTotal {        /* sum exp(x) = exp(max) sum */
    float max, sum;
} RowTotal;

/* Of the n values from `first` on, n a multiple of N and 0 for an absent row. The sum is 1 where
 * max is infinite, since x - max is then not finite. */
template <int N>
__device__ __forceinline__ RowTotal row_total(AnyIn x, int64_t first, int64_t n, int lane,
                                              int lanes, float *shared)
{
    RowTotal mine = { -INFINITY, 0 };
    for (int64_t i = (int64_t)lane * N; i < n; i += (int64_t)lanes * N) {
        float v[N], largest = mine.max;
        any_get<N>(x, first + i, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            largest = fmaxf(largest, v[j]);
        if (largest > mine.max) {
            mine.sum *= expf(mine.max - largest);
            mine.max = largest;
        }
#pragma unroll
        for (int j = 0; j < N; j++)          /* exp(-inf) is 0 also where all so far are -inf */
            mine.sum += v[j] == -INFINITY ? 0.0f : expf(v[j] - largest);
    }
    RowTotal all = { team_max(mine.max, lanes, shared), 0 };
    float    scale = mine.max == all.max ? 1.0f : expf(mine.max - all.max);
    all.sum = team_sum(mine.sum * scale, lanes, shared);
    if (isinf(all.max))
        all.sum = 1;
    return all;
}

#endif
