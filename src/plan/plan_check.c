/* plan_check.c -- checks a plan. Plain code that shares nothing with the simulator or any solver.
 *
 * The rules, in the order in which they are checked:
 *   1 every step names a node or a value of the graph;
 *   2 a node marked once is not recomputed;
 *   3 every input of a run is live, readable and of the version that is read in the input order;
 *   4 a view is produced and read only while its root is live and not taken over; a value is not
 *     written again once a later node has written it;
 *   5 only a live value is dropped, never a persistent one, never a root with a live view, never a
 *     value with a pending copy;
 *   6 copies: save what is live, load what is on the host or is gathered, wait for what is pending;
 *   7 the live bytes, all outputs and the workspace included, stay within the budget;
 *   8 at the end every node has run, finals are live, and finals, their roots and persistent values
 *     hold their last version, host-resident ones in their slots;
 *   9 the host slots stay within the host's budget, and the figures that the plan states (bytes in
 *     both memories, cost with waits) are those found here;
 *  10 a transfer between ranks is started once before it is waited for, and what it moves is left
 *     alone in between: what arrives is not read, and nothing of it is written, copied or dropped.
 */
#include "plan/plan.h"

#include <math.h>

typedef enum PendingCopy { COPY_NONE, COPY_OUT, COPY_BACK } PendingCopy;

typedef struct ValueState {
    bool        live, readable;
    bool        on_host, slot; /* a complete copy is on the host; a slot is occupied, from the save
                              * on */
    PendingCopy pending;
    int32_t     version; /* the number of the writer: 0 before any, then 1, 2, ... */
    int32_t     host_version;
    int32_t     written; /* the latest version that was ever written */
    int32_t     n_writers;
    int32_t     live_views;
    int64_t     bytes;             /* while live, as the last run left it */
    double      arrives;           /* when the pending copy ends */
    int32_t     leaving, arriving; /* transfers under way that move it to, and from, other ranks */
} ValueState;

typedef struct Check {
    const PGraph *graph;
    const Plan   *plan;
    ValueState   *values;
    int32_t      *runs;   /* [node] times run */
    int32_t     **reads;  /* [node][input] version read in the input order */
    int32_t     **roots;  /* [node][input] version of a view's root then */
    int32_t     **writes; /* [node][output] version written */
    int64_t       sum, peak, host_sum, host_peak;
    double        cost;                /* also the current time: runs and waits follow each other */
    double        out_free, back_free; /* when each direction can begin another copy */
    double        wire_free;           /* when the next transfer can begin */
    double       *wire_ends;           /* [node] of the transfer that it started */
    bool         *under_way;           /* [node] it is not waited for yet */
    int32_t      *waits_for;           /* [node] which node waits for its transfer; -1: none */
    int32_t       step;
} Check;

static const char *check_name(const Check *c, int32_t value)
{
    return c->graph->values[value].name;
}

/* Numbers the versions as the input order writes them. */
static void check_versions(Check *c, Pool *pool)
{
    const PGraph *graph = c->graph;
    c->reads = NEWN(pool, int32_t *, graph->n_nodes + 1);
    c->roots = NEWN(pool, int32_t *, graph->n_nodes + 1);
    c->writes = NEWN(pool, int32_t *, graph->n_nodes + 1);
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const PNode *node = &graph->nodes[n];
        c->reads[n] = NEWN(pool, int32_t, node->n_in + 1);
        c->roots[n] = NEWN(pool, int32_t, node->n_in + 1);
        c->writes[n] = NEWN(pool, int32_t, node->n_out + 1);
        for (int32_t i = 0; i < node->n_in; i++) {
            int32_t root = graph->values[node->in[i]].view_of;
            c->reads[n][i] = c->values[node->in[i]].n_writers;
            c->roots[n][i] = root >= 0 ? c->values[root].n_writers : 0;
        }
        for (int32_t i = 0; i < node->n_out; i++)
            c->writes[n][i] = ++c->values[node->out[i]].n_writers;
    }
}

