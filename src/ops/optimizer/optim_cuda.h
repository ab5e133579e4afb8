/* optim_cuda.h -- parts of the update and of the norm, for operators that have only a shard of a
 * tensor (ops/ranks/shard_cuda.cu). A part gives the same bits as it does within the whole. */
#ifndef OPS_OPTIMIZER_OPTIM_CUDA_H
#define OPS_OPTIMIZER_OPTIM_CUDA_H

#include "ops/reduce/reduce_cuda.h"

extern "C" {
#include "ops/optimizer/optim.h"
}

enum { NORM_BLOCK = 1 << 14 }; /* elements that one thread block sums */

typedef struct GradSpan {
    const float *grad;
    int64_t      count;
    int64_t      at; /* where its first partial sum goes */
} GradSpan;

Err norm_parts_cuda(const Call *call, const GradSpan *spans, int n, double *partial);
Err norm_finish_cuda(const Call *call, float *norm, const double *partial, int64_t n);
Err update_spans_cuda(const Call *call, const UpdateSpan *spans, const int64_t *counts, int n);

#endif
