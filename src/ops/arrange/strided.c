/* strided.c -- a tensor read through arbitrary strides: rules and builders. */
#include "ops/arrange/strided.h"

#include "ops/arrange/arrange.h"
#include "ops/arrange/permute.h"
#include "ops/elementwise/basic.h"
#include "ops/operator.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/rows.h"

/* Appends an axis, merged into the last one if both sides continue it. */
static void axes_append(StridedAxes *axes, int64_t extent, int64_t from, int64_t to)
{
    int last = axes->rank - 1;
    if (extent == 1)
        return;
    if (last >= 0 && axes->from[last] == from * extent && axes->to[last] == to * extent) {
        axes->dim[last] *= extent;
        axes->from[last] = from;
        axes->to[last] = to;
        return;
    }
    axes->dim[axes->rank] = extent;
    axes->from[axes->rank] = from;
    axes->to[axes->rank++] = to;
}

StridedAxes strided_axes(const StridedAttr *at)
{
    StridedAxes axes = { .from0 = at->offset };
    int64_t     to = 1;
    for (int i = 0; i < at->rank; i++)
        to *= at->dim[i];
    for (int i = 0; i < at->rank; i++) {
        to /= at->dim[i];
        axes_append(&axes, at->dim[i], at->stride[i], to);
    }
    return axes;
}

StridedAxes strided_back(const StridedAttr *at)
{
    StridedAxes view = strided_axes(at), axes = { .to0 = at->offset };
    for (int i = 0; i < view.rank; i++)
        if (view.from[i] < 0) { /* walked from its other end */
            axes.to0 += (view.dim[i] - 1) * view.from[i];
            axes.from0 += (view.dim[i] - 1) * view.to[i];
            view.from[i] = -view.from[i];
            view.to[i] = -view.to[i];
        }
    for (int i = 1; i < view.rank; i++)
        for (int j = i; j > 0 && view.from[j] > view.from[j - 1]; j--) {
            int64_t dim = view.dim[j], from = view.from[j], to = view.to[j];
            view.dim[j] = view.dim[j - 1], view.from[j] = view.from[j - 1],
            view.to[j] = view.to[j - 1];
            view.dim[j - 1] = dim, view.from[j - 1] = from, view.to[j - 1] = to;
        }
    for (int i = 0; i < view.rank; i++)
        axes_append(&axes, view.dim[i], view.to[i], view.from[i]);
    return axes;
}

StridedSpan strided_span(const StridedAxes *axes)
{
    StridedSpan span = { .outer = axes->rank, .intervals = 1, .span = 1 };
    int64_t     reach = 0; /* of the axes from i on */
    int         inner = axes->rank;
    for (int i = axes->rank - 1; i >= 0; i--) {
        if (axes->to[i] <= reach)
            inner = i;
        reach += (axes->dim[i] - 1) * axes->to[i];
        if (inner == i) { /* this axis overlaps what is inside it */
            span.outer = i;
            span.span = reach + 1;
        }
    }
    for (int i = 0; i < span.outer; i++)
        span.intervals *= axes->dim[i];
    return span;
}

bool strided_overlaps(const StridedAttr *at)
{
    StridedAxes axes = strided_back(at);
    for (int i = 0; i < axes.rank; i++)
        if (axes.to[i] == 0)
            return true;
    return strided_span(&axes).outer < axes.rank;
}

/* The lowest and highest element that the view reads. */
static void strided_bounds(const StridedAttr *at, int64_t *low, int64_t *high)
{
    *low = *high = at->offset;
    for (int i = 0; i < at->rank; i++)
        *(at->stride[i] < 0 ? low : high) += (at->dim[i] - 1) * at->stride[i];
}

static int64_t strided_count(const StridedAttr *at)
{
    int64_t count = 1;
    for (int i = 0; i < at->rank; i++)
        count *= at->dim[i];
    return count;
}

static Err strided_shape(Node *n)
{
    const StridedAttr *at = ATTR(n, StridedAttr);
    int64_t            low, high, count = shape_count(in_shape(n, 0));
    if (at->rank < 0 || at->rank > STRIDED_RANK)
        return fail(E_SHAPE, "strided: a view of %d axes; at most %d are supported", at->rank,
                    STRIDED_RANK);
    for (int i = 0; i < at->rank; i++)
        if (at->dim[i] < 1)
            return fail(E_SHAPE, "strided: axis %d of the view has %lld elements", i,
                        (long long)at->dim[i]);
    if (strided_count(at) != shape_count(at->shape))
        return fail(E_SHAPE, "strided: a view of %lld elements cannot become %s",
                    (long long)strided_count(at), shape_text(at->shape));
    strided_bounds(at, &low, &high);
    if (low < 0 || high >= count)
        return fail(E_SHAPE, "strided: the view reads elements %lld to %lld of %s, which has %lld",
                    (long long)low, (long long)high, shape_text(in_shape(n, 0)), (long long)count);
    out_set(n, 0, in_type(n, 0), at->shape);
    return OK;
}

