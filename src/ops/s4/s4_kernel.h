/* s4_kernel.h -- the convolution kernel of a structured state space model (S4: Gu, Goel, Re 2022).
 * The state matrix is diagonal plus rank one, discretised bilinearly; the kernel comes from its
 * values at the roots of unity.
 *
 * The Cauchy sums are computed frequency by frequency: nothing of size channels x states x
 * frequencies is ever stored, forward or backward. Everything is fp32 whatever the compute type;
 * parameters are as stored in checkpoints.
 */
#ifndef OPS_S4_S4_KERNEL_H
#define OPS_S4_S4_KERNEL_H

#include "ir/op.h"

enum { S4_INV_DT, S4_C, S4_B, S4_A_REAL, S4_A_IMAG, S4_P, S4_PARAMS };

typedef struct S4KernelAttr {
    int64_t length;
    bool    wants[S4_PARAMS];
} S4KernelAttr;

/* K (L,H) from inv_dt (H,1), C (1,H,N,2) for this length (C~ in s4_step.h), B and P (1,1,N,2), A
 * (1,N), all f32. Each channel may have its own B, (1,H,N,2): see s4_carry.h. */
Tensor s4_kernel(Tensor inv_dt, Tensor c, Tensor b, Tensor a_real, Tensor a_imag, Tensor p,
                 int64_t length);

Err s4_kernel_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err s4_kernel_cpu(const Call *call);
Err s4_kernel_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err s4_kernel_grad_cpu(const Call *call);

#endif
