/* device.h -- where tensor bytes live and who computes on them.
 *
 * A Device has one arena, allocated as a whole before the first step. The CPU is built in; other
 * devices are plugins that fill in the same struct. Kernels are looked up by operator: the CPU's
 * are in the operators' definitions, a plugin brings a table. Only a device's kernels, device_read
 * and device_write touch the bytes of an arena.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "base/err.h"
#include "base/pool.h"
#include "device/type.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum DeviceKind { DEVICE_CPU, DEVICE_CUDA } DeviceKind;

typedef struct Device  Device;
typedef struct Backend Backend; /* linalg/linalg.h: who computes products and convolutions */
typedef struct Profile Profile; /* profile/profile.h: rates and measured times */
typedef struct Wire    Wire;    /* profile/wire.h: what moving bytes between ranks costs */
struct Kernel;                  /* ir/op.h */
struct QueueApi;                /* comm/queue_api.h */

typedef struct Bandwidth {     /* bytes per second, of memory, not of caches */
    int64_t threads;           /* 0: the whole device */
    double  read, write, copy; /* copy counts the bytes read and the bytes written */
} Bandwidth;

/* What a plugin does with memory that the host cannot touch; the CPU needs none of this. Kernels
 * run in the order they are queued; `read`, `write` and `wait` come after all of them. The caller
 * may change `from` once `write` returns. */
typedef struct DeviceApi {
    Err (*alloc)(const Device *device, int64_t bytes, void **base); /* zeroed */
    void (*free)(const Device *device, void *base);
    /* pinned host memory, zeroed */
    Err (*alloc_host)(const Device *device, int64_t bytes, void **base);
    void (*free_host)(const Device *device, void *base);
    Err (*write)(const Device *device, void *to, const void *from, size_t bytes);
    Err (*read)(const Device *device, void *to, const void *from, size_t bytes);
    /* until all queued work is done; its errors are reported here */
    Err (*wait)(const Device *device);
    /* Launches between begin and end are captured, not run; launching the graph runs them all. */
    Err (*capture_begin)(const Device *device);
    Err (*capture_end)(const Device *device, void **cuda_graph);
    Err (*graph_launch)(const Device *device, void *cuda_graph);
    void (*graph_free)(const Device *device, void *cuda_graph);
    /* During a capture, new work follows the work captured last. capture_point returns that point;
     * capture_after lets what comes next depend on one or two such points only. NULL: the device
     * cannot do it, and work is captured in one sequence. */
    Err (*capture_point)(const Device *device, Pool *pool, void **point);
    Err (*capture_after)(const Device *device, void *const *points, int n);
    Err (*used_bytes)(const Device *device, int64_t *used); /* GPU memory of this process */
    /* The device's clock: an event takes the time when all work before it is done, also within a
     * CUDA graph. */
    Err (*event_new)(const Device *device, void **event);
    void (*event_free)(const Device *device, void *event);
    Err (*event)(const Device *device, void *event);
    /* until the event is reached; returns at once if it was never queued */
    Err (*event_wait)(const Device *device, void *event);
    /* between two events that are both reached */
    Err (*event_ns)(const Device *device, void *from, void *to, double *ns);
    /* Bandwidth of plain kernels over arrays of that many bytes, and the time of an empty kernel in
     * a CUDA graph. */
    Err (*measure)(const Device *device, int64_t bytes, Bandwidth *bandwidth, double *launch_ns);
} DeviceApi;

/* Copies between the arena and pinned host memory, concurrent with kernels: one queue per
 * direction, each in order. A copy begins after all kernels queued before it; its event is reached
 * when it has ended. Copies are captured like kernels. */
typedef enum CopyDirection { COPY_TO_HOST, COPY_TO_DEVICE } CopyDirection;

typedef struct DeviceQueues {
    Err (*event_new)(const Device *device, void **event);
    void (*event_free)(const Device *device, void *event);
    Err (*copy)(const Device *device, CopyDirection way, void *to, const void *from, size_t bytes,
                void *event);
    /* kernels queued from now on wait for the event */
    Err (*join)(const Device *device, void *event);
} DeviceQueues;

/* What the host does again and again while it waits for the device; an error ends the wait. */
typedef struct DeviceMeanwhile {
    void (*begin)(void *arg); /* of each wait */
    Err (*turn)(void *arg);
    void *arg;
} DeviceMeanwhile;

