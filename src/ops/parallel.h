/* parallel.h -- how CPU kernels divide work among threads.
 *
 * Every loop is divided into ranges whose bounds depend only on the extent and the thread count,
 * never on timing, and every reduction adds its partial results in index order. So results are the
 * same bit for bit in every run. Even little work runs on all threads: a team of another size makes
 * libgomp discard the old one and allocate, in every step. Loops of one thread never reach libgomp
 * (device/team_of_one.c). */
#ifndef OPS_PARALLEL_H
#define OPS_PARALLEL_H

#include "base/int_math.h"

#include <omp.h>
#include <stdint.h>

enum { ROW_BLOCK = 1024 }; /* fp32 values staged on the stack at a time (device/convert.h) */

/* Threads for so many tasks, so that each has at least one. */
static inline int parallel_threads(int threads, int64_t tasks)
{
    return tasks < threads ? (int)tasks : threads;
}

/* Range i of n of [0, count), with bounds at multiples of unit. */
static inline void parallel_range(int64_t count, int64_t unit, int i, int n, int64_t *from,
                                  int64_t *to)
{
    int64_t units = ceil_div(count, unit);
    *from = units * i / n * unit;
    *to = units * (i + 1) / n * unit;
    if (*to > count)
        *to = count;
    if (*from > count)
        *from = count;
}

#endif
