/* engine_file.c -- plan.json (`plimsoll-plan-1`) of a training step, in and out. See
 * docs/FORMATS.md. */
#include "plan/engine.h"

#include "base/hash.h"
#include "plan/plan_file.h"

#include <stdio.h>
#include <string.h>

/* ---- the digest ---- */

/* Attributes (a learning rate, an epsilon) do not matter to a plan: when and where is all it
 * says. */
void graph_digest(const Graph *graph, char digest[17])
{
    uint64_t hash = HASH_EMPTY;
    for (int32_t i = 0; i < graph->n_values; i++) {
        const Value *v = value_at(graph, i);
        hash = hash_int(hash_int(hash, v->type), v->bytes);
        hash = hash_int(hash_int(hash, v->root), v->offset);
        hash = hash_int(hash_int(hash, v->persistent + 2 * v->hosted), v->shape.rank);
        for (int a = 0; a < v->shape.rank; a++)
            hash = hash_int(hash, v->shape.dim[a]);
        hash = hash_text(hash, v->name ? v->name : "");
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        hash = hash_text(hash, node->op->name);
        hash = hash_int(hash_int(hash, node->part), node->inplace);
        hash = hash_text(hash, graph->modules[node->module].path);
        hash = hash_int(hash_int(hash, node->n_in), node->n_out);
        for (int j = 0; j < node->n_in; j++)
            hash = hash_int(hash, node->in[j]);
        for (int j = 0; j < node->n_out; j++)
            hash = hash_int(hash, node->out[j]);
    }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        hash = hash_int(hash_int(hash, graph->outputs[i].value), graph->outputs[i].part);
    snprintf(digest, 17, "%016llx", (unsigned long long)hash);
}

/* ---- out ---- */

static bool choice_counts(const Choice *choice)  /* worth a line: it has an algorithm or scratch */
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
        json_out_int(o, "scratch", (int64_t)choice->workspace_bytes);
        if (choice->own)
            json_out_bool(o, "own", true);
        json_out_end(o);
    }
    json_out_end(o);
}

static void write_offsets(JsonOut *o, const char *key, const PlanBuffers *all)
{
    json_out_row(o, key);                    /* in the order in which the steps begin the buffers */
    for (int32_t i = 0; i < all->n_buffers; i++)
        json_out_int(o, NULL, all->buffers[i].offset);
    json_out_end(o);
}

static void write_space(JsonOut *o, const char *name, int64_t budget_bytes, int64_t peak_bytes)
{
    json_out_object_row(o, name);
    json_out_int(o, "budget_bytes", budget_bytes);
    json_out_int(o, "peak_bytes", peak_bytes);
    json_out_end(o);
}

static void write_phase(JsonOut *o, const Program *program)
{
    json_out_object(o, NULL);
    json_out_string(o, "name", program->name);
    json_out_int(o, "repeat", program->repeat);
    json_out_int(o, "live_bytes", program->live_bytes);
    json_out_int(o, "arena_bytes", program->arena_bytes);
    json_out_int(o, "bound_bytes", program->bound_bytes);
    json_out_number(o, "cost", program->meter.cost);
    json_out_number(o, "base_cost", pgraph_base_cost(program->pgraph));
    write_offsets(o, "offsets", &program->buffers);
    if (program->slots.n_buffers) {
        json_out_int(o, "host_bytes", program->host_bytes);
        write_offsets(o, "host_offsets", &program->slots);
    }
    plan_steps_write(o, program->pgraph, program->plan);
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
    json_out_array(o, "phases");
    for (int i = 0; i < engine->n_programs; i++)
        write_phase(o, &engine->programs[i]);
    json_out_end(o);
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
    if (strcmp(name, device->name) || strcmp(model, device->model) || align != device->align)
        return fail(E_PLAN,
                    "%s was made for the device %s (%s), this is %s (%s); make a plan here with "
                    "plimsoll fit",
                    json_name(root), name, model, device->name, device->model);
    if (strcmp(library, device->library))
        return fail(E_PLAN,
                    "%s was made with the library %s, here it is %s; make a plan with this one by "
                    "plimsoll fit, or "
                    "choose the other by --backend",
                    json_name(root), library, device->library);
    if (threads != device->threads)
        return fail(E_PLAN,
                    "%s was made for %lld threads, not %d; give --threads %lld, or make a plan for "
                    "%d by plimsoll fit",
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
                    "differ; make a plan for this one by plimsoll fit",
                    json_name(root), text, digest);
    return OK;
}