static Err check_input(const Check *c, int32_t id, int32_t input)
{
    const PNode      *node = &c->graph->nodes[id];
    int32_t           value = node->in[input], version = c->reads[id][input];
    const ValueState *state = &c->values[value];
    int32_t           root = c->graph->values[value].view_of;
    if (!state->live)
        return fail(E_PLAN, "step %d runs %s, but its input %s is not live", c->step, node->name,
                    check_name(c, value));
    if (root >= 0 && !c->values[root].live)
        return fail(E_PLAN, "step %d runs %s, but %s, the root of its input %s, is not live",
                    c->step, node->name, check_name(c, root), check_name(c, value));
    if (!state->readable || (root >= 0 && !c->values[root].readable))
        return fail(E_PLAN, "step %d runs %s, but its input %s is still being loaded", c->step,
                    node->name, check_name(c, value));
    if (c->values[root >= 0 ? root : value].arriving > 0)
        return fail(E_PLAN, "step %d runs %s, but its input %s is still arriving from other ranks",
                    c->step, node->name, check_name(c, value));
    if (state->version != version)
        return fail(E_PLAN,
                    "step %d runs %s, which reads version %d of %s, but it holds version %d",
                    c->step, node->name, version, check_name(c, value), state->version);
    if (root >= 0 && c->values[root].version != c->roots[id][input])
        return fail(E_PLAN,
                    "step %d runs %s, which reads %s, a view of %s, which has changed since",
                    c->step, node->name, check_name(c, value), check_name(c, root));
    return OK;
}

static void check_set_live(Check *c, int32_t value, bool live, int64_t bytes)
{
    ValueState *state = &c->values[value];
    int32_t     root = c->graph->values[value].view_of;
    if (state->live == live)
        return;
    state->live = live;
    if (live)
        state->bytes = bytes;
    if (root >= 0)
        c->values[root].live_views += live ? 1 : -1;
    else
        c->sum += live ? state->bytes : -state->bytes;
}

static void check_kill_views(Check *c, int32_t root)
{
    for (int32_t v = 0; v < c->graph->n_values && c->values[root].live_views > 0; v++) {
        if (c->graph->values[v].view_of == root)
            check_set_live(c, v, false, 0);
    }
}

/* ---- transfers between ranks ---- */

/* The value whose bytes it shares, or itself. */
static int32_t check_bytes_of(const Check *c, int32_t value)
{
    int32_t root = c->graph->values[value].view_of;
    return root >= 0 ? root : value;
}

static bool check_reads(const Check *c, const PNode *node, int32_t root)
{
    bool reads = false;
    for (int32_t i = 0; i < node->n_in; i++)
        reads |= check_bytes_of(c, node->in[i]) == root;
    return reads;
}

/* Counts what the transfer that `id` starts moves, or no longer moves: what both of its nodes
 * use. */
static void check_moves(Check *c, int32_t id, int32_t change)
{
    const PNode *first = &c->graph->nodes[id], *second = &c->graph->nodes[c->waits_for[id]];
    for (int32_t i = 0; i < first->n_in + first->n_out; i++) {
        bool    out = i >= first->n_in;
        int32_t root = check_bytes_of(c, out ? first->out[i - first->n_in] : first->in[i]);
        if (check_reads(c, second, root) && out)
            c->values[root].arriving += change;
        else if (check_reads(c, second, root))
            c->values[root].leaving += change;
    }
    c->under_way[id] = change > 0;
}

/* Is some transfer still moving it? */
static bool check_moving(const Check *c, int32_t value)
{
    const ValueState *state = &c->values[check_bytes_of(c, value)];
    return state->leaving > 0 || state->arriving > 0;
}

/* Before a node runs: the transfer that it waits for, and the one that it starts. */
static Err check_transfer_ends(Check *c, int32_t id)
{
    const PNode *node = &c->graph->nodes[id];
    int32_t      start = node->joins - 1;
    if (c->under_way[id])
        return fail(E_PLAN, "step %d runs %s, whose last transfer was not waited for", c->step,
                    node->name);
    if (start < 0)
        return OK;
    if (!c->under_way[start])
        return fail(E_PLAN, "step %d runs %s, which waits for a transfer that %s has not started",
                    c->step, node->name, c->graph->nodes[start].name);
    check_moves(c, start, -1);
    c->cost = fmax(c->cost, c->wire_ends[start]);
    return OK;
}

