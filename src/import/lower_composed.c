/* lower_composed.c -- calls that are a few others: rearranged, joined or pointwise. */
#include "import/lower.h"

#include "ops/elementwise/basic.h"
#include "ops/index/gather.h"

#include <math.h>
#include <string.h>

/* ---- views ---- */

static Err give_item(Lower *l, Operand item, View view)
{
    return give(l, 0, item_with(item, view));
}

static View flipped(View v, int axis)
{
    v.offset += (v.dim[axis] - 1) * v.stride[axis];
    v.stride[axis] = -v.stride[axis];
    return v;
}

/* fliplr, flipud: the last axis but the first, the first. */
static Err flip_side(Lower *l)
{
    Operand x;
    TRY(arg_item(l, "self", &x));
    if (x.view.rank <= l->def->with)
        return refuse(l, "an input with %d axes", x.view.rank);
    return give_item(l, x, flipped(x.view, l->def->with));
}

static Err rotated(Lower *l)
{
    Operand x;
    int     axes[VIEW_RANK], n, order[VIEW_RANK];
    int64_t k;
    TRY(arg_item(l, "self", &x));
    TRY(arg_int(l, "k", 1, &k));
    if (arg_given(l, "dims"))
        TRY(arg_axes(l, "dims", x.view.rank, axes, &n));
    else
        axes[0] = 0, axes[1] = n = 2;
    axes[1] = arg_given(l, "dims") ? axes[1] : 1;
    if (n != 2 || x.view.rank < 2)
        return refuse(l, "a turn in %d axes", n);
    View v = x.view;
    k = (k % 4 + 4) % 4;
    if (k == 1 || k == 2)
        v = flipped(v, axes[1]);
    if (k == 2 || k == 3)
        v = flipped(v, axes[0]);
    for (int i = 0; i < v.rank; i++)
        order[i] = k % 2 && i == axes[0] ? axes[1] : k % 2 && i == axes[1] ? axes[0] : i;
    return give_item(l, x, view_permuted(v, order));
}

/* New axes in front and behind, up to 1, 2 or 3. */
static Err at_least(Lower *l)
{
    Operand x;
    int     rank = l->def->with;
    TRY(arg_item(l, "self", &x));
    View v = x.view;
    if (rank == 3 && v.rank == 2)
        v = view_inserted(v, 2, 1);
    if (rank == 3 && v.rank == 1)
        v = view_inserted(view_inserted(v, 1, 1), 0, 1);
    while (v.rank < rank)
        v = view_inserted(v, 0, 1);
    return give_item(l, x, v);
}

/* What lies between the given indices. */
static Err split_between(Lower *l)
{
    Operand x, *parts = NEWN(l->pool, Operand, l->call->n_out);
    int64_t at[VIEW_RANK + 1], extent[VIEW_RANK + 1];
    int     axis, n;
    TRY(arg_item(l, "self", &x));
    TRY(arg_axis(l, "dim", x.view.rank, 0, &axis));
    TRY(arg_ints(l, "indices", at, &n));
    int64_t whole = x.view.dim[axis], from = 0;
    if (l->call->n_out != n + 1)
        return refuse(l, "%d parts", l->call->n_out);
    at[n] = whole;
    for (int i = 0; i <= n; i++) {
        int64_t to = at[i] < 0 ? at[i] + whole : at[i] > whole ? whole : at[i];
        if (to <= from)
            return refuse(l, "empty slices are not supported");
        extent[i] = to - from;
        from = to;
    }
    TRY(lower_slices(l, x, axis, extent, n + 1, parts));
    for (int i = 0; i <= n; i++)
        TRY(give(l, i, parts[i]));
    return OK;
}

/* ---- elements by number ---- */

static Err flat_of(Lower *l, Operand *item)
{
    return lower_reshape(l, *item, (Dims){ 1, { view_count(&item->view) } }, item);
}

