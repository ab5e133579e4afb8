/* pgraph_file.c -- graph.json (`plimsoll-graph-1`) to a PGraph and back. See docs/user/FORMATS.md.
 *
 * Strict about the fields it reads; unknown fields are ignored, because exported graphs carry more.
 */
#include "plan/pgraph.h"

#include "base/json_out.h"
#include "plan/names.h"

#include <string.h>

#define PGRAPH_FORMAT "plimsoll-graph-1"

typedef struct GraphReader {
    Pool     *pool; /* of the graph */
    PGraph   *graph;
    NameIndex values, nodes;
} GraphReader;

static Err read_value_id(GraphReader *r, const Json *list, const Json *id, int32_t *value)
{
    const char *name;
    TRY(names_id(r->pool, list, id, "value", &name));
    *value = names_find(&r->values, name);
    return *value >= 0 ? OK : json_fail(list, id, "there is no value %s", name);
}

/* A member that is a list of values; absent means empty. */
static Err read_value_list(GraphReader *r, const Json *object, const char *key, int32_t **ids,
                           int32_t *n)
{
    const Json *list = NULL;
    TRY(json_maybe_array(object, key, &list));
    *n = list ? (int32_t)list->n : 0;
    *ids = NEWN(r->pool, int32_t, *n + 1);
    for (int32_t i = 0; i < *n; i++)
        TRY(read_value_id(r, list, &list->items[i], &(*ids)[i]));
    return OK;
}

static Err read_value(GraphReader *r, const Json *list, int32_t v)
{
    const Json *item = &list->items[v];
    PValue     *value = &r->graph->values[v];
    if (item->kind != JSON_OBJECT)
        return json_fail(list, item, "value %d must be an object", v);
    TRY(names_id(r->pool, item, json_get(item, "id"), "value", &value->name));
    value->name = pool_text(r->pool, value->name);
    value->number = json_get(item, "id")->kind == JSON_INT;
    if (!names_add(&r->values, value->name, v))
        return json_fail(item, NULL, "there are two values %s", value->name);
    TRY(json_need_int(item, "bytes", &value->bytes));
    TRY(json_maybe_bool(item, "persistent", &value->persistent));
    TRY(json_maybe_bool(item, "host_resident", &value->host_resident));
    TRY(json_maybe_bool(item, "gathered", &value->gathered));
    TRY(json_maybe_number(item, "wire", &value->wire));
    TRY(json_maybe_number(item, "stall", &value->stall));
    value->producer = value->view_of = -1;
    return OK;
}

/* Views may be given as views of views; a PGraph names the root. */
static Err read_roots(GraphReader *r, const Json *list)
{
    PValue *values = r->graph->values;
    for (int32_t v = 0; v < r->graph->n_values; v++) {
        const Json *id = json_get(&list->items[v], "view_of");
        if (id && id->kind != JSON_NULL)
            TRY(read_value_id(r, &list->items[v], id, &values[v].view_of));
    }
    for (int32_t v = 0; v < r->graph->n_values; v++) {
        int32_t root = v, hops = 0;
        while (values[root].view_of >= 0) {
            root = values[root].view_of;
            if (++hops > r->graph->n_values)
                return json_fail(&list->items[v], NULL, "value %s is a view of itself",
                                 values[v].name);
        }
        for (int32_t u = v, next; u != root; u = next) { /* shorten every link on the way */
            next = values[u].view_of;
            values[u].view_of = root;
        }
    }
    return OK;
}

static Err read_inplace(GraphReader *r, const Json *item, PNode *node)
{
    const Json *pairs = NULL;
    TRY(json_maybe_array(item, "inplace", &pairs));
    node->n_inplace = pairs ? (int32_t)pairs->n : 0;
    node->inplace = pool_alloc(r->pool, (size_t)node->n_inplace + 1, sizeof *node->inplace);
    for (int32_t i = 0; i < node->n_inplace; i++) {
        const Json *pair = &pairs->items[i];
        if (pair->kind != JSON_ARRAY || pair->n != 2)
            return json_fail(pairs, pair, "node %s: inplace must hold pairs [output, input]",
                             node->name);
        TRY(read_value_id(r, pair, &pair->items[0], &node->inplace[i][0]));
        TRY(read_value_id(r, pair, &pair->items[1], &node->inplace[i][1]));
    }
    return OK;
}

