/* pooling_window.h -- which values a window of pooling.h takes, and which windows take a value; for the
 * CPU's and CUDA's kernels alike. */
#ifndef OPS_RESAMPLE_POOLING_WINDOW_H
#define OPS_RESAMPLE_POOLING_WINDOW_H

#include "ops/resample/pooling.h"

#ifdef __CUDACC__
#define POOL_FN __host__ __device__ static inline
#else
#define POOL_FN static inline
#endif

/* a / b of numbers along an axis, which have 31 bits: 64-bit divisions are slow. */
POOL_FN int64_t pool_over(int64_t a, int64_t b)
{
    return b == 1 ? a : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* Taps from .. to of window i (numbered from the window's start) are inside the input; tap k is the
 * value start + k dilation. */
typedef struct PoolWindow {
    int64_t start, from, to;
} PoolWindow;

POOL_FN PoolWindow pool_window(PoolAxis a, int64_t i)
{
    PoolWindow w;
    if (a.adaptive) {
        w.start = i * a.in / a.out;
        w.from = 0;
        w.to = ((i + 1) * a.in + a.out - 1) / a.out - w.start;
        return w;
    }
    w.start = i * a.stride - a.pad;
    w.from = w.start >= 0 ? 0 : pool_over(-w.start + a.dilation - 1, a.dilation);
    int64_t inside = pool_over(a.in - w.start + a.dilation - 1, a.dilation);
    w.to = inside < a.kernel ? inside : a.kernel;
    return w;
}

/* Windows first .. last (inclusive; none if last < first) are the only ones that may take value
 * p. */
typedef struct PoolCover {
    int64_t first, last;
} PoolCover;

POOL_FN PoolCover pool_cover(PoolAxis a, int64_t p)
{
    PoolCover c;
    if (a.adaptive) {
        c.first = p * a.out / a.in;
        c.last = ((p + 1) * a.out - 1) / a.in;
        return c;
    }
    int64_t low = p + a.pad - (a.kernel - 1) * a.dilation;
    c.first = low <= 0 ? 0 : pool_over(low + a.stride - 1, a.stride);
    c.last = pool_over(p + a.pad, a.stride);
    c.last = c.last < a.out ? c.last : a.out - 1;
    return c;
}

/* Value p as a tap of window i of its cover, or -1: dilation passes over it. */
POOL_FN int64_t pool_tap(PoolAxis a, int64_t i, int64_t p)
{
    int64_t d = p - (a.adaptive ? i * a.in / a.out : i * a.stride - a.pad);
    int64_t tap = pool_over(d, a.dilation);
    return tap * a.dilation == d ? tap : -1;
}

/* By how many values the mean of window i divides, along this axis. */
POOL_FN int64_t pool_size(PoolAxis a, int64_t i, bool count_padding)
{
    PoolWindow w = pool_window(a, i);
    if (!count_padding || a.adaptive)
        return w.to - w.from;
    int64_t end = w.start + a.kernel, limit = a.padded - a.pad;
    return (end < limit ? end : limit) - w.start;
}

/* Taps of a window by number: kernel[0] kernel[1] kernel[2] at most. */
POOL_FN int64_t pool_taps(const PoolAxes *axes)
{
    return axes->at[0].kernel * axes->at[1].kernel * axes->at[2].kernel;
}

/* Bytes of a tap's number. */
POOL_FN int64_t pool_mark_bytes(const PoolAxes *axes) { return pool_taps(axes) <= 256 ? 1 : 4; }

#endif