typedef struct ChoiceRow {
    const char *algorithm;
    int64_t     scratch;
    bool        listed, own;
} ChoiceRow;

static Err read_choices(Pool *scratch, const Json *root, const Graph *graph, ChoiceRow *rows)
{
    const Json *list;
    Names       nodes;
    TRY(json_need_array(root, "choices", &list));
    names_init(&nodes, scratch, graph->n_nodes);
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
        TRY(json_need_int(item, "scratch", &row.scratch));
        TRY(json_maybe_bool(item, "own", &row.own));
        int32_t id = names_find(&nodes, node);
        if (id < 0 || rows[id].listed)
            return json_fail(list, item,
                             id < 0 ? "the graph has no node %s" : "node %s is chosen for twice",
                             node);
        rows[id] = row;
    }
    return OK;
}

static Err check_choices(const Json *root, const Engine *engine, const ChoiceRow *rows)
{
    for (int32_t i = 0; i < engine->graph->n_nodes; i++) {
        const Choice *here = &engine->choices[i];
        const char   *name = here->name ? here->name : "";
        bool          same = rows[i].listed == choice_counts(here);
        if (same && rows[i].listed)
            same = !strcmp(rows[i].algorithm, name) &&
                   rows[i].scratch == (int64_t)here->workspace_bytes;
        if (!same)
            return fail(E_PLAN,
                        "%s runs %s by '%s' with %lld bytes of scratch, this library by '%s' with "
                        "%lld; make a plan "
                        "here by plimsoll fit",
                        json_name(root), node_text(engine->graph, i),
                        rows[i].listed ? rows[i].algorithm : "", (long long)rows[i].scratch, name,
                        (long long)here->workspace_bytes);
    }
    return OK;
}

static Err read_figure(const Json *object, const char *key, int64_t here)
{
    int64_t there;
    TRY(json_need_int(object, key, &there));
    if (there != here)
        return fail(E_PLAN,
                    "%s says %s %lld, its steps need %lld; the file was changed or is damaged",
                    json_name(object), key, (long long)there, (long long)here);
    return OK;
}

static Err read_offsets(Pool *pool, const Json *phase, const char *key, int32_t n,
                        int64_t **offsets)
{
    const Json *list = NULL;
    *offsets = NEWN(pool, int64_t, n + 1);
    if (n == 0 && !json_get(phase, key))
        return OK;
    TRY(json_need_array(phase, key, &list));
    if (list->n != (uint32_t)n)
        return json_fail(phase, list, "%u %s are given for %d buffers", list->n, key, n);
    for (uint32_t i = 0; i < list->n; i++)
        TRY(json_item_int(list, i, &(*offsets)[i]));
    return OK;
}

