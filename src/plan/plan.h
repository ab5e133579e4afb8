/* plan.h -- a plan is a program: a list of steps with three readers (simulate, check, run).
 *
 * A recompute is simply a second RUN. Solvers make plans, plan_simulate meters them, plan_check
 * judges them (sharing no code with either), exec/ carries them out.
 *
 * Two spaces: the device and the host. `save` starts a copy of a live value to its host slot, which
 * it takes; `load` makes the device bytes live again at once, readable after `wait`; a value has at
 * most one copy pending. Copies of one direction run in order, each for bytes / bandwidth; a `wait`
 * costs what is left of its copy. A loaded value is a buffer of its own size.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "plan/pgraph.h"

/*       name         word in plan.json   meaning */
#define STEP_LIST(X)                                                              \
    X(STEP_RUN,       "run",       "run a node, the first time or again")         \
    X(STEP_DROP,      "drop",      "free a value's device bytes")                 \
    X(STEP_SAVE,      "save",      "start copying a value to its host slot")      \
    X(STEP_LOAD,      "load",      "start copying it back")                       \
    X(STEP_WAIT,      "wait",      "complete the value's pending copy")           \
    X(STEP_FREE_HOST, "free_host", "free the value's host slot")

typedef enum StepKind {
#define X(name, word, text) name,
    STEP_LIST(X)
#undef X
    STEP_KINDS
} StepKind;

typedef struct Step {
    StepKind kind;
    int32_t  id;             /* node of a run, value of all others */
} Step;

typedef struct Plan {
    Step    *steps;
    int32_t  n_steps, cap;
    int64_t  budget_bytes;   /* what was asked for, 0: none */
    int64_t  live_bytes;     /* largest live sum */
    int64_t  arena_bytes;    /* after layout, or 0 if none was made */
    int64_t  host_budget_bytes;  /* 0: none */
    int64_t  host_bytes;     /* largest sum of host slots */
    double   cost, base_cost;/* of all runs and waits; of running every node once */
    int64_t  bound_bytes;    /* structural lower bound: no plan can do with less */
    bool     cut;            /* a time limit ended the search */
} Plan;

/* What a replay of the steps sees. Filled by plan_simulate, the only place where bytes are
 * metered. */
typedef struct PlanMeter {
    int64_t  live_bytes;     /* largest live sum, workspace included */
    int32_t  peak_step;      /* the first step that reaches it */
    double   cost;           /* runs and waits */
    double   waited;         /* of it, for copies that were not hidden */
    int64_t  host_bytes;     /* largest sum of host slots */
    int32_t  n_runs, n_recomputes;
    int64_t *curve;          /* live bytes at every step (n_steps), if a pool was given */
} PlanMeter;

void plan_add(Pool *pool, Plan *plan, StepKind kind, int32_t id);
Err  plan_keep_all(Pool *pool, const PGraph *graph, Plan **plan);   /* every node once, in order */
Err  plan_from_runs(Pool *pool, const PGraph *graph, const int32_t *runs, int32_t n_runs,
                    Plan **plan);
enum { OFFLOAD_MARGINS = 3 };
/* What one list of runs was found unable to go below, so that it is not looked for again. */
typedef struct OffloadMinimum { int64_t bytes[OFFLOAD_MARGINS]; } OffloadMinimum;
/* The runs within the budget by copying idle values to the host and back, where that is possible at
 * all; *plan is NULL where it is not. `least`, or NULL, is kept from call to call for one list. */
Err  plan_offload(Pool *pool, const PGraph *graph, const int32_t *runs, int32_t n_runs,
                  int64_t budget_bytes, int64_t host_budget_bytes, OffloadMinimum *known,
                  Plan **plan);
int64_t plan_bound_bytes(const PGraph *graph);   /* structural: no plan can do with less */
Err  plan_simulate(Pool *pool_or_null, const PGraph *graph, const Plan *plan, PlanMeter *meter);
Err  plan_check(const PGraph *graph, const Plan *plan, int64_t budget_bytes);
Err  plan_place(const PGraph *graph, Plan *plan, int64_t budget_bytes);  /* sets arena_bytes */
enum { PLACE_NODES = 50000 };                    /* of the layout's search in plan_place */
int64_t plan_peak_bytes(const Plan *plan);       /* the arena if one was made, else live_bytes */
Err  plan_read(Pool *pool, const char *path, const PGraph *graph, Plan **plan);
Err  plan_write(const char *path, const PGraph *graph, const Plan *plan);

typedef struct PlanOptions {
    int64_t  budget_bytes;   /* of live bytes */
    /* of host slots; 0: no limit. Used where the graph has bandwidths */
    int64_t  host_budget_bytes;
    int64_t  effort;         /* edits tried; 0: the default, about 10 s on 2 cores */
    double   time_limit_s;   /* 0: none */
    uint64_t seed;
    bool     layout;         /* judge by arena bytes instead of live bytes */
    void   (*progress)(void *arg, double done, const char *text);
    void    *progress_arg;
} PlanOptions;

int64_t plan_default_effort(int32_t n_nodes);

/* One plan for each of n budgets (rising), from one search: a larger budget never costs more. NULL
 * where the budget is below the least peak found. options->budget_bytes and layout are not looked
 * at. */
Err  plan_curve(Pool *pool, const PGraph *graph, const PlanOptions *options, const int64_t *budgets,
                int n, Plan **plans);

/* The cheapest plan found within the budget. E_BUDGET when none was found: *plan then is the plan
 * of least peak, and the sentence names it and the structural lower bound. */
Err  plan_solve(Pool *pool, const PGraph *graph, const PlanOptions *options, Plan **plan);

/* The same for a (checked) graph that is asked for several budgets: the least peak and the ladder
 * are searched once. It lives in the pool; options->budget_bytes is not looked at, and a time limit
 * counts for all answers together. */
typedef struct PlanSearch PlanSearch;
PlanSearch *plan_search_new(Pool *pool, const PGraph *graph, const PlanOptions *options);
Err  plan_search_within(Pool *pool, PlanSearch *search, int64_t budget_bytes, Plan **plan);

#endif
