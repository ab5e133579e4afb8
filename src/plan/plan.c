/* plan.c -- makes a plan from the order in which nodes run.
 *
 * Once the order of runs is fixed, recomputation included, memory is minimal when each value is
 * dropped after its last use before it is recomputed. So solvers only decide the runs, and
 * plan_from_runs adds the drops.
 */
#include "plan/plan.h"

#include "plan/staging.h"

void plan_add(Pool *pool, Plan *plan, StepKind kind, int32_t id)
{
    VEC_ADD(pool, plan->steps, plan->n_steps, plan->cap, (Step){ kind, id });
}

int64_t plan_peak_bytes(const Plan *plan)
{
    return plan->arena_bytes ? plan->arena_bytes : plan->live_bytes;
}

/* One pass backward over the runs finds the values that each run uses last. */
typedef struct Drops {
    const PGraph *graph;
    Pool         *pool;
    bool         *needed; /* [value] read later, before it is recomputed */
    int32_t      *views;  /* [root] how many of its views are needed */
    int32_t      *seen;   /* [value] 1 + the run at which it was last considered */
    int32_t      *list;   /* drops of all runs, the last run first; within a run, roots first */
    int32_t       n, cap;
} Drops;

static void drops_need(Drops *d, int32_t value, bool needed)
{
    int32_t root = d->graph->values[value].view_of;
    if (root >= 0 && d->needed[value] != needed)
        d->views[root] += needed ? 1 : -1;
    d->needed[value] = needed;
}

/* Drops the value at this run if nothing reads it later. Bytes that were taken over are gone
 * already. */
static void drops_look(Drops *d, int32_t run, const PNode *node, int32_t value)
{
    int32_t root = pgraph_root(d->graph, value);
    bool    taken = false;
    for (int32_t i = 0; i < node->n_inplace; i++)
        taken |= node->inplace[i][0] != node->inplace[i][1] &&
                 pgraph_root(d->graph, node->inplace[i][1]) == root;
    if (d->seen[value] == run + 1 || d->graph->values[value].persistent || taken)
        return;
    d->seen[value] = run + 1;
    if (!d->needed[value] && d->views[value] == 0)
        VEC_ADD(d->pool, d->list, d->n, d->cap, value);
}

static void drops_at(Drops *d, int32_t run, const PNode *node)
{
    const PGraph *graph = d->graph;
    /* Roots first: the list is read backwards, and a root must be dropped after its views. */
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
            int32_t v = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
            if (pass == 0)
                drops_look(d, run, node, pgraph_root(graph, v));
            else
                drops_look(d, run, node, v);
        }
    }
    for (int32_t i = 0; i < node->n_out; i++)
        drops_need(d, node->out[i], false);
    for (int32_t i = 0; i < node->n_in; i++)
        drops_need(d, node->in[i], true);
    for (int32_t i = 0; i < node->n_out; i++) { /* the root of a view must be there before */
        int32_t root = graph->values[node->out[i]].view_of;
        bool    made = root < 0;
        for (int32_t k = 0; k < node->n_out; k++)
            made |= node->out[k] == root;
        if (!made)
            drops_need(d, root, true);
    }
}

Err plan_from_runs(Pool *pool, const PGraph *graph, const int32_t *runs, int32_t n_runs, Plan **out)
{
    Pool    *temp = pool_new(NULL, "plan_from_runs");
    size_t   n_values = (size_t)graph->n_values + 1;
    int32_t *end = NEWN(temp, int32_t, n_runs + 1); /* [run] where its drops end in the list */
    Drops    d = {
           .graph = graph,
           .pool = temp,
           .needed = NEWN(temp, bool, n_values),
           .views = NEWN(temp, int32_t, n_values),
           .seen = NEWN(temp, int32_t, n_values),
    };
    for (int32_t v = 0; v < graph->n_values; v++) {
        if (graph->values[v].final)
            drops_need(&d, v, true);
    }
    for (int32_t r = n_runs - 1; r >= 0; r--) {
        drops_at(&d, r, &graph->nodes[runs[r]]);
        end[r] = d.n;
    }

    Plan *plan = NEW(pool, Plan);
    plan->cap = n_runs + d.n + 1;
    plan->steps = NEWN(pool, Step, plan->cap);
    for (int32_t r = 0; r < n_runs; r++) {
        plan_add(pool, plan, STEP_RUN, runs[r]);
        int32_t start = r + 1 < n_runs ? end[r + 1] : 0;
        for (int32_t i = end[r] - 1; i >= start; i--)
            plan_add(pool, plan, STEP_DROP, d.list[i]);
    }
    pool_free(temp);

    PlanMeter meter;
    TRY(plan_simulate(NULL, graph, plan, &meter));
    plan->live_bytes = meter.live_bytes;
    plan->host_bytes = meter.host_bytes;
    plan->cost = meter.cost;
    plan->base_cost = pgraph_base_cost(graph);
    plan->bound_bytes = plan_bound_bytes(graph);
    *out = plan;
    return OK;
}

Err plan_keep_all(Pool *pool, const PGraph *graph, Plan **plan)
{
    Pool         *temp = pool_new(NULL, "plan_keep_all");
    int32_t      *runs = NEWN(temp, int32_t, graph->n_nodes + 1);
    bool          staged = pgraph_has_staged(graph);
    const PGraph *seen = staged ? pgraph_for_solvers(temp, graph) : graph;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        runs[n] = n;
    Err err = plan_from_runs(pool, seen, runs, graph->n_nodes, plan);
    if (!err && staged)
        err = plan_stage(pool, graph, *plan, plan);
    pool_free(temp);
    return err;
}

/* At every run its inputs, outputs and workspace are live, in any plan. */
int64_t plan_bound_bytes(const PGraph *graph)
{
    Pool    *temp = pool_new(NULL, "plan_bound");
    int64_t *held = pgraph_held_bytes(temp, graph);
    int32_t *seen = NEWN(temp, int32_t, graph->n_values + 1);
    int64_t  fixed = pgraph_persistent_bytes(graph), max_node = 0;
    int64_t  finals = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        finals += graph->values[v].final && !graph->values[v].persistent ? held[v] : 0;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const PNode *node = &graph->nodes[n];
        int64_t      sum = node->workspace;
        for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
            bool    output = i >= node->n_in;
            int32_t v = output ? node->out[i - node->n_in] : node->in[i];
            int32_t root = pgraph_root(graph, v);
            if (seen[root] == n + 1 || graph->values[root].persistent)
                continue;
            seen[root] = n + 1;
            sum += output && pgraph_taken_over(node, v) >= 0 ? 0 : held[root];
        }
        max_node = sum > max_node ? sum : max_node;
    }
    pool_free(temp);
    return fixed + (max_node > finals ? max_node : finals);
}
