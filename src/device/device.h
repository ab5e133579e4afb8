/* device.h -- where tensor bytes live and who computes on them.
 *
 * A Device gives one arena per memory space, taken whole before the first step. The CPU is built
 * in; others are plugins that fill the same struct. Kernels are looked up by operator: the CPU's
 * are in the operators' own tables, a plugin brings a table of its own.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "base/err.h"
#include "base/pool.h"
#include "device/blas.h"
#include "device/profile.h"

typedef enum DeviceKind { DEVICE_CPU, DEVICE_CUDA } DeviceKind;

typedef struct Device Device;
struct Device {
    DeviceKind  kind;
    const char *name;            /* "cpu", "cuda" */
    const char *model;           /* processor or card */
    const char *library;         /* vendor library and version, written into plans */
    int         threads;         /* CPU: of every kernel; a plan holds for one count */
    int64_t     align;           /* of every buffer: 64 on the CPU, 256 on CUDA */
    int64_t     memory_bytes;    /* what can really be taken for an arena */
    int64_t     runtime_bytes;   /* CUDA: what lies outside the arena and counts against the budget; CPU: 0 */
    const Profile *profile;      /* rates and measured times, or NULL: a plain roofline */
    const char *profile_note;    /* why this machine's profile is not used, or NULL */
    bool        described;       /* not here: known by its profile alone, so it can be planned for but not run */
    const Blas *blas;            /* CPU: who does matrix products */
    /* Plugins: the kernels (a table of ir's Kernel, by operator name); NULL on the CPU. */
    const void *(*kernel)(const char *op_name);
    void       *handle;
};

/* False: a card known by its profile alone. Plans for it hold no workspaces: whoever has its kernels says
 * what they need. */
static inline bool device_has_kernels(const Device *device)
{
    return device->kind == DEVICE_CPU || device->kernel;
}

typedef struct DeviceOptions {
    int         threads;         /* 0: all cores */
    const char *blas;            /* "onednn", "own" or NULL for the best there is */
} DeviceOptions;

Err device_cpu(Pool *pool, const DeviceOptions *options, Device **device);

/* By name: "cpu" (or NULL): this machine, with the profile that `plimsoll probe` left for it; "cuda"; else a
 * shipped profile's name or a profile's path: a card, or a processor, as that describes it. */
Err device_open(Pool *pool, const char *name, const DeviceOptions *options, Device **device);

/* The planned block of tensor bytes. On the CPU a page that may not be touched follows it, so that
 * a kernel running past the end is stopped at once. */
typedef struct Arena {
    const Device *device;
    char         *base;
    int64_t       bytes;
} Arena;

Err arena_new(Pool *pool, const Device *device, int64_t bytes, Arena **arena);  /* touched, zeroed */

/* What lies outside the arena: measured in this process (which holds an arena of that many bytes, or 0), or
 * what the profile of a described device says. */
int64_t device_runtime_bytes(const Device *device, int64_t arena_bytes);

int64_t resident_bytes(void);                /* of this process, code and files included; -1: unknown */
int64_t resident_anonymous_bytes(void);      /* of this process, as the kernel counts them; -1: unknown */

#endif
