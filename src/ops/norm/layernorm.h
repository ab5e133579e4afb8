/* layernorm.h -- norms over the last axis: layer norm, layer norm with adaptive scale and shift
 * (adaLN: Peebles & Xie 2023, section 3.2), and SaShiMi's layer norm with two scalars.
 *
 * No statistics are kept: the gradient recomputes them from a row that is in the cache anyway.
 */
#ifndef OPS_NORM_LAYERNORM_H
#define OPS_NORM_LAYERNORM_H

#include "ir/op.h"

typedef struct LayernormAttr {
    float   eps;
    int64_t shift_at, scale_at; /* modulate: first columns in the packed tensor */
    bool    wants[3];           /* gradient nodes: x, weight or packed tensor, bias */
} LayernormAttr;

/* weight and bias (C), each may be none */
Tensor layernorm(Tensor x, Tensor weight, Tensor bias, float eps);

/* The same over the last n axes; weight and bias have their shape. */
Tensor layernorm_axes(Tensor x, Tensor weight, Tensor bias, int n, float eps);

/* LN(x) * (1 + scale) + shift. x is (N,...,C), packed (B,M) with N a multiple of B: each row of
 * packed serves N / B samples. Scale and shift are its columns from scale_at and shift_at on. */
Tensor layernorm_modulate(Tensor x, Tensor packed, int64_t shift_at, int64_t scale_at, float eps);

/* (s / std) * (x - mean + m), std biased and without epsilon; m and s have one element. */
Tensor scalar_norm(Tensor x, Tensor m, Tensor s);

Err layernorm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err layernorm_cpu(const Call *call);
Err layernorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err layernorm_grad_cpu(const Call *call);
Err layernorm_modulate_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err layernorm_modulate_cpu(const Call *call);
Err layernorm_modulate_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err layernorm_modulate_grad_cpu(const Call *call);
Err scalar_norm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err scalar_norm_cpu(const Call *call);
Err scalar_norm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err scalar_norm_grad_cpu(const Call *call);

#endif
