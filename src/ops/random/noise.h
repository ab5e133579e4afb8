/* noise.h -- random numbers as nodes: normal, uniform, integer; and dropout.
 *
 * A number is a pure function of (seed, step, stream, element) (base/random.h), so recomputing a
 * node gives the same bits and dropout keeps no mask. The counters tensor (ops/optimizer/optim.h,
 * COUNTER_*) says which step and micro-batch this is. Elements are numbered across the
 * micro-batches of a step, so splitting a batch into micro-batches along its first axis draws the
 * same numbers.
 */
#ifndef OPS_RANDOM_NOISE_H
#define OPS_RANDOM_NOISE_H

#include "ir/op.h"

typedef struct NoiseAttr {
    uint32_t stream; /* which use of random numbers this is */
    uint32_t below;  /* random_ints: 0 .. below - 1 */
    float    rate;   /* dropout: share that is zeroed */
    Shape    shape;
    Type     type;
} NoiseAttr;

Tensor random_normal(Tensor counters, uint32_t stream, Type type, Shape shape);
Tensor random_uniform(Tensor counters, uint32_t stream, Type type, Shape shape); /* (0,1) */
/* I32, 0 .. below - 1 */
Tensor random_ints(Tensor counters, uint32_t stream, int32_t below, Shape shape);
/* what is kept is multiplied by 1 / (1 - rate) */
Tensor dropout(Tensor x, Tensor counters, uint32_t stream, float rate);
/* zeroes whole samples; the others are unchanged */
Tensor drop_samples(Tensor x, Tensor counters, uint32_t stream, float rate);

Err random_normal_cpu(const Call *call);
Err random_uniform_cpu(const Call *call);
Err random_ints_cpu(const Call *call);
Err dropout_cpu(const Call *call);
Err drop_samples_cpu(const Call *call);

#endif
