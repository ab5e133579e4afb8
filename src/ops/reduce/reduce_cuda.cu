/* reduce_cuda.cu -- sums over the middle of (A, M, K), and repetition, on CUDA.
 *
 * There are four methods, chosen by the shape alone, so that a sum has one order:
 *   thread  many outputs: a thread owns a pack of them and walks M warp    K is 1 and there are
 *   many rows: a warp sums a row thin    M is short: a block has few packs of columns and all of M,
 *   so that one launch suffices block   few outputs: M is divided into slices and a block sums one;
 *   a second kernel adds the partial sums. Where partial column sums of the gated tensor are asked
 *   for (ops/linear/column_sums.h), each slice gives one of them. A block reads the (M, K) slab in
 *   stripes of as many whole rows as fit, so that narrow rows are read as full packs; the sums of
 *   one column are then folded in shared memory. */
#include "ops/linear/column_sums_cuda.h"
#include "ops/reduce/reduce_cuda.h"
#include "ops/elementwise/units_cuda.h"

extern "C" {
#include "ops/reduce/reduce.h"
}

/* AHEAD: packs in flight; THIN: packs of columns of a thin block, each summed by 32 threads;
 * WIDE: threads of a block that sums a slice, so that two rows of 1404 are one stripe */
enum { SUM_THREADS = 256, SUM_WIDE = 512, SUM_AHEAD = 8, SUM_THIN = SUM_THREADS / 32 };
/* of sum_partials: columns of a block, threads per column */
enum { PARTIAL_COLUMNS = 8, PARTIAL_LANES = 64 };

typedef enum SumMethod { SUM_THREAD, SUM_WARP, SUM_THIN_ROWS, SUM_BLOCK } SumMethod;

/* What is summed: x, x y, or x y while x times the gate is written. A template argument, because
 * packs in flight are registers: those of y would be reserved even where there is no y. */
typedef enum SumOf { SUM_X, SUM_XY, SUM_GATED } SumOf;

#define SUM_KERNEL(kernel, N, job)                                                                 \
    ((job).gate.p ? kernel<N, SUM_GATED> : (job).y.p ? kernel<N, SUM_XY> : kernel<N, SUM_X>)

typedef struct SumConfig {
    SumMethod method;
    int64_t   rows, slices; /* SUM_BLOCK: rows of M per slice, and how many slices */
} SumConfig;

static SumConfig sum_config(int64_t a, int64_t m, int64_t k, int sms)
{
    /* columns of a block; smallest slice, in elements */
    const int64_t wide = 8 * SUM_WIDE, min_elements = 16 * 1024;
    SumConfig     config = { SUM_BLOCK, m, 1 };
    if (m <= 4 || ((k >= 8 || m <= 64) && a * k >= (int64_t)sms * 4096)) {
        config.method = SUM_THREAD;
        return config;
    }
    if (k == 1 && (m <= 1024 || a >= (int64_t)sms * 32)) {
        config.method = SUM_WARP;
        return config;
    }
    if (k >= 64 && m <= 32 * SUM_AHEAD) {
        config.method = SUM_THIN_ROWS;
        return config;
    }
    int64_t blocks = a * ceil_div(k, wide), want = ceil_div((int64_t)sms * 2, blocks);
    int64_t max_slices = ceil_div(m * (k < wide ? k : wide), min_elements);
    int64_t slices = want < max_slices ? want : max_slices;
    config.rows = ceil_div(ceil_div(m, slices), 8) * 8; /* a slice begins on a whole pack */
    config.slices = ceil_div(m, config.rows);
    return config;
}

size_t sum_bytes(int64_t a, int64_t m, int64_t k, int sms)
{
    SumConfig config = sum_config(a, m, k, sms);
    return config.slices > 1 ? (size_t)(a * config.slices * k) * sizeof(float) : 0;
}

size_t sum_col_sums_bytes(int64_t a, int64_t m, int64_t k, int64_t rows_each)
{
    return rows_each < m ? (size_t)(a * ceil_div(m, rows_each) * k) * sizeof(float) : 0;
}

