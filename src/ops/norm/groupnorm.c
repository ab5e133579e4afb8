/* groupnorm.c -- group norm, instance norm, SPADE: rules. */
#include "ops/norm/groupnorm.h"

#include "ops/operator.h"

#include <math.h>

/* x, weight, bias and attributes; word: the operator's name, for messages. */
static Err groupnorm_check(const Node *n, const char *word, const GroupnormAttr *attr)
{
    Shape   x = in_shape(n, 0);
    int64_t channels = dim(x, -1);
    if (x.rank < 2 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "%s: the input must be floats (N,...,C), not %s %s", word,
                    type_name(in_type(n, 0)), shape_text(x));
    if (attr->groups < 1 || channels % attr->groups != 0)
        return fail(E_SHAPE, "%s: %lld channels do not divide into %lld groups", word,
                    (long long)channels, (long long)attr->groups);
    if (!(attr->eps >= 0) || !isfinite(attr->eps) || attr->act >= NORM_ACTS)
        return fail(E_SHAPE, "%s: eps %g or activation %d is out of range", word, (double)attr->eps,
                    (int)attr->act);
    for (int i = 1; i <= 2; i++)
        if (in_given(n, i) &&
            (!shape_same(in_shape(n, i), SHAPE(channels)) || !type_is_float(in_type(n, i)) ||
             in_type(n, i) != norm_affine_type(n, 1)))
            return fail(E_SHAPE, "%s: %s is %s %s, but the input has %lld channels", word,
                        i == 1 ? "weight" : "bias", type_name(in_type(n, i)),
                        shape_text(in_shape(n, i)), (long long)channels);
    return OK;
}

static Err groupnorm_shape(Node *n)
{
    const GroupnormAttr *attr = ATTR(n, GroupnormAttr);
    TRY(groupnorm_check(n, "groupnorm", attr));
    Shape x = in_shape(n, 0);
    out_set(n, 0, in_type(n, 0), x);
    out_set(n, 1, F32, SHAPE(x.dim[0], attr->groups, 2));
    return OK;
}

/* A residual block begins with a norm. The gradient that x already has from the skip connection is
 * added here, if it is of x's type. */
static void groupnorm_grad(Grad *g)
{
    GroupnormGradAttr attr = { *ATTR(g->node, GroupnormAttr),
                               { grad_wants(g, 0), grad_wants(g, 1), grad_wants(g, 2) } };
    bool   has_act = attr.of.act != NORM_LINEAR; /* only then are z and the bias needed */
    Tensor d[3], before = grad_so_far(g, 0, tensor_type(grad_in(g, 0)));
    if (!tensor_ok(grad_dy(g, 0)))
        return;
    node_add(g->graph, &op_groupnorm_grad, &attr,
             TENSORS(grad_in(g, 0), grad_out(g, 1), grad_in(g, 1),
                     has_act ? grad_in(g, 2) : tensor_none(g->graph), grad_dy(g, 0), before),
             d);
    grad_give_sum(g, 0, d[0]);
    for (int i = 1; i < 3; i++)
        grad_give(g, i, d[i]);
}

/* Arithmetic per element: statistics 4, then normalise and scale 4; an activation about 16. */
static double act_flops(NormAct act) { return act == NORM_LINEAR ? 0 : act == NORM_RELU ? 1 : 16; }

static Cost groupnorm_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0) * (8 + act_flops(ATTR(n, GroupnormAttr)->act)),
                   .bytes = node_bytes(n) + in_bytes(n, 0) }; /* x is read twice */
}

/* Gradients of SiLU and GELU need their input, and the next layer keeps their output; for ReLU the
 * output suffices. */
static int64_t before_activation_bytes(const Node *n)
{
    NormAct act = ATTR(n, GroupnormAttr)->act;
    return act == NORM_SILU || act == NORM_GELU ? value_at(n->graph, n->out[0])->bytes : 0;
}

