/* permute.c -- axes in another order: rules and builders. */
#include "ops/arrange/permute.h"

#include "ops/elementwise/basic.h"
#include "ops/operator.h"

static Err permute_shape(Node *n)
{
    const PermuteAttr *attr = ATTR(n, PermuteAttr);
    int64_t            count = 1;
    unsigned           seen = 0;
    for (int i = 0; i < attr->rank; i++) {
        count *= attr->dim[i];
        if (attr->axis[i] >= 0 && attr->axis[i] < attr->rank)
            seen |= 1u << attr->axis[i];
    }
    if (seen != (1u << attr->rank) - 1)
        return fail(E_SHAPE, "permute: the axes given for %s are not an order of its %d axes",
                    shape_text(in_shape(n, 0)), attr->rank);
    if (count != shape_count(in_shape(n, 0)) || count != shape_count(attr->shape))
        return fail(E_SHAPE, "permute: %s cannot become %s", shape_text(in_shape(n, 0)),
                    shape_text(attr->shape));
    out_set(n, 0, in_type(n, 0), attr->shape);
    return OK;
}

static void permute_rule(Grad *g)
{
    PermuteAttr attr = *ATTR(g->node, PermuteAttr), back = attr;
    for (int i = 0; i < attr.rank; i++) {
        back.dim[i] = attr.dim[attr.axis[i]];
        back.axis[attr.axis[i]] = i;
    }
    back.shape = tensor_shape(grad_in(g, 0));
    grad_give(g, 0, permute_as(grad_dy(g, 0), back));
}

static Cost permute_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

static bool permute_chunk(const ChunkCall *c) /* the outermost axis stays outermost */
{
    PermuteAttr *permute = c->attr;
    if (c->axis != 0 || permute->axis[0] != 0 || permute->dim[0] % c->n ||
        !chunk_divides(permute->shape, c->n) || chunk_axis(permute->shape) != 0)
        return false;
    permute->dim[0] /= c->n;
    permute->shape = chunk_shape(permute->shape, c->n);
    return true;
}

OPERATOR(permute, .doc = "axes in another order",
         .chunk = { CHUNK_CUSTOM, INPUT(0), permute_chunk }, .attr_bytes = sizeof(PermuteAttr),
         .n_in = 1, .n_out = 1, .shape = permute_shape, .grad = permute_rule, .cost = permute_cost,
         .cpu = { .run = permute_cpu })

/* Where the axes longer than one keep their order, no byte moves: it is a reshape. */
Tensor permute_as(Tensor x, PermuteAttr attr)
{
    int  last = -1;
    bool moves = false;
    for (int i = 0; i < attr.rank; i++) {
        int axis = attr.axis[i];
        if (axis < 0 || axis >= attr.rank || attr.dim[axis] == 1)
            continue;
        moves |= axis < last;
        last = axis;
    }
    if (!moves && tensor_ok(x) && shape_count(attr.shape) == shape_count(tensor_shape(x)))
        return reshape(x, attr.shape);
    return node_add(x.graph, &op_permute, &attr, TENSORS(x), NULL);
}

Tensor permute(Tensor x, const int *axis)
{
    Shape       s = tensor_shape(x);
    PermuteAttr attr = { .rank = s.rank, .shape = s };
    for (int i = 0; i < s.rank; i++) {
        attr.dim[i] = s.dim[i];
        attr.axis[i] = axis[i];
        if (axis[i] < 0 || axis[i] >= s.rank)
            return graph_poison(x.graph, E_SHAPE, "permute: %s has no axis %d", shape_text(s),
                                axis[i]);
        attr.shape.dim[i] = s.dim[axis[i]];
    }
    return permute_as(x, attr);
}

Tensor swap_axes(Tensor x, int a, int b)
{
    Shape s = tensor_shape(x);
    int   axis[MAX_RANK], p = a < 0 ? a + s.rank : a, q = b < 0 ? b + s.rank : b;
    if (!tensor_ok(x))
        return x;
    if (p < 0 || q < 0 || p >= s.rank || q >= s.rank)
        return graph_poison(x.graph, E_SHAPE, "swap_axes: %s has no axes %d and %d", shape_text(s),
                            a, b);
    for (int i = 0; i < s.rank; i++)
        axis[i] = i == p ? q : i == q ? p : i;
    return permute(x, axis);
}

