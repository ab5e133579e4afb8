/* comm.c -- opening and ending the ranks of a run. */
#include "comm/queue_int.h"

#include "comm/launcher.h"
#include "device/device.h"
#include "device/plugin.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_MESSAGE = 1 << 22, LAST_WORDS_US = 500000 };

static void comm_host_name(char name[COMM_HOST])
{
    const char *node = getenv("SLURMD_NODENAME"); /* several may be on one host */
    if (node && *node)
        snprintf(name, COMM_HOST, "%s", node);
    else if (gethostname(name, COMM_HOST - 1))
        strcpy(name, "?");
    name[COMM_HOST - 1] = 0;
}

Err comm_one(Pool *pool, Comm **comm)
{
    Comm *c = NEW(pool, Comm);
    *c = (Comm){ .pool = pool,
                 .ranks = 1,
                 .hosts = pool_alloc(pool, 1, COMM_HOST),
                 .library = "none",
                 .max_message = MAX_MESSAGE,
                 .patience = COMM_PATIENCE,
                 .step = -1 };
    comm_host_name(c->hosts[0]);
    *comm = c;
    return OK;
}

/* The plugin is missing on this machine, and perhaps on others. Where all lack it, the first says
 * so, and the launcher ends the rest before they would. */
static Err comm_no_plugin(const Launcher *launcher, const char *library, const char *why)
{
    char host[COMM_HOST];
    comm_host_name(host);
    if (launcher->rank > 0)
        sleep(2);
    return fail(E_USAGE,
                "%s started this, and the plugin that reaches its ranks with %s cannot be used on "
                "%s (%s): run scripts/setup_mpi.sh and build again, or use another launcher",
                launcher->name, library, host, why);
}

static Err comm_load(const Launcher *launcher, const char *library, const Transport **transport)
{
    static const TransportHost host = { TRANSPORT_FORM, fail };
    char                       file[64], why[256];
    TransportEntry            *entry;
    snprintf(file, sizeof file, "libplimsoll_mpi_%s.so", library);
    void *lib = plugin_load(file, why, sizeof why);
    if (!lib)
        return comm_no_plugin(launcher, library, why);
    *(void **)&entry = dlsym(lib, "plimsoll_transport");
    *transport = entry ? entry(&host) : NULL;
    return *transport ? OK : comm_no_plugin(launcher, library, "it is of another version");
}

static void comm_leave(void *arg)
{
    Comm *c = arg;
    if (!c->rank || c->concluded) /* a launcher may lose what was printed just before the end */
        usleep(LAST_WORDS_US);
    c->transport->abort(c->exit_code ? c->exit_code : 1);
}

static void comm_close(void *arg)
{
    Comm *c = arg;
    if (!c->ended)
        comm_leave(c);
    watch_close(c);
    c->transport->close();
}

/* The library may have found itself alone: it is not the one that the launcher serves. */
static Err comm_check_ranks(const Launcher *launcher, const TransportWorld *world)
{
    if (!launcher->ranks || launcher->ranks == world->ranks)
        return OK;
    if (launcher->rank > 0) /* all find it; the first says it */
        return fail(E_USAGE, "%s", "");
    return fail(E_USAGE,
                "%s started %d ranks, but %s finds %d: launcher and library do not belong "
                "together; use mpirun of that library, srun --mpi=pmix for Open MPI, or srun "
                "--mpi=pmi2 for MPICH",
                launcher->name, launcher->ranks, world->library, world->ranks);
}

/* ---- joining: a library waits in its own call until all ranks have come ---- */

typedef struct WorldJoining {
    const Launcher *launcher;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  joined;
    bool            done;
} WorldJoining;

static double joining_s = COMM_PATIENCE;

void comm_open_within(double seconds) { joining_s = seconds; }

/* Rank 1 speaks too: rank 0 may be the one that is missing. */
static void joining_end(const WorldJoining *j)
{
    if (j->launcher->rank < 2)
        fprintf(stderr,
                "plimsoll: rank %d has waited for %.0f s for the other ranks to start: one ended "
                "before, or its machine cannot be reached; see what it or the launcher printed. "
                "Start the run anew\n",
                j->launcher->rank, joining_s);
    fflush(NULL);
    _exit(err_exit_code(E_DEVICE));
}

