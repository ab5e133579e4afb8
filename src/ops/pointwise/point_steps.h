/* point_steps.h -- one function per operation of a pointwise program, over rows of registers. */
#ifndef OPS_POINTWISE_POINT_STEPS_H
#define OPS_POINTWISE_POINT_STEPS_H

#include "ops/pointwise/pointwise.h"

/* d[i] = f(a[i], b[i], c[i]); registers hold floats or int32. d may be a, b or c. */
typedef void PointFn(int64_t n, void *d, const void *a, const void *b, const void *c);

/* Operands that are one number for all points: bit 0 for a, 1 for b, 2 for c. A unary operation has
 * none; a binary one at most one; SELECT b, c or both. integer: of the operands (SELECT: of b). */
PointFn *point_fn(PointOp op, bool integer, unsigned numbers);

#endif
