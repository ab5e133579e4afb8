/* layernorm.c -- norms over the last axis: rules. */
#include "ops/norm/layernorm.h"

#include "ops/elementwise/basic.h"
#include "ops/norm/groupnorm.h"
#include "ops/operator.h"

#include <math.h>

static Err layernorm_check(const Node *n, const char *word)
{
    float eps = ATTR(n, LayernormAttr)->eps;
    if (in_shape(n, 0).rank < 1 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "%s: the input must be floats with a last axis, not %s %s", word,
                    type_name(in_type(n, 0)), shape_text(in_shape(n, 0)));
    if (!(eps >= 0) || !isfinite(eps))
        return fail(E_SHAPE, "%s: eps %g is out of range", word, (double)eps);
    return OK;
}

/* A residual branch begins with a norm. The gradient that x already has from the skip connection is
 * added by the norm's gradient, if it is of x's type. */
static Tensor norm_before(const Grad *g) { return grad_so_far(g, 0, tensor_type(grad_in(g, 0))); }

static Cost layernorm_cost(const Node *n)
{
    return (Cost){ .flops = 8 * in_count(n, 0), .bytes = node_bytes(n) };
}

static Cost layernorm_grad_cost(const Node *n)
{
    return (Cost){ .flops = 16 * in_count(n, 0), .bytes = node_bytes(n) };
}

/* in: x weight bias */
static Err layernorm_shape(Node *n)
{
    TRY(layernorm_check(n, "layernorm"));
    Shape x = in_shape(n, 0);
    for (int i = 1; i <= 2; i++)
        if (in_given(n, i) &&
            (!shape_same(in_shape(n, i), SHAPE(dim(x, -1))) || !type_is_float(in_type(n, i)) ||
             in_type(n, i) != norm_affine_type(n, 1)))
            return fail(E_SHAPE, "layernorm: %s is %s %s, which does not match the last axis of %s",
                        i == 1 ? "weight" : "bias", type_name(in_type(n, i)),
                        shape_text(in_shape(n, i)), shape_text(x));
    out_set(n, 0, in_type(n, 0), x);
    return OK;
}

static void layernorm_grad(Grad *g)
{
    LayernormAttr attr = *ATTR(g->node, LayernormAttr);
    Tensor        d[3], before = norm_before(g);
    for (int i = 0; i < 3; i++)
        attr.wants[i] = grad_wants(g, i);
    node_add(g->graph, &op_layernorm_grad, &attr,
             TENSORS(grad_in(g, 0), attr.wants[0] ? grad_in(g, 1) : tensor_none(g->graph),
                     grad_dy(g, 0), before),
             d);
    grad_give_sum(g, 0, d[0]);
    for (int i = 1; i < 3; i++)
        grad_give(g, i, d[i]);
}

OPERATOR(layernorm, .doc = "weight * (x - mean) / sqrt(var + eps) + bias over the last axis",
         .chunk = { CHUNK_ROWS, INPUT(0) }, .attr_bytes = sizeof(LayernormAttr), .n_in = 3,
         .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = layernorm_shape, .grad = layernorm_grad,
         .cost = layernorm_cost, .cpu = { .choose = layernorm_choose_cpu, .run = layernorm_cpu })

/* in: x weight dy, summand of dx or none; out: dx dweight dbias */
static Err layernorm_grad_shape(Node *n)
{
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    if (attr->wants[0])
        out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    for (int i = 1; i < 3; i++)
        if (attr->wants[i])
            out_set(n, i, F32, SHAPE(dim(in_shape(n, 0), -1)));
    return OK;
}

OPERATOR_INTERNAL(layernorm_grad,
                  .doc = "gradients of layernorm, from its input; dx added to the sum so far",
                  .attr_bytes = sizeof(LayernormAttr), .n_in = 4, .n_out = 3,
                  .inplace = IN_PLACE_OF(2), .shape = layernorm_grad_shape,
                  .cost = layernorm_grad_cost,
                  .cpu = { .choose = layernorm_grad_choose_cpu, .run = layernorm_grad_cpu })