/* Adds one pack of x or x y to the sum; SUM_GATED also writes x times the gate. */
template <int N, SumOf OF>
__device__ __forceinline__ void sum_pack(const SumJob &job, int64_t i, const float (&x)[N],
                                         const float (&y)[N], const float (&gate)[N],
                                         float (&sum)[N])
{
#pragma unroll
    for (int j = 0; j < N; j++)
        sum[j] = OF == SUM_X ? sum[j] + x[j] : fmaf(x[j], y[j], sum[j]);
    if constexpr (OF == SUM_GATED) {
        float product[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            product[j] = x[j] * gate[j];
        any_put<N>(job.gated, i, product);
    }
}

/* As sum_some for SUM_GATED, with the column sums of what is written in col_sum. */
template <int N, int S>
__device__ __forceinline__ void sum_some_col_sums(const SumJob &job, int64_t first, int64_t step,
                                                  const float (&gate)[N], float (&sum)[N],
                                                  float (&col_sum)[N])
{
    Raw<N> raw[S], raw_y[S];
    float  x[N], y[N];
#pragma unroll
    for (int s = 0; s < S; s++) {
        raw[s] = raw_load<N>(job.x, first + s * step);
        raw_y[s] = raw_load<N>(job.y, first + s * step);
    }
#pragma unroll
    for (int s = 0; s < S; s++) {
        raw_get<N>(job.x.type, raw[s], x);
        raw_get<N>(job.y.type, raw_y[s], y);
        sum_pack<N, SUM_XY>(job, first + s * step, x, y, gate, sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] *= gate[j];
        round_to<N>(job.gated.type, x);
        any_put<N>(job.gated, first + s * step, x);
#pragma unroll
        for (int j = 0; j < N; j++)
            col_sum[j] += x[j];
    }
}

/* sum[j] += the S packs at first, first + step, ...: all are loaded before the first is used. */
template <int N, SumOf OF, int S>
__device__ __forceinline__ void sum_some(const SumJob &job, int64_t first, int64_t step,
                                         const float (&gate)[N], float (&sum)[N])
{
    Raw<N> raw[S], raw_y[S];
    float  x[N], y[N];
#pragma unroll
    for (int s = 0; s < S; s++)
        raw[s] = raw_load<N>(job.x, first + s * step);
    if (OF != SUM_X)
#pragma unroll
        for (int s = 0; s < S; s++)
            raw_y[s] = raw_load<N>(job.y, first + s * step);
#pragma unroll
    for (int s = 0; s < S; s++) {
        raw_get<N>(job.x.type, raw[s], x);
        if (OF != SUM_X)
            raw_get<N>(job.y.type, raw_y[s], y);
        sum_pack<N, OF>(job, first + s * step, x, y, gate, sum);
    }
}

/* The same for `count` packs. All cover the same columns, so a thread needs one pack of the gate:
 * from column `at` of row a on. */
template <int N, SumOf OF>
__device__ __forceinline__ void sum_packs(const SumJob &job, int64_t first, int64_t step,
                                          int64_t count, int64_t a, int64_t at, float (&sum)[N])
{
    float gate[N];
    if (OF == SUM_GATED)
#pragma unroll
        for (int j = 0; j < N; j++)
            any_get<1>(job.gate, a * job.k + at, &gate[j]), at = at + 1 < job.k ? at + 1 : 0;
    for (; count >= SUM_AHEAD; count -= SUM_AHEAD, first += SUM_AHEAD * step)
        sum_some<N, OF, SUM_AHEAD>(job, first, step, gate, sum);
    if (count & 4) {
        sum_some<N, OF, 4>(job, first, step, gate, sum);
        first += 4 * step;
    }
    if (count & 2) {
        sum_some<N, OF, 2>(job, first, step, gate, sum);
        first += 2 * step;
    }
    if (count & 1)
        sum_some<N, OF, 1>(job, first, step, gate, sum);
}

__device__ __forceinline__ float sum_whole(const SumJob &job, int64_t at, float sum)
{
    return job.before ? job.before[at] + sum * job.scale : sum * job.scale;
}

template <int N, SumOf OF> __global__ void __launch_bounds__(SUM_THREADS, 2) sum_thread(SumJob job)
{
    cuda_begin();
    int64_t packs = job.a * job.k / N;
    for (int64_t p = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x; p < packs;
         p += (int64_t)gridDim.x * SUM_THREADS) {
        int64_t k, a = divided(p * N, job.k, &k);
        float   sum[N] = { 0 };
        sum_packs<N, OF>(job, a * job.m * job.k + k, job.k, job.m, a, k, sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] = sum_whole(job, p * N + j, sum[j]);
        any_put<N>(job.out, p * N, sum);
    }
}

template <int N, SumOf OF> __global__ void __launch_bounds__(SUM_THREADS) sum_warp(SumJob job)
{
    cuda_begin();
    int64_t warps = (int64_t)gridDim.x * (SUM_THREADS / 32);
    int     lane = threadIdx.x % 32;
    for (int64_t a = (int64_t)blockIdx.x * (SUM_THREADS / 32) + threadIdx.x / 32; a < job.a;
         a += warps) {
        float   sum[N] = { 0 }, total = 0;
        int64_t packs = job.m / N;
        sum_packs<N, OF>(job, a * job.m + lane * N, 32 * N,
                         lane < packs ? (packs - lane + 31) / 32 : 0, a, 0, sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            total += sum[j];
        total = sum_whole(job, a, warp_sum(total));
        if (lane == 0)
            any_put<1>(job.out, a, &total);
    }
}

/* Threads (SUM_THIN, 32): packs of columns, rows; blocks (columns, A). */
template <int N, SumOf OF> __global__ void __launch_bounds__(SUM_THREADS, 2) sum_thin(SumJob job)
{
    cuda_begin();
    __shared__ float sums[32][SUM_THIN * N];
    int64_t pack = (int64_t)blockIdx.x * SUM_THIN + threadIdx.x, k = pack * N, a = blockIdx.y;
    int     row = threadIdx.y, at = threadIdx.x * N;
    float   sum[N] = { 0 };
    if (k < job.k)
        sum_packs<N, OF>(job, (a * job.m + row) * job.k + k, 32 * job.k,
                         row < job.m ? (job.m - row + 31) / 32 : 0, a, k, sum);
#pragma unroll
    for (int j = 0; j < N; j++)
        sums[row][at + j] = sum[j];
    __syncthreads();
    int thread = threadIdx.y * SUM_THIN + threadIdx.x;
    k = (int64_t)blockIdx.x * (SUM_THIN * N) + thread;
    if (thread >= SUM_THIN * N || k >= job.k)
        return;
    float parts[4] = { 0 }; /* four chains: one of 32 additions would wait */
#pragma unroll
    for (int i = 0; i < 32; i++)
        parts[i % 4] += sums[i][thread];
    float whole = sum_whole(job, a * job.k + k, parts[0] + parts[1] + (parts[2] + parts[3]));
    any_put<1>(job.out, a * job.k + k, &whole);
}

__device__ __forceinline__ void sum_give(const SumJob &job, int64_t at, float sum, float *partial)
{
    float whole = partial ? sum : sum_whole(job, at, sum);
    if (partial)
        partial[at] = sum;
    else
        any_put<1>(job.out, at, &whole);
}

/* Reads a stripe of blockDim.x packs at a time. side: whole rows in a stripe, 0 where a row is
 * wider than a stripe. Blocks: columns fastest, then slices, then A. */
template <int N, SumOf OF>
__global__ void __launch_bounds__(SUM_WIDE, OF == SUM_X ? 2 : 1)
    sum_block(SumJob job, SumConfig config, int64_t side, int64_t columns, float *partial)
{
    cuda_begin();
    __shared__ float sums[SUM_WIDE * N];
    int64_t block, slice, a = divided(divided(blockIdx.x, columns, &block), config.slices, &slice);
    int64_t from = slice * config.rows,
            rows = job.m - from < config.rows ? job.m - from : config.rows;
    int64_t stripe = (int64_t)blockDim.x * N, e = (int64_t)threadIdx.x * N;
    int64_t first = (a * job.m + from) * job.k, out = (a * config.slices + slice) * job.k;
    float   sum[N] = { 0 };
    if (side == 0) { /* a thread's columns are its own */
        int64_t k = block * stripe + e;
        if (k >= job.k)
            return;
        sum_packs<N, OF>(job, first + k, job.k, rows, a, k, sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum_give(job, out + k + j, sum[j], partial);
        return;
    }
    int64_t n = rows * job.k, at, count = divided(e < n ? n - e + stripe - 1 : 0, stripe, &at);
    divided(e, job.k, &at);
    sum_packs<N, OF>(job, first + e, stripe, count, a, at, sum);
#pragma unroll
    for (int j = 0; j < N; j++)
        sums[e + j] = sum[j];
    __syncthreads();
    for (int have = (int)side; have > 1;) { /* add the upper half of the rows to the lower */
        int keep = (have + 1) / 2, fold = (have - keep) * (int)job.k, above = keep * (int)job.k;
        for (int i = threadIdx.x; i < fold; i += blockDim.x)
            sums[i] += sums[i + above];
        __syncthreads();
        have = keep;
    }
    for (int i = threadIdx.x; i < job.k; i += blockDim.x)
        sum_give(job, out + i, sums[i], partial);
}

/* Adds the four sums of a column in a warp of (PARTIAL_COLUMNS, 4); all threads get the result. */
__device__ __forceinline__ float sum_four(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, PARTIAL_COLUMNS);
    return x + __shfl_xor_sync(0xffffffffu, x, 2 * PARTIAL_COLUMNS);
}

/* Adds the partial sums: threads (PARTIAL_COLUMNS, PARTIAL_LANES), blocks (K / PARTIAL_COLUMNS, A).
 * A thread has so few of them that all are fetched at once. */
__global__ void __launch_bounds__(PARTIAL_COLUMNS *PARTIAL_LANES)
    sum_partials(SumJob job, int64_t slices, const float *partial)
{
    cuda_begin();
    __shared__ float sums[PARTIAL_LANES / 4][PARTIAL_COLUMNS];
    int64_t k = (int64_t)blockIdx.x * PARTIAL_COLUMNS + threadIdx.x, at = blockIdx.y * job.k + k;
    float   sum = 0;
#pragma unroll 8
    for (int64_t p = threadIdx.y; p < slices; p += PARTIAL_LANES)
        sum += k < job.k ? partial[(blockIdx.y * slices + p) * job.k + k] : 0;
    sum = sum_four(sum);
    if (threadIdx.y % 4 == 0)
        sums[threadIdx.y / 4][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y >= 4)
        return;
    sum = 0;
#pragma unroll
    for (int i = 0; i < PARTIAL_LANES / 16; i++)
        sum += sums[threadIdx.y * (PARTIAL_LANES / 16) + i][threadIdx.x];
    sum = sum_whole(job, at, sum_four(sum));
    if (threadIdx.y == 0 && k < job.k)
        any_put<1>(job.out, at, &sum);
}

/* One slice: partial sums of x y, and partial column sums of the gated tensor. */
template <int N>
__global__ void __launch_bounds__(COL_SUMS_THREADS, 3)
    sum_gated_col_sums(SumJob job, int64_t slices, float *partial)
{
    cuda_begin();
    __shared__ __align__(16) float of[COL_SUMS_THREADS * N], of_gated[COL_SUMS_THREADS * N];
    int64_t                        slice, a = divided(blockIdx.y, slices, &slice);
    int64_t                        from = a * job.m + slice * job.rows_each;
    int64_t                        to = slice + 1 < slices ? from + job.rows_each : (a + 1) * job.m;
    int64_t k = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N, at = col_sums_column<N>();
    float   gate[N], sum[N] = { 0 }, gated[N] = { 0 };
    if (k < job.k) {
#pragma unroll
        for (int j = 0; j < N; j++)
            any_get<1>(job.gate, a * job.k + k + j, &gate[j]);
        COL_SUMS_WALK(
            from + threadIdx.y, to, S, row,
            sum_some_col_sums<N, S>(job, row * job.k + k, blockDim.y * job.k, gate, sum, gated);)
    }
    float whole = col_sums_fold<N>(of, sum), col_sum = col_sums_fold<N>(of_gated, gated);
    if (at < 0 || at >= job.k)
        return;
    job.col_sums[blockIdx.y * job.k + at] = col_sum;
    sum_give(job, blockIdx.y * job.k + at, whole, partial);
}

static int64_t common_factor(int64_t a, int64_t b) { return b ? common_factor(b, a % b) : a; }

static Err sum_add_partials(const Call *call, const SumJob *job, int64_t slices,
                            const float *partial)
{
    cuda_launch(cuda_stream(call), sum_partials,
                dim3((unsigned)ceil_div(job->k, PARTIAL_COLUMNS), (unsigned)job->a),
                dim3(PARTIAL_COLUMNS, PARTIAL_LANES), 0, *job, slices, partial);
    CUDA_LAUNCHED();
    return OK;
}

static Err sum_by_blocks(const Call *call, const SumJob *job, SumConfig config, PackOf pack)
{
    float *partial = config.slices > 1 ? (float *)call->workspace : NULL;
    pack_along(&pack, job->m * job->k);
    if (job->k / common_factor(job->k, pack.n) > SUM_WIDE)
        pack_along(&pack, job->k);
    int64_t unit = job->k / common_factor(job->k, pack.n); /* threads that read whole rows */
    bool    beside = unit <= SUM_WIDE;
    int64_t columns = beside ? 1 : ceil_div(job->k, SUM_WIDE * pack.n);
    int64_t threads = beside ? SUM_WIDE / unit * unit
                             : ceil_div(ceil_div(job->k, columns * pack.n), 32) * 32;
    int64_t side = beside ? threads * pack.n / job->k : 0;
    int64_t blocks = job->a * config.slices * columns;
    if (blocks > INT32_MAX)
        return fail(E_DEVICE, "%s: a sum over %lld blocks is too large for one launch",
                    call->node->op->name, (long long)blocks);
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), SUM_KERNEL(sum_block, N, *job), (unsigned)blocks,
                          (unsigned)threads, 0, *job, config, side, columns, partial);)
    CUDA_LAUNCHED();
    if (!partial)
        return OK;
    return sum_add_partials(call, job, config.slices, partial);
}

