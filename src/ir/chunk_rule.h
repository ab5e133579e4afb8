/* chunk_rule.h -- how a node runs chunk by chunk, from its operator's ChunkDef. */
#ifndef IR_CHUNK_RULE_H
#define IR_CHUNK_RULE_H

#include "ir/op.h"

typedef struct ChunkRule {
    uint32_t inputs; /* INPUT(i): input i is sliced, else it is given whole */
    void    *attr;   /* of one chunk's node; in the pool */
    bool     sums;   /* a loss: output 0 is the sum over chunks */
} ChunkRule;

/* rows_only: for the rows before the loss, where operators that need whole samples do not pay.
 * False: the node cannot be chunked. */
bool chunk_rule(Pool *pool, const Node *n, int64_t chunks, bool rows_only, ChunkRule *rule);

#endif
