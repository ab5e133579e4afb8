/* shard.h -- the update of one rank's shard of a bucket, and the norm of gradients that are
 * divided among ranks. */
#ifndef OPS_RANKS_SHARD_H
#define OPS_RANKS_SHARD_H

#include "ops/optimizer/optim.h"

typedef struct ShardUpdateAttr {
    const Bucket     *bucket;
    const UpdateAttr *update; /* per parameter of the bucket */
    bool              sgd;
} ShardUpdateAttr;

/* Adam or SGD with EMA over this rank's shard: the new parameters, in the bucket's type, or in place
 * if the bucket's parameters are divided. State is that of the bucket; without master copies the
 * parameters themselves are read. */
Tensor shard_update(const ShardUpdateAttr *attr, Tensor progress, Tensor rates);

/* The norm of all gradients, as grad_norm computes it from whole ones. */
typedef struct ShardNormAttr {
    Bucket **buckets;
    int32_t  n_buckets;
    int32_t  n_blocks, max_blocks; /* of all parameters; of one rank at most */
    int32_t *order; /* per block in the order of parameters: rank * max_blocks + its place there */
} ShardNormAttr;

Tensor shard_norm(Graph *graph);

/* The elements of parameter i of a bucket that lie in the shard of `rank`; false: none. */
bool    shard_range(const Bucket *b, int rank, int i, int64_t count, int64_t *from, int64_t *to);
/* What shard_update does with parameter i; returns how many elements, 0: none. */
int64_t shard_span(const Call *call, int rank, int i, UpdateSpan *span);

/* For a norm whose kernel sums parts smaller than a block: where the sums of all parts, as the ranks
 * gather them, go in the order of one process. */
typedef struct SumsRun {
    int32_t from, to, n;
} SumsRun;

/* At most one run for each block. `part` divides BLOCK_ELEMENTS; *n_parts: of all parameters. */
SumsRun *shard_norm_runs(Pool *pool, const Node *n, int64_t part, int32_t *n_runs,
                         int64_t *n_parts);

Err shard_update_cpu(const Call *call);
Err shard_norm_choose_cpu(const Node *n, const Device *device, Choice *choice);
Err shard_norm_cpu(const Call *call);

#endif
