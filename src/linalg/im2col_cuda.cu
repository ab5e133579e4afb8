/* im2col_cuda.cu -- kernels around the libraries' products and convolutions: im2col and its
 * adjoint, transposed weights, biases, partial sums. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/launch_cuda.h"

extern "C" {
#include "base/int_math.h"
#include "linalg/plugin_cuda_linalg.h"
}

template <class T> static __device__ __forceinline__ float wide(T x);
template <> __device__ __forceinline__ float               wide(float x) { return x; }
template <> __device__ __forceinline__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <> __device__ __forceinline__ float wide(__half x) { return __half2float(x); }
template <class T> static __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float           narrow(float x) { return x; }
template <> __device__ __forceinline__ __nv_bfloat16   narrow(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ __half narrow(float x) { return __float2half_rn(x); }

#define WITH_TYPE(type, T, ...)                                                                    \
    do {                                                                                           \
        if ((type) == F32) {                                                                       \
            typedef float T;                                                                       \
            __VA_ARGS__                                                                            \
        } else if ((type) == BF16) {                                                               \
            typedef __nv_bfloat16 T;                                                               \
            __VA_ARGS__                                                                            \
        } else {                                                                                   \
            typedef __half T;                                                                      \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        CUDA_TRY(cudaPeekAtLastError());                                                           \
    } while (0)

enum { THREADS = 256, MAX_BLOCKS = 132 * 32 };

static unsigned blocks_for(int64_t n)
{
    int64_t need = ceil_div(n, THREADS);
    return (unsigned)(need < 1 ? 1 : need < MAX_BLOCKS ? need : MAX_BLOCKS);
}

template <class T> struct alignas(16) Im2colChunk {
    T at[16 / sizeof(T)];
};

/* A thread writes 16 bytes of a row, and the same columns of further rows, so that it divides by
 * the line length only once. A `line` is the taps along w and their channels, contiguous in x as in
 * a row. WHOLE: a chunk lies within one tap. Columns between the last tap and the pitch are zero,
 * so that a product may include them. */
template <class T, bool WHOLE>
static __global__ void im2col_kernel(Im2colDesc d, const T *x, unsigned first, unsigned rows,
                                     int lanes, T *windows)
{
    cuda_begin();
    constexpr int V = 16 / (int)sizeof(T);
    int           chunks = (int)d.pitch / V, ci = (int)d.ci, line = (int)d.kernel[2] * ci;
    int           wide = (int)d.in[2] * ci, high = (int)d.in[1], deep = (int)d.in[0];
    int           lane = lanes > 1 ? (int)threadIdx.x / chunks : 0;
    int           chunk = (int)(blockIdx.y * THREADS + threadIdx.x) - lane * chunks;
    if (lane >= lanes || chunk >= chunks)
        return;
    int tall = (int)d.kernel[1], tap_line = chunk * V / line, at = chunk * V - tap_line * line;
    int kd = tap_line / tall, kh = tap_line - kd * tall;
    for (unsigned r = blockIdx.x * lanes + lane; r < rows; r += gridDim.x * lanes) {
        unsigned up = (r + first) / (unsigned)d.out[2], ow = r + first - up * (unsigned)d.out[2];
        unsigned over = up / (unsigned)d.out[1], oh = up - over * (unsigned)d.out[1];
        unsigned image = over / (unsigned)d.out[0], od = over - image * (unsigned)d.out[0];
        int      q = ((int)ow * (int)d.stride[2] - (int)d.pad_lo[2]) * ci;
        int      h = (int)oh * (int)d.stride[1] - (int)d.pad_lo[1];
        int      z = (int)od * (int)d.stride[0] - (int)d.pad_lo[0];
        const T *from = x + (((int64_t)image * deep + z) * high + h) * wide + q;
        Im2colChunk<T> to = {};
        int            a = at, i = kh, k = kd;
#pragma unroll
        for (int j = 0; j < (WHOLE ? 1 : V); j++) {
            const T *here = from + ((int64_t)k * high + i) * wide + a;
            bool     in = k < (int)d.kernel[0] && (unsigned)(q + a) < (unsigned)wide &&
                      (unsigned)(h + i) < (unsigned)high && (unsigned)(z + k) < (unsigned)deep;
            if (WHOLE && in)
                to = *(const Im2colChunk<T> *)here;
            else if (in)
                to.at[j] = *here;
            if (++a == line) {
                a = 0;
                k += ++i == tall;
                i = i == tall ? 0 : i;
            }
        }
        *(Im2colChunk<T> *)(windows + (int64_t)r * d.pitch + chunk * V) = to;
    }
}

