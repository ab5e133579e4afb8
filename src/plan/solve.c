/* solve.c -- from a graph and a budget to a plan: the order in which solvers are tried.
 *
 *   keep everything       fits? done: nothing can be cheaper
 *   exact                 the optimum, for graphs of a few nodes; else:
 *   least peak            knows no budget, so the minimum it names is found again when asked for
 *   the ladder            the same budgets for every call, twentieths of the keep-all peak (fewer
 *                         for large graphs), from the least peak up to the budget asked for; each
 *                         rung starts from the rung below and from fresh seeds
 *   the budget itself     when it is not a rung
 *   the host              where the graph has bandwidths: dearer budgets' plans and keep-all, with
 *                         idle values copied to the host and back until they fit (offload.c)
 *   the cheapest of all that fits, judged by arena if asked
 *
 *  1. Nothing on the ladder depends on the budget asked for, so a larger budget sees every plan
 *     that a smaller one on the ladder saw, and is never slower.
 *  2. Effort is counted in edits of schedules and dealt out by fixed shares; time only cuts, and
 *     then `cut` is set.
 *  3. Two searches run side by side; each is deterministic, and the better one wins by cost, then
 *     peak, then number, so the result does not depend on which ended first.
 *  4. Every plan given passes plan_check.
 */
#include "plan/plan.h"

#include "base/clock.h"
#include "base/text.h"
#include "plan/plan_buffers.h"
#include "plan/proof/proof.h"
#include "plan/solvers/solver.h"
#include "plan/stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SOLVE_THREADS = 2,
    SOLVE_SEEDS = 8,         /* of a tournament */
    SOLVE_PLAIN = 2,         /* the seeds that are every node once */
    SOLVE_PLAIN_2 = 6,
    SOLVE_MANY = 32,         /* runs of a tournament's widest stage */
    SOLVE_TURNS = 200,       /* edits a node that a run should have */
    LADDER_MOST = 20,
    ARENA_TRIES = 12
};

typedef struct Solve {
    Pool              *pool;         /* scratch */
    const PGraph      *graph;
    const PlanOptions *options;
    const Task        *task;
    double             begin_s, deadline_s;  /* of what is being searched; 0: none */
    int64_t            effort;       /* all of it */
    int64_t            keep_all_bytes, bound_bytes;
    int32_t            rungs;        /* of the whole ladder */
    RunList            least;
    RunList            low[SOLVE_MANY];      /* what its search ended with, one list of each line
                                              * of descent */
    int32_t            n_low;
    RunList            rung[LADDER_MOST + 1];
    int32_t            n_rung;       /* rungs solved so far */
    bool               cut;
} Solve;

/* Less than ten seconds on two cores: measured time of one edit against nodes. */
int64_t plan_default_effort(int32_t n_nodes)
{
    double n = n_nodes;
    return (int64_t)(7e6 / (0.25 + 0.0008 * n / (1 + n / 1500)));
}

typedef struct Winner {
    RunList list;
    int32_t number;          /* of all runs of the tournament, in order */
    int32_t line;            /* the run of the widest stage that it descends from */
} Winner;

static void solve_tell(const Solve *s, double done, const char *text)
{
    if (s->options->progress)
        s->options->progress(s->options->progress_arg, done, text);
}

/* What comes now may take until this part of the time limit is over: all that comes before the
 * budget itself must leave some to it. */
static void solve_until(Solve *s, double part)
{
    if (s->options->time_limit_s > 0)
        s->deadline_s = s->begin_s + part * s->options->time_limit_s;
}

static bool solve_late(Solve *s)
{
    bool late = s->deadline_s > 0 && clock_now() > s->deadline_s;
    s->cut |= late;
    return late;
}

static SolverArgs solve_args(const Solve *s, int64_t budget, int64_t effort, uint64_t salt)
{
    return (SolverArgs){ .task = s->task, .budget_bytes = budget, .effort = effort,
                         .seed = s->options->seed * 7919 + salt, .deadline_s = s->deadline_s };
}

