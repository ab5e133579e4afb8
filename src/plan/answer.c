/* answer.c -- from lists of runs (plan_solve.c) to the plan that is returned: checked, placed if
 * requested, with copies to the host if the graph has bandwidths.
 *
 *   everything kept       fits? Then nothing is cheaper
 *   the minimum           the smallest peak, by copies if they help. No smaller budget is accepted,
 *                         so a refusal names the minimum that is really used
 *   the budget            the cheapest list within it that can be placed
 *   the host              the lists of larger budgets and everything kept, with idle values copied
 *                         to the host and back until they fit (offload.c)
 *   and of all that fit, the cheapest.
 *
 * Every plan that is returned has passed plan_check. */
#include "base/text.h"
#include "plan/plan_buffers.h"
#include "plan/solve_int.h"
#include "plan/staging.h"

enum {
    ANSWER_PLACES = 12,  /* at most this many lists are placed */
    ANSWER_AIMS = 6,     /* searches for fewer bytes, if what was found could not be placed */
    ANSWER_HALVINGS = 24 /* bisections of the range that holds the minimum with copies */
};

struct PlanSearch {
    Pool         *pool;
    const PGraph *graph;
    PlanSearch   *inner; /* for graphs with host-resident values: searches the graph as solvers
                               * see it; else NULL */
    PlanOptions   options;
    PlanSolve     solve;
    bool          begun;
    /* the minimum with copies: the list, and the bytes to ask plan_offload for; 0: copies do not
     * help */
    RunList       offload_list;
    int64_t       offload_aim;
    bool          offload_known;
};

static Err answer_plan(Pool *pool, const PlanSolve *s, const RunList *list, Plan **plan)
{
    Pool    *temp = pool_new(NULL, "answer_plan");
    int32_t *runs, n;
    task_runs(temp, s->task, list->node, list->n, &runs, &n);
    Err err = plan_from_runs(pool, s->graph, runs, n, plan);
    pool_free(temp);
    TRY(err);
    if (s->graph->to_host == 0 && (*plan)->bound_bytes < s->proved_bytes)
        (*plan)->bound_bytes = s->proved_bytes;
    (*plan)->cut = s->cut;
    (*plan)->budget_bytes = s->options.budget_bytes;
    return plan_check(s->graph, *plan, 0);
}

Err plan_place(const PGraph *graph, Plan *plan, int64_t budget_bytes)
{
    Pool       *temp = pool_new(NULL, "plan_place");
    PlanBuffers buffers;
    Err err = plan_buffers_place(temp, graph, plan, budget_bytes, &buffers, &plan->arena_bytes);
    pool_free(temp);
    return err;
}

/* The plan with the smallest peak. It is placed without regard to the budget, so that a refusal
 * names the same minimum for every budget. */
static Err answer_minimum(Pool *pool, PlanSolve *s, Plan **plan)
{
    TRY(answer_plan(pool, s, &s->min_peak, plan));
    return s->options.layout ? plan_place(s->graph, *plan, 0) : OK;
}

static Err answer_refuse(const PlanSolve *s, const Plan *minimum)
{
    return fail(E_BUDGET,
                "no plan fits %s: the smallest peak found is %s, and no plan needs less than %s",
                bytes_exact(s->options.budget_bytes), bytes_exact(plan_peak_bytes(minimum)),
                bytes_exact(minimum->bound_bytes));
}

/* Tries lists, the cheapest first, until one can be placed within the budget. If one fits by bytes
 * but cannot be placed, two more lists join: one from the solvers that do not search, whose nested
 * lifetimes are easy to place, and one from a search with fewer bytes. `minimum` is placed within
 * the budget already. */
