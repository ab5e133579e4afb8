/* milp.h -- a mixed integer program: minimize cost over bounded columns, subject to bounded rows.
 *
 * Filled column by column and row by row, then written as an LP file or solved by CBC, which is
 * loaded if it is installed (Debian: coinor-libcbc3). Nothing here knows what the columns mean.
 */
#ifndef PLAN_PROOF_MILP_H
#define PLAN_PROOF_MILP_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct MilpColumn {
    char    letter; /* name in the LP file: letter, then a_b_c (c < 0: left out) */
    int32_t a, b, c;
    double  low, high, cost;
    bool    whole; /* an integer */
} MilpColumn;

typedef struct MilpTerm {
    int32_t column;
    double  factor;
} MilpTerm;

typedef struct MilpRow { /* low <= sum of its terms <= high */
    int32_t first;       /* its first term; they end where the next row's begin */
    double  low, high;   /* +-MILP_FREE: no bound */
} MilpRow;

#define MILP_FREE 1e30

typedef struct Milp {
    Pool       *pool;
    MilpColumn *columns;
    MilpRow    *rows;
    MilpTerm   *terms;
    int32_t     n_columns, n_rows, n_terms, cap_columns, cap_rows, cap_terms;
} Milp;

typedef struct MilpAnswer {
    double *x;      /* [column] the best found, or NULL */
    double  cost;   /* of x */
    double  bound;  /* no solution costs less; with a cutoff: none below min(bound,
                              * cutoff) */
    bool    closed; /* solved to the end: x is optimal, or nothing is below the cutoff */
} MilpAnswer;

int32_t milp_column(Milp *milp, MilpColumn column);
void    milp_row(Milp *milp, double low, double high); /* terms added next belong to it */
void    milp_term(Milp *milp, int32_t column, double factor);

Err  milp_write(const Milp *milp, const char *path); /* LP format */
bool milp_can_solve(void);                           /* is CBC installed? */
#define MILP_NO_SOLVER "CBC is not installed (apt-get install coinor-libcbc3)"
/* Solutions that cost `cutoff` or more are ignored. E_DEVICE: CBC is not installed; the message
 * names the package. */
Err milp_solve(Pool *pool, const Milp *milp, double cutoff, double seconds, MilpAnswer *answer);

#endif
