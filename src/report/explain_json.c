/* explain_json.c -- the balance sheet as JSON; docs/user/FORMATS.md describes it. */
#include "report/explain_pages.h"

#include "fit/whatif.h"
#include "report/curve.h"
#include "report/machine.h"
#include "report/rank_pages.h"

#include <string.h>

/* The last row of every table of the peak, with the same members as the other rows. */
static void gaps_json(JsonOut *o, const char *name, const char *where, const char *more,
                      const Sheet *s)
{
    json_out_object_row(o, NULL);
    json_out_string(o, name, "(gaps)");
    if (where)
        json_out_string(o, where, "(gaps)");
    json_out_int(o, "bytes", s->gap_bytes);
    if (more)
        json_out_int(o, more, !strcmp(more, "total_bytes") ? s->gap_bytes : 0);
    json_out_int(o, "buffers", 0);
    json_out_end(o);
}

static void rows_json(JsonOut *o, const char *key, const char *name, const SheetRow *rows,
                      int32_t n, const Sheet *s, bool total)
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
    gaps_json(o, name, NULL, total ? "total_bytes" : NULL, s);
    json_out_end(o);
}

static void shape_json(JsonOut *o, Type type, Shape shape)
{
    json_out_string(o, "type", type_name(type));
    json_out_row(o, "shape");
    for (int a = 0; a < shape.rank; a++)
        json_out_int(o, NULL, shape.dim[a]);
    json_out_end(o);
}

static void batch_json(JsonOut *o, const Explained *e)
{
    json_out_int(o, "batch_bytes", e->batch_bytes);
    json_out_array(o, "batch");
    for (int32_t i = 0; i < e->n_batch; i++) {
        const BatchItem *item = &e->batch[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "name", item->name);
        shape_json(o, item->type, item->shape);
        json_out_int(o, "bytes", item->bytes);
        json_out_string(o, "view_of", item->view_of);
        json_out_bool(o, "read", item->read);
        json_out_end(o);
    }
    json_out_end(o);
}

static void avoided_json(JsonOut *o, const Explained *e)
{
    json_out_array(o, "avoided");
    for (int32_t i = 0; i < e->n_avoided; i++) {
        const Avoided *a = &e->avoided[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "name", a->name);
        json_out_int(o, "bytes", a->bytes);
        json_out_int(o, "count", a->count);
        json_out_int(o, "total_bytes", a->bytes * a->count);
        json_out_string(o, "reason", a->reason);
        json_out_end(o);
    }
    json_out_end(o);
}

static void bottlenecks_json(JsonOut *o, const Explained *e)
{
    json_out_array(o, "bottlenecks");
    for (int32_t i = 0; i < e->n_bottlenecks; i++) {
        const Bottleneck *b = &e->bottlenecks[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "what", b->what);
        json_out_string(o, "where", b->where);
        json_out_int(o, "bytes", b->bytes);
        json_out_int(o, "buffers", b->n);
        json_out_int(o, "each_bytes", b->each);
        json_out_end(o);
    }
    gaps_json(o, "what", "where", "each_bytes", e->sheet);
    json_out_end(o);
}

/* One number for every run of a phase, in the order of the plan: live bytes, state included, or the
 * predicted time in nanoseconds. */
static void timeline_row(JsonOut *o, const Engine *engine, const char *phase, bool times)
{
    json_out_row(o, times ? "ns" : "live_bytes");
    for (int k = 0; k < engine->n_programs; k++) {
        const Program *p = &engine->programs[k];
        for (int32_t s = 0; s < p->plan->n_steps; s++) {
            Step    step = p->plan->steps[s];
            int32_t node = step.kind == STEP_RUN ? p->node_of[step.id] : -1;
            if (node < 0 || strcmp(phase_public_name(engine->graph->nodes[node].phase), phase))
                continue;
            json_out_int(o, NULL,
                         times ? (int64_t)(engine->node_ns[node] * engine_pace(engine) + 0.5)
                               : p->meter.curve[s] + p->live_bytes - p->meter.live_bytes);
        }
    }
    json_out_end(o);
}

static void timeline_json(JsonOut *o, const Engine *engine, const PhaseRow *phases, int32_t n)
{
    json_out_array(o, "timeline");
    for (int32_t i = 0; i < n; i++) {
        if (!phases[i].steps)
            continue;
        json_out_object_row(o, NULL);
        json_out_string(o, "phase", phases[i].name);
        timeline_row(o, engine, phases[i].name, false);
        timeline_row(o, engine, phases[i].name, true);
        json_out_end(o);
    }
    json_out_end(o);
}

