/* rounds_cuda.cu -- results of micro-batches, stored and read back, on CUDA. */
#include "ops/ops_cuda.h"

extern "C" {
#include "comm/comm.h"
#include "ops/optimizer/optim.h"
#include "ops/ranks/rounds.h"
#include "ops/ranks/transfers.h"
}

enum { ROUND_THREADS = 256 };

__global__ void round_store_row(float *store, const float *x, const int32_t *counters, int64_t n,
                                RoundAttr attr)
{
    cuda_begin();
    int64_t round = counters[COUNTER_MICRO] / attr.ranks;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x)
        store[round * attr.width + attr.place + i] = x[i];
}

/* in: store x counters; out: store */
extern "C" Err round_store_cuda(const Call *call)
{
    int64_t n = shape_count(in_shape(call->node, 1));
    cuda_launch(cuda_stream(call), round_store_row, cuda_blocks(call, n, ROUND_THREADS),
                ROUND_THREADS, 0, (float *)call->out[0], (const float *)call->in[1],
                (const int32_t *)call->in[2], n, *ATTR(call->node, RoundAttr));
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err round_gather_prepare_cuda(Pool *pool, Call *call)
{
    return records_prepare(pool, call, call->in[0], (int64_t)in_bytes(call->node, 0), call->out[0]);
}

/* As round_at (ops/ranks/rounds.h). */
__device__ __forceinline__ int64_t place_of_micro(const RoundAttr &a, int64_t micro)
{
    return (micro % a.ranks * a.rounds + micro / a.ranks) * a.width + a.place;
}

__global__ void round_sum_all(float *sum, const float *from, int64_t n, RoundAttr attr)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        float x = from[place_of_micro(attr, 0) + i];
        for (int64_t micro = 1; micro < attr.ranks * attr.rounds; micro++)
            x += from[place_of_micro(attr, micro) + i];
        sum[i] = x;
    }
}

/* in: sum gathered; out: sum */
extern "C" Err round_sum_cuda(const Call *call)
{
    int64_t n = shape_count(in_shape(call->node, 0));
    cuda_launch(cuda_stream(call), round_sum_all, cuda_blocks(call, n, ROUND_THREADS),
                ROUND_THREADS, 0, (float *)call->out[0], (const float *)call->in[1], n,
                *ATTR(call->node, RoundAttr));
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(round_store, .run = round_store_cuda)
CUDA_KERNEL(round_gather, .prepare = round_gather_prepare_cuda, .run = records_move)
CUDA_KERNEL(round_sum, .run = round_sum_cuda)
