/* exchange.c -- rules of the operators that move shards between ranks. */
#include "ops/ranks/exchange.h"

#include "ops/operator.h"
#include "ops/optimizer/optim.h"
#include "ops/ranks/rounds.h"
#include "ops/ranks/shard.h"
#include "ops/ranks/transfers.h"

static const Bucket *bucket_of(const Node *n) { return ATTR(n, RankAttr)->bucket; }

/* in: after, then the gradients; out: packed received */
static Err exchange_shape(Node *n)
{
    const Bucket *b = bucket_of(n);
    for (int i = 1; i < n->n_in; i++)
        if (!type_is_float(in_type(n, i)))
            return fail(E_SHAPE, "exchange: gradient %d is %s", i - 1, type_name(in_type(n, i)));
    REQUIRE(n->n_in == b->n + 1 && b->ranks > 1);
    out_set(n, 0, F32, SHAPE(b->total));
    out_set(n, 1, F32, SHAPE((b->ranks - 1) * b->shard));
    out_class(n, 0, CLASS_GRADIENTS);
    out_class(n, 1, CLASS_GRADIENTS);
    return OK;
}

static Cost copy_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

/* To another rank goes its shard, or one's own. */
static int64_t shard_gives(const Node *n)
{
    return bucket_of(n)->shard * type_bytes(out_type(n, 0));
}

OPERATOR_INTERNAL(exchange, .doc = "packs gradients and starts sending each rank its shard",
                  .attr_bytes = sizeof(RankAttr), .n_in = -1, .n_out = 2, .once = true,
                  .sends = true, .gives = shard_gives, .shape = exchange_shape, .cost = copy_cost,
                  .cpu = { .prepare = exchange_prepare, .run = exchange_cpu })

Exchanged exchange(const Bucket *bucket, int slot, const Tensor *grads, Tensor after)
{
    Graph  *graph = after.graph;
    Tensor *in = NEWN(graph->pool, Tensor, bucket->n + 1), out[2];
    in[0] = after;
    for (int i = 0; i < bucket->n; i++)
        in[i + 1] = grads[i];
    node_add(graph, &op_exchange, &(RankAttr){ bucket, slot }, in, bucket->n + 1, out);
    return (Exchanged){ out[0], out[1] };
}

/* in: sum packed received counters; out: sum */
static Err fold_shape(Node *n)
{
    out_is_input(n, 0, 0);
    return OK;
}

static Cost fold_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 2) + in_count(n, 0),
                   .bytes = 2 * in_bytes(n, 0) + in_bytes(n, 2) };
}

OPERATOR_INTERNAL(fold, .doc = "waits for an exchange; sums gradients in the order of ranks",
                  .attr_bytes = sizeof(RankAttr), .n_in = 4, .n_out = 1, .once = true, .joins = 3,
                  .kin = &op_accumulate, .shape = fold_shape, .cost = fold_cost,
                  .cpu = { .run = fold_cpu })

Tensor fold(const Bucket *bucket, int slot, Tensor sum, Exchanged from, Tensor counters)
{
    return node_add(sum.graph, &op_fold, &(RankAttr){ bucket, slot },
                    TENSORS(sum, from.packed, from.received, counters), NULL);
}

/* in: after shard; out: all elements of the bucket */
static Err gather_shape(Node *n)
{
    const Bucket *b = bucket_of(n);
    REQUIRE(shape_count(in_shape(n, 1)) == b->shard);
    out_set(n, 0, in_type(n, 1), SHAPE(b->total));
    return OK;
}

/* Copies the own shard; all others arrive. */
static Cost gather_cost(const Node *n) { return (Cost){ .bytes = 2 * in_bytes(n, 1) }; }

OPERATOR_INTERNAL(gather_shards, .doc = "starts gathering the shards of all ranks",
                  .attr_bytes = sizeof(RankAttr), .n_in = 2, .n_out = 1, .once = true,
                  .sends = true, .gives = shard_gives, .shape = gather_shape, .cost = gather_cost,
                  .cpu = { .prepare = gather_prepare, .run = gather_shards_cpu })

Tensor gather_shards(const Bucket *bucket, int slot, Tensor shard, Tensor after)
{
    Class  mem_class = value_at(shard.graph, shard.id)->mem_class;
    Tensor all = node_add(shard.graph, &op_gather_shards, &(RankAttr){ bucket, slot },
                          TENSORS(after, shard), NULL);
    return tensor_class(all, mem_class);
}

/* in: gathered shard */
static Err landed_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    out_class(n, 0, value_at(n->graph, n->in[0])->mem_class);
    n->inplace = 0;
    return OK;
}

