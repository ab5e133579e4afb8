/* narrow_conv.h -- convolutions of 2-byte types whose taps times input channels are 64 at most:
 * first layers, from images. By narrow_conv_cuda.cu, for the plugin's blas only.
 *
 *   forward   y = columns w            weights   dw = columns' dy
 *
 * Columns (a row for each position of y) are made in shared memory, a tile at a time, and never
 * leave it. To the weight every block has a share of the positions; the shares are added in order.
 */
#ifndef LINALG_NARROW_CONV_H
#define LINALG_NARROW_CONV_H

#include "linalg/linalg.h"
#include "device/cuda.h"

typedef struct NarrowConv {
    ConvDesc desc;
    int      deep;               /* taps times input channels */
    int      rows, tiles;        /* positions of y, and tiles of them */
    int      blocks;             /* that share the tiles */
} NarrowConv;

/* false: another way */
bool   narrow_conv_plan(const CudaHandle *handle, const ConvDesc *desc, NarrowConv *conv);
size_t narrow_conv_workspace(const NarrowConv *conv);
/* forward: y, bias or NULL; weights: w = before + its sum, before may be NULL */
Err    narrow_conv_run(const CudaHandle *handle, const NarrowConv *conv, void *x, void *w, void *y,
                       const void *bias, const float *before, void *workspace);

#endif
