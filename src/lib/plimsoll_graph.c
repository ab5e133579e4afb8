/* plimsoll_graph.c -- graphs for plimsoll_find_plan: built call by call, or read from
 * graph.json. */
#include "lib/lib_int.h"

enum { MAX_IDS = INT32_MAX / 4 }; /* values or nodes, as in graph.json */

/* Keeps only the first error: later ones may follow from it. For a NULL graph plimsoll_find_plan
 * says so itself. */
#define WRONG(graph, ...)                                                                          \
    do {                                                                                           \
        if ((graph) && !(graph)->wrong)                                                            \
            (graph)->wrong = pool_print((graph)->pool, __VA_ARGS__);                               \
    } while (0)

static plimsoll_graph *graph_empty(void) /* NULL: no memory */
{
    Pool *pool = pool_try("plimsoll_graph");
    plimsoll_graph *volatile graph = NULL;
    PoolGuard guard;
    if (!pool)
        return NULL;
    pool_guard(&guard, pool);
    if (!setjmp(guard.at))
        graph = NEW(pool, plimsoll_graph);
    pool_unguard(&guard);
    if (!graph) {
        pool_free(pool);
        return NULL;
    }
    graph->pool = pool;
    graph->of.align = 1;
    return graph;
}

/* A call that adds to a graph. If memory runs out, the graph is wrong from then on, and -1 is
 * returned. */
typedef int32_t GraphCall(plimsoll_graph *graph, const void *args);

static int32_t graph_call(plimsoll_graph *graph, GraphCall *call, const void *args)
{
    PoolGuard guard;
    int32_t   id;
    if (!graph)
        return -1;
    pool_guard(&guard, graph->pool);
    if (!setjmp(guard.at)) {
        id = call(graph, args);
    } else {
        graph->wrong = graph->wrong ? graph->wrong : "the graph is not whole: out of memory";
        id = -1;
    }
    pool_unguard(&guard);
    return id;
}

plimsoll_graph *plimsoll_graph_new(void) { return graph_empty(); }

void plimsoll_graph_free(plimsoll_graph *graph)
{
    if (graph)
        pool_free(graph->pool);
}

plimsoll_status plimsoll_graph_read(const char *path, plimsoll_graph **graph, plimsoll_error *error)
{
    if (graph)
        *graph = NULL;
    if (!path || !graph)
        return lib_status(fail(E_USAGE, "a graph is to be read, but the pointer %s is NULL",
                               path ? "for it" : "to its path"),
                          error);
    plimsoll_graph *read = graph_empty();
    PGraph         *of = NULL;
    PoolGuard       guard;
    Err             err;
    if (!read)
        return lib_status(lib_no_memory(), error);
    pool_guard(&guard, read->pool);
    if (!setjmp(guard.at))
        err = pgraph_read(read->pool, path, &of);
    else
        err = lib_no_memory();
    pool_unguard(&guard);
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
                               graph ? "its path" : "it"),
                          error);
    if (graph->wrong)
        return lib_status(fail(E_USAGE, "%s", graph->wrong), error);
    Pool     *pool = pool_try("plimsoll_graph_write");
    PoolGuard guard;
    Err       err;
    if (!pool)
        return lib_status(lib_no_memory(), error);
    pool_guard(&guard, pool);
    if (!setjmp(guard.at))
        err = pgraph_write(&graph->of, path);
    else
        err = lib_no_memory();
    pool_unguard(&guard);
    pool_free(pool);
    return lib_status(err, error);
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

typedef struct ValueArgs {
    int64_t  bytes;
    int32_t  of; /* of a view */
    unsigned flags;
} ValueArgs;

static int32_t call_value(plimsoll_graph *graph, const void *args)
{
    const ValueArgs *a = args;
    return add_value(graph, a->bytes, -1, a->flags);
}

