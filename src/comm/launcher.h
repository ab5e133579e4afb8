/* launcher.h -- what started this process, as its environment says.
 *
 * A launcher tells each process how many there are and by which library they can reach each other.
 * A process that nothing launched, or that is alone, is one rank and needs no library. */
#ifndef COMM_LAUNCHER_H
#define COMM_LAUNCHER_H

#include "base/err.h"

typedef struct Launcher {
    const char *name;    /* as a user calls it; NULL: nothing launched this process */
    const char *library; /* whose plugin fits: "openmpi" or "mpich"; NULL: none does */
    const char *remedy;  /* if none does */
    int         ranks;   /* 0: it does not say */
    int         rank;    /* -1: likewise */
} Launcher;

Launcher launcher_find(void);

#endif
