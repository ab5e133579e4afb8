/* softmax.c -- softmax and its relatives over the last axis: rules. */
#include "ops/reduce/softmax.h"

#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err softmax_check(const Node *n)
{
    if (!rows_float(n, 1) || in_shape(n, 0).rank < 1)
        return fail(E_SHAPE, "%s: the input must be floats with a last axis, not %s %s",
                    n->op->name, type_name(in_type(n, 0)), shape_text(in_shape(n, 0)));
    return OK;
}

/* Also of the gradients, whose input 0 has the shape of x. */
static Err softmax_shape(Node *n)
{
    TRY(softmax_check(n));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static Err logsumexp_shape(Node *n)
{
    TRY(softmax_check(n));
    Shape y = shape_drop(in_shape(n, 0), -1);
    out_set(n, 0, F32, y.rank ? y : SHAPE(1));
    return OK;
}

static Cost softmax_cost(const Node *n)
{
    return (Cost){ .flops = 30 * in_count(n, 0), .bytes = node_bytes(n) };
}

static void softmax_rule(Grad *g)
{
    grad_give(
        g, 0,
        node_add(g->graph, &op_softmax_grad, NULL, TENSORS(grad_out(g, 0), grad_dy(g, 0)), NULL));
}

static void log_softmax_rule(Grad *g)
{
    grad_give(g, 0,
              node_add(g->graph, &op_log_softmax_grad, NULL, TENSORS(grad_out(g, 0), grad_dy(g, 0)),
                       NULL));
}

static void logsumexp_rule(Grad *g)
{
    grad_give(g, 0,
              node_add(g->graph, &op_logsumexp_grad, NULL,
                       TENSORS(grad_in(g, 0), grad_out(g, 0), grad_dy(g, 0)), NULL));
}

OPERATOR(softmax, .doc = "exp(x) / sum exp(x) over the last axis",
         .chunk = { CHUNK_ROWS, INPUT(0) }, .n_in = 1, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = softmax_shape, .grad = softmax_rule, .cost = softmax_cost,
         .cpu = { .run = softmax_cpu })

OPERATOR_INTERNAL(softmax_grad, .doc = "gradient of softmax, from its output", .n_in = 2,
                  .n_out = 1, .inplace = IN_PLACE_OF(1), .shape = softmax_shape,
                  .cost = softmax_cost, .cpu = { .run = softmax_grad_cpu })

OPERATOR(log_softmax, .doc = "x - log sum exp(x) over the last axis",
         .chunk = { CHUNK_ROWS, INPUT(0) }, .n_in = 1, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = softmax_shape, .grad = log_softmax_rule, .cost = softmax_cost,
         .cpu = { .run = log_softmax_cpu })

OPERATOR_INTERNAL(log_softmax_grad, .doc = "gradient of log_softmax, from its output", .n_in = 2,
                  .n_out = 1, .inplace = IN_PLACE_OF(1), .shape = softmax_shape,
                  .cost = softmax_cost, .cpu = { .run = log_softmax_grad_cpu })

OPERATOR(logsumexp, .doc = "log sum exp(x) over the last axis", .n_in = 1, .n_out = 1,
         .shape = logsumexp_shape, .grad = logsumexp_rule, .cost = softmax_cost,
         .cpu = { .run = logsumexp_cpu })

OPERATOR_INTERNAL(logsumexp_grad, .doc = "gradient of logsumexp: softmax times dy", .n_in = 3,
                  .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = softmax_shape,
                  .cost = softmax_cost, .cpu = { .run = logsumexp_grad_cpu })

/* clang-format off */
Tensor softmax(Tensor x)     { return node_add(x.graph, &op_softmax, NULL, TENSORS(x), NULL); }
Tensor log_softmax(Tensor x) { return node_add(x.graph, &op_log_softmax, NULL, TENSORS(x), NULL); }
Tensor logsumexp(Tensor x)   { return node_add(x.graph, &op_logsumexp, NULL, TENSORS(x), NULL); }
/* clang-format on */