static void check_transfer_starts(Check *c, int32_t id)
{
    if (c->waits_for[id] < 0)
        return;
    c->wire_free = fmax(c->wire_free, c->cost) + c->graph->nodes[id].wire;
    c->wire_ends[id] = c->wire_free;
    check_moves(c, id, 1);
}

static Err check_writes_nothing_moving(const Check *c, const PNode *node)
{
    for (int32_t i = 0; i < node->n_out + 2 * node->n_inplace; i++) {
        int32_t k = i - node->n_out;
        int32_t value = k < 0 ? node->out[i] : node->inplace[k / 2][k % 2];
        if (check_moving(c, value))
            return fail(E_PLAN,
                        "step %d runs %s, which writes %s while other ranks send or read it",
                        c->step, node->name, check_name(c, value));
    }
    return OK;
}

static Err check_run(Check *c, int32_t id)
{
    const PGraph *graph = c->graph;
    const PNode  *node = &graph->nodes[id];
    if (node->once && c->runs[id] > 0)
        return fail(E_PLAN, "step %d runs %s again, but it may run only once", c->step, node->name);
    TRY(check_transfer_ends(c, id));
    TRY(check_writes_nothing_moving(c, node));
    for (int32_t i = 0; i < node->n_in; i++)
        TRY(check_input(c, id, i));

    int64_t extra = 0; /* old bytes of outputs that take over an input: freed after the run */
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t out = node->out[i], root = graph->values[out].view_of, taken = -1;
        int64_t bytes = root >= 0 ? 0 : graph->values[out].bytes;
        for (int32_t k = 0; k < node->n_inplace; k++) {
            if (node->inplace[k][0] == out && node->inplace[k][1] != out)
                taken = node->inplace[k][1];
        }
        if (c->values[out].pending != COPY_NONE)
            return fail(E_PLAN, "step %d runs %s while a copy of its output %s is pending", c->step,
                        node->name, check_name(c, out));
        if (taken >= 0) {
            if (graph->values[taken].view_of >= 0)
                taken = graph->values[taken].view_of;
            if (c->values[taken].pending != COPY_NONE)
                return fail(E_PLAN, "step %d runs %s in place of %s, whose copy is pending",
                            c->step, node->name, check_name(c, taken));
            if (c->values[out].live) { /* views of its old bytes are dead */
                extra += c->values[out].bytes;
                check_kill_views(c, out);
                check_set_live(c, out, false, 0);
            }
            bytes = graph->values[taken].persistent ? 0 : c->values[taken].bytes;
            check_kill_views(c, taken);
            if (graph->values[taken].persistent)
                c->values[taken].version = -1; /* its content is gone */
            else
                check_set_live(c, taken, false, 0);
        }
        if (!graph->values[out].persistent)
            check_set_live(c, out, true, bytes);
        if (c->values[out].written > c->writes[id][i])
            return fail(E_PLAN, "step %d runs %s, which writes version %d of %s after version %d",
                        c->step, node->name, c->writes[id][i], check_name(c, out),
                        c->values[out].written);
        c->values[out].version = c->values[out].written = c->writes[id][i];
        c->values[out].readable = true;
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t root = graph->values[node->out[i]].view_of;
        if (root >= 0 && !c->values[root].live)
            return fail(E_PLAN, "step %d runs %s, but %s, the root of its output %s, is not live",
                        c->step, node->name, check_name(c, root), check_name(c, node->out[i]));
    }
    c->runs[id]++;
    c->cost += node->cost;
    check_transfer_starts(c, id);
    if (c->sum + extra + node->workspace > c->peak)
        c->peak = c->sum + extra + node->workspace;
    return OK;
}

static Err check_drop(Check *c, int32_t value)
{
    const ValueState *state = &c->values[value];
    if (c->graph->values[value].persistent)
        return fail(E_PLAN, "step %d drops %s, which is persistent", c->step, check_name(c, value));
    if (!state->live)
        return fail(E_PLAN, "step %d drops %s, which is not live", c->step, check_name(c, value));
    if (state->live_views > 0)
        return fail(E_PLAN, "step %d drops %s while %d of its views are live", c->step,
                    check_name(c, value), state->live_views);
    if (state->pending != COPY_NONE)
        return fail(E_PLAN, "step %d drops %s while a copy of it is pending", c->step,
                    check_name(c, value));
    if (check_moving(c, value))
        return fail(E_PLAN, "step %d drops %s while it moves between ranks", c->step,
                    check_name(c, value));
    check_set_live(c, value, false, 0);
    return OK;
}

