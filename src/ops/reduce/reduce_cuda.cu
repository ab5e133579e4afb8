/* reduce_cuda.cu -- sums over the middle of (A, M, K), and repetition, on CUDA.
 *
 * There are four ways, taken by the shape alone, so that a sum has one order:
 *   own     many outputs: a thread owns a pack of them and walks M
 *   warp    K is 1 and there are many rows: a warp sums a row
 *   thin    M is short: a block has few packs of columns and all of M, so that one launch does
 *   block   few outputs: M is cut into pieces and a block sums one; a second kernel adds the
 *           pieces.
 * Where lines of what passes the gate are asked for (ops/linear/column_sums.h), a piece is a line.
 * A block takes whole lines of the (M, K) slab, as many rows side by side as fit, so that narrow
 * rows are read as full packs; what belongs to one column is then folded in shared memory. */
#include "ops/linear/column_sums_cuda.h"
#include "ops/reduce/reduce_cuda.h"
#include "ops/elementwise/units_cuda.h"

extern "C" {
#include "ops/reduce/reduce.h"
}

/* AHEAD: packs in flight; THIN: packs of columns of a thin block, each summed by 32 threads;
 * WIDE: threads of a block that sums a piece, so that two rows of 1404 are one line */
enum { SUM_THREADS = 256, SUM_WIDE = 512, SUM_AHEAD = 8, SUM_THIN = SUM_THREADS / 32 };
/* of sum_pieces: columns of a block, threads of one of them */
enum { PIECE_COLUMNS = 8, PIECE_LANES = 64 };

typedef enum SumWay { SUM_OWN, SUM_WARP, SUM_THIN_ROWS, SUM_BLOCK } SumWay;

/* What is summed: x, x y, or x y with x times the gate going to its place. Known to the compiler:
 * packs in flight are registers, and those of y would be held free where there is none. */
typedef enum SumOf { SUM_X, SUM_XY, SUM_GATED } SumOf;

#define SUM_KERNEL(kernel, N, job)                                                                 \
    ((job).gate.p ? kernel<N, SUM_GATED> : (job).y.p ? kernel<N, SUM_XY> : kernel<N, SUM_X>)

typedef struct SumCuts {
    SumWay  way;
    int64_t rows, pieces;        /* of M, SUM_BLOCK: rows of a piece */
} SumCuts;

static SumCuts sum_cuts(int64_t a, int64_t m, int64_t k, int sms)
{
    /* columns of a block; elements of a piece */
    const int64_t wide = 8 * SUM_WIDE, least = 16 * 1024;
    SumCuts cuts = { SUM_BLOCK, m, 1 };
    if (m <= 4 || ((k >= 8 || m <= 64) && a * k >= (int64_t)sms * 4096)) {
        cuts.way = SUM_OWN;
        return cuts;
    }
    if (k == 1 && (m <= 1024 || a >= (int64_t)sms * 32)) {
        cuts.way = SUM_WARP;
        return cuts;
    }
    if (k >= 64 && m <= 32 * SUM_AHEAD) {
        cuts.way = SUM_THIN_ROWS;
        return cuts;
    }
    int64_t blocks = a * ceil_div(k, wide), want = ceil_div((int64_t)sms * 2, blocks);
    int64_t most = ceil_div(m * (k < wide ? k : wide), least);
    int64_t pieces = want < most ? want : most;
    cuts.rows = ceil_div(ceil_div(m, pieces), 8) * 8;  /* a piece begins on a whole pack */
    cuts.pieces = ceil_div(m, cuts.rows);
    return cuts;
}

size_t sum_bytes(int64_t a, int64_t m, int64_t k, int sms)
{
    SumCuts cuts = sum_cuts(a, m, k, sms);
    return cuts.pieces > 1 ? (size_t)(a * cuts.pieces * k) * sizeof(float) : 0;
}

size_t sum_lines_bytes(int64_t a, int64_t m, int64_t k, int64_t each)
{
    return each < m ? (size_t)(a * ceil_div(m, each) * k) * sizeof(float) : 0;
}

