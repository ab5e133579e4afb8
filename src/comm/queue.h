/* queue.h -- transfers in the order of a device's kernels.
 *
 * The parts of a CommTransfer are listed once, before the first step. On the CPU, starting one is
 * comm_start and joining it is comm_wait. On a GPU both only put work into queues (queue_api.h), so
 * that a transfer is part of a CUDA graph and runs beside the kernels. Its bytes travel in one of
 * two ways, the same on all ranks:
 *
 *   direct          the library between GPUs sends and receives device memory
 *   through hosts   copies to pinned host memory, messages of comm.h, copies back: for ranks that
 *                   share a GPU, and where that library is missing
 *
 * In the second way the queue stops at each transfer until this process has moved its bytes, which it
 * does whenever it waits or polls. While the host waits for the GPU, it answers other ranks too, and
 * finds those that are silent.
 */
#ifndef COMM_QUEUE_H
#define COMM_QUEUE_H

#include "comm/comm.h"
#include "device/device.h"

typedef struct CommTransfer {
    int                slot;
    CommPart          *sends, *receives;
    int                n_sends, n_receives;
    struct CommStaged *staged; /* where its bytes lie in host memory; NULL: they go directly */
} CommTransfer;

/* Opens the device's queue, if it has one, and counts what that holds: on the device in its
 * runtime_bytes, on the host in comm_held. E_USAGE if ranks have different kinds of devices.
 * Collective. With one rank, or on the CPU, nothing more happens. */
Err         comm_queue_open(Comm *comm, Device *device);
/* "" on the CPU; else how bytes travel between the GPUs, and why not directly. */
const char *comm_queue_text(const Comm *comm);
/* Before the first transfer is added: none has more bytes, sends and receives together. */
Err         comm_queue_prepare(Comm *comm, int64_t max_bytes);

/* Room for the parts of at most so many sends and as many receives. */
CommTransfer *comm_transfer_new(Pool *pool, int slot, int parts);
/* Once all parts are listed; comm_prepare has allowed for them. */
Err           comm_transfer_ready(Pool *pool, Comm *comm, CommTransfer *transfer);
Err           comm_transfer_start(Comm *comm, const CommTransfer *transfer);
Err           comm_transfer_join(Comm *comm, int slot);
/* Before a whole phase is queued. Through hosts, the device may stand until this thread has moved
 * bytes; a call that then waited for room among what is queued would wait for ever. So nothing is
 * queued behind a phase that has not ended. Elsewhere it does nothing. */
Err           comm_queue_settle(Comm *comm);

#endif
