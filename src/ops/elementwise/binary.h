/* binary.h -- two tensors, element by element, and a vector along a tensor.
 *
 * "Rows": v is repeated along x (ops/reduce/reduce.h, broadcast_fit): (C) over everything, (B,C)
 * over the middle axes, or of x's rank with ones, e.g. (1,L,C) for positions. x may be of any rank.
 */
#ifndef OPS_ELEMENTWISE_BINARY_H
#define OPS_ELEMENTWISE_BINARY_H

#include "ops/linear/column_sums.h"
#include "ops/reduce/reduce.h"

typedef struct WeightedAttr {
    float a, b;
} WeightedAttr;

Tensor sub(Tensor x, Tensor y); /* same shapes; the result has x's type */
Tensor mul(Tensor x, Tensor y);
Tensor weighted_sum(Tensor x, float a, Tensor y, float b); /* a x + b y */

Tensor add_rows(Tensor x, Tensor v);               /* x + v */
Tensor mul_rows(Tensor x, Tensor v);               /* x v */
Tensor gated_add(Tensor x, Tensor gate, Tensor h); /* x + gate h, gate along h */

/* Rows per partial column sum of dh: a short sample gives one, because the gate's gradient is then
 * summed in one go too. */
static inline int64_t gated_add_grad_rows(const ReduceAttr *fit)
{
    return fit->m <= 256 ? fit->m : col_sums_rows(fit->a * fit->m);
}

Err sub_cpu(const Call *call);
Err mul_cpu(const Call *call);
Err weighted_sum_cpu(const Call *call);
Err add_rows_cpu(const Call *call);
Err mul_rows_cpu(const Call *call);
Err gated_add_cpu(const Call *call);
Err gated_add_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err gated_add_grad_cpu(const Call *call);

#endif
