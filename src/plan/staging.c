/* staging.c -- host-resident values are staged in around the nodes that use them; gathering.c does
 * the same for gathered ones.
 *
 * Solvers see a graph without both (pgraph_for_solvers): nodes that use such values have one window
 * of additional workspace. plan_stage then adds the copies to the plan that was found:
 *
 *   to device   | load 0 | load 1 | load 2 |  ...
 *   run         |  ...   | wait 0, update 0 | wait 1, update 1 |  ...
 *   to host     |                  | save 0            | save 1 |  ...
 *   dropped                                       0, when its copy has ended or its room is needed
 *
 * Staged bytes on the device never exceed the window: what three consecutive such nodes use (one on
 * its way in, one running, one on its way out), or an eighth of all host-resident bytes, up to
 * WINDOW_MAX, so that many small values can be in flight. Loads start as late as the queue allows,
 * with half as much time again to spare. Nothing waits for a copy except a run that needs its
 * values, and the end. */
#include "plan/staging.h"

#include "base/text.h"
#include "plan/gathering.h"

#include <string.h>

enum { WINDOW_MAX = 32 << 20, STAGE_TRIES = 3 };

static int64_t stage_host_bytes(const PGraph *graph)
{
    int64_t bytes = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        bytes += graph->values[v].host_resident ? graph->values[v].bytes : 0;
    return bytes;
}

bool pgraph_has_staged(const PGraph *graph)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        if (pvalue_is_staged(&graph->values[v]))
            return true;
    return false;
}

/* The n-th host-resident value of a node, counting inputs, then outputs that are not inputs; -1: no
 * more. */
static int32_t stage_value(const PGraph *graph, const PNode *node, int32_t n)
{
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        int32_t v = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        bool    again = false;
        for (int32_t k = 0; i >= node->n_in && k < node->n_in; k++)
            again |= node->in[k] == v;
        if (graph->values[v].host_resident && !again && n-- == 0)
            return v;
    }
    return -1;
}

static int64_t stage_bytes(const PGraph *graph, const PNode *node)
{
    int64_t bytes = 0;
    for (int32_t n = 0, v; (v = stage_value(graph, node, n)) >= 0; n++)
        bytes += graph->values[v].bytes;
    return bytes;
}

static int64_t stage_window(const PGraph *graph)
{
    int64_t last[3] = { 0 }, widest = 0, all = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        int64_t bytes = stage_bytes(graph, &graph->nodes[n]);
        if (!bytes)
            continue;
        last[0] = last[1];
        last[1] = last[2];
        last[2] = bytes;
        all += bytes;
        widest = last[0] + last[1] + last[2] > widest ? last[0] + last[1] + last[2] : widest;
    }
    int64_t batch = all / 8 < WINDOW_MAX ? all / 8 : WINDOW_MAX;
    return widest > batch ? widest : batch;
}

PGraph *pgraph_for_solvers(Pool *pool, const PGraph *graph)
{
    PGraph *out = NEW(pool, PGraph);
    int64_t window = stage_window(graph), gathers = gather_window(graph);
    *out = *graph;
    out->values = NEWN(pool, PValue, graph->n_values + 1);
    out->nodes = NEWN(pool, PNode, graph->n_nodes + 1);
    memcpy(out->values, graph->values, sizeof *out->values * (size_t)graph->n_values);
    memcpy(out->nodes, graph->nodes, sizeof *out->nodes * (size_t)graph->n_nodes);
    for (int32_t v = 0; v < graph->n_values; v++)
        if (pvalue_is_staged(&graph->values[v]))
            out->values[v] = (PValue){ .name = graph->values[v].name,
                                       .view_of = -1,
                                       .producer = graph->values[v].producer,
                                       .persistent = true };
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        if (stage_bytes(graph, &graph->nodes[n]))
            out->nodes[n].workspace += window;
        if (gather_bytes(graph, &graph->nodes[n]))
            out->nodes[n].workspace += gathers;
    }
    return out;
}

typedef struct StagedRun { /* one run of a node that uses host-resident values */
    int32_t node;
    double  start; /* start of the run, counting runs alone */
    double  saved; /* when its values are saved */
    int64_t bytes; /* of its values, on the device from load to drop */
} StagedRun;

