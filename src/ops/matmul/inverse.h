/* inverse.h -- inverses and determinants of square matrices.
 *
 * Elimination with row exchanges, in fp64 whatever the type of the result. The gradient reads the
 * inverse and nothing else. */
#ifndef OPS_MATMUL_INVERSE_H
#define OPS_MATMUL_INVERSE_H

#include "ir/op.h"

/* x (B,N,N) fp32 -> its inverses. Of the determinants: logarithms of their sizes and signs, both (B)
 * fp32; NULL: not wanted. Of a singular matrix: infinities, -infinity and 0. */
Tensor inverse(Tensor x, Tensor *log_abs, Tensor *sign);

Err inverse_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err inverse_cpu(const Call *call);
Err log_det_grad_cpu(const Call *call);

#endif
