/* reduce_cuda.cu -- sums over the middle of (A, M, K), and repetition, on CUDA.
 *
 * There are three ways, taken by the shape alone, so that a sum has one order:
 *   own     many outputs: a thread owns a pack of them and walks M
 *   warp    K is 1 and there are many rows: a warp sums a row
 *   block   few outputs: M is cut into pieces and a block sums one; a second kernel adds the
 *           pieces.
 * A block takes whole lines of the (M, K) slab, as many rows side by side as fit, so that narrow
 * rows are read as full packs; what belongs to one column is then folded in shared memory. */
#include "ops/reduce_cuda.h"
#include "ops/units_cuda.h"

#define class class_
extern "C" {
#include "ops/reduce.h"
}
#undef class

enum { SUM_THREADS = 256, SUM_AHEAD = 4 };   /* packs in flight per thread */

typedef enum SumWay { SUM_OWN, SUM_WARP, SUM_BLOCK } SumWay;

typedef struct SumCuts {
    SumWay  way;
    int64_t rows, pieces;        /* of M, SUM_BLOCK: rows of a piece */
} SumCuts;

static SumCuts sum_cuts(int64_t a, int64_t m, int64_t k, int sms)
{
    /* columns of a block; elements of a piece */
    const int64_t wide = 4 * SUM_THREADS, least = 32 * 1024;
    SumCuts cuts = { SUM_BLOCK, m, 1 };
    if (m <= 4 || ((k >= 8 || m <= 64) && a * k >= (int64_t)sms * 4096)) {
        cuts.way = SUM_OWN;
        return cuts;
    }
    if (k == 1 && (m <= 1024 || a >= (int64_t)sms * 32)) {
        cuts.way = SUM_WARP;
        return cuts;
    }
    int64_t blocks = a * ceil_div(k, wide), want = ceil_div((int64_t)sms * 4, blocks);
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

/* sum[j] += the packs at first, first + step, ..., `count` of them. */
template <int N>
__device__ __forceinline__ void sum_packs(const SumJob &job, int64_t first, int64_t step,
                                          int64_t count, float (&sum)[N])
{
    int64_t i = 0;
    float   x[N], y[N];
    for (; i + SUM_AHEAD <= count; i += SUM_AHEAD) {
        Raw<N> raw[SUM_AHEAD], raw_y[SUM_AHEAD];
#pragma unroll
        for (int s = 0; s < SUM_AHEAD; s++)
            raw[s] = raw_load<N>(job.x, first + (i + s) * step);
        if (job.y.p)
#pragma unroll
            for (int s = 0; s < SUM_AHEAD; s++)
                raw_y[s] = raw_load<N>(job.y, first + (i + s) * step);
#pragma unroll
        for (int s = 0; s < SUM_AHEAD; s++) {
            raw_get<N>(job.x.type, raw[s], x);
            if (job.y.p)
                raw_get<N>(job.y.type, raw_y[s], y);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] = job.y.p ? fmaf(x[j], y[j], sum[j]) : sum[j] + x[j];
        }
    }
    for (; i < count; i++) {
        any_get<N>(job.x, first + i * step, x);
        if (job.y.p)
            any_get<N>(job.y, first + i * step, y);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] = job.y.p ? fmaf(x[j], y[j], sum[j]) : sum[j] + x[j];
    }
}

__device__ __forceinline__ float sum_whole(const SumJob &job, int64_t at, float sum)
{
    return job.before ? job.before[at] + sum * job.scale : sum * job.scale;
}

template <int N> __global__ void __launch_bounds__(SUM_THREADS) sum_own(SumJob job)
{
    int64_t packs = job.a * job.k / N;
    for (int64_t p = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x; p < packs;
         p += (int64_t)gridDim.x * SUM_THREADS) {
        int64_t k, a = divided(p * N, job.k, &k);
        float   sum[N] = { 0 };
        sum_packs<N>(job, a * job.m * job.k + k, job.k, job.m, sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] = sum_whole(job, p * N + j, sum[j]);
        any_put<N>(job.out, p * N, sum);
    }
}

