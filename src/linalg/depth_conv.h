/* depth_conv.h -- depthwise convolutions on a GPU: each output channel reads one input channel.
 *
 * They are bound by memory, so a thread has a few adjacent channels of a few positions in a row and
 * reads what it needs through the caches. Backward data is the same walk over dy, one launch for
 * each residue class of the stride. Weight gradients are sums over slabs of positions, which are then
 * added in order. */
#ifndef LINALG_DEPTH_CONV_H
#define LINALG_DEPTH_CONV_H

#include "linalg/plugin_cuda_linalg.h"

/* Along an axis, position q of the grid is element place + q*spread of the result. Through tap j <
 * taps it reads the source at q*step + base + j*apart; the tap is kernel index first + j*jump. */
typedef struct DepthGpuAxis {
    int grid, place, spread, step, base, apart, taps, first, jump, source;
} DepthGpuAxis;

typedef struct DepthGpuWalk {
    DepthGpuAxis axis[3];
    int          size[3];    /* of the result */
    int          tall, wide; /* the kernel's extents along H and W */
    int          channels;   /* of the result's side: co forward, ci backward */
    int          times;      /* output channels for each input channel */
    int          images;
} DepthGpuWalk;

typedef struct DepthGpuConv {
    ConvDesc desc;
    int      slabs, units; /* backward weights: slabs of so many segments of rows */
} DepthGpuConv;

/* False: not depthwise, or of mixed types. */
bool   depth_conv_plan(const ConvDesc *desc, DepthGpuConv *conv);
size_t depth_conv_workspace(const DepthGpuConv *conv);
/* The kind says which of x, w, y is written; before: dw = before + the gradient, or NULL */
Err    depth_conv_run(const CudaHandle *handle, const DepthGpuConv *conv, void *x, void *w, void *y,
                      const void *bias, const float *before, void *workspace);

#endif
