/* prove.h -- how far from the best possible is a plan?
 *
 * Three proofs, from strong to weak:
 *   exact    graphs of a few nodes: all states are searched, the optimum is known;
 *   order    graphs of up to some hundred nodes: a mixed integer program over all plans that keep
 *            the input order of first runs and run a node at most once between two of them (most
 *            planners know no others); solved by CBC where that is installed;
 *   any      graphs of any size: what every plan must pay, whatever its order (proof/cut.c).
 */
#ifndef PLAN_PROVE_H
#define PLAN_PROVE_H

#include "plan/plan.h"

typedef struct ProveOptions {
    int64_t     budget_bytes;
    double      time_limit_s;    /* of CBC for each of two programs; 0: 30 */
    const char *lp_path;         /* write the program here instead of solving it; NULL: solve */
    bool        any_only;        /* leave the program of the input order out */
} ProveOptions;

typedef struct Proof {
    double      any_cost;        /* no plan within the budget costs less */
    int64_t     any_bytes;       /* no plan has a lower peak */
    bool        exact;           /* any_cost and any_bytes are reached */
    bool        order_tried;     /* the program was solved, perhaps not to the end: */
    bool        order_closed;    /* to the end */
    double      order_cost;      /* no plan that keeps the input order costs less */
    const char *order_note;      /* why it was not tried; NULL: it was */
    int64_t     order_columns, order_rows;   /* of the program */
    Plan       *cheaper;         /* a plan that the program found, cheaper than the one given */
} Proof;

/* plan: one that keeps the budget; the program looks for cheaper ones only. */
Err plan_prove(Pool *pool, const PGraph *graph, const Plan *plan, const ProveOptions *options,
               Proof *proof);

#endif
