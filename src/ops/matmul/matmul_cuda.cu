/* matmul_cuda.cu -- batched products of two activations on CUDA, by the Backend's primitives. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/matmul/matmul.h"
}

template <int N>
__global__ void __launch_bounds__(ROW_THREADS) matmul_scale(AnyOut y, float alpha, int64_t count)
{
    cuda_begin();
    AnyIn x = { y.p, y.type };
    for (int64_t i = ((int64_t)blockIdx.x * ROW_THREADS + threadIdx.x) * N; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS * N) {
        float v[N];
        any_get<N>(x, i, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] *= alpha;
        any_put<N>(y, i, v);
    }
}

extern "C" Err matmul_cuda(const Call *call)
{
    float   alpha = ATTR(call->node, MatmulAttr)->alpha;
    int64_t count = shape_count(out_shape(call->node, 0));
    AnyOut  y = any_out(call, 0);
    PackOf  pack = { 8 };
    TRY(matmul_run(call));
    if (alpha == 1)
        return OK;
    pack_with(&pack, y.p, y.type);
    pack_along(&pack, count);
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), matmul_scale<N>,
                          cuda_blocks(call, ceil_div(count, N), ROW_THREADS), ROW_THREADS, 0, y,
                          alpha, count);)
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(matmul, .choose = matmul_choose, .prepare = matmul_prepare, .run = matmul_cuda)
