/* layers.h -- layers for model files: operators that create and name their weights.
 *
 * A layer takes its name first and creates `scope.name.weight` and so on, with the names, layouts
 * and starting values of the original programs. Every builder used in a model file notes its source
 * line, so that reports can name the line of the model that a byte belongs to.
 */
#ifndef MODELS_LAYERS_H
#define MODELS_LAYERS_H

#include "models/model.h"
#include "ops/builders.h"

typedef struct Layer { /* options of a layer; { 0 }: the defaults */
    bool   no_bias;
    bool   zero;      /* weight and bias start at 0 */
    bool   zero_bias; /* only the bias starts at 0 */
    float  deviation; /* weight starts as N(0, deviation^2), bias at 0; 0: as PyTorch */
    bool   xavier;    /* weight starts as U(+-sqrt(6 / (fan_in + fan_out))), bias at 0 */
    bool   kaiming;   /* weight starts as N(0, 2 / fan_out), bias at 0 */
    /* weight is (in, out), called `kernel`, and starts with variance 1/in, truncated at two
     * deviations (LeCun), bias at 0 */
    bool   flax;
    float  bias_deviation; /* bias starts as N(0, bias_deviation^2) */
    bool   pad_after;      /* convolutions: pads only on the right and below */
    Tensor onto;           /* linear layers, conv2d: the result is added to it; { 0 }: none */
    int    groups;         /* norms */
    float  eps;
} Layer;

/* Starting values of PyTorch's Linear and Conv: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for both. */
Init init_fan_in(int64_t fan_in);
/* Flax's lecun_normal: truncated at two deviations, with deviation 1/sqrt(fan_in) after that. */
Init init_lecun(int64_t fan_in);

Tensor  linear(const char *name, Tensor x, int64_t out, Layer how); /* (..., I) -> (..., O) */
/* Flax's DenseGeneral, also used for a convolution over extracted patches: the kernel's first n_in
 * axes, flattened, are the last axis of x; its other axes, flattened, the last of the result. */
Tensor  dense_general(const char *name, Tensor x, Shape kernel, int n_in, Layer how);
Tensor  conv2d(const char *name, Tensor x, int64_t out, int kernel, int stride, int pad, Layer how);
/* The end of a residual block: h + x, with a 1x1 convolution of x if the widths differ. */
Tensor  residual(const char *shortcut, Tensor x, Tensor h);
/* A 3x3 convolution with padding 1 of x, upsampled `up` times by repetition. */
Tensor  conv2d_up(const char *name, Tensor x, int64_t up, int64_t out);
/* A convolution over sequences with one tap, (out, in, 1) on disk: a linear layer over the last
 * axis. */
Tensor  conv1d(const char *name, Tensor x, int64_t out, Layer how);
/* (N,D,H,W,C) */
Tensor  conv3d(const char *name, Tensor x, int64_t out, int kernel, int pad, Layer how);
Tensor  conv_transpose2d(const char *name, Tensor x, int64_t out, int kernel, int stride, int pad,
                         Layer how);
/* A convolution whose stride equals its kernel, over images or volumes (patch has 2 or 3 axes), as
 * one product over extracted patches. (B,...,C) -> (B, tokens, out). */
Tensor  patch_embed(const char *name, Tensor x, int64_t out, const Ints *patch, Layer how);
Tensor  layer_norm(const char *name, Tensor x, float eps); /* with affine */
Tensor  flax_norm(const char *name, Tensor x, float eps);  /* the same, named `scale` and `bias` */
Tensor  norm_act(const char *name, Tensor x, Layer how, NormAct act); /* group norm with affine */
/* Batch norm with affine and PyTorch's running statistics (eps 1e-5, momentum 0.1), followed by
 * ReLU if asked. Normalises by the batch in training, by the running statistics in all other
 * phases. */
Tensor  batch_norm(const char *name, Tensor x, bool relu_after);
int64_t channels_of(Tensor x); /* its last axis; 1 for a poisoned tensor */
Tensor  skip(Tensor x);        /* a skip connection from the down path to the up path */

Tensor concat2(Tensor a, Tensor b); /* along channels */
Tensor upsample_nearest(Tensor x, int64_t factor);

/* Noise of a training step: a function of (seed, step, name, element), or a feed if the build
 * options ask for it (given_noise). */
Tensor noise_normal(Graph *graph, const char *name, Shape shape);
Tensor noise_steps(Graph *graph, const char *name, Shape shape, int64_t below);
/* x (B,...) with a share `rate` of its samples set to zero; as a feed, (B,1) factors 0 or 1. In
 * training only: all other phases use x unchanged. */
Tensor noise_keep(Tensor x, const char *name, float rate);

/* Noise schedules: the key `noise_schedule`, and tables of the cumulative products of 1 - beta. The
 * linear ones go from beta `first` to `last`; the cosine one (Nichol and Dhariwal 2021) ignores
 * them. */
typedef enum NoiseSchedule { NOISE_COSINE, NOISE_LINEAR, NOISE_SCALED_LINEAR } NoiseSchedule;
extern const char *const noise_schedules[];
double *alpha_bar_table(Pool *pool, NoiseSchedule kind, int64_t steps, double first, double last);
Tensor  alpha_bar_constant(Graph *graph, const double *table, int64_t steps);
/* Every step of a chain divides by the remaining shares of image and noise, so neither may be 0. */
Err     noise_schedule_check(NoiseSchedule kind, int64_t steps, double first, double last);
/* Checks that the sampler is one of `kinds` (1 << SamplerKind, or-ed), and that guidance is used
 * only by systems with a text. */
Err sampler_check(const SamplerConfig *sampler, const char *system, unsigned kinds, bool guided);
/* A chain has at most as many steps as there are timesteps. Checked when samples are drawn, so that
 * a model with few timesteps can be trained with the default sampler. */
Err sampler_steps_check(const char *system, int64_t steps, int64_t timesteps);
/* Timestep i (0 .. of - 1) of a chain of `of` steps over `steps` timesteps, both ends included. */
int64_t respaced_time(int64_t steps, int64_t of, int64_t i);

/* Cumulative products of (1 - beta) as a constant table. */
Tensor schedule_linear(Graph *graph, int64_t steps, double first, double last);

/* In model files every builder call notes its line; calls in layers.c keep that of their caller. */
#ifndef LAYERS_NO_SOURCE
static inline Tensor at_tensor(Tensor t, const char *file, int line)
{
    t.graph->source = (Source){ file, line };
    return t;
}
#define AT_TENSOR(t) at_tensor((t), __FILE__, __LINE__)
#define AT_GRAPH(g)  at_line((g), __FILE__, __LINE__)
#include "models/source_lines.h"
#endif

#endif
