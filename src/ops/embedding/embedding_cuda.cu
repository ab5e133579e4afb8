/* embedding_cuda.cu -- rows of a table and sinusoids of time on CUDA. An id outside the table gives
 * a row of NaN and no gradient, since the host does not see ids here. */
#include "ops/reduce/rows_cuda.h"
#include "ops/elementwise/units_cuda.h"
#include "ops/embedding/id_sums_cuda.h"

extern "C" {
#include "ops/embedding/embedding.h"
}

template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    embedding_rows(U *__restrict__ y, const U *__restrict__ table, const int32_t *__restrict__ ids,
                   int64_t max_slices, int64_t row, int64_t count)
{
    cuda_begin();
    U nan;
    memset(&nan, 0xff, sizeof nan); /* NaN in every float type */
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t at, place = divided(i, row, &at);
        int32_t id = ids[place];
        y[i] = id >= 0 && id < max_slices ? table[id * row + at] : nan;
    }
}

extern "C" Err embedding_cuda(const Call *call)
{
    const Node *n = call->node;
    Shape       table = in_shape(n, 0);
    int64_t     bytes = table.dim[1] * type_bytes(in_type(n, 0));
    int     unit = unit_of_pointer(unit_of_pointer(unit_of(16, bytes), call->in[0]), call->out[0]);
    int64_t row = bytes / unit, count = shape_count(in_shape(n, 1)) * row;
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), embedding_rows<U>,
                          cuda_blocks(call, count, ROW_THREADS), ROW_THREADS, 0, (U *)call->out[0],
                          (const U *)call->in[0], (const int32_t *)call->in[1], table.dim[0], row,
                          count);)
    CUDA_LAUNCHED();
    return OK;
}

/* Gradient: a block searches a slice of the ids for one row of the table, its warps taking 32 ids
 * at a time in turn, and adds the rows of dy it finds; the slices are then added in order. */
enum { GRAD_WARPS = 8, GRAD_COLUMNS = 128, GRAD_AHEAD = 4 };

typedef struct IdSplit {
    int64_t columns, slices, slice_ids; /* blocks of columns, slices of the ids, ids per slice */
} IdSplit;

static IdSplit id_split(Shape table, int64_t count, int sms)
{
    int64_t columns = ceil_div(table.dim[1], GRAD_COLUMNS),
            want = ceil_div((int64_t)sms * 16, table.dim[0] * columns);
    int64_t max_slices = ceil_div(count, 2048), slices = want < max_slices ? want : max_slices;
    int64_t slice_ids = slices > 0 ? ceil_div(count, slices) : 1;
    return { columns, count > 0 ? ceil_div(count, slice_ids) : 1, slice_ids };
}

size_t id_sums_workspace(int64_t count, int64_t n, int64_t width, int sms)
{
    IdSplit split = id_split({ 2, { n, width } }, count, sms);
    return split.slices > 1 ? (size_t)(split.slices * n * width) * sizeof(float) : 0;
}

extern "C" Err embedding_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    Shape table = *ATTR(n, Shape);
    choice->workspace_bytes = id_sums_workspace(shape_count(in_shape(n, 0)), table.dim[0],
                                                table.dim[1],
                                                ((const CudaHandle *)device->handle)->sms);
    return OK;
}

typedef struct EmbeddingGrad {
    const int32_t *ids;
    AnyIn          dy;
    float         *sum; /* [slices][V][C] */
    int64_t        count, rows, width;
    IdSplit        split;
    const float   *before; /* of the only slice, or NULL */
    bool           wrap;
    int64_t        padding;
} EmbeddingGrad;

/* acc[] += columns c.. of the rows of dy whose bits are set, in their order. */
template <int N>
__device__ __forceinline__ void add_found(const EmbeddingGrad &job, unsigned found, int64_t first,
                                          int64_t c, float (&acc)[4])
{
    constexpr int STEPS = 4 / N; /* four columns of a lane: one pack, or four far apart */
    while (found) {
        Raw<N> raw[GRAD_AHEAD][STEPS];
        int    have = 0;
#pragma unroll
        for (int s = 0; s < GRAD_AHEAD; s++)
            if (found) {
                int64_t row = first + __ffs((int)found) - 1;
                found &= found - 1;
                have = s + 1;
#pragma unroll
                for (int k = 0; k < STEPS; k++)
                    if (c + 32 * k < job.width)
                        raw[s][k] = raw_load<N>(job.dy, row * job.width + c + 32 * k);
            }
#pragma unroll
        for (int s = 0; s < GRAD_AHEAD; s++)
            if (s < have)
#pragma unroll
                for (int k = 0; k < STEPS; k++)
                    if (c + 32 * k < job.width) {
                        float x[N];
                        raw_get<N>(job.dy.type, raw[s][k], x);
#pragma unroll
                        for (int j = 0; j < N; j++)
                            acc[k * N + j] += x[j];
                    }
    }
}

