/* dml.h -- discretised mixture of logistics: the loss of a whole-numbered signal under a mixture of
 * K logistic densities, integrated over the bin of each value (Salimans et al. 2017, section 2.1,
 * with bins of width 2/Q that cover the line).
 *
 *   x (..., 3K) = [logits | means | log scales],
 *   target i32 (...) in 0 .. levels - 1, or LOSS_IGNORE
 *
 * Rows are done in blocks and nothing is kept per component; the gradient recomputes from x.
 */
#ifndef OPS_LOSS_DML_H
#define OPS_LOSS_DML_H

#include "ir/op.h"

enum { DML_MAX = 32 }; /* components */

Tensor dml_loss(Tensor x, Tensor target, Tensor denominator_or_none, int levels, float scale);

Err dml_loss_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err dml_loss_cpu(const Call *call);
Err dml_loss_grad_cpu(const Call *call);

#endif