struct Device {
    DeviceKind     kind;
    const char    *name;         /* "cpu", "cuda" */
    const char    *model;        /* processor or GPU */
    const char    *library;      /* vendor library and version, written into plans */
    int            threads;      /* CPU: of every kernel; a plan is valid for one count */
    int64_t        align;        /* of every buffer: 64 on the CPU, 256 on CUDA */
    int64_t        memory_bytes; /* free for an arena */
    /* CUDA: memory outside the arena that counts against the budget; CPU: 0 */
    int64_t        runtime_bytes;
    /* rates of copies in bytes per nanosecond; 0: there is one memory space */
    double         to_host, to_device;
    int64_t        host_bytes;   /* host memory that may be pinned for copies; 0: unknown */
    const Profile *profile;      /* rates and measured times, or NULL: a plain roofline */
    const char    *profile_note; /* why this machine's profile is not used, or NULL */
    bool           tf32;         /* CUDA: fp32 products round their factors to tf32 */
    /* not here: known by its profile only, so it can be planned for but not run */
    bool           described;
    const Backend *backend; /* who computes products and convolutions */
    /* plugins: kernels by operator id, NULL entries for operators that the device cannot run. NULL:
     * the CPU, or a GPU known by its profile only (ops.h: op_kernel) */
    const struct Kernel *const *kernels;
    const DeviceApi            *api;       /* plugins; NULL on the CPU */
    const DeviceQueues         *queues;    /* NULL: one memory space, or a GPU that is not here */
    const struct QueueApi      *transfers; /* between ranks; NULL: of host memory only */
    const DeviceMeanwhile      *meanwhile; /* NULL: the host sleeps until the device is done */
    void                       *handle;    /* of the plugin */
    struct Comm                *comm;      /* the ranks of the run (comm/comm.h); NULL: one rank */
    /* several ranks, planned for or running: their number, how many share a node, and what moving
     * bytes between them costs. NULL: nothing is known, and it costs nothing */
    int                         ranks, per_node;
    const Wire                 *wire;
    int64_t                     wire_bytes; /* of runtime_bytes: held for moving bytes */
};

/* False: a GPU known by its profile only. Without kernels nothing says how much workspace they
 * need, so plans for it count none. */
static inline bool device_has_kernels(const Device *device)
{
    return device->kind == DEVICE_CPU || device->api;
}

typedef struct DeviceOptions {
    int         threads; /* 0: all cores */
    const char *backend; /* "onednn", "builtin", or NULL: the faster one */
    bool        tf32;    /* CUDA: fp32 products may round their factors to tf32 */
    int         place;   /* this rank's number among those of its machine, which share its GPUs */
} DeviceOptions;

/* From libplimsoll_cuda.so, which is searched for like the oneDNN plugin. Without it, or without a
 * GPU, the error says what is missing. */
Err device_cuda(Pool *pool, const DeviceOptions *options, Device **device);
/* Adds the plugin's kernels to a described GPU, so that plans count their workspace. json is the
 * GPU's description as cuDNN writes it. */
Err device_cuda_kernels(Pool *pool, const DeviceOptions *options, const char *json, Device *device);

/* Copies between the host and the device's memory. */
Err device_write(const Device *device, void *to, const void *from, size_t bytes);
Err device_read(const Device *device, void *to, const void *from, size_t bytes);
Err device_wait(const Device *device);
/* Host memory that the device copies to and from: zeroed, freed with the pool. */
Err device_host_bytes(Pool *pool, const Device *device, int64_t bytes, void **base);

/* The planned block of tensor bytes. On the CPU a guard page follows it, which stops a kernel that
 * runs past the end. */
typedef struct Arena {
    const Device *device;
    char         *base;
    int64_t       bytes;
} Arena;

Err arena_new(Pool *pool, const Device *device, int64_t bytes, Arena **arena); /* touched, zeroed */
/* arena_new on the CPU */
Err arena_cpu(Pool *pool, const Device *device, int64_t bytes, Arena **arena);

int64_t resident_bytes(void); /* of this process, code and files included; -1: unknown */
/* of this process, as the kernel counts them; -1: unknown */
int64_t resident_anonymous_bytes(void);

#endif