/* One pack of x, and of y, into the sum; x times the gate goes to its place. */
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

/* The S packs at first, first + step, ...: all are asked for before the first is used. */
template <int N, int S>
__device__ __forceinline__ void sum_some_lined(const SumJob &job, int64_t first, int64_t step,
                                               const float (&gate)[N], float (&sum)[N],
                                               float (&line)[N])
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
            line[j] += x[j];
    }
}

/* sum[j] += the S packs at first, first + step, ...: all are asked for before the first is used. */
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

/* The same for `count` packs. All lie over the same columns, so a thread needs one pack of the
 * gate: from column `at` of row a on. */
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

template <int N, SumOf OF>
__global__ void __launch_bounds__(SUM_THREADS, 2) sum_own(SumJob job)
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

template <int N, SumOf OF>
__global__ void __launch_bounds__(SUM_THREADS) sum_warp(SumJob job)
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
template <int N, SumOf OF>
__global__ void __launch_bounds__(SUM_THREADS, 2) sum_thin(SumJob job)
{
    cuda_begin();
    __shared__ float lines[32][SUM_THIN * N];
    int64_t pack = (int64_t)blockIdx.x * SUM_THIN + threadIdx.x, k = pack * N, a = blockIdx.y;
    int     row = threadIdx.y, at = threadIdx.x * N;
    float   sum[N] = { 0 };
    if (k < job.k)
        sum_packs<N, OF>(job, (a * job.m + row) * job.k + k, 32 * job.k,
                         row < job.m ? (job.m - row + 31) / 32 : 0, a, k, sum);
#pragma unroll
    for (int j = 0; j < N; j++)
        lines[row][at + j] = sum[j];
    __syncthreads();
    int thread = threadIdx.y * SUM_THIN + threadIdx.x;
    k = (int64_t)blockIdx.x * (SUM_THIN * N) + thread;
    if (thread >= SUM_THIN * N || k >= job.k)
        return;
    float parts[4] = { 0 };                      /* 32 in a row would wait for one another */
#pragma unroll
    for (int i = 0; i < 32; i++)
        parts[i % 4] += lines[i][thread];
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

/* `line` elements at a time, blockDim.x packs. side: rows side by side in a line, 0 where a line is
 * a part of one row. Blocks: columns fastest, then pieces, then A. */
template <int N, SumOf OF>
__global__ void __launch_bounds__(SUM_WIDE, OF == SUM_X ? 2 : 1)
    sum_block(SumJob job, SumCuts cuts, int64_t side, int64_t columns, float *partial)
{
    cuda_begin();
    __shared__ float lines[SUM_WIDE * N];
    int64_t block, piece, a = divided(divided(blockIdx.x, columns, &block), cuts.pieces, &piece);
    int64_t from = piece * cuts.rows, rows = job.m - from < cuts.rows ? job.m - from : cuts.rows;
    int64_t line = (int64_t)blockDim.x * N, e = (int64_t)threadIdx.x * N;
    int64_t first = (a * job.m + from) * job.k, out = (a * cuts.pieces + piece) * job.k;
    float   sum[N] = { 0 };
    if (side == 0) {                         /* a thread's columns are its own */
        int64_t k = block * line + e;
        if (k >= job.k)
            return;
        sum_packs<N, OF>(job, first + k, job.k, rows, a, k, sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum_give(job, out + k + j, sum[j], partial);
        return;
    }
    int64_t n = rows * job.k, at, count = divided(e < n ? n - e + line - 1 : 0, line, &at);
    divided(e, job.k, &at);
    sum_packs<N, OF>(job, first + e, line, count, a, at, sum);
#pragma unroll
    for (int j = 0; j < N; j++)
        lines[e + j] = sum[j];
    __syncthreads();
    for (int have = (int)side; have > 1; ) { /* the upper rows onto the lower */
        int keep = (have + 1) / 2, fold = (have - keep) * (int)job.k, above = keep * (int)job.k;
        for (int i = threadIdx.x; i < fold; i += blockDim.x)
            lines[i] += lines[i + above];
        __syncthreads();
        have = keep;
    }
    for (int i = threadIdx.x; i < job.k; i += blockDim.x)
        sum_give(job, out + i, lines[i], partial);
}

/* The four sums of a column in a warp of (PIECE_COLUMNS, 4) added; all get the result. */
__device__ __forceinline__ float sum_four(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, PIECE_COLUMNS);
    return x + __shfl_xor_sync(0xffffffffu, x, 2 * PIECE_COLUMNS);
}

/* The pieces added: threads (PIECE_COLUMNS, PIECE_LANES), blocks (K / PIECE_COLUMNS, A). A thread
 * has so few of them that all are fetched at once. */
__global__ void __launch_bounds__(PIECE_COLUMNS *PIECE_LANES)
    sum_pieces(SumJob job, int64_t pieces, const float *partial)
{
    cuda_begin();
    __shared__ float sums[PIECE_LANES / 4][PIECE_COLUMNS];
    int64_t k = (int64_t)blockIdx.x * PIECE_COLUMNS + threadIdx.x, at = blockIdx.y * job.k + k;
    float   sum = 0;
#pragma unroll 8
    for (int64_t p = threadIdx.y; p < pieces; p += PIECE_LANES)
        sum += k < job.k ? partial[(blockIdx.y * pieces + p) * job.k + k] : 0;
    sum = sum_four(sum);
    if (threadIdx.y % 4 == 0)
        sums[threadIdx.y / 4][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y >= 4)
        return;
    sum = 0;
#pragma unroll
    for (int i = 0; i < PIECE_LANES / 16; i++)
        sum += sums[threadIdx.y * (PIECE_LANES / 16) + i][threadIdx.x];
    sum = sum_whole(job, at, sum_four(sum));
    if (threadIdx.y == 0 && k < job.k)
        any_put<1>(job.out, at, &sum);
}

/* A line of what passes the gate, and a piece of the sum of x y. */
template <int N>
__global__ void __launch_bounds__(LINE_THREADS, 3)
    sum_lined(SumJob job, int64_t pieces, float *partial)
{
    cuda_begin();
    __shared__ __align__(16) float of[LINE_THREADS * N], lines[LINE_THREADS * N];
    int64_t piece, a = divided(blockIdx.y, pieces, &piece), from = a * job.m + piece * job.each;
    int64_t to = piece + 1 < pieces ? from + job.each : (a + 1) * job.m;
    int64_t k = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N, at = line_column<N>();
    float   gate[N], sum[N] = { 0 }, line[N] = { 0 };
    if (k < job.k) {
#pragma unroll
        for (int j = 0; j < N; j++)
            any_get<1>(job.gate, a * job.k + k + j, &gate[j]);
        LINE_WALK(from + threadIdx.y, to, S, row,
                  sum_some_lined<N, S>(job, row * job.k + k, blockDim.y * job.k, gate, sum, line);)
    }
    float whole = line_fold<N>(of, sum), lined = line_fold<N>(lines, line);
    if (at < 0 || at >= job.k)
        return;
    job.lines[blockIdx.y * job.k + at] = lined;
    sum_give(job, blockIdx.y * job.k + at, whole, partial);
}

static int64_t common_factor(int64_t a, int64_t b) { return b ? common_factor(b, a % b) : a; }

static Err sum_by_pieces(const Call *call, const SumJob *job, int64_t pieces, const float *partial)
{
    cuda_launch(cuda_stream(call), sum_pieces,
                dim3((unsigned)ceil_div(job->k, PIECE_COLUMNS), (unsigned)job->a),
                dim3(PIECE_COLUMNS, PIECE_LANES), 0, *job, pieces, partial);
    CUDA_LAUNCHED();
    return OK;
}

static Err sum_by_blocks(const Call *call, const SumJob *job, SumCuts cuts, PackOf pack)
{
    float  *partial = cuts.pieces > 1 ? (float *)call->workspace : NULL;
    pack_along(&pack, job->m * job->k);
    if (job->k / common_factor(job->k, pack.n) > SUM_WIDE)
        pack_along(&pack, job->k);
    int64_t unit = job->k / common_factor(job->k, pack.n);       /* threads that make whole rows */
    bool    beside = unit <= SUM_WIDE;
    int64_t columns = beside ? 1 : ceil_div(job->k, SUM_WIDE * pack.n);
    int64_t threads = beside ? SUM_WIDE / unit * unit
                             : ceil_div(ceil_div(job->k, columns * pack.n), 32) * 32;
    int64_t line = threads * pack.n, side = beside ? line / job->k : 0;
    int64_t blocks = job->a * cuts.pieces * columns;
    if (blocks > INT32_MAX)
        return fail(E_DEVICE, "%s: a sum in %lld pieces is too large for one launch",
                    call->node->op->name, (long long)blocks);
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), SUM_KERNEL(sum_block, N, *job), (unsigned)blocks,
                          (unsigned)threads, 0, *job, cuts, side, columns, partial);)
    CUDA_LAUNCHED();
    if (!partial)
        return OK;
    return sum_by_pieces(call, job, cuts.pieces, partial);
}

