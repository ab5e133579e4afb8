/* shape.c -- small arithmetic on extents. */
#include "ir/shape.h"

#include "base/err.h"

#include <stdio.h>

Shape shape_of(const int64_t *dims, int rank)
{
    REQUIRE(rank >= 0 && rank <= MAX_RANK);
    Shape shape = { .rank = rank };
    for (int i = 0; i < rank; i++)
        shape.dim[i] = dims[i];
    return shape;
}

int64_t dim(Shape shape, int axis)
{
    int at = axis < 0 ? axis + shape.rank : axis;
    REQUIRE(at >= 0 && at < shape.rank);
    return shape.dim[at];
}

/* Of the first axes; INT64_MAX: more than can be counted, which no tensor has. */
static int64_t shape_product(const Shape *shape, int axes)
{
    int64_t n = 1;
    for (int i = 0; i < axes; i++)
        if (__builtin_mul_overflow(n, shape->dim[i], &n))
            return INT64_MAX;
    return n;
}

int64_t shape_count(Shape shape) { return shape_product(&shape, shape.rank); }

int64_t shape_rows(Shape shape) { return shape_product(&shape, shape.rank - 1); }

bool shape_same(Shape a, Shape b)
{
    if (a.rank != b.rank)
        return false;
    for (int i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i])
            return false;
    return true;
}

bool shape_filled(Shape shape)
{
    for (int i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 1)
            return false;
    return true;
}

bool shape_bytes(Shape shape, int64_t element_bytes, int64_t *bytes)
{
    bool overflow = false;
    *bytes = element_bytes;
    for (int i = 0; i < shape.rank; i++)
        overflow |= __builtin_mul_overflow(*bytes, shape.dim[i], bytes);
    return !overflow;
}

Shape shape_with(Shape shape, int axis, int64_t extent)
{
    int at = axis < 0 ? axis + shape.rank : axis;
    REQUIRE(at >= 0 && at < shape.rank);
    shape.dim[at] = extent;
    return shape;
}

Shape shape_drop(Shape shape, int axis)
{
    int at = axis < 0 ? axis + shape.rank : axis;
    REQUIRE(at >= 0 && at < shape.rank);
    for (int i = at; i + 1 < shape.rank; i++)
        shape.dim[i] = shape.dim[i + 1];
    shape.rank--;
    return shape;
}

const char *shape_text(Shape shape)
{
    static _Thread_local char     slots[8][128];
    static _Thread_local unsigned next;
    char                         *slot = slots[next++ % 8];
    int                           n = snprintf(slot, 128, "(");
    for (int i = 0; i < shape.rank; i++)
        n += snprintf(slot + n, (size_t)(128 - n), "%s%lld", i ? "," : "", (long long)shape.dim[i]);
    snprintf(slot + n, (size_t)(128 - n), ")");
    return slot;
}