OPERATOR(groupnorm,
         .doc = "act(weight * (x - mean) / sqrt(var + eps) + bias) over groups of channels",
         .never_stored = { "norm before its activation",
                           "the gradient recomputes it from the norm's input",
                           before_activation_bytes },
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(GroupnormAttr), .n_in = 3,
         .n_out = 2, .inplace = IN_PLACE_OF(0), .shape = groupnorm_shape, .grad = groupnorm_grad,
         .cost = groupnorm_cost, .cpu = { .choose = groupnorm_choose_cpu, .run = groupnorm_cpu })

/* in: x statistics weight bias dy, summand of dx or none; out: dx dweight dbias */
static Err groupnorm_grad_shape(Node *n)
{
    const bool *wants = ATTR(n, GroupnormGradAttr)->wants;
    Shape       channels = SHAPE(dim(in_shape(n, 0), -1));
    if (!shape_same(in_shape(n, 0), in_shape(n, 4)))
        return fail(E_SHAPE, "groupnorm_grad: %s and %s differ", shape_text(in_shape(n, 0)),
                    shape_text(in_shape(n, 4)));
    if (in_given(n, 5) && (!wants[0] || !shape_same(in_shape(n, 0), in_shape(n, 5)) ||
                           in_type(n, 0) != in_type(n, 5)))
        return fail(E_SHAPE, "groupnorm_grad: the gradient of %s %s cannot be added to %s %s",
                    type_name(in_type(n, 0)), shape_text(in_shape(n, 0)), type_name(in_type(n, 5)),
                    shape_text(in_shape(n, 5)));
    if (wants[0])
        out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    for (int i = 1; i < 3; i++)
        if (wants[i])
            out_set(n, i, F32, channels);
    return OK;
}

static Cost groupnorm_grad_cost(const Node *n)
{
    const GroupnormGradAttr *attr = ATTR(n, GroupnormGradAttr);
    double                   sweeps = attr->wants[0] ? 2 : 1;
    return (Cost){ .flops = in_count(n, 0) * sweeps * (7 + act_flops(attr->of.act)),
                   .bytes = node_bytes(n) + (sweeps - 1) * (in_bytes(n, 0) + in_bytes(n, 4)) };
}

OPERATOR_INTERNAL(
    groupnorm_grad,
    .doc = "gradients of groupnorm, from its input and statistics; dx added to the sum so far",
    .attr_bytes = sizeof(GroupnormGradAttr), .n_in = 6, .n_out = 3, .inplace = IN_PLACE_OF(4),
    .shape = groupnorm_grad_shape, .cost = groupnorm_grad_cost,
    .cpu = { .choose = groupnorm_grad_choose_cpu, .run = groupnorm_grad_cpu })

Tensor groupnorm(Tensor x, Tensor weight, Tensor bias, int64_t groups, float eps, NormAct act)
{
    GroupnormAttr attr = { .groups = groups, .eps = eps, .act = act };
    return node_add(x.graph, &op_groupnorm, &attr, TENSORS(x, weight, bias), NULL);
}

Tensor instancenorm(Tensor x, float eps)
{
    Tensor none = tensor_none(x.graph);
    if (!tensor_ok(x))
        return x;
    return groupnorm(x, none, none, dim(tensor_shape(x), -1), eps, NORM_LINEAR);
}

/* in: h weight bias gamma beta; out: y statistics */
static Err spade_shape(Node *n)
{
    const GroupnormAttr *attr = ATTR(n, GroupnormAttr);
    TRY(groupnorm_check(n, "spade", attr));
    if (in_given(n, 1) != in_given(n, 2))
        return fail(E_SHAPE, "spade: give both weight and bias, or neither");
    Shape h = in_shape(n, 0), map = attr->packed ? shape_with(h, -1, 2 * dim(h, -1)) : h;
    for (int i = 3; i <= (attr->packed ? 3 : 4); i++)
        if (!in_given(n, i) || !shape_same(in_shape(n, i), map) || in_type(n, i) != in_type(n, 0))
            return fail(E_SHAPE, "spade: the map %s does not fit %s; give one of %s",
                        in_given(n, i) ? shape_text(in_shape(n, i)) : "(none)", shape_text(h),
                        shape_text(map));
    out_set(n, 0, in_type(n, 0), h);
    out_set(n, 1, F32, SHAPE(h.dim[0], attr->groups, 2));
    return OK;
}

