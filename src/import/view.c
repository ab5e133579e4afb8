/* view.c -- strided views of graph tensors. */
#include "import/view.h"

#include "ops/arrange/arrange.h"
#include "ops/arrange/permute.h"
#include "ops/arrange/strided.h"
#include "ops/elementwise/basic.h"

#include <string.h>

int64_t dims_count(Dims dims)
{
    int64_t n = 1;
    for (int i = 0; i < dims.rank; i++)
        if (!dims.at[i])
            return 0;
    for (int i = 0; i < dims.rank; i++)
        if (__builtin_mul_overflow(n, dims.at[i], &n))
            return INT64_MAX;
    return n;
}

int64_t int_of(double x)
{
    return x >= 0x1p63 ? INT64_MAX : x >= -0x1p63 ? (int64_t)x : x < 0 ? INT64_MIN : 0;
}

bool dims_same(Dims a, Dims b)
{
    return a.rank == b.rank && !memcmp(a.at, b.at, (size_t)a.rank * sizeof *a.at);
}

Dims view_dims(const View *v)
{
    Dims dims = { .rank = v->rank };
    memcpy(dims.at, v->dim, (size_t)v->rank * sizeof *v->dim);
    return dims;
}

int64_t view_count(const View *v) { return dims_count(view_dims(v)); }
Type    view_type(const View *v) { return tensor_type(v->base); }

View view_make(Tensor base, Dims dims, const int *order)
{
    View    v = { .base = base, .rank = dims.rank };
    int64_t stride = 1;
    for (int i = dims.rank - 1; i >= 0; i--) {
        int axis = order ? order[i] : i;
        v.dim[axis] = dims.at[axis];
        v.stride[axis] = stride;
        stride *= dims.at[axis];
    }
    return v;
}

bool view_within(const View *v, int64_t n)
{
    int64_t low = v->offset, high = v->offset, reach;
    for (int i = 0; i < v->rank; i++) {
        if (v->dim[i] < 0)
            return false;
        if (!v->dim[i])
            return true;
    }
    for (int i = 0; i < v->rank; i++)
        if (__builtin_mul_overflow(v->dim[i] - 1, v->stride[i], &reach) ||
            (reach > 0 ? __builtin_add_overflow(high, reach, &high)
                       : __builtin_add_overflow(low, reach, &low)))
            return false;
    return low >= 0 && high < n;
}

/* What a damaged file asks for: the graph is refused. */
static View view_wrong(View v, const char *what)
{
    v.base = graph_poison(v.base.graph, E_SHAPE, "%s", what);
    return v;
}

View view_permuted(View v, const int *axis)
{
    View     out = v;
    uint32_t seen = 0;
    for (int i = 0; i < v.rank; i++)
        seen |= axis[i] >= 0 && axis[i] < v.rank ? 1u << axis[i] : 0;
    if (seen != (1u << v.rank) - 1)
        return view_wrong(v, "axes in an order that names some twice");
    for (int i = 0; i < v.rank; i++) {
        out.dim[i] = v.dim[axis[i]];
        out.stride[i] = v.stride[axis[i]];
    }
    return out;
}

View view_sliced(View v, int axis, int64_t from, int64_t count, int64_t step)
{
    int64_t start;
    if (axis < 0 || axis >= v.rank)
        return view_wrong(v, "a slice of an axis that is not there");
    if (count < 0 || __builtin_mul_overflow(from, v.stride[axis], &start) ||
        __builtin_add_overflow(v.offset, start, &v.offset) ||
        __builtin_mul_overflow(v.stride[axis], step, &start))
        return view_wrong(v, "a slice beyond the tensor");
    v.dim[axis] = count;
    v.stride[axis] *= step;
    return v;
}

View view_dropped(View v, int axis)
{
    if (axis < 0 || axis >= v.rank)
        return view_wrong(v, "an axis is left out that is not there");
    for (int i = axis; i + 1 < v.rank; i++) {
        v.dim[i] = v.dim[i + 1];
        v.stride[i] = v.stride[i + 1];
    }
    v.rank--;
    return v;
}

View view_selected(View v, int axis, int64_t index)
{
    return view_dropped(view_sliced(v, axis, index, 1, 1), axis);
}

