/* gather_cuda.cu -- gather, scatter_add and scatter on CUDA. An index outside its axis reads NaN (0
 * for integers) and writes nothing, since the host does not see indices here. */
#include "ops/embedding/id_sums_cuda.h"
#include "ops/elementwise/units_cuda.h"
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/index/gather.h"
}

typedef struct GatherJob { /* widths in units */
    const int32_t *index;
    int64_t        a, n, k, m, count;
    bool           shared, wrap, whole; /* whole: of integers */
    int64_t        padding;
} GatherJob;

static GatherJob gather_job(const GatherAttr *at, const void *index, Type type)
{
    return { (const int32_t *)index, at->a,      at->n, at->k, at->m, 0, at->shared, at->wrap,
             !type_is_float(type),   at->padding };
}

/* The index of (a, m, k), counted from the front; -1: outside. */
__device__ __forceinline__ int64_t index_at(const GatherJob &job, int64_t a, int64_t m, int64_t k)
{
    int64_t i = job.index[job.shared ? m : (a * job.m + m) * job.k + k];
    i = i < 0 && job.wrap ? i + job.n : i;
    return i >= 0 && i < job.n ? i : -1;
}

/* Place i of (A, M, K), or of (A, N, K). */
__device__ __forceinline__ void place_of(int64_t i, int64_t rows, int64_t width, int64_t *a,
                                         int64_t *row, int64_t *k)
{
    *a = divided(divided(i, width, k), rows, row);
}

template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    gather_units(U *__restrict__ y, const U *__restrict__ x, GatherJob job)
{
    cuda_begin();
    U outside;
    memset(&outside, job.whole ? 0 : 0xff, sizeof outside); /* NaN in every float type */
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t a, m, k;
        place_of(i, job.m, job.k, &a, &m, &k);
        int64_t n = index_at(job, a, m, k);
        y[i] = n >= 0 ? x[(a * job.n + n) * job.k + k] : outside;
    }
}

/* The widest unit in which rows of K elements can be copied. */
static int row_unit(const GatherAttr *at, int size, const void *x, const void *y)
{
    int unit = at->shared ? unit_of_pointer(unit_of_pointer(unit_of(16, at->k * size), x), y)
                          : size;
    return unit < size ? size : unit;
}

extern "C" Err gather_cuda(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    Type              type = in_type(call->node, 0);
    int               size = type_bytes(type), unit = row_unit(at, size, call->in[0], call->out[0]);
    GatherJob         job = gather_job(at, call->in[1], type);
    job.k = job.k * size / unit;
    job.count = job.a * job.m * job.k;
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), gather_units<U>,
                          cuda_blocks(call, job.count, ROW_THREADS), ROW_THREADS, 0,
                          (U *)call->out[0], (const U *)call->in[0], job);)
    CUDA_LAUNCHED();
    return OK;
}

/* ---- sums in the order of the indices ---- */

/* A thread walks the indices of one (a, k) and adds to y, in their order. Loads of some run ahead. */
__global__ void __launch_bounds__(ROW_THREADS) add_columns(float *y, AnyIn src, GatherJob job)
{
    cuda_begin();
    constexpr int AHEAD = 8;
    int64_t       i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x, k;
    if (i >= job.a * job.k)
        return;
    int64_t a = divided(i, job.k, &k);
    for (int64_t m = 0; m < job.m; m += AHEAD) {
        int64_t n[AHEAD];
        float   x[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            n[j] = m + j < job.m ? index_at(job, a, m + j, k) : -1;
            if (n[j] >= 0)
                any_get<1>(src, (a * job.m + m + j) * job.k + k, &x[j]);
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (n[j] >= 0 && n[j] != job.padding)
                y[(a * job.n + n[j]) * job.k + k] += x[j];
    }
}

/* No two indices are equal: the order does not matter. */
__global__ void __launch_bounds__(ROW_THREADS) add_distinct(float *y, AnyIn src, GatherJob job)
{
    cuda_begin();
    int64_t count = job.a * job.m * job.k;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t a, m, k;
        float   x;
        place_of(i, job.m, job.k, &a, &m, &k);
        int64_t n = index_at(job, a, m, k);
        if (n < 0)
            continue;
        any_get<1>(src, i, &x);
        y[(a * job.n + n) * job.k + k] += x;
    }
}

