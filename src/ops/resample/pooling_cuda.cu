/* pooling_cuda.cu -- pooling on CUDA: a thread per result and pack of channels; gradients: a thread per
 * value and pack, which adds the windows that cover the value in order. For the largest, a first
 * kernel writes the number of the tap that gave each result to the workspace. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/resample/pooling.h"
#include "ops/resample/pooling_window.h"
}

typedef struct PoolJob {
    PoolAxes axes;
    int64_t  packs; /* of a pixel's channels */
    PoolKind kind;
    bool     count_padding;
    int64_t  divisor;
} PoolJob;

typedef struct PoolPlace {
    int64_t image, at[3], c;
} PoolPlace;

/* Where item t is: a result, or a value. */
__device__ __forceinline__ PoolPlace place_of(const PoolJob &job, bool results, int64_t t)
{
    PoolPlace p;
    int64_t   left = divided(t, job.packs, &p.c);
#pragma unroll
    for (int i = 2; i >= 0; i--)
        left = divided(left, results ? job.axes.at[i].out : job.axes.at[i].in, &p.at[i]);
    p.image = left;
    return p;
}

__device__ __forceinline__ int64_t line_at(const PoolJob &job, bool results, int64_t image,
                                           int64_t d, int64_t h)
{
    const PoolAxis *a = job.axes.at;
    int64_t         planes = results ? a[0].out : a[0].in, rows = results ? a[1].out : a[1].in;
    return ((image * planes + d) * rows + h) * (results ? a[2].out : a[2].in);
}

/* As in PyTorch, a later value wins only if it is larger or NaN. */
__device__ __forceinline__ bool wins(float later, float best)
{
    return later > best || later != later;
}

__device__ __forceinline__ float mean_of(const PoolJob &job, int64_t d, int64_t h, int64_t w)
{
    const PoolAxis *a = job.axes.at;
    int64_t         by = job.divisor ? job.divisor
                                     : pool_size(a[0], d, job.count_padding) *
                                   pool_size(a[1], h, job.count_padding) *
                                   pool_size(a[2], w, job.count_padding);
    return 1.0f / (float)by;
}

template <int N, bool MAX>
__global__ void __launch_bounds__(ROW_THREADS)
    pool_windows(PoolJob job, AnyIn x, AnyOut y, int64_t count)
{
    cuda_begin();
    const PoolAxis *a = job.axes.at;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        PoolPlace  p = place_of(job, true, t);
        PoolWindow d = pool_window(a[0], p.at[0]), h = pool_window(a[1], p.at[1]),
                   w = pool_window(a[2], p.at[2]);
        float best[N], v[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            best[j] = MAX ? -INFINITY : 0.0f;
        for (int64_t kd = d.from; kd < d.to; kd++)
            for (int64_t kh = h.from; kh < h.to; kh++) {
                int64_t line = line_at(job, false, p.image, d.start + kd * a[0].dilation,
                                       h.start + kh * a[1].dilation);
                int64_t at = ((line + w.start + w.from * a[2].dilation) * job.packs + p.c) * N;
                int64_t step = a[2].dilation * job.packs * N;
                int     taps = (int)(w.to - w.from);
#pragma unroll 3
                for (int k = 0; k < taps; k++, at += step) {
                    any_get<N>(x, at, v);
#pragma unroll
                    for (int j = 0; j < N; j++)
                        best[j] = MAX ? (wins(v[j], best[j]) ? v[j] : best[j]) : best[j] + v[j];
                }
            }
        if (!MAX) {
            float by = mean_of(job, p.at[0], p.at[1], p.at[2]);
#pragma unroll
            for (int j = 0; j < N; j++)
                best[j] *= by;
        }
        any_put<N>(y, t * N, best);
    }
}

template <int N>
__device__ __forceinline__ void marks_put(void *marks, bool bytes, int64_t i, const int *m)
{
    if (bytes) {
        Pack<uint8_t, N> pack;
#pragma unroll
        for (int j = 0; j < N; j++)
            pack.at[j] = (uint8_t)m[j];
        *(Pack<uint8_t, N> *)((uint8_t *)marks + i) = pack;
    } else
#pragma unroll
        for (int j = 0; j < N; j++)
            ((int32_t *)marks)[i + j] = m[j];
}

