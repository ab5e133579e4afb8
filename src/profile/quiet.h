/* quiet.h -- was a measurement disturbed by other programs? The kernel counts how often it took a
 * processor from a thread that was not done: hardly ever on a quiet machine, dozens of times a
 * second for every thread on a busy one. */
#ifndef PROFILE_QUIET_H
#define PROFILE_QUIET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Quiet {
    double  start_s;
    int64_t taken;
} Quiet;

Quiet quiet_begin(void);
/* False: so often that the times in between are not those of this machine alone. */
bool  quiet_end(Quiet quiet, int threads);

#endif
