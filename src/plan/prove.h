/* prove.h -- lower bounds: how close to optimal is a plan?
 *
 * Three proofs, from strong to weak:
 *   exact    graphs of a few nodes: all states are searched, the optimum is known;
 *   order    graphs of up to some hundred nodes: a mixed integer program over all plans that keep
 *            the input order of first runs and run a node at most once between two of them, which
 *            is what most planners consider; solved by CBC if it is installed;
 *   any      graphs of any size: what every plan must pay, in any order (proof/min_cut.c).
 */
#ifndef PLAN_PROVE_H
#define PLAN_PROVE_H

#include "plan/plan.h"

typedef struct ProveOptions {
    int64_t     budget_bytes;
    double      time_limit_s; /* for CBC, on each of two programs; 0: 30 */
    const char *lp_path;      /* writes the program here instead of solving it; NULL: solve */
    bool        any_only;     /* skip the program of the input order */
} ProveOptions;

typedef struct Proof {
    double      any_cost;                  /* no plan within the budget costs less */
    int64_t     any_bytes;                 /* no plan has a smaller peak */
    bool        exact;                     /* some plan has any_cost, some plan has any_bytes */
    bool        order_tried;               /* the program was solved, but perhaps cut by time */
    bool        order_closed;              /* it was solved to the end */
    double      order_cost;                /* no plan that keeps the input order costs less */
    const char *order_note;                /* why it was not tried; NULL: it was */
    int64_t     order_columns, order_rows; /* its size */
    Plan       *cheaper; /* found by the program: cheaper than the plan given; or NULL */
} Proof;

/* plan: one within the budget; the program only looks for cheaper ones. */
Err plan_prove(Pool *pool, const PGraph *graph, const Plan *plan, const ProveOptions *options,
               Proof *proof);

#endif
