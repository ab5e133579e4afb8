/* column_sums.h -- sums of the columns of a gradient, made by the kernel that writes it.
 *
 * The gradient of a bias is dy summed over all rows. Where the node that makes dy can
 * (OpDef.lines), it gives the sums of runs of rows beside it, and bias_grad adds these few lines
 * instead of reading all of dy again. Where the lines are cut depends on the shape alone. */
#ifndef OPS_LINEAR_COLUMN_SUMS_H
#define OPS_LINEAR_COLUMN_SUMS_H

#include "ir/op.h"

/* MOST: lines, so many that bias_grad adds in one launch on a GPU. Below LEAST rows, or where they
 * are narrow, reading dy again is cheap. */
enum { LINES_MAX = 128, LINES_MIN = 1024, LINES_NARROW = 32 };

static inline int64_t lines_each(int64_t rows)   /* rows of a line: eights, at least 32 */
{
    int64_t each = (rows + LINES_MAX - 1) / LINES_MAX;
    return each < 32 ? 32 : (each + 7) / 8 * 8;
}

static inline int64_t partial_sums_of(Shape x)          /* lines of x; 0: not worth it */
{
    int64_t rows = shape_rows(x), each = lines_each(rows);
    return rows < LINES_MIN || dim(x, -1) < LINES_NARROW ? 0 : (rows + each - 1) / each;
}

/* One line on the CPU: `rows` rows from row `first` of x on. */
void line_sum(Type type, const void *x, int64_t first, int64_t rows, int64_t width, float *line);

#endif
