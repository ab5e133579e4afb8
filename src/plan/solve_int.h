/* solve_int.h -- a search for lists of runs (solve.c), for those who make plans of them (answer.c).
 *
 * A Solve is asked for several budgets in turn: the least peak and the rungs of the ladder that
 * were solved for one are there for the next. */
#ifndef PLAN_SOLVE_INT_H
#define PLAN_SOLVE_INT_H

#include "plan/plan.h"
#include "plan/solvers/solver.h"

enum {
    TOURNAMENT_ROUNDS = 5,                /* of a tournament, at most */
    TOURNAMENT_RUNS = 1 << TOURNAMENT_ROUNDS,  /* runs of its widest stage */
    LADDER_MAX = 20                 /* rungs */
};

typedef struct PlanSolve {
    Pool              *pool;         /* workspace */
    const PGraph      *graph;
    PlanOptions        options;      /* budget_bytes: of the answer that is being looked for */
    const Task        *task;
    double             begin_s, deadline_s;  /* of what is being searched; 0: none */
    int64_t            effort;       /* all of it */
    int64_t            keep_all_bytes, bound_bytes;
    int32_t            rungs;        /* of the whole ladder */
    RunList            min_peak;
    RunList            low[TOURNAMENT_RUNS];      /* what its search ended with, one list of each line
                                              * of descent */
    int32_t            n_low;
    RunList            rung[LADDER_MAX + 1];
    int32_t            n_rung;       /* rungs solved so far */
    bool               cut;
} PlanSolve;

/* Finds the least peak; options->budget_bytes counts only where time ends that search. */
void solve_begin(PlanSolve *s, Pool *pool, const PGraph *graph, const PlanOptions *options,
                 const Plan *keep_all);
void solve_ladder(PlanSolve *s, int64_t budget);                 /* every rung up to budget */
/* The best list for a budget: rungs below it, and the budget itself when it is not a rung. */
void solve_asked(PlanSolve *s, int64_t budget, RunList *best);
/* With this effort, and with none; node NULL: nothing found. */
void solve_budget(PlanSolve *s, int64_t budget, int64_t effort, const RunList *warm, RunList *best);
void solve_seed(PlanSolve *s, int64_t budget, RunList *best);
const RunList *solve_highest(const PlanSolve *s, int64_t budget);    /* the best rung within it */

bool solve_late(PlanSolve *s);                                   /* past the deadline: sets cut */
void solve_tell(const PlanSolve *s, double done, const char *text);

#endif
