/* grid_axis.h -- which pixels a point of grid_sample.h reads along one axis, with which weights; for
 * the CPU's and CUDA's kernels alike. A point's weights are products of those of its two axes. */
#ifndef OPS_RESAMPLE_GRID_AXIS_H
#define OPS_RESAMPLE_GRID_AXIS_H

#include "ops/resample/grid_sample.h"

#include <math.h>

#ifdef __CUDACC__
#define GRID_FN __host__ __device__ static inline
#else
#define GRID_FN static inline __attribute__((always_inline)) /* mode is a constant */
#endif

enum { GRID_TAPS = 4 };

typedef struct GridAxis {
    int   taps;             /* 1, 2 or 4 */
    int   index[GRID_TAPS]; /* -1: outside, where everything is 0 */
    float weight[GRID_TAPS];
    float slope[GRID_TAPS]; /* of the weight, by the coordinate */
} GridAxis;

GRID_FN int grid_taps(GridMode mode)
{
    return mode == GRID_BICUBIC ? 4 : mode == GRID_BILINEAR ? 2 : 1;
}

/* at: mirrored at low / 2 and high / 2 until it lies between; *slope changes sign with it. */
GRID_FN float grid_reflected(float at, float low, float high, float *slope)
{
    if (low == high) {
        *slope = 0;
        return 0;
    }
    float least = low / 2, span = (high - low) / 2;
    at -= least;
    if (at < 0) {
        at = -at;
        *slope = -*slope;
    }
    float rest = fmodf(at, span);
    if (fmodf(floorf(at / span), 2.0f) == 0)
        return rest + least;
    *slope = -*slope;
    return span - rest + least;
}

GRID_FN float grid_padded(GridPadding padding, bool align_corners, int size, float at, float *slope)
{
    if (padding == GRID_ZEROS)
        return at;
    if (padding == GRID_REFLECTION)
        at = align_corners ? grid_reflected(at, 0, (float)(2 * (size - 1)), slope)
                           : grid_reflected(at, -1, (float)(2 * size - 1), slope);
    if (at <= 0 || at >= (float)(size - 1)) {
        *slope = 0;
        return at <= 0 ? 0 : (float)(size - 1);
    }
    return at;
}

GRID_FN int grid_index(float at, int size) /* at is a whole number or NaN */
{
    return at >= 0 && at <= (float)(size - 1) ? (int)at : -1;
}

/* Keys' cubic (1981) with a = -0.75 at distance d, and its slope. */
GRID_FN float grid_cubic(float d, float *slope)
{
    const float a = -0.75f;
    float       s = d < 0 ? -1.0f : 1.0f;
    d = fabsf(d);
    if (d <= 1) {
        *slope = s * (3 * (a + 2) * d - 2 * (a + 3)) * d;
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    }
    *slope = s * ((3 * a * d - 10 * a) * d + 8 * a);
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* The coordinate is from -1 to 1: centres of the outer pixels, or their edges. */
GRID_FN void grid_axis(GridMode mode, GridPadding padding, bool align_corners, int size,
                       float coordinate, GridAxis *a)
{
    float slope = align_corners ? (float)(size - 1) / 2 : (float)size / 2;
    float at = align_corners ? (coordinate + 1) / 2 * (float)(size - 1)
                             : ((coordinate + 1) * (float)size - 1) / 2;
    a->taps = grid_taps(mode);
    if (mode != GRID_BICUBIC)
        at = grid_padded(padding, align_corners, size, at, &slope);
    if (mode == GRID_NEAREST) {
        a->index[0] = grid_index(rintf(at), size);
        a->weight[0] = 1;
        a->slope[0] = 0;
        return;
    }
    float base = floorf(at);
    if (mode == GRID_BILINEAR) {
        a->index[0] = grid_index(base, size);
        a->index[1] = grid_index(base + 1, size);
        a->weight[0] = base + 1 - at;
        a->weight[1] = at - base;
        a->slope[0] = -slope;
        a->slope[1] = slope;
        return;
    }
    for (int k = 0; k < 4; k++) {
        float by, unused = 0, tap = base + (float)(k - 1);
        a->weight[k] = grid_cubic(at - tap, &by);
        a->slope[k] = by * slope;
        a->index[k] = grid_index(rintf(grid_padded(padding, align_corners, size, tap, &unused)),
                                 size);
    }
}

#endif
