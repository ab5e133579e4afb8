/* lower_view.c -- views: they change where elements are looked up and leave no node. */
#include "import/lower.h"

#include "ops/arrange/arrange.h"
#include "ops/arrange/pad_mode.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/glu.h"

#include <string.h>

static Err viewed(Lower *l, Operand *item)
{
    TRY(arg_item(l, "self", item));
    return item->set ? OK : refuse(l, "'self' is missing");
}

static Err give_as(Lower *l, int i, Operand item, View view)
{
    return give(l, i, item_with(item, view));
}

/* On the host a reshape that strides cannot express is a copy too. */
Err lower_reshape(Lower *l, Operand item, Dims dims, Operand *out)
{
    View view;
    if (view_reshaped(item.view, dims, &view)) {
        *out = item_with(item, view);
        return OK;
    }
    if (!item.host) {
        *out = item_with(item, view_copied_reshape(item.view, dims));
        return graph_check(l->graph);
    }
    HostArray *to;
    int64_t    at, n = 0;
    *out = item_host(l, item.type, dims, &to);
    for (HostWalk w = host_walk(&item.view); host_step(&w, &at); n++)
        if (to->integer)
            to->i[n] = host_i(&item, at);
        else
            to->f[n] = host_f(&item, at);
    return OK;
}

/* The file states the size of every result, so all reshapes are one. */
static Err reshape_to(Lower *l)
{
    Operand item, out;
    Err     err;
    TRY(viewed(l, &item));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    if (dims_count(dims) != view_count(&item.view))
        return refuse(l, "%lld elements cannot take the shape of %lld",
                      (long long)view_count(&item.view), (long long)dims_count(dims));
    TRY(lower_reshape(l, item, dims, &out));
    return give(l, 0, out);
}

static Err expand_to_dims(Lower *l)
{
    Operand item;
    Err     err;
    TRY(viewed(l, &item));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    return give_as(l, 0, item, view_expanded(item.view, dims));
}

static Err transpose(Lower *l)
{
    Operand item;
    int     a, b, order[VIEW_RANK];
    TRY(viewed(l, &item));
    int rank = item.view.rank;
    if (rank < 2)
        return give(l, 0, item);
    if (l->def->with == 2) { /* all axes the other way round */
        for (int i = 0; i < rank; i++)
            order[i] = rank - 1 - i;
        return give_as(l, 0, item, view_permuted(item.view, order));
    }
    bool last = l->def->with; /* the last two axes */
    TRY(arg_axis(l, last ? "" : arg_given(l, "dim0") ? "dim0" : "axis0", rank, rank - 2, &a));
    TRY(arg_axis(l, last ? "" : arg_given(l, "dim1") ? "dim1" : "axis1", rank, rank - 1, &b));
    for (int i = 0; i < rank; i++)
        order[i] = i == a ? b : i == b ? a : i;
    return give_as(l, 0, item, view_permuted(item.view, order));
}

static Err permute_axes_of(Lower *l)
{
    Operand item;
    int     n, order[VIEW_RANK];
    TRY(viewed(l, &item));
    TRY(arg_axes(l, "dims", item.view.rank, order, &n));
    if (n != item.view.rank)
        return refuse(l, "%d axes for a tensor of %d", n, item.view.rank);
    return give_as(l, 0, item, view_permuted(item.view, order));
}

static Err movedim(Lower *l)
{
    Operand item;
    int     from[VIEW_RANK], to[VIEW_RANK], n, m, order[VIEW_RANK];
    TRY(viewed(l, &item));
    int rank = item.view.rank, next = 0;
    TRY(arg_axes(l, "source", rank, from, &n));
    TRY(arg_axes(l, "destination", rank, to, &m));
    if (n != m)
        return refuse(l, "%d axes are moved to %d places", n, m);
    for (int i = 0; i < rank; i++)
        order[i] = -1;
    bool taken[VIEW_RANK] = { 0 };
    for (int i = 0; i < n; i++) {
        order[to[i]] = from[i];
        taken[from[i]] = true;
    }
    for (int i = 0; i < rank; i++) {
        if (order[i] >= 0)
            continue;
        while (taken[next])
            next++;
        order[i] = next++;
    }
    return give_as(l, 0, item, view_permuted(item.view, order));
}

