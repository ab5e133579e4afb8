/* gemm_int.h -- shared by gemm.c and gemm_amx.c only: the division of the built-in product. */
#ifndef LINALG_GEMM_INT_H
#define LINALG_GEMM_INT_H

#include "linalg/amx.h"
#include "linalg/gemm.h"

/* Where a job's kernels put their sums: C itself, or workspace. */
typedef struct GemmSums {
    float  *data; /* element (row0, col0) of the product */
    int64_t ld, row0, col0;
    int64_t (*row)(const void *shape, int64_t i); /* of GemmOut, if C itself holds the sums */
    const void *shape;
    bool        padded; /* vectors may be written beyond the last column */
    bool        add;    /* the first block of k adds to what data holds */
    float       alpha;
    const void *bias; /* added by the first block of k */
    Type        type_bias;
} GemmSums;

/* Part i of n elements divided into equal parts, at multiples of unit. */
static inline GemmRange gemm_part(int64_t n, int64_t parts, int64_t i, int64_t unit)
{
    int64_t units = ceil_div(n, unit);
    return (GemmRange){ int_min(units * i / parts * unit, n),
                        int_min(units * (i + 1) / parts * unit, n) };
}

/* The largest of these parts. */
static inline int64_t gemm_ceil_part(int64_t n, int64_t parts, int64_t unit)
{
    return int_min(ceil_div(ceil_div(n, unit), parts) * unit, n);
}

/* The size of the blocks that divide n evenly, about `max` at most, a multiple of unit. */
static inline int64_t gemm_even(int64_t n, int64_t max, int64_t unit)
{
    int64_t blocks = int_max(ceil_div(n, max), 1);
    return int_max(align_up(ceil_div(n, blocks), unit), unit);
}

/* Chooses the parts by the plan's shape and its cycles per product and per packed element. */
void gemm_plan_parts(GemmPlan *plan);

/* Sets the byte counts from blocks and parts; rows: of partial sums. */
void gemm_plan_workspace(GemmPlan *plan, int64_t rows);

/* Rows m by columns n of the product, over all of k, in blocks; whole tiles are written. */
void gemm_block_amx(const GemmPlan *p, const GemmSide *a, const GemmSide *b, const GemmSums *s,
                    GemmRange m, GemmRange n, GemmRange k, float *a_panels, float *b_panels,
                    bool b_packed);

#endif
