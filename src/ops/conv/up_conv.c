/* up_conv.c -- a 3x3 convolution of an upsampled map: rules. */
#include "ops/conv/up_conv.h"

#include "ops/elementwise/basic.h"
#include "ops/linear/linear.h"
#include "ops/operator.h"

int64_t up_conv_factor(const Node *n)
{
    return n->op == &op_up_conv_grad_w ? ATTR(n, UpConvWAttr)->up : ATTR(n, UpConvAttr)->up;
}

static Err up_conv_shape(Node *n)
{
    int64_t up = ATTR(n, UpConvAttr)->up;
    Shape   x = in_shape(n, 0), w = in_shape(n, 1);
    if (x.rank != 4 || w.rank != 4 || w.dim[0] != 3 || w.dim[1] != 3 || w.dim[2] != x.dim[3])
        return fail(E_SHAPE, "up_conv: a weight of %s does not take %s", shape_text(w),
                    shape_text(x));
    if (up < 2 || up > UP_CONV_MAX)
        return fail(E_SHAPE, "up_conv: maps are upsampled 2 to %d times, not %lld times",
                    UP_CONV_MAX, (long long)up);
    if (in_type(n, 0) != in_type(n, 1) || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "up_conv: input is %s, weight %s", type_name(in_type(n, 0)),
                    type_name(in_type(n, 1)));
    if (in_given(n, 2) && shape_count(in_shape(n, 2)) != w.dim[3])
        return fail(E_SHAPE, "up_conv: bias %s does not match %lld channels",
                    shape_text(in_shape(n, 2)), (long long)w.dim[3]);
    if (x.dim[1] > INT32_MAX / up || x.dim[2] > INT32_MAX / up)
        return fail(E_SHAPE, "up_conv: %s times %lld is too large", shape_text(x), (long long)up);
    out_set(n, 0, in_type(n, 0), SHAPE(x.dim[0], up * x.dim[1], up * x.dim[2], w.dim[3]));
    return OK;
}

/* The arithmetic of the sub-pixel form. */
static Cost up_conv_cost(const Node *n)
{
    ConvDesc d = up_conv_desc(n);
    int64_t  up = up_conv_factor(n);
    double   small = (double)d.n * (double)(d.in[1] / up) * (double)(d.in[2] / up);
    return (Cost){ .flops = 2 * small * (double)((up + 2) * (up + 2)) * (double)(d.ci * d.co),
                   .bytes = node_bytes(n) };
}

static void up_conv_grad(Grad *g)
{
    UpConvAttr attr = *ATTR(g->node, UpConvAttr);
    Tensor     x = grad_in(g, 0), w = grad_in(g, 1), dy = grad_dy(g, 0);
    Tensor     none = tensor_none(g->graph);
    bool       both = grad_wants(g, 1) && grad_wants(g, 2) && tensor_shape(grad_in(g, 2)).rank == 1;
    if (!both)
        bias_give(g, 2, dy);
    if (grad_wants(g, 1)) {
        UpConvWAttr of_w = { .up = attr.up, .bias = both };
        Tensor      d[2];
        node_add(g->graph, &op_up_conv_grad_w, &of_w,
                 TENSORS(x, dy, grad_so_far(g, 1, F32), both ? grad_so_far(g, 2, F32) : none), d);
        grad_give_sum(g, 1, d[0]);
        if (both)
            grad_give_sum(g, 2, d[1]);
    }
    if (grad_wants(g, 0))
        grad_give(g, 0, node_add(g->graph, &op_up_conv_grad_x, &attr, TENSORS(dy, w), NULL));
}

OPERATOR(up_conv, .doc = "3x3 convolution of an upsampled map, computed from the small map",
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(UpConvAttr), .n_in = 3,
         .n_out = 1, .shape = up_conv_shape, .grad = up_conv_grad, .cost = up_conv_cost,
         .rate = RATE_CONV, .cpu = { up_conv_choose_cpu, up_conv_prepare_cpu, up_conv_cpu })

/* in: dy w; out: dx, of the small map */
static Err up_conv_grad_x_shape(Node *n)
{
    int64_t up = ATTR(n, UpConvAttr)->up;
    Shape   dy = in_shape(n, 0);
    out_set(n, 0, in_type(n, 0),
            SHAPE(dy.dim[0], dy.dim[1] / up, dy.dim[2] / up, in_shape(n, 1).dim[2]));
    return OK;
}

