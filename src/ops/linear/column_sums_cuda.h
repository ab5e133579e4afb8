/* column_sums_cuda.h -- elementwise work on CUDA that also sums the columns of what it writes, line by
 * line (ops/linear/column_sums.h).
 *
 * A block has some packs of columns and the rows of one line: threads (packs, rows), blocks
 * (columns, lines). A thread asks for four packs before it uses the first; what the threads of a
 * column have is added in shared memory. */
#ifndef OPS_LINEAR_COLUMN_SUMS_CUDA_H
#define OPS_LINEAR_COLUMN_SUMS_CUDA_H

#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/linear/column_sums.h"
}

enum { LINE_THREADS = 256 };

/* y becomes what is written of it to that type. By pairs: number by number each is converted by an
 * instruction of its own, beside the one that packs two. */
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

/* Packs side by side in a block: many, but few of them without work. */
static inline int line_packs(int64_t packs)
{
    int n = 32;
    while (n > 4 && (ceil_div(packs, n) * n - packs) * 8 > packs)
        n /= 2;
    return n;
}

/* Runs the statement with S a constant, for the rows row, row + blockDim.y, ... (S of them) of
 * those between FROM and TO that are this thread's. */
#define LINE_WALK(FROM, TO, S, row, ...)                                                           \
    {                                                                                              \
        int64_t row = (FROM), line_end = (TO);                                                     \
        for (; row + 3 * (int)blockDim.y < line_end; row += 4 * blockDim.y) {                      \
            constexpr int S = 4;                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (row + (int)blockDim.y < line_end) {                                                    \
            constexpr int S = 2;                                                                   \
            __VA_ARGS__                                                                            \
            row += 2 * blockDim.y;                                                                 \
        }                                                                                          \
        if (row < line_end) {                                                                      \
            constexpr int S = 1;                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* The column whose sum line_fold gives to this thread; -1: none. */
template <int N> __device__ __forceinline__ int64_t line_column()
{
    int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x), columns = (int)blockDim.x * N;
    return thread < columns ? (int64_t)blockIdx.x * columns + thread : -1;
}

/* What the threads of a column have, added; `sums` is shared memory of N floats a thread. */
template <int N> __device__ __forceinline__ float line_fold(float *sums, const float (&sum)[N])
{
    int   thread = (int)(threadIdx.y * blockDim.x + threadIdx.x), columns = (int)blockDim.x * N;
    float parts[4] = { 0 };                  /* one behind the other would wait */
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

typedef struct LineJob {
    AnyOut  out;                 /* (rows, width) */
    float  *lines;
    int64_t rows, width, each;   /* each: rows of a line */
} LineJob;

/* The S packs at i, i + step, ...: made, written, and added to sum. */
template <int N, int S, int IN, class F>
__device__ __forceinline__ void line_some(F &f, const RowsIn<IN> &in, const LineJob &job, int64_t i,
                                          int64_t step, float (&sum)[N])
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
__global__ void __launch_bounds__(LINE_THREADS, 3)
    line_kernel(F f, RowsIn<IN> in, LineJob job)
{
    cuda_begin();
    __shared__ __align__(16) float sums[LINE_THREADS * N];
    int64_t k = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N, at = line_column<N>();
    int64_t from = blockIdx.y * job.each,
            to = from + job.each < job.rows ? from + job.each : job.rows;
    float   sum[N] = { 0 };
    f.begin();
    if (k < job.width)
        LINE_WALK(from + threadIdx.y, to, S, row,
                  line_some<N, S>(f, in, job, row * job.width + k, blockDim.y * job.width, sum);)
    float line = line_fold<N>(sums, sum);
    if (at >= 0 && at < job.width)
        job.lines[blockIdx.y * job.width + at] = line;
}

/* As rows_cuda, and with the lines of output 0 where they are asked for. */
template <int IN, class F> Err lines_cuda(const Call *call, F f)
{
    if (!call_partial_sums(call))
        return rows_cuda<IN>(call, f);
    Shape      shape = out_shape(call->node, 0);
    LineJob    job = { any_out(call, 0), call_partial_sums(call), shape_rows(shape), dim(shape, -1),
                       lines_each(shape_rows(shape)) };
    RowsIn<IN> in;
    PackOf     pack = { 8 };
    pack_with(&pack, job.out.p, job.out.type);
    for (int j = 0; j < IN; j++) {
        in.in[j] = any_in(call, j);
        pack_with(&pack, in.in[j].p, in.in[j].type);
    }
    pack_along(&pack, job.width);
    int  packs = line_packs(job.width / pack.n);
    dim3 blocks((unsigned)ceil_div(job.width, packs * pack.n),
                (unsigned)ceil_div(job.rows, job.each));
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), line_kernel<N, IN, F>, blocks,
                          dim3((unsigned)packs, (unsigned)(LINE_THREADS / packs)), 0, f, in, job);)
    CUDA_LAUNCHED();
    return OK;
}

#endif
