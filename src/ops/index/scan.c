/* scan.c -- running sums and products along an axis: rules. */
#include "ops/index/scan.h"

#include "ops/elementwise/basic.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err cumsum_shape(Node *n)
{
    out_set(n, 0, ATTR(n, ScanAttr)->type, in_shape(n, 0));
    return OK;
}

static Cost scan_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0), .bytes = node_bytes(n) };
}

static void cumsum_rule(Grad *g) /* from the other end */
{
    ScanAttr at = *ATTR(g->node, ScanAttr);
    Tensor   dy = grad_dy(g, 0);
    at.reverse = !at.reverse;
    at.type = tensor_type(dy);
    grad_give(g, 0, node_add(g->graph, &op_cumsum, &at, TENSORS(dy), NULL));
}

static bool scan_chunk(const ChunkCall *c) /* along the outer indices */
{
    ScanAttr *at = c->attr;
    if (at->a % c->n)
        return false;
    at->a /= c->n;
    return true;
}

OPERATOR(cumsum, .doc = "running sums along an axis",
         .chunk = { CHUNK_CUSTOM, INPUT(0), scan_chunk }, .attr_bytes = sizeof(ScanAttr), .n_in = 1,
         .n_out = 1, .shape = cumsum_shape, .grad = cumsum_rule, .cost = scan_cost,
         .cpu = { .run = cumsum_cpu })

static Err cumprod_shape(Node *n)
{
    if (!rows_float(n, 1))
        return fail(E_SHAPE, "cumprod: the input must be floats, not %s", type_name(in_type(n, 0)));
    out_set(n, 0, ATTR(n, ScanAttr)->type, in_shape(n, 0));
    return OK;
}

static void cumprod_rule(Grad *g)
{
    ScanAttr at = *ATTR(g->node, ScanAttr);
    at.type = rows_grad_type(grad_in(g, 0));
    grad_give(
        g, 0,
        node_add(g->graph, &op_cumprod_grad, &at, TENSORS(grad_in(g, 0), grad_dy(g, 0)), NULL));
}

OPERATOR(cumprod, .doc = "running products along an axis",
         .chunk = { CHUNK_CUSTOM, INPUT(0), scan_chunk }, .attr_bytes = sizeof(ScanAttr), .n_in = 1,
         .n_out = 1, .shape = cumprod_shape, .grad = cumprod_rule, .cost = scan_cost,
         .cpu = { .run = cumprod_cpu })

OPERATOR_INTERNAL(cumprod_grad, .doc = "gradient of running products, also where x is 0",
                  .attr_bytes = sizeof(ScanAttr), .n_in = 2, .n_out = 1, .shape = cumsum_shape,
                  .cost = scan_cost, .cpu = { .run = cumprod_grad_cpu })

static Tensor scan_along(Tensor x, int axis, const OpDef *op)
{
    if (!tensor_ok(x))
        return x;
    Shape    s = tensor_shape(x);
    int      at = axis < 0 ? axis + s.rank : axis;
    ScanAttr attr = { .a = 1, .n = 1, .k = 1, .type = tensor_type(x) };
    if (at < 0 || at >= s.rank)
        return graph_poison(x.graph, E_SHAPE, "%s: %s has no axis %d", op->name, shape_text(s),
                            axis);
    for (int i = 0; i < s.rank; i++)
        *(i < at ? &attr.a : i > at ? &attr.k : &attr.n) *= s.dim[i];
    if (attr.type == U8)
        attr.type = I32;
    return node_add(x.graph, op, &attr, TENSORS(x), NULL);
}

Tensor cumsum(Tensor x, int axis) { return scan_along(x, axis, &op_cumsum); }
Tensor cumprod(Tensor x, int axis) { return scan_along(x, axis, &op_cumprod); }
