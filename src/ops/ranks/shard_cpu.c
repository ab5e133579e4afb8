/* shard_cpu.c -- the update of a shard, and the norm of divided gradients, on the CPU. */
#include "ops/ranks/shard.h"

#include "comm/comm.h"
#include "ops/parallel.h"

#include <math.h>

Err shard_update_cpu(const Call *call)
{
    const Bucket *b = ATTR(call->node, ShardUpdateAttr)->bucket;
    int           rank = comm_rank(call->device->comm);
    for (int i = 0; i < b->n; i++) {
        UpdateSpan span;
        int64_t    count = shard_span(call, rank, i, &span);
        if (count)
            update_span(&span, count, call->device->threads);
    }
    return OK;
}

/* ---- the norm ---- */

Err shard_norm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    const ShardNormAttr *attr = ATTR(n, ShardNormAttr);
    (void)device;
    choice->workspace_bytes = (size_t)(attr->buckets[0]->ranks + 1) * (size_t)attr->max_blocks *
                              sizeof(double);
    return OK;
}

/* Sums of this rank's blocks, in the order of buckets. */
static int32_t norm_own(const Call *call, int rank, double *own)
{
    const ShardNormAttr *attr = ATTR(call->node, ShardNormAttr);
    const Graph         *graph = call->node->graph;
    int32_t              n = 0;
    int                  threads = call->device->threads;
    for (int32_t k = 0; k < attr->n_buckets; k++) {
        const Bucket *b = attr->buckets[k];
        const float  *sum = call->in[k];
        for (int i = 0; i < b->n; i++) {
            int64_t from, to;
            if (!shard_range(b, rank, i, shape_count(graph->params[b->params[i]].disk), &from, &to))
                continue;
            const float *g = sum + b->first[i] + from - b->border[rank];
            int64_t      blocks = ceil_div(to - from, BLOCK_ELEMENTS);
#pragma omp parallel for num_threads(threads) schedule(static)
            for (int64_t p = 0; p < blocks; p++)
                own[n + p] = norm_block(g + p * BLOCK_ELEMENTS,
                                        int_min(to - from - p * BLOCK_ELEMENTS, BLOCK_ELEMENTS));
            n += (int32_t)blocks;
        }
    }
    return n;
}

Err shard_norm_cpu(const Call *call)
{
    const ShardNormAttr *attr = ATTR(call->node, ShardNormAttr);
    Comm                *comm = call->device->comm;
    double              *own = call->workspace, *all = own + attr->max_blocks, total = 0;
    for (int32_t i = norm_own(call, comm_rank(comm), own); i < attr->max_blocks; i++)
        own[i] = 0;
    TRY(comm_all(comm, own, attr->max_blocks * (int64_t)sizeof *own, all));
    for (int32_t p = 0; p < attr->n_blocks; p++)
        total += all[attr->order[p]];
    *(float *)call->out[0] = (float)sqrt(total);
    return OK;
}