template <int N>
__device__ __forceinline__ void marks_get(const void *marks, bool bytes, int64_t i, int *m)
{
    if (bytes) {
        Pack<uint8_t, N> pack = *(const Pack<uint8_t, N> *)((const uint8_t *)marks + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            m[j] = pack.at[j];
    } else
#pragma unroll
        for (int j = 0; j < N; j++)
            m[j] = ((const int32_t *)marks)[i + j];
}

/* What a lane has found: the largest, and the number of its tap. Of equal values the first counts,
 * of NaNs the last. */
__device__ __forceinline__ bool lane_wins(float v, int tap, float best, int mark)
{
    if (v != v)
        return best == best || tap > mark;
    return v > best || (v == best && tap < mark);
}

/* Long windows of few results: a warp per result and pack; lanes take every 32nd tap. If marks are
 * given, only the numbers of taps are written. */
template <int N, bool MAX>
__global__ void __launch_bounds__(ROW_THREADS)
    pool_long_windows(PoolJob job, AnyIn x, AnyOut y, void *marks, bool bytes, int64_t count)
{
    cuda_begin();
    const PoolAxis *a = job.axes.at;
    int             lane = (int)threadIdx.x % 32;
    for (int64_t t = ((int64_t)blockIdx.x * ROW_THREADS + threadIdx.x) / 32; t < count;
         t += (int64_t)gridDim.x * (ROW_THREADS / 32)) {
        PoolPlace  p = place_of(job, true, t);
        PoolWindow d = pool_window(a[0], p.at[0]), h = pool_window(a[1], p.at[1]),
                   w = pool_window(a[2], p.at[2]);
        int64_t rows = h.to - h.from, columns = w.to - w.from,
                taps = (d.to - d.from) * rows * columns;
        float best[N], v[N];
        int   mark[N];
#pragma unroll
        for (int j = 0; j < N; j++) {
            best[j] = MAX ? -INFINITY : 0.0f;
            mark[j] = INT32_MAX;
        }
        for (int64_t k = lane; k < taps; k += 32) {
            int64_t kh, kw, kd = divided(divided(k, columns, &kw), rows, &kh) + d.from;
            kh += h.from, kw += w.from;
            int64_t line = line_at(job, false, p.image, d.start + kd * a[0].dilation,
                                   h.start + kh * a[1].dilation);
            int     tap = (int)((kd * a[1].kernel + kh) * a[2].kernel + kw);
            any_get<N>(x, ((line + w.start + kw * a[2].dilation) * job.packs + p.c) * N, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                if (!MAX)
                    best[j] += v[j];
                else if (lane_wins(v[j], tap, best[j], mark[j])) {
                    best[j] = v[j];
                    mark[j] = tap;
                }
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            if (!MAX)
                best[j] = warp_sum(best[j]);
            else
                for (int s = 16; s; s >>= 1) {
                    float other = __shfl_xor_sync(0xffffffffu, best[j], s);
                    int   tap = __shfl_xor_sync(0xffffffffu, mark[j], s);
                    if (lane_wins(other, tap, best[j], mark[j])) {
                        best[j] = other;
                        mark[j] = tap;
                    }
                }
        if (lane)
            continue;
        if (!MAX) {
            float by = mean_of(job, p.at[0], p.at[1], p.at[2]);
#pragma unroll
            for (int j = 0; j < N; j++)
                best[j] *= by;
        }
        if (marks)
            marks_put<N>(marks, bytes, t * N, mark);
        else
            any_put<N>(y, t * N, best);
    }
}

/* The number of the tap that gave each result. */
template <int N>
__global__ void __launch_bounds__(ROW_THREADS)
    pool_marks(PoolJob job, AnyIn x, void *marks, bool bytes, int64_t count)
{
    cuda_begin();
    const PoolAxis *a = job.axes.at;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        PoolPlace  p = place_of(job, true, t);
        PoolWindow d = pool_window(a[0], p.at[0]), h = pool_window(a[1], p.at[1]),
                   w = pool_window(a[2], p.at[2]);
        int   mark[N];
        float best[N], v[N];
#pragma unroll
        for (int j = 0; j < N; j++) {
            best[j] = -INFINITY;
            mark[j] = (int)((d.from * a[1].kernel + h.from) * a[2].kernel + w.from);
        }
        for (int64_t kd = d.from; kd < d.to; kd++)
            for (int64_t kh = h.from; kh < h.to; kh++) {
                int64_t line = line_at(job, false, p.image, d.start + kd * a[0].dilation,
                                       h.start + kh * a[1].dilation);
                int64_t at = ((line + w.start + w.from * a[2].dilation) * job.packs + p.c) * N;
                int64_t step = a[2].dilation * job.packs * N;
                int     tap = (int)((kd * a[1].kernel + kh) * a[2].kernel + w.from),
                    taps = (int)(w.to - w.from);
#pragma unroll 3
                for (int k = 0; k < taps; k++, at += step) {
                    any_get<N>(x, at, v);
#pragma unroll
                    for (int j = 0; j < N; j++)
                        if (wins(v[j], best[j])) {
                            best[j] = v[j];
                            mark[j] = tap + k;
                        }
                }
            }
        marks_put<N>(marks, bytes, t * N, mark);
    }
}

template <int N>
__global__ void __launch_bounds__(ROW_THREADS)
    pool_max_back(PoolJob job, AnyIn dy, const void *marks, bool bytes, AnyOut dx, int64_t count)
{
    cuda_begin();
    const PoolAxis *a = job.axes.at;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        PoolPlace p = place_of(job, false, t);
        PoolCover d = pool_cover(a[0], p.at[0]), h = pool_cover(a[1], p.at[1]),
                  w = pool_cover(a[2], p.at[2]);
        float sum[N] = { 0 }, v[N];
        int   mark[N];
        for (int64_t i = d.first; i <= d.last; i++)
            for (int64_t k = h.first; k <= h.last; k++) {
                int64_t kd = pool_tap(a[0], i, p.at[0]), kh = pool_tap(a[1], k, p.at[1]);
                int64_t line = line_at(job, true, p.image, i, k);
                if (kd < 0 || kh < 0)
                    continue;
                for (int64_t q = w.first; q <= w.last; q++) {
                    int64_t kw = pool_tap(a[2], q, p.at[2]),
                            at = ((line + q) * job.packs + p.c) * N;
                    int tap = (int)((kd * a[1].kernel + kh) * a[2].kernel + kw);
                    if (kw < 0)
                        continue;
                    any_get<N>(dy, at, v);
                    marks_get<N>(marks, bytes, at, mark);
#pragma unroll
                    for (int j = 0; j < N; j++)
                        sum[j] += mark[j] == tap ? v[j] : 0.0f;
                }
            }
        any_put<N>(dx, t * N, sum);
    }
}

template <int N>
__global__ void __launch_bounds__(ROW_THREADS)
    pool_mean_back(PoolJob job, AnyIn dy, AnyOut dx, int64_t count)
{
    cuda_begin();
    const PoolAxis *a = job.axes.at;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        PoolPlace p = place_of(job, false, t);
        PoolCover d = pool_cover(a[0], p.at[0]), h = pool_cover(a[1], p.at[1]),
                  w = pool_cover(a[2], p.at[2]);
        float sum[N] = { 0 }, v[N];
        for (int64_t i = d.first; i <= d.last; i++)
            for (int64_t k = h.first; k <= h.last; k++) {
                int64_t line = line_at(job, true, p.image, i, k);
                for (int64_t q = w.first; q <= w.last; q++) {
                    float by = mean_of(job, i, k, q);
                    any_get<N>(dy, ((line + q) * job.packs + p.c) * N, v);
#pragma unroll
                    for (int j = 0; j < N; j++)
                        sum[j] = fmaf(by, v[j], sum[j]);
                }
            }
        any_put<N>(dx, t * N, sum);
    }
}

