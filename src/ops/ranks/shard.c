/* shard.c -- rules of the operators that work on one rank's shard. */
#include "ops/ranks/shard.h"

#include "base/int_math.h"
#include "ops/operator.h"

/* in: sum m v ema master progress rates, then the parameters, or the own shard of them; out: new
 * m v ema master */
static Err shard_update_shape(Node *n)
{
    const Bucket *b = ATTR(n, ShardUpdateAttr)->bucket;
    REQUIRE(n->n_in == (b->own >= 0 ? 1 : b->n) + 7);
    if (b->own >= 0) {
        out_is_input(n, 0, 7);
    } else {
        out_set(n, 0, b->type, SHAPE(b->shard));
        out_class(n, 0, CLASS_PARAMETERS);
    }
    for (int i = 1; i < 5; i++)
        if (in_given(n, i)) {
            REQUIRE(shape_count(in_shape(n, i)) == b->shard);
            out_is_input(n, i, i);
        }
    return OK;
}

static Cost shard_update_cost(const Node *n)
{
    double bytes = 2 * out_bytes(n, 0) + in_bytes(n, 0);
    for (int i = 1; i < 5; i++)
        bytes += 2 * in_bytes(n, i);
    return (Cost){ .flops = 16 * in_count(n, 0), .bytes = bytes };
}

OPERATOR_INTERNAL(shard_update, .doc = "Adam or SGD and EMA over one rank's shard of a bucket",
                  .attr_bytes = sizeof(ShardUpdateAttr), .n_in = -7, .n_out = 5, .once = true,
                  .shape = shard_update_shape, .cost = shard_update_cost, .kin = &op_adam,
                  .cpu = { .run = shard_update_cpu })

Tensor shard_update(const ShardUpdateAttr *attr, Tensor progress, Tensor rates)
{
    const Bucket *b = attr->bucket;
    Graph        *graph = progress.graph;
    Tensor       *in = NEWN(graph->pool, Tensor, b->n + 7);
    const int32_t state[] = { b->sum, b->m, b->v, b->ema, b->master };
    for (int i = 0; i < 5; i++)
        in[i] = (Tensor){ graph, state[i] };
    in[5] = progress;
    in[6] = rates;
    int n = b->own >= 0 ? 1 : b->n;
    for (int i = 0; i < n; i++)
        in[i + 7] = (Tensor){ graph, b->own >= 0 ? b->own : graph->params[b->params[i]].value };
    return node_add(graph, &op_shard_update, attr, in, n + 7, NULL);
}

bool shard_range(const Bucket *b, int rank, int i, int64_t count, int64_t *from, int64_t *to)
{
    *from = int_max(b->border[rank] - b->first[i], 0);
    *to = int_min(b->border[rank + 1] - b->first[i], count);
    return *from < *to;
}

int64_t shard_span(const Call *call, int rank, int i, UpdateSpan *span)
{
    const ShardUpdateAttr *attr = ATTR(call->node, ShardUpdateAttr);
    const Bucket          *b = attr->bucket;
    int64_t count = shape_count(call->node->graph->params[b->params[i]].disk), from, to;
    if (!shard_range(b, rank, i, count, &from, &to))
        return 0;
    int64_t at = b->first[i] + from - b->border[rank], element = type_bytes(b->type);
    float  *state[5];
    for (int s = 1; s < 5; s++)
        state[s] = call->out[s] ? (float *)call->out[s] + at : NULL;
    *span = (UpdateSpan){ .type = b->type,
                          .in = b->own >= 0 ? (const char *)call->in[7] + at * element
                                            : (const char *)call->in[i + 7] + from * element,
                          .out = (char *)call->out[0] + at * element,
                          .grad = (const float *)call->in[0] + at,
                          .m = state[1],
                          .v = state[2],
                          .ema = state[3],
                          .master = state[4],
                          .progress = call->in[5],
                          .rates = call->in[6],
                          .attr = &attr->update[i],
                          .sgd = attr->sgd };
    return to - from;
}

/* in: the sums of all buckets */
static Err shard_norm_shape(Node *n)
{
    out_set(n, 0, F32, SHAPE(1));
    return OK;
}

static Cost shard_norm_cost(const Node *n)
{
    double bytes = node_bytes(n);
    return (Cost){ .flops = bytes / 2, .bytes = bytes };
}