static void solve_one(Solve *s, SolveFn *solver, const SolverArgs *args, int64_t budget,
                      RunList *best)
{
    Pool   *pool = pool_new(NULL, "solver");
    RunList found;
    solver(pool, args, &found);
    s->cut |= found.cut;
    run_list_keep(s->pool, best, &found, budget);
    pool_free(pool);
}

/* Run the same solver with several arguments, two side by side; found lives in s->pool. */
static void solve_many(Solve *s, SolveFn *solver, const SolverArgs *args, int32_t n, RunList *found)
{
    Pool *pools[SOLVE_MANY];
    for (int32_t i = 0; i < n; i++)
        pools[i] = pool_new(s->pool, "solver");
#pragma omp parallel for num_threads(SOLVE_THREADS) schedule(dynamic, 1)
    for (int32_t i = 0; i < n; i++)
        solver(pools[i], &args[i], &found[i]);
    for (int32_t i = 0; i < n; i++)
        s->cut |= found[i].cut;
}

/* Cheapest first, or with LOWEST the lowest; then the earlier one. */
static int solve_by_cost(const void *a, const void *b)
{
    const Winner *x = a, *y = b;
    if (x->list.cost != y->list.cost)
        return x->list.cost < y->list.cost ? -1 : 1;
    return x->number - y->number;
}

static int solve_by_peak(const void *a, const void *b)
{
    const Winner *x = a, *y = b;
    if (x->list.peak_bytes != y->list.peak_bytes)
        return x->list.peak_bytes < y->list.peak_bytes ? -1 : 1;
    return solve_by_cost(a, b);
}

/* What every plan within the budget costs at least, from the fullest moments of keeping everything
 * (proof/cut.c): a list of that cost need not be searched further. */
static double solve_bound(const Solve *s, int64_t budget)
{
    enum { MOMENTS = 4 };
    Pool     *scratch = pool_new(NULL, "solve_bound");
    Schedule *all = schedule_new(scratch, s->task);
    int32_t   fullest[MOMENTS] = { -1, -1, -1, -1 };
    int64_t   load[MOMENTS] = { 0 }, live = s->task->fixed_bytes;
    double    most = 0;
    for (int32_t p = 0; p < all->after; p = schedule_next(all, p)) {
        int32_t node = all->node_at[p];
        int32_t part = (int32_t)((int64_t)node * MOMENTS / s->task->n_nodes);
        live += all->begin[p];
        if (live + s->task->nodes[node].workspace > load[part]) {
            load[part] = live + s->task->nodes[node].workspace;
            fullest[part] = node;
        }
        live -= all->end[p];
    }
    for (int part = 0; part < MOMENTS; part++) {
        if (fullest[part] >= 0 && load[part] > budget)
            most = fmax(most, cut_bound(scratch, s->task, fullest[part], budget).cost);
    }
    pool_free(scratch);
    return s->task->base_cost + most;
}

/* Annealing goes with the winners (Aldous and Vazirani 1994): many short runs from all seeds, the
 * best half goes on, cooler and for twice as long, until two are left. What a run finds depends on
 * early luck more than on its length, so eight short ones and four and two find more than one of
 * the same effort; on the least peak 32 do, each as hot as the first. Every second one is careful:
 * some graphs want that and some do not. seeds: SOLVE_SEEDS; node NULL: every node once. enough: a
 * cost that cannot be beaten. */
