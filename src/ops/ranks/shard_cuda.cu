/* shard_cuda.cu -- the update of a shard, and the norm of divided gradients, on CUDA. */
#include "ops/optimizer/optim_cuda.h"

extern "C" {
#include "comm/comm.h"
#include "ops/ranks/shard.h"
#include "ops/ranks/transfers.h"
}

enum { SPANS = 128 }; /* at a time */

extern "C" Err shard_update_cuda(const Call *call)
{
    const Bucket *b = ATTR(call->node, ShardUpdateAttr)->bucket;
    int           rank = comm_rank(call_comm(call)), n = 0;
    UpdateSpan    spans[SPANS];
    int64_t       counts[SPANS];
    for (int i = 0; i < b->n; i++) {
        counts[n] = shard_span(call, rank, i, &spans[n]);
        n += counts[n] > 0;
        if (n == SPANS || (n && i + 1 == b->n)) {
            TRY(update_spans_cuda(call, spans, counts, n));
            n = 0;
        }
    }
    return OK;
}

/* ---- the norm: the sums of all parts, put into the order in which one process adds them ---- */

enum { RUNS_MAX = 2600, RUN_THREADS = 128, PARTS = BLOCK_ELEMENTS / NORM_BLOCK };

typedef struct RunJob {
    SumsRun       of[RUNS_MAX];
    const double *from;
    double       *to;
} RunJob;

static_assert(sizeof(RunJob) < 32000, "RunJob is passed to a kernel by value");
static_assert(BLOCK_ELEMENTS % NORM_BLOCK == 0, "shards begin where a part of the norm does");

__global__ void __launch_bounds__(RUN_THREADS) runs_all(const __grid_constant__ RunJob job)
{
    cuda_begin();
    SumsRun run = job.of[blockIdx.x];
    for (int32_t i = threadIdx.x; i < run.n; i += RUN_THREADS)
        job.to[run.to + i] = job.from[run.from + i];
}

/* Workspace: the own sums, those of all ranks, and the same in order. */
typedef struct NormRoom {
    double *own, *all, *ordered;
} NormRoom;

static int64_t norm_own_parts(const Node *n)
{
    return (int64_t)ATTR(n, ShardNormAttr)->max_blocks * PARTS;
}

static NormRoom norm_room(const Call *call)
{
    const ShardNormAttr *attr = ATTR(call->node, ShardNormAttr);
    double              *own = (double *)call->workspace;
    int64_t              parts = norm_own_parts(call->node);
    return { own, own + parts, own + parts * (1 + attr->buckets[0]->ranks) };
}

extern "C" Err shard_norm_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    const ShardNormAttr *attr = ATTR(n, ShardNormAttr);
    int64_t              parts = norm_own_parts(n) * (1 + attr->buckets[0]->ranks);
    choice->workspace_bytes = (size_t)(parts + (int64_t)attr->n_blocks * PARTS) * sizeof(double);
    return OK;
}

typedef struct NormPrepared {
    void    *transfer;
    SumsRun *runs;
    int32_t  n_runs;
    int64_t  n_parts;
} NormPrepared;

extern "C" Err shard_norm_prepare_cuda(Pool *pool, Call *call)
{
    NormPrepared *p = (NormPrepared *)pool_alloc(pool, 1, sizeof *p);
    NormRoom      room = norm_room(call);
    TRY(records_prepare(pool, call, room.own, norm_own_parts(call->node) * (int64_t)sizeof(double),
                        room.all));
    p->transfer = call->prepared;
    p->runs = shard_norm_runs(pool, call->node, NORM_BLOCK, &p->n_runs, &p->n_parts);
    call->prepared = p;
    return OK;
}

/* Sums of this rank's parts: those of a block lie together, whether it has all of them or not. */
static Err norm_own(const Call *call, int rank, double *own)
{
    const ShardNormAttr *attr = ATTR(call->node, ShardNormAttr);
    const Graph         *graph = call->node->graph;
    GradSpan             spans[SPANS];
    int64_t              blocks = 0;
    int                  n = 0;
    for (int32_t k = 0; k < attr->n_buckets; k++) {
        const Bucket *b = attr->buckets[k];
        for (int i = 0; i < b->n; i++) {
            int64_t from, to, count = shape_count(graph->params[b->params[i]].disk);
            if (!shard_range(b, rank, i, count, &from, &to))
                continue;
            const float *sum = (const float *)call->in[k];
            spans[n++] = { sum + b->first[i] + from - b->border[rank], to - from, blocks * PARTS };
            blocks += ceil_div(to - from, (int64_t)BLOCK_ELEMENTS);
            if (n == SPANS) {
                TRY(norm_parts_cuda(call, spans, n, own));
                n = 0;
            }
        }
    }
    return n ? norm_parts_cuda(call, spans, n, own) : OK;
}

static Err norm_order(const Call *call, const NormPrepared *p, const NormRoom *room)
{
    for (int32_t from = 0; from < p->n_runs; from += RUNS_MAX) {
        int32_t n = p->n_runs - from < RUNS_MAX ? p->n_runs - from : RUNS_MAX;
        RunJob  job = {};
        memcpy(job.of, p->runs + from, (size_t)n * sizeof *job.of);
        job.from = room->all;
        job.to = room->ordered;
        cuda_launch(cuda_stream(call), runs_all, (unsigned)n, RUN_THREADS, 0, job);
        CUDA_LAUNCHED();
    }
    return OK;
}

extern "C" Err shard_norm_cuda(const Call *call)
{
    const NormPrepared *p = (const NormPrepared *)call->prepared;
    NormRoom            room = norm_room(call);
    Call                moves = *call;
    moves.prepared = p->transfer;
    TRY(norm_own(call, comm_rank(call_comm(call)), room.own));
    TRY(records_move(&moves));
    TRY(norm_order(call, p, &room));
    return norm_finish_cuda(call, (float *)call->out[0], room.ordered, p->n_parts);
}

CUDA_KERNEL(shard_update, .run = shard_update_cuda)
CUDA_KERNEL(shard_norm, .choose = shard_norm_choose_cuda, .prepare = shard_norm_prepare_cuda,
            .run = shard_norm_cuda)
