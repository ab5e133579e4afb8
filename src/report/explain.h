/* explain.h -- the balance sheet for people and for programs. */
#ifndef REPORT_EXPLAIN_H
#define REPORT_EXPLAIN_H

#include "report/sheet.h"
#include "train/recipe.h"

#include <stdio.h>

typedef struct Explained {
    const Recipe *recipe;
    const Sheet  *sheet;
    int64_t       budget_bytes;  /* 0: what the device can give */
    double        step_ms;       /* predicted */
    int64_t       runtime_bytes; /* outside the arena */
} Explained;

void explain_text(FILE *to, const Explained *e);             /* tables of at most 100 columns */
Err  explain_json(FILE *to, const Explained *e);             /* docs/FORMATS.md */

#endif
