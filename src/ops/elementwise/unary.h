/* unary.h -- functions of one number, element by element. */
#ifndef OPS_ELEMENTWISE_UNARY_H
#define OPS_ELEMENTWISE_UNARY_H

#include "ir/op.h"

typedef enum UnaryReads { READS_INPUT, READS_OUTPUT } UnaryReads;

/* X(name, what its gradient reads, arithmetic per element); each also has a name_grad. */
/* clang-format off */
#define UNARY_LIST(X)                \
    X(silu,      READS_INPUT,  12) \
    X(relu,      READS_OUTPUT, 1) \
    X(tanh,      READS_OUTPUT, 20) \
    X(sigmoid,   READS_OUTPUT, 12) \
    X(gelu,      READS_INPUT,  30) \
    X(gelu_tanh, READS_INPUT,  24) \
    X(softplus,  READS_INPUT,  30) \
    X(exp,       READS_OUTPUT, 10)
/* clang-format on */

typedef struct AffineAttr {
    float scale, offset;
} AffineAttr;

Tensor silu(Tensor x);
Tensor relu(Tensor x);
Tensor tanh_of(Tensor x);
Tensor sigmoid(Tensor x);
Tensor gelu(Tensor x);
Tensor gelu_tanh(Tensor x);
Tensor softplus(Tensor x);
Tensor exp_of(Tensor x);
Tensor affine(Tensor x, float scale, float offset); /* scale x + offset */

#define X(name, reads, flops)                                                                      \
    Err name##_cpu(const Call *call);                                                              \
    Err name##_grad_cpu(const Call *call);
UNARY_LIST(X)
#undef X
Err affine_cpu(const Call *call);

#endif
