/* conv.c -- rules of convolutions. */
#include "ops/conv/conv.h"

#include "ops/elementwise/basic.h"
#include "ops/linear/linear.h"
#include "ops/operator.h"

ConvAttr conv_attr(int stride, int pad)
{
    return (ConvAttr){ .stride = { 1, stride, stride },
                       .pad_lo = { 0, pad, pad },
                       .pad_hi = { 0, pad, pad } };
}

/* axis 0..2 = D, H, W of (N,[D,]H,W,C) or ([KD,]KH,KW,I,O) */
static int64_t extent(Shape s, int axis)
{
    int lead = s.rank - 4; /* 0 for images, 1 for volumes */
    return axis == 0 ? (lead ? s.dim[1] : 1) : s.dim[axis + lead];
}

static int64_t kernel(Shape w, int axis)
{
    int lead = w.rank - 4;
    return axis == 0 ? (lead ? w.dim[0] : 1) : w.dim[axis - 1 + lead];
}

/* What a dilated kernel covers. */
static int64_t reach(const ConvAttr *a, Shape w, int axis)
{
    return conv_reach(kernel(w, axis), a->dilation[axis]);
}

static Shape with_extents(Shape like, const int64_t *e, int64_t channels)
{
    if (like.rank == 4)
        return SHAPE(like.dim[0], e[1], e[2], channels);
    return SHAPE(like.dim[0], e[0], e[1], e[2], channels);
}

static void narrow_extents(const ConvAttr *a, Shape w, int64_t *out)
{
    for (int i = 0; i < 3; i++)
        out[i] = (a->in[i] + a->pad_lo[i] + a->pad_hi[i] - reach(a, w, i)) / a->stride[i] + 1;
}

static Err conv_check(const Node *n, bool transposed)
{
    const ConvAttr *a = ATTR(n, ConvAttr);
    const char     *name = n->op->name;
    Shape           x = in_shape(n, 0), w = in_shape(n, 1);
    if ((x.rank != 4 && x.rank != 5) || w.rank != x.rank)
        return fail(E_SHAPE, "%s: %s with weight %s is neither an image nor a volume", name,
                    shape_text(x), shape_text(w));
    int64_t takes = transposed ? dim(w, -1) : dim(w, -2) * a->groups;
    int64_t gives = transposed ? dim(w, -2) * a->groups : dim(w, -1);
    if (a->groups < 1 || dim(w, -1) % a->groups != 0)
        return fail(E_SHAPE, "%s: weight %s cannot be divided into %lld groups", name,
                    shape_text(w), (long long)a->groups);
    if (dim(x, -1) != takes && a->groups == 1)
        return fail(E_SHAPE, "%s: weight %s does not take the channels of %s", name, shape_text(w),
                    shape_text(x));
    if (dim(x, -1) != takes)
        return fail(E_SHAPE, "%s: weight %s in %lld groups does not take the channels of %s", name,
                    shape_text(w), (long long)a->groups, shape_text(x));
    if (in_type(n, 0) != in_type(n, 1))
        return fail(E_SHAPE, "%s: input is %s, weight %s", name, type_name(in_type(n, 0)),
                    type_name(in_type(n, 1)));
    if (in_given(n, 2) && shape_count(in_shape(n, 2)) != gives)
        return fail(E_SHAPE, "%s: bias %s does not match %lld channels", name,
                    shape_text(in_shape(n, 2)), (long long)gives);
    for (int i = 0; i < 3; i++)
        if (a->stride[i] < 1 || a->dilation[i] < 1 || a->pad_lo[i] < 0 || a->in[i] < 1 ||
            a->in[i] + a->pad_lo[i] + a->pad_hi[i] < reach(a, w, i))
            return fail(E_SHAPE, "%s: a kernel of %s does not fit into %s", name, shape_text(w),
                        shape_text(x));
    return OK;
}

/* Every tap at every pixel of the narrow side; the weight has the input channels of one group. */
static Cost conv_cost(const Node *n)
{
    const ConvAttr *a = ATTR(n, ConvAttr);
    Shape           w = n->op == &op_conv_grad_w ? out_shape(n, 0) : in_shape(n, 1);
    int64_t         narrow[3];
    narrow_extents(a, w, narrow);
    double pixels = (double)dim(in_shape(n, 0), 0) * (double)(narrow[0] * narrow[1] * narrow[2]);
    return (Cost){ .flops = 2 * pixels * (double)shape_count(w), .bytes = node_bytes(n) };
}

static Err conv_shape(Node *n)
{
    int64_t out[3];
    TRY(conv_check(n, false));
    narrow_extents(ATTR(n, ConvAttr), in_shape(n, 1), out);
    out_set(n, 0, in_type(n, 0), with_extents(in_shape(n, 0), out, dim(in_shape(n, 1), -1)));
    return OK;
}

