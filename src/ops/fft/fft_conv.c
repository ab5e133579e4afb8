/* fft_conv.c -- causal convolution with long kernels: shapes, gradient, cost, builder. */
#include "ops/fft/fft_conv.h"

#include "ops/operator.h"
#include "ops/fft/rfft.h"

#include <math.h>

/* Cost of the given number of transforms and products per signal and per kernel. */
static Cost conv_cost(const Node *n, double per_signal, double per_kernel)
{
    Shape  u = in_shape(n, 0);
    double length = (double)u.dim[1], one = 5 * length * log2(length + 1) + 8 * length;
    return (Cost){ .flops = one * (double)u.dim[2] * ((double)u.dim[0] * per_signal + per_kernel),
                   .bytes = node_bytes(n) };
}

static Cost fft_conv_cost(const Node *n) { return conv_cost(n, 2, 1); }

static Cost fft_conv_grad_cost(const Node *n)
{
    const FftConvAttr *attr = ATTR(n, FftConvAttr);
    bool               du = attr->wants[0], dk = attr->wants[1];
    return conv_cost(n, (du || dk) + du + dk, du + dk);
}

/* in: u K D table */
static Err fft_conv_shape(Node *n)
{
    Shape u = in_shape(n, 0), k = in_shape(n, 1);
    if (u.rank != 3 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "fft_conv: the signal must be floats (B,L,H), not %s %s",
                    type_name(in_type(n, 0)), shape_text(u));
    if (!shape_same(k, SHAPE(u.dim[1], u.dim[2])) || in_type(n, 1) != F32)
        return fail(E_SHAPE,
                    "fft_conv: the kernel of a signal %s must be f32 (%lld,%lld), not %s %s",
                    shape_text(u), (long long)u.dim[1], (long long)u.dim[2],
                    type_name(in_type(n, 1)), shape_text(k));
    if (in_given(n, 2) &&
        (shape_count(in_shape(n, 2)) != u.dim[2] || !type_is_float(in_type(n, 2))))
        return fail(
            E_SHAPE,
            "fft_conv: D is %s %s; it must be floats, one for each of the signal's %lld channels",
            type_name(in_type(n, 2)), shape_text(in_shape(n, 2)), (long long)u.dim[2]);
    out_set(n, 0, in_type(n, 0), u);
    return OK;
}

static void fft_conv_grad(Grad *g)
{
    FftConvAttr attr = { .wants = { grad_wants(g, 0), grad_wants(g, 1), grad_wants(g, 2) } };
    Tensor      none = tensor_none(g->graph), d[3];
    node_add(g->graph, &op_fft_conv_grad, &attr,
             TENSORS(grad_dy(g, 0), attr.wants[1] || attr.wants[2] ? grad_in(g, 0) : none,
                     attr.wants[0] ? grad_in(g, 1) : none,
                     attr.wants[0] || attr.wants[2] ? grad_in(g, 2) : none, grad_in(g, 3)),
             d);
    for (int i = 0; i < 3; i++)
        grad_give(g, i, d[i]);
}

OPERATOR(fft_conv, .doc = "causal convolution with a kernel as long as the signal, plus D u",
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(FftConvAttr), .n_in = 4,
         .n_out = 1, .shape = fft_conv_shape, .grad = fft_conv_grad, .cost = fft_conv_cost,
         .cpu = { .choose = fft_conv_choose_cpu, .run = fft_conv_cpu })

/* in: dy u K D table; out: du dK dD */
static Err fft_conv_grad_shape(Node *n)
{
    const FftConvAttr *attr = ATTR(n, FftConvAttr);
    Shape              dy = in_shape(n, 0);
    if (attr->wants[0])
        out_set(n, 0, in_type(n, 0), dy);
    if (attr->wants[1])
        out_set(n, 1, F32, SHAPE(dy.dim[1], dy.dim[2]));
    if (attr->wants[2])
        out_set(n, 2, F32, in_shape(n, 3));
    return OK;
}

OPERATOR_INTERNAL(fft_conv_grad,
                  .doc = "gradients of fft_conv: correlations of dy with K and with u",
                  .attr_bytes = sizeof(FftConvAttr), .n_in = 5, .n_out = 3,
                  .shape = fft_conv_grad_shape, .cost = fft_conv_grad_cost,
                  .cpu = { .choose = fft_conv_grad_choose_cpu, .run = fft_conv_grad_cpu })

Tensor fft_conv(Tensor u, Tensor kernel, Tensor d)
{
    if (!tensor_ok(u))
        return u;
    Shape  shape = tensor_shape(u);
    Tensor table = fft_table(u.graph, FFT_ANGLE, fft_next(shape.rank == 3 ? shape.dim[1] : 1));
    return node_add(u.graph, &op_fft_conv, &(FftConvAttr){ 0 }, TENSORS(u, kernel, d, table), NULL);
}
