/* grid_sample_cuda.cu -- a map read at given points, on CUDA.
 *
 * The gradient of the map: for each pixel a list of the points that read it, in their order, and a
 * thread per pixel and pack of channels that adds along its list. Lists are laid out by counting,
 * filled in any order (integer atomics) and sorted, so they are the same in every run. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/resample/grid_axis.h"
#include "ops/resample/grid_sample.h"
}

typedef struct GridJob {
    AnyIn       grid;
    GridPadding padding;
    bool        align_corners;
    int         height, width;
    int64_t     images, points, channels; /* points: of an image */
} GridJob;

template <GridMode MODE> struct GridPoint {
    GridAxis y, x;
};

template <GridMode MODE>
__device__ __forceinline__ GridPoint<MODE> point_at(const GridJob &job, int64_t point)
{
    float x, y;
    any_get<1>(job.grid, 2 * point, &x);
    any_get<1>(job.grid, 2 * point + 1, &y);
    GridPoint<MODE> p;
    grid_axis(MODE, job.padding, job.align_corners, job.height, y, &p.y);
    grid_axis(MODE, job.padding, job.align_corners, job.width, x, &p.x);
    return p;
}

template <GridMode MODE> constexpr int taps_of() /* along an axis */
{
    return MODE == GRID_BICUBIC ? 4 : MODE == GRID_BILINEAR ? 2 : 1;
}

template <GridMode MODE, int N>
__global__ void __launch_bounds__(ROW_THREADS) grid_read(GridJob job, AnyIn x, AnyOut y)
{
    cuda_begin();
    constexpr int T = taps_of<MODE>();
    int64_t       packs = job.channels / N, count = job.images * job.points * packs;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t c, at, point = divided(t, packs, &c), image = divided(point, job.points, &at);
        GridPoint<MODE> p = point_at<MODE>(job, point);
        float           sum[N] = { 0 }, v[N];
#pragma unroll
        for (int i = 0; i < T; i++)
#pragma unroll
            for (int j = 0; j < T; j++) {
                if (p.y.index[i] < 0 || p.x.index[j] < 0)
                    continue;
                int64_t pixel = (image * job.height + p.y.index[i]) * job.width + p.x.index[j];
                float   w = p.y.weight[i] * p.x.weight[j];
                any_get<N>(x, pixel * job.channels + c * N, v);
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[k] = fmaf(w, v[k], sum[k]);
            }
        any_put<N>(y, t * N, sum);
    }
}

/* The gradient of the points: a warp each. */
template <GridMode MODE, int N>
__global__ void __launch_bounds__(ROW_THREADS)
    grid_points_back(GridJob job, AnyIn x, AnyIn dy, AnyOut dgrid)
{
    cuda_begin();
    constexpr int T = taps_of<MODE>();
    int           lane = (int)threadIdx.x % 32;
    for (int64_t point = ((int64_t)blockIdx.x * ROW_THREADS + threadIdx.x) / 32;
         point < job.images * job.points; point += (int64_t)gridDim.x * (ROW_THREADS / 32)) {
        int64_t         at, image = divided(point, job.points, &at);
        GridPoint<MODE> p = point_at<MODE>(job, point);
        float           d[2] = { 0, 0 };
        for (int64_t c = (int64_t)lane * N; MODE != GRID_NEAREST && c < job.channels; c += 32 * N) {
            float g[N], v[N];
            any_get<N>(dy, point * job.channels + c, g);
#pragma unroll
            for (int i = 0; i < T; i++)
#pragma unroll
                for (int j = 0; j < T; j++) {
                    if (p.y.index[i] < 0 || p.x.index[j] < 0)
                        continue;
                    int64_t pixel = (image * job.height + p.y.index[i]) * job.width + p.x.index[j];
                    float   dot = 0;
                    any_get<N>(x, pixel * job.channels + c, v);
#pragma unroll
                    for (int k = 0; k < N; k++)
                        dot = fmaf(g[k], v[k], dot);
                    d[0] += p.y.weight[i] * p.x.slope[j] * dot;
                    d[1] += p.y.slope[i] * p.x.weight[j] * dot;
                }
        }
        d[0] = warp_sum(d[0]);
        d[1] = warp_sum(d[1]);
        if (lane < 2)
            any_put<1>(dgrid, 2 * point + lane, lane ? &d[1] : &d[0]);
    }
}

