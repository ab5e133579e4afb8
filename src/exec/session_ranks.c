/* session_ranks.c -- transfers of a session, and parameters' state that is divided among ranks. */
#include "exec/session_ranks.h"

#include "base/int_math.h"
#include "comm/comm.h"
#include "comm/queue.h"
#include "device/convert.h"
#include "exec/session_int.h"
#include "ops/ranks/exchange.h"

#include <string.h>

static int64_t param_count(const Param *param) { return shape_count(param->disk); }

/* The largest parameter whose state is divided. */
static int64_t largest_divided(const Graph *graph)
{
    int64_t largest = 0;
    for (int32_t i = 0; i < graph->n_params; i++)
        if (graph->params[i].bucket >= 0)
            largest = int_max(largest, param_count(&graph->params[i]));
    return largest;
}

Err session_open_ranks(Session *session)
{
    const Graph *graph = session->engine->graph;
    Comm        *comm = session->device->comm;
    int64_t      largest = largest_divided(graph), bytes = 0;
    int          parts = 0;
    if (!comm)
        return OK;
    if (largest)
        session->whole = NEWN(session->pool, float, largest);
    bytes = (comm_ranks(comm) + 1) * largest * (int64_t)sizeof(float);
    parts = 2 * comm_ranks(comm);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        Transfer t = node_transfer(&graph->nodes[i]);
        bytes = int_max(bytes, t.bytes);
        parts = t.parts > parts ? t.parts : parts;
    }
    for (int32_t i = 0; i < graph->n_buckets; i++)
        bytes = int_max(bytes, bucket_transfer_bytes(graph->buckets[i]));
    TRY(comm_prepare(comm, parts, bytes));
    return comm_queue_prepare(comm, bytes);
}

/* ---- gathered values ---- */

Err session_build_gather(Session *session, const Value *whole, void *to, Gather *gather)
{
    const Bucket *b = whole->gathered;
    Comm         *comm = session->device->comm;
    int           me = comm ? comm_rank(comm) : 0;
    int64_t       element = type_bytes(whole->type);
    if (!comm || comm_ranks(comm) != b->ranks)
        return fail(E_PLAN, "the plan is for %d ranks", b->ranks);
    CommTransfer *t = gather->transfer = comm_transfer_new(session->pool, gather->slot, b->ranks);
    t->n_sends = t->n_receives = b->ranks;
    for (int r = 0; r < b->ranks; r++) {
        t->sends[r] = (CommPart){ r, session_place(session, b->own),
                                  (b->border[me + 1] - b->border[me]) * element };
        t->receives[r] = (CommPart){ r, (char *)to + b->border[r] * element,
                                     (b->border[r + 1] - b->border[r]) * element };
    }
    return comm_transfer_ready(session->pool, comm, t);
}

Err session_gather(Session *session, const Gather *gather)
{
    return comm_transfer_start(session->device->comm, gather->transfer);
}

Err session_gather_join(Session *session, const Gather *gather)
{
    return comm_transfer_join(session->device->comm, gather->slot);
}

/* ---- parameters and state that are divided ---- */

float *session_shard_buffer(Session *session) { return session->whole; }

typedef struct ShardPart { /* of one parameter at one rank */
    int64_t from, n;       /* elements of the parameter */
    int64_t at;            /* in the shard */
} ShardPart;

static ShardPart shard_part(const Bucket *b, const Param *param, int rank)
{
    int64_t first = b->first[param->place];
    int64_t from = int_max(b->border[rank] - first, 0),
            to = int_min(b->border[rank + 1] - first, param_count(param));
    return (ShardPart){ from, to > from ? to - from : 0, first + from - b->border[rank] };
}

/* The value that holds the shard, and its type. */
static int32_t shard_value(const Bucket *b, const Param *param, int32_t value)
{
    return value == param->value ? b->own : value;
}

Err session_put_shard(Session *session, const Param *param, int32_t value, const float *all)
{
    const Graph  *graph = session->engine->graph;
    const Bucket *b = param_shards(graph, param, value);
    ShardPart     own = shard_part(b, param, comm_rank(session->device->comm));
    int32_t       id = shard_value(b, param, value);
    Type          type = value_at(graph, id)->type;
    int64_t       at = own.at * type_bytes(type), bytes = own.n * type_bytes(type);
    if (!own.n)
        return OK;
    char *to = (char *)session_host_buffer(session, id) +
               (session_has_host_buffer(session) ? 0 : at);
    convert_rows(type, to, F32, all + own.from, (size_t)own.n);
    return session_has_host_buffer(session) ? session_write_at(session, id, at, to, bytes) : OK;
}

static int collect_sends(const Comm *comm, int to, CommPart part, CommPart *sends)
{
    int n = 0;
    for (int r = 0; r < comm_ranks(comm); r++)
        if (part.bytes && (to < 0 || r == to)) {
            sends[n] = part;
            sends[n++].peer = r;
        }
    return n;
}

/* Bytes of a shard where the host can send them from. */
static Err shard_host_bytes(Session *session, int32_t id, int64_t at, int64_t bytes, void **host)
{
    if (session_has_host_buffer(session)) {
        *host = session_host_buffer(session, id);
        return bytes ? session_read_at(session, id, at, *host, bytes) : OK;
    }
    *host = (char *)session_bytes(session, id) + at;
    return OK;
}

Err session_collect(Session *session, const Param *param, int32_t value, int to, const void **all)
{
    const Graph  *graph = session->engine->graph;
    const Bucket *b = param_shards(graph, param, value);
    Comm         *comm = session->device->comm;
    int32_t       id = shard_value(b, param, value);
    int64_t       element = type_bytes(value_at(graph, id)->type);
    int           me = comm_rank(comm), ranks = comm_ranks(comm), n = 0;
    ShardPart     own = shard_part(b, param, me);
    CommPart      sends[ranks], receives[ranks];
    CommPart      mine = { 0, NULL, own.n * element };
    TRY(shard_host_bytes(session, id, own.at * element, mine.bytes, &mine.data));
    int n_sends = collect_sends(comm, to, mine, sends);
    *all = to < 0 || to == me ? session->whole : NULL;
    for (int r = 0; r < ranks && *all; r++) {
        ShardPart part = shard_part(b, param, r);
        if (part.n)
            receives[n++] = (CommPart){ r, (char *)session->whole + part.from * element,
                                        part.n * element };
    }
    TRY(comm_start(comm, RANK_SLOT_FILES, sends, n_sends, receives, n));
    return comm_wait(comm, RANK_SLOT_FILES);
}
