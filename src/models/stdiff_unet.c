/* stdiff_unet.c -- STDiff: the noise in a frame, given the previous frame and the motion.
 *
 *   x (B,H,W,2C),  t (B),  motion (B,h,w,Cm)  ->  (B,H,W,C)
 *
 * A UNet of residual blocks, with attention from level `attention_from` on and in the middle. The
 * motion enters every block by SPADE (Park et al. 2019): instance norm, scaled and shifted by maps.
 */
#include "models/stdiff.h"
#include "models/layers.h"

typedef struct Given { /* what every block is conditioned on */
    const Stdiff *m;
    Tensor        time;                   /* (B,4 channels[0]), SiLU already applied */
    Tensor        motion[FIELD_MAX_INTS]; /* has the size of its level after upsampling by `up` */
    int64_t       up[FIELD_MAX_INTS];
} Given;

static Layer norm_of(const Stdiff *m) { return (Layer){ .groups = (int)m->groups, .eps = 1e-5f }; }

static Tensor spade_motion(Tensor h, Tensor motion, int64_t up)
{
    int64_t width = dim(tensor_shape(h), -1), hidden = (dim(tensor_shape(motion), -1) + width) / 2;
    Tensor  none = tensor_none(h.graph);
    scope_open(h.graph, "motion_cond_layer");
    Tensor a = relu(up > 1 ? conv2d_up("mlp_shared.0", motion, up, hidden)
                           : conv3("mlp_shared.0", motion, hidden));
    Tensor gamma = conv3("mlp_gamma", a, width);
    Tensor beta = conv3("mlp_beta", a, width);
    h = spade(h, none, none, gamma, beta, width, 1e-5f);
    scope_close(h.graph);
    return h;
}

static Tensor resnet(Tensor x, int64_t width, int index, int level, const Given *given)
{
    Layer norm = norm_of(given->m);
    scope_open(x.graph, "resnets.%d", index);
    Tensor h = norm_act("norm1", x, norm, NORM_SILU);
    h = spade_motion(conv3("conv1", h, width), given->motion[level], given->up[level]);
    h = add_rows(h, linear("time_emb_proj", given->time, width, (Layer){ 0 }));
    h = conv3("conv2", norm_act("norm2", h, norm, NORM_SILU), width);
    x = residual("conv_shortcut", x, h);
    scope_close(x.graph);
    return x;
}

static Tensor self_attention(Tensor x, int index, const Stdiff *m)
{
    int64_t width = dim(tensor_shape(x), -1);
    scope_open(x.graph, "attentions.%d", index);
    Tensor h = norm_act("group_norm", x, norm_of(m), NORM_LINEAR);
    Tensor q = linear("query", h, width, (Layer){ 0 });
    Tensor k = linear("key", h, width, (Layer){ 0 });
    Tensor v = linear("value", h, width, (Layer){ 0 });
    h = attention(q, k, v, (int)(width / m->head_width), NULL);
    x = linear("proj_attn", h, width, (Layer){ .onto = x });
    scope_close(x.graph);
    return x;
}

/* One layer of a level: a residual block, then attention if the level has it. */
static Tensor layer(Tensor x, int index, int level, const Given *given)
{
    x = resnet(x, given->m->channels.at[level], index, level, given);
    return level >= given->m->attention_from ? self_attention(x, index, given->m) : x;
}

static Tensor time_code(Tensor t, int64_t width)
{
    scope_open(t.graph, "time_embedding");
    Tensor h = linear("linear_1", time_embedding(t, width, 10000), 4 * width, (Layer){ 0 });
    h = silu(linear("linear_2", silu(h), 4 * width, (Layer){ 0 }));
    scope_close(t.graph);
    return h;
}

/* The motion for a level's convolutions: unchanged if sub-pixel convolutions can upsample it. */
static Tensor motion_at(Tensor motion, int level, const Stdiff *m, int64_t *up)
{
    int64_t h = m->image.at[0] >> level, w = m->image.at[1] >> level;
    Shape   s = stdiff_motion_shape(m, 1);
    *up = 1;
    if (motion.graph->build->subpixel && h > s.dim[1] && h / s.dim[1] <= UP_CONV_MAX &&
        h % s.dim[1] == 0 && w * s.dim[1] == h * s.dim[2]) {
        *up = h / s.dim[1];
        return motion;
    }
    return resize(motion, h, w, RESIZE_NEAREST);
}

Tensor stdiff_unet(Tensor x, Tensor t, Tensor motion, const Stdiff *m)
{
    Graph  *g = x.graph;
    int     last = m->channels.n - 1, n_skips = 0;
    int64_t deepest = m->channels.at[last];
    Tensor  skips[FIELD_MAX_INTS * (STDIFF_MAX_LAYERS + 1) + 1];
    Given   given = { .m = m };

    scope_open(g, "diffusion_unet");
    given.time = time_code(t, m->channels.at[0]);
    motion = cast(motion, g->compute);
    for (int i = 0; i <= last; i++)
        given.motion[i] = motion_at(motion, i, m, &given.up[i]);

    x = skips[n_skips++] = skip(conv3("conv_in", x, m->channels.at[0]));
    for (int i = 0; i <= last; i++) {
        scope_open(g, "down_blocks.%d", i);
        for (int j = 0; j < m->layers; j++)
            x = skips[n_skips++] = skip(layer(x, j, i, &given));
        if (i < last) {
            x = conv2d("downsamplers.0.conv", x, m->channels.at[i], 3, 2, 1, (Layer){ 0 });
            skips[n_skips++] = skip(x);
        }
        scope_close(g);
    }
    scope_open(g, "mid_block");
    x = resnet(x, deepest, 0, last, &given);
    x = resnet(self_attention(x, 0, m), deepest, 1, last, &given);
    scope_close(g);
    for (int i = last; i >= 0; i--) {
        scope_open(g, "up_blocks.%d", last - i);
        for (int j = 0; j <= m->layers; j++)
            x = layer(concat2(x, skips[--n_skips]), j, i, &given);
        if (i > 0)
            x = conv2d_up("upsamplers.0.conv", x, 2, m->channels.at[i]);
        scope_close(g);
    }
    x = norm_act("conv_norm_out", x, norm_of(m), NORM_SILU);
    x = conv3("conv_out", x, m->image_channels);
    scope_close(g);
    return x;
}
