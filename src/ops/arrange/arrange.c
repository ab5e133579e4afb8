/* arrange.c -- concat, slice, split, part and put, pad, shift: rules. */
#include "ops/arrange/arrange.h"

#include "ops/elementwise/basic.h"
#include "ops/operator.h"

static Cost arrange_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

static int axis_of(Shape shape, int axis) /* -1 if there is none */
{
    int at = axis < 0 ? axis + shape.rank : axis;
    return at < 0 || at >= shape.rank ? -1 : at;
}

/* True if a slice along this axis is contiguous. */
static bool axis_leads(Shape shape, int axis)
{
    for (int i = 0; i < axis; i++)
        if (shape.dim[i] != 1)
            return false;
    return true;
}

static Err concat_shape(Node *n)
{
    out_set(n, 0, ATTR(n, JoinAttr)->type, ATTR(n, JoinAttr)->whole);
    return OK;
}

static void concat_rule(Grad *g)
{
    JoinAttr attr = *ATTR(g->node, JoinAttr);
    Tensor   parts[ARRANGE_MAX];
    int64_t  from = 0;
    if (axis_leads(attr.whole, attr.axis)) { /* views of dy: no bytes */
        for (int i = 0; i < attr.n; from += attr.extent[i++])
            if (grad_wants(g, i))
                grad_give(g, i, slice(grad_dy(g, 0), attr.axis, from, from + attr.extent[i]));
        return;
    }
    for (int i = 0; i < attr.n; i++)
        attr.wants[i] = grad_wants(g, i);
    attr.type = tensor_type(grad_dy(g, 0));
    node_add(g->graph, &op_split, &attr, TENSORS(grad_dy(g, 0)), parts);
    for (int i = 0; i < attr.n; i++)
        if (attr.wants[i])
            grad_give(g, i, parts[i]);
}

/* Concatenation and its inverse, along an axis inside the chunk. */
static bool join_chunk(const ChunkCall *c)
{
    JoinAttr *join = c->attr;
    bool      can = join->axis > c->axis && chunk_axis(join->whole) == c->axis &&
               chunk_divides(join->whole, c->n);
    if (can)
        join->whole = chunk_shape(join->whole, c->n);
    return can;
}

static bool slice_chunk(const ChunkCall *c) { return ((const SliceAttr *)c->attr)->axis > c->axis; }
static bool shift_chunk(const ChunkCall *c) { return ((const ShiftAttr *)c->attr)->axis > c->axis; }

static bool pad_chunk(const ChunkCall *c)
{
    const PadAttr *pad = c->attr;
    for (int i = 0; i <= c->axis; i++)
        if (pad->before[i] || pad->after[i])
            return false;
    return true;
}

OPERATOR(concat, .doc = "tensors one after another along an axis",
         .chunk = { CHUNK_CUSTOM, ALL_INPUTS, join_chunk }, .attr_bytes = sizeof(JoinAttr),
         .n_in = -1, .n_out = 1, .shape = concat_shape, .grad = concat_rule, .cost = arrange_cost,
         .cpu = { .run = concat_cpu })

Tensor concat(const Tensor *parts, int n, int axis)
{
    JoinAttr attr = { .n = n };
    if (n < 1 || n > ARRANGE_MAX)
        return graph_poison(parts->graph, E_SHAPE, "concat: %d tensors; 1 to %d can be joined", n,
                            ARRANGE_MAX);
    for (int i = 0; i < n; i++)
        if (!tensor_ok(parts[i]))
            return (Tensor){ parts[i].graph, TENSOR_POISONED };
    if (n == 1)
        return parts[0];
    attr.whole = tensor_shape(parts[0]);
    attr.type = tensor_type(parts[0]);
    attr.axis = axis_of(attr.whole, axis);
    if (attr.axis < 0)
        return graph_poison(parts->graph, E_SHAPE, "concat: %s has no axis %d",
                            shape_text(attr.whole), axis);
    attr.whole.dim[attr.axis] = 0;
    for (int i = 0; i < n; i++) {
        Shape s = tensor_shape(parts[i]);
        if (s.rank != attr.whole.rank || tensor_type(parts[i]) != attr.type ||
            !shape_same(shape_with(s, attr.axis, 0), shape_with(attr.whole, attr.axis, 0)))
            return graph_poison(parts->graph, E_SHAPE,
                                "concat: tensor %d is %s %s, tensor 0 is %s %s; they may differ "
                                "along axis %d only",
                                i, type_name(tensor_type(parts[i])), shape_text(s),
                                type_name(attr.type), shape_text(tensor_shape(parts[0])),
                                attr.axis);
        attr.extent[i] = s.dim[attr.axis];
        attr.whole.dim[attr.axis] += s.dim[attr.axis];
    }
    return node_add(parts->graph, &op_concat, &attr, parts, n, NULL);
}