/* whole (B, n spatial axes, C), divided by patch[] along each, or assembled again. */
static Tensor patches(Tensor x, Shape whole, const int *patch, int n, bool divide)
{
    PermuteAttr attr = { .rank = 2 + 2 * n };
    int64_t     tokens = 1, width = 1;
    if (!tensor_ok(x))
        return x;
    if (whole.rank != n + 2)
        return graph_poison(x.graph, E_SHAPE, "patches: %s is not (B,%s,C)", shape_text(whole),
                            n == 2 ? "H,W" : "D,H,W");
    for (int i = 0; i < n; i++) {
        if (patch[i] < 1 || whole.dim[i + 1] % patch[i])
            return graph_poison(x.graph, E_SHAPE,
                                "patches: axis %d of %s does not divide into patches of %d", i + 1,
                                shape_text(whole), patch[i]);
        tokens *= whole.dim[i + 1] / patch[i];
        width *= patch[i];
    }
    width *= whole.dim[n + 1];
    Shape   flat = SHAPE(whole.dim[0], tokens, width);
    int64_t grid[PERMUTE_RANK];  /* B, (H/p, p), (W/q, q), C */
    int     order[PERMUTE_RANK]; /* B, H/p, W/q, p, q, C of that */
    grid[0] = whole.dim[0];
    grid[2 * n + 1] = whole.dim[n + 1];
    order[0] = 0;
    order[2 * n + 1] = 2 * n + 1;
    for (int i = 0; i < n; i++) {
        grid[1 + 2 * i] = whole.dim[i + 1] / patch[i];
        grid[2 + 2 * i] = patch[i];
        order[1 + i] = 1 + 2 * i;
        order[1 + n + i] = 2 + 2 * i;
    }
    if (!shape_same(tensor_shape(x), divide ? whole : flat))
        return graph_poison(x.graph, E_SHAPE, "patches: %s is not %s", shape_text(tensor_shape(x)),
                            shape_text(divide ? whole : flat));
    attr.shape = divide ? flat : whole;
    for (int i = 0; i < attr.rank; i++)
        if (divide) {
            attr.dim[i] = grid[i];
            attr.axis[i] = order[i];
        } else {
            attr.dim[i] = grid[order[i]];
            attr.axis[order[i]] = i;
        }
    return permute_as(x, attr);
}

Tensor patchify2d(Tensor x, int p, int q)
{
    return patches(x, tensor_shape(x), (int[]){ p, q }, 2, true);
}
Tensor patchify3d(Tensor x, int p, int q, int r)
{
    return patches(x, tensor_shape(x), (int[]){ p, q, r }, 3, true);
}

Tensor unpatchify2d(Tensor x, Shape image, int p, int q)
{
    return patches(x, image, (int[]){ p, q }, 2, false);
}

Tensor unpatchify3d(Tensor x, Shape volume, int p, int q, int r)
{
    return patches(x, volume, (int[]){ p, q, r }, 3, false);
}

PermuteAxes permute_axes(const PermuteAttr *at)
{
    PermuteAxes axes = { 0 };
    int64_t     stride[PERMUTE_RANK], step = 1;
    for (int i = at->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= at->dim[i];
    }
    for (int i = 0; i < at->rank; i++) {
        int64_t extent = at->dim[at->axis[i]], from = stride[at->axis[i]];
        int     last = axes.rank - 1;
        if (extent == 1)
            continue;
        if (last >= 0 && axes.from[last] == from * extent) { /* still follows its neighbour */
            axes.dim[last] *= extent;
            axes.from[last] = from;
        } else {
            axes.dim[axes.rank] = extent;
            axes.from[axes.rank++] = from;
        }
    }
    step = 1;
    for (int i = axes.rank - 1; i >= 0; i--) {
        axes.to[i] = step;
        step *= axes.dim[i];
    }
    return axes;
}
