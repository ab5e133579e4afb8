/* variance.h -- variance and product over any set of axes. */
#ifndef OPS_REDUCE_VARIANCE_H
#define OPS_REDUCE_VARIANCE_H

#include "ir/op.h"

typedef struct MomentAttr { /* over M of (A, M, K) */
    int64_t a, m, k;
    float   correction; /* the sum of squares is divided by m - correction */
    Shape   shape;      /* of the result */
    Type    type;
} MomentAttr;

/* Bit i of axes: axis i; keep: they stay, of extent 1. Two passes in fp32. */
Tensor var_over(Tensor x, unsigned axes, float correction, bool keep);
Tensor prod_over(Tensor x, unsigned axes, bool keep);

Err var_cpu(const Call *call);
Err var_grad_cpu(const Call *call);
Err prod_cpu(const Call *call);
Err prod_grad_cpu(const Call *call);

#endif
