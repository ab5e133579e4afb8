/* strided_cuda.cu -- copies between strided views on CUDA.
 *
 * If the innermost axis is contiguous on both sides, runs are copied in units of up to 16 bytes. If
 * another axis is the nearer one in the source, the two span a plane, which is transposed tile by
 * tile through shared memory. Otherwise single elements are copied in the order of one side. */
#include "ops/reduce/rows_cuda.h"
#include "ops/elementwise/units_cuda.h"

extern "C" {
#include "ops/arrange/strided.h"
}

enum { TILE = 64, TILE_LANES = 32, TILE_ROWS = 8, THIN = 16 };

static int64_t length(int64_t stride) { return stride < 0 ? -stride : stride; }

static void axes_drop(StridedAxes *axes, int axis)
{
    for (int i = axis; i + 1 < axes->rank; i++) {
        axes->dim[i] = axes->dim[i + 1];
        axes->from[i] = axes->from[i + 1];
        axes->to[i] = axes->to[i + 1];
    }
    axes->rank--;
}

static void axes_by_source(StridedAxes *axes) /* the axes in the source's order */
{
    for (int i = 1; i < axes->rank; i++)
        for (int j = i; j > 0 && length(axes->from[j]) > length(axes->from[j - 1]); j--) {
            int64_t dim = axes->dim[j], from = axes->from[j], to = axes->to[j];
            axes->dim[j] = axes->dim[j - 1], axes->from[j] = axes->from[j - 1],
            axes->to[j] = axes->to[j - 1];
            axes->dim[j - 1] = dim, axes->from[j - 1] = from, axes->to[j - 1] = to;
        }
}

/* The offsets of index `flat`, counted over all the axes in their order, on both sides. */
__device__ __forceinline__ void axes_start(const StridedAxes &axes, int64_t flat, int64_t *from,
                                           int64_t *to)
{
    *from = axes.from0, *to = axes.to0;
#pragma unroll
    for (int i = STRIDED_RANK - 1; i >= 0; i--)
        if (i < axes.rank) {
            int64_t at;
            flat = divided(flat, axes.dim[i], &at);
            *from += at * axes.from[i];
            *to += at * axes.to[i];
        }
}

template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    strided_each(U *__restrict__ y, const U *__restrict__ x, StridedAxes axes, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t from, to;
        axes_start(axes, i, &from, &to);
        y[to] = x[from];
    }
}

typedef struct StridedPlane { /* y[r y_row + i y_step] = x[r x_row + i x_step] */
    int64_t rows, n, x_row, x_step, y_row, y_step, row_tiles, n_tiles, tiles;
} StridedPlane;

template <class U>
__global__ void __launch_bounds__(TILE_LANES *TILE_ROWS)
    strided_tiles(U *__restrict__ y, const U *__restrict__ x, StridedAxes outer, StridedPlane plane)
{
    cuda_begin();
    __shared__ U tile[TILE][TILE + 4 / sizeof(U)]; /* padded against bank conflicts */
    for (int64_t t = blockIdx.x; t < plane.tiles; t += gridDim.x) {
        int64_t from, to, row_tile, n_tile;
        int64_t which = divided(divided(t, plane.row_tiles, &row_tile), plane.n_tiles, &n_tile);
        int64_t r0 = row_tile * TILE, i0 = n_tile * TILE;
        axes_start(outer, which, &from, &to);
        from += i0 * plane.x_step + r0 * plane.x_row;
        to += i0 * plane.y_step + r0 * plane.y_row;
        int rows = (int)(plane.rows - r0 < TILE ? plane.rows - r0 : TILE);
        int n = (int)(plane.n - i0 < TILE ? plane.n - i0 : TILE);
#pragma unroll
        for (int k = 0; k < TILE / TILE_ROWS; k++)
#pragma unroll
            for (int h = 0; h < TILE / TILE_LANES; h++) {
                int i = k * TILE_ROWS + threadIdx.y, r = h * TILE_LANES + threadIdx.x;
                if (i < n && r < rows)
                    tile[i][r] = x[from + i * plane.x_step + r * plane.x_row];
            }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE / TILE_ROWS; k++)
#pragma unroll
            for (int h = 0; h < TILE / TILE_LANES; h++) {
                int r = k * TILE_ROWS + threadIdx.y, i = h * TILE_LANES + threadIdx.x;
                if (i < n && r < rows)
                    y[to + i * plane.y_step + r * plane.y_row] = tile[i][r];
            }
        __syncthreads();
    }
}

static Err copy_each(const Call *call, void *y, const void *x, const StridedAxes *axes, int unit,
                     int64_t count)
{
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), strided_each<U>, cuda_blocks(call, count, ROW_THREADS),
                          ROW_THREADS, 0, (U *)y, (const U *)x, *axes, count);)
    CUDA_LAUNCHED();
    return OK;
}

/* Runs: the innermost axis in units, the rest by strides. */
static Err copy_runs(const Call *call, void *y, const void *x, StridedAxes axes, int size,
                     int64_t count)
{
    int last = axes.rank - 1,
        unit = unit_of(unit_of_pointer(unit_of_pointer(16, x), y), axes.dim[last] * size);
    for (int i = 0; i < last; i++)
        unit = unit_of(unit_of(unit, axes.from[i] * size), axes.to[i] * size);
    unit = unit_of(unit_of(unit, axes.from0 * size), axes.to0 * size);
    int64_t each = unit > size ? unit / size : 1;
    axes.dim[last] /= each;
    axes.from0 /= each, axes.to0 /= each;
    for (int i = 0; i < last; i++) {
        axes.from[i] /= each;
        axes.to[i] /= each;
    }
    return copy_each(call, y, x, &axes, (int)(each * size), count / each);
}

