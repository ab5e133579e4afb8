/* stdiff.h -- STDiff: its sizes and its two networks, shared by its files.
 *
 * stdiff_motion.c extrapolates the motion of a clip, stdiff_unet.c denoises a frame given that
 * motion, stdiff.c trains the two together, stdiff_sample.c predicts frames with them.
 */
#ifndef MODELS_STDIFF_H
#define MODELS_STDIFF_H

#include "models/model.h"

/* The convolution used almost everywhere here. */
#define conv3(name, x, width) conv2d(name, x, width, 3, 1, 1, (Layer){ 0 })

enum { STDIFF_MAX_FRAMES = 32, STDIFF_MAX_LAYERS = 8 };

typedef enum StdiffLoss { STDIFF_MASKED_L1, STDIFF_L1 } StdiffLoss;

typedef struct Stdiff {
    Ints    image; /* H, W */
    int64_t image_channels;
    int64_t observed, predicted; /* frames, To and Tp */
    Ints    channels;            /* of the UNet's levels */
    int64_t layers, attention_from, groups, head_width;
    int64_t motion_channels, motion_downs;
    int64_t sde_layers;
    double  sde_dt; /* of a frame's time */
    int     loss;   /* StdiffLoss */
    int64_t timesteps;
    int     noise_schedule; /* NoiseSchedule */
    double  beta_start, beta_end;
} Stdiff;

int64_t stdiff_substeps(const Stdiff *m);                /* of the SDE, per frame */
Shape   stdiff_motion_shape(const Stdiff *m, int64_t n); /* (n,h,w,Cm) */
double *stdiff_alpha_bar(Pool *pool, const Stdiff *m);

/* (N,To,H,W,C) -> the motion at the last observed frame, (N,h,w,Cm). */
Tensor stdiff_context(Tensor observed, const Stdiff *m);
/* The motion one frame later, fp32. noise (...,N,h,w,Cm): N(0,1) for each sub-step, from index
 * `first` on; tensor_none: drawn here. */
Tensor stdiff_advance(Tensor motion, Tensor noise, int64_t first, const Stdiff *m);

/* The noise in the frames: x (B,H,W,2C) [noisy frame | previous frame], t (B), motion
 * (B,h,w,Cm). */
Tensor stdiff_unet(Tensor x, Tensor t, Tensor motion, const Stdiff *m);

Err stdiff_check_sampler(const void *config, const SamplerConfig *sampler);
Err stdiff_sample(Sampler *s, const void *config, SampleResult *result);

#endif
