/* lower_order.c -- order statistics, running extremes, places in sorted lists, values written where
 * a mask says, reductions by index.
 *
 * What compares every element with every other is one pointwise node that keeps no pairs. */
#include "import/lower.h"

#include "ops/index/gather.h"
#include "ops/index/scan.h"
#include "ops/index/sort.h"

#include <math.h>
#include <string.h>

/* ---- order statistics ---- */

/* The element that stands at place k of the sorted axis, and its index. */
static Err give_ranked(Lower *l, Operand x, int axis, int64_t k, bool keep)
{
    Tensor out[2];
    View   v;
    TRY(item_view(l, &x, &v));
    sort(out, view_tensor(v, NULL), axis, false);
    TRY(graph_check(l->graph));
    for (int i = 0; i < 2 && i < l->call->n_out; i++) {
        View all = view_make(out[i], view_dims(&v), NULL);
        View one = view_sliced(all, axis, k, 1, 1);
        TRY(give_view(l, i, keep ? one : view_dropped(one, axis)));
    }
    return OK;
}

static Err kth_value(Lower *l)
{
    Operand x;
    int     axis;
    int64_t k;
    TRY(arg_item(l, "self", &x));
    TRY(arg_int(l, "k", 1, &k));
    TRY(arg_axis(l, "dim", x.view.rank, -1, &axis));
    if (k < 1 || !x.view.rank || k > x.view.dim[axis])
        return refuse(l, "element %lld of an axis", (long long)k);
    return give_ranked(l, x, axis, k - 1, arg_bool(l, "keepdim", false));
}

/* The lower of the two in the middle. */
static Err median(Lower *l)
{
    Operand x;
    int     axis = 0;
    bool    along = arg_given(l, "dim");
    TRY(arg_item(l, "self", &x));
    if (along)
        TRY(arg_axis(l, "dim", x.view.rank, 0, &axis));
    else
        TRY(lower_reshape(l, x, (Dims){ 1, { view_count(&x.view) } }, &x));
    if (!x.view.rank)
        return refuse(l, "a single number");
    int64_t n = x.view.dim[axis];
    return give_ranked(l, x, axis, (n - 1) / 2, along && arg_bool(l, "keepdim", false));
}

/* ---- running extremes and sums of exponentials ---- */

typedef struct RunPairs {        /* every element of an axis beside those up to it */
    Operand x, own, row, column; /* own: the element itself, at its row */
    int     axis;                /* of the columns; the rows stand before it */
} RunPairs;

static Err runs_of(Lower *l, RunPairs *r)
{
    int axis;
    TRY(arg_item(l, "self", &r->x));
    int rank = r->x.view.rank;
    TRY(arg_axis(l, "dim", rank, -1, &axis));
    if (!rank || rank == VIEW_RANK)
        return refuse(l, "a tensor of %d axes", rank);
    int64_t n = r->x.view.dim[axis];
    r->own = item_with(r->x, view_inserted(r->x.view, axis + 1, 1));
    r->x.view = view_inserted(r->x.view, axis, 1);
    r->row = lower_positions(l, rank + 1, axis, n);
    r->column = lower_positions(l, rank + 1, axis + 1, n);
    r->axis = axis + 1;
    return OK;
}

/* The largest so far, the last of equals, as PyTorch has it: its place, then what stands there. */
static Err running_extreme(Lower *l)
{
    RunPairs r;
    Operand  most, place;
    View     v, ids;
    bool     low = l->def->with;
    TRY(runs_of(l, &r));
    Formula f = formula(l), g = formula(l);
    int     x = F1(&f, DETACH, formula_float(&f, formula_input(&f, r.x)));
    int     seen = F2(&f, LE, formula_input(&f, r.column), formula_input(&f, r.row));
    int     far = formula_number(&f, low ? INFINITY : -INFINITY);
    TRY(formula_reduce(&f, F3(&f, SELECT, seen, x, far), low ? POINT_AMIN : POINT_AMAX,
                       1u << r.axis, 1, EX_F32, &most));
    most.view = view_inserted(most.view, r.axis, 1);
    int column = formula_input(&g, r.column);
    int same = F2(&g, EQ, F1(&g, DETACH, formula_float(&g, formula_input(&g, r.x))),
                  formula_input(&g, most));
    seen = F2(&g, AND, same, F2(&g, LE, column, formula_input(&g, r.row)));
    int last = F3(&g, SELECT, seen, formula_float(&g, column), formula_number(&g, 0));
    TRY(formula_reduce(&g, last, POINT_AMAX, 1u << r.axis, 1, EX_F32, &place));
    Formula h = formula(l);
    TRY(formula_item(&h, F1(&h, TO_I32, formula_input(&h, place)), EX_I64, &place));
    TRY(arg_view(l, "self", &v));
    TRY(item_view(l, &place, &ids));
    Tensor index = view_tensor(ids, NULL);
    TRY(give_tensor(l, 0, gather(view_tensor(v, NULL), r.axis - 1, index), NULL));
    return give_tensor(l, 1, index, NULL);
}

