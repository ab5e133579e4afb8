/* machine.h -- device, runtime and time in words, the same in the output of every command. */
#ifndef REPORT_MACHINE_H
#define REPORT_MACHINE_H

#include "base/json_out.h"
#include "plan/engine.h"
#include "fit/fit.h"

#include <stdio.h>

/* "cpu (onednn 2.6.3, 2 threads)"; "h200 (NVIDIA H200 ..., planned without its kernels'
 * workspaces)" */
const char *device_text(Pool *pool, const Device *device);
/* Why this GPU can be planned for but never run; NULL: it can be run. */
const char *planned_only_text(Pool *pool, const Device *device);

/* For Markdown: a name from a file, which must not end a cell or begin a link or HTML. */
const char *md_name(Pool *pool, const char *name);

/* The bytes outside the arena, in one sentence. */
const char *runtime_text(Pool *pool, const Device *device, int64_t runtime_bytes);

/* Where predicted times come from: "profile cpu: 97 % measured, 3 % from other sizes, 0 %
 * roofline"; "roofline, not measured (...)". */
const char *time_text(Pool *pool, const Engine *engine);

/* What a plan changes in the recipe, one lever per line. */
void changes_print(FILE *to, const FitResult *result);

/* A slowdown as additional percent, to print with one digit: never "-0.0". */
double more_percent(double slowdown);

/* "12.3 ms", "4.5 s", "2.0 min", "3.1 h" */
const char *step_text(Pool *pool, double ns);

/* "time": {step_ms, slowdown, source, measured, interpolated} */
void time_json(JsonOut *o, const Engine *engine, double step_ms, double slowdown);

#endif
