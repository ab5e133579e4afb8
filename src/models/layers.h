/* layers.h -- what models are written in: operators that make and name their own weights.
 *
 * A layer takes its name first and makes `scope.name.weight` and so on, with the names, layouts and
 * starting values of the originals. Every builder used in a model file notes the line it stands on,
 * so that reports can say which line of the model a byte belongs to.
 */
#ifndef MODELS_LAYERS_H
#define MODELS_LAYERS_H

#include "models/model.h"
#include "ops/builders.h"

typedef struct Layer {           /* how a layer differs from the plain one; { 0 } is plain */
    bool  no_bias;
    bool  zero;                  /* weight and bias start at 0 */
    bool  zero_bias;             /* only the bias does */
    float deviation;  /* weight starts as N(0, deviation^2), bias at 0; 0: PyTorch's rule */
    bool  flax;                  /* weight is (in, out), called `kernel`, N(0, 1/in); bias at 0 */
    bool  pad_after;             /* convolutions: only right and below */
    Tensor onto;                 /* linear layers, conv2d: the result is added to it; { 0 }: none */
    int   groups;                /* norms */
    float eps;
} Layer;

/* Starting values of PyTorch's Linear and Conv: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for both. */
Init   init_fan_in(int64_t fan_in);

Tensor linear(const char *name, Tensor x, int64_t out, Layer how);  /* (..., I) -> (..., O) */
/* Flax's DenseGeneral, also a convolution over patches already cut: the kernel's first n_in axes
 * are the last axis of x, the others the last of the result, flat in both. */
Tensor dense_general(const char *name, Tensor x, Shape kernel, int n_in, Layer how);
Tensor conv2d(const char *name, Tensor x, int64_t out, int kernel, int stride, int pad, Layer how);
/* The end of a residual block: h + x; a 1x1 convolution makes x as wide as h where it is not. */
Tensor residual(const char *shortcut, Tensor x, Tensor h);
/* A 3x3 convolution with padding 1 of x made `up` times as large by repetition. */
Tensor conv2d_up(const char *name, Tensor x, int64_t up, int64_t out);
/* A one-tap convolution over sequences, (out, in, 1) on disk: a linear layer over the last axis. */
Tensor conv1d(const char *name, Tensor x, int64_t out, Layer how);
/* (N,D,H,W,C) */
Tensor conv3d(const char *name, Tensor x, int64_t out, int kernel, int pad, Layer how);
Tensor conv_transpose2d(const char *name, Tensor x, int64_t out, int kernel, int stride, int pad,
                        Layer how);
/* A convolution whose stride is its kernel, over images or volumes (as patch has 2 or 3 axes): one
 * product over cut-out patches. (B,...,C) -> (B, tokens, out). */
Tensor patch_embed(const char *name, Tensor x, int64_t out, const Ints *patch, Layer how);
Tensor layer_norm(const char *name, Tensor x, float eps);  /* with affine */
Tensor flax_norm(const char *name, Tensor x, float eps);  /* the same, `scale` and `bias` */
Tensor norm_act(const char *name, Tensor x, Layer how, NormAct act);  /* group norm with affine */
/* Batch norm with affine and PyTorch's running statistics (eps 1e-5, momentum 0.1), ReLU after it
 * if asked: normalises by the batch in training, by the running statistics in every other part. */
Tensor batch_norm(const char *name, Tensor x, bool relu_after);
int64_t channels_of(Tensor x);   /* its last axis; 1 where a misuse has been noted already */
Tensor skip(Tensor x);           /* pushed by the down path for the up path */

Tensor concat2(Tensor a, Tensor b);                                  /* along channels */
Tensor upsample_nearest(Tensor x, int64_t factor);

/* Noise of a training step: drawn from (seed, step, name, element), or fed when the graph says
 * so. */
Tensor noise_normal(Graph *graph, const char *name, Shape shape);
Tensor noise_steps(Graph *graph, const char *name, Shape shape, int64_t below);
/* x (B,...) with whole samples zeroed, a share `rate` of them; fed as (B,1) factors 0 or 1. In
 * training only: every other part has x as it is. */
Tensor noise_keep(Tensor x, const char *name, float rate);

/* Noise schedules: the key `noise_schedule`, and the running products of 1 - beta they mean. The
 * last two go from beta `first` to `last`; the cosine one (Nichol and Dhariwal 2021) does not use
 * them. */
typedef enum NoiseSchedule { NOISE_COSINE, NOISE_LINEAR, NOISE_SCALED_LINEAR } NoiseSchedule;
extern const char *const noise_schedules[];
double *alpha_bar_table(Pool *pool, NoiseSchedule kind, int64_t steps, double first, double last);
Tensor  alpha_bar_constant(Graph *graph, const double *table, int64_t steps);
/* Every step of a chain divides by what is left of image and noise: neither may be 0. */
Err     noise_schedule_check(NoiseSchedule kind, int64_t steps, double first, double last);
/* What a sampler may be: one of `kinds` (1 << SamplerKind, or-ed); guided only where there is a
 * text to leave out. */
Err     sampler_check(const SamplerConfig *sampler, const char *system, unsigned kinds,
                      bool guided);
/* As many steps as there are times. Asked when samples are drawn: a model of a few times may be
 * trained without a thought for them. */
Err     sampler_steps_check(const char *system, int64_t steps, int64_t timesteps);
/* Time number i (0 .. of - 1) of a chain of `of` steps through `steps` times, both ends kept. */
int64_t respaced_time(int64_t steps, int64_t of, int64_t i);

/* Cumulative products of (1 - beta) as a constant table. */
Tensor schedule_linear(Graph *graph, int64_t steps, double first, double last);

/* Model files note the line they stand on with every builder call; layers.c keeps its caller's. */
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
