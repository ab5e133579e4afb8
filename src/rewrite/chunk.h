/* chunk.h -- a forward graph whose widest sections run in chunks: sample by sample, or the rows before
 * the loss a few at a time.
 *
 *   graph, loss  ->  a graph of the same numbers (sums are added in another order)
 *
 * Every operator says how it can be chunked (OpDef.chunk). Nodes that can form sections: everything
 * that is reached without passing a node that cannot (batch norm, random numbers). A section runs
 * once for every chunk:
 *
 *   x (whole) --part 0--> conv --> norm --> ... --put--> y (whole)       part: a view, no bytes
 *             --part 1--> conv --> norm --> ... --put-->                 put: in place
 *
 * Backward comes from autodiff: gradients of parameters are summed by explicit `add` nodes in the
 * order of the chunks. Where a section ends in the loss, the backward pass of a chunk needs nothing
 * of the other chunks: graph_order_chunks then lets each run forward and backward before the next
 * begins. */
#ifndef REWRITE_CHUNK_H
#define REWRITE_CHUNK_H

#include "ir/op.h"

typedef struct ChunkSpec {       /* at most one of the two is above 1 */
    int64_t sample_chunks;       /* of every section that is worth it */
    int64_t loss_chunks;         /* of the rows before the loss alone */
} ChunkSpec;

/* *out and *loss: the graph in chunks, in the same pool. *chunked: how many of its nodes are; 0:
 * *out is the graph that was given. */
Err graph_chunk(Graph *graph, const ChunkSpec *spec, Graph **out, Tensor *loss, int32_t *chunked);

/* After autodiff: the nodes in an order that finishes one chunk after another. Nothing changes where
 * there are none. */
void graph_order_chunks(Graph *graph);

/* How a node is chunked. */
typedef struct ChunkRule {
    uint32_t inputs;             /* INPUT(i): input i is sliced, else it is given whole */
    void    *attr;               /* of one chunk's node; in the pool */
    bool     sums;               /* a loss: output 0 is the sum over chunks */
} ChunkRule;

/* rows_only: for the rows before the loss, where whole samples are not worth it. False: the node
 * cannot be chunked. */
bool chunk_rule(Pool *pool, const Node *n, int64_t chunks, bool rows_only, ChunkRule *rule);

#endif