/* The sums of its blocks. */
static int64_t shard_norm_gives(const Node *n)
{
    return ATTR(n, ShardNormAttr)->max_blocks * (int64_t)sizeof(double);
}

OPERATOR_INTERNAL(shard_norm, .doc = "the L2 norm of gradients that are divided among ranks",
                  .attr_bytes = sizeof(ShardNormAttr), .n_in = -1, .n_out = 1, .once = true,
                  .gives = shard_norm_gives, .shape = shard_norm_shape, .cost = shard_norm_cost,
                  .cpu = { .choose = shard_norm_choose_cpu, .run = shard_norm_cpu })

static int rank_of(const Bucket *b, int64_t element)
{
    int rank = 0;
    while (element >= b->border[rank + 1])
        rank++;
    return rank;
}

static int32_t param_blocks(const Graph *graph, int32_t param)
{
    return (int32_t)ceil_div(shape_count(graph->params[param].disk), BLOCK_ELEMENTS);
}

/* Numbers the blocks of each rank in the order in which it sums them: bucket by bucket. */
static ShardNormAttr norm_order(Graph *graph)
{
    ShardNormAttr a = { .buckets = graph->buckets, .n_buckets = graph->n_buckets };
    int           ranks = graph->buckets[0]->ranks;
    int32_t      *start = NEWN(graph->pool, int32_t, graph->n_params + 1);
    int32_t      *own = NEWN(graph->pool, int32_t, ranks);
    for (int32_t i = 0; i < graph->n_params; i++) {
        start[i] = a.n_blocks;
        a.n_blocks += graph->params[i].bucket >= 0 ? param_blocks(graph, i) : 0;
    }
    int32_t *rank = NEWN(graph->pool, int32_t, a.n_blocks);
    a.order = NEWN(graph->pool, int32_t, a.n_blocks);
    for (int32_t k = 0; k < a.n_buckets; k++)
        for (int i = 0; i < a.buckets[k]->n; i++) {
            int32_t param = a.buckets[k]->params[i];
            for (int32_t p = 0; p < param_blocks(graph, param); p++) {
                int r = rank_of(a.buckets[k], a.buckets[k]->first[i] + (int64_t)p * BLOCK_ELEMENTS);
                rank[start[param] + p] = r;
                a.order[start[param] + p] = own[r]++;
            }
        }
    for (int r = 0; r < ranks; r++)
        a.max_blocks = own[r] > a.max_blocks ? own[r] : a.max_blocks;
    for (int32_t p = 0; p < a.n_blocks; p++)
        a.order[p] += rank[p] * a.max_blocks;
    return a;
}

Tensor shard_norm(Graph *graph)
{
    ShardNormAttr attr = norm_order(graph);
    Tensor       *sums = NEWN(graph->pool, Tensor, graph->n_buckets);
    for (int32_t i = 0; i < graph->n_buckets; i++)
        sums[i] = (Tensor){ graph, graph->buckets[i]->sum };
    return node_add(graph, &op_shard_norm, &attr, sums, graph->n_buckets, NULL);
}

SumsRun *shard_norm_runs(Pool *pool, const Node *n, int64_t part, int32_t *n_runs, int64_t *n_parts)
{
    const ShardNormAttr *attr = ATTR(n, ShardNormAttr);
    const Graph         *graph = n->graph;
    int32_t              each = (int32_t)(BLOCK_ELEMENTS / part), block = 0, runs = 0, to = 0;
    SumsRun             *all = NEWN(pool, SumsRun, attr->n_blocks);
    for (int32_t i = 0; i < graph->n_params; i++) {
        int64_t left = graph->params[i].bucket >= 0 ? shape_count(graph->params[i].disk) : 0;
        for (; left > 0; left -= BLOCK_ELEMENTS) {
            int32_t  parts = (int32_t)ceil_div(int_min(left, BLOCK_ELEMENTS), part);
            int32_t  from = attr->order[block++] * each;
            SumsRun *last = runs ? &all[runs - 1] : NULL;
            if (last && last->from + last->n == from)
                last->n += parts;
            else
                all[runs++] = (SumsRun){ from, to, parts };
            to += parts;
        }
    }
    *n_runs = runs;
    *n_parts = to;
    return all;
}
