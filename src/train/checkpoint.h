/* checkpoint.h -- weights and state on disk: safetensors with the originals' names and layouts.
 *
 * RUN/step-000200.safetensors holds parameters (fp32), `ema/NAME`, `optimizer.m/NAME`, ... and
 * saved state; RUN/step-000200.json, written last, says that it is whole and where the run stood. A
 * checkpoint without its JSON does not count. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "exec/session.h"
#include "recipe/recipe.h"

typedef enum Due {   /* what a step that failed after its update leaves to the run that goes on */
    DUE_NOTHING,
    DUE_LOOK,        /* at held-out samples, and what follows: the schedule, the log, results */
    DUE_DRAW         /* results alone */
} Due;

typedef struct RunState {        /* what a run needs besides its tensors */
    int64_t step;                /* steps done */
    Due     due;                 /* of the last of them */
    double  loss, ms;            /* its own, for the log; kept while something is due */
    int64_t drawn;               /* samples drawn from the data */
    int64_t samples;             /* that the data had; 0: not known */
    int64_t seed;
    Plateau plateau;             /* where the schedule is one */
} RunState;

typedef struct Saver Saver;  /* header and buffers; saving only makes a list of the folder */

Err  saver_new(Pool *pool, Session *session, const char *folder, int64_t keep, Saver **saver);
Err  saver_save(Saver *saver, const RunState *state);

/* The newest whole checkpoint of a run. Every tensor must be there and fit; where one does not, the
 * sentence names the newest older checkpoint that can be used instead, and how. */
Err  checkpoint_newest(Pool *pool, const char *folder, int64_t *step);  /* E_IO if there is none */
Err checkpoint_load(Pool *pool, Session *session, const char *folder, int64_t step,
                    RunState *state);

/* A weights file that a checkpoint's JSON lies beside still has the bytes that were saved. One
 * without, or whose JSON names no checksum, passes. */
Err checkpoint_intact(Pool *pool, const char *weights);

/* For sampling: the averaged weights where the run has them, unless raw; statistics as they
 * were. */
Err checkpoint_weights(Pool *pool, Session *session, const char *folder, int64_t step, bool raw,
                       bool *averaged);

#endif