/* log(exp(x0) + ... + exp(xi)), from the largest of them on. */
static Err running_log_sum(Lower *l)
{
    RunPairs r;
    Operand  most, sum;
    TRY(runs_of(l, &r));
    Formula f = formula(l), g = formula(l), h = formula(l);
    int     seen = F2(&f, LE, formula_input(&f, r.column), formula_input(&f, r.row));
    int     x = F1(&f, DETACH, formula_input(&f, r.x));
    TRY(formula_reduce(&f, F3(&f, SELECT, seen, x, formula_number(&f, -INFINITY)), POINT_AMAX,
                       1u << r.axis, 1, EX_F32, &most));
    most.view = view_inserted(most.view, r.axis, 1);
    seen = F2(&g, LE, formula_input(&g, r.column), formula_input(&g, r.row));
    int above = F2(&g, SUB, formula_input(&g, r.x), formula_input(&g, most));
    int e = F1(&g, EXP, F3(&g, SELECT, seen, above, formula_number(&g, -INFINITY)));
    TRY(formula_reduce(&g, e, POINT_SUM, 1u << r.axis, 1, EX_F32, &sum));
    most.view = view_dropped(most.view, r.axis);
    int y = F2(&h, ADD, F1(&h, LOG, formula_input(&h, sum)), formula_input(&h, most));
    return formula_give(&h, y, 0);
}

/* ---- places in sorted lists ---- */

/* How many of the sorted numbers lie below each value; `right`: and those equal to it. */
static Err sorted_place(Lower *l)
{
    Operand list, x, y;
    bool    bins = l->def->with;
    TRY(arg_item(l, bins ? "boundaries" : "sorted_sequence", &list));
    TRY(arg_item(l, "self", &x));
    if (arg_given(l, "sorter") ||
        (arg_given(l, "side") && !strcmp(arg_text(l, "side", ""), "right")))
        return refuse(l, "'sorter' and 'side' are not supported; give right=True");
    if (!list.view.rank || x.view.rank == VIEW_RANK ||
        (list.view.rank > 1 && list.view.rank != x.view.rank))
        return refuse(l, "a list of %d axes for values of %d", list.view.rank, x.view.rank);
    int last = x.view.rank;
    if (list.view.rank > 1)
        list.view = view_inserted(list.view, list.view.rank - 1, 1);
    x.view = view_inserted(x.view, last, 1);
    Formula f = formula(l);
    int     a = formula_input(&f, list), b = formula_input(&f, x);
    int     below = arg_bool(l, "right", false) ? F2(&f, LE, a, b) : F2(&f, LT, a, b);
    TRY(formula_reduce(&f, below, POINT_SUM, 1u << last, 1, out_type_of(l, 0), &y));
    return give(l, 0, y);
}

/* ---- written where a mask says ---- */

/* The true elements of the mask get the source's numbers, one after another. */
static Err masked_scatter(Lower *l)
{
    Operand x, mask, source, place;
    View    m, s, ids;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "mask", &mask));
    TRY(arg_item(l, "source", &source));
    Dims    dims = view_dims(&x.view);
    int64_t n = dims_count(dims), most = view_count(&source.view);
    mask.view = view_expanded(mask.view, dims);
    TRY(item_view(l, &mask, &m));
    TRY(item_view(l, &source, &s));
    /* Truth values are bytes; of more than 2^31 of them no sum is taken. */
    Tensor counts = cumsum(view_tensor_as(m, NULL, SHAPE(n)), 0);
    TRY(graph_check(l->graph));
    Formula f = formula(l), g = formula(l);
    int     at = formula_input(&f, item_of(l, view_make(counts, (Dims){ 1, { n } }, NULL), EX_I64));
    at = F2(&f, SUB, at, formula_integer(&f, 1));
    at = F2(&f, MAX, F2(&f, MIN, at, formula_integer(&f, most - 1)), formula_integer(&f, 0));
    TRY(formula_item(&f, at, EX_I64, &place));
    TRY(item_view(l, &place, &ids));
    Tensor taken = index_rows(view_tensor_as(s, NULL, SHAPE(most)), 0, view_tensor(ids, NULL), -1);
    TRY(graph_check(l->graph));
    int put = formula_input(&g, item_of(l, view_make(taken, dims, NULL), source.type));
    int keep = formula_input(&g, x);
    return formula_give(&g, F3(&g, SELECT, formula_input(&g, mask), put, keep), 0);
}

