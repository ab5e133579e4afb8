/* node_time.h -- how long one run of a node takes on a device: its profile's word, or a plain roofline. */
#ifndef PLAN_NODE_TIME_H
#define PLAN_NODE_TIME_H

#include "device/profile.h"
#include "ir/op.h"

/* What a profile files the node's time under: operator, shapes, types, attributes, chosen algorithm. Nodes
 * with equal keys do equal work. ns is left 0. */
OpTime node_call(const Node *node, const Choice *choice);

double node_time(const Device *device, const Node *node, const Choice *choice, TimeBasis *basis);

#endif