static Cost strided_cost(const Node *n) { return (Cost){ .bytes = 2 * out_bytes(n, 0) }; }

static Cost strided_grad_cost(const Node *n)
{
    return (Cost){ .flops = ATTR(n, StridedGradAttr)->sums ? in_count(n, 0) : 0,
                   .bytes = node_bytes(n) };
}

/* Every sample is viewed alike and alone. */
static bool strided_chunk(const ChunkCall *c)
{
    StridedAttr *at = c->attr, inner = *at;
    Shape        x = in_shape(c->node, 0);
    int64_t      low, high, count = shape_count(x);
    if (at->rank < 1 || at->stride[0] * at->dim[0] != count || at->dim[0] % c->n ||
        !chunk_divides(at->shape, c->n))
        return false;
    inner.dim[0] /= c->n; /* its leading axis may be several of x's, as one */
    strided_bounds(&inner, &low, &high);
    if (low < 0 || high >= count / c->n)
        return false;
    at->dim[0] /= c->n;
    at->shape = chunk_shape(at->shape, c->n);
    return true;
}

/* Sums dy, seen as the view's axes, over those that repeat, and removes them from the view. */
static Tensor strided_sum_repeated(Tensor dy, StridedAttr *at, Type type)
{
    bool more = true;
    int  rank = 0;
    for (int i = 0; i < at->rank; i++)
        if (at->dim[i] > 1) {
            at->dim[rank] = at->dim[i];
            at->stride[rank++] = at->stride[i];
        }
    at->rank = rank;
    for (int first = 0; more && first < at->rank; first++) {
        int        last = first;
        ReduceAttr sum = { .a = 1, .m = 1, .k = 1, .scale = 1, .type = F32 };
        if (at->stride[first])
            continue;
        while (last + 1 < at->rank && at->stride[last + 1] == 0)
            last++;
        more = false;
        for (int i = 0; i < at->rank; i++) {
            *(i < first ? &sum.a : i > last ? &sum.k : &sum.m) *= at->dim[i];
            more |= i > last && at->stride[i] == 0;
        }
        for (int i = last + 1; i < at->rank; i++) {
            at->dim[first + i - last - 1] = at->dim[i];
            at->stride[first + i - last - 1] = at->stride[i];
        }
        at->rank -= last - first + 1;
        first--;
        sum.shape = SHAPE(sum.a * sum.k);
        if (!more)
            sum.type = type;
        dy = reduce_sum(dy, tensor_none(dy.graph), sum);
    }
    return dy;
}

static void strided_rule(Grad *g)
{
    StridedGradAttr attr = { .view = *ATTR(g->node, StridedAttr),
                             .x = tensor_shape(grad_in(g, 0)) };
    Type            type = rows_grad_type(grad_in(g, 0));
    Tensor          d = strided_sum_repeated(grad_dy(g, 0), &attr.view, type);
    StridedAxes     axes = strided_axes(&attr.view);
    if (axes.rank <= 1 && strided_count(&attr.view) == shape_count(attr.x) &&
        (axes.rank == 0 || axes.from[0] == 1)) { /* only repeated: in place already */
        grad_give(g, 0, reshape(d, attr.x));
        return;
    }
    attr.sums = strided_overlaps(&attr.view);
    attr.type = attr.sums ? type : tensor_type(d);
    grad_give(g, 0, node_add(g->graph, &op_strided_grad, &attr, TENSORS(d), NULL));
}

OPERATOR(strided, .doc = "a tensor read through strides",
         .chunk = { CHUNK_CUSTOM, INPUT(0), strided_chunk }, .attr_bytes = sizeof(StridedAttr),
         .n_in = 1, .n_out = 1, .shape = strided_shape, .grad = strided_rule, .cost = strided_cost,
         .cpu = { .run = strided_cpu })

static Err strided_grad_shape(Node *n)
{
    out_set(n, 0, ATTR(n, StridedGradAttr)->type, ATTR(n, StridedGradAttr)->x);
    return OK;
}

OPERATOR_INTERNAL(strided_grad, .doc = "dy added, or written, at the places that were read",
                  .attr_bytes = sizeof(StridedGradAttr), .n_in = 1, .n_out = 1,
                  .shape = strided_grad_shape, .cost = strided_grad_cost,
                  .cpu = { .choose = strided_grad_choose_cpu, .run = strided_grad_cpu })

