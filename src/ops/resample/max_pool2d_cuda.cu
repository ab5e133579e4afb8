/* max_pool2d_cuda.cu -- max pooling on CUDA: a thread per cell and pack of channels. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/resample/max_pool2d.h"
}

typedef struct PoolGrid {
    int64_t images, height, width, packs; /* of x; packs of its channels */
} PoolGrid;

/* As in PyTorch, a later value wins only if it is larger or NaN. */
__device__ __forceinline__ bool wins(float later, float best)
{
    return later > best || later != later;
}

__device__ __forceinline__ int64_t corner(const PoolGrid &k, int64_t image, int64_t row,
                                          int64_t column, int64_t c)
{
    return ((image * k.height + row) * k.width + column) * k.packs + c;
}

template <int N>
__global__ void __launch_bounds__(ROW_THREADS) pool_cells(AnyIn x, AnyOut y, PoolGrid k)
{
    int64_t rows = k.height / 2, columns = k.width / 2, count = k.images * rows * columns * k.packs;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t c, row, column,
            image = divided(divided(divided(t, k.packs, &c), columns, &column), rows, &row);
        Raw<N> raw[4];
        float  best[N], v[N];
#pragma unroll
        for (int i = 0; i < 4; i++)
            raw[i] = raw_load<N>(x, corner(k, image, 2 * row + i / 2, 2 * column + i % 2, c) * N);
        raw_get<N>(x.type, raw[0], best);
#pragma unroll
        for (int i = 1; i < 4; i++) {
            raw_get<N>(x.type, raw[i], v);
#pragma unroll
            for (int j = 0; j < N; j++)
                best[j] = wins(v[j], best[j]) ? v[j] : best[j];
        }
        any_put<N>(y, t * N, best);
    }
}

/* Includes the incomplete cells of an odd last row or column, whose gradient is zero. */
template <int N>
__global__ void __launch_bounds__(ROW_THREADS)
    pool_cells_grad(AnyIn x, AnyIn dy, AnyOut dx, PoolGrid k)
{
    int64_t rows = (k.height + 1) / 2, columns = (k.width + 1) / 2,
            count = k.images * rows * columns * k.packs;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t c, row, column,
            image = divided(divided(divided(t, k.packs, &c), columns, &column), rows, &row);
        bool  whole = row < k.height / 2 && column < k.width / 2;
        float best[N], d[N], v[N];
        int   where[N];
        if (whole) {
            Raw<N> raw[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                raw[i] = raw_load<N>(x,
                                     corner(k, image, 2 * row + i / 2, 2 * column + i % 2, c) * N);
            any_get<N>(
                dy, (((image * (k.height / 2) + row) * (k.width / 2) + column) * k.packs + c) * N,
                d);
            raw_get<N>(x.type, raw[0], best);
#pragma unroll
            for (int j = 0; j < N; j++)
                where[j] = 0;
#pragma unroll
            for (int i = 1; i < 4; i++) {
                raw_get<N>(x.type, raw[i], v);
#pragma unroll
                for (int j = 0; j < N; j++)
                    if (wins(v[j], best[j])) {
                        best[j] = v[j];
                        where[j] = i;
                    }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t r = 2 * row + i / 2, s = 2 * column + i % 2;
            if (r >= k.height || s >= k.width)
                continue;
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = whole && where[j] == i ? d[j] : 0.0f;
            any_put<N>(dx, corner(k, image, r, s, c) * N, v);
        }
    }
}

static PoolGrid cells_of(Shape x, PackOf pack)
{
    return { x.dim[0], x.dim[1], x.dim[2], x.dim[3] / pack.n };
}

extern "C" Err max_pool2d_cuda(const Call *call)
{
    Shape   s = in_shape(call->node, 0);
    AnyIn   x = any_in(call, 0);
    AnyOut  y = any_out(call, 0);
    PackOf  pack = pack_of(s.dim[3], x, y);
    int64_t count = shape_count(out_shape(call->node, 0)) / pack.n;
    WITH_PACK(pack, N,
              pool_cells<N>
              <<<cuda_blocks(call, count, ROW_THREADS), ROW_THREADS, 0, cuda_stream(call)>>>(
                  x, y, cells_of(s, pack));)
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err max_pool2d_grad_cuda(const Call *call)
{
    Shape   s = in_shape(call->node, 0);
    AnyIn   x = any_in(call, 0), dy = any_in(call, 1);
    AnyOut  dx = any_out(call, 0);
    PackOf  pack = pack_of(s.dim[3], x, dy, dx);
    int64_t count = s.dim[0] * ((s.dim[1] + 1) / 2) * ((s.dim[2] + 1) / 2) * s.dim[3] / pack.n;
    WITH_PACK(pack, N,
              pool_cells_grad<N>
              <<<cuda_blocks(call, count, ROW_THREADS), ROW_THREADS, 0, cuda_stream(call)>>>(
                  x, dy, dx, cells_of(s, pack));)
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(max_pool2d, .run = max_pool2d_cuda)
CUDA_KERNEL(max_pool2d_grad, .run = max_pool2d_grad_cuda)
