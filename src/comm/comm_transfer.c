/* comm_transfer.c -- transfers in slots: parts become messages, waits poll them. */
#include "comm/queue_int.h"

#include "base/clock.h"
#include "device/device.h"

#include <string.h>

enum { WARM_BYTES = 1 << 18 }; /* more than libraries send without asking the receiver first */

static int64_t comm_check_parts(const Comm *comm, const CommPart *parts, int n)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        REQUIRE(parts[i].peer >= 0 && parts[i].peer < comm->ranks && parts[i].bytes >= 0);
        bytes += parts[i].bytes;
    }
    return bytes;
}

/* The part of this rank's own that comes after the first `from`; n: there is none. */
static int comm_next_own(const Comm *comm, const CommPart *parts, int n, int from)
{
    while (from < n && parts[from].peer != comm->rank)
        from++;
    return from;
}

/* What a rank sends to itself never reaches a transport. */
static void comm_move_own(const Comm *comm, const CommPart *sends, int n_sends,
                          const CommPart *receives, int n_receives)
{
    int s = comm_next_own(comm, sends, n_sends, 0);
    int r = comm_next_own(comm, receives, n_receives, 0);
    while (s < n_sends && r < n_receives) {
        REQUIRE(sends[s].bytes == receives[r].bytes);
        if (sends[s].bytes && sends[s].data != receives[r].data)
            memmove(receives[r].data, sends[s].data, (size_t)sends[s].bytes);
        s = comm_next_own(comm, sends, n_sends, s + 1);
        r = comm_next_own(comm, receives, n_receives, r + 1);
    }
    REQUIRE(s == n_sends && r == n_receives); /* each send has a receive */
}

static int comm_requests_of_slot(const Comm *comm, int slot)
{
    return REQUEST_WORDS_OUT + comm->ranks + slot * comm->slot_requests;
}

/* Both sides cut a part at the same places, so that their messages meet. */
static Err comm_post(Comm *comm, int slot, const CommPart *part, bool sends)
{
    CommSlot *s = &comm->slots[slot];
    for (int64_t at = 0; at < part->bytes && part->peer != comm->rank; at += comm->max_message) {
        int64_t bytes = part->bytes - at;
        bytes = bytes < comm->max_message ? bytes : comm->max_message;
        int   request = comm_requests_of_slot(comm, slot) + s->n;
        char *data = (char *)part->data + at;
        TRY(sends ? comm->transport->send(request, part->peer, slot, data, bytes)
                  : comm->transport->receive(request, part->peer, slot, data, bytes));
        s->n++;
        s->open++;
    }
    return OK;
}

Err comm_start(Comm *comm, int slot, const CommPart *sends, int n_sends, const CommPart *receives,
               int n_receives)
{
    REQUIRE(comm->prepared && slot >= 0 && slot < COMM_SLOTS && !comm->slots[slot].busy);
    REQUIRE(n_sends + n_receives <= comm->max_parts);
    REQUIRE(comm_check_parts(comm, sends, n_sends) + comm_check_parts(comm, receives, n_receives) <=
            comm->max_bytes);
    comm_move_own(comm, sends, n_sends, receives, n_receives);
    comm->slots[slot] = (CommSlot){ .busy = true };
    for (int i = 0; i < n_receives; i++) /* first, so that what arrives has a place */
        TRY(comm_post(comm, slot, &receives[i], false));
    for (int i = 0; i < n_sends; i++)
        TRY(comm_post(comm, slot, &sends[i], true));
    return OK;
}

static Err await_open(Comm *comm, int first, int n, int *open)
{
    CommWait wait = { .since = clock_now() };
    comm->waits = true;
    while (*open) {
        int done;
        TRY(comm->transport->test(first, n, &done));
        *open -= done;
        if (done)
            wait = (CommWait){ .since = clock_now() };
        else
            TRY(watch_idle(comm, &wait));
    }
    return OK;
}

Err comm_await(Comm *comm, int first, int n, int *open)
{
    double since = clock_now();
    Err    err = await_open(comm, first, n, open);
    comm->waited += clock_now() - since;
    if (err)
        queue_give_up(comm);
    return err;
}

Err comm_wait(Comm *comm, int slot)
{
    REQUIRE(slot >= 0 && slot < COMM_SLOTS);
    CommSlot *s = &comm->slots[slot];
    TRY(comm_await(comm, comm_requests_of_slot(comm, slot), s->n, &s->open));
    s->busy = false;
    return OK;
}

Err comm_test(Comm *comm, int slot, bool *done)
{
    CommSlot *s = &comm->slots[slot];
    int       ended = 0;
    if (s->open)
        TRY(comm->transport->test(comm_requests_of_slot(comm, slot), s->n, &ended));
    s->open -= ended;
    s->busy = s->busy && s->open;
    *done = !s->open;
    return OK;
}

Err comm_poll(Comm *comm)
{
    Err err;
    comm->waits = false;
    err = comm->transport ? watch_words(comm) : OK;
    if (err)
        queue_give_up(comm);
    return err;
}

/* Moves something between all pairs, so that connections and the library's buffers are there before
 * step 1 and are counted. */
static Err comm_warm(Comm *comm)
{
    int64_t bytes = comm->max_bytes / 2 < WARM_BYTES ? comm->max_bytes / 2 : WARM_BYTES;
    Pool   *pool = pool_new(comm->pool, "warm");
    char   *data = pool_alloc(pool, 2, (size_t)bytes + 1);
    Err     err = OK;
    for (int far = 1; far < comm->ranks && !err && comm->max_parts >= 2; far++) {
        CommPart to = { (comm->rank + far) % comm->ranks, data, bytes };
        CommPart from = { (comm->rank + comm->ranks - far) % comm->ranks, data + bytes, bytes };
        err = comm_start(comm, 0, &to, 1, &from, 1);
        err = err ? err : comm_wait(comm, 0);
    }
    pool_free(pool);
    return err;
}

Err comm_prepare(Comm *comm, int max_parts, int64_t max_bytes)
{
    if (comm->prepared && max_parts <= comm->max_parts && max_bytes <= comm->max_bytes)
        return OK;
    max_parts = max_parts > comm->max_parts ? max_parts : comm->max_parts;
    max_bytes = max_bytes > comm->max_bytes ? max_bytes : comm->max_bytes;
    comm->max_parts = max_parts;
    comm->max_bytes = max_bytes;
    comm->prepared = true;
    if (!comm->transport)
        return OK;
    int64_t requests = max_parts + max_bytes / comm->max_message;
    REQUIRE(requests < INT32_MAX / (2 * COMM_SLOTS));
    int64_t before = resident_bytes();
    comm->slot_requests = (int)requests;
    TRY(comm->transport->reserve(comm_requests_of_slot(comm, COMM_SLOTS)));
    TRY(comm_warm(comm));
    comm->held += resident_bytes() - before;
    return OK;
}
