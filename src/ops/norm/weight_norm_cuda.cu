/* weight_norm_cuda.cu -- w = g v / |v| on CUDA. A block takes a row and reads it twice, the second
 * time from the cache. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/norm/weight_norm.h"
}

typedef struct WeightNormJob {
    AnyIn   g, v, dw; /* dw: gradient only */
    int64_t rows, width;
} WeightNormJob;

template <int N>
__global__ void __launch_bounds__(ROW_THREADS) weight_rows(WeightNormJob job, AnyOut w)
{
    cuda_begin();
    __shared__ float shared[32];
    for (int64_t r = blockIdx.x; r < job.rows; r += gridDim.x) {
        float sum = 0, v[N], g;
        for (int64_t c = (int64_t)threadIdx.x * N; c < job.width; c += ROW_THREADS * N) {
            any_get<N>(job.v, r * job.width + c, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum = fmaf(v[j], v[j], sum);
        }
        sum = block_sum(sum, shared);
        any_get<1>(job.g, r, &g);
        float scale = g / sqrtf(sum);
        for (int64_t c = (int64_t)threadIdx.x * N; c < job.width; c += ROW_THREADS * N) {
            any_get<N>(job.v, r * job.width + c, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] *= scale;
            any_put<N>(w, r * job.width + c, v);
        }
    }
}

/* dg = dw.v / |v|;  dv = g / |v| (dw - v dw.v / |v|^2) */
template <int N>
__global__ void __launch_bounds__(ROW_THREADS)
    weight_grad_rows(WeightNormJob job, float *dg, float *dv)
{
    cuda_begin();
    __shared__ float shared[32];
    for (int64_t r = blockIdx.x; r < job.rows; r += gridDim.x) {
        float square = 0, dot = 0, v[N], d[N], g;
        for (int64_t c = (int64_t)threadIdx.x * N; c < job.width; c += ROW_THREADS * N) {
            any_get<N>(job.v, r * job.width + c, v);
            any_get<N>(job.dw, r * job.width + c, d);
#pragma unroll
            for (int j = 0; j < N; j++) {
                square = fmaf(v[j], v[j], square);
                dot = fmaf(d[j], v[j], dot);
            }
        }
        square = block_sum(square, shared);
        dot = block_sum(dot, shared);
        any_get<1>(job.g, r, &g);
        float length = sqrtf(square), scale = g / length, along = dot / square;
        if (dg && threadIdx.x == 0)
            dg[r] = dot / length;
        for (int64_t c = (int64_t)threadIdx.x * N; dv && c < job.width; c += ROW_THREADS * N) {
            any_get<N>(job.v, r * job.width + c, v);
            any_get<N>(job.dw, r * job.width + c, d);
#pragma unroll
            for (int j = 0; j < N; j++)
                d[j] = scale * (d[j] - v[j] * along);
            any_put<N>({ dv, F32 }, r * job.width + c, d);
        }
    }
}

static WeightNormJob weight_of(const Node *n)
{
    Shape v = in_shape(n, 1);
    return { {}, {}, {}, v.dim[0], shape_count(v) / v.dim[0] };
}

extern "C" Err weight_norm_cuda(const Call *call)
{
    WeightNormJob job = weight_of(call->node);
    AnyOut        w = any_out(call, 0);
    PackOf        pack = { 8 };
    job.g = any_in(call, 0);
    job.v = any_in(call, 1);
    pack_with(&pack, job.v.p, job.v.type);
    pack_with(&pack, w.p, w.type);
    pack_along(&pack, job.width);
    unsigned blocks = cuda_blocks(call, job.rows * ROW_THREADS, ROW_THREADS);
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), weight_rows<N>, blocks, ROW_THREADS, 0, job, w);)
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err weight_norm_grad_cuda(const Call *call)
{
    WeightNormJob job = weight_of(call->node);
    float        *dg = (float *)call->out[0], *dv = (float *)call->out[1];
    PackOf        pack = { 8 };
    job.g = any_in(call, 0);
    job.v = any_in(call, 1);
    job.dw = any_in(call, 2);
    pack_with(&pack, job.v.p, job.v.type);
    pack_with(&pack, job.dw.p, job.dw.type);
    pack_with(&pack, dv, F32);
    pack_along(&pack, job.width);
    unsigned blocks = cuda_blocks(call, job.rows * ROW_THREADS, ROW_THREADS);
    WITH_PACK(
        pack, N,
        cuda_launch(cuda_stream(call), weight_grad_rows<N>, blocks, ROW_THREADS, 0, job, dg, dv);)
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(weight_norm, .run = weight_norm_cuda)
CUDA_KERNEL(weight_norm_grad, .run = weight_norm_grad_cuda)
