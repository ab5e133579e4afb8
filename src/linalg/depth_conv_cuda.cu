/* depth_conv_cuda.cu -- depthwise convolutions: see depth_conv.h. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/launch_cuda.h"

extern "C" {
#include "base/int_math.h"
#include "linalg/depth_conv.h"
}

enum {
    THREADS = 128,
    TILE = 4,     /* positions of a thread */
    LANES = 32,   /* backward weights: channel packs of a block */
    WARPS = 8,    /* backward weights: positions at once */
    SEGMENT = 64, /* backward weights: positions of a row that belong together */
    GPU_BLOCKS = 1056,
    MAX_GRID_Y = 65535,
    MAX_PARTIAL_BYTES = 32 << 20,
};

static __device__ __forceinline__ float number(float x) { return x; }
static __device__ __forceinline__ float number(__nv_bfloat16 x) { return __bfloat162float(x); }
static __device__ __forceinline__ float number(__half x) { return __half2float(x); }
static __device__ __forceinline__ void  number_to(float *p, float x) { *p = x; }
static __device__ __forceinline__ void  number_to(__nv_bfloat16 *p, float x)
{
    *p = __float2bfloat16_rn(x);
}
static __device__ __forceinline__ void number_to(__half *p, float x) { *p = __float2half_rn(x); }

template <class T, int V> struct alignas(sizeof(T) * V) DepthPack {
    T at[V];
};

template <class T, int V> static __device__ __forceinline__ void pack_get(const T *p, float *x)
{
    DepthPack<T, V> pack = *(const DepthPack<T, V> *)p;
#pragma unroll
    for (int v = 0; v < V; v++)
        x[v] = number(pack.at[v]);
}

template <class T, int V> static __device__ __forceinline__ void pack_put(T *p, const float *x)
{
    DepthPack<T, V> pack;
#pragma unroll
    for (int v = 0; v < V; v++)
        number_to(&pack.at[v], x[v]);
    *(DepthPack<T, V> *)p = pack;
}

static __device__ __forceinline__ float bias_at(const void *bias, Type type, int i)
{
    if (type == F32)
        return ((const float *)bias)[i];
    return type == BF16 ? number(((const __nv_bfloat16 *)bias)[i])
                        : number(((const __half *)bias)[i]);
}

/* The sums of TILE positions by V channels, as many output as input channels. A block has the
 * positions of one row. K > 0: K adjacent taps along W at step 1; every element of the source is
 * then loaded once for all of them. */
template <class T, int V, int K>
static __global__ void depth_kernel(const __grid_constant__ DepthGpuWalk d, const T *source,
                                    const T *w, const void *bias, Type type_bias, T *result)
{
    cuda_begin();
    const DepthGpuAxis &az = d.axis[0], &ah = d.axis[1], &aw = d.axis[2];
    unsigned            row = blockIdx.x, h = row % (unsigned)ah.grid;
    row /= (unsigned)ah.grid;
    int     z = (int)(row % (unsigned)az.grid), packs = d.channels / V;
    int64_t image = row / (unsigned)az.grid, pixel = d.channels;
    int     items = (aw.grid + TILE - 1) / TILE * packs;
    for (int item = (int)(blockIdx.y * THREADS + threadIdx.x); item < items;
         item += (int)gridDim.y * THREADS) {
        int   q = item / packs, e = (item - q * packs) * V;
        float sum[TILE][V];
        q *= TILE;
#pragma unroll
        for (int v = 0; v < V; v++) {
            float b = bias ? bias_at(bias, type_bias, e + v) : 0.0f;
#pragma unroll
            for (int t = 0; t < TILE; t++)
                sum[t][v] = b;
        }
        for (int jd = 0; jd < az.taps; jd++) {
            int sz = z * az.step + az.base + jd * az.apart;
            if ((unsigned)sz >= (unsigned)az.source)
                continue;
            for (int jh = 0; jh < ah.taps; jh++) {
                int sh = (int)h * ah.step + ah.base + jh * ah.apart;
                if ((unsigned)sh >= (unsigned)ah.source)
                    continue;
                const T *from = source +
                                ((image * az.source + sz) * ah.source + sh) * aw.source * pixel + e;
                int tap = ((az.first + jd * az.jump) * d.tall + ah.first + jh * ah.jump) * d.wide +
                          aw.first;
                const T *k = w + tap * pixel + e;
                if (K > 0) {
                    float weights[K > 0 ? K : 1][V], x[V];
#pragma unroll
                    for (int j = 0; j < K; j++)
                        pack_get<T, V>(k + j * aw.jump * pixel, weights[j]);
#pragma unroll
                    for (int i = 0; i < TILE + K - 1; i++) {
                        int s = q + aw.base + i;
                        if ((unsigned)s >= (unsigned)aw.source)
                            continue;
                        pack_get<T, V>(from + s * pixel, x);
#pragma unroll
                        for (int t = 0; t < TILE; t++)
                            if (i - t >= 0 && i - t < K)
#pragma unroll
                                for (int v = 0; v < V; v++)
                                    sum[t][v] += x[v] *
                                                 weights[i - t >= 0 && i - t < K ? i - t : 0][v];
                    }
                } else {
                    for (int j = 0; j < aw.taps; j++) {
                        float weight[V], x[V];
                        pack_get<T, V>(k + j * aw.jump * pixel, weight);
#pragma unroll
                        for (int t = 0; t < TILE; t++) {
                            int s = (q + t) * aw.step + aw.base + j * aw.apart;
                            if ((unsigned)s >= (unsigned)aw.source)
                                continue;
                            pack_get<T, V>(from + s * pixel, x);
#pragma unroll
                            for (int v = 0; v < V; v++)
                                sum[t][v] += x[v] * weight[v];
                        }
                    }
                }
            }
        }
        int64_t to = (image * d.size[0] + az.place + z * az.spread) * d.size[1] + ah.place +
                     (int)h * ah.spread;
#pragma unroll
        for (int t = 0; t < TILE; t++)
            if (q + t < aw.grid)
                pack_put<T, V>(
                    result + (to * d.size[2] + aw.place + (q + t) * aw.spread) * pixel + e, sum[t]);
    }
}

