/* direct_conv_host.h -- host code shared by direct_conv_cuda.cu and subpixel_conv_cuda.cu: the
 * choice of boxes of positions. */
#ifndef LINALG_DIRECT_CONV_HOST_H
#define LINALG_DIRECT_CONV_HOST_H

#include "base/int_math.h"
#include "device/map_cuda.h"

static int64_t product3(const int64_t *x) { return x[0] * x[1] * x[2]; }

/* Chooses the box whose sides are powers of two, whose volume is `positions`, and of which the
 * fewest cover the extents. */
static void boxes_choose(int positions, const int64_t *extent, DirectConv *conv)
{
    int64_t best = INT64_MAX;
    for (int w = positions; w >= 1; w /= 2)
        for (int h = positions / w; h >= 1; h /= 2)
            for (int d = positions / w / h; d >= 1; d /= 2) {
                int     box[4] = { positions / w / h / d, d, h, w };
                int64_t all = 1;
                for (int i = 0; i < 4; i++)
                    all *= ceil_div(extent[i], box[i]);
                for (int i = 0; all < best && i < 4; i++) {
                    conv->box[i] = box[i];
                    conv->blocks[i] = (int)ceil_div(extent[i], box[i]);
                }
                best = all < best ? all : best;
            }
}

enum { MIN_CHANNELS = 32, MAX_SPLITS = 32, MIN_STEPS = 6, MAX_PARTIAL_BYTES = 64 << 20 };

#endif