template <int N> __global__ void __launch_bounds__(SUM_THREADS) sum_warp(SumJob job)
{
    int64_t warps = (int64_t)gridDim.x * (SUM_THREADS / 32);
    int     lane = threadIdx.x % 32;
    for (int64_t a = (int64_t)blockIdx.x * (SUM_THREADS / 32) + threadIdx.x / 32; a < job.a;
         a += warps) {
        float   sum[N] = { 0 }, total = 0;
        int64_t packs = job.m / N;
        sum_packs<N>(job, a * job.m + lane * N, 32 * N, lane < packs ? (packs - lane + 31) / 32 : 0,
                     sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            total += sum[j];
        total = sum_whole(job, a, warp_sum(total));
        if (lane == 0)
            any_put<1>(job.out, a, &total);
    }
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
template <int N>
__global__ void __launch_bounds__(SUM_THREADS)
    sum_block(SumJob job, SumCuts cuts, int64_t side, int64_t columns, float *partial)
{
    __shared__ float lines[SUM_THREADS * N];
    int64_t block, piece, a = divided(divided(blockIdx.x, columns, &block), cuts.pieces, &piece);
    int64_t from = piece * cuts.rows, rows = job.m - from < cuts.rows ? job.m - from : cuts.rows;
    int64_t line = (int64_t)blockDim.x * N, e = (int64_t)threadIdx.x * N;
    int64_t first = (a * job.m + from) * job.k, out = (a * cuts.pieces + piece) * job.k;
    float   sum[N] = { 0 };
    if (side == 0) {                         /* a thread's columns are its own */
        int64_t k = block * line + e;
        if (k >= job.k)
            return;
        sum_packs<N>(job, first + k, job.k, rows, sum);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum_give(job, out + k + j, sum[j], partial);
        return;
    }
    int64_t n = rows * job.k;
    sum_packs<N>(job, first + e, line, e < n ? (n - e + line - 1) / line : 0, sum);
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

/* The pieces added: by a thread per output, or by a warp where outputs are few. */
__global__ void __launch_bounds__(SUM_THREADS)
    sum_pieces(SumJob job, int64_t pieces, const float *partial, int lanes)
{
    int64_t t = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x, at = t / lanes;
    if (at >= job.a * job.k)                 /* whole warps, where lanes is 32 */
        return;
    int64_t k, a = divided(at, job.k, &k);
    float   sum = 0;
    for (int64_t p = t % lanes; p < pieces; p += lanes)
        sum += partial[(a * pieces + p) * job.k + k];
    if (lanes == 32)
        sum = warp_sum(sum);
    if (t % lanes)
        return;
    sum = sum_whole(job, at, sum);
    any_put<1>(job.out, at, &sum);
}

static int64_t common_factor(int64_t a, int64_t b) { return b ? common_factor(b, a % b) : a; }

static Err sum_by_blocks(const Call *call, const SumJob *job, SumCuts cuts, PackOf pack)
{
    float  *partial = cuts.pieces > 1 ? (float *)call->workspace : NULL;
    pack_along(&pack, job->m * job->k);
    if (job->k / common_factor(job->k, pack.n) > SUM_THREADS)
        pack_along(&pack, job->k);
    int64_t unit = job->k / common_factor(job->k, pack.n);       /* threads that make whole rows */
    bool    beside = unit <= SUM_THREADS;
    int64_t threads = beside ? SUM_THREADS / unit * unit : (int64_t)SUM_THREADS,
            line = threads * pack.n;
    int64_t columns = beside ? 1 : ceil_div(job->k, line), side = beside ? line / job->k : 0;
    int64_t blocks = job->a * cuts.pieces * columns;
    if (blocks > INT32_MAX)
        return fail(E_DEVICE, "%s: a sum in %lld pieces is too large for one launch",
                    call->node->op->name, (long long)blocks);
    WITH_PACK(pack, N,
              sum_block<N><<<(unsigned)blocks, (unsigned)threads, 0, cuda_stream(call)>>>(
                  *job, cuts, side, columns, partial);)
    CUDA_LAUNCHED();
    if (!partial)
        return OK;
    int lanes = job->a * job->k < 16384 ? 32 : 1;
    sum_pieces<<<(unsigned)ceil_div(job->a * job->k * lanes, SUM_THREADS), SUM_THREADS, 0,
                 cuda_stream(call)>>>(*job, cuts.pieces, partial, lanes);
    CUDA_LAUNCHED();
    return OK;
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
    if (job.a * job.k == 0)
        return OK;

    if (cuts.way == SUM_OWN) {
        pack_with(&pack, job.out.p, job.out.type);
        pack_along(&pack, job.k);
        WITH_PACK(pack, N,
                  unsigned blocks = cuda_blocks(call, job.a * job.k / N, SUM_THREADS);
                  sum_own<N><<<blocks, SUM_THREADS, 0, cuda_stream(call)>>>(job);)
    } else if (cuts.way == SUM_WARP) {
        pack_along(&pack, job.m);
        WITH_PACK(pack, N,
                  unsigned blocks = cuda_blocks(call, job.a * 32, SUM_THREADS);
                  sum_warp<N><<<blocks, SUM_THREADS, 0, cuda_stream(call)>>>(job);)
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
                  repeat_units<U>
                  <<<cuda_blocks(call, count, SUM_THREADS), SUM_THREADS, 0, cuda_stream(call)>>>(
                      (U *)y.p, (const U *)x.p, at->m, k, count);)
    } else {
        PackOf pack = { 8 };
        pack_with(&pack, x.p, x.type);
        pack_with(&pack, y.p, y.type);
        pack_along(&pack, at->k);
        WITH_PACK(pack, N, int64_t packs = at->a * at->m * at->k / N; repeat_scaled<N>
                  <<<cuda_blocks(call, packs, SUM_THREADS), SUM_THREADS, 0, cuda_stream(call)>>>(
                      x, y, at->m, at->k, packs, at->scale);)
    }
    CUDA_LAUNCHED();
    return OK;
}