static void solve_tournament(Solve *s, SolveFn *solver, int64_t budget, int64_t effort,
                             double enough, const RunList seeds[SOLVE_SEEDS], RunList *best)
{
    static const double heat[] = { 0.1, 0.3, 1 };
    Winner  all[2 * SOLVE_MANY];
    int32_t line[SOLVE_MANY];
    bool    lowest = budget == LOWEST;
    int32_t stages = lowest ? 5 : 3, runs = 1 << stages, n_all = 0;
    /* a run must be long enough to touch everything often */
    while (stages > 1 && effort / (stages * runs) < SOLVE_TURNS * (int64_t)s->task->n_nodes)
        runs = 1 << --stages;
    for (int32_t left = stages; left > 0; left--, runs /= 2) {
        SolverArgs args[SOLVE_MANY];
        RunList    found[SOLVE_MANY];
        if (best->node && (lowest ? best->peak_bytes <= s->bound_bytes : best->cost <= enough))
            break;
        for (int32_t i = 0; i < runs; i++) {
            args[i] = solve_args(s, budget, effort / (stages * runs),
                                 (uint64_t)(31 + SOLVE_MANY * left + i));
            args[i].heat  = lowest ? 1 : heat[left - 1];
            args[i].start = n_all == 0 ? seeds[i % SOLVE_SEEDS] : all[i % n_all].list;
            args[i].careful = i % 2 && args[i].start.node;
            line[i] = n_all == 0 ? i : all[i % n_all].line;
        }
        solve_many(s, solver, args, runs, found);
        for (int32_t i = 0; i < runs; i++) {
            run_list_keep(s->pool, best, &found[i], budget);
            if (found[i].node) {
                all[n_all] = (Winner){ found[i], n_all, line[i] };
                n_all++;
            }
        }
        qsort(all, (size_t)n_all, sizeof *all, lowest ? solve_by_peak : solve_by_cost);
        n_all = n_all < SOLVE_MANY ? n_all : SOLVE_MANY;
    }
    for (int32_t i = 0; lowest && i < n_all; i++) {
        int32_t k = 0;
        while (k < i && all[k].line != all[i].line)
            k++;
        if (k == i)
            s->low[s->n_low++] = all[i].list;
    }
}

/* The lowest budget under which next_use still finds a way, by bisection; then annealing on the
 * peak from there and from the input order. */
static void solve_least(Solve *s, double until)
{
    s->n_low = 0;
    int64_t low = s->bound_bytes, high = s->keep_all_bytes;
    RunList best = { 0 };
    solve_until(s, until);
    if (exact_can(s->task)) {
        SolverArgs args = solve_args(s, LOWEST, 0, 0);
        solve_one(s, solve_exact, &args, LOWEST, &best);
        args.budget_bytes = best.peak_bytes;
        solve_one(s, solve_exact, &args, best.peak_bytes, &s->least);
        return;
    }
    for (int i = 0; i < 12 && low < high; i++) {
        int64_t    middle = low + (high - low) / 2;
        RunList    found = { 0 };
        SolverArgs args = solve_args(s, middle, 1, 0);
        solve_one(s, solve_next_use, &args, middle, &found);
        if (found.node) {
            best = found;
            high = found.peak_bytes;
        } else {
            low = middle + 1;
        }
    }
    SolverArgs args = solve_args(s, LOWEST, 0, 0);
    solve_one(s, solve_segments, &args, LOWEST, &best);
    /* from the input order and from what was found, in turns */
    RunList seeds[SOLVE_SEEDS] = { { 0 }, best, { 0 }, best, { 0 }, best, { 0 }, best };
    solve_tournament(s, solve_least_peak, LOWEST, s->effort / (s->task->n_nodes > 4000 ? 20 : 2), 0,
                     seeds, &best);
    s->least = best;
}

/* Where a solver found nothing within the budget, annealing from nothing would hardly get there
 * either: it starts from a list of low peak instead, in turns from each that is within the budget.
 * They lie far from each other: near the least peak nothing leads from one valley to the next, so
 * the search must begin in several. */
static void solve_fill(const Solve *s, int64_t budget, RunList seeds[SOLVE_SEEDS])
{
    int32_t within[SOLVE_MANY], n = 0, next = 0;
    for (int32_t k = s->n_low - 1; k >= 0; k--) {
        if (s->low[k].peak_bytes <= budget)
            within[n++] = k;
    }
    for (int32_t i = 0; i < SOLVE_SEEDS && n > 0; i++) {
        if (!seeds[i].node && i != SOLVE_PLAIN && i != SOLVE_PLAIN_2)
            seeds[i] = s->low[within[next++ % n]];
    }
}

