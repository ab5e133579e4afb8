/* ranks.c -- transfers between the ranks of real launchers.
 *
 * Without arguments this program is the test: it starts itself under mpirun of Open MPI and of MPICH
 * with 1, 2 and 4 ranks, all on this machine, and looks at exit codes and messages. With a name it
 * is one rank, which does what workers[] says. */
#include "base/clock.h"
#include "comm/agree.h"
#include "comm/comm.h"

#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 4, MAX_PARTS = 3, MAX_BYTES = 1 << 20, ROUNDS = 60, SLOTS_USED = 5 };

/* ---- a rank ---- */

/* The same numbers on all ranks. */
static unsigned dice(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

typedef struct Traffic { /* of one slot: parts of every pair */
    int     n[MAX_RANKS][MAX_RANKS];
    int64_t bytes[MAX_RANKS][MAX_RANKS][MAX_PARTS];
} Traffic;

static void traffic_draw(Traffic *t, int ranks, unsigned *state)
{
    static const int64_t sizes[] = { 0, 1, 7, 4096, 65537, 300001 };
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++) {
            t->n[a][b] = (int)(dice(state) % (MAX_PARTS + 1));
            for (int i = 0; i < t->n[a][b]; i++)
                t->bytes[a][b][i] = sizes[dice(state) % 6];
        }
}

static unsigned char content(int slot, int round, int from, int to, int part, int64_t i)
{
    return (unsigned char)(slot * 31 + round * 7 + from * 101 + to * 57 + part * 13 + i * 3 +
                           (i >> 8));
}

typedef struct SlotBuffers {
    CommPart parts[2][MAX_RANKS * MAX_PARTS]; /* sends, receives */
    int      n[2];
    char    *room[2];
    Traffic  traffic;
} SlotBuffers;

/* Peers in an order that differs from rank to rank. */
static void slot_fill(SlotBuffers *s, const Comm *comm, int slot, int round)
{
    int me = comm_rank(comm), ranks = comm_ranks(comm);
    for (int way = 0; way < 2; way++) {
        char *at = s->room[way];
        s->n[way] = 0;
        for (int p = 0; p < ranks; p++) {
            int peer = (p + me + way + round) % ranks;
            int from = way ? peer : me, to = way ? me : peer;
            for (int i = 0; i < s->traffic.n[from][to]; i++) {
                int64_t bytes = s->traffic.bytes[from][to][i];
                for (int64_t k = 0; k < bytes; k++)
                    at[k] = way ? 0 : (char)content(slot, round, from, to, i, k);
                s->parts[way][s->n[way]++] = (CommPart){ peer, at, bytes };
                at += bytes;
            }
        }
    }
}

static int slot_wrong(const SlotBuffers *s, const Comm *comm, int slot, int round)
{
    int next[MAX_RANKS] = { 0 }, wrong = 0;
    for (int r = 0; r < s->n[1]; r++) {
        const CommPart *part = &s->parts[1][r];
        int             i = next[part->peer]++;
        for (int64_t k = 0; k < part->bytes; k++)
            wrong += ((unsigned char *)part->data)[k] !=
                     content(slot, round, part->peer, comm_rank(comm), i, k);
    }
    return wrong;
}

static Err slot_start(SlotBuffers *s, Comm *comm, int slot)
{
    return comm_start(comm, slot, s->parts[0], s->n[0], s->parts[1], s->n[1]);
}

/* Several slots under way, waited for in any order. */
static Err work_transfers(Pool *pool, Comm *comm)
{
    enum { ROOM = MAX_RANKS * MAX_PARTS * 300001 };
    SlotBuffers *slots = NEWN(pool, SlotBuffers, SLOTS_USED);
    bool         busy[SLOTS_USED] = { false };
    int          rounds[SLOTS_USED] = { 0 }, wrong = 0;
    unsigned     state = 1;
    for (int i = 0; i < SLOTS_USED; i++)
        for (int way = 0; way < 2; way++)
            slots[i].room[way] = pool_alloc(pool, ROOM, 1);
    TRY(comm_prepare(comm, 2 * MAX_RANKS * MAX_PARTS, 2 * ROOM));
    int64_t before = pool_allocations();
    for (int round = 0; round < ROUNDS; round++) {
        int slot = (int)(dice(&state) % SLOTS_USED);
        if (busy[slot]) {
            TRY(comm_wait(comm, slot));
            wrong += slot_wrong(&slots[slot], comm, slot, rounds[slot]);
        }
        traffic_draw(&slots[slot].traffic, comm_ranks(comm), &state);
        slot_fill(&slots[slot], comm, slot, rounds[slot] = round);
        TRY(slot_start(&slots[slot], comm, slot));
        busy[slot] = true;
        TRY(comm_poll(comm));
    }
    for (int i = SLOTS_USED; i-- > 0;) {
        TRY(comm_wait(comm, i));
        wrong += busy[i] ? slot_wrong(&slots[i], comm, i, rounds[i]) : 0;
    }
    if (pool_allocations() != before)
        return fail(E_PLAN, "transfers allocated");
    return wrong ? fail(E_PLAN, "%d bytes are wrong", wrong) : OK;
}

