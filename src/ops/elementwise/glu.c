/* glu.c -- gated linear units: rules. */
#include "ops/elementwise/glu.h"

#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err glu_shape(Node *n)
{
    Shape s = in_shape(n, 0);
    if (!rows_float(n, 1) || s.rank < 1 || dim(s, -1) % 2)
        return fail(E_SHAPE, "%s: the last axis of %s %s must be even", n->op->name,
                    type_name(in_type(n, 0)), shape_text(s));
    out_set(n, 0, in_type(n, 0), shape_with(s, -1, dim(s, -1) / 2));
    return OK;
}

static Err glu_grad_shape(Node *n) /* in: x, dy */
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static Cost glu_cost(const Node *n)
{
    return (Cost){ .flops = 20 * in_count(n, 0), .bytes = node_bytes(n) };
}

static void glu_rule(Grad *g)
{
    grad_give(g, 0,
              node_add(g->graph, &op_glu_grad, NULL, TENSORS(grad_in(g, 0), grad_dy(g, 0)), NULL));
}

static void geglu_rule(Grad *g)
{
    grad_give(
        g, 0,
        node_add(g->graph, &op_geglu_grad, NULL, TENSORS(grad_in(g, 0), grad_dy(g, 0)), NULL));
}

OPERATOR(glu, .doc = "first half times sigmoid of the second", .chunk = { CHUNK_ROWS, INPUT(0) },
         .n_in = 1, .n_out = 1, .shape = glu_shape, .grad = glu_rule, .cost = glu_cost,
         .cpu = { .run = glu_cpu })

OPERATOR_INTERNAL(glu_grad, .doc = "gradient of glu, in place of its input", .n_in = 2, .n_out = 1,
                  .inplace = IN_PLACE_OF(0), .shape = glu_grad_shape, .cost = glu_cost,
                  .cpu = { .run = glu_grad_cpu })

static int64_t gate_bytes(const Node *n) { return value_at(n->graph, n->out[0])->bytes; }

OPERATOR(geglu, .doc = "first half times gelu of the second",
         .never_stored = { "gate after its activation", "the gradient recomputes it from the input",
                           gate_bytes },
         .chunk = { CHUNK_ROWS, INPUT(0) }, .n_in = 1, .n_out = 1, .shape = glu_shape,
         .grad = geglu_rule, .cost = glu_cost, .cpu = { .run = geglu_cpu })

OPERATOR_INTERNAL(geglu_grad, .doc = "gradient of geglu, in place of its input", .n_in = 2,
                  .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = glu_grad_shape, .cost = glu_cost,
                  .cpu = { .run = geglu_grad_cpu })

/* clang-format off */
Tensor glu(Tensor x)   { return node_add(x.graph, &op_glu, NULL, TENSORS(x), NULL); }
Tensor geglu(Tensor x) { return node_add(x.graph, &op_geglu, NULL, TENSORS(x), NULL); }
/* clang-format on */
