/* stablesr.h -- StableSR with an edge branch: its sizes, and its networks as graph builders.
 *
 * Maps are channels-last. Latents are (B, latent, latent, 4), already multiplied by
 * STABLESR_SCALE. */
#ifndef MODELS_STABLESR_H
#define MODELS_STABLESR_H

#include "models/model.h"

#define STABLESR_SCALE 0.18215f

/* In the original's .ckpt, and not in this program's model: the text tower, whose output is
 * model.context, averages, the noise schedule, the autoencoder's loss, the controllable decoder. */
#define STABLESR_UNREAD                                                                            \
    "cond_stage_model.|model_ema.|first_stage_model.loss.|first_stage_model.decoder.fusion_layer_" \
    "1."                                                                                           \
    "|first_stage_model.decoder.fusion_layer_2.|betas|alphas_cumprod|alphas_cumprod_prev|logvar"   \
    "|sqrt_alphas_cumprod|sqrt_one_minus_alphas_cumprod|log_one_minus_alphas_cumprod"              \
    "|sqrt_recip_alphas_cumprod|sqrt_recipm1_alphas_cumprod|posterior_variance|lvlb_weights"       \
    "|posterior_log_variance_clipped|posterior_mean_coef1|posterior_mean_coef2|scale_factor"
enum { STABLESR_LATENT = 4, STABLESR_LEVELS = FIELD_MAX_INTS, STABLESR_LAYERS = 8 };

typedef enum StableSrLatents { LATENTS_COMPUTED, LATENTS_GIVEN } StableSrLatents;
typedef enum StableSrFusion { FUSION_CONV, FUSION_CONCAT } StableSrFusion;
typedef enum StableSrTrained { TRAINED_DEFAULT, TRAINED_PUBLISHED, TRAINED_ALL } StableSrTrained;

typedef struct StableSr {
    int64_t     image, latent;
    int         latents; /* StableSrLatents */
    int64_t     channels, layers, attention_levels, head_width, groups, spade_hidden;
    Ints        mult;
    const char *context; /* .npy, or NULL: a fixed seeded tensor */
    int64_t     context_tokens, context_width;
    int64_t     struct_channels, struct_heads, struct_out;
    Ints        struct_mult;
    int64_t     vae_channels;
    Ints        vae_mult;
    int64_t     edge_stem, edge_width, edge_convs;
    Ints        edge_ladder;
    int         fusion, trained; /* StableSrFusion, StableSrTrained */
    int64_t     timesteps;
    int         noise_schedule; /* NoiseSchedule */
    double      beta_start, beta_end;
} StableSr;

/* Recipe keys of both systems, stablesr and stablesr-vae. */
extern const Field    stablesr_fields[];
extern const StableSr stablesr_defaults;
Err                   stablesr_check(const void *config);

/* From images to latents, drawn from the posterior with the given noise; from latents to images. */
Tensor stablesr_encode(Tensor image, Tensor noise, const StableSr *m);
Tensor stablesr_decode(Tensor latent, const StableSr *m);

/* From the edges of an image (B, image, image, 3) to a map of a latent's size. */
Tensor stablesr_edge(Tensor edge, const StableSr *m);

/* Sets maps[level], of the size of that UNet level. context is (tokens, width), the same for all
 * samples. */
void   stablesr_struct(Tensor *maps, Tensor latent, Tensor t, const StableSr *m);
Tensor stablesr_unet(Tensor x, Tensor t, Tensor context, const Tensor *maps, const StableSr *m);

double *stablesr_alpha_bar(Pool *pool, const StableSr *m);

Err stablesr_check_sampler(const void *config, const SamplerConfig *sampler);
Err stablesr_sample(Sampler *s, const void *config, SampleResult *result);
enum { STABLESR_STEPS = 200 }; /* of a chain, if the recipe names none */
/* One step of the chain, from alpha bar `a` to `next` (1: the last step). Latents are not clipped. */
void stablesr_chain_step(Sampler *s, int64_t index, double a, double next, float *x, const float *e,
                         float *z, int64_t count);

/* An image of any size, by overlapping tiles (stablesr_enlarge.c). */
Err     stablesr_enlarge(Sampler *s, const void *config, Enlarging *job);
int64_t stablesr_enlarge_bytes(const void *config, int64_t n, int64_t height, int64_t width);

/* Transfers the colours of `like` to n images x (side, side, 3). work: 2 side side 3 floats. */
void stablesr_colours(const SamplerConfig *sampler, float *x, const float *like, int64_t n,
                      int64_t side, float *work);
void stablesr_adain(float *x, const float *like, int64_t n, int64_t side);
void stablesr_wavelet(float *x, const float *like, int64_t n, int64_t side, float *work);

#endif
