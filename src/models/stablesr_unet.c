/* stablesr_unet.c -- StableSR's two U-shaped networks.
 *
 *   UNet            x (B,l,l,8), t, context, struct maps -> predicted noise (B,l,l,4); Stable
 *                   Diffusion 2.1 (Rombach et al. 2022) with SPADE (Park et al. 2019) in every
 *                   residual block
 *   struct encoder  the low-quality latent and t -> one map for every level of the UNet
 *
 * Wang et al. (2024), StableSR, section 3.1. Names follow its checkpoints: every block on the way
 * down, in the middle and on the way up is a numbered list of layers.
 */
#include "models/layers.h"
#include "models/stablesr.h"

static Layer norm_of(const StableSr *m, float eps)
{
    return (Layer){ .groups = (int)m->groups, .eps = eps };
}

/* A sinusoidal embedding of t through two linear layers. Includes the SiLU with which every
 * residual block would begin. */
static Tensor time_embed(Tensor t, int64_t width)
{
    Tensor time = linear("time_embed.0", time_embedding(t, width, 10000), 4 * width, (Layer){ 0 });
    return silu(linear("time_embed.2", silu(time), 4 * width, (Layer){ 0 }));
}

/* norm(h) (1 + gamma) + beta, with gamma and beta computed from the struct map. */
static Tensor spade_block(Tensor h, Tensor map, const StableSr *m)
{
    int64_t width = channels_of(h);
    scope_open(h.graph, "spade");
    Tensor a = relu(conv2d("mlp_shared.0", map, m->spade_hidden, 3, 1, 1, (Layer){ 0 }));
    Tensor gamma = conv2d("mlp_gamma", a, width, 3, 1, 1, (Layer){ 0 });
    Tensor beta = conv2d("mlp_beta", a, width, 3, 1, 1, (Layer){ 0 });
    scope_open(h.graph, "param_free_norm"); /* the original name, although it has an affine */
    Tensor w = param_add(h.graph, "weight", SHAPE(width), (Init){ .kind = INIT_ONES });
    Tensor b = param_add(h.graph, "bias", SHAPE(width), (Init){ .kind = INIT_ZEROS });
    scope_close(h.graph);
    h = spade(h, w, b, gamma, beta, m->groups, 1e-5f);
    scope_close(h.graph);
    return h;
}

/* map tensor_none: the block of the struct encoder, without SPADE. */
static Tensor res_block(const char *name, Tensor x, Tensor time, Tensor map, int64_t width,
                        const StableSr *m)
{
    scope_open(x.graph, "%s", name);
    Tensor h = norm_act("in_layers.0", x, norm_of(m, 1e-5f), NORM_SILU);
    h = conv2d("in_layers.2", h, width, 3, 1, 1, (Layer){ 0 });
    h = add_rows(h, linear("emb_layers.1", time, width, (Layer){ 0 }));
    h = norm_act("out_layers.0", h, norm_of(m, 1e-5f), NORM_SILU);
    h = conv2d("out_layers.3", h, width, 3, 1, 1, (Layer){ .zero = true });
    if (tensor_ok(map))
        h = spade_block(h, map, m);
    x = residual("skip_connection", x, h);
    scope_close(x.graph);
    return x;
}

/* onto + that of x, as the next */
static Tensor self_attention(const char *name, Tensor onto, Tensor x, int heads)
{
    int64_t width = channels_of(x);
    Layer   plain = { .no_bias = true };
    scope_open(x.graph, "%s", name);
    Tensor q = linear("to_q", x, width, plain), k = linear("to_k", x, width, plain),
           v = linear("to_v", x, width, plain);
    x = linear("to_out.0", attention(q, k, v, heads, NULL), width, (Layer){ .onto = onto });
    scope_close(x.graph);
    return x;
}

/* All samples see the same context: their positions are one long sequence, and keys and values are
 * computed once. */
static Tensor cross_attention(const char *name, Tensor onto, Tensor x, Tensor context, int heads)
{
    Shape   shape = tensor_shape(x), tokens = tensor_shape(context);
    int64_t width = channels_of(x);
    Layer   plain = { .no_bias = true };
    scope_open(x.graph, "%s", name);
    Tensor q = reshape(linear("to_q", x, width, plain), SHAPE(1, -1, width));
    Tensor k = reshape(linear("to_k", context, width, plain), SHAPE(1, tokens.dim[0], width));
    Tensor v = reshape(linear("to_v", context, width, plain), SHAPE(1, tokens.dim[0], width));
    x = linear("to_out.0", reshape(attention(q, k, v, heads, NULL), shape), width,
               (Layer){ .onto = onto });
    scope_close(x.graph);
    return x;
}

