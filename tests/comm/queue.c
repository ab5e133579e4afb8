/* queue.c -- transfers in a device's queue, between the ranks of real launchers.
 *
 * The device is made of threads (threads_device.h). Without arguments this program is the test and
 * starts itself under mpirun; with a name it is one rank. */
#include "comm/rank_worker.h"
#include "comm/threads_device.h"

#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Device *test_device(Pool *pool)
{
    Device *device = NEW(pool, Device);
    device->model = "a test";
    device_of_threads(device);
    return device;
}

/* ---- a rank ---- */

enum { PART = 3000, ROUNDS = 40, SLOTS_USED = 3, MAX_RANKS = 4 };

typedef struct Buffers { /* of one slot */
    int  me, ranks, round;
    int  mine[MAX_RANKS][PART]; /* to each rank; [me] also to itself */
    int  got[MAX_RANKS][PART];
    int  checked;
    int *wrong;
} Buffers;

static int content(int round, int from, int to, int i)
{
    return round * 1000003 + from * 977 + to * 31 + i;
}

static void kernel_fill(void *arg)
{
    Buffers *b = arg;
    for (int r = 0; r < b->ranks; r++)
        for (int i = 0; i < PART; i++)
            b->mine[r][i] = content(b->round, b->me, r, i);
}

static void kernel_check(void *arg)
{
    Buffers *b = arg;
    for (int r = 0; r < b->ranks; r++)
        for (int i = 0; i < PART; i++)
            *b->wrong += b->got[r][i] != content(b->round, r, b->me, i);
    b->round++;
    b->checked++;
}

static CommTransfer *buffers_transfer(Pool *pool, Comm *comm, Buffers *b, int slot)
{
    CommTransfer *t = comm_transfer_new(pool, slot, b->ranks);
    for (int r = 0; r < b->ranks; r++) {
        t->sends[t->n_sends++] = (CommPart){ r, b->mine[r], sizeof b->mine[r] };
        t->receives[t->n_receives++] = (CommPart){ r, b->got[r], sizeof b->got[r] };
    }
    return comm_transfer_ready(pool, comm, t) ? NULL : t;
}

typedef struct Slots {
    Device       *device;
    Buffers      *of[SLOTS_USED];
    CommTransfer *transfers[SLOTS_USED];
    int           wrong;
} Slots;

static Slots slots; /* kernels count in it until the process ends, also after an error */

static Err slots_open(Pool *pool, Comm *comm)
{
    int ranks = comm_ranks(comm);
    slots.device = test_device(pool);
    TRY(comm_queue_open(comm, slots.device));
    TRY(comm_prepare(comm, 2 * ranks, 2 * ranks * PART * (int64_t)sizeof(int)));
    TRY(comm_queue_prepare(comm, 2 * ranks * PART * (int64_t)sizeof(int)));
    for (int i = 0; i < SLOTS_USED; i++) {
        slots.of[i] = NEW(pool, Buffers);
        slots.of[i]->me = comm_rank(comm);
        slots.of[i]->ranks = ranks;
        slots.of[i]->wrong = &slots.wrong;
        slots.transfers[i] = buffers_transfer(pool, comm, slots.of[i], i);
    }
    return OK;
}

/* Fills all, starts all, then joins and checks them in another order. */
static Err slots_round(Comm *comm)
{
    for (int i = 0; i < SLOTS_USED; i++) {
        stream_add(&kernels, (Work){ .call = kernel_fill, .arg = slots.of[i] });
        TRY(comm_transfer_start(comm, slots.transfers[i]));
    }
    for (int i = SLOTS_USED; i-- > 0;) {
        TRY(comm_transfer_join(comm, i));
        stream_add(&kernels, (Work){ .call = kernel_check, .arg = slots.of[i] });
    }
    return OK;
}

static Err slots_result(void)
{
    for (int i = 0; i < SLOTS_USED; i++)
        if (slots.of[i]->checked != ROUNDS)
            return fail(E_PLAN, "slot %d: %d rounds", i, slots.of[i]->checked);
    return slots.wrong ? fail(E_PLAN, "%d numbers are wrong", slots.wrong) : OK;
}

static Err work_moves(Pool *pool, Comm *comm)
{
    unsigned any;
    TRY(slots_open(pool, comm));
    if (!comm_rank(comm))
        printf("by %s\n", comm_queue_text(comm));
    int64_t before = pool_allocations();
    for (int round = 0; round < ROUNDS; round++) {
        TRY(slots_round(comm));
        if (round % 3 == 0) /* records move while a device's transfers do, and wait for them */
            TRY(comm_any(comm, 1u << comm_rank(comm), &any));
        if (round % 5 == comm_rank(comm)) /* ranks wait for their devices at different times */
            TRY(device_wait(slots.device));
    }
    TRY(device_wait(slots.device));
    if (pool_allocations() != before)
        return fail(E_PLAN, "transfers allocated");
    return slots_result();
}

/* The last rank stops while all devices wait for each other. */
static Err work_stopped(Pool *pool, Comm *comm)
{
    comm_patience(comm, 1);
    TRY(slots_open(pool, comm));
    for (int round = 1; round <= 5; round++) {
        comm_step(comm, round);
        if (round == 3 && comm_rank(comm) == comm_ranks(comm) - 1)
            kill(getpid(), SIGSTOP);
        TRY(slots_round(comm));
        TRY(device_wait(slots.device));
    }
    return OK;
}

