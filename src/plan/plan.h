/* plan.h -- a plan is a program: a list of steps that the simulator, the checker and exec/ read.
 *
 * A recompute is simply a second RUN. Solvers produce plans, plan_simulate meters them, plan_check
 * checks them (it shares no code with either), exec/ runs them.
 *
 * There are two memories, device and host. `save` starts a copy of a live value to its host slot,
 * which it occupies from then on. `load` makes the device bytes live at once; they can be read
 * after `wait`. A value has at most one pending copy. Copies in one direction run in order, each
 * for bytes / bandwidth; a `wait` costs what is left of the copy. A loaded value is a buffer of its
 * own size.
 *
 * Transfers between ranks are not steps: runs of two nodes start one and wait for it (PNode.wire,
 * joins). They run in order on a queue of their own.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "plan/pgraph.h"

/*       name         word in plan.json   meaning */
/* clang-format off */
#define STEP_LIST(X)                                                              \
    X(STEP_RUN,       "run",       "run a node, the first time or again")         \
    X(STEP_DROP,      "drop",      "free a value's device bytes")                 \
    X(STEP_SAVE,      "save",      "start copying a value to its host slot")      \
    X(STEP_LOAD,      "load",      "start copying it back")                       \
    X(STEP_WAIT,      "wait",      "complete the value's pending copy")           \
    X(STEP_FREE_HOST, "free_host", "free the value's host slot")
/* clang-format on */

typedef enum StepKind {
#define X(name, word, text) name,
    STEP_LIST(X)
#undef X
        STEP_KINDS
} StepKind;

typedef struct Step {
    StepKind kind;
    int32_t  id; /* node of a run, value of all others */
} Step;

typedef struct Plan {
    Step   *steps;
    int32_t n_steps, cap;
    int64_t budget_bytes;      /* the request; 0: none */
    int64_t live_bytes;        /* largest live sum */
    int64_t arena_bytes;       /* after layout; 0: not placed */
    int64_t host_budget_bytes; /* 0: none */
    int64_t host_bytes;        /* largest sum of host slots */
    double  cost, base_cost;   /* of all runs and waits; of running each node once */
    int64_t bound_bytes;       /* lower bound: no plan needs less */
    bool    cut;               /* a time limit ended the search */
} Plan;

/* What a pass over the steps measures. Only plan_simulate fills it: bytes are metered in one
 * place. */
typedef struct PlanMeter {
    int64_t  live_bytes;        /* largest live sum, workspace included */
    int32_t  peak_step;         /* the first step that reaches it */
    double   cost;              /* runs and waits */
    double   waited;            /* of that, waiting for copies that runs did not hide */
    double   waited_wire, wire; /* of cost, waiting for transfers between ranks; all transfers */
    int64_t  host_bytes;        /* largest sum of host slots */
    int32_t  n_runs, n_recomputes;
    int64_t *curve; /* [step] live bytes; NULL unless a pool was given */
} PlanMeter;

void plan_add(Pool *pool, Plan *plan, StepKind kind, int32_t id);
Err  plan_keep_all(Pool *pool, const PGraph *graph, Plan **plan); /* everything kept */
Err  plan_from_runs(Pool *pool, const PGraph *graph, const int32_t *runs, int32_t n_runs,
                    Plan **plan);
enum { OFFLOAD_MARGINS = 3 };
/* For one list of runs: the bytes, for each margin, that offloading was found unable to go below. A
 * later call does not search for less. */
typedef struct OffloadMinimum {
    int64_t bytes[OFFLOAD_MARGINS];
} OffloadMinimum;
/* The given runs within the budget, by copying idle values to the host and back; *plan is NULL if
 * that is impossible. `known` may be NULL; if given, pass the same one for every call with this
 * list. */
Err     plan_offload(Pool *pool, const PGraph *graph, const int32_t *runs, int32_t n_runs,
                     int64_t budget_bytes, int64_t host_budget_bytes, OffloadMinimum *known,
                     Plan **plan);
int64_t plan_bound_bytes(const PGraph *graph); /* structural: no plan needs less */
Err     plan_simulate(Pool *pool_or_null, const PGraph *graph, const Plan *plan, PlanMeter *meter);
Err     plan_check(const PGraph *graph, const Plan *plan, int64_t budget_bytes);
Err     plan_place(const PGraph *graph, Plan *plan, int64_t budget_bytes); /* sets arena_bytes */
enum { PLACE_NODES = 50000 };              /* search nodes of the layout in plan_place */
int64_t plan_peak_bytes(const Plan *plan); /* the arena if the plan was placed, else
                                                  * live_bytes */
Err     plan_read(Pool *pool, const char *path, const PGraph *graph, Plan **plan);
Err     plan_write(const char *path, const PGraph *graph, const Plan *plan);

typedef struct PlanOptions {
    int64_t  budget_bytes; /* limits live bytes, or the arena if `layout` is set */
    /* limits host slots; 0: no limit. Only used if the graph has bandwidths */
    int64_t  host_budget_bytes;
    bool     hasty;        /* the first plan that a solver without a search finds, if any does */
    int64_t  effort;       /* edits to try; 0: the default, about 10 s on 2 cores */
    double   time_limit_s; /* 0: none */
    uint64_t seed;
    bool     layout; /* place every plan and compare arenas instead of live bytes */
    void (*progress)(void *arg, double done, const char *text);
    void *progress_arg;
} PlanOptions;

int64_t plan_default_effort(int32_t n_nodes);

/* One plan for each of n budgets, which must rise, from one search: a larger budget never costs
 * more. NULL where the budget is below the smallest peak found. options->budget_bytes and layout
 * are ignored. */
Err plan_curve(Pool *pool, const PGraph *graph, const PlanOptions *options, const int64_t *budgets,
               int n, Plan **plans);

/* The cheapest plan found within the budget. E_BUDGET if none was found: *plan is then the plan
 * with the smallest peak, and the message gives that peak and the structural lower bound. */
Err plan_solve(Pool *pool, const PGraph *graph, const PlanOptions *options, Plan **plan);

/* The same for several budgets of one (checked) graph: the smallest peak and the ladder are
 * searched once. The search lives in the pool. options->budget_bytes is ignored, and a time limit
 * covers all calls together. */
typedef struct PlanSearch PlanSearch;
PlanSearch *plan_search_new(Pool *pool, const PGraph *graph, const PlanOptions *options);
Err         plan_search_within(Pool *pool, PlanSearch *search, int64_t budget_bytes, Plan **plan);

#endif
