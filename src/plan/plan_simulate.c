/* plan_simulate.c -- steps through a plan and meters its bytes and cost. No other code meters
 * bytes.
 *
 * Runs and waits take time. Each direction has one queue of copies: a copy starts when it is
 * requested and the copy before it has ended. Transfers between ranks have a third queue: the node
 * that waits for one begins when it has ended, and a gathered value is loaded by one.
 *
 * The plan should pass plan_check; where the simulator cannot go on it returns an error.
 */
#include "plan/plan.h"

typedef struct Meter {
    PlanMeter *out;
    int64_t    live;
    int32_t    step;
} Meter;

/* The only function that changes the byte count; the peak is updated after the change. */
static void meter_add(Meter *m, int64_t bytes, int64_t workspace)
{
    m->live += bytes;
    if (m->live + workspace > m->out->live_bytes) {
        m->out->live_bytes = m->live + workspace;
        m->out->peak_step = m->step;
    }
}

typedef struct Replay {
    const PGraph *graph;
    int64_t      *held;          /* [value] bytes while live, if a run produced it */
    int64_t      *bytes;         /* [value] bytes now: a loaded value has only its own size */
    bool         *live;          /* [value] */
    bool         *on_host;       /* [value] has a host slot */
    double       *copied;        /* [value] when its last copy ends */
    double        now, queue[2]; /* when the last copy in each direction ends */
    double        wire, *landed; /* when the last transfer ends; [node] the one that it started */
    int64_t       host;
    bool         *ran;                    /* [node] */
    int32_t      *first_view, *next_view; /* [value] list of a root's views */
    Meter         meter;
} Replay;

static bool replay_is_live(const Replay *r, int32_t value)
{
    int32_t root = pgraph_root(r->graph, value);
    return (r->graph->values[value].persistent || r->live[value]) &&
           (r->graph->values[root].persistent || r->live[root]);
}

static void replay_free(Replay *r, int32_t root)
{
    r->live[root] = false;
    for (int32_t v = r->first_view[root]; v >= 0; v = r->next_view[v])
        r->live[v] = false;
}

static void replay_wait_transfer(Replay *r, const PNode *node)
{
    double left = node->joins ? r->landed[TRANSFER_NODE(node->joins)] - r->now : 0;
    if (left <= 0)
        return;
    r->meter.out->waited_wire += left;
    r->meter.out->cost += left;
    r->now += left;
}

static void replay_start_transfer(Replay *r, int32_t id)
{
    double wire = r->graph->nodes[id].wire;
    r->wire = (r->wire > r->now ? r->wire : r->now) + wire;
    r->landed[id] = r->wire;
    r->meter.out->wire += wire;
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
        int32_t root = pgraph_root(graph, in);
        if (r->live[out]) { /* its old bytes are freed after the run, and views of them are dead */
            freed_after += r->bytes[out];
            replay_free(r, out);
        }
        r->bytes[out] = graph->values[root].persistent ? 0 : r->bytes[root];
        replay_free(r, root);
        r->live[out] = true;
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t v = node->out[i];
        if (!r->live[v] && !graph->values[v].persistent) {
            r->bytes[v] = r->held[v];
            made += r->held[v];
        }
        r->live[v] = true;
    }
    meter_add(&r->meter, made, node->workspace);
    if (r->meter.out->curve)
        r->meter.out->curve[r->meter.step] = r->meter.live + node->workspace;
    meter_add(&r->meter, -freed_after, 0);
    replay_wait_transfer(r, node);
    r->meter.out->cost += node->cost;
    r->now += node->cost;
    if (node->wire > 0)
        replay_start_transfer(r, id);
    r->meter.out->n_runs++;
    r->meter.out->n_recomputes += r->ran[id];
    r->ran[id] = true;
    return OK;
}

static void replay_copy(Replay *r, int32_t value, int direction, double bandwidth)
{
    double start = r->now > r->queue[direction] ? r->now : r->queue[direction];
    double bytes = (double)r->graph->values[value].bytes;
    r->copied[value] = r->queue[direction] = start + (bandwidth > 0 ? bytes / bandwidth : 0);
}

