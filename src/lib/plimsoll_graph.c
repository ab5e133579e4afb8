/* plimsoll_graph.c -- graphs for plimsoll_find_plan: built call by call, or read from
 * graph.json. */
#include "lib/lib_int.h"

enum { MAX_IDS = INT32_MAX / 4 };   /* values or nodes, as in graph.json */

/* Keeps only the first error: later ones may follow from it. For a NULL graph plimsoll_find_plan
 * says so itself. */
#define WRONG(graph, ...)                                               \
    do {                                                                \
        if ((graph) && !(graph)->wrong)                                 \
            (graph)->wrong = pool_print((graph)->pool, __VA_ARGS__);    \
    } while (0)

static plimsoll_graph *graph_empty(void)
{
    Pool           *pool = pool_new(NULL, "plimsoll_graph");
    plimsoll_graph *graph = NEW(pool, plimsoll_graph);
    graph->pool = pool;
    graph->of.align = 1;
    return graph;
}

plimsoll_graph *plimsoll_graph_new(void) { return graph_empty(); }

void plimsoll_graph_free(plimsoll_graph *graph)
{
    if (graph)
        pool_free(graph->pool);
}

plimsoll_status plimsoll_graph_read(const char *path, plimsoll_graph **graph,
                                    plimsoll_error *error)
{
    if (graph)
        *graph = NULL;
    if (!path || !graph)
        return lib_status(fail(E_USAGE, "a graph is to be read, but the pointer %s is NULL",
                               path ? "for it" : "to its path"), error);
    plimsoll_graph *read = graph_empty();
    PGraph         *of;
    Err err = pgraph_read(read->pool, path, &of);
    if (err) {
        plimsoll_graph_free(read);
        return lib_status(err, error);
    }
    read->of = *of;
    read->cap_values = of->n_values;
    read->cap_nodes = of->n_nodes;
    *graph = read;
    return lib_status(OK, error);
}

plimsoll_status plimsoll_graph_write(const plimsoll_graph *graph, const char *path,
                                     plimsoll_error *error)
{
    if (!graph || !path)
        return lib_status(fail(E_USAGE, "a graph is to be written, but the pointer to %s is NULL",
                               graph ? "its path" : "it"), error);
    if (graph->wrong)
        return lib_status(fail(E_USAGE, "%s", graph->wrong), error);
    return lib_status(pgraph_write(&graph->of, path), error);
}

static bool has_value(const plimsoll_graph *graph, int32_t value)
{
    return graph && value >= 0 && value < graph->of.n_values;
}

static bool has_node(const plimsoll_graph *graph, int32_t node)
{
    return graph && node >= 0 && node < graph->of.n_nodes;
}

static int32_t add_value(plimsoll_graph *graph, int64_t bytes, int32_t view_of, unsigned flags)
{
    const unsigned known = PLIMSOLL_PERSISTENT | PLIMSOLL_FINAL | PLIMSOLL_HOST_RESIDENT;
    int32_t        id = graph->of.n_values;
    if (id >= MAX_IDS || (flags & ~known)) {
        if (flags & ~known)
            WRONG(graph, "value %d: flags are 0x%x, of which 0x%x mean nothing", id, flags,
                  flags & ~known);
        else
            WRONG(graph, "a graph of more than %d values is too large", MAX_IDS);
        return -1;
    }
    PValue value = { .name = pool_print(graph->pool, "%d", id),
                     .number = true,
                     .bytes = bytes,
                     .view_of = view_of,
                     .producer = -1,
                     .persistent = flags & PLIMSOLL_PERSISTENT,
                     .host_resident = flags & PLIMSOLL_HOST_RESIDENT,
                     .final = flags & PLIMSOLL_FINAL };
    VEC_ADD(graph->pool, graph->of.values, graph->of.n_values, graph->cap_values, value);
    return id;
}

int32_t plimsoll_value(plimsoll_graph *graph, int64_t bytes, unsigned flags)
{
    return graph ? add_value(graph, bytes, -1, flags) : -1;
}

