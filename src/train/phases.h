/* phases.h -- validation and sampling between training steps, in the training arena.
 *
 * Both are phases of the training graph and planned like the others: persistent values stay where
 * they are, and the rest of the arena is free while they run. They use the averaged weights if the
 * recipe keeps an average. They change nothing that a step reads, so training gives the same bits
 * with and without them.
 *
 *   validate  the loss over held-out samples (data.holdout), with the same samples and noise every
 *             time
 *   sample    the results that `plimsoll sample` would draw from a checkpoint of that step
 */
#ifndef TRAIN_PHASES_H
#define TRAIN_PHASES_H

#include "recipe/recipe.h"

#include "train/feeds.h"

#include <signal.h>

typedef struct Phases Phases;

/* Allocates all that the phases need. out: the run's folder; NULL: no sampling. training: the inputs
 * of the steps, whose cache and texts hold here too. loader_bytes: limit of phases_bytes; 0: none. */
Err     phases_open(Pool *pool, Session *session, const Recipe *recipe, const TrainingGraph *graph,
                    const char *out, const Feeds *training, int64_t loader_bytes, Phases **phases);
int64_t phases_bytes(const Phases *phases); /* of input buffers on the host */

/* Both are cut short, with an error, once *stop is not 0; phases_stopped then says so. */
void phases_stop_by(Phases *phases, const volatile sig_atomic_t *stop);
bool phases_stopped(const Phases *phases);

bool phase_due(const EveryConfig *every, int64_t step);
Err  phases_validate(Phases *phases, double *loss);
Err  phases_sample(Phases *phases, int64_t step); /* into OUT/samples/STEP */
/* phases_sample then calls `wrote` with each file that it has written. */
void phases_tell_files(Phases *phases, void (*wrote)(void *arg, const char *path), void *arg);

#endif
