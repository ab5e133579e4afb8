/* engine_file.c -- reading and writing plan.json (`plimsoll-plan-1`) of a training step. See
 * docs/user/FORMATS.md. */
#include "plan/engine.h"

#include "base/hash.h"
#include "plan/phase_file.h"
#include "plan/plan_file.h"

#include <stdio.h>
#include <string.h>

/* What a plan depends on: operators, shapes, types and edges of every node, as 16 hexadecimal
 * digits. Attributes such as a learning rate do not count: a plan only says when nodes run and
 * where values lie. */
static void graph_digest(const Graph *graph, char digest[17])
{
    uint64_t hash = HASH_EMPTY;
    for (int32_t i = 0; i < graph->n_values; i++) {
        const Value *v = value_at(graph, i);
        hash = hash_int(hash_int(hash, v->type), v->bytes);
        hash = hash_int(hash_int(hash, v->root), v->offset);
        int kind = v->persistent + 2 * v->host_resident + 4 * (v->gathered != NULL);
        hash = hash_int(hash_int(hash, kind), v->shape.rank);
        for (int a = 0; a < v->shape.rank; a++)
            hash = hash_int(hash, v->shape.dim[a]);
        hash = hash_text(hash, v->name ? v->name : "");
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        hash = hash_text(hash, node->op->name);
        hash = hash_int(hash_int(hash, node->phase), node->inplace);
        hash = hash_text(hash, graph->modules[node->module].path);
        hash = hash_int(hash_int(hash, node->n_in), node->n_out);
        for (int j = 0; j < node->n_in; j++)
            hash = hash_int(hash, node->in[j]);
        for (int j = 0; j < node->n_out; j++)
            hash = hash_int(hash, node->out[j]);
    }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        hash = hash_int(hash_int(hash, graph->outputs[i].value), graph->outputs[i].phase);
    snprintf(digest, 17, "%016llx", (unsigned long long)hash);
}

/* ---- out ---- */

static bool choice_counts(const Choice *choice) /* worth writing: it has an algorithm or
                                                  * workspace */
{
    return choice->name || choice->workspace_bytes;
}

static void write_choices(JsonOut *o, const Engine *engine)
{
    json_out_array(o, "choices");
    for (int32_t i = 0; i < engine->graph->n_nodes; i++) {
        const Choice *choice = &engine->choices[i];
        if (!choice_counts(choice))
            continue;
        json_out_object_row(o, NULL);
        json_out_string(o, "node", node_text(engine->graph, i));
        json_out_string(o, "algorithm", choice->name ? choice->name : "");
        json_out_int(o, "workspace", (int64_t)choice->workspace_bytes);
        if (choice->builtin)
            json_out_bool(o, "builtin", true);
        json_out_end(o);
    }
    json_out_end(o);
}

static void write_space(JsonOut *o, const char *name, int64_t budget_bytes, int64_t peak_bytes)
{
    json_out_object_row(o, name);
    json_out_int(o, "budget_bytes", budget_bytes);
    json_out_int(o, "peak_bytes", peak_bytes);
    json_out_end(o);
}

void engine_write(JsonOut *o, const Engine *engine, int64_t budget_bytes)
{
    const Device *device = engine->device;
    char          digest[17];
    graph_digest(engine->graph, digest);
    json_out_string(o, "graph", digest);
    json_out_object_row(o, "device");
    json_out_string(o, "name", device->name);
    json_out_string(o, "model", device->model);
    json_out_string(o, "library", device->library);
    json_out_int(o, "threads", device->threads);
    json_out_int(o, "align", device->align);
    json_out_end(o);
    json_out_int(o, "budget_bytes", budget_bytes);
    json_out_int(o, "peak_bytes", engine->arena_bytes);
    json_out_int(o, "live_bytes", engine->live_bytes);
    json_out_int(o, "arena_bytes", engine->arena_bytes);
    json_out_int(o, "bound_bytes", engine->bound_bytes);
    json_out_int(o, "persistent_bytes", engine->persistent_bytes);
    json_out_int(o, "keep_all_bytes", engine->keep_all_bytes);
    if (device->to_host > 0) {
        json_out_object(o, "spaces");
        write_space(o, "device", budget_bytes, engine->arena_bytes);
        write_space(o, "host", device->host_bytes, engine->host_bytes);
        json_out_end(o);
    }
    json_out_number(o, "cost", engine->cost_ns);
    json_out_number(o, "base_cost", engine->keep_all_ns);
    json_out_bool(o, "cut", engine->cut);
    write_choices(o, engine);
    phases_write(o, engine);
}

/* ---- in ---- */

static Err read_device(const Json *root, const Device *device)
{
    const Json *object;
    const char *name, *model, *library;
    int64_t     threads, align;
    TRY(json_need_object(root, "device", &object));
    TRY(json_need_text(object, "name", &name));
    TRY(json_need_text(object, "model", &model));
    TRY(json_need_text(object, "library", &library));
    TRY(json_need_int(object, "threads", &threads));
    TRY(json_need_int(object, "align", &align));
    /* A GPU has two names: that of its profile if it is only described, "cuda" if it is present. */
    bool named = !strcmp(name, device->name) || device->kind == DEVICE_CUDA;
    if (!named || strcmp(model, device->model) || align != device->align)
        return fail(E_PLAN,
                    "%s was made for the device %s (%s), this is %s (%s); make a plan here with "
                    "plimsoll fit",
                    json_name(root), name, model, device->name, device->model);
    if (strcmp(library, device->library))
        return fail(E_PLAN,
                    "%s was made with the library %s, here it is %s; make a plan for this one with "
                    "plimsoll fit, or choose the other with --backend",
                    json_name(root), library, device->library);
    if (threads != device->threads)
        return fail(E_PLAN,
                    "%s was made for %lld threads, not %d; give --threads %lld, or make a plan for "
                    "%d with plimsoll fit",
                    json_name(root), (long long)threads, device->threads, (long long)threads,
                    device->threads);
    return OK;
}