View view_inserted(View v, int axis, int64_t extent)
{
    if (v.rank >= VIEW_RANK || axis < 0 || axis > v.rank)
        return view_wrong(v, "a tensor with too many axes");
    for (int i = v.rank; i > axis; i--) {
        v.dim[i] = v.dim[i - 1];
        v.stride[i] = v.stride[i - 1];
    }
    v.rank++;
    v.dim[axis] = extent;
    v.stride[axis] = 0;
    return v;
}

View view_expanded(View v, Dims dims)
{
    if (v.rank > dims.rank || dims.rank > VIEW_RANK)
        return view_wrong(v, "a tensor is expanded to fewer axes");
    while (v.rank < dims.rank)
        v = view_inserted(v, 0, 1);
    for (int i = 0; i < dims.rank; i++)
        if (v.dim[i] != dims.at[i]) {
            if (v.dim[i] != 1)
                return view_wrong(v, "an axis that has elements is expanded");
            v.dim[i] = dims.at[i];
            v.stride[i] = 0;
        }
    return v;
}

/* Axes of v that follow one another in memory form a run; the new axes must divide the runs. */
bool view_reshaped(View v, Dims dims, View *out)
{
    *out = (View){ .base = v.base, .rank = dims.rank, .offset = v.offset };
    memcpy(out->dim, dims.at, sizeof dims.at);
    if (!view_count(&v))
        return true;
    int     next = dims.rank - 1; /* new axes are given strides from the innermost on */
    int64_t run = 1, taken = 1, innermost = 1;
    for (int i = v.rank - 1; i >= 0; i--) {
        if (run == 1 && taken == 1)
            innermost = v.stride[i];
        run *= v.dim[i];
        bool ends = !i || (v.dim[i - 1] != 1 && v.stride[i - 1] != run * innermost);
        if (run == 1 || !ends)
            continue;
        while (next >= 0 && (taken < run || dims.at[next] == 1)) {
            out->stride[next] = taken * innermost;
            taken *= dims.at[next--];
        }
        if (taken != run)
            return false;
        run = taken = 1;
    }
    while (next >= 0 && dims.at[next] == 1)
        out->stride[next--] = 0;
    return next < 0;
}

void view_order(const View *v, int *order)
{
    /* Axes of extent 1 and repeated ones stay; the others are sorted among their places. */
    int places[VIEW_RANK], m = 0;
    for (int i = 0; i < v->rank; i++) {
        order[i] = i;
        if (v->dim[i] > 1 && v->stride[i])
            places[m++] = i;
    }
    for (int i = 1; i < m; i++)
        for (int j = i; j > 0 && v->stride[order[places[j - 1]]] < v->stride[order[places[j]]];
             j--) {
            int axis = order[places[j]];
            order[places[j]] = order[places[j - 1]];
            order[places[j - 1]] = axis;
        }
}

void view_order_last(const View *v, int axis, int *order)
{
    int all[VIEW_RANK], n = 0;
    view_order(v, all);
    for (int i = 0; i < v->rank; i++)
        if (all[i] != axis)
            order[n++] = all[i];
    order[n] = axis;
}

void order_channels_last(int rank, int *order)
{
    order[0] = 0;
    for (int i = 1; i < rank - 1; i++)
        order[i] = i + 1;
    if (rank > 1)
        order[rank - 1] = 1;
}

static bool dense(const View *v, int *order, bool repeats)
{
    view_order(v, order);
    int64_t stride = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        int axis = order[i];
        if (v->dim[axis] == 1 || (repeats && !v->stride[axis]))
            continue;
        if (v->stride[axis] != stride)
            return false;
        stride *= v->dim[axis];
    }
    return !v->offset && stride == shape_count(tensor_shape(v->base));
}

bool view_is_dense(const View *v, int *order) { return dense(v, order, false); }
bool view_is_whole(const View *v, int *order) { return dense(v, order, true); }

Shape view_shape(Dims dims, const int *order)
{
    Shape shape = { 0 };
    int   over = dims.rank - MAX_RANK; /* axes to be merged into the second */
    for (int i = 0; i < dims.rank; i++) {
        int64_t extent = dims.at[order ? order[i] : i];
        if (i >= 2 && over > 0) {
            shape.dim[1] *= extent;
            over--;
        } else {
            shape.dim[shape.rank++] = extent;
        }
    }
    if (!shape.rank)
        shape = SHAPE(1);
    return shape;
}

