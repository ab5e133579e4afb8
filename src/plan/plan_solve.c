/* plan_solve.c -- from a graph and a budget to a list of runs: which solvers are tried, in which
 * order.
 *
 *   exact                 the optimum, for graphs of a few nodes. If it has too many states:
 *   smallest peak         does not depend on the budget, so the minimum that a refusal names is
 *                         found again when it is asked for
 *   the ladder            the same budgets for every call: twentieths of the peak with everything
 *                         kept (fewer for large graphs), from the smallest peak up to the budget.
 *                         Each rung starts from the rung below and from fresh seeds
 *   the budget itself     if it is not a rung
 *
 * answer.c makes plans of the lists: checked, placed, with copies to the host.
 *
 *  1. Nothing on the ladder depends on the budget. A larger budget therefore sees every list that a
 *     smaller one on the ladder saw, and is never slower.
 *  2. Effort is counted in edits of schedules and divided by fixed shares. A time limit only cuts
 *     the search, and `cut` is then set.
 *  3. Two searches run in parallel. Each is deterministic, and the better one wins by cost, then
 *     peak, then number, so the result does not depend on which ended first.
 */
#include "plan/solve_int.h"

#include "base/clock.h"
#include "base/stop.h"
#include "plan/proof/proof.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SOLVE_THREADS = 2,
    TOURNAMENT_SEEDS = 8, /* of a tournament */
    SEED_INPUT_ORDER = 2, /* these two seeds are the input order, each node once */
    SEED_INPUT_ORDER_2 = 6,
    MIN_EDITS_PER_NODE = 200, /* edits per node that a run of a tournament should have */
    SEARCHED_NODES = 50000,   /* graphs of up to this many nodes are searched with any effort */
    PEAK_EDITS_PER_NODE = 3,  /* with fewer, a run changes next to nothing: on the peak */
    COST_EDITS_PER_NODE = 10, /* and on the cost */
    MAX_GROUPED_NODES = 1000  /* groups of runs are moved in graphs of up to this many nodes.
                                   * Larger graphs have too few edits per node for it, and a regular
                                   * order */
};

/* Less than ten seconds on two cores: fitted to the measured time of one edit. */
int64_t plan_default_effort(int32_t n_nodes)
{
    double n = n_nodes;
    return (int64_t)(7e6 / (0.25 + 0.0008 * n / (1 + n / 1500)));
}

typedef struct Winner {
    RunList list;
    int32_t number; /* among all runs of the tournament */
    int32_t line;   /* the run of the first round that it descends from */
} Winner;

void solve_tell(const PlanSolve *s, double done, const char *text)
{
    if (s->options.progress)
        s->options.progress(s->options.progress_arg, done, text);
}

/* With what the best plan so far costs: budgets rise, so it gets cheaper. */
static void solve_tell_rung(const PlanSolve *s, int32_t k)
{
    char           text[80];
    const RunList *best = &s->rung[k];
    double         base = s->task->base_cost;
    if (best->node && base > 0)
        snprintf(text, sizeof text, "searching the ladder of budgets: %+.1f %% of time so far",
                 100 * (best->cost / base - 1));
    else
        snprintf(text, sizeof text, "searching the ladder of budgets");
    solve_tell(s, 0.2 + 0.7 * (double)k / (double)s->rungs, text);
}

/* Sets the deadline of what follows to this share of the time limit: everything before the search
 * for the budget itself must leave time for it. */
static void solve_until(PlanSolve *s, double share)
{
    if (s->options.time_limit_s > 0)
        s->deadline_s = s->begin_s + share * s->options.time_limit_s;
}

bool solve_late(PlanSolve *s)
{
    bool late = stop_late(s->deadline_s);
    s->cut |= late;
    return late;
}

static SolverArgs solve_args(const PlanSolve *s, int64_t budget, int64_t effort, uint64_t salt)
{
    return (SolverArgs){ .task = s->task,
                         .budget_bytes = budget,
                         .effort = effort,
                         .seed = s->options.seed * 7919 + salt,
                         .deadline_s = s->deadline_s };
}

