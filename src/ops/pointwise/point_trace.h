/* point_trace.h -- the reverse steps of a pointwise program, and what they keep of the forward pass.
 *
 * For pointwise_grad.c, whose first comment explains the three stages.
 */
#ifndef OPS_POINTWISE_POINT_TRACE_H
#define OPS_POINTWISE_POINT_TRACE_H

#include "ops/pointwise/pointwise_int.h"

enum { NO_STEP = -1 };

/* Leaves of the reverse steps: operand numbers beyond the program's own. */
enum { LEAF_DY = 1000, LEAF_RESULT = 1100, LEAF_TIES = 1200 };

typedef struct Trace {
    Grad                *g;
    const PointwiseAttr *p;
    Pool                *pool;
    PointStep           *step; /* forward steps, then reverse steps */
    int32_t              n, cap;
    int                  adjoint[POINT_STEPS_MAX]; /* of each forward step */
    bool                 useful[POINT_STEPS_MAX];  /* does a wanted operand flow into it? */
    int                  gradient[POINT_INPUTS_MAX];
    bool                 needed[POINT_STEPS_MAX]; /* forward values that reverse steps read */
    Tensor               kept[POINT_STEPS_MAX];   /* of the cut: where the value is stored */
    bool                 in_cut[POINT_STEPS_MAX];
    const int64_t       *kept_stride[POINT_STEPS_MAX]; /* NULL: in the order of the space */
    Tensor               ties[POINT_RESULTS];
} Trace;

/* Writes the reverse steps behind the forward ones, and marks the forward values that they read. */
void trace_reverse(Trace *t);
bool result_gets(const Trace *t, int r); /* a gradient that goes on */
/* A step that says which elements are the largest or smallest: result r is read back as it was
 * rounded. */
int  extreme_mask(Trace *t, int r);
/* Chooses what is read in place of those values, and makes inner values results of the forward
 * node. */
void trace_keep(Trace *t);

#endif