static Tensor conv_grad_x(Tensor dy, Tensor w, ConvAttr a)
{
    return node_add(dy.graph, &op_conv_grad_x, &a, TENSORS(dy, w), NULL);
}

static void conv_give_w(Grad *g, Tensor x, Tensor dy, ConvAttr a, bool bias)
{
    /* The node needs the weight's shape, not its bytes, so the shape is in the attribute. */
    ConvWAttr attr = { .conv = a, .shape = tensor_shape(grad_in(g, 1)), .bias = bias };
    Tensor    d[2], none = tensor_none(g->graph);
    node_add(g->graph, &op_conv_grad_w, &attr,
             TENSORS(x, dy, grad_so_far(g, 1, F32), bias ? grad_so_far(g, 2, F32) : none), d);
    grad_give_sum(g, 1, d[0]);
    if (bias)
        grad_give_sum(g, 2, d[1]);
}

static void conv_grad(Grad *g)
{
    ConvAttr a = *ATTR(g->node, ConvAttr);
    Tensor   x = grad_in(g, 0), w = grad_in(g, 1), dy = grad_dy(g, 0);
    bool     both = grad_wants(g, 1) && grad_wants(g, 2) && tensor_shape(grad_in(g, 2)).rank == 1;
    if (!both)
        bias_give(g, 2, dy);
    if (grad_wants(g, 1)) /* before dx, so that x can be freed early */
        conv_give_w(g, x, dy, a, both);
    if (grad_wants(g, 0))
        grad_give(g, 0, conv_grad_x(dy, w, a));
}

OPERATOR(conv, .doc = "convolution over images or volumes, channels last",
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(ConvAttr), .n_in = 3,
         .n_out = 1, .shape = conv_shape, .grad = conv_grad, .cost = conv_cost, .rate = RATE_CONV,
         .cpu = { conv_choose_linalg, conv_prepare_linalg, conv_linalg })

static Err conv_grad_x_shape(Node *n)
{
    const ConvAttr *a = ATTR(n, ConvAttr);
    out_set(n, 0, in_type(n, 0),
            with_extents(in_shape(n, 0), a->in, dim(in_shape(n, 1), -2) * a->groups));
    return OK;
}

OPERATOR_INTERNAL(conv_grad_x, .doc = "data gradient of a convolution",
                  .attr_bytes = sizeof(ConvAttr), .n_in = 2, .n_out = 1, .shape = conv_grad_x_shape,
                  .cost = conv_cost, .rate = RATE_CONV,
                  .cpu = { conv_choose_linalg, conv_prepare_linalg, conv_grad_x_linalg })

/* in: x dy, the sums so far of both gradients or none; out: dw and, if asked for, dbias, added to
 * them */
static Err conv_grad_w_shape(Node *n)
{
    if (in_given(n, 2) && !shape_same(in_shape(n, 2), ATTR(n, ConvWAttr)->shape))
        return fail(E_SHAPE, "conv_grad_w: a sum of %s cannot take a gradient of %s",
                    shape_text(in_shape(n, 2)), shape_text(ATTR(n, ConvWAttr)->shape));
    out_set(n, 0, F32, ATTR(n, ConvWAttr)->shape);
    if (ATTR(n, ConvWAttr)->bias)
        out_set(n, 1, F32, SHAPE(dim(in_shape(n, 1), -1)));
    return OK;
}

OPERATOR_INTERNAL(
    conv_grad_w,
    .doc = "gradients of a convolution's weight and bias, fp32, added to the sum so far",
    .attr_bytes = sizeof(ConvWAttr), .n_in = 4, .n_out = 2, .inplace = IN_PLACE_OF(2),
    .shape = conv_grad_w_shape, .cost = conv_cost, .rate = RATE_CONV,
    .cpu = { conv_grad_w_choose_cpu, conv_prepare_linalg, conv_grad_w_cpu })

/* Completes an attribute: from here on dilation and groups are at least 1. */
static void fill_extents(ConvAttr *a, Shape wide)
{
    for (int i = 0; i < 3; i++) {
        a->in[i] = wide.rank == 4 || wide.rank == 5 ? extent(wide, i) : 1;
        a->dilation[i] = a->dilation[i] ? a->dilation[i] : 1;
    }
    a->groups = a->groups ? a->groups : 1;
}

/* A 1x1 convolution is a linear layer over channels. */
static bool conv_is_pointwise(Shape w, const ConvAttr *a)
{
    bool pointwise = (w.rank == 4 || w.rank == 5) && a->groups <= 1;
    for (int i = 0; i < 3; i++)
        pointwise = pointwise && kernel(w, i) == 1 && a->stride[i] == 1 && !a->pad_lo[i] &&
                    !a->pad_hi[i];
    return pointwise;
}

