/* fuse.h -- a forward graph whose elementwise nodes run together.
 *
 *   x --add--> a --silu--> s --mul--> y        three pointwise nodes, a and s in memory
 *   x --pointwise [add, silu, mul]--> y        one
 *
 * A pointwise node joins the group of a producer that it reads point by point: both spaces have the
 * same points, and the operand is read in the order in which it was written. Values that nodes
 * outside still read become further results of the group. A reduced result has fewer points, so it
 * ends a group: chains of elementwise nodes with the sums or maxima of their results are one node.
 * The forward pass has the same bits as before, but for the order of sums: where a value was stored
 * in 16 bits, the group rounds it.
 *
 * What backward keeps does not grow: the gradient of a pointwise node reads a cheapest set of
 * values, and all those that the single nodes could read are inner values of the group.
 */
#ifndef REWRITE_FUSE_H
#define REWRITE_FUSE_H

#include "ir/op.h"

/* A group is smaller than a pointwise program may be: its gradient, which also reads the gradients
 * of its results and the values kept, must fit one too. */
enum { FUSE_INPUTS = 12, FUSE_STEPS = 96, FUSE_RESULTS = 4 };
/* Nodes from a group's first member to its last: values are computed near to where they were. */
enum { FUSE_SPAN = 64 };

/* *out and *loss: the graph with its pointwise nodes in groups, in the same pool. *fused: how many
 * nodes it has fewer; 0: *out is the given graph. */
Err graph_fuse(Graph *graph, Graph **out, Tensor *loss, int32_t *fused);

#endif
