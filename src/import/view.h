/* view.h -- a tensor of an exported program as a strided view of a graph tensor.
 *
 * A graph tensor is dense, and its axes lie in the order that its operator likes: images are
 * channels-last. The file's axes are in PyTorch's order. A View has the file's axes and says by
 * strides where their elements lie, so permute, transpose, expand, select, slice and most reshapes
 * cost nothing. An operator asks for the arrangement that it needs; a copy is made only where the
 * view does not have it already.
 */
#ifndef IMPORT_VIEW_H
#define IMPORT_VIEW_H

#include "ir/graph.h"

enum { VIEW_RANK = 12 };
#define DIMS_MAX ((int64_t)1 << 48) /* elements */

typedef struct Dims { /* the extents of a tensor of the file */
    int     rank;
    int64_t at[VIEW_RANK];
} Dims;

typedef struct View {
    Tensor  base;
    int     rank;
    int64_t dim[VIEW_RANK], stride[VIEW_RANK]; /* elements of base; 0: repeated */
    int64_t offset;
} View;

int64_t dims_count(Dims dims); /* INT64_MAX: more can not be counted */
bool    dims_same(Dims a, Dims b);
int64_t int_of(double x); /* the whole part: the nearest that fits; 0 for what is no number */
Dims    view_dims(const View *v);
int64_t view_count(const View *v);
Type    view_type(const View *v);

/* The graph tensor, whose elements are those of `dims` with the axes in this order from the
 * outermost to the innermost (NULL: the file's order). */
View view_make(Tensor base, Dims dims, const int *order);

/* Do all its elements lie within a base of n elements? */
bool view_within(const View *v, int64_t n);

/* ---- free of cost ---- */
View view_permuted(View v, const int *axis); /* axis i of the result is axis[i] of v */
View view_sliced(View v, int axis, int64_t from, int64_t count, int64_t step);
View view_selected(View v, int axis, int64_t index);
View view_inserted(View v, int axis, int64_t extent); /* a new axis, repeated */
View view_dropped(View v, int axis);                  /* of extent 1 */
View view_expanded(View v, Dims dims);                /* aligned at the last axis */
bool view_reshaped(View v, Dims dims, View *out);     /* false: it takes a copy */

/* Does it read every element of its base once? Then order lists its axes from the outermost to the
 * innermost; axes of extent 1 stand where they are. */
bool view_is_dense(const View *v, int *order);
/* The same, but for axes that are repeated. */
bool view_is_whole(const View *v, int *order);

/* ---- with a copy where needed ---- */

/* The elements with the axes in this order (NULL: the file's), as a tensor of that shape. Axes are
 * merged from the second on where there are more than a tensor can have. */
Tensor view_tensor(View v, const int *order);
/* The same under another shape of the same count. */
Tensor view_tensor_as(View v, const int *order, Shape shape);
View   view_densed(View v, const int *order); /* the view of such a tensor */
/* Dense in whatever order it has, which is returned. */
View   view_own_order(View v, int *order);
View   view_copied_reshape(View v, Dims dims); /* a reshape, by a copy if it must be */

/* Shape of dims in this order, with at most MAX_RANK axes. */
Shape view_shape(Dims dims, const int *order);
/* Axes sorted by stride, those of repeated axes where the file has them. */
void  view_order(const View *v, int *order);
/* The same with this axis innermost. */
void  view_order_last(const View *v, int axis, int *order);
/* Axis 1 innermost, the rest in the file's order: (N, ..., C). */
void  order_channels_last(int rank, int *order);

#endif
