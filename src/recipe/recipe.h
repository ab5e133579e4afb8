/* recipe.h -- everything about a run in one file: system, sizes, optimizer, data, phases.
 *
 *   system: unet
 *   model: {width: 32}
 *   batch: 4
 *   optimizer: {lr: 1e-3}
 *
 * A recipe is found by name (recipes/NAME.yaml beside the program) or by path. Keys that are not
 * given have defaults. A wrong key or value is an error that names the line, the key and the
 * nearest valid key.
 */
#ifndef RECIPE_RECIPE_H
#define RECIPE_RECIPE_H

#include "autodiff/autodiff.h"
#include "models/model.h"
#include "profile/devices.h"

/* Every system (systems.c). */
extern const ModelDef *const models_all[];
extern const int             models_count;
const ModelDef              *model_find(const char *name); /* NULL if there is none */

typedef enum ScheduleKind {
    SCHEDULE_CONSTANT,
    SCHEDULE_COSINE,
    SCHEDULE_RESTARTS,
    SCHEDULE_PLATEAU
} ScheduleKind;
typedef enum PlateauWatch { WATCH_VALIDATION, WATCH_LOSS } PlateauWatch;
typedef enum EmaRule { EMA_NONE, EMA_CONSTANT, EMA_POWER, EMA_COPY_FIRST } EmaRule;
typedef enum Precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16, PRECISION_TF32 } Precision;

typedef struct OptimizerConfig {
    int    kind; /* Optimizer */
    double lr, slow_lr, beta1, beta2, eps, decay, slow_decay, clip;
} OptimizerConfig;

typedef struct ScheduleConfig {
    int     kind;      /* ScheduleKind */
    int64_t warmup;    /* steps of linear warm-up from 0 */
    int64_t steps;     /* COSINE: where it ends; 0: with the run */
    double  cycles;    /* COSINE: 0.5 or 1: one half wave from 1 to 0; n: n of them */
    int64_t period;    /* RESTARTS: steps of the first wave; PLATEAU: steps of one mean */
    int64_t growth;    /* RESTARTS: each wave is this many times longer than the last */
    double  floor_lr;  /* RESTARTS: rate at the end of a wave; PLATEAU: lowest rate */
    int     watch;     /* PLATEAU: PlateauWatch */
    double  factor;    /* PLATEAU: the rate is multiplied by this */
    double  threshold; /* PLATEAU: relative improvement that counts as better */
    int64_t patience;  /* PLATEAU: checks without improvement before the rate falls */
    int64_t cooldown;  /* PLATEAU: checks to ignore after it fell */
} ScheduleConfig;

typedef struct EmaConfig {
    int    rule; /* EmaRule */
    double decay, power;
} EmaConfig;

typedef enum DataExcerpt { EXCERPT_START, EXCERPT_ANY } DataExcerpt;
typedef enum DataScaling { SCALING_CHUNK, SCALING_NONE } DataScaling;

typedef struct DataConfig {
    const char *kind, *path;           /* see data/kinds.c; kind NULL: the model's inputs decide */
    int64_t     samples;               /* number of samples that a synthetic kind generates */
    double      range_low, range_high; /* range images, metres; both 0: taken from the data */
    bool        keep_rest;             /* audio: the rest of a file becomes a padded sample */
    double      holdout;               /* share of the samples kept for validation */
    const char *holdout_path;          /* a separate folder of samples for validation, or NULL */
    const char *pattern;               /* of the files that are read, or NULL: all */
    double      frame_rate;            /* video: frames a second; 0: the file's own */
    double      from, seconds;         /* video: the part of each file; seconds 0: to the end */
    int         excerpt;               /* DataExcerpt */
    int64_t     range_channel;         /* range images with several channels; -1: not said */
    const char *array;                 /* which array of an .npz file; NULL: the only one */
    int         scaling;               /* DataScaling */
    const char *texts;                 /* folder with embeddings of captions; NULL: beside these */
} DataConfig;

typedef struct EveryConfig { /* the sections validate, sample and save */
    int64_t every, keep, n, batches, batch;
    double  minutes; /* save: from one checkpoint to the next; 0: only by `every` */
    bool    best;    /* save: keep that of the lowest validation loss too */
} EveryConfig;

/* Limits of levers.sample_chunks and levers.loss_chunks, since each chunk has its own nodes: what a
 * plan file may ask for, and what the planner tries. */
enum { MAX_CHUNKS = 4096, OFFERED_CHUNKS = 256 };

/* Levels at which ranks divide state: the highest, and that of a run without a plan. */
enum { SHARD_MAX = 3, SHARD_DEFAULT = 1 };

/* Choices beyond the recipe file; { 0 }: every lever at its default. `fit` sets them (fit/fit.h)
 * and a plan file stores them. `release` and `host` are exact; the others may change rounding. */
typedef struct Levers {
    int64_t split;         /* each micro-batch of the recipe is divided into this many; 0: it
                                  * is not. batch and accumulate then describe the smaller ones */
    int64_t merge;         /* so many micro-batches of the recipe are run as one, of several ranks;
                                  * 0: each alone. Excludes split */
    int64_t sample_chunks; /* sequences of per-sample operators run in this many chunks; 0: whole */
    int64_t loss_chunks;   /* the loss and the rows before it run in this many chunks; 0: whole.
                                  * Excludes sample_chunks */
    int64_t max_workspace; /* algorithms that need more bytes are replaced by leaner ones; 0:
                                  * no limit */
    bool    stored_attention; /* attention stores its probabilities */
    bool    subpixel;         /* set by the device, not chosen: see Backend.subpixel */
    bool    release;          /* a parameter is updated as soon as its gradient is final */
    int     host;             /* HostState: what is host-resident */
    int64_t ranks;            /* of the run; 0: one process. It divides accumulate */
    int     shard;            /* level at which several ranks divide state (docs/dev/RANKS.md) */
    int64_t bucket;           /* bytes of gradients that ranks exchange together; 0: the default */
} Levers;

