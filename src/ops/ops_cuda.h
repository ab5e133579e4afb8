/* ops_cuda.h -- what every *_cuda.cu file includes: the IR for C++, element access, reductions.
 *
 * A file holds the kernels of one stem and their run functions, extern "C" Err X_cuda(const Call
 * *). Arithmetic is fp32 whatever the storage; sums have a fixed order (no floating-point atomics),
 * so that every run gives the same bits. A run function only queues work on the call's stream: it
 * allocates nothing, waits for nothing and copies nothing to the host, because it is captured into
 * a CUDA graph. */
#ifndef OPS_OPS_CUDA_H
#define OPS_OPS_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/int_math.h"
#include "device/launch_cuda.h"

extern "C" {
#include "device/cuda.h"
#include "ops/cuda_kernel.h"
}

static inline const CudaHandle *cuda_handle(const Call *call)
{
    return (const CudaHandle *)call->device->handle;
}
static inline cudaStream_t cuda_stream(const Call *call) { return cuda_handle(call)->stream; }

/* After a launch: returns its error, if any. */
#define CUDA_LAUNCHED() CUDA_TRY(cudaPeekAtLastError())

/* Blocks for n work items at `threads` per block: enough to fill the GPU; grid-stride loops do the
 * rest. */
static inline unsigned cuda_blocks(const Call *call, int64_t n, int threads)
{
    int64_t max_blocks = (int64_t)cuda_handle(call)->sms * (2048 / threads) * 4,
            need = ceil_div(n, threads);
    return (unsigned)(need < 1 ? 1 : need < max_blocks ? need : max_blocks);
}

/* One element, as fp32. */
typedef __nv_bfloat16            bf16;
typedef __half                   f16;
__device__ __forceinline__ float get(const float *p, int64_t i) { return p[i]; }
__device__ __forceinline__ float get(const bf16 *p, int64_t i) { return __bfloat162float(p[i]); }
__device__ __forceinline__ float get(const f16 *p, int64_t i) { return __half2float(p[i]); }
__device__ __forceinline__ float get(const int32_t *p, int64_t i) { return (float)p[i]; }
__device__ __forceinline__ float get(const uint8_t *p, int64_t i) { return (float)p[i]; }
__device__ __forceinline__ void  put(float *p, int64_t i, float x) { p[i] = x; }
__device__ __forceinline__ void  put(bf16 *p, int64_t i, float x) { p[i] = __float2bfloat16_rn(x); }
__device__ __forceinline__ void  put(f16 *p, int64_t i, float x) { p[i] = __float2half_rn(x); }

/* N adjacent elements, aligned to their size: 16-byte accesses use the memory's full bandwidth. */
template <class T, int N> struct alignas(sizeof(T) * N) Pack {
    T at[N];
};
template <int N, class T> __device__ __forceinline__ void get_pack(const T *p, int64_t i, float *x)
{
    Pack<T, N> pack = *(const Pack<T, N> *)(p + i);
#pragma unroll
    for (int j = 0; j < N; j++)
        x[j] = get(pack.at, j);
}
template <int N, class T> __device__ __forceinline__ void put_pack(T *p, int64_t i, const float *x)
{
    Pack<T, N> pack;
#pragma unroll
    for (int j = 0; j < N; j++)
        put(pack.at, j, x[j]);
    *(Pack<T, N> *)(p + i) = pack;
}

/* Runs the statements with T the C type of a float Type. */
#define WITH_FLOAT(type, T, ...)                                                                   \
    switch (type) {                                                                                \
    case F32: {                                                                                    \
        typedef float T;                                                                           \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case BF16: {                                                                                   \
        typedef bf16 T;                                                                            \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case F16: {                                                                                    \
        typedef f16 T;                                                                             \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    default:                                                                                       \
        return fail(E_DEVICE, "%s: no CUDA kernel for type %d", call->node->op->name,              \
                    (int)(type));                                                                  \
    }

/* Sums in a fixed order; every thread of the warp, of LANES neighbours in it, or of the block gets
 * the result. blockDim.x is a
 * multiple of 32; `shared` is shared memory of 32 floats. */
template <int LANES = 32> __device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int d = LANES / 2; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
template <int LANES = 32> __device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int d = LANES / 2; d; d >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}
__device__ __forceinline__ float block_sum(float x, float *shared)
{
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : 0.0f;
    x = warp_sum(x);
    __syncthreads();
    return x;
}
__device__ __forceinline__ float block_max(float x, float *shared)
{
    x = warp_max(x);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : -INFINITY;
    x = warp_max(x);
    __syncthreads();
    return x;
}

#endif
