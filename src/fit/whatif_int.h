/* whatif_int.h -- what whatif.c and whatif_model.c share: the rows while they are made. */
#ifndef FIT_WHATIF_INT_H
#define FIT_WHATIF_INT_H

#include "fit/whatif.h"

enum { MAX_ROWS = 40 };

typedef struct WhatIfRun {
    Pool                *pool;
    Explained           *e;
    const WhatIfOptions *options;
    double               start_s;
    WhatIf              *rows;
    int32_t              n;
    int64_t              half_bytes; /* the budget of SEARCH_HALF */
    int                  expected;   /* rows in all, for the progress line */
} WhatIfRun;

typedef enum WhatIfSearch {
    SEARCH_NONE,    /* everything kept */
    SEARCH_MINIMUM, /* the smallest arena */
    SEARCH_HALF,    /* half of what that saves */
    SEARCH_ALL      /* the smallest arena with every lever */
} WhatIfSearch;

/* Plans the recipe and adds the row with its figures, or with the reason why it failed. */
Err  run_row(WhatIfRun *run, WhatIf row, const Recipe *recipe, WhatIfSearch search);
void run_refuse(WhatIfRun *run, WhatIf row, const char *why);

Err run_changes(WhatIfRun *run); /* fit/whatif_model.c */

#endif
