/* curve.h -- budget against time, as JSON and in words: fit --curve, and the page of explain. */
#ifndef REPORT_CURVE_H
#define REPORT_CURVE_H

#include "base/json_out.h"
#include "fit/fit.h"

/* Members regions, chunks and attention. */
void chunks_json(JsonOut *o, const Levers *levers);

/* "curve": [{peak_bytes, step_ms, slowdown, micro_batch, ...}]; slowdowns against base_ns. */
void curve_json(JsonOut *o, const FitPoint *points, int n, double base_ns);

/* What a point does otherwise than the recipe, beside its micro-batch: "  loss in 4 chunks". */
const char *point_text(Pool *pool, const Recipe *recipe, const FitPoint *point);

#endif
