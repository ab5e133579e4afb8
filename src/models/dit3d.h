/* dit3d.h -- DiT3D: shared by its two readings. Private to the dit3d files.
 *
 * The document that describes DiT3D can be read in two ways; recipes choose one (model.reading):
 *   patches   a diffusion transformer over 3-D patches of the clip     dit3d_patches.c
 *   frames    a frozen 2-D transformer encodes every frame; its features are mixed over time,
 *             conditioned on the text and decoded by a small decoder   dit3d_frames.c
 * Both take a noisy clip (B,F,H,W,C), times (B) and texts (B,768), and predict the noise.
 */
#ifndef MODELS_DIT3D_H
#define MODELS_DIT3D_H

#include "models/model.h"

enum {
    DIT3D_TEXT = 768,  /* width of a text embedding */
    DIT3D_WAVES = 256, /* width of a sinusoidal time embedding */
};

typedef enum Dit3dReading { DIT3D_PATCHES, DIT3D_FRAMES } Dit3dReading;

typedef struct Dit3d {
    int     reading; /* Dit3dReading */
    int64_t frames;
    Ints    image; /* H, W */
    int64_t image_channels, width, depth, heads, mlp_ratio;
    Ints    patch; /* frames, rows, columns; reading `frames`: one side */
    int64_t temporal_heads;
    bool    learn_sigma;
    double  text_dropout;
    int64_t timesteps;
    int     noise_schedule; /* NoiseSchedule */
    double  beta_start, beta_end;
} Dit3d;

/* (B,F,H,W,C), or 2C with learn_sigma. */
Tensor dit3d_patches(Tensor x, Tensor t, Tensor text, const Dit3d *m);
Tensor dit3d_frames(Tensor x, Tensor t, Tensor text, const Dit3d *m);

/* The time embedding, (B,D), under `t_embedder`. */
Tensor dit3d_time(Tensor t, const Dit3d *m);

/* Attention, then MLP, with shift, scale and gate of both computed from the condition (B,D), which
 * is already after SiLU (Peebles and Xie 2023, section 3.2). x is (B,...,D). */
typedef Tensor Dit3dAttention(Tensor x, int64_t heads);
Tensor         dit3d_block(Tensor x, Tensor condition, const Dit3d *m, Dit3dAttention *attend,
                           bool starts_zero);

Shape   dit3d_clip(const Dit3d *m, int64_t n); /* of n clips */
int64_t dit3d_side(const Dit3d *m); /* of the square frames that the frozen backbone reads */
/* Cumulative products of 1 - beta; clipped: to 1e-6 .. 1 - 1e-6, as used to add and remove
 * noise. */
double *dit3d_alpha_bar(Pool *pool, const Dit3d *m, bool clipped);

Err dit3d_check_sampler(const void *config, const SamplerConfig *sampler);
Err dit3d_sample(Sampler *s, const void *config, SampleResult *result);

#endif
