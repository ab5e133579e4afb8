/* layers.c -- layers that create and name their weights, noise, and noise schedules. */
#define LAYERS_NO_SOURCE
#include "models/layers.h"

#include "base/random.h"
#include "ops/optimizer/optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Init init_fan_in(int64_t fan_in)
{
    return (Init){ .kind = INIT_UNIFORM, .scale = (float)(1 / sqrt((double)fan_in)) };
}

Init init_lecun(int64_t fan_in)
{
    const double kept = 0.87962566103423978; /* deviation of N(0, 1) truncated at two deviations */
    return (Init){ .kind = INIT_TRUNCATED, .scale = (float)(1 / sqrt((double)fan_in) / kept) };
}

/* Numbers that each output is summed from, and that each input goes to. */
typedef struct Fan {
    int64_t in, out;
} Fan;

static Init weight_init(Layer how, Fan fan)
{
    if (how.zero)
        return (Init){ .kind = INIT_ZEROS };
    if (how.deviation > 0)
        return (Init){ .kind = INIT_NORMAL, .scale = how.deviation };
    if (how.xavier)
        return (Init){ .kind = INIT_UNIFORM, .scale = (float)sqrt(6 / (double)(fan.in + fan.out)) };
    if (how.kaiming)
        return (Init){ .kind = INIT_NORMAL, .scale = (float)sqrt(2 / (double)fan.out) };
    if (how.flax)
        return init_lecun(fan.in);
    return init_fan_in(fan.in);
}

static Init bias_init(Layer how, Fan fan)
{
    if (how.bias_deviation > 0)
        return (Init){ .kind = INIT_NORMAL, .scale = how.bias_deviation };
    if (how.zero || how.zero_bias || how.deviation > 0 || how.xavier || how.kaiming || how.flax)
        return (Init){ .kind = INIT_ZEROS };
    return init_fan_in(fan.in);
}

static Tensor layer_bias(Graph *graph, int64_t out, Fan fan, Layer how)
{
    return how.no_bias ? tensor_none(graph)
                       : param_add(graph, "bias", SHAPE(out), bias_init(how, fan));
}

static Tensor layer_product(Tensor x, Tensor w, Tensor bias, Layer how)
{
    LinearAttr attr = { .in_out = how.flax };
    return how.onto.graph ? linear_onto(x, w, bias, how.onto, attr) : linear_op(x, w, bias, attr);
}

Tensor linear(const char *name, Tensor x, int64_t out, Layer how)
{
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1);
    Fan     fan = { in, out };
    scope_open(x.graph, "%s", name);
    Tensor w = param_add(x.graph, how.flax ? "kernel" : "weight",
                         how.flax ? SHAPE(in, out) : SHAPE(out, in), weight_init(how, fan));
    x = layer_product(x, w, layer_bias(x.graph, out, fan, how), how);
    scope_close(x.graph);
    return x;
}

Tensor dense_general(const char *name, Tensor x, Shape kernel, int n_in, Layer how)
{
    if (!tensor_ok(x))
        return x;
    int64_t in = 1, out = 1;
    Shape   outs = { 0 };
    for (int i = 0; i < kernel.rank; i++) {
        *(i < n_in ? &in : &out) *= kernel.dim[i];
        if (i >= n_in)
            outs.dim[outs.rank++] = kernel.dim[i];
    }
    /* a convolution's kernel, (rows, columns, in, out), counts its taps on both sides; the axes of
     * any other are flattened first */
    Fan fan = { in, n_in == 3 ? out * kernel.dim[0] * kernel.dim[1] : out };
    scope_open(x.graph, "%s", name);
    Tensor w = param_add(x.graph, "kernel", kernel, weight_init(how, fan));
    Tensor b = param_add(x.graph, "bias", outs, bias_init(how, fan));
    x = layer_product(x, reshape(w, SHAPE(in, out)), b, how);
    scope_close(x.graph);
    return x;
}

Tensor conv2d(const char *name, Tensor x, int64_t out, int kernel, int stride, int pad, Layer how)
{
    static const int taps_first[] = { 2, 3, 1, 0 }; /* (O,I,KH,KW) on disk, (KH,KW,I,O) here */
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1);
    Fan     fan = { in * kernel * kernel, out * kernel * kernel };
    scope_open(x.graph, "%s", name);
    Tensor   w = param_add_permuted(x.graph, "weight", SHAPE(out, in, kernel, kernel), taps_first,
                                    weight_init(how, fan));
    ConvAttr attr = conv_attr(stride, pad);
    if (how.pad_after)
        memset(attr.pad_lo, 0, sizeof attr.pad_lo);
    Tensor bias = layer_bias(x.graph, out, fan, how);
    x = how.onto.graph ? conv_onto(x, w, bias, how.onto, attr) : conv_op(x, w, bias, attr);
    scope_close(x.graph);
    return x;
}

