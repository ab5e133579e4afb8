/* pointwise_int.h -- what the files of the pointwise operator share. */
#ifndef OPS_POINTWISE_POINTWISE_INT_H
#define OPS_POINTWISE_POINTWISE_INT_H

#include "ops/pointwise/point_space.h"

void pointwise_rule(Grad *g);

Err pointwise_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err pointwise_prepare_cpu(Pool *pool, Call *call);
Err pointwise_cpu(const Call *call);

static inline int64_t point_count(const PointwiseAttr *p)
{
    int64_t count = 1;
    for (int a = 0; a < p->rank; a++)
        count *= p->dim[a];
    return count;
}

#endif