static Err read_transfer(GraphReader *r, const Json *item, PNode *node)
{
    const Json *joins = json_get(item, "joins");
    const char *name;
    TRY(json_maybe_number(item, "wire", &node->wire));
    if (!joins)
        return OK;
    TRY(names_id(r->pool, item, joins, "node", &name));
    node->joins = TRANSFER_OF(names_find(&r->nodes, name));
    return node->joins ? OK : json_fail(item, joins, "there is no node %s before this one", name);
}

static Err read_node(GraphReader *r, const Json *list, int32_t n)
{
    const Json *item = &list->items[n];
    PNode      *node = &r->graph->nodes[n];
    if (item->kind != JSON_OBJECT)
        return json_fail(list, item, "node %d must be an object", n);
    TRY(names_id(r->pool, item, json_get(item, "id"), "node", &node->name));
    node->name = pool_text(r->pool, node->name);
    node->number = json_get(item, "id")->kind == JSON_INT;
    if (!names_add(&r->nodes, node->name, n))
        return json_fail(item, NULL, "there are two nodes %s", node->name);
    TRY(json_need_number(item, "cost", &node->cost));
    TRY(json_maybe_int(item, "workspace", &node->workspace));
    TRY(read_value_list(r, item, "inputs", &node->in, &node->n_in));
    TRY(read_value_list(r, item, "outputs", &node->out, &node->n_out));
    TRY(read_inplace(r, item, node));
    TRY(read_transfer(r, item, node));
    pgraph_link_node(r->graph, n);
    return json_maybe_bool(item, "once", &node->once);
}

static Err read_bandwidth(PGraph *graph, const Json *root)
{
    const Json *item = json_get(root, "bandwidth");
    if (!item || item->kind == JSON_NULL)
        return OK;
    if (item->kind != JSON_OBJECT)
        return json_fail(root, item, "bandwidth must be {\"to_host\": ..., \"to_device\": ...}");
    TRY(json_need_number(item, "to_host", &graph->to_host));
    return json_need_number(item, "to_device", &graph->to_device);
}

static Err read_graph(GraphReader *r, const Json *root)
{
    const Json *values, *nodes, *finals = NULL;
    const char *format;
    PGraph     *graph = r->graph;
    TRY(json_need_text(root, "format", &format));
    if (strcmp(format, PGRAPH_FORMAT))
        return json_fail(root, NULL, "the format is %s, this program reads " PGRAPH_FORMAT, format);
    TRY(json_need_array(root, "values", &values));
    TRY(json_need_array(root, "nodes", &nodes));
    TRY(json_maybe_array(root, "finals", &finals));
    if (values->n > INT32_MAX / 4 || nodes->n > INT32_MAX / 4)
        return json_fail(root, NULL, "a graph of %u nodes and %u values is too large", nodes->n,
                         values->n);
    graph->align = 1;
    graph->n_values = (int32_t)values->n;
    graph->n_nodes = (int32_t)nodes->n;
    graph->values = NEWN(r->pool, PValue, graph->n_values + 1);
    graph->nodes = NEWN(r->pool, PNode, graph->n_nodes + 1);
    TRY(json_maybe_int(root, "align", &graph->align));
    TRY(json_maybe_int(root, "base_peak_bytes", &graph->base_peak_bytes));
    TRY(read_bandwidth(graph, root));
    for (int32_t v = 0; v < graph->n_values; v++)
        TRY(read_value(r, values, v));
    TRY(read_roots(r, values));
    for (int32_t n = 0; n < graph->n_nodes; n++)
        TRY(read_node(r, nodes, n));
    for (uint32_t i = 0; finals && i < finals->n; i++) {
        int32_t v;
        TRY(read_value_id(r, finals, &finals->items[i], &v));
        graph->values[v].final = true;
    }
    return OK;
}

static Err graph_from_json(Pool *pool, Pool *temp, const char *name, const Json *root,
                           PGraph **graph)
{
    if (root->kind != JSON_OBJECT)
        return fail(E_FORMAT, "%s: a graph is an object, not %s", name, json_kind_text(root));
    const Json *values = json_get(root, "values"), *nodes = json_get(root, "nodes");
    GraphReader r = { .pool = pool, .graph = NEW(pool, PGraph) };
    names_init(&r.values, temp, values ? (int32_t)(values->n & 0x3fffffff) : 0);
    names_init(&r.nodes, temp, nodes ? (int32_t)(nodes->n & 0x3fffffff) : 0);
    TRY(read_graph(&r, root));
    *graph = r.graph;
    Err err = pgraph_check(r.graph); /* its messages do not name the file */
    return err ? fail(err, "%s: %s", name, err_text()) : OK;
}