/* Self-attention, cross-attention to the context, then a gated MLP, all within a residual. */
static Tensor transformer(const char *name, Tensor x, Tensor context, const StableSr *m)
{
    int64_t width = channels_of(x);
    int     heads = (int)(width / m->head_width);
    scope_open(x.graph, "%s", name);
    Tensor h = linear("proj_in", norm_act("norm", x, norm_of(m, 1e-6f), NORM_LINEAR), width,
                      (Layer){ 0 });
    scope_open(x.graph, "transformer_blocks.0");
    h = self_attention("attn1", h, layer_norm("norm1", h, 1e-5f), heads);
    h = cross_attention("attn2", h, layer_norm("norm2", h, 1e-5f), context, heads);
    Tensor wide = linear("ff.net.0.proj", layer_norm("norm3", h, 1e-5f), 8 * width, (Layer){ 0 });
    h = linear("ff.net.2", geglu(wide), width, (Layer){ .onto = h });
    scope_close(x.graph);
    x = linear("proj_out", h, width, (Layer){ .zero = true, .onto = x });
    scope_close(x.graph);
    return x;
}

Tensor stablesr_unet(Tensor x, Tensor t, Tensor context, const Tensor *maps, const StableSr *m)
{
    Graph *g = x.graph;
    Tensor skips[STABLESR_LEVELS * (STABLESR_LAYERS + 1) + 1];
    int    last = m->mult.n - 1, n = 0, block = 0;
    scope_open(g, "model.diffusion_model");
    Tensor time = time_embed(t, m->channels);

    Tensor h = skips[n++] = skip(conv2d("input_blocks.0.0", x, m->channels, 3, 1, 1, (Layer){ 0 }));
    for (int level = 0; level <= last; level++) {
        for (int i = 0; i < m->layers; i++) {
            scope_open(g, "input_blocks.%d", n);
            h = res_block("0", h, time, maps[level], m->channels * m->mult.at[level], m);
            if (level < m->attention_levels)
                h = transformer("1", h, context, m);
            skips[n++] = skip(h);
            scope_close(g);
        }
        if (level < last) {
            scope_open(g, "input_blocks.%d", n);
            h = skips[n++] = skip(
                conv2d("0.op", h, m->channels * m->mult.at[level], 3, 2, 1, (Layer){ 0 }));
            scope_close(g);
        }
    }
    scope_open(g, "middle_block");
    h = res_block("0", h, time, maps[last], m->channels * m->mult.at[last], m);
    h = transformer("1", h, context, m);
    h = res_block("2", h, time, maps[last], m->channels * m->mult.at[last], m);
    scope_close(g);
    for (int level = last; level >= 0; level--)
        for (int i = 0; i <= m->layers; i++) {
            int64_t width = m->channels * m->mult.at[level];
            scope_open(g, "output_blocks.%d", block++);
            h = res_block("0", concat2(h, skips[--n]), time, maps[level], width, m);
            if (level < m->attention_levels)
                h = transformer("1", h, context, m);
            if (level > 0 && i == m->layers)
                h = conv2d_up(level < m->attention_levels ? "2.conv" : "1.conv", h, 2, width);
            scope_close(g);
        }
    h = conv2d("out.2", norm_act("out.0", h, norm_of(m, 1e-5f), NORM_SILU), STABLESR_LATENT, 3, 1,
               1, (Layer){ .zero = true });
    scope_close(g);
    return h;
}

/* q, k and v are stored head by head in one tensor. */
static Tensor struct_attention(const char *name, Tensor x, const StableSr *m)
{
    int64_t width = channels_of(x);
    scope_open(x.graph, "%s", name);
    Tensor h = conv1d("qkv", norm_act("norm", x, norm_of(m, 1e-5f), NORM_LINEAR), 3 * width,
                      (Layer){ 0 });
    h = attention_qkv(h, (int)m->struct_heads, &(AttentionOptions){ .by_head = true });
    x = conv1d("proj_out", h, width, (Layer){ .zero = true, .onto = x });
    scope_close(x.graph);
    return x;
}

void stablesr_struct(Tensor *maps, Tensor latent, Tensor t, const StableSr *m)
{
    Graph *g = latent.graph;
    Tensor none = tensor_none(g), taps[STABLESR_LEVELS];
    int    last = m->struct_mult.n - 1, block = 0;
    scope_open(g, "structcond_stage_model");
    Tensor time = time_embed(t, m->struct_channels);

    Tensor h = conv2d("input_blocks.0.0", latent, m->struct_channels, 3, 1, 1, (Layer){ 0 });
    for (int level = 0; level <= last; level++) {
        int64_t width = m->struct_channels * m->struct_mult.at[level];
        for (int i = 0; i < m->layers; i++) {
            scope_open(g, "input_blocks.%d", ++block);
            h = res_block("0", h, time, none, width, m);
            if (level < m->attention_levels)
                h = struct_attention("1", h, m);
            scope_close(g);
        }
        taps[level] = h;
        if (level < last) {
            scope_open(g, "input_blocks.%d", ++block);
            h = conv2d("0.op", h, width, 3, 2, 1, (Layer){ 0 });
            scope_close(g);
        }
    }
    scope_open(g, "middle_block");
    h = res_block("0", h, time, none, m->struct_channels * m->struct_mult.at[last], m);
    h = struct_attention("1", h, m);
    taps[last] = res_block("2", h, time, none, m->struct_channels * m->struct_mult.at[last], m);
    scope_close(g);
    for (int level = 0; level <= last; level++)
        maps[level] = res_block(pool_print(g->pool, "fea_tran.%d", level), taps[level], time, none,
                                m->struct_out, m);
    scope_close(g);
}
