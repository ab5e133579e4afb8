/* chunk.h -- a forward graph done in lots: regions image by image, or the rows before the loss in
 * chunks.
 *
 *   graph, loss  ->  a graph of the same numbers (sums are added in another order)
 *
 * An operator can be cut where the part of its output that lies in one n-th of the bytes depends
 * only on the same n-th of some inputs and on the others whole: rewrite/chunk_rules.c says which.
 * Nodes that can be cut form regions: everything that can be reached without passing a node that
 * cannot (batch norm, random numbers). A region runs once for every lot:
 *
 *   x (whole) --part 0--> conv --> norm --> ... --put--> y (whole)       part: a view, no bytes
 *             --part 1--> conv --> norm --> ... --put-->                 put: in place
 *
 * Backward comes from autodiff: gradients of parameters are summed by explicit `add` nodes in the
 * order of lots. Where a region ends in the loss, the backward pass of a lot needs nothing of the
 * other lots: graph_order_chunks then lets each lot run forward and backward before the next
 * begins. */
#ifndef REWRITE_CHUNK_H
#define REWRITE_CHUNK_H

#include "ir/op.h"

typedef struct CutSpec {
    int64_t samples;             /* lots of every region that is worth it; up to 1: none */
    int64_t chunks;  /* lots of the rows before the loss alone; up to 1: none. One of the two */
} CutSpec;

/* *out and *loss: the graph in lots, in the same pool. *cut: how many of its nodes were cut; 0:
 * *out is the graph that was given. */
Err graph_cut(Graph *graph, const CutSpec *spec, Graph **out, Tensor *loss, int32_t *cut);

/* After autodiff: the nodes in an order that finishes lot after lot. Nothing changes where there
 * are none. */
void graph_order_chunks(Graph *graph);

/* For graph_cut: how a node is cut into so many lots. */
typedef struct CutRule {
    uint32_t inputs;             /* bit i: input i is cut, else it is given whole */
    void    *attr;               /* of one lot's node; in the pool */
    bool     sums;               /* a loss: output 0 is the sum over lots */
} CutRule;

enum { CUT_MAX_INPUTS = 32 };

int  cut_axis(Shape s); /* the first axis longer than one: its ranges are runs of bytes; -1: none */
bool cut_rule(Pool *pool, const Node *n, int64_t lots, bool rows_only, CutRule *rule);

#endif
