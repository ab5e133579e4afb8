/* queue_int.h -- what the files of a device's queue share (queue.c, staged.c).
 *
 * Through hosts, two threads meet: the device's library calls staged_turn when a transfer's bytes
 * are in host memory, and the thread of comm.h moves them and ends the turn. */
#ifndef COMM_QUEUE_INT_H
#define COMM_QUEUE_INT_H

#include "comm/comm_int.h"
#include "comm/queue.h"
#include "comm/queue_api.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct CommStaged CommStaged;

typedef struct CommQueue {
    Comm                  *comm;
    const Device          *device;
    const struct QueueApi *api;
    bool                   direct;
    char                   text[QUEUE_WHY + 128];
    DeviceMeanwhile        meanwhile;

    char   *room; /* pinned: the bytes of one transfer, since the queue runs them in order */
    int64_t room_bytes;

    pthread_mutex_t       lock;
    pthread_cond_t        moved;   /* a turn has ended */
    _Atomic(CommStaged *) turn;    /* its bytes may move; NULL: none */
    CommStaged           *serving; /* its bytes do move */
    bool                  gave_up; /* under the lock, where it is not this thread's own */

    CommWait wait;  /* for the device, while a transfer is under way */
    double   begun; /* when the host began to wait for the device */
    unsigned ended; /* transfers so far */
} CommQueue;

CommStaged *staged_new(Pool *pool, CommQueue *queue, const CommTransfer *transfer);
Err         staged_queue(CommStaged *staged); /* puts it into the queue */
/* Moves the bytes of the transfer whose turn it is; never waits. */
Err         queue_serve(Comm *comm);
/* The ranks are no longer in step: nothing waits for the device or for others any more. */
void        queue_give_up(Comm *comm);

#endif
