/* reduce.c -- sums over axes and repetition along them: rules. */
#include "ops/reduce/reduce.h"

#include "ops/arrange/arrange.h"
#include "ops/arrange/permute.h"
#include "ops/elementwise/basic.h"
#include "ops/index/scan.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

bool broadcast_fit(Shape x, Shape v, ReduceAttr *fit)
{
    *fit = (ReduceAttr){ .a = 1, .m = 1, .k = 1, .scale = 1, .shape = v };
    if (v.rank == 2 && x.rank > 2) { /* (B,C) is (B,1,...,C) */
        Shape wide = { .rank = x.rank };
        for (int i = 0; i < x.rank; i++)
            wide.dim[i] = i == 0 ? v.dim[0] : i == x.rank - 1 ? v.dim[1] : 1;
        v = wide;
    } else if (v.rank < x.rank) { /* missing axes in front are ones */
        Shape wide = { .rank = x.rank };
        if (v.rank != 1)
            return false;
        for (int i = 0; i < x.rank; i++)
            wide.dim[i] = i == x.rank - 1 ? v.dim[0] : 1;
        v = wide;
    }
    if (v.rank != x.rank)
        return false;
    int i = 0;
    for (; i < x.rank && v.dim[i] == x.dim[i]; i++)
        fit->a *= x.dim[i];
    for (; i < x.rank && v.dim[i] == 1; i++)
        fit->m *= x.dim[i];
    for (; i < x.rank && v.dim[i] == x.dim[i]; i++)
        fit->k *= x.dim[i];
    return i == x.rank;
}

static Err sum_shape(Node *n)
{
    const ReduceAttr *attr = ATTR(n, ReduceAttr);
    if (!rows_float(n, 2))
        return fail(E_SHAPE, "sum: the input must be floats, not %s", type_name(in_type(n, 0)));
    REQUIRE(shape_count(in_shape(n, 0)) == attr->a * attr->m * attr->k);
    REQUIRE(!in_given(n, 1) || shape_count(in_shape(n, 1)) == attr->a * attr->m * attr->k);
    out_set(n, 0, attr->type, attr->shape);
    return OK;
}

static Cost reduce_cost(const Node *n)
{
    return (Cost){ .flops = 2 * in_count(n, 0), .bytes = node_bytes(n) };
}

static void sum_rule(Grad *g)
{
    ReduceAttr attr = *ATTR(g->node, ReduceAttr);
    attr.shape = tensor_shape(grad_in(g, 0));
    attr.type = tensor_type(grad_in(g, 0));
    if (in_given(g->node, 1)) { /* only gradient rules build this form */
        graph_poison(g->graph, E_SHAPE, "sum of a product: second derivatives are not supported");
        return;
    }
    grad_give(g, 0, reduce_repeat(grad_dy(g, 0), attr));
}

static bool reduce_chunk(const ChunkCall *c) /* along the outer indices */
{
    ReduceAttr *attr = c->attr;
    if (attr->a % c->n || !chunk_divides(attr->shape, c->n))
        return false;
    attr->a /= c->n;
    attr->shape = chunk_shape(attr->shape, c->n);
    return true;
}

OPERATOR(sum, .doc = "sum over adjacent axes, in fp32 and in a fixed order",
         .chunk = { CHUNK_CUSTOM, INPUT(0) | INPUT(1), reduce_chunk },
         .attr_bytes = sizeof(ReduceAttr), .n_in = 2, .n_out = 1, .shape = sum_shape,
         .grad = sum_rule, .cost = reduce_cost, .cpu = { .choose = sum_choose_cpu, .run = sum_cpu })

Tensor reduce_sum(Tensor x, Tensor y, ReduceAttr attr)
{
    if (attr.m == 1 && attr.scale == 1 && !tensor_ok(y) && tensor_ok(x) &&
        tensor_type(x) == attr.type && shape_same(tensor_shape(x), attr.shape))
        return x;
    return node_add(x.graph, &op_sum, &attr, TENSORS(x, y), NULL);
}

