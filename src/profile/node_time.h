/* node_time.h -- how long one run of a node takes on a device: its profile's word, or a plain
 * roofline. */
#ifndef PROFILE_NODE_TIME_H
#define PROFILE_NODE_TIME_H

#include "profile/profile.h"
#include "ir/op.h"

/* Which model this is: its parameters. The same for every batch, plan and budget. */
uint64_t graph_identity(const Graph *graph);

/* What a profile files the node's time under: operator, shapes, types, work, chosen algorithm.
 * Nodes with equal keys do equal work. ns is left 0. */
OpTime node_call(const Device *device, const Node *node, const Choice *choice, uint64_t graph);

double node_time(const Device *device, const Node *node, const Choice *choice, uint64_t graph,
                 TimeBasis *basis);

#endif
