/* lower_parts.c -- tensors put side by side along an axis, and taken apart.
 *
 * A node joins or splits ARRANGE_MAX tensors at most: more of them are a tree of such nodes. The
 * gradient of one kind is the other, so that no part's gradient has the extent of the whole.
 */
#include "import/lower.h"

#include "ops/arrange/arrange.h"
#include "ops/elementwise/basic.h"

static Operand host_cat(Lower *l, const Operand *items, int n, int axis)
{
    HostArray *to;
    Dims       dims = view_dims(&items[0].view);
    for (int i = 1; i < n; i++)
        dims.at[axis] += items[i].view.dim[axis];
    Operand out = item_host(l, items[0].type, dims, &to);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        View    part = view_sliced(out.view, axis, from, items[i].view.dim[axis], 1);
        int64_t at, into;
        for (HostWalk r = host_walk(&items[i].view), w = host_walk(&part); host_step(&r, &at);) {
            host_step(&w, &into);
            if (to->integer)
                to->i[into] = host_i(&items[i], at);
            else
                to->f[into] = host_f(&items[i], at);
        }
        from += items[i].view.dim[axis];
    }
    return out;
}

/* Tensors of one type, in the order of axes of the largest. */
static Err join_few(Lower *l, const Operand *items, int n, int axis, Operand *out)
{
    View views[ARRANGE_MAX] = { 0 };
    int  order[VIEW_RANK], leading = 0;
    bool host = true;
    for (int i = 0; i < n; i++)
        host &= items[i].host != NULL;
    if (host) {
        *out = host_cat(l, items, n, axis);
        return OK;
    }
    for (int i = 0; i < n; i++) {
        TRY(item_view(l, &items[i], &views[i]));
        if (!items[i].host &&
            (items[leading].host || view_count(&views[i]) > view_count(&views[leading])))
            leading = i;
    }
    Type type = view_type(&views[leading]);
    view_order(&views[leading], order);
    int64_t outer = 1;
    for (int k = 0; order[k] != axis; k++)
        outer *= views[leading].dim[order[k]];
    Tensor  parts[ARRANGE_MAX];
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        int64_t count = view_count(&views[i]), extent = views[i].dim[axis];
        parts[i] = cast(
            view_tensor_as(views[i], order, SHAPE(outer, extent, count / extent / outer)), type);
        total += extent;
    }
    Tensor y = concat(parts, n, 1);
    Dims   dims = view_dims(&views[leading]);
    dims.at[axis] = total;
    *out = item_of(l, view_make(reshape(y, view_shape(dims, order)), dims, order),
                   items[leading].type);
    return graph_check(l->graph);
}

Err lower_join(Lower *l, const Operand *items, int n, int axis, Operand *out)
{
    Operand *parts = NEWN(l->pool, Operand, n);
    memcpy(parts, items, (size_t)n * sizeof *parts);
    while (n > ARRANGE_MAX) {
        int left = 0;
        for (int i = 0; i < n; i += ARRANGE_MAX) {
            int few = n - i < ARRANGE_MAX ? n - i : ARRANGE_MAX;
            if (few == 1)
                parts[left++] = parts[i];
            else
                TRY(join_few(l, parts + i, few, axis, &parts[left++]));
        }
        n = left;
    }
    if (n == 1)
        *out = parts[0];
    return n == 1 ? OK : join_few(l, parts, n, axis, out);
}

static Err split_few(Lower *l, Operand item, int axis, const int64_t *extent, int n, Operand *out)
{
    int     order[VIEW_RANK];
    View    v = view_own_order(item.view, order);
    int64_t outer = 1, inner = 1; /* (outer, axis, inner) of the tensor's own order */
    bool    seen = false;
    for (int i = 0; i < v.rank; i++) {
        if (order[i] == axis)
            seen = true;
        else if (seen)
            inner *= v.dim[order[i]];
        else
            outer *= v.dim[order[i]];
    }
    Tensor parts[ARRANGE_MAX];
    split_at(parts, extent, n, reshape(v.base, SHAPE(outer, v.dim[axis], inner)), 1);
    TRY(graph_check(l->graph));
    for (int i = 0; i < n; i++) {
        Dims dims = view_dims(&v);
        dims.at[axis] = extent[i];
        out[i] = item_with(item,
                           view_make(reshape(parts[i], view_shape(dims, order)), dims, order));
    }
    return OK;
}

Err lower_slices(Lower *l, Operand item, int axis, const int64_t *extent, int n, Operand *out)
{
    int64_t from = 0, sum[ARRANGE_MAX] = { 0 };
    Operand groups[ARRANGE_MAX];
    int     each = 1, n_groups = 0;
    if (item.host || n == 1) {
        for (int i = 0; i < n; from += extent[i++])
            out[i] = item_with(item, view_sliced(item.view, axis, from, extent[i], 1));
        return OK;
    }
    if (n <= ARRANGE_MAX)
        return split_few(l, item, axis, extent, n, out);
    while (each * ARRANGE_MAX < n)
        each *= ARRANGE_MAX;
    for (int i = 0; i < n; i++)
        sum[i / each] += extent[i];
    n_groups = (n + each - 1) / each;
    TRY(split_few(l, item, axis, sum, n_groups, groups));
    for (int g = 0; g < n_groups; g++) {
        int few = n - g * each < each ? n - g * each : each;
        TRY(lower_slices(l, groups[g], axis, extent + g * each, few, out + g * each));
    }
    return OK;
}