static void solve_one(PlanSolve *s, SolveFn *solver, const SolverArgs *args, int64_t budget,
                      RunList *best)
{
    Pool   *pool = pool_new(NULL, "solver");
    RunList found;
    solver(pool, args, &found);
    s->cut |= found.cut;
    run_list_keep(s->pool, best, &found, budget);
    pool_free(pool);
}

/* Memory that runs out must not leave the parallel region by a jump; false: it ran out. */
static bool solve_guarded(SolveFn *solver, Pool *pool, const SolverArgs *args, RunList *found)
{
    PoolGuard guard;
    pool_guard(&guard, pool);
    bool enough = !setjmp(guard.at);
    if (enough)
        solver(pool, args, found);
    pool_unguard(&guard);
    return enough;
}

typedef struct SolveJob {
    SolveFn   *solver;
    SolverArgs args;
} SolveJob;

/* Runs solvers two at a time, in the order of the jobs; found lives in `pool`. */
static void solve_many(PlanSolve *s, Pool *pool, const SolveJob *jobs, int32_t n, RunList *found)
{
    Pool *pools[TOURNAMENT_RUNS];
    bool  enough[TOURNAMENT_RUNS];
    for (int32_t i = 0; i < n; i++)
        pools[i] = pool_new(pool, "solver");
#pragma omp parallel for num_threads(SOLVE_THREADS) schedule(dynamic, 1)
    for (int32_t i = 0; i < n; i++)
        enough[i] = solve_guarded(jobs[i].solver, pools[i], &jobs[i].args, &found[i]);
    for (int32_t i = 0; i < n; i++)
        if (!enough[i])
            pool_out_of_memory(0);
    for (int32_t i = 0; i < n; i++)
        s->cut |= found[i].cut;
}

/* Cheapest first (or, below, the lowest peak first); ties by number. */
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

/* A lower bound on the cost of every plan within the budget, from the fullest moment of each
 * quarter of the input order (proof/min_cut.c). A list of that cost need not be searched
 * further. */
static double solve_bound(const PlanSolve *s, int64_t budget)
{
    enum { QUARTERS = 4 };
    Pool     *temp = pool_new(NULL, "solve_bound");
    Schedule *all = schedule_new(temp, s->task);
    int32_t   fullest[QUARTERS] = { -1, -1, -1, -1 };
    int64_t   load[QUARTERS] = { 0 }, live = s->task->fixed_bytes;
    double    extra = 0;
    for (int32_t p = 0; p < all->after; p = schedule_next(all, p)) {
        int32_t node = all->node_at[p];
        int32_t quarter = (int32_t)((int64_t)node * QUARTERS / s->task->n_nodes);
        live += all->begin[p];
        if (live + s->task->nodes[node].workspace > load[quarter]) {
            load[quarter] = live + s->task->nodes[node].workspace;
            fullest[quarter] = node;
        }
        live -= all->end[p];
    }
    for (int quarter = 0; quarter < QUARTERS; quarter++) {
        if (fullest[quarter] >= 0 && load[quarter] > budget)
            extra = fmax(extra, min_cut_bound(temp, s->task, fullest[quarter], budget).cost);
    }
    pool_free(temp);
    return s->task->base_cost + extra;
}

/* The rule: of the lines of descent from each seed, every second one also moves groups of runs
 * (groups.c). Graphs differ in what helps. In wide, irregular graphs a branch can only change its
 * place as a whole, so groups are needed. In chains nearly every group is refused, and groups waste
 * effort. Groups alone are not enough for irregular graphs either: with them RL100
 * (../shared/instances) did not always reach 0.6006 of its peak. Each round drops the worse half,
 * so the kind that does not help soon dies out. */
