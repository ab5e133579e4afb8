/* rounds.h -- small results of every micro-batch (its loss, batch-norm statistics), stored until the
 * update and read back there in the order of micro-batches.
 *
 * A rank stores `rounds` rows of `width` floats. round_gather makes [ranks][rounds][width] of them;
 * round_at says where a micro-batch's floats are among these.
 */
#ifndef OPS_RANKS_ROUNDS_H
#define OPS_RANKS_ROUNDS_H

#include "ir/op.h"

typedef struct RoundAttr {
    int64_t ranks, rounds, width;
    int64_t place; /* in a row */
} RoundAttr;

int64_t round_at(const RoundAttr *attr, int64_t micro);

/* x's floats become those at attr.place of this round's row. */
Tensor round_store(Tensor store, Tensor x, Tensor counters, RoundAttr attr);
Tensor round_gather(Tensor store, RoundAttr attr);
/* sum = the floats at attr.place of all micro-batches, added one after another. */
void   round_sum(Tensor sum, Tensor gathered, RoundAttr attr);

Err round_store_cpu(const Call *call);
Err round_gather_cpu(const Call *call);
Err round_sum_cpu(const Call *call);

#endif
