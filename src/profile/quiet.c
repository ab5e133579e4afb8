/* quiet.c -- counts how often a processor was taken from this process. */
#include "profile/quiet.h"

#include "base/clock.h"

#include <sys/resource.h>

enum { TAKEN_A_SECOND = 20, TAKEN_ANYWAY = 10 }; /* for each thread; in all */

static int64_t quiet_taken(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_nivcsw : 0;
}

Quiet quiet_begin(void) { return (Quiet){ clock_now(), quiet_taken() }; }

bool quiet_end(Quiet quiet, int threads)
{
    double seconds = clock_now() - quiet.start_s;
    return (double)(quiet_taken() - quiet.taken) <=
           TAKEN_ANYWAY + TAKEN_A_SECOND * seconds * (double)(threads > 0 ? threads : 1);
}
