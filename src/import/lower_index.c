/* lower_index.c -- elements by index, order, running sums, padding, shifts. */
#include "import/lower.h"

#include "ops/arrange/arrange.h"
#include "ops/arrange/pad_mode.h"
#include "ops/elementwise/basic.h"
#include "ops/index/count.h"
#include "ops/index/extreme.h"
#include "ops/index/gather.h"
#include "ops/index/scan.h"
#include "ops/index/sort.h"

#include <string.h>

/* In the file's order of axes, of at most MAX_RANK. */
static Err plain(Lower *l, const char *name, Tensor *t, View *v)
{
    TRY(arg_view(l, name, v));
    if (!tensor_ok(v->base))
        return refuse(l, "'%s' is missing", name);
    if (v->rank > MAX_RANK)
        return refuse(l, "a tensor of %d axes", v->rank);
    *t = view_tensor(*v, NULL);
    return graph_check(l->graph);
}

static Err host_take(Lower *l, Operand table, int axis, Operand index, Dims dims, Operand *y)
{
    HostArray *to;
    Operand    out = item_host(l, out_type_of(l, 0), dims, &to);
    View       rows = table.view; /* axes before the index, then the index's, then those after it */
    int64_t    extent = rows.dim[axis], at, from, n = 0, count = view_count(&index.view);
    int64_t    outer = 1, inner = 1;
    REQUIRE(axis < rows.rank && rows.rank <= VIEW_RANK);
    for (int a = 0; a < rows.rank; a++)
        if (a < axis)
            outer *= rows.dim[a];
        else if (a > axis)
            inner *= rows.dim[a];
    int64_t *list = NEWN(l->pool, int64_t, count + 1);
    for (HostWalk w = host_walk(&index.view); host_step(&w, &at); n++) {
        list[n] = host_i(&index, at);
        list[n] += list[n] < 0 ? extent : 0;
        if (list[n] < 0 || list[n] >= extent)
            return refuse(l, "index %lld of %lld", (long long)list[n], (long long)extent);
    }
    int64_t *offsets = NEWN(l->pool, int64_t, outer * inner + 1), k = 0;
    View     others = view_dropped(view_sliced(rows, axis, 0, 1, 1), axis);
    for (HostWalk w = host_walk(&others); host_step(&w, &from);)
        offsets[k++] = from;
    n = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < count; j++)
            for (int64_t i = 0; i < inner; i++, n++) {
                int64_t place = offsets[o * inner + i] + list[j] * rows.stride[axis];
                if (to->integer)
                    to->i[n] = host_i(&table, place);
                else
                    to->f[n] = host_f(&table, place);
            }
    *y = item_compressed(out);
    return OK;
}

Err lower_take(Lower *l, Operand x, int axis, Operand index, Dims dims, Operand *out)
{
    View v, i;
    if (x.host && index.host)
        return host_take(l, x, axis, index, dims, out);
    TRY(item_view(l, &x, &v));
    TRY(item_view(l, &index, &i));
    Tensor ids = view_tensor(i, NULL);
    if (!i.rank)
        ids = reshape(ids, SHAPE(1));
    Tensor y = index_rows(view_tensor(v, NULL), axis, ids, -1);
    TRY(graph_check(l->graph));
    *out = item_of(l, view_make(y, dims, NULL), out_type_of(l, 0));
    return OK;
}

static Err give_host_take(Lower *l, Operand table, int axis, Operand index)
{
    Err     err;
    Operand out;
    Dims    dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(host_take(l, table, axis, index, dims, &out));
    return give(l, 0, out);
}

static Err take_rows(Lower *l, Operand x, int axis, Operand index, int64_t padding)
{
    View v, i;
    if (x.host && index.host)
        return give_host_take(l, x, axis, index);
    if (!type_floats(index.type) && index.type == EX_BOOL)
        return refuse(l, "a mask as an index gives a size that depends on the data");
    TRY(item_view(l, &x, &v));
    TRY(item_view(l, &index, &i));
    Tensor ids = view_tensor(i, NULL);
    if (!i.rank)
        ids = reshape(ids, SHAPE(1));
    Tensor y = index_rows(view_tensor(v, NULL), axis, ids, padding);
    return give_tensor(l, 0, y, NULL);
}