/* The same for dilated taps, or for the channels of one of several groups. */
template <class T>
static __global__ void im2col_taps_kernel(Im2colDesc d, const T *x, int64_t first, int64_t rows,
                                          T *windows)
{
    cuda_begin();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < rows * d.pitch;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = i / d.pitch, at = i - row * d.pitch, tap = at / d.ci, c = at - tap * d.ci;
        int64_t kw = tap % d.kernel[2], kh = tap / d.kernel[2] % d.kernel[1];
        int64_t kd = tap / (d.kernel[2] * d.kernel[1]), rest = row + first;
        int64_t w = rest % d.out[2] * d.stride[2] - d.pad_lo[2] + kw * d.dilation[2];
        rest /= d.out[2];
        int64_t h = rest % d.out[1] * d.stride[1] - d.pad_lo[1] + kh * d.dilation[1];
        rest /= d.out[1];
        int64_t z = rest % d.out[0] * d.stride[0] - d.pad_lo[0] + kd * d.dilation[0];
        int64_t image = rest / d.out[0];
        bool    in = kd < d.kernel[0] && w >= 0 && w < d.in[2] && h >= 0 && h < d.in[1] && z >= 0 &&
                  z < d.in[0];
        windows[i] = in ? x[(((image * d.in[0] + z) * d.in[1] + h) * d.in[2] + w) * d.pixel + c]
                        : T(0.0f);
    }
}

extern "C" Err cuda_im2col(cudaStream_t stream, const Im2colDesc *d, Type type, const void *x,
                           int64_t first, int64_t rows, void *windows)
{
    if (d->pixel != d->ci || d->dilation[0] != 1 || d->dilation[1] != 1 || d->dilation[2] != 1) {
        WITH_TYPE(type, T,
                  cuda_launch(stream, im2col_taps_kernel<T>, blocks_for(rows * d->pitch), THREADS,
                              0, *d, (const T *)x, first, rows, (T *)windows););
        return OK;
    }
    WITH_TYPE(type, T, {
        int  v = 16 / (int)sizeof(T), chunks = (int)d->pitch / v;
        int  lanes = chunks < THREADS ? THREADS / chunks : 1;
        bool whole = d->ci % v == 0 && (uintptr_t)x % 16 == 0;
        dim3 grid(blocks_for(ceil_div(rows, lanes) * THREADS), (unsigned)ceil_div(chunks, THREADS));
        cuda_launch(stream, whole ? im2col_kernel<T, true> : im2col_kernel<T, false>, grid, THREADS,
                    0, *d, (const T *)x, (unsigned)first, (unsigned)rows, lanes, (T *)windows);
    });
    return OK;
}

/* One thread per element of dx: sums the taps that read it, in a fixed order. */
template <class T>
static __global__ void col2im_kernel(Im2colDesc d, T *dx, int64_t image, int axis, int64_t from,
                                     int64_t to, const float *windows, int64_t first, int64_t rows)
{
    cuda_begin();
    int64_t z0 = axis == 0 ? from : 0, z1 = axis == 0 ? to : d.in[0];
    int64_t h0 = axis == 1 ? from : 0, h1 = axis == 1 ? to : d.in[1];
    int64_t n = (z1 - z0) * (h1 - h0) * d.in[2] * d.ci;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t c = i % d.ci, rest = i / d.ci;
        int64_t w = rest % d.in[2];
        rest /= d.in[2];
        int64_t h = rest % (h1 - h0) + h0, z = rest / (h1 - h0) + z0;
        float   sum = 0;
        for (int64_t kd = 0; kd < d.kernel[0]; kd++) {
            int64_t od = z + d.pad_lo[0] - kd * d.dilation[0];
            if (od < 0 || od % d.stride[0] || (od /= d.stride[0]) >= d.out[0])
                continue;
            for (int64_t kh = 0; kh < d.kernel[1]; kh++) {
                int64_t oh = h + d.pad_lo[1] - kh * d.dilation[1];
                if (oh < 0 || oh % d.stride[1] || (oh /= d.stride[1]) >= d.out[1])
                    continue;
                for (int64_t kw = 0; kw < d.kernel[2]; kw++) {
                    int64_t ow = w + d.pad_lo[2] - kw * d.dilation[2];
                    if (ow < 0 || ow % d.stride[2] || (ow /= d.stride[2]) >= d.out[2])
                        continue;
                    int64_t row = (od * d.out[1] + oh) * d.out[2] + ow - first;
                    if (row >= 0 && row < rows)
                        sum += windows[row * d.pitch +
                                       ((kd * d.kernel[1] + kh) * d.kernel[2] + kw) * d.ci + c];
                }
            }
        }
        dx[(((image * d.in[0] + z) * d.in[1] + h) * d.in[2] + w) * d.pixel + c] = narrow<T>(sum);
    }
}

