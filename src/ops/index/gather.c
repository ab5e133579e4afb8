/* gather.c -- elements and rows by index, and values written or added by index: rules, builders. */
#include "ops/index/gather.h"

#include "ops/arrange/arrange.h"
#include "ops/arrange/strided.h"
#include "ops/elementwise/basic.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err index_check(const Node *n, int i) /* the input that holds indices */
{
    if (in_type(n, i) != I32)
        return fail(E_SHAPE, "%s: indices must be i32, not %s", n->op->name,
                    type_name(in_type(n, i)));
    return OK;
}

static Cost index_cost(const Node *n)
{
    double src = in_given(n, 1) ? in_bytes(n, 1) : 0;
    return (Cost){ .bytes = 2 * out_bytes(n, 0) + src };
}

static Cost scatter_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, n->n_in - 1), .bytes = node_bytes(n) };
}

/* ---- gather ---- */

static Err gather_shape(Node *n) /* in: x, index */
{
    const GatherAttr *at = ATTR(n, GatherAttr);
    TRY(index_check(n, 1));
    out_set(n, 0, in_type(n, 0), at->shape);
    return OK;
}

static void gather_rule(Grad *g)
{
    GatherAttr at = *ATTR(g->node, GatherAttr);
    Tensor     x = grad_in(g, 0);
    at.shape = tensor_shape(x);
    at.type = F32;
    Tensor d = node_add(g->graph, &op_scatter_add, &at,
                        TENSORS(tensor_none(g->graph), grad_in(g, 1), grad_dy(g, 0)), NULL);
    grad_give(g, 0, tensor_ok(d) ? cast(d, rows_grad_type(x)) : d);
}

/* Along the outer indices; of a table that is read whole, along the indices. */
static bool gather_chunk(const ChunkCall *c)
{
    GatherAttr *at = c->attr;
    Shape       x = in_shape(c->node, 0), index = in_shape(c->node, 1);
    if (at->a == 1 && at->shared && chunk_divides(index, c->n) && chunk_divides(at->shape, c->n)) {
        *c->inputs = INPUT(1);
        at->m /= c->n;
        at->shape = chunk_shape(at->shape, c->n);
        return true;
    }
    if (chunk_axis(x) != 0 || at->a % c->n || x.dim[0] % c->n || at->shape.dim[0] != x.dim[0] ||
        at->a == 1 || !chunk_divides(at->shape, c->n) ||
        (!at->shared && !chunk_divides(index, c->n)))
        return false;
    *c->inputs = INPUT(0) | (at->shared ? 0 : INPUT(1));
    at->a /= c->n;
    at->shape = chunk_shape(at->shape, c->n);
    return true;
}

OPERATOR(gather, .doc = "elements by index along an axis",
         .chunk = { CHUNK_CUSTOM, 0, gather_chunk }, .attr_bytes = sizeof(GatherAttr), .n_in = 2,
         .n_out = 1, .shape = gather_shape, .grad = gather_rule, .cost = index_cost,
         .cpu = { .run = gather_cpu })

/* (A, N, K) of a shape around an axis; false: it has none such. */
static bool gather_axis(Shape x, int axis, GatherAttr *at, int *found)
{
    *found = axis < 0 ? axis + x.rank : axis;
    *at = (GatherAttr){ .a = 1, .k = 1, .padding = -1 };
    if (*found < 0 || *found >= x.rank)
        return false;
    at->n = x.dim[*found];
    for (int i = 0; i < x.rank; i++)
        if (i != *found)
            *(i < *found ? &at->a : &at->k) *= x.dim[i];
    return true;
}

/* x without what lies beyond the index on the other axes; poisoned if they do not fit. */
static Tensor gather_fit(const char *name, Tensor x, int axis, Shape index)
{
    Shape s = tensor_shape(x);
    int   at = axis < 0 ? axis + s.rank : axis;
    bool  fits = s.rank == index.rank && at >= 0 && at < s.rank;
    for (int i = 0; fits && i < s.rank; i++)
        fits = i == at || index.dim[i] <= s.dim[i];
    if (!fits)
        return graph_poison(x.graph, E_SHAPE, "%s: index %s does not fit %s along axis %d", name,
                            shape_text(index), shape_text(s), axis);
    for (int i = 0; i < s.rank; i++)
        if (i != at)
            x = slice(x, i, 0, index.dim[i]);
    return x;
}

