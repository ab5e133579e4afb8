/* sort.c -- values in order, or the first few of them: rules and builders. */
#include "ops/index/sort.h"

#include "ops/arrange/permute.h"
#include "ops/elementwise/basic.h"
#include "ops/index/gather.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err sort_shape(Node *n)
{
    Shape   s = in_shape(n, 0);
    int64_t k = ATTR(n, SortAttr)->k;
    if (s.rank < 1 || k < 1 || k > dim(s, -1))
        return fail(E_SHAPE, "sort: %lld values cannot be taken from the last axis of %s",
                    (long long)k, shape_text(s));
    out_set(n, 0, in_type(n, 0), shape_with(s, -1, k));
    out_set(n, 1, I32, shape_with(s, -1, k));
    return OK;
}

static Cost sort_cost(const Node *n)
{
    return (Cost){ .flops = 20 * in_count(n, 0), .bytes = node_bytes(n) };
}

static void sort_rule(Grad *g) /* every value goes back to where it was */
{
    Tensor     x = grad_in(g, 0);
    Shape      s = tensor_shape(x);
    GatherAttr at = { .a = shape_rows(s),
                      .n = dim(s, -1),
                      .k = 1,
                      .m = ATTR(g->node, SortAttr)->k,
                      .padding = -1,
                      .distinct = true,
                      .shape = s,
                      .type = F32 };
    Tensor     d = node_add(g->graph, &op_scatter_add, &at,
                            TENSORS(tensor_none(g->graph), grad_out(g, 1), grad_dy(g, 0)), NULL);
    grad_give(g, 0, tensor_ok(d) ? cast(d, rows_grad_type(x)) : d);
}

OPERATOR(sort, .doc = "the first values of the last axis in order, and their indices",
         .chunk = { CHUNK_ROWS, INPUT(0) }, .attr_bytes = sizeof(SortAttr), .n_in = 1, .n_out = 2,
         .shape = sort_shape, .grad = sort_rule, .cost = sort_cost,
         .cpu = { .choose = sort_choose_cpu, .run = sort_cpu })

void topk(Tensor *out, Tensor x, int64_t k, int axis, bool largest)
{
    out[0] = out[1] = x;
    if (!tensor_ok(x))
        return;
    Shape s = tensor_shape(x);
    int   at = axis < 0 ? axis + s.rank : axis;
    if (at < 0 || at >= s.rank) {
        out[0] = out[1] = graph_poison(x.graph, E_SHAPE, "sort: %s has no axis %d", shape_text(s),
                                       axis);
        return;
    }
    node_add(x.graph, &op_sort, &(SortAttr){ k, largest }, TENSORS(swap_axes(x, at, -1)), out);
    for (int i = 0; i < 2; i++)
        out[i] = swap_axes(out[i], at, -1);
}

void sort(Tensor *out, Tensor x, int axis, bool descending)
{
    Shape s = tensor_ok(x) ? tensor_shape(x) : SHAPE(1);
    int   at = axis < 0 ? axis + s.rank : axis;
    topk(out, x, at >= 0 && at < s.rank ? s.dim[at] : 1, axis, descending);
}