extern "C" Err cuda_col2im(cudaStream_t stream, const Im2colDesc *d, Type type, void *dx,
                           int64_t image, int axis, int64_t from, int64_t to, const float *windows,
                           int64_t first, int64_t rows)
{
    int64_t lines = axis == 0 ? (to - from) * d->in[1] : d->in[0] * (to - from);
    WITH_TYPE(type, T,
              cuda_launch(stream, col2im_kernel<T>, blocks_for(lines * d->in[2] * d->ci), THREADS,
                          0, *d, (T *)dx, image, axis, from, to, windows, first, rows););
    return OK;
}

/* Tiles of 32 x 32 through shared memory, so that reads and writes are coalesced; a column of
 * padding avoids bank conflicts. */
template <class T>
static __global__ void transpose_kernel(const T *from, int64_t rows, int64_t columns,
                                        const T *before, T *to)
{
    cuda_begin();
    __shared__ T tile[32][33];
    int64_t      c0 = (int64_t)blockIdx.x * 32, r0 = (int64_t)blockIdx.y * 32;
    for (int r = (int)threadIdx.y; r < 32; r += 8)
        if (r0 + r < rows && c0 + threadIdx.x < columns)
            tile[r][threadIdx.x] = from[(r0 + r) * columns + c0 + threadIdx.x];
    __syncthreads();
    for (int c = (int)threadIdx.y; c < 32; c += 8)
        if (c0 + c < columns && r0 + threadIdx.x < rows) {
            int64_t at = (c0 + c) * rows + r0 + threadIdx.x;
            to[at] = before ? narrow<T>(wide(before[at]) + wide(tile[threadIdx.x][c]))
                            : tile[threadIdx.x][c];
        }
}

extern "C" Err cuda_transpose(cudaStream_t stream, Type type, const void *from, int64_t rows,
                              int64_t columns, const void *before, void *to)
{
    enum { TILE = 32, MAX_GRID_Y = 65535 };
    dim3 grid((unsigned)ceil_div(columns, TILE), (unsigned)ceil_div(rows, TILE)), block(TILE, 8);
    if (ceil_div(rows, TILE) > MAX_GRID_Y)
        return fail(E_DEVICE, "a weight of %lld rows cannot be transposed; the limit is %d",
                    (long long)rows, TILE * MAX_GRID_Y);
    WITH_TYPE(type, T,
              cuda_launch(stream, transpose_kernel<T>, grid, block, 0, (const T *)from, rows,
                          columns, (const T *)before, (T *)to););
    return OK;
}

static __global__ void transpose_taps_kernel(const float *transposed, int64_t taps, int64_t in,
                                             int64_t out, const float *before, float *dw)
{
    cuda_begin();
    for (int64_t at = blockIdx.x * (int64_t)THREADS + threadIdx.x; at < taps * in * out;
         at += (int64_t)gridDim.x * THREADS) {
        int64_t o = at % out, i = at / out % in, tap = at / out / in;
        float   x = transposed[((taps - 1 - tap) * out + o) * in + i];
        dw[at] = before ? before[at] + x : x;
    }
}

extern "C" Err cuda_transpose_taps(cudaStream_t stream, const float *transposed, int64_t taps,
                                   int64_t in, int64_t out, const float *before, float *dw)
{
    cuda_launch(stream, transpose_taps_kernel, blocks_for(taps * in * out), THREADS, 0, transposed,
                taps, in, out, before, dw);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

template <class T, class B>
static __global__ void add_bias_kernel(T *y, int64_t pitch, const B *bias, int64_t rows,
                                       int64_t width)
{
    cuda_begin();
    int64_t n = rows * width;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t at = i / width * pitch + i % width;
        y[at] = narrow<T>(wide(y[at]) + wide(bias[i % width]));
    }
}

