/* rank_pages.h -- one rank of several in words: what it holds and moves, at each level. */
#ifndef REPORT_RANK_PAGES_H
#define REPORT_RANK_PAGES_H

#include "fit/explained.h"
#include "base/json_out.h"

#include <stdio.h>

/* Who shares the step, over what, and what that costs: one sentence. */
const char *rank_text(Pool *pool, const Engine *engine, const Recipe *recipe);
/* Bytes and time by level; nothing for one rank. */
void        rank_rows_print(FILE *to, const Explained *e);
/* The object "ranks"; nothing for one rank. rows: NULL, or those of every level. */
void        rank_json(JsonOut *o, const Engine *engine, const Recipe *recipe, const RankRow *rows,
                      int n_rows);

#endif