static Err select_at(Lower *l)
{
    Operand item;
    int     axis;
    int64_t index;
    TRY(viewed(l, &item));
    TRY(arg_axis(l, "dim", item.view.rank, 0, &axis));
    TRY(arg_int(l, "index", 0, &index));
    index += index < 0 ? item.view.dim[axis] : 0;
    if (index < 0 || index >= item.view.dim[axis])
        return refuse(l, "element %lld of %lld", (long long)index, (long long)item.view.dim[axis]);
    return give_as(l, 0, item, view_selected(item.view, axis, index));
}

typedef struct Cut { /* a slice of one axis */
    int     axis;
    int64_t from, count, step;
} Cut;

static Err cut_of(Lower *l, const View *view, Cut *cut)
{
    int64_t start, end;
    TRY(arg_axis(l, "dim", view->rank, 0, &cut->axis));
    int64_t n = view->dim[cut->axis];
    TRY(arg_int(l, "start", 0, &start));
    TRY(arg_int(l, "end", n, &end));
    TRY(arg_int(l, "step", 1, &cut->step));
    if (cut->step < 1)
        return refuse(l, "a step of %lld", (long long)cut->step);
    if (cut->step > n)
        cut->step = n + 1; /* the first element alone */
    start += start < 0 ? n : 0;
    end += end < 0 ? n : 0;
    start = start < 0 ? 0 : start > n ? n : start;
    end = end < start ? start : end > n ? n : end;
    cut->from = start;
    cut->count = (end - start + cut->step - 1) / cut->step;
    return OK;
}

static Err slice_of(Lower *l)
{
    Operand item;
    Cut     cut;
    TRY(viewed(l, &item));
    TRY(cut_of(l, &item.view, &cut));
    return give_as(l, 0, item, view_sliced(item.view, cut.axis, cut.from, cut.count, cut.step));
}

static Err narrow(Lower *l)
{
    Operand item;
    int     axis;
    int64_t from, count;
    TRY(viewed(l, &item));
    TRY(arg_axis(l, "dim", item.view.rank, 0, &axis));
    TRY(arg_int(l, "start", 0, &from));
    TRY(arg_int(l, "length", 0, &count));
    from += from < 0 ? item.view.dim[axis] : 0;
    return give_as(l, 0, item, view_sliced(item.view, axis, from, count, 1));
}

static Err diagonal(Lower *l)
{
    Operand item;
    int     a, b;
    int64_t offset;
    TRY(viewed(l, &item));
    TRY(arg_int(l, "offset", 0, &offset));
    TRY(arg_axis(l, "dim1", item.view.rank, 0, &a));
    TRY(arg_axis(l, "dim2", item.view.rank, 1, &b));
    View v = item.view;
    if (a == b || offset > DIMS_MAX || offset < -DIMS_MAX)
        return refuse(l, "a diagonal of the axes %d and %d from %lld", a, b, (long long)offset);
    v.offset += offset >= 0 ? offset * v.stride[b] : -offset * v.stride[a];
    int64_t stride = v.stride[a] + v.stride[b];
    View    out = view_dropped(view_dropped(v, a > b ? a : b), a > b ? b : a);
    out.dim[out.rank] = 0; /* the file says how many */
    Err  err;
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    if (!dims.rank)
        return refuse(l, "a result without axes");
    out.dim[out.rank] = dims.at[dims.rank - 1];
    out.stride[out.rank++] = stride;
    return give_as(l, 0, item, out);
}

/* Windows of an axis: (.., n, ..) -> (.., windows, .., size). */
static Err unfold(Lower *l)
{
    Operand item;
    int     axis;
    int64_t size, step;
    TRY(viewed(l, &item));
    TRY(arg_axis(l, "dimension", item.view.rank, 0, &axis));
    TRY(arg_int(l, "size", 1, &size));
    TRY(arg_int(l, "step", 1, &step));
    if (size < 0 || step < 1 || size > item.view.dim[axis] || item.view.rank == VIEW_RANK)
        return refuse(l, "windows of %lld of %lld elements, every %lld", (long long)size,
                      (long long)item.view.dim[axis], (long long)step);
    View    v = item.view;
    int64_t stride = v.stride[axis];
    v.dim[axis] = (v.dim[axis] - size) / step + 1;
    v.stride[axis] = stride * step;
    v.dim[v.rank] = size;
    v.stride[v.rank++] = stride;
    return give_as(l, 0, item, v);
}