static Err embedding_of(Lower *l)
{
    Operand table, ids;
    int64_t padding;
    TRY(arg_item(l, "weight", &table));
    TRY(arg_item(l, "indices", &ids));
    TRY(arg_int(l, "padding_idx", -1, &padding));
    padding += padding < -1 ? table.view.dim[0] : 0;
    return take_rows(l, table, 0, ids, padding);
}

static Err index_select(Lower *l)
{
    Operand x, index;
    int     axis;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "index", &index));
    TRY(arg_axis(l, "dim", x.view.rank, 0, &axis));
    return take_rows(l, x, axis, index, -1);
}

/* The axes that are indexed, then the others. */
static void indexed_first(int rank, const int *place, int n, int *axis)
{
    int k = 0;
    for (int i = 0; i < n; i++)
        axis[k++] = place[i];
    for (int a = 0; a < rank; a++) {
        bool taken = false;
        for (int i = 0; i < n; i++)
            taken |= place[i] == a;
        if (!taken)
            axis[k++] = a;
    }
}

/* Which axes of the result lie outermost: those of the indices, which stand at `first` of it. */
static void indices_back(int rank, int wide, int first, int *order)
{
    int k = 0;
    for (int i = 0; i < wide; i++)
        order[k++] = first + i;
    for (int a = 0; a < rank; a++)
        if (a < first || a >= first + wide)
            order[k++] = a;
}

/* x[None, i, j]: indices of any axes. Those of the result stand where the first index does, or in
 * front if free axes stand between them. */
static Err index_of(Lower *l)
{
    Operand            x, index[VIEW_RANK];
    const ExportedArg *a = arg(l, "indices");
    TRY(arg_item(l, "self", &x));
    int  n = 0, first = -1, place[VIEW_RANK];
    bool apart = false;
    if (!a || a->kind != ARG_VALUES || a->n > x.view.rank)
        return refuse(l, "this form of index is not supported");
    for (int i = 0; i < a->n; i++) {
        if (a->values[i] < 0)
            continue;
        apart |= n && i != first + n;
        first = first < 0 ? i : first;
        place[n] = i;
        TRY(lower_output(l, a->values[i], &index[n++]));
    }
    if (n == 1)
        return take_rows(l, x, first, index[0], -1);
    if (n < 1 || n > INDEX_MAX)
        return refuse(l, "%d indices", n);
    if (x.host && !apart) { /* one index over the merged axes */
        bool all = true;
        for (int i = 0; i < n; i++)
            all &= index[i].host != NULL;
        if (all) {
            Formula f = formula(l);
            int     sum = -1;
            for (int i = 0; i < n; i++) {
                int     s = formula_input(&f, index[i]);
                int64_t extent = x.view.dim[first + i];
                int     wrapped = F3(&f, SELECT, F2(&f, LT, s, formula_integer(&f, 0)),
                                     F2(&f, ADD, s, formula_integer(&f, extent)), s);
                sum = sum < 0 ? wrapped
                              : F2(&f, ADD, F2(&f, MUL, sum, formula_integer(&f, extent)), wrapped);
            }
            Operand flat;
            TRY(formula_item(&f, sum, EX_I64, &flat));
            View merged = x.view;
            Dims dims = { 0 };
            for (int i = 0; i < merged.rank; i++)
                if (i > first && i < first + n)
                    dims.at[dims.rank - 1] *= merged.dim[i];
                else
                    dims.at[dims.rank++] = merged.dim[i];
            TRY(lower_reshape(l, x, dims, &x));
            return give_host_take(l, x, first, flat);
        }
    }
    View v;
    TRY(item_view(l, &x, &v));
    Tensor ids[INDEX_MAX];
    int    axis[VIEW_RANK], wide = 0;
    for (int i = 0; i < n; i++) {
        View view;
        TRY(item_view(l, &index[i], &view));
        ids[i] = view_tensor(view, NULL);
        wide = view.rank > wide ? view.rank : wide;
    }
    indexed_first(v.rank, place, n, axis);
    Tensor y = index_at(view_tensor(view_permuted(v, axis), NULL), ids, n);
    Err    err;
    Dims   found = out_dims(l, 0, &err);
    TRY(err);
    int order[VIEW_RANK];
    indices_back(found.rank, wide, apart ? 0 : first, order);
    return give_tensor(l, 0, y, order);
}

