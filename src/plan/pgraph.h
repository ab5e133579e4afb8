/* pgraph.h -- what the planner sees of a graph: bytes, costs and who reads whom.
 *
 * The planner knows no operators. A PGraph comes from graph.json (`plimsoll-graph-1`, see
 * docs/FORMATS.md) or from the engine (plan/from_graph.c). Ids are indices into the arrays.
 *
 * The memory rule (the same for bare graphs and the engine):
 *   - a value becomes live when a run outputs it and stays live until an explicit drop;
 *   - a run that outputs a value still live rewrites it at no extra bytes;
 *   - every input of a run must be live; persistent values are live throughout, never dropped;
 *   - at a run the live bytes are: all live values, outputs included, plus the node's workspace;
 *   - `inplace` (output, input): the output takes over the input's bytes (all of them, also when
 *     it is smaller), the input and its views are dead after; taking over a persistent input
 *     costs nothing and the bytes stay where they are;
 *   - a view has 0 bytes of its own and keeps its root alive;
 *   - a value output by several nodes has versions: a run must read the versions that it reads in
 *     the input order, so whoever reads a parameter before its update does so in every plan;
 *   - a node marked once runs exactly once;
 *   - a host-resident value lies on the host before and after the steps, in a slot that is always its own:
 *     it is loaded before it is read and saved after it was written.
 */
#ifndef PLAN_PGRAPH_H
#define PLAN_PGRAPH_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct PValue {
    const char *name;        /* its id in graph.json */
    bool        number;      /* there it is a whole number, not a text */
    int64_t     bytes;
    int32_t     view_of;     /* root value (never itself a view), or -1 */
    int32_t     producer;       /* the first node that outputs it; -1: none, it is persistent */
    bool        persistent;
    bool        host_resident;      /* at home on the host; never persistent, never a view */
    bool        final;       /* must be live at the end */
} PValue;

typedef struct PNode {
    const char *name;
    bool        number;      /* as of a value */
    double      cost;        /* engine: nanoseconds */
    int64_t     workspace;   /* bytes of workspace during its run */
    int32_t    *in, *out;    /* value ids */
    int32_t     n_in, n_out;
    int32_t   (*inplace)[2]; /* pairs (output, input) */
    int32_t     n_inplace;
    bool        once;
} PNode;

typedef struct PGraph {
    PValue *values;
    PNode  *nodes;           /* in input order, which is a valid order */
    int32_t n_values, n_nodes;
    int64_t align;           /* of offsets, for layout; 1 for bare graphs */
    int64_t base_peak_bytes; /* given in the file, or 0 */
    double  to_host, to_device;  /* bytes copied per unit of cost; 0: copies take no time, and no
                                  * solver makes any */
} PGraph;

Err  pgraph_read(Pool *pool, const char *path, PGraph **graph);   /* strict; says what is wrong */
Err  pgraph_check(const PGraph *graph);                           /* ids, order, producers, roots */
Err  pgraph_write(const PGraph *graph, const char *path);

int32_t  pgraph_root(const PGraph *graph, int32_t value);          /* of a view; else the value */
int32_t  pgraph_taken_over(const PNode *node, int32_t output);     /* inplace input, or -1 */
int64_t *pgraph_held_bytes(Pool *pool, const PGraph *graph);       /* [value] bytes while live */
int64_t  pgraph_persistent_bytes(const PGraph *graph);
/* In an arena, up to the next offset; 0: not persistent, or a view. */
int64_t  pgraph_persistent_room(const PGraph *graph, int32_t value);
/* A node that was added: it makes its outputs that nobody made before, and runs once where it
 * writes what is persistent or read by itself. */
void     pgraph_link_node(PGraph *graph, int32_t node);
double   pgraph_base_cost(const PGraph *graph);                    /* every node once */

#endif
