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
    int     lanes; /* SOFT_THREADS: the block */
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

static inline unsigned team_blocks(const Call *call, RowTeam team)
{
    return cuda_blocks(call, team.rows * team.lanes, SOFT_THREADS);
}

/* A row as a thread of its team sees it. In the last round of a block rows may be absent: n is 0,
 * and their threads still take part in the team's sums. */
struct TeamRow {
    int64_t row, first, n; /* first: index of its first element */
    int     lane;
};

/* Calls run(TeamRow) for each row of this thread. */
template <class Run> __device__ __forceinline__ void team_rows(RowTeam team, Run run)
{
    int lane = threadIdx.x % team.lanes, rows = SOFT_THREADS / team.lanes;
    for (int64_t base = (int64_t)blockIdx.x * rows; base < team.rows;
         base += (int64_t)gridDim.x * rows) {
        int64_t row = base + threadIdx.x / team.lanes;
        run(TeamRow{ row, row * team.n, row < team.rows ? team.n : 0, lane });
    }
}

/* Calls run(i) for each pack of the row that is this thread's, i its offset in the row. */
template <int N, class Run>
__device__ __forceinline__ void team_packs(TeamRow at, int lanes, Run run)
{
    for (int64_t i = (int64_t)at.lane * N; i < at.n; i += (int64_t)lanes * N)
        run(i);
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

typedef struct RowTotal { /* sum exp(x) = exp(max) sum */
    float max, sum;
} RowTotal;

/* Of a row whose length is a multiple of N. The sum is 1 where max is infinite, since x - max is
 * then not finite. */
template <int N>
__device__ __forceinline__ RowTotal row_total(AnyIn x, TeamRow at, int lanes, float *shared)
{
    RowTotal mine = { -INFINITY, 0 };
    team_packs<N>(at, lanes, [&](int64_t i) {
        float v[N], largest = mine.max;
        any_get<N>(x, at.first + i, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            largest = fmaxf(largest, v[j]);
        if (largest > mine.max) {
            mine.sum *= expf(mine.max - largest);
            mine.max = largest;
        }
#pragma unroll
        for (int j = 0; j < N; j++) /* exp(-inf) is 0 also where all so far are -inf */
            mine.sum += v[j] == -INFINITY ? 0.0f : expf(v[j] - largest);
    });
    RowTotal all = { team_max(mine.max, lanes, shared), 0 };
    float    scale = mine.max == all.max ? 1.0f : expf(mine.max - all.max);
    all.sum = team_sum(mine.sum * scale, lanes, shared);
    if (isinf(all.max))
        all.sum = 1;
    return all;
}

#endif
