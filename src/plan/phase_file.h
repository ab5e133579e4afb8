/* phase_file.h -- the phases of a step's plan.json, in and out. For the room only. */
#ifndef PLAN_PHASE_FILE_H
#define PLAN_PHASE_FILE_H

#include "plan/engine.h"

void phases_write(JsonOut *o, const Engine *engine);             /* member "phases" */

/* Every program's plan from the phases that hold it, judged, placed and added to the engine. */
Err  phases_read(Pool *pool, const Json *root, Engine *engine, int64_t budget_bytes);

/* A figure of the file that must be what came out here. */
Err  figure_read(const Json *object, const char *key, int64_t here);

#endif
