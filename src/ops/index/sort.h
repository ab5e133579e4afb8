/* sort.h -- values in order, or the first few of them. Equal values keep their order; NaN counts as
 * largest. */
#ifndef OPS_INDEX_SORT_H
#define OPS_INDEX_SORT_H

#include "ir/op.h"

typedef struct SortAttr { /* along the last axis */
    int64_t k;            /* how many are kept */
    bool    descending;
} SortAttr;

/* values and i32 indices in out[0], out[1] */
void topk(Tensor *out, Tensor x, int64_t k, int axis, bool largest);
void sort(Tensor *out, Tensor x, int axis, bool descending);

Err sort_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err sort_cpu(const Call *call);

#endif
