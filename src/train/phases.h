/* phases.h -- what a recipe has done between steps: validation and sampling, in the training arena.
 *
 * Both are parts of the training graph, planned like the rest of it: state stays where it is, and
 * all else of the arena is theirs while they run. They read the averaged weights where the recipe
 * has an average. They change nothing a step reads, so training gives the same bits with them or
 * without.
 *
 *   validate  the loss over held-out samples (data.holdout), the same samples and the same noise
 *             every time
 *   sample    results as `plimsoll sample` would draw them from a checkpoint of that step
 */
#ifndef TRAIN_PHASES_H
#define TRAIN_PHASES_H

#include "recipe/recipe.h"

#include "exec/session.h"

typedef struct Phases Phases;

/* Takes all that the phases need; out: the run's folder, or NULL: nothing is sampled. */
Err phases_open(Pool *pool, Session *session, const Recipe *recipe, const TrainingGraph *graph,
                const char *out, bool quiet, Phases **phases);
int64_t phases_bytes(const Phases *phases);          /* of batch buffers on the host */

bool phase_due(const EveryConfig *every, int64_t step);
Err  phases_validate(Phases *phases, double *loss);
Err  phases_sample(Phases *phases, int64_t step);    /* into OUT/samples/STEP */

#endif
