/* rank_worker.h -- tests that launch themselves as ranks: what a rank does by its worker's name, and
 * what a launch printed. */
#ifndef TESTS_COMM_RANK_WORKER_H
#define TESTS_COMM_RANK_WORKER_H

#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

typedef struct Worker {
    const char *name;
    Err (*work)(Pool *pool, Comm *comm);
} Worker;

static char output[1 << 16]; /* of the last launch: stdout and stderr */

/* One rank of a launch, by the library that TEST_MPI names; its exit code. */
static inline int worker_main(const Worker *workers, size_t n, const char *name)
{
    Pool *pool = pool_new(NULL, "rank");
    Comm *comm;
    Err   err = fail(E_USAGE, "there is no worker %s", name);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(workers[i].name, name) != 0)
            continue;
        err = comm_open_by(pool, getenv("TEST_MPI"), &comm);
        if (err)
            break;
        printf("rank %d of %d on %s by %s\n", comm_rank(comm), comm_ranks(comm),
               comm_host(comm, comm_rank(comm)), comm_transport(comm));
        fflush(stdout);
        err = comm_end(comm, workers[i].work(pool, comm));
    }
    fflush(stdout);
    if (err && *err_text())
        fprintf(stderr, "plimsoll: %s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}

/* Runs a shell command; its exit code, or -1 where `timeout` ended it. */
static inline int shell(const char *command)
{
    FILE  *pipe = popen(command, "r");
    size_t n = pipe ? fread(output, 1, sizeof output - 1, pipe) : 0;
    int    status = pipe ? pclose(pipe) : -1;
    output[n] = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) != 124 ? WEXITSTATUS(status) : -1;
}

#endif
