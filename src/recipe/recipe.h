/* recipe.h -- everything a run is, as one file: system, sizes, optimizer, data, phases.
 *
 *   system: unet
 *   model: {width: 32}
 *   batch: 4
 *   optimizer: {lr: 1e-3}
 *
 * A recipe is found by name (recipes/NAME.yaml beside the program) or by path. Keys not given have
 * defaults; wrong ones are errors naming line, key and the nearest valid one.
 */
#ifndef RECIPE_RECIPE_H
#define RECIPE_RECIPE_H

#include "autodiff/autodiff.h"
#include "models/model.h"
#include "profile/devices.h"

typedef enum ScheduleKind {
    SCHEDULE_CONSTANT,
    SCHEDULE_COSINE,
    SCHEDULE_RESTARTS,
    SCHEDULE_PLATEAU
} ScheduleKind;
typedef enum PlateauWatch { WATCH_VALIDATION, WATCH_LOSS } PlateauWatch;
typedef enum EmaRule { EMA_NONE, EMA_CONSTANT, EMA_POWER, EMA_COPY_FIRST } EmaRule;

typedef struct OptimizerConfig {
    int    kind;                 /* Optimizer */
    double lr, slow_lr, beta1, beta2, eps, decay, slow_decay, clip;
} OptimizerConfig;

typedef struct ScheduleConfig {
    int     kind;                /* ScheduleKind */
    int64_t warmup;              /* steps of linear warm-up from 0 */
    double  cycles;              /* COSINE: half waves are restarted this many times */
    /* RESTARTS: steps of the first wave, factor of the next; PLATEAU: steps of one mean */
    int64_t period, growth;
    double  floor_lr;            /* RESTARTS: rate at the end of a wave; PLATEAU: least rate */
    int     watch;               /* PLATEAU: PlateauWatch */
    /* PLATEAU: of the rate; what counts as better, relative to the best */
    double  factor, threshold;
    /* PLATEAU: looks without a better one; looks after a cut that do not count */
    int64_t patience, cooldown;
} ScheduleConfig;

typedef struct EmaConfig {
    int    rule;                 /* EmaRule */
    double decay, power;
} EmaConfig;

typedef struct DataConfig {
    const char *kind, *path;     /* data/kinds.c; kind NULL: what serves the model's inputs */
    int64_t     samples;         /* synthetic kinds: how many */
    double      range_low, range_high;   /* range images, metres; both 0: of the data itself */
    bool        keep_rest;       /* sound: the rest of a file is a padded sample */
    double      holdout;         /* this share of the samples is not trained on */
    const char *holdout_path;    /* samples for validation, apart from `path`; or NULL */
} DataConfig;

typedef struct EveryConfig {
    int64_t every, keep, n, batches, batch;
} EveryConfig;

/* Lots of levers.sample_chunks and levers.loss_chunks, each with nodes of its own: the most that a plan file
 * may ask for, and the most that are offered. */
enum { MAX_CHUNKS = 4096, OFFERED_CHUNKS = 256 };

/* How the step is done, beyond what a recipe file says; { 0 }: every lever at its default. `fit`
 * moves them (fit/fit.h), a plan file keeps them. `release` and `host` are exact; the others may
 * change rounding. */
typedef struct Levers {
    int64_t split;              /* the recipe's micro-batches are cut into so many; 0: whole. batch
                                  * and accumulate then are those of the pieces */
    int64_t sample_chunks;             /* runs of per-sample operators are done in so many chunks; 0: at
                                  * once */
    int64_t loss_chunks;              /* the rows before the loss are done in so many chunks; 0: at once.
                                  * Not with regions */
    int64_t max_workspace;        /* an algorithm with more workspace bytes gives way to a leaner one;
                                  * 0: any */
    bool    stored_attention;    /* attention keeps its probabilities */
    bool    subpixel;              /* of the device, not chosen: see Backend.phases */
    bool    release;             /* a parameter moves as soon as its gradient is final */
    int     host;                /* HostState: what is kept on the host */
} Levers;

