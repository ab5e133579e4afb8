/* narrow_conv_cuda.cu -- convolutions from few channels (narrow_conv.h), by mma of 16 x 8 x 16. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/launch_cuda.h"

extern "C" {
#include "base/int_math.h"
#include "linalg/narrow_conv.h"
}

/* Rows in shared memory are padded by 16 bytes, so that 16 bytes each of eight rows lie in
 * different banks. */
enum { ROWS = 128, MAX_DEEP = 64, WIDE = 64, PITCH = WIDE + 8, THREADS = 256, BLOCKS_PER_SM = 3 };

struct NarrowJob {
    int in[3], out[3], kernel[3], stride[3], pad[3];
    int ci, co, deep, rows, tiles, bias_type;
};

/* ---- products ---- */

static __device__ __forceinline__ uint32_t shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
/* Loads four 8 x 8 matrices; each lane gives the address of a row. load4_transposed transposes. */
static __device__ __forceinline__ void load4(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_at(row)));
}
static __device__ __forceinline__ void load4_transposed(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_at(row)));
}
#define PRODUCT_OF(type, kind)                                                                     \
    static __device__ __forceinline__ void product(float(&c)[4], const uint32_t(&a)[4],            \
                                                   uint32_t b0, uint32_t b1, type)                 \
    {                                                                                              \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." kind "." kind ".f32 "                \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));              \
    }
PRODUCT_OF(__nv_bfloat16, "bf16")
PRODUCT_OF(__half, "f16")
#undef PRODUCT_OF

static __device__ __forceinline__ uint32_t narrow2(float x, float y, __nv_bfloat16)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
    return *(uint32_t *)&v;
}
static __device__ __forceinline__ uint32_t narrow2(float x, float y, __half)
{
    __half2 v = __floats2half2_rn(x, y);
    return *(uint32_t *)&v;
}

/* ---- tiles ---- */

/* Unfolds the windows of positions first .. first + ROWS - 1; zeros after the last position and the
 * last tap. Two threads per row. Taps along w and their channels are contiguous in x, a `line`. */
static __device__ __forceinline__ void im2col_tile(const NarrowJob &job, const uint16_t *x,
                                                   int first, uint16_t (*to)[PITCH])
{
    int      t = (int)threadIdx.x % ROWS, half = (int)threadIdx.x / ROWS, row = first + t;
    int      line = job.kernel[2] * job.ci, wide = job.in[2] * job.ci;
    unsigned up = (unsigned)row / (unsigned)job.out[2], ow = row - up * job.out[2];
    unsigned over = up / (unsigned)job.out[1], oh = up - over * job.out[1];
    unsigned image = over / (unsigned)job.out[0], od = over - image * job.out[0];
    int      q = ((int)ow * job.stride[2] - job.pad[2]) * job.ci;
    int      h = (int)oh * job.stride[1] - job.pad[1], z = (int)od * job.stride[0] - job.pad[0];
    const uint16_t *from = x + (((int64_t)image * job.in[0] + z) * job.in[1] + h) * wide + q;
    int taps = (job.deep + 15) / 16 * 8, k = half * taps; /* this thread's elements begin at k */
    int i = k / line, a = k - i * line, d = i / job.kernel[1];
    i -= d * job.kernel[1];
    for (int end = k + taps; k < end; k += 8) {
        uint32_t chunk[4] = {};
#pragma unroll
        for (int j = 0; j < 8; j++) {
            bool in = row < job.rows && k + j < job.deep && (unsigned)(q + a) < (unsigned)wide &&
                      (unsigned)(h + i) < (unsigned)job.in[1] &&
                      (unsigned)(z + d) < (unsigned)job.in[0];
            uint32_t v = in ? from[(d * job.in[1] + i) * wide + a] : 0;
            chunk[j / 2] |= v << j % 2 * 16;
            if (++a == line) {
                a = 0;
                d += ++i == job.kernel[1];
                i = i == job.kernel[1] ? 0 : i;
            }
        }
        *(uint4 *)&to[t][k] = make_uint4(chunk[0], chunk[1], chunk[2], chunk[3]);
    }
}

/* Loads `rows` rows from row `first` and column `column` on, of a matrix of `all` rows and `width`
 * columns; zeros beyond them. 16 bytes per thread. */
static __device__ __forceinline__ void rows_get(const uint16_t *from, int first, int rows, int all,
                                                int column, int width, uint16_t (*to)[PITCH])
{
    for (int i = (int)threadIdx.x; i < rows * (WIDE / 8); i += THREADS) {
        int   r = i / (WIDE / 8), c = i % (WIDE / 8) * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (first + r < all && column + c < width)
            v = *(const uint4 *)(from + (int64_t)(first + r) * width + column + c);
        *(uint4 *)&to[r][c] = v;
    }
}

