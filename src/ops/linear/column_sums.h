/* column_sums.h -- partial column sums of a gradient, made by the kernel that writes it.
 *
 * The gradient of a bias is dy summed over all rows. Where the node that produces dy can
 * (OpDef.partial_sums), it also writes the column sums of blocks of rows, and bias_grad adds these
 * few partial sums instead of reading all of dy again. The blocks depend on the shape alone. */
#ifndef OPS_LINEAR_COLUMN_SUMS_H
#define OPS_LINEAR_COLUMN_SUMS_H

#include "base/int_math.h"
#include "ir/op.h"

/* At most COL_SUMS_MAX partial sums, so that bias_grad adds them in one launch on a GPU. With fewer
 * rows or narrower rows than this, reading dy again is cheap. */
enum { COL_SUMS_MAX = 128, COL_SUMS_MIN_ROWS = 1024, COL_SUMS_MIN_WIDTH = 32 };

/* Rows per partial sum: a multiple of 8, at least 32. */
static inline int64_t col_sums_rows(int64_t rows)
{
    int64_t each = ceil_div(rows, COL_SUMS_MAX);
    return each < 32 ? 32 : align_up(each, 8);
}

/* Partial sums of x; 0: not worth it. */
static inline int64_t col_sums_count(Shape x)
{
    int64_t rows = shape_rows(x), each = col_sums_rows(rows);
    return rows < COL_SUMS_MIN_ROWS || dim(x, -1) < COL_SUMS_MIN_WIDTH ? 0 : ceil_div(rows, each);
}

/* One partial sum on the CPU: sums[width] over `rows` rows of x from row `first` on. */
void col_sums_of_rows(Type type, const void *x, int64_t first, int64_t rows, int64_t width,
                      float *sums);

#endif
