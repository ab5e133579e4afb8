/* extreme.c -- the largest or smallest along axes: rules and builders. */
#include "ops/index/extreme.h"

#include "ops/elementwise/basic.h"
#include "ops/index/gather.h"
#include "ops/operator.h"
#include "ops/reduce/reduce.h"

static Err arg_extreme_shape(Node *n)
{
    out_set(n, 0, I32, ATTR(n, ExtremeAttr)->shape);
    return OK;
}

static Err extreme_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), ATTR(n, ExtremeAttr)->shape);
    return OK;
}

static Cost extreme_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0), .bytes = node_bytes(n) };
}

static bool extreme_chunk(const ChunkCall *c) /* along the outer indices */
{
    ExtremeAttr *at = c->attr;
    if (at->a % c->n || chunk_axis(at->shape) != c->axis || !chunk_divides(at->shape, c->n))
        return false;
    at->a /= c->n;
    at->shape = chunk_shape(at->shape, c->n);
    return true;
}

OPERATOR(arg_extreme, .doc = "index of the first of the largest, or smallest, along an axis",
         .chunk = { CHUNK_CUSTOM, INPUT(0), extreme_chunk }, .attr_bytes = sizeof(ExtremeAttr),
         .n_in = 1, .n_out = 1, .shape = arg_extreme_shape, .cost = extreme_cost,
         .cpu = { .run = arg_extreme_cpu })

static void extreme_rule(Grad *g)
{
    ExtremeAttr at = *ATTR(g->node, ExtremeAttr);
    at.shape = tensor_shape(grad_in(g, 0));
    grad_give(g, 0,
              node_add(g->graph, &op_extreme_grad, &at,
                       TENSORS(grad_in(g, 0), grad_out(g, 0), grad_dy(g, 0)), NULL));
}

OPERATOR(extreme, .doc = "the largest, or smallest, over axes",
         .chunk = { CHUNK_CUSTOM, INPUT(0), extreme_chunk }, .attr_bytes = sizeof(ExtremeAttr),
         .n_in = 1, .n_out = 1, .shape = extreme_shape, .grad = extreme_rule, .cost = extreme_cost,
         .cpu = { .run = extreme_cpu })

OPERATOR_INTERNAL(extreme_grad, .doc = "dy divided among the elements that are the largest",
                  .attr_bytes = sizeof(ExtremeAttr), .n_in = 3, .n_out = 1, .shape = extreme_shape,
                  .cost = extreme_cost, .cpu = { .run = extreme_grad_cpu })

static Tensor arg_along(Tensor x, int axis, bool keep, bool min)
{
    if (!tensor_ok(x))
        return x;
    Shape       s = tensor_shape(x);
    int         at = axis < 0 ? axis + s.rank : axis;
    ExtremeAttr attr = { .a = 1, .m = 1, .k = 1, .min = min };
    if (at < 0 || at >= s.rank)
        return graph_poison(x.graph, E_SHAPE, "%s: %s has no axis %d", min ? "argmin" : "argmax",
                            shape_text(s), axis);
    for (int i = 0; i < s.rank; i++)
        *(i < at ? &attr.a : i > at ? &attr.k : &attr.m) *= s.dim[i];
    attr.shape = keep ? shape_with(s, at, 1) : s.rank > 1 ? shape_drop(s, at) : SHAPE(1);
    return node_add(x.graph, &op_arg_extreme, &attr, TENSORS(x), NULL);
}

Tensor argmax(Tensor x, int axis, bool keep) { return arg_along(x, axis, keep, false); }
Tensor argmin(Tensor x, int axis, bool keep) { return arg_along(x, axis, keep, true); }

static Tensor value_along(Tensor x, int axis, bool keep, bool min, Tensor *index)
{
    Tensor which = arg_along(x, axis, true, min), y = gather(x, axis, which);
    if (tensor_ok(y) && !keep) {
        Shape s = tensor_shape(y), dropped = s.rank > 1 ? shape_drop(s, axis) : SHAPE(1);
        y = reshape(y, dropped);
        which = reshape(which, dropped);
    }
    if (index)
        *index = which;
    return y;
}

Tensor max_along(Tensor x, int axis, bool keep, Tensor *index)
{
    return value_along(x, axis, keep, false, index);
}

Tensor min_along(Tensor x, int axis, bool keep, Tensor *index)
{
    return value_along(x, axis, keep, true, index);
}

static Tensor extreme_over(Tensor x, unsigned axes, bool keep, bool min)
{
    ReduceAttr over = { .a = 0 };
    x = axes_together(min ? "amin" : "amax", x, axes, keep, &over);
    ExtremeAttr attr = { over.a, over.m, over.k, min, over.shape };
    return tensor_ok(x) ? node_add(x.graph, &op_extreme, &attr, TENSORS(x), NULL) : x;
}

Tensor amax(Tensor x, unsigned axes, bool keep) { return extreme_over(x, axes, keep, false); }
Tensor amin(Tensor x, unsigned axes, bool keep) { return extreme_over(x, axes, keep, true); }
