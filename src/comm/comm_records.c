/* comm_records.c -- small records of all ranks, by sends and receives alone. */
#include "comm/comm_int.h"

#include <string.h>

enum { SHARE_BYTES = 1 << 24 }; /* of one message of comm_share */

typedef struct RecordRound { /* requests of one round */
    Comm *comm;
    int   n, open;
} RecordRound;

static Err round_send(RecordRound *r, int peer, const void *data, int64_t bytes)
{
    TRY(r->comm->transport->send(REQUEST_RECORDS + r->n, peer, TAG_RECORD, data, bytes));
    r->n++;
    r->open++;
    return OK;
}

static Err round_receive(RecordRound *r, int peer, void *data, int64_t bytes)
{
    TRY(r->comm->transport->receive(REQUEST_RECORDS + r->n, peer, TAG_RECORD, data, bytes));
    r->n++;
    r->open++;
    return OK;
}

static Err round_wait(RecordRound *r)
{
    int n = r->n;
    r->n = 0;
    return comm_await(r->comm, REQUEST_RECORDS, n, &r->open);
}

/* Blocks first, first + 1, ... of `all`, modulo the ranks, as one or two messages. */
static Err round_blocks(RecordRound *r, bool sends, int peer, int first, int n, char *all,
                        int64_t bytes)
{
    int   ranks = r->comm->ranks, before = n < ranks - first ? n : ranks - first;
    char *at = all + first * bytes;
    TRY(sends ? round_send(r, peer, at, before * bytes)
              : round_receive(r, peer, at, before * bytes));
    if (before < n)
        TRY(sends ? round_send(r, peer, all, (n - before) * bytes)
                  : round_receive(r, peer, all, (n - before) * bytes));
    return OK;
}

/* A rank that has the records of itself and the next n - 1 gives them to the rank n before it, and
 * takes as many from the rank n after it: after log2(ranks) rounds everybody has all. */
Err comm_all(Comm *comm, const void *mine, int64_t bytes, void *all)
{
    RecordRound r = { comm };
    char       *to = all;
    REQUIRE(bytes >= 0 && bytes * comm->ranks <= INT32_MAX);
    memmove(to + comm->rank * bytes, mine, (size_t)bytes);
    for (int have = 1; have < comm->ranks && bytes; have *= 2) {
        int n = have < comm->ranks - have ? have : comm->ranks - have;
        int before = (comm->rank + comm->ranks - have) % comm->ranks;
        int after = (comm->rank + have) % comm->ranks;
        TRY(round_blocks(&r, false, after, after, n, to, bytes));
        TRY(round_blocks(&r, true, before, comm->rank, n, to, bytes));
        TRY(round_wait(&r));
    }
    return OK;
}

/* A tree: with ranks counted from `from`, each receives from the rank without its lowest set bit,
 * and sends to those with one lower bit more. */
static Err share_message(Comm *comm, int from, void *data, int64_t bytes)
{
    RecordRound r = { comm };
    int         ranks = comm->ranks, own = (comm->rank + ranks - from) % ranks, bit = 1;
    while (bit < ranks && !(own & bit))
        bit *= 2;
    if (own) {
        TRY(round_receive(&r, (own - bit + from) % ranks, data, bytes));
        TRY(round_wait(&r));
    }
    while ((bit /= 2))
        if (own + bit < ranks) {
            TRY(round_send(&r, (own + bit + from) % ranks, data, bytes));
            TRY(round_wait(&r));
        }
    return OK;
}

Err comm_share(Comm *comm, int from, void *data, int64_t bytes)
{
    REQUIRE(from >= 0 && from < comm->ranks && bytes >= 0);
    for (int64_t at = 0; at < bytes && comm->ranks > 1; at += SHARE_BYTES)
        TRY(share_message(comm, from, (char *)data + at,
                          bytes - at < SHARE_BYTES ? bytes - at : SHARE_BYTES));
    return OK;
}

Err comm_any(Comm *comm, unsigned mine, unsigned *any)
{
    *any = mine;
    if (comm->ranks == 1)
        return OK;
    TRY(comm_all(comm, &mine, sizeof mine, comm->flags));
    for (int i = 0; i < comm->ranks; i++)
        *any |= comm->flags[i];
    return OK;
}
