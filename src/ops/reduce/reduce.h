/* reduce.h -- sums over adjacent axes, and repetition along them.
 *
 * Any tensor is viewed as (A, M, K): A outer indices, M that are summed or repeated, K inner ones.
 * The gradient of a sum is a repetition and vice versa. */
#ifndef OPS_REDUCE_REDUCE_H
#define OPS_REDUCE_REDUCE_H

#include "ir/op.h"

typedef struct ReduceAttr {
    int64_t a, m, k;
    float   scale;
    Shape   shape; /* of the result */
    Type    type;
} ReduceAttr;

/* How v lies along x: (A, K) of (A, M, K). v is (C); or (B,C) under x (B,...,C); or of x's rank
 * with ones where it is repeated, e.g. (1,L,C), (B,1,1,C), (B,1,1). False if it does not fit. */
bool broadcast_fit(Shape x, Shape v, ReduceAttr *fit);

/* Sum over m of x (times y if given), times scale, under attr. */
Tensor reduce_sum(Tensor x, Tensor y_or_none, ReduceAttr attr);
Tensor reduce_repeat(Tensor x, ReduceAttr attr);

Tensor sum_axes(Tensor x, int first, int last); /* axes first..last, dropped; all of them: (1) */
Tensor mean_axes(Tensor x, int first, int last);
/* Any set of axes (bit i: axis i); keep: they stay, of extent 1. All of them dropped: (1). Sums of
 * i32 and u8 are i32. */
Tensor sum_over(Tensor x, unsigned axes, bool keep);
Tensor mean_over(Tensor x, unsigned axes, bool keep);
Tensor repeat_each(Tensor x, int axis, int64_t n); /* a b -> a a b b */
Tensor tile(Tensor x, int axis, int64_t n);        /* a b -> a b a b */

/* x seen as (A, M, K) with the given axes in the middle; they are moved together by a permutation
 * if others lie between them. attr->shape is the shape without them, or with 1 in their place. Poisoned,
 * in the name of the operator, if x has no such axes. */
Tensor axes_together(const char *name, Tensor x, unsigned axes, bool keep, ReduceAttr *attr);

Err sum_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err sum_cpu(const Call *call);
/* The sum by the node's ReduceAttr of other values than its first inputs. */
typedef struct SumRows {
    Type        type_x, type_y, type_out;
    const void *x, *y; /* y NULL: x alone */
    void       *out;
} SumRows;
Err sum_rows_cpu(const Call *call, const SumRows *job);
Err repeat_cpu(const Call *call);

#endif
