/* fit.h -- finds the fastest training step of a recipe within a budget: levers, graph and plan.
 *
 * Numeric levers decide which graph is built and which algorithms run it. The planner then decides
 * what is recomputed, in which order nodes run and where buffers lie. fit_run tries the candidates
 * that are allowed, cheapest first, and stops when no other can be faster than the best so far. The
 * effective batch (batch x accumulate) and the loss stay those of the recipe.
 *
 * To plan under given levers (a what-if row), copy the recipe, change it (precision, ema.rule,
 * levers; recipe_split for smaller micro-batches) and call fit_plan. */
#ifndef FIT_FIT_H
#define FIT_FIT_H

#include "plan/engine.h"
#include "recipe/recipe.h"

/*        name                   word               what it may change */
#define ALLOW_LIST(X)                                                                              \
    X(ALLOW_ALGORITHM, "algorithm", "products with less workspace, attention stored or streamed")  \
    X(ALLOW_CHUNK, "chunk", "the loss and the rows before it in chunks")                           \
    X(ALLOW_SPLIT, "split", "smaller micro-batches, or per-sample operators in chunks of samples") \
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
        ALLOW_NONE = 0,
    ALLOW_DEFAULT = ALLOW_ALGORITHM | ALLOW_CHUNK | ALLOW_SPLIT,
};

extern const char *const allow_words[];            /* by AllowBit, NULL at the end */
Err allow_read(const char *text, unsigned *allow); /* "none", or words separated by commas */

typedef struct FitPoint FitPoint; /* below */

typedef struct FitOptions {
    int64_t  budget_bytes; /* of the arena; 0: keep everything */
    unsigned allow;        /* ALLOW_... */
    int64_t  effort;       /* search moves for one candidate, see fit_share; 0: the default */
    double   time_limit_s; /* for all candidates together; 0: none */
    uint64_t seed;
    bool     given_noise;
    bool     shard_auto; /* of several ranks: the level of division and the size of buckets are
                                  * chosen too */
    void (*progress)(void *arg, double done, const char *text);
    void *progress_arg;
    /* fit_curve: called with each point that none before it beats in both, as it is found */
    void (*point)(void *arg, const FitPoint *point);
    void *point_arg;
    /* fit_run: called with the first plan that fits, and with each faster one, as they are found;
     * the time is scaled to this machine (engine_pace) */
    void (*found)(void *arg, int64_t arena_bytes, double step_ns);
    void *found_arg;
} FitOptions;

typedef struct FitChange { /* one lever that differs from the recipe */
    const char *what, *from, *to;
    bool        exact;
} FitChange;

typedef struct FitResult {
    bool          fits;
    const Recipe *recipe; /* as it will be run: batch, accumulate, precision, levers */
    TrainingGraph graph;
    Engine       *engine; /* the plan; where nothing fits, the one with the smallest arena */
    FitChange     changes[14];
    int           n_changes;
    const char   *notes[8]; /* sentences: what could not be used and why */
    int           n_notes;
    double        step_ns;    /* predicted time of a step, as train and explain predict it */
    double        default_ns; /* the same, with everything kept and every lever at its default */
    int64_t       default_bytes;
    int64_t       minimum_bytes; /* the smallest arena found; set only where nothing fits */
    int64_t       bound_bytes;   /* no plan with what is allowed needs less; 0: not known */
    bool          cut;           /* the time limit, or ^C (base/stop.h), ended the search */
} FitResult;

/* The fastest plan within the budget. E_BUDGET if none was found: the result is filled all the
 * same, and asking for minimum_bytes then works. */
Err fit_run(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
            FitResult *result);

/* Plans the recipe with exactly its levers; options->allow is ignored. If the host has no room for
 * host-resident state, the answer is E_BUDGET and result->engine is NULL. */
Err fit_plan(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
             FitResult *result);

/* Divides every micro-batch of a copied recipe into `split` equal ones. E_USAGE if that is not
 * possible. */
Err recipe_split(Recipe *recipe, int64_t split);
/* Runs so many micro-batches of a copied recipe as one. E_USAGE if that is not possible. */
Err recipe_merge(Recipe *recipe, int64_t merge);

/* Arena against time, from the fastest plan on: peaks fall and times rise. Every point's plan was
 * placed. `known` (or NULL) is a plan that was found before: no point is worse than it in both. */
struct FitPoint {
    int64_t peak_bytes;
    double  sum_ns;     /* sum of the nodes' times, by which points are compared */
    double  step_ns;    /* predicted time of a step */
    int32_t recomputed; /* nodes */
    int32_t offloaded;  /* values copied to the host and back */
    int64_t batch, accumulate;
    int     precision;
    Levers  levers;
};

Err fit_curve(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
              const FitResult *known, FitPoint **points, int *n_points);

/* "If you also allow X": one row for each lever that options->allow does not name. */
typedef struct FitOffer {
    AllowBit  allow;
    bool      possible; /* something would change */
    FitResult result;   /* planned again with it */
} FitOffer;

Err fit_offers(Pool *pool, const Recipe *recipe, const Device *device, const FitOptions *options,
               FitOffer *offers, int *n_offers);

/* plan.json of a training step. Reading gives the same steps and offsets, verified by both checkers
 * again. A plan for another graph, library, device or number of threads is refused (E_PLAN). */
void    fit_write_changes(JsonOut *o, const FitResult *result); /* members `numeric` and `exact` */
Err     fit_write(const char *path, const Recipe *asked, const FitResult *result);
Err     fit_read(Pool *pool, const char *path, const Recipe *recipe, const Device *device,
                 bool given_noise, FitResult *result);
/* The number of threads that a plan file for the CPU was made for; 0: not known. */
int64_t fit_threads(Pool *pool, const char *path);
Err     fit_text(Text *to, const Recipe *asked, const FitResult *result); /* the same text */
/* The number of ranks that a plan file was made for. */
int64_t fit_ranks(Pool *pool, const char *path);
/* Plans again for the recipe's ranks, with the numeric levers and the budget of that plan: the same
 * bits. */
Err     fit_again(Pool *pool, const char *path, const Recipe *recipe, const Device *device,
                  bool given_noise, FitResult *result);
Err     fit_from_json(Pool *pool, const Json *root, const Recipe *recipe, const Device *device,
                      bool given_noise, FitResult *result);

#endif
