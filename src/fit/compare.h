/* compare.h -- several variants of a recipe, or several recipes, against several budgets: one
 * table. */
#ifndef FIT_COMPARE_H
#define FIT_COMPARE_H

#include "fit/explained.h"

typedef struct CompareCell {     /* one variant within one budget */
    Verdict verdict;
    bool    planned;             /* a plan for this very budget was searched: */
    int64_t peak_bytes;
    double  slowdown;
    bool    cut;
} CompareCell;

typedef struct CompareRow {
    const char  *name;           /* what tells it apart */
    const char  *error;          /* it could not be built: why; NULL: it could */
    int64_t      parameters, trained, batch, accumulate;
    const char  *precision;
    int64_t      peak_bytes, minimum_bytes, state_bytes;
    double       step_ms;
    CompareCell *cells;          /* one per budget */
} CompareRow;

typedef struct Comparison {
    const Device *device;
    int64_t      *budgets;       /* as asked: the runtime included */
    CompareRow   *rows;
    int32_t       n_budgets, n_rows, cap_rows;
    const char   *time_source;
} Comparison;

typedef struct CompareOptions {
    unsigned allow;
    int64_t  effort;             /* of one search; 0: short */
    double   deadline_s;         /* by clock_now: no search begins after it */
    void   (*progress)(void *arg, double done, const char *text);
    void    *progress_arg;
} CompareOptions;

/* Explains the recipe and adds its row; read_err: the recipe could not be read, its sentence is the
 * row's. */
Err  compare_add(Pool *pool, Comparison *c, const char *name, const Recipe *recipe,
                 const Device *device, Err read_err,
                 const CompareOptions *options);
void compare_text(FILE *to, const Comparison *c, bool colour);       /* at most 100 columns */
Err  compare_json(FILE *to, const Comparison *c);                    /* docs/FORMATS.md */
void compare_md(Text *to, const Comparison *c);

#endif