/* The view as a permutation of all of x's elements, if it is one. */
static bool strided_permutes(const StridedAttr *at, int64_t count, PermuteAttr *permute)
{
    int     order[STRIDED_RANK] = { 0 }; /* the view's axes, by falling stride */
    int64_t step = 1;
    for (int i = 0; i < at->rank; i++) {
        int j = i;
        for (; j > 0 &&
               (at->stride[order[j - 1]] < at->stride[i] ||
                (at->stride[order[j - 1]] == at->stride[i] && at->dim[order[j - 1]] < at->dim[i]));
             j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    *permute = (PermuteAttr){ .rank = at->rank, .shape = at->shape };
    for (int i = at->rank - 1; i >= 0; i--) {
        permute->dim[i] = at->dim[order[i]];
        permute->axis[order[i]] = i;
        if (permute->dim[i] > 1 && at->stride[order[i]] != step)
            return false;
        step *= permute->dim[i];
    }
    return at->offset == 0 && step == count;
}

Tensor strided(Tensor x, StridedAttr attr)
{
    PermuteAttr permute;
    if (!tensor_ok(x))
        return x;
    if (attr.rank < 0 || attr.rank > STRIDED_RANK || strided_count(&attr) < 1 ||
        strided_count(&attr) != shape_count(attr.shape))
        return node_add(x.graph, &op_strided, &attr, TENSORS(x), NULL); /* says what is wrong */
    int64_t     count = shape_count(tensor_shape(x)), n = shape_count(attr.shape);
    StridedAxes axes = strided_axes(&attr);
    if ((axes.rank == 0 || (axes.rank == 1 && axes.from[0] == 1)) && attr.offset >= 0 &&
        attr.offset + n <= count) /* a range of x: no byte moves */
        return reshape(slice(reshape(x, SHAPE(count)), 0, attr.offset, attr.offset + n),
                       attr.shape);
    if (strided_permutes(&attr, count, &permute))
        return permute_as(x, permute);
    return node_add(x.graph, &op_strided, &attr, TENSORS(x), NULL);
}

/* x as a view of all of its elements. */
static StridedAttr strided_of(Shape s)
{
    StridedAttr attr = { .rank = s.rank, .shape = s };
    int64_t     step = 1;
    for (int i = s.rank - 1; i >= 0; i--) {
        attr.dim[i] = s.dim[i];
        attr.stride[i] = step;
        step *= s.dim[i];
    }
    return attr;
}

Tensor flip(Tensor x, unsigned axes)
{
    if (!tensor_ok(x))
        return x;
    StridedAttr attr = strided_of(tensor_shape(x));
    if (axes >> attr.rank)
        return graph_poison(x.graph, E_SHAPE, "flip: %s has no axis %d",
                            shape_text(tensor_shape(x)), 31 - __builtin_clz(axes));
    for (int i = 0; i < attr.rank; i++)
        if (axes >> i & 1) {
            attr.offset += (attr.dim[i] - 1) * attr.stride[i];
            attr.stride[i] = -attr.stride[i];
        }
    return strided(x, attr);
}

Tensor expand_to(Tensor x, Shape shape)
{
    if (!tensor_ok(x))
        return x;
    Shape       s = tensor_shape(x);
    StridedAttr own = strided_of(s), attr = { .rank = shape.rank, .shape = shape };
    ReduceAttr  repeat = { .a = 1, .m = 1, .k = 1, .scale = 1, .shape = shape };
    int         skip = shape.rank - s.rank, groups = 0;
    for (int i = 0; i < shape.rank; i++) {
        int64_t have = i < skip ? 1 : s.dim[i - skip];
        if (skip < 0 || (have != 1 && have != shape.dim[i]))
            return graph_poison(x.graph, E_SHAPE, "expand: %s cannot be repeated to %s",
                                shape_text(s), shape_text(shape));
        attr.dim[i] = shape.dim[i];
        attr.stride[i] = have == shape.dim[i] && i >= skip ? own.stride[i - skip] : 0;
        if (shape.dim[i] == 1)
            continue;
        if (have == 1) { /* groups: of neighbours that are repeated */
            groups += repeat.m == 1 || repeat.k > 1;
            repeat.m *= shape.dim[i];
        } else
            *(repeat.m > 1 ? &repeat.k : &repeat.a) *= shape.dim[i];
    }
    repeat.type = tensor_type(x);
    if (groups == 1)
        return reduce_repeat(x, repeat);
    return strided(x, attr);
}
