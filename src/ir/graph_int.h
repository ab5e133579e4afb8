/* graph_int.h -- between graph.c and rule.c. */
#ifndef IR_GRAPH_INT_H
#define IR_GRAPH_INT_H

#include "ir/graph.h"

/* A value of the current module and line; producer: its node, or -1: persistent. More bytes than can
 * be counted poison the graph. */
int32_t value_new(Graph *graph, const char *name, Type type, Shape shape, Class mem_class,
                  int32_t producer);

#endif
