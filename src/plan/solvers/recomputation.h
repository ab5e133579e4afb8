/* recomputation.h -- the list of runs that follows from a choice of values to drop.
 *
 * Nodes run in the input order. A value in `dropped` is dropped after the run window[value] and
 * recomputed when it is next read, together with whatever else is missing by then; it then remains
 * until its last reader. A value in `kept` remains for the recomputation of others, even after its
 * last reader in the input order. Shared by blocks.c and segments.c.
 */
#ifndef PLAN_SOLVERS_RECOMPUTATION_H
#define PLAN_SOLVERS_RECOMPUTATION_H

#include "plan/solvers/run_list.h"

typedef struct Recomputation {
    const Task *task;
    Pool       *pool;
    int32_t    *window;   /* [value] the run after which it is dropped */
    bool       *dropped;  /* [value] */
    bool       *kept;     /* [value] */
    bool       *present;  /* [value] */
    int32_t    *last;     /* [value] its last reader in the input order; n_nodes: a final */
    int32_t    *n_runs;   /* [node] */
    int32_t    *deadline; /* [node] must not run after this node of the input order */
    int32_t     now;      /* the current node of the input order */
    int32_t    *runs;     /* the list */
    int32_t     n, cap;
} Recomputation;

void recomputation_init(Recomputation *r, Pool *pool,
                        const Task *task); /* nothing dropped or kept */
/* Must the value be kept after a node, because a view of it that cannot be produced again is read
 * later? */
bool recomputation_pins(const Recomputation *r, int32_t value, int32_t node);
bool recomputation_list(Recomputation *r); /* false: a dropped value cannot be recomputed */

#endif
