/* queue.c -- opens a device's queue for transfers; starts and joins transfers in it. */
#include "comm/queue_int.h"

#include "base/clock.h"
#include "base/int_math.h"
#include "comm/agree.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which way, for all ranks ---- */

typedef struct QueueFact { /* of one rank */
    int32_t version;       /* of the library between devices; 0: it cannot be used */
    int32_t shares;        /* it was told to serve several ranks on one device */
    char    host[COMM_HOST], place[QUEUE_PLACE], why[QUEUE_WHY];
} QueueFact;

static QueueFact queue_fact(const Comm *comm, const Device *device)
{
    const char *shares = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    QueueFact   fact = { .shares = shares && !strcmp(shares, "1") };
    memcpy(fact.host, comm_host(comm, comm_rank(comm)), sizeof fact.host);
    device->transfers->place(device, fact.place);
    fact.version = device->transfers->direct_find(fact.why);
    return fact;
}

/* NCCL serves several ranks on one device from 2.30 on; an older one fails as it opens. */
enum { NCCL_SHARES = 23000 };

/* The first rank whose device an earlier rank has too; -1: none. */
static int queue_shared(const QueueFact *all, int ranks)
{
    for (int r = 1; r < ranks; r++)
        for (int k = 0; k < r; k++)
            if (!strcmp(all[r].host, all[k].host) && !strcmp(all[r].place, all[k].place))
                return r;
    return -1;
}

static bool queue_all_share(const QueueFact *all, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (!all[r].shares)
            return false;
    return true;
}

/* Why bytes cannot go directly; "": they can. The same on all ranks. */
static void queue_reason(const QueueFact *all, int ranks, char why[QUEUE_WHY])
{
    int shared = queue_shared(all, ranks);
    why[0] = 0;
    for (int r = 0; r < ranks && !why[0]; r++)
        if (!all[r].version)
            snprintf(why, QUEUE_WHY, "rank %d on %s: %.150s", r, all[r].host, all[r].why);
        else if (all[r].version != all[0].version)
            snprintf(why, QUEUE_WHY, "rank %d on %s has another version of NCCL than rank 0", r,
                     all[r].host);
    if (!why[0] && shared >= 0 && (all[0].version < NCCL_SHARES || !queue_all_share(all, ranks)))
        snprintf(why, QUEUE_WHY, "rank %d on %s has the same GPU as another rank", shared,
                 all[shared].host);
}

static Err queue_choose(CommQueue *q)
{
    Comm     *comm = q->comm;
    int       ranks = comm_ranks(comm);
    Pool     *pool = pool_new(comm->pool, "queue facts");
    QueueFact mine = queue_fact(comm, q->device), *all = NEWN(pool, QueueFact, ranks);
    Err       err = comm_all(comm, &mine, sizeof mine, all);
    char      why[QUEUE_WHY] = "";
    if (!err) {
        int version = all[0].version;
        queue_reason(all, ranks, why);
        q->direct = !why[0];
        if (q->direct)
            snprintf(q->text, sizeof q->text, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
                     version % 100);
        else
            snprintf(q->text, sizeof q->text, "host memory and %.100s (%s)", comm->library, why);
    }
    pool_free(pool);
    return err;
}

/* ---- the library between devices ---- */

typedef struct QueueOpening { /* takes as long as the slowest rank: meanwhile others are answered */
    CommQueue  *queue;
    char        id[QUEUE_ID];
    pthread_t   thread;
    atomic_bool done;
    Err         err;
    char        sentence[1024];
} QueueOpening;

static void *queue_open_direct(void *arg)
{
    QueueOpening *o = arg;
    const Comm   *comm = o->queue->comm;
    o->err = o->queue->api->direct_open(o->queue->device, o->id, comm_rank(comm), comm_ranks(comm));
    if (o->err)
        snprintf(o->sentence, sizeof o->sentence, "%s", err_text());
    atomic_store(&o->done, true);
    return NULL;
}