/* A gathered value arrives by the queue of transfers. */
static void replay_gather(Replay *r, int32_t v)
{
    double wire = r->graph->values[v].wire;
    r->copied[v] = r->wire = (r->wire > r->now ? r->wire : r->now) + wire;
    r->meter.out->wire += wire;
}

static void replay_wait_copy(Replay *r, int32_t v)
{
    const PValue *value = &r->graph->values[v];
    double        left = (r->copied[v] > r->now ? r->copied[v] - r->now : 0);
    if (value->gathered)
        r->meter.out->waited_wire += left;
    else
        r->meter.out->waited += left;
    r->meter.out->cost += left + value->stall;
    r->now += left + value->stall;
}

static void replay_transfer(Replay *r, StepKind kind, int32_t v)
{
    const PGraph *graph = r->graph;
    int64_t       bytes = graph->values[v].bytes;
    switch (kind) {
    case STEP_SAVE:
        replay_copy(r, v, 0, graph->to_host);
        r->host += r->on_host[v] ? 0 : bytes;
        r->on_host[v] = true;
        if (r->host > r->meter.out->host_bytes)
            r->meter.out->host_bytes = r->host;
        break;
    case STEP_LOAD:
        if (graph->values[v].gathered)
            replay_gather(r, v);
        else
            replay_copy(r, v, 1, graph->to_device);
        if (!r->live[v] && !graph->values[v].persistent) {
            r->live[v] = true;
            r->bytes[v] = bytes;
            meter_add(&r->meter, bytes, 0);
        }
        break;
    case STEP_WAIT: replay_wait_copy(r, v); break;
    default: r->host -= r->on_host[v] ? bytes : 0; r->on_host[v] = false;
    }
}

static Err replay_step(Replay *r, Step step)
{
    const PGraph *graph = r->graph;
    int32_t       limit = step.kind == STEP_RUN ? graph->n_nodes : graph->n_values;
    if (step.id < 0 || step.id >= limit)
        return fail(E_PLAN, "step %d: there is no node or value %d", r->meter.step, step.id);
    if (step.kind == STEP_RUN)
        return replay_run(r, step.id);
    if (step.kind == STEP_DROP) {
        if (!r->live[step.id] || graph->values[step.id].persistent)
            return fail(E_PLAN, "step %d drops %s, which is not live", r->meter.step,
                        graph->values[step.id].name);
        replay_free(r, step.id);
        meter_add(&r->meter, -r->bytes[step.id], 0);
    } else {
        replay_transfer(r, step.kind, step.id);
    }
    if (r->meter.out->curve)
        r->meter.out->curve[r->meter.step] = r->meter.live;
    return OK;
}

Err plan_simulate(Pool *pool_or_null, const PGraph *graph, const Plan *plan, PlanMeter *meter)
{
    Pool  *temp = pool_new(NULL, "plan_simulate");
    size_t n_values = (size_t)graph->n_values + 1;
    *meter = (PlanMeter){ .peak_step = -1 };
    if (pool_or_null)
        meter->curve = NEWN(pool_or_null, int64_t, plan->n_steps + 1);
    Replay r = {
        .graph = graph,
        .held = pgraph_held_bytes(temp, graph),
        .bytes = NEWN(temp, int64_t, n_values),
        .on_host = NEWN(temp, bool, n_values),
        .copied = NEWN(temp, double, n_values),
        .live = NEWN(temp, bool, n_values),
        .ran = NEWN(temp, bool, graph->n_nodes + 1),
        .landed = NEWN(temp, double, graph->n_nodes + 1),
        .first_view = NEWN(temp, int32_t, n_values),
        .next_view = NEWN(temp, int32_t, n_values),
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
    for (int32_t v = 0; v < graph->n_values; v++) {
        r.on_host[v] = graph->values[v].host_resident;
        r.host += graph->values[v].host_resident ? graph->values[v].bytes : 0;
    }
    meter->host_bytes = r.host;
    meter_add(&r.meter, pgraph_persistent_bytes(graph), 0);
    Err err = OK;
    for (int32_t s = 0; s < plan->n_steps && !err; s++) {
        r.meter.step = s;
        err = replay_step(&r, plan->steps[s]);
    }
    pool_free(temp);
    return err;
}