typedef struct Staging {
    const PGraph *graph;
    Pool         *pool;
    Plan         *plan;
    StagedRun    *staged;
    int32_t       n, cap;
    int32_t       loaded, run, dropped; /* how many are loaded, run and dropped so far, each in
                                             * order */
    bool         *on_device;            /* [value] on the device */
    int64_t       window, held;
    double        now, in_queue, out_queue;
} Staging;

static bool stage_writes(const PNode *node, int32_t value)
{
    for (int32_t i = 0; i < node->n_out; i++)
        if (node->out[i] == value)
            return true;
    return false;
}

/* Drops the values of the oldest staged run. */
static void stage_drop(Staging *s)
{
    StagedRun   *current = &s->staged[s->dropped++];
    const PNode *node = &s->graph->nodes[current->node];
    for (int32_t n = 0, v; (v = stage_value(s->graph, node, n)) >= 0; n++) {
        if (stage_writes(node, v))
            plan_add(s->pool, s->plan, STEP_WAIT, v);
        plan_add(s->pool, s->plan, STEP_DROP, v);
        s->on_device[v] = false;
    }
    s->held -= current->bytes;
    s->now = current->saved > s->now ? current->saved : s->now;
}

static bool stage_can_load(const Staging *s)
{
    if (s->loaded == s->n || s->held + s->staged[s->loaded].bytes > s->window)
        return false;
    const PNode *node = &s->graph->nodes[s->staged[s->loaded].node];
    for (int32_t n = 0, v; (v = stage_value(s->graph, node, n)) >= 0; n++)
        if (s->on_device[v]) /* in use by an earlier run: it must be saved
                                                       * first */
            return false;
    return true;
}

static double stage_time(int64_t bytes, double bandwidth)
{
    return bandwidth > 0 ? (double)bytes / bandwidth : 0;
}

static void stage_load(Staging *s)
{
    StagedRun   *current = &s->staged[s->loaded++];
    const PNode *node = &s->graph->nodes[current->node];
    for (int32_t n = 0, v; (v = stage_value(s->graph, node, n)) >= 0; n++) {
        plan_add(s->pool, s->plan, STEP_LOAD, v);
        s->on_device[v] = true;
    }
    s->held += current->bytes;
    s->in_queue = (s->in_queue > s->now ? s->in_queue : s->now) +
                  stage_time(current->bytes, s->graph->to_device);
}

/* Must the next loads start now to arrive in time? `at`: the time of the runs so far. */
static bool stage_due(const Staging *s, double at)
{
    if (s->loaded == s->n)
        return false;
    const StagedRun *next = &s->staged[s->loaded];
    double           queued = s->in_queue > s->now ? s->in_queue - s->now : 0;
    return next->start - at <= 1.5 * (queued + stage_time(next->bytes, s->graph->to_device));
}

static void stage_ahead(Staging *s, double at)
{
    while (stage_due(s, at) && stage_can_load(s))
        stage_load(s);
}

static void stage_run(Staging *s, double at)
{
    StagedRun   *current = &s->staged[s->run];
    const PNode *node = &s->graph->nodes[current->node];
    while (s->loaded == s->run) { /* not loaded yet: make room */
        if (stage_can_load(s))
            stage_load(s);
        else
            stage_drop(s);
    }
    /* The next one should be loading while this one runs; only older ones may be dropped for it. */
    while (s->loaded == s->run + 1 && s->dropped < s->run && stage_due(s, at) && !stage_can_load(s))
        stage_drop(s);
    stage_ahead(s, at);
    for (int32_t n = 0, v; (v = stage_value(s->graph, node, n)) >= 0; n++)
        plan_add(s->pool, s->plan, STEP_WAIT, v);
    plan_add(s->pool, s->plan, STEP_RUN, current->node);
    s->run++;
    s->now += node->cost;
    for (int32_t n = 0, v; (v = stage_value(s->graph, node, n)) >= 0; n++)
        if (stage_writes(node, v)) {
            plan_add(s->pool, s->plan, STEP_SAVE, v);
            s->out_queue = (s->out_queue > s->now ? s->out_queue : s->now) +
                           stage_time(s->graph->values[v].bytes, s->graph->to_host);
        }
    current->saved = s->out_queue;
}

