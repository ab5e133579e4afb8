/* device_train.c -- training on a device whose transfers run in a queue beside its kernels: the bits of
 * one process, at every shard level.
 *
 * The device is the CPU with memory of its own and a queue of threads (threads_device.h), so that
 * everything between the operators and the launcher runs as with GPUs that send through host memory:
 * parts listed before the first step, a queue in order, state that is read from a device. Without
 * arguments this program is the test; `RECIPE LEVEL OUT` makes it one rank. */
#include "comm/threads_device.h"

#include "base/file.h"
#include "base/hash.h"
#include "profile/devices.h"
#include "train/rank_run.h"
#include "train/trainer.h"

#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 2 };

static const char *const sets[] = { "batch=1", "accumulate=4", "steps=2", "seed=3" };

static Err train_rank(Pool *pool, Comm *comm, const char *name, int level, const char *out)
{
    Recipe      *recipe;
    Device      *device;
    TrainResult  result;
    TrainOptions options = {
        .out = out, .comm = comm, .quiet = true, .shard = level, .bucket = 1 << 17, .check_ranks = 1
    };
    TRY(recipe_read(pool, name, sets, sizeof sets / sizeof *sets, &recipe));
    TRY(device_cpu(pool, &(DeviceOptions){ .threads = 1, .backend = "builtin" }, &device));
    if (comm_ranks(comm) > 1) {
        kernels_at_once = true;
        device_of_threads(device);
        device->comm = comm;
        TRY(comm_queue_open(comm, device));
    }
    TRY(train_run(pool, recipe, device, &options, &result));
    return result.measured_bytes == result.planned_bytes && result.ranks == comm_ranks(comm)
               ? OK
               : fail(E_PLAN, "planned and measured differ");
}

static Err worker_run(Pool *pool, char **args)
{
    Comm *comm;
    TRY(comm_open(pool, &comm));
    return comm_end(comm, train_rank(pool, comm, args[1], atoi(args[2]), args[3]));
}

static int worker_main(char **args)
{
    Pool *pool = pool_new(NULL, "rank");
    Err   err = worker_run(pool, args);
    if (err && *err_text())
        fprintf(stderr, "plimsoll: %s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}

/* ---- the test ---- */

static const char *self, *launcher;

static int shell(const char *command)
{
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The hash of the last checkpoint; 0: there is none. */
static uint64_t train(const char *folder, const char *recipe, int ranks, int level)
{
    char     command[1024], out[256];
    Pool    *pool = pool_new(NULL, "hash");
    uint64_t hash = 0;
    char    *bytes;
    size_t   n;
    snprintf(out, sizeof out, "%s/%s-%d-%d", folder, recipe, ranks, level);
    if (ranks > 1)
        snprintf(command, sizeof command, "timeout 240 %s -n %d %s %s %d %s", launcher, ranks, self,
                 recipe, level, out);
    else
        snprintf(command, sizeof command, "%s %s %d %s", self, recipe, level, out);
    CHECK_INT(shell(command), 0);
    snprintf(command, sizeof command, "%s/step-%06d.safetensors", out, STEPS);
    if (CHECK_INT(file_read(pool, command, &bytes, &n), OK))
        hash = hash_bytes(HASH_EMPTY, bytes, n);
    pool_free(pool);
    return hash;
}

static void same(const char *recipe, int ranks, uint64_t bits, const char *folder)
{
    for (int level = 0; level <= 3; level += level ? 2 : 1)
        if (!CHECK(train(folder, recipe, ranks, level) == bits))
            fprintf(stderr, "  %s: %d ranks at level %d have other bits\n", recipe, ranks, level);
}

static void every_level_gives_the_same_bits(void)
{
    static const char *const recipes[] = { "dit3d-small",
                                           "stablesr-small" }; /* this has batch norm */
    char                     folder[] = "/tmp/device_train.XXXXXX", remove[64];
    if (!CHECK(mkdtemp(folder) != NULL))
        return;
    for (int i = 0; i < 2; i++) {
        uint64_t bits = train(folder, recipes[i], 1, 0);
        CHECK(bits != 0);
        same(recipes[i], i ? 4 : 2, bits, folder);
    }
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    CHECK_INT(shell(remove), 0);
}

int main(int argc, char **argv)
{
    static const char *const launchers[] = { "mpirun.openmpi", "mpirun.mpich" };
    static const char *const plugins[] = { "libplimsoll_mpi_openmpi.so",
                                           "libplimsoll_mpi_mpich.so" };
    if (argc > 3)
        return worker_main(argv);
    self = argv[0];
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    for (int i = 0; i < 2 && !launcher; i++) {
        char ask[64];
        snprintf(ask, sizeof ask, "%s --version > /dev/null 2>&1", launchers[i]);
        if (!access(plugins[i], R_OK) && !shell(ask))
            launcher = launchers[i];
    }
    if (launcher)
        RUN(every_level_gives_the_same_bits);
    else
        SKIP("no MPI is installed");
    return test_end();
}