static __device__ __forceinline__ float bias_at(const NarrowJob &job, const void *bias, int i)
{
    return !bias                   ? 0
           : job.bias_type == F32  ? ((const float *)bias)[i]
           : job.bias_type == BF16 ? __bfloat162float(((const __nv_bfloat16 *)bias)[i])
                                   : __half2float(((const __half *)bias)[i]);
}

/* A warp computes 16 positions by the block's WIDE output channels. */
template <class T>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    forward_kernel(NarrowJob job, const uint16_t *x, const uint16_t *w, const void *bias,
                   uint16_t *y)
{
    cuda_begin();
    __shared__ alignas(16) uint16_t a[ROWS][PITCH], b[MAX_DEEP][PITCH];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, column = (int)blockIdx.y * WIDE;
    int first_row = warp * 16;
    rows_get(w, 0, MAX_DEEP, job.deep, column, job.co, b);
    float add[WIDE / 8][2];
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int c = column + n * 8 + lane % 4 * 2 + j;
            add[n][j] = c < job.co ? bias_at(job, bias, c) : 0;
        }
    for (int tile = (int)blockIdx.x; tile < job.tiles; tile += (int)gridDim.x) {
        float c[WIDE / 8][4] = {};
        im2col_tile(job, x, tile * ROWS, a);
        __syncthreads();
        for (int k = 0; k < job.deep; k += 16) {
            uint32_t left[4];
            load4(left, &a[first_row + lane % 16][k + lane / 16 * 8]);
#pragma unroll
            for (int n = 0; n < WIDE / 16; n++) {
                uint32_t right[4];
                load4_transposed(right, &b[k + lane % 16][n * 16 + lane / 16 * 8]);
                product(c[2 * n], left, right[0], right[1], T());
                product(c[2 * n + 1], left, right[2], right[3], T());
            }
        }
        __syncwarp(); /* this warp's rows of y replace its rows of windows */
#pragma unroll
        for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *(uint32_t *)&a[first_row + lane / 4 + half * 8][n * 8 + lane % 4 * 2] = narrow2(
                    c[n][2 * half] + add[n][0], c[n][2 * half + 1] + add[n][1], T());
        __syncwarp();
        for (int i = lane; i < 16 * (WIDE / 8); i += 32) {
            int r = first_row + i / (WIDE / 8), at = i % (WIDE / 8) * 8, row = tile * ROWS + r;
            if (row < job.rows && column + at < job.co)
                *(uint4 *)(y + (int64_t)row * job.co + column + at) = *(const uint4 *)&a[r][at];
        }
        __syncthreads();
    }
}

/* Rows of dw are taps and input channels: a warp computes 32 of them by 16 output channels. */
template <class T>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    weights_kernel(NarrowJob job, const uint16_t *x, const uint16_t *dy, float *partials)
{
    cuda_begin();
    __shared__ alignas(16) uint16_t a[ROWS][PITCH], b[ROWS][PITCH];
    int                             warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int   column = (int)blockIdx.y * WIDE, m0 = warp % 2 * 32, n0 = warp / 2 * 16;
    float c[2][2][4] = {};
    for (int i = (int)threadIdx.x; i < ROWS * PITCH / 8; i += THREADS) /* after the last tap */
        ((uint4 *)a)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    for (int tile = (int)blockIdx.x; tile < job.tiles; tile += (int)gridDim.x) {
        rows_get(dy, tile * ROWS, ROWS, job.rows, column, job.co, b);
        im2col_tile(job, x, tile * ROWS, a);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ROWS; k += 16) {
            uint32_t right[4];
            load4_transposed(right, &b[k + lane % 16][n0 + lane / 16 * 8]);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                uint32_t left[4];
                int      row = k + lane / 16 * 8 + lane % 8;
                load4_transposed(left, &a[row][m0 + m * 16 + lane / 8 % 2 * 8]);
                product(c[m][0], left, right[0], right[1], T());
                product(c[m][1], left, right[2], right[3], T());
            }
        }
        __syncthreads();
    }
    float *out = partials + (int64_t)blockIdx.x * job.deep * job.co;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = m0 + m * 16 + lane / 4 + half * 8;
                int at = column + n0 + n * 8 + lane % 4 * 2;
                if (row < job.deep && at < job.co)
                    *(float2 *)(out + row * job.co + at) = make_float2(c[m][n][2 * half],
                                                                       c[m][n][2 * half + 1]);
            }
}

