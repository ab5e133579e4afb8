/* quiet.c -- a measurement is noticed to be disturbed when more threads compute than there are
 * processors, and not when the process waits. */
#include "test.h"

#include "base/clock.h"
#include "profile/quiet.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { CROWD = 12 }; /* threads that share one processor */

static atomic_bool stop;

static void *busy(void *unused)
{
    while (!atomic_load(&stop))
        ;
    return unused;
}

static void waiting_is_quiet(void)
{
    Quiet quiet = quiet_begin();
    usleep(200 * 1000);
    CHECK(quiet_end(quiet, 1));
}

static void crowding_is_not(void)
{
    pthread_t thread[CROWD];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one)) { /* inherited by the threads */
        SKIP("threads cannot be kept on one processor");
        return;
    }
    Quiet quiet = quiet_begin();
    for (int i = 0; i < CROWD; i++)
        CHECK(pthread_create(&thread[i], NULL, busy, NULL) == 0);
    usleep(1000 * 1000);
    CHECK(!quiet_end(quiet, 1));
    atomic_store(&stop, true);
    for (int i = 0; i < CROWD; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    RUN(waiting_is_quiet);
    RUN(crowding_is_not);
    return test_end();
}