static void classes_json(JsonOut *o, const int64_t *classes, int64_t gap_bytes)
{
    json_out_object_row(o, "classes");
    for (int c = 0; c < CLASS_COUNT; c++)
        json_out_int(o, class_name((Class)c), classes[c]);
    json_out_int(o, "gaps", gap_bytes);
    json_out_end(o);
}

static void phases_json(JsonOut *o, const PhaseRow *phases, int32_t n)
{
    json_out_array(o, "phases");
    for (int32_t i = 0; i < n; i++) {
        const PhaseRow *phase = &phases[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "name", phase->name);
        json_out_int(o, "peak_bytes", phase->peak_bytes);
        json_out_int(o, "live_bytes", phase->live_bytes);
        json_out_int(o, "steps", phase->steps);
        json_out_int(o, "repeat", phase->repeat);
        json_out_int(o, "every", phase->every);
        classes_json(o, phase->classes, phase->peak_bytes - phase->live_bytes);
        json_out_end(o);
    }
    json_out_end(o);
}

static void budgets_json(JsonOut *o, const Explained *e)
{
    json_out_array(o, "budgets");
    for (int32_t i = 0; i < e->n_budgets; i++) {
        const Budget *b = &e->budgets[i];
        json_out_object_row(o, NULL);
        json_out_int(o, "budget_bytes", b->asked_bytes);
        json_out_string(o, "verdict", verdict_words[b->verdict]);
        if (b->largest_batch >= 0)
            json_out_int(o, "largest_batch", b->largest_batch);
        if (b->largest_replanned >= 0)
            json_out_int(o, "largest_batch_replanned", b->largest_replanned);
        json_out_end(o);
    }
    json_out_end(o);
}

static void what_if_json(JsonOut *o, const Explained *e)
{
    json_out_array(o, "what_if");
    for (int32_t i = 0; i < e->n_what_if; i++) {
        const WhatIf *w = &e->what_if[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "name", w->name);
        json_out_string(o, "how", w->how);
        json_out_string(o, "effort", effort_words[w->effort]);
        json_out_bool(o, "exact", w->exact);
        json_out_bool(o, "failed", w->failed);
        json_out_bool(o, "cut", w->cut);
        if (!w->failed) {
            json_out_int(o, "peak_bytes", w->peak_bytes);
            json_out_int(o, "saved_bytes", w->saved_bytes);
            json_out_number(o, "slowdown", w->slowdown);
        }
        json_out_string(o, "note", w->note);
        json_out_end(o);
    }
    json_out_end(o);
    json_out_array(o, "beliefs");
    for (int32_t i = 0; i < e->n_beliefs; i++) {
        json_out_object_row(o, NULL);
        json_out_string(o, "belief", e->beliefs[i].belief);
        json_out_string(o, "truth", e->beliefs[i].truth);
        json_out_end(o);
    }
    json_out_end(o);
}

/* Everything kept; with --budget or --plan: that plan. */
static void plan_json(JsonOut *o, const Explained *e)
{
    const Recipe *r = e->fit ? e->fit->recipe : e->recipe;
    json_out_object(o, "plan");
    json_out_int(o, "micro_batch", r->batch);
    json_out_int(o, "accumulate", r->accumulate);
    json_out_string(o, "precision", recipe_precisions[r->precision]);
    json_out_int(o, "recompute_nodes", e->fit ? e->fit->engine->recomputed : 0);
    if (e->fit) {
        json_out_bool(o, "fits", e->fit->fits);
        json_out_int(o, "peak_bytes", e->fit->engine->arena_bytes);
        json_out_number(o, "step_ms", e->fit->step_ns * 1e-6 * engine_pace(e->fit->engine));
        json_out_number(o, "slowdown", e->fit->step_ns / (e->step_ms * 1e6));
        json_out_bool(o, "cut", e->fit->cut);
        fit_write_changes(o, e->fit);
        json_out_int(o, "live_bytes", e->fit_sheet->live_bytes);
        json_out_string(o, "peak_phase", phase_public_name(e->fit_sheet->phase));
        json_out_string(o, "peak_node", node_text(e->fit_sheet->engine->graph, e->fit_sheet->node));
        classes_json(o, e->fit_sheet->classes, e->fit_sheet->gap_bytes);
        phases_json(o, e->fit_phases, e->n_fit_phases);
        timeline_json(o, e->fit->engine, e->fit_phases, e->n_fit_phases);
    }
    json_out_end(o);
}

static void numeric_json(JsonOut *o, const Explained *e)
{
    json_out_array(o, "numeric");
    for (int32_t i = 0; i < e->n_numeric; i++) {
        json_out_object_row(o, NULL);
        json_out_string(o, "what", e->numeric[i].what);
        json_out_string(o, "choice", e->numeric[i].choice);
        if (e->numeric[i].nodes)
            json_out_int(o, "nodes", e->numeric[i].nodes);
        json_out_end(o);
    }
    json_out_end(o);
}

