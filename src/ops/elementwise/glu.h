/* glu.h -- gated linear units: the first half of the channels times a function of the second. The
 * gradient recomputes from the input, which is all that is kept. */
#ifndef OPS_ELEMENTWISE_GLU_H
#define OPS_ELEMENTWISE_GLU_H

#include "ir/op.h"

Tensor glu(Tensor x);   /* a sigmoid(b), x = [a | b] along the last axis */
Tensor geglu(Tensor x); /* a gelu(b), the exact GELU */

Err glu_cpu(const Call *call);
Err glu_grad_cpu(const Call *call);
Err geglu_cpu(const Call *call);
Err geglu_grad_cpu(const Call *call);

#endif
