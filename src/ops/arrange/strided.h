/* strided.h -- a tensor read through arbitrary strides, and copied: slices with a step, flips,
 * expansions, diagonals, overlapping windows. */
#ifndef OPS_ARRANGE_STRIDED_H
#define OPS_ARRANGE_STRIDED_H

#include "ir/op.h"

enum { STRIDED_RANK = 8 };

typedef struct StridedAttr {
    int     rank;
    int64_t dim[STRIDED_RANK];
    int64_t stride[STRIDED_RANK]; /* elements of x; 0 repeats, negative flips */
    int64_t offset;               /* of the first element */
    Shape   shape;                /* of the output, of the same count */
} StridedAttr;

Tensor strided(Tensor x, StridedAttr attr); /* any type */
Tensor flip(Tensor x, unsigned axes);       /* bit i: axis i is reversed */
Tensor expand_to(Tensor x, Shape shape);    /* axes of 1, and absent leading ones, are repeated */

typedef struct StridedGradAttr {
    StridedAttr view; /* its strides are not 0 */
    Shape       x;
    Type        type;
    bool        sums; /* an element may have been read more than once */
} StridedGradAttr;

/* A copy between two strided views as kernels see it: dst[i.to + to0] = src[i.from + from0]. */
typedef struct StridedAxes {
    int     rank;
    int64_t dim[STRIDED_RANK], from[STRIDED_RANK], to[STRIDED_RANK], from0, to0;
} StridedAxes;

/* From the view to its contiguous copy: axes that can be merged are, those of extent 1 are left
 * out. */
StridedAxes strided_axes(const StridedAttr *at);
/* Back from the copy: the view's strides, now `to`, are made positive and sorted, falling. */
StridedAxes strided_back(const StridedAttr *at);
bool        strided_overlaps(const StridedAttr *at); /* may it read an element twice? */

/* How the axes of strided_back divide for a sum: the first `outer` axes keep intervals of `span`
 * elements of dx apart; within an interval the others may overlap. */
typedef struct StridedSpan {
    int     outer;
    int64_t intervals, span;
} StridedSpan;
StridedSpan strided_span(const StridedAxes *axes);

Err strided_grad_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err strided_cpu(const Call *call);
Err strided_grad_cpu(const Call *call);

#endif
