/* staging.h -- host-resident and gathered values (plan/pgraph.h) are loaded around the nodes that use
 * them. */
#ifndef PLAN_STAGING_H
#define PLAN_STAGING_H

#include "plan/plan.h"

bool    pgraph_has_staged(const PGraph *graph);
/* The graph as solvers see it, with the same ids: such values have no bytes and are always live, and
 * the nodes that use them have the staging window as additional workspace. */
PGraph *pgraph_for_solvers(Pool *pool, const PGraph *graph);

/* Adds the copies to a plan of pgraph_for_solvers(graph); the result is a plan of the graph. */
Err plan_stage(Pool *pool, const PGraph *graph, const Plan *plan, Plan **staged);

/* plan_search_within for graphs with such values; `search` searches
 * pgraph_for_solvers(graph). */
Err plan_stage_within(Pool *pool, const PGraph *graph, PlanSearch *search, bool layout,
                      int64_t budget_bytes, Plan **plan);

#endif
