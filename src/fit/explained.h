/* explained.h -- what is known of a training step before it runs, for people and for programs.
 *
 * explained_new describes keep-everything, all levers at their defaults. The pages read one
 * Explained: text on a terminal, JSON for programs, Markdown and HTML for people. */
#ifndef FIT_EXPLAINED_H
#define FIT_EXPLAINED_H

#include "base/json_out.h"
#include "fit/avoided.h"
#include "fit/sheet.h"
#include "fit/fit.h"

#include <stdio.h>

typedef struct BatchItem {       /* what the data gives for one micro-batch */
    const char *name;
    Type        type;
    Shape       shape;
    int64_t     bytes;
    const char *view_of;         /* NULL: bytes of its own */
    bool        read;            /* by the step */
} BatchItem;

typedef struct Bottleneck {      /* bytes at the peak that one remedy would move together */
    const char *what;            /* "ema", or "activations (10,64,2048,128) f32" */
    const char *where;           /* the module that holds them all */
    int64_t     bytes, each;     /* each: of one tensor, 0 where sizes differ */
    int32_t     n;
} Bottleneck;

typedef struct Numeric {         /* a choice that decides rounding */
    const char *what, *choice;
    int32_t     nodes;           /* that it concerns; 0: all */
} Numeric;

typedef struct WhatIf WhatIf;    /* fit/whatif.h */
typedef struct Belief Belief;

typedef enum Verdict { VERDICT_FITS, VERDICT_REPLANNED, VERDICT_NO, VERDICT_UNKNOWN } Verdict;

typedef struct Budget {
    int64_t asked_bytes;         /* as the driver counts: the runtime included */
    int64_t arena_bytes;         /* what is left of it for the arena */
    Verdict verdict;     /* with everything kept; re-planned; none was found; none was looked for */
    int64_t largest_batch;       /* with everything kept; 0: none, -1: not looked for */
    int64_t largest_replanned;   /* with recomputation; at least this, -1: not looked for */
} Budget;

typedef struct PhaseRow {           /* by the contract's names */
    const char *name;
    int64_t     peak_bytes;      /* the highest byte its runs are given */
    int64_t     live_bytes;      /* at its own peak instant; the rest of peak_bytes is gaps */
    int64_t     classes[CLASS_COUNT];    /* of live_bytes */
    int32_t     steps;
    int64_t     repeat;  /* runs in one training step; of a phase between steps: in one go */
    int64_t     every;           /* steps from one to the next; 0: only at the end */
} PhaseRow;

typedef struct Explained {
    const Recipe *recipe;
    const Device *device;
    Sheet        *sheet;
    Avoided      *avoided;
    BatchItem    *batch;
    Bottleneck   *bottlenecks;   /* largest first */
    Numeric      *numeric;
    PhaseRow        *phases;
    Budget       *budgets;       /* of common GPUs, then the one asked for */
    WhatIf       *what_if;       /* filled by whatif_run */
    Belief       *beliefs;
    FitResult    *fit; /* the plan within the budget, or of a plan file; NULL: none was asked for */
    FitPoint     *curve;         /* budget against time; filled by whatif_run */
    int           n_curve;
    Sheet        *fit_sheet;     /* its balance sheet and phases */
    PhaseRow        *fit_phases;
    int32_t       n_fit_phases;
    int32_t n_avoided, n_batch, n_bottlenecks, n_numeric, n_phases, n_budgets, n_what_if, n_beliefs;
    int64_t       batch_bytes;
    int64_t       budget_bytes;  /* 0: none was asked for */
    int64_t       minimum_bytes; /* least arena found by a search of `effort`; 0: none was made */
    int64_t       whole_minimum_bytes;   /* with micro-batches as the recipe has them */
    int           whole_host;    /* what of the state is on the host then (Levers.host) */
    const char   *minimum_how;   /* what it takes */
    double        step_ms;       /* predicted */
    int64_t       runtime_bytes; /* outside the arena */
} Explained;

typedef struct ExplainOptions {
    int64_t budget_bytes;
    int64_t effort;              /* of the search for the least budget; 0: a short one, -1: none */
    double  time_limit_s;        /* of that search; 0: none */
    bool    no_split;            /* micro-batches may not be cut */
    bool    batches;             /* look for the largest batch that fits each budget */
} ExplainOptions;

/* Of a search for the least arena: within a second; fit searches longer. */
enum { EXPLAIN_EFFORT = 1000 };

extern const char *const verdict_words[];        /* fits, replanned, no, unknown */
/* fit/budgets.c: the list, with the largest batch of everything kept for each; verdicts
 * anew after minimum_bytes has changed; the largest batch that fits re-planned. */
void budgets_find(Pool *pool, Explained *e, bool batches);
void budgets_update(Explained *e);
void budgets_replan(Explained *e, double time_limit_s);
/* fit/phase_rows.c */
void phases_find(Pool *pool, const Recipe *recipe, const Engine *engine, PhaseRow **list, int32_t *n);
/* fit/bottlenecks.c */
void bottlenecks_find(Pool *pool, const Sheet *sheet, Bottleneck **list, int32_t *n);

/* The sheet of everything kept, which nothing is searched for; then the least budget and which
 * budgets will do. */
Err explained_sheet(Pool *pool, const Recipe *recipe, const Device *device,
                    const ExplainOptions *options, Explained **out);
Err explained_minimum(Pool *pool, Explained *e, const ExplainOptions *options);
Err explained_new(Pool *pool, const Recipe *recipe, const Device *device,
                  const ExplainOptions *options, Explained **out);          /* both */

/* After e->fit was filled: its own sheet; where that search found less, it is the least known. */
Err explained_plan(Pool *pool, Explained *e);

/* Tables of at most 100 columns: the sheet, and what was searched for. */
void explain_text_sheet(FILE *to, const Explained *e, bool colour);
void explain_text_rest(FILE *to, const Explained *e, bool colour);
Err  explain_json(FILE *to, const Explained *e);                 /* docs/FORMATS.md */

/* Everything but tensors and timeline, into an open object. */
void explain_json_members(JsonOut *o, const Explained *e);
Err  explain_md(Text *to, const Explained *e);  /* a report to keep beside the code */
Err  explain_html(const char *path, const Explained *e);         /* one file that opens offline */

/* "read last by ...": the node after which the buffer may go; NULL: it stays for good. */
const char *live_until(const Sheet *sheet, const LiveBuffer *buffer);
const char *live_name(const Sheet *sheet, const LiveBuffer *buffer);

#endif
