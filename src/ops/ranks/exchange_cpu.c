/* exchange_cpu.c -- transfers of shards through host memory.
 *
 * Addresses are fixed for a run, so the parts of each transfer are listed before the first step. */
#include "comm/comm.h"
#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/ranks/exchange.h"
#include "ops/optimizer/optim.h"

#include <string.h>

typedef struct RankParts {
    CommPart *sends, *receives;
    int       n_sends, n_receives;
} RankParts;

static Comm *call_comm(const Call *call)
{
    Comm *comm = call->device->comm;
    REQUIRE(comm && comm_ranks(comm) == ATTR(call->node, RankAttr)->bucket->ranks);
    return comm;
}

static RankParts *parts_new(Pool *pool, int ranks)
{
    RankParts *parts = NEW(pool, RankParts);
    parts->sends = NEWN(pool, CommPart, ranks);
    parts->receives = NEWN(pool, CommPart, ranks);
    return parts;
}

static int64_t shard_count(const Bucket *b, int rank)
{
    return b->border[rank + 1] - b->border[rank];
}

/* Where the part of another rank lies among those received. */
static float *received_from(const Bucket *b, float *received, int me, int rank)
{
    return received + (rank < me ? rank : rank - 1) * b->shard;
}

Err exchange_prepare_cpu(Pool *pool, Call *call)
{
    const Bucket *b = ATTR(call->node, RankAttr)->bucket;
    int           me = comm_rank(call_comm(call));
    RankParts    *parts = call->prepared = parts_new(pool, b->ranks);
    float        *packed = call->out[0], *received = call->out[1];
    for (int r = 0; r < b->ranks; r++) {
        if (r == me)
            continue;
        parts->sends[parts->n_sends++] = (CommPart){ r, packed + b->border[r],
                                                     shard_count(b, r) * (int64_t)sizeof *packed };
        parts->receives[parts->n_receives++] = (CommPart){
            r, received_from(b, received, me, r), shard_count(b, me) * (int64_t)sizeof *packed
        };
    }
    return OK;
}

static Err parts_start(const Call *call)
{
    const RankParts *parts = call->prepared;
    return comm_start(call_comm(call), ATTR(call->node, RankAttr)->slot, parts->sends,
                      parts->n_sends, parts->receives, parts->n_receives);
}

static void pack(const Call *call, const Bucket *b)
{
    float *packed = call->out[0];
    int    threads = call->device->threads;
#pragma omp parallel num_threads(threads)
    for (int i = 0; i < b->n; i++) {
        int64_t from, to, count = shape_count(in_shape(call->node, i + 1));
        int64_t end = (i + 1 < b->n ? b->first[i + 1] : b->total) - b->first[i];
        Type    type = in_type(call->node, i + 1);
        float  *at = packed + b->first[i];
        parallel_range(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        if (to > from)
            convert_rows(F32, at + from, type,
                         (const char *)call->in[i + 1] + from * type_bytes(type),
                         (size_t)(to - from));
        if (omp_get_thread_num() == 0)
            memset(at + count, 0, (size_t)(end - count) * sizeof *at);
    }
}

Err exchange_cpu(const Call *call)
{
    pack(call, ATTR(call->node, RankAttr)->bucket);
    return parts_start(call);
}

static void fold_block(const Bucket *b, int me, float *sum, const float *packed, float *received,
                       bool first, int64_t from, int64_t n)
{
    for (int r = 0; r < b->ranks; r++) {
        const float *g = r == me ? packed + b->border[me] : received_from(b, received, me, r);
        if (first && r == 0)
            memcpy(sum + from, g + from, (size_t)n * sizeof *sum);
        else
            for (int64_t i = from; i < from + n; i++)
                sum[i] += g[i];
    }
}

Err fold_cpu(const Call *call)
{
    const RankAttr *attr = ATTR(call->node, RankAttr);
    const Bucket   *b = attr->bucket;
    Comm           *comm = call_comm(call);
    int             me = comm_rank(comm), threads = call->device->threads;
    const int32_t  *counters = call->in[3];
    bool            first = counters[COUNTER_MICRO] < b->ranks;
    int64_t         count = shard_count(b, me);
    TRY(comm_wait(comm, attr->slot));
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        parallel_range(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i += ROW_BLOCK)
            fold_block(b, me, call->out[0], call->in[1], call->in[2], first, i,
                       to - i < ROW_BLOCK ? to - i : ROW_BLOCK);
    }
    return OK;
}

Err gather_prepare_cpu(Pool *pool, Call *call)
{
    const Bucket *b = ATTR(call->node, RankAttr)->bucket;
    int           me = comm_rank(call_comm(call));
    int64_t       element = type_bytes(out_type(call->node, 0));
    RankParts    *parts = call->prepared = parts_new(pool, b->ranks);
    for (int r = 0; r < b->ranks; r++) {
        parts->sends[parts->n_sends++] = (CommPart){ r, call->in[1], shard_count(b, me) * element };
        parts->receives[parts->n_receives++] = (CommPart){
            r, (char *)call->out[0] + b->border[r] * element, shard_count(b, r) * element
        };
    }
    return OK;
}

Err gather_shards_cpu(const Call *call) { return parts_start(call); }

Err landed_cpu(const Call *call)
{
    const RankAttr *attr = ATTR(call->node, RankAttr);
    TRY(comm_wait(call_comm(call), attr->slot));
    if (call->out[0] != call->in[0])
        memcpy(call->out[0], call->in[0],
               (size_t)(attr->bucket->total * type_bytes(in_type(call->node, 0))));
    return OK;
}

Err put_params_cpu(const Call *call)
{
    const RankAttr *attr = ATTR(call->node, RankAttr);
    const Bucket   *b = attr->bucket;
    int64_t         element = type_bytes(b->type);
    int             threads = call->device->threads;
    TRY(comm_wait(call_comm(call), attr->slot));
#pragma omp parallel num_threads(threads)
    for (int i = 0; i < b->n; i++) {
        int64_t from, to;
        parallel_range(shape_count(out_shape(call->node, i)), ROW_BLOCK, omp_get_thread_num(),
                       threads, &from, &to);
        memcpy((char *)call->out[i] + from * element,
               (const char *)call->in[0] + (b->first[i] + from) * element,
               (size_t)((to - from) * element));
    }
    return OK;
}