typedef struct Recipe {
    const char     *name, *path, *system;
    const ModelDef *model;
    void           *config;      /* model->config_bytes, right behind this struct */
    int64_t         batch, accumulate, steps, seed;
    int             precision;   /* index into recipe_precisions */
    OptimizerConfig optimizer;
    ScheduleConfig  schedule;
    EmaConfig       ema;
    DataConfig      data;
    SamplerConfig   sampler;
    EveryConfig     validate, sample, save;
    Levers          levers;      /* not a key of the file */
} Recipe;

/* A validation as it is run: so many forward passes of so many samples each. A plan that cuts
 * micro-batches cuts these too, where they divide. */
typedef struct Validation {
    int64_t batch, batches, split;
} Validation;

Validation recipe_validation(const Recipe *recipe);

extern const char *const recipe_precisions[];        /* fp32, bf16, fp16, tf32 */
Type recipe_type(const Recipe *recipe);
bool recipe_tf32(const Recipe *recipe);  /* the device must be opened so (DeviceOptions) */
/* can this device compute in its precision? */
Err  recipe_suits(const Recipe *recipe, const Device *device);
/* A copy whose graph is built for the device's own kernels. */
Recipe *recipe_for(Pool *pool, const Recipe *recipe, const Device *device);

/* Reads by name or path, then applies n `key=value` settings in order. */
Err recipe_read(Pool *pool, const char *name_or_path, const char *const *sets, int n,
                Recipe **recipe);
Err  recipe_write(const Recipe *recipe, const char *path);   /* every key, resolved */
/* the same, members of an open object */
void recipe_json(Pool *pool, const Recipe *recipe, JsonOut *out);

/* as --set; model->check is the caller's */
Err  recipe_set(Pool *pool, Recipe *recipe, const char *assignment);
/* a whole number of the model: section, where its system has that key */
int64_t recipe_number(const Recipe *recipe, const char *key, int64_t otherwise);
Recipe *recipe_copy(Pool *pool, const Recipe *recipe);       /* to change; texts are shared */

/* Rates that fall when a loss no longer does (PyTorch's ReduceLROnPlateau, mode min, threshold
 * relative): part of a run's state. */
typedef struct Plateau {
    bool    on;                  /* the recipe's schedule is this one */
    bool    seen;                /* there is a best */
    double  best;
    int64_t bad, cooldown;
    double  sum;                 /* of the training losses since the last look */
    int64_t count;
    double  rates[2];            /* of each group of parameters, before any warm-up */
} Plateau;

Plateau plateau_start(const Recipe *recipe, const double *rates, int n);
void plateau_look(Plateau *plateau, const ScheduleConfig *schedule, double loss);
/* a step's training loss */
void plateau_step(Plateau *plateau, const ScheduleConfig *schedule, double loss);

/* What the host writes before step `step` (0, 1, ...) of `steps`. */
double schedule_factor(const Recipe *recipe, int64_t step);  /* multiplies every group's rate */
double ema_decay(const Recipe *recipe, int64_t step);

/* Graph with loss, backward and update. */
typedef struct TrainingGraph {
    Graph     *graph;
    TrainGraph train;
    ParamGroup groups[2];
    int        n_groups;
    int32_t    chunked;          /* nodes that run in chunks (levers.sample_chunks, loss_chunks) */
} TrainingGraph;

const char *recipe_no_release(const Recipe *recipe);     /* NULL, or why levers.release cannot be */
const char *recipe_no_split(const Recipe *recipe);  /* NULL, or why micro-batches must stay whole */
/* The most equal chunks that regions are offered in: single samples, up to OFFERED_CHUNKS. */
int64_t     recipe_max_chunks(const Recipe *recipe);
Err recipe_graph(Pool *pool, const Recipe *recipe, bool given_noise, TrainingGraph *out);

#endif
