/* weight_norm.c -- w = g v / |v| per row: rules. */
#include "ops/norm/weight_norm.h"

#include "ops/operator.h"

static Err weight_norm_shape(Node *n)
{
    Shape g = in_shape(n, 0), v = in_shape(n, 1);
    if (v.rank < 1 || g.rank < 1 || g.dim[0] != v.dim[0] || shape_count(g) != v.dim[0] ||
        !type_is_float(in_type(n, 0)) || !type_is_float(in_type(n, 1)))
        return fail(E_SHAPE, "weight_norm: lengths %s do not match the rows of %s", shape_text(g),
                    shape_text(v));
    out_set(n, 0, in_type(n, 1), v);
    return OK;
}

static void weight_norm_grad(Grad *g)
{
    WeightNormGradAttr attr = { { grad_wants(g, 0), grad_wants(g, 1) } };
    Tensor             d[2];
    node_add(g->graph, &op_weight_norm_grad, &attr,
             TENSORS(grad_in(g, 0), grad_in(g, 1), grad_dy(g, 0)), d);
    for (int i = 0; i < 2; i++)
        grad_give(g, i, d[i]);
}

static Cost weight_norm_cost(const Node *n)
{
    return (Cost){ .flops = 8 * in_count(n, 1), .bytes = node_bytes(n) };
}

OPERATOR(weight_norm, .doc = "g v / |v|, row by row", .n_in = 2, .n_out = 1,
         .shape = weight_norm_shape, .grad = weight_norm_grad, .cost = weight_norm_cost,
         .cpu = { .choose = weight_norm_choose_cpu, .run = weight_norm_cpu })

/* in: g v dw; out: dg dv */
static Err weight_norm_grad_shape(Node *n)
{
    for (int i = 0; i < 2; i++)
        if (ATTR(n, WeightNormGradAttr)->wants[i])
            out_set(n, i, F32, in_shape(n, i));
    return OK;
}

OPERATOR_INTERNAL(weight_norm_grad, .doc = "gradients of weight_norm for length and direction",
                  .attr_bytes = sizeof(WeightNormGradAttr), .n_in = 3, .n_out = 2,
                  .shape = weight_norm_grad_shape, .cost = weight_norm_cost,
                  .cpu = { .choose = weight_norm_grad_choose_cpu, .run = weight_norm_grad_cpu })

Tensor weight_norm(Tensor g, Tensor v)
{
    return node_add(g.graph, &op_weight_norm, NULL, TENSORS(g, v), NULL);
}