static Err take(Lower *l)
{
    Operand x, index, y;
    Err     err;
    Dims    dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "index", &index));
    TRY(flat_of(l, &x));
    TRY(lower_take(l, x, 0, index, dims, &y));
    return give(l, 0, y);
}

static Err put(Lower *l)
{
    Operand x, index, source;
    View    v, i, s;
    Err     err;
    Dims    dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_item(l, "self", &x));
    TRY(arg_item(l, "index", &index));
    TRY(arg_item(l, "source", &source));
    TRY(flat_of(l, &x));
    TRY(flat_of(l, &index));
    TRY(flat_of(l, &source));
    TRY(item_view(l, &x, &v));
    TRY(item_view(l, &index, &i));
    TRY(item_view(l, &source, &s));
    Tensor to = view_tensor(v, NULL), ids[1] = { view_tensor(i, NULL) };
    Tensor y = index_put(to, ids, 1, cast(view_tensor(s, NULL), tensor_type(to)),
                         arg_bool(l, "accumulate", false));
    TRY(graph_check(l->graph));
    return give_view(l, 0, view_make(y, dims, NULL));
}

/* Elements at the given steps, of a tensor that lies in the order of its axes. */
static Err strided(Lower *l)
{
    Operand    x, y;
    HostArray *at;
    int64_t    stride[VIEW_RANK], offset;
    int        n;
    Err        err;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_item(l, "self", &x));
    TRY(arg_ints(l, "stride", stride, &n));
    TRY(arg_int(l, "storage_offset", 0, &offset));
    Operand index = item_host(l, EX_I64, dims, &at);
    for (int64_t i = 0; i < at->n; i++) {
        int64_t rest = i;
        at->i[i] = offset;
        for (int a = n - 1; a >= 0; rest /= dims.at[a--])
            at->i[i] += rest % dims.at[a] * stride[a];
        if (at->i[i] >= view_count(&x.view))
            return refuse(l, "steps beyond the tensor's own elements are not supported");
    }
    TRY(flat_of(l, &x));
    TRY(lower_take(l, x, 0, index, dims, &y));
    return give(l, 0, y);
}

/* ---- tensors joined ---- */

static Err zeros_like(Lower *l, ExportedType type, Dims dims, Operand *item)
{
    HostArray *none;
    *item = item_host(l, type, dims, &none);
    return OK;
}

/* Rows of each matrix between zeros, one after another. */
static Err block_diagonal(Lower *l)
{
    Operand items[32], rows[32], row[3];
    Err     err;
    Dims    dims = out_dims(l, 0, &err);
    int     n;
    int64_t before = 0;
    TRY(err);
    TRY(arg_items(l, "tensors", items, 32, &n));
    for (int i = 0; i < n; i++) {
        int parts = 0;
        while (items[i].view.rank < 2)
            items[i].view = view_inserted(items[i].view, 0, 1);
        int64_t height = items[i].view.dim[0], width = items[i].view.dim[1];
        if (before)
            TRY(zeros_like(l, items[i].type, (Dims){ 2, { height, before } }, &row[parts++]));
        row[parts++] = items[i];
        before += width;
        if (before < dims.at[1])
            TRY(zeros_like(l, items[i].type, (Dims){ 2, { height, dims.at[1] - before } },
                           &row[parts++]));
        TRY(lower_join(l, row, parts, 1, &rows[i]));
    }
    Operand y;
    TRY(lower_join(l, rows, n, 0, &y));
    return give(l, 0, y);
}

/* All pairs, triples, ... of elements, the last one fastest. */
static Err all_tuples(Lower *l)
{
    Operand items[VIEW_RANK], y;
    int     n;
    Dims    grid = { 0 };
    TRY(arg_items(l, "tensors", items, VIEW_RANK - 1, &n));
    for (int i = 0; i < n; i++)
        grid.at[grid.rank++] = items[i].view.dim[0];
    if (n == 1)
        return give(l, 0, items[0]);
    for (int i = 0; i < n; i++) {
        View v = items[i].view;
        for (int k = 0; k < n; k++)
            if (k != i)
                v = view_inserted(v, k, 1);
        items[i] = item_with(items[i], view_expanded(v, grid));
        TRY(lower_reshape(l, items[i], (Dims){ 2, { dims_count(grid), 1 } }, &items[i]));
    }
    TRY(lower_join(l, items, n, 1, &y));
    return give(l, 0, y);
}

