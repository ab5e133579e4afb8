/* grouped_mm_cuda.cu -- grouped products on CUDA: tiles of 64 by 64, sums in fp32.
 *
 * How many rows a group has is known only on the GPU. The grid has as many tiles of rows as there
 * can be, and a block finds its group by walking the ends. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/index/grouped_mm.h"
}

enum { TILE = 64, DEEP = 16, TILE_THREADS = 256, EACH = 4 }; /* a thread has 4 x 4 of the tile */

typedef struct GroupedJob {
    AnyIn          x, w; /* w: dy, of the gradient of w */
    AnyOut         y;
    const int32_t *ends;
    int64_t        t, k, n, groups;
    bool           transposed;
} GroupedJob;

/* A factor's tile of DEEP by TILE, from element `first` on: `step` apart along the sum, `side` apart
 * along the result. Outside it is 0. */
__device__ __forceinline__ void tile_load(float (&tile)[DEEP][TILE + 1], AnyIn x, int64_t first,
                                          int64_t step, int64_t side, int64_t deep, int64_t wide)
{
    bool along_sum = step == 1; /* neighbouring threads read neighbouring elements */
#pragma unroll
    for (int e = 0; e < DEEP * TILE / TILE_THREADS; e++) {
        int   i = e * TILE_THREADS + threadIdx.x;
        int   d = along_sum ? i % DEEP : i / TILE, c = along_sum ? i / DEEP : i % TILE;
        float v = 0;
        if (d < deep && c < wide)
            any_get<1>(x, first + d * step + c * side, &v);
        tile[d][c] = v;
    }
}

__device__ __forceinline__ void tile_add(const float (&a)[DEEP][TILE + 1],
                                         const float (&b)[DEEP][TILE + 1], float (&sum)[EACH][EACH])
{
    int row = threadIdx.x / 16, column = threadIdx.x % 16;
#pragma unroll
    for (int d = 0; d < DEEP; d++) {
        float p[EACH], q[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            p[i] = a[d][row + 16 * i];
            q[i] = b[d][column + 16 * i];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                sum[i][j] += p[i] * q[j];
    }
}

__device__ __forceinline__ void tile_store(AnyOut y, int64_t first, int64_t ld, int64_t rows,
                                           int64_t columns, const float (&sum)[EACH][EACH])
{
    int row = threadIdx.x / 16, column = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (row + 16 * i < rows && column + 16 * j < columns)
                any_put<1>(y, first + (row + 16 * i) * ld + column + 16 * j, &sum[i][j]);
}

/* An end, or the last row if it lies behind that: the host does not see ends. */
__device__ __forceinline__ int64_t end_of(const GroupedJob &job, int64_t g)
{
    int64_t end = g < 0 ? 0 : g < job.groups ? job.ends[g] : job.t;
    return end < 0 ? 0 : end < job.t ? end : job.t;
}

/* Rows of this block's tile: of *group, or behind the last end (group -1). */
__device__ __forceinline__ void tile_rows(const GroupedJob &job, int64_t *group, int64_t *from,
                                          int64_t *to)
{
    int64_t left = blockIdx.x, start = 0;
    *group = -1;
    for (int64_t g = 0; g <= job.groups; g++) {
        int64_t end = end_of(job, g);
        int64_t tiles = end > start ? (end - start + TILE - 1) / TILE : 0;
        if (left < tiles) {
            *group = g < job.groups ? g : -1;
            *from = start + left * TILE;
            *to = *from + TILE < end ? *from + TILE : end;
            return;
        }
        left -= tiles;
        start = end > start ? end : start;
    }
    *from = *to = 0; /* one of the blocks that are not needed */
}

__global__ void __launch_bounds__(TILE_THREADS) grouped_rows(GroupedJob job)
{
    cuda_begin();
    __shared__ float a[DEEP][TILE + 1], b[DEEP][TILE + 1];
    float            sum[EACH][EACH] = {};
    int64_t          g, from, to, c0 = (int64_t)blockIdx.y * TILE;
    tile_rows(job, &g, &from, &to);
    if (from == to)
        return;
    for (int64_t d = 0; d < job.k && g >= 0; d += DEEP) {
        tile_load(a, job.x, from * job.k + d, 1, job.k, job.k - d, to - from);
        if (job.transposed)
            tile_load(b, job.w, (g * job.n + c0) * job.k + d, 1, job.k, job.k - d, job.n - c0);
        else
            tile_load(b, job.w, (g * job.k + d) * job.n + c0, job.n, 1, job.k - d, job.n - c0);
        __syncthreads();
        tile_add(a, b, sum);
        __syncthreads();
    }
    tile_store(job.y, from * job.n + c0, job.n, to - from, job.n - c0, sum);
}

/* One tile of dw of a group: x^T dy over the group's rows. */
__global__ void __launch_bounds__(TILE_THREADS) grouped_weights(GroupedJob job)
{
    cuda_begin();
    __shared__ float a[DEEP][TILE + 1], b[DEEP][TILE + 1];
    float            sum[EACH][EACH] = {};
    int64_t g = blockIdx.z, k0 = (int64_t)blockIdx.x * TILE, c0 = (int64_t)blockIdx.y * TILE;
    int64_t from = end_of(job, g - 1), to = end_of(job, g);
    for (int64_t r = from; r < to; r += DEEP) {
        tile_load(a, job.x, r * job.k + k0, job.k, 1, to - r, job.k - k0);
        tile_load(b, job.w, r * job.n + c0, job.n, 1, to - r, job.n - c0);
        __syncthreads();
        tile_add(a, b, sum);
        __syncthreads();
    }
    tile_store(job.y, (g * job.k + k0) * job.n + c0, job.n, job.k - k0, job.n - c0, sum);
}

static GroupedJob grouped_job(const Call *call, int64_t n)
{
    return { any_in(call, 0),
             any_in(call, 1),
             any_out(call, 0),
             (const int32_t *)call->in[2],
             in_shape(call->node, 0).dim[0],
             in_shape(call->node, 0).dim[1],
             n,
             in_shape(call->node, 2).dim[0],
             ATTR(call->node, GroupedAttr)->transposed };
}

extern "C" Err grouped_mm_cuda(const Call *call)
{
    GroupedJob job = grouped_job(call, out_shape(call->node, 0).dim[1]);
    dim3 grid((unsigned)(ceil_div(job.t, TILE) + job.groups + 1), (unsigned)ceil_div(job.n, TILE));
    cuda_launch(cuda_stream(call), grouped_rows, grid, TILE_THREADS, 0, job);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err grouped_mm_grad_w_cuda(const Call *call)
{
    GroupedJob job = grouped_job(call, in_shape(call->node, 1).dim[1]);
    dim3       grid((unsigned)ceil_div(job.k, TILE), (unsigned)ceil_div(job.n, TILE),
                    (unsigned)job.groups);
    cuda_launch(cuda_stream(call), grouped_weights, grid, TILE_THREADS, 0, job);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(grouped_mm, .run = grouped_mm_cuda)
CUDA_KERNEL(grouped_mm_grad_w, .run = grouped_mm_grad_w_cuda)