static int32_t call_view(plimsoll_graph *graph, const void *args)
{
    const ValueArgs *a = args;
    if (!has_value(graph, a->of)) {
        WRONG(graph, "value %d: a view of value %d, which is not there", graph->of.n_values, a->of);
        return -1;
    }
    return add_value(graph, 0, pgraph_root(&graph->of, a->of), a->flags);
}

int32_t plimsoll_value(plimsoll_graph *graph, int64_t bytes, unsigned flags)
{
    return graph_call(graph, call_value, &(ValueArgs){ .bytes = bytes, .flags = flags });
}

int32_t plimsoll_view(plimsoll_graph *graph, int32_t of, unsigned flags)
{
    return graph_call(graph, call_view, &(ValueArgs){ .of = of, .flags = flags });
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

typedef struct NodeArgs {
    double         cost;
    int64_t        workspace;
    const int32_t *inputs, *outputs;
    int32_t        n_inputs, n_outputs;
} NodeArgs;

static int32_t call_node(plimsoll_graph *graph, const void *args)
{
    const NodeArgs *a = args;
    int32_t         id = graph->of.n_nodes;
    int32_t        *in = ids_of(graph, "input", a->inputs, a->n_inputs);
    int32_t        *out = ids_of(graph, "output", a->outputs, a->n_outputs);
    if (!in || !out)
        return -1;
    if (id >= MAX_IDS) {
        WRONG(graph, "a graph of more than %d nodes is too large", MAX_IDS);
        return -1;
    }
    PNode node = { .name = pool_print(graph->pool, "%d", id),
                   .number = true,
                   .cost = a->cost,
                   .workspace = a->workspace,
                   .in = in,
                   .n_in = a->n_inputs,
                   .out = out,
                   .n_out = a->n_outputs };
    VEC_ADD(graph->pool, graph->of.nodes, graph->of.n_nodes, graph->cap_nodes, node);
    pgraph_link_node(&graph->of, id);
    return id;
}

int32_t plimsoll_node(plimsoll_graph *graph, double cost, int64_t workspace, const int32_t *inputs,
                      int32_t n_inputs, const int32_t *outputs, int32_t n_outputs)
{
    return graph_call(graph, call_node,
                      &(NodeArgs){ cost, workspace, inputs, outputs, n_inputs, n_outputs });
}

static int32_t call_once(plimsoll_graph *graph, const void *node)
{
    int32_t id = *(const int32_t *)node;
    if (has_node(graph, id))
        graph->of.nodes[id].once = true;
    else
        WRONG(graph, "node %d runs once, but is not there", id);
    return 0;
}

void plimsoll_once(plimsoll_graph *graph, int32_t node) { graph_call(graph, call_once, &node); }

static int32_t call_in_place(plimsoll_graph *graph, const void *args)
{
    const int32_t *ids = args; /* node, output, input */
    if (!has_node(graph, ids[0])) {
        WRONG(graph, "node %d works in place, but is not there", ids[0]);
        return -1;
    }
    PNode *of = &graph->of.nodes[ids[0]];
    size_t pair = sizeof *of->inplace;
    of->inplace = pool_grow(graph->pool, of->inplace, (size_t)of->n_inplace * pair,
                            ((size_t)of->n_inplace + 1) * pair);
    of->inplace[of->n_inplace][0] = ids[1];
    of->inplace[of->n_inplace++][1] = ids[2];
    return 0;
}

void plimsoll_in_place(plimsoll_graph *graph, int32_t node, int32_t output, int32_t input)
{
    graph_call(graph, call_in_place, (int32_t[]){ node, output, input });
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
int32_t plimsoll_nodes(const plimsoll_graph *graph) { return graph ? graph->of.n_nodes : 0; }

const char *plimsoll_value_name(const plimsoll_graph *graph, int32_t value)
{
    return has_value(graph, value) ? graph->of.values[value].name : NULL;
}

const char *plimsoll_node_name(const plimsoll_graph *graph, int32_t node)
{
    return has_node(graph, node) ? graph->of.nodes[node].name : NULL;
}
