/* explain_json.c -- the balance sheet as JSON; the schema is in docs/FORMATS.md. */
#include "report/explain.h"

#include "report/machine.h"

static void rows_json(JsonOut *o, const char *key, const char *name, const SheetRow *rows, int32_t n, const Sheet *s, bool total)
{
    json_out_array(o, key);
    for (int32_t i = 0; i < n; i++) {
        json_out_object_row(o, NULL);
        json_out_string(o, name, rows[i].name);
        json_out_int(o, "bytes", rows[i].bytes);
        if (total)
            json_out_int(o, "total_bytes", rows[i].total);
        json_out_int(o, "buffers", rows[i].n);
        json_out_end(o);
    }
    json_out_object_row(o, NULL);
    json_out_string(o, name, "(gaps)");
    json_out_int(o, "bytes", s->gap_bytes);
    json_out_end(o);
    json_out_end(o);
}

static void tensors_json(JsonOut *o, const Sheet *s)
{
    const Graph *graph = s->engine->graph;
    json_out_array(o, "tensors_at_peak");
    for (int32_t i = 0; i < s->n_live; i++) {
        const LiveBuffer *b = &s->live[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "name", b->value >= 0 ? value_text(graph, b->value) : node_text(graph, b->node));
        json_out_string(o, "class", class_name(b->class));
        json_out_int(o, "bytes", b->bytes);
        if (b->value >= 0) {
            const Value *v = value_at(graph, b->value);
            json_out_string(o, "type", type_name(v->type));
            json_out_row(o, "shape");
            for (int a = 0; a < v->shape.rank; a++)
                json_out_int(o, NULL, v->shape.dim[a]);
            json_out_end(o);
        }
        json_out_string(o, "module", graph->modules[b->module].path);
        if (b->source.file) {
            json_out_string(o, "file", b->source.file);
            json_out_int(o, "line", b->source.line);
        }
        json_out_int(o, "first_step", b->first_step);
        json_out_int(o, "last_step", b->last_step);
        json_out_end(o);
    }
    json_out_end(o);
}

Err explain_json(FILE *to, const Explained *e)
{
    const Sheet  *s = e->sheet;
    const Engine *engine = s->engine;
    JsonOut       o;
    int64_t       budget = e->budget_bytes ? e->budget_bytes : engine->device->memory_bytes;

    json_out_stream(&o, to, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", "plimsoll-explain-1");
    json_out_string(&o, "model", e->recipe->name);
    json_out_object_row(&o, "device");
    json_out_string(&o, "name", engine->device->name);
    json_out_string(&o, "model", engine->device->model);
    json_out_string(&o, "library", engine->device->library);
    json_out_int(&o, "threads", engine->device->threads);
    json_out_int(&o, "memory_bytes", engine->device->memory_bytes);
    json_out_bool(&o, "described", engine->device->described);
    json_out_bool(&o, "workspaces", device_has_kernels(engine->device));
    json_out_end(&o);
    json_out_int(&o, "runtime_bytes", e->runtime_bytes);
    json_out_object_row(&o, "parameters");
    json_out_int(&o, "count", s->parameters);
    json_out_int(&o, "trainable", s->trained);
    json_out_int(&o, "bytes", s->parameter_bytes);
    json_out_end(&o);
    json_out_int(&o, "peak_bytes", s->peak_bytes);
    json_out_int(&o, "live_bytes", s->live_bytes);
    json_out_string(&o, "peak_phase", part_name(s->part));
    json_out_string(&o, "peak_node", node_text(engine->graph, s->node));
    json_out_object(&o, "classes");
    for (int c = 0; c < CLASS_COUNT; c++)
        json_out_int(&o, class_name((Class)c), s->classes[c]);
    json_out_int(&o, "gaps", s->gap_bytes);
    json_out_end(&o);
    json_out_array(&o, "phases");
    for (int i = 0; i < engine->n_programs; i++) {
        json_out_object_row(&o, NULL);
        json_out_string(&o, "name", engine->programs[i].name);
        json_out_int(&o, "peak_bytes", engine->programs[i].arena_bytes);
        json_out_int(&o, "live_bytes", engine->programs[i].live_bytes);
        json_out_int(&o, "steps", engine->programs[i].plan->n_steps);
        json_out_end(&o);
    }
    json_out_end(&o);
    json_out_int(&o, "budget_bytes", budget);
    json_out_bool(&o, "fits", s->peak_bytes <= budget);
    json_out_object_row(&o, "plan");
    json_out_int(&o, "micro_batch", e->recipe->batch);
    json_out_int(&o, "accumulate", e->recipe->accumulate);
    json_out_string(&o, "precision", recipe_precisions[e->recipe->precision]);
    json_out_int(&o, "recompute_nodes", 0);
    json_out_end(&o);
    time_json(&o, engine, e->step_ms, 1);
    rows_json(&o, "modules", "module", s->modules, s->n_modules, s, true);
    rows_json(&o, "lines", "line", s->lines, s->n_lines, s, false);
    tensors_json(&o, s);
    json_out_end(&o);
    return json_out_done(&o);
}