static Err repeat_shape(Node *n)
{
    const ReduceAttr *attr = ATTR(n, ReduceAttr);
    if (attr->scale != 1 && !rows_float(n, 1))
        return fail(E_SHAPE, "repeat: %s cannot be scaled", type_name(in_type(n, 0)));
    REQUIRE(shape_count(in_shape(n, 0)) == attr->a * attr->k);
    out_set(n, 0, attr->type, attr->shape);
    return OK;
}

static void repeat_rule(Grad *g)
{
    ReduceAttr attr = *ATTR(g->node, ReduceAttr);
    attr.shape = tensor_shape(grad_in(g, 0));
    attr.type = rows_grad_type(grad_in(g, 0));
    grad_give(g, 0, reduce_sum(grad_dy(g, 0), tensor_none(g->graph), attr));
}

OPERATOR(repeat, .doc = "values repeated along an axis",
         .chunk = { CHUNK_CUSTOM, INPUT(0), reduce_chunk }, .attr_bytes = sizeof(ReduceAttr),
         .n_in = 1, .n_out = 1, .shape = repeat_shape, .grad = repeat_rule, .cost = reduce_cost,
         .cpu = { .run = repeat_cpu })

Tensor reduce_repeat(Tensor x, ReduceAttr attr)
{
    return node_add(x.graph, &op_repeat, &attr, TENSORS(x), NULL);
}

static Tensor sum_scaled(Tensor x, int first, int last, bool mean)
{
    if (!tensor_ok(x))
        return x;
    Shape s = tensor_shape(x);
    int   from = first < 0 ? first + s.rank : first, to = last < 0 ? last + s.rank : last;
    if (from < 0 || to >= s.rank || from > to)
        return graph_poison(x.graph, E_SHAPE, "sum: %s has no axes %d to %d", shape_text(s), first,
                            last);
    ReduceAttr attr = { .a = 1, .m = 1, .k = 1, .scale = 1, .type = tensor_type(x) };
    for (int i = 0; i < s.rank; i++) {
        *(i < from ? &attr.a : i > to ? &attr.k : &attr.m) *= s.dim[i];
        if (i < from || i > to)
            attr.shape.dim[attr.shape.rank++] = s.dim[i];
    }
    if (attr.shape.rank == 0)
        attr.shape = SHAPE(1);
    if (mean)
        attr.scale = (float)(1.0 / (double)attr.m);
    return reduce_sum(x, tensor_none(x.graph), attr);
}

/* clang-format off */
Tensor sum_axes(Tensor x, int first, int last)  { return sum_scaled(x, first, last, false); }
Tensor mean_axes(Tensor x, int first, int last) { return sum_scaled(x, first, last, true); }
/* clang-format on */

/* The shape without the axes, or with 1 in their place. */
static Shape shape_without(Shape s, unsigned axes, bool keep)
{
    Shape left = { .rank = 0 };
    for (int i = 0; i < s.rank; i++)
        if (!(axes >> i & 1))
            left.dim[left.rank++] = s.dim[i];
        else if (keep)
            left.dim[left.rank++] = 1;
    return left.rank ? left : SHAPE(1);
}

Tensor axes_together(const char *name, Tensor x, unsigned axes, bool keep, ReduceAttr *attr)
{
    if (!tensor_ok(x))
        return x;
    Shape s = tensor_shape(x);
    int   order[MAX_RANK], n = 0, first = s.rank, last = 0;
    bool  apart = false;
    if (!axes || axes >> s.rank)
        return graph_poison(x.graph, E_SHAPE, "%s: %s has no such axes (bits %#x)", name,
                            shape_text(s), axes);
    *attr = (ReduceAttr){ .a = 1,
                          .m = 1,
                          .k = 1,
                          .scale = 1,
                          .shape = shape_without(s, axes, keep),
                          .type = tensor_type(x) };
    for (int i = 0; i < s.rank; i++)
        if (axes >> i & 1) {
            first = first < i ? first : i;
            last = i;
        } else
            order[n++] = i;
    for (int i = first; i <= last; i++)
        apart |= !(axes >> i & 1) && s.dim[i] > 1;
    if (!apart) {
        for (int i = 0; i < s.rank; i++)
            *(i < first ? &attr->a : i > last ? &attr->k : &attr->m) *= s.dim[i];
        return x;
    }
    for (int i = 0; i < s.rank; i++) /* the axes go last */
        if (axes >> i & 1)
            order[n++] = i;
        else
            attr->a *= s.dim[i];
    attr->m = shape_count(s) / attr->a;
    return permute(x, order);
}

