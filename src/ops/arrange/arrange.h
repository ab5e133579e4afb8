/* arrange.h -- operators that only move values: concat, slice, split, part and put, pad, shift.
 * They take any type. */
#ifndef OPS_ARRANGE_ARRANGE_H
#define OPS_ARRANGE_ARRANGE_H

#include "ir/op.h"

enum { ARRANGE_MAX = 32 }; /* tensors joined or split at once */

typedef struct JoinAttr { /* concat and split */
    int     axis, n;
    int64_t extent[ARRANGE_MAX]; /* along the axis, also of parts that are absent */
    Shape   whole;
    Type    type;
    bool    wants[ARRANGE_MAX]; /* split: which parts are asked for */
} JoinAttr;

typedef struct SliceAttr {
    int     axis;
    int64_t from, to;
} SliceAttr;

typedef struct PutAttr {
    int     axis;
    int64_t from;
    Shape   whole;
} PutAttr;

typedef struct PadAttr {
    int64_t before[MAX_RANK], after[MAX_RANK];
} PadAttr;

typedef struct ShiftAttr {
    int     axis;
    int64_t by;
} ShiftAttr;

Tensor concat(const Tensor *parts, int n, int axis);
Tensor slice(Tensor x, int axis, int64_t from, int64_t to); /* a view where rows are contiguous */
void   split(Tensor *parts, int n, Tensor x, int axis);     /* n equal parts */
void   split_at(Tensor *parts, const int64_t *extent, int n, Tensor x, int axis);

/* Slices of the leading axis that cover a tensor, and a tensor assembled from such slices. `part`
 * is a view. Its gradients are put side by side instead of padded and summed, so only parts that
 * cover x may read x (give them `whole_view(x)`). `put` writes one slice into the bytes of `whole`;
 * if `whole` is none, the rest stays unset until later puts write it. */
Tensor whole_view(Tensor x);
Tensor part(Tensor x, int axis, int64_t from, int64_t to);
Tensor put(Tensor part, Tensor whole_or_none, Shape whole, int axis, int64_t from);

Tensor pad(Tensor x, PadAttr attr); /* with zeros */
Tensor pad_axis(Tensor x, int axis, int64_t before, int64_t after);
Tensor shift(Tensor x, int axis, int64_t by); /* y[i] = x[i - by], zeros where that is outside */

Err concat_cpu(const Call *call);
Err split_cpu(const Call *call);
Err slice_cpu(const Call *call);
Err put_cpu(const Call *call);
Err pad_cpu(const Call *call);
Err shift_cpu(const Call *call);

#endif
