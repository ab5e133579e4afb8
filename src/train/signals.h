/* signals.h -- what a user or a batch system asks of a run by signals.
 *
 * SIGINT, SIGTERM, SIGHUP, SIGUSR2 and SIGXCPU end the run after a checkpoint; a second one ends the
 * process at once. SIGUSR1 asks for a checkpoint. One run at a time. */
#ifndef TRAIN_SIGNALS_H
#define TRAIN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { SIGNALS_STOPPING = 5, LAUNCHER_SECONDS = 2 };

typedef struct SignalsBefore { /* handlers to restore */
    struct sigaction stopping[SIGNALS_STOPPING], save, pipe;
} SignalsBefore;

/* From the start of a run on: SIGUSR1, and SIGPIPE is ignored. */
void signals_begin(SignalsBefore *before);
void signals_end(const SignalsBefore *before);
/* Around its steps. says: to stderr at the first signal; NULL: nothing. What follows the first within
 * so many seconds is the same: a launcher and a terminal, or a launcher twice, pass one request on. */
void signals_steps_begin(SignalsBefore *before, const char *says, double together);
void signals_steps_end(const SignalsBefore *before);

extern volatile sig_atomic_t signals_stop, signals_save; /* asked for; signals_save: set it back */

#endif
