/* staging.h -- host-resident values (plan/pgraph.h): brought to the device around the runs that touch
 * them. */
#ifndef PLAN_STAGING_H
#define PLAN_STAGING_H

#include "plan/plan.h"

bool    pgraph_is_host_resident(const PGraph *graph);               /* has host-resident values */
/* The graph as solvers see it, ids unchanged: host-resident values have no bytes and are always there, and
 * the runs that touch them have room for the window as workspace. */
PGraph *pgraph_for_solvers(Pool *pool, const PGraph *graph);

/* A plan of the unhosted graph with the copies put in: a plan of the graph. */
Err plan_stage(Pool *pool, const PGraph *graph, const Plan *plan, Plan **staged);

/* plan_search_within, for graphs that have host-resident values; the search is the unhosted graph's. */
Err plan_stage_within(Pool *pool, const PGraph *graph, PlanSearch *search, bool layout,
                      int64_t budget_bytes, Plan **plan);

#endif
