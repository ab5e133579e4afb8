/* train_ranks.c -- buckets, their exchange as gradients become final, updates of shards. */
#include "autodiff/train_ranks.h"

#include "base/int_math.h"
#include "ops/norm/batchnorm.h"
#include "ops/ops.h"
#include "ops/ranks/exchange.h"
#include "ops/ranks/shard.h"

#include <stdlib.h>

/* An exchange is waited for after the next one was started, so that it moves while the backward
 * pass computes the gradients of the bucket after it. */
enum { FOLD_LAG = 1, PUT_LAG = 1 };
/* Of the default bucket: an eighth of all gradients, so that most of them move while others are
 * computed, within these bytes; but two blocks for each rank, which cannot own less than one. */
enum { BUCKET_SHARE = 8, MIN_BUCKET = 1 << 20, MAX_BUCKET = 32 << 20, BUCKET_BLOCKS = 2 };

typedef struct RankTransfer {
    Exchanged exchanged;
    Tensor    gathered;
} RankTransfer;

/* ---- what waits for the update ---- */

/* Does the node write persistent state? */
static int32_t node_state(const Graph *graph, const Node *node)
{
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0 && value_at(graph, value_at(graph, node->out[i])->root)->persistent &&
            !node->op->view)
            return node->out[i];
    return -1;
}

static Err tracks_find(Graph *graph, RankSums *sums)
{
    sums->rounds.width = 1;
    sums->tracks = NEWN(graph->pool, DeferredTrack, graph->n_nodes + 1);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        int32_t     state = node->phase == PHASE_MICRO ? node_state(graph, node) : -1;
        if (state < 0)
            continue;
        if (node->op != &op_batchnorm_track)
            return fail(E_USAGE,
                        "this model carries %s from one micro-batch to the next, so its "
                        "micro-batches cannot be divided among ranks; run it with one",
                        value_text(graph, state));
        Shape shape = in_shape(node, 0);
        sums->tracks[sums->n_tracks++] = (DeferredTrack){ .attr = node->attr,
                                                          .state = { node->in[1], node->in[2],
                                                                     node->in[3] },
                                                          .statistics = shape,
                                                          .place = sums->rounds.width };
        sums->rounds.width += shape_count(shape);
    }
    return OK;
}

/* Every node that updates statistics becomes one that stores them. */
static void tracks_store(RankSums *sums)
{
    Graph  *graph = sums->graph;
    int32_t next = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        Node *node = &graph->nodes[i];
        if (node->phase != PHASE_MICRO || node->op != &op_batchnorm_track)
            continue;
        RoundAttr *attr = NEW(graph->pool, RoundAttr);
        *attr = sums->rounds;
        attr->place = sums->tracks[next++].place;
        node->op = &op_round_store;
        node->attr = attr;
        node->in[1] = node->in[0];
        node->in[0] = node->out[0] = sums->store.id;
        node->in[2] = sums->counters.id;
        node->n_in = 3;
        node->n_out = 1;
    }
}

static int64_t gradient_bytes(const Graph *graph)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < graph->n_params; i++)
        if (!graph->params[i].frozen)
            bytes += shape_count(graph->params[i].disk) * (int64_t)sizeof(float);
    return bytes;
}

/* A block for each rank. */
static int64_t bucket_blocks(const TrainSpec *spec)
{
    return spec->ranks * BLOCK_ELEMENTS * (int64_t)sizeof(float);
}

static int64_t bucket_default(const TrainSpec *spec, int64_t bytes)
{
    int64_t limit = int_max(MIN_BUCKET, int_min(MAX_BUCKET, bytes / BUCKET_SHARE));
    return int_max(limit, BUCKET_BLOCKS * bucket_blocks(spec));
}

/* Nothing is left to compute while the last bucket moves. So the last ones are smaller and smaller:
 * each holds at most half of the gradients to come. */
static int64_t bucket_limit(const RankSums *sums)
{
    return int_min(sums->limit, int_max(sums->to_come / 2, bucket_blocks(sums->spec)));
}