static Err flip_axes(Lower *l)
{
    Operand item;
    int     axes[VIEW_RANK], n;
    TRY(viewed(l, &item));
    TRY(arg_axes(l, "dims", item.view.rank, axes, &n));
    View v = item.view;
    for (int i = 0; i < n; i++) {
        v.offset += (v.dim[axes[i]] - 1) * v.stride[axes[i]];
        v.stride[axes[i]] = -v.stride[axes[i]];
    }
    return give_as(l, 0, item, v);
}

/* ---- parts of an axis ---- */

/* Is every part of this call read as a view by attention alone, perhaps through other views? Then
 * attention reads the parts where they are. */
static bool read_by_attention(const Lower *l, int32_t value, int depth)
{
    bool read = false;
    for (int32_t i = l->first_use[value]; i < l->first_use[value + 1]; i++) {
        const ExportedCall *c = &l->program->calls[l->uses[i]];
        for (int32_t k = 0; k < c->n_args; k++) {
            const ExportedArg *a = &c->args[k];
            bool               here = false;
            for (int32_t j = 0; (a->kind == ARG_VALUE || a->kind == ARG_VALUES) && j < a->n; j++)
                here |= a->values[j] == value;
            if (!here || strstr(c->target, "_assert"))
                continue;
            read = true;
            if (strstr(c->target, "scaled_dot_product_attention"))
                continue;
            if (!depth || c->n_out != 1 || c->out[0] < 0 ||
                !(strstr(c->target, "view") || strstr(c->target, "transpose") ||
                  strstr(c->target, "reshape") || strstr(c->target, "unflatten") ||
                  strstr(c->target, "permute") || strstr(c->target, "select") ||
                  strstr(c->target, "unbind")) ||
                !read_by_attention(l, c->out[0], depth - 1))
                return false;
        }
    }
    return read;
}

/* n parts of an axis; `drop`: without the axis, which then has extent 1. */
static Err give_split(Lower *l, Operand item, int axis, const int64_t *extent, int n, bool drop)
{
    Operand *parts = NEWN(l->pool, Operand, n);
    TRY(lower_slices(l, item, axis, extent, n, parts));
    for (int i = 0; i < n; i++)
        TRY(give(l, i, drop ? item_with(parts[i], view_dropped(parts[i].view, axis)) : parts[i]));
    return OK;
}

/* As views where that serves, else by nodes. */
static Err give_slices(Lower *l, Operand item, int axis, const int64_t *extent, int n)
{
    bool views = item.host != NULL;
    if (!views) {
        views = true;
        for (int i = 0; i < n && views; i++)
            views = l->call->out[i] < 0 || read_by_attention(l, l->call->out[i], 3);
    }
    int64_t from = 0;
    if (views) {
        for (int i = 0; i < n; from += extent[i++])
            TRY(give_as(l, i, item, view_sliced(item.view, axis, from, extent[i], 1)));
        return OK;
    }
    return give_split(l, item, axis, extent, n, false);
}

static Err split_axis(Lower *l)
{
    Operand item;
    int     axis, n = 0;
    int64_t total;
    TRY(viewed(l, &item));
    TRY(arg_axis(l, "dim", item.view.rank, 0, &axis));
    int64_t whole = item.view.dim[axis], each = 0, *extent = NEWN(l->pool, int64_t, whole + 1);
    if (l->def->with == 3) { /* tensor_split: the file says how large each part is */
        if (l->call->n_out > whole)
            return refuse(l, "empty slices are not supported");
        TRY(arg_int(l, "sections", l->call->n_out, &total));
        if (total < 1)
            return refuse(l, "%lld parts", (long long)total);
        for (n = 0; n < l->call->n_out; n++)
            extent[n] = whole / total + (n < whole % total);
    } else if (l->def->with == 0) { /* chunk */
        TRY(arg_int(l, "chunks", 1, &total));
        if (total < 1)
            return refuse(l, "%lld parts", (long long)total);
        each = (whole + total - 1) / total;
    } else if (l->def->with == 1) {
        TRY(arg_int(l, arg_given(l, "split_size") ? "split_size" : "split_sizes", 1, &each));
    } else {
        const ExportedArg *a = arg(l, arg_given(l, "split_sizes") ? "split_sizes" : "split_size");
        if (!a || !a->ints || a->n > whole)
            return refuse(l, "empty slices are not supported");
        for (n = 0; n < a->n; n++)
            TRY(sym_eval(&l->program->symbols, a->ints[n], &extent[n]));
    }
    for (int64_t from = 0; !n || from < whole; from += each) {
        if (l->def->with >= 2 || each < 1)
            break;
        extent[n++] = whole - from < each ? whole - from : each;
    }
    if (n != l->call->n_out)
        return refuse(l, "%d slices here, %d in the file", n, l->call->n_out);
    return give_slices(l, item, axis, extent, n);
}

