/* fit_int.h -- between fit.c, which searches, and fit_candidates.c, which says what. */
#ifndef FIT_FIT_INT_H
#define FIT_FIT_INT_H

#include "fit/fit.h"

enum { MAX_CANDIDATES = 64 };

typedef struct Candidate {
    Pool         *pool;
    Recipe       *recipe;
    TrainingGraph graph;
    Engine       *kept;          /* everything kept */
    bool          twin;  /* the next one is the same with gradient release: never searched */
    bool          asked;         /* every lever as the recipe has it */
} Candidate;

typedef struct Fit {
    Pool             *pool;
    const Recipe     *recipe;
    const Device     *device;
    const FitOptions *options;
    double            deadline_s;
    bool              cut;           /* some could not be built in time */
    Candidate         list[MAX_CANDIDATES];
    int               n;
} Fit;

/* Graph and engine of a recipe as its levers stand. */
Err fit_build(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
              const EngineOptions *how, TrainingGraph *graph, Engine **engine);

/* A time limit cuts searches off. Building what could be searched takes its time too: once the
 * limit has passed twice, what is not built is left out, and so is what was not looked at. */
bool fit_late(const Fit *fit);

/* Is that placement of state one of its own, on a device with a memory of its own? */
bool fit_can_host(const Fit *fit, int host);

/* One candidate, unless it is impossible or the same as another. */
Err  fit_add(Fit *fit, const Recipe *recipe, bool twin);
/* All that options->allow allows; the result gets notes on what could not be used. */
Err  fit_candidates(Fit *fit, FitResult *result);
void fit_order(Fit *fit);            /* cheapest first, then nearest to the recipe */

#endif