static Err read_digest(const Json *root, const Graph *graph)
{
    const char *text;
    char        digest[17];
    graph_digest(graph, digest);
    TRY(json_need_text(root, "graph", &text));
    if (strcmp(text, digest))
        return fail(E_PLAN,
                    "%s was made for another graph (%s, this is %s): the model, its sizes, the "
                    "batch or the precision "
                    "differ; make a plan for this one with plimsoll fit",
                    json_name(root), text, digest);
    return OK;
}

typedef struct ChoiceRow {
    const char *algorithm;
    int64_t     workspace;
    bool        listed, builtin;
} ChoiceRow;

static Err read_choices(Pool *temp, const Json *root, const Graph *graph, ChoiceRow *rows)
{
    const Json *list;
    NameIndex   nodes;
    TRY(json_need_array(root, "choices", &list));
    names_init(&nodes, temp, graph->n_nodes);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        names_add(&nodes, node_text(graph, i), i);
    for (uint32_t i = 0; i < list->n; i++) {
        const Json *item = &list->items[i];
        const char *node;
        ChoiceRow   row = { .listed = true };
        if (item->kind != JSON_OBJECT)
            return json_fail(list, item, "a choice must be an object, not %s",
                             json_kind_text(item));
        TRY(json_need_text(item, "node", &node));
        TRY(json_need_text(item, "algorithm", &row.algorithm));
        TRY(json_need_int(item, "workspace", &row.workspace));
        TRY(json_maybe_bool(item, "builtin", &row.builtin));
        int32_t id = names_find(&nodes, node);
        if (id < 0 || rows[id].listed)
            return json_fail(list, item,
                             id < 0 ? "the graph has no node %s" : "node %s is chosen for twice",
                             node);
        rows[id] = row;
    }
    return OK;
}

/* The node must run as planned. For a GPU that is only described, the libraries' workspace is
 * estimated a little high: a plan with more workspace than needed keeps it. */
static Err check_choices(const Json *root, Engine *engine, const ChoiceRow *rows)
{
    for (int32_t i = 0; i < engine->graph->n_nodes; i++) {
        Choice     *here = &engine->choices[i];
        const char *name = here->name ? here->name : "";
        bool        same = rows[i].listed == choice_counts(here);
        if (same && rows[i].listed && !strcmp(rows[i].algorithm, name) &&
            engine->device->kind == DEVICE_CUDA &&
            rows[i].workspace > (int64_t)here->workspace_bytes)
            here->workspace_bytes = (size_t)rows[i].workspace;
        if (same && rows[i].listed)
            same = !strcmp(rows[i].algorithm, name) &&
                   rows[i].workspace == (int64_t)here->workspace_bytes;
        if (!same)
            return fail(E_PLAN,
                        "%s runs %s with '%s' and %lld bytes of workspace, this library with '%s' "
                        "and %lld; make a plan here with plimsoll fit",
                        json_name(root), node_text(engine->graph, i),
                        rows[i].listed ? rows[i].algorithm : "", (long long)rows[i].workspace, name,
                        (long long)here->workspace_bytes);
    }
    return OK;
}

static Err read_engine(Pool *pool, Pool *temp, const Json *root, Graph *graph, const Device *device,
                       const EngineOptions *options, Engine **out)
{
    int64_t budget = 0;
    TRY(plan_format_check(root));
    if (!json_get(root, "phases"))
        return json_fail(root, NULL,
                         "this is a plan of a bare graph; make one of a training step by plimsoll "
                         "fit -o");
    TRY(json_maybe_int(root, "budget_bytes", &budget));
    TRY(read_device(root, device));

    ChoiceRow *rows = NEWN(temp, ChoiceRow, graph->n_nodes);
    bool      *builtin = NEWN(temp, bool, graph->n_nodes);
    TRY(graph_check(graph));
    if (!options->no_inplace)
        graph_take_inplace(graph); /* the digest covers it */
    TRY(read_digest(root, graph));
    TRY(read_choices(temp, root, graph, rows));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        builtin[i] = rows[i].builtin;
    TRY(engine_begin(pool, graph, device, options, builtin, out));
    Engine *engine = *out;
    TRY(check_choices(root, engine, rows));
    TRY(phases_read(pool, root, engine, budget));
    TRY(engine_finish(engine, false));
    TRY(json_need_int(root, "keep_all_bytes", &engine->keep_all_bytes)); /* only for reports */
    TRY(json_need_bool(root, "cut", &engine->cut));
    TRY(figure_read(root, "persistent_bytes", engine->persistent_bytes));
    TRY(figure_read(root, "live_bytes", engine->live_bytes));
    return figure_read(root, "arena_bytes", engine->arena_bytes);
}

Err engine_read(Pool *pool, const Json *root, Graph *graph, const Device *device,
                const EngineOptions *options, Engine **out)
{
    static const EngineOptions defaults = { 0 };
    Pool                      *temp = pool_new(NULL, "engine_read");
    Err err = read_engine(pool, temp, root, graph, device, options ? options : &defaults, out);
    pool_free(temp);
    return err;
}