static Tensor conv_as_matrix(Tensor w)
{
    Shape s = tensor_shape(w);
    return reshape(w, SHAPE(dim(s, -2), dim(s, -1)));
}

Tensor conv_op(Tensor x, Tensor w, Tensor bias, ConvAttr a)
{
    if (!tensor_ok(x) || !tensor_ok(w))
        return node_add(x.graph, &op_conv, &a, TENSORS(x, w, bias), NULL);
    x = cast(x, tensor_type(w));
    fill_extents(&a, tensor_shape(x));
    if (conv_is_pointwise(tensor_shape(w), &a))
        return linear_op(x, conv_as_matrix(w), bias, (LinearAttr){ .in_out = true });
    return node_add(x.graph, &op_conv, &a, TENSORS(x, w, bias), NULL);
}

Tensor conv_onto(Tensor x, Tensor w, Tensor bias, Tensor onto, ConvAttr a)
{
    if (!tensor_ok(x) || !tensor_ok(w) || !conv_is_pointwise(tensor_shape(w), &a))
        return add(onto, conv_op(x, w, bias, a));
    return linear_onto(x, conv_as_matrix(w), bias, onto, (LinearAttr){ .in_out = true });
}

static Err conv_transpose_shape(Node *n)
{
    const ConvAttr *a = ATTR(n, ConvAttr);
    TRY(conv_check(n, true));
    out_set(n, 0, in_type(n, 0),
            with_extents(in_shape(n, 0), a->in, dim(in_shape(n, 1), -2) * a->groups));
    return OK;
}

static void conv_transpose_grad(Grad *g)
{
    ConvAttr a = *ATTR(g->node, ConvAttr);
    Tensor   x = grad_in(g, 0), w = grad_in(g, 1), dy = grad_dy(g, 0);
    bias_give(g, 2, dy);
    if (grad_wants(g, 1))
        conv_give_w(g, dy, x, a, false);
    if (grad_wants(g, 0))
        grad_give(g, 0,
                  node_add(g->graph, &op_conv, &a, TENSORS(dy, w, tensor_none(g->graph)), NULL));
}

OPERATOR(conv_transpose, .doc = "transposed convolution, channels last",
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(ConvAttr), .n_in = 3,
         .n_out = 1, .shape = conv_transpose_shape, .grad = conv_transpose_grad, .cost = conv_cost,
         .rate = RATE_CONV, .cpu = { conv_choose_linalg, conv_prepare_linalg, conv_grad_x_linalg })

Tensor conv_transpose_op(Tensor x, Tensor w, Tensor bias, ConvAttr a)
{
    if (tensor_ok(x) && tensor_ok(w)) {
        Shape s = tensor_shape(x), k = tensor_shape(w);
        x = cast(x, tensor_type(w));
        fill_extents(&a, s);
        for (int i = 0; i < 3 && (k.rank == 4 || k.rank == 5); i++)
            a.in[i] = (a.in[i] - 1) * a.stride[i] - a.pad_lo[i] - a.pad_hi[i] + reach(&a, k, i);
    }
    return node_add(x.graph, &op_conv_transpose, &a, TENSORS(x, w, bias), NULL);
}

/* --- sequences: images of one row --- */

typedef Tensor ConvBuilder(Tensor x, Tensor w, Tensor bias, ConvAttr attr);

static Tensor conv_sequence(ConvBuilder *build, Tensor x, Tensor w, Tensor bias, ConvAttr a)
{
    if (!tensor_ok(x) || !tensor_ok(w) || tensor_shape(x).rank != 3 || tensor_shape(w).rank != 3)
        return build(x, w, bias, a); /* which says what is wrong */
    Shape s = tensor_shape(x), k = tensor_shape(w);
    for (int i = 0; i < 2; i++)
        a.stride[i] = a.dilation[i] = 1, a.pad_lo[i] = a.pad_hi[i] = 0;
    x = build(reshape(x, SHAPE(s.dim[0], 1, s.dim[1], s.dim[2])),
              reshape(w, SHAPE(1, k.dim[0], k.dim[1], k.dim[2])), bias, a);
    if (!tensor_ok(x))
        return x;
    s = tensor_shape(x);
    return reshape(x, SHAPE(s.dim[0], s.dim[2], s.dim[3]));
}

Tensor conv1d_op(Tensor x, Tensor w, Tensor bias, ConvAttr a)
{
    return conv_sequence(conv_op, x, w, bias, a);
}

Tensor conv_transpose1d_op(Tensor x, Tensor w, Tensor bias, ConvAttr a)
{
    return conv_sequence(conv_transpose_op, x, w, bias, a);
}