/* ---- pointwise ---- */

static Err two(Lower *l, Formula *f, const char *first, const char *second, int x[2])
{
    Operand a, b;
    *f = formula(l);
    TRY(arg_item(l, first, &a));
    TRY(arg_item(l, second, &b));
    x[0] = formula_float(f, formula_input(f, a));
    x[1] = formula_float(f, formula_input(f, b));
    return OK;
}

/* log2(2^a + 2^b), from the larger on */
static Err log_add_exp2(Lower *l)
{
    Formula f;
    int     x[2];
    TRY(two(l, &f, "self", "other", x));
    int large = F2(&f, MAX, x[0], x[1]), low = F2(&f, MIN, x[0], x[1]);
    int rest = F1(&f, LOG1P, F1(&f, EXP2, F2(&f, SUB, low, large)));
    return formula_give(&f, F2(&f, ADD, large, F2(&f, MUL, rest, formula_number(&f, 1 / log(2)))),
                        0);
}

/* -x log x; 0 at 0, -infinity below. */
static Err entropy(Lower *l)
{
    Operand item;
    TRY(arg_item(l, "self", &item));
    Formula f = formula(l);
    int     x = formula_float(&f, formula_input(&f, item)), nil = formula_number(&f, 0);
    int     y = F1(&f, NEG, F2(&f, MUL, x, F1(&f, LOG, x)));
    y = F3(&f, SELECT, F2(&f, EQ, x, nil), nil, y);
    return formula_give(&f, F3(&f, SELECT, F2(&f, LT, x, nil), formula_number(&f, -INFINITY), y),
                        0);
}

/* The normal distribution's: (1 + erf(x / sqrt 2)) / 2 */
static Err normal_below(Lower *l)
{
    Operand item;
    TRY(arg_item(l, "self", &item));
    Formula f = formula(l);
    int     x = formula_float(&f, formula_input(&f, item)), half = formula_number(&f, 0.5);
    x = F1(&f, ERF, F2(&f, MUL, x, formula_number(&f, sqrt(0.5))));
    return formula_give(&f, F2(&f, ADD, F2(&f, MUL, x, half), half), 0);
}

/* log Gamma by Stirling's series from 5 on; below by Gamma(x) = Gamma(x + 5) / (x ... (x + 4)),
 * below 1/2 by reflection. */
static int log_gamma_above(Formula *f, int x)
{
    static const double series[] = { 1.0 / 12, -1.0 / 360, 1.0 / 1260 };
    int                 product = x, z = F2(f, ADD, x, formula_number(f, 5));
    for (int i = 1; i < 5; i++)
        product = F2(f, MUL, product, F2(f, ADD, x, formula_number(f, i)));
    int r = F1(f, RECIPROCAL, z), square = F2(f, MUL, r, r), sum = formula_number(f, series[2]);
    for (int i = 1; i >= 0; i--)
        sum = F2(f, ADD, F2(f, MUL, sum, square), formula_number(f, series[i]));
    int half = F2(f, SUB, z, formula_number(f, 0.5));
    int y = F2(f, ADD, F2(f, SUB, F2(f, MUL, half, F1(f, LOG, z)), z),
               formula_number(f, 0.5 * log(2 * acos(-1))));
    y = F2(f, ADD, y, F2(f, MUL, sum, r));
    return F2(f, SUB, y, F1(f, LOG, product));
}

