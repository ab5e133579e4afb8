/* exchange_cpu.c -- packing, folding and putting in place on the CPU. */
#include "comm/comm.h"
#include "device/convert.h"
#include "ops/optimizer/optim.h"
#include "ops/parallel.h"
#include "ops/ranks/exchange.h"
#include "ops/ranks/transfers.h"

#include <string.h>

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
    return transfer_start(call);
}

static void fold_block(const Bucket *b, int me, float *sum, const float *packed,
                       const float *received, bool first, int64_t from, int64_t n)
{
    for (int r = 0; r < b->ranks; r++) {
        const float *g = r == me ? packed + b->border[me] : received + received_at(b, me, r);
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
    TRY(transfer_join(call));
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

Err gather_shards_cpu(const Call *call) { return transfer_start(call); }

Err landed_cpu(const Call *call)
{
    const RankAttr *attr = ATTR(call->node, RankAttr);
    TRY(transfer_join(call));
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
    TRY(transfer_join(call));
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
