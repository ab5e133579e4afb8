/* fit_int.h -- shared by fit.c, which searches, and candidates.c, which lists what to search. */
#ifndef FIT_FIT_INT_H
#define FIT_FIT_INT_H

#include "fit/fit.h"

enum { MAX_CANDIDATES = 192 };

typedef struct Candidate {
    Pool         *pool;
    Recipe       *recipe;
    TrainingGraph graph;
    Engine       *kept;  /* everything kept */
    bool          twin;  /* the next candidate is the same with gradient release, which
                                  * needs no more memory: only that one is searched */
    bool          asked; /* every lever as the recipe has it */
} Candidate;

typedef struct Fit {
    Pool             *pool;
    const Recipe     *recipe;
    const Device     *device;
    const FitOptions *options;
    double            deadline_s;
    bool              cut;      /* the time limit came before all candidates were built */
    bool              hasty;    /* under a time limit: candidates are tried as they are built */
    FitResult         first;    /* the first plan that fits, then, or for options->found; engine
                              * NULL: none yet */
    double            found_ns; /* of the plan told last; 0: none */
    double            part_from, part_share; /* the present search, as parts of all: fit_progress */
    double            shown;                 /* the progress told last */
    Candidate         list[MAX_CANDIDATES];
    int               n;
} Fit;

/* Graph and engine of a recipe with its levers. */
Err fit_build(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
              const EngineOptions *how, TrainingGraph *graph, Engine **engine);

/* A time limit ends searches. Building candidates takes time too. Once a plan fits, half of the limit
 * is for building; while none fits, candidates are built and tried until twice the limit. */
bool fit_late(const Fit *fit);
bool fit_late_to_build(const Fit *fit);

/* Under a time limit, or where somebody waits for the first plan: a short search, until one
 * candidate fits. What is found is not lost. */
Err fit_first(Fit *fit, Candidate *candidate);

/* Can this state be host-resident: has the device its own memory, and the recipe such state? */
bool fit_can_host(const Fit *fit, int host);

/* How many levels of division are tried: more than one with options->shard_auto. */
int fit_levels(const Fit *fit);
/* The n-th of them. The recipe's own comes first. */
int fit_level(const Fit *fit, int n);

/* Adds one candidate, unless it is impossible or the same as another. */
Err  fit_add(Fit *fit, const Recipe *recipe, bool twin);
/* Adds everything that options->allow allows; the result gets notes on what could not be used. */
Err  fit_candidates(Fit *fit, FitResult *result);
void fit_order(Fit *fit); /* cheapest first, then nearest to the recipe */

#endif
