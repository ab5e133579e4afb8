/* clock.h -- a clock that never goes backwards. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_now(void); /* seconds since some fixed moment; signal handlers may ask too */

#endif
