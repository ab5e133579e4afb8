/* stdiff_motion.c -- STDiff: the motion of the observed frames, and its extrapolation.
 *
 *   observed (N,To,H,W,C) -> differences of frames -> encoder -> ConvGRU -> motion (N,h,w,Cm)
 *   dm = f(m) dt + g(m) o dW                     a Stratonovich equation, diagonal noise
 *
 * The equation is solved by Euler-Heun with fixed sub-steps (Kloeden and Platen 1992). Its steps
 * are ordinary nodes: gradients flow through them, and a plan may recompute f and g.
 */
#include "models/stdiff.h"
#include "models/layers.h"

#include <math.h>
#include <stdio.h>

int64_t stdiff_substeps(const Stdiff *m) { return llround(1 / m->sde_dt); }

Shape stdiff_motion_shape(const Stdiff *m, int64_t n)
{
    int64_t downs = m->motion_downs;
    return SHAPE(n, m->image.at[0] >> downs, m->image.at[1] >> downs, m->motion_channels << downs);
}

/* 5x5 convolutions, each doubling the channels and halving the map, then a 7x7 convolution. */
static Tensor motion_encoder(Tensor x, const Stdiff *m)
{
    char    name[16];
    int64_t width = m->motion_channels;
    scope_open(x.graph, "motion_encoder.model");
    for (int64_t i = 0; i < m->motion_downs; i++, width *= 2) {
        snprintf(name, sizeof name, "%d", (int)(3 * i));
        x = max_pool2d(relu(conv2d(name, x, width, 5, 1, 2, (Layer){ 0 })));
    }
    snprintf(name, sizeof name, "%d", (int)(3 * m->motion_downs));
    x = relu(conv2d(name, x, width, 7, 1, 3, (Layer){ 0 }));
    scope_close(x.graph);
    return x;
}

/* h' = (1 - u) h + g. The candidate g is not multiplied by u, as published. */
static Tensor conv_gru(Tensor x, Tensor h)
{
    int64_t width = dim(tensor_shape(x), -1);
    Tensor  gates[2]; /* u, r */
    scope_open(x.graph, "conv_gru_cell");
    split(gates, 2, sigmoid(conv3("GateConv", concat2(x, h), 2 * width)), -1);
    Tensor both = concat2(x, mul(gates[1], h));
    Tensor g = tanh_of(conv3("NewStateConv", both, width));
    h = add(sub(h, mul(gates[0], h)), g);
    scope_close(x.graph);
    return h;
}

Tensor stdiff_context(Tensor observed, const Stdiff *m)
{
    Shape   s = tensor_shape(observed);
    int64_t n = s.dim[0], moves = m->observed - 1;
    Tensor  code[STDIFF_MAX_FRAMES];
    Graph  *g = observed.graph;
    scope_open(g, "tde_model");
    Tensor x = sub(slice(observed, 1, 1, m->observed), slice(observed, 1, 0, moves));
    x = motion_encoder(reshape(x, SHAPE(n * moves, s.dim[2], s.dim[3], s.dim[4])), m);
    Shape one = stdiff_motion_shape(m, n);
    x = reshape(x, SHAPE(n, moves, one.dim[1], one.dim[2], one.dim[3]));
    split(code, (int)moves, x, 1);
    Tensor h = affine(reshape(code[0], one), 0, 0);
    for (int64_t i = 0; i < moves; i++)
        h = conv_gru(reshape(code[i], one), h);
    scope_close(g);
    return h;
}

/* conv, [tanh, conv] x layers, tanh, conv: f, or g before its last tanh. */
static Tensor field(const char *name, Tensor x, const Stdiff *m)
{
    char    index[16];
    int64_t width = dim(tensor_shape(x), -1);
    scope_open(x.graph, "%s.net", name);
    for (int64_t i = 0; i <= m->sde_layers; i++) {
        snprintf(index, sizeof index, "%d", (int)(2 * i));
        x = tanh_of(conv3(index, x, width));
    }
    snprintf(index, sizeof index, "%d", (int)(2 * m->sde_layers + 2));
    x = conv2d(index, x, width, 3, 1, 1, (Layer){ .zero = true });
    scope_close(x.graph);
    return x;
}

/* N(0,1) for sub-step i: a slice of the given noise, or drawn for each sub-step on its own, so that
 * a plan can recompute it. */
static Tensor sde_noise(Graph *g, Tensor given, int64_t i, Shape shape)
{
    char name[32];
    if (given.id != TENSOR_NONE)
        return reshape(slice(given, 0, i, i + 1), shape);
    snprintf(name, sizeof name, "sde.%d", (int)i);
    return noise_normal(g, name, shape);
}

/* One step: a = g(m) dW; b = g(m + a) dW; m <- m + f(m) dt + (a + b) / 2, with dW = sqrt(dt) z. The
 * state is fp32 in every precision: it sums many small steps. */
static Tensor euler_heun(Tensor state, Tensor z, const Stdiff *m)
{
    float  dt = (float)m->sde_dt, root = (float)sqrt(m->sde_dt);
    Tensor here = cast(state, state.graph->compute); /* f and g read the same rounded copy */
    Tensor a = mul(tanh_of(field("diff_unet_g", here, m)), z);
    Tensor there = weighted_sum(state, 1, a, root);
    Tensor b = mul(tanh_of(field("diff_unet_g", there, m)), z);
    state = weighted_sum(state, 1, field("diff_unet_f", here, m), dt);
    return weighted_sum(state, 1, add(a, b), root / 2);
}

Tensor stdiff_advance(Tensor motion, Tensor noise, int64_t first, const Stdiff *m)
{
    Graph *g = motion.graph;
    Shape  shape = tensor_shape(motion);
    motion = cast(motion, F32);
    scope_open(g, "tde_model.diff_unet");
    for (int64_t i = 0; i < stdiff_substeps(m); i++)
        motion = euler_heun(motion, sde_noise(g, noise, first + i, shape), m);
    scope_close(g);
    return motion;
}
