/* curve.h -- budget against time, as JSON and in words, for fit --curve and the pages of
 * explain. */
#ifndef REPORT_CURVE_H
#define REPORT_CURVE_H

#include "base/json_out.h"
#include "fit/fit.h"

/* Members sample_chunks, loss_chunks and attention. */
void chunks_json(JsonOut *o, const Levers *levers);

/* "curve": [{peak_bytes, step_ms, slowdown, micro_batch, ...}]; slowdowns against base_ns.
 * pace: engine_pace. */
void curve_json(JsonOut *o, const FitPoint *points, int n, double base_ns, double pace);

/* What a point changes in the recipe besides its micro-batch: "  4 loss chunks". */
const char *point_text(Pool *pool, const Recipe *recipe, const FitPoint *point);

#endif
