/* rmsnorm.h -- root mean square norm over the last axis (Zhang & Sennrich 2019): w x / rms(x).
 *
 * No statistic is kept: the gradient recomputes it from the row, which it reads anyway. */
#ifndef OPS_NORM_RMSNORM_H
#define OPS_NORM_RMSNORM_H

#include "ir/op.h"

typedef struct RmsnormAttr {
    float eps;      /* added to the mean square */
    bool  wants[2]; /* gradient node: of x, of the weight */
} RmsnormAttr;

Tensor rmsnorm(Tensor x, Tensor weight_or_none, float eps); /* weight: (C) */

Err rmsnorm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err rmsnorm_cpu(const Call *call);
Err rmsnorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err rmsnorm_grad_cpu(const Call *call);

#endif
