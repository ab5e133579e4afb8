/* proof.h -- what plan_prove is made of. Only for this room. */
#ifndef PLAN_PROOF_PROOF_H
#define PLAN_PROOF_PROOF_H

#include "plan/proof/milp.h"
#include "plan/solvers/solver.h"

/* checkmate.c: the cheapest plan that keeps the input order of first runs and runs a node at most
 * once between two of them, as a mixed integer program (after Checkmate, Jain et al. 2020). A stage
 * is Checkmate's: it ends with the first run of a node. */
typedef struct Stages {
    Milp     milp;
    int32_t *again; /* [stage * n_nodes + node] column: the node is recomputed there; or -1 */
    double   unit;  /* cost per unit of the program's objective */
} Stages;

int64_t stages_terms(const Task *task); /* estimated size */
void    stages_build(Pool *pool, const Task *task, int64_t budget_bytes, Stages *out);
void    stages_list(Pool *pool, const Task *task, const Stages *stages, const double *x,
                    RunList *list); /* peak_bytes is not set */

/* min_cut.c: what every plan must pay or hold when a node runs for the first time, in any order. */
typedef struct MinCutBound {
    double  cost;  /* lower bound on the extra cost */
    int64_t bytes; /* lower bound on the live bytes, at any cost */
} MinCutBound;

MinCutBound min_cut_bound(Pool *pool, const Task *task, int32_t node, int64_t budget_bytes);

/* moments.c: the same bound from up to max_moments moments at once, as a mixed integer program in
 * units of cost. candidate: nodes whose first run may be a moment; best: one that should be.
 * Returns the number of moments; 0: none. */
int32_t moments_build(Pool *pool, const Task *task, int64_t budget_bytes, const bool *candidate,
                      int32_t best, int32_t max_moments, double unit, Milp *milp);

#endif
