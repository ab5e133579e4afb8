/* dit3d_patches.c -- DiT3D, reading `patches`: a diffusion transformer over 3-D patches.
 *
 *   x (B,F,H,W,C) noisy clip,  t (B),  text (B,768)  ->  (B,F,H,W,C) predicted noise
 *
 * Peebles and Xie (2023) with volumes instead of images and text instead of labels: adaLN-Zero
 * throughout, fixed sinusoidal positions with a quarter of the width for time and three eighths
 * each for rows and columns.
 */
#include "models/dit3d.h"
#include "models/layers.h"

#include "device/convert.h"

#include <math.h>

/* [sin(p w_k) | cos(p w_k)], w_k = 10000^(-k / half) */
static void sines(int64_t position, int64_t width, float *to)
{
    int64_t half = width / 2;
    for (int64_t k = 0; k < half; k++) {
        double angle = (double)position * pow(10000, -(double)k / (double)half);
        to[k] = (float)sin(angle);
        to[half + k] = (float)cos(angle);
    }
}

static Tensor positions(Graph *g, const Dit3d *m)
{
    int64_t T = m->frames / m->patch.at[0];
    int64_t H = m->image.at[0] / m->patch.at[1], W = m->image.at[1] / m->patch.at[2];
    int64_t D = m->width, side = 3 * D / 8, n = T * H * W * D;
    float  *code = NEWN(g->pool, float, n), *to = code;
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t w = 0; w < W; w++, to += D) {
                sines(t, D / 4, to);
                sines(h, side, to + D / 4);
                sines(w, side, to + D / 4 + side);
            }
    void *rounded = pool_alloc(g->pool, (size_t)n, (size_t)type_bytes(g->compute));
    convert_rows(g->compute, rounded, F32, code, (size_t)n);
    return constant_add(g, "positions", g->compute, SHAPE(1, T * H * W, D), rounded,
                        CLASS_CONSTANTS);
}

static Tensor patches_attention(Tensor x, int64_t heads)
{
    int64_t D = dim(tensor_shape(x), -1);
    Tensor  h = attention_qkv(linear("attn.qkv", x, 3 * D, (Layer){ 0 }), (int)heads, NULL);
    return linear("attn.proj", h, D, (Layer){ 0 });
}

static Tensor patches_final(Tensor x, Tensor condition, int64_t out)
{
    int64_t D = dim(tensor_shape(x), -1);
    Layer   zero = { .zero = true };
    scope_open(x.graph, "final_layer");
    Tensor two = linear("adaLN_modulation.1", condition, 2 * D, zero);
    x = linear("linear", layernorm_modulate(x, two, 0, D, 1e-6f), out, zero);
    scope_close(x.graph);
    return x;
}

Tensor dit3d_patches(Tensor x, Tensor t, Tensor text, const Dit3d *m)
{
    const int64_t *p = m->patch.at;
    int64_t        channels = m->image_channels * (m->learn_sigma ? 2 : 1);
    Shape          volume = shape_with(tensor_shape(x), -1, channels);
    Graph         *g = x.graph;

    x = patch_embed("x_embedder.proj", x, m->width, &m->patch, (Layer){ 0 }); /* (B,L,D) */
    x = add_rows(x, positions(g, m));
    Tensor c = dit3d_time(t, m);
    Tensor y = linear("y_embedder.0", text, m->width, (Layer){ 0 });
    c = silu(add(c, linear("y_embedder.2", gelu(y), m->width, (Layer){ 0 }))); /* (B,D) */
    for (int64_t i = 0; i < m->depth; i++) {
        scope_open(g, "blocks.%d", (int)i);
        x = dit3d_block(x, c, m, patches_attention, true);
        scope_close(g);
    }
    x = patches_final(x, c, p[0] * p[1] * p[2] * channels);
    return unpatchify3d(x, volume, (int)p[0], (int)p[1], (int)p[2]);
}