static double check_copy_time(const Check *c, int32_t value, double bandwidth)
{
    return bandwidth > 0 ? (double)c->graph->values[value].bytes / bandwidth : 0;
}

static Err check_copy(Check *c, StepKind kind, int32_t value)
{
    ValueState *state = &c->values[value];
    const char *name = check_name(c, value);
    if (c->graph->values[value].view_of >= 0)
        return fail(E_PLAN, "step %d copies %s, which is a view: copy its root", c->step, name);
    if (kind != STEP_WAIT && state->pending != COPY_NONE)
        return fail(E_PLAN, "step %d: a copy of %s is still pending", c->step, name);
    if ((kind == STEP_SAVE || kind == STEP_LOAD) && check_moving(c, value))
        return fail(E_PLAN, "step %d copies %s while it moves between ranks", c->step, name);
    switch (kind) {
    case STEP_SAVE:
        if (!state->live || !state->readable)
            return fail(E_PLAN, "step %d saves %s, which is not live", c->step, name);
        if (c->graph->values[value].gathered)
            return fail(E_PLAN, "step %d saves %s, which is gathered", c->step, name);
        state->pending = COPY_OUT;
        state->host_version = state->version;
        c->out_free = fmax(c->out_free, c->cost) + check_copy_time(c, value, c->graph->to_host);
        state->arrives = c->out_free;
        if (!state->slot)
            c->host_sum += c->graph->values[value].bytes;
        state->slot = true;
        if (c->host_sum > c->host_peak)
            c->host_peak = c->host_sum;
        break;
    case STEP_LOAD:
        if (!state->on_host || (state->live && !c->graph->values[value].persistent))
            return fail(E_PLAN, "step %d loads %s, which is %s", c->step, name,
                        state->on_host ? "live already" : "not on the host");
        if (!c->graph->values[value].persistent)
            check_set_live(c, value, true, c->graph->values[value].bytes);
        if (c->graph->values[value].gathered)
            state->arrives = c->wire_free = fmax(c->wire_free, c->cost) +
                                            c->graph->values[value].wire;
        else
            state->arrives = c->back_free = fmax(c->back_free, c->cost) +
                                            check_copy_time(c, value, c->graph->to_device);
        state->pending = COPY_BACK;
        state->readable = false;
        state->version = state->host_version;
        if (c->sum > c->peak)
            c->peak = c->sum;
        break;
    case STEP_WAIT:
        if (state->pending == COPY_NONE)
            return fail(E_PLAN, "step %d waits for %s, which has no copy pending", c->step, name);
        if (state->pending == COPY_OUT)
            state->on_host = true;
        c->cost = fmax(c->cost, state->arrives) + c->graph->values[value].stall;
        state->readable = true;
        state->pending = COPY_NONE;
        break;
    default:
        if (!state->on_host || pvalue_is_staged(&c->graph->values[value]))
            return fail(E_PLAN, "step %d frees the host slot of %s, which %s", c->step, name,
                        c->graph->values[value].host_resident ? "is host-resident" : "has none");
        state->on_host = state->slot = false;
        c->host_sum -= c->graph->values[value].bytes;
        break;
    }
    return OK;
}