static Err sum_by_col_sums(const Call *call, const SumJob *job, PackOf pack)
{
    int64_t slices = ceil_div(job->m, job->rows_each);
    float  *partial = slices > 1 ? (float *)call->workspace : NULL;
    pack_along(&pack, job->k);
    int  packs = col_sums_packs(job->k / pack.n);
    dim3 threads((unsigned)packs, (unsigned)(COL_SUMS_THREADS / packs));
    dim3 blocks((unsigned)ceil_div(job->k, packs * pack.n), (unsigned)(job->a * slices));
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), sum_gated_col_sums<N>, blocks, threads, 0, *job,
                          slices, partial);)
    CUDA_LAUNCHED();
    return partial ? sum_add_partials(call, job, slices, partial) : OK;
}

Err sum_cuda_run(const Call *call, const SumJob *given)
{
    SumJob    job = *given;
    SumConfig config = sum_config(job.a, job.m, job.k, cuda_handle(call)->sms);
    PackOf    pack = { 8 };
    if (job.m == 1) { /* only rounding and scaling: one long row */
        job.k *= job.a;
        job.a = 1;
    }
    pack_with(&pack, job.x.p, job.x.type);
    if (job.y.p)
        pack_with(&pack, job.y.p, job.y.type);
    if (job.gate.p)
        pack_with(&pack, job.gated.p, job.gated.type);
    if (job.a * job.k == 0)
        return OK;

    if (job.col_sums)
        return sum_by_col_sums(call, &job, pack);
    if (config.method == SUM_THREAD) {
        pack_with(&pack, job.out.p, job.out.type);
        pack_along(&pack, job.k);
        WITH_PACK(pack, N, unsigned blocks = cuda_blocks(call, job.a * job.k / N, SUM_THREADS);
                  cuda_launch(cuda_stream(call), SUM_KERNEL(sum_thread, N, job), blocks,
                              SUM_THREADS, 0, job);)
    } else if (config.method == SUM_WARP) {
        pack_along(&pack, job.m);
        WITH_PACK(pack, N, unsigned blocks = cuda_blocks(call, job.a * 32, SUM_THREADS);
                  cuda_launch(cuda_stream(call), SUM_KERNEL(sum_warp, N, job), blocks, SUM_THREADS,
                              0, job);)
    } else if (config.method == SUM_THIN_ROWS) {
        pack_along(&pack, job.k);
        WITH_PACK(pack, N, dim3 blocks((unsigned)ceil_div(job.k, SUM_THIN * N), (unsigned)job.a);
                  cuda_launch(cuda_stream(call), SUM_KERNEL(sum_thin, N, job), blocks,
                              dim3(SUM_THIN, 32), 0, job);)
    } else
        return sum_by_blocks(call, &job, config, pack);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err sum_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    const ReduceAttr *at = ATTR(n, ReduceAttr);
    choice->workspace_bytes = sum_bytes(at->a, at->m, at->k,
                                        ((const CudaHandle *)device->handle)->sms);
    return OK;
}

