/* solve_int.h -- the search for lists of runs (plan_solve.c), for answer.c, which makes plans of
 * them.
 *
 * A PlanSolve answers several budgets in turn: the smallest peak and the rungs of the ladder that
 * were solved for one budget serve the next. */
#ifndef PLAN_SOLVE_INT_H
#define PLAN_SOLVE_INT_H

#include "plan/plan.h"
#include "plan/solvers/solver.h"

enum {
    TOURNAMENT_ROUNDS = 5,                    /* at most */
    TOURNAMENT_RUNS = 1 << TOURNAMENT_ROUNDS, /* in the first round */
    LADDER_MAX = 20,                          /* rungs */
    ASKED_MAX = 32                            /* answers that are remembered */
};

typedef struct AskedBudget {
    int64_t budget;
    RunList list;
} AskedBudget;

typedef struct PlanSolve {
    Pool         *pool; /* for what the search finds */
    const PGraph *graph;
    PlanOptions   options; /* budget_bytes: of the current request */
    const Task   *task;
    double        begin_s, deadline_s; /* deadline of the current phase of the search; 0:
                                              * none */
    int64_t       effort;              /* for all searches together */
    int64_t       keep_all_bytes, bound_bytes;
    int32_t       rungs; /* of the whole ladder */
    RunList       min_peak;
    RunList       low[TOURNAMENT_RUNS]; /* the lists that the search for it ended with,
                                                   * one for each line of descent */
    int32_t       n_low;
    RunList       rung[LADDER_MAX + 1];
    RunList     seed[LADDER_MAX + 1]; /* of each rung: the best of the solvers that do not search */
    RunList     quick;                /* the same of the last solve_budget */
    int32_t     n_rung;               /* solved so far */
    AskedBudget asked[ASKED_MAX];     /* budgets between rungs: a larger one is never slower */
    int32_t     n_asked;
    bool        irregular;    /* a huge graph in which the quick solvers find little */
    bool        exact;        /* so far solve_exact has found everything */
    int64_t     proved_bytes; /* the smallest peak of all lists, if solve_exact found it; or 0 */
    bool        hasty;        /* min_peak is just the first list within the budget */
    bool        cut;
} PlanSolve;

/* Finds the smallest peak. options->budget_bytes only matters if the time limit ends that
 * search. */
void solve_begin(PlanSolve *s, Pool *pool, const PGraph *graph, const PlanOptions *options,
                 const Plan *keep_all);
void solve_ladder(PlanSolve *s, int64_t budget); /* solves every rung up to
                                                                  * budget */
/* The best list for a budget: from the rungs below it, and from a search of its own unless it is a
 * rung. */
void solve_asked(PlanSolve *s, int64_t budget, RunList *best);
/* The best list with this effort; without any search. node NULL: nothing found. */
void solve_budget(PlanSolve *s, int64_t budget, int64_t effort, const RunList *warm, RunList *best);
void solve_seed(PlanSolve *s, int64_t budget, RunList *best);
const RunList *solve_highest(const PlanSolve *s, int64_t budget); /* the highest rung within
                                                                      * it */

bool solve_late(PlanSolve *s); /* past the deadline? Sets cut */
void solve_tell(const PlanSolve *s, double done, const char *text);

#endif
