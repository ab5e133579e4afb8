/* explained.h -- what is known about a training step before it runs.
 *
 * explained_new describes everything kept, with all levers at their defaults.
 * report/explain_pages.h shows an Explained as text, JSON, Markdown and HTML. */
#ifndef FIT_EXPLAINED_H
#define FIT_EXPLAINED_H

#include "fit/avoided.h"
#include "fit/fit.h"
#include "fit/sheet.h"

typedef struct BatchItem { /* a tensor that the data gives for one micro-batch */
    const char *name;
    Type        type;
    Shape       shape;
    int64_t     bytes;
    const char *view_of; /* the tensor whose bytes it shares, or NULL */
    bool        read;    /* by the step */
} BatchItem;

typedef struct Bottleneck {  /* bytes at the peak that one remedy would remove together */
    const char *what;        /* "ema", or "activations (10,64,2048,128) f32" */
    const char *where;       /* the module that holds them all */
    int64_t     bytes, each; /* each: bytes of one tensor, 0 where sizes differ */
    int32_t     n;           /* tensors */
} Bottleneck;

typedef struct Numeric { /* a choice that decides rounding */
    const char *what, *choice;
    int32_t     nodes; /* how many it concerns; 0: all */
} Numeric;

typedef struct WhatIf WhatIf; /* fit/whatif.h */
typedef struct Belief Belief;

typedef enum Verdict { VERDICT_FITS, VERDICT_REPLANNED, VERDICT_NO, VERDICT_UNKNOWN } Verdict;

typedef struct Budget {
    int64_t asked_bytes;       /* as the driver counts: the runtime included */
    int64_t arena_bytes;       /* what remains for the arena */
    Verdict verdict;           /* everything kept fits; a plan fits; none was found; no search */
    int64_t largest_batch;     /* with everything kept; 0: none, -1: not searched for */
    int64_t largest_replanned; /* with recomputation, at least this; -1: not searched for */
} Budget;

typedef struct PhaseRow { /* a phase by its public name */
    const char *name;
    int64_t     peak_bytes;           /* the highest byte of the arena that its runs use */
    int64_t     live_bytes;           /* at its own peak step; the rest of peak_bytes is gaps */
    int64_t     classes[CLASS_COUNT]; /* live_bytes by class */
    int32_t     steps;                /* nodes that it runs */
    int64_t     repeat;               /* runs in one training step, or in one validation */
    int64_t     every;                /* training steps from one to the next; 0: only at the end */
} PhaseRow;

typedef struct RankRow { /* one rank of several, everything kept, at one level of division */
    int          shard;
    int64_t      peak_bytes;
    int64_t      state_bytes[CLASS_COUNT]; /* persistent, by class */
    double       step_ms;                  /* predicted, as shown */
    EngineMoving moving;                   /* in a step */
} RankRow;

typedef struct Explained {
    const Recipe *recipe;
    const Device *device;
    Sheet        *sheet;
    Avoided      *avoided;
    BatchItem    *batch;
    Bottleneck   *bottlenecks; /* largest first */
    RankRow      *rank_rows;   /* of several ranks: each level, from 0 */
    int           n_rank_rows;
    Numeric      *numeric;
    PhaseRow     *phases;
    Budget       *budgets; /* of common GPUs, then the one asked for */
    WhatIf       *what_if; /* filled by whatif_run */
    Belief       *beliefs; /* filled by whatif_run */
    FitResult    *fit;     /* a plan within the budget, or of a plan file; NULL: not asked for */
    FitPoint     *curve;   /* budget against time; filled by whatif_run */
    int           n_curve;
    Sheet        *fit_sheet; /* balance sheet and phases of `fit` */
    PhaseRow     *fit_phases;
    int32_t       n_fit_phases;
    int32_t n_avoided, n_batch, n_bottlenecks, n_numeric, n_phases, n_budgets, n_what_if, n_beliefs;
    const char **notes; /* sentences about a model of the user's own */
    int32_t      n_notes;
    int64_t      batch_bytes;
    int64_t      budget_bytes;        /* 0: none was asked for */
    int64_t      minimum_bytes;       /* the smallest arena that a search found; 0: no search */
    int64_t      whole_minimum_bytes; /* the same with the recipe's micro-batches */
    int          whole_host;          /* what is host-resident then (Levers.host) */
    const char  *minimum_how;         /* the changes it takes, in words */
    double       step_ms;             /* predicted */
    int64_t      runtime_bytes;       /* outside the arena */
} Explained;

typedef struct ExplainOptions {
    int64_t budget_bytes;
    int64_t effort;       /* of the search for the minimum; 0: a short one, -1: none */
    double  time_limit_s; /* of that search; 0: none */
    bool    no_split;     /* micro-batches may not be split */
    bool    batches;      /* find the largest batch that fits each budget */
} ExplainOptions;

/* Effort of a search for the minimum that takes about a second; fit searches longer. */
enum { EXPLAIN_EFFORT = 1000 };

extern const char *const verdict_words[]; /* fits, replanned, no, unknown */
/* fit/budgets.c: lists the budgets, each with the largest batch with everything kept; sets the
 * verdicts again after minimum_bytes has changed; finds the largest batch that fits re-planned. */
void                     budgets_find(Pool *pool, Explained *e, bool batches);
void                     budgets_update(Explained *e);
void                     budgets_replan(Explained *e, double time_limit_s);
/* fit/phase_rows.c */
void phases_find(Pool *pool, const Recipe *recipe, const Engine *engine, PhaseRow **list,
                 int32_t *n);
/* fit/rank_rows.c: none for one rank */
Err  rank_rows_find(Pool *pool, const Recipe *recipe, const Device *device, RankRow **list, int *n);
RankRow rank_row(const Engine *engine, const Recipe *recipe);
/* fit/bottlenecks.c */
void    bottlenecks_find(Pool *pool, const Sheet *sheet, Bottleneck **list, int32_t *n);

/* explained_sheet makes the balance sheet of everything kept, without a search. explained_minimum
 * searches for the minimum and decides which budgets fit. explained_new does both. */
Err explained_sheet(Pool *pool, const Recipe *recipe, const Device *device,
                    const ExplainOptions *options, Explained **out);
Err explained_minimum(Pool *pool, Explained *e, const ExplainOptions *options);
Err explained_new(Pool *pool, const Recipe *recipe, const Device *device,
                  const ExplainOptions *options, Explained **out);

/* After e->fit was filled: makes its sheet, and lowers the minimum if that search found less. */
Err explained_plan(Pool *pool, Explained *e);

/* The node that reads the buffer last; NULL: it is persistent. */
const char *live_until(const Sheet *sheet, const LiveBuffer *buffer);
const char *live_name(const Sheet *sheet, const LiveBuffer *buffer);

#endif
