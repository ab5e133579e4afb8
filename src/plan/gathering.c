/* gathering.c -- loads gathered values before the runs that use them, and drops them after.
 *
 *   run       | a(p) | b(p) | c    | d(q) | e(q) | ...
 *   p         |=============|
 *   q                load q |------|=============|
 *
 * Gathered bytes never exceed the window. A value stays while it has a reader to come and its room
 * is not needed; where room is needed, the value whose next reader comes last is dropped, and loaded
 * again for that reader. The next value to come is loaded as late as the queue allows, with half as
 * much time again to spare. All ranks follow the same plan, so they load in the same order. */
#include "plan/gathering.h"

#include "base/int_math.h"

/* The n-th gathered value that the node reads; -1: no more. */
static int32_t gather_value(const PGraph *graph, const PNode *node, int32_t n)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (graph->values[node->in[i]].gathered && n-- == 0)
            return node->in[i];
    return -1;
}

int64_t gather_bytes(const PGraph *graph, const PNode *node)
{
    int64_t bytes = 0;
    for (int32_t n = 0, v; (v = gather_value(graph, node, n)) >= 0; n++)
        bytes += graph->values[v].bytes;
    return bytes;
}

int64_t gather_window(const PGraph *graph)
{
    int64_t widest = 0, largest = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        widest = int_max(widest, gather_bytes(graph, &graph->nodes[n]));
    for (int32_t v = 0; v < graph->n_values; v++)
        largest = int_max(largest, graph->values[v].gathered ? graph->values[v].bytes : 0);
    return widest + largest;
}

typedef struct GatherUse { /* a run reads a value */
    int32_t value, run;    /* run: its place among the runs that read gathered values */
    int32_t next;          /* use of the same value; -1: none */
    double  start;         /* of the run, counting runs alone */
} GatherUse;

typedef struct Gathering {
    const PGraph *graph;
    Pool         *pool;
    Plan         *plan;
    GatherUse    *uses; /* in order */
    int32_t       n, cap;
    int32_t       at;  /* the first use that has not run */
    int32_t      *use; /* [value] its first use that has not run; -1: none */
    bool         *here, *pending;
    int32_t      *live; /* values that are here, in order of their loads */
    int32_t       n_live, n_pending;
    int64_t       window, held;
    double        now, queue;
} Gathering;

static void gather_collect(Gathering *g, const Plan *plan)
{
    double  time = 0;
    int32_t run = 0;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const PNode *node = &g->graph->nodes[plan->steps[i].id];
        if (plan->steps[i].kind != STEP_RUN)
            continue;
        for (int32_t n = 0, v; (v = gather_value(g->graph, node, n)) >= 0; n++)
            VEC_ADD(g->pool, g->uses, g->n, g->cap, ((GatherUse){ v, run, -1, time }));
        run += gather_value(g->graph, node, 0) >= 0;
        time += node->cost;
    }
    for (int32_t v = 0; v < g->graph->n_values; v++)
        g->use[v] = -1;
    for (int32_t i = g->n; i-- > 0;) {
        g->uses[i].next = g->use[g->uses[i].value];
        g->use[g->uses[i].value] = i;
    }
}

static void gather_wait(Gathering *g, int32_t v)
{
    if (!g->pending[v])
        return;
    plan_add(g->pool, g->plan, STEP_WAIT, v);
    g->pending[v] = false;
    g->n_pending--;
}

static void gather_drop(Gathering *g, int32_t v)
{
    gather_wait(g, v);
    plan_add(g->pool, g->plan, STEP_DROP, v);
    g->here[v] = false;
    g->held -= g->graph->values[v].bytes;
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_live; i++)
        if (g->live[i] != v)
            g->live[n++] = g->live[i];
    g->n_live = n;
}

static void gather_load(Gathering *g, int32_t v)
{
    plan_add(g->pool, g->plan, STEP_LOAD, v);
    g->here[v] = g->pending[v] = true;
    g->n_pending++;
    g->live[g->n_live++] = v;
    g->held += g->graph->values[v].bytes;
    g->queue = (g->queue > g->now ? g->queue : g->now) + g->graph->values[v].wire;
}

/* Drops values that are read later than use `before`, the last ones first, until one of so many
 * bytes has room. False: the rest is needed sooner. */
static bool gather_make_room(Gathering *g, int64_t bytes, int32_t before)
{
    while (g->held + bytes > g->window) {
        int32_t last = -1;
        for (int32_t i = 0; i < g->n_live; i++)
            if (last < 0 || g->use[g->live[i]] > g->use[last])
                last = g->live[i];
        if (last < 0 || g->use[last] < before || g->uses[g->use[last]].run == g->uses[before].run)
            return false;
        gather_drop(g, last);
    }
    return true;
}

/* The next value to come, if it must be loaded now to arrive in time. `time`: of the runs so far. */
static void gather_ahead(Gathering *g, double time)
{
    for (int32_t i = g->at; i < g->n && g->n_pending < GATHERS_UNDER_WAY; i++) {
        int32_t v = g->uses[i].value;
        if (g->here[v])
            continue;
        double queued = g->queue > g->now ? g->queue - g->now : 0;
        if (g->uses[i].start - time > 1.5 * (queued + g->graph->values[v].wire) ||
            !gather_make_room(g, g->graph->values[v].bytes, i))
            return;
        gather_load(g, v);
    }
}

static void gather_run(Gathering *g, const PNode *node, double time)
{
    for (int32_t n = 0, v; (v = gather_value(g->graph, node, n)) >= 0; n++) {
        if (g->here[v])
            continue;
        bool room = gather_make_room(g, g->graph->values[v].bytes, g->use[v]);
        REQUIRE(room); /* the window holds what any node uses */
        gather_load(g, v);
    }
    gather_ahead(g, time);
    for (int32_t n = 0, v; (v = gather_value(g->graph, node, n)) >= 0; n++)
        gather_wait(g, v);
}

static void gather_used(Gathering *g, const PNode *node)
{
    for (int32_t n = 0, v; (v = gather_value(g->graph, node, n)) >= 0; n++) {
        g->at++;
        g->use[v] = g->uses[g->use[v]].next;
    }
    for (int32_t n = 0, v; (v = gather_value(g->graph, node, n)) >= 0; n++)
        if (g->use[v] < 0)
            gather_drop(g, v);
}

void gather_steps(Pool *pool, const PGraph *graph, const Plan *plan, Plan *out)
{
    Gathering g = { .graph = graph,
                    .pool = pool,
                    .plan = out,
                    .use = NEWN(pool, int32_t, graph->n_values + 1),
                    .here = NEWN(pool, bool, graph->n_values + 1),
                    .pending = NEWN(pool, bool, graph->n_values + 1),
                    .live = NEWN(pool, int32_t, graph->n_values + 1),
                    .window = gather_window(graph) };
    double    time = 0;
    gather_collect(&g, plan);
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const Step   step = plan->steps[i];
        const PNode *node = step.kind == STEP_RUN ? &graph->nodes[step.id] : NULL;
        if (node && gather_value(graph, node, 0) >= 0)
            gather_run(&g, node, time);
        else if (node)
            gather_ahead(&g, time);
        plan_add(pool, out, step.kind, step.id);
        if (!node)
            continue;
        g.now += node->cost;
        time += node->cost;
        gather_used(&g, node);
    }
}
