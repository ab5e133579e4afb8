/* glu_cuda.cu -- gated linear units on CUDA. A thread reads its pack of both halves before it
 * writes, so the gradient may lie where the input lay. */
#include "ops/elementwise/math_cuda.h"
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/elementwise/glu.h"
}

struct Glu {
    __device__ static float at(float a, float b) { return a * sigmoidf(b); }
    __device__ static void  slopes(float a, float b, float dy, float *da, float *db)
    {
        float s = sigmoidf(b);
        *db = dy * a * s * (1.0f - s);
        *da = dy * s;
    }
};

struct Geglu {
    __device__ static float at(float a, float b) { return a * b * normal_cdf(b); }
    __device__ static void  slopes(float a, float b, float dy, float *da, float *db)
    {
        float cdf = normal_cdf(b);
        *db = dy * a * fmaf(b, normal_density(b), cdf);
        *da = dy * b * cdf;
    }
};

template <class F, int N>
__global__ void __launch_bounds__(ROW_THREADS)
    gate_packs(AnyIn x, AnyOut y, int64_t half, int64_t packs)
{
    cuda_begin();
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < packs;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t j, row = divided(t * N, half, &j), at = 2 * row * half + j;
        Raw<N>  raw_a = raw_load<N>(x, at), raw_b = raw_load<N>(x, at + half);
        float   a[N], b[N];
        raw_get<N>(x.type, raw_a, a);
        raw_get<N>(x.type, raw_b, b);
#pragma unroll
        for (int i = 0; i < N; i++)
            a[i] = F::at(a[i], b[i]);
        any_put<N>(y, t * N, a);
    }
}

template <class F, int N>
__global__ void __launch_bounds__(ROW_THREADS)
    gate_grad_packs(AnyIn x, AnyIn dy, AnyOut dx, int64_t half, int64_t packs)
{
    cuda_begin();
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < packs;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t j, row = divided(t * N, half, &j), at = 2 * row * half + j;
        Raw<N>  raw_a = raw_load<N>(x, at), raw_b = raw_load<N>(x, at + half),
               raw_d = raw_load<N>(dy, t * N);
        float a[N], b[N], d[N];
        raw_get<N>(x.type, raw_a, a);
        raw_get<N>(x.type, raw_b, b);
        raw_get<N>(dy.type, raw_d, d);
#pragma unroll
        for (int i = 0; i < N; i++)
            F::slopes(a[i], b[i], d[i], &a[i], &b[i]);
        any_put<N>(dx, at, a);
        any_put<N>(dx, at + half, b);
    }
}

template <class F> static Err gate_cuda(const Call *call)
{
    Shape   s = out_shape(call->node, 0);
    AnyIn   x = any_in(call, 0);
    AnyOut  y = any_out(call, 0);
    PackOf  pack = pack_of(dim(s, -1), x, y);
    int64_t packs = shape_count(s) / pack.n;
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), gate_packs<F, N>,
                          cuda_blocks(call, packs, ROW_THREADS), ROW_THREADS, 0, x, y, dim(s, -1),
                          packs);)
    CUDA_LAUNCHED();
    return OK;
}

template <class F> static Err gate_grad_cuda(const Call *call)
{
    Shape   s = in_shape(call->node, 1);
    AnyIn   x = any_in(call, 0), dy = any_in(call, 1);
    AnyOut  dx = any_out(call, 0);
    PackOf  pack = pack_of(dim(s, -1), x, dy, dx);
    int64_t packs = shape_count(s) / pack.n;
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), gate_grad_packs<F, N>,
                          cuda_blocks(call, packs, ROW_THREADS), ROW_THREADS, 0, x, dy, dx,
                          dim(s, -1), packs);)
    CUDA_LAUNCHED();
    return OK;
}

/* clang-format off */
extern "C" Err glu_cuda(const Call *call)        { return gate_cuda<Glu>(call); }
extern "C" Err glu_grad_cuda(const Call *call)   { return gate_grad_cuda<Glu>(call); }
extern "C" Err geglu_cuda(const Call *call)      { return gate_cuda<Geglu>(call); }
extern "C" Err geglu_grad_cuda(const Call *call) { return gate_grad_cuda<Geglu>(call); }
/* clang-format on */

CUDA_KERNEL(glu, .run = glu_cuda)
CUDA_KERNEL(glu_grad, .run = glu_grad_cuda)
CUDA_KERNEL(geglu, .run = geglu_cuda)
CUDA_KERNEL(geglu_grad, .run = geglu_grad_cuda)
