/* whatif_int.h -- rows of a what-if in the making. For report/whatif*.c only. */
#ifndef FIT_WHATIF_INT_H
#define FIT_WHATIF_INT_H

#include "fit/whatif.h"

enum { MAX_ROWS = 40 };

typedef struct Run {
    Pool                *pool;
    Explained           *e;
    const WhatIfOptions *options;
    double               start_s;
    WhatIf              *rows;
    int32_t              n;
    int64_t              half_bytes;     /* the budget of SEARCH_HALF */
    int                  expected;       /* rows in all, for the progress line */
} Run;

/* keep all; least arena; half of what that saves; least arena with every lever */
typedef enum Search { SEARCH_NONE, SEARCH_MINIMUM, SEARCH_HALF, SEARCH_ALL } Search;

/* Plans the recipe and adds the row with its figures; a row that cannot be, with the reason. */
Err  run_row(Run *run, WhatIf row, const Recipe *recipe, Search search);
void run_refuse(Run *run, WhatIf row, const char *why);

Err  run_changes(Run *run);      /* fit/whatif_model.c */

#endif
