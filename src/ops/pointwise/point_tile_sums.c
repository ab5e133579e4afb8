/* point_tile_sums.c -- rows of a tile added to sums, or to the largest and smallest values.
 *
 * A row is summed in fp32, in fixed lanes; rows and tiles are summed in double.
 */
#include "ops/pointwise/point_tile.h"

#include <math.h>

static double row_sum(const float *x, int64_t n)
{
    enum { LANES = 32 };
    float   lane[LANES] = { 0 };
    int64_t i = 0;
    if (n < LANES) {
        for (; i < n; i++)
            lane[0] += x[i];
        return (double)lane[0];
    }
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i];
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

static inline float larger(float x, float y) { return x > y || x != x ? x : y; }
static inline float smaller(float x, float y) { return x < y || x != x ? x : y; }

static float row_extreme(const float *x, int64_t n, bool max)
{
    enum { LANES = 16 };
    float   lane[LANES];
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = max ? -INFINITY : INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = max ? larger(x[i + j], lane[j]) : smaller(x[i + j], lane[j]);
    for (int j = 0; i < n; i++, j++)
        lane[j] = max ? larger(x[i], lane[j]) : smaller(x[i], lane[j]);
    for (int j = 1; j < LANES; j++)
        lane[0] = max ? larger(lane[j], lane[0]) : smaller(lane[j], lane[0]);
    return lane[0];
}

void sum_join(Sum *to, Sum x, PointReduce how, bool integer)
{
    if (integer)
        to->i = how == POINT_SUM    ? to->i + x.i
                : how == POINT_AMAX ? (x.i > to->i ? x.i : to->i)
                                    : (x.i < to->i ? x.i : to->i);
    else if (how == POINT_SUM)
        to->f += x.f;
    else if (x.f != x.f || (how == POINT_AMAX ? x.f > to->f : x.f < to->f))
        to->f = x.f;
}

Sum sum_start(PointReduce how, bool integer)
{
    Sum s;
    if (integer)
        s.i = how == POINT_SUM ? 0 : how == POINT_AMAX ? INT32_MIN : INT32_MAX;
    else
        s.f = how == POINT_SUM ? 0 : how == POINT_AMAX ? (double)-INFINITY : (double)INFINITY;
    return s;
}

/* A row that becomes one number. */
static void reduce_row(Sum *to, const void *row, int64_t n, PointReduce how, bool integer)
{
    Sum s = sum_start(how, integer);
    if (integer) {
        const int32_t *x = row;
        for (int64_t i = 0; i < n; i++)
            sum_join(&s, (Sum){ .i = x[i] }, how, true);
    } else if (how == POINT_SUM)
        s.f = row_sum(row, n);
    else
        s.f = (double)row_extreme(row, n, how == POINT_AMAX);
    sum_join(to, s, how, integer);
}

/* `rows` rows of n that become one: column by column, in fp32 over the rows of a tile. */
static void reduce_columns(Sum *to, const void *row, int64_t rows, int64_t n, PointReduce how,
                           bool integer)
{
    enum { BLOCK = 64 };
    const float   *x = row;
    const int32_t *xi = row;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        float   sum[BLOCK];
        if (integer || how != POINT_SUM) {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = at; i < at + m; i++)
                    sum_join(&to[i],
                             integer ? (Sum){ .i = xi[r * n + i] }
                                     : (Sum){ .f = (double)x[r * n + i] },
                             how, integer);
            continue;
        }
        for (int64_t i = 0; i < m; i++)
            sum[i] = x[at + i];
        for (int64_t r = 1; r < rows; r++)
            for (int64_t i = 0; i < m; i++)
                sum[i] += x[r * n + at + i];
        for (int64_t i = 0; i < m; i++)
            to[at + i].f += (double)sum[i];
    }
}

void box_reduce(const TilePlan *t, const int64_t *n, const int64_t *stride, PointReduce how,
                bool integer, int a, Sum *to, const uint32_t *row)
{
    int64_t run = 1, inner = 1; /* inner: without axis a */
    bool    gone = true, kept = true;
    for (int b = t->rank - 1; b >= a; b--) {
        gone &= n[b] == 1 || stride[b] == 0;
        if (b > a)
            kept &= n[b] == 1 || stride[b] == inner;
        if (b > a)
            inner *= n[b];
        run *= n[b];
    }
    if (gone)
        reduce_row(to, row, run, how, integer);
    else if (kept && stride[a] == 0)
        reduce_columns(to, row, n[a], inner, how, integer);
    else if (kept && (n[a] == 1 || stride[a] == inner))
        reduce_columns(to, row, 1, run, how, integer);
    else
        for (int64_t k = 0; k < n[a]; k++)
            box_reduce(t, n, stride, how, integer, a + 1, to + k * stride[a], row + k * inner);
}
