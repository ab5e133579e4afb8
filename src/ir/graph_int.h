/* graph_int.h -- shared by graph.c and rule.c only. */
#ifndef IR_GRAPH_INT_H
#define IR_GRAPH_INT_H

#include "ir/graph.h"

/* A value of the current module and line; producer: its node, or -1: persistent. A size that
 * overflows int64_t poisons the graph. */
int32_t value_new(Graph *graph, const char *name, Type type, Shape shape, Class mem_class,
                  int32_t producer);

#endif