static PoolJob job_of(const PoolAttr *attr, Shape x)
{
    PoolJob job = {};
    job.axes = pool_axes(attr, x);
    job.packs = job.axes.channels;
    job.kind = attr->kind;
    job.count_padding = attr->count_padding;
    job.divisor = attr->divisor;
    return job;
}

/* Would a thread per pack leave the GPU idle, and has a warp enough to do? */
static bool takes_warps(const Call *call, const PoolJob *job, int64_t packs)
{
    return pool_taps(&job->axes) >= 64 && packs < (int64_t)cuda_handle(call)->sms * 1024;
}

/* Fewer channels a thread where there would be too few threads. */
static PackOf pack_for(const Call *call, PackOf pack, int64_t count)
{
    while (pack.n > 1 && count / pack.n < (int64_t)cuda_handle(call)->sms * ROW_THREADS)
        pack.n = pack.n == 8 ? 4 : 1;
    return pack;
}

extern "C" Err pool_cuda(const Call *call)
{
    PoolJob job = job_of(ATTR(call->node, PoolAttr), in_shape(call->node, 0));
    AnyIn   x = any_in(call, 0);
    AnyOut  y = any_out(call, 0);
    PackOf  pack = { 8 };
    int64_t numbers = shape_count(out_shape(call->node, 0));
    pack_with(&pack, x.p, x.type);
    pack_with(&pack, y.p, y.type);
    pack_along(&pack, job.axes.channels);
    bool warps = takes_warps(call, &job, numbers / pack.n), max = job.kind == POOL_MAX;
    pack = warps ? pack : pack_for(call, pack, numbers);
    job.packs = job.axes.channels / pack.n;
    int64_t  count = numbers / pack.n;
    unsigned blocks = cuda_blocks(call, warps ? 32 * count : count, ROW_THREADS);
    if (warps)
        WITH_PACK(pack, N,
                  cuda_launch(cuda_stream(call),
                              max ? pool_long_windows<N, true> : pool_long_windows<N, false>,
                              blocks, ROW_THREADS, 0, job, x, y, (void *)NULL, false, count);)
    else
        WITH_PACK(pack, N,
                  cuda_launch(cuda_stream(call),
                              max ? pool_windows<N, true> : pool_windows<N, false>, blocks,
                              ROW_THREADS, 0, job, x, y, count);)
    CUDA_LAUNCHED();
    return OK;
}

