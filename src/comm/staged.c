/* staged.c -- transfers of device memory through host memory. */
#include "comm/queue_int.h"

#include "base/int_math.h"

enum { STAGED_ALIGN = 256 };

struct CommStaged {
    CommQueue *queue;
    int        slot;
    CommPart  *from, *to;        /* on the device: what is copied to the host, and what from it */
    char     **from_at, **to_at; /* their places in the room */
    int        n_from, n_to;
    CommPart  *sends, *receives; /* on the host */
    int        n_sends;          /* n_to: receives */
};

/* The place of bytes that an earlier send has copied already; NULL: none has. */
static char *staged_place(const CommStaged *s, const CommPart *part)
{
    for (int i = 0; i < s->n_from; i++)
        if (s->from[i].data == part->data && s->from[i].bytes == part->bytes)
            return s->from_at[i];
    return NULL;
}

static char *staged_room(const CommStaged *s, int64_t *at, int64_t bytes)
{
    char *place = s->queue->room + *at;
    *at += align_up(bytes, STAGED_ALIGN);
    REQUIRE(*at <= s->queue->room_bytes);
    return place;
}

static void staged_send(CommStaged *s, const CommPart *part, int64_t *at)
{
    char *place = staged_place(s, part);
    if (!place) {
        place = staged_room(s, at, part->bytes);
        s->from_at[s->n_from] = place;
        s->from[s->n_from++] = *part;
    }
    s->sends[s->n_sends++] = (CommPart){ part->peer, place, part->bytes };
}

static void staged_receive(CommStaged *s, const CommPart *part, int64_t *at)
{
    char *place = staged_room(s, at, part->bytes);
    s->receives[s->n_to] = (CommPart){ part->peer, place, part->bytes };
    s->to_at[s->n_to] = place;
    s->to[s->n_to++] = *part;
}

CommStaged *staged_new(Pool *pool, CommQueue *queue, const CommTransfer *t)
{
    CommStaged *s = NEW(pool, CommStaged);
    int64_t     at = 0;
    int         me = comm_rank(queue->comm);
    *s = (CommStaged){ .queue = queue,
                       .slot = t->slot,
                       .from = NEWN(pool, CommPart, t->n_sends + 1),
                       .to = NEWN(pool, CommPart, t->n_receives + 1),
                       .from_at = NEWN(pool, char *, t->n_sends + 1),
                       .to_at = NEWN(pool, char *, t->n_receives + 1),
                       .sends = NEWN(pool, CommPart, t->n_sends + 1),
                       .receives = NEWN(pool, CommPart, t->n_receives + 1) };
    for (int i = 0; i < t->n_sends; i++)
        if (t->sends[i].peer != me && t->sends[i].bytes)
            staged_send(s, &t->sends[i], &at);
    for (int i = 0; i < t->n_receives; i++)
        if (t->receives[i].peer != me && t->receives[i].bytes)
            staged_receive(s, &t->receives[i], &at);
    return s;
}

Err comm_queue_prepare(Comm *comm, int64_t max_bytes)
{
    CommQueue *q = comm->queue;
    void      *room;
    if (!q || q->direct)
        return OK;
    max_bytes += 2 * (int64_t)comm->max_parts * STAGED_ALIGN;
    if (max_bytes <= q->room_bytes)
        return OK;
    /* an older room stays: transfers that were captured with it copy from there */
    TRY(device_host_bytes(comm->pool, q->device, max_bytes, &room));
    q->room = room;
    q->room_bytes = max_bytes;
    comm->held += max_bytes;
    return OK;
}

/* In a thread of the device's library: the queue stops here until the bytes have moved. */
static void staged_turn(void *arg)
{
    CommStaged *s = arg;
    CommQueue  *q = s->queue;
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->turn, s);
    while (atomic_load(&q->turn) == s && !q->gave_up)
        pthread_cond_wait(&q->moved, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

Err staged_queue(CommStaged *s)
{
    CommQueue *q = s->queue;
    if (!s->n_sends && !s->n_to)
        return OK;
    for (int i = 0; i < s->n_from; i++)
        TRY(q->api->copy(q->device, s->from_at[i], s->from[i].data, (size_t)s->from[i].bytes));
    TRY(q->api->call(q->device, staged_turn, s));
    for (int i = 0; i < s->n_to; i++)
        TRY(q->api->copy(q->device, s->to[i].data, s->to_at[i], (size_t)s->to[i].bytes));
    return OK;
}

static void staged_turn_ends(CommQueue *q)
{
    q->serving = NULL;
    q->ended++;
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->turn, NULL);
    pthread_cond_signal(&q->moved);
    pthread_mutex_unlock(&q->lock);
}

Err queue_serve(Comm *comm)
{
    CommQueue  *q = comm->queue;
    CommStaged *s = q ? atomic_load(&q->turn) : NULL;
    bool        done;
    if (!s || q->gave_up)
        return OK;
    if (!q->serving) {
        q->serving = s;
        TRY(comm_start(comm, s->slot, s->sends, s->n_sends, s->receives, s->n_to));
    }
    TRY(comm_test(comm, s->slot, &done));
    if (done)
        staged_turn_ends(q);
    return OK;
}
