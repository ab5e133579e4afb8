/* dml.c -- discretised mixture of logistics: rules. */
#include "ops/loss/dml.h"

#include "ops/loss/loss.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

#include <math.h>

static Err dml_shape(Node *n) /* in: x, target, denominator; out: loss, denominator */
{
    Shape x = in_shape(n, 0);
    if (!rows_float(n, 1) || x.rank < 1 || dim(x, -1) % 3 || dim(x, -1) > 3 * DML_MAX)
        return fail(E_SHAPE, "dml_loss: the last axis of %s is not 3 K with K up to %d",
                    shape_text(x), DML_MAX);
    if (in_type(n, 1) != I32 || shape_count(in_shape(n, 1)) != shape_rows(x))
        return fail(E_SHAPE, "dml_loss: targets %s %s do not match %s; one i32 per row is wanted",
                    type_name(in_type(n, 1)), shape_text(in_shape(n, 1)), shape_text(x));
    if (in_given(n, 2) && (in_type(n, 2) != F32 || shape_count(in_shape(n, 2)) != 1))
        return fail(E_SHAPE, "dml_loss: the denominator is one f32, not %s",
                    shape_text(in_shape(n, 2)));
    out_set(n, 0, F32, SHAPE(1));
    if (!in_given(n, 2))
        out_set(n, 1, F32, SHAPE(1));
    return OK;
}

static Err dml_grad_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static void dml_rule(Grad *g)
{
    Tensor denominator = in_given(g->node, 2) ? grad_in(g, 2) : grad_out(g, 1);
    grad_give(g, 0,
              node_add(g->graph, &op_dml_loss_grad, g->node->attr,
                       TENSORS(grad_in(g, 0), grad_in(g, 1), denominator, grad_dy(g, 0)), NULL));
}

static Cost dml_cost(const Node *n)
{
    return (Cost){ .flops = 60 * in_count(n, 0), .bytes = node_bytes(n) };
}

/* The log-probability of every component, and the mixture's weights over it. */
static int64_t mixture_terms_bytes(const Node *n)
{
    return shape_count(in_shape(n, 0)) / 3 * 4 * 2;
}

OPERATOR(dml_loss,
         .doc = "discretised mixture of logistics, mean over targets; -100 does not count",
         .never_stored = { "mixture terms", "rows are done in blocks; the gradient recomputes them",
                           mixture_terms_bytes },
         .chunk = { CHUNK_COUNTED_LOSS, INPUT(0) | INPUT(1) }, .attr_bytes = sizeof(LossAttr),
         .n_in = 3, .n_out = 2, .shape = dml_shape, .grad = dml_rule, .cost = dml_cost,
         .cpu = { .choose = dml_loss_choose_cpu, .run = dml_loss_cpu })

OPERATOR_INTERNAL(dml_loss_grad, .doc = "gradient of dml_loss", .attr_bytes = sizeof(LossAttr),
                  .n_in = 4, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = dml_grad_shape,
                  .cost = dml_cost, .cpu = { .run = dml_loss_grad_cpu })

Tensor dml_loss(Tensor x, Tensor target, Tensor denominator, int levels, float scale)
{
    if (levels < 2 || levels > 1 << 16 || !isfinite(scale))
        return graph_poison(x.graph, E_SHAPE,
                            "dml_loss: %d levels and a scale of %g; 2 to 65536 levels can be told "
                            "apart",
                            levels, (double)scale);
    return node_add(x.graph, &op_dml_loss, &(LossAttr){ scale, levels },
                    TENSORS(x, target, denominator), NULL);
}