static Err answer_placed(Pool *pool, PlanSolve *s, RunList first, Plan *minimum, Plan **plan)
{
    int64_t budget = s->options.budget_bytes, aim = budget, floor_bytes = s->min_peak.peak_bytes;
    RunList candidates[LADDER_MAX + 2 * ANSWER_AIMS + 2];
    int32_t n = 0;
    candidates[n++] = first;
    for (int32_t k = 0; k < s->n_rung; k++) {
        if (s->rung[k].node && s->rung[k].peak_bytes <= budget)
            candidates[n++] = s->rung[k];
    }
    for (int32_t tries = 0; n > 0; tries++) {
        int32_t pick = 0;
        for (int32_t i = 1; i < n; i++) {
            if (candidates[i].cost < candidates[pick].cost)
                pick = i;
        }
        RunList list = candidates[pick];
        candidates[pick] = candidates[--n];
        if (list.cost >= s->min_peak.cost)
            break;
        if (tries >= ANSWER_PLACES && list.peak_bytes > floor_bytes)
            continue;
        TRY(answer_plan(pool, s, &list, plan));
        TRY(plan_place(s->graph, *plan, budget));
        int64_t over = (*plan)->arena_bytes - budget;
        if (over <= 0)
            return OK;
        if (tries >= ANSWER_AIMS || aim <= floor_bytes)
            continue;
        solve_seed(s, aim, &list);
        if (list.node)
            candidates[n++] = list;
        aim = aim - over > floor_bytes ? aim - over : floor_bytes + (aim - floor_bytes) / 2;
        solve_budget(s, aim, s->effort / (2 * s->rungs), solve_highest(s, aim), &list);
        if (list.node)
            candidates[n++] = list;
    }
    *plan = minimum;
    return OK;
}

/* One list with copies, compared by arena if requested; NULL: it cannot be made to fit. */
static Err answer_offload(Pool *pool, PlanSolve *s, const RunList *list, Plan **offloaded)
{
    const PlanOptions *options = &s->options;
    Pool              *temp = pool_new(NULL, "answer_offload");
    int64_t            aim = options->budget_bytes;
    int32_t           *runs, n;
    Err                err = OK;
    task_runs(temp, s->task, list->node, list->n, &runs, &n);
    for (int32_t tries = 0; tries < 4; tries++) {
        err = plan_offload(pool, s->graph, runs, n, aim, options->host_budget_bytes, NULL,
                           offloaded);
        if (err || !*offloaded || !options->layout)
            break;
        err = plan_place(s->graph, *offloaded, options->budget_bytes);
        if (err || (*offloaded)->arena_bytes <= options->budget_bytes)
            break;
        aim -= (*offloaded)->arena_bytes - options->budget_bytes;
        *offloaded = NULL;
    }
    pool_free(temp);
    if (!err && *offloaded) {
        (*offloaded)->budget_bytes = options->budget_bytes;
        (*offloaded)->cut = s->cut;
    }
    return err;
}

static RunList answer_keep_all(const PlanSolve *s)
{
    RunList all = { .n = s->task->n_nodes,
                    .cost = s->task->base_cost,
                    .peak_bytes = s->keep_all_bytes };
    all.node = NEWN(s->pool, int32_t, all.n + 1);
    for (int32_t i = 0; i < all.n; i++)
        all.node[i] = i;
    return all;
}

static bool answer_has_host(const PGraph *graph)
{
    return graph->to_host > 0 && graph->to_device > 0;
}

/* Replaces *plan, which fits, by a cheaper plan with copies, if there is one. The best list without
 * copies is not the best to add them to: what the quick solvers found is tried as well, or a longer
 * search could lose. */
static Err answer_cheaper_offload(Pool *pool, PlanSolve *s, Plan **plan)
{
    RunList candidates[2 * LADDER_MAX + 4];
    int32_t n = 0;
    solve_ladder(s, s->keep_all_bytes);
    candidates[n++] = answer_keep_all(s);
    for (int32_t k = s->n_rung - 1; k >= 0; k--) {
        if (s->rung[k].node)
            candidates[n++] = s->rung[k];
        if (s->seed[k].node && s->seed[k].cost > s->rung[k].cost)
            candidates[n++] = s->seed[k];
    }
    candidates[n++] = s->min_peak;
    for (int32_t i = 0; i < n; i++) {
        Plan *offloaded = NULL;
        if (candidates[i].cost >= (*plan)->cost)
            continue;
        TRY(answer_offload(pool, s, &candidates[i], &offloaded));
        if (offloaded && offloaded->cost < (*plan)->cost)
            *plan = offloaded;
    }
    return OK;
}

/* The smallest budget for which copies make this list fit, by bisection; only if that is below
 * *aim. */