static Err queue_await_open(QueueOpening *o)
{
    CommQueue *q = o->queue;
    CommWait   wait = { .since = clock_now() };
    q->comm->waits = true;
    while (!atomic_load(&o->done))
        TRY(watch_idle(q->comm, &wait)); /* the thread is left behind: all ranks end */
    pthread_join(o->thread, NULL);
    return o->err ? fail(o->err, "%s", o->sentence) : OK;
}

/* Every pair of ranks sends once, so that all connections are there and are counted. */
static Err queue_warm(CommQueue *q)
{
    enum { BYTES = 1 << 18 };
    const Device *device = q->device;
    void         *room;
    int           me = comm_rank(q->comm), ranks = comm_ranks(q->comm);
    TRY(device->api->alloc(device, 2 * BYTES, &room));
    Err err = OK;
    for (int far = 1; far < ranks && !err; far++) {
        CommPart     to = { (me + far) % ranks, room, BYTES };
        CommPart     from = { (me + ranks - far) % ranks, (char *)room + BYTES, BYTES };
        CommTransfer once = { 0, &to, &from, 1, 1, NULL };
        err = comm_transfer_start(q->comm, &once);
        err = err ? err : comm_transfer_join(q->comm, once.slot);
        err = err ? err : device_wait(device);
    }
    if (!err)
        device->api->free(device, room);
    return err;
}

static Err queue_connect(CommQueue *q)
{
    QueueOpening *o = NEW(q->comm->pool, QueueOpening);
    o->queue = q;
    Err err = comm_rank(q->comm) ? OK : q->api->direct_id(o->id);
    TRY(comm_follow(q->comm, 0, err));
    TRY(comm_share(q->comm, 0, o->id, sizeof o->id));
    if (pthread_create(&o->thread, NULL, queue_open_direct, o))
        return fail(E_DEVICE,
                    "no thread can be started to open NCCL; raise the limit of processes");
    TRY(queue_await_open(o));
    return queue_warm(q);
}

/* ---- what a host does while it waits for its device ---- */

static void queue_wait_begins(void *arg)
{
    CommQueue *q = arg;
    q->begun = clock_now();
    q->wait = (CommWait){ .since = q->begun };
}

/* Does a transfer wait for other ranks? If so, since when has none ended? */
static Err queue_look(CommQueue *q, bool *under_way)
{
    unsigned ended = q->ended;
    *under_way = q->serving != NULL;
    if (q->direct)
        TRY(q->api->direct_look(under_way, &ended));
    if (ended != q->ended || !*under_way)
        q->wait = (CommWait){ .since = clock_now() };
    q->ended = ended;
    return OK;
}

/* A device that computes keeps nobody waiting: only then may the host be as patient as it takes. */
static Err queue_idle_turn(CommQueue *q)
{
    bool under_way;
    TRY(queue_look(q, &under_way));
    q->comm->waits = under_way;
    return under_way ? watch_idle(q->comm, &q->wait) : watch_rest(q->comm, clock_now() - q->begun);
}

static Err queue_idle(void *arg)
{
    CommQueue *q = arg;
    Err        err = queue_idle_turn(q);
    if (err)
        queue_give_up(q->comm);
    return err;
}

/* ---- opening ---- */

static Err queue_device_kind(Comm *comm, const Device *device)
{
    return comm_same(comm,
                     &(CommFact){ "kind of device",
                                  device->kind == DEVICE_CUDA ? "a GPU" : "the CPU",
                                  "give the same --device, and a GPU to every rank" },
                     1);
}

static Err queue_count(const Device *device, int64_t *bytes)
{
    *bytes = 0;
    return device->api->used_bytes ? device->api->used_bytes(device, bytes) : OK;
}

/* A plan was made with what the wire profile says the library holds; now it is known. */
static void queue_charge(Device *device, int64_t held)
{
    device->runtime_bytes += held - device->wire_bytes;
    device->memory_bytes -= held - device->wire_bytes;
    device->wire_bytes = held;
}

static Err queue_open_on(CommQueue *q, Device *device)
{
    int64_t before, after;
    TRY(queue_count(device, &before));
    TRY(q->api->open(device, COMM_SLOTS));
    TRY(queue_choose(q));
    if (q->direct)
        TRY(queue_connect(q));
    TRY(queue_count(device, &after));
    queue_charge(device, int_max(after - before, 0));
    return OK;
}