static Err copy_tiles(const Call *call, void *y, const void *x, StridedAxes axes, int inner,
                      int size, int64_t count)
{
    int          last = axes.rank - 1;
    StridedPlane plane = { axes.dim[inner], axes.dim[last], axes.from[inner],
                           axes.from[last], axes.to[inner], axes.to[last] };
    plane.row_tiles = ceil_div(plane.rows, TILE);
    plane.n_tiles = ceil_div(plane.n, TILE);
    plane.tiles = count / plane.rows / plane.n * plane.row_tiles * plane.n_tiles;
    axes_drop(&axes, last);
    axes_drop(&axes, inner);
    dim3         threads(TILE_LANES, TILE_ROWS);
    unsigned     blocks = cuda_blocks(call, plane.tiles * TILE_LANES * TILE_ROWS,
                                      TILE_LANES * TILE_ROWS);
    cudaStream_t stream = cuda_stream(call);
    if (size == 4)
        cuda_launch(stream, strided_tiles<uint32_t>, blocks, threads, 0, (uint32_t *)y,
                    (const uint32_t *)x, axes, plane);
    else if (size == 2)
        cuda_launch(stream, strided_tiles<uint16_t>, blocks, threads, 0, (uint16_t *)y,
                    (const uint16_t *)x, axes, plane);
    else
        cuda_launch(stream, strided_tiles<uint8_t>, blocks, threads, 0, (uint8_t *)y,
                    (const uint8_t *)x, axes, plane);
    CUDA_LAUNCHED();
    return OK;
}

/* The axes are in y's order: strides falling. */
static Err axes_copy(const Call *call, void *y, const void *x, StridedAxes axes, int size)
{
    int     last = axes.rank - 1, inner = last;
    int64_t count = 1;
    for (int i = 0; i < axes.rank; i++) {
        count *= axes.dim[i];
        if (axes.from[i] && length(axes.from[i]) < length(axes.from[inner]))
            inner = i;
    }
    if (axes.rank && axes.from[last] == 1 && axes.to[last] == 1)
        return copy_runs(call, y, x, axes, size, count);
    if (inner == last)
        return copy_each(call, y, x, &axes, size, count);
    if (axes.dim[inner] < THIN || axes.dim[last] < THIN) {
        if (axes.dim[inner] >= THIN || axes.dim[inner] < axes.dim[last])
            axes_by_source(&axes);
        return copy_each(call, y, x, &axes, size, count);
    }
    return copy_tiles(call, y, x, axes, inner, size, count);
}

extern "C" Err strided_cuda(const Call *call)
{
    return axes_copy(call, call->out[0], call->in[0], strided_axes(ATTR(call->node, StridedAttr)),
                     type_bytes(in_type(call->node, 0)));
}

/* ---- gradient ---- */

typedef struct StridedSum {
    StridedAxes axes;                /* to: positive and falling */
    int64_t     reach[STRIDED_RANK]; /* of the axes inside each, in elements of dx */
    int64_t     count;
} StridedSum;

/* Adds all elements of dy that lie at `rest` of the axes from LEVEL on, in their order. */
template <int LEVEL>
__device__ __forceinline__ void walk_add(const StridedSum &job, AnyIn dy, int64_t rest,
                                         int64_t from, float *sum)
{
    if constexpr (LEVEL < STRIDED_RANK) {
        if (LEVEL < job.axes.rank) {
            int64_t step = job.axes.to[LEVEL], over = rest - job.reach[LEVEL];
            int64_t q = over > 0 ? (over + step - 1) / step : 0, end = rest / step;
            end = end < job.axes.dim[LEVEL] - 1 ? end : job.axes.dim[LEVEL] - 1;
            for (; q <= end; q++)
                walk_add<LEVEL + 1>(job, dy, rest - q * step, from + q * job.axes.from[LEVEL], sum);
            return;
        }
    }
    if (rest == 0) {
        float x;
        any_get<1>(dy, from, &x);
        *sum += x;
    }
}

__global__ void __launch_bounds__(ROW_THREADS) strided_sums(AnyOut dx, AnyIn dy, StridedSum job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        float   sum = 0;
        int64_t rest = i - job.axes.to0;
        if (rest >= 0)
            walk_add<0>(job, dy, rest, job.axes.from0, &sum);
        any_put<1>(dx, i, &sum);
    }
}

extern "C" Err strided_grad_cuda(const Call *call)
{
    const StridedGradAttr *at = ATTR(call->node, StridedGradAttr);
    StridedAxes            axes = strided_back(&at->view);
    int64_t                count = shape_count(at->x), read = 1;
    if (at->sums) {
        StridedSum job = { axes };
        int64_t    reach = 0;
        job.count = count;
        for (int i = axes.rank - 1; i >= 0; i--) {
            job.reach[i] = reach;
            reach += (axes.dim[i] - 1) * axes.to[i];
        }
        cuda_launch(cuda_stream(call), strided_sums, cuda_blocks(call, count, ROW_THREADS),
                    ROW_THREADS, 0, any_out(call, 0), any_in(call, 0), job);
        CUDA_LAUNCHED();
        return OK;
    }
    for (int i = 0; i < axes.rank; i++)
        read *= axes.dim[i];
    if (read != count)
        CUDA_TRY(cudaMemsetAsync(call->out[0], 0, (size_t)(count * type_bytes(at->type)),
                                 cuda_stream(call)));
    return axes_copy(call, call->out[0], call->in[0], axes, type_bytes(at->type));
}

CUDA_KERNEL(strided, .run = strided_cuda)
CUDA_KERNEL(strided_grad, .run = strided_grad_cuda)
