/* machine.h -- the same words about device, runtime and time in every command's output. */
#ifndef REPORT_MACHINE_H
#define REPORT_MACHINE_H

#include "base/json_out.h"
#include "plan/engine.h"
#include "fit/fit.h"

#include <stdio.h>

/* "cpu (onednn 2.6.3, 2 threads)"; "h200 (NVIDIA H200 ..., planned without its kernels'
 * workspaces)" */
const char *device_text(Pool *pool, const Device *device);

/* What lies outside the arena, in one sentence. */
const char *runtime_text(Pool *pool, const Device *device, int64_t runtime_bytes);

/* "profile cpu: 97 % of it measured, 3 % interpolated"; "roofline; plimsoll probe would measure
 * it" */
const char *time_text(Pool *pool, const Engine *engine);

/* What a plan does otherwise than the recipe, one lever a line. */
void changes_print(FILE *to, const FitResult *result);

/* A slowdown in percent, for one digit after the point: never "-0.0". */
double more_percent(double slowdown);

/* "12.3 ms", "4.5 s", "2.0 min", "3.1 h" */
const char *step_text(Pool *pool, double ns);

/* "time": {step_ms, slowdown, source, measured, interpolated} */
void time_json(JsonOut *o, const Engine *engine, double step_ms, double slowdown);

#endif
