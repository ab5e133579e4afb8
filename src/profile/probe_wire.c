/* probe_wire.c -- times of transfers among all ranks at once, as a training step makes them.
 *
 * Every time is that of the slowest rank, and the best of several, because other programs can only
 * add to it. Bandwidth is taken from the difference of two sizes. */
#include "profile/probe_wire.h"

#include "base/clock.h"
#include "base/int_math.h"

#include <math.h>
#include <string.h>

enum {
    PROBE_TRIES = 7,
    PROBE_SMALL = 64, /* bytes */
    PROBE_MANY = 16,  /* small messages to each rank */
    PROBE_BYTES = 32 << 20,
    PROBE_LESS = 8 << 20, /* that one rank sends, to all others together */
    PROBE_FLOATS = 1 << 14
};

typedef struct WireProbe {
    Pool     *pool;
    Comm     *comm;
    bool      inside; /* only ranks of the same machine take part; else only others */
    int       peers;
    char     *out, *in;
    CommPart *sends, *receives;
    double   *times; /* by rank */
    float    *work;
} WireProbe;

static bool probe_peer(const WireProbe *p, int rank)
{
    int  me = comm_rank(p->comm);
    bool same = !strcmp(comm_host(p->comm, rank), comm_host(p->comm, me));
    return rank != me && same == p->inside;
}

/* The time that the slowest rank took. */
static Err probe_slowest(WireProbe *p, double mine, double *slowest)
{
    TRY(comm_all(p->comm, &mine, sizeof mine, p->times));
    *slowest = 0;
    for (int r = 0; r < comm_ranks(p->comm); r++)
        *slowest = fmax(*slowest, p->times[r]);
    return OK;
}

static Err probe_together(WireProbe *p)
{
    unsigned any;
    return comm_any(p->comm, 0, &any);
}

/* What a rank does while bytes move: about the time of a small kernel. */
static void probe_compute(WireProbe *p)
{
    for (int k = 0; k < 16; k++)
        for (int i = 0; i < PROBE_FLOATS; i++)
            p->work[i] = p->work[i] * 0.999F + 0.5F;
}

/* n messages of so many bytes to each other rank, and `chunks` of computing meanwhile. */
static Err probe_once(WireProbe *p, int64_t bytes, int n, int chunks, double *seconds)
{
    int at = 0;
    for (int r = 0; r < comm_ranks(p->comm); r++)
        for (int k = 0; k < n && probe_peer(p, r); k++, at++) {
            p->sends[at] = (CommPart){ r, p->out + at * bytes, bytes };
            p->receives[at] = (CommPart){ r, p->in + at * bytes, bytes };
        }
    TRY(probe_together(p));
    double start = clock_now();
    TRY(comm_start(p->comm, 0, p->sends, at, p->receives, at));
    for (int k = 0; k < chunks; k++) {
        probe_compute(p);
        TRY(comm_poll(p->comm));
    }
    TRY(comm_wait(p->comm, 0));
    return probe_slowest(p, clock_now() - start, seconds);
}

static Err probe_time(WireProbe *p, int64_t bytes, int n, int chunks, double *ns)
{
    *ns = INFINITY;
    for (int i = 0; i < PROBE_TRIES; i++) {
        double seconds;
        TRY(probe_once(p, bytes, n, chunks, &seconds));
        *ns = fmin(*ns, seconds * 1e9);
    }
    return OK;
}

static int probe_peers(const WireProbe *p, bool inside)
{
    WireProbe like = *p;
    int       n = 0;
    like.inside = inside;
    for (int r = 0; r < comm_ranks(p->comm); r++)
        n += probe_peer(&like, r);
    return n;
}

/* Of all ranks the largest; so they agree on what is measured. */
static Err probe_max(WireProbe *p, int mine, int *max)
{
    double slowest;
    TRY(probe_slowest(p, mine, &slowest));
    *max = (int)slowest;
    return OK;
}

