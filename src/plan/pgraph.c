/* pgraph.c -- can this graph be planned? Checks ids, sizes, producers, roots and the input order.
 *
 * Everything later relies on this: the input order can run as it stands, every value that is read
 * exists, and sums of bytes cannot overflow.
 */
#include "plan/pgraph.h"

#include "base/int_math.h"

#include <math.h>

#define PGRAPH_MAX_SUM   (INT64_MAX / 4)
#define PGRAPH_MAX_ALIGN ((int64_t)1 << 30)
#define PGRAPH_MAX_COST                                                                            \
    1e300 /* of all nodes together: a plan runs some of them more
                                              * than once */

int32_t pgraph_root(const PGraph *graph, int32_t value)
{
    int32_t root = graph->values[value].view_of;
    return root >= 0 ? root : value;
}

int32_t pgraph_taken_over(const PNode *node, int32_t output)
{
    for (int32_t i = 0; i < node->n_inplace; i++) {
        if (node->inplace[i][0] == output && node->inplace[i][1] != output)
            return node->inplace[i][1];
    }
    return -1;
}

int64_t *pgraph_held_bytes(Pool *pool, const PGraph *graph)
{
    int64_t *held = NEWN(pool, int64_t, graph->n_values);
    for (int32_t v = 0; v < graph->n_values; v++)
        held[v] = graph->values[v].view_of >= 0 ? 0 : graph->values[v].bytes;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const PNode *node = &graph->nodes[n];
        for (int32_t k = 0; k < node->n_out; k++) {
            int32_t input = pgraph_taken_over(node, node->out[k]);
            if (input < 0)
                continue;
            int32_t root = pgraph_root(graph, input);
            held[node->out[k]] = graph->values[root].persistent ? 0 : held[root];
        }
    }
    return held;
}

int64_t pgraph_persistent_bytes(const PGraph *graph)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const PValue *value = &graph->values[v];
        sum += value->persistent && value->view_of < 0 ? value->bytes : 0;
    }
    return sum;
}

int64_t pgraph_persistent_room(const PGraph *graph, int32_t value)
{
    const PValue *v = &graph->values[value];
    if (!v->persistent || v->view_of >= 0)
        return 0;
    return align_up(v->bytes, graph->align);
}

void pgraph_link_node(PGraph *graph, int32_t n)
{
    PNode *node = &graph->nodes[n];
    for (int32_t i = 0; i < node->n_out; i++) {
        PValue *value = &graph->values[node->out[i]];
        if (value->producer < 0)
            value->producer = n;
        node->once |= value->persistent;
        for (int32_t k = 0; k < node->n_in; k++)
            node->once |= node->in[k] == node->out[i];
    }
}

double pgraph_base_cost(const PGraph *graph)
{
    double cost = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        cost += graph->nodes[n].cost;
    return cost;
}

static double pgraph_wire(const PGraph *graph)
{
    double wire = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        wire += graph->nodes[n].wire;
    return wire;
}

static Err pgraph_check_gathered(const PValue *value)
{
    bool other = value->persistent || value->host_resident || value->view_of >= 0 || value->final;
    if (value->gathered && (other || value->producer >= 0))
        return fail(E_FORMAT,
                    "value %s: a gathered value cannot be persistent, host_resident, final, a view "
                    "or an output",
                    value->name);
    if (!(value->wire >= 0 && value->stall >= 0) ||
        (!value->gathered && value->wire + value->stall > 0))
        return fail(E_FORMAT,
                    "value %s: wire and stall must be 0 or more, and are for gathered "
                    "values",
                    value->name);
    return OK;
}

static Err pgraph_check_values(const PGraph *graph)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const PValue *value = &graph->values[v];
        if (value->bytes < 0)
            return fail(E_FORMAT, "value %s: bytes is %lld, must be 0 or more", value->name,
                        (long long)value->bytes);
        if (value->bytes > PGRAPH_MAX_SUM - sum)
            return fail(E_FORMAT, "value %s: the sizes add up to more than 2^61 bytes",
                        value->name);
        sum += value->bytes;
        if (value->producer < -1 || value->producer >= graph->n_nodes)
            return fail(E_FORMAT, "value %s: there is no node %d to produce it", value->name,
                        value->producer);
        if (value->producer < 0 && !value->persistent && !pvalue_is_staged(value))
            return fail(E_FORMAT, "value %s: no node produces it, so it must be persistent",
                        value->name);
        if (value->host_resident && (value->persistent || value->view_of >= 0 || value->final))
            return fail(E_FORMAT,
                        "value %s: a host_resident value cannot be persistent, final or a view",
                        value->name);
        TRY(pgraph_check_gathered(value));
        if (value->view_of < -1 || value->view_of >= graph->n_values || value->view_of == v)
            return fail(E_FORMAT, "value %s: view_of names no other value", value->name);
        if (value->view_of >= 0 && graph->values[value->view_of].view_of >= 0)
            return fail(E_FORMAT, "value %s: view_of must name a root, and %s is itself a view",
                        value->name, graph->values[value->view_of].name);
        if (value->view_of >= 0 && graph->values[value->view_of].gathered)
            return fail(E_FORMAT, "value %s: view_of cannot name %s, which is gathered",
                        value->name, graph->values[value->view_of].name);
    }
    return OK;
}