/* x[mask] = one value for all */
static Err put_masked(Lower *l, Operand mask)
{
    Operand x, value;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "values", &value));
    if (view_count(&value.view) != 1 || arg_bool(l, "accumulate", false))
        return refuse(l, "a mask as an index gives a size that depends on the data");
    while (value.view.rank)
        value.view = view_dropped(value.view, 0);
    while (mask.view.rank < x.view.rank)
        mask.view = view_inserted(mask.view, mask.view.rank, 1);
    Formula f = formula(l);
    int     keep = formula_input(&f, x), put = formula_input(&f, value);
    put = type_floats(x.type) ? formula_float(&f, put) : put;
    return formula_give(&f, F3(&f, SELECT, formula_input(&f, mask), put, keep), 0);
}

static Err index_put_of(Lower *l)
{
    Tensor             ids[INDEX_MAX];
    View               v, w, view;
    const ExportedArg *a = arg(l, "indices");
    int                n = 0, first = -1, wide = 0, place[VIEW_RANK], axis[VIEW_RANK];
    bool               apart = false;
    TRY(arg_view(l, "self", &v));
    TRY(arg_view(l, "values", &w));
    if (!a || a->kind != ARG_VALUES || a->n > v.rank)
        return refuse(l, "this form of index is not supported");
    Dims shared = { 0 }; /* of the indices, broadcast */
    for (int i = 0; i < a->n; i++) {
        Operand item;
        if (a->values[i] < 0)
            continue;
        TRY(lower_output(l, a->values[i], &item));
        if (item.type == EX_BOOL && a->n == 1)
            return put_masked(l, item);
        if (n == INDEX_MAX || item.type == EX_BOOL)
            return refuse(l, "this form of index is not supported");
        apart |= n && i != first + n;
        first = first < 0 ? i : first;
        TRY(item_view(l, &item, &view));
        place[n] = i;
        ids[n++] = view_tensor(view, NULL);
        wide = view.rank > wide ? view.rank : wide;
        for (int k = 0; k < view.rank; k++) {
            int64_t *to = &shared.at[VIEW_RANK - view.rank + k];
            *to = view.dim[k] > *to ? view.dim[k] : *to;
        }
    }
    if (!n)
        return refuse(l, "this form of index is not supported");
    indexed_first(v.rank, place, n, axis);
    /* Values have the axes of what the index would read: where the first index stands, its own. */
    int  before = apart ? 0 : first, order[VIEW_RANK], back[VIEW_RANK];
    Dims dims = { .rank = v.rank - n + wide };
    for (int i = 0; i < dims.rank; i++) {
        int rest = n + (i < before ? i : i - wide);
        dims.at[i] = i >= before && i < before + wide ? shared.at[VIEW_RANK - wide + i - before]
                                                      : v.dim[axis[rest]];
    }
    indices_back(dims.rank, wide, before, order);
    View   values = view_permuted(view_expanded(w, dims), order);
    Tensor x = view_tensor(view_permuted(v, axis), NULL);
    Tensor y = index_put(x, ids, n, cast(view_tensor(values, NULL), tensor_type(x)),
                         arg_bool(l, "accumulate", false));
    for (int i = 0; i < v.rank; i++)
        back[i] = axis[i];
    return give_tensor(l, 0, y, back);
}

/* index_add, index_copy and index_fill write whole slices of one axis. */
static Err index_slices(Lower *l)
{
    View   v, index, s;
    int    axis, order[VIEW_RANK];
    char   what = (char)l->def->with;
    double alpha;
    Tensor ids[1];
    TRY(arg_view(l, "self", &v));
    TRY(arg_view(l, "index", &index));
    TRY(arg_axis(l, "dim", v.rank, 0, &axis));
    TRY(arg_float(l, "alpha", 1, &alpha));
    indexed_first(v.rank, &axis, 1, order);
    Dims dims = view_dims(&v);
    dims.at[axis] = view_count(&index);
    if (what == 'f') {
        Operand value;
        TRY(arg_item(l, "value", &value));
        TRY(item_view(l, &value, &s));
    } else {
        TRY(arg_view(l, "source", &s));
    }
    if (alpha != 1)
        return refuse(l, "alpha is not supported");
    s = view_permuted(view_expanded(s, dims), order);
    ids[0] = view_tensor(index, NULL);
    Tensor x = view_tensor(view_permuted(v, order), NULL);
    Tensor y = index_put(x, ids, 1, cast(view_tensor(s, NULL), tensor_type(x)), what == 'a');
    return give_tensor(l, 0, y, order);
}

