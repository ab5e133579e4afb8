/* stablesr_vae.c -- StableSR's KL autoencoder: images to latents and back.
 *
 * Rombach et al. (2022); names follow Stable Diffusion's `first_stage_model`. StableSR uses it
 * frozen. `system: stablesr-vae` trains one if there is no pretrained one:
 *
 *   image (B,s,s,3) in [-1,1]  ->  mean squared error of the reconstruction, at full size and at
 * the
 *                                  latents' size, plus a small share of the KL divergence of the
 *                                  scaled latents from N(0,1), plus the deviation of their mean
 *                                  square from 1
 *
 * The published one is also trained with a perceptual loss and a discriminator, which are omitted
 * here.
 */
#include "models/layers.h"
#include "models/stablesr.h"

#include <math.h>
#include <string.h>

static Layer norm_of(const StableSr *m)
{
    return (Layer){ .groups = (int)m->groups, .eps = 1e-6f };
}

static Tensor vae_block(const char *name, Tensor x, int64_t width, const StableSr *m)
{
    scope_open(x.graph, "%s", name);
    Tensor h = conv2d("conv1", norm_act("norm1", x, norm_of(m), NORM_SILU), width, 3, 1, 1,
                      (Layer){ 0 });
    h = conv2d("conv2", norm_act("norm2", h, norm_of(m), NORM_SILU), width, 3, 1, 1, (Layer){ 0 });
    x = residual("nin_shortcut", x, h);
    scope_close(x.graph);
    return x;
}

/* One head over all channels of the map. */
static Tensor vae_attention(const char *name, Tensor x, const StableSr *m)
{
    int64_t width = channels_of(x);
    scope_open(x.graph, "%s", name);
    Tensor h = norm_act("norm", x, norm_of(m), NORM_LINEAR);
    Tensor q = conv2d("q", h, width, 1, 1, 0, (Layer){ 0 }),
           k = conv2d("k", h, width, 1, 1, 0, (Layer){ 0 });
    Tensor v = conv2d("v", h, width, 1, 1, 0, (Layer){ 0 });
    x = add(x, conv2d("proj_out", attention(q, k, v, 1, NULL), width, 1, 1, 0, (Layer){ 0 }));
    scope_close(x.graph);
    return x;
}

static Tensor vae_middle(Tensor x, const StableSr *m)
{
    int64_t width = channels_of(x);
    scope_open(x.graph, "mid");
    x = vae_block("block_1", x, width, m);
    x = vae_attention("attn_1", x, m);
    x = vae_block("block_2", x, width, m);
    scope_close(x.graph);
    return x;
}

static Tensor vae_out(Tensor x, int64_t channels, const StableSr *m)
{
    return conv2d("conv_out", norm_act("norm_out", x, norm_of(m), NORM_SILU), channels, 3, 1, 1,
                  (Layer){ 0 });
}

/* min(max(x, low), high) */
static Tensor clamp(Tensor x, float low, float high)
{
    x = relu(affine(x, 1, -low));
    return affine(relu(affine(x, -1, high - low)), -1, high);
}

/* Mean and log-variance of the latents, in fp32 like the noise. */
static void vae_posterior(Tensor image, const StableSr *m, Tensor *mean, Tensor *logvar)
{
    Graph *g = image.graph;
    scope_open(g, "first_stage_model");
    scope_open(g, "encoder");
    Tensor h = conv2d("conv_in", image, m->vae_channels, 3, 1, 1, (Layer){ 0 });
    for (int level = 0; level < m->vae_mult.n; level++) {
        int64_t width = m->vae_channels * m->vae_mult.at[level];
        scope_open(g, "down.%d", level);
        h = vae_block("block.0", h, width, m);
        h = vae_block("block.1", h, width, m);
        if (level + 1 < m->vae_mult.n)
            h = conv2d("downsample.conv", h, width, 3, 2, 1, (Layer){ .pad_after = true });
        scope_close(g);
    }
    h = vae_out(vae_middle(h, m), 2 * STABLESR_LATENT, m);
    scope_close(g);
    h = cast(conv2d("quant_conv", h, 2 * STABLESR_LATENT, 1, 1, 0, (Layer){ 0 }), F32);
    *mean = slice(h, -1, 0, STABLESR_LATENT);
    *logvar = clamp(slice(h, -1, STABLESR_LATENT, 2 * STABLESR_LATENT), -30, 20);
    scope_close(g);
}

static Tensor vae_draw(Tensor mean, Tensor logvar, Tensor noise)
{
    Tensor deviation = exp_of(affine(logvar, 0.5f, 0));
    return weighted_sum(mean, STABLESR_SCALE, mul(deviation, noise), STABLESR_SCALE);
}

Tensor stablesr_encode(Tensor image, Tensor noise, const StableSr *m)
{
    Tensor mean, logvar;
    vae_posterior(image, m, &mean, &logvar);
    return vae_draw(mean, logvar, noise);
}

Tensor stablesr_decode(Tensor latent, const StableSr *m)
{
    Graph *g = latent.graph;
    int    last = m->vae_mult.n - 1;
    scope_open(g, "first_stage_model");
    Tensor h = conv2d("post_quant_conv", affine(latent, 1 / STABLESR_SCALE, 0), STABLESR_LATENT, 1,
                      1, 0, (Layer){ 0 });
    scope_open(g, "decoder");
    h = vae_middle(
        conv2d("conv_in", h, m->vae_channels * m->vae_mult.at[last], 3, 1, 1, (Layer){ 0 }), m);
    for (int level = last; level >= 0; level--) {
        int64_t width = m->vae_channels * m->vae_mult.at[level];
        scope_open(g, "up.%d", level);
        h = vae_block("block.0", h, width, m);
        h = vae_block("block.1", h, width, m);
        h = vae_block("block.2", h, width, m);
        if (level > 0)
            h = conv2d_up("upsample.conv", h, 2, width);
        scope_close(g);
    }
    h = vae_out(h, 3, m);
    scope_close(g);
    scope_close(g);
    return h;
}

