/* source.h -- samples by number, written where the trainer says.
 *
 * A source knows how many samples it has and how to write any of them into a batch; it keeps no
 * position. The order of an epoch is a fixed permutation of (seed, epoch), so the place in the data is
 * a single number: samples drawn so far. Buffers belong to the trainer and are taken before step 1.
 */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/err.h"
#include "base/pool.h"
#include "device/type.h"
#include "ir/shape.h"

typedef struct DataSource DataSource;
struct DataSource {
    const char *name;
    int64_t     n_samples;
    /* Writes sample `id` as row `row` of the batch buffer of the input called `feed`. */
    Err (*load)(const DataSource *source, const char *feed, Type type, Shape batch_shape, int64_t id, int64_t row,
                void *buffer);
    uint64_t    seed;
    void       *own;
};

/* The sample at place `drawn` (0, 1, 2, ...) of a run: each epoch is a permutation of all samples. */
int64_t source_order(const DataSource *source, uint64_t seed, int64_t drawn);

/* Drawn pictures: discs, boxes and stripes on a gradient, in [-1, 1]; input "x" (B,H,W,C). */
Err source_shapes(Pool *pool, int64_t n_samples, uint64_t seed, DataSource **source);

#endif
