/* plan_file.h -- what plan files of bare graphs and of engines share. Only for this room. */
#ifndef PLAN_PLAN_FILE_H
#define PLAN_PLAN_FILE_H

#include "base/json_out.h"
#include "plan/names.h"
#include "plan/plan.h"

#define PLAN_FORMAT "plimsoll-plan-1"

Err  plan_format_check(const Json *root);
Err  plan_steps_read(Pool *pool, const Json *steps, const PGraph *graph, Plan *plan);
/* Steps [from, to) as the member "steps". */
void plan_steps_write(JsonOut *o, const PGraph *graph, const Plan *plan, int32_t from, int32_t to);

#endif
