/* evaluation_pages.h -- what `evaluate` measured, as a table and as JSON (docs/user/FORMATS.md). */
#ifndef REPORT_EVALUATION_PAGES_H
#define REPORT_EVALUATION_PAGES_H

#include "base/json_out.h"
#include "evaluate/evaluate.h"
#include "evaluate/frechet.h"

void evaluation_text(FILE *to, const Recipe *recipe, const Evaluation *e);
void evaluation_json(JsonOut *o, const Recipe *recipe, const Evaluation *e);

void frechet_text(FILE *to, const Frechet *f);
void frechet_json(JsonOut *o, const Frechet *f);

#endif