static Err probe_link(WireProbe *p, bool inside, int per_node, WireLink *link)
{
    double one, many, less, more;
    p->inside = inside;
    TRY(probe_max(p, probe_peers(p, inside), &p->peers));
    if (!p->peers)
        return OK;
    int64_t part = PROBE_BYTES / p->peers, small = PROBE_LESS / p->peers;
    TRY(probe_time(p, PROBE_SMALL, 1, 0, &one));
    TRY(probe_time(p, PROBE_SMALL, PROBE_MANY, 0, &many));
    TRY(probe_time(p, small, 1, 0, &less));
    TRY(probe_time(p, part, 1, 0, &more));
    double ns = more - less, bytes = (double)((part - small) * p->peers * per_node);
    link->message_ns = fmax((many - one) / ((PROBE_MANY - 1) * p->peers), 0);
    link->latency_ns = fmax(one - link->message_ns * p->peers, 0);
    link->bytes_per_ns = bytes / (ns > 0 ? ns : more);
    link->shared = true; /* the ranks of a machine share its memory and its adapters */
    return OK;
}

/* The share of a transfer's time that computing beside it hides. */
static Err probe_hidden(WireProbe *p, double *hidden)
{
    double move, compute, both, chunk;
    int    chunks;
    TRY(probe_max(p, probe_peers(p, false), &p->peers));
    p->inside = p->peers == 0; /* between machines, if there are several */
    TRY(probe_max(p, probe_peers(p, p->inside), &p->peers));
    int64_t part = PROBE_BYTES / p->peers;
    TRY(probe_time(p, 0, 0, 64, &chunk));
    TRY(probe_time(p, part, 1, 0, &move));
    TRY(probe_max(p, (int)(64 * move / chunk) + 1, &chunks));
    TRY(probe_time(p, 0, 0, chunks, &compute));
    TRY(probe_time(p, part, 1, chunks, &both));
    double saved = (move + compute - both) / fmin(move, compute);
    *hidden = fmin(fmax(saved, 0), 1);
    return OK;
}

static int probe_per_node(const Comm *comm)
{
    int most = 1;
    for (int r = 0; r < comm_ranks(comm); r++) {
        int here = 0;
        for (int k = 0; k < comm_ranks(comm); k++)
            here += !strcmp(comm_host(comm, r), comm_host(comm, k));
        most = (int)int_max(most, here);
    }
    return most;
}

Err probe_wire(Pool *pool, Comm *comm, Wire *wire)
{
    int ranks = comm_ranks(comm), per_node = probe_per_node(comm);
    if (ranks == 1)
        return fail(E_USAGE, "probe --wire measures what connects several ranks: start it with "
                             "mpirun -n N plimsoll probe --wire, or by srun");
    int64_t   alone = comm_held(comm);
    WireProbe p = { .pool = pool,
                    .comm = comm,
                    .out = pool_alloc(pool, PROBE_BYTES, 1),
                    .in = pool_alloc(pool, PROBE_BYTES, 1),
                    .sends = NEWN(pool, CommPart, ranks * PROBE_MANY),
                    .receives = NEWN(pool, CommPart, ranks * PROBE_MANY),
                    .times = NEWN(pool, double, ranks),
                    .work = NEWN(pool, float, PROBE_FLOATS) };
    TRY(comm_prepare(comm, 2 * ranks * PROBE_MANY, 2 * PROBE_BYTES));
    int64_t each = int_max(comm_held(comm) - alone, 0) / (ranks - 1);
    TRY(probe_link(&p, true, per_node, &wire->inside));
    TRY(probe_link(&p, false, per_node, &wire->between));
    TRY(probe_hidden(&p, &wire->hidden));
    const char *origin = pool_print(pool, "measured with %d ranks, %d on each machine, by %s",
                                    ranks, per_node, comm_transport(comm));
    wire->title = pool_print(pool, "%d ranks, %d on each machine, by %s", ranks, per_node,
                             comm_transport(comm));
    wire->inside.origin = wire->between.origin = wire->hidden_origin = wire->held_origin = origin;
    wire->inside.peer_bytes = wire->between.peer_bytes = each;
    wire->held_bytes = int_max(alone, 0);
    return OK;
}
