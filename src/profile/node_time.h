/* node_time.h -- the predicted time of one run of a node on a device: by its profile, or by a
 * generic roofline. */
#ifndef PROFILE_NODE_TIME_H
#define PROFILE_NODE_TIME_H

#include "profile/profile.h"
#include "ir/op.h"

/* Identifies a model by its parameters: the same for every batch, plan and budget. */
uint64_t graph_identity(const Graph *graph);

/* The key of the node's time in a profile: operator, shapes, types, work, chosen algorithm. Nodes
 * with equal keys do equal work. ns is left 0. */
OpTime node_call(const Device *device, const Node *node, const Choice *choice, uint64_t graph);

double node_time(const Device *device, const Node *node, const Choice *choice, uint64_t graph,
                 TimeBasis *basis);

/* By what its time is scaled where it is shown (profile/pace.h); 1 with a measured profile, and without any. */
double node_pace(const Device *device, const Node *node);

/* What a node moves between the ranks of device->ranks, in ns. */
typedef struct NodeWire {
    double transfer; /* of the transfer that it starts, while kernels run */
    double waits;    /* of what kernels do not run beside: its records, and the rest of the transfer
                      * that it waits for */
} NodeWire;

NodeWire node_wire(const Device *device, const Node *node);
NodeWire gather_wire(const Device *device, const Value *whole); /* of loading a gathered value */

/* The generic roofline, for a device without a profile. */
double plain_ns(const Device *device, double flops, double bytes);

#endif