static void kernel_slow(void *arg) { (void)arg, usleep(2500000); }

/* A device that computes for longer than the patience: its host answers. */
static Err work_busy(Pool *pool, Comm *comm)
{
    comm_patience(comm, 0.6);
    TRY(slots_open(pool, comm));
    if (comm_rank(comm) == 1)
        stream_add(&kernels, (Work){ .call = kernel_slow });
    TRY(slots_round(comm));
    return device_wait(slots.device);
}

/* One rank fails by itself while the devices of the others wait for it. */
static Err work_failed(Pool *pool, Comm *comm)
{
    comm_patience(comm, 20);
    TRY(slots_open(pool, comm));
    if (comm_rank(comm) == comm_ranks(comm) - 1)
        return fail(E_IO, "the file of step 2 cannot be read");
    TRY(slots_round(comm));
    return device_wait(slots.device);
}

static Err work_kinds(Pool *pool, Comm *comm)
{
    Device cpu = { .kind = DEVICE_CPU, .model = "a processor" };
    return comm_queue_open(comm, comm_rank(comm) == 1 ? &cpu : test_device(pool));
}

static Err work_same_gpu(Pool *pool, Comm *comm)
{
    library = 23007;
    place = "0000:01:00.0";
    return work_moves(pool, comm);
}

/* An NCCL that cannot serve both although it was told to: it would fail as it opens. */
static Err work_old_library(Pool *pool, Comm *comm)
{
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    library = 22809;
    place = "0000:01:00.0";
    return work_moves(pool, comm);
}

/* Only rank 0 was told so. */
static Err work_told_alone(Pool *pool, Comm *comm)
{
    if (!comm_rank(comm))
        setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    return work_same_gpu(pool, comm);
}

static Err work_versions(Pool *pool, Comm *comm)
{
    library = 23007 + comm_rank(comm);
    place = comm_rank(comm) ? "0000:01:00.0" : "0000:02:00.0";
    return work_moves(pool, comm);
}

static const Worker workers[] = {
    { "moves", work_moves },
    { "stopped", work_stopped },
    { "busy", work_busy },
    { "failed", work_failed },
    { "kinds", work_kinds },
    { "same-gpu", work_same_gpu },
    { "versions", work_versions },
    { "old-library", work_old_library },
    { "told-alone", work_told_alone },
};

/* ---- the test ---- */

static const char *self, *launcher;

static int launch(int ranks, const char *worker)
{
    char command[1024];
    snprintf(command, sizeof command, "timeout 120 %s -n %d %s %s 2>&1", launcher, ranks, self,
             worker);
    return shell(command);
}

static void check(int ranks, const char *worker, int code, const char *says)
{
    bool good = CHECK_INT(launch(ranks, worker), code);
    good &= CHECK(strstr(output, says) != NULL);
    if (!good)
        fprintf(stderr, "  %s, %d ranks: %s\n", worker, ranks, output);
}

static void every_number_arrives_in_order(void)
{
    for (int ranks = 2; ranks <= 4; ranks++)
        check(ranks, "moves", 0, "no library for the test");
}

static void ranks_that_share_a_gpu_go_through_hosts(void)
{
    check(2, "same-gpu", 0, "has the same GPU as another rank");
    check(2, "old-library", 0, "has the same GPU as another rank");
    check(2, "told-alone", 0, "has the same GPU as another rank");
    check(2, "versions", 0, "another version of NCCL");
}

static void a_silent_rank_is_named(void) { check(3, "stopped", 1, "rank 2 on "); }
static void a_busy_device_is_waited_for(void) { check(3, "busy", 0, ""); }
static void a_failed_rank_is_named(void)
{
    check(3, "failed", 1, "the file of step 2 cannot be read");
}

static void devices_of_another_kind_are_refused(void)
{
    check(3, "kinds", 2, "rank 1 on ");
    check(3, "kinds", 2, "the same kind of device");
}

int main(int argc, char **argv)
{
    static const char *const launchers[] = { "mpirun.openmpi", "mpirun.mpich" };
    static const char *const plugins[] = { "libplimsoll_mpi_openmpi.so",
                                           "libplimsoll_mpi_mpich.so" };
    if (argc > 1)
        return worker_main(workers, sizeof workers / sizeof *workers, argv[1]);
    self = argv[0];
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    for (int i = 0; i < 2; i++) {
        char ask[64];
        snprintf(ask, sizeof ask, "%s --version 2>&1", launchers[i]);
        launcher = launchers[i];
        if (access(plugins[i], R_OK) || shell(ask)) {
            SKIP("this MPI is not installed");
            continue;
        }
        RUN(every_number_arrives_in_order);
        RUN(ranks_that_share_a_gpu_go_through_hosts);
        RUN(a_silent_rank_is_named);
        RUN(a_busy_device_is_waited_for);
        RUN(a_failed_rank_is_named);
        RUN(devices_of_another_kind_are_refused);
    }
    return test_end();
}
