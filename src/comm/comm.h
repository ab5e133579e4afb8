/* comm.h -- moving bytes between the ranks of one run.
 *
 * A rank is one process of a run. Their number and numbers come from the launcher (mpirun, srun);
 * without one there is one rank, and every call below works the same. Nothing here does arithmetic
 * on what it moves, so neither the library nor the network can change a bit.
 *
 * 1. All ranks make the same calls in the same order, apart from comm_abort, comm_poll and
 *    comm_step.
 * 2. In a transfer, the i-th send to a peer meets that peer's i-th receive from this rank in the
 *    same slot, and both have the same size. Transfers in different slots are independent. A part
 *    may be empty; a peer may be the rank itself.
 * 3. From comm_start to comm_wait of its slot, sent bytes must not change and received bytes must
 *    not be read. Bytes move in between while the program computes, if it calls comm_poll now and
 *    then: most libraries move them only within their own calls.
 * 4. After comm_prepare nothing is allocated here. What the library behind it holds is counted by
 *    comm_held.
 * 5. A rank that waits answers other ranks. One that waits for longer than the patience asks all
 *    others; those that do not answer are silent, and the wait ends with an error that names them.
 *    A rank that computes for long calls comm_poll, or it is taken for silent.
 * 6. After an error of comm_start or comm_wait, or an error that only this rank knows of, the ranks
 *    are no longer in step: comm_end tells rank 0, and all ranks end.
 *
 * Pointers are to host memory; transfers of device memory, in the order of its kernels, are in
 * queue.h. All calls come from one thread.
 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>

typedef struct Comm Comm;

enum {
    COMM_SLOTS = 20,    /* transfers under way at once */
    COMM_HOST = 64,     /* bytes of a host's name, with its end */
    COMM_PATIENCE = 300 /* seconds, unless comm_patience says otherwise */
};

typedef struct CommPart {
    int     peer; /* rank that receives or sends it */
    void   *data;
    int64_t bytes;
} CommPart;

/* Finds the launcher and its library. Collective: returns when all ranks have arrived. */
Err         comm_open(Pool *pool, Comm **comm);
/* The same with this library ("openmpi", "mpich"), whatever the launcher; NULL: by the launcher. */
Err         comm_open_by(Pool *pool, const char *library, Comm **comm);
/* Both end this process if the others have not joined after so many seconds (COMM_PATIENCE): one may
 * have ended before, which not every launcher notices. */
void        comm_open_within(double seconds);
Err         comm_one(Pool *pool, Comm **comm); /* one rank, whatever launched this process */
int         comm_rank(const Comm *comm);
int         comm_ranks(const Comm *comm);
const char *comm_transport(const Comm *comm);      /* "none", or a library and its version */
const char *comm_host(const Comm *comm, int rank); /* name of the machine that it runs on */

/* Before the first comm_start: no transfer has more parts or bytes, sends and receives together.
 * May be called again for more, while nothing is under way; for less it does nothing. Collective. */
Err comm_prepare(Comm *comm, int max_parts, int64_t max_bytes);
Err comm_start(Comm *comm, int slot, const CommPart *sends, int n_sends, const CommPart *receives,
               int n_receives);
Err comm_wait(Comm *comm, int slot); /* nothing to do if nothing was started in it */
Err comm_poll(Comm *comm);           /* moves bytes along, answers other ranks; never waits */

/* Small records, at once. */
Err comm_all(Comm *comm, const void *mine, int64_t bytes, void *all); /* in rank order */
Err comm_share(Comm *comm, int from, void *data, int64_t bytes);      /* from one rank to all */
Err comm_any(Comm *comm, unsigned mine, unsigned *any); /* flags that any rank has set */

void comm_patience(Comm *comm, double seconds);
void comm_step(Comm *comm, int64_t step); /* for messages: the step that this rank is in */

/* The end of every command that opened ranks: returns err, or what ended the others. With OK it
 * waits for all ranks. */
Err comm_end(Comm *comm, Err err);

/* Ends all ranks with this exit code, whatever they are doing. */
void    comm_abort(Comm *comm, int code) __attribute__((noreturn));
/* Seconds so far in waits for transfers and records; without those of a GPU, which waits by itself. */
double  comm_waited(const Comm *comm);
int64_t comm_held(const Comm *comm); /* growth of this process, code included: part of `runtime` */

#endif
