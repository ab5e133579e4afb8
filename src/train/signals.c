/* signals.c -- handlers that note what was asked. */
#include "train/signals.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t signals_stop, signals_save;
static const char    *stop_says;
static double         stop_together, stop_at; /* seconds */

/* The first signal ends the run after a checkpoint. The second ends it at once: a file takes its
 * place only when it is whole, so the last checkpoint stays. SIGXCPU comes every second once the
 * limit is passed, and never counts as the second. */
static void signals_on_stop(int number)
{
    int error = errno;
    if (signals_stop && number != SIGXCPU && clock_now() - stop_at >= stop_together) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when this function returns */
    }
    if (!signals_stop && stop_says && write(2, stop_says, strlen(stop_says)) < 0) {
        /* nobody reads it */
    }
    stop_at = signals_stop ? stop_at : clock_now();
    signals_stop = 1;
    errno = error;
}

static void signals_on_save(int number)
{
    (void)number;
    signals_save = 1;
}

/* Signals that end a run after a checkpoint. SIGHUP comes from a closed terminal; nohup ignores it.
 * SIGUSR2 and SIGXCPU come from batch systems, some time before they kill. */
static const int stopping_signals[SIGNALS_STOPPING] = { SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGXCPU };

void signals_steps_begin(SignalsBefore *before, const char *says, double together)
{
    struct sigaction stop = { .sa_handler = signals_on_stop, .sa_flags = SA_RESTART };
    stop_says = says;
    stop_together = together;
    signals_stop = 0; /* may be set by an earlier run of this process */
    for (int i = 0; i < SIGNALS_STOPPING; i++) {
        sigaction(stopping_signals[i], NULL, &before->stopping[i]);
        if (stopping_signals[i] != SIGHUP || before->stopping[i].sa_handler != SIG_IGN)
            sigaction(stopping_signals[i], &stop, NULL);
    }
}

void signals_steps_end(const SignalsBefore *before)
{
    for (int i = 0; i < SIGNALS_STOPPING; i++)
        sigaction(stopping_signals[i], &before->stopping[i], NULL);
}

void signals_begin(SignalsBefore *before)
{
    /* do not stop when the reader of the progress messages has gone */
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    /* from the start: a batch system may ask for a checkpoint while the plan is made */
    struct sigaction save = { .sa_handler = signals_on_save, .sa_flags = SA_RESTART };
    signals_save = 0;
    sigaction(SIGPIPE, &ignore, &before->pipe);
    sigaction(SIGUSR1, &save, &before->save);
}

void signals_end(const SignalsBefore *before)
{
    sigaction(SIGUSR1, &before->save, NULL);
    sigaction(SIGPIPE, &before->pipe, NULL);
}