static Err unbind(Lower *l)
{
    Operand item;
    int     axis;
    TRY(viewed(l, &item));
    TRY(arg_axis(l, "dim", item.view.rank, 0, &axis));
    int n = (int)item.view.dim[axis];
    if (n != l->call->n_out)
        return refuse(l, "%d slices here, %d in the file", n, l->call->n_out);
    int64_t *extent = NEWN(l->pool, int64_t, n);
    bool     views = item.host != NULL;
    for (int i = 0; i < n && !views; i++)
        views = l->call->out[i] >= 0 && read_by_attention(l, l->call->out[i], 3);
    if (views) {
        for (int i = 0; i < n; i++)
            TRY(give_as(l, i, item, view_selected(item.view, axis, i)));
        return OK;
    }
    for (int i = 0; i < n; i++)
        extent[i] = 1;
    return give_split(l, item, axis, extent, n, true);
}

/* ---- concatenation ---- */

/* The tensors of the call, of which there may be many. */
static Err listed(Lower *l, Operand **items, int *n)
{
    enum { MANY = 4096 };
    const ExportedArg *a = arg(l, "tensors");
    if (a && a->n > MANY)
        return refuse(l, "a list of %d tensors; at most %d are supported", a->n, MANY);
    *items = NEWN(l->pool, Operand, a ? a->n + 1 : 1);
    TRY(arg_items(l, "tensors", *items, MANY, n));
    return *n ? OK : refuse(l, "an empty list of tensors");
}

static Err give_joined(Lower *l, const Operand *items, int n, int axis)
{
    Operand out;
    TRY(lower_join(l, items, n, axis, &out));
    return give(l, 0, out);
}

/* To the kind of numbers that the result has. */
static Err converted(Lower *l, Operand *item)
{
    ExportedType type = out_type_of(l, 0);
    bool         floats = type_floats(type);
    if (type_floats(item->type) == floats &&
        (floats || item->host || store_type(l, type) == view_type(&item->view)))
        return OK;
    Formula f = formula(l);
    return formula_item(&f, formula_input(&f, *item), type, item);
}

static Err cat(Lower *l)
{
    Operand *items;
    int      n, axis, kept = 0;
    TRY(listed(l, &items, &n));
    for (int i = 0; i < n; i++) /* an empty list of one axis joins anything */
        if (view_count(&items[i].view) || n == 1)
            items[kept++] = items[i];
    n = kept;
    if (!n)
        return refuse(l, "nothing to join");
    TRY(arg_axis(l, "dim", items[0].view.rank, 0, &axis));
    if (n == 1)
        return give(l, 0, items[0]);
    for (int i = 0; i < n; i++)
        TRY(converted(l, &items[i]));
    return give_joined(l, items, n, axis);
}

/* hstack, vstack, dstack, column_stack: with so many axes at least, along one of them. */
static Err stack_axes(Lower *l)
{
    Operand *items;
    int      n, axis = 0, rank;
    TRY(listed(l, &items, &n));
    char how = (char)l->def->with;
    rank = items[0].view.rank;
    if (how == 'h')
        axis = rank > 1;
    for (int i = 0; i < n; i++) {
        View *v = &items[i].view;
        if (!v->rank)
            *v = view_inserted(*v, 0, 1);
        if (v->rank == 1 && how != 'h')
            *v = view_inserted(*v, how == 'c' ? 1 : 0, 1);
        if (v->rank == 2 && how == 'd')
            *v = view_inserted(*v, 2, 1);
        TRY(converted(l, &items[i]));
    }
    axis = how == 'c' ? 1 : how == 'd' ? 2 : axis;
    return give_joined(l, items, n, axis);
}

