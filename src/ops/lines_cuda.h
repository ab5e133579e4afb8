/* lines_cuda.h -- elementwise work on CUDA that also sums the columns of what it writes, line by
 * line (ops/lines.h).
 *
 * A block has some packs of columns and the rows of one line: threads (packs, rows). Each asks for
 * AHEAD packs before it uses the first; what the threads of a column have is added in shared
 * memory. */
#ifndef OPS_LINES_CUDA_H
#define OPS_LINES_CUDA_H

#include "ops/rows_cuda.h"

#define class class_
extern "C" {
#include "ops/lines.h"
}
#undef class

enum { LINE_THREADS = 256, LINE_AHEAD = 4 };

/* y as it is written to that type */
__device__ __forceinline__ float rounded(Type type, float y)
{
    if (type == F32)
        return y;
    uint32_t bits = half_bits(type, y);
    return type == BF16 ? __uint_as_float(bits << 16)
                        : __half2float(__ushort_as_half((unsigned short)bits));
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
        any_put<N>(job.out, i + s * step, y);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += rounded(job.out.type, y[j]);
    }
}

/* Blocks (columns, lines). */
template <int N, int IN, class F>
__global__ void __launch_bounds__(LINE_THREADS)
    line_kernel(F f, RowsIn<IN> in, LineJob job)
{
    cuda_begin();
    __shared__ float sums[LINE_THREADS * N];
    int     columns = (int)blockDim.x * N, lanes = (int)blockDim.y;
    int64_t first = (int64_t)blockIdx.x * columns, k = first + threadIdx.x * N;
    int64_t from = blockIdx.y * job.each,
            to = from + job.each < job.rows ? from + job.each : job.rows;
    float   sum[N] = { 0 };
    f.begin();
    if (k < job.width) {
        int64_t row = from + threadIdx.y;
        for (; row + (LINE_AHEAD - 1) * lanes < to; row += LINE_AHEAD * lanes)
            line_some<N, LINE_AHEAD>(f, in, job, row * job.width + k, lanes * job.width, sum);
        for (; row < to; row += lanes)
            line_some<N, 1>(f, in, job, row * job.width + k, 0, sum);
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        sums[(int)threadIdx.y * columns + (int)threadIdx.x * N + j] = sum[j];
    __syncthreads();
    int column = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    if (column >= columns || first + column >= job.width)
        return;
    float parts[4] = { 0 };                  /* one behind the other would wait */
    for (int lane = 0; lane < lanes; lane += 4)
#pragma unroll
        for (int i = 0; i < 4; i++)
            parts[i] += sums[(lane + i) * columns + column];
    job.lines[blockIdx.y * job.width + first + column] =
        parts[0] + parts[1] + (parts[2] + parts[3]);
}

/* Packs side by side in a block: as many as leave the fewest of its columns without work. */
static inline int line_packs(int64_t packs)
{
    int best = 32;
    for (int n = 16; n >= 4; n /= 2)
        if (ceil_div(packs, n) * n < ceil_div(packs, best) * best)
            best = n;
    return best;
}

/* As rows_cuda, and with the lines of output 0 where they are asked for. */
template <int IN, class F> Err lines_cuda(const Call *call, F f)
{
    if (!call_lines(call))
        return rows_cuda<IN>(call, f);
    Shape      shape = out_shape(call->node, 0);
    LineJob    job = { any_out(call, 0), call_lines(call), shape_rows(shape), dim(shape, -1),
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
