/* subpixel_conv_kernel.h -- the kernels of subpixel_conv_cuda.cu: the tiled products of
 * direct_conv_kernel.h with taps that belong to sub-pixels. */
#ifndef LINALG_SUBPIXEL_CONV_KERNEL_H
#define LINALG_SUBPIXEL_CONV_KERNEL_H

#include "linalg/direct_conv_kernel.h"

enum { MAX_UP = 4 };

struct SubpixelMaps {                   /* descriptors of the TMA */
    CUtensorMap small, weights;         /* x or dx; folded weights */
    CUtensorMap pixel[MAX_UP * MAX_UP]; /* y or dy by sub-pixels */
};

struct SubpixelJob {
    DirectJob job; /* positions are those of the small map */
    int       up;
};

struct AxisTap {
    int pixel, shift, weight;
}; /* weight: index of the folded weight */

/* Folded weights along an axis, and classes of sub-pixels with the same sum. */
static __host__ __device__ __forceinline__ int axis_weights(int up) { return up > 2 ? 5 : 4; }
static __host__ __device__ __forceinline__ int axis_classes(int up) { return up > 2 ? 3 : 2; }

static __host__ __device__ __forceinline__ AxisTap axis_tap(int up, int u)
{
    return { u < 1    ? 0
             : u > up ? up - 1
                      : u - 1,
             u == 0   ? -1
             : u > up ? 1
                      : 0,
             u < 2    ? u
             : u < up ? 2
                      : u - up + axis_weights(up) - 2 };
}

/* The tap that contains kernel row (or column) k, for outputs of sub-pixel a. */
static __host__ __device__ __forceinline__ int axis_tap_of(int up, int a, int k)
{
    return a == 0 ? (k == 0 ? 0 : 1) : a == up - 1 ? (k == 2 ? up + 1 : up) : a + 1;
}

/* First and number of the taps and of the sub-pixels of a class. */
struct AxisClass {
    int tap, taps, pixel, pixels;
};

static __host__ __device__ __forceinline__ AxisClass axis_class(int up, int k)
{
    return k == 0                      ? AxisClass{ 0, 2, 0, 1 }
           : k == axis_classes(up) - 1 ? AxisClass{ up, 2, up - 1, 1 }
                                       : AxisClass{ 2, 1, 1, up - 2 };
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* One thread fetches all boxes of steps [from, to). tap: forward, a class; weights, a tap. */
template <int KIND, int N>
static __device__ __forceinline__ void
subpixel_fetch(const SubpixelMaps &maps, const SubpixelJob &subpixels, char *stages, Ring<N> &ring,
               int m, int n, int tap, int from, int to)
{
    const DirectJob &job = subpixels.job;
    int              up = subpixels.up, across = KIND == CONV_FORWARD ? axis_classes(up) : up + 2;
    AxisClass        ch = axis_class(up, tap / across), cw = axis_class(up, tap % across);
    int              t = from / job.deep_blocks, c = (from - t * job.deep_blocks) * DEEP;
    int              first = 0, last = across, uh = tap / across, uw = tap % across;
    At               p = block_at(job, KIND == CONV_BACKWARD_WEIGHTS ? from : m);
    if (KIND == CONV_FORWARD)
        first = cw.tap, last = first + cw.taps, uh = ch.tap + t / cw.taps, uw = first + t % cw.taps;
    else if (KIND == CONV_BACKWARD_DATA)
        uh = t / across, uw = t % across;
    AxisTap h = axis_tap(up, uh), w = axis_tap(up, uw);
    fetch_stages<N>(stages, ring, from, to, [&](char *a, uint64_t *full) {
        char              *b = a + A_BYTES;
        const CUtensorMap *of = &maps.pixel[h.pixel * up + w.pixel];
        int                folded = h.weight * axis_weights(up) + w.weight;
        if (KIND == CONV_BACKWARD_WEIGHTS) {
#pragma unroll
            for (int i = 0; i < 2; i++)
                box_fetch5(a + i * BOX, &maps.small, full, m * ROWS + i * 64, p.w + w.shift,
                           p.h + h.shift, 0, p.n);
#pragma unroll
            for (int i = 0; i < N / 64; i++)
                box_fetch5(b + i * BOX, of, full, n * N + i * 64, p.w, p.h, 0, p.n);
            block_next(job, p);
            return;
        }
        if (KIND == CONV_FORWARD) {
            box_fetch5(a, &maps.small, full, c, p.w + w.shift, p.h + h.shift, 0, p.n);
#pragma unroll
            for (int i = 0; i < N / 64; i++)
                box_fetch3(b + i * BOX, &maps.weights, full, n * N + i * 64, c, folded);
        } else {
            box_fetch5(a, of, full, c, p.w - w.shift, p.h - h.shift, 0, p.n);
            box_fetch3(b, &maps.weights, full, c, n * N, folded);
        }
        if ((c += DEEP) == job.deep_blocks * DEEP) {
            c = 0;
            uh += ++uw == last;
            uw = uw == last ? first : uw;
            h = axis_tap(up, uh);
            w = axis_tap(up, uw);
        }
    });
}

/* dy's column sums: the taps of one sub-pixel read the same boxes and divide them. */
static __device__ __forceinline__ void subpixel_col_sums(int up, int tap, int *next, int *every)
{
    int uh = tap / (up + 2), uw = tap % (up + 2);
    int edge_h = uh < 2 || uh >= up, edge_w = uw < 2 || uw >= up;
    int second_h = uh == 1 || uh == up + 1, second_w = uw == 1 || uw == up + 1;
    *every = (1 + edge_h) * (1 + edge_w);
    *next = second_h * (1 + edge_w) + second_w;
}

#endif

template <int KIND, int N, class T>
static __global__ void __launch_bounds__(THREADS, Tile<N>::BLOCKS)
    subpixel_kernel(const __grid_constant__ SubpixelMaps maps,
                    const __grid_constant__ SubpixelJob  subpixels)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ char raw[];
    __shared__ Ring<N> ring;
    const DirectJob   &job = subpixels.job;
    char              *stages = raw + (1024 - (smem_at(raw) & 1023)) % 1024;
    int group = (int)threadIdx.x / 128, tile = (int)blockIdx.x, split = (int)blockIdx.y;
    int n = tile % job.tiles_n, m = tile / job.tiles_n % job.tiles_m,
        tap = tile / job.tiles_n / job.tiles_m, up = subpixels.up;
    int from = split * job.per_split,
        to = from + job.per_split < job.steps ? from + job.per_split : job.steps;
    AxisClass ch = axis_class(up, tap / axis_classes(up)),
              cw = axis_class(up, tap % axis_classes(up));
    if (KIND == CONV_FORWARD)
        to = ch.taps * cw.taps * job.deep_blocks;
    ring_ready(ring);
    if (group == 2) {
        if (threadIdx.x == 256)
            subpixel_fetch<KIND, N>(maps, subpixels, stages, ring, m, n, tap, from, to);
        return;
    }
    float     c[N / 2];
    DyColSums sums = { false };
    if (KIND == CONV_BACKWARD_WEIGHTS) {
        sums = { job.sums && m == 0, A_BYTES, N, DEEP / (512 / N), 0, 1 };
        subpixel_col_sums(up, tap, &sums.next, &sums.every);
    }
    multiply_all<KIND, N, T>(c, stages, ring, group, to - from, sums);
    if (KIND == CONV_BACKWARD_WEIGHTS) {
        weights_out<N>(job, c, m, n, tap, split, group);
        if (sums.wanted)
            sums.give((float *)stages,
                      job.sums + (int64_t)(split * (up + 2) * (up + 2) + tap) * job.columns, n * N,
                      job.columns);
    } else if (!job.direct) {
        positions_out<N>(job, c, m, n, split, group);
    } else {
        At p = block_at(job, m);
        boxes_out<N, T>(job, c, stages, n, group, [&](const char *box, int column) {
            if (KIND == CONV_BACKWARD_DATA)
                box_store5(&maps.small, box, column, p.w, p.h, 0, p.n);
            else
                for (int i = 0; i < ch.pixels * cw.pixels; i++)
                    box_store5(
                        &maps.pixel[(ch.pixel + i / cw.pixels) * up + cw.pixel + i % cw.pixels],
                        box, column, p.w, p.h, 0, p.n);
        });
    }
#endif
}