/* Over an axis: the last of the running products. */
static Err prod_of(Lower *l)
{
    Operand item;
    View    v;
    int     axis = 0;
    TRY(arg_item(l, "self", &item));
    if (arg_given(l, "dim"))
        TRY(arg_axis(l, "dim", item.view.rank, 0, &axis));
    else
        TRY(lower_reshape(l, item, (Dims){ 1, { view_count(&item.view) } }, &item));
    if (!type_floats(item.type))
        return refuse(l, "only of floats");
    TRY(item_view(l, &item, &v));
    Tensor y = cumprod(view_tensor(v, NULL), axis);
    TRY(graph_check(l->graph));
    View all = view_make(y, view_dims(&v), NULL);
    all = view_sliced(all, axis, v.dim[axis] - 1, 1, 1);
    return give_view(l, 0, arg_bool(l, "keepdim", false) ? all : view_dropped(all, axis));
}

static Err gather_of(Lower *l)
{
    Tensor x, index;
    View   v, i;
    int    axis;
    TRY(plain(l, "self", &x, &v));
    TRY(plain(l, "index", &index, &i));
    TRY(arg_axis(l, "dim", v.rank, 0, &axis));
    return give_tensor(l, 0, gather(x, axis, index), NULL);
}

static Err scatter_of(Lower *l)
{
    Tensor x, index, src;
    View   v, i, s;
    int    axis;
    TRY(plain(l, "self", &x, &v));
    TRY(plain(l, "index", &index, &i));
    if (arg_given(l, "src")) {
        TRY(plain(l, "src", &src, &s));
    } else {
        Operand value;
        TRY(arg_item(l, "value", &value));
        TRY(item_view(l, &value, &s));
        src = view_tensor(view_expanded(s, view_dims(&i)), NULL);
    }
    TRY(arg_axis(l, "dim", v.rank, 0, &axis));
    src = cast(src, tensor_type(x));
    return give_tensor(
        l, 0, l->def->with ? scatter_add(x, axis, index, src) : scatter(x, axis, index, src), NULL);
}

/* ---- order and extremes ---- */

static Err extreme_index(Lower *l)
{
    Tensor x;
    View   v;
    int    axis = 0;
    bool   keep = arg_bool(l, "keepdim", false);
    TRY(plain(l, "self", &x, &v));
    if (arg_given(l, "dim"))
        TRY(arg_axis(l, "dim", v.rank, 0, &axis));
    else
        x = reshape(x, SHAPE(view_count(&v)));
    Tensor y = l->def->with ? argmin(x, axis, keep) : argmax(x, axis, keep);
    return give_tensor(l, 0, y, NULL);
}

static Err extreme_along(Lower *l)
{
    Tensor x, index;
    View   v;
    int    axis;
    bool   keep = arg_bool(l, "keepdim", false);
    TRY(plain(l, "self", &x, &v));
    TRY(arg_axis(l, "dim", v.rank, 0, &axis));
    Tensor y = l->def->with ? min_along(x, axis, keep, &index) : max_along(x, axis, keep, &index);
    TRY(give_tensor(l, 0, y, NULL));
    return give_tensor(l, 1, index, NULL);
}

static Err topk_of(Lower *l)
{
    Tensor  x, out[2];
    View    v;
    int     axis;
    int64_t k;
    TRY(plain(l, "self", &x, &v));
    TRY(arg_axis(l, "dim", v.rank, -1, &axis));
    TRY(arg_int(l, "k", 1, &k));
    topk(out, x, k, axis, arg_bool(l, "largest", true));
    TRY(give_tensor(l, 0, out[0], NULL));
    return give_tensor(l, 1, out[1], NULL);
}

