/* simulate.c -- replay a plan and meter its bytes and cost. The only place where bytes are metered.
 *
 * Assumes a plan that plan_check would pass, and stops with a sentence where it cannot go on.
 */
#include "plan/plan.h"

typedef struct Meter {
    PlanMeter *out;
    int64_t    live;
    int32_t    step;
} Meter;

/* The only function that moves the byte count; the peak is taken after the move. */
static void meter_add(Meter *m, int64_t bytes, int64_t workspace)
{
    m->live += bytes;
    if (m->live + workspace > m->out->live_bytes) {
        m->out->live_bytes = m->live + workspace;
        m->out->peak_step  = m->step;
    }
}

typedef struct Replay {
    const PGraph *graph;
    int64_t      *held;      /* [value] bytes while live */
    bool         *live;      /* [value] */
    bool         *ran;       /* [node] */
    int32_t      *first_view, *next_view;   /* [value] list of a root's views */
    Meter         meter;
} Replay;

static bool replay_is_live(const Replay *r, int32_t value)
{
    int32_t root = pgraph_root(r->graph, value);
    return (r->graph->values[value].persistent || r->live[value])
           && (r->graph->values[root].persistent || r->live[root]);
}

static void replay_end(Replay *r, int32_t root)
{
    r->live[root] = false;
    for (int32_t v = r->first_view[root]; v >= 0; v = r->next_view[v])
        r->live[v] = false;
}

static Err replay_run(Replay *r, int32_t id)
{
    const PGraph *graph = r->graph;
    const PNode  *node = &graph->nodes[id];
    int64_t       made = 0, freed_after = 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        if (!replay_is_live(r, node->in[i]))
            return fail(E_PLAN, "step %d runs %s, but its input %s is not live", r->meter.step,
                        node->name, graph->values[node->in[i]].name);
    }
    for (int32_t i = 0; i < node->n_inplace; i++) {
        int32_t out = node->inplace[i][0], in = node->inplace[i][1];
        if (out == in)
            continue;
        if (r->live[out])    /* its old bytes are given up once the run has written the new ones */
            freed_after += r->held[out];
        replay_end(r, pgraph_root(graph, in));
        r->live[out] = true;
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t v = node->out[i];
        if (!r->live[v] && !graph->values[v].persistent)
            made += r->held[v];
        r->live[v] = true;
    }
    meter_add(&r->meter, made, node->workspace);
    if (r->meter.out->curve)
        r->meter.out->curve[r->meter.step] = r->meter.live + node->workspace;
    meter_add(&r->meter, -freed_after, 0);
    r->meter.out->cost += node->cost;
    r->meter.out->n_runs++;
    r->meter.out->n_recomputes += r->ran[id];
    r->ran[id] = true;
    return OK;
}

static Err replay_step(Replay *r, Step step)
{
    const PGraph *graph = r->graph;
    int32_t limit = step.kind == STEP_RUN ? graph->n_nodes : graph->n_values;
    if (step.id < 0 || step.id >= limit)
        return fail(E_PLAN, "step %d: there is no node or value %d", r->meter.step, step.id);
    if (step.kind == STEP_RUN)
        return replay_run(r, step.id);
    if (step.kind == STEP_DROP) {
        if (!r->live[step.id] || graph->values[step.id].persistent)
            return fail(E_PLAN, "step %d drops %s, which is not live", r->meter.step,
                        graph->values[step.id].name);
        replay_end(r, step.id);
        meter_add(&r->meter, -r->held[step.id], 0);
    } else if (step.kind == STEP_LOAD && !r->live[step.id]) {
        r->live[step.id] = true;
        meter_add(&r->meter, r->held[step.id], 0);
    }
    if (r->meter.out->curve)
        r->meter.out->curve[r->meter.step] = r->meter.live;
    return OK;
}

Err plan_simulate(Pool *pool_or_null, const PGraph *graph, const Plan *plan, PlanMeter *meter)
{
    Pool  *scratch = pool_new(NULL, "plan_simulate");
    size_t n_values = (size_t)graph->n_values + 1;
    *meter = (PlanMeter){ .peak_step = -1 };
    if (pool_or_null)
        meter->curve = NEWN(pool_or_null, int64_t, plan->n_steps + 1);
    Replay r = {
        .graph = graph, .held = pgraph_held_bytes(scratch, graph),
        .live = NEWN(scratch, bool, n_values), .ran = NEWN(scratch, bool, graph->n_nodes + 1),
        .first_view = NEWN(scratch, int32_t, n_values),
        .next_view = NEWN(scratch, int32_t, n_values),
        .meter = { .out = meter, .step = -1 },
    };
    for (int32_t v = 0; v < graph->n_values; v++)
        r.first_view[v] = -1;
    for (int32_t v = 0; v < graph->n_values; v++) {
        int32_t root = graph->values[v].view_of;
        if (root >= 0) {
            r.next_view[v] = r.first_view[root];
            r.first_view[root] = v;
        }
    }
    meter_add(&r.meter, pgraph_persistent_bytes(graph), 0);
    Err err = OK;
    for (int32_t s = 0; s < plan->n_steps && !err; s++) {
        r.meter.step = s;
        err = replay_step(&r, plan->steps[s]);
    }
    pool_free(scratch);
    return err;
}