/* One element of the result for each thread, several output channels for each input channel. */
template <class T, bool BACK>
static __global__ void depth_times_kernel(const __grid_constant__ DepthGpuWalk d, const T *source,
                                          const T *w, const void *bias, Type type_bias, T *result)
{
    cuda_begin();
    const DepthGpuAxis &az = d.axis[0], &ah = d.axis[1], &aw = d.axis[2];
    unsigned            row = blockIdx.x, h = row % (unsigned)ah.grid;
    row /= (unsigned)ah.grid;
    int     z = (int)(row % (unsigned)az.grid), items = aw.grid * d.channels;
    int64_t image = row / (unsigned)az.grid,
            many = BACK ? (int64_t)d.channels * d.times : d.channels;
    int64_t pixel = BACK ? many : d.channels / d.times; /* of the source */
    for (int item = (int)(blockIdx.y * THREADS + threadIdx.x); item < items;
         item += (int)gridDim.y * THREADS) {
        int   q = item / d.channels, e = item - q * d.channels;
        float sum = bias ? bias_at(bias, type_bias, e) : 0.0f;
        for (int jd = 0; jd < az.taps; jd++)
            for (int jh = 0; jh < ah.taps; jh++)
                for (int j = 0; j < aw.taps; j++) {
                    int sz = z * az.step + az.base + jd * az.apart;
                    int sh = (int)h * ah.step + ah.base + jh * ah.apart;
                    int s = q * aw.step + aw.base + j * aw.apart;
                    if ((unsigned)sz >= (unsigned)az.source ||
                        (unsigned)sh >= (unsigned)ah.source || (unsigned)s >= (unsigned)aw.source)
                        continue;
                    const T *from = source +
                                    (((image * az.source + sz) * ah.source + sh) * aw.source + s) *
                                        pixel;
                    const T *k = w +
                                 (((az.first + jd * az.jump) * d.tall + ah.first + jh * ah.jump) *
                                      d.wide +
                                  aw.first + j * aw.jump) *
                                     many;
                    if (BACK)
                        for (int i = e * d.times; i < (e + 1) * d.times; i++)
                            sum += number(from[i]) * number(k[i]);
                    else
                        sum += number(from[e / d.times]) * number(k[e]);
                }
        int64_t to = (image * d.size[0] + az.place + z * az.spread) * d.size[1] + ah.place +
                     (int)h * ah.spread;
        number_to(&result[(to * d.size[2] + aw.place + q * aw.spread) * d.channels + e], sum);
    }
}

/* Partial weight gradients of a slab: `units` segments of rows. A lane has V channels, a warp every
 * WARPS-th position; N taps along W at once. */
