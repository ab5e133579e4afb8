/* s4_carry.h -- carries the state of an S4 layer from one chunk of a clip to the next.
 *
 * A layer that begins a chunk with state x adds to its response to the input
 *
 *     C Abar^(l+1) x,   l = 0, 1, ...
 *
 * This is the kernel with B' = (1/dt) (I + dt/2 A) x in place of B, because then
 * Bbar = (I - dt/2 A)^-1 dt B' = Abar x (Gu, Goel, Re 2022; A is the whole matrix, diagonal minus
 * P P*). So s4_begin computes B' from the state, s4_kernel computes the kernel of B', with the
 * channels of all samples one after another, and s4_end computes the state after the chunk by the
 * recurrence of s4_step.h, in double precision.
 *
 * States are constants: no gradient goes into the previous chunk (truncated back-propagation). keep
 * is 0 where a clip begins; the state then counts as 0, whatever it holds. */
#ifndef OPS_S4_S4_CARRY_H
#define OPS_S4_S4_CARRY_H

#include "ir/op.h"

enum {
    S4_BEGIN_STATE,
    S4_BEGIN_KEEP,
    S4_BEGIN_INV_DT,
    S4_BEGIN_A_REAL,
    S4_BEGIN_A_IMAG,
    S4_BEGIN_P,
    S4_BEGIN_INPUTS
};
enum {
    S4_END_STATE,
    S4_END_KEEP,
    S4_END_U,
    S4_END_INV_DT,
    S4_END_B,
    S4_END_A_REAL,
    S4_END_A_IMAG,
    S4_END_P
};

typedef struct S4BeginAttr {
    bool wants[S4_BEGIN_INPUTS];
} S4BeginAttr;

/* state (B,H,N,2), keep (B,1), parameters as in s4_kernel.h, all f32 -> B' (1,B H,N,2). A second
 * output is the state as it was used: the gradient reads it, since s4_end has updated the state by
 * then. */
Tensor s4_begin(Tensor state, Tensor keep, Tensor inv_dt, Tensor a_real, Tensor a_imag, Tensor p);
/* Updates the state to that after the input u (B,L,H). */
void   s4_end(Tensor state, Tensor keep, Tensor u, Tensor inv_dt, Tensor b, Tensor a_real,
              Tensor a_imag, Tensor p);

Err s4_begin_cpu(const Call *call);
Err s4_begin_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err s4_begin_grad_cpu(const Call *call);
Err s4_end_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err s4_end_cpu(const Call *call);

#endif