static Cost landed_cost(const Node *n)
{
    (void)n;
    return (Cost){ 0 };
}

OPERATOR_INTERNAL(landed, .doc = "waits for gathered shards", .attr_bytes = sizeof(RankAttr),
                  .n_in = 2, .n_out = 1, .once = true, .joins = 1, .shape = landed_shape,
                  .cost = landed_cost, .cpu = { .run = landed_cpu })

/* The shard that is sent, which must stay until the transfer has ended. */
static Tensor gathered_from(Tensor gathered)
{
    const Graph *graph = gathered.graph;
    const Node  *node = &graph->nodes[value_at(graph, gathered.id)->producer];
    return (Tensor){ gathered.graph, node->in[1] };
}

Tensor landed(const Bucket *bucket, int slot, Tensor gathered)
{
    if (!tensor_ok(gathered))
        return gathered;
    return node_add(gathered.graph, &op_landed, &(RankAttr){ bucket, slot },
                    TENSORS(gathered, gathered_from(gathered)), NULL);
}

/* in: gathered shard, then the parameters; out: the parameters */
static Err put_shape(Node *n)
{
    const Bucket *b = bucket_of(n);
    REQUIRE(n->n_in == b->n + 2 && in_type(n, 0) == b->type);
    n->out = NEWN(n->graph->pool, int32_t, b->n);
    n->n_out = b->n;
    for (int i = 0; i < b->n; i++) {
        n->out[i] = TENSOR_NONE;
        out_is_input(n, i, i + 2);
    }
    return OK;
}

/* Reads what was gathered, writes the parameters. */
static Cost put_cost(const Node *n) { return (Cost){ .bytes = 2 * in_bytes(n, 0) }; }

OPERATOR_INTERNAL(put_params, .doc = "waits for gathered parameters and copies them in place",
                  .attr_bytes = sizeof(RankAttr), .n_in = -2, .n_out = 0, .once = true, .joins = 1,
                  .shape = put_shape, .cost = put_cost, .cpu = { .run = put_params_cpu })

void put_params(const Bucket *bucket, int slot, Tensor gathered)
{
    Graph *graph = gathered.graph;
    if (!tensor_ok(gathered))
        return;
    Tensor *in = NEWN(graph->pool, Tensor, bucket->n + 2);
    in[0] = gathered;
    in[1] = gathered_from(gathered);
    for (int i = 0; i < bucket->n; i++)
        in[i + 2] = (Tensor){ graph, graph->params[bucket->params[i]].value };
    node_add(graph, &op_put_params, &(RankAttr){ bucket, slot }, in, bucket->n + 2, NULL);
}

typedef struct FlatAttr {
    int64_t first;
    Shape   shape;
} FlatAttr;

static Err flat_view_shape(Node *n)
{
    const FlatAttr *attr = ATTR(n, FlatAttr);
    REQUIRE(attr->first >= 0 &&
            attr->first + shape_count(attr->shape) <= shape_count(in_shape(n, 0)));
    out_view(n, attr->first * type_bytes(in_type(n, 0)), in_type(n, 0), attr->shape);
    return OK;
}

OPERATOR_INTERNAL(flat_view, .doc = "a tensor in a row of elements: the same bytes",
                  .attr_bytes = sizeof(FlatAttr), .n_in = 1, .n_out = 1, .view = true,
                  .shape = flat_view_shape, .cost = landed_cost)

Tensor flat_view(Tensor flat, int64_t first, Shape shape)
{
    return node_add(flat.graph, &op_flat_view, &(FlatAttr){ first, shape }, TENSORS(flat), NULL);
}

int64_t bucket_transfer_bytes(const Bucket *b)
{
    return (b->total + (int64_t)b->ranks * b->shard) * type_bytes(b->type);
}

Transfer node_transfer(const Node *n)
{
    int64_t ranks, bytes;
    if (n->op == &op_exchange || n->op == &op_gather_shards) {
        const Bucket *b = bucket_of(n);
        ranks = b->ranks;
        bytes = (b->total + ranks * b->shard) * type_bytes(out_type(n, 0));
    } else if (n->op == &op_shard_norm) {
        ranks = ATTR(n, ShardNormAttr)->buckets[0]->ranks;
        bytes = 2 * ranks * n->op->gives(n);
    } else if (n->op == &op_round_gather) {
        ranks = ATTR(n, RoundAttr)->ranks;
        bytes = 2 * ranks * n->op->gives(n);
    } else {
        return (Transfer){ 0 };
    }
    /* a rank sends the whole bucket or its shard to all, and receives the other way round */
    return (Transfer){ .bytes = bytes, .parts = (int)(2 * ranks) };
}