/* gather whose operands broadcast along the other axes; without an axis, of all elements in a row */
static Err take_along(Lower *l)
{
    Operand x, index;
    int     axis = 0;
    View    v, ids;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "indices", &index));
    if (arg_given(l, "dim")) {
        TRY(arg_axis(l, "dim", x.view.rank, 0, &axis));
    } else {
        TRY(lower_reshape(l, x, (Dims){ 1, { view_count(&x.view) } }, &x));
        TRY(lower_reshape(l, index, (Dims){ 1, { view_count(&index.view) } }, &index));
    }
    TRY(item_view(l, &x, &v));
    TRY(item_view(l, &index, &ids));
    if (v.rank != ids.rank || v.rank > MAX_RANK)
        return refuse(l, "an index with %d axes of a tensor with %d", ids.rank, v.rank);
    Dims have = view_dims(&v), want = view_dims(&ids);
    for (int a = 0; a < v.rank; a++) {
        int64_t n = have.at[a] > want.at[a] ? have.at[a] : want.at[a];
        if (a != axis)
            have.at[a] = want.at[a] = n;
    }
    Tensor table = view_tensor(view_expanded(v, have), NULL);
    Tensor y = gather(table, axis, view_tensor(view_expanded(ids, want), NULL));
    return give_tensor(l, 0, y, NULL);
}

/* ---- reduced by index ---- */

typedef struct ByIndex { /* every place of the result beside every element of the source */
    Operand own, index, source, place;
    int     axis; /* of the sources; the places stand before it */
} ByIndex;

static Err by_index_of(Lower *l, ByIndex *r)
{
    int axis;
    TRY(arg_item(l, "self", &r->own));
    TRY(arg_item(l, "index", &r->index));
    TRY(arg_item(l, "src", &r->source));
    int rank = r->own.view.rank;
    TRY(arg_axis(l, "dim", rank, 0, &axis));
    if (!rank || rank == VIEW_RANK || r->index.view.rank != rank || r->source.view.rank != rank)
        return refuse(l, "a tensor of %d axes", rank);
    for (int a = 0; a < rank; a++) {
        if (r->source.view.dim[a] > r->index.view.dim[a])
            r->source.view = view_sliced(r->source.view, a, 0, r->index.view.dim[a], 1);
        if (a != axis && r->own.view.dim[a] != r->index.view.dim[a])
            return refuse(l, "an index smaller than the result along axis %d", a);
    }
    r->place = lower_positions(l, rank + 1, axis, r->own.view.dim[axis]);
    r->own.view = view_inserted(r->own.view, axis + 1, 1);
    r->index.view = view_inserted(r->index.view, axis, 1);
    r->source.view = view_inserted(r->source.view, axis, 1);
    r->axis = axis + 1;
    return OK;
}

/* Of the elements that go to each place, reduced; with none of them: `none`. */
static Err reduced_by_index(Lower *l, const ByIndex *r, PointReduce how, bool ones, double none,
                            Operand *y)
{
    Formula f = formula(l);
    int     source = ones ? formula_number(&f, 1) : formula_input(&f, r->source);
    int     mine = F2(&f, EQ, formula_input(&f, r->index), formula_input(&f, r->place));
    TRY(formula_reduce(&f, F3(&f, SELECT, mine, source, formula_number(&f, none)), how,
                       1u << r->axis, 1, EX_F32, y));
    return OK;
}

