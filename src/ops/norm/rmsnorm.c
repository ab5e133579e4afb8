/* rmsnorm.c -- root mean square norm: rules. */
#include "ops/norm/rmsnorm.h"

#include "ops/operator.h"

#include <math.h>

/* in: x weight */
static Err rmsnorm_shape(Node *n)
{
    Shape x = in_shape(n, 0);
    float eps = ATTR(n, RmsnormAttr)->eps;
    if (x.rank < 1 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "rmsnorm: the input must be floats with a last axis, not %s %s",
                    type_name(in_type(n, 0)), shape_text(x));
    if (in_given(n, 1) &&
        (!shape_same(in_shape(n, 1), SHAPE(dim(x, -1))) || !type_is_float(in_type(n, 1))))
        return fail(E_SHAPE, "rmsnorm: the weight is %s %s, the last axis of the input %s",
                    type_name(in_type(n, 1)), shape_text(in_shape(n, 1)), shape_text(x));
    if (!(eps >= 0) || !isfinite(eps))
        return fail(E_SHAPE, "rmsnorm: eps %g is out of range", (double)eps);
    out_set(n, 0, in_type(n, 0), x);
    return OK;
}

static void rmsnorm_grad(Grad *g)
{
    RmsnormAttr attr = *ATTR(g->node, RmsnormAttr);
    /* A residual branch begins with a norm: what x was given by the way around it is added. */
    Tensor      d[2], before = grad_so_far(g, 0, tensor_type(grad_in(g, 0)));
    for (int i = 0; i < 2; i++)
        attr.wants[i] = grad_wants(g, i);
    node_add(g->graph, &op_rmsnorm_grad, &attr,
             TENSORS(grad_in(g, 0), attr.wants[0] ? grad_in(g, 1) : tensor_none(g->graph),
                     grad_dy(g, 0), before),
             d);
    grad_give_sum(g, 0, d[0]);
    grad_give(g, 1, d[1]);
}

static Cost rmsnorm_cost(const Node *n)
{
    return (Cost){ .flops = 4 * in_count(n, 0), .bytes = node_bytes(n) };
}

static Cost rmsnorm_grad_cost(const Node *n)
{
    return (Cost){ .flops = 10 * in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR(rmsnorm, .doc = "weight * x / sqrt(mean(x^2) + eps) over the last axis",
         .chunk = { CHUNK_ROWS, INPUT(0) }, .attr_bytes = sizeof(RmsnormAttr), .n_in = 2,
         .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = rmsnorm_shape, .grad = rmsnorm_grad,
         .cost = rmsnorm_cost, .cpu = { .choose = rmsnorm_choose_cpu, .run = rmsnorm_cpu })

/* in: x weight dy, and what dx is added to or none; out: dx dweight */
static Err rmsnorm_grad_shape(Node *n)
{
    if (ATTR(n, RmsnormAttr)->wants[0])
        out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    if (ATTR(n, RmsnormAttr)->wants[1])
        out_set(n, 1, F32, SHAPE(dim(in_shape(n, 0), -1)));
    return OK;
}

OPERATOR_INTERNAL(rmsnorm_grad,
                  .doc = "gradients of rmsnorm, from its input; dx added to what is there",
                  .attr_bytes = sizeof(RmsnormAttr), .n_in = 4, .n_out = 2,
                  .inplace = IN_PLACE_OF(2), .shape = rmsnorm_grad_shape, .cost = rmsnorm_grad_cost,
                  .cpu = { .choose = rmsnorm_grad_choose_cpu, .run = rmsnorm_grad_cpu })

Tensor rmsnorm(Tensor x, Tensor weight_or_none, float eps)
{
    return node_add(x.graph, &op_rmsnorm, &(RmsnormAttr){ .eps = eps }, TENSORS(x, weight_or_none),
                    NULL);
}
