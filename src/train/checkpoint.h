/* checkpoint.h -- weights and state on disk: safetensors with the original names and layouts.
 *
 * RUN/step-000200.safetensors holds parameters (fp32), `ema/NAME`, `optimizer.m/NAME`, ... and
 * saved state. RUN/step-000200.json holds the state of the run. It is written last, so a checkpoint
 * without its JSON is incomplete and ignored. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "exec/session.h"
#include "recipe/recipe.h"

/* What still has to be done for the last step. If it fails after the update, the resumed run does
 * it first. */
typedef enum Due {
    DUE_NOTHING,
    DUE_VALIDATE, /* validation, then the schedule, the log and samples */
    DUE_SAMPLE    /* samples only */
} Due;

typedef struct RunState { /* what a run needs besides its tensors */
    int64_t step;         /* steps done */
    Due     due;          /* for the last step */
    double  loss, ms;     /* of the last step, for its log entry; kept while something is due */
    int64_t drawn;        /* samples drawn from the data */
    int64_t samples;      /* number of samples in the data; 0: not known */
    int64_t seed;
    Plateau plateau;   /* if the schedule is one */
    int64_t best_step; /* of the checkpoint with the lowest validation loss; 0: none yet */
    double  best_loss;
} RunState;

/* Header and buffers are allocated in advance; saving allocates nothing. */
typedef struct Saver Saver;

/* Also removes what a killed run left: temporaries, and weights without their JSON. */
Err saver_new(Pool *pool, Session *session, const char *folder, int64_t keep, Saver **saver);
/* For the other ranks of a run: saving sends their parts to rank 0, which writes. All ranks save
 * together, and all get rank 0's result. */
Err saver_new_follower(Pool *pool, Session *session, Saver **saver);
/* After a failure the checkpoints before it are as they were, and it can be called again. That an
 * old checkpoint cannot be removed is no failure: saver_note says it (NULL: nothing to say). */
Err saver_save(Saver *saver, const RunState *state);
const char *saver_note(const Saver *saver);
/* Is all saved state besides parameters finite, such as statistics and carried states? */
bool        saver_finite(Saver *saver);

/* The step with the lowest validation loss, by the newest checkpoint; E_USAGE if there is none. */
Err checkpoint_best(Pool *pool, const char *folder, int64_t *step);
/* The newest complete checkpoint of a run; E_IO if there is none. */
Err checkpoint_newest(Pool *pool, const char *folder, int64_t *step);
/* Every tensor must be there and fit. If the checkpoint is damaged, the newest older one that is
 * whole is loaded, and *note says so; NULL: it was not needed. */
Err checkpoint_load(Pool *pool, Session *session, const char *folder, int64_t step, RunState *state,
                    const char **note);

/* Checks that a weights file still has the bytes that were saved, by the checksum in the JSON
 * beside it. Passes if there is no JSON or no checksum. */
Err checkpoint_intact(Pool *pool, const char *weights);

/* The file that --init names: a run means its newest checkpoint, as checkpoint_file does. */
Err checkpoint_given(Pool *pool, const char *init, const char **path, const char **note);

/* The weights file of a complete checkpoint, intact; step -1: the newest, or where it is damaged an older
 * one, which *note says (else NULL). Sets *step. */
Err checkpoint_file(Pool *pool, const char *folder, int64_t *step, const char **path,
                    const char **note);

typedef enum WeightsKind {
    WEIGHTS_USUAL,   /* the averages, if the run keeps them */
    WEIGHTS_RAW,     /* the weights themselves */
    WEIGHTS_AVERAGED /* E_USAGE if the run keeps no averages */
} WeightsKind;

/* Weights that are only read: for sampling, evaluation and compression. */
typedef struct WeightsRead {
    int64_t     step; /* of the checkpoint; -1: the newest, and then its step */
    WeightsKind kind;
    int64_t     length;   /* of a sample, as the recipe has it; 0: it has none (train/lengths.h) */
    bool        averaged; /* out: they are averages */
    const char *note;     /* out: the newest was damaged, and an older one is used; or NULL */
} WeightsRead;

/* Statistics are loaded as saved. E_USAGE if the run's samples have another length. If the step that is asked for is damaged, the message names an
 * older one that is intact. The newest may be that of a run in progress, which removes checkpoints
 * meanwhile. */
Err checkpoint_weights(Pool *pool, Session *session, const char *folder, WeightsRead *read);

#endif