/* A thread searches the indices for one (a, n, k). */
__global__ void __launch_bounds__(ROW_THREADS)
    add_searching(float *y, const float *before, AnyIn src, GatherJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t a, n, k;
        place_of(i, job.n, job.k, &a, &n, &k);
        float sum = before ? before[i] : 0;
        for (int64_t m = 0; m < job.m && n != job.padding; m++)
            if (index_at(job, a, m, k) == n) {
                float x;
                any_get<1>(src, (a * job.m + m) * job.k + k, &x);
                sum += x;
            }
        y[i] = sum;
    }
}

/* Both give the same bits: sums in the order of m. A column costs a chain of loads and stores. */
static bool columns_pay(const GatherAttr *at)
{
    double walks = 8.0 * (double)at->m * (double)ceil_div(at->a * at->k, 65536);
    double searches = (double)at->m * (double)ceil_div(at->a * at->n * at->k, 131072);
    return walks <= searches;
}

static bool rows_by_id(const GatherAttr *at) { return at->shared && at->a == 1 && !at->distinct; }

extern "C" Err scatter_add_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    const GatherAttr *at = ATTR(n, GatherAttr);
    if (rows_by_id(at))
        choice->workspace_bytes = id_sums_workspace(at->m, at->n, at->k,
                                                    ((const CudaHandle *)device->handle)->sms);
    return OK;
}

extern "C" Err scatter_add_cuda(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    GatherJob         job = gather_job(at, call->in[1], F32);
    AnyIn             src = any_in(call, 2);
    const float      *before = (const float *)call->in[0];
    float            *y = (float *)call->out[0];
    job.count = at->a * at->n * at->k;
    if (rows_by_id(at)) {
        IdSums sums = { job.index, src, before, y, at->m, at->n, at->k, at->wrap, at->padding };
        return id_sums_run(call, &sums);
    }
    if (!at->distinct && !columns_pay(at)) {
        cuda_launch(cuda_stream(call), add_searching, cuda_blocks(call, job.count, ROW_THREADS),
                    ROW_THREADS, 0, y, before, src, job);
        CUDA_LAUNCHED();
        return OK;
    }
    size_t bytes = (size_t)job.count * sizeof(float);
    if (!before)
        CUDA_TRY(cudaMemsetAsync(y, 0, bytes, cuda_stream(call)));
    else if (before != y)
        CUDA_TRY(cudaMemcpyAsync(y, before, bytes, cudaMemcpyDeviceToDevice, cuda_stream(call)));
    if (at->distinct)
        cuda_launch(cuda_stream(call), add_distinct,
                    cuda_blocks(call, at->a * at->m * at->k, ROW_THREADS), ROW_THREADS, 0, y, src,
                    job);
    else
        cuda_launch(cuda_stream(call), add_columns, (unsigned)ceil_div(at->a * at->k, ROW_THREADS),
                    ROW_THREADS, 0, y, src, job);
    CUDA_LAUNCHED();
    return OK;
}

/* ---- writes ---- */

__global__ void __launch_bounds__(ROW_THREADS) last_of_indices(int32_t *last, GatherJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t a, m, k;
        place_of(i, job.m, job.k, &a, &m, &k);
        int64_t n = index_at(job, a, m, k);
        if (n >= 0)
            atomicMax(&last[(a * job.n + n) * job.k + k], (int32_t)m);
    }
}

extern "C" Err scatter_last_cuda(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    GatherJob         job = gather_job(at, call->in[0], I32);
    if (at->shared)
        job.a = job.k = 1;
    job.count = job.a * job.m * job.k;
    CUDA_TRY(cudaMemsetAsync(call->out[0], 0xff, (size_t)(job.a * job.n * job.k) * sizeof(int32_t),
                             cuda_stream(call)));
    cuda_launch(cuda_stream(call), last_of_indices, cuda_blocks(call, job.count, ROW_THREADS),
                ROW_THREADS, 0, (int32_t *)call->out[0], job);
    CUDA_LAUNCHED();
    return OK;
}

/* src NULL: zeros are written. y may be x. */
template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    scatter_units(U *y, const U *x, const U *__restrict__ src, const int32_t *__restrict__ last,
                  GatherJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t a, n, k;
        place_of(i, job.n, job.k, &a, &n, &k);
        int64_t m = last[job.shared ? n : i];
        if (m >= 0)
            y[i] = src ? src[(a * job.m + m) * job.k + k] : U{};
        else if (x != y)
            y[i] = x[i];
    }
}