static Err read_phase(Pool *pool, const Json *phase, Engine *engine, Program *program,
                      int64_t budget_bytes)
{
    const Json *steps;
    const char *name;
    int64_t     repeat, host = 0, *offsets, *slots;
    Plan       *plan = program->plan = NEW(pool, Plan);
    TRY(json_need_text(phase, "name", &name));
    TRY(json_need_int(phase, "repeat", &repeat));
    TRY(json_need_array(phase, "steps", &steps));
    if (strcmp(name, program->name) || repeat != program->repeat)
        return fail(E_PLAN, "%s has a phase %s run %lld times where this step has %s, %lld times",
                    json_name(phase), name, (long long)repeat, program->name,
                    (long long)program->repeat);
    TRY(plan_steps_read(pool, steps, program->pgraph, plan));
    for (int32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].kind != STEP_RUN && plan->steps[i].kind != STEP_DROP &&
            engine->device->to_host <= 0)
            return fail(E_PLAN, "%s moves a value to the host, which %s has no use for",
                        json_name(phase), engine->device->name);
    TRY(plan_check(program->pgraph, plan, 0));
    TRY(plan_buffers(pool, program->pgraph, plan, &program->buffers));
    TRY(plan_slots(pool, program->pgraph, plan, &program->slots));
    TRY(read_offsets(pool, phase, "offsets", program->buffers.n_buffers, &offsets));
    TRY(read_offsets(pool, phase, "host_offsets", program->slots.n_buffers, &slots));
    plan->budget_bytes = budget_bytes;
    plan->base_cost = pgraph_base_cost(program->pgraph);
    plan->bound_bytes = plan_bound_bytes(program->pgraph);
    TRY(engine_place(pool, engine, program, 0, offsets, slots));
    plan->live_bytes = program->meter.live_bytes;
    plan->cost = program->meter.cost;
    engine_count(pool, engine, program);
    if (program_in_step(program))
        engine->keep_all_ns += (double)program->repeat * plan->base_cost;
    TRY(read_figure(phase, "live_bytes", program->live_bytes));
    TRY(json_maybe_int(phase, "host_bytes", &host));
    if (host != program->host_bytes)
        TRY(read_figure(phase, "host_bytes", program->host_bytes));
    return read_figure(phase, "arena_bytes", program->arena_bytes);
}

static Err read_engine(Pool *pool, Pool *scratch, const Json *root, Graph *graph,
                       const Device *device, const EngineOptions *options, Engine **out)
{
    const Json *phases;
    int64_t     budget = 0;
    TRY(plan_format_check(root));
    if (!json_get(root, "phases"))
        return json_fail(root, NULL,
                         "this is a plan of a bare graph; make one of a training step by plimsoll "
                         "fit -o");
    TRY(json_need_array(root, "phases", &phases));
    TRY(json_maybe_int(root, "budget_bytes", &budget));
    TRY(read_device(root, device));

    ChoiceRow *rows = NEWN(scratch, ChoiceRow, graph->n_nodes);
    bool      *own = NEWN(scratch, bool, graph->n_nodes);
    TRY(graph_check(graph));
    if (!options->no_inplace)
        graph_take_inplace(graph);           /* part of what the digest says */
    TRY(read_digest(root, graph));
    TRY(read_choices(scratch, root, graph, rows));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        own[i] = rows[i].own;
    TRY(engine_begin(pool, graph, device, options, own, out));
    Engine *engine = *out;
    TRY(check_choices(root, engine, rows));
    if (phases->n != (uint32_t)engine->n_programs)
        return json_fail(root, phases, "%u phases are given, this step has %d", phases->n,
                         engine->n_programs);
    for (int i = 0; i < engine->n_programs; i++) {
        if (phases->items[i].kind != JSON_OBJECT)
            return json_fail(phases, &phases->items[i], "a phase must be an object, not %s",
                             json_kind_text(&phases->items[i]));
        TRY(read_phase(pool, &phases->items[i], engine, &engine->programs[i], budget));
    }
    TRY(json_need_int(root, "keep_all_bytes", &engine->keep_all_bytes));     /* for reports only */
    TRY(json_need_bool(root, "cut", &engine->cut));
    TRY(read_figure(root, "persistent_bytes", engine->persistent_bytes));
    TRY(read_figure(root, "live_bytes", engine->live_bytes));
    return read_figure(root, "arena_bytes", engine->arena_bytes);
}

Err engine_read(Pool *pool, const Json *root, Graph *graph, const Device *device,
                const EngineOptions *options, Engine **out)
{
    static const EngineOptions defaults = { 0 };
    Pool *scratch = pool_new(NULL, "engine_read");
    Err   err = read_engine(pool, scratch, root, graph, device, options ? options : &defaults, out);
    pool_free(scratch);
    return err;
}
