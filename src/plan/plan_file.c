/* plan_file.c -- reading and writing plan.json (`plimsoll-plan-1`) of a bare graph. See
 * docs/user/FORMATS.md. */
#include "plan/plan.h"

#include "plan/plan_buffers.h"
#include "plan/plan_file.h"

#include <string.h>

static const char *const step_words[] = {
#define X(name, word, text) word,
    STEP_LIST(X)
#undef X
};

Err plan_format_check(const Json *root)
{
    const char *format;
    TRY(json_need_text(root, "format", &format));
    if (strcmp(format, PLAN_FORMAT))
        return json_fail(root, NULL, "the format is %s, this program reads " PLAN_FORMAT, format);
    return OK;
}

typedef struct PlanReader {
    Pool     *pool;
    NameIndex values, nodes;
    Plan     *plan;
} PlanReader;

static Err read_step(PlanReader *r, const Json *steps, const Json *item)
{
    const char *name;
    int         kind = 0;
    if (item->kind != JSON_ARRAY || item->n != 2 || item->items[0].kind != JSON_TEXT)
        return json_fail(steps, item, "a step must be [\"run\", node] or [\"drop\", value]");
    while (kind < STEP_KINDS && strcmp(step_words[kind], item->items[0].text))
        kind++;
    if (kind == STEP_KINDS)
        return json_fail(steps, item, "there is no step %s", item->items[0].text);
    const char *what = kind == STEP_RUN ? "node" : "value";
    TRY(names_id(r->pool, item, &item->items[1], what, &name));
    int32_t id = names_find(kind == STEP_RUN ? &r->nodes : &r->values, name);
    if (id < 0)
        return json_fail(steps, item, "the graph has no %s %s; this plan is for another graph",
                         what, name);
    plan_add(r->pool, r->plan, (StepKind)kind, id);
    return OK;
}

Err plan_steps_read(Pool *pool, const Json *steps, const PGraph *graph, Plan *plan)
{
    Pool      *temp = pool_new(NULL, "plan_steps");
    PlanReader r = { .pool = pool, .plan = plan };
    Err        err = OK;
    names_init(&r.values, temp, graph->n_values);
    names_init(&r.nodes, temp, graph->n_nodes);
    for (int32_t v = 0; v < graph->n_values; v++)
        names_add(&r.values, graph->values[v].name, v);
    for (int32_t n = 0; n < graph->n_nodes; n++)
        names_add(&r.nodes, graph->nodes[n].name, n);
    for (uint32_t i = 0; i < steps->n && !err; i++)
        err = read_step(&r, steps, &steps->items[i]);
    pool_free(temp);
    return err;
}

static Err read_plan(Pool *pool, const Json *root, const PGraph *graph, Plan *plan)
{
    const Json *steps;
    TRY(plan_format_check(root));
    if (!json_get(root, "steps") && json_get(root, "phases"))
        return json_fail(root, NULL,
                         "this is a plan of a training step; plimsoll train --plan reads it");
    TRY(json_need_array(root, "steps", &steps));
    TRY(json_maybe_int(root, "budget_bytes", &plan->budget_bytes));
    TRY(json_maybe_int(root, "live_bytes", &plan->live_bytes));
    TRY(json_maybe_int(root, "arena_bytes", &plan->arena_bytes));
    TRY(json_maybe_int(root, "bound_bytes", &plan->bound_bytes));
    TRY(json_maybe_int(root, "host_budget_bytes", &plan->host_budget_bytes));
    TRY(json_maybe_int(root, "host_bytes", &plan->host_bytes));
    TRY(json_maybe_number(root, "cost", &plan->cost));
    TRY(json_maybe_number(root, "base_cost", &plan->base_cost));
    TRY(json_maybe_bool(root, "cut", &plan->cut));
    return plan_steps_read(pool, steps, graph, plan);
}

Err plan_read(Pool *pool, const char *path, const PGraph *graph, Plan **plan)
{
    Pool       *temp = pool_new(NULL, "plan_read");
    const Json *root;
    *plan = NEW(pool, Plan);
    Err err = json_read(temp, path, 0, &root);
    if (!err && root->kind != JSON_OBJECT)
        err = fail(E_FORMAT, "%s: a plan is an object, not %s", path, json_kind_text(root));
    if (!err)
        err = read_plan(pool, root, graph, *plan);
    pool_free(temp);
    return err;
}

void plan_steps_write(JsonOut *o, const PGraph *graph, const Plan *plan, int32_t from, int32_t to)
{
    json_out_array(o, "steps");
    for (int32_t s = from; s < to; s++) {
        Step step = plan->steps[s];
        json_out_row(o, NULL);
        json_out_string(o, NULL, step_words[step.kind]);
        if (step.kind == STEP_RUN)
            names_write(o, NULL, graph->nodes[step.id].name, graph->nodes[step.id].number);
        else
            names_write(o, NULL, graph->values[step.id].name, graph->values[step.id].number);
        json_out_end(o);
    }
    json_out_end(o);
}

/* Where each value and workspace lies, for a plan that was placed. */
static Err plan_live_ranges_write(JsonOut *o, const PGraph *graph, const Plan *plan)
{
    Pool        *temp = pool_new(NULL, "plan_live_ranges_write");
    PlacedRange *placed;
    int32_t      n;
    Err          err = plan_placed_ranges(temp, graph, plan, &placed, &n);
    json_out_array(o, "live_ranges");
    for (int32_t i = 0; i < n && !err; i++) {
        const PlacedRange *p = &placed[i];
        json_out_object_row(o, NULL);
        if (p->value >= 0)
            names_write(o, "value", graph->values[p->value].name, graph->values[p->value].number);
        else
            names_write(o, "node", graph->nodes[p->node].name, graph->nodes[p->node].number);
        json_out_int(o, "first_step", p->first_step);
        json_out_int(o, "last_step", p->last_step);
        json_out_int(o, "offset", p->offset);
        json_out_int(o, "bytes", p->bytes);
        json_out_end(o);
    }
    json_out_end(o);
    pool_free(temp);
    return err;
}

Err plan_write(const char *path, const PGraph *graph, const Plan *plan)
{
    FileOut file;
    JsonOut o;
    TRY(file_out_init(&file, path));
    json_out_file(&o, &file, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", PLAN_FORMAT);
    json_out_int(&o, "budget_bytes", plan->budget_bytes);
    json_out_int(&o, "peak_bytes", plan_peak_bytes(plan));
    json_out_int(&o, "live_bytes", plan->live_bytes);
    json_out_int(&o, "arena_bytes", plan->arena_bytes);
    json_out_int(&o, "bound_bytes", plan->bound_bytes);
    if (plan->host_bytes > 0) {
        json_out_int(&o, "host_budget_bytes", plan->host_budget_bytes);
        json_out_int(&o, "host_bytes", plan->host_bytes);
    }
    json_out_number(&o, "cost", plan->cost);
    json_out_number(&o, "base_cost", plan->base_cost);
    json_out_bool(&o, "cut", plan->cut);
    plan_steps_write(&o, graph, plan, 0, plan->n_steps);
    Err err = plan->arena_bytes > 0 ? plan_live_ranges_write(&o, graph, plan) : OK;
    json_out_end(&o);
    Err written = json_out_done(&o);
    return file_out_done(&file, err ? err : written);
}
