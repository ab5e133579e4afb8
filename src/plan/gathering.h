/* gathering.h -- gathered values (plan/pgraph.h) are loaded from the ranks of a run around the nodes
 * that use them. */
#ifndef PLAN_GATHERING_H
#define PLAN_GATHERING_H

#include "plan/plan.h"

/* Loads under way at once. */
enum { GATHERS_UNDER_WAY = 3 };

int64_t gather_bytes(const PGraph *graph, const PNode *node); /* of its gathered values */
/* Bytes of gathered values that may be live at once: what any node uses, and one value on its way. */
int64_t gather_window(const PGraph *graph);

/* The steps of the plan, with a load before each use of a gathered value; added to `out`. */
void gather_steps(Pool *pool, const PGraph *graph, const Plan *plan, Plan *out);

#endif