Err rank_sums_begin(Graph *graph, Tensor loss, const TrainSpec *spec, Tensor counters,
                    RankSums *sums)
{
    *sums = (RankSums){ .graph = graph,
                        .spec = spec,
                        .counters = counters,
                        .rounds = { .ranks = spec->ranks,
                                    .rounds = spec->accumulate / spec->ranks },
                        .grads = NEWN(graph->pool, Tensor, graph->n_params),
                        .started = NEWN(graph->pool, RankTransfer, graph->n_params) };
    REQUIRE(spec->accumulate % spec->ranks == 0);
    sums->to_come = gradient_bytes(graph);
    sums->limit = spec->bucket_bytes > 0 ? spec->bucket_bytes : bucket_default(spec, sums->to_come);
    TRY(tracks_find(graph, sums));
    sums->store = state_add(graph, "run.rounds", F32,
                            SHAPE(sums->rounds.rounds, sums->rounds.width), CLASS_CONSTANTS, false);
    tracks_store(sums);
    round_store(sums->store, loss, counters, sums->rounds);
    return graph_check(graph);
}

void rank_replay(RankSums *sums, Tensor loss)
{
    Graph *graph = sums->graph;
    Tensor all = round_gather(sums->store, sums->rounds);
    round_sum(loss, all, sums->rounds);
    for (int32_t i = 0; i < sums->n_tracks; i++) {
        const DeferredTrack *t = &sums->tracks[i];
        RoundAttr            attr = sums->rounds;
        attr.place = t->place;
        for (int64_t micro = 0; micro < sums->spec->accumulate; micro++)
            node_add(graph, &op_batchnorm_track, t->attr,
                     TENSORS(flat_view(all, round_at(&attr, micro), t->statistics),
                             { graph, t->state[0] }, { graph, t->state[1] },
                             { graph, t->state[2] }),
                     NULL);
    }
}

/* ---- buckets ---- */

static int64_t *block_borders(Pool *pool, const Graph *graph, const Bucket *b, int32_t *n)
{
    int64_t *at = NULL;
    int32_t  cap = 0;
    *n = 0;
    for (int i = 0; i < b->n; i++) {
        int64_t count = shape_count(graph->params[b->params[i]].disk);
        for (int64_t from = 0; from < count; from += BLOCK_ELEMENTS)
            VEC_ADD(pool, at, *n, cap, b->first[i] + from);
    }
    VEC_ADD(pool, at, *n, cap, b->total);
    return at;
}

/* Each rank's shard ends at the border of a block that is nearest to its equal part. */
static void bucket_divide(Graph *graph, Bucket *b)
{
    int32_t  n, at = 0;
    int64_t *borders = block_borders(graph->pool, graph, b, &n);
    b->border = NEWN(graph->pool, int64_t, b->ranks + 1);
    b->border[b->ranks] = b->total;
    for (int r = 1; r < b->ranks; r++) {
        int64_t aim = b->total * r / b->ranks;
        while (at + 1 < n && llabs(borders[at + 1] - aim) <= llabs(borders[at] - aim))
            at++;
        b->border[r] = borders[at];
    }
    b->shard = BUCKET_ALIGN;
    for (int r = 0; r < b->ranks; r++)
        b->shard = int_max(b->shard, b->border[r + 1] - b->border[r]);
}

/* A value that was written when the transfer before in the same slot had ended. */
static Tensor after_sum(const RankSums *sums, int32_t bucket)
{
    Graph *graph = sums->graph;
    return bucket < RANK_SLOTS ? tensor_none(graph)
                               : (Tensor){ graph, graph->buckets[bucket - RANK_SLOTS]->sum };
}

static void fold_until(RankSums *sums, int32_t end)
{
    Graph *graph = sums->graph;
    for (; sums->n_folded < end; sums->n_folded++) {
        int32_t       k = sums->n_folded;
        const Bucket *b = graph->buckets[k];
        fold(b, k % RANK_SLOTS, (Tensor){ graph, b->sum }, sums->started[k].exchanged,
             sums->counters);
    }
}

/* The bucket is full: its exchange starts here. */
static void bucket_close(RankSums *sums, Bucket **open)
{
    Graph  *graph = sums->graph;
    Bucket *b = *open;
    Tensor *grads = NEWN(graph->pool, Tensor, b->n);
    int32_t k = graph->n_buckets;
    *open = NULL;
    bucket_divide(graph, b);
    sums->to_come -= b->total * (int64_t)sizeof(float);
    b->sum = state_add(graph, pool_print(graph->pool, "gradients/%d", k), F32, SHAPE(b->shard),
                       CLASS_GRADIENTS, false)
                 .id;
    for (int i = 0; i < b->n; i++) {
        graph->params[b->params[i]].bucket = k;
        graph->params[b->params[i]].place = i;
        grads[i] = sums->grads[b->params[i]];
    }
    VEC_ADD(graph->pool, graph->buckets, graph->n_buckets, graph->cap_buckets, b);
    fold_until(sums, k - FOLD_LAG);
    sums->started[k].exchanged = exchange(b, k % RANK_SLOTS, grads, after_sum(sums, k));
}