static Err log_gamma(Lower *l)
{
    Operand item, above;
    TRY(arg_item(l, "self", &item));
    Formula f = formula(l), g = formula(l);
    int     x = formula_float(&f, formula_input(&f, item)), one = formula_number(&f, 1);
    int     low = F2(&f, LT, x, formula_number(&f, 0.5));
    int     y = log_gamma_above(&f, F3(&f, SELECT, low, F2(&f, SUB, one, x), x));
    TRY(formula_item(&f, y, EX_F32, &above));
    x = formula_float(&g, formula_input(&g, item));
    y = formula_input(&g, above);
    low = F2(&g, LT, x, formula_number(&g, 0.5));
    int sine = F1(&g, SIN, F2(&g, MUL, x, formula_number(&g, acos(-1))));
    int mirrored = F2(&g, SUB, formula_number(&g, log(acos(-1))), F1(&g, LOG, F1(&g, ABS, sine)));
    return formula_give(&g, F3(&g, SELECT, low, F2(&g, SUB, mirrored, y), y), 0);
}

/* beta (x + y), with what a call names; outer products and matrix times vector added to something. */
static Err add_scaled(Lower *l, Operand product)
{
    Operand self;
    double  beta, alpha;
    TRY(arg_item(l, "self", &self));
    TRY(arg_float(l, "beta", 1, &beta));
    TRY(arg_float(l, "alpha", 1, &alpha));
    Formula f = formula(l);
    int     y = F2(&f, MUL, formula_input(&f, product), formula_number(&f, alpha));
    if (beta != 0)
        y = F2(&f, ADD, y, F2(&f, MUL, formula_input(&f, self), formula_number(&f, beta)));
    return formula_give(&f, y, 0);
}

static Err add_outer(Lower *l)
{
    Operand a, b, y;
    TRY(arg_item(l, "vec1", &a));
    TRY(arg_item(l, "vec2", &b));
    Formula f = formula(l);
    a.view = view_inserted(a.view, 1, 1);
    int product = F2(&f, MUL, formula_input(&f, a), formula_input(&f, b));
    TRY(formula_item(&f, product, out_type_of(l, 0), &y));
    return add_scaled(l, y);
}

static Err add_times_vector(Lower *l)
{
    View m, v, y;
    TRY(arg_view(l, "mat", &m));
    TRY(arg_view(l, "vec", &v));
    TRY(lower_matmul(l, m, view_inserted(v, 1, 1), &y));
    return add_scaled(l, item_of(l, view_dropped(y, 1), out_type_of(l, 0)));
}

/* The sum of the batch's products. */
static Err add_batch(Lower *l)
{
    View    a, b, y;
    Operand sum;
    TRY(arg_view(l, "batch1", &a));
    TRY(arg_view(l, "batch2", &b));
    TRY(lower_matmul(l, a, b, &y));
    Formula f = formula(l);
    int     x = formula_input(&f, item_of(l, y, out_type_of(l, 0)));
    TRY(formula_reduce(&f, x, POINT_SUM, 1, 1, out_type_of(l, 0), &sum));
    return add_scaled(l, sum);
}

/* From left to right. */
static Err chain(Lower *l)
{
    Operand items[16];
    View    y, next;
    Err     err;
    int     n;
    Dims    dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_items(l, l->def->with ? "tensors" : "matrices", items, 16, &n));
    TRY(item_view(l, &items[0], &y));
    if (y.rank == 1)
        y = view_inserted(y, 0, 1);
    for (int i = 1; i < n; i++) {
        TRY(item_view(l, &items[i], &next));
        if (next.rank == 1)
            next = view_inserted(next, 1, 1);
        TRY(lower_matmul(l, y, next, &y));
    }
    return give_view(l, 0, view_copied_reshape(y, dims));
}

/* Along an axis, of complex numbers lower_complex.c conjugates the first. */
static Err along_axis(Lower *l)
{
    Operand a, b, y;
    int     axis;
    TRY(arg_item(l, "x", &a));
    TRY(arg_item(l, "y", &b));
    Formula f = formula(l);
    Dims    dims;
    int     product = F2(&f, MUL, formula_input(&f, a), formula_input(&f, b));
    TRY(formula_dims(&f, &dims));
    TRY(arg_axis(l, "dim", dims.rank, -1, &axis));
    TRY(formula_reduce(&f, product, POINT_SUM, 1u << axis, 1, out_type_of(l, 0), &y));
    return give(l, 0, y);
}