template <int N>
__global__ void __launch_bounds__(32 * GRAD_WARPS) embedding_sums(EmbeddingGrad job)
{
    cuda_begin();
    __shared__ float sums[GRAD_WARPS][GRAD_COLUMNS];
    int              lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t          column, slice,
        row = divided(divided(blockIdx.x, job.split.columns, &column), job.split.slices, &slice);
    int64_t from = slice * job.split.slice_ids,
            to = from + job.split.slice_ids < job.count ? from + job.split.slice_ids : job.count;
    int64_t c = column * GRAD_COLUMNS + lane * N;
    float   acc[4] = { 0 };
    for (int64_t i = from + warp * 32; i < to; i += 32 * GRAD_WARPS) {
        int64_t id = i + lane < to ? job.ids[i + lane] : -1;
        bool    here = i + lane < to && (id < 0 && job.wrap ? id + job.rows : id) == row &&
                    row != job.padding;
        unsigned found = __ballot_sync(0xffffffffu, here);
        add_found<N>(job, found, i, c, acc);
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        sums[warp][lane * N + k / N * 32 + k % N] = acc[k];
    __syncthreads();
    int at = threadIdx.x;
    c = column * GRAD_COLUMNS + at;
    if (at < GRAD_COLUMNS && c < job.width) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < GRAD_WARPS; w++)
            sum += sums[w][at];
        int64_t to = (slice * job.rows + row) * job.width + c;
        job.sum[to] = job.before ? job.before[to] + sum : sum;
    }
}

__global__ void __launch_bounds__(ROW_THREADS)
    embedding_slices(float *out, const float *before, const float *sum, int64_t slices,
                     int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        float total = 0;
        for (int64_t p = 0; p < slices; p++)
            total += sum[p * count + i];
        out[i] = before ? before[i] + total : total;
    }
}

Err id_sums_run(const Call *call, const IdSums *sums)
{
    Shape         table = { 2, { sums->n, sums->width } };
    IdSplit       split = id_split(table, sums->count, cuda_handle(call)->sms);
    EmbeddingGrad job = { sums->ids,
                          sums->rows,
                          (float *)(split.slices > 1 ? call->workspace : sums->out),
                          sums->count,
                          sums->n,
                          sums->width,
                          split,
                          split.slices > 1 ? NULL : sums->before,
                          sums->wrap,
                          sums->padding };
    int64_t       blocks = sums->n * split.slices * split.columns;
    if (blocks > INT32_MAX)
        return fail(E_DEVICE, "%s: a table of %lld rows is too large for one launch",
                    call->node->op->name, (long long)sums->n);
    if (pack_aligned(job.dy.p) && sums->width % 4 == 0)
        cuda_launch(cuda_stream(call), embedding_sums<4>, (unsigned)blocks, 32 * GRAD_WARPS, 0,
                    job);
    else
        cuda_launch(cuda_stream(call), embedding_sums<1>, (unsigned)blocks, 32 * GRAD_WARPS, 0,
                    job);
    CUDA_LAUNCHED();
    if (split.slices == 1)
        return OK;
    cuda_launch(cuda_stream(call), embedding_slices,
                cuda_blocks(call, shape_count(table), ROW_THREADS), ROW_THREADS, 0, sums->out,
                sums->before, (const float *)job.sum, split.slices, shape_count(table));
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err embedding_grad_cuda(const Call *call)
{
    Shape  table = out_shape(call->node, 0);
    IdSums sums = { (const int32_t *)call->in[0],
                    any_in(call, 1),
                    NULL,
                    (float *)call->out[0],
                    shape_count(in_shape(call->node, 0)),
                    table.dim[0],
                    table.dim[1],
                    false,
                    -1 };
    return id_sums_run(call, &sums);
}

/* In double, so that angles of thousands of turns stay accurate. */
__global__ void __launch_bounds__(ROW_THREADS)
    time_waves(const void *t, bool whole, AnyOut out, double slope, int64_t half, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t k, b = divided(i, half, &k);
        double time = whole ? (double)((const int32_t *)t)[b] : (double)((const float *)t)[b], sine,
               cosine;
        sincos(time * exp(slope * (double)k / (double)half), &sine, &cosine);
        float c = (float)cosine, s = (float)sine;
        any_put<1>(out, 2 * b * half + k, &c);
        any_put<1>(out, (2 * b + 1) * half + k, &s);
    }
}

extern "C" Err time_embedding_cuda(const Call *call)
{
    const TimeAttr *at = ATTR(call->node, TimeAttr);
    int64_t         half = at->width / 2, count = in_shape(call->node, 0).dim[0] * half;
    cuda_launch(cuda_stream(call), time_waves, cuda_blocks(call, count, ROW_THREADS), ROW_THREADS,
                0, call->in[0], in_type(call->node, 0) == I32, any_out(call, 0),
                -log((double)at->longest), half, count);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(embedding, .run = embedding_cuda)
CUDA_KERNEL(embedding_grad, .choose = embedding_grad_choose_cuda, .run = embedding_grad_cuda)
CUDA_KERNEL(time_embedding, .run = time_embedding_cuda)