static bool pgraph_has(const int32_t *list, int32_t n, int32_t id)
{
    for (int32_t i = 0; i < n; i++) {
        if (list[i] == id)
            return true;
    }
    return false;
}

static Err pgraph_check_inplace(const PGraph *graph, const PNode *node)
{
    for (int32_t i = 0; i < node->n_inplace; i++) {
        int32_t out = node->inplace[i][0], in = node->inplace[i][1];
        if (!pgraph_has(node->out, node->n_out, out) || !pgraph_has(node->in, node->n_in, in))
            return fail(E_FORMAT,
                        "node %s: inplace must pair one of its outputs with one of its "
                        "inputs",
                        node->name);
        if (out == in)
            continue;
        const PValue *o = &graph->values[out], *v = &graph->values[pgraph_root(graph, in)];
        if (o->persistent || o->view_of >= 0)
            return fail(E_FORMAT,
                        "node %s: inplace output %s is persistent or a view, it has no "
                        "bytes to take over",
                        node->name, o->name);
        if (pvalue_is_staged(o) || pvalue_is_staged(v))
            return fail(E_FORMAT,
                        "node %s: inplace cannot take over %s, which is host_resident or gathered",
                        node->name, pvalue_is_staged(o) ? o->name : v->name);
        if (o->bytes > v->bytes)
            return fail(E_FORMAT,
                        "node %s: inplace output %s has %lld bytes, more than the %lld of "
                        "input %s",
                        node->name, o->name, (long long)o->bytes, (long long)v->bytes,
                        graph->values[in].name);
        if (in != out && pgraph_has(node->out, node->n_out, pgraph_root(graph, in)))
            return fail(E_FORMAT, "node %s: outputs %s, whose bytes %s takes over", node->name,
                        graph->values[pgraph_root(graph, in)].name, o->name);
        for (int32_t j = 0; j < node->n_out; j++) {
            if (graph->values[node->out[j]].view_of == pgraph_root(graph, in))
                return fail(E_FORMAT,
                            "node %s: output %s is a view of %s, whose bytes it takes over",
                            node->name, graph->values[node->out[j]].name, v->name);
        }
        for (int32_t j = 0; j < i; j++) {
            if (node->inplace[j][0] == out ||
                pgraph_root(graph, node->inplace[j][1]) == pgraph_root(graph, in))
                return fail(E_FORMAT, "node %s: two inplace pairs share %s or its bytes",
                            node->name, o->name);
        }
    }
    return OK;
}

/* A node that waits for a transfer reads some of what it brings, and is the only one to wait for
 * it. joined: [node] its transfer is waited for. */
static Err pgraph_check_transfer(const PGraph *graph, int32_t n, bool *joined)
{
    const PNode *node = &graph->nodes[n];
    int32_t      start = TRANSFER_NODE(node->joins);
    bool         reads = false;
    if (!node->joins)
        return OK;
    if (start < 0 || start >= n)
        return fail(E_FORMAT, "node %s: joins must name a node before it", node->name);
    const PNode *first = &graph->nodes[start];
    for (int32_t i = 0; i < node->n_in; i++)
        reads |= pgraph_has(first->out, first->n_out, node->in[i]);
    if (!reads)
        return fail(E_FORMAT, "node %s: joins %s, but reads none of its outputs", node->name,
                    first->name);
    if (joined[start])
        return fail(E_FORMAT, "node %s: joins %s, and so does a node before it", node->name,
                    first->name);
    joined[start] = true;
    return OK;
}

static Err pgraph_check_node(const PGraph *graph, const PNode *node)
{
    if (!(node->cost >= 0) || isinf(node->cost))
        return fail(E_FORMAT, "node %s: cost is %g, must be a number of 0 or more", node->name,
                    node->cost);
    if (!(node->wire >= 0) || isinf(node->wire))
        return fail(E_FORMAT, "node %s: wire is %g, must be a number of 0 or more", node->name,
                    node->wire);
    if (node->workspace < 0 || node->workspace > PGRAPH_MAX_SUM)
        return fail(E_FORMAT, "node %s: workspace is %lld bytes, must be 0 to 2^61", node->name,
                    (long long)node->workspace);
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0 || node->in[i] >= graph->n_values)
            return fail(E_FORMAT, "node %s: input %d is not a value", node->name, i);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0 || node->out[i] >= graph->n_values)
            return fail(E_FORMAT, "node %s: output %d is not a value", node->name, i);
        if (pgraph_has(node->out, i, node->out[i]))
            return fail(E_FORMAT, "node %s: output %s is listed twice", node->name,
                        graph->values[node->out[i]].name);
    }
    return pgraph_check_inplace(graph, node);
}

