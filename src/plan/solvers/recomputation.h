/* remaking.h -- the list of runs that a choice of values to forget stands for.
 *
 * Nodes run in the input order. A value in `dropped` is forgotten after the run window[value] and
 * made again when it is next read, with whatever else is missing by then; it stays until its last
 * reader. A value in `kept` stays for those who make others again, also after its last reader of
 * the input order. Shared by blocks.c and segments.c.
 */
#ifndef PLAN_SOLVERS_RECOMPUTATION_H
#define PLAN_SOLVERS_RECOMPUTATION_H

#include "plan/solvers/run_list.h"

typedef struct Recomputation {
    const Task *task;
    Pool       *pool;
    int32_t    *window;      /* [value] the run after which it is forgotten */
    bool       *dropped;     /* [value] */
    bool       *kept;        /* [value] */
    bool       *present;     /* [value] */
    int32_t    *last;        /* [value] its last reader of the input order; n_nodes: a final */
    int32_t    *n_runs;      /* [node] */
    int32_t    *deadline;    /* [node] must not run after this node of the input order */
    int32_t     now;         /* node of the input order being run */
    int32_t    *runs;        /* the list */
    int32_t     n, cap;
} Recomputation;

void recomputation_init(Recomputation *r, Pool *pool, const Task *task);     /* nothing dropped or kept */
bool recomputation_list(Recomputation *r);     /* false: something forgotten cannot be made again */

#endif
