/* max_pool2d.h -- the largest of each 2x2 cell. (The mean over all pixels is mean_axes in reduce.h,
 * other windows and adaptive averages are in pooling.h.) */
#ifndef OPS_RESAMPLE_MAX_POOL2D_H
#define OPS_RESAMPLE_MAX_POOL2D_H

#include "ir/op.h"

Tensor max_pool2d(Tensor x); /* (N,H,W,C) to (N,H/2,W/2,C); an odd last row or column is left out */

Err max_pool2d_cpu(const Call *call);
Err max_pool2d_grad_cpu(const Call *call);

#endif