static Err stack(Lower *l)
{
    Operand *items;
    int      n, axis;
    TRY(listed(l, &items, &n));
    TRY(arg_axis(l, "dim", items[0].view.rank + 1, 0, &axis));
    for (int i = 0; i < n; i++) {
        items[i].view = view_inserted(items[i].view, axis, 1);
        TRY(converted(l, &items[i]));
    }
    return n == 1 ? give(l, 0, items[0]) : give_joined(l, items, n, axis);
}

/* ---- repetition ---- */

/* (.., n, ..) -> (.., r, n, ..), then merged. */
static Err repeat(Lower *l)
{
    Operand item, out;
    int64_t times[VIEW_RANK];
    int     n;
    Err     err;
    TRY(viewed(l, &item));
    TRY(arg_ints(l, arg_given(l, "repeats") ? "repeats" : "dims", times, &n));
    View v = item.view;
    while (v.rank < n)
        v = view_inserted(v, 0, 1);
    int skip = v.rank - n;
    for (int i = v.rank - 1; i >= 0; i--) {
        int64_t r = i < skip ? 1 : times[i - skip];
        if (r == 1)
            continue;
        if (v.dim[i] == 1) {
            v.dim[i] = r;
            v.stride[i] = 0;
        } else if (v.rank < VIEW_RANK) {
            v = view_inserted(v, i, r);
        } else {
            return refuse(l, "too many axes");
        }
    }
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(lower_reshape(l, item_with(item, v), dims, &out));
    return give(l, 0, out);
}

/* a b -> a a b b */
static Err repeat_interleave(Lower *l)
{
    Operand item, out;
    int     axis;
    int64_t times;
    Err     err;
    TRY(viewed(l, &item));
    TRY(arg_int(l, "repeats", 1, &times));
    View v = item.view;
    if (!arg_given(l, "dim")) {
        Dims flat = { 1, { view_count(&v) } };
        TRY(lower_reshape(l, item, flat, &item));
        v = item.view;
        axis = 0;
    } else {
        TRY(arg_axis(l, "dim", v.rank, 0, &axis));
    }
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(lower_reshape(l, item_with(item, view_inserted(v, axis + 1, times)), dims, &out));
    return give(l, 0, out);
}

static Err broadcast_tensors(Lower *l)
{
    Operand *items;
    int      n;
    Err      err;
    TRY(listed(l, &items, &n));
    for (int i = 0; i < n && i < l->call->n_out; i++) {
        if (l->call->out[i] < 0)
            continue;
        Dims dims = out_dims(l, i, &err);
        TRY(err);
        TRY(give_as(l, i, items[i], view_expanded(items[i].view, dims)));
    }
    return OK;
}

static Err meshgrid(Lower *l)
{
    Operand *items;
    int      n;
    Err      err;
    TRY(listed(l, &items, &n));
    bool xy = !strcmp(arg_text(l, "indexing", "ij"), "xy");
    for (int i = 0; i < n; i++) {
        int  at = xy && i < 2 ? 1 - i : i;
        View v = items[i].view;
        if (!v.rank)
            v = view_inserted(v, 0, 1);
        for (int k = 0; k < n; k++)
            if (k != at)
                v = view_inserted(v, k, 1);
        Dims dims = out_dims(l, i, &err);
        TRY(err);
        TRY(give_as(l, i, items[i], view_expanded(v, dims)));
    }
    return OK;
}

/* Blocks of a map as columns: (N, C, H, W) -> (N, C kh kw, blocks). */
static Err im2col(Lower *l)
{
    Operand item, out;
    int64_t k[2], dilation[2], pad[2], stride[2];
    Err     err;
    TRY(viewed(l, &item));
    TRY(arg_fill(l, "kernel_size", 2, 1, k));
    TRY(arg_fill(l, "dilation", 2, 1, dilation));
    TRY(arg_fill(l, "padding", 2, 0, pad));
    TRY(arg_fill(l, "stride", 2, 1, stride));
    View v = item.view;
    if (v.rank != 4)
        return refuse(l, "an input with %d axes", v.rank);
    if (pad[0] || pad[1]) {
        TRY(item_view(l, &item, &v));
        PadAttr at = { .before = { 0, 0, pad[0], pad[1] }, .after = { 0, 0, pad[0], pad[1] } };
        Tensor  padded = pad_mode(view_tensor(v, NULL), at, PAD_CONSTANT, 0);
        TRY(graph_check(l->graph));
        Dims dims = view_dims(&v);
        dims.at[2] += 2 * pad[0];
        dims.at[3] += 2 * pad[1];
        v = view_make(padded, dims, NULL);
        item = item_of(l, v, item.type);
    }
    View blocks = { .base = v.base, .offset = v.offset, .rank = 6 };
    for (int i = 0; i < 2; i++) {
        if (stride[i] < 1 || k[i] < 1 || dilation[i] < 1 || k[i] > v.dim[2 + i] ||
            dilation[i] > v.dim[2 + i])
            return refuse(l, "windows of %lld elements, every %lld", (long long)k[i],
                          (long long)stride[i]);
        blocks.dim[i] = v.dim[i];
        blocks.stride[i] = v.stride[i];
        blocks.dim[2 + i] = k[i];
        blocks.stride[2 + i] = v.stride[2 + i] * dilation[i];
        blocks.dim[4 + i] = (v.dim[2 + i] - dilation[i] * (k[i] - 1) - 1) / stride[i] + 1;
        blocks.stride[4 + i] = v.stride[2 + i] * stride[i];
    }
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(lower_reshape(l, item_with(item, blocks), dims, &out));
    return give(l, 0, out);
}

