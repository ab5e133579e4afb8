/* lag.h -- the sizes of the lag system, shared by its two files. */
#ifndef MODELS_LAG_H
#define MODELS_LAG_H

#include "models/model.h"

typedef struct Lag {
    int64_t set_size; /* images per set */
    int64_t image, channels, patch;
    int64_t context_width, encoder_depth, encoder_heads, encoder_head_width, encoder_mlp;
    int64_t time_width;                      /* of the encoder */
    int64_t hidden, depth, heads, mlp_ratio; /* of the DiT */
    int64_t timesteps;
    int     noise_schedule; /* NoiseSchedule */
    double  beta_start, beta_end;
} Lag;

Err lag_check_sampler(const void *config, const SamplerConfig *sampler);
Err lag_sample(Sampler *s, const void *config, SampleResult *result);

#endif
