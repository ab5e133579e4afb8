/* dit3d_frames.c -- DiT3D, reading `frames`: a frozen image transformer with a small trained head.
 *
 *   x (B,F,H,W,C) noisy clip,  t (B),  text (B,768)  ->  (B,F,H,W,C) predicted noise
 *
 * The backbone is a DiT without text whose random weights are never trained; each frame becomes the
 * mean of its tokens. Frames are mixed by one post-norm transformer layer, scaled and shifted by
 * the text three times (FiLM: Perez et al. 2018), decoded by four transposed convolutions and
 * smoothed over time; the input is added at the end.
 */
#include "models/dit3d.h"
#include "models/layers.h"

#include <math.h>

static const Init small_normal = { .kind = INIT_NORMAL, .scale = 0.02f };

/* How the trained layers start; the backbone's start as PyTorch's do by default. */
static const Layer by_xavier = { .xavier = true }, by_kaiming = { .kaiming = true };
static const Layer by_text = { .deviation = 0.02f };

/* torch.nn.MultiheadAttention over the axis before the last; axes before that are samples. */
static Tensor packed_attention(Tensor x, int64_t heads, Layer last)
{
    Shape   s = tensor_shape(x);
    Graph  *g = x.graph;
    int64_t D = dim(s, -1), L = dim(s, -2);
    Init    xavier = { .kind = INIT_UNIFORM, .scale = (float)sqrt(6 / (4 * (double)D)) };
    Tensor  w = param_add(g, "in_proj_weight", SHAPE(3 * D, D), xavier);
    Tensor  b = param_add(g, "in_proj_bias", SHAPE(3 * D), (Init){ .kind = INIT_ZEROS });
    Tensor  qkv = reshape(linear_op(x, w, b, (LinearAttr){ 0 }), SHAPE(-1, L, 3 * D));
    x = reshape(attention_qkv(qkv, (int)heads, NULL), s);
    return linear("out_proj", x, D, last);
}

static Tensor backbone_attention(Tensor x, int64_t heads)
{
    scope_open(x.graph, "attn");
    x = packed_attention(x, heads, (Layer){ .zero_bias = true });
    scope_close(x.graph);
    return x;
}

/* (B,F,H,W,C) -> (B,F,D). All its parameters are frozen. */
static Tensor backbone(Tensor x, Tensor t, const Dit3d *m)
{
    Graph  *g = x.graph;
    Shape   s = tensor_shape(x);
    int32_t first = g->n_params;
    int64_t frame = dit3d_side(m), side = frame / m->patch.at[0], L = side * side, D = m->width;
    Ints    patch = { { m->patch.at[0], m->patch.at[0] }, 2 };
    scope_open(g, "dit_backbone.backbone");
    Tensor where = param_add(g, "pos_embed", SHAPE(1, L, D), small_normal);
    x = reshape(x, SHAPE(s.dim[0] * s.dim[1], s.dim[2], s.dim[3], s.dim[4]));
    if (s.dim[2] != frame || s.dim[3] != frame)
        x = resize(x, frame, frame, RESIZE_BILINEAR);
    x = add_rows(patch_embed("patch_embed", x, D, &patch, (Layer){ 0 }), where); /* (B F,L,D) */
    x = reshape(x, SHAPE(s.dim[0], s.dim[1], L, D)); /* the frames of a clip share a timestep */
    Tensor c = silu(dit3d_time(t, m));
    for (int64_t i = 0; i < m->depth; i++) {
        scope_open(g, "blocks.%d", (int)i);
        x = dit3d_block(x, c, m, backbone_attention, false);
        scope_close(g);
    }
    x = mean_axes(x, 2, 2);
    scope_close(g);
    for (int32_t i = first; i < g->n_params; i++)
        g->params[i].frozen = true;
    return x;
}