/* The first half of an axis times the sigmoid of the second. */
static Err gated(Lower *l)
{
    Operand item;
    int     axis;
    TRY(viewed(l, &item));
    TRY(arg_axis(l, "dim", item.view.rank, -1, &axis));
    if (item.view.dim[axis] % 2)
        return refuse(l, "halves of %lld elements", (long long)item.view.dim[axis]);
    int64_t half = item.view.dim[axis] / 2;
    int     order[VIEW_RANK];
    if (!item.host && view_is_dense(&item.view, order) && order[item.view.rank - 1] == axis &&
        type_is_float(view_type(&item.view)))
        return give_tensor(l, 0, glu(view_tensor(item.view, order)), order);
    Formula f = formula(l);
    int     a = formula_input(&f, item_with(item, view_sliced(item.view, axis, 0, half, 1)));
    int     b = formula_input(&f, item_with(item, view_sliced(item.view, axis, half, half, 1)));
    return formula_give(&f, F2(&f, MUL, a, F1(&f, SIGMOID, b)), 0);
}

/* (N, g c, ...) -> (N, c g, ...) */
static Err channel_shuffle(Lower *l)
{
    Operand item, out;
    int64_t groups;
    int     order[VIEW_RANK];
    TRY(viewed(l, &item));
    TRY(arg_int(l, "groups", 1, &groups));
    Dims dims = view_dims(&item.view), split = { .rank = dims.rank + 1 };
    if (dims.rank < 2 || dims.rank == VIEW_RANK || groups < 1 || dims.at[1] % groups)
        return refuse(l, "%lld groups", (long long)groups);
    for (int i = 0; i < split.rank; i++) {
        split.at[i] = i == 0   ? dims.at[0]
                      : i == 1 ? groups
                      : i == 2 ? dims.at[1] / groups
                               : dims.at[i - 1];
        order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    }
    TRY(lower_reshape(l, item, split, &item));
    TRY(lower_reshape(l, item_with(item, view_permuted(item.view, order)), dims, &out));
    return give(l, 0, out);
}

static Err broadcast_all(Lower *l)
{
    Operand *items;
    int      n;
    Err      err;
    TRY(listed(l, &items, &n));
    for (int i = 0; i < n; i++) {
        Dims dims = out_dims(l, i, &err);
        TRY(err);
        TRY(give_as(l, i, items[i], view_expanded(items[i].view, dims)));
    }
    return OK;
}

/* ---- writing through a view ---- */

static Err replace(Lower *l, Operand whole, Operand part, Cut cut, Operand *out);

/* Where the steps do not divide the axis: slices and single elements in turn. */
static Err write_one_by_one(Lower *l, Operand whole, Operand part, Cut cut, Operand *out)
{
    for (int64_t i = 0; i < cut.count; i++) {
        Operand one = item_with(part, view_sliced(part.view, cut.axis, i, 1, 1));
        TRY(replace(l, whole, one, (Cut){ cut.axis, cut.from + i * cut.step, 1, 1 }, out));
        whole = *out;
    }
    return OK;
}