static Bucket *bucket_new(Graph *graph, int ranks, Type type)
{
    Bucket *b = NEW(graph->pool, Bucket);
    *b = (Bucket){ .ranks = ranks,
                   .type = type,
                   .params = NEWN(graph->pool, int32_t, graph->n_params),
                   .first = NEWN(graph->pool, int64_t, graph->n_params),
                   .sum = -1,
                   .m = -1,
                   .v = -1,
                   .ema = -1,
                   .master = -1,
                   .own = -1,
                   .whole = -1 };
    return b;
}

typedef struct Place { /* where nodes go, to return there */
    int32_t module;
    Source  source;
} Place;

static Place place_whole(Graph *graph) /* nodes that belong to no module */
{
    Place before = { graph->module, graph->source };
    graph->module = 0;
    graph->source = (Source){ 0 };
    return before;
}

static void place_return(Graph *graph, Place before)
{
    graph->module = before.module;
    graph->source = before.source;
}

Tensor rank_sums_final(void *arg, int32_t index, Tensor grad)
{
    RankSums *sums = arg;
    Graph    *graph = sums->graph;
    Place     before = place_whole(graph);
    Type      type = value_at(graph, graph->params[index].value)->type;
    Bucket  **open = &sums->open[type != F32];
    int64_t   count = shape_count(graph->params[index].disk);
    if (*open && ((*open)->total + count) * (int64_t)sizeof(float) > bucket_limit(sums))
        bucket_close(sums, open);
    if (!*open)
        *open = bucket_new(graph, sums->spec->ranks, type);
    Bucket *b = *open;
    b->params[b->n] = index;
    b->first[b->n++] = b->total;
    b->total += align_up(count, BUCKET_ALIGN);
    sums->grads[index] = tensor_class(grad, CLASS_GRADIENTS);
    place_return(graph, before);
    return grad;
}

void rank_sums_end(RankSums *sums)
{
    Graph *graph = sums->graph;
    Place  before = place_whole(graph);
    graph->backward = true;
    for (int i = 0; i < 2; i++)
        if (sums->open[i])
            bucket_close(sums, &sums->open[i]);
    fold_until(sums, graph->n_buckets);
    graph->backward = false;
    for (int32_t i = 0; i < graph->n_params; i++)
        graph->params[i].grad = -1; /* whole on no rank */
    place_return(graph, before);
}

/* ---- the update ---- */

void rank_gather_gradients(RankSums *sums)
{
    Graph  *graph = sums->graph;
    Tensor *whole = NEWN(graph->pool, Tensor, graph->n_buckets), none = tensor_none(graph);
    for (int32_t k = 0; k <= graph->n_buckets; k++) {
        if (k < graph->n_buckets) {
            const Bucket *b = graph->buckets[k];
            sums->started[k].gathered = gather_shards(b, k % RANK_SLOTS, (Tensor){ graph, b->sum },
                                                      k < RANK_SLOTS ? none
                                                                     : whole[k - RANK_SLOTS]);
        }
        if (k >= PUT_LAG)
            whole[k - PUT_LAG] = landed(graph->buckets[k - PUT_LAG], (k - PUT_LAG) % RANK_SLOTS,
                                        sums->started[k - PUT_LAG].gathered);
    }
    for (int32_t k = 0; k < graph->n_buckets && !graph->error; k++)
        for (int i = 0; i < graph->buckets[k]->n; i++) {
            const Bucket *b = graph->buckets[k];
            Param        *param = &graph->params[b->params[i]];
            param->grad = flat_view(whole[k], b->first[i], value_at(graph, param->value)->shape).id;
            param->bucket = -1; /* its state is whole */
        }
}

static int32_t bucket_state(Graph *graph, const Bucket *b, const char *what, int32_t k,
                            Class mem_class, bool host)
{
    Tensor state = state_add(graph, pool_print(graph->pool, "%s/%d", what, k), F32, SHAPE(b->shard),
                             mem_class, true);
    Value *value = value_at(graph, state.id);
    value->host_resident = host && value->bytes >= HOST_MINIMUM;
    return state.id;
}

