/* lower_stablehlo_index.c -- gather, in the forms that JAX gives to embeddings, to indices of one
 * axis, and to take_along_axis. */
#include "import/lower_stablehlo.h"

#include "ops/index/gather.h"

#include <string.h>

typedef struct GatherDims {
    int64_t offset[VIEW_RANK], collapsed[VIEW_RANK], batch[VIEW_RANK], from_batch[VIEW_RANK],
        map[VIEW_RANK], size[VIEW_RANK], vector;
    int n_offset, n_collapsed, n_batch, n_from_batch, n_map, n_size;
} GatherDims;

static Err gather_dims(Lower *l, int index_rank, GatherDims *d)
{
    TRY(arg_ints(l, "offset_dims", d->offset, &d->n_offset));
    TRY(arg_ints(l, "collapsed_slice_dims", d->collapsed, &d->n_collapsed));
    TRY(arg_ints(l, "operand_batching_dims", d->batch, &d->n_batch));
    TRY(arg_ints(l, "start_indices_batching_dims", d->from_batch, &d->n_from_batch));
    TRY(arg_ints(l, "start_index_map", d->map, &d->n_map));
    TRY(arg_ints(l, "slice_sizes", d->size, &d->n_size));
    TRY(arg_int(l, "index_vector_dim", 0, &d->vector));
    if (d->vector < 0 || d->vector > index_rank || d->n_from_batch != d->n_batch)
        return refuse(l, "its axes do not go together");
    return OK;
}

/* x[..., index, ...] along one axis. The index's axes of the result are those that are no offset. */
static Err take(Lower *l, Operand x, Operand index, int axis, const GatherDims *d)
{
    Dims    dims = { 0 };
    Operand y;
    int     place[VIEW_RANK], n_index = index.view.rank, rank = x.view.rank - 1 + n_index;
    if (d->n_offset != x.view.rank - 1 || rank > VIEW_RANK)
        return refuse(l, "this form of index is not supported");
    for (int a = 0; a < x.view.rank; a++) {
        if (a == axis)
            for (int i = 0; i < n_index; i++)
                dims.at[dims.rank++] = index.view.dim[i];
        else
            dims.at[dims.rank++] = x.view.dim[a];
    }
    TRY(lower_take(l, x, axis, index, dims, &y));
    int next_offset = 0, next_index = 0;
    for (int o = 0; o < rank; o++) {
        bool offset = next_offset < d->n_offset && d->offset[next_offset] == o;
        if (!offset && next_index == n_index)
            return refuse(l, "this form of index is not supported");
        /* An operand's axis after the indexed one stands behind the index's axes. */
        place[o] = !offset              ? axis + next_index++
                   : next_offset < axis ? next_offset
                                        : next_offset + n_index;
        next_offset += offset;
    }
    return give(l, 0, item_with(y, view_permuted(y.view, place)));
}

/* One element for each index: every axis of the operand but one is a batch axis of both. */
static Err along(Lower *l, Operand x, Operand index, int axis, const GatherDims *d)
{
    int  place[VIEW_RANK], lone = -1, rank = x.view.rank;
    View v, i;
    bool taken[VIEW_RANK] = { false };
    if (d->n_batch != rank - 1 || d->n_offset || rank > MAX_RANK)
        return refuse(l, "this form of index is not supported");
    for (int b = 0; b < d->n_batch; b++) {
        if (d->batch[b] < 0 || d->batch[b] >= rank || d->batch[b] == axis || d->from_batch[b] < 0 ||
            d->from_batch[b] >= index.view.rank)
            return refuse(l, "its axes do not go together");
        place[d->batch[b]] = (int)d->from_batch[b];
        taken[d->from_batch[b]] = true;
    }
    for (int a = 0; a < index.view.rank; a++)
        if (!taken[a]) {
            if (lone >= 0)
                return refuse(l, "this form of index is not supported");
            lone = a;
        }
    bool inserted = lone < 0;
    if (inserted) {
        lone = index.view.rank;
        index.view = view_inserted(index.view, lone, 1);
    }
    place[axis] = lone;
    index.view = view_permuted(index.view, place);
    TRY(item_view(l, &x, &v));
    TRY(item_view(l, &index, &i));
    Tensor y = gather(view_tensor(v, NULL), axis, view_tensor(i, NULL));
    TRY(graph_check(l->graph));
    View out = view_make(y, view_dims(&i), NULL);
    int  back[VIEW_RANK];
    for (int a = 0; a < rank; a++)
        back[place[a]] = a;
    out = view_permuted(out, back);
    return give_view(l, 0, inserted ? view_dropped(out, lone) : out);
}

/* JAX clamps indices; where it fills instead, a select around the gather does that. */
static Err clamped(Lower *l, Operand *index, int64_t extent)
{
    Formula f = formula(l);
    int     i = formula_input(&f, *index);
    i = F2(&f, MIN, F2(&f, MAX, i, formula_integer(&f, 0)), formula_integer(&f, extent - 1));
    return formula_item(&f, i, index->type, index);
}

Err hlo_gather(Lower *l)
{
    Operand    x, index;
    GatherDims d = { 0 };
    TRY(hlo_operand(l, 0, &x));
    TRY(hlo_operand(l, 1, &index));
    TRY(gather_dims(l, index.view.rank, &d));
    int axis = d.n_map == 1 ? (int)d.map[0] : -1;
    if (axis < 0 || axis >= x.view.rank || d.n_size != x.view.rank || d.n_collapsed != 1 ||
        d.collapsed[0] != axis)
        return refuse(l, "only indices of one axis are supported");
    for (int a = 0; a < x.view.rank; a++) {
        bool batch = false;
        for (int b = 0; b < d.n_batch; b++)
            batch |= d.batch[b] == a;
        if (d.size[a] != (a == axis || batch ? 1 : x.view.dim[a]))
            return refuse(l, "parts of other axes than the indexed one are not supported");
    }
    if (d.vector < index.view.rank) { /* the axis of the index's one part */
        if (index.view.dim[d.vector] != 1)
            return refuse(l, "only indices of one axis are supported");
        index.view = view_dropped(index.view, (int)d.vector);
    }
    TRY(clamped(l, &index, x.view.dim[axis]));
    return d.n_batch ? along(l, x, index, axis, &d) : take(l, x, index, axis, &d);
}
