/* clock.h -- seconds that only go forward. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_now(void);      /* seconds since some fixed moment */

#endif