/* dx times the sum of what two neighbours are on average. */
static Err trapezoid(Lower *l)
{
    Operand x, y;
    int     axis;
    double  dx;
    TRY(arg_item(l, "y", &x));
    TRY(arg_axis(l, "dim", x.view.rank, -1, &axis));
    TRY(arg_float(l, "dx", 1, &dx));
    int64_t n = x.view.dim[axis] - 1;
    if (n < 1)
        return refuse(l, "an axis of %lld", (long long)n + 1);
    Formula f = formula(l);
    int     a = formula_input(&f, item_with(x, view_sliced(x.view, axis, 0, n, 1)));
    int     b = formula_input(&f, item_with(x, view_sliced(x.view, axis, 1, n, 1)));
    TRY(formula_reduce(&f, F2(&f, ADD, a, b), POINT_SUM, 1u << axis, dx / 2, out_type_of(l, 0),
                       &y));
    return give(l, 0, y);
}

/* (sum |a - b|^p)^(1/p) of all elements */
static Err distance_of(Lower *l)
{
    Operand a, b, sum;
    Dims    dims;
    double  p;
    TRY(arg_item(l, "self", &a));
    TRY(arg_item(l, "other", &b));
    TRY(arg_float(l, "p", 2, &p));
    if (!(p > 0) || isinf(p))
        return refuse(l, "the norm %g is not supported", p);
    Formula f = formula(l), g = formula(l);
    int     d = formula_power(&f, F2(&f, SUB, formula_input(&f, a), formula_input(&f, b)), p);
    TRY(formula_dims(&f, &dims));
    TRY(formula_reduce(&f, d, POINT_SUM, (1u << dims.rank) - 1, 1, EX_F32, &sum));
    return formula_give(&g, formula_norm(&g, formula_input(&g, sum), p), 0);
}

/* Slices along an axis whose norm is larger are shortened to it. */
static Err shortened(Lower *l)
{
    Operand x, sum;
    double  p, most;
    int     axis;
    TRY(arg_item(l, "self", &x));
    TRY(arg_float(l, "p", 2, &p));
    TRY(arg_float(l, "maxnorm", 1, &most));
    TRY(arg_axis(l, "dim", x.view.rank, 0, &axis));
    if (!(p > 0) || isinf(p))
        return refuse(l, "the norm %g is not supported", p);
    Formula  f = formula(l), g = formula(l);
    uint32_t axes = ((1u << x.view.rank) - 1) & ~(1u << axis);
    int      power = formula_power(&f, formula_input(&f, x), p);
    TRY(formula_reduce(&f, power, POINT_SUM, axes, 1, EX_F32, &sum));
    for (int a = 0; a < x.view.rank; a++)
        if (a != axis)
            sum.view = view_inserted(sum.view, a, 1);
    int limit = formula_number(&g, most), one = formula_number(&g, 1);
    int norm = formula_norm(&g, formula_input(&g, sum), p);
    int share = F2(&g, DIV, limit, F2(&g, ADD, norm, formula_number(&g, 1e-7))); /* as PyTorch's */
    share = F3(&g, SELECT, F2(&g, GT, norm, limit), share, one);
    return formula_give(&g, F2(&g, MUL, formula_input(&g, x), share), 0);
}

/* ---- losses ---- */

/* 1 - cos where the target is 1, max(0, cos - margin) where it is -1. */
static Err reduced_loss(Lower *l, Formula *f, int loss)
{
    int64_t how;
    Operand y;
    Dims    dims;
    TRY(arg_int(l, "reduction", 1, &how));
    if (!how)
        return formula_give(f, loss, 0);
    TRY(formula_dims(f, &dims));
    double scale = how == 1 ? 1 / (double)dims_count(dims) : 1;
    TRY(formula_reduce(f, loss, POINT_SUM, (1u << dims.rank) - 1, scale, out_type_of(l, 0), &y));
    return give(l, 0, y);
}