Tensor residual(const char *shortcut, Tensor x, Tensor h)
{
    if (!tensor_ok(x) || !tensor_ok(h))
        return add(x, h);
    int64_t width = dim(tensor_shape(h), -1);
    return dim(tensor_shape(x), -1) == width
               ? add(x, h)
               : conv2d(shortcut, x, width, 1, 1, 0, (Layer){ .onto = h });
}

Tensor conv2d_up(const char *name, Tensor x, int64_t up, int64_t out)
{
    static const int taps_first[] = { 2, 3, 1, 0 };
    if (!tensor_ok(x))
        return x;
    Layer   how = { 0 };
    int64_t in = dim(tensor_shape(x), -1);
    Fan     fan = { in * 9, out * 9 };
    if (!up_conv_pays(x.graph, in, out, up))
        return conv2d(name, upsample_nearest(x, up), out, 3, 1, 1, how);
    scope_open(x.graph, "%s", name);
    Tensor w = param_add_permuted(x.graph, "weight", SHAPE(out, in, 3, 3), taps_first,
                                  weight_init(how, fan));
    x = up_conv(x, w, layer_bias(x.graph, out, fan, how), up);
    scope_close(x.graph);
    return x;
}

Tensor conv1d(const char *name, Tensor x, int64_t out, Layer how)
{
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1);
    Fan     fan = { in, out };
    scope_open(x.graph, "%s", name);
    Tensor w = param_add(x.graph, "weight", SHAPE(out, in, 1), weight_init(how, fan));
    x = layer_product(x, reshape(w, SHAPE(out, in)), layer_bias(x.graph, out, fan, how), how);
    scope_close(x.graph);
    return x;
}

Tensor conv3d(const char *name, Tensor x, int64_t out, int kernel, int pad, Layer how)
{
    static const int taps_first[] = { 2, 3, 4, 1, 0 }; /* (O,I,KD,KH,KW) on disk */
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1), taps = (int64_t)kernel * kernel * kernel;
    Fan     fan = { in * taps, out * taps };
    scope_open(x.graph, "%s", name);
    Tensor   w = param_add_permuted(x.graph, "weight", SHAPE(out, in, kernel, kernel, kernel),
                                    taps_first, weight_init(how, fan));
    ConvAttr attr = { .stride = { 1, 1, 1 },
                      .pad_lo = { pad, pad, pad },
                      .pad_hi = { pad, pad, pad } };
    x = conv_op(x, w, layer_bias(x.graph, out, fan, how), attr);
    scope_close(x.graph);
    return x;
}

Tensor conv_transpose2d(const char *name, Tensor x, int64_t out, int kernel, int stride, int pad,
                        Layer how)
{
    static const int taps_first[] = { 2, 3, 1, 0 }; /* (I,O,KH,KW) on disk, (KH,KW,O,I) here */
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1);
    /* PyTorch's rule for transposed convolutions, which goes by the axes on disk */
    Fan     fan = { out * kernel * kernel, in * kernel * kernel };
    scope_open(x.graph, "%s", name);
    Tensor w = param_add_permuted(x.graph, "weight", SHAPE(in, out, kernel, kernel), taps_first,
                                  weight_init(how, fan));
    x = conv_transpose_op(x, w, layer_bias(x.graph, out, fan, how), conv_attr(stride, pad));
    scope_close(x.graph);
    return x;
}

Tensor patch_embed(const char *name, Tensor x, int64_t out, const Ints *patch, Layer how)
{
    /* (O,I,KH,KW) on disk, (O,KH,KW,I) here */
    static const int channels_last[2][5] = { { 0, 2, 3, 1 }, { 0, 2, 3, 4, 1 } };
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1), volume = in;
    Shape   disk = SHAPE(out, in);
    for (int i = 0; i < patch->n; i++)
        volume *= disk.dim[disk.rank++] = patch->at[i];
    Fan fan = { volume, out * volume / in };
    scope_open(x.graph, "%s", name);
    Tensor w = param_add_permuted(x.graph, "weight", disk, channels_last[patch->n == 3],
                                  weight_init(how, fan));
    x = cast(x, tensor_type(w)); /* before patchify: what the weight gradient keeps is smaller */
    x = patch->n == 3 ? patchify3d(x, (int)patch->at[0], (int)patch->at[1], (int)patch->at[2])
                      : patchify2d(x, (int)patch->at[0], (int)patch->at[1]);
    x = linear_op(x, reshape(w, SHAPE(out, volume)), layer_bias(x.graph, out, fan, how),
                  (LinearAttr){ 0 });
    scope_close(x.graph);
    return x;
}

