/* agree.h -- what all ranks must have in common before they go on together.
 *
 * The calls are collective and end alike on all ranks, so that nobody waits for one that has gone.
 * On failure rank 0 has the sentence, which names the rank; the others have the same code and an
 * empty sentence, and comm_end passes it on. */
#ifndef COMM_AGREE_H
#define COMM_AGREE_H

#include "comm/comm.h"

typedef struct CommFact {
    const char *name;   /* in "all ranks of a run must have the same NAME" */
    const char *value;  /* compared whole; shown to FACT_SHOWN - 1 bytes */
    const char *remedy; /* what to do if ranks differ in it */
} CommFact;

enum { FACT_SHOWN = 80 };

/* err: of what this rank did so far, with its sentence. The first rank that failed has the word. */
Err comm_agree(Comm *comm, Err err);

/* The same for what rank `from` did alone: its error is that of all, in its own words. */
Err comm_follow(Comm *comm, int from, Err err);

/* All ranks give the same facts in the same order. E_USAGE names the first fact that differs, and
 * the first rank that differs from most. */
Err comm_same(Comm *comm, const CommFact *facts, int n);

/* The first rank whose number differs from most; -1: all have the same. Allocates nothing. */
Err comm_odd(Comm *comm, uint64_t number, int *rank);

/* For a failure that all ranks found together: rank 0 has the sentence. */
Err comm_refuse(Comm *comm, Err err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
