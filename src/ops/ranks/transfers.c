/* transfers.c -- addresses are fixed for a run, so the parts of each transfer are listed before the
 * first step. */
#include "ops/ranks/transfers.h"

#include "comm/queue.h"
#include "ops/ranks/exchange.h"

Comm *call_comm(const Call *call)
{
    Comm *comm = call->device->comm;
    REQUIRE(comm);
    return comm;
}

int64_t shard_count(const Bucket *b, int rank) { return b->border[rank + 1] - b->border[rank]; }

int64_t received_at(const Bucket *b, int me, int rank)
{
    return (rank < me ? rank : rank - 1) * b->shard;
}

static void transfer_send(CommTransfer *t, int peer, void *data, int64_t bytes)
{
    t->sends[t->n_sends++] = (CommPart){ peer, data, bytes };
}

static void transfer_receive(CommTransfer *t, int peer, void *data, int64_t bytes)
{
    t->receives[t->n_receives++] = (CommPart){ peer, data, bytes };
}

static CommTransfer *transfer_new(Pool *pool, Call *call, const Bucket *b, int slot)
{
    REQUIRE(comm_ranks(call_comm(call)) == b->ranks);
    return call->prepared = comm_transfer_new(pool, slot, b->ranks);
}

Err exchange_prepare(Pool *pool, Call *call)
{
    const RankAttr *attr = ATTR(call->node, RankAttr);
    const Bucket   *b = attr->bucket;
    CommTransfer   *t = transfer_new(pool, call, b, attr->slot);
    int             me = comm_rank(call_comm(call));
    float          *packed = call->out[0], *received = call->out[1];
    for (int r = 0; r < b->ranks; r++) {
        if (r == me)
            continue;
        transfer_send(t, r, packed + b->border[r], shard_count(b, r) * (int64_t)sizeof *packed);
        transfer_receive(t, r, received + received_at(b, me, r),
                         shard_count(b, me) * (int64_t)sizeof *packed);
    }
    return comm_transfer_ready(pool, call_comm(call), t);
}

Err gather_prepare(Pool *pool, Call *call)
{
    const RankAttr *attr = ATTR(call->node, RankAttr);
    const Bucket   *b = attr->bucket;
    CommTransfer   *t = transfer_new(pool, call, b, attr->slot);
    int             me = comm_rank(call_comm(call));
    int64_t         element = type_bytes(out_type(call->node, 0));
    for (int r = 0; r < b->ranks; r++) {
        transfer_send(t, r, call->in[1], shard_count(b, me) * element);
        transfer_receive(t, r, (char *)call->out[0] + b->border[r] * element,
                         shard_count(b, r) * element);
    }
    return comm_transfer_ready(pool, call_comm(call), t);
}

Err records_prepare(Pool *pool, Call *call, void *mine, int64_t bytes, void *all)
{
    Comm         *comm = call_comm(call);
    CommTransfer *t = comm_transfer_new(pool, RANK_SLOT_FILES, comm_ranks(comm));
    for (int r = 0; r < comm_ranks(comm); r++) {
        transfer_send(t, r, mine, bytes);
        transfer_receive(t, r, (char *)all + r * bytes, bytes);
    }
    call->prepared = t;
    return comm_transfer_ready(pool, comm, t);
}

Err transfer_start(const Call *call)
{
    return comm_transfer_start(call_comm(call), call->prepared);
}

Err transfer_join(const Call *call)
{
    return comm_transfer_join(call_comm(call), ATTR(call->node, RankAttr)->slot);
}

Err records_move(const Call *call)
{
    TRY(transfer_start(call));
    return comm_transfer_join(call_comm(call), RANK_SLOT_FILES);
}
