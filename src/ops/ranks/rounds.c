/* rounds.c -- rules of the operators that store results and read them back of micro-batches. */
#include "ops/ranks/rounds.h"

#include "ops/operator.h"

int64_t round_at(const RoundAttr *a, int64_t micro)
{
    return (micro % a->ranks * a->rounds + micro / a->ranks) * a->width + a->place;
}

static Cost bytes_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

/* in: store x counters; out: store */
static Err round_store_shape(Node *n)
{
    const RoundAttr *attr = ATTR(n, RoundAttr);
    REQUIRE(in_type(n, 1) == F32 && attr->place + shape_count(in_shape(n, 1)) <= attr->width);
    out_is_input(n, 0, 0);
    return OK;
}

OPERATOR_INTERNAL(round_store, .doc = "stores a result of this micro-batch for the update",
                  .attr_bytes = sizeof(RoundAttr), .n_in = 3, .n_out = 1, .once = true,
                  .shape = round_store_shape, .cost = bytes_cost, .cpu = { .run = round_store_cpu })

Tensor round_store(Tensor store, Tensor x, Tensor counters, RoundAttr attr)
{
    return node_add(store.graph, &op_round_store, &attr, TENSORS(store, x, counters), NULL);
}

static Err round_gather_shape(Node *n)
{
    const RoundAttr *attr = ATTR(n, RoundAttr);
    out_set(n, 0, F32, SHAPE(attr->ranks * attr->rounds * attr->width));
    return OK;
}

static int64_t round_gather_gives(const Node *n) { return (int64_t)in_bytes(n, 0); }

OPERATOR_INTERNAL(round_gather, .doc = "the stored results of all ranks",
                  .attr_bytes = sizeof(RoundAttr), .n_in = 1, .n_out = 1, .once = true,
                  .gives = round_gather_gives, .shape = round_gather_shape, .cost = bytes_cost,
                  .cpu = { .run = round_gather_cpu })

Tensor round_gather(Tensor store, RoundAttr attr)
{
    return node_add(store.graph, &op_round_gather, &attr, TENSORS(store), NULL);
}

static Err round_sum_shape(Node *n)
{
    out_is_input(n, 0, 0);
    return OK;
}

OPERATOR_INTERNAL(round_sum, .doc = "adds a result of all micro-batches in their order",
                  .attr_bytes = sizeof(RoundAttr), .n_in = 2, .n_out = 1, .once = true,
                  .shape = round_sum_shape, .cost = bytes_cost, .cpu = { .run = round_sum_cpu })

void round_sum(Tensor sum, Tensor gathered, RoundAttr attr)
{
    node_add(sum.graph, &op_round_sum, &attr, TENSORS(sum, gathered), NULL);
}