Tensor gather(Tensor x, int axis, Tensor index)
{
    GatherAttr at;
    if (!tensor_ok(x) || !tensor_ok(index))
        return tensor_ok(x) ? index : x;
    x = gather_fit("gather", x, axis, tensor_shape(index));
    if (!tensor_ok(x) || !gather_axis(tensor_shape(x), axis, &at, &axis))
        return x;
    at.m = tensor_shape(index).dim[axis];
    at.shared = at.a * at.k == 1; /* there is one column */
    at.shape = tensor_shape(index);
    at.type = tensor_type(x);
    return node_add(x.graph, &op_gather, &at, TENSORS(x, index), NULL);
}

Tensor index_rows(Tensor x, int axis, Tensor index, int64_t padding)
{
    GatherAttr at;
    if (!tensor_ok(x) || !tensor_ok(index))
        return tensor_ok(x) ? index : x;
    Shape s = tensor_shape(x), ids = tensor_shape(index);
    if (!gather_axis(s, axis, &at, &axis) || s.rank - 1 + ids.rank > MAX_RANK || padding >= at.n)
        return graph_poison(x.graph, E_SHAPE, "index_rows: %s by %s along axis %d (padding %lld)",
                            shape_text(s), shape_text(ids), axis, (long long)padding);
    at.m = shape_count(ids);
    at.shared = at.wrap = true;
    at.padding = padding;
    at.type = tensor_type(x);
    for (int i = 0; i < s.rank; i++)
        if (i != axis)
            at.shape.dim[at.shape.rank++] = s.dim[i];
        else
            for (int j = 0; j < ids.rank; j++)
                at.shape.dim[at.shape.rank++] = ids.dim[j];
    if (at.shape.rank == 0)
        at.shape = SHAPE(1);
    return node_add(x.graph, &op_gather, &at, TENSORS(x, index), NULL);
}

/* ---- several indices as one ---- */

static Err flat_index_shape(Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        TRY(index_check(n, i));
    out_set(n, 0, I32, ATTR(n, FlatIndexAttr)->shape);
    return OK;
}

static Cost flat_index_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

OPERATOR(flat_index, .doc = "several indices as one over the leading axes",
         .attr_bytes = sizeof(FlatIndexAttr), .n_in = -1, .n_out = 1, .shape = flat_index_shape,
         .cost = flat_index_cost, .cpu = { .run = flat_index_cpu })

static Tensor flat_index(Tensor x, const Tensor *index, int n)
{
    FlatIndexAttr at = { .n = n };
    Shape         s = tensor_shape(x);
    int64_t       rows = 1;
    bool          fits = n >= 1 && n <= INDEX_MAX && n <= s.rank;
    for (int i = 0; fits && i < n; i++) {
        if (!tensor_ok(index[i]))
            return index[i];
        Shape ids = tensor_shape(index[i]), whole = at.shape;
        int   rank = ids.rank > whole.rank ? ids.rank : whole.rank;
        at.shape = (Shape){ .rank = rank };
        for (int j = 0; j < rank; j++) { /* from the last axis on */
            int64_t p = j < ids.rank ? ids.dim[ids.rank - 1 - j] : 1,
                    q = j < whole.rank ? whole.dim[whole.rank - 1 - j] : 1;
            fits &= p == q || p == 1 || q == 1;
            at.shape.dim[rank - 1 - j] = p > q ? p : q;
        }
        at.extent[i] = s.dim[i];
        rows *= s.dim[i];
    }
    if (!fits || rows > INT32_MAX)
        return graph_poison(x.graph, E_SHAPE,
                            "index: %d indices into %s do not broadcast together, or select from "
                            "more than 2^31 rows",
                            n, shape_text(s));
    return node_add(x.graph, &op_flat_index, &at, index, n, NULL);
}

/* x with its first n axes as one. */
static Tensor leading_as_one(Tensor x, int n)
{
    Shape s = tensor_shape(x), flat = { .rank = 1, .dim = { 1 } };
    for (int i = 0; i < s.rank; i++)
        if (i < n)
            flat.dim[0] *= s.dim[i];
        else
            flat.dim[flat.rank++] = s.dim[i];
    return reshape(x, flat);
}

