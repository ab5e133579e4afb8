/* point_space.h -- the space of a program with its axes joined where nothing tells them apart. */
#ifndef OPS_POINTWISE_POINT_SPACE_H
#define OPS_POINTWISE_POINT_SPACE_H

#include "ops/pointwise/pointwise.h"

/* The space as kernels see it: axes that belong together are one. */
typedef struct PointSpace {
    int      rank; /* at least 1 */
    int64_t  dim[POINT_RANK], points;
    int64_t  stride[POINT_INPUTS_MAX][POINT_RANK];
    int64_t  out_stride[POINT_RESULTS][POINT_RANK]; /* 0: reduced */
    uint32_t reduced[POINT_RESULTS];
    int64_t  count[POINT_RESULTS]; /* elements of each result */
} PointSpace;

void point_space(const PointwiseAttr *p, PointSpace *space);

#endif
