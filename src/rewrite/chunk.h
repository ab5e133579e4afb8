/* chunk.h -- a forward graph whose largest sections run in chunks: sample by sample, or the rows
 * before the loss a few at a time.
 *
 *   graph, loss  ->  a graph with the same results (sums are added in another order)
 *
 * Every operator says how it can be chunked (OpDef.chunk). A section is a set of nodes that can be
 * chunked and are connected without passing a node that cannot (batch norm, random numbers). It
 * runs once for every chunk:
 *
 *   x (whole) --part 0--> conv --> norm --> ... --put--> y (whole)       part: a view, no bytes
 *             --part 1--> conv --> norm --> ... --put-->                 put: in place
 *
 * Backward comes from autodiff: gradients of parameters are summed by explicit `add` nodes in the
 * order of the chunks. Where a section ends in the loss, the backward pass of a chunk does not
 * depend on the other chunks: graph_order_chunks then lets each chunk run forward and backward
 * before the next begins. */
#ifndef REWRITE_CHUNK_H
#define REWRITE_CHUNK_H

#include "ir/chunk_rule.h"

typedef struct ChunkSpec { /* at most one of the two is above 1 */
    int64_t sample_chunks; /* of every section that saves enough memory */
    int64_t loss_chunks;   /* of the rows before the loss alone */
} ChunkSpec;

/* *out and *loss: the graph in chunks, in the same pool. *chunked: how many of its nodes run in
 * chunks; 0: *out is the given graph. */
Err graph_chunk(Graph *graph, const ChunkSpec *spec, Graph **out, Tensor *loss, int32_t *chunked);

/* After autodiff: orders the nodes so that one chunk is finished after another. Does nothing where
 * there are no chunks. */
void graph_order_chunks(Graph *graph);

#endif