static Err split_shape(Node *n)
{
    const JoinAttr *attr = ATTR(n, JoinAttr);
    for (int i = 0; i < attr->n; i++)
        if (attr->wants[i])
            out_set(n, i, attr->type, shape_with(attr->whole, attr->axis, attr->extent[i]));
    return OK;
}

static void split_rule(Grad *g) /* slices without a gradient are zeros */
{
    JoinAttr attr = *ATTR(g->node, JoinAttr);
    Tensor   parts[ARRANGE_MAX];
    for (int i = 0; i < attr.n; i++)
        parts[i] = tensor_ok(grad_dy(g, i)) ? cast(grad_dy(g, i), attr.type) : grad_dy(g, i);
    grad_give(g, 0, node_add(g->graph, &op_concat, &attr, parts, attr.n, NULL));
}

OPERATOR(split, .doc = "the slices of a tensor along an axis",
         .chunk = { CHUNK_CUSTOM, INPUT(0), join_chunk }, .attr_bytes = sizeof(JoinAttr), .n_in = 1,
         .n_out = ARRANGE_MAX, .shape = split_shape, .grad = split_rule, .cost = arrange_cost,
         .cpu = { .run = split_cpu })

void split_at(Tensor *parts, const int64_t *extent, int n, Tensor x, int axis)
{
    JoinAttr attr = { .n = n, .whole = tensor_shape(x), .type = tensor_type(x) };
    Tensor   out[ARRANGE_MAX], poison = { x.graph, TENSOR_POISONED };
    int64_t  sum = 0;
    attr.axis = tensor_ok(x) ? axis_of(attr.whole, axis) : 0;
    if (tensor_ok(x) && (n < 1 || n > ARRANGE_MAX || attr.axis < 0))
        graph_poison(x.graph, E_SHAPE,
                     "split: %s into %d along axis %d; give an axis and 1 to %d slices",
                     shape_text(attr.whole), n, axis, ARRANGE_MAX);
    else if (tensor_ok(x)) {
        for (int i = 0; i < n; i++) {
            attr.extent[i] = extent[i];
            attr.wants[i] = true;
            sum += extent[i];
        }
        if (sum != attr.whole.dim[attr.axis])
            graph_poison(x.graph, E_SHAPE, "split: the slices add up to %lld along axis %d of %s",
                         (long long)sum, attr.axis, shape_text(attr.whole));
    }
    if (x.graph->error || !tensor_ok(x)) {
        for (int i = 0; i < n; i++)
            parts[i] = poison;
        return;
    }
    node_add(x.graph, &op_split, &attr, TENSORS(x), out);
    for (int i = 0; i < n; i++)
        parts[i] = out[i];
}

void split(Tensor *parts, int n, Tensor x, int axis)
{
    int64_t extent[ARRANGE_MAX] = { 0 };
    Shape   s = tensor_shape(x);
    int     at = tensor_ok(x) ? axis_of(s, axis) : -1;
    if (at >= 0 && n > 0 && s.dim[at] % n) {
        graph_poison(x.graph, E_SHAPE, "split: axis %d of %s does not divide into %d", axis,
                     shape_text(s), n);
        x.id = TENSOR_POISONED;
    }
    for (int i = 0; at >= 0 && i < n && i < ARRANGE_MAX; i++)
        extent[i] = s.dim[at] / n;
    split_at(parts, extent, n, x, axis);
}

static Err slice_shape(Node *n)
{
    const SliceAttr *attr = ATTR(n, SliceAttr);
    out_set(n, 0, in_type(n, 0), shape_with(in_shape(n, 0), attr->axis, attr->to - attr->from));
    return OK;
}

static Err slice_view_shape(Node *n)
{
    const SliceAttr *attr = ATTR(n, SliceAttr);
    Shape            s = in_shape(n, 0);
    int64_t          row = shape_count(s) / s.dim[attr->axis];
    out_view(n, attr->from * row * type_bytes(in_type(n, 0)), in_type(n, 0),
             shape_with(s, attr->axis, attr->to - attr->from));
    return OK;
}

