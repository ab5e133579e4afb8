/* reduce_cuda.h -- sums over the middle of (A, M, K) on CUDA, for all that are such sums. */
#ifndef OPS_REDUCE_CUDA_H
#define OPS_REDUCE_CUDA_H

#include "ops/rows_cuda.h"

typedef struct SumJob {
    AnyIn   x, y;                /* y.p NULL: x alone, else x y */
    AnyOut  out;                 /* (A, K) */
    int64_t a, m, k;
    float   scale;
} SumJob;

size_t sum_bytes(int64_t a, int64_t m, int64_t k, int sms);      /* of workspace */
Err    sum_cuda_run(const Call *call, const SumJob *job);

#endif
