/* phase_file.h -- reading and writing the phases of a training step's plan.json. Only for this
 * room. */
#ifndef PLAN_PHASE_FILE_H
#define PLAN_PHASE_FILE_H

#include "plan/engine.h"

void phases_write(JsonOut *o, const Engine *engine); /* member "phases" */

/* Reads every program's plan from its phases, checks and places it, and adds it to the engine. */
Err phases_read(Pool *pool, const Json *root, Engine *engine, int64_t budget_bytes);

/* A figure in the file must equal the one computed here. */
Err figure_read(const Json *object, const char *key, int64_t here);

#endif