static bool solve_moves_groups(const PlanSolve *s, int32_t line)
{
    return s->task->n_nodes <= MAX_GROUPED_NODES && (line / 2 + line / TOURNAMENT_SEEDS) % 2;
}

/* Go with the winners (Aldous and Vazirani 1994): many short annealing runs from all seeds; the
 * best half continues, for twice as long and finally cooler, until two are left. The result of a
 * run depends more on early luck than on its length, so 32 short runs, then 16, 8, 4 and 2, find
 * more than one run of the same effort. For the smallest peak every round is as hot as the first.
 * Every second run is careful: some graphs need that, others do not. seeds: node NULL means each
 * node once. enough: a cost that cannot be beaten. */
static void solve_tournament(PlanSolve *s, SolveFn *solver, int64_t budget, int64_t effort,
                             double enough, const RunList seeds[TOURNAMENT_SEEDS], RunList *best)
{
    static const double heat[TOURNAMENT_ROUNDS] = { 0.1, 0.3, 1, 1, 1 }; /* the last round first */
    Winner              all[2 * TOURNAMENT_RUNS];
    int32_t             line[TOURNAMENT_RUNS];
    bool                lowest = budget == LOWEST;
    int32_t             rounds = TOURNAMENT_ROUNDS, runs = TOURNAMENT_RUNS, n_all = 0;
    /* a run must be long enough to edit every node many times */
    while (rounds > 1 && effort / (rounds * runs) < MIN_EDITS_PER_NODE * (int64_t)s->task->n_nodes)
        runs = 1 << --rounds;
    for (int32_t left = rounds; left > 0; left--, runs /= 2) {
        SolveJob jobs[TOURNAMENT_RUNS];
        RunList  found[TOURNAMENT_RUNS];
        if (best->node && (lowest ? best->peak_bytes <= s->bound_bytes : best->cost <= enough))
            break;
        for (int32_t i = 0; i < runs; i++) {
            SolverArgs *args = &jobs[i].args;
            jobs[i].solver = solver;
            *args = solve_args(s, budget, effort / (rounds * runs),
                               (uint64_t)(31 + TOURNAMENT_RUNS * left + i));
            args->heat = lowest ? 1 : heat[left - 1];
            args->start = n_all == 0 ? seeds[i % TOURNAMENT_SEEDS] : all[i % n_all].list;
            args->careful = i % 2 && args->start.node;
            line[i] = n_all == 0 ? i : all[i % n_all].line;
            args->groups = solve_moves_groups(s, line[i]);
        }
        solve_many(s, s->pool, jobs, runs, found);
        for (int32_t i = 0; i < runs; i++) {
            run_list_keep(s->pool, best, &found[i], budget);
            if (found[i].node) {
                all[n_all] = (Winner){ found[i], n_all, line[i] };
                n_all++;
            }
        }
        qsort(all, (size_t)n_all, sizeof *all, lowest ? solve_by_peak : solve_by_cost);
        n_all = n_all < TOURNAMENT_RUNS ? n_all : TOURNAMENT_RUNS;
    }
    for (int32_t i = 0; lowest && i < n_all; i++) {
        int32_t k = 0;
        while (k < i && all[k].line != all[i].line)
            k++;
        if (k == i)
            s->low[s->n_low++] = all[i].list;
    }
}

static bool solve_large(const PlanSolve *s) { return s->task->n_nodes > 2000; }

static bool solve_huge(const PlanSolve *s) { return s->task->n_nodes > 4000; }

/* Is a tournament of this effort, of two runs at least, long enough to change something? Regular
 * graphs of 100,000 nodes are as good without it: 14 s of CPU time instead of 37. */
static bool solve_is_worth(const PlanSolve *s, int64_t effort, int64_t edits_per_node)
{
    return s->irregular || s->task->n_nodes <= SEARCHED_NODES ||
           effort / 2 >= edits_per_node * s->task->n_nodes;
}

/* The lowest budget under which next_use finds a list, by bisection; then annealing on the peak,
 * from that list and from the input order. */