static size_t marks_bytes(const Node *n)
{
    PoolAxes axes = pool_axes(ATTR(n, PoolAttr), in_shape(n, 0));
    return (size_t)(shape_count(in_shape(n, 1)) * pool_mark_bytes(&axes));
}

extern "C" Err pool_grad_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    choice->workspace_bytes = marks_bytes(n);
    return OK;
}

extern "C" Err pool_grad_cuda(const Call *call)
{
    PoolJob job = job_of(ATTR(call->node, PoolAttr), in_shape(call->node, 0));
    AnyIn   x = any_in(call, 0), dy = any_in(call, 1);
    AnyOut  dx = any_out(call, 0);
    PackOf  pack = { 8 };
    bool    bytes = pool_mark_bytes(&job.axes) == 1;
    int64_t results = shape_count(in_shape(call->node, 1)),
            values = shape_count(in_shape(call->node, 0));
    pack_with(&pack, x.p, x.type);
    pack_with(&pack, dy.p, dy.type);
    pack_with(&pack, dx.p, dx.type);
    pack_along(&pack, job.axes.channels);
    bool warps = takes_warps(call, &job, results / pack.n);
    pack = warps ? pack : pack_for(call, pack, results);
    job.packs = job.axes.channels / pack.n;
    int64_t      marked = results / pack.n, count = values / pack.n;
    unsigned     blocks = cuda_blocks(call, warps ? 32 * marked : marked, ROW_THREADS);
    void        *marks = call->workspace;
    AnyOut       none = { NULL, F32 };
    cudaStream_t stream = cuda_stream(call);
    if (warps)
        WITH_PACK(pack, N,
                  cuda_launch(stream, pool_long_windows<N, true>, blocks, ROW_THREADS, 0, job, x,
                              none, marks, bytes, marked);)
    else
        WITH_PACK(pack, N,
                  cuda_launch(stream, pool_marks<N>, blocks, ROW_THREADS, 0, job, x, marks, bytes,
                              marked);)
    CUDA_LAUNCHED();
    WITH_PACK(pack, N,
              cuda_launch(stream, pool_max_back<N>, cuda_blocks(call, count, ROW_THREADS),
                          ROW_THREADS, 0, job, dy, (const void *)marks, bytes, dx, count);)
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err pool_mean_grad_cuda(const Call *call)
{
    PoolJob job = job_of(&ATTR(call->node, PoolMeanGradAttr)->of, out_shape(call->node, 0));
    AnyIn   dy = any_in(call, 0);
    AnyOut  dx = any_out(call, 0);
    PackOf  pack = { 8 };
    int64_t values = shape_count(out_shape(call->node, 0));
    pack_with(&pack, dy.p, dy.type);
    pack_with(&pack, dx.p, dx.type);
    pack_along(&pack, job.axes.channels);
    pack = pack_for(call, pack, values);
    job.packs = job.axes.channels / pack.n;
    int64_t count = values / pack.n;
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), pool_mean_back<N>,
                          cuda_blocks(call, count, ROW_THREADS), ROW_THREADS, 0, job, dy, dx,
                          count);)
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(pool, .run = pool_cuda)
CUDA_KERNEL(pool_grad, .choose = pool_grad_choose_cuda, .run = pool_grad_cuda)
CUDA_KERNEL(pool_mean_grad, .run = pool_mean_grad_cuda)
