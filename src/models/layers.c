/* layers.c -- layers that make and name their own weights. */
#define LAYERS_OWN_LINES
#include "models/layers.h"

#include "base/random.h"
#include "ops/optim.h"

#include <math.h>
#include <stdlib.h>

Init init_fan_in(int64_t fan_in)
{
    return (Init){ .kind = INIT_UNIFORM, .scale = (float)(1 / sqrt((double)fan_in)) };
}

static Init layer_init(Layer how, int64_t fan_in, bool bias)
{
    if (how.zero || (bias && how.deviation > 0))
        return (Init){ .kind = INIT_ZEROS };
    if (how.deviation > 0)
        return (Init){ .kind = INIT_NORMAL, .scale = how.deviation };
    return init_fan_in(fan_in);
}

static Tensor layer_bias(Graph *graph, int64_t out, int64_t fan_in, Layer how)
{
    return how.no_bias ? tensor_none(graph) : param_add(graph, "bias", SHAPE(out), layer_init(how, fan_in, true));
}

Tensor linear(const char *name, Tensor x, int64_t out, Layer how)
{
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1);
    scope_open(x.graph, "%s", name);
    Tensor w = param_add(x.graph, how.flax ? "kernel" : "weight", how.flax ? SHAPE(in, out) : SHAPE(out, in),
                         layer_init(how, in, false));
    x = linear_op(x, w, layer_bias(x.graph, out, in, how), (LinearAttr){ .in_out = how.flax });
    scope_close(x.graph);
    return x;
}

Tensor conv2d(const char *name, Tensor x, int64_t out, int kernel, int stride, int pad, Layer how)
{
    static const int taps_first[] = { 2, 3, 1, 0 };      /* (O,I,KH,KW) on disk, (KH,KW,I,O) here */
    if (!tensor_ok(x))
        return x;
    int64_t in = dim(tensor_shape(x), -1), fan_in = in * kernel * kernel;
    scope_open(x.graph, "%s", name);
    Tensor w = param_add_permuted(x.graph, "weight", SHAPE(out, in, kernel, kernel), taps_first,
                                  layer_init(how, fan_in, false));
    x = conv_op(x, w, layer_bias(x.graph, out, fan_in, how), conv_attr(stride, pad));
    scope_close(x.graph);
    return x;
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

Tensor skip(Tensor x)
{
    return tensor_class(x, CLASS_SKIPS);
}

Tensor concat2(Tensor a, Tensor b)
{
    return concat((const Tensor[]){ a, b }, 2, -1);
}

Tensor upsample_nearest(Tensor x, int64_t factor)
{
    Shape s = tensor_shape(x);
    return tensor_ok(x) ? resize(x, factor * s.dim[1], factor * s.dim[2], RESIZE_NEAREST) : x;
}

Tensor noise_normal(Graph *graph, const char *name, Shape shape)
{
    Tensor noise = graph->given_noise ? feed(graph, name, F32, shape)
                                      : random_normal(graph_counters(graph), random_stream(name), F32, shape);
    return tensor_class(noise, CLASS_INPUTS);
}

Tensor noise_steps(Graph *graph, const char *name, Shape shape, int64_t below)
{
    Tensor steps = graph->given_noise ? feed(graph, name, I32, shape)
                                      : random_ints(graph_counters(graph), random_stream(name), (int32_t)below, shape);
    return tensor_class(steps, CLASS_INPUTS);
}

static Tensor schedule_table(Graph *graph, int64_t steps, double (*beta)(int64_t, int64_t, double, double), double a, double b)
{
    float *table = NEWN(graph->pool, float, steps);
    double product = 1;
    for (int64_t i = 0; i < steps; i++)
        table[i] = (float)(product *= 1 - beta(i, steps, a, b));
    return constant_add(graph, "alpha_bar", F32, SHAPE(steps), table, CLASS_CONSTANTS);
}

static double beta_linear(int64_t i, int64_t steps, double first, double last)
{
    return steps > 1 ? first + (last - first) * (double)i / (double)(steps - 1) : first;
}

static double beta_cosine(int64_t i, int64_t steps, double a, double b)
{
    (void)a;
    (void)b;
    double now = cos(((double)i / (double)steps + 0.008) / 1.008 * 1.5707963267948966);
    double next = cos(((double)(i + 1) / (double)steps + 0.008) / 1.008 * 1.5707963267948966);
    double beta = 1 - next * next / (now * now);
    return beta < 0.999 ? beta : 0.999;
}

Tensor schedule_linear(Graph *graph, int64_t steps, double first, double last)
{
    return schedule_table(graph, steps, beta_linear, first, last);
}

Tensor schedule_cosine(Graph *graph, int64_t steps)
{
    return schedule_table(graph, steps, beta_cosine, 0, 0);
}