static Err dot_along_last(Lower *l, Operand a, Operand b, Operand *y)
{
    Formula f = formula(l);
    int     x = formula_float(&f, formula_input(&f, a));
    int     z = formula_float(&f, formula_input(&f, b));
    return formula_reduce(&f, F2(&f, MUL, x, z), POINT_SUM, 1u << (a.view.rank - 1), 1, EX_F32, y);
}

static Err cosine_embedding(Lower *l)
{
    Operand a, b, target, product, size[2];
    double  margin;
    TRY(arg_item(l, "input1", &a));
    TRY(arg_item(l, "input2", &b));
    TRY(arg_item(l, "target", &target));
    TRY(arg_float(l, "margin", 0, &margin));
    if (a.view.rank != b.view.rank || a.view.rank < 1)
        return refuse(l, "inputs with %d and %d axes", a.view.rank, b.view.rank);
    TRY(dot_along_last(l, a, b, &product));
    TRY(dot_along_last(l, a, a, &size[0]));
    TRY(dot_along_last(l, b, b, &size[1]));
    Formula f = formula(l);
    int     eps = formula_number(&f, 1e-12), one = formula_number(&f, 1); /* as PyTorch's */
    int     sizes = F2(&f, MUL, F2(&f, ADD, formula_input(&f, size[0]), eps),
                       F2(&f, ADD, formula_input(&f, size[1]), eps));
    int     cosine = F2(&f, DIV, formula_input(&f, product), F1(&f, SQRT, sizes));
    int     far = F2(&f, CLAMP_MIN, F2(&f, SUB, cosine, formula_number(&f, margin)),
                     formula_number(&f, 0));
    int     y = formula_float(&f, formula_input(&f, target)), nil = formula_number(&f, 0);
    far = F3(&f, SELECT, F2(&f, EQ, y, formula_number(&f, -1)), far, nil);
    return reduced_loss(l, &f, F3(&f, SELECT, F2(&f, EQ, y, one), F2(&f, SUB, one, cosine), far));
}

/* clang-format off */
const LowerDef lower_composed[] = {
    { "aten.fliplr.default", flip_side, 1, false }, { "aten.flipud.default", flip_side, 0, false },
    { "aten.rot90.default", rotated, 0, false },
    { "aten.atleast_1d.default", at_least, 1, true }, { "aten.atleast_2d.default", at_least, 2, true },
    { "aten.atleast_3d.default", at_least, 3, true },
    { "aten.tensor_split.indices", split_between, 0, false },
    { "aten.take.default", take, 0, false }, { "aten.put.default", put, 0, false },
    { "aten.as_strided.default", strided, 0, false },
    { "aten.block_diag.default", block_diagonal, 0, false },
    { "aten.cartesian_prod.default", all_tuples, 0, false },
    { "aten.logaddexp2.default", log_add_exp2, 0, false },
    { "aten.special_entr.default", entropy, 0, false }, { "aten.special_ndtr.default", normal_below, 0, false },
    { "aten.lgamma.default", log_gamma, 0, false },
    { "aten.addr.default", add_outer, 0, false }, { "aten.addmv.default", add_times_vector, 0, false },
    { "aten.addbmm.default", add_batch, 0, false },
    { "aten.chain_matmul.default", chain, 0, false }, { "aten.linalg_multi_dot.default", chain, 1, false },
    { "aten.linalg_vecdot.default", along_axis, 0, false },
    { "aten.trapezoid.dx", trapezoid, 0, false }, { "aten.dist.default", distance_of, 0, false },
    { "aten.renorm.default", shortened, 0, false },
    { "aten.cosine_embedding_loss.default", cosine_embedding, 0, false },
    { 0 }
};
/* clang-format on */
