/* chunk_order.c -- orders the nodes of a graph so that each chunk runs forward and backward before
 * the next. */
#include "rewrite/chunk.h"

typedef struct ChunkOrder {
    const Graph *graph;
    int32_t     *before; /* edges by node: nodes that must come earlier */
    int64_t     *first;  /* per node, into before; n_nodes + 1 */
    int32_t     *list;
    int32_t      n;
    bool        *done;
} ChunkOrder;

/* Producers come before readers; and where a persistent value is written, its readers and writers
 * keep their order. edge(o, i, j): node j comes before node i. */
typedef void (*Edge)(ChunkOrder *o, int32_t node, int32_t earlier);

static void order_count(ChunkOrder *o, int32_t node, int32_t earlier)
{
    (void)earlier;
    o->first[node + 1]++;
}

static void order_fill(ChunkOrder *o, int32_t node, int32_t earlier)
{
    o->before[o->first[node]++] = earlier;
}

static void order_edges(ChunkOrder *o, Pool *pool, Edge edge)
{
    const Graph *g = o->graph;
    int32_t     *writer = NEWN(pool, int32_t, g->n_values); /* per root: its last writer + 1 */
    /* per root: its last reader since + 1 */
    int32_t     *newest = NEWN(pool, int32_t, g->n_values);
    int32_t     *older = NULL; /* per read: the previous read of the same root */
    int32_t      n_reads = 0, reads = 1;
    for (int32_t i = 0; i < g->n_nodes; i++)
        reads += g->nodes[i].n_in;
    int32_t *who = NEWN(pool, int32_t, reads);
    older = NEWN(pool, int32_t, reads);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        for (int j = 0; j < n->n_in; j++) {
            const Value *v = n->in[j] >= 0 ? value_at(g, n->in[j]) : NULL;
            if (v && v->producer >= 0)
                edge(o, i, v->producer);
            if (!v || !v->persistent)
                continue;
            if (writer[v->root])
                edge(o, i, writer[v->root] - 1);
            who[n_reads] = i;
            older[n_reads] = newest[v->root];
            newest[v->root] = ++n_reads;
        }
        for (int j = 0; j < n->n_out; j++) {
            const Value *v = n->out[j] >= 0 ? value_at(g, n->out[j]) : NULL;
            if (!v || !v->persistent || n->op->view)
                continue;
            for (int32_t read = newest[v->root]; read; read = older[read - 1])
                if (who[read - 1] != i)
                    edge(o, i, who[read - 1]);
            newest[v->root] = 0;
            writer[v->root] = i + 1;
        }
    }
}

static void order_put(ChunkOrder *o, int32_t node)
{
    if (o->done[node])
        return;
    o->done[node] = true;
    for (int64_t e = node ? o->first[node - 1] : 0; e < o->first[node]; e++)
        order_put(o, o->before[e]);
    o->list[o->n++] = node;
}

void graph_order_chunks(Graph *graph)
{
    int32_t chunks = 0, start = graph->n_nodes;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        chunks = graph->nodes[i].chunk > chunks ? graph->nodes[i].chunk : chunks;
        if (graph->nodes[i].chunk && i < start)
            start = i;
    }
    if (!chunks || graph->error)
        return;
    Pool      *pool = pool_new(NULL, "order");
    ChunkOrder o = { .graph = graph,
                     .first = NEWN(pool, int64_t, graph->n_nodes + 1),
                     .list = NEWN(pool, int32_t, graph->n_nodes),
                     .done = NEWN(pool, bool, graph->n_nodes) };
    order_edges(&o, pool, order_count);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        o.first[i + 1] += o.first[i];
    o.before = NEWN(pool, int32_t, o.first[graph->n_nodes] + 1);
    order_edges(&o, pool, order_fill); /* first[i] now is the end of node i's edges */

    for (int32_t i = 0; i < start; i++)
        order_put(&o, i);
    for (int32_t chunk = 1; chunk <= chunks; chunk++)
        for (int32_t i = start; i < graph->n_nodes; i++)
            if (graph->nodes[i].chunk == chunk)
                order_put(&o, i);
    for (int32_t i = start; i < graph->n_nodes; i++)
        order_put(&o, i);

    Node *sorted = NEWN(pool, Node, graph->n_nodes);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        sorted[i] = graph->nodes[o.list[i]];
        sorted[i].id = i;
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i] = sorted[i];
        for (int j = 0; j < sorted[i].n_out; j++)
            if (sorted[i].out[j] >= 0 && value_at(graph, sorted[i].out[j])->producer >= 0)
                value_at(graph, sorted[i].out[j])->producer = i;
    }
    pool_free(pool);
}