static void stage_collect(Staging *s, const Plan *plan)
{
    double time = 0;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const PNode *node = &s->graph->nodes[plan->steps[i].id];
        if (plan->steps[i].kind != STEP_RUN)
            continue;
        if (stage_value(s->graph, node, 0) >= 0) /* a value of 0 bytes must be loaded,
                                                          * too */
            VEC_ADD(s->pool, s->staged, s->n, s->cap,
                    ((StagedRun){ plan->steps[i].id, time, 0, stage_bytes(s->graph, node) }));
        time += node->cost;
    }
}

/* Adds the copies of host-resident values to the steps of the plan. */
static void stage_steps(Pool *temp, const PGraph *graph, const Plan *plan, Plan *steps)
{
    Staging s = { .graph = graph,
                  .pool = temp,
                  .plan = steps,
                  .window = stage_window(graph),
                  .on_device = NEWN(temp, bool, graph->n_values + 1) };
    double  at = 0;
    stage_collect(&s, plan);
    for (int32_t i = 0; i < plan->n_steps; i++) {
        Step step = plan->steps[i];
        bool runs = step.kind == STEP_RUN;
        while (runs && s.dropped < s.run && s.staged[s.dropped].saved <= s.now)
            stage_drop(&s);
        if (runs)
            stage_ahead(&s, at);
        if (runs && s.run < s.n && s.staged[s.run].node == step.id) {
            stage_run(&s, at);
        } else {
            plan_add(temp, steps, step.kind, step.id);
            s.now += runs ? graph->nodes[step.id].cost : 0;
        }
        at += runs ? graph->nodes[step.id].cost : 0;
    }
    while (s.dropped < s.n)
        stage_drop(&s);
}

Err plan_stage(Pool *pool, const PGraph *graph, const Plan *plan, Plan **out)
{
    Pool     *temp = pool_new(NULL, "plan_stage");
    Plan      staging = { 0 }, steps = { 0 };
    Plan     *staged = *out = NEW(pool, Plan);
    PlanMeter meter;
    stage_steps(temp, graph, plan, &staging);
    gather_steps(temp, graph, &staging, &steps);
    *staged = *plan;
    staged->steps = NEWN(pool, Step, steps.n_steps + 1);
    memcpy(staged->steps, steps.steps, sizeof *steps.steps * (size_t)steps.n_steps);
    staged->n_steps = staged->cap = steps.n_steps;
    if (plan->host_budget_bytes > 0) /* the budget was for copies alone: add the
                                              * host-resident values */
        staged->host_budget_bytes += stage_host_bytes(graph);
    pool_free(temp);
    TRY(plan_simulate(NULL, graph, staged, &meter));
    staged->live_bytes = meter.live_bytes;
    staged->host_bytes = meter.host_bytes;
    staged->arena_bytes = 0;
    staged->cost = meter.cost;
    staged->bound_bytes = plan_bound_bytes(graph);
    return plan_check(graph, staged, 0);
}

/* The search does not know where the windows will lie, so its plan is measured after staging. If
 * that is too large, the search is asked for as much less, and finally for its minimum. */
Err plan_stage_within(Pool *pool, const PGraph *graph, PlanSearch *search, bool layout,
                      int64_t budget, Plan **plan)
{
    int64_t aim = budget;
    Err     err = OK;
    *plan = NULL;
    for (int tries = 0; tries <= STAGE_TRIES; tries++) {
        Plan *found;
        if (budget > 0 && (tries == STAGE_TRIES || aim < 1))
            aim = 1;
        err = plan_search_within(pool, search, aim, &found);
        if (err && err != E_BUDGET)
            return err;
        TRY(plan_stage(pool, graph, found, &found));
        found->budget_bytes = budget;
        if (layout)
            TRY(plan_place(graph, found, budget));
        if (!*plan || plan_peak_bytes(found) < plan_peak_bytes(*plan))
            *plan = found;
        if (budget <= 0 || plan_peak_bytes(found) <= budget) {
            *plan = found;
            return plan_check(graph, found, layout ? 0 : budget);
        }
        if (err) /* that was the minimum already */
            break;
        aim -= plan_peak_bytes(found) - budget;
    }
    return fail(E_BUDGET,
                "no plan fits %s: the smallest peak found is %s, and no plan needs less than %s",
                bytes_exact(budget), bytes_exact(plan_peak_bytes(*plan)),
                bytes_exact((*plan)->bound_bytes));
}
