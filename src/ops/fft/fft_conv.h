/* fft_conv.h -- causal convolution along the length axis, one kernel per channel:
 *
 *     y[b,l,h] = sum over j <= l of K[l-j,h] u[b,j,h]  +  D[h] u[b,l,h]
 *
 * through Fourier transforms in fp32. The gradients transform u, K and dy again; no spectrum is
 * kept.
 */
#ifndef OPS_FFT_FFT_CONV_H
#define OPS_FFT_FFT_CONV_H

#include "ir/op.h"

typedef struct FftConvAttr {
    bool wants[3]; /* gradient node: gradients of u, K, D */
} FftConvAttr;

/* u (B,L,H), kernel (L,H) f32, d of H numbers or none; any L. */
Tensor fft_conv(Tensor u, Tensor kernel, Tensor d);

Err fft_conv_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err fft_conv_cpu(const Call *call);
Err fft_conv_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err fft_conv_grad_cpu(const Call *call);

#endif
