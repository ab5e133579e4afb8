/* exchange.h -- moving gradients, state and parameters between the ranks of a run.
 *
 * A transfer is two nodes: `exchange` or `gather` starts it, and a node that reads its result
 * (`fold`, `landed`, `put`) waits for it. What the first reads, the second reads too where it must
 * not change in between. Every rank runs the same nodes in the same order.
 */
#ifndef OPS_RANKS_EXCHANGE_H
#define OPS_RANKS_EXCHANGE_H

#include "ir/op.h"

/* Transfers of nodes under way at once; comm has one more slot for checkpoints and for records of a
 * GPU, and the rest for gathered values. */
enum { RANK_SLOTS = 15, RANK_SLOT_FILES = RANK_SLOTS, RANK_SLOT_GATHERS };

typedef struct RankAttr {
    const Bucket *bucket;
    int           slot;
} RankAttr;

/* Packs the gradients (in the bucket's order) and starts the exchange. `after`: none, or a value
 * that was written after the transfer before in this slot. */
typedef struct Exchanged {
    Tensor packed, received;
} Exchanged;

Exchanged exchange(const Bucket *bucket, int slot, const Tensor *grads, Tensor after);
/* sum (this rank's shard) = the gradients of this round in the order of ranks, added to it unless
 * this is the first round */
Tensor    fold(const Bucket *bucket, int slot, Tensor sum, Exchanged from, Tensor counters);

/* Starts gathering all shards of the bucket. Nothing but `landed` and `put` may read the result. */
Tensor gather_shards(const Bucket *bucket, int slot, Tensor shard, Tensor after);
Tensor landed(const Bucket *bucket, int slot, Tensor gathered);
/* The parameters become what was gathered, in the bucket's type. */
void   put_params(const Bucket *bucket, int slot, Tensor gathered);
/* A tensor of that shape from element `first` of a landed bucket or of gathered rounds. */
Tensor flat_view(Tensor flat, int64_t first, Shape shape);

/* Bytes and parts of the largest transfer that the node takes part in; 0: it is none. */
typedef struct Transfer {
    int64_t bytes;
    int     parts;
} Transfer;

Transfer node_transfer(const Node *node);
int64_t  bucket_transfer_bytes(const Bucket *bucket); /* of gathering its parameters */

Err exchange_cpu(const Call *call);
Err fold_cpu(const Call *call);
Err gather_shards_cpu(const Call *call);
Err landed_cpu(const Call *call);
Err put_params_cpu(const Call *call);

#endif