static void spade_grad(Grad *g)
{
    GroupnormGradAttr attr = { *ATTR(g->node, GroupnormAttr),
                               { grad_wants(g, 0), grad_wants(g, 1), grad_wants(g, 2),
                                 grad_wants(g, 3) } };
    bool              any = attr.wants[0] || attr.wants[1] || attr.wants[2] || attr.wants[3];
    Tensor            d[4], none = tensor_none(g->graph);
    if (!tensor_ok(grad_dy(g, 0)))
        return;
    grad_give(g, 4, grad_dy(g, 0)); /* beta is only added; absent when packed */
    if (!any)
        return;
    node_add(g->graph, &op_spade_grad, &attr,
             TENSORS(grad_in(g, 0), grad_out(g, 1), grad_in(g, 1),
                     attr.wants[3] ? grad_in(g, 2) : none, grad_in(g, 3), grad_dy(g, 0)),
             d);
    for (int i = 0; i < 4; i++)
        grad_give(g, i, d[i]);
}

static Cost spade_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0) * 11, .bytes = node_bytes(n) + in_bytes(n, 0) };
}

/* The normalised map: an ordinary product with the scale would keep it. */
static int64_t normalised_map_bytes(const Node *n) { return value_at(n->graph, n->out[0])->bytes; }

OPERATOR(spade, .doc = "norm(h) * (1 + gamma) + beta, gamma and beta being maps",
         .never_stored = { "normalised map of SPADE",
                           "the gradient recomputes it from the norm's input",
                           normalised_map_bytes },
         .chunk = { CHUNK_SAMPLES, INPUT(0) | INPUT(3) | INPUT(4) },
         .attr_bytes = sizeof(GroupnormAttr), .n_in = 5, .n_out = 2, .inplace = IN_PLACE_OF(0),
         .shape = spade_shape, .grad = spade_grad, .cost = spade_cost,
         .cpu = { .choose = spade_choose_cpu, .run = spade_cpu })

/* in: h statistics weight bias gamma dy; out: dh dweight dbias dgamma */
static Err spade_grad_shape(Node *n)
{
    const bool *wants = ATTR(n, GroupnormGradAttr)->wants;
    Shape       channels = SHAPE(dim(in_shape(n, 0), -1));
    if (!shape_same(in_shape(n, 0), in_shape(n, 5)))
        return fail(E_SHAPE, "spade_grad: %s and %s differ", shape_text(in_shape(n, 0)),
                    shape_text(in_shape(n, 5)));
    if (wants[0])
        out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    for (int i = 1; i < 3; i++)
        if (wants[i])
            out_set(n, i, F32, channels);
    if (wants[3])
        out_set(n, 3, in_type(n, 4), in_shape(n, 4));
    return OK;
}

static Cost spade_grad_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0) * 20,
                   .bytes = node_bytes(n) + in_bytes(n, 0) + in_bytes(n, 4) + in_bytes(n, 5) };
}

OPERATOR_INTERNAL(spade_grad, .doc = "gradients of spade, from its input, statistics and gamma",
                  .attr_bytes = sizeof(GroupnormGradAttr), .n_in = 6, .n_out = 4,
                  .inplace = IN_PLACE_OF(5), .shape = spade_grad_shape, .cost = spade_grad_cost,
                  .cpu = { .choose = spade_grad_choose_cpu, .run = spade_grad_cpu })

Tensor spade(Tensor h, Tensor weight, Tensor bias, Tensor gamma, Tensor beta, int64_t groups,
             float eps)
{
    GroupnormAttr attr = { .groups = groups, .eps = eps, .packed = beta.id == TENSOR_NONE };
    return node_add(h.graph, &op_spade, &attr, TENSORS(h, weight, bias, gamma, beta), NULL);
}