Err pgraph_parse(Pool *pool, const char *name, const char *text, size_t n, PGraph **graph)
{
    Pool       *temp = pool_new(NULL, "pgraph_parse");
    const Json *root;
    Err         err = json_parse(temp, name, text, n, 0, &root);
    err = err ? err : graph_from_json(pool, temp, name, root, graph);
    pool_free(temp);
    return err;
}

Err pgraph_read(Pool *pool, const char *path, PGraph **graph)
{
    Pool       *temp = pool_new(NULL, "pgraph_read");
    const Json *root;
    Err         err = json_read(temp, path, 0, &root);
    err = err ? err : graph_from_json(pool, temp, path, root, graph);
    pool_free(temp);
    return err;
}

static void write_names(JsonOut *o, const char *key, const PGraph *graph, const int32_t *ids,
                        int32_t n)
{
    json_out_row(o, key);
    for (int32_t i = 0; i < n; i++)
        names_write(o, NULL, graph->values[ids[i]].name, graph->values[ids[i]].number);
    json_out_end(o);
}

static void write_node(JsonOut *o, const PGraph *graph, const PNode *node)
{
    json_out_object_row(o, NULL);
    names_write(o, "id", node->name, node->number);
    json_out_number(o, "cost", node->cost);
    write_names(o, "inputs", graph, node->in, node->n_in);
    write_names(o, "outputs", graph, node->out, node->n_out);
    json_out_int(o, "workspace", node->workspace);
    json_out_bool(o, "once", node->once);
    if (node->n_inplace > 0) {
        json_out_row(o, "inplace");
        for (int32_t i = 0; i < node->n_inplace; i++)
            write_names(o, NULL, graph, node->inplace[i], 2);
        json_out_end(o);
    }
    if (node->wire > 0)
        json_out_number(o, "wire", node->wire);
    if (node->joins) {
        const PNode *start = &graph->nodes[TRANSFER_NODE(node->joins)];
        names_write(o, "joins", start->name, start->number);
    }
    json_out_end(o);
}

Err pgraph_write(const PGraph *graph, const char *path)
{
    FileOut file;
    JsonOut o;
    TRY(file_out_init(&file, path));
    json_out_file(&o, &file, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", PGRAPH_FORMAT);
    json_out_int(&o, "align", graph->align);
    if (graph->base_peak_bytes > 0)
        json_out_int(&o, "base_peak_bytes", graph->base_peak_bytes);
    if (graph->to_host > 0 || graph->to_device > 0) {
        json_out_object_row(&o, "bandwidth");
        json_out_number(&o, "to_host", graph->to_host);
        json_out_number(&o, "to_device", graph->to_device);
        json_out_end(&o);
    }
    json_out_row(&o, "finals");
    for (int32_t v = 0; v < graph->n_values; v++) {
        if (graph->values[v].final)
            names_write(&o, NULL, graph->values[v].name, graph->values[v].number);
    }
    json_out_end(&o);
    json_out_array(&o, "values");
    for (int32_t v = 0; v < graph->n_values; v++) {
        const PValue *value = &graph->values[v];
        json_out_object_row(&o, NULL);
        names_write(&o, "id", value->name, value->number);
        json_out_int(&o, "bytes", value->bytes);
        json_out_bool(&o, "persistent", value->persistent);
        if (value->host_resident)
            json_out_bool(&o, "host_resident", true);
        if (value->gathered) {
            json_out_bool(&o, "gathered", true);
            json_out_number(&o, "wire", value->wire);
            json_out_number(&o, "stall", value->stall);
        }
        if (value->view_of >= 0)
            names_write(&o, "view_of", graph->values[value->view_of].name,
                        graph->values[value->view_of].number);
        json_out_end(&o);
    }
    json_out_end(&o);
    json_out_array(&o, "nodes");
    for (int32_t n = 0; n < graph->n_nodes; n++)
        write_node(&o, graph, &graph->nodes[n]);
    json_out_end(&o);
    json_out_end(&o);
    return file_out_done(&file, json_out_done(&o));
}