extern "C" Err cuda_add_bias(cudaStream_t stream, Type type, void *y, int64_t pitch, Type type_bias,
                             const void *bias, int64_t rows, int64_t width)
{
    WITH_TYPE(type, T,
              WITH_TYPE(type_bias, B,
                        cuda_launch(stream, add_bias_kernel<T, B>, blocks_for(rows * width),
                                    THREADS, 0, (T *)y, pitch, (const B *)bias, rows, width);););
    return OK;
}

template <class T> static __global__ void widen_kernel(const T *from, int64_t count, float *to)
{
    cuda_begin();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * THREADS)
        to[i] = wide(from[i]);
}

extern "C" Err cuda_widen(cudaStream_t stream, Type type, const void *from, int64_t count,
                          float *to)
{
    WITH_TYPE(type, T,
              cuda_launch(stream, widen_kernel<T>, blocks_for(count), THREADS, 0, (const T *)from,
                          count, to););
    return OK;
}

static __global__ void sum_partials_kernel(const float *partials, int64_t n, int64_t count,
                                           const float *before, float *y)
{
    cuda_begin();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * THREADS) {
        float sum = before ? before[i] : 0.0f;
#pragma unroll 16
        for (int64_t p = 0; p < n; p++)
            sum += partials[p * count + i];
        y[i] = sum;
    }
}

extern "C" Err cuda_sum_partials(cudaStream_t stream, const float *partials, int64_t n,
                                 int64_t count, const float *before, float *y)
{
    cuda_launch(stream, sum_partials_kernel, blocks_for(count), THREADS, 0, partials, n, count,
                before, y);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

static __global__ void pairs_weight_kernel(const __grid_constant__ PairsWeight d, const uint16_t *w,
                                           const char *bias, char *room)
{
    cuda_begin();
    PairsBlock b = d.block[blockIdx.y];
    uint16_t  *to = (uint16_t *)(room + d.at[blockIdx.y]);
    int64_t    first = blockIdx.x * (int64_t)THREADS + threadIdx.x,
            stride = (int64_t)gridDim.x * THREADS;
    int width = (int)(d.transposed ? b.k : b.n), w_width = (int)(d.transposed ? d.k : d.n);
    /* 2-byte numbers of either type; 0 has no bits set */
    for (int64_t i = first; i < b.k * b.n; i += stride) {
        int     row = (int)(i / width), col = (int)(i - (int64_t)row * width);
        int64_t k = b.from_k + (d.transposed ? col : row),
                n = b.from_n + (d.transposed ? row : col);
        bool second = k >= d.k;
        k -= second ? d.k : 0;
        n -= second ? d.n : 0;
        to[i] = n >= 0 && n < d.n ? w[(d.transposed ? n : k) * w_width + (d.transposed ? k : n)]
                                  : (uint16_t)0;
    }
    for (int64_t i = first; d.bias_bytes && i < b.n; i += stride) {
        int64_t from = (b.from_n + i) % d.n;
        if (d.bias_bytes == 2)
            ((uint16_t *)(room + d.bias_at[blockIdx.y]))[i] = ((const uint16_t *)bias)[from];
        else
            ((uint32_t *)(room + d.bias_at[blockIdx.y]))[i] = ((const uint32_t *)bias)[from];
    }
}

extern "C" Err cuda_pairs_weight(cudaStream_t stream, const PairsWeight *d, const void *w,
                                 const void *bias, char *to)
{
    dim3 grid(blocks_for(d->block[0].k * d->block[0].n), (unsigned)d->n_blocks);
    cuda_launch(stream, pairs_weight_kernel, grid, THREADS, 0, *d, (const uint16_t *)w,
                (const char *)bias, to);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}

static __global__ void pairs_sum_kernel(const float *even, const float *odd, int64_t m, int64_t n,
                                        int64_t over_m, int64_t over_n, const float *before,
                                        float *y)
{
    cuda_begin();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < m * n;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = i / n, col = i - row * n, pitch = n + over_n;
        float   sum = even[row * pitch + col] + odd[(row + over_m) * pitch + col + over_n];
        y[i] = before ? before[i] + sum : sum;
    }
}

extern "C" Err cuda_pairs_sum(cudaStream_t stream, const float *even, const float *odd, int64_t m,
                              int64_t n, int64_t over_m, int64_t over_n, const float *before,
                              float *y)
{
    cuda_launch(stream, pairs_sum_kernel, blocks_for(m * n), THREADS, 0, even, odd, m, n, over_m,
                over_n, before, y);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}