static Err scatter_reduce(Lower *l)
{
    ByIndex     r;
    Operand     y, count;
    const char *how = arg_text(l, "reduce", "sum");
    bool        extreme = !strcmp(how, "amax") || !strcmp(how, "amin"), mean = !strcmp(how, "mean");
    bool        with_own = arg_bool(l, "include_self", true);
    TRY(by_index_of(l, &r));
    if (!extreme && !mean && strcmp(how, "sum") != 0)
        return refuse(l, "the reduction '%s' is not supported; sum, mean, amax and amin are", how);
    bool low = !strcmp(how, "amin");
    TRY(reduced_by_index(l, &r,
                         !extreme ? POINT_SUM
                         : low    ? POINT_AMIN
                                  : POINT_AMAX,
                         false,
                         !extreme ? 0
                         : low    ? INFINITY
                                  : -INFINITY,
                         &y));
    TRY(reduced_by_index(l, &r, POINT_SUM, true, 0, &count));
    r.own.view = view_dropped(r.own.view, r.axis);
    Formula f = formula(l);
    int     own = formula_input(&f, r.own), found = formula_input(&f, y);
    int     n = formula_input(&f, count), one = formula_number(&f, 1);
    int     all = found, some = F2(&f, GT, n, formula_number(&f, 0));
    if (with_own) {
        all = !extreme ? F2(&f, ADD, own, found)
              : low    ? F2(&f, MIN, own, found)
                       : F2(&f, MAX, own, found);
        n = F2(&f, ADD, n, one);
    }
    if (mean)
        all = F2(&f, DIV, all, F2(&f, MAX, n, one));
    return formula_give(&f, F3(&f, SELECT, some, all, own), 0);
}

/* ---- on the diagonal ---- */

/* The last axis becomes the diagonal of two new ones, zeros beside it. */
static Err diagonal_embedded(Lower *l)
{
    Operand x;
    int64_t offset, first, second;
    Err     err;
    TRY(arg_item(l, "self", &x));
    TRY(arg_int(l, "offset", 0, &offset));
    if (l->def->with)
        TRY(arg_int(l, "diagonal", 0, &offset));
    TRY(arg_int(l, "dim1", -2, &first));
    TRY(arg_int(l, "dim2", -1, &second));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    int rank = dims.rank;
    if (l->def->with && x.view.rank == 2) { /* torch.diag of a matrix: its diagonal */
        View v = x.view;
        v.offset += offset >= 0 ? offset * v.stride[1] : -offset * v.stride[0];
        v.rank = 1;
        v.dim[0] = dims.at[0];
        v.stride[0] += v.stride[1];
        return give(l, 0, item_with(x, v));
    }
    if (rank < 2 || (first != -2 && first != rank - 2) || (second != -1 && second != rank - 1))
        return refuse(l, "only the last two axes are supported");
    /* Row i reads element i, or i + offset where the diagonal lies below. */
    int64_t n = dims.at[rank - 1], have = x.view.dim[x.view.rank - 1];
    Operand row = lower_positions(l, rank, rank - 2, n),
            column = lower_positions(l, rank, rank - 1, n);
    if (offset) {
        HostArray *zero;
        Operand    none = item_host(l, x.type, (Dims){ 0 }, &zero), parts[2];
        Dims       gap = view_dims(&x.view);
        gap.at[gap.rank - 1] = n - have;
        none.view = view_expanded(none.view, gap);
        parts[offset < 0] = x;
        parts[offset > 0] = none;
        TRY(lower_join(l, parts, 2, x.view.rank - 1, &x));
    }
    x.view = view_inserted(x.view, x.view.rank, 1); /* by row */
    Formula f = formula(l);
    int     value = formula_input(&f, x);
    int     at = F2(&f, ADD, formula_input(&f, row), formula_integer(&f, offset));
    int     on = F2(&f, EQ, at, formula_input(&f, column));
    int     nil = f.step[value].integer ? formula_integer(&f, 0) : formula_number(&f, 0);
    return formula_give(&f, F3(&f, SELECT, on, value, nil), 0);
}

/* clang-format off */
const LowerDef lower_orders[] = {
    { "aten.kthvalue.default", kth_value, 0, false },
    { "aten.median.default", median, 0, false }, { "aten.median.dim", median, 0, false },
    { "aten.cummax.default", running_extreme, 0, false }, { "aten.cummin.default", running_extreme, 1, false },
    { "aten.logcumsumexp.default", running_log_sum, 0, false },
    { "aten.searchsorted.Tensor", sorted_place, 0, false }, { "aten.bucketize.Tensor", sorted_place, 1, false },
    { "aten.masked_scatter.default", masked_scatter, 0, false },
    { "aten.take_along_dim.default", take_along, 0, false },
    { "aten.scatter_reduce.two", scatter_reduce, 0, false },
    { "aten.diag_embed.default", diagonal_embedded, 0, false }, { "aten.diag.default", diagonal_embedded, 1, false },
    { 0 }
};
/* clang-format on */
