/* subpixel_conv.h -- 3x3 convolutions of maps made larger by repetition, on Hopper, from the small
 * map. By phase_conv_cuda.cu, for the plugin only. What is computed: ops/conv/up_conv.h.
 *
 * Along an axis an enlargement by `up` has up + 2 taps: u = 0 .. up + 1, of phase a (which of the
 * `up` outputs of a small position) and shift d (which small position it reads):
 *
 *   u          0    1   2 .. up-1    up     up+1
 *   a          0    0   1 .. up-2   up-1    up-1
 *   d         -1    0       0         0       1
 *
 * The taps between are all alike, so their weights (sums of those of the 3x3 kernel, rounded once)
 * are kept once: 4 or 5 along an axis. Outputs of one phase lie `up` apart: to the TMA each
 * phase is a small image with wide strides, so the tiled products of direct_conv.h do the rest.
 *
 *   forward   rows: small positions of one class of phases that sum alike; each result is written
 *             to all phases of its class
 *   data      rows: small positions; the sum runs over all (up + 2)^2 taps and dy's channels
 *   weights   rows: channels, per tap; the taps' sums are then added to the 3x3 that they stand for
 */
#ifndef LINALG_SUBPIXEL_CONV_H
#define LINALG_SUBPIXEL_CONV_H

#include "linalg/direct_conv.h"

typedef struct PhaseConv {
    DirectConv tiled;            /* of the small map: columns, boxes, tiles, steps, splits; its
                                  * desc is that of the large map */
    int        up;
} PhaseConv;

/* desc: the convolution of the large map; false: another way. */
bool   subpixel_conv_plan(const CudaHandle *handle, const ConvDesc *desc, int64_t up, PhaseConv *conv);
size_t subpixel_conv_workspace(const PhaseConv *conv);
/* As direct_conv_run; x or dx is the small map. */
Err    subpixel_conv_run(const CudaHandle *handle, const PhaseConv *conv, const DirectArgs *args);

/* For all other cases: the large map itself, and the sums over it. */
Err cuda_enlarge(cudaStream_t stream, Type type, const void *x, int64_t rows, int64_t width,
                 int64_t channels, int64_t up, void *to);
Err cuda_gather(cudaStream_t stream, Type type, const void *large, int64_t rows, int64_t width,
                int64_t channels, int64_t up, void *dx);

#endif