template <class T, int V, int N>
static __global__ void depth_weights_kernel(const __grid_constant__ DepthGpuWalk d, const T *x,
                                            const T *dy, int units, float *partial)
{
    cuda_begin();
    __shared__ float    sums[WARPS][LANES * V];
    const DepthGpuAxis &az = d.axis[0], &ah = d.axis[1], &aw = d.axis[2];
    int                 lane = (int)threadIdx.x, warp = (int)threadIdx.y;
    int                 e0 = (int)blockIdx.x * LANES * V, e = e0 + lane * V;
    int                 c = V > 1 ? e : e / d.times; /* of x */
    int64_t             pixel = d.channels, pixel_x = d.channels / d.times;
    int                 segments = (aw.grid + SEGMENT - 1) / SEGMENT;
    int64_t             all = (int64_t)d.images * az.grid * ah.grid * segments;
    int64_t             u0 = (int64_t)blockIdx.y * units, u1 = u0 + units < all ? u0 + units : all;
    int                 taps = az.taps * ah.taps * aw.taps;
    for (int jd = 0; jd < az.taps; jd++)
        for (int jh = 0; jh < ah.taps; jh++)
            for (int j = 0; j < aw.taps; j += N) {
                float sum[N][V];
#pragma unroll
                for (int n = 0; n < N; n++)
#pragma unroll
                    for (int v = 0; v < V; v++)
                        sum[n][v] = 0.0f;
                for (int64_t u = u0; u < u1 && e < d.channels; u++) {
                    int64_t row = u / segments, rest = row / ah.grid, image = rest / az.grid;
                    int     segment = (int)(u - row * segments), h = (int)(row - rest * ah.grid);
                    int     z = (int)(rest - image * az.grid);
                    int     sz = z * az.step + az.base + jd * az.apart;
                    int     sh = h * ah.step + ah.base + jh * ah.apart;
                    if ((unsigned)sz >= (unsigned)az.source || (unsigned)sh >= (unsigned)ah.source)
                        continue;
                    const T *from =
                        x + ((image * az.source + sz) * ah.source + sh) * aw.source * pixel_x + c;
                    const T *to = dy + row * aw.grid * pixel + e;
                    int end = (segment + 1) * SEGMENT < aw.grid ? (segment + 1) * SEGMENT : aw.grid;
                    for (int q = segment * SEGMENT + warp; q < end; q += WARPS) {
                        float y[V];
                        pack_get<T, V>(to + q * pixel, y);
#pragma unroll
                        for (int n = 0; n < N; n++) {
                            int s = q * aw.step + aw.base + (j + n) * aw.apart;
                            if (j + n < aw.taps && (unsigned)s < (unsigned)aw.source) {
                                float in[V];
                                pack_get<T, V>(from + s * pixel_x, in);
#pragma unroll
                                for (int v = 0; v < V; v++)
                                    sum[n][v] += in[v] * y[v];
                            }
                        }
                    }
                }
#pragma unroll
                for (int n = 0; n < N; n++) {
#pragma unroll
                    for (int v = 0; v < V; v++)
                        sums[warp][lane * V + v] = sum[n][v];
                    __syncthreads();
                    int i = warp * LANES + lane;
                    if (i < LANES * V && e0 + i < d.channels && j + n < aw.taps) {
                        float total = 0.0f;
#pragma unroll
                        for (int k = 0; k < WARPS; k++)
                            total += sums[k][i];
                        int tap = (jd * ah.taps + jh) * aw.taps + j + n;
                        partial[((int64_t)blockIdx.y * taps + tap) * d.channels + e0 + i] = total;
                    }
                    __syncthreads();
                }
            }
}

/* --- the host's part --- */

static int64_t product3(const int64_t *x) { return x[0] * x[1] * x[2]; }

static int depth_width(const DepthGpuConv *c, uintptr_t places) /* channels of a thread */
{
    const ConvDesc *d = &c->desc;
    return d->ci == d->co && d->co % 4 == 0 && places % (4 * (size_t)type_bytes(d->type_x)) == 0
               ? 4
               : 1;
}