/* The cheapest list within budget that the whole portfolio finds. */
static void solve_budget(Solve *s, int64_t budget, int64_t effort, const RunList *warm,
                         RunList *best)
{
    bool       large = s->task->n_nodes > 2000;
    SolverArgs seed = solve_args(s, budget, large ? 3 : 15, 0);
    RunList    next_use = { 0 }, blocks = { 0 }, segments = { 0 };
    *best = (RunList){ 0 };
    if (exact_can(s->task)) {
        solve_one(s, solve_exact, &seed, budget, best);
        return;
    }
    solve_one(s, solve_next_use, &seed, budget, &next_use);
    seed.effort = large ? 500 : 1500;
    solve_one(s, solve_blocks, &seed, budget, &blocks);
    solve_one(s, solve_segments, &seed, budget, &segments);
    run_list_keep(s->pool, best, warm, budget);
    run_list_keep(s->pool, best, &next_use, budget);
    run_list_keep(s->pool, best, &blocks, budget);
    run_list_keep(s->pool, best, &segments, budget);
    RunList seeds[SOLVE_SEEDS] = { *best,    next_use, { 0 }, blocks,
                                   segments, next_use, { 0 }, *warm };
    if (best->cost >= warm->cost)
        seeds[7] = (RunList){ 0 };           /* it is the first seed already */
    if (large)
        seeds[1] = *best;
    solve_fill(s, budget, seeds);
    solve_tournament(s, solve_anneal, budget, effort, solve_bound(s, budget) * (1 + 1e-12), seeds,
                     best);
}

static int64_t solve_rung_bytes(const Solve *s, int32_t k)
{
    int64_t peak = s->keep_all_bytes, n = s->rungs;
    return peak / n * k + (peak % n * k + n - 1) / n;      /* ceil(peak * k / n) */
}

static int32_t solve_lowest_rung(const Solve *s)
{
    int32_t lowest = 0;
    while (lowest < s->rungs && solve_rung_bytes(s, lowest) < s->least.peak_bytes)
        lowest++;
    return lowest;
}

/* The effort of rung k. Low rungs are the hardest and the first to be asked for: the i-th from
 * below gets a share in proportion to 1 / (i + 4), all the effort together. Whatever budget was
 * asked for, the share is the same. */
static int64_t solve_share(const Solve *s, int32_t k)
{
    int32_t lowest = solve_lowest_rung(s);
    double  sum = 0;
    for (int32_t i = 0; i <= s->rungs - lowest; i++)
        sum += 1.0 / (i + 4);
    return (int64_t)((double)s->effort / (k - lowest + 4) / sum);
}

/* Solve every rung up to budget. */
static void solve_ladder(Solve *s, int64_t budget)
{
    int32_t lowest = solve_lowest_rung(s);
    if (s->n_rung < lowest) {
        for (int32_t k = s->n_rung; k < lowest; k++)
            s->rung[k] = (RunList){ 0 };
        s->n_rung = lowest;
    }
    solve_until(s, 0.7);
    for (int32_t k = s->n_rung; k < s->rungs && solve_rung_bytes(s, k) <= budget; k++) {
        if (solve_late(s))
            break;
        const RunList *below = k > lowest ? &s->rung[k - 1] : &s->least;
        if (below->n == s->task->n_nodes)
            s->rung[k] = *below;             /* nothing runs twice already */
        else
            solve_budget(s, solve_rung_bytes(s, k), solve_share(s, k), below, &s->rung[k]);
        s->n_rung = k + 1;
        solve_tell(s, 0.2 + 0.7 * (double)k / (double)s->rungs, "searching the ladder of budgets");
    }
}