/* dw = before + the partial sums in a fixed order: eight threads per number, each takes every
 * eighth. */
static __global__ void __launch_bounds__(THREADS)
    partials_kernel(const float *partials, int n, int count, const float *before, float *dw)
{
    cuda_begin();
    __shared__ float sums[8][32];
    int              lane = (int)threadIdx.x % 32, share = (int)threadIdx.x / 32;
    int              i = (int)blockIdx.x * 32 + lane;
    float            sum = 0;
#pragma unroll 8
    for (int p = share; p < n && i < count; p += 8)
        sum += partials[(int64_t)p * count + i];
    sums[share][lane] = sum;
    __syncthreads();
    if (share || i >= count)
        return;
    for (int s = 1; s < 8; s++)
        sum += sums[s][lane];
    dw[i] = before ? before[i] + sum : sum;
}

/* ---- host ---- */

static int64_t product3(const int64_t *x) { return x[0] * x[1] * x[2]; }

extern "C" bool narrow_conv_plan(const CudaHandle *handle, const ConvDesc *c, NarrowConv *out)
{
    bool    weights = c->kind == CONV_BACKWARD_WEIGHTS;
    int64_t deep = product3(c->kernel) * c->ci, rows = c->n * product3(c->out);
    if (handle->capability < 80 || c->kind == CONV_BACKWARD_DATA || deep > MAX_DEEP || c->co % 8 ||
        (c->type_x != BF16 && c->type_x != F16) || c->type_y != c->type_x ||
        c->type_w != (weights ? F32 : c->type_x) || rows < 1 || rows > INT32_MAX / 2 ||
        product3(c->in) * c->ci > INT32_MAX)
        return false;
    *out = (NarrowConv){ .desc = *c, .deep = (int)deep, .rows = (int)rows };
    out->tiles = (int)ceil_div(rows, ROWS);
    int fill = (int)ceil_div((int64_t)handle->sms * BLOCKS_PER_SM, ceil_div(c->co, WIDE));
    out->blocks = out->tiles < fill ? out->tiles : fill;
    return true;
}

extern "C" size_t narrow_conv_workspace(const NarrowConv *conv)
{
    if (conv->desc.kind == CONV_FORWARD)
        return 0;
    return (size_t)conv->blocks * (size_t)(conv->deep * conv->desc.co) * sizeof(float);
}

template <class T>
static void narrow_run(cudaStream_t stream, const NarrowConv *conv, const NarrowJob &job, void *x,
                       void *w, void *y, const void *bias, const float *before, float *partials)
{
    dim3 grid((unsigned)conv->blocks, (unsigned)ceil_div(job.co, WIDE));
    if (conv->desc.kind == CONV_FORWARD) {
        cuda_launch(stream, forward_kernel<T>, grid, THREADS, 0, job, (const uint16_t *)x,
                    (const uint16_t *)w, bias, (uint16_t *)y);
        return;
    }
    cuda_launch(stream, weights_kernel<T>, grid, THREADS, 0, job, (const uint16_t *)x,
                (const uint16_t *)y, partials);
    cuda_launch(stream, partials_kernel, (unsigned)ceil_div(job.deep * job.co, 32), THREADS, 0,
                partials, conv->blocks, job.deep * job.co, before, (float *)w);
}

extern "C" Err narrow_conv_run(const CudaHandle *handle, const NarrowConv *conv, void *x, void *w,
                               void *y, const void *bias, const float *before, void *workspace)
{
    const ConvDesc *c = &conv->desc;
    NarrowJob       job = { .ci = (int)c->ci,
                            .co = (int)c->co,
                            .deep = conv->deep,
                            .rows = conv->rows,
                            .tiles = conv->tiles,
                            .bias_type = c->type_bias };
    for (int i = 0; i < 3; i++) {
        job.in[i] = (int)c->in[i], job.out[i] = (int)c->out[i], job.kernel[i] = (int)c->kernel[i];
        job.stride[i] = (int)c->stride[i], job.pad[i] = (int)c->pad_lo[i];
    }
    if (c->type_x == BF16)
        narrow_run<__nv_bfloat16>(handle->stream, conv, job, x, w, y, bias, before,
                                  (float *)workspace);
    else
        narrow_run<__half>(handle->stream, conv, job, x, w, y, bias, before, (float *)workspace);
    CUDA_TRY(cudaPeekAtLastError());
    return OK;
}