static void solve_minimum(PlanSolve *s, double until)
{
    s->n_low = 0;
    int64_t low = s->bound_bytes, high = s->keep_all_bytes;
    RunList best = { 0 };
    solve_until(s, until);
    s->exact = exact_can(s->task);
    if (s->exact) {
        SolverArgs args = solve_args(s, LOWEST, 0, 0);
        solve_one(s, solve_exact, &args, LOWEST, &best);
        args.budget_bytes = best.peak_bytes;
        if (best.node)
            solve_one(s, solve_exact, &args, best.peak_bytes, &s->min_peak);
        s->exact = s->min_peak.node;
        s->proved_bytes = s->exact ? s->min_peak.peak_bytes : 0;
        if (s->exact)
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
    /* the input order and the list found, alternately */
    RunList seeds[TOURNAMENT_SEEDS] = { { 0 }, best, { 0 }, best, { 0 }, best, { 0 }, best };
    int64_t effort = s->effort / (solve_huge(s) ? 20 : 2);
    if (!best.node || solve_is_worth(s, effort, PEAK_EDITS_PER_NODE))
        solve_tournament(s, solve_min_peak, LOWEST, effort, 0, seeds, &best);
    s->min_peak = best;
}

/* Annealing on the peak for longer, from the lists found so far and from the input order. */
static void solve_longer(PlanSolve *s)
{
    RunList low = s->min_peak, best = low;
    RunList seeds[TOURNAMENT_SEEDS] = { { 0 }, low, { 0 }, low, { 0 }, low, { 0 }, low };
    int64_t effort = (int64_t)((double)s->effort / 2 / (1 + s->task->n_nodes / 20000.0));
    s->n_low = 0;
    solve_tournament(s, solve_min_peak, LOWEST, effort, 0, seeds, &best);
    s->min_peak = best;
}

/* Huge graphs are mostly regular, and the quick solvers find a small peak in their input order.
 * Where more than half of the bytes above the bound remain, the graph is irregular: it is searched
 * once more in an order that keeps less, from which all later searches begin, and longer if need
 * be. This depends on the graph alone, as the minimum must. */
static void solve_reorder(PlanSolve *s, double until)
{
    int64_t above = s->keep_all_bytes - s->bound_bytes;
    RunList order = { 0 };
    s->irregular = false;
    if (!solve_huge(s) || solve_late(s) || s->min_peak.peak_bytes - s->bound_bytes <= above / 2)
        return;
    s->irregular = true;
    SolverArgs args = solve_args(s, LOWEST, 0, 0);
    solve_one(s, solve_order, &args, LOWEST, &order);
    if (!order.node || order.peak_bytes >= s->keep_all_bytes)
        return;
    PlanSolve before = *s;
    s->task = task_reorder(s->pool, s->task, order.node);
    solve_minimum(s, until);
    if (s->min_peak.peak_bytes > before.min_peak.peak_bytes)
        *s = before;
    if (s->min_peak.peak_bytes - s->bound_bytes > above / 2)
        solve_longer(s);
}

/* If a quick solver found nothing within the budget, annealing from nothing rarely would. Its seed
 * becomes a list with a small peak instead, a different one each time. These lists are far apart:
 * near the smallest peak no edits lead from one local optimum to the next, so the search must begin
 * at several. */
static void solve_fill(const PlanSolve *s, int64_t budget, RunList seeds[TOURNAMENT_SEEDS])
{
    int32_t within[TOURNAMENT_RUNS], n = 0, next = 0;
    for (int32_t k = s->n_low - 1; k >= 0; k--) {
        if (s->low[k].peak_bytes <= budget)
            within[n++] = k;
    }
    for (int32_t i = 0; i < TOURNAMENT_SEEDS && n > 0; i++) {
        if (!seeds[i].node && i != SEED_INPUT_ORDER && i != SEED_INPUT_ORDER_2)
            seeds[i] = s->low[within[next++ % n]];
    }
}

/* The solvers that do not search; `blocks`, which takes longest, begins. */
static void solve_quick(PlanSolve *s, int64_t budget, RunList *next_use, RunList *blocks,
                        RunList *segments)
{
    enum { QUICK = 3 };
    SolveJob jobs[QUICK] = {
        { solve_blocks, solve_args(s, budget, solve_large(s) ? 500 : 1500, 0) },
        { solve_next_use, solve_args(s, budget, solve_large(s) ? 3 : 15, 0) },
        { solve_segments, solve_args(s, budget, solve_large(s) ? 500 : 1500, 0) },
    };
    RunList found[QUICK] = { 0 }, *const kept[QUICK] = { blocks, next_use, segments };
    Pool *temp = pool_new(NULL, "solve_quick");
    solve_many(s, temp, jobs, QUICK, found);
    for (int i = 0; i < QUICK; i++) {
        *kept[i] = (RunList){ 0 };
        run_list_keep(s->pool, kept[i], &found[i], budget);
    }
    pool_free(temp);
}

void solve_seed(PlanSolve *s, int64_t budget, RunList *best)
{
    RunList found[3];
    solve_quick(s, budget, &found[0], &found[1], &found[2]);
    *best = (RunList){ 0 };
    for (int i = 0; i < 3; i++)
        run_list_keep(s->pool, best, &found[i], budget);
}

/* The cheapest list within the budget that all solvers together find. */
void solve_budget(PlanSolve *s, int64_t budget, int64_t effort, const RunList *warm, RunList *best)
{
    RunList next_use, blocks, segments;
    *best = s->quick = (RunList){ 0 };
    if (s->exact) {
        SolverArgs all = solve_args(s, budget, 0, 0);
        solve_one(s, solve_exact, &all, budget, best);
        s->exact = best->node;
        if (s->exact)
            return;
    }
    solve_quick(s, budget, &next_use, &blocks, &segments);
    run_list_keep(s->pool, &s->quick, &next_use, budget);
    run_list_keep(s->pool, &s->quick, &blocks, budget);
    run_list_keep(s->pool, &s->quick, &segments, budget);
    run_list_keep(s->pool, best, warm, budget);
    run_list_keep(s->pool, best, &s->quick, budget);
    RunList seeds[TOURNAMENT_SEEDS] = { *best,    next_use, { 0 }, blocks,
                                        segments, next_use, { 0 }, *warm };
    if (best->cost >= warm->cost)
        seeds[7] = (RunList){ 0 }; /* already the first seed */
    if (solve_large(s))
        seeds[1] = *best;
    solve_fill(s, budget, seeds);
    if (!best->node || solve_is_worth(s, effort, COST_EDITS_PER_NODE))
        solve_tournament(s, solve_anneal, budget, effort, solve_bound(s, budget) * (1 + 1e-12),
                         seeds, best);
}

static int64_t solve_rung_bytes(const PlanSolve *s, int32_t k)
{
    int64_t peak = s->keep_all_bytes, n = s->rungs;
    return peak / n * k + (peak % n * k + n - 1) / n; /* ceil(peak * k / n) */
}

static int32_t solve_lowest_rung(const PlanSolve *s)
{
    int32_t lowest = 0;
    while (lowest < s->rungs && solve_rung_bytes(s, lowest) < s->min_peak.peak_bytes)
        lowest++;
    return lowest;
}

/* The effort of rung k. Low rungs are the hardest and are needed by every budget above them: the
 * i-th from below gets a share proportional to 1 / (i + 4). The share does not depend on the
 * budget. */
static int64_t solve_share(const PlanSolve *s, int32_t k)
{
    int32_t lowest = solve_lowest_rung(s);
    double  sum = 0;
    for (int32_t i = 0; i <= s->rungs - lowest; i++)
        sum += 1.0 / (i + 4);
    return (int64_t)((double)s->effort / (k - lowest + 4) / sum);
}

void solve_ladder(PlanSolve *s, int64_t budget)
{
    int32_t lowest = solve_lowest_rung(s);
    if (s->hasty)
        return;
    if (s->n_rung < lowest) {
        for (int32_t k = s->n_rung; k < lowest; k++)
            s->rung[k] = s->seed[k] = (RunList){ 0 };
        s->n_rung = lowest;
    }
    solve_until(s, 0.7);
    for (int32_t k = s->n_rung; k < s->rungs && solve_rung_bytes(s, k) <= budget; k++) {
        if (solve_late(s))
            break;
        const RunList *below = k > lowest ? &s->rung[k - 1] : &s->min_peak;
        s->quick = (RunList){ 0 };
        if (below->n == s->task->n_nodes)
            s->rung[k] = *below; /* each node runs once: it cannot get cheaper */
        else
            solve_budget(s, solve_rung_bytes(s, k), solve_share(s, k), below, &s->rung[k]);
        s->seed[k] = s->quick;
        s->n_rung = k + 1;
        solve_tell_rung(s, k);
    }
}

const RunList *solve_highest(const PlanSolve *s, int64_t budget)
{
    for (int32_t k = s->n_rung - 1; k >= 0; k--) {
        if (s->rung[k].node && s->rung[k].peak_bytes <= budget)
            return &s->rung[k];
    }
    return &s->min_peak;
}

void solve_asked(PlanSolve *s, int64_t budget, RunList *best)
{
    solve_ladder(s, budget);
    solve_until(s, 0.95);
    *best = (RunList){ 0 };
    run_list_keep(s->pool, best, &s->min_peak, budget);
    if (s->hasty && best->node)
        return;
    bool is_rung = false;
    for (int32_t k = 0; k < s->n_rung; k++) {
        run_list_keep(s->pool, best, &s->rung[k], budget);
        is_rung |= !s->cut && s->rung[k].node && solve_rung_bytes(s, k) == budget;
    }
    for (int32_t k = 0; k < s->n_asked; k++) {
        if (s->asked[k].budget <= budget)
            run_list_keep(s->pool, best, &s->asked[k].list, budget);
    }
    if (!is_rung && best->n != s->task->n_nodes) {
        RunList direct;
        int64_t effort = s->effort / (s->rungs == LADDER_MAX ? 8 : 3);
        solve_budget(s, budget, effort, solve_highest(s, budget), &direct);
        run_list_keep(s->pool, best, &direct, budget);
        if (s->n_asked < ASKED_MAX)
            s->asked[s->n_asked++] = (AskedBudget){ budget, direct };
    }
}

void solve_begin(PlanSolve *s, Pool *pool, const PGraph *graph, const PlanOptions *options,
                 const Plan *keep_all)
{
    *s = (PlanSolve){ .pool = pool,
                      .graph = graph,
                      .options = *options,
                      .task = task_new(pool, graph),
                      .keep_all_bytes = keep_all->live_bytes,
                      .bound_bytes = keep_all->bound_bytes };
    s->rungs = graph->n_nodes <= 1000 ? LADDER_MAX : graph->n_nodes <= 4000 ? 10 : 4;
    s->effort = options->effort > 0 ? options->effort : plan_default_effort(s->task->n_nodes);
    s->begin_s = clock_now();
    if (options->hasty && options->budget_bytes > 0) {
        solve_seed(s, options->budget_bytes, &s->min_peak);
        s->hasty = s->min_peak.node;
        if (s->hasty)
            return;
    }
    solve_tell(s, 0, "searching for the smallest peak");
    solve_minimum(s, 0.3);
    solve_reorder(s, 0.3);
    if (s->cut && s->min_peak.peak_bytes > options->budget_bytes)
        solve_minimum(s, 0.95); /* no other search would find a plan */
    solve_tell(s, 0.2, "searching the ladder of budgets");
}
