/* trainer_int.h -- what the files of the training loop share: a Trainer, and who does what with it.
 *
 *   trainer_prepare.c   everything that is read, planned and allocated before step 1
 *   trainer.c           steps, and what is due after each
 *   trainer_save.c      checkpoints: when, and what if one cannot be written
 *   trainer_log.c       log, TensorBoard, the line of progress, the times of steps
 */
#ifndef TRAIN_TRAINER_INT_H
#define TRAIN_TRAINER_INT_H

#include "train/trainer.h"

#include "fit/fit.h"
#include "ops/optimizer/optim.h"
#include "train/checkpoint.h"
#include "train/dump.h"
#include "train/events.h"
#include "train/feeds.h"
#include "train/log.h"
#include "train/phases.h"
#include "train/ranks.h"

enum { MAX_TIMES = 512 }; /* step times kept, for the median */

typedef struct Trainer {
    const Recipe       *asked;  /* the recipe as given */
    const Recipe       *recipe; /* as run: a plan may change levers */
    const TrainOptions *options;
    Comm               *comm;
    int64_t             rank, ranks;
    RankCheck          *check;
    bool                stop, save; /* several ranks: signals of any, as all know of them */
    FitResult           fit;
    TrainingGraph       graph;
    Session            *session;
    Feeds               feeds;
    Phases             *phases;
    Dump               *dump; /* of the next step; NULL: none is asked for, or it is written */
    Saver              *saver;
    Pool               *held; /* holds the lock on the run's folder */
    RunLog              log;
    Events              events;
    int64_t             memory_bytes; /* measured so far, as logged */
    RunState            state;
    int64_t             saved;       /* step of the last whole checkpoint; -1: none */
    double              saved_at;    /* clock_now() of the last attempt, or of the first step */
    bool                is_best;     /* the last step has the lowest validation loss so far */
    int64_t             best_before; /* the best step that is on the disk, if is_best; 0: none */
    bool                begun; /* a step has begun: values of the checkpoint may have changed */
    int32_t             counters[COUNTER_WORDS]; /* for the next step */
    float               rates[RATE_GROUPS + 2];
    float               progress[PROGRESS_WORDS]; /* after the last step */
    bool                changes_early;            /* a micro-batch already changes saved state */
    int                 bad_steps;                /* in a row */
    int64_t             ahead; /* number + 1 of the micro-batch already staged; 0: none */
    float               times_ms[MAX_TIMES];
    int64_t             n_times;
    double              waited_ms; /* for other ranks, in all steps but the first */
} Trainer;

/* ---- trainer_prepare.c ---- */
Err  train_prepare(Pool *pool, Trainer *t, const Device *device);
Err  train_prefetch(Pool *pool, Trainer *t); /* when all ranks agree that they are prepared */
bool train_reads_data(const Trainer *t);

/* ---- trainer.c ---- */
bool train_stopping(const Trainer *t);
/* Sets the learning rates and the EMA's decay for step number `step`. */
void train_rates(Trainer *t, int64_t step);

/* ---- trainer_save.c ---- */
Err  train_save_between(Trainer *t);         /* between steps */
Err  train_save_last(Trainer *t);            /* at the end of the run */
Err  train_save_failed(Trainer *t, Err err); /* after a failure between steps */
bool train_save_wanted(const Trainer *t);
bool train_save_due(const Trainer *t);

/* ---- trainer_log.c ---- */
void   train_log(Trainer *t, double loss, double ms, const double *validation);
void   train_show(const Trainer *t, double loss, const double *validation, bool last);
void   train_sampled(void *trainer, const char *path); /* a phase wrote this file */
double train_median(Trainer *t);                       /* of step times, ms */

#endif