static Err sort_of(Lower *l)
{
    Tensor x, out[2];
    View   v;
    int    axis;
    TRY(plain(l, "self", &x, &v));
    TRY(arg_axis(l, "dim", v.rank, -1, &axis));
    sort(out, x, axis, arg_bool(l, "descending", false));
    if (l->def->with)
        return give_tensor(l, 0, out[1], NULL);
    TRY(give_tensor(l, 0, out[0], NULL));
    return give_tensor(l, 1, out[1], NULL);
}

static Err host_cumsum(Lower *l, Operand x, int axis)
{
    HostArray *to;
    Operand    out = item_host(l, out_type_of(l, 0), view_dims(&x.view), &to);
    int64_t    at, into, stride = out.view.stride[axis];
    HostWalk   r = host_walk(&x.view), w = host_walk(&out.view);
    while (host_step(&r, &at) && host_step(&w, &into)) {
        bool first = into / stride % out.view.dim[axis] == 0;
        if (to->integer)
            to->i[into] = host_i(&x, at) + (first ? 0 : to->i[into - stride]);
        else
            to->f[into] = host_f(&x, at) + (first ? 0 : to->f[into - stride]);
    }
    return give(l, 0, item_compressed(out));
}

static Err cumsum_of(Lower *l)
{
    Operand item;
    View    v;
    int     axis;
    TRY(arg_item(l, "self", &item));
    TRY(arg_axis(l, "dim", item.view.rank, 0, &axis));
    if (type_floats(item.type) != type_floats(out_type_of(l, 0)) || item.type == EX_BOOL) {
        Formula f = formula(l);
        TRY(formula_item(&f, formula_as(&f, formula_input(&f, item), out_type_of(l, 0)),
                         out_type_of(l, 0), &item));
    }
    if (item.host && !l->def->with)
        return host_cumsum(l, item, axis);
    TRY(item_view(l, &item, &v));
    Tensor x = view_tensor(v, NULL);
    return give_tensor(l, 0, l->def->with ? cumprod(x, axis) : cumsum(x, axis), NULL);
}

/* x[1:] - x[:-1], after what is to stand before it */
static Err diff_of(Lower *l)
{
    Operand x, before;
    int     axis;
    int64_t n;
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "prepend", &before));
    TRY(arg_int(l, "n", 1, &n));
    TRY(arg_axis(l, "dim", x.view.rank, -1, &axis));
    if (arg_given(l, "append"))
        return refuse(l, "'append' is not supported");
    if (before.set) {
        Operand items[2] = { before, x };
        TRY(lower_join(l, items, 2, axis, &x));
    }
    for (; n > 0; n--) {
        int64_t last = x.view.dim[axis] - 1;
        Operand high = item_with(x, view_sliced(x.view, axis, 1, last, 1));
        Operand low = item_with(x, view_sliced(x.view, axis, 0, last, 1));
        Formula f = formula(l);
        int     a = formula_input(&f, high), b = formula_input(&f, low);
        TRY(formula_item(&f, x.type == EX_BOOL ? F2(&f, NE, a, b) : F2(&f, SUB, a, b),
                         out_type_of(l, 0), &x));
    }
    return give(l, 0, x);
}

static Err one_hot_of(Lower *l)
{
    Tensor  x;
    View    v;
    int64_t classes;
    TRY(plain(l, "self", &x, &v));
    TRY(arg_int(l, "num_classes", -1, &classes));
    if (classes < 1)
        return refuse(l, "num_classes must be given");
    return give_tensor(l, 0, one_hot(x, classes, I32), NULL);
}

/* ---- padding and shifts, in the tensor's own order of axes ---- */

static Err dense_view(Lower *l, View *v, int *order)
{
    TRY(arg_view(l, "self", v));
    *v = view_own_order(*v, order);
    return v->rank > MAX_RANK ? refuse(l, "a tensor of %d axes", v->rank) : OK;
}

