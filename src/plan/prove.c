/* prove.c -- lower bounds for a plan (prove.h). */
#include "plan/prove.h"

#include "plan/proof/proof.h"
#include "plan/staging.h"

#include <math.h>

enum {
    PROVE_ALL_MOMENTS = 400,
    PROVE_RANGES = 12,
    PROVE_FULLEST = 16,
    PROVE_MOMENTS = 12,
    PROVE_COLUMNS = 3000
};
#define PROVE_TERMS   20000000 /* a larger program is not built */
#define PROVE_SECONDS 30.0

/* Chooses the moments to look at: all of a small graph; of a large graph the fullest few in each of
 * PROVE_RANGES ranges of the input order. Few, not one: hardly anything may depend on the fullest
 * run. */
static int32_t prove_choose(Pool *pool, const Task *task, int32_t *chosen)
{
    Schedule *s = schedule_new(pool, task);
    int32_t   n = task->n_nodes, ranges = n <= PROVE_ALL_MOMENTS ? n : PROVE_RANGES, count = 0;
    int64_t   live = task->fixed_bytes, *load = NEWN(pool, int64_t, n + 1);
    for (int32_t p = 0; p < s->after; p = schedule_next(s, p)) {
        live += s->begin[p];
        load[s->node_at[p]] = live + task->nodes[s->node_at[p]].workspace;
        live -= s->end[p];
    }
    for (int32_t i = 0; i < ranges; i++) {
        int32_t from = (int32_t)((int64_t)n * i / ranges);
        int32_t to = (int32_t)((int64_t)n * (i + 1) / ranges);
        for (int32_t k = 0; k < PROVE_FULLEST && k < to - from; k++) {
            int32_t full = from;
            for (int32_t m = from; m < to; m++)
                full = load[m] > load[full] ? m : full;
            load[full] = -1;
            chosen[count++] = full;
        }
    }
    return count;
}

/* The largest bound over the moments. tight: moments at which memory costs something. */
static void prove_min_cuts(const Task *task, int64_t budget, Proof *proof, bool *tight,
                           int32_t *best)
{
    Pool    *temp = pool_new(NULL, "prove");
    int32_t *chosen = NEWN(temp, int32_t, task->n_nodes + 1);
    int32_t  n = prove_choose(temp, task, chosen);
    double   max_extra = 0;
    for (int32_t i = 0; i < n; i++) {
        MinCutBound bound = min_cut_bound(temp, task, chosen[i], budget);
        tight[chosen[i]] = bound.cost > 0;
        if (bound.cost > max_extra) {
            max_extra = bound.cost;
            *best = chosen[i];
        }
        proof->any_bytes = bound.bytes > proof->any_bytes ? bound.bytes : proof->any_bytes;
    }
    proof->any_cost = task->base_cost + max_extra;
    pool_free(temp);
}

/* What the proofs of one plan share. */
typedef struct Proving {
    Pool               *pool, *temp; /* of the caller, for a cheaper plan; of the proofs */
    const PGraph       *graph;
    const Task         *task;
    const Plan         *plan;
    const ProveOptions *options;
    double              seconds; /* for CBC, each time */
    Proof              *proof;
} Proving;

/* A bound from several moments at once, if CBC is installed. */
static Err prove_moments(const Proving *p, const bool *tight, int32_t best)
{
    const Task *task = p->task;
    Milp        milp;
    MilpAnswer  answer;
    int32_t     size = task->n_nodes + task->n_values;
    int32_t     max_moments = PROVE_COLUMNS / size > PROVE_MOMENTS ? PROVE_MOMENTS
                                                                   : PROVE_COLUMNS / size;
    double      unit = task->base_cost > 0 ? task->base_cost / 10000 : 1;
    double      extra = p->plan->cost - task->base_cost;
    if (max_moments < 1 || !milp_can_solve() ||
        moments_build(p->temp, task, p->options->budget_bytes, tight, best, max_moments, unit,
                      &milp) == 0)
        return OK;
    TRY(milp_solve(p->temp, &milp, extra / unit + 1e-4, p->seconds, &answer));
    p->proof->any_cost = fmax(p->proof->any_cost,
                              task->base_cost + fmin(answer.bound * unit, extra));
    return OK;
}

static Err prove_any(const Proving *p)
{
    bool   *tight = NEWN(p->temp, bool, p->task->n_nodes + 1);
    int32_t best = -1;
    prove_min_cuts(p->task, p->options->budget_bytes, p->proof, tight, &best);
    if (best < 0 || p->task->n_nodes > PROVE_ALL_MOMENTS)
        return OK;
    return prove_moments(p, tight, best);
}