OPERATOR_INTERNAL(up_conv_grad_x, .doc = "data gradient of up_conv",
                  .attr_bytes = sizeof(UpConvAttr), .n_in = 2, .n_out = 1,
                  .shape = up_conv_grad_x_shape, .cost = up_conv_cost, .rate = RATE_CONV,
                  .cpu = { up_conv_choose_cpu, up_conv_prepare_cpu, up_conv_grad_x_cpu })

/* in: x dy, the sums so far of both gradients or none; out: dw and, if asked for, dbias */
static Err up_conv_grad_w_shape(Node *n)
{
    int64_t in = dim(in_shape(n, 0), -1), out = dim(in_shape(n, 1), -1);
    Shape   dw = SHAPE(3, 3, in, out);
    if (in_given(n, 2) && !shape_same(in_shape(n, 2), dw))
        return fail(E_SHAPE, "up_conv_grad_w: a sum of %s cannot take a gradient of %s",
                    shape_text(in_shape(n, 2)), shape_text(dw));
    out_set(n, 0, F32, dw);
    if (ATTR(n, UpConvWAttr)->bias)
        out_set(n, 1, F32, SHAPE(out));
    return OK;
}

OPERATOR_INTERNAL(up_conv_grad_w,
                  .doc = "gradients of up_conv's weight and bias, fp32, added to the sum so far",
                  .attr_bytes = sizeof(UpConvWAttr), .n_in = 4, .n_out = 2,
                  .inplace = IN_PLACE_OF(2), .shape = up_conv_grad_w_shape, .cost = up_conv_cost,
                  .rate = RATE_CONV,
                  .cpu = { up_conv_choose_cpu, up_conv_prepare_cpu, up_conv_grad_w_cpu })

bool up_conv_pays(const Graph *graph, int64_t in, int64_t out, int64_t up)
{
    enum { MIN_CHANNELS = 32, MULTIPLE = 8 }; /* what linalg/subpixel_conv.h takes */
    return graph->build->subpixel && up >= 2 && up <= UP_CONV_MAX && in >= MIN_CHANNELS &&
           out >= MIN_CHANNELS && in % MULTIPLE == 0 && out % MULTIPLE == 0;
}

Tensor up_conv(Tensor x, Tensor w, Tensor bias, int64_t up)
{
    if (tensor_ok(x) && tensor_ok(w))
        x = cast(x, tensor_type(w));
    return node_add(x.graph, &op_up_conv, &(UpConvAttr){ up }, TENSORS(x, w, bias), NULL);
}

ConvDesc up_conv_desc(const Node *n)
{
    bool     data = n->op == &op_up_conv_grad_x, weights = n->op == &op_up_conv_grad_w;
    Shape    x = data ? out_shape(n, 0) : in_shape(n, 0);
    Shape    w = weights ? out_shape(n, 0) : in_shape(n, 1);
    int64_t  up = up_conv_factor(n);
    ConvDesc d = { .kind = weights ? CONV_BACKWARD_WEIGHTS
                           : data  ? CONV_BACKWARD_DATA
                                   : CONV_FORWARD,
                   .n = x.dim[0],
                   .n_all = node_all_samples(n, x.dim[0]),
                   .ci = w.dim[2],
                   .co = w.dim[3],
                   .in = { 1, up * x.dim[1], up * x.dim[2] },
                   .out = { 1, up * x.dim[1], up * x.dim[2] },
                   .kernel = { 1, 3, 3 },
                   .stride = { 1, 1, 1 },
                   .pad_lo = { 0, 1, 1 },
                   .pad_hi = { 0, 1, 1 },
                   .type_x = data ? out_type(n, 0) : in_type(n, 0),
                   .type_w = weights ? F32 : in_type(n, 1) };
    d.type_y = weights ? in_type(n, 1) : data ? in_type(n, 0) : out_type(n, 0);
    d.bias = n->op == &op_up_conv && in_given(n, 2);
    d.type_bias = d.bias ? in_type(n, 2) : F32;
    return d;
}
