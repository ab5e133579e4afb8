/* qsample.h -- the forward process of diffusion: samples at noise level t. */
#ifndef OPS_RANDOM_QSAMPLE_H
#define OPS_RANDOM_QSAMPLE_H

#include "ir/op.h"

/* sqrt(abar[t]) x0 + sqrt(1 - abar[t]) noise. x0 and noise (B,...), abar (T) f32, t i32 (B), or
 * fewer if B is a multiple: consecutive samples then share a t (the images of a set). */
Tensor q_sample(Tensor x0, Tensor noise, Tensor abar, Tensor t);

Err q_sample_cpu(const Call *call);

#endif