/* Integers: the last of the running sums. */
static Tensor sum_ints(Tensor x, const ReduceAttr *attr)
{
    Tensor run = cumsum(reshape(x, SHAPE(attr->a, attr->m, attr->k)), 1);
    return reshape(slice(run, 1, attr->m - 1, attr->m), attr->shape);
}

/* One sum for each group of neighbours, from the innermost on; all but the last are kept in fp32. */
static Tensor sum_groups(Tensor x, unsigned axes, bool keep, bool mean)
{
    if (!tensor_ok(x))
        return x;
    Shape   s = tensor_shape(x);
    Type    type = tensor_type(x);
    int64_t dims[MAX_RANK], count = 1;
    int     rank = 0, groups = 0;
    bool    summed[MAX_RANK];
    if (axes >> s.rank)
        return graph_poison(x.graph, E_SHAPE, "sum: %s has no such axes (bits %#x)", shape_text(s),
                            axes);
    for (int i = 0; i < s.rank; i++) { /* runs of axes that are summed, and of those that are not */
        bool here = axes >> i & 1;
        count *= here ? s.dim[i] : 1;
        if (s.dim[i] == 1)
            continue;
        if (rank && summed[rank - 1] == here)
            dims[rank - 1] *= s.dim[i];
        else {
            dims[rank] = s.dim[i];
            groups += here;
            summed[rank++] = here;
        }
    }
    if (!type_is_float(type) && mean)
        return graph_poison(x.graph, E_SHAPE, "mean: the input must be floats, not %s",
                            type_name(type));
    for (int g = rank - 1; g >= 0; g--) {
        if (!summed[g])
            continue;
        ReduceAttr attr = {
            .a = 1, .m = dims[g], .k = 1, .scale = 1, .type = --groups ? F32 : type
        };
        for (int i = 0; i < rank; i++)
            if (i != g)
                *(i < g ? &attr.a : &attr.k) *= dims[i];
        dims[g] = 1;
        attr.shape = SHAPE(attr.a * attr.k);
        if (!groups) {
            attr.shape = shape_without(s, axes, keep);
            attr.scale = mean ? (float)(1.0 / (double)count) : 1;
        }
        x = type_is_float(type) ? reduce_sum(x, tensor_none(x.graph), attr) : sum_ints(x, &attr);
    }
    return reshape(x, shape_without(s, axes, keep));
}

/* clang-format off */
Tensor sum_over(Tensor x, unsigned axes, bool keep)  { return sum_groups(x, axes, keep, false); }
Tensor mean_over(Tensor x, unsigned axes, bool keep) { return sum_groups(x, axes, keep, true); }
/* clang-format on */

static Tensor repeat(Tensor x, int axis, int64_t n, bool each)
{
    if (!tensor_ok(x))
        return x;
    Shape s = tensor_shape(x);
    int   at = axis < 0 ? axis + s.rank : axis;
    if (at < 0 || at >= s.rank || n < 1)
        return graph_poison(x.graph, E_SHAPE,
                            "repeat: %s cannot be repeated %lld times along axis %d", shape_text(s),
                            (long long)n, axis);
    if (n == 1)
        return x;
    ReduceAttr attr = { .a = 1,
                        .m = n,
                        .k = 1,
                        .scale = 1,
                        .type = tensor_type(x),
                        .shape = shape_with(s, at, s.dim[at] * n) };
    for (int i = 0; i < s.rank; i++)
        *(i < at + each ? &attr.a : &attr.k) *= s.dim[i];
    return reduce_repeat(x, attr);
}

Tensor repeat_each(Tensor x, int axis, int64_t n) { return repeat(x, axis, n, true); }
Tensor tile(Tensor x, int axis, int64_t n) { return repeat(x, axis, n, false); }