static Tensor norm_named(const char *name, const char *scale, Tensor x, float eps)
{
    if (!tensor_ok(x))
        return x;
    int64_t width = dim(tensor_shape(x), -1);
    scope_open(x.graph, "%s", name);
    Tensor w = param_add(x.graph, scale, SHAPE(width), (Init){ .kind = INIT_ONES });
    Tensor b = param_add(x.graph, "bias", SHAPE(width), (Init){ .kind = INIT_ZEROS });
    x = layernorm(x, w, b, eps);
    scope_close(x.graph);
    return x;
}

Tensor layer_norm(const char *name, Tensor x, float eps)
{
    return norm_named(name, "weight", x, eps);
}
Tensor flax_norm(const char *name, Tensor x, float eps)
{
    return norm_named(name, "scale", x, eps);
}

Tensor norm_act(const char *name, Tensor x, Layer how, NormAct act)
{
    if (!tensor_ok(x))
        return x;
    int64_t width = dim(tensor_shape(x), -1);
    scope_open(x.graph, "%s", name);
    Tensor w = param_add(x.graph, "weight", SHAPE(width), (Init){ .kind = INIT_ONES });
    Tensor b = param_add(x.graph, "bias", SHAPE(width), (Init){ .kind = INIT_ZEROS });
    x = groupnorm(x, w, b, how.groups, how.eps, act);
    scope_close(x.graph);
    return x;
}

Tensor batch_norm(const char *name, Tensor x, bool relu_after)
{
    const float eps = 1e-5f, momentum = 0.1f;
    if (!tensor_ok(x))
        return x;
    Graph  *g = x.graph;
    int64_t width = dim(tensor_shape(x), -1);
    float  *ones = NEWN(g->pool, float, width);
    for (int64_t i = 0; i < width; i++)
        ones[i] = 1;
    scope_open(g, "%s", name);
    Tensor w = param_add(g, "weight", SHAPE(width), (Init){ .kind = INIT_ONES });
    Tensor b = param_add(g, "bias", SHAPE(width), (Init){ .kind = INIT_ZEROS });
    Tensor mean = state_add(g, "running_mean", F32, SHAPE(width), CLASS_CONSTANTS, true);
    Tensor var = state_add_from(g, "running_var", F32, SHAPE(width), ones, CLASS_CONSTANTS, true);
    Tensor batches = state_add(g, "num_batches_tracked", I32, SHAPE(1), CLASS_CONSTANTS, true);
    if (g->phase == PHASE_MICRO) {
        Tensor statistics, y = batchnorm(x, w, b, eps, relu_after, &statistics);
        batchnorm_track(x, statistics, mean, var, batches, eps, momentum);
        x = y;
    } else {
        x = batchnorm_eval(x, w, b, mean, var, eps, relu_after);
    }
    scope_close(g);
    return x;
}

int64_t channels_of(Tensor x) { return tensor_ok(x) ? dim(tensor_shape(x), -1) : 1; }

Tensor skip(Tensor x) { return tensor_class(x, CLASS_SKIPS); }

Tensor concat2(Tensor a, Tensor b) { return concat((const Tensor[]){ a, b }, 2, -1); }

Tensor upsample_nearest(Tensor x, int64_t factor)
{
    Shape s = tensor_shape(x);
    return tensor_ok(x) ? resize(x, factor * s.dim[1], factor * s.dim[2], RESIZE_NEAREST) : x;
}

Tensor noise_normal(Graph *graph, const char *name, Shape shape)
{
    Tensor noise = graph->build->given_noise
                       ? feed(graph, name, F32, shape)
                       : random_normal(graph_counters(graph), random_stream(name), F32, shape);
    return tensor_class(noise, CLASS_INPUTS);
}

Tensor noise_steps(Graph *graph, const char *name, Shape shape, int64_t below)
{
    Tensor steps = graph->build->given_noise
                       ? feed(graph, name, I32, shape)
                       : random_ints(graph_counters(graph), random_stream(name), (int32_t)below,
                                     shape);
    return tensor_class(steps, CLASS_INPUTS);
}