static bool same_order(const View *v, const int *have, const int *want)
{
    int i = 0, j = 0;
    for (;;) {
        while (i < v->rank && v->dim[have[i]] == 1)
            i++;
        while (j < v->rank && v->dim[want ? want[j] : j] == 1)
            j++;
        if (i == v->rank || j == v->rank)
            return i == v->rank && j == v->rank;
        if (have[i++] != (want ? want[j] : j))
            return false;
        j++;
    }
}

/* The view as the copying operators see it: axes in the wanted order, neighbours merged. */
static StridedAttr strided_of(const View *v, const int *order, Shape shape)
{
    StridedAttr at = { .offset = v->offset, .shape = shape };
    for (int i = 0; i < v->rank; i++) {
        int axis = order ? order[i] : i;
        if (v->dim[axis] == 1)
            continue;
        if (at.rank && at.stride[at.rank - 1] == v->stride[axis] * v->dim[axis]) {
            at.dim[at.rank - 1] *= v->dim[axis];
            at.stride[at.rank - 1] = v->stride[axis];
        } else if (at.rank < STRIDED_RANK) {
            at.dim[at.rank] = v->dim[axis];
            at.stride[at.rank++] = v->stride[axis];
        } else {
            at.rank = STRIDED_RANK + 1;
            break;
        }
    }
    if (!at.rank) {
        at.rank = 1;
        at.dim[0] = at.stride[0] = 1;
    }
    return at;
}

/* A permutation of a whole tensor is the permute operator's. */
static bool permute_of(const View *v, const int *have, const int *want, Shape shape,
                       PermuteAttr *attr)
{
    *attr = (PermuteAttr){ .shape = shape };
    int place[VIEW_RANK];
    for (int i = 0; i < v->rank; i++) {
        if (v->dim[have[i]] == 1)
            continue;
        if (attr->rank == PERMUTE_RANK)
            return false;
        place[have[i]] = attr->rank;
        attr->dim[attr->rank++] = v->dim[have[i]];
    }
    for (int i = 0, n = 0; i < v->rank; i++) {
        int axis = want ? want[i] : i;
        if (v->dim[axis] > 1)
            attr->axis[n++] = place[axis];
    }
    return attr->rank > 0;
}

Tensor view_tensor_as(View v, const int *order, Shape shape)
{
    int have[VIEW_RANK];
    if (!tensor_ok(v.base))
        return graph_poison(v.base.graph, E_SHAPE, "a tensor is missing");
    if (!view_within(&v, shape_count(tensor_shape(v.base))))
        return graph_poison(v.base.graph, E_SHAPE, "a view beyond its tensor");
    bool whole = view_is_dense(&v, have);
    if (whole && same_order(&v, have, order))
        return reshape(v.base, shape);
    PermuteAttr permuted;
    if (whole && permute_of(&v, have, order, shape, &permuted))
        return permute_as(v.base, permuted);
    StridedAttr at = strided_of(&v, order, shape);
    if (at.rank > STRIDED_RANK)
        return graph_poison(v.base.graph, E_SHAPE, "a view of more than %d axes", STRIDED_RANK);
    int64_t n = shape_count(shape), all = shape_count(tensor_shape(v.base));
    if (at.rank == 1 && at.stride[0] == 1 && n < all) /* a run of elements: the same bytes */
        return reshape(slice(reshape(v.base, SHAPE(all)), 0, at.offset, at.offset + n), shape);
    return strided(v.base, at);
}

Tensor view_tensor(View v, const int *order)
{
    return view_tensor_as(v, order, view_shape(view_dims(&v), order));
}

View view_densed(View v, const int *order)
{
    return view_make(view_tensor(v, order), view_dims(&v), order);
}

View view_own_order(View v, int *order)
{
    return view_is_dense(&v, order) ? v : view_densed(v, order);
}

View view_copied_reshape(View v, Dims dims)
{
    View out;
    if (view_reshaped(v, dims, &out))
        return out;
    return view_make(view_tensor(v, NULL), dims, NULL);
}