Tensor layernorm(Tensor x, Tensor weight, Tensor bias, float eps)
{
    return node_add(x.graph, &op_layernorm, &(LayernormAttr){ .eps = eps },
                    TENSORS(x, weight, bias), NULL);
}

static Tensor flattened(Tensor t) { return tensor_ok(t) ? reshape(t, SHAPE(-1)) : t; }

Tensor layernorm_axes(Tensor x, Tensor weight, Tensor bias, int n, float eps)
{
    if (n == 1 || !tensor_ok(x))
        return layernorm(x, weight, bias, eps);
    Shape s = tensor_shape(x), axes, rows;
    if (n < 1 || n > s.rank)
        return graph_poison(x.graph, E_SHAPE, "layernorm: %s has no %d last axes", shape_text(s),
                            n);
    axes = shape_of(s.dim + s.rank - n, n);
    rows = shape_of(s.dim, s.rank - n + 1);
    rows.dim[s.rank - n] = shape_count(axes);
    for (int i = 0; i < 2; i++) {
        Tensor t = i ? bias : weight;
        if (tensor_ok(t) && !shape_same(tensor_shape(t), axes))
            return graph_poison(x.graph, E_SHAPE, "layernorm: %s is %s, the last axes of %s are %s",
                                i ? "bias" : "weight", shape_text(tensor_shape(t)), shape_text(s),
                                shape_text(axes));
    }
    return reshape(layernorm(reshape(x, rows), flattened(weight), flattened(bias), eps), s);
}

/* in: x packed */
static Err layernorm_modulate_shape(Node *n)
{
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    TRY(layernorm_check(n, "layernorm_modulate"));
    Shape   x = in_shape(n, 0), packed = in_shape(n, 1);
    int64_t c = dim(x, -1);
    if (x.rank < 2 || packed.rank != 2 || x.dim[0] % packed.dim[0] != 0 ||
        !type_is_float(in_type(n, 1)))
        return fail(E_SHAPE, "layernorm_modulate: %s cannot be shared among the samples of %s",
                    shape_text(packed), shape_text(x));
    if (attr->shift_at < 0 || attr->scale_at < 0 || attr->shift_at + c > packed.dim[1] ||
        attr->scale_at + c > packed.dim[1])
        return fail(
            E_SHAPE,
            "layernorm_modulate: %lld columns from %lld (shift) and %lld (scale) are not all in %s",
            (long long)c, (long long)attr->shift_at, (long long)attr->scale_at, shape_text(packed));
    int64_t apart = attr->shift_at - attr->scale_at;
    if (apart < c && -apart < c)
        return fail(E_SHAPE,
                    "layernorm_modulate: shift and scale of %lld columns overlap at %lld and %lld",
                    (long long)c, (long long)attr->shift_at, (long long)attr->scale_at);
    out_set(n, 0, in_type(n, 0), x);
    return OK;
}

static void layernorm_modulate_grad(Grad *g)
{
    LayernormAttr attr = *ATTR(g->node, LayernormAttr);
    Tensor        d[2], before = norm_before(g);
    for (int i = 0; i < 2; i++)
        attr.wants[i] = grad_wants(g, i);
    node_add(g->graph, &op_layernorm_modulate_grad, &attr,
             TENSORS(grad_in(g, 0), grad_in(g, 1), grad_dy(g, 0), before), d);
    grad_give_sum(g, 0, d[0]);
    grad_give(g, 1, d[1]);
}

OPERATOR(layernorm_modulate,
         .doc = "LN(x) * (1 + scale) + shift, per sample; columns of one packed tensor",
         .chunk = { CHUNK_CHEAP_SAMPLES, INPUT(0) | INPUT(1) }, .attr_bytes = sizeof(LayernormAttr),
         .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = layernorm_modulate_shape,
         .grad = layernorm_modulate_grad, .cost = layernorm_cost,
         .cpu = { .choose = layernorm_modulate_choose_cpu, .run = layernorm_modulate_cpu })

