/* queue_api.h -- what a device's plugin brings so that ranks can send from its memory: one more queue
 * beside the kernels, and a library that moves bytes between devices.
 *
 * What is put into the queue runs in order. Between `begin` and `end` lies one transfer: it begins
 * when all kernels queued before `begin` are done, and kernels queued after `join` of its slot wait
 * for its end. All of it may be captured in a CUDA graph. Every call but `call`'s function comes
 * from the thread that queues the kernels.
 */
#ifndef COMM_QUEUE_API_H
#define COMM_QUEUE_API_H

#include "comm/comm.h"
#include "device/device.h"

enum {
    QUEUE_ID = 128,   /* bytes by which ranks find each other: of NCCL's unique id */
    QUEUE_PLACE = 32, /* of a device's name on its machine, with its end */
    QUEUE_WHY = 256   /* of a reason, with its end */
};

typedef struct QueueApi {
    Err (*open)(const Device *device, int slots); /* the queue; again: does nothing */
    void (*place)(const Device *device, char place[QUEUE_PLACE]);
    Err (*begin)(const Device *device);
    Err (*end)(const Device *device, int slot);
    Err (*join)(const Device *device, int slot);
    /* in the queue, between any two memories */
    Err (*copy)(const Device *device, void *to, const void *from, size_t bytes);
    /* in the queue: a thread of the device's library calls it, and the queue waits for its return */
    Err (*call)(const Device *device, void (*function)(void *), void *arg);
    /* From now on nothing waits for the device any more: the process is about to end. */
    void (*give_up)(const Device *device);

    /* The library between devices (NCCL). find: its version, or 0 and why it cannot be used. */
    int (*direct_find)(char why[QUEUE_WHY]);
    Err (*direct_id)(void *id);
    /* Collective; may be called from a thread of its own. */
    Err (*direct_open)(const Device *device, const void *id, int rank, int ranks);
    Err (*direct)(const Device *device, const CommPart *sends, int n_sends,
                  const CommPart *receives, int n_receives);
    /* its own errors, and whether a transfer waits for other ranks; *ended counts transfers */
    Err (*direct_look)(bool *under_way, unsigned *ended);
} QueueApi;

#endif
