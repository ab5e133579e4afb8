/* memory.h -- host memory: what the system promises, and what it really gives. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include "base/err.h"
#include "base/pool.h"

typedef struct MemoryLimits {    /* bytes; INT64_MAX where there is no such limit */
    int64_t total;               /* of the machine */
    int64_t available;           /* without swapping, as the kernel estimates it */
    int64_t cgroup;              /* the least limit of the control groups this process is in */
    int64_t cgroup_left;         /* below it: caches that can be dropped count as free */
    int64_t address_left;        /* of the address space (ulimit -v) */
} MemoryLimits;

MemoryLimits memory_limits(void);
/* The same from other folders than /proc and /sys/fs/cgroup: tests. */
MemoryLimits memory_limits_in(const char *proc, const char *cgroups);
int64_t      memory_left(const MemoryLimits *limits);        /* the least of all */

typedef struct TakeOptions {
    int64_t most;                /* bytes; 0: all there is */
    int64_t reserve;             /* bytes of memory_left that stay free: others live here too */
    double  seconds;             /* at most */
    void  (*progress)(void *arg, double done, const char *text);
    void   *progress_arg;
} TakeOptions;

typedef struct TakenMemory {
    int64_t     bytes;           /* that were taken and written */
    const char *ended_by;        /* why no more were */
} TakenMemory;

/* Takes memory piece by piece and writes every page of it, in a process of its own that the system
 * would end first, and gives it back. */
Err memory_take(const TakeOptions *options, TakenMemory *taken);

#endif