int32_t plimsoll_view(plimsoll_graph *graph, int32_t of, unsigned flags)
{
    if (!has_value(graph, of)) {
        WRONG(graph, "value %d: a view of value %d, which is not there", graph->of.n_values, of);
        return -1;
    }
    return add_value(graph, 0, pgraph_root(&graph->of, of), flags);
}

/* A copy of the ids; NULL: one of them is not a value. */
static int32_t *ids_of(plimsoll_graph *graph, const char *what, const int32_t *ids, int32_t n)
{
    if (n < 0 || (n > 0 && !ids)) {
        WRONG(graph, "node %d: %d %ss are not there", graph->of.n_nodes, n, what);
        return NULL;
    }
    int32_t *copy = NEWN(graph->pool, int32_t, n + 1);
    for (int32_t i = 0; i < n; i++) {
        if (!has_value(graph, ids[i])) {
            WRONG(graph, "node %d: %s %d is value %d, which is not there", graph->of.n_nodes, what,
                  i, ids[i]);
            return NULL;
        }
        copy[i] = ids[i];
    }
    return copy;
}

int32_t plimsoll_node(plimsoll_graph *graph, double cost, int64_t workspace, const int32_t *inputs,
                      int32_t n_inputs, const int32_t *outputs, int32_t n_outputs)
{
    if (!graph)
        return -1;
    int32_t  id = graph->of.n_nodes;
    int32_t *in = ids_of(graph, "input", inputs, n_inputs);
    int32_t *out = ids_of(graph, "output", outputs, n_outputs);
    if (!in || !out)
        return -1;
    if (id >= MAX_IDS) {
        WRONG(graph, "a graph of more than %d nodes is too large", MAX_IDS);
        return -1;
    }
    PNode node = { .name = pool_print(graph->pool, "%d", id), .number = true, .cost = cost,
                   .workspace = workspace, .in = in, .n_in = n_inputs, .out = out,
                   .n_out = n_outputs };
    VEC_ADD(graph->pool, graph->of.nodes, graph->of.n_nodes, graph->cap_nodes, node);
    pgraph_link_node(&graph->of, id);
    return id;
}

void plimsoll_once(plimsoll_graph *graph, int32_t node)
{
    if (has_node(graph, node))
        graph->of.nodes[node].once = true;
    else
        WRONG(graph, "node %d runs once, but is not there", node);
}

void plimsoll_in_place(plimsoll_graph *graph, int32_t node, int32_t output, int32_t input)
{
    if (!has_node(graph, node)) {
        WRONG(graph, "node %d works in place, but is not there", node);
        return;
    }
    PNode *of = &graph->of.nodes[node];
    size_t pair = sizeof *of->inplace;
    of->inplace = pool_grow(graph->pool, of->inplace, (size_t)of->n_inplace * pair,
                            ((size_t)of->n_inplace + 1) * pair);
    of->inplace[of->n_inplace][0] = output;
    of->inplace[of->n_inplace++][1] = input;
}

void plimsoll_align(plimsoll_graph *graph, int64_t bytes)
{
    if (graph)
        graph->of.align = bytes;
}

void plimsoll_bandwidth(plimsoll_graph *graph, double to_host, double to_device)
{
    if (!graph)
        return;
    graph->of.to_host = to_host;
    graph->of.to_device = to_device;
}

int32_t plimsoll_values(const plimsoll_graph *graph) { return graph ? graph->of.n_values : 0; }
int32_t plimsoll_nodes(const plimsoll_graph *graph)  { return graph ? graph->of.n_nodes : 0; }

const char *plimsoll_value_name(const plimsoll_graph *graph, int32_t value)
{
    return has_value(graph, value) ? graph->of.values[value].name : NULL;
}

const char *plimsoll_node_name(const plimsoll_graph *graph, int32_t node)
{
    return has_node(graph, node) ? graph->of.nodes[node].name : NULL;
}