/* Entries of a pixel's list: start[pixel] .. start[pixel + 1]. An entry is (point of its image *
 * T*T + tap) << 32, and the weight's bits. */
typedef struct PixelLists {
    uint64_t *entry;           /* [images][points T T] */
    int32_t  *start;           /* [images][pixels + 1] */
    int32_t  *cursor;          /* [images][pixels]: counts first, then where the next entry goes */
    int64_t   pixels, entries; /* of an image */
} PixelLists;

__global__ void __launch_bounds__(ROW_THREADS) lists_clear(int32_t *cursor, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS)
        cursor[i] = 0;
}

/* A thread per point: counts entries, or writes them. */
template <GridMode MODE, bool WRITE>
__global__ void __launch_bounds__(ROW_THREADS) lists_fill(GridJob job, PixelLists lists)
{
    cuda_begin();
    constexpr int T = taps_of<MODE>();
    for (int64_t point = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
         point < job.images * job.points; point += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t         at, image = divided(point, job.points, &at);
        GridPoint<MODE> p = point_at<MODE>(job, point);
        int32_t        *cursor = lists.cursor + image * lists.pixels;
        uint64_t       *entry = lists.entry + image * lists.entries;
#pragma unroll
        for (int i = 0; i < T; i++)
#pragma unroll
            for (int j = 0; j < T; j++) {
                if (p.y.index[i] < 0 || p.x.index[j] < 0)
                    continue;
                int32_t slot = atomicAdd(cursor + p.y.index[i] * job.width + p.x.index[j], 1);
                if (WRITE)
                    entry[slot] = (uint64_t)(at * T * T + i * T + j) << 32 |
                                  __float_as_uint(p.y.weight[i] * p.x.weight[j]);
            }
    }
}

enum { SCAN_THREADS = 1024 };

/* A block per image: start and cursor from the counts in cursor. */
__global__ void __launch_bounds__(SCAN_THREADS) lists_scan(PixelLists lists)
{
    cuda_begin();
    __shared__ int32_t warps[32];
    int32_t           *cursor = lists.cursor + blockIdx.x * lists.pixels,
            *start = lists.start + blockIdx.x * (lists.pixels + 1);
    int64_t each = (lists.pixels + SCAN_THREADS - 1) / SCAN_THREADS, from = threadIdx.x * each,
            to = from + each < lists.pixels ? from + each : lists.pixels;
    int32_t own = 0;
    int     lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int64_t i = from; i < to; i++)
        own += cursor[i];
    int32_t up_to = own; /* of this and all earlier threads */
    for (int d = 1; d < 32; d <<= 1) {
        int32_t other = __shfl_up_sync(0xffffffffu, up_to, d);
        up_to += lane >= d ? other : 0;
    }
    if (lane == 31)
        warps[warp] = up_to;
    __syncthreads();
    for (int i = 0; i < warp; i++)
        up_to += warps[i];
    int32_t at = up_to - own;
    for (int64_t i = from; i < to; i++) {
        int32_t count = cursor[i];
        start[i] = cursor[i] = at;
        at += count;
    }
    if (threadIdx.x == SCAN_THREADS - 1)
        start[lists.pixels] = up_to;
}

__device__ static void sift(uint64_t *x, int32_t from, int32_t n)
{
    uint64_t v = x[from];
    for (int32_t child = 2 * from + 1; child < n; child = 2 * from + 1) {
        if (child + 1 < n && x[child + 1] > x[child])
            child++;
        if (x[child] <= v)
            break;
        x[from] = x[child];
        from = child;
    }
    x[from] = v;
}