Err comm_queue_open(Comm *comm, Device *device)
{
    if (comm_ranks(comm) == 1)
        return OK;
    TRY(queue_device_kind(comm, device));
    if (device->kind == DEVICE_CPU || comm->queue)
        return OK;
    if (!device->transfers)
        return comm_refuse(comm, E_USAGE, "%s cannot be shared by several ranks", device->model);
    CommQueue *q = comm->queue = NEW(comm->pool, CommQueue);
    q->comm = comm;
    q->device = device;
    q->api = device->transfers;
    q->meanwhile = (DeviceMeanwhile){ queue_wait_begins, queue_idle, q };
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->moved, NULL);
    device->meanwhile = &q->meanwhile;
    return comm_agree(comm, queue_open_on(q, device));
}

const char *comm_queue_text(const Comm *comm) { return comm->queue ? comm->queue->text : ""; }

void queue_give_up(Comm *comm)
{
    CommQueue *q = comm->queue;
    if (!q || q->gave_up)
        return;
    pthread_mutex_lock(&q->lock);
    q->gave_up = true;
    pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->lock);
    q->api->give_up(q->device);
}

/* ---- transfers ---- */

CommTransfer *comm_transfer_new(Pool *pool, int slot, int parts)
{
    CommTransfer *t = NEW(pool, CommTransfer);
    *t = (CommTransfer){ .slot = slot,
                         .sends = NEWN(pool, CommPart, parts),
                         .receives = NEWN(pool, CommPart, parts) };
    return t;
}

/* What a rank sends to itself is a copy in the queue; the i-th send of it meets the i-th receive. */
static Err queue_copy_own(CommQueue *q, const CommTransfer *t)
{
    int me = comm_rank(q->comm), r = 0;
    for (int s = 0; s < t->n_sends; s++) {
        if (t->sends[s].peer != me)
            continue;
        while (r < t->n_receives && t->receives[r].peer != me)
            r++;
        REQUIRE(r < t->n_receives && t->receives[r].bytes == t->sends[s].bytes);
        if (t->sends[s].bytes && t->sends[s].data != t->receives[r].data)
            TRY(q->api->copy(q->device, t->receives[r].data, t->sends[s].data,
                             (size_t)t->sends[s].bytes));
        r++;
    }
    return OK;
}

static int parts_of_others(const CommPart *parts, int n, int me, CommPart *others)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (parts[i].peer != me && parts[i].bytes)
            others[kept++] = parts[i];
    return kept;
}

static Err queue_move(CommQueue *q, const CommTransfer *t)
{
    if (t->staged)
        return staged_queue(t->staged);
    int      me = comm_rank(q->comm);
    CommPart sends[t->n_sends + 1], receives[t->n_receives + 1];
    int      n_sends = parts_of_others(t->sends, t->n_sends, me, sends);
    int      n_receives = parts_of_others(t->receives, t->n_receives, me, receives);
    return n_sends + n_receives ? q->api->direct(q->device, sends, n_sends, receives, n_receives)
                                : OK;
}

Err comm_transfer_ready(Pool *pool, Comm *comm, CommTransfer *t)
{
    if (comm->queue && !comm->queue->direct)
        t->staged = staged_new(pool, comm->queue, t);
    return OK;
}

Err comm_transfer_start(Comm *comm, const CommTransfer *t)
{
    CommQueue *q = comm->queue;
    if (!q)
        return comm_start(comm, t->slot, t->sends, t->n_sends, t->receives, t->n_receives);
    TRY(q->api->begin(q->device));
    TRY(queue_copy_own(q, t));
    TRY(queue_move(q, t));
    return q->api->end(q->device, t->slot);
}

Err comm_queue_settle(Comm *comm)
{
    CommQueue *q = comm ? comm->queue : NULL;
    return q && !q->direct ? device_wait(q->device) : OK;
}

Err comm_transfer_join(Comm *comm, int slot)
{
    CommQueue *q = comm->queue;
    return q ? q->api->join(q->device, slot) : comm_wait(comm, slot);
}
