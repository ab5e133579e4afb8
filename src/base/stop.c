/* stop.c -- the handler of SIGINT and SIGTERM for searches. */
#include "base/stop.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_wanted;
static const char           *stop_say;

static void stop_handler(int number)
{
    int error = errno;
    if (stop_wanted) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when this function returns */
        return;
    }
    stop_wanted = 1;
    if (write(2, stop_say, strlen(stop_say)) < 0) { /* nobody reads it */
    }
    errno = error;
}

void stop_on_interrupt(const char *say)
{
    struct sigaction stop = { .sa_handler = stop_handler, .sa_flags = SA_RESTART };
    stop_say = say;
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
}

bool stop_asked(void) { return stop_wanted; }

bool stop_late(double deadline_s)
{
    return stop_wanted || (deadline_s > 0 && clock_now() > deadline_s);
}
