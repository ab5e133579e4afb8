/* shard_cpu.c -- the update of a shard, and the norm of divided gradients, on the CPU. */
#include "ops/ranks/shard.h"

#include "comm/comm.h"
#include "ops/parallel.h"

#include <math.h>

/* The elements of parameter i that lie in the shard of `rank`: from, to in the parameter. */
static bool shard_range(const Bucket *b, int rank, int i, int64_t count, int64_t *from, int64_t *to)
{
    *from = int_max(b->border[rank] - b->first[i], 0);
    *to = int_min(b->border[rank + 1] - b->first[i], count);
    return *from < *to;
}

static int64_t param_count(const Call *call, int i)
{
    const Bucket *b = ATTR(call->node, ShardUpdateAttr)->bucket;
    return shape_count(call->node->graph->params[b->params[i]].disk);
}

static void shard_update_param(const Call *call, int rank, int i, int64_t from, int64_t to)
{
    const ShardUpdateAttr *attr = ATTR(call->node, ShardUpdateAttr);
    const Bucket          *b = attr->bucket;
    int64_t                at = b->first[i] + from - b->border[rank], element = type_bytes(b->type);
    float                 *state[5];
    for (int s = 1; s < 5; s++)
        state[s] = call->out[s] ? (float *)call->out[s] + at : NULL;
    const char *old = b->own >= 0 ? (const char *)call->in[7] + at * element
                                  : (const char *)call->in[i + 7] + from * element;
    update_span(&(UpdateSpan){ .type = b->type,
                               .in = old,
                               .out = (char *)call->out[0] + at * element,
                               .grad = (const float *)call->in[0] + at,
                               .m = state[1],
                               .v = state[2],
                               .ema = state[3],
                               .master = state[4],
                               .progress = call->in[5],
                               .rates = call->in[6],
                               .attr = &attr->update[i],
                               .sgd = attr->sgd },
                to - from, call->device->threads);
}

Err shard_update_cpu(const Call *call)
{
    const Bucket *b = ATTR(call->node, ShardUpdateAttr)->bucket;
    int           rank = comm_rank(call->device->comm);
    for (int i = 0; i < b->n; i++) {
        int64_t from, to;
        if (shard_range(b, rank, i, param_count(call, i), &from, &to))
            shard_update_param(call, rank, i, from, to);
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
