/* shape.h -- the extent of a tensor, passed by value. Axes are counted from the front, or from the
 * back with negative numbers: dim(s, -1) is the channel count of a channels-last tensor. */
#ifndef IR_SHAPE_H
#define IR_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_RANK = 6 };

typedef struct Shape {
    int     rank;
    int64_t dim[MAX_RANK];
} Shape;

#define SHAPE(...)                                                                                 \
    shape_of((int64_t[]){ __VA_ARGS__ },                                                           \
             (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

Shape       shape_of(const int64_t *dims, int rank);
int64_t     dim(Shape shape, int axis);
int64_t     shape_count(Shape shape); /* number of elements; 1 for rank 0 */
int64_t     shape_rows(Shape shape);  /* product of all axes but the last */
bool        shape_same(Shape a, Shape b);
bool        shape_filled(Shape shape); /* every axis is 1 or more */
/* false: the number of bytes overflows int64_t */
bool        shape_bytes(Shape shape, int64_t element_bytes, int64_t *bytes);
Shape       shape_with(Shape shape, int axis, int64_t extent); /* one axis changed */
Shape       shape_drop(Shape shape, int axis);                 /* one axis removed */
const char *shape_text(Shape shape); /* "(2,64,64,3)"; one of 8 buffers per thread */

#endif