static Err work_records(Pool *pool, Comm *comm)
{
    int      ranks = comm_ranks(comm), me = comm_rank(comm);
    int64_t *all = NEWN(pool, int64_t, 3 * ranks);
    unsigned any;
    for (int64_t i = 0; i < 200; i++) {
        int64_t mine[3] = { i, me, i * me + 5 };
        TRY(comm_all(comm, mine, sizeof mine, all));
        for (int r = 0; r < ranks; r++)
            if (all[3 * r] != i || all[3 * r + 1] != r || all[3 * r + 2] != i * r + 5)
                return fail(E_PLAN, "record %lld of rank %d is wrong", (long long)i, r);
        TRY(comm_any(comm, (i % ranks == me) << (i % 7), &any));
        if (any != 1u << (i % 7))
            return fail(E_PLAN, "flags are %u", any);
    }
    enum { BIG = (1 << 24) + 12345 };
    char *big = pool_alloc(pool, BIG, 1);
    for (int from = 0; from < ranks; from++) {
        for (int i = 0; i < BIG; i++)
            big[i] = me == from ? (char)(i * 7 + from) : 0;
        TRY(comm_share(comm, from, big, BIG));
        for (int i = 0; i < BIG; i++)
            if (big[i] != (char)(i * 7 + from))
                return fail(E_PLAN, "byte %d from rank %d is wrong", i, from);
    }
    return OK;
}

/* One step: every rank gives the next a number. The last rank does not take part from the third on. */
static Err step(Comm *comm, int64_t number)
{
    int      ranks = comm_ranks(comm), me = comm_rank(comm);
    int64_t  mine = number + me, got = 0;
    CommPart to = { (me + 1) % ranks, &mine, sizeof mine };
    CommPart from = { (me + ranks - 1) % ranks, &got, sizeof got };
    comm_step(comm, number);
    TRY(comm_start(comm, 0, &to, 1, &from, 1));
    TRY(comm_wait(comm, 0));
    return got == number + (me + ranks - 1) % ranks ? OK : fail(E_PLAN, "step %d is wrong", 0);
}

static Err steps_until(Comm *comm, int64_t last, void (*then)(int), int number)
{
    comm_patience(comm, 1);
    TRY(comm_prepare(comm, 2, 64));
    for (int64_t i = 1; i <= 5; i++) {
        if (i == last && comm_rank(comm) == comm_ranks(comm) - 1)
            then(number);
        TRY(step(comm, i));
    }
    return OK;
}

static void signal_self(int number)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    printf("gone %.3f\n", (double)t.tv_sec + (double)t.tv_nsec * 1e-9);
    fflush(stdout);
    kill(getpid(), number);
}

static Err work_stopped(Pool *pool, Comm *comm)
{
    return (void)pool, steps_until(comm, 3, signal_self, SIGSTOP);
}

static Err work_killed(Pool *pool, Comm *comm)
{
    return (void)pool, steps_until(comm, 3, signal_self, SIGKILL);
}

/* Busy for longer than the patience, but not silent. */
static Err work_busy(Pool *pool, Comm *comm)
{
    (void)pool;
    comm_patience(comm, 0.6);
    TRY(comm_prepare(comm, 2, 64));
    TRY(step(comm, 1));
    double until = clock_now() + 2.5;
    while (comm_rank(comm) == 1 && clock_now() < until) {
        usleep(1000);
        TRY(comm_poll(comm));
    }
    return step(comm, 2);
}