static const RunList *solve_highest(const Solve *s, int64_t budget)
{
    for (int32_t k = s->n_rung - 1; k >= 0; k--) {
        if (s->rung[k].node && s->rung[k].peak_bytes <= budget)
            return &s->rung[k];
    }
    return &s->least;
}

/* The best list for a budget: rungs below it, and the budget itself when it is not a rung. */
static void solve_asked(Solve *s, int64_t budget, RunList *best)
{
    solve_ladder(s, budget);
    solve_until(s, 0.95);
    *best = (RunList){ 0 };
    run_list_keep(s->pool, best, &s->least, budget);
    bool is_rung = false;
    for (int32_t k = 0; k < s->n_rung; k++) {
        run_list_keep(s->pool, best, &s->rung[k], budget);
        is_rung |= !s->cut && s->rung[k].node && solve_rung_bytes(s, k) == budget;
    }
    if (!is_rung && best->n != s->task->n_nodes) {
        RunList own;
        int64_t effort = s->effort / (s->rungs == LADDER_MOST ? 8 : 3);
        solve_budget(s, budget, effort, solve_highest(s, budget), &own);
        run_list_keep(s->pool, best, &own, budget);
    }
}

static Err solve_plan(Pool *pool, const Solve *s, const RunList *list, Plan **plan)
{
    Pool    *scratch = pool_new(NULL, "solve_plan");
    int32_t *runs, n;
    task_runs(scratch, s->task, list->node, list->n, &runs, &n);
    Err err = plan_from_runs(pool, s->graph, runs, n, plan);
    pool_free(scratch);
    TRY(err);
    (*plan)->cut = s->cut;
    (*plan)->budget_bytes = s->options->budget_bytes;
    return plan_check(s->graph, *plan, 0);
}

Err plan_place(const PGraph *graph, Plan *plan, int64_t budget_bytes)
{
    Pool          *scratch = pool_new(NULL, "plan_place");
    PlanBuffers    buffers;
    LayoutResult   result = { 0 };
    int64_t        fixed = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const PValue *value = &graph->values[v];
        if (value->persistent && value->view_of < 0)
            fixed += (value->bytes + graph->align - 1) / graph->align * graph->align;
    }
    /* A short search, under a second: another plan is often easier to place than this one. */
    LayoutOptions options = { .capacity = budget_bytes > fixed ? budget_bytes - fixed : 0,
                              .max_nodes = PLACE_NODES, .remember = true };
    Err err = plan_buffers(scratch, graph, plan, &buffers);
    if (!err && buffers.n_buffers > 0) {
        err = layout_solve(scratch, buffers.buffers, buffers.n_buffers, &options, &result);
        if (err == E_BUDGET)         /* an answer here, not a failure: the caller compares */
            err = OK;
        if (!err)
            err = layout_check(buffers.buffers, buffers.n_buffers, result.arena_bytes);
    }
    plan->arena_bytes = fixed + result.arena_bytes;
    pool_free(scratch);
    return err;
}

/* The plan of least peak, and whether it keeps within the budget. It is placed without regard to
 * the budget: the least that is named is the same whatever was asked for, and nothing below it is
 * accepted. */
static Err solve_least_plan(Pool *pool, Solve *s, Plan **plan, bool *within)
{
    TRY(solve_plan(pool, s, &s->least, plan));
    if (s->options->layout)
        TRY(plan_place(s->graph, *plan, 0));
    *within = plan_peak_bytes(*plan) <= s->options->budget_bytes;
    return OK;
}

static Err solve_refuse(const Solve *s, const Plan *least)
{
    return fail(E_BUDGET,
                "no plan fits %s (%lld bytes): the least peak found is %s (%lld bytes), and no "
                "plan can do with less than %s (%lld bytes)", bytes_text(s->options->budget_bytes),
                (long long)s->options->budget_bytes, bytes_text(plan_peak_bytes(least)),
                (long long)plan_peak_bytes(least), bytes_text(least->bound_bytes),
                (long long)least->bound_bytes);
}