static void slice_rule(Grad *g)
{
    SliceAttr attr = *ATTR(g->node, SliceAttr);
    grad_give(g, 0,
              pad_axis(grad_dy(g, 0), attr.axis, attr.from,
                       dim(tensor_shape(grad_in(g, 0)), attr.axis) - attr.to));
}

static Cost no_cost(const Node *n)
{
    (void)n;
    return (Cost){ 0 };
}

static Cost slice_cost(const Node *n) { return (Cost){ .bytes = 2 * out_bytes(n, 0) }; }

OPERATOR(slice, .doc = "a range of an axis, copied",
         .chunk = { CHUNK_CUSTOM, INPUT(0), slice_chunk }, .attr_bytes = sizeof(SliceAttr),
         .n_in = 1, .n_out = 1, .shape = slice_shape, .grad = slice_rule, .cost = slice_cost,
         .cpu = { .run = slice_cpu })

OPERATOR(slice_view, .doc = "a range of the leading axis: the same bytes",
         .attr_bytes = sizeof(SliceAttr), .n_in = 1, .n_out = 1, .view = true,
         .shape = slice_view_shape, .grad = slice_rule, .cost = no_cost)

Tensor slice(Tensor x, int axis, int64_t from, int64_t to)
{
    if (!tensor_ok(x))
        return x;
    Shape s = tensor_shape(x);
    int   at = axis_of(s, axis);
    if (at < 0 || from < 0 || to > s.dim[at] || from >= to)
        return graph_poison(x.graph, E_SHAPE, "slice: %lld to %lld of axis %d is not inside %s",
                            (long long)from, (long long)to, axis, shape_text(s));
    if (from == 0 && to == s.dim[at])
        return x;
    return node_add(x.graph, axis_leads(s, at) ? &op_slice_view : &op_slice,
                    &(SliceAttr){ at, from, to }, TENSORS(x), NULL);
}

/* ---- slices of the leading axis ---- */

static void part_rule(Grad *g)
{
    SliceAttr attr = *ATTR(g->node, SliceAttr);
    grad_give_parts(
        g, 0,
        put(grad_dy(g, 0), grad_parts(g, 0), tensor_shape(grad_in(g, 0)), attr.axis, attr.from));
}

OPERATOR(part, .doc = "one of the ranges that cover the leading axis: the same bytes",
         .attr_bytes = sizeof(SliceAttr), .n_in = 1, .n_out = 1, .view = true,
         .shape = slice_view_shape, .grad = part_rule, .cost = no_cost)

Tensor whole_view(Tensor x)
{
    return node_add(x.graph, &op_reshape, &(ReshapeAttr){ tensor_shape(x) }, TENSORS(x), NULL);
}

static bool part_fits(Shape s, int axis, int64_t from, int64_t to)
{
    return axis >= 0 && axis < s.rank && from >= 0 && from < to && to <= s.dim[axis] &&
           axis_leads(s, axis);
}

Tensor part(Tensor x, int axis, int64_t from, int64_t to)
{
    if (tensor_ok(x) && !part_fits(tensor_shape(x), axis, from, to))
        return graph_poison(x.graph, E_SHAPE,
                            "part: %lld to %lld of axis %d is no range of the leading axis of %s",
                            (long long)from, (long long)to, axis, shape_text(tensor_shape(x)));
    return node_add(x.graph, &op_part, &(SliceAttr){ axis, from, to }, TENSORS(x), NULL);
}

static Err put_shape(Node *n) /* in: slice, whole or none */
{
    const PutAttr *attr = ATTR(n, PutAttr);
    Shape          s = in_shape(n, 0);
    int64_t        extent = attr->axis < s.rank ? s.dim[attr->axis] : 0;
    if (s.rank != attr->whole.rank ||
        !part_fits(attr->whole, attr->axis, attr->from, attr->from + extent) ||
        !shape_same(s, shape_with(attr->whole, attr->axis, extent)))
        return fail(E_SHAPE, "put: %s at %lld of axis %d is no range of the leading axis of %s",
                    shape_text(s), (long long)attr->from, attr->axis, shape_text(attr->whole));
    if (in_given(n, 1) &&
        (!shape_same(in_shape(n, 1), attr->whole) || in_type(n, 1) != in_type(n, 0)))
        return fail(E_SHAPE, "put: a slice of %s %s cannot go into %s %s", type_name(in_type(n, 0)),
                    shape_text(attr->whole), type_name(in_type(n, 1)), shape_text(in_shape(n, 1)));
    out_set(n, 0, in_type(n, 0), attr->whole);
    return OK;
}