/* The error: node n reads value v before any node has produced it. */
static Err pgraph_not_yet(const PGraph *graph, int32_t n, int32_t v)
{
    const char *reader = graph->nodes[n].name, *value = graph->values[v].name;
    int32_t     producer = graph->values[v].producer;
    if (producer == n)
        return fail(E_FORMAT,
                    "node %s: reads %s before any node has produced it, and produces it itself: "
                    "what exists before the first node must be persistent",
                    reader, value);
    return fail(E_FORMAT,
                "node %s: reads %s before any node has produced it: node %s, further down, "
                "does; list the nodes in an order in which they can run (a cycle has none)",
                reader, value, graph->nodes[producer].name);
}

/* Walks the input order: what is read must exist, and must not have been taken over. */
static Err pgraph_check_order(const PGraph *graph, int32_t *writer, int32_t *taker)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        writer[v] = taker[v] = -1;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const PNode *node = &graph->nodes[n];
        for (int32_t i = 0; i < node->n_in; i++) {
            int32_t v = node->in[i], root = pgraph_root(graph, v);
            if (!graph->values[v].persistent && !pvalue_is_staged(&graph->values[v]) &&
                writer[v] < 0)
                return pgraph_not_yet(graph, n, v);
            if (taker[root] >= 0)
                return fail(E_FORMAT, "node %s: reads %s, whose bytes node %s has taken over",
                            node->name, graph->values[v].name, graph->nodes[taker[root]].name);
        }
        for (int32_t i = 0; i < node->n_out; i++) {
            int32_t v = node->out[i], root = pgraph_root(graph, v);
            if (root != v && !graph->values[root].persistent && writer[root] < 0 &&
                !pgraph_has(node->out, node->n_out, root))
                return fail(E_FORMAT,
                            "node %s: produces %s, a view of %s, which does not exist yet",
                            node->name, graph->values[v].name, graph->values[root].name);
            if (root != v && taker[root] >= 0 && !pgraph_has(node->out, node->n_out, root))
                return fail(E_FORMAT,
                            "node %s: produces %s, a view of %s, whose bytes node %s has taken "
                            "over",
                            node->name, graph->values[v].name, graph->values[root].name,
                            graph->nodes[taker[root]].name);
            if (graph->values[v].persistent && taker[v] >= 0) /* the taker lies there */
                return fail(E_FORMAT, "node %s: outputs %s, whose bytes node %s has taken over",
                            node->name, graph->values[v].name, graph->nodes[taker[v]].name);
            if (writer[v] < 0 && graph->values[v].producer != n)
                return fail(E_FORMAT,
                            "value %s: its producer must be %s, the first node that outputs "
                            "it",
                            graph->values[v].name, node->name);
            writer[v] = n;
            taker[v] = -1;
        }
        for (int32_t i = 0; i < node->n_inplace; i++) {
            if (node->inplace[i][0] != node->inplace[i][1])
                taker[pgraph_root(graph, node->inplace[i][1])] = n;
        }
    }
    for (int32_t v = 0; v < graph->n_values; v++) {
        const PValue *value = &graph->values[v];
        int32_t       root = pgraph_root(graph, v);
        if (value->producer >= 0 && writer[v] < 0)
            return fail(E_FORMAT, "value %s: its producer %s does not output it", value->name,
                        graph->nodes[value->producer].name);
        if (value->final && taker[root] >= 0)
            return fail(E_FORMAT, "value %s: is final, but node %s takes over its bytes",
                        value->name, graph->nodes[taker[root]].name);
    }
    return OK;
}

Err pgraph_check(const PGraph *graph)
{
    if (graph->n_nodes < 0 || graph->n_values < 0)
        return fail(E_FORMAT, "a graph cannot have %d nodes and %d values", graph->n_nodes,
                    graph->n_values);
    if (graph->align < 1 || graph->align > PGRAPH_MAX_ALIGN || (graph->align & (graph->align - 1)))
        return fail(E_FORMAT, "align is %lld, must be a power of two, at most 2^30",
                    (long long)graph->align);
    if (graph->base_peak_bytes < 0)
        return fail(E_FORMAT, "base_peak_bytes is %lld, must be 0 (not known) or more",
                    (long long)graph->base_peak_bytes);
    if (!(graph->to_host >= 0) || !(graph->to_device >= 0) || isinf(graph->to_host) ||
        isinf(graph->to_device))
        return fail(E_FORMAT,
                    "bandwidth is %g to the host and %g back, must be numbers of 0 or more",
                    graph->to_host, graph->to_device);
    TRY(pgraph_check_values(graph));
    for (int32_t n = 0; n < graph->n_nodes; n++)
        TRY(pgraph_check_node(graph, &graph->nodes[n]));
    if (pgraph_base_cost(graph) + pgraph_wire(graph) > PGRAPH_MAX_COST)
        return fail(E_FORMAT, "the costs add up to more than %g; write them in a larger unit",
                    PGRAPH_MAX_COST);
    Pool *temp = pool_new(NULL, "pgraph_check");
    bool *joined = NEWN(temp, bool, graph->n_nodes + 1);
    Err   err = pgraph_check_order(graph, NEWN(temp, int32_t, graph->n_values + 1),
                                   NEWN(temp, int32_t, graph->n_values + 1));
    for (int32_t n = 0; n < graph->n_nodes && !err; n++)
        err = pgraph_check_transfer(graph, n, joined);
    pool_free(temp);
    return err;
}
