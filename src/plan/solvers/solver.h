/* solver.h -- what every solver takes and gives: one signature, one table.
 *
 * A solver gets a task, a budget and an effort, and gives the cheapest list of runs it found
 * within the budget (min_peak, and exact with LOWEST: the list of least peak). The same arguments
 * give the same list; only a deadline can cut it short, and then it says so.
 */
#ifndef PLAN_SOLVERS_SOLVER_H
#define PLAN_SOLVERS_SOLVER_H

#include "plan/solvers/run_list.h"

typedef struct RunList {
    int32_t *node;           /* task nodes in the order they run; NULL: none found */
    int32_t  n;
    double   cost;
    int64_t  peak_bytes;
    bool     cut;            /* the deadline ended the search */
} RunList;

typedef struct SolverArgs {
    const Task *task;
    int64_t     budget_bytes;
    int64_t     effort;      /* runs put in or taken out, schedules judged */
    uint64_t    seed;
    RunList     start;       /* where to begin; node NULL: every node once */
    bool        careful;     /* annealing: stay near the start, where that is within the budget */
    bool        groups;      /* annealing: runs move in groups too, see groups.c */
    double      heat;        /* of annealing, in parts of the usual; 0: the usual */
    double      deadline_s;  /* of clock_now(); 0: none */
} SolverArgs;

typedef void SolveFn(Pool *pool, const SolverArgs *args, RunList *out);

/*    name        optimal for       what it does */
#define SOLVER_LIST(X)                                                                             \
    X(exact, "tiny graphs", "Dijkstra over all states")                                            \
    X(min_peak, "small graphs *", "annealing on the peak alone, the bar lowered as it goes")     \
    X(next_use, "none; quick", "run the step, drop what is cheap and needed late")                 \
    X(blocks, "none; quick", "drop equal values of the first k blocks, class by class")            \
    X(segments, "none; quick", "forget what is inside a segment, borders by dynamic programming")  \
    X(anneal, "small graphs *", "annealing over lists of runs") /* * in practice */

#define X(name, when, text) SolveFn solve_##name;
SOLVER_LIST(X)
#undef X

bool exact_can(const Task *task);    /* is the graph small enough for solve_exact? */

/* Keep list as *best if it is within budget and cheaper, or lower at the same cost; with budget
 * LOWEST, if it is lower, or cheaper at the same peak. True if kept. */
#define LOWEST (-1)
bool run_list_keep(Pool *pool, RunList *best, const RunList *list, int64_t budget_bytes);

#endif
