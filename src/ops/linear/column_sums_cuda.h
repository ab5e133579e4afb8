/* column_sums_cuda.h -- elementwise CUDA kernels that also write partial column sums of their
 * output (ops/linear/column_sums.h).
 *
 * A block computes one partial sum for some packs of columns: threads (packs, rows), blocks
 * (columns, partial sums). A thread loads four packs before it uses the first. The sums of the
 * threads of a column are added in shared memory. */
#ifndef OPS_LINEAR_COLUMN_SUMS_CUDA_H
#define OPS_LINEAR_COLUMN_SUMS_CUDA_H

#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/linear/column_sums.h"
}

enum { COL_SUMS_THREADS = 256 };

/* Rounds y to the type it is stored in. Works on pairs: single conversions would need an
 * instruction each, in addition to the one that packs two. */
template <int N> __device__ __forceinline__ void round_to(Type type, float (&y)[N])
{
    if (type == F32)
        return;
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        float  above = N > 1 ? y[j + (N > 1)] : 0.0f;
        float2 pair = type == BF16 ? __bfloat1622float2(__floats2bfloat162_rn(y[j], above))
                                   : __half22float2(__floats2half2_rn(y[j], above));
        y[j] = pair.x;
        if (N > 1)
            y[j + (N > 1)] = pair.y;
    }
}

/* Packs side by side in a block: as many as leave few of them idle. */
static inline int col_sums_packs(int64_t packs)
{
    int n = 32;
    while (n > 4 && (ceil_div(packs, n) * n - packs) * 8 > packs)
        n /= 2;
    return n;
}

/* Visits this thread's rows between FROM and TO. The statement runs with S, a constant, for the S
 * rows row, row + blockDim.y, ... */
#define COL_SUMS_WALK(FROM, TO, S, row, ...)                                                       \
    {                                                                                              \
        int64_t row = (FROM), rows_end = (TO);                                                     \
        for (; row + 3 * (int)blockDim.y < rows_end; row += 4 * blockDim.y) {                      \
            constexpr int S = 4;                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (row + (int)blockDim.y < rows_end) {                                                    \
            constexpr int S = 2;                                                                   \
            __VA_ARGS__                                                                            \
            row += 2 * blockDim.y;                                                                 \
        }                                                                                          \
        if (row < rows_end) {                                                                      \
            constexpr int S = 1;                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* The column whose sum col_sums_fold returns to this thread; -1: none. */
template <int N> __device__ __forceinline__ int64_t col_sums_column()
{
    int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x), columns = (int)blockDim.x * N;
    return thread < columns ? (int64_t)blockIdx.x * columns + thread : -1;
}

/* Adds the sums of the threads of a column; `sums` is shared memory of N floats a thread. */
template <int N> __device__ __forceinline__ float col_sums_fold(float *sums, const float (&sum)[N])
{
    int   thread = (int)(threadIdx.y * blockDim.x + threadIdx.x), columns = (int)blockDim.x * N;
    float parts[4] = { 0 }; /* four chains: one would wait for each addition */
#pragma unroll
    for (int j = 0; j < N; j++)
        sums[thread * N + j] = sum[j];
    __syncthreads();
    for (int i = 0; thread < columns && i < (int)blockDim.y; i += 4)
#pragma unroll
        for (int j = 0; j < 4; j++)
            parts[j] += sums[(i + j) * columns + thread];
    return parts[0] + parts[1] + (parts[2] + parts[3]);
}

typedef struct ColSumsJob {
    AnyOut  out; /* (rows, width) */
    float  *col_sums;
    int64_t rows, width, rows_each; /* rows_each: per partial sum */
} ColSumsJob;

/* Computes and writes the S packs at i, i + step, ..., and adds them to sum. */
template <int N, int S, int IN, class F>
__device__ __forceinline__ void col_sums_some(F &f, const RowsIn<IN> &in, const ColSumsJob &job,
                                              int64_t i, int64_t step, float (&sum)[N])
{
    Raw<N> raw[S][IN];
    float  x[IN][N], y[N];
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
        for (int j = 0; j < IN; j++)
            raw[s][j] = raw_load<N>(in.in[j], i + s * step);
#pragma unroll
    for (int s = 0; s < S; s++) {
#pragma unroll
        for (int j = 0; j < IN; j++)
            raw_get<N>(in.in[j].type, raw[s][j], x[j]);
        f.template run<N>(i + s * step, x, y);
        round_to<N>(job.out.type, y);
        any_put<N>(job.out, i + s * step, y);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += y[j];
    }
}

template <int N, int IN, class F>
__global__ void __launch_bounds__(COL_SUMS_THREADS, 3)
    col_sums_kernel(F f, RowsIn<IN> in, ColSumsJob job)
{
    cuda_begin();
    __shared__ __align__(16) float sums[COL_SUMS_THREADS * N];
    int64_t                        k = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    int64_t                        at = col_sums_column<N>();
    int64_t                        from = blockIdx.y * job.rows_each,
            to = from + job.rows_each < job.rows ? from + job.rows_each : job.rows;
    float sum[N] = { 0 };
    f.begin();
    if (k < job.width)
        COL_SUMS_WALK(
            from + threadIdx.y, to, S, row,
            col_sums_some<N, S>(f, in, job, row * job.width + k, blockDim.y * job.width, sum);)
    float sum_of_column = col_sums_fold<N>(sums, sum);
    if (at >= 0 && at < job.width)
        job.col_sums[blockIdx.y * job.width + at] = sum_of_column;
}

/* As rows_cuda; also writes partial column sums of output 0 where they are asked for. */
template <int IN, class F> Err rows_col_sums_cuda(const Call *call, F f)
{
    if (!call_partial_sums(call))
        return rows_cuda<IN>(call, f);
    Shape      shape = out_shape(call->node, 0);
    ColSumsJob job = { any_out(call, 0), call_partial_sums(call), shape_rows(shape), dim(shape, -1),
                       col_sums_rows(shape_rows(shape)) };
    RowsIn<IN> in;
    PackOf     pack = { 8 };
    pack_with(&pack, job.out.p, job.out.type);
    for (int j = 0; j < IN; j++) {
        in.in[j] = any_in(call, j);
        pack_with(&pack, in.in[j].p, in.in[j].type);
    }
    pack_along(&pack, job.width);
    int  packs = col_sums_packs(job.width / pack.n);
    dim3 blocks((unsigned)ceil_div(job.width, packs * pack.n),
                (unsigned)ceil_div(job.rows, job.rows_each));
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), col_sums_kernel<N, IN, F>, blocks,
                          dim3((unsigned)packs, (unsigned)(COL_SUMS_THREADS / packs)), 0, f, in,
                          job);)
    CUDA_LAUNCHED();
    return OK;
}

#endif
