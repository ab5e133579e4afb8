/* device.h -- where tensor bytes live and who computes on them.
 *
 * A Device gives one arena per memory space, taken whole before the first step. The CPU is built
 * in; others are plugins that fill the same struct. Kernels are looked up by operator: the CPU's
 * are in the operators' own tables, a plugin brings a table of its own. Only a device's kernels and
 * device_read/device_write touch an arena's bytes.
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
typedef struct Backend Backend;  /* linalg/linalg.h: who computes products and convolutions */
typedef struct Profile Profile;  /* profile/profile.h: rates and measured times */
struct Kernel;                   /* ir/op.h */

typedef struct Bandwidth {       /* bytes per second, out of caches */
    int64_t threads;             /* 0: the whole device */
    double  read, write, copy;   /* copy counts the bytes read and the bytes written */
} Bandwidth;

/* What a plugin does with bytes that the host cannot touch; the CPU has none of this. Work queued
 * by kernels runs in order; `read`, `write` and `wait` come after all of it. `from` may change once
 * `write` returns. */
typedef struct DeviceApi {
    Err  (*take)(const Device *device, int64_t bytes, void **base);          /* zeroed */
    void (*give)(const Device *device, void *base);
    /* pinned: fast to copy from */
    Err  (*take_host)(const Device *device, int64_t bytes, void **base);
    void (*give_host)(const Device *device, void *base);
    Err  (*write)(const Device *device, void *to, const void *from, size_t bytes);
    Err  (*read)(const Device *device, void *to, const void *from, size_t bytes);
    /* until all queued work is done; its faults come out here */
    Err  (*wait)(const Device *device);
    /* Launches between begin and end are recorded, not run; replaying runs them all as one. */
    Err  (*capture_begin)(const Device *device);
    Err  (*capture_end)(const Device *device, void **cuda_graph);
    Err  (*graph_launch)(const Device *device, void *cuda_graph);
    void (*graph_free)(const Device *device, void *cuda_graph);
    /* While CUDA graph, work follows what was recorded last. A place is where that has got to; what
     * is recorded next may be told to follow one or two places alone. NULL: one after the other. */
    Err  (*capture_point)(const Device *device, Pool *pool, void **place);
    Err  (*capture_after)(const Device *device, void *const *places, int n);
    Err  (*used_bytes)(const Device *device, int64_t *used); /* of the GPU, by this process */
    /* The device's own clock: a event, also in a CUDA graph, notes when all before it is done. */
    Err  (*event_new)(const Device *device, void **event);
    void (*event_free)(const Device *device, void *event);
    Err  (*event)(const Device *device, void *event);
    /* until it is reached; at once if it was never set */
    Err  (*event_wait)(const Device *device, void *event);
    /* once both are done */
    Err  (*event_ns)(const Device *device, void *from, void *to, double *ns);
    /* What plain kernels reach over arrays of that many bytes, and what one that does nothing costs
     * in a CUDA graph. */
    Err  (*measure)(const Device *device, int64_t bytes, Bandwidth *bandwidth, double *launch_ns);
} DeviceApi;

/* Copies between the arena and pinned host memory, beside the kernels: one queue for each way, in
 * order. A copy begins after all kernels queued before it; a mark is reached when its copy has
 * ended. Recorded like kernels. */
typedef enum CopyWay { COPY_TO_HOST, COPY_TO_DEVICE } CopyWay;

typedef struct DeviceQueues {
    Err  (*event_new)(const Device *device, void **mark);
    void (*event_free)(const Device *device, void *mark);
    Err (*copy)(const Device *device, CopyWay way, void *to, const void *from, size_t bytes,
                void *mark);
    /* what is queued from now on comes after the mark */
    Err  (*join)(const Device *device, void *mark);
} DeviceQueues;

struct Device {
    DeviceKind  kind;
    const char *name;            /* "cpu", "cuda" */
    const char *model;           /* processor or GPU */
    const char *library;         /* vendor library and version, written into plans */
    int         threads;         /* CPU: of every kernel; a plan holds for one count */
    int64_t     align;           /* of every buffer: 64 on the CPU, 256 on CUDA */
    int64_t     memory_bytes;    /* what can really be taken for an arena */
    /* CUDA: what lies outside the arena and counts against the budget; CPU: 0 */
    int64_t     runtime_bytes;
    /* bytes per nanosecond of copies; 0: there is one memory space */
    double      to_host, to_device;
    int64_t     host_bytes;  /* what of the host's memory may be pinned for copies; 0: not known */
    const Profile *profile;      /* rates and measured times, or NULL: a plain roofline */
    const char *profile_note;    /* why this machine's profile is not used, or NULL */
    bool        tf32;            /* CUDA: products of fp32 values round their factors */
    /* not here: known by its profile alone, so it can be planned for but not run */
    bool        described;
    const Backend *backend;            /* CPU: who does matrix products */
    /* plugins: kernels by operator id, an entry NULL where the device cannot run the operator; NULL:
     * the CPU's, or a GPU that is only described (ops.h: op_kernel) */
    const struct Kernel *const *kernels;
    const DeviceApi *api;        /* plugins; NULL on the CPU */
    const DeviceQueues *queues;  /* NULL: one memory space, or a GPU that is not here */
    void       *handle;          /* the plugin's own */
};

/* False: a GPU known by its profile alone. Plans for it hold no workspaces: whoever has its
 * kernels says what they need. */
static inline bool device_has_kernels(const Device *device)
{
    return device->kind == DEVICE_CPU || device->api;
}

typedef struct DeviceOptions {
    int         threads;         /* 0: all cores */
    const char *backend;            /* "onednn", "own" or NULL for the best there is */
    bool        tf32;            /* CUDA: fp32 products may round their factors */
} DeviceOptions;

/* From libplimsoll_cuda.so, looked for like the oneDNN plugin. Without it, or without a GPU, one
 * sentence says what is missing. */
Err device_cuda(Pool *pool, const DeviceOptions *options, Device **device);
/* Gives a described GPU the plugin's kernels to plan with, so that their workspace is counted: json
 * is the GPU's own description, as cuDNN writes it. */
Err device_cuda_kernels(Pool *pool, const DeviceOptions *options, const char *json, Device *device);

/* Bytes between the host and wherever the device keeps its tensors. */
Err device_write(const Device *device, void *to, const void *from, size_t bytes);
Err device_read(const Device *device, void *to, const void *from, size_t bytes);
Err device_wait(const Device *device);
/* Host bytes that the device copies from: zeroed, freed with the pool. */
Err device_host_bytes(Pool *pool, const Device *device, int64_t bytes, void **base);

/* The planned block of tensor bytes. On the CPU a page that may not be touched follows it, so that
 * a kernel running past the end is stopped at once. */
typedef struct Arena {
    const Device *device;
    char         *base;
    int64_t       bytes;
} Arena;

Err arena_new(Pool *pool, const Device *device, int64_t bytes, Arena **arena); /* touched, zeroed */
/* arena_new's, on the CPU */
Err arena_cpu(Pool *pool, const Device *device, int64_t bytes, Arena **arena);

int64_t resident_bytes(void);  /* of this process, code and files included; -1: unknown */
/* of this process, as the kernel counts them; -1: unknown */
int64_t resident_anonymous_bytes(void);

#endif