/* The kernel rows (or columns) that a folded weight is the sum of, as bits. */
static __device__ __forceinline__ int axis_rows(int up, int weight)
{
    return weight == 0                      ? 1
           : weight == 1                    ? 6
           : weight == axis_weights(up) - 1 ? 4
           : weight == axis_weights(up) - 2 ? 3
                                            : 7;
}

/* Folds w (3, 3, I, O) to (h, w, I, O): two neighbours per thread, sums in fp32. */
template <class T>
static __global__ void subpixel_weights(const T *w, int64_t count, int up, T *folded)
{
    int64_t i = 2 * (blockIdx.x * (int64_t)blockDim.x + threadIdx.x);
    int     across = axis_weights(up), which = (int)blockIdx.y;
    int     rows = axis_rows(up, which / across), columns = axis_rows(up, which % across);
    if (i >= count)
        return;
    float2 sum = make_float2(0, 0);
    for (int k = 0; k < 9; k++)
        if (rows >> k / 3 & 1 && columns >> k % 3 & 1) {
            float2 v = wide2(w + k * count + i, T());
            sum.x += v.x, sum.y += v.y;
        }
    *(decltype(narrow2(0, 0, T())) *)(folded + which * count + i) = narrow2(sum.x, sum.y, T());
}

/* dw = before + the sums of all taps that contain a kernel row and column, sub-pixel by sub-pixel,
 * the partial sums of each in order; the first blocks add the partial column sums, a warp per
 * column. */
static __global__ void subpixel_weights_sum(const float4 *partials, int splits, int columns,
                                            int                                 sum_blocks,
                                            const __grid_constant__ SubpixelJob subpixels,
                                            int64_t count, float4 *dw, float *sums)
{
    const DirectJob &job = subpixels.job;
    int              up = subpixels.up, taps = (up + 2) * (up + 2);
    if ((int)blockIdx.x < sum_blocks) {
        col_sums_add(job, splits * taps, columns, sums);
        return;
    }
    int64_t i = (blockIdx.x - (int64_t)sum_blocks) * blockDim.x + threadIdx.x;
    if (i >= 9 * count)
        return;
    int     k = (int)(i / count);
    int64_t at = i - k * count;
    float4  s = make_float4(0, 0, 0, 0);
    for (int a = 0; a < up * up; a++) {
        int uh = axis_tap_of(up, a / up, k / 3), uw = axis_tap_of(up, a % up, k % 3);
        for (int p = 0; p < splits; p++) {
            float4 v = partials[((int64_t)p * taps + uh * (up + 2) + uw) * count + at];
            s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w;
        }
    }
    if (job.before) {
        float4 b = ((const float4 *)job.before)[i];
        s.x += b.x, s.y += b.y, s.z += b.z, s.w += b.w;
    }
    dw[i] = s;
}

#endif