extern "C" bool depth_conv_plan(const ConvDesc *desc, DepthGpuConv *out)
{
    ConvDesc d = conv_filled(desc);
    bool     weights = d.kind == CONV_BACKWARD_WEIGHTS;
    int64_t  limit = INT32_MAX / 2;
    if (d.groups < 2 || d.ci != d.groups || d.type_y != d.type_x ||
        d.type_w != (weights ? F32 : d.type_x) ||
        (d.type_x != F32 && d.type_x != BF16 && d.type_x != F16))
        return false;
    for (int i = 0; i < 3; i++)
        if (d.in[i] > limit || d.out[i] > limit || d.pad_lo[i] > limit)
            return false;
    int64_t rows_in = d.n * d.in[0] * d.in[1], rows_out = d.n * d.out[0] * d.out[1];
    int64_t count = product3(d.kernel) * d.co;
    if (rows_in > limit || rows_out > limit || d.in[2] * d.ci > limit || d.out[2] * d.co > limit ||
        count > limit)
        return false;
    DepthGpuConv c = {};
    c.desc = d;
    if (weights) {
        int64_t across = ceil_div(d.co, LANES * 4),
                segments = rows_out * ceil_div(d.out[2], SEGMENT);
        int64_t slabs = ceil_div(GPU_BLOCKS, across), most = MAX_PARTIAL_BYTES / (4 * count);
        slabs = slabs < most ? slabs : most;
        slabs = slabs < segments ? slabs : segments;
        slabs = slabs < 1 ? 1 : slabs;
        c.units = (int)ceil_div(segments, slabs);
        c.slabs = (int)ceil_div(segments, c.units);
    }
    *out = c;
    return true;
}

extern "C" size_t depth_conv_workspace(const DepthGpuConv *c)
{
    return (size_t)c->slabs * (size_t)(product3(c->desc.kernel) * c->desc.co) * sizeof(float);
}

static DepthGpuWalk walk_forward(const ConvDesc *d)
{
    DepthGpuWalk w = {};
    for (int i = 0; i < 3; i++) {
        DepthGpuAxis *a = &w.axis[i];
        w.size[i] = a->grid = (int)d->out[i];
        a->spread = a->jump = 1;
        a->step = (int)d->stride[i];
        a->base = -(int)d->pad_lo[i];
        a->apart = (int)d->dilation[i];
        a->taps = (int)d->kernel[i];
        a->source = (int)d->in[i];
    }
    w.tall = (int)d->kernel[1], w.wide = (int)d->kernel[2];
    w.channels = (int)d->co, w.times = (int)(d->co / d->ci), w.images = (int)d->n;
    return w;
}

/* As conv_residue_of (builtin.h), with the taps in reverse, so that they read onwards. */
static DepthGpuAxis walk_residue(const ConvDesc *d, int axis, int rest)
{
    DepthGpuAxis a = {};
    int          stride = (int)d->stride[axis], dilation = (int)d->dilation[axis];
    int          kernel = (int)d->kernel[axis], at = rest + (int)d->pad_lo[axis], common = stride;
    for (int b = dilation; b;) {
        int next = common % b;
        common = b, b = next;
    }
    int jump = stride / common, first = 0;
    while (first < jump && (at - first * dilation) % stride != 0)
        first++;
    a.grid = ((int)d->in[axis] - rest + stride - 1) / stride;
    a.place = rest, a.spread = stride, a.step = 1, a.source = (int)d->out[axis];
    a.apart = dilation / common;
    if (first < jump && first < kernel) {
        a.taps = (kernel - 1 - first) / jump + 1;
        a.first = first + jump * (a.taps - 1);
        a.jump = -jump;
        a.base = (at - first * dilation) / stride - (a.taps - 1) * a.apart;
    }
    return a;
}