Tensor index_at(Tensor x, const Tensor *index, int n)
{
    if (!tensor_ok(x))
        return x;
    if (n == 1)
        return index_rows(x, 0, index[0], -1);
    Tensor flat = flat_index(x, index, n);
    return tensor_ok(flat) ? index_rows(leading_as_one(x, n), 0, flat, -1) : flat;
}

/* ---- scatter_add ---- */

static Err scatter_add_shape(Node *n) /* in: x or none, index, src */
{
    const GatherAttr *at = ATTR(n, GatherAttr);
    TRY(index_check(n, 1));
    if (!type_is_float(in_type(n, 2)) || (in_given(n, 0) && in_type(n, 0) != F32))
        return fail(E_SHAPE, "scatter_add: %s cannot be added to f32", type_name(in_type(n, 2)));
    out_set(n, 0, F32, at->shape);
    return OK;
}

/* dsrc: dy at the indices. */
static Tensor scatter_add_grad_src(Grad *g, GatherAttr at)
{
    Tensor src = grad_in(g, 2);
    at.shape = tensor_shape(src);
    at.type = tensor_type(grad_dy(g, 0));
    Tensor d = node_add(g->graph, &op_gather, &at, TENSORS(grad_dy(g, 0), grad_in(g, 1)), NULL);
    return tensor_ok(d) ? cast(d, tensor_type(src)) : d;
}

static void scatter_add_rule(Grad *g)
{
    if (grad_wants(g, 0))
        grad_give(g, 0, grad_dy(g, 0));
    if (grad_wants(g, 2))
        grad_give(g, 2, scatter_add_grad_src(g, *ATTR(g->node, GatherAttr)));
}

OPERATOR(scatter_add, .doc = "values added by index, fp32, in the order of the indices",
         .attr_bytes = sizeof(GatherAttr), .n_in = 3, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = scatter_add_shape, .grad = scatter_add_rule, .cost = scatter_cost,
         .cpu = { .run = scatter_add_cpu })

/* x + the sums, in x's type. */
static Tensor scatter_add_of(Tensor x, Tensor index, Tensor src, GatherAttr at)
{
    bool f32 = tensor_type(x) == F32;
    at.type = F32;
    at.shape = tensor_shape(x);
    Tensor sum = node_add(x.graph, &op_scatter_add, &at,
                          TENSORS(f32 ? x : tensor_none(x.graph), index, src), NULL);
    return f32 ? sum : add(x, sum);
}

/* The attribute of writes along an axis. */
static bool scatter_attr(const char *name, Tensor x, int axis, Tensor index, Tensor *src,
                         GatherAttr *at)
{
    Shape s = tensor_shape(x), ids = tensor_shape(index);
    bool  fits = gather_axis(s, axis, at, &axis) && s.rank == ids.rank;
    for (int i = 0; fits && i < s.rank; i++)
        fits = i == axis || s.dim[i] == ids.dim[i];
    if (!fits) {
        graph_poison(x.graph, E_SHAPE,
                     "%s: index %s and %s must agree on all axes but the one written along (%d)",
                     name, shape_text(ids), shape_text(s), axis);
        return false;
    }
    at->m = ids.dim[axis];
    at->shared = at->a * at->k == 1; /* there is one column */
    *src = gather_fit(name, *src, axis, ids);
    if (tensor_ok(*src))
        *src = slice(*src, axis, 0, at->m);
    return tensor_ok(*src);
}

Tensor scatter_add(Tensor x, int axis, Tensor index, Tensor src)
{
    GatherAttr at;
    if (!tensor_ok(x) || !tensor_ok(index) || !tensor_ok(src))
        return tensor_ok(x) ? tensor_ok(index) ? src : index : x;
    if (!scatter_attr("scatter_add", x, axis, index, &src, &at))
        return (Tensor){ x.graph, TENSOR_POISONED };
    return scatter_add_of(x, index, src, at);
}

/* ---- scatter: which index wins, then the values ---- */

static Err scatter_last_shape(Node *n) /* in: index */
{
    const GatherAttr *at = ATTR(n, GatherAttr);
    TRY(index_check(n, 0));
    out_set(n, 0, I32, at->shared ? SHAPE(at->n) : SHAPE(at->a, at->n, at->k));
    return OK;
}

