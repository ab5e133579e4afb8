/* transfers.h -- the parts of each operator's transfer: the same for every device, since only
 * addresses are listed. */
#ifndef OPS_RANKS_TRANSFERS_H
#define OPS_RANKS_TRANSFERS_H

#include "comm/comm.h"
#include "ir/op.h"

Comm *call_comm(const Call *call);

int64_t shard_count(const Bucket *b, int rank); /* elements that this rank owns */
/* where the part of another rank lies among those received, in elements */
int64_t received_at(const Bucket *b, int me, int rank);

/* Kernel.prepare of exchange and gather_shards. */
Err exchange_prepare(Pool *pool, Call *call);
Err gather_prepare(Pool *pool, Call *call);
/* As comm_all, for records in the device's memory: `all` has room for those of all ranks. */
Err records_prepare(Pool *pool, Call *call, void *mine, int64_t bytes, void *all);
Err transfer_start(const Call *call); /* what was prepared */
Err transfer_join(const Call *call);  /* that of the node's slot */
Err records_move(const Call *call);   /* both at once */

#endif
