/* compare.h -- several recipes, or variants of one, against several budgets, as one table. */
#ifndef FIT_COMPARE_H
#define FIT_COMPARE_H

#include "fit/explained.h"

typedef struct CompareCell { /* one variant within one budget */
    Verdict verdict;
    bool    planned; /* a plan for exactly this budget was searched for: */
    int64_t peak_bytes;
    double  slowdown;     /* against everything kept */
    bool    cut;          /* the time limit ended that search */
    int64_t budget_bytes; /* the runtime included */
} CompareCell;

typedef struct CompareRow {
    const char  *name;  /* what distinguishes it */
    const char  *error; /* why it could not be built, or NULL */
    int64_t      parameters, trained, batch, accumulate;
    const char  *precision;
    int64_t      peak_bytes, minimum_bytes, state_bytes;
    double       step_ms;
    CompareCell *cells; /* one per budget */
} CompareRow;

typedef struct Comparison {
    const Device *device;
    int64_t      *budgets; /* as asked for: the runtime included */
    const char  **shares;  /* NULL, or per budget NULL or "80%": of each row's everything kept */
    CompareRow   *rows;
    int32_t       n_budgets, n_rows, cap_rows;
    const char   *time_source;
} Comparison;

typedef struct CompareOptions {
    unsigned allow;
    int64_t  effort;     /* of one search; 0: short */
    bool     shard_auto; /* FitOptions.shard_auto */
    double   deadline_s; /* of clock_now: no search begins later */
    void (*progress)(void *arg, double done, const char *text);
    void *progress_arg;
} CompareOptions;

/* "80%" if budget i is that share of what each row needs with everything kept, else NULL. */
static inline const char *compare_share(const Comparison *c, int32_t i)
{
    return c->shares ? c->shares[i] : NULL;
}

/* Explains the recipe and adds its row. read_err: the recipe could not be read; the row shows the
 * sentence of that failure. */
Err compare_add(Pool *pool, Comparison *c, const char *name, const Recipe *recipe,
                const Device *device, Err read_err, const CompareOptions *options);

#endif