/* Cheapest first, until one can be placed within the budget; where the bytes fit but not the
 * placement, a search with as many bytes less joins the list. `least` is placed within it
 * already. */
static Err solve_placed(Pool *pool, Solve *s, RunList first, Plan *least, Plan **plan)
{
    int64_t budget = s->options->budget_bytes, aim = budget;
    RunList candidates[LADDER_MOST + ARENA_TRIES + 2];
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
        if (list.cost >= s->least.cost)
            break;
        if (tries >= ARENA_TRIES && list.peak_bytes > s->least.peak_bytes)
            continue;
        TRY(solve_plan(pool, s, &list, plan));
        TRY(plan_place(s->graph, *plan, budget));
        if ((*plan)->arena_bytes <= budget)
            return OK;
        aim -= (*plan)->arena_bytes - budget;
        if (tries < 3 && aim >= s->least.peak_bytes) {
            solve_budget(s, aim, s->effort / (2 * s->rungs), solve_highest(s, aim), &list);
            if (list.node)
                candidates[n++] = list;
        }
    }
    *plan = least;
    return OK;
}

static void solve_init(Solve *s, Pool *pool, const PGraph *graph, const PlanOptions *options,
                       const Plan *keep_all)
{
    *s = (Solve){ .pool = pool, .graph = graph, .options = options, .task = task_new(pool, graph),
                  .keep_all_bytes = keep_all->live_bytes, .bound_bytes = keep_all->bound_bytes };
    s->rungs = graph->n_nodes <= 1000 ? LADDER_MOST : graph->n_nodes <= 4000 ? 10 : 4;
    s->effort = options->effort > 0 ? options->effort : plan_default_effort(s->task->n_nodes);
    s->begin_s = clock_now();
    solve_tell(s, 0, "searching the least peak");
    solve_least(s, 0.3);
    if (s->cut && s->least.peak_bytes > options->budget_bytes)
        solve_least(s, 0.95);                /* nothing else would find a plan */
    solve_tell(s, 0.2, "searching the ladder of budgets");
}

/* One list with copies, by arena if asked; NULL: it cannot be made to fit. */
static Err solve_moved(Pool *pool, Solve *s, const RunList *list, Plan **moved)
{
    const PlanOptions *options = s->options;
    Pool    *scratch = pool_new(NULL, "solve_moved");
    int64_t  aim = options->budget_bytes;
    int32_t *runs, n;
    Err      err = OK;
    task_runs(scratch, s->task, list->node, list->n, &runs, &n);
    for (int32_t tries = 0; tries < 4; tries++) {
        err = plan_offload(pool, s->graph, runs, n, aim, options->host_budget_bytes, moved);
        if (err || !*moved || !options->layout)
            break;
        err = plan_place(s->graph, *moved, options->budget_bytes);
        if (err || (*moved)->arena_bytes <= options->budget_bytes)
            break;
        aim -= (*moved)->arena_bytes - options->budget_bytes;
        *moved = NULL;
    }
    pool_free(scratch);
    if (!err && *moved) {
        (*moved)->budget_bytes = options->budget_bytes;
        (*moved)->cut = s->cut;
    }
    return err;
}

