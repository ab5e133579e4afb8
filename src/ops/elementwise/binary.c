/* binary.c -- two tensors element by element, and a vector along a tensor: rules. */
#include "ops/elementwise/binary.h"

#include "base/int_math.h"
#include "ops/operator.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/rows.h"
#include "ops/elementwise/unary.h"

#include <math.h>

static Err binary_shape(Node *n)
{
    if (!shape_same(in_shape(n, 0), in_shape(n, 1)))
        return fail(E_SHAPE, "%s: %s and %s differ", n->op->name, shape_text(in_shape(n, 0)),
                    shape_text(in_shape(n, 1)));
    if (!rows_float(n, 2))
        return fail(E_SHAPE, "%s: the inputs must be floats, not %s and %s", n->op->name,
                    type_name(in_type(n, 0)), type_name(in_type(n, 1)));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static Cost binary_cost(const Node *n)
{
    return (Cost){ .flops = 2 * in_count(n, 0), .bytes = node_bytes(n) };
}

static void sub_rule(Grad *g)
{
    grad_give(g, 0, grad_dy(g, 0));
    if (grad_wants(g, 1))
        grad_give(g, 1, affine(grad_dy(g, 0), -1, 0));
}

OPERATOR(sub, .doc = "x - y, element by element", .chunk = { CHUNK_ELEMENTS, ALL_INPUTS },
         .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = binary_shape, .grad = sub_rule,
         .cost = binary_cost, .cpu = { .run = sub_cpu })

static void mul_rule(Grad *g)
{
    for (int i = 0; i < 2; i++)
        if (grad_wants(g, i))
            grad_give(g, i, mul(grad_dy(g, 0), grad_in(g, 1 - i)));
}

OPERATOR(mul, .doc = "x y, element by element", .chunk = { CHUNK_ELEMENTS, ALL_INPUTS }, .n_in = 2,
         .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = binary_shape, .grad = mul_rule,
         .cost = binary_cost, .cpu = { .run = mul_cpu })

static void weighted_sum_rule(Grad *g)
{
    WeightedAttr attr = *ATTR(g->node, WeightedAttr);
    for (int i = 0; i < 2; i++)
        if (grad_wants(g, i))
            grad_give(g, i, affine(grad_dy(g, 0), i ? attr.b : attr.a, 0));
}

OPERATOR(weighted_sum, .doc = "a x + b y with fixed a and b",
         .chunk = { CHUNK_ELEMENTS, ALL_INPUTS }, .attr_bytes = sizeof(WeightedAttr), .n_in = 2,
         .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = binary_shape, .grad = weighted_sum_rule,
         .cost = binary_cost, .cpu = { .run = weighted_sum_cpu })

Tensor sub(Tensor x, Tensor y) { return node_add(x.graph, &op_sub, NULL, TENSORS(x, y), NULL); }
Tensor mul(Tensor x, Tensor y) { return node_add(x.graph, &op_mul, NULL, TENSORS(x, y), NULL); }

Tensor weighted_sum(Tensor x, float a, Tensor y, float b)
{
    if (!isfinite(a) || !isfinite(b))
        return graph_poison(x.graph, E_SHAPE, "weighted_sum: %g x + %g y is not finite", (double)a,
                            (double)b);
    return node_add(x.graph, &op_weighted_sum, &(WeightedAttr){ a, b }, TENSORS(x, y), NULL);
}

/* in: x, v [, h]; attr: how v lies along x */
static Err rows_shape(Node *n)
{
    if (!rows_float(n, n->n_in))
        return fail(E_SHAPE, "%s: the inputs must all be floats", n->op->name);
    if (n->n_in == 3 && !shape_same(in_shape(n, 0), in_shape(n, 2)))
        return fail(E_SHAPE, "%s: %s and %s differ", n->op->name, shape_text(in_shape(n, 0)),
                    shape_text(in_shape(n, 2)));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static Tensor rows_add(const OpDef *op, Tensor x, Tensor v, Tensor h, int n_in)
{
    Tensor     in[] = { x, v, h };
    ReduceAttr fit;
    if (tensor_ok(x) && tensor_ok(v) && !broadcast_fit(tensor_shape(x), tensor_shape(v), &fit))
        return graph_poison(x.graph, E_SHAPE,
                            "%s: %s does not lie along %s; give (C), (B,C) or ones in the "
                            "repeated axes",
                            op->name, shape_text(tensor_shape(v)), shape_text(tensor_shape(x)));
    return node_add(x.graph, op, &fit, in, n_in, NULL);
}

/* The gradient of v: the sum of dy (times what v multiplied) over the axes where v was repeated. */
static void rows_give_sum(Grad *g, Tensor factor)
{
    ReduceAttr fit = *ATTR(g->node, ReduceAttr);
    if (!grad_wants(g, 1))
        return;
    fit.type = rows_grad_type(grad_in(g, 1));
    grad_give(g, 1, reduce_sum(grad_dy(g, 0), factor, fit));
}

static void add_rows_rule(Grad *g)
{
    grad_give(g, 0, grad_dy(g, 0));
    rows_give_sum(g, tensor_none(g->graph));
}

/* A vector along input 0 is sliced with it where it shares its leading axis. */
static bool broadcast_chunk(const ChunkCall *c)
{
    Shape       x = in_shape(c->node, 0), v = in_shape(c->node, 1);
    ReduceAttr *fit = c->attr;
    if (fit->a > 1) { /* v has the leading axis of x */
        if (!chunk_divides(v, c->n) || chunk_axis(v) != c->axis || v.dim[c->axis] != x.dim[c->axis])
            return false;
        *c->inputs |= INPUT(1);
        v = chunk_shape(v, c->n);
    }
    return broadcast_fit(chunk_shape(x, c->n), v, fit);
}

OPERATOR(add_rows, .doc = "x + v, v repeated along x",
         .chunk = { CHUNK_CUSTOM, INPUT(0), broadcast_chunk }, .attr_bytes = sizeof(ReduceAttr),
         .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = rows_shape,
         .grad = add_rows_rule, .cost = binary_cost, .cpu = { .run = add_rows_cpu })

static void mul_rows_rule(Grad *g)
{
    if (grad_wants(g, 0))
        grad_give(g, 0, mul_rows(grad_dy(g, 0), grad_in(g, 1)));
    rows_give_sum(g, grad_in(g, 0));
}

OPERATOR(mul_rows, .doc = "x v, v repeated along x",
         .chunk = { CHUNK_CUSTOM, INPUT(0), broadcast_chunk }, .attr_bytes = sizeof(ReduceAttr),
         .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = rows_shape,
         .grad = mul_rows_rule, .cost = binary_cost, .cpu = { .run = mul_rows_cpu })

/* in: dy gate h; out: dh dgate */
static Err gated_add_grad_shape(Node *n)
{
    const ReduceAttr *fit = ATTR(n, ReduceAttr);
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    out_set(n, 1, fit->type, fit->shape);
    return OK;
}

static Cost gated_add_grad_cost(const Node *n)
{
    double flops = n->n_out > n->op->n_out ? 4 : 3; /* 4: partial column sums of dh too */
    return (Cost){ .flops = flops * in_count(n, 0), .bytes = node_bytes(n) };
}

static int64_t gated_add_grad_partial_sums(const Node *n)
{
    const ReduceAttr *fit = ATTR(n, ReduceAttr);
    int64_t           each = gated_add_grad_rows(fit), count = fit->a * ceil_div(fit->m, each);
    bool              rows = fit->k == dim(in_shape(n, 0), -1) && fit->k >= 64 && fit->m >= 32;
    return rows && count <= 16 * COL_SUMS_MAX && col_sums_count(in_shape(n, 0)) ? count : 0;
}

OPERATOR_INTERNAL(gated_add_grad,
                  .doc = "gradients of h and gate: gate dy; dy h summed over what gate serves",
                  .attr_bytes = sizeof(ReduceAttr), .n_in = 3, .n_out = 2,
                  .inplace = IN_PLACE_OF(0), .shape = gated_add_grad_shape,
                  .cost = gated_add_grad_cost,
                  .cpu = { .choose = gated_add_grad_choose_cpu, .run = gated_add_grad_cpu },
                  .partial_sums = gated_add_grad_partial_sums)

static void gated_add_rule(Grad *g)
{
    ReduceAttr fit = *ATTR(g->node, ReduceAttr);
    Tensor     d[2];
    grad_give(g, 0, grad_dy(g, 0));
    if (grad_wants(g, 1) && grad_wants(g, 2)) {
        fit.type = rows_grad_type(grad_in(g, 1));
        node_add(g->graph, &op_gated_add_grad, &fit,
                 TENSORS(grad_dy(g, 0), grad_in(g, 1), grad_in(g, 2)), d);
        grad_give(g, 2, d[0]);
        grad_give(g, 1, d[1]);
        return;
    }
    rows_give_sum(g, grad_in(g, 2));
    if (grad_wants(g, 2))
        grad_give(g, 2, mul_rows(grad_dy(g, 0), grad_in(g, 1)));
}

OPERATOR(gated_add, .doc = "x + gate h, gate repeated along h",
         .chunk = { CHUNK_CUSTOM, INPUT(0) | INPUT(2), broadcast_chunk },
         .attr_bytes = sizeof(ReduceAttr), .n_in = 3, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = rows_shape, .grad = gated_add_rule, .cost = binary_cost,
         .cpu = { .run = gated_add_cpu })

Tensor add_rows(Tensor x, Tensor v) { return rows_add(&op_add_rows, x, v, x, 2); }
Tensor mul_rows(Tensor x, Tensor v) { return rows_add(&op_mul_rows, x, v, x, 2); }
Tensor gated_add(Tensor x, Tensor gate, Tensor h) { return rows_add(&op_gated_add, x, gate, h, 3); }
