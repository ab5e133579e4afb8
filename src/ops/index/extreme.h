/* extreme.h -- the largest or smallest along axes: which, and how large. NaN counts as the most
 * extreme, as in PyTorch. */
#ifndef OPS_INDEX_EXTREME_H
#define OPS_INDEX_EXTREME_H

#include "ir/op.h"

typedef struct ExtremeAttr { /* over M of (A, M, K) */
    int64_t a, m, k;
    bool    min;
    Shape   shape; /* of the result */
} ExtremeAttr;

/* i32 index of the first of the largest along an axis; keep: the axis stays, of extent 1. */
Tensor argmax(Tensor x, int axis, bool keep);
Tensor argmin(Tensor x, int axis, bool keep);
/* The largest along an axis and, unless NULL, its index; the gradient goes to that element. */
Tensor max_along(Tensor x, int axis, bool keep, Tensor *index);
Tensor min_along(Tensor x, int axis, bool keep, Tensor *index);
/* The largest over axes (bit i: axis i); the gradient is divided evenly among equals. */
Tensor amax(Tensor x, unsigned axes, bool keep);
Tensor amin(Tensor x, unsigned axes, bool keep);

Err arg_extreme_cpu(const Call *call);
Err extreme_cpu(const Call *call);
Err extreme_grad_cpu(const Call *call);

#endif
