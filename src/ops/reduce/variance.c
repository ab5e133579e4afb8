/* variance.c -- variance and product over any set of axes: rules. */
#include "ops/reduce/variance.h"

#include "ops/operator.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/rows.h"

static Err moment_shape(Node *n)
{
    if (!rows_float(n, 1))
        return fail(E_SHAPE, "%s: the input must be floats, not %s", n->op->name,
                    type_name(in_type(n, 0)));
    out_set(n, 0, ATTR(n, MomentAttr)->type, ATTR(n, MomentAttr)->shape);
    return OK;
}

static Cost moment_cost(const Node *n)
{
    return (Cost){ .flops = 4 * in_count(n, 0), .bytes = node_bytes(n) };
}

static bool moment_chunk(const ChunkCall *c) /* along the outer indices */
{
    MomentAttr *at = c->attr;
    if (at->a % c->n || chunk_axis(at->shape) != c->axis || !chunk_divides(at->shape, c->n))
        return false;
    at->a /= c->n;
    at->shape = chunk_shape(at->shape, c->n);
    return true;
}

static void moment_rule(Grad *g, const OpDef *op)
{
    MomentAttr at = *ATTR(g->node, MomentAttr);
    at.shape = tensor_shape(grad_in(g, 0));
    at.type = rows_grad_type(grad_in(g, 0));
    grad_give(g, 0, node_add(g->graph, op, &at, TENSORS(grad_in(g, 0), grad_dy(g, 0)), NULL));
}

static void var_rule(Grad *g) { moment_rule(g, &op_var_grad); }
static void prod_rule(Grad *g) { moment_rule(g, &op_prod_grad); }

OPERATOR(var, .doc = "variance over axes, in two passes, fp32",
         .chunk = { CHUNK_CUSTOM, INPUT(0), moment_chunk }, .attr_bytes = sizeof(MomentAttr),
         .n_in = 1, .n_out = 1, .shape = moment_shape, .grad = var_rule, .cost = moment_cost,
         .cpu = { .run = var_cpu })

OPERATOR_INTERNAL(var_grad, .doc = "gradient of a variance; recomputes the mean",
                  .attr_bytes = sizeof(MomentAttr), .n_in = 2, .n_out = 1,
                  .inplace = IN_PLACE_OF(0), .shape = moment_shape, .cost = moment_cost,
                  .cpu = { .run = var_grad_cpu })

OPERATOR(prod, .doc = "product over axes, in fp32",
         .chunk = { CHUNK_CUSTOM, INPUT(0), moment_chunk }, .attr_bytes = sizeof(MomentAttr),
         .n_in = 1, .n_out = 1, .shape = moment_shape, .grad = prod_rule, .cost = moment_cost,
         .cpu = { .run = prod_cpu })

OPERATOR_INTERNAL(prod_grad, .doc = "gradient of a product, also where x is 0",
                  .attr_bytes = sizeof(MomentAttr), .n_in = 2, .n_out = 1,
                  .inplace = IN_PLACE_OF(0), .shape = moment_shape, .cost = moment_cost,
                  .cpu = { .run = prod_grad_cpu })

static Tensor moment_over(const OpDef *op, Tensor x, unsigned axes, float correction, bool keep)
{
    ReduceAttr over = { .a = 0 };
    x = axes_together(op->name, x, axes, keep, &over);
    MomentAttr attr = { over.a, over.m, over.k, correction, over.shape, over.type };
    return tensor_ok(x) ? node_add(x.graph, op, &attr, TENSORS(x), NULL) : x;
}

Tensor var_over(Tensor x, unsigned axes, float correction, bool keep)
{
    return moment_over(&op_var, x, axes, correction, keep);
}

Tensor prod_over(Tensor x, unsigned axes, bool keep)
{
    return moment_over(&op_prod, x, axes, 0, keep);
}