Tensor noise_keep(Tensor x, const char *name, float rate)
{
    if (!tensor_ok(x) || x.graph->phase != PHASE_MICRO)
        return x;
    if (!x.graph->build->given_noise)
        return drop_samples(x, graph_counters(x.graph), random_stream(name), rate);
    Tensor keep = feed(x.graph, name, F32, SHAPE(tensor_shape(x).dim[0], 1));
    return mul_rows(x, tensor_class(keep, CLASS_INPUTS));
}

const char *const noise_schedules[] = { "cosine", "linear", "scaled_linear", NULL };

static double beta_at(NoiseSchedule kind, int64_t i, int64_t steps, double first, double last)
{
    if (kind == NOISE_COSINE) {
        double now = cos(((double)i / (double)steps + 0.008) / 1.008 * 1.5707963267948966);
        double next = cos(((double)(i + 1) / (double)steps + 0.008) / 1.008 * 1.5707963267948966);
        return fmin(1 - next * next / (now * now), 0.999);
    }
    double fraction = steps > 1 ? (double)i / (double)(steps - 1) : 0;
    if (kind == NOISE_LINEAR)
        return first + (last - first) * fraction;
    double root = sqrt(first) + (sqrt(last) - sqrt(first)) * fraction;
    return root * root;
}

double *alpha_bar_table(Pool *pool, NoiseSchedule kind, int64_t steps, double first, double last)
{
    double *table = NEWN(pool, double, steps), product = 1;
    for (int64_t i = 0; i < steps; i++)
        table[i] = product *= 1 - beta_at(kind, i, steps, first, last);
    return table;
}

Err noise_schedule_check(NoiseSchedule kind, int64_t steps, double first, double last)
{
    double left = 1;
    if (kind != NOISE_COSINE && !(first > 0))
        return fail(E_USAGE, "model.beta_start: %g; it must be above 0", first);
    if (kind != NOISE_COSINE && !(last > 0 && last < 1))
        return fail(E_USAGE, "model.beta_end: %g; it must be above 0 and below 1", last);
    for (int64_t i = 0; i < steps; i++)
        left *= 1 - beta_at(kind, i, steps, first, last);
    if (left < 1e-30) /* still within the range of fp32 */
        return fail(E_USAGE,
                    "model.beta_%s: %g over %lld timesteps leaves only %.1e of an image; use a "
                    "smaller beta or fewer timesteps",
                    first > last ? "start" : "end", fmax(first, last), (long long)steps, left);
    return OK;
}

Err sampler_check(const SamplerConfig *sampler, const char *system, unsigned kinds, bool guided)
{
    static const char *const words[] = { "ddpm", "ddim", "recurrent" };
    char                     can[64] = "";
    for (int i = 0; i < 3; i++)
        if (kinds >> i & 1)
            snprintf(can + strlen(can), sizeof can - strlen(can), "%s%s", *can ? " or " : "",
                     words[i]);
    if (!(kinds >> sampler->kind & 1))
        return fail(E_USAGE, "sampler.kind: %s samples by %s, not by %s", system, can,
                    words[sampler->kind]);
    if (!guided && sampler->guidance != 1)
        return fail(E_USAGE,
                    "sampler.guidance: %s has no text, so it cannot be guided; leave it "
                    "at 1",
                    system);
    if (sampler->eta > 0 && sampler->kind != SAMPLER_DDIM)
        return fail(E_USAGE,
                    "sampler.eta: only ddim adds a share of the noise; leave it at 0, or set "
                    "sampler.kind=ddim");
    return OK;
}

Err sampler_steps_check(const char *system, int64_t steps, int64_t timesteps)
{
    if (steps > timesteps)
        return fail(E_USAGE,
                    "sampler.steps: %s samples in at most %lld steps (model.timesteps), "
                    "not %lld",
                    system, (long long)timesteps, (long long)steps);
    return OK;
}

Tensor alpha_bar_constant(Graph *graph, const double *table, int64_t steps)
{
    float *rounded = NEWN(graph->pool, float, steps);
    for (int64_t i = 0; i < steps; i++)
        rounded[i] = (float)table[i];
    return constant_add(graph, "alpha_bar", F32, SHAPE(steps), rounded, CLASS_CONSTANTS);
}

int64_t respaced_time(int64_t steps, int64_t of, int64_t i)
{
    return of < 2 ? 0 : (int64_t)nearbyint((double)i * (double)(steps - 1) / (double)(of - 1));
}

Tensor schedule_linear(Graph *graph, int64_t steps, double first, double last)
{
    return alpha_bar_constant(graph, alpha_bar_table(graph->pool, NOISE_LINEAR, steps, first, last),
                              steps);
}