/* The last rank alone has an error, while the others are in a step. */
static Err work_failed(Pool *pool, Comm *comm)
{
    (void)pool;
    comm_patience(comm, 20);
    TRY(comm_prepare(comm, 2, 64));
    TRY(step(comm, 1));
    if (comm_rank(comm) == comm_ranks(comm) - 1)
        return fail(E_IO, "the file of step 2 cannot be read");
    return step(comm, 2);
}

static Err work_agreed(Pool *pool, Comm *comm)
{
    (void)pool;
    bool bad = comm_rank(comm) == 1;
    TRY(comm_agree(comm, OK));
    return comm_agree(comm, bad ? fail(E_USAGE, "there is no recipe 'x'") : OK);
}

static Err work_alike(Pool *pool, Comm *comm)
{
    (void)pool;
    return comm_agree(comm, fail(E_BUDGET, "no plan fits 1 GiB"));
}

static Err work_facts(Pool *pool, Comm *comm)
{
    (void)pool;
    CommFact same[] = { { "version", "0.1.0", NULL }, { "ISA", "v3", "set PLIMSOLL_ISA=v3" } };
    TRY(comm_same(comm, same, 2));
    if (comm_rank(comm) == 1)
        same[1].value = "v4";
    return comm_same(comm, same, 2);
}

/* Times of exchanges, as the fold's: every rank gives every other a share. */
static Err work_speed(Pool *pool, Comm *comm)
{
    int       ranks = comm_ranks(comm), n = 0;
    int64_t   bytes = (int64_t)atoi(getenv("TEST_MIB") ? getenv("TEST_MIB") : "64") << 20;
    char     *from = pool_alloc(pool, (size_t)bytes, 1), *to = pool_alloc(pool, (size_t)bytes, 1);
    CommPart *sends = NEWN(pool, CommPart, ranks), *receives = NEWN(pool, CommPart, ranks);
    double    best = 1e9;
    for (int i = 0; i < ranks; i++)
        if (i != comm_rank(comm)) {
            sends[n] = (CommPart){ i, from + i * (bytes / ranks), bytes / ranks };
            receives[n++] = (CommPart){ i, to + i * (bytes / ranks), bytes / ranks };
        }
    TRY(comm_prepare(comm, 2 * n, 2 * bytes));
    for (int k = 0; k < 10; k++) {
        unsigned any;
        TRY(comm_any(comm, 0, &any));
        double start = clock_now();
        TRY(comm_start(comm, 0, sends, n, receives, n));
        TRY(comm_wait(comm, 0));
        double s = clock_now() - start;
        best = s < best ? s : best;
    }
    if (!comm_rank(comm))
        printf("exchange of %lld MiB: %.2f ms\n", (long long)bytes >> 20, best * 1e3);
    double start = clock_now();
    for (int k = 0; k < 1000; k++) {
        unsigned any;
        TRY(comm_any(comm, 0, &any));
    }
    if (!comm_rank(comm))
        printf("flags: %.2f us\n", (clock_now() - start) * 1e3);
    return OK;
}

typedef struct Worker {
    const char *name;
    Err (*work)(Pool *pool, Comm *comm);
} Worker;

static const Worker workers[] = {
    { "transfers", work_transfers }, { "records", work_records }, { "stopped", work_stopped },
    { "killed", work_killed },       { "busy", work_busy },       { "failed", work_failed },
    { "agreed", work_agreed },       { "alike", work_alike },     { "facts", work_facts },
    { "speed", work_speed },
};

static Err worker_run(Pool *pool, const Worker *worker)
{
    Comm *comm;
    TRY(comm_open_by(pool, getenv("TEST_MPI"), &comm));
    printf("rank %d of %d on %s by %s\n", comm_rank(comm), comm_ranks(comm),
           comm_host(comm, comm_rank(comm)), comm_transport(comm));
    fflush(stdout);
    Err err = worker->work(pool, comm);
    if (!err)
        printf("held %lld\n", (long long)comm_held(comm));
    return comm_end(comm, err);
}

static int worker_main(const char *name)
{
    Pool *pool = pool_new(NULL, "rank");
    Err   err = fail(E_USAGE, "there is no worker %s", name);
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        if (!strcmp(workers[i].name, name))
            err = worker_run(pool, &workers[i]);
    fflush(stdout);
    if (err && *err_text())
        fprintf(stderr, "plimsoll: %s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}

int main(int n, char **args)
{
    if (n > 1)
        return worker_main(args[1]);
    SKIP("later");
    return test_end();
}
