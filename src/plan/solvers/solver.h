/* solver.h -- the interface of every solver: one signature, one table.
 *
 * A solver gets a task, a budget and an effort, and returns the cheapest list of runs that it found
 * within the budget (min_peak, and exact with LOWEST: the list with the smallest peak). The same
 * arguments give the same list, unless the deadline ends the search; `cut` is then set.
 */
#ifndef PLAN_SOLVERS_SOLVER_H
#define PLAN_SOLVERS_SOLVER_H

#include "plan/solvers/run_list.h"

typedef struct RunList {
    int32_t *node; /* task nodes in the order in which they run; NULL: none found */
    int32_t  n;
    double   cost;
    int64_t  peak_bytes;
    bool     cut; /* the deadline ended the search */
} RunList;

typedef struct SolverArgs {
    const Task *task;
    int64_t     budget_bytes;
    int64_t     effort; /* runs inserted or removed, or schedules evaluated */
    uint64_t    seed;
    RunList     start;      /* where to begin; node NULL: each node once */
    bool        careful;    /* annealing: do not leave the budget at the beginning */
    bool        groups;     /* annealing: also move groups of runs (groups.c) */
    double      heat;       /* initial temperature of annealing, as a factor; 0: 1 */
    double      deadline_s; /* of clock_now(); 0: none */
} SolverArgs;

typedef void SolveFn(Pool *pool, const SolverArgs *args, RunList *out);

/*    name        optimal for       what it does */
#define SOLVER_LIST(X)                                                                             \
    X(exact, "tiny graphs", "Dijkstra over all states")                                            \
    X(min_peak, "small graphs *", "annealing on the peak alone, the bar lowered as it goes")       \
    X(next_use, "none; quick", "run the step, drop what is cheap and needed late")                 \
    X(blocks, "none; quick", "drop equal values of the first k blocks, class by class")            \
    X(segments, "none; quick", "forget what is inside a segment, borders by dynamic programming")  \
    X(order, "none; quick", "each node once, where its bytes and those it reads live shorter")     \
    X(anneal, "small graphs *", "annealing over lists of runs") /* * in practice */

#define X(name, when, text) SolveFn solve_##name;
SOLVER_LIST(X)
#undef X

bool exact_can(const Task *task); /* small enough for solve_exact? */

/* Replaces *best by list if that is within budget and cheaper, or has a smaller peak at the same
 * cost. With budget LOWEST: if it has a smaller peak, or is cheaper at the same peak. True if
 * replaced. */
#define LOWEST (-1)
bool run_list_keep(Pool *pool, RunList *best, const RunList *list, int64_t budget_bytes);

#endif
