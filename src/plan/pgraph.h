/* pgraph.h -- a graph as the planner sees it: bytes, costs, producers and readers.
 *
 * The planner knows no operators. A PGraph comes from graph.json (`plimsoll-graph-1`, see
 * docs/user/FORMATS.md) or from an operator graph (plan/from_graph.c). Ids are indices into the
 * arrays.
 *
 * The memory rule, the same for both:
 *   - a value becomes live when a run outputs it and remains live until an explicit drop;
 *   - a run that outputs a value that is still live rewrites it at no extra bytes;
 *   - every input of a run must be live; persistent values are always live and never dropped;
 *   - the live bytes at a run are those of all live values, outputs included, plus the workspace;
 *   - `inplace` (output, input): the output takes over all bytes of the input, even if it is
 *     smaller; the input and its views are dead afterwards. Taking over a persistent input costs
 *     nothing, and the bytes stay where they are;
 *   - a view has no bytes of its own and keeps its root alive;
 *   - a value that several nodes output has versions. A run must read the versions that it reads in
 *     the input order: a node that reads a parameter before its update does so in every plan;
 *   - a node marked `once` runs exactly once;
 *   - a host-resident value lives in a host slot of its own before and after the steps. It is
 *     loaded before it is read and saved after it was written;
 *   - a gathered value is loaded from the ranks of a run before it is read. No node writes it, it has
 *     no slot, and its load is a transfer between ranks;
 *   - a transfer between ranks is started by one node and waited for by another, `joins`, which
 *     reads some of the first one's outputs, and perhaps inputs of it. These are under way in
 *     between: those outputs are neither read nor written nor dropped, those inputs neither written
 *     nor dropped.
 */
#ifndef PLAN_PGRAPH_H
#define PLAN_PGRAPH_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct PValue {
    const char *name;   /* its id in graph.json */
    bool        number; /* its id in the file is a whole number, not a text */
    int64_t     bytes;
    int32_t     view_of;  /* root value (never itself a view), or -1 */
    int32_t     producer; /* the first node that outputs it; -1: none, it is persistent */
    bool        persistent;
    bool        host_resident; /* lives on the host; never persistent, never a view */
    bool        gathered;      /* lives in parts on the ranks of a run; likewise */
    bool        final;         /* must be live at the end */
    double      wire, stall; /* of a gathered value's load: beside the runs, and as its wait ends */
} PValue;

typedef struct PNode {
    const char *name;
    bool        number;    /* as for a value */
    double      cost;      /* engine: nanoseconds */
    int64_t     workspace; /* bytes, while it runs */
    int32_t    *in, *out;  /* value ids */
    int32_t     n_in, n_out;
    int32_t (*inplace)[2]; /* pairs (output, input) */
    int32_t n_inplace;
    bool    once;
    double  wire;  /* cost of the transfer that it starts, which takes time beside the runs */
    int32_t joins; /* TRANSFER_OF(node): waits for that node's transfer; 0: for none */
} PNode;

#define TRANSFER_OF(node)    ((node) + 1)
#define TRANSFER_NODE(joins) ((joins)-1)

typedef struct PGraph {
    PValue *values;
    PNode  *nodes; /* in input order, in which they can run */
    int32_t n_values, n_nodes;
    int64_t align;              /* of offsets, for layout; 1 for bare graphs */
    int64_t base_peak_bytes;    /* as given in the file, or 0 */
    double  to_host, to_device; /* bytes per unit of cost; 0: copies take no time, and no solver
                                  * makes any */
} PGraph;

Err pgraph_read(Pool *pool, const char *path, PGraph **graph); /* strict: an error says what is
                                                                   * wrong */
Err pgraph_parse(Pool *pool, const char *name, const char *text, size_t n, PGraph **graph);
Err pgraph_check(const PGraph *graph); /* ids, order, producers, roots */
Err pgraph_write(const PGraph *graph, const char *path);

/* Is it elsewhere before the steps, so that it is loaded for the nodes that use it? */
static inline bool pvalue_is_staged(const PValue *value)
{
    return value->host_resident || value->gathered;
}

int32_t  pgraph_root(const PGraph *graph, int32_t value);      /* of a view; else the value */
int32_t  pgraph_taken_over(const PNode *node, int32_t output); /* by inplace: the input, or
                                                                    * -1 */
int64_t *pgraph_held_bytes(Pool *pool, const PGraph *graph);   /* [value] while live */
int64_t  pgraph_persistent_bytes(const PGraph *graph);
/* Bytes of a persistent value in the arena, padded to the alignment; 0: not persistent, or a
 * view. */
int64_t  pgraph_persistent_room(const PGraph *graph, int32_t value);
/* Call after adding a node: the node becomes the producer of outputs that have none yet. It is
 * marked `once` if it writes a persistent value or one of its own inputs. */
void     pgraph_link_node(PGraph *graph, int32_t node);
double   pgraph_base_cost(const PGraph *graph); /* each node once */

#endif