static Err sum_by_lines(const Call *call, const SumJob *job, PackOf pack)
{
    int64_t pieces = ceil_div(job->m, job->each);
    float  *partial = pieces > 1 ? (float *)call->workspace : NULL;
    pack_along(&pack, job->k);
    int  packs = line_packs(job->k / pack.n);
    dim3 threads((unsigned)packs, (unsigned)(LINE_THREADS / packs));
    dim3 blocks((unsigned)ceil_div(job->k, packs * pack.n), (unsigned)(job->a * pieces));
    WITH_PACK(pack, N,
              cuda_launch(cuda_stream(call), sum_lined<N>, blocks, threads, 0, *job, pieces,
                          partial);)
    CUDA_LAUNCHED();
    return partial ? sum_by_pieces(call, job, pieces, partial) : OK;
}

Err sum_cuda_run(const Call *call, const SumJob *given)
{
    SumJob  job = *given;
    SumCuts cuts = sum_cuts(job.a, job.m, job.k, cuda_handle(call)->sms);
    PackOf  pack = { 8 };
    if (job.m == 1) {                        /* only rounding and scale: one long row */
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

    if (job.lines)
        return sum_by_lines(call, &job, pack);
    if (cuts.way == SUM_OWN) {
        pack_with(&pack, job.out.p, job.out.type);
        pack_along(&pack, job.k);
        WITH_PACK(pack, N,
                  unsigned blocks = cuda_blocks(call, job.a * job.k / N, SUM_THREADS);
                  cuda_launch(cuda_stream(call), SUM_KERNEL(sum_own, N, job), blocks, SUM_THREADS,
                              0, job);)
    } else if (cuts.way == SUM_WARP) {
        pack_along(&pack, job.m);
        WITH_PACK(pack, N,
                  unsigned blocks = cuda_blocks(call, job.a * 32, SUM_THREADS);
                  cuda_launch(cuda_stream(call), SUM_KERNEL(sum_warp, N, job), blocks, SUM_THREADS,
                              0, job);)
    } else if (cuts.way == SUM_THIN_ROWS) {
        pack_along(&pack, job.k);
        WITH_PACK(pack, N,
                  dim3 blocks((unsigned)ceil_div(job.k, SUM_THIN * N), (unsigned)job.a);
                  cuda_launch(cuda_stream(call), SUM_KERNEL(sum_thin, N, job), blocks,
                              dim3(SUM_THIN, 32), 0, job);)
    } else
        return sum_by_blocks(call, &job, cuts, pack);
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
        WITH_PACK(pack, N,
                  int64_t packs = at->a * at->m * at->k / N;
                  cuda_launch(cuda_stream(call), repeat_scaled<N>,
                              cuda_blocks(call, packs, SUM_THREADS), SUM_THREADS, 0, x, y, at->m,
                              at->k, packs, at->scale);)
    }
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(sum, .choose = sum_choose_cuda, .run = sum_cuda)
CUDA_KERNEL(repeat, .run = repeat_cuda)
