/* linear.h -- y = x W + b over the last axis, optionally added to a tensor, and its gradients.
 *
 * Weights keep their file's layout: PyTorch's Linear is (out, in), Flax's Dense (in, out).
 */
#ifndef OPS_LINEAR_LINEAR_H
#define OPS_LINEAR_LINEAR_H

#include "ir/op.h"
#include "linalg/linalg.h"

typedef struct LinearAttr {
    bool in_out; /* the weight is (in, out) */
} LinearAttr;

/* (..., I) -> (..., O) */
Tensor linear_op(Tensor x, Tensor w, Tensor bias_or_none, LinearAttr attr);
/* onto + (x W + b): the product itself adds where both are of one type */
Tensor linear_onto(Tensor x, Tensor w, Tensor bias_or_none, Tensor onto, LinearAttr attr);
/* the gradient of a bias: dy summed over all axes but the last */
void   bias_give(Grad *g, int i, Tensor dy);

/* The matrix product behind each of the three nodes; also what the plan's workspace comes from. */
typedef enum LinearKind { LINEAR_FORWARD, LINEAR_GRAD_X, LINEAR_GRAD_W } LinearKind;

/* _linalg: by the device's backend for products. On a GPU the summand is read from where it lies;
 * on the CPU (_cpu) it is first copied to the result's place. */
Err    linear_choose_linalg(const Node *n, const Device *device, Choice *choice);
Err    linear_prepare_linalg(Pool *pool, Call *call);
Err    linear_linalg(const Call *call);
Err    linear_grad_x_linalg(const Call *call);
Err    linear_grad_w_linalg(const Call *call);
Err    linear_cpu(const Call *call);
Err    linear_grad_x_cpu(const Call *call);
Err    linear_grad_w_cpu(const Call *call);
/* Column sums of x (rows, width), added to `before` unless it is NULL; `sums` is workspace of
 * bias_sums_bytes. */
size_t bias_sums_bytes(int threads, int64_t width);
void   bias_sums(int threads, Type type, const void *x, int64_t rows, int64_t width, double *sums,
                 const float *before, float *out);
Err    bias_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err    bias_grad_cpu(const Call *call);

#endif
