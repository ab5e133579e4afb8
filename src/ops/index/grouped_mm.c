/* grouped_mm.c -- rows in groups, each multiplied by its own matrix: rules. */
#include "ops/index/grouped_mm.h"

#include "ops/elementwise/basic.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err grouped_mm_shape(Node *n) /* in: x, w, ends */
{
    Shape x = in_shape(n, 0), w = in_shape(n, 1), ends = in_shape(n, 2);
    bool  transposed = ATTR(n, GroupedAttr)->transposed;
    if (x.rank != 2 || w.rank != 3 || w.dim[transposed ? 2 : 1] != x.dim[1] ||
        !shape_same(ends, SHAPE(w.dim[0])) || in_type(n, 2) != I32)
        return fail(E_SHAPE,
                    "grouped_mm: rows %s by matrices %s with ends %s %s; needs (T,K), (G,K,N) and "
                    "(G) i32",
                    shape_text(x), shape_text(w), type_name(in_type(n, 2)), shape_text(ends));
    if (in_type(n, 0) != in_type(n, 1) || !rows_float(n, 2))
        return fail(E_SHAPE, "grouped_mm: rows are %s, matrices %s", type_name(in_type(n, 0)),
                    type_name(in_type(n, 1)));
    out_set(n, 0, in_type(n, 0), SHAPE(x.dim[0], w.dim[transposed ? 1 : 2]));
    return OK;
}

static Err grouped_mm_grad_w_shape(Node *n) /* in: x, dy, ends */
{
    out_set(n, 0, F32, SHAPE(in_shape(n, 2).dim[0], in_shape(n, 0).dim[1], in_shape(n, 1).dim[1]));
    return OK;
}

static Cost grouped_mm_cost(const Node *n)
{
    double other = n->op == &op_grouped_mm ? (double)dim(out_shape(n, 0), -1)
                                           : (double)dim(in_shape(n, 1), -1);
    return (Cost){ .flops = 2 * in_count(n, 0) * other, .bytes = node_bytes(n) };
}

static void grouped_mm_rule(Grad *g)
{
    Tensor x = grad_in(g, 0), w = grad_in(g, 1), ends = grad_in(g, 2), dy = grad_dy(g, 0);
    bool   transposed = ATTR(g->node, GroupedAttr)->transposed;
    dy = cast(dy, tensor_type(x));
    if (grad_wants(g, 1)) {
        GroupedAttr attr = { false };
        Tensor      d = node_add(g->graph, &op_grouped_mm_grad_w, &attr,
                                 TENSORS(transposed ? dy : x, transposed ? x : dy, ends), NULL);
        grad_give(g, 1, tensor_ok(d) ? cast(d, rows_grad_type(w)) : d);
    }
    if (grad_wants(g, 0)) {
        GroupedAttr attr = { !transposed };
        grad_give(g, 0, node_add(g->graph, &op_grouped_mm, &attr, TENSORS(dy, w, ends), NULL));
    }
}

OPERATOR(grouped_mm, .doc = "rows in groups, each multiplied by its own matrix",
         .attr_bytes = sizeof(GroupedAttr), .n_in = 3, .n_out = 1, .shape = grouped_mm_shape,
         .grad = grouped_mm_rule, .cost = grouped_mm_cost,
         .cpu = { .choose = grouped_mm_choose_cpu, .run = grouped_mm_cpu })

OPERATOR_INTERNAL(grouped_mm_grad_w, .doc = "x^T dy of each group, fp32",
                  .attr_bytes = sizeof(GroupedAttr), .n_in = 3, .n_out = 1,
                  .shape = grouped_mm_grad_w_shape, .cost = grouped_mm_cost,
                  .cpu = { .choose = grouped_mm_choose_cpu, .run = grouped_mm_grad_w_cpu })

Tensor grouped_mm(Tensor x, Tensor w, Tensor ends)
{
    return node_add(x.graph, &op_grouped_mm, &(GroupedAttr){ false }, TENSORS(x, w, ends), NULL);
}