/* A thread per pixel. Lists are short as a rule: by insertion; long ones as a heap. */
__global__ void __launch_bounds__(ROW_THREADS) lists_sort(PixelLists lists, int64_t count)
{
    cuda_begin();
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t        pixel, image = divided(t, lists.pixels, &pixel);
        const int32_t *start = lists.start + image * (lists.pixels + 1) + pixel;
        uint64_t      *x = lists.entry + image * lists.entries + start[0];
        int32_t        n = start[1] - start[0];
        if (n <= 32) {
            for (int32_t i = 1; i < n; i++) {
                uint64_t v = x[i];
                int32_t  k = i;
                for (; k > 0 && x[k - 1] > v; k--)
                    x[k] = x[k - 1];
                x[k] = v;
            }
            continue;
        }
        for (int32_t i = n / 2 - 1; i >= 0; i--)
            sift(x, i, n);
        for (int32_t i = n - 1; i > 0; i--) {
            uint64_t last = x[i];
            x[i] = x[0];
            x[0] = last;
            sift(x, 0, i);
        }
    }
}

template <int N>
__global__ void __launch_bounds__(ROW_THREADS)
    grid_map_back(GridJob job, PixelLists lists, int per_point, AnyIn dy, AnyOut dx)
{
    cuda_begin();
    int64_t packs = job.channels / N, count = job.images * lists.pixels * packs;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t         c, pixel, image = divided(divided(t, packs, &c), lists.pixels, &pixel);
        const int32_t  *start = lists.start + image * (lists.pixels + 1) + pixel;
        const uint64_t *entry = lists.entry + image * lists.entries;
        float           sum[N] = { 0 }, v[N];
        for (int32_t i = start[0]; i < start[1]; i++) {
            uint64_t e = entry[i];
            int64_t  point = image * job.points + (uint32_t)(e >> 32) / (uint32_t)per_point;
            float    w = __uint_as_float((uint32_t)e);
            any_get<N>(dy, point * job.channels + c * N, v);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] = fmaf(w, v[k], sum[k]);
        }
        any_put<N>(dx, t * N, sum);
    }
}

static GridJob job_of(const Call *call, Shape y, int64_t height, int64_t width)
{
    const GridSampleAttr *attr = ATTR(call->node, GridSampleAttr);
    GridJob               job = {};
    job.grid = any_in(call, 1);
    job.padding = attr->padding;
    job.align_corners = attr->align_corners;
    job.height = (int)height;
    job.width = (int)width;
    job.images = y.dim[0];
    job.points = y.dim[1] * y.dim[2];
    job.channels = y.dim[3];
    return job;
}

