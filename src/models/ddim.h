/* ddim.h -- a step of DDIM (Song et al. 2021), for every system that removes noise.
 *
 * x has noise level `now` (alpha bar) and gets level `next`; 1 is a clean image. sampler.eta is the
 * share of DDPM's noise that a step adds: 0 adds none. */
#ifndef MODELS_DDIM_H
#define MODELS_DDIM_H

#include "models/model.h"

typedef struct DdimStep {
    int64_t index; /* of the step: selects its random numbers */
    double  now, next;
    bool    clip; /* keeps the predicted image within [-1,1] */
} DdimStep;

/* x (n) in place, from the noise that the network predicts. z: room for n numbers. */
void ddim_take(Sampler *s, const DdimStep *step, float *x, const float *predicted, float *z,
               int64_t n);

#endif
