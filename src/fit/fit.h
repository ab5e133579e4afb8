/* fit.h -- the fastest way to do a recipe's step within a budget: levers, graph and plan together.
 *
 * Numeric levers decide which graph is built and which algorithms run it; the planner then decides
 * what is recomputed, in which order and where. fit_run tries every combination of what is allowed,
 * cheapest first, and stops when no other can be faster than what it has. The effective batch
 * (batch x accumulate) and the loss stay exactly those of the recipe.
 *
 * To plan under given levers (a what-if row), copy the recipe, change what the row changes
 * (precision, ema.rule, levers; recipe_split for smaller micro-batches) and call fit_plan. */
#ifndef FIT_FIT_H
#define FIT_FIT_H

#include "plan/engine.h"
#include "recipe/recipe.h"

/*        name                   word               what it may change */
#define ALLOW_LIST(X)                                                                              \
    X(ALLOW_ALGORITHM, "algorithm", "products with less workspace, attention stored or streamed")    \
    X(ALLOW_CHUNK, "chunk", "the loss and the rows before it in chunks")                           \
    X(ALLOW_SPLIT, "split", "smaller micro-batches, or sections sample by sample")                  \
    X(ALLOW_PRECISION, "precision", "bf16 where the recipe says fp32")                             \
    X(ALLOW_BATCHNORM_SPLIT, "batchnorm-split", "split although batch norm then sees fewer samples")

typedef enum AllowBit {
#define X(name, word, text) name##_BIT,
    ALLOW_LIST(X)
#undef X
    ALLOW_COUNT
} AllowBit;

enum {
#define X(name, word, text) name = 1 << name##_BIT,
    ALLOW_LIST(X)
#undef X
    ALLOW_NONE = 0, ALLOW_DEFAULT = ALLOW_ALGORITHM | ALLOW_CHUNK | ALLOW_SPLIT,
};

extern const char *const allow_words[];              /* by AllowBit, NULL at the end */
Err allow_read(const char *text, unsigned *allow);   /* "none" or words with commas between */

typedef struct FitOptions {
    int64_t  budget_bytes;       /* of the arena; 0: keep everything */
    unsigned allow;              /* ALLOW_... */
    int64_t  effort;             /* of the planner, all candidates together; 0: the default */
    double   time_limit_s;       /* of all candidates together; 0: none */
    uint64_t seed;
    bool     given_noise;
    void   (*progress)(void *arg, double done, const char *text);
    void    *progress_arg;
} FitOptions;

typedef struct FitChange {       /* one lever that is not where the recipe has it */
    const char *what, *from, *to;
    bool        exact;
} FitChange;

typedef struct FitResult {
    bool          fits;
    const Recipe *recipe;        /* as it will be run: batch, accumulate, precision, levers */
    TrainingGraph graph;
    Engine       *engine;        /* the plan; where nothing fits, the one of least arena */
    FitChange     changes[12];
    int           n_changes;
    const char   *notes[8];      /* whole sentences: what could not be used and why */
    int           n_notes;
    /* forecasts, as train and explain have them; of everything kept with every lever at its
     * default */
    double        step_ns, default_ns;
    int64_t       default_bytes;
    /* least arena found with what is allowed; only where nothing fits */
    int64_t       minimum_bytes;
    int64_t       bound_bytes;   /* no plan with what is allowed can do with less; 0: not known */
    bool          cut;           /* the time limit ended the search */
} FitResult;

/* The fastest plan within the budget. E_BUDGET where none was found: the result is filled all the
 * same, and asking for minimum_bytes then works. */
Err fit_run(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
            FitResult *result);

/* This recipe with these levers and no others (allow is not looked at). Where the host has no room
 * for the state that is to be there, result->engine is NULL. */
Err fit_plan(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
             FitResult *result);

/* Cuts every micro-batch of a copied recipe into so many pieces. E_USAGE if they are not equal. */
Err recipe_split(Recipe *recipe, int64_t pieces);

/* Arena against time: points of falling peak and rising sums, from the fastest plan on.
 * Every point's plan was placed. `known` (or NULL) is a plan that was found before: no point is
 * worse than it in both. */
typedef struct FitPoint {
    int64_t peak_bytes;
    double  sum_ns, step_ns;     /* of its nodes' times, by which points are compared; forecast */
    int32_t recomputed, moved;   /* nodes run again; values copied to the host and back */
    int64_t batch, accumulate;
    int     precision;
    Levers  levers;
} FitPoint;

Err fit_curve(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
              const FitResult *known, FitPoint **points, int *n_points);

/* "If you also allow X": one row for each lever that options->allow leaves out. */
typedef struct FitOffer {
    AllowBit  allow;
    bool      possible;          /* something would change */
    FitResult result;            /* re-planned with it */
} FitOffer;

Err fit_offers(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
               FitOffer *offers, int *n_offers);

/* plan.json of a fitted step, and back: the same steps and places, judged by both checkers again. A
 * plan for another graph, library, device or thread count is refused (E_PLAN, exit 1). */
void fit_write_changes(JsonOut *o, const FitResult *result);     /* members `numeric` and `exact` */
Err fit_write(const char *path, const Recipe *asked, const FitResult *result);
Err fit_read(Pool *pool, const char *path, const Recipe *recipe, const Device *device,
             bool given_noise, FitResult *result);
/* that the CPU's plan is for; 0: cannot be told */
int64_t fit_threads(Pool *pool, const char *path);
Err fit_from_json(Pool *pool, const Json *root, const Recipe *recipe, const Device *device,
                  bool given_noise, FitResult *result);

#endif
