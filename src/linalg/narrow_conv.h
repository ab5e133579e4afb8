/* narrow_conv.h -- convolutions of 2-byte types with at most 64 taps times input channels: first
 * layers, which read images. By narrow_conv_cuda.cu, for plugin_cuda_linalg.c only.
 *
 *   forward   y = windows w            weights   dw = windows' dy
 *
 * The unfolded windows (im2col, a row for each position of y) are made in shared memory, a tile at
 * a time, and never leave it. For the weights, blocks divide the positions; their partial sums are
 * added in order.
 */
#ifndef LINALG_NARROW_CONV_H
#define LINALG_NARROW_CONV_H

#include "linalg/linalg.h"
#include "device/cuda.h"

typedef struct NarrowConv {
    ConvDesc desc;
    int      deep;        /* taps times input channels */
    int      rows, tiles; /* positions of y, and tiles of them */
    int      blocks;      /* that share the tiles */
} NarrowConv;

/* false: this convolution needs another method */
bool   narrow_conv_plan(const CudaHandle *handle, const ConvDesc *desc, NarrowConv *conv);
size_t narrow_conv_workspace(const NarrowConv *conv);
/* forward: writes y, bias may be NULL; weights: w = before + the gradient, before may be NULL */
Err    narrow_conv_run(const CudaHandle *handle, const NarrowConv *conv, void *x, void *w, void *y,
                       const void *bias, const float *before, void *workspace);

#endif