/* Every k-th element: (.., n, ..) is seen as (.., n / k, k, ..). */
static Err replace_every(Lower *l, Operand whole, Operand part, Cut cut, Operand *out)
{
    int64_t k = cut.step, n = whole.view.dim[cut.axis];
    if (n % k || cut.from >= k || cut.count != n / k || whole.view.rank == VIEW_RANK)
        return write_one_by_one(l, whole, part, cut, out);
    Dims dims = view_dims(&whole.view), split = dims;
    split.rank++;
    for (int a = split.rank - 1; a > cut.axis + 1; a--)
        split.at[a] = dims.at[a - 1];
    split.at[cut.axis] = n / k;
    split.at[cut.axis + 1] = k;
    Operand inner;
    TRY(lower_reshape(l, whole, split, &whole));
    part.view = view_inserted(part.view, cut.axis + 1, 1);
    TRY(replace(l, whole, part, (Cut){ cut.axis + 1, cut.from, 1, 1 }, &inner));
    return lower_reshape(l, inner, dims, out);
}

/* `whole` with the slice of one axis replaced by `part`. */
static Err replace(Lower *l, Operand whole, Operand part, Cut cut, Operand *out)
{
    if (cut.step != 1)
        return replace_every(l, whole, part, cut, out);
    int     n = 0, axis = cut.axis;
    int64_t end = cut.from + cut.count, all = whole.view.dim[axis];
    Operand items[3];
    if (cut.from)
        items[n++] = item_with(whole, view_sliced(whole.view, axis, 0, cut.from, 1));
    items[n++] = part;
    if (end < all)
        items[n++] = item_with(whole, view_sliced(whole.view, axis, end, all - end, 1));
    if (n == 1) {
        *out = part;
        return OK;
    }
    return lower_join(l, items, n, axis, out);
}

Err lower_write_view(Lower *l, const ExportedCall *call, Operand whole, Operand part, Operand *out)
{
    const ExportedCall *before = l->call;
    l->call = call;
    Cut     cut = { 0 };
    Err     err = OK;
    Operand inner = part;
    if (strstr(call->target, "aten.slice.")) {
        err = cut_of(l, &whole.view, &cut);
        err = err ? err : replace(l, whole, part, cut, out);
    } else if (strstr(call->target, "aten.select.")) {
        int64_t index = 0;
        err = arg_axis(l, "dim", whole.view.rank, 0, &cut.axis);
        err = err ? err : arg_int(l, "index", 0, &index);
        cut.from = index + (index < 0 ? whole.view.dim[cut.axis] : 0);
        cut.count = cut.step = 1;
        inner.view = view_inserted(part.view, cut.axis, 1);
        err = err ? err : replace(l, whole, inner, cut, out);
    } else if (strstr(call->target, "view") || strstr(call->target, "reshape") ||
               strstr(call->target, "squeeze") || strstr(call->target, "flatten")) {
        err = lower_reshape(l, part, view_dims(&whole.view), out);
    } else if (strstr(call->target, "aten.transpose.")) {
        int a, b, order[VIEW_RANK];
        err = arg_axis(l, "dim0", whole.view.rank, 0, &a);
        err = err ? err : arg_axis(l, "dim1", whole.view.rank, 1, &b);
        for (int i = 0; !err && i < whole.view.rank; i++)
            order[i] = i == a ? b : i == b ? a : i;
        if (!err)
            *out = item_with(part, view_permuted(part.view, order));
    } else if (strstr(call->target, "aten.alias") || strstr(call->target, "aten.detach")) {
        *out = part;
    } else {
        err = lower_write_by_index(l, call, whole, part, out);
    }
    l->call = before;
    return err;
}

static Err slice_scatter(Lower *l)
{
    Operand self, src, out;
    Cut     cut;
    TRY(arg_item(l, "self", &self));
    TRY(arg_item(l, "src", &src));
    TRY(cut_of(l, &self.view, &cut));
    TRY(replace(l, self, src, cut, &out));
    return give(l, 0, out);
}

static Err select_scatter(Lower *l)
{
    Operand self, src, out;
    Cut     cut = { .count = 1, .step = 1 };
    int64_t index;
    TRY(arg_item(l, "self", &self));
    TRY(arg_item(l, "src", &src));
    TRY(arg_axis(l, "dim", self.view.rank, 0, &cut.axis));
    TRY(arg_int(l, "index", 0, &index));
    cut.from = index + (index < 0 ? self.view.dim[cut.axis] : 0);
    src.view = view_inserted(src.view, cut.axis, 1);
    TRY(replace(l, self, src, cut, &out));
    return give(l, 0, out);
}

