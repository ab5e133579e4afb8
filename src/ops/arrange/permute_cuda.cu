/* permute_cuda.cu -- axes in another order, on CUDA.
 *
 * Axes that stay neighbours are merged first. If the innermost axis stays innermost, runs are
 * copied in units of up to 16 bytes. Otherwise the innermost axes of input and output span a plane,
 * which is transposed tile by tile through shared memory, so that both sides touch whole sectors.
 * Where the plane is thin on one side, single elements are copied in the order of that side: its
 * accesses share sectors, and the other side is a few streams. */
#include "ops/reduce/rows_cuda.h"
#include "ops/elementwise/units_cuda.h"

extern "C" {
#include "ops/arrange/permute.h"
}

enum { TILE = 64, TILE_LANES = 32, TILE_ROWS = 8, THIN = 16 };

static void axes_drop(PermuteAxes *axes, int axis)
{
    for (int i = axis; i + 1 < axes->rank; i++) {
        axes->dim[i] = axes->dim[i + 1];
        axes->from[i] = axes->from[i + 1];
        axes->to[i] = axes->to[i + 1];
    }
    axes->rank--;
}

static void axes_by_input(PermuteAxes *axes) /* the axes in the input's order: strides falling */
{
    for (int i = 1; i < axes->rank; i++)
        for (int j = i; j > 0 && axes->from[j] > axes->from[j - 1]; j--) {
            int64_t dim = axes->dim[j], from = axes->from[j], to = axes->to[j];
            axes->dim[j] = axes->dim[j - 1], axes->from[j] = axes->from[j - 1],
            axes->to[j] = axes->to[j - 1];
            axes->dim[j - 1] = dim, axes->from[j - 1] = from, axes->to[j - 1] = to;
        }
}

/* The offsets of index `flat`, counted over all the axes in their order, on both sides. */
__device__ __forceinline__ void axes_start(const PermuteAxes &axes, int64_t flat, int64_t *from,
                                           int64_t *to)
{
    *from = *to = 0;
#pragma unroll
    for (int i = PERMUTE_RANK - 1; i >= 0; i--)
        if (i < axes.rank) {
            int64_t at;
            flat = divided(flat, axes.dim[i], &at);
            *from += at * axes.from[i];
            *to += at * axes.to[i];
        }
}

template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    permute_each(U *__restrict__ y, const U *__restrict__ x, PermuteAxes axes, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t from, to;
        axes_start(axes, i, &from, &to);
        y[to] = x[from];
    }
}

typedef struct Plane { /* y[r y_step + i] = x[i x_step + r] */
    int64_t rows, n, x_step, y_step, row_tiles, n_tiles, tiles;
} Plane;

template <class U>
__global__ void __launch_bounds__(TILE_LANES *TILE_ROWS)
    permute_tiles(U *__restrict__ y, const U *__restrict__ x, PermuteAxes outer, Plane plane)
{
    cuda_begin();
    __shared__ U tile[TILE][TILE + 4 / sizeof(U)]; /* padded against bank conflicts */
    for (int64_t t = blockIdx.x; t < plane.tiles; t += gridDim.x) {
        int64_t from, to, row_tile, n_tile;
        int64_t which = divided(divided(t, plane.row_tiles, &row_tile), plane.n_tiles, &n_tile);
        int64_t r0 = row_tile * TILE, i0 = n_tile * TILE;
        axes_start(outer, which, &from, &to);
        from += i0 * plane.x_step + r0;
        to += r0 * plane.y_step + i0;
        int rows = (int)(plane.rows - r0 < TILE ? plane.rows - r0 : TILE);
        int n = (int)(plane.n - i0 < TILE ? plane.n - i0 : TILE);
#pragma unroll
        for (int k = 0; k < TILE / TILE_ROWS; k++)
#pragma unroll
            for (int h = 0; h < TILE / TILE_LANES; h++) {
                int i = k * TILE_ROWS + threadIdx.y, r = h * TILE_LANES + threadIdx.x;
                if (i < n && r < rows)
                    tile[i][r] = x[from + i * plane.x_step + r];
            }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE / TILE_ROWS; k++)
#pragma unroll
            for (int h = 0; h < TILE / TILE_LANES; h++) {
                int r = k * TILE_ROWS + threadIdx.y, i = h * TILE_LANES + threadIdx.x;
                if (i < n && r < rows)
                    y[to + r * plane.y_step + i] = tile[i][r];
            }
        __syncthreads();
    }
}

static Err permute_one_by_one(const Call *call, PermuteAxes axes, int unit, int64_t count)
{
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), permute_each<U>, cuda_blocks(call, count, ROW_THREADS),
                          ROW_THREADS, 0, (U *)call->out[0], (const U *)call->in[0], axes, count);)
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err permute_cuda(const Call *call)
{
    const PermuteAttr *at = ATTR(call->node, PermuteAttr);
    PermuteAxes        axes = permute_axes(at);
    int64_t            count = shape_count(at->shape), size = type_bytes(in_type(call->node, 0));
    int                last = axes.rank - 1, inner = 0;
    if (count == 0)
        return OK;
    while (axes.from[inner] != 1)
        inner++;

    if (inner == last) { /* runs: the innermost axis in units, the rest by strides */
        int     unit = unit_of(unit_of_pointer(unit_of_pointer(16, call->in[0]), call->out[0]),
                               axes.dim[last] * size);
        int64_t each = unit > size ? unit / size : 1;
        axes.dim[last] /= each;
        for (int i = 0; i < last; i++) {
            axes.from[i] /= each;
            axes.to[i] /= each;
        }
        return permute_one_by_one(call, axes, (int)(each * size), count / each);
    }
    if (axes.dim[inner] < THIN || axes.dim[last] < THIN) {
        if (axes.dim[inner] < axes.dim[last])
            axes_by_input(&axes);
        return permute_one_by_one(call, axes, (int)size, count);
    }
    Plane plane = { axes.dim[inner], axes.dim[last], axes.from[last], axes.to[inner], 0, 0, 0 };
    plane.row_tiles = ceil_div(plane.rows, TILE);
    plane.n_tiles = ceil_div(plane.n, TILE);
    plane.tiles = count / plane.rows / plane.n * plane.row_tiles * plane.n_tiles;
    axes_drop(&axes, last);
    axes_drop(&axes, inner);
    dim3         threads(TILE_LANES, TILE_ROWS);
    unsigned     blocks = cuda_blocks(call, plane.tiles * TILE_LANES * TILE_ROWS,
                                      TILE_LANES * TILE_ROWS);
    cudaStream_t stream = cuda_stream(call);
    void        *x = call->in[0], *y = call->out[0];
    if (size == 4)
        cuda_launch(stream, permute_tiles<uint32_t>, blocks, threads, 0, (uint32_t *)y,
                    (const uint32_t *)x, axes, plane);
    else if (size == 2)
        cuda_launch(stream, permute_tiles<uint16_t>, blocks, threads, 0, (uint16_t *)y,
                    (const uint16_t *)x, axes, plane);
    else
        cuda_launch(stream, permute_tiles<uint8_t>, blocks, threads, 0, (uint8_t *)y,
                    (const uint8_t *)x, axes, plane);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(permute, .run = permute_cuda)
