/* comm.h -- moving bytes between the ranks of one run.
 *
 * A rank is one process of a run. Their number and numbers come from the launcher (mpirun, srun);
 * without one there is one rank, and every call below works the same. Nothing here does arithmetic
 * on what it moves, so neither the library nor the network can change a bit.
 *
 * 1. All ranks make the same calls in the same order, apart from comm_abort.
 * 2. In a transfer, the i-th send to a peer meets that peer's i-th receive from this rank in the
 *    same slot, and both have the same size. Transfers in different slots are independent. A part
 *    may be empty; a peer may be the rank itself.
 * 3. From comm_start to comm_wait of its slot, sent bytes must not change and received bytes must
 *    not be read. Bytes move in between while the program computes.
 * 4. After comm_prepare nothing is allocated here. What the library behind it holds is counted by
 *    comm_held.
 *
 * Pointers are to host memory. A transport for device memory (stream order, captured in a CUDA
 * graph) would be chosen by comm_prepare.
 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>

typedef struct Comm Comm;

enum {
    COMM_SLOTS = 16, /* transfers under way at once */
    COMM_HOST = 64   /* bytes of a host's name, with its end */
};

typedef struct CommPart {
    int     peer; /* rank that receives or sends it */
    void   *data;
    int64_t bytes;
} CommPart;

/* Finds the launcher and its library. Collective: returns when all ranks have arrived. */
Err         comm_open(Pool *pool, Comm **comm);
Err         comm_one(Pool *pool, Comm **comm); /* one rank, whatever launched this process */
int         comm_rank(const Comm *comm);
int         comm_ranks(const Comm *comm);
const char *comm_transport(const Comm *comm);      /* "none", or a library and its version */
const char *comm_host(const Comm *comm, int rank); /* name of the machine that it runs on */

/* Before the first comm_start: no transfer has more parts or bytes, sends and receives together. */
Err comm_prepare(Comm *comm, int max_parts, int64_t max_bytes);
Err comm_start(Comm *comm, int slot, const CommPart *sends, int n_sends, const CommPart *receives,
               int n_receives);
Err comm_wait(Comm *comm, int slot); /* nothing to do if nothing was started in it */

/* Small records, at once. */
Err comm_all(Comm *comm, const void *mine, int64_t bytes, void *all); /* in rank order */
Err comm_share(Comm *comm, int from, void *data, int64_t bytes);      /* from one rank to all */

/* Ends all ranks with this exit code, whatever they are doing. */
void    comm_abort(Comm *comm, int code) __attribute__((noreturn));
int64_t comm_held(const Comm *comm); /* bytes outside the arena: part of `runtime` */

#endif