template <class T>
static Err walk_run(const CudaHandle *handle, const DepthGpuConv *c, const DepthGpuWalk *w,
                    const T *source, const T *k, const void *bias, T *result)
{
    const DepthGpuAxis *a = &w->axis[2];
    int     width = depth_width(c, (uintptr_t)source | (uintptr_t)k | (uintptr_t)result);
    int64_t rows = (int64_t)w->images * w->axis[0].grid * w->axis[1].grid;
    int64_t items = w->times > 1 ? (int64_t)a->grid * w->channels
                                 : ceil_div(a->grid, TILE) * (w->channels / width);
    int64_t down = ceil_div(items, THREADS);
    if (rows == 0 || items == 0)
        return OK;
    dim3 grid((unsigned)rows, (unsigned)(down < MAX_GRID_Y ? down : MAX_GRID_Y));
    Type type_bias = c->desc.type_bias;
    bool slide = a->step == 1 && (a->apart == 1 || a->taps == 1);
#define DEPTH_LAUNCH(kernel)                                                                       \
    cuda_launch(handle->stream, kernel, grid, THREADS, 0, *w, source, k, bias, type_bias, result)
#define DEPTH_SLIDE(v)                                                                             \
    switch (slide ? a->taps : 0) {                                                                 \
    case 1: DEPTH_LAUNCH((depth_kernel<T, v, 1>)); break;                                          \
    case 2: DEPTH_LAUNCH((depth_kernel<T, v, 2>)); break;                                          \
    case 3: DEPTH_LAUNCH((depth_kernel<T, v, 3>)); break;                                          \
    case 4: DEPTH_LAUNCH((depth_kernel<T, v, 4>)); break;                                          \
    case 5: DEPTH_LAUNCH((depth_kernel<T, v, 5>)); break;                                          \
    case 7: DEPTH_LAUNCH((depth_kernel<T, v, 7>)); break;                                          \
    default: DEPTH_LAUNCH((depth_kernel<T, v, 0>)); break;                                         \
    }
    if (w->times > 1 && c->desc.kind == CONV_BACKWARD_DATA)
        DEPTH_LAUNCH((depth_times_kernel<T, true>));
    else if (w->times > 1)
        DEPTH_LAUNCH((depth_times_kernel<T, false>));
    else if (width == 4)
        DEPTH_SLIDE(4)
    else
        DEPTH_SLIDE(1)
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

template <class T>
static Err weights_run(const CudaHandle *handle, const DepthGpuConv *c, const T *x, const T *dy,
                       float *partial)
{
    DepthGpuWalk w = walk_forward(&c->desc);
    int          width = depth_width(c, (uintptr_t)x | (uintptr_t)dy), taps = w.axis[2].taps;
    dim3         grid((unsigned)ceil_div(w.channels, LANES * width), (unsigned)c->slabs),
        block(LANES, WARPS);
#define WEIGHTS_LAUNCH(v, n)                                                                       \
    cuda_launch(handle->stream, depth_weights_kernel<T, v, n>, grid, block, 0, w, x, dy, c->units, \
                partial)
#define WEIGHTS_TAPS(v)                                                                            \
    switch (taps) {                                                                                \
    case 1: WEIGHTS_LAUNCH(v, 1); break;                                                           \
    case 2: WEIGHTS_LAUNCH(v, 2); break;                                                           \
    case 3: WEIGHTS_LAUNCH(v, 3); break;                                                           \
    case 5: WEIGHTS_LAUNCH(v, 5); break;                                                           \
    case 7: WEIGHTS_LAUNCH(v, 7); break;                                                           \
    default: WEIGHTS_LAUNCH(v, 4); break;                                                          \
    }
    if (width == 4)
        WEIGHTS_TAPS(4)
    else
        WEIGHTS_TAPS(1)
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

template <class T>
static Err depth_run(const CudaHandle *handle, const DepthGpuConv *c, T *x, void *w, T *y,
                     const void *bias, const float *before, float *workspace)
{
    const ConvDesc *d = &c->desc;
    if (d->kind == CONV_BACKWARD_WEIGHTS) {
        TRY(weights_run<T>(handle, c, x, y, workspace));
        return cuda_sum_partials(handle->stream, workspace, c->slabs, product3(d->kernel) * d->co,
                                 before, (float *)w);
    }
    DepthGpuWalk walk = walk_forward(d);
    if (d->kind == CONV_FORWARD)
        return walk_run<T>(handle, c, &walk, x, (const T *)w, d->bias ? bias : NULL, y);
    walk.channels = (int)d->ci;
    for (int i = 0; i < 3; i++)
        walk.size[i] = (int)d->in[i];
    for (int rd = 0; rd < d->stride[0]; rd++)
        for (int rh = 0; rh < d->stride[1]; rh++)
            for (int rw = 0; rw < d->stride[2]; rw++) {
                walk.axis[0] = walk_residue(d, 0, rd);
                walk.axis[1] = walk_residue(d, 1, rh);
                walk.axis[2] = walk_residue(d, 2, rw);
                TRY(walk_run<T>(handle, c, &walk, y, (const T *)w, NULL, x));
            }
    return OK;
}

extern "C" Err depth_conv_run(const CudaHandle *handle, const DepthGpuConv *c, void *x, void *w,
                              void *y, const void *bias, const float *before, void *workspace)
{
    float *partial = (float *)workspace;
    switch (c->desc.type_x) {
    case BF16:
        return depth_run(handle, c, (__nv_bfloat16 *)x, w, (__nv_bfloat16 *)y, bias, before,
                         partial);
    case F16: return depth_run(handle, c, (__half *)x, w, (__half *)y, bias, before, partial);
    default: return depth_run(handle, c, (float *)x, w, (float *)y, bias, before, partial);
    }
}