static void bucket_states(Graph *graph, Bucket *b, int32_t k, const TrainSpec *spec)
{
    bool host = spec->host >= HOST_STATE;
    if (spec->optimizer != OPTIMIZER_SGD || spec->beta1 > 0)
        b->m = bucket_state(graph, b, "optimizer.m", k, CLASS_OPTIMIZER, host);
    if (spec->optimizer != OPTIMIZER_SGD)
        b->v = bucket_state(graph, b, "optimizer.v", k, CLASS_OPTIMIZER, host);
    if (spec->ema)
        b->ema = bucket_state(graph, b, "ema", k, CLASS_EMA, spec->host >= HOST_EMA);
    if (b->type != F32)
        b->master = bucket_state(graph, b, "master", k, CLASS_MASTER, host);
    if (spec->shard >= SHARD_PARAMS)
        b->own = state_add(graph, pool_print(graph->pool, "parameters/%d", k), b->type,
                           SHAPE(b->shard), CLASS_PARAMETERS, false)
                     .id;
    for (int i = 0; i < b->n; i++) {
        Param *param = &graph->params[b->params[i]];
        param->m = b->m;
        param->v = b->v;
        param->ema = b->ema;
        param->master = b->master;
    }
}

static ShardUpdateAttr bucket_attr(Graph *graph, const Bucket *b, const TrainSpec *spec)
{
    UpdateAttr *of = NEWN(graph->pool, UpdateAttr, b->n);
    for (int i = 0; i < b->n; i++) {
        Param *param = &graph->params[b->params[i]];
        param->group = param_group(spec, param->name);
        of[i] = param_update_attr(spec, param->group);
    }
    return (ShardUpdateAttr){ .bucket = b, .update = of, .sgd = spec->optimizer == OPTIMIZER_SGD };
}

/* A parameter that the transfer before in the same slot has brought. */
static Tensor after_put(Graph *graph, int32_t bucket)
{
    if (bucket < RANK_SLOTS)
        return tensor_none(graph);
    const Bucket *b = graph->buckets[bucket - RANK_SLOTS];
    return (Tensor){ graph, graph->params[b->params[0]].value };
}

/* Each rank keeps its shards of the new parameters. */
static void rank_update_own(RankSums *sums, const TrainGraph *train)
{
    Graph *graph = sums->graph;
    for (int32_t k = 0; k < graph->n_buckets && !graph->error; k++) {
        Bucket *b = graph->buckets[k];
        bucket_states(graph, b, k, sums->spec);
        ShardUpdateAttr attr = bucket_attr(graph, b, sums->spec);
        shard_update(&attr, train->progress, train->rates);
        graph_divide_params(graph, b, pool_print(graph->pool, "gathered/%d", k));
    }
}

void rank_update(RankSums *sums, const TrainGraph *train)
{
    Graph *graph = sums->graph;
    if (sums->spec->shard >= SHARD_PARAMS) {
        rank_update_own(sums, train);
        return;
    }
    for (int32_t k = 0; k < graph->n_buckets + PUT_LAG && !graph->error; k++) {
        if (k < graph->n_buckets) {
            Bucket *b = graph->buckets[k];
            bucket_states(graph, b, k, sums->spec);
            ShardUpdateAttr attr = bucket_attr(graph, b, sums->spec);
            Tensor          fresh = shard_update(&attr, train->progress, train->rates);
            sums->started[k].gathered = gather_shards(b, k % RANK_SLOTS, fresh,
                                                      after_put(graph, k));
        }
        if (k >= PUT_LAG)
            put_params(graph->buckets[k - PUT_LAG], (k - PUT_LAG) % RANK_SLOTS,
                       sums->started[k - PUT_LAG].gathered);
    }
}

/* ---- other phases ---- */

Tensor rank_average(Graph *graph, const Param *param)
{
    Bucket *b = graph->buckets[param->bucket];
    if (b->whole < 0 || graph->nodes[value_at(graph, b->whole)->producer].phase != graph->phase) {
        Place  before = place_whole(graph);
        int    slot = param->bucket % RANK_SLOTS;
        Tensor after = { graph, graph->gathered_last }, none = tensor_none(graph);
        bool   same = after.id >= 0 &&
                    graph->nodes[value_at(graph, after.id)->producer].phase == graph->phase;
        Tensor all = landed(b, slot,
                            gather_shards(b, slot, (Tensor){ graph, b->ema }, same ? after : none));
        b->whole = graph->gathered_last = all.id;
        place_return(graph, before);
    }
    if (b->whole < 0)
        return (Tensor){ graph, b->whole };
    return flat_view((Tensor){ graph, b->whole }, b->first[param->place],
                     value_at(graph, param->value)->shape);
}