static Err answer_squeeze(PlanSearch *search, const RunList *list, int64_t *aim)
{
    PlanSolve     *s = &search->solve;
    Pool          *temp = pool_new(NULL, "answer_squeeze");
    int64_t        low = s->bound_bytes, high = *aim;
    int32_t       *runs, n;
    OffloadMinimum known = { 0 };
    Err            err = OK;
    task_runs(temp, s->task, list->node, list->n, &runs, &n);
    for (int i = 0; i < ANSWER_HALVINGS && low < high && !err && !solve_late(s); i++) {
        Pool   *once = pool_new(temp, "offload");
        int64_t middle = i == 0 ? low : low + (high - low) / 2;
        Plan   *offloaded;
        err = plan_offload(once, s->graph, runs, n, middle, s->options.host_budget_bytes, &known,
                           &offloaded);
        if (!err && offloaded) {
            high = middle;
            *aim = middle;
            search->offload_list = *list;
            search->offload_aim = middle;
        } else {
            low = middle + 1;
        }
        pool_free(once);
    }
    pool_free(temp);
    return err;
}

/* *minimum becomes a plan with copies if that needs less. Neither the list nor the bytes depend on
 * the budget, so the minimum named here is found again. */
static Err answer_minimum_offload(Pool *pool, PlanSearch *search, Plan **minimum)
{
    PlanSolve *s = &search->solve;
    if (!search->offload_known) {
        int64_t aim = s->min_peak.peak_bytes;
        RunList all = answer_keep_all(s);
        TRY(answer_squeeze(search, &s->min_peak, &aim));
        TRY(answer_squeeze(search, &all, &aim));
        search->offload_known = true;
    }
    if (!search->offload_aim)
        return OK;
    Pool    *temp = pool_new(NULL, "answer_minimum_offload");
    int32_t *runs, n;
    Plan    *offloaded;
    task_runs(temp, s->task, search->offload_list.node, search->offload_list.n, &runs, &n);
    Err err = plan_offload(pool, s->graph, runs, n, search->offload_aim,
                           s->options.host_budget_bytes, NULL, &offloaded);
    pool_free(temp);
    TRY(err);
    if (s->options.layout)
        TRY(plan_place(s->graph, offloaded, 0));
    if (plan_peak_bytes(offloaded) >= plan_peak_bytes(*minimum))
        return OK;
    offloaded->cut = s->cut;
    offloaded->budget_bytes = s->options.budget_bytes;
    *minimum = offloaded;
    return OK;
}

/* Everything kept. If its bytes fit and it is to be placed, it is placed within the budget; failing
 * that, as low as possible, so that the minimum that a refusal names is found again. */
static Err answer_kept(Pool *pool, const PlanSearch *search, int64_t budget, Plan **plan)
{
    const PGraph *graph = search->graph;
    TRY(plan_keep_all(pool, graph, plan));
    TRY(plan_check(graph, *plan, 0));
    (*plan)->budget_bytes = budget;
    if (!search->options.layout || (budget > 0 && (*plan)->live_bytes > budget))
        return OK;
    TRY(plan_place(graph, *plan, budget));
    return budget > 0 && (*plan)->arena_bytes > budget ? plan_place(graph, *plan, 0) : OK;
}

/* What a refusal names: the minimum, or everything kept if that needs no more, because nothing is
 * cheaper. */
static Err answer_named(const PlanSearch *search, Plan *kept, Plan **plan)
{
    if (kept->live_bytes > plan_peak_bytes(*plan))
        return OK;
    if (search->options.layout && kept->arena_bytes == 0)
        TRY(plan_place(search->graph, kept, 0));
    if (plan_peak_bytes(kept) > plan_peak_bytes(*plan))
        return OK;
    kept->cut = (*plan)->cut;
    *plan = kept;
    return OK;
}

static Err answer_within(Pool *pool, PlanSearch *search, int64_t budget, Plan **plan)
{
    PlanSolve    *s = &search->solve;
    const PGraph *graph = search->graph;
    Plan         *kept, *minimum;
    TRY(answer_kept(pool, search, budget, &kept));
    *plan = kept;
    if (budget <= 0 || plan_peak_bytes(kept) <= budget)
        return OK;
    search->options.budget_bytes = budget;
    if (!search->begun)
        solve_begin(s, search->pool, graph, &search->options, kept);
    search->begun = true;
    s->options.budget_bytes = budget;
    TRY(answer_minimum(pool, s, &minimum));
    *plan = minimum;
    if (plan_peak_bytes(minimum) <= budget) {
        RunList best;
        solve_asked(s, budget, &best);
        TRY(s->options.layout ? answer_placed(pool, s, best, minimum, plan)
                              : answer_plan(pool, s, &best, plan));
    } else if (answer_has_host(graph)) {
        TRY(answer_minimum_offload(pool, search, plan));
    }
    if (plan_peak_bytes(*plan) > budget) {
        TRY(answer_named(search, kept, plan));
        return answer_refuse(s, *plan);
    }
    if (answer_has_host(graph))
        TRY(answer_cheaper_offload(pool, s, plan));
    solve_tell(s, 1, "done");
    return plan_check(graph, *plan, s->options.layout ? 0 : budget);
}