static void tensors_json(JsonOut *o, const Sheet *s)
{
    const Graph *graph = s->engine->graph;
    json_out_array(o, "tensors_at_peak");
    for (int32_t i = 0; i < s->n_live; i++) {
        const LiveBuffer *b = &s->live[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "name",
                        b->value >= 0 ? value_text(graph, b->value) : node_text(graph, b->node));
        json_out_string(o, "class", class_name(b->mem_class));
        json_out_int(o, "bytes", b->bytes);
        if (b->value >= 0) {
            const Value *v = value_at(graph, b->value);
            shape_json(o, v->type, v->shape);
        }
        json_out_string(o, "module", graph->modules[b->module].path);
        if (b->source.file) {
            json_out_string(o, "file", b->source.file);
            json_out_int(o, "line", b->source.line);
        }
        json_out_string(o, "until", live_until(s, b));
        json_out_int(o, "first_step", b->first_step);
        json_out_int(o, "last_step", b->last_step);
        json_out_end(o);
    }
    json_out_object_row(o, NULL);
    json_out_string(o, "name", "(gaps)");
    json_out_string(o, "class", "gaps");
    json_out_int(o, "bytes", s->gap_bytes);
    json_out_string(o, "module", "(gaps)");
    json_out_end(o);
    json_out_end(o);
}

void explain_json_members(JsonOut *o, const Explained *e)
{
    const Sheet  *s = e->sheet;
    const Engine *engine = s->engine;
    int64_t       budget = e->budget_bytes ? e->budget_bytes : engine->device->memory_bytes;

    json_out_string(o, "format", "plimsoll-explain-1");
    json_out_string(o, "model", e->recipe->name);
    json_out_object(o, "recipe");
    recipe_json(engine->graph->pool, e->recipe, o);
    json_out_end(o);
    json_out_object_row(o, "device");
    json_out_string(o, "name", engine->device->name);
    json_out_string(o, "model", engine->device->model);
    json_out_string(o, "library", engine->device->library);
    json_out_int(o, "threads", engine->device->threads);
    json_out_int(o, "memory_bytes", engine->device->memory_bytes);
    json_out_bool(o, "described", engine->device->described);
    json_out_bool(o, "planned_only", device_planned_only(engine->device));
    json_out_bool(o, "workspaces", device_has_kernels(engine->device));
    json_out_end(o);
    json_out_int(o, "runtime_bytes", e->runtime_bytes);
    json_out_object_row(o, "parameters");
    json_out_int(o, "count", s->parameters);
    json_out_int(o, "trainable", s->trained);
    json_out_int(o, "bytes", s->parameter_bytes);
    json_out_end(o);
    if (e->n_notes) {
        json_out_array(o, "notes");
        for (int32_t i = 0; i < e->n_notes; i++)
            json_out_string(o, NULL, e->notes[i]);
        json_out_end(o);
    }
    json_out_int(o, "peak_bytes", s->peak_bytes);
    json_out_int(o, "live_bytes", s->live_bytes);
    json_out_string(o, "peak_phase", phase_public_name(s->phase));
    json_out_string(o, "peak_node", node_text(engine->graph, s->node));
    classes_json(o, s->classes, s->gap_bytes);
    phases_json(o, e->phases, e->n_phases);
    json_out_int(o, "budget_bytes", budget + engine->device->runtime_bytes);
    json_out_bool(o, "fits", s->peak_bytes <= budget);
    if (e->minimum_bytes) {
        json_out_int(o, "minimum_bytes", e->minimum_bytes + engine->device->runtime_bytes);
        json_out_string(o, "minimum_how", e->minimum_how);
    }
    budgets_json(o, e);
    plan_json(o, e);
    time_json(o, engine, e->step_ms, 1);
    rank_json(o, engine, e->recipe, e->rank_rows, e->n_rank_rows);
    numeric_json(o, e);
    batch_json(o, e);
    avoided_json(o, e);
    bottlenecks_json(o, e);
    if (e->n_what_if)
        what_if_json(o, e);
    if (e->n_curve)
        curve_json(o, e->curve, e->n_curve, e->step_ms * 1e6, engine_pace(engine));
    rows_json(o, "modules", "module", s->modules, s->n_modules, s, true);
    rows_json(o, "lines", "line", s->lines, s->n_lines, s, false);
}

Err explain_json(FILE *to, const Explained *e)
{
    JsonOut o;
    json_out_stream(&o, to, JSON_PRETTY);
    json_out_object(&o, NULL);
    explain_json_members(&o, e);
    tensors_json(&o, e->sheet);
    timeline_json(&o, e->sheet->engine, e->phases, e->n_phases);
    json_out_end(&o);
    return json_out_done(&o);
}