static Err pad_of(Lower *l)
{
    View        v;
    int         order[VIEW_RANK], n;
    int64_t     pads[VIEW_RANK];
    double      value;
    const char *mode = l->def->with == 'r'   ? "reflect"
                       : l->def->with == 'e' ? "replicate"
                                             : arg_text(l, "mode", "constant");
    PadAttr     at = { 0 };
    TRY(arg_ints(l, arg_given(l, "padding") ? "padding" : "pad", pads, &n));
    TRY(arg_float(l, "value", 0, &value));
    TRY(dense_view(l, &v, order));
    bool any = false;
    for (int i = 0; i < v.rank; i++) {
        int from_end = v.rank - 1 - order[i];
        if (2 * from_end + 1 < n) {
            at.before[i] = pads[2 * from_end];
            at.after[i] = pads[2 * from_end + 1];
        }
        any |= at.before[i] || at.after[i];
    }
    if (!any) {
        Operand item;
        TRY(arg_item(l, "self", &item));
        return give(l, 0, item);
    }
    PadMode kind = !strcmp(mode, "reflect")     ? PAD_REFLECT
                   : !strcmp(mode, "replicate") ? PAD_REPLICATE
                   : !strcmp(mode, "circular")  ? PAD_CIRCULAR
                                                : PAD_CONSTANT;
    Tensor  x = view_tensor(v, order);
    return give_tensor(l, 0, pad_mode(x, at, kind, (float)value), order);
}

static Err roll_of(Lower *l)
{
    View    v;
    int     order[VIEW_RANK], n, m;
    int64_t shifts[VIEW_RANK], dims[VIEW_RANK], by[VIEW_RANK] = { 0 };
    TRY(arg_ints(l, "shifts", shifts, &n));
    TRY(arg_ints(l, "dims", dims, &m));
    TRY(dense_view(l, &v, order));
    if (!m && n == 1) { /* of all elements in a row */
        by[0] = shifts[0];
        Tensor flat = view_tensor_as(v, NULL, SHAPE(view_count(&v)));
        return give_tensor(l, 0, roll(flat, by), NULL);
    }
    if (m != n)
        return refuse(l, "%d shifts for %d axes", n, m);
    for (int i = 0; i < v.rank; i++)
        for (int k = 0; k < n; k++)
            if (order[i] == (dims[k] < 0 ? dims[k] + v.rank : dims[k]))
                by[i] += shifts[k];
    return give_tensor(l, 0, roll(view_tensor(v, order), by), order);
}

/* clang-format off */
const LowerDef lower_indices[] = {
    { "aten.embedding.default", embedding_of, 0, false },
    { "aten.index_select.default", index_select, 0, false },
    { "aten.index.Tensor", index_of, 0, false },
    { "aten.index_put.default", index_put_of, 0, false },
    { "aten._unsafe_index.Tensor", index_of, 0, false },
    { "aten.gather.default", gather_of, 0, false },
    { "aten.index_add.default", index_slices, 'a', false }, { "aten.index_copy.default", index_slices, 'c', false },
    { "aten.index_fill.int_Scalar", index_slices, 'f', false },
    { "aten.prod.default", prod_of, 0, false }, { "aten.prod.dim_int", prod_of, 0, false },
    { "aten.argsort.stable", sort_of, 1, false },
    { "aten.scatter.src", scatter_of, 0, false }, { "aten.scatter.value", scatter_of, 0, false },
    { "aten.scatter_add.default", scatter_of, 1, false },
    { "aten.argmax.default", extreme_index, 0, false }, { "aten.argmin.default", extreme_index, 1, false },
    { "aten.max.dim", extreme_along, 0, false }, { "aten.min.dim", extreme_along, 1, false },
    { "aten.topk.default", topk_of, 0, false }, { "aten.sort.default", sort_of, 0, false },
    { "aten.sort.stable", sort_of, 0, false }, { "aten.argsort.default", sort_of, 1, false },
    { "aten.cumsum.default", cumsum_of, 0, false }, { "aten.cumprod.default", cumsum_of, 1, false },
    { "aten.diff.default", diff_of, 0, false }, { "aten.one_hot.default", one_hot_of, 0, false },
    { "aten.pad.default", pad_of, 0, false }, { "aten.constant_pad_nd.default", pad_of, 0, false },
    { "aten.reflection_pad1d.default", pad_of, 'r', false }, { "aten.reflection_pad2d.default", pad_of, 'r', false },
    { "aten.reflection_pad3d.default", pad_of, 'r', false }, { "aten.replication_pad1d.default", pad_of, 'e', false },
    { "aten.replication_pad2d.default", pad_of, 'e', false }, { "aten.replication_pad3d.default", pad_of, 'e', false },
    { "aten.roll.default", roll_of, 0, false },
    { 0 }
};
/* clang-format on */
