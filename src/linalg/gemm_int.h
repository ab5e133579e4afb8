/* gemm_int.h -- what the parts of the own matrix product share; for gemm.c and gemm_amx.c only. */
#ifndef LINALG_GEMM_INT_H
#define LINALG_GEMM_INT_H

#include "linalg/amx.h"
#include "linalg/gemm.h"

/* Where a job's kernels put their sums: into C itself, or aside. */
typedef struct Sums {
    float  *data;            /* of element (row0, col0) of the product */
    int64_t ld, row0, col0;
    bool    padded;          /* whole vectors may be written beyond the last column */
    bool    add;             /* the first block of k adds to what is there */
    float   alpha;
    const void *bias;        /* added by the first block of k */
    Type    type_bias;
} Sums;

/* Part i of n things in the given number of parts, cut at multiples of unit. */
static inline Range gemm_part(int64_t n, int64_t parts, int64_t i, int64_t unit)
{
    int64_t units = (n + unit - 1) / unit;
    return (Range){ gemm_min(units * i / parts * unit, n),
                    gemm_min(units * (i + 1) / parts * unit, n) };
}

/* The largest of these parts. */
static inline int64_t gemm_ceil_part(int64_t n, int64_t parts, int64_t unit)
{
    int64_t units = (n + unit - 1) / unit;
    return gemm_min((units + parts - 1) / parts * unit, n);
}

/* The largest block that cuts n into equal pieces of at most `most`, in multiples of unit. */
static inline int64_t gemm_even(int64_t n, int64_t most, int64_t unit)
{
    int64_t pieces = gemm_max((n + most - 1) / most, 1);
    return gemm_max(gemm_round_up((n + pieces - 1) / pieces, unit), unit);
}

/* Chooses the parts by the plan's shape and its cycles a product and a packed element. */
void gemm_plan_parts(GemmPlan *plan);

/* The byte counts, from blocks and parts; rows: of partial sums. */
void gemm_plan_workspace(GemmPlan *plan, int64_t rows);

/* The product of rows m, columns n, over all of k, in blocks; whole tiles are written. */
void gemm_block_amx(const GemmPlan *p, const GemmSide *a, const GemmSide *b, const Sums *s,
                    Range m, Range n, Range k, float *a_panels, float *b_panels, bool b_packed);

#endif