static void *joining_watch(void *arg)
{
    WorldJoining   *j = arg;
    struct timespec until;
    double          whole;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(1e9 * modf(joining_s, &whole));
    until.tv_sec += (time_t)whole + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&j->lock);
    int late = 0;
    while (!j->done && !late)
        late = pthread_cond_timedwait(&j->joined, &j->lock, &until);
    if (!j->done)
        joining_end(j);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static Err comm_join_world(const Launcher *launcher, const Transport *transport,
                           TransportWorld *world)
{
    WorldJoining j = { .launcher = launcher,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .joined = PTHREAD_COND_INITIALIZER };
    bool         watched = !pthread_create(&j.thread, NULL, joining_watch, &j);
    Err          err = transport->open(world);
    pthread_mutex_lock(&j.lock);
    j.done = true;
    pthread_cond_signal(&j.joined);
    pthread_mutex_unlock(&j.lock);
    if (watched)
        pthread_join(j.thread, NULL);
    return err;
}

static Err comm_join(Pool *pool, const Launcher *launcher, const char *library, Comm *c)
{
    TransportWorld   world;
    const Transport *transport;
    int64_t          before = resident_bytes();
    TRY(comm_load(launcher, library, &transport));
    TRY(comm_join_world(launcher, transport, &world));
    c->rank = world.rank;
    c->ranks = world.ranks;
    memcpy(c->library, world.library, sizeof c->library);
    Err err = comm_check_ranks(launcher, &world);
    if (err) {
        transport->close();
        return err;
    }
    c->transport = transport;
    pool_at_free(pool, comm_close, c);
    char mine[COMM_HOST];
    memcpy(mine, c->hosts[0], sizeof mine);
    c->hosts = pool_alloc(pool, (size_t)c->ranks, COMM_HOST);
    c->flags = NEWN(pool, unsigned, c->ranks);
    c->numbers = NEWN(pool, uint64_t, c->ranks);
    c->reports = NEWN(pool, RankReport, c->ranks);
    TRY(watch_open(c));
    TRY(comm_all(c, mine, COMM_HOST, c->hosts));
    c->held = resident_bytes() - before;
    return OK;
}

/* All ranks are here, well or with a failure that all know of. */
static Err comm_end_together(Comm *comm, Err err)
{
    unsigned any;
    Err      last = comm_any(comm, 0, &any);
    if (last)
        return last;
    comm->ended = true;
    return err;
}

Err comm_end(Comm *comm, Err err)
{
    if (!comm->transport)
        return err;
    if (err)
        queue_give_up(comm);
    if (!err || comm->agreed) {
        err = comm_end_together(comm, err);
        if (comm->ended)
            return err;
    }
    comm->exit_code = err_exit_code(err);
    if (comm->rank && !comm->concluded)
        watch_tell_failure(comm, err);
    /* Transfers that are still open use memory of the run: this rank ends before any is freed. The
     * newest child of a pool is freed first. */
    pool_at_free(pool_new(comm->pool, "leave"), comm_leave, comm);
    return err;
}

Err comm_open_by(Pool *pool, const char *library, Comm **comm)
{
    Launcher launcher = launcher_find();
    TRY(comm_one(pool, comm));
    if (!launcher.name || launcher.ranks == 1)
        return OK;
    library = library ? library : launcher.library;
    if (!library)
        return launcher.rank > 0
                   ? fail(E_USAGE, "%s", "")
                   : fail(E_USAGE, "%s started %d processes that cannot reach each other: %s",
                          launcher.name, launcher.ranks, launcher.remedy);
    Err err = comm_join(pool, &launcher, library, *comm); /* another rank may have failed by now */
    return err ? comm_end(*comm, err) : OK;
}

Err comm_open(Pool *pool, Comm **comm) { return comm_open_by(pool, NULL, comm); }

int         comm_rank(const Comm *comm) { return comm->rank; }
int         comm_ranks(const Comm *comm) { return comm->ranks; }
const char *comm_transport(const Comm *comm) { return comm->library; }
int64_t     comm_held(const Comm *comm) { return comm->held; }
double      comm_waited(const Comm *comm) { return comm->waited; }
void        comm_patience(Comm *comm, double seconds) { comm->patience = seconds; }
void        comm_step(Comm *comm, int64_t step) { comm->step = step; }

const char *comm_host(const Comm *comm, int rank)
{
    REQUIRE(rank >= 0 && rank < comm->ranks);
    return comm->hosts[rank];
}

void comm_abort(Comm *comm, int code)
{
    fflush(NULL);
    if (comm->transport)
        comm->transport->abort(code);
    _exit(code);
}