static Tensor temporal(Tensor x, const Dit3d *m) /* (B,F,D) */
{
    Graph *g = x.graph;
    scope_open(g, "temporal_processor");
    x = add_rows(x,
                 param_add(g, "temporal_pos_embed", SHAPE(1, m->frames, m->width), small_normal));
    scope_open(g, "temporal_attn");
    Tensor h = packed_attention(x, m->temporal_heads, by_xavier);
    scope_close(g);
    x = layer_norm("norm1", add(x, h), 1e-5f);
    h = gelu(linear("ffn.0", x, 4 * m->width, by_xavier));
    x = layer_norm("norm2", linear("ffn.3", h, m->width, (Layer){ .xavier = true, .onto = x }),
                   1e-5f);
    scope_close(g);
    return x;
}

static Tensor film(Tensor f, Tensor text, int64_t D) /* f (1 + gamma) + beta */
{
    Tensor both = linear("projection", text, 2 * D, by_xavier);
    f = gated_add(f, slice(both, -1, 0, D), f);
    return add_rows(f, slice(both, -1, D, 2 * D));
}

static Tensor norm_gelu(const char *name, Tensor x)
{
    int groups = 8;
    while (dim(tensor_shape(x), -1) % groups)
        groups /= 2;
    return norm_act(name, x, (Layer){ .groups = groups, .eps = 1e-5f }, NORM_GELU);
}

/* (B F,D) -> (B F,H,W,C): sides of 8, 16, 32, 64, 128 pixels, then the size of the clip. */
static Tensor upsampler(Tensor f, const Dit3d *m)
{
    int64_t n = tensor_shape(f).dim[0], c = m->image_channels;
    Graph  *g = f.graph;
    scope_open(g, "video_upsampler");
    f = linear("feature_proj.0", f, m->width, by_xavier);
    f = layer_norm("feature_proj.1", f, 1e-5f);
    f = linear("feature_proj.3", gelu(f), c * 64, by_xavier);
    Tensor x = permute_as(f, (PermuteAttr){ .rank = 3,
                                            .dim = { n, c, 64 },
                                            .axis = { 0, 2, 1 },
                                            .shape = SHAPE(n, 8, 8, c) }); /* channels last */
    scope_open(g, "conv_layers");
    x = norm_gelu("1", conv_transpose2d("0", x, 2 * c, 4, 2, 1, by_kaiming));
    x = norm_gelu("4", conv_transpose2d("3", x, 2 * c, 4, 2, 1, by_kaiming));
    x = norm_gelu("7", conv_transpose2d("6", x, c, 4, 2, 1, by_kaiming));
    x = conv_transpose2d("9", x, c, 4, 2, 1, by_kaiming);
    scope_close(g);
    if (m->image.at[0] != 128 || m->image.at[1] != 128)
        x = resize(x, m->image.at[0], m->image.at[1], RESIZE_BILINEAR);
    scope_close(g);
    return x;
}

Tensor dit3d_frames(Tensor x, Tensor t, Tensor text, const Dit3d *m)
{
    Shape   s = tensor_shape(x);
    int64_t c = m->image_channels, D = m->width;
    Graph  *g = x.graph;
    /* One vector per frame from here to the decoder: so few that all of this is fp32. */
    Tensor  f = temporal(cast(backbone(x, t, m), F32), m);
    Tensor  e = gelu(linear("text_embedder.projection.0", text, D, by_text));
    e = linear("text_embedder.projection.3", e, D, by_text);
    for (int i = 0; i < 3; i++) {
        scope_open(g, "conditioning_layers.%d", i);
        f = film(f, e, D);
        scope_close(g);
    }
    f = gelu(linear("feature_modulation.0", f, D, by_xavier));
    f = linear("feature_modulation.2", f, D, by_xavier);
    Tensor y = reshape(upsampler(reshape(f, SHAPE(s.dim[0] * s.dim[1], D)), m), s);
    scope_open(g, "final_temporal_conv");
    y = norm_gelu("1", conv3d("0", y, 2 * c, 3, 1, by_kaiming));
    y = conv3d("3", y, m->learn_sigma ? 2 * c : c, 3, 1, by_kaiming);
    scope_close(g);
    return add(m->learn_sigma ? pad_axis(x, -1, 0, c) : x, y);
}
