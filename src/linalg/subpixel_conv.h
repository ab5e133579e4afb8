/* subpixel_conv.h -- 3x3 convolutions of maps upsampled by repetition, computed from the small map,
 * on Hopper. By subpixel_conv_cuda.cu, for the CUDA plugin only. The operator: ops/conv/up_conv.h.
 *
 * Along an axis, upsampling by `up` gives up + 2 taps u = 0 .. up + 1, each of a sub-pixel a (which
 * of the `up` outputs of a small position) and a shift d (which small position it reads):
 *
 *   u          0    1   2 .. up-1    up     up+1
 *   a          0    0   1 .. up-2   up-1    up-1
 *   d         -1    0       0         0       1
 *
 * The taps in between are all alike, so there are only 4 or 5 distinct weights along an axis. Each
 * is a sum of weights of the 3x3 kernel, rounded once: the folded weights. Outputs of one sub-pixel
 * are `up` apart, so to the TMA each sub-pixel is a small image with wide strides, and the tiled
 * products of direct_conv.h do the rest.
 *
 *   forward   rows: small positions of one class of sub-pixels with the same sum; each result is
 *             written to all sub-pixels of its class
 *   data      rows: small positions; the sum runs over all (up + 2)^2 taps and dy's channels
 *   weights   rows: channels, per tap; the taps' sums are then added to the 3x3 weights in them
 */
#ifndef LINALG_SUBPIXEL_CONV_H
#define LINALG_SUBPIXEL_CONV_H

#include "linalg/direct_conv.h"

typedef struct SubpixelConv {
    DirectConv tiled; /* tiles, boxes and splits of the small map; its desc is that of
                                  * the large map */
    int        up;
} SubpixelConv;

/* desc: the convolution of the large map. False: this convolution needs another method. */
bool   subpixel_conv_plan(const CudaHandle *handle, const ConvDesc *desc, int64_t up,
                          SubpixelConv *conv);
size_t subpixel_conv_workspace(const SubpixelConv *conv);
/* As direct_conv_run; x or dx is the small map. */
Err subpixel_conv_run(const CudaHandle *handle, const SubpixelConv *conv, const DirectArgs *args);

/* For all other cases: upsamples the map, and sums its gradient. */
Err cuda_enlarge(cudaStream_t stream, Type type, const void *x, int64_t rows, int64_t width,
                 int64_t channels, int64_t up, void *to);
Err cuda_gather(cudaStream_t stream, Type type, const void *large, int64_t rows, int64_t width,
                int64_t channels, int64_t up, void *dx);

#endif
