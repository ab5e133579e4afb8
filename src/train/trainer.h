/* trainer.h -- the training loop: data, steps, log, validation, samples, checkpoints.
 *
 * All memory is allocated before step 1; a step allocates nothing. On SIGINT, SIGTERM, SIGHUP,
 * SIGUSR2 or SIGXCPU the current step is finished and saved, and the run ends without an error;
 * validation and sampling are cut short and done first by the resumed run. A second signal ends the
 * process at once. SIGUSR1 saves after the current step, and the run goes on. If the loss is not
 * finite, the run stops before the weights change, names the first tensor that is not finite and
 * saves the weights as they are. If a checkpoint cannot be written, the run goes on and tries again
 * at the next one.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "recipe/recipe.h"

#include "exec/session.h"

typedef struct TrainOptions {
    const char  *out;              /* run folder; NULL: writes nothing */
    bool         resume;           /* continues from out's newest checkpoint */
    const char  *init;             /* starting weights, or NULL */
    bool         init_partial;     /* init may lack tensors */
    bool         init_average;     /* the average that init keeps */
    const char  *given;            /* safetensors file with inputs and noise, (micro-batches, ...)
                                  * each; or NULL */
    const char  *dump_random;      /* writes the run's random numbers here; or NULL */
    const char  *dump;             /* writes loss, outputs and gradients of the first step done
                                  * here; or NULL */
    const char  *plan;             /* plan file; NULL: that of a resumed run, else a new plan */
    int64_t      budget_bytes;     /* of the arena; 0: everything kept */
    const char  *cache;            /* folder for decoded video and audio; NULL: a temporary one */
    int64_t      loader_bytes;     /* limit of the memory that loads data, on the host; 0: none */
    unsigned     allow;            /* numeric levers that may be used for the budget (fit/fit.h) */
    struct Comm *comm;             /* the ranks of the run; NULL: one */
    int64_t      check_ranks;      /* steps between comparisons of their parameters; 0: none */
    const struct RunFile *started; /* written to RUN/run.json; NULL: nothing to note */
    bool                  quiet;
    int                   shard;  /* of several ranks: level, below 0: the default */
    int64_t               bucket; /* of several ranks: Levers.bucket */
} TrainOptions;

typedef struct TrainResult {
    int64_t      steps; /* done by this call */
    int64_t      step;  /* total now */
    double       loss_first, loss_last;
    double       validation_last; /* the last of `validations` */
    int64_t      validations;
    double       step_ms; /* median without the first few */
    int64_t      planned_bytes, measured_bytes;
    /* per phase; planned 0: the graph has no such phase; measured 0: it did not run */
    int64_t      phase_planned[PHASE_COUNT], phase_measured[PHASE_COUNT];
    int64_t      host_planned_bytes, host_measured_bytes; /* of the host arena; 0: none */
    int64_t      loader_limit;                            /* of loader_bytes; 0: none */
    int64_t      loader_bytes;      /* input buffers on the host, outside the arena */
    int32_t      recomputed;        /* nodes recomputed in a step */
    int64_t      batch, accumulate; /* as run: a plan may split the recipe's micro-batches */
    double       slowdown;     /* predicted, against everything kept and all levers at default */
    double       predicted_ms; /* of a step, before the first */
    int64_t      ranks;
    EngineMoving moving;      /* predicted: what a rank moves in a step */
    double       waited_ms;   /* measured: for other ranks in a step, the mean without the first */
    const char  *by;          /* how bytes travel between the ranks' GPUs; "": they have none */
    const char  *time_source; /* of that prediction: plan/engine.h */
    int64_t      runtime_bytes; /* memory outside the arena, measured at the end */
    int64_t      stated_bytes;  /* GPU: the same as predicted; CPU: 0 */
    bool         interrupted;
} TrainResult;

Err train_run(Pool *pool, const Recipe *recipe, const Device *device, const TrainOptions *options,
              TrainResult *result);

#endif