static Err check_end(const Check *c, int64_t budget)
{
    const PGraph *graph = c->graph;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        if (c->runs[n] == 0)
            return fail(E_PLAN, "node %s never runs", graph->nodes[n].name);
        if (c->under_way[n])
            return fail(E_PLAN, "the transfer that %s starts is never waited for",
                        graph->nodes[n].name);
    }
    for (int32_t v = 0; v < graph->n_values; v++) {
        const ValueState *state = &c->values[v];
        int32_t           root = graph->values[v].view_of;
        if (state->pending != COPY_NONE)
            return fail(E_PLAN, "the copy of %s is never waited for", check_name(c, v));
        if (graph->values[v].host_resident && state->host_version != state->n_writers)
            return fail(E_PLAN, "%s ends with version %d of %d on the host", check_name(c, v),
                        state->host_version, state->n_writers);
        if (graph->values[v].final && (!state->live || (root >= 0 && !c->values[root].live)))
            return fail(E_PLAN, "final value %s is not live at the end", check_name(c, v));
        if (graph->values[v].final && root >= 0 &&
            c->values[root].version != c->values[root].n_writers)
            return fail(E_PLAN, "%s, the root of final value %s, ends with version %d of %d",
                        check_name(c, root), check_name(c, v), c->values[root].version,
                        c->values[root].n_writers);
        if ((graph->values[v].final || (graph->values[v].persistent && state->version >= 0)) &&
            state->version != state->n_writers)
            return fail(E_PLAN, "%s ends with version %d of %d", check_name(c, v), state->version,
                        state->n_writers);
    }
    if (budget > 0 && c->peak > budget)
        return fail(E_PLAN, "the plan needs %lld bytes, the budget is %lld", (long long)c->peak,
                    (long long)budget);
    if (c->plan->live_bytes && c->plan->live_bytes != c->peak)
        return fail(E_PLAN, "the plan states %lld live bytes, but needs %lld",
                    (long long)c->plan->live_bytes, (long long)c->peak);
    if (c->plan->host_budget_bytes > 0 && c->host_peak > c->plan->host_budget_bytes)
        return fail(E_PLAN, "the plan needs %lld bytes on the host, the budget there is %lld",
                    (long long)c->host_peak, (long long)c->plan->host_budget_bytes);
    if (c->plan->host_bytes && c->plan->host_bytes != c->host_peak)
        return fail(E_PLAN, "the plan states %lld bytes on the host, but needs %lld",
                    (long long)c->plan->host_bytes, (long long)c->host_peak);
    if (c->plan->cost > 0 && fabs(c->plan->cost - c->cost) > 1e-9 * c->cost)
        return fail(E_PLAN, "the plan states a cost of %.17g, but costs %.17g", c->plan->cost,
                    c->cost);
    return OK;
}

static Err check_steps(Check *c)
{
    for (c->step = 0; c->step < c->plan->n_steps; c->step++) {
        Step    step = c->plan->steps[c->step];
        int32_t limit = step.kind == STEP_RUN ? c->graph->n_nodes : c->graph->n_values;
        if ((int)step.kind < 0 || step.kind >= STEP_KINDS || step.id < 0 || step.id >= limit)
            return fail(E_PLAN, "step %d names no step or nothing of this graph", c->step);
        if (step.kind == STEP_RUN)
            TRY(check_run(c, step.id));
        else if (step.kind == STEP_DROP)
            TRY(check_drop(c, step.id));
        else
            TRY(check_copy(c, step.kind, step.id));
    }
    return OK;
}

Err plan_check(const PGraph *graph, const Plan *plan, int64_t budget_bytes)
{
    Pool *pool = pool_new(NULL, "plan_check");
    Check c = {
        .graph = graph,
        .plan = plan,
        .values = NEWN(pool, ValueState, graph->n_values + 1),
        .runs = NEWN(pool, int32_t, graph->n_nodes + 1),
        .wire_ends = NEWN(pool, double, graph->n_nodes + 1),
        .under_way = NEWN(pool, bool, graph->n_nodes + 1),
        .waits_for = NEWN(pool, int32_t, graph->n_nodes + 1),
    };
    for (int32_t n = 0; n < graph->n_nodes; n++)
        c.waits_for[n] = -1;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (graph->nodes[n].joins > 0)
            c.waits_for[graph->nodes[n].joins - 1] = n;
    for (int32_t v = 0; v < graph->n_values; v++) {
        c.values[v].on_host = graph->values[v].gathered; /* it can be loaded */
        if (graph->values[v].host_resident) {
            c.values[v].on_host = c.values[v].slot = true;
            c.host_sum += graph->values[v].bytes;
        }
        if (!graph->values[v].persistent)
            continue;
        c.values[v].live = c.values[v].readable = true;
        c.values[v].bytes = graph->values[v].bytes;
        if (graph->values[v].view_of < 0)
            c.sum += graph->values[v].bytes;
    }
    c.peak = c.sum;
    c.host_peak = c.host_sum;
    check_versions(&c, pool);
    Err err = check_steps(&c);
    if (!err)
        err = check_end(&c, budget_bytes);
    pool_free(pool);
    return err;
}
