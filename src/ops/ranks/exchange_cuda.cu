/* exchange_cuda.cu -- packing, folding and putting in place on CUDA. The transfers between them run in
 * a queue beside the kernels (comm/queue.h). */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "comm/comm.h"
#include "ops/optimizer/optim.h"
#include "ops/ranks/exchange.h"
#include "ops/ranks/transfers.h"
}

/* Copies of many tensors, with their types: as many per launch as its arguments hold. */
enum { MOVE_BLOCK = 8192, MOVE_MAX = 480 };

typedef struct Move {
    AnyIn   from;
    AnyOut  to;
    int64_t count, end; /* from `count` to `end` come zeros */
    bool    aligned;    /* four at a time */
} Move;

typedef struct MoveJob {
    Move    of[MOVE_MAX];
    int32_t first[MOVE_MAX + 1]; /* its first block in this launch */
    int32_t n;
} MoveJob;

static_assert(sizeof(MoveJob) < 32000, "MoveJob is passed to a kernel by value");

template <int N> __device__ __forceinline__ void move_pack(const Move &of, int64_t i)
{
    float x[N];
    any_get<N>(of.from, i, x);
    any_put<N>(of.to, i, x);
}

__global__ void __launch_bounds__(ROW_THREADS) move_all(const __grid_constant__ MoveJob job)
{
    cuda_begin();
    int     at = job_of(job.first, job.n);
    Move    of = job.of[at];
    int64_t from = (int64_t)((int32_t)blockIdx.x - job.first[at]) * MOVE_BLOCK;
    int64_t end = from + MOVE_BLOCK < of.end ? from + MOVE_BLOCK : of.end;
    int64_t to = end < of.count ? end : of.count;
    int64_t packed = of.aligned ? from + (to - from) / 4 * 4 : from;
    float   zero[1] = { 0 };
    for (int64_t i = from + threadIdx.x * 4; i < packed; i += ROW_THREADS * 4)
        move_pack<4>(of, i);
    for (int64_t i = packed + threadIdx.x; i < to; i += ROW_THREADS)
        move_pack<1>(of, i);
    for (int64_t i = (to > from ? to : from) + threadIdx.x; i < end; i += ROW_THREADS)
        any_put<1>(of.to, i, zero);
}

static Err move_launch(const Call *call, MoveJob *job)
{
    if (job->first[job->n])
        cuda_launch(cuda_stream(call), move_all, (unsigned)job->first[job->n], ROW_THREADS, 0,
                    *job);
    CUDA_LAUNCHED();
    job->n = 0;
    return OK;
}

/* Adds one more to a launch, which goes when it is full. */
static Err move_add(const Call *call, MoveJob *job, Move of)
{
    of.aligned = pack_aligned(of.from.p) && pack_aligned(of.to.p);
    job->of[job->n] = of;
    job->first[job->n + 1] = job->first[job->n] + (int32_t)ceil_div(of.end, MOVE_BLOCK);
    return ++job->n == MOVE_MAX ? move_launch(call, job) : OK;
}

/* in: after, then the gradients; out: packed received */
extern "C" Err exchange_cuda(const Call *call)
{
    const Bucket *b = ATTR(call->node, RankAttr)->bucket;
    MoveJob       job = {};
    for (int i = 0; i < b->n; i++) {
        int64_t end = (i + 1 < b->n ? b->first[i + 1] : b->total) - b->first[i];
        Move    of = { any_in(call, i + 1),
                       { (float *)call->out[0] + b->first[i], F32 },
                       shape_count(in_shape(call->node, i + 1)),
                       end };
        TRY(move_add(call, &job, of));
    }
    TRY(move_launch(call, &job));
    return transfer_start(call);
}

typedef struct Fold {
    float         *sum;
    const float   *own, *received;
    const int32_t *counters;
    int64_t        shard, count;
    int            me, ranks;
} Fold;

template <int N> __device__ __forceinline__ void fold_pack(const Fold &f, bool first, int64_t i)
{
    float sum[N], g[N];
    if (!first)
        get_pack<N>((const float *)f.sum, i, sum);
    for (int r = 0; r < f.ranks; r++) {
        const float *from = r == f.me ? f.own : f.received + (r < f.me ? r : r - 1) * f.shard;
        get_pack<N>(from, i, g);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] = first && r == 0 ? g[j] : sum[j] + g[j];
    }
    put_pack<N>(f.sum, i, sum);
}

__global__ void __launch_bounds__(ROW_THREADS) fold_all(const Fold f)
{
    cuda_begin();
    bool    first = f.counters[COUNTER_MICRO] < f.ranks;
    int64_t at = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * ROW_THREADS, packs = f.count / 4;
    for (int64_t i = at; i < packs; i += step)
        fold_pack<4>(f, first, i * 4);
    for (int64_t i = packs * 4 + at; i < f.count; i += step)
        fold_pack<1>(f, first, i);
}

/* in: sum packed received counters; out: sum. Shards begin at multiples of BUCKET_ALIGN elements. */
extern "C" Err fold_cuda(const Call *call)
{
    const Bucket *b = ATTR(call->node, RankAttr)->bucket;
    int           me = comm_rank(call_comm(call));
    Fold          f = { (float *)call->out[0],
                        (const float *)call->in[1] + b->border[me],
                        (const float *)call->in[2],
                        (const int32_t *)call->in[3],
                        b->shard,
                        shard_count(b, me),
                        me,
                        b->ranks };
    static_assert(BUCKET_ALIGN % 4 == 0, "fold_pack reads four at a time");
    TRY(transfer_join(call));
    if (f.count)
        cuda_launch(cuda_stream(call), fold_all,
                    cuda_blocks(call, ceil_div(f.count, 4), ROW_THREADS), ROW_THREADS, 0, f);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err gather_shards_cuda(const Call *call) { return transfer_start(call); }

/* in: gathered shard */
extern "C" Err landed_cuda(const Call *call)
{
    TRY(transfer_join(call));
    if (call->out[0] != call->in[0])
        CUDA_TRY(cudaMemcpyAsync(call->out[0], call->in[0], (size_t)out_bytes(call->node, 0),
                                 cudaMemcpyDeviceToDevice, cuda_stream(call)));
    return OK;
}

/* in: gathered shard, then the parameters; out: the parameters */
extern "C" Err put_params_cuda(const Call *call)
{
    const Bucket *b = ATTR(call->node, RankAttr)->bucket;
    MoveJob       job = {};
    TRY(transfer_join(call));
    for (int i = 0; i < b->n; i++) {
        int64_t     count = shape_count(out_shape(call->node, i));
        const char *from = (const char *)call->in[0] + b->first[i] * type_bytes(b->type);
        Move        of = { { from, b->type }, { call->out[i], b->type }, count, count };
        TRY(move_add(call, &job, of));
    }
    return move_launch(call, &job);
}

CUDA_KERNEL(exchange, .prepare = exchange_prepare, .run = exchange_cuda)
CUDA_KERNEL(fold, .run = fold_cuda)
CUDA_KERNEL(gather_shards, .prepare = gather_prepare, .run = gather_shards_cuda)
CUDA_KERNEL(landed, .run = landed_cuda)
CUDA_KERNEL(put_params, .run = put_params_cuda)