/* ---- training an autoencoder ---- */

static const float KL_SHARE = 1e-6f, COARSE_SHARE = 8, SIZE_SHARE = 0.1f;
static const float LOGVAR_START = -8;

/* The variance of the latents starts small. With a deviation of 1 around means of a few tenths, the
 * noise hides the means, and the decoder never learns to use them. */
static void narrow_start(float *data, Shape disk, uint64_t seed, const void *arg)
{
    (void)seed;
    (void)arg;
    for (int64_t i = 0; i < shape_count(disk); i++)
        data[i] = i < STABLESR_LATENT ? 0 : LOGVAR_START;
}

/* Convolutions start variance-preserving and without biases. PyTorch's rule shrinks the signal by
 * sqrt(3) at each convolution and adds a constant, so the last norm would see little but constants,
 * and colours would take thousands of steps. */
static void vae_starts(Graph *g)
{
    for (int32_t i = 0; i < g->n_params; i++) {
        Param      *p = &g->params[i];
        const char *end = strrchr(p->name, '.');
        if (p->disk.rank == 4)
            p->init.scale *= sqrtf(3);
        else if (!strcmp(end, ".bias"))
            p->init = (Init){ .kind = INIT_ZEROS };
        if (!strcmp(p->name, "first_stage_model.quant_conv.weight"))
            p->init.scale /= STABLESR_SCALE; /* the scaled latents have about deviation 1 */
        else if (!strcmp(p->name, "first_stage_model.quant_conv.bias"))
            p->init = (Init){ .kind = INIT_CUSTOM, .custom = narrow_start };
    }
}

static Tensor vae_loss(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const StableSr *m = config;
    float           scale = 1.0f / (float)share, twice_log = 2 * logf(STABLESR_SCALE);
    Shape           z = SHAPE(batch, m->latent, m->latent, STABLESR_LATENT);
    Tensor image = feed(g, "image", F32, SHAPE(batch, m->image, m->image, 3)), mean, logvar;
    vae_posterior(image, m, &mean, &logvar);
    Tensor back = stablesr_decode(vae_draw(mean, logvar, noise_normal(g, "vae", z)), m);
    graph_output(back, "output");
    vae_starts(g);
    /* KL = (mean^2 + variance - log variance - 1) / 2 */
    Tensor zero = constant_add(g, "nothing", F32, z, NULL, CLASS_CONSTANTS);
    Tensor spread = exp_of(affine(logvar, 0.5f, twice_log / 2));
    Tensor size = mse_loss(affine(mean, STABLESR_SCALE, 0), zero, 1);
    Tensor squares = add(affine(size, scale, 0), mse_loss(spread, zero, scale));
    /* Noise schedules are made for latents of deviation 1. Without this term they grow to 3 and
     * more, and the last timestep does not hide the largest in noise, as sampling assumes. */
    Tensor off = affine(size, 1, -1);
    Tensor logs = mean_axes(affine(logvar, scale, scale * (twice_log + 1)), 0, 3);
    /* The reconstruction error at the latents' size: without it the latents encode edges first, and
     * colours are learned late. */
    back = cast(back, F32);
    Tensor coarse = mse_loss(adaptive_avg_pool(back, m->latent, m->latent),
                             adaptive_avg_pool(image, m->latent, m->latent), COARSE_SHARE * scale);
    Tensor loss = weighted_sum(add(mse_loss(back, image, scale), coarse), 1,
                               weighted_sum(squares, 0.5f, logs, -0.5f), KL_SHARE);
    return weighted_sum(loss, 1, mul(off, off), SIZE_SHARE * scale);
}

/* Encodes images of the data to mean latents and decodes them. */
static void vae_sample_graph(Graph *g, const void *config, const SamplerConfig *sampler, int64_t n)
{
    const StableSr *m = config;
    Phase           phase = g->phase;
    Tensor          mean, logvar;
    (void)sampler;
    g->phase = PHASE_SAMPLE_BEGIN;
    vae_posterior(feed(g, "image", F32, SHAPE(n, m->image, m->image, 3)), m, &mean, &logvar);
    graph_output(stablesr_decode(affine(mean, STABLESR_SCALE, 0), m), "back");
    g->phase = phase;
}

static Err vae_sample(Sampler *s, const void *config, SampleResult *result)
{
    const StableSr *m = config;
    Shape           shape = SHAPE(s->n, m->image, m->image, 3);
    float          *image = NEWN(s->pool, float, shape_count(shape));
    TRY(s->run(s, PHASE_SAMPLE_BEGIN));
    memcpy(image, s->output(s, "back"), (size_t)shape_count(shape) * sizeof *image);
    *result = (SampleResult){ .kind = RESULT_IMAGES, .shape = shape, .data = image };
    return OK;
}

const ModelDef model_stablesr_vae = {
    .name = "stablesr-vae",
    .unread = STABLESR_UNREAD "|model.diffusion_model.|structcond_stage_model.",
    .summary = "StableSR's autoencoder, if there is no pretrained one",
    .fields = stablesr_fields,
    .config_bytes = sizeof(StableSr),
    .defaults = &stablesr_defaults,
    .check = stablesr_check,
    .loss = vae_loss,
    .sample_graph = vae_sample_graph,
    .sample = vae_sample,
};
