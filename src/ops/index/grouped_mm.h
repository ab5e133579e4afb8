/* grouped_mm.h -- rows of x in groups, each multiplied by its own matrix (mixtures of experts). */
#ifndef OPS_INDEX_GROUPED_MM_H
#define OPS_INDEX_GROUPED_MM_H

#include "ir/op.h"

typedef struct GroupedAttr {
    bool transposed; /* each matrix is (N,K) as stored */
} GroupedAttr;

/* x (T,K), w (G,K,N), ends (G) i32, rising: group g is rows ends[g-1] to ends[g]. -> (T,N); rows
 * behind the last end are zeros. */
Tensor grouped_mm(Tensor x, Tensor w, Tensor ends);

Err grouped_mm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err grouped_mm_cpu(const Call *call);
Err grouped_mm_grad_w_cpu(const Call *call);

#endif