typedef struct Recipe {
    const char     *name, *path, *system;
    const ModelDef *model;
    void           *config; /* model->config_bytes, directly after this struct */
    int64_t         batch, accumulate, steps, seed;
    int             precision; /* Precision */
    OptimizerConfig optimizer;
    ScheduleConfig  schedule;
    EmaConfig       ema;
    DataConfig      data;
    SamplerConfig   sampler;
    EveryConfig     validate, sample, save;
    Levers          levers; /* not a key of the file */
} Recipe;

/* A validation as it is run: `batches` forward passes of `batch` samples each. A plan that splits
 * micro-batches splits these too, where they divide evenly. */
typedef struct Validation {
    int64_t batch, batches, split;
} Validation;

Validation recipe_validation(const Recipe *recipe);

extern const char *const recipe_precisions[]; /* by Precision, NULL at the end */
Type                     recipe_type(const Recipe *recipe);
bool    recipe_tf32(const Recipe *recipe); /* the device must be opened for it (DeviceOptions) */
/* E_USAGE if the device cannot compute in the recipe's precision. */
Err     recipe_suits(const Recipe *recipe, const Device *device);
/* A copy whose graph suits the kernels of this device. */
Recipe *recipe_for(Pool *pool, const Recipe *recipe, const Device *device);

/* Reads by name or path, then applies n `key=value` settings in order. */
bool recipe_is_model(const char *name); /* a model's file: .pt2, .mlir or .stablehlo */
Err  recipe_find(Pool *pool, const char *name_or_path); /* is there such a recipe or model? */
Err  recipe_read(Pool *pool, const char *name_or_path, const char *const *sets, int n,
                 Recipe **recipe);
Err  recipe_write(const Recipe *recipe, const char *path); /* every key, resolved */
/* The same as JSON, into an open object. */
void recipe_json(Pool *pool, const Recipe *recipe, JsonOut *out);

/* One key, as --set does it. The caller then runs model->check. */
Err     recipe_set(Pool *pool, Recipe *recipe, const char *assignment);
/* An integer key of the model: section, or `otherwise` if its system has no such key. */
int64_t recipe_number(const Recipe *recipe, const char *key, int64_t otherwise);
Recipe *recipe_copy(Pool *pool, const Recipe *recipe); /* to change; texts are shared */

/* Every key, for the reference that `plimsoll help recipe` prints. The table and the Recipe with
 * its defaults; the sections are FIELD_GROUPs, and `model` has the keys of this system. */
const Field *recipe_fields(Pool *pool, const ModelDef *model);
Recipe      *recipe_defaults(Pool *pool, const ModelDef *model);

/* Learning rates that fall when a loss stops falling (PyTorch's ReduceLROnPlateau, mode min,
 * relative threshold). Part of a run's state. */
typedef struct Plateau {
    bool    on;   /* the recipe uses this schedule */
    bool    seen; /* `best` is set */
    double  best;
    int64_t bad, cooldown; /* checks without improvement; checks still to be ignored */
    double  sum;           /* of the training losses since the last check */
    int64_t count;
    double  rates[2]; /* of each group of parameters, before any warm-up */
} Plateau;

Plateau plateau_start(const Recipe *recipe, const double *rates, int n);
/* Checks one loss against the best, and lowers the rates when patience runs out. */
void    plateau_look(Plateau *plateau, const ScheduleConfig *schedule, double loss);
/* Adds the training loss of one step; checks the mean of every `period` steps. */
void    plateau_step(Plateau *plateau, const ScheduleConfig *schedule, double loss);

/* What the host writes before step `step`, counted from 0. */
double  schedule_factor(const Recipe *recipe, int64_t step); /* multiplies every group's rate */
/* The step at which the rate reaches its end, or 0 for a schedule without an end. */
int64_t schedule_end(const Recipe *recipe);
double  ema_decay(const Recipe *recipe, int64_t step);

/* A graph with loss, backward pass and update. */
typedef struct TrainingGraph {
    Graph     *graph;
    TrainGraph train;
    ParamGroup groups[2];
    int        n_groups;
    int32_t    chunked; /* nodes that run in chunks (levers.sample_chunks, loss_chunks) */
    int32_t    fused;   /* nodes that were joined with others (rewrite/fuse.h) */
} TrainingGraph;

int64_t     recipe_rounds(const Recipe *recipe); /* micro-batches of a step that one rank runs */
/* E_USAGE, with a --set that works, if so many ranks cannot run the recipe. */
Err         recipe_check_ranks(const Recipe *recipe, int64_t ranks);
const char *recipe_no_release(const Recipe *recipe); /* why levers.release is impossible, or NULL */
const char *recipe_no_split(const Recipe *recipe); /* why micro-batches must stay whole, or NULL */
/* Is the loss of several micro-batches together the mean of theirs? Not if each counts what it
 * ignores. */
Err         recipe_merges(const Recipe *recipe, bool *merges);
/* The largest number of equal sample chunks to try: single samples, up to OFFERED_CHUNKS. */
int64_t     recipe_max_chunks(const Recipe *recipe);
Err         recipe_graph(Pool *pool, const Recipe *recipe, bool given_noise, TrainingGraph *out);

#endif
