/* pace.h -- how fast this processor is against the generic roofline (node_time.h), for machines that
 * nobody has probed: a few kernels are measured once, in about a second, and the answer is kept for
 * this processor, library and number of threads.
 *
 * It scales the times that are printed. Plans use measured times only after `plimsoll probe`: the
 * same input gives the same plan. */
#ifndef PROFILE_PACE_H
#define PROFILE_PACE_H

#include "profile/profile.h"

/* Gives the device a profile of which only the pace is known; does nothing where it has a profile,
 * is no processor or is not here, where there is no folder to keep the answer in, and where the
 * machine is too busy to be measured or has too little memory left. */
Err pace_find(Pool *pool, Device *device);

/* Ratios of measured and predicted time. */
typedef struct Pace {
    double mean;               /* 0: other programs were in the way */
    double of[RATE_KINDS + 1]; /* products, convolutions, moving bytes */
} Pace;

Err pace_measure(Pool *pool, const Device *device, Pace *pace);
/* Keeps it, for pace_find. */
Err pace_keep(Pool *pool, const Device *device, const Pace *pace);

#endif