/* Is a plan with copies cheaper than *plan, or is there one where *plan does not fit? */
static Err solve_hosted(Pool *pool, Solve *s, bool fits, Plan **plan, bool *found)
{
    RunList candidates[LADDER_MOST + 3], keep_all = { .n = s->task->n_nodes };
    int32_t n = 0;
    *found = false;
    if (s->graph->to_host <= 0 || s->graph->to_device <= 0)
        return OK;
    solve_ladder(s, s->keep_all_bytes);
    keep_all.node = NEWN(s->pool, int32_t, keep_all.n + 1);
    keep_all.cost = s->task->base_cost;
    for (int32_t i = 0; i < keep_all.n; i++)
        keep_all.node[i] = i;
    candidates[n++] = keep_all;
    for (int32_t k = s->n_rung - 1; k >= 0; k--) {
        if (s->rung[k].node)
            candidates[n++] = s->rung[k];
    }
    candidates[n++] = s->least;
    for (int32_t i = 0; i < n; i++) {
        Plan *moved = NULL;
        if ((fits || *found) && candidates[i].cost >= (*plan)->cost)
            continue;
        TRY(solve_moved(pool, s, &candidates[i], &moved));
        if (moved && (!(fits || *found) || moved->cost < (*plan)->cost)) {
            *plan  = moved;
            *found = true;
        }
    }
    return OK;
}

static Err solve_within(Pool *pool, Pool *scratch, const PGraph *graph, const PlanOptions *options,
                        Plan **plan)
{
    int64_t budget = options->budget_bytes;
    Solve   s;
    RunList best;
    bool    found;
    TRY(plan_keep_all(pool, graph, plan));
    TRY(plan_check(graph, *plan, 0));
    (*plan)->budget_bytes = budget;
    if (options->layout && (budget <= 0 || (*plan)->live_bytes <= budget))
        TRY(plan_place(graph, *plan, budget));
    if (budget <= 0 || plan_peak_bytes(*plan) <= budget)
        return OK;
    solve_init(&s, scratch, graph, options, *plan);
    bool  within;
    Plan *least;
    TRY(solve_least_plan(pool, &s, &least, &within));
    *plan = least;
    Err err = E_BUDGET;
    if (within) {
        solve_asked(&s, budget, &best);
        TRY(options->layout ? solve_placed(pool, &s, best, least, plan)
                            : solve_plan(pool, &s, &best, plan));
        err = OK;
    }
    TRY(solve_hosted(pool, &s, !err, plan, &found));
    solve_tell(&s, 1, "done");
    if (err && !found)
        return solve_refuse(&s, *plan);
    return plan_check(graph, *plan, options->layout ? 0 : budget);
}

Err plan_solve(Pool *pool, const PGraph *graph, const PlanOptions *options, Plan **plan)
{
    TRY(pgraph_check(graph));
    if (pgraph_is_hosted(graph))
        return plan_solve_hosted(pool, graph, options, plan);
    Pool *scratch = pool_new(NULL, "plan_solve");
    Err   err = solve_within(pool, scratch, graph, options, plan);
    pool_free(scratch);
    return err;
}

static Err solve_curve(Pool *pool, Pool *scratch, const PGraph *graph, const PlanOptions *options,
                       const int64_t *budgets, int n, Plan **plans)
{
    Plan   *keep_all;
    Solve   s = { 0 };
    RunList best = { 0 };
    TRY(plan_keep_all(pool, graph, &keep_all));
    for (int i = 0; i < n; i++) {
        plans[i] = NULL;
        if (budgets[i] >= keep_all->live_bytes) {
            plans[i] = NEW(pool, Plan);
            *plans[i] = *keep_all;
        } else {
            if (!s.task)
                solve_init(&s, scratch, graph, options, keep_all);
            if (budgets[i] < s.least.peak_bytes)
                continue;
            RunList found;
            solve_asked(&s, budgets[i], &found);
            if (!best.node || found.cost < best.cost)
                best = found;
            TRY(solve_plan(pool, &s, &best, &plans[i]));
        }
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
    Pool         *scratch = pool_new(NULL, "plan_curve");
    bool          hosted = pgraph_is_hosted(graph);
    const PGraph *seen = hosted ? pgraph_unhosted(scratch, graph) : graph;
    Err           err = solve_curve(pool, scratch, seen, options, budgets, n, plans);
    for (int i = 0; hosted && !err && i < n; i++)
        if (plans[i])
            err = plan_stage(pool, graph, plans[i], &plans[i]);
    pool_free(scratch);
    return err;
}