static void put_rule(Grad *g) /* a row's gradient goes to the put that wrote it */
{
    const PutAttr *attr = ATTR(g->node, PutAttr);
    int64_t        extent = in_shape(g->node, 0).dim[attr->axis];
    if (grad_wants(g, 0))
        grad_give(g, 0, slice(grad_dy(g, 0), attr->axis, attr->from, attr->from + extent));
    if (grad_wants(g, 1))
        grad_give(g, 1, grad_dy(g, 0));
}

static Cost put_cost(const Node *n) { return (Cost){ .bytes = 2 * in_bytes(n, 0) }; }

OPERATOR(put, .doc = "a slice written to its place in a tensor assembled from slices",
         .attr_bytes = sizeof(PutAttr), .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(1),
         .shape = put_shape, .grad = put_rule, .cost = put_cost, .cpu = { .run = put_cpu })

Tensor put(Tensor part, Tensor whole, Shape shape, int axis, int64_t from)
{
    return node_add(part.graph, &op_put, &(PutAttr){ axis, from, shape }, TENSORS(part, whole),
                    NULL);
}

static Err pad_shape(Node *n)
{
    const PadAttr *attr = ATTR(n, PadAttr);
    Shape          s = in_shape(n, 0);
    for (int i = 0; i < s.rank; i++) {
        if (attr->before[i] < 0 || attr->after[i] < 0)
            return fail(E_SHAPE, "pad: axis %d of %s by %lld and %lld; use slice to remove", i,
                        shape_text(s), (long long)attr->before[i], (long long)attr->after[i]);
        s.dim[i] += attr->before[i] + attr->after[i];
    }
    out_set(n, 0, in_type(n, 0), s);
    return OK;
}

static void pad_rule(Grad *g)
{
    PadAttr attr = *ATTR(g->node, PadAttr);
    Tensor  d = grad_dy(g, 0);
    Shape   x = tensor_shape(grad_in(g, 0));
    for (int i = 0; i < x.rank; i++) /* the leading axis first: a view */
        d = slice(d, i, attr.before[i], attr.before[i] + x.dim[i]);
    grad_give(g, 0, d);
}

OPERATOR(pad, .doc = "zeros around a tensor", .chunk = { CHUNK_CUSTOM, INPUT(0), pad_chunk },
         .attr_bytes = sizeof(PadAttr), .n_in = 1, .n_out = 1, .shape = pad_shape, .grad = pad_rule,
         .cost = arrange_cost, .cpu = { .run = pad_cpu })

Tensor pad(Tensor x, PadAttr attr)
{
    bool any = false;
    for (int i = 0; i < tensor_shape(x).rank; i++)
        any |= attr.before[i] || attr.after[i];
    return any ? node_add(x.graph, &op_pad, &attr, TENSORS(x), NULL) : x;
}

Tensor pad_axis(Tensor x, int axis, int64_t before, int64_t after)
{
    PadAttr attr = { .before = { 0 } };
    int     at = axis_of(tensor_shape(x), axis);
    if (!tensor_ok(x))
        return x;
    if (at < 0)
        return graph_poison(x.graph, E_SHAPE, "pad: %s has no axis %d", shape_text(tensor_shape(x)),
                            axis);
    attr.before[at] = before;
    attr.after[at] = after;
    return pad(x, attr);
}

static Err shift_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static void shift_rule(Grad *g)
{
    ShiftAttr attr = *ATTR(g->node, ShiftAttr);
    grad_give(g, 0, shift(grad_dy(g, 0), attr.axis, -attr.by));
}

OPERATOR(shift, .doc = "moved along an axis, filled with zeros",
         .chunk = { CHUNK_CUSTOM, INPUT(0), shift_chunk }, .attr_bytes = sizeof(ShiftAttr),
         .n_in = 1, .n_out = 1, .shape = shift_shape, .grad = shift_rule, .cost = arrange_cost,
         .cpu = { .run = shift_cpu })

Tensor shift(Tensor x, int axis, int64_t by)
{
    if (!tensor_ok(x))
        return x;
    int at = axis_of(tensor_shape(x), axis);
    if (at < 0)
        return graph_poison(x.graph, E_SHAPE, "shift: %s has no axis %d",
                            shape_text(tensor_shape(x)), axis);
    return by ? node_add(x.graph, &op_shift, &(ShiftAttr){ at, by }, TENSORS(x), NULL) : x;
}
