/* stop.h -- ^C ends a search early: what was found so far is kept.
 *
 * A command that can answer at any time calls stop_on_interrupt. Searches ask stop_asked where they
 * ask for their deadline, and end as if it had passed. A second ^C ends the program at once. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>

/* say: printed to stderr at the first ^C, with a line end. */
void stop_on_interrupt(const char *say);
bool stop_asked(void);
bool stop_late(double deadline_s); /* asked, or past the deadline of clock_now(); 0: none */

#endif
