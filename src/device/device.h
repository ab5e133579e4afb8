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

typedef enum DeviceKind { DEVICE_CPU, DEVICE_CUDA } DeviceKind;

typedef struct Device Device;
struct Device {
    DeviceKind  kind;
    const char *name;            /* "cpu", "cuda" */
    const char *model;           /* processor or card */
    const char *library;         /* vendor library and version, written into plans */
    int         threads;         /* CPU: of every kernel; a plan holds for one count */
    int64_t     align;           /* of every buffer: 64 on the CPU, 256 on CUDA */
    int64_t     memory_bytes;    /* what can really be taken */
    const Blas *blas;            /* CPU: who does matrix products */
    /* Plugins: the kernels (a table of ir's Kernel, by operator name); NULL on the CPU. */
    const void *(*kernel)(const char *op_name);
    void       *handle;
};

typedef struct DeviceOptions {
    int         threads;         /* 0: all cores */
    const char *blas;            /* "onednn", "own" or NULL for the best there is */
} DeviceOptions;

Err device_cpu(Pool *pool, const DeviceOptions *options, Device **device);

/* The planned block of tensor bytes. On the CPU a page that may not be touched follows it, so that
 * a kernel running past the end is stopped at once. */
typedef struct Arena {
    const Device *device;
    char         *base;
    int64_t       bytes;
} Arena;

Err arena_new(Pool *pool, const Device *device, int64_t bytes, Arena **arena);  /* touched, zeroed */

int64_t resident_anonymous_bytes(void);      /* of this process, as the kernel counts them; -1: unknown */

#endif