static Cost scatter_last_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

OPERATOR_INTERNAL(scatter_last, .doc = "the last index that writes each element, or -1",
                  .attr_bytes = sizeof(GatherAttr), .n_in = 1, .n_out = 1,
                  .shape = scatter_last_shape, .cost = scatter_last_cost,
                  .cpu = { .run = scatter_last_cpu })

static Err scatter_shape(Node *n) /* in: x, index, src or none (zeros), last */
{
    if (in_given(n, 2) && in_type(n, 2) != in_type(n, 0))
        return fail(E_SHAPE, "scatter: %s values cannot be written into %s",
                    type_name(in_type(n, 2)), type_name(in_type(n, 0)));
    TRY(index_check(n, 1));
    out_set(n, 0, in_type(n, 0), ATTR(n, GatherAttr)->shape);
    return OK;
}

static void scatter_rule(Grad *g)
{
    GatherAttr at = *ATTR(g->node, GatherAttr);
    Tensor     dy = grad_dy(g, 0), index = grad_in(g, 1), last = grad_in(g, 3);
    if (grad_wants(g, 0))
        grad_give(g, 0,
                  node_add(g->graph, &op_scatter, &at,
                           TENSORS(dy, index, tensor_none(g->graph), last), NULL));
    if (!in_given(g->node, 2) || !grad_wants(g, 2))
        return;
    at.shape = tensor_shape(grad_in(g, 2));
    grad_give(g, 2, node_add(g->graph, &op_scatter_grad, &at, TENSORS(dy, index, last), NULL));
}

OPERATOR(scatter, .doc = "values written by index; the last of equal indices wins",
         .attr_bytes = sizeof(GatherAttr), .n_in = 4, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = scatter_shape, .grad = scatter_rule, .cost = index_cost,
         .cpu = { .run = scatter_cpu })

static Err scatter_grad_shape(Node *n) /* in: dy, index, last */
{
    out_set(n, 0, in_type(n, 0), ATTR(n, GatherAttr)->shape);
    return OK;
}

OPERATOR_INTERNAL(scatter_grad, .doc = "dy at the indices that won, else 0",
                  .attr_bytes = sizeof(GatherAttr), .n_in = 3, .n_out = 1,
                  .shape = scatter_grad_shape, .cost = index_cost,
                  .cpu = { .run = scatter_grad_cpu })

static Tensor scatter_of(Tensor x, Tensor index, Tensor src, GatherAttr at)
{
    at.shape = tensor_shape(x);
    at.type = tensor_type(x);
    Tensor last = node_add(x.graph, &op_scatter_last, &at, TENSORS(index), NULL);
    if (type_is_float(at.type) && type_is_float(tensor_type(src)))
        src = cast(src, at.type);
    return node_add(x.graph, &op_scatter, &at, TENSORS(x, index, src, last), NULL);
}

Tensor scatter(Tensor x, int axis, Tensor index, Tensor src)
{
    GatherAttr at;
    if (!tensor_ok(x) || !tensor_ok(index) || !tensor_ok(src))
        return tensor_ok(x) ? tensor_ok(index) ? src : index : x;
    if (!scatter_attr("scatter", x, axis, index, &src, &at))
        return (Tensor){ x.graph, TENSOR_POISONED };
    return scatter_of(x, index, src, at);
}

Tensor index_put(Tensor x, const Tensor *index, int n, Tensor values, bool accumulate)
{
    if (!tensor_ok(x) || !tensor_ok(values))
        return tensor_ok(x) ? values : x;
    Tensor flat = flat_index(x, index, n);
    if (!tensor_ok(flat))
        return flat;
    Shape      s = tensor_shape(x), whole = tensor_shape(flat);
    GatherAttr at = { .a = 1, .n = 1, .k = 1, .padding = -1, .shared = true };
    at.m = shape_count(whole);
    for (int i = 0; i < s.rank; i++) {
        *(i < n ? &at.n : &at.k) *= s.dim[i];
        if (i >= n && whole.rank < MAX_RANK)
            whole.dim[whole.rank++] = s.dim[i];
    }
    values = expand_to(values, whole);
    if (!tensor_ok(values))
        return values;
    return accumulate ? scatter_add_of(x, flat, values, at) : scatter_of(x, flat, values, at);
}
