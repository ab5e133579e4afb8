/* solve_int.h -- a search for lists of runs (solve.c), for those who make plans of them (answer.c).
 *
 * A Solve is asked for several budgets in turn: the least peak and the rungs of the ladder that
 * were solved for one are there for the next. */
#ifndef PLAN_SOLVE_INT_H
#define PLAN_SOLVE_INT_H

#include "plan/plan.h"
#include "plan/solvers/solver.h"

enum {
    SOLVE_STAGES = 5,                /* of a tournament, at most */
    SOLVE_MANY = 1 << SOLVE_STAGES,  /* runs of its widest stage */
    LADDER_MAX = 20                 /* rungs */
};

typedef struct Solve {
    Pool              *pool;         /* workspace */
    const PGraph      *graph;
    PlanOptions        options;      /* budget_bytes: of the answer that is being looked for */
    const Task        *task;
    double             begin_s, deadline_s;  /* of what is being searched; 0: none */
    int64_t            effort;       /* all of it */
    int64_t            keep_all_bytes, bound_bytes;
    int32_t            rungs;        /* of the whole ladder */
    RunList            least;
    RunList            low[SOLVE_MANY];      /* what its search ended with, one list of each line
                                              * of descent */
    int32_t            n_low;
    RunList            rung[LADDER_MAX + 1];
    int32_t            n_rung;       /* rungs solved so far */
    bool               cut;
} Solve;

/* Finds the least peak; options->budget_bytes counts only where time ends that search. */
void solve_begin(Solve *s, Pool *pool, const PGraph *graph, const PlanOptions *options,
                 const Plan *keep_all);
void solve_ladder(Solve *s, int64_t budget);                 /* every rung up to budget */
/* The best list for a budget: rungs below it, and the budget itself when it is not a rung. */
void solve_asked(Solve *s, int64_t budget, RunList *best);
/* With this effort, and with none; node NULL: nothing found. */
void solve_budget(Solve *s, int64_t budget, int64_t effort, const RunList *warm, RunList *best);
void solve_seed(Solve *s, int64_t budget, RunList *best);
const RunList *solve_highest(const Solve *s, int64_t budget);    /* the best rung within it */

bool solve_late(Solve *s);                                   /* past the deadline: sets cut */
void solve_tell(const Solve *s, double done, const char *text);

#endif