PlanSearch *plan_search_new(Pool *pool, const PGraph *graph, const PlanOptions *options)
{
    PlanSearch *search = NEW(pool, PlanSearch);
    *search = (PlanSearch){ .pool = pool, .graph = graph, .options = *options };
    if (pgraph_has_staged(graph))
        search->inner = plan_search_new(pool, pgraph_for_solvers(pool, graph), options);
    return search;
}

Err plan_search_within(Pool *pool, PlanSearch *search, int64_t budget_bytes, Plan **plan)
{
    if (!search->inner)
        return answer_within(pool, search, budget_bytes, plan);
    return plan_stage_within(pool, search->graph, search->inner, search->options.layout,
                             budget_bytes, plan);
}

Err plan_solve(Pool *pool, const PGraph *graph, const PlanOptions *options, Plan **plan)
{
    TRY(pgraph_check(graph));
    Pool *temp = pool_new(NULL, "plan_solve");
    Err err = plan_search_within(pool, plan_search_new(temp, graph, options), options->budget_bytes,
                                 plan);
    pool_free(temp);
    return err;
}

static Err answer_curve(Pool *pool, Pool *temp, const PGraph *graph, const PlanOptions *options,
                        const int64_t *budgets, int n, Plan **plans)
{
    Plan     *keep_all;
    PlanSolve s = { 0 };
    RunList   best = { 0 };
    TRY(plan_keep_all(pool, graph, &keep_all));
    for (int i = 0; i < n; i++) {
        plans[i] = NULL;
        if (budgets[i] >= keep_all->live_bytes) {
            plans[i] = NEW(pool, Plan);
            *plans[i] = *keep_all;
        } else {
            if (!s.task)
                solve_begin(&s, temp, graph, options, keep_all);
            if (budgets[i] < s.min_peak.peak_bytes)
                continue;
            RunList found;
            solve_asked(&s, budgets[i], &found);
            if (!best.node || found.cost < best.cost)
                best = found;
            TRY(answer_plan(pool, &s, &best, &plans[i]));
        }
        plans[i]->budget_bytes = budgets[i];
        TRY(plan_check(graph, plans[i], budgets[i]));
    }
    return OK;
}

/* With copies to the host: each budget as if it were requested alone, but from one search. */
static Err answer_curve_offload(Pool *pool, Pool *temp, const PGraph *graph,
                                const PlanOptions *options, const int64_t *budgets, int n,
                                Plan **plans)
{
    PlanSearch *search = plan_search_new(temp, graph, options);
    Plan       *best = NULL;
    for (int i = 0; i < n; i++) {
        Plan *found;
        Err   err = plan_search_within(pool, search, budgets[i], &found);
        if (err && err != E_BUDGET)
            return err;
        if (!err && (!best || found->cost < best->cost))
            best = found;
        plans[i] = NULL;
        if (!best)
            continue;
        plans[i] = NEW(pool, Plan);
        *plans[i] = *best;
        plans[i]->budget_bytes = budgets[i];
        TRY(plan_check(graph, plans[i], budgets[i]));
    }
    return OK;
}

Err plan_curve(Pool *pool, const PGraph *graph, const PlanOptions *options, const int64_t *budgets,
               int n, Plan **plans)
{
    TRY(pgraph_check(graph));
    for (int i = 1; i < n; i++)
        REQUIRE(budgets[i] >= budgets[i - 1]);
    Pool *temp = pool_new(NULL, "plan_curve");
    bool  offloads = pgraph_has_staged(graph) || answer_has_host(graph);
    Err err = (offloads ? answer_curve_offload : answer_curve)(pool, temp, graph, options, budgets,
                                                               n, plans);
    pool_free(temp);
    return err;
}
