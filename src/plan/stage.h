/* stage.h -- hosted values (plan/pgraph.h): brought to the device around the runs that touch
 * them. */
#ifndef PLAN_STAGE_H
#define PLAN_STAGE_H

#include "plan/plan.h"

bool    pgraph_is_hosted(const PGraph *graph);               /* has hosted values */
/* The graph as solvers see it, ids unchanged: hosted values have no bytes and are always there, and
 * the runs that touch them have room for the window as scratch. */
PGraph *pgraph_unhosted(Pool *pool, const PGraph *graph);

/* A plan of the unhosted graph with the copies put in: a plan of the graph. */
Err plan_stage(Pool *pool, const PGraph *graph, const Plan *plan, Plan **staged);

/* plan_search_within, for graphs that have hosted values; the search is the unhosted graph's. */
Err plan_stage_within(Pool *pool, const PGraph *graph, PlanSearch *search, bool layout,
                      int64_t budget_bytes, Plan **plan);

#endif