/* Runs the statements with MODE, a constant. */
#define WITH_GRID_MODE(mode, MODE, ...)                                                            \
    switch (mode) {                                                                                \
    case GRID_NEAREST: {                                                                           \
        constexpr GridMode MODE = GRID_NEAREST;                                                    \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case GRID_BICUBIC: {                                                                           \
        constexpr GridMode MODE = GRID_BICUBIC;                                                    \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    default: {                                                                                     \
        constexpr GridMode MODE = GRID_BILINEAR;                                                   \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    }

extern "C" Err grid_sample_cuda(const Call *call)
{
    Shape   shape = in_shape(call->node, 0);
    GridJob job = job_of(call, out_shape(call->node, 0), shape.dim[1], shape.dim[2]);
    AnyIn   x = any_in(call, 0);
    AnyOut  y = any_out(call, 0);
    PackOf  pack = { 8 };
    pack_with(&pack, x.p, x.type);
    pack_with(&pack, y.p, y.type);
    pack_along(&pack, job.channels);
    int64_t numbers = job.images * job.points * job.channels;
    WITH_GRID_MODE(ATTR(call->node, GridSampleAttr)->mode, MODE,
                   WITH_PACK(pack, N,
                             cuda_launch(cuda_stream(call), grid_read<MODE, N>,
                                         cuda_blocks(call, numbers / N, ROW_THREADS), ROW_THREADS,
                                         0, job, x, y);))
    CUDA_LAUNCHED();
    return OK;
}

static PixelLists lists_of(const Node *n, void *workspace)
{
    const GridSampleAttr *attr = ATTR(n, GridSampleAttr);
    Shape                 dy = in_shape(n, 2);
    int                   taps = grid_taps(attr->mode);
    PixelLists            lists = {};
    lists.pixels = attr->height * attr->width;
    lists.entries = dy.dim[1] * dy.dim[2] * taps * taps;
    lists.entry = (uint64_t *)workspace;
    lists.start = (int32_t *)(lists.entry + dy.dim[0] * lists.entries);
    lists.cursor = lists.start + dy.dim[0] * (lists.pixels + 1);
    return lists;
}

extern "C" Err grid_sample_grad_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    PixelLists lists = lists_of(n, NULL);
    choice->workspace_bytes = !ATTR(n, GridSampleAttr)->wants[0]
                                  ? 0
                                  : (size_t)in_shape(n, 2).dim[0] *
                                        ((size_t)lists.entries * sizeof(uint64_t) +
                                         (size_t)(2 * lists.pixels + 1) * sizeof(int32_t));
    return OK;
}

static Err map_back(const Call *call, const GridJob &job, GridMode mode, PackOf pack, AnyIn dy)
{
    PixelLists   lists = lists_of(call->node, call->workspace);
    cudaStream_t stream = cuda_stream(call);
    AnyOut       dx = any_out(call, 0);
    int64_t      pixels = job.images * lists.pixels;
    int          taps = grid_taps(mode);
    unsigned     per_pixel = cuda_blocks(call, pixels, ROW_THREADS),
             per_point = cuda_blocks(call, job.images * job.points, ROW_THREADS);
    cuda_launch(stream, lists_clear, per_pixel, ROW_THREADS, 0, lists.cursor, pixels);
    WITH_GRID_MODE(
        mode, MODE,
        cuda_launch(stream, lists_fill<MODE, false>, per_point, ROW_THREADS, 0, job, lists);
        cuda_launch(stream, lists_scan, (unsigned)job.images, SCAN_THREADS, 0, lists);
        cuda_launch(stream, lists_fill<MODE, true>, per_point, ROW_THREADS, 0, job, lists);)
    cuda_launch(stream, lists_sort, per_pixel, ROW_THREADS, 0, lists, pixels);
    CUDA_LAUNCHED();
    pack_with(&pack, dx.p, dx.type);
    WITH_PACK(pack, N,
              cuda_launch(stream, grid_map_back<N>,
                          cuda_blocks(call, pixels * (job.channels / N), ROW_THREADS), ROW_THREADS,
                          0, job, lists, taps * taps, dy, dx);)
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err grid_sample_grad_cuda(const Call *call)
{
    const GridSampleAttr *attr = ATTR(call->node, GridSampleAttr);
    GridJob               job = job_of(call, in_shape(call->node, 2), attr->height, attr->width);
    AnyIn                 dy = any_in(call, 2);
    PackOf                pack = { 8 };
    pack_with(&pack, dy.p, dy.type);
    pack_along(&pack, job.channels);
    if (attr->wants[1]) {
        AnyIn  x = any_in(call, 0);
        AnyOut dgrid = any_out(call, 1);
        PackOf both = pack;
        pack_with(&both, x.p, x.type);
        WITH_GRID_MODE(
            attr->mode, MODE,
            WITH_PACK(both, N,
                      cuda_launch(cuda_stream(call), grid_points_back<MODE, N>,
                                  cuda_blocks(call, job.images * job.points * 32, ROW_THREADS),
                                  ROW_THREADS, 0, job, x, dy, dgrid);))
        CUDA_LAUNCHED();
    }
    return attr->wants[0] ? map_back(call, job, attr->mode, pack, dy) : OK;
}

CUDA_KERNEL(grid_sample, .run = grid_sample_cuda)
CUDA_KERNEL(grid_sample_grad, .choose = grid_sample_grad_choose_cuda, .run = grid_sample_grad_cuda)
