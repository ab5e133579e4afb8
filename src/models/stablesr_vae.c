/* stablesr_vae.c -- StableSR's KL autoencoder: images to latents and back. It is never trained.
 *
 * Rombach et al. (2022); names follow Stable Diffusion's `first_stage_model`.
 */
#include "models/layers.h"
#include "models/stablesr.h"

static Layer norm_of(const StableSr *m)
{
    return (Layer){ .groups = (int)m->groups, .eps = 1e-6f };
}

static Tensor vae_block(const char *name, Tensor x, int64_t width, const StableSr *m)
{
    scope_open(x.graph, "%s", name);
    Tensor h = conv2d("conv1", norm_act("norm1", x, norm_of(m), NORM_SILU), width, 3, 1, 1, (Layer){ 0 });
    h = conv2d("conv2", norm_act("norm2", h, norm_of(m), NORM_SILU), width, 3, 1, 1, (Layer){ 0 });
    if (channels_of(x) != width)
        x = conv2d("nin_shortcut", x, width, 1, 1, 0, (Layer){ 0 });
    x = add(x, h);
    scope_close(x.graph);
    return x;
}

/* One head as wide as the map has channels. */
static Tensor vae_attention(const char *name, Tensor x, const StableSr *m)
{
    int64_t width = channels_of(x);
    scope_open(x.graph, "%s", name);
    Tensor h = norm_act("norm", x, norm_of(m), NORM_LINEAR);
    Tensor q = conv2d("q", h, width, 1, 1, 0, (Layer){ 0 }), k = conv2d("k", h, width, 1, 1, 0, (Layer){ 0 });
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
    return conv2d("conv_out", norm_act("norm_out", x, norm_of(m), NORM_SILU), channels, 3, 1, 1, (Layer){ 0 });
}

/* min(max(x, low), high) */
static Tensor clamp(Tensor x, float low, float high)
{
    x = relu(affine(x, 1, -low));
    return affine(relu(affine(x, -1, high - low)), -1, high);
}

/* Mean and log-variance in 8 channels, then (mean + deviation noise) * scale, in fp32 as noise is. */
Tensor stablesr_encode(Tensor image, Tensor noise, const StableSr *m)
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
    Tensor mean = slice(h, -1, 0, STABLESR_LATENT), logvar = slice(h, -1, STABLESR_LATENT, 2 * STABLESR_LATENT);
    Tensor deviation = exp_of(affine(clamp(logvar, -30, 20), 0.5f, 0));
    h = weighted_sum(mean, STABLESR_SCALE, mul(deviation, noise), STABLESR_SCALE);
    scope_close(g);
    return h;
}

Tensor stablesr_decode(Tensor latent, const StableSr *m)
{
    Graph *g = latent.graph;
    int    last = m->vae_mult.n - 1;
    scope_open(g, "first_stage_model");
    Tensor h = conv2d("post_quant_conv", affine(latent, 1 / STABLESR_SCALE, 0), STABLESR_LATENT, 1, 1, 0, (Layer){ 0 });
    scope_open(g, "decoder");
    h = vae_middle(conv2d("conv_in", h, m->vae_channels * m->vae_mult.at[last], 3, 1, 1, (Layer){ 0 }), m);
    for (int level = last; level >= 0; level--) {
        int64_t width = m->vae_channels * m->vae_mult.at[level];
        scope_open(g, "up.%d", level);
        h = vae_block("block.0", h, width, m);
        h = vae_block("block.1", h, width, m);
        h = vae_block("block.2", h, width, m);
        if (level > 0)
            h = conv2d("upsample.conv", upsample_nearest(h, 2), width, 3, 1, 1, (Layer){ 0 });
        scope_close(g);
    }
    h = vae_out(h, 3, m);
    scope_close(g);
    scope_close(g);
    return h;
}