/* in: x packed dy, summand of dx or none; out: dx dpacked. dpacked is zero outside the columns of
 * this node; it is so small that adding whole tensors is cheaper than bookkeeping. */
static Err layernorm_modulate_grad_shape(Node *n)
{
    for (int i = 0; i < 2; i++)
        if (ATTR(n, LayernormAttr)->wants[i])
            out_set(n, i, in_type(n, i), in_shape(n, i));
    return OK;
}

OPERATOR_INTERNAL(
    layernorm_modulate_grad,
    .doc = "gradients of layernorm_modulate, from its input; dx added to the sum so far",
    .attr_bytes = sizeof(LayernormAttr), .n_in = 4, .n_out = 2, .inplace = IN_PLACE_OF(2),
    .shape = layernorm_modulate_grad_shape, .cost = layernorm_grad_cost,
    .cpu = { .choose = layernorm_modulate_grad_choose_cpu, .run = layernorm_modulate_grad_cpu })

Tensor layernorm_modulate(Tensor x, Tensor packed, int64_t shift_at, int64_t scale_at, float eps)
{
    LayernormAttr attr = { .eps = eps, .shift_at = shift_at, .scale_at = scale_at };
    return node_add(x.graph, &op_layernorm_modulate, &attr, TENSORS(x, packed), NULL);
}

/* in: x m s */
static Err scalar_norm_shape(Node *n)
{
    TRY(layernorm_check(n, "scalar_norm"));
    for (int i = 1; i <= 2; i++)
        if (shape_count(in_shape(n, i)) != 1 || !type_is_float(in_type(n, i)))
            return fail(E_SHAPE, "scalar_norm: %s must be one number, not %s", i == 1 ? "m" : "s",
                        shape_text(in_shape(n, i)));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static void scalar_norm_grad(Grad *g)
{
    LayernormAttr attr = { .wants = { grad_wants(g, 0), grad_wants(g, 1), grad_wants(g, 2) } };
    Tensor        d[3], before = norm_before(g);
    node_add(g->graph, &op_scalar_norm_grad, &attr,
             TENSORS(grad_in(g, 0), grad_in(g, 1), grad_in(g, 2), grad_dy(g, 0), before), d);
    grad_give_sum(g, 0, d[0]);
    for (int i = 1; i < 3; i++)
        grad_give(g, i, d[i]);
}

OPERATOR(scalar_norm, .doc = "(s / std) * (x - mean + m) over the last axis, m and s scalars",
         .chunk = { CHUNK_ROWS, INPUT(0) }, .attr_bytes = sizeof(LayernormAttr), .n_in = 3,
         .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = scalar_norm_shape,
         .grad = scalar_norm_grad, .cost = layernorm_cost,
         .cpu = { .choose = scalar_norm_choose_cpu, .run = scalar_norm_cpu })

/* in: x m s dy, summand of dx or none; out: dx dm ds */
static Err scalar_norm_grad_shape(Node *n)
{
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    if (attr->wants[0])
        out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    for (int i = 1; i < 3; i++)
        if (attr->wants[i])
            out_set(n, i, F32, in_shape(n, i));
    return OK;
}

OPERATOR_INTERNAL(scalar_norm_grad,
                  .doc = "gradients of scalar_norm, from its input; dx added to the sum so far",
                  .attr_bytes = sizeof(LayernormAttr), .n_in = 5, .n_out = 3,
                  .inplace = IN_PLACE_OF(3), .shape = scalar_norm_grad_shape,
                  .cost = layernorm_grad_cost,
                  .cpu = { .choose = scalar_norm_grad_choose_cpu, .run = scalar_norm_grad_cpu })

Tensor scalar_norm(Tensor x, Tensor m, Tensor s)
{
    return node_add(x.graph, &op_scalar_norm, &(LayernormAttr){ 0 }, TENSORS(x, m, s), NULL);
}
