/* ranks.c -- transfers between the ranks of real launchers.
 *
 * Without arguments this program is the test: it starts itself under mpirun of Open MPI and of MPICH
 * with 1, 2 and 4 ranks, all on this machine, and looks at exit codes and messages. With a name it
 * is one rank, which does what workers[] says. */
#include "base/clock.h"
#include "comm/agree.h"
#include "comm/comm.h"
#include "comm/rank_worker.h"
#include "device/device.h"

#include "test.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
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

/* What rank 1 does alone fails: all end with its sentence, and agreeing again changes nothing. */
static Err work_followed(Pool *pool, Comm *comm)
{
    (void)pool;
    bool mine = comm_rank(comm) == 1;
    TRY(comm_follow(comm, 1, OK));
    Err err = comm_follow(comm, 1, mine ? fail(E_BUDGET, "no plan fits 2 GiB") : OK);
    return comm_agree(comm, err);
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

/* After comm_prepare the library grows no more. */
static Err work_held(Pool *pool, Comm *comm)
{
    enum { BYTES = 4 << 20 };
    int      ranks = comm_ranks(comm), me = comm_rank(comm);
    char    *room = pool_alloc(pool, 2, BYTES);
    CommPart to = { (me + 1) % ranks, room, BYTES };
    CommPart from = { (me + ranks - 1) % ranks, room + BYTES, BYTES };
    memset(room, 1, 2 * BYTES);
    TRY(comm_prepare(comm, 2, 2 * BYTES));
    int64_t before = resident_bytes();
    for (int i = 0; i < 300; i++) {
        TRY(comm_start(comm, i % COMM_SLOTS, &to, 1, &from, 1));
        TRY(comm_wait(comm, i % COMM_SLOTS));
    }
    int64_t grown = resident_bytes() - before;
    if (!me)
        printf("held %lld bytes outside the arena, %lld more after 300 transfers\n",
               (long long)comm_held(comm), (long long)grown);
    return grown < 1 << 20 ? OK : fail(E_PLAN, "the library grew by %lld bytes", (long long)grown);
}

static const Worker workers[] = {
    { "transfers", work_transfers }, { "records", work_records },   { "stopped", work_stopped },
    { "killed", work_killed },       { "busy", work_busy },         { "failed", work_failed },
    { "agreed", work_agreed },       { "alike", work_alike },       { "facts", work_facts },
    { "held", work_held },           { "followed", work_followed },
};

/* ---- the test ---- */

typedef struct Mpi {
    const char *library, *launcher; /* NULL: it is not here */
} Mpi;

static Mpi         mpis[] = { { .library = "openmpi" }, { .library = "mpich" } };
static const char *self;

/* Runs a shell command; its exit code, or -1 after a minute. */
static int run(const char *fmt, ...)
{
    char    command[1024], line[1200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    snprintf(line, sizeof line, "timeout 60 %s 2>&1", command);
    return shell(line);
}

static void mpi_find(Mpi *mpi)
{
    static const char *const words[] = { "Open MPI", "HYDRA" };
    static char              names[2][64];
    int                      which = !strcmp(mpi->library, "mpich");
    snprintf(names[which], sizeof names[which], "mpirun.%s", mpi->library);
    if (access(which ? "libplimsoll_mpi_mpich.so" : "libplimsoll_mpi_openmpi.so", R_OK))
        return;
    if (!run("%s --version", names[which]))
        mpi->launcher = names[which];
    else if (!run("mpirun --version") && strstr(output, words[which]))
        mpi->launcher = "mpirun";
}

/* Lines that the program printed as its failure. */
static int sentences(void)
{
    int n = 0;
    for (const char *at = output; (at = strstr(at, "plimsoll: ")); at++)
        n++;
    return n;
}

static int launch(const Mpi *mpi, int ranks, const char *worker)
{
    return run("%s -n %d %s %s", mpi->launcher, ranks, self, worker);
}

static void check_failure(const Mpi *mpi, int ranks, const char *worker, int code, const char *says)
{
    CHECK_INT(launch(mpi, ranks, worker), code);
    CHECK_INT(sentences(), 1);
    if (!CHECK(strstr(output, says) != NULL))
        fprintf(stderr, "  %s, %d ranks, %s: %s\n", mpi->library, ranks, worker, output);
}

/* For each MPI that is here. */
static void with_mpi(void (*test)(const Mpi *mpi))
{
    for (size_t i = 0; i < sizeof mpis / sizeof *mpis; i++) {
        if (mpis[i].launcher)
            test(&mpis[i]);
        else
            SKIP(i ? "MPICH is not installed" : "Open MPI is not installed");
    }
}

static void moves_all(const Mpi *mpi)
{
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        if (!CHECK_INT(launch(mpi, ranks, "transfers"), 0))
            fprintf(stderr, "  %s", output);
        if (!CHECK_INT(launch(mpi, ranks == 4 ? 3 : ranks, "records"), 0))
            fprintf(stderr, "  %s", output);
    }
}
static void every_byte_arrives(void) { with_mpi(moves_all); }

/* What was measured before step 1 is what it is after hundreds of transfers. */
static void holds(const Mpi *mpi)
{
    CHECK_INT(launch(mpi, 2, "held"), 0);
    const char *line = strstr(output, "held ");
    CHECK(line != NULL);
    if (line)
        fprintf(stderr, "  %s: %.*s\n", mpi->library, (int)strcspn(line, "\n"), line);
}
static void bytes_held_are_stated(void) { with_mpi(holds); }

/* Seconds from the line "gone" to now. */
static double noticed(void)
{
    const char     *line = strstr(output, "gone ");
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return line ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - atof(line + 5) : -1;
}

static void names_stopped(const Mpi *mpi)
{
    check_failure(mpi, 2, "stopped", 1, "rank 1 on ");
    CHECK(strstr(output, "in step 3") != NULL);
    fprintf(stderr, "  %s: a stopped rank is named, all ranks ended, after %.1f s (patience 1 s)\n",
            mpi->library, noticed());
    check_failure(mpi, 4, "stopped", 1, "rank 3 on "); /* rank 1 merely waits for it */
    CHECK(strstr(output, "has been silent") != NULL);
}
static void a_stopped_rank_is_named(void) { with_mpi(names_stopped); }

static void ends_killed(const Mpi *mpi)
{
    CHECK(launch(mpi, 4, "killed") > 0);
    fprintf(stderr, "  %s: all ranks ended %.1f s after one was killed\n", mpi->library, noticed());
}
static void a_killed_rank_ends_all(void) { with_mpi(ends_killed); }

static void waits_busy(const Mpi *mpi) { CHECK_INT(launch(mpi, 3, "busy"), 0); }
static void a_busy_rank_is_not_silent(void) { with_mpi(waits_busy); }

static void tells_failures(const Mpi *mpi)
{
    check_failure(mpi, 3, "failed", 1, "rank 2 on ");
    CHECK(strstr(output, ": the file of step 2 cannot be read") != NULL);
    check_failure(mpi, 4, "agreed", 2, "rank 1 on ");
    check_failure(mpi, 2, "alike", 3, "plimsoll: no plan fits 1 GiB");
    check_failure(mpi, 3, "followed", 3, "plimsoll: no plan fits 2 GiB");
    check_failure(mpi, 3, "facts", 2, "same ISA, but rank 1 on ");
}
static void a_failure_is_told_once(void) { with_mpi(tells_failures); }

static void a_wrong_library_is_refused(void)
{
    if (!mpis[0].launcher || !mpis[1].launcher) {
        SKIP("only one MPI is installed");
        return;
    }
    setenv("TEST_MPI", "mpich", 1);
    check_failure(&mpis[0], 2, "records", 2, "mpirun of Open MPI started 2 ranks, but MPICH");
    setenv("TEST_MPI", "openmpi", 1);
    check_failure(&mpis[1], 2, "records", 2, "mpirun of MPICH started 2 ranks, but Open MPI");
    unsetenv("TEST_MPI");
}

static void a_missing_plugin_is_one_sentence(void)
{
    CHECK_INT(
        run("env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 TEST_MPI=none %s records", self), 2);
    CHECK_INT(sentences(), 1);
    CHECK(strstr(output, "scripts/setup_mpi.sh") != NULL);
    CHECK_INT(run("env SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 %s records", self), 2);
    CHECK(strstr(output, "srun --mpi=pmix") != NULL);
    CHECK_INT(run("env SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 %s records", self), 2);
    CHECK_INT(sentences(), 0); /* the first says it for all */
}

int main(int n, char **args)
{
    if (n > 1)
        return worker_main(workers, sizeof workers / sizeof *workers, args[1]);
    self = args[0];
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
    setenv("OMPI_MCA_oob_tcp_if_include", "lo", 1);
    for (size_t i = 0; i < sizeof mpis / sizeof *mpis; i++)
        mpi_find(&mpis[i]);
    RUN(every_byte_arrives);
    RUN(bytes_held_are_stated);
    RUN(a_stopped_rank_is_named);
    RUN(a_killed_rank_ends_all);
    RUN(a_busy_rank_is_not_silent);
    RUN(a_failure_is_told_once);
    RUN(a_wrong_library_is_refused);
    RUN(a_missing_plugin_is_one_sentence);
    return test_end();
}
