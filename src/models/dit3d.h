/* dit3d.h -- DiT3D: what its two readings share. Private to the dit3d files.
 *
 * The document it comes from can be read in two ways, and recipes choose one (model.reading):
 *   patches   a diffusion transformer over 3-D patches of the clip     dit3d_patches.c
 *   frames    a frozen 2-D transformer looks at every frame; what it sees is mixed in time, told
 *             the text and drawn again by a small decoder              dit3d_frames.c
 * Both take a noisy clip (B,F,H,W,C), times (B) and texts (B,768), and predict the noise.
 */
#ifndef MODELS_DIT3D_H
#define MODELS_DIT3D_H

#include "models/model.h"

enum {
    DIT3D_TEXT = 768,            /* width of a text */
    DIT3D_WAVES = 256,           /* of the sines of a time */
    DIT3D_FRAME = 64,            /* side of the frames that the frozen backbone sees */
};

typedef enum Dit3dReading { DIT3D_PATCHES, DIT3D_FRAMES } Dit3dReading;

typedef struct Dit3d {
    int     reading;             /* Dit3dReading */
    int64_t frames;
    Ints    image;               /* H, W */
    int64_t image_channels, width, depth, heads, mlp_ratio;
    Ints    patch;               /* frames, rows, columns; reading `frames`: one side */
    int64_t temporal_heads;
    bool    learn_sigma;
    double  text_dropout;
    int64_t timesteps;
    int     noise_schedule;      /* NoiseSchedule */
    double  beta_start, beta_end;
} Dit3d;

/* (B,F,H,W,C), or 2C with learn_sigma. */
Tensor dit3d_patches(Tensor x, Tensor t, Tensor text, const Dit3d *m);
Tensor dit3d_frames(Tensor x, Tensor t, Tensor text, const Dit3d *m);

/* What the times become, (B,D), under `t_embedder`. */
Tensor dit3d_time(Tensor t, const Dit3d *m);

/* Attention, then MLP; six vectors made from the condition (B,D), a SiLU already on it, shift,
 * scale and gate each (Peebles and Xie 2023, section 3.2). x is (B,...,D). */
typedef Tensor Dit3dAttention(Tensor x, int64_t heads);
Tensor dit3d_block(Tensor x, Tensor condition, const Dit3d *m, Dit3dAttention *attend,
                   bool starts_zero);

Shape   dit3d_clip(const Dit3d *m, int64_t n);       /* of n clips */
/* Running products of 1 - beta; adding and removing noise clips them to 1e-6 .. 1 - 1e-6. */
double *dit3d_alpha_bar(Pool *pool, const Dit3d *m, bool clipped);

Err     dit3d_check_sampler(const void *config, const SamplerConfig *sampler);
Err     dit3d_sample(Sampler *s, const void *config, SampleResult *result);

#endif
