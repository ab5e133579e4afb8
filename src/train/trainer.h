/* trainer.h -- the outer loop: data in, steps, log, validation, samples, checkpoints, a clean end.
 *
 * Everything is taken before step 1; a step then allocates nothing. SIGINT, SIGTERM and SIGHUP
 * finish the step, save and end well. A loss that is not finite stops before the weights move,
 * names the first tensor that went wrong and keeps the last good checkpoint.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "recipe/recipe.h"

#include "exec/session.h"

typedef struct TrainOptions {
    const char *out;             /* run folder, or NULL: nothing is written */
    bool        resume;          /* go on from out's newest checkpoint */
    const char *init;            /* starting weights, or NULL */
    bool        init_partial;
    const char *given;  /* inputs and noise from this safetensors file: (micro-batches, ...) each */
    const char *plan;            /* this plan file; NULL: that of a resumed run, else plan anew */
    int64_t     budget_bytes;    /* of the arena; 0: keep everything */
    unsigned    allow;           /* numeric levers that may be moved for the budget (fit/fit.h) */
    bool        quiet;
} TrainOptions;

typedef struct TrainResult {
    int64_t steps;               /* done by this call */
    int64_t step;                /* total now */
    double  loss_first, loss_last;
    double  validation_last;     /* the last of `validations` */
    int64_t validations;
    double  step_ms;             /* median of all but the first few */
    int64_t planned_bytes, measured_bytes;
    int64_t phase_planned[PHASE_COUNT], phase_measured[PHASE_COUNT];   /* 0: not there; did not run */
    int64_t host_planned_bytes, host_measured_bytes;     /* of the host arena; 0: none */
    int64_t loader_bytes;        /* batch buffers on the host, outside the arena */
    int32_t recomputed;          /* nodes run a second time in a step */
    int64_t batch, accumulate;   /* as run: a plan may cut the recipe's micro-batches */
    double  slowdown;  /* predicted, against keeping everything with every lever at its default */
    double  predicted_ms;        /* of a step, before the first */
    const char *time_source;     /* of that prediction: plan/engine.h */
    int64_t runtime_bytes;       /* what lies outside the arena, measured at the end */
    int64_t stated_bytes;        /* a GPU: what was said of it before; 0 on the CPU */
    bool    interrupted;
} TrainResult;

Err train_run(Pool *pool, const Recipe *recipe, const Device *device, const TrainOptions *options,
              TrainResult *result);

#endif