extern "C" Err scatter_cuda(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    int               size = type_bytes(in_type(call->node, 0)),
        unit = row_unit(at, size, call->in[0], call->out[0]);
    GatherJob job = gather_job(at, call->in[1], F32);
    if (call->in[2])
        unit = unit_of_pointer(unit, call->in[2]);
    job.k = job.k * size / unit;
    job.count = job.a * job.n * job.k;
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), scatter_units<U>,
                          cuda_blocks(call, job.count, ROW_THREADS), ROW_THREADS, 0,
                          (U *)call->out[0], (const U *)call->in[0], (const U *)call->in[2],
                          (const int32_t *)call->in[3], job);)
    CUDA_LAUNCHED();
    return OK;
}

template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    scatter_grads(U *__restrict__ dsrc, const U *__restrict__ dy, const int32_t *__restrict__ last,
                  GatherJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t a, m, k;
        place_of(i, job.m, job.k, &a, &m, &k);
        int64_t n = index_at(job, a, m, k), at = (a * job.n + n) * job.k + k;
        bool    won = n >= 0 && last[job.shared ? n : at] == m;
        dsrc[i] = won ? dy[at] : U{};
    }
}

extern "C" Err scatter_grad_cuda(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    int               size = type_bytes(in_type(call->node, 0)),
        unit = row_unit(at, size, call->in[0], call->out[0]);
    GatherJob job = gather_job(at, call->in[1], F32);
    job.k = job.k * size / unit;
    job.count = job.a * job.m * job.k;
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), scatter_grads<U>,
                          cuda_blocks(call, job.count, ROW_THREADS), ROW_THREADS, 0,
                          (U *)call->out[0], (const U *)call->in[0], (const int32_t *)call->in[2],
                          job);)
    CUDA_LAUNCHED();
    return OK;
}

/* ---- several indices as one ---- */

typedef struct FlatJob {
    const int32_t *index[INDEX_MAX];
    int64_t        stride[INDEX_MAX][MAX_RANK]; /* 0 where an index is repeated */
    FlatIndexAttr  at;
    int64_t        count;
} FlatJob;

__global__ void __launch_bounds__(ROW_THREADS) flat_indices(int32_t *flat, FlatJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t left = i, from[INDEX_MAX] = { 0 }, sum = 0;
#pragma unroll
        for (int x = MAX_RANK - 1; x >= 0; x--)
            if (x < job.at.shape.rank) {
                int64_t at;
                left = divided(left, job.at.shape.dim[x], &at);
#pragma unroll
                for (int j = 0; j < INDEX_MAX; j++)
                    if (j < job.at.n)
                        from[j] += at * job.stride[j][x];
            }
        bool inside = true;
#pragma unroll
        for (int j = 0; j < INDEX_MAX; j++)
            if (j < job.at.n) {
                int64_t id = job.index[j][from[j]], n = job.at.extent[j];
                id = id < 0 ? id + n : id;
                inside = inside && id >= 0 && id < n;
                sum = sum * n + id;
            }
        flat[i] = inside ? (int32_t)sum : INT32_MAX;
    }
}

extern "C" Err flat_index_cuda(const Call *call)
{
    FlatJob job = {};
    job.at = *ATTR(call->node, FlatIndexAttr);
    job.count = shape_count(job.at.shape);
    for (int j = 0; j < job.at.n; j++) {
        Shape   s = in_shape(call->node, j);
        int     skip = job.at.shape.rank - s.rank;
        int64_t step = 1;
        job.index[j] = (const int32_t *)call->in[j];
        for (int x = s.rank - 1; x >= 0; x--) {
            job.stride[j][x + skip] = s.dim[x] == 1 ? 0 : step;
            step *= s.dim[x];
        }
    }
    cuda_launch(cuda_stream(call), flat_indices, cuda_blocks(call, job.count, ROW_THREADS),
                ROW_THREADS, 0, (int32_t *)call->out[0], job);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(gather, .run = gather_cuda)
CUDA_KERNEL(scatter_add, .choose = scatter_add_choose_cuda, .run = scatter_add_cuda)
CUDA_KERNEL(scatter_last, .run = scatter_last_cuda)
CUDA_KERNEL(scatter, .run = scatter_cuda)
CUDA_KERNEL(scatter_grad, .run = scatter_grad_cuda)
CUDA_KERNEL(flat_index, .run = flat_index_cuda)