#define RESHAPE(name)                                                                              \
    {                                                                                              \
        "aten." name, reshape_to, 0, true                                                          \
    }

/* clang-format off */
const LowerDef lower_views[] = {
    RESHAPE("view.default"), RESHAPE("_unsafe_view.default"), RESHAPE("reshape.default"),
    RESHAPE("flatten.using_ints"), RESHAPE("unflatten.int"), RESHAPE("unsqueeze.default"),
    RESHAPE("squeeze.default"), RESHAPE("squeeze.dim"), RESHAPE("squeeze.dims"),
    RESHAPE("view_as.default"), RESHAPE("reshape_as.default"), RESHAPE("ravel.default"),
    RESHAPE("squeeze_copy.dim"), RESHAPE("_reshape_alias.default"), RESHAPE("view_copy.default"), RESHAPE("unsqueeze_copy.default"),
    { "aten.expand.default", expand_to_dims, 0, true },
    { "aten.expand_as.default", expand_to_dims, 0, true },
    { "aten.expand_copy.default", expand_to_dims, 0, false },
    { "aten.broadcast_to.default", expand_to_dims, 0, true },
    { "aten.swapdims.default", transpose, 0, true }, { "aten.adjoint.default", transpose, 1, true },
    { "aten.moveaxis.int", movedim, 0, true }, { "aten.moveaxis.intlist", movedim, 0, true },
    { "aten.narrow_copy.default", narrow, 0, false },
    { "aten.transpose.int", transpose, 0, true }, { "aten.swapaxes.default", transpose, 0, true },
    { "aten.t.default", transpose, 1, true }, { "aten.numpy_T.default", transpose, 2, true },
    { "aten.mT.default", transpose, 1, true }, { "aten.matrix_H.default", transpose, 1, true },
    { "aten.mH.default", transpose, 1, true },
    { "aten.permute.default", permute_axes_of, 0, true },
    { "aten.permute_copy.default", permute_axes_of, 0, false },
    { "aten.movedim.int", movedim, 0, true }, { "aten.movedim.intlist", movedim, 0, true },
    { "aten.select.int", select_at, 0, true }, { "aten.slice.Tensor", slice_of, 0, true },
    { "aten.narrow.default", narrow, 0, true }, { "aten.diagonal.default", diagonal, 0, true },
    { "aten.unfold.default", unfold, 0, true }, { "aten.flip.default", flip_axes, 0, false },
    { "aten.chunk.default", split_axis, 0, true }, { "aten.split.Tensor", split_axis, 1, true },
    { "aten.split_with_sizes.default", split_axis, 2, true },
    { "aten.split.sizes", split_axis, 2, true }, { "aten.unbind.int", unbind, 0, true },
    { "aten.tensor_split.sections", split_axis, 3, true },
    { "aten.cat.default", cat, 0, false }, { "aten.concat.default", cat, 0, false },
    { "aten.concatenate.default", cat, 0, false }, { "aten.hstack.default", stack_axes, 'h', false },
    { "aten.vstack.default", stack_axes, 'v', false }, { "aten.row_stack.default", stack_axes, 'v', false },
    { "aten.dstack.default", stack_axes, 'd', false }, { "aten.column_stack.default", stack_axes, 'c', false },
    { "aten.unsafe_split.Tensor", split_axis, 1, false }, { "aten.unsafe_chunk.default", split_axis, 0, false },
    { "aten.stack.default", stack, 0, false }, { "aten.repeat.default", repeat, 0, false },
    { "aten.tile.default", repeat, 0, false },
    { "aten.repeat_interleave.self_int", repeat_interleave, 0, false },
    { "aten.broadcast_tensors.default", broadcast_tensors, 0, false },
    { "aten.meshgrid.indexing", meshgrid, 0, false }, { "aten.meshgrid.default", meshgrid, 0, false },
    { "aten.broadcast_tensors.default", broadcast_all, 0, false },
    { "aten.im2col.default", im2col, 0, false }, { "aten.glu.default", gated, 0, false },
    { "aten.channel_shuffle.default", channel_shuffle, 0, false },
    { "aten.slice_scatter.default", slice_scatter, 0, false },
    { "aten.select_scatter.default", select_scatter, 0, false },
    { 0 }
};
/* clang-format on */
