/* memory.h -- host memory: what the system reports as free, and what it really gives. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include "base/err.h"
#include "base/pool.h"

typedef struct MemoryLimits { /* bytes; INT64_MAX where there is no such limit */
    int64_t total;            /* of the machine */
    int64_t available;        /* without swapping, as the kernel estimates it */
    int64_t cgroup;           /* the smallest limit of the control groups of this process */
    int64_t cgroup_left;      /* left below it; file caches that can be dropped count as free */
    int64_t address_left;     /* of the address space (ulimit -v) */
} MemoryLimits;

MemoryLimits memory_limits(void);
/* The same from other folders than /proc and /sys/fs/cgroup, for tests. */
MemoryLimits memory_limits_in(const char *proc, const char *cgroups);
int64_t      memory_left(const MemoryLimits *limits); /* the smallest of these */

typedef struct TakeOptions {
    int64_t most;    /* bytes; 0: all there is */
    int64_t reserve; /* bytes of memory_left to leave for other programs */
    double  seconds; /* at most */
    void (*progress)(void *arg, double done, const char *text);
    void *progress_arg;
} TakeOptions;

typedef struct TakenMemory {
    int64_t     bytes;    /* allocated and written */
    const char *ended_by; /* why it stopped there */
} TakenMemory;

/* Allocates memory chunk by chunk and writes every page, in a child process that the system would
 * kill first, and frees it again. */
Err memory_take(const TakeOptions *options, TakenMemory *taken);

#endif
