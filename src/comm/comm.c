/* comm.c -- transfers between ranks: the form of one rank. */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Comm {
    Pool *pool;
    int   rank, ranks;
    char (*hosts)[COMM_HOST]; /* by rank */
    bool    prepared;
    int     max_parts;
    int64_t max_bytes;
    bool    busy[COMM_SLOTS]; /* started and not waited for */
};

static void comm_host_name(char name[COMM_HOST])
{
    if (gethostname(name, COMM_HOST - 1))
        strcpy(name, "?");
    name[COMM_HOST - 1] = 0;
}

Err comm_one(Pool *pool, Comm **comm)
{
    Comm *c = NEW(pool, Comm);
    *c = (Comm){ .pool = pool, .ranks = 1, .hosts = pool_alloc(pool, 1, COMM_HOST) };
    comm_host_name(c->hosts[0]);
    *comm = c;
    return OK;
}

Err comm_open(Pool *pool, Comm **comm) { return comm_one(pool, comm); }

int         comm_rank(const Comm *comm) { return comm->rank; }
int         comm_ranks(const Comm *comm) { return comm->ranks; }
const char *comm_transport(const Comm *comm) { return (void)comm, "none"; }

const char *comm_host(const Comm *comm, int rank)
{
    REQUIRE(rank >= 0 && rank < comm->ranks);
    return comm->hosts[rank];
}

Err comm_prepare(Comm *comm, int max_parts, int64_t max_bytes)
{
    comm->max_parts = max_parts;
    comm->max_bytes = max_bytes;
    comm->prepared = true;
    return OK;
}

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

Err comm_start(Comm *comm, int slot, const CommPart *sends, int n_sends, const CommPart *receives,
               int n_receives)
{
    REQUIRE(comm->prepared && slot >= 0 && slot < COMM_SLOTS && !comm->busy[slot]);
    REQUIRE(n_sends + n_receives <= comm->max_parts);
    REQUIRE(comm_check_parts(comm, sends, n_sends) + comm_check_parts(comm, receives, n_receives) <=
            comm->max_bytes);
    comm_move_own(comm, sends, n_sends, receives, n_receives);
    comm->busy[slot] = true;
    return OK;
}

Err comm_wait(Comm *comm, int slot)
{
    REQUIRE(slot >= 0 && slot < COMM_SLOTS);
    comm->busy[slot] = false;
    return OK;
}

Err comm_all(Comm *comm, const void *mine, int64_t bytes, void *all)
{
    memcpy((char *)all + comm->rank * bytes, mine, (size_t)bytes);
    return OK;
}

Err comm_share(Comm *comm, int from, void *data, int64_t bytes)
{
    (void)data;
    REQUIRE(from >= 0 && from < comm->ranks && bytes >= 0);
    return OK;
}

void comm_abort(Comm *comm, int code)
{
    (void)comm;
    _exit(code);
}

int64_t comm_held(const Comm *comm) { return (void)comm, 0; }