extern "C" Err sum_cuda(const Call *call)
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    AnyIn             y = { NULL, F32 };
    if (call->in[1])
        y = any_in(call, 1);
    SumJob job = { any_in(call, 0), y, any_out(call, 0), at->a, at->m, at->k, at->scale };
    return sum_cuda_run(call, &job);
}

/* y (A, M, K) from x (A, K). */
template <class U>
__global__ void __launch_bounds__(SUM_THREADS)
    repeat_units(U *__restrict__ y, const U *__restrict__ x, int64_t m, int64_t k, int64_t count)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * SUM_THREADS) {
        int64_t at, in_m, a = divided(divided(i, k, &at), m, &in_m);
        y[i] = x[a * k + at];
    }
}

template <int N>
__global__ void __launch_bounds__(SUM_THREADS)
    repeat_scaled(AnyIn x, AnyOut y, int64_t m, int64_t k, int64_t packs, float scale)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x; i < packs;
         i += (int64_t)gridDim.x * SUM_THREADS) {
        int64_t at, in_m, a = divided(divided(i * N, k, &at), m, &in_m);
        float   v[N];
        any_get<N>(x, a * k + at, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] *= scale;
        any_put<N>(y, i * N, v);
    }
}

extern "C" Err repeat_cuda(const Call *call)
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    AnyIn             x = any_in(call, 0);
    AnyOut            y = any_out(call, 0);
    if (at->scale == 1 && x.type == y.type) {
        int64_t bytes = at->k * type_bytes(x.type);
        int     unit = unit_of_pointer(unit_of_pointer(unit_of(16, bytes), x.p), y.p);
        int64_t k = bytes / unit, count = at->a * at->m * k;
        WITH_UNIT(unit, U,
                  cuda_launch(cuda_stream(call), repeat_units<U>,
                              cuda_blocks(call, count, SUM_THREADS), SUM_THREADS, 0, (U *)y.p,
                              (const U *)x.p, at->m, k, count);)
    } else {
        PackOf pack = { 8 };
        pack_with(&pack, x.p, x.type);
        pack_with(&pack, y.p, y.type);
        pack_along(&pack, at->k);
        WITH_PACK(pack, N, int64_t packs = at->a * at->m * at->k / N; cuda_launch(
                      cuda_stream(call), repeat_scaled<N>, cuda_blocks(call, packs, SUM_THREADS),
                      SUM_THREADS, 0, x, y, at->m, at->k, packs, at->scale);)
    }
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(sum, .choose = sum_choose_cuda, .run = sum_cuda)
CUDA_KERNEL(repeat, .run = repeat_cuda)