static bool prove_exact(const Task *task, int64_t budget, Proof *proof)
{
    Pool      *temp = pool_new(NULL, "prove");
    SolverArgs args = { .task = task, .budget_bytes = budget };
    RunList    list;
    solve_exact(temp, &args, &list);
    if (list.node) {
        proof->any_cost = list.cost;
        args.budget_bytes = LOWEST;
        solve_exact(temp, &args, &list);
        proof->any_bytes = list.node ? list.peak_bytes : proof->any_bytes;
        proof->exact = true;
    }
    pool_free(temp);
    return proof->exact;
}

/* The plan of a list that the program found. */
static Err prove_plan(const Proving *p, const RunList *list, Plan **plan)
{
    int32_t *runs, n;
    task_runs(p->temp, p->task, list->node, list->n, &runs, &n);
    TRY(plan_from_runs(p->pool, p->graph, runs, n, plan));
    (*plan)->budget_bytes = p->options->budget_bytes;
    return plan_check(p->graph, *plan, 0);
}

static Err prove_order(const Proving *p)
{
    const Task         *task = p->task;
    const ProveOptions *options = p->options;
    Proof              *proof = p->proof;
    Stages              stages;
    MilpAnswer          answer;
    if (!options->lp_path && proof->any_cost >= p->plan->cost * (1 - 1e-12)) {
        proof->order_note = "optimal, as in any order";
        return OK;
    }
    if (stages_terms(task) > PROVE_TERMS) {
        proof->order_note = "the graph is too large for the program";
        return OK;
    }
    stages_build(p->temp, task, options->budget_bytes, &stages);
    proof->order_columns = stages.milp.n_columns;
    proof->order_rows = stages.milp.n_rows;
    if (options->lp_path) {
        proof->order_note = "the program was written, not solved";
        return milp_write(&stages.milp, options->lp_path);
    }
    if (!milp_can_solve()) {
        proof->order_note = MILP_NO_SOLVER;
        return OK;
    }
    double extra = p->plan->cost - task->base_cost, cutoff = extra / stages.unit + 1e-4;
    TRY(milp_solve(p->temp, &stages.milp, cutoff, p->seconds, &answer));
    proof->order_tried = true;
    proof->order_closed = answer.closed;
    proof->order_cost = fmax(proof->any_cost,
                             task->base_cost + fmin(answer.bound * stages.unit, extra));
    if (answer.x && answer.cost < cutoff - 2e-4) {
        RunList list;
        Plan   *found;
        stages_list(p->temp, task, &stages, answer.x, &list);
        TRY(prove_plan(p, &list, &found));
        if (found->live_bytes <= options->budget_bytes && found->cost < p->plan->cost)
            proof->cheaper = found;
    }
    return OK;
}

/* The bounds ignore the host. A copy may replace a second run, and an idle value may lie on the
 * host, so the only safe bounds are each node once and the largest node. */
static Err prove_with_host(const PGraph *graph, const ProveOptions *options, Proof *proof)
{
    *proof = (Proof){ .any_cost = pgraph_base_cost(graph),
                      .any_bytes = plan_bound_bytes(graph),
                      .order_note = "its program knows no copies to the host" };
    return options->lp_path ? fail(E_USAGE,
                                   "%s is not written: the integer program does not model copies "
                                   "to the host, which this graph allows (bandwidth)",
                                   options->lp_path)
                            : OK;
}

Err plan_prove(Pool *pool, const PGraph *graph, const Plan *plan, const ProveOptions *options,
               Proof *proof)
{
    TRY(plan_check(graph, plan, options->budget_bytes));
    if (pgraph_has_staged(graph) || (graph->to_host > 0 && graph->to_device > 0))
        return prove_with_host(graph, options, proof);
    Pool   *temp = pool_new(NULL, "plan_prove");
    Task   *task = task_new(temp, graph);
    double  seconds = options->time_limit_s > 0 ? options->time_limit_s : PROVE_SECONDS;
    Proving p = { pool, temp, graph, task, plan, options, seconds, proof };
    Err     err = OK;
    *proof = (Proof){ .any_cost = task->base_cost, .any_bytes = plan_bound_bytes(graph) };
    if (!exact_can(task) || !prove_exact(task, options->budget_bytes, proof))
        err = prove_any(&p);
    if (options->any_only)
        proof->order_note = "left out";
    else if (!err)
        err = prove_order(&p);
    pool_free(temp);
    return err;
}
