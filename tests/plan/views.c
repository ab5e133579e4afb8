/* views.c -- do graphs with views get the plans that are possible? Compared with a brute force over
 * the memory rule, on random tiny graphs and on those kept in ../shared/instances/tiny.
 *
 *   test_plan_views [GRAPHS FIRST]     so many random graphs from another seed, nothing else */
#include "test.h"

#include "plan/brute_rule.h"
#include "plan/make.h"
#include "plan/proof/proof.h"
#include "plan/solvers/search.h"

#include <dirent.h>
#include <unistd.h>

enum {
    VIEW_GRAPHS = 4000,  /* random graphs that are planned */
    VIEW_SEARCHED = 400, /* of them also searched without the exact solver */
    VIEW_EFFORT = 4000,  /* edits of such a search */
    VIEW_PROGRAMS = 40,  /* given to the integer program */
    VIEW_VALUES = 13
};

static int32_t pick(Make *m, int32_t n) { return (int32_t)make_random(m, (uint32_t)n); }

static bool chance(Make *m, int32_t percent) { return pick(m, 100) < percent; }

static void add_input(Make *m, PNode *node, int32_t value)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (node->in[i] == value)
            return;
    int32_t *in = NEWN(m->pool, int32_t, node->n_in + 2);
    memcpy(in, node->in, sizeof *in * (size_t)node->n_in);
    in[node->n_in++] = value;
    node->in = in;
}

static void add_output(Make *m, int32_t n, int32_t value)
{
    PNode   *node = &m->graph->nodes[n];
    int32_t *out = NEWN(m->pool, int32_t, node->n_out + 2);
    memcpy(out, node->out, sizeof *out * (size_t)node->n_out);
    out[node->n_out++] = value;
    node->out = out;
    pgraph_link_node(m->graph, n);
}

static void add_inplace(Make *m, PNode *node, int32_t out, int32_t in)
{
    node->inplace = pool_alloc(m->pool, 1, sizeof *node->inplace);
    node->inplace[0][0] = out;
    node->inplace[0][1] = in;
    node->n_inplace = 1;
}

static int32_t any_bytes(Make *m) { return chance(m, 20) ? 0 : 1 + pick(m, 60); }

/* A random graph of 3 to 7 nodes: views with and without cost, workspace, other inputs and `once`,
 * beside other outputs, of views and of persistent values; bytes taken over, updates of any
 * value. Not every one
 * is a graph: pgraph_check decides. */
static PGraph *tiny_views(Pool *pool, uint64_t seed)
{
    Make    m = make_begin(pool, seed);
    int32_t n_nodes = 3 + pick(&m, 5);
    for (int32_t p = pick(&m, 3); p > 0; p--)
        make_value(&m, any_bytes(&m), true);
    for (int32_t i = 0; i < n_nodes; i++) {
        int32_t n = make_node(&m, chance(&m, 30) ? 0 : 1 + pick(&m, 20),
                              chance(&m, 25) ? 1 + pick(&m, 60) : 0, -1, -1);
        PNode  *node = &m.graph->nodes[n];
        int32_t before = m.graph->n_values, first = -1;
        for (int32_t k = i == 0 ? 0 : 1 + pick(&m, 3); k > 0 && before > 0; k--)
            add_input(&m, node,
                      chance(&m, 50) && before > 3 ? before - 1 - pick(&m, 3) : pick(&m, before));
        for (int32_t k = chance(&m, 25) ? 2 : 1; k > 0 && m.graph->n_values < VIEW_VALUES; k--) {
            bool    view = before > 0 && chance(&m, 45);
            int32_t of = -1;
            if (view) /* of an input, of anything, of what this node produces */
                of = chance(&m, 80) && node->n_in > 0 ? node->in[pick(&m, node->n_in)]
                     : first >= 0 && chance(&m, 50)   ? first
                                                      : pick(&m, before);
            first = make_value(&m, view ? 0 : any_bytes(&m), false);
            m.graph->values[first].view_of = view ? pgraph_root(m.graph, of) : -1;
            m.graph->values[first].final = chance(&m, 15);
            add_output(&m, n, first);
        }
        if (node->n_in > 0 && chance(&m, 15) && first >= 0)
            add_inplace(&m, node, first, node->in[pick(&m, node->n_in)]);
        int32_t given = node->n_in > 0 ? node->in[pick(&m, node->n_in)] : -1;
        if (given >= 0 && m.graph->values[given].view_of < 0 &&
            chance(&m, m.graph->values[given].persistent ? 20 : 10))
            add_output(&m, n, given); /* an update */
        node->once |= chance(&m, 15);
    }
    m.graph->values[m.graph->n_values - 1].final = true;
    return m.graph;
}

static bool has_views(const PGraph *g)
{
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->values[v].view_of >= 0)
            return true;
    return false;
}

/* One graph at the budgets between its minimum and everything kept. False: something differs. */
static bool agrees(Pool *pool, const PGraph *g, int64_t lowest)
{
    Plan       *all, *plan;
    PlanOptions options = { .effort = 2000 };
    bool        good = true;
    if (!CHECK_INT(plan_keep_all(pool, g, &all), OK) || !CHECK_INT(plan_check(g, all, 0), OK)) {
        fprintf(stderr, "  said: %s\n", err_text());
        return false;
    }
    if (lowest > 1) {
        options.budget_bytes = lowest - 1;
        good &= CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
        good &= CHECK_INT(plan->live_bytes, lowest);
        good &= CHECK(plan->bound_bytes <= lowest);
    }
    for (int k = 0; k < 4; k++) {
        options.budget_bytes = lowest + (all->live_bytes - lowest) * k / 4;
        if (options.budget_bytes < 1)
            continue;
        double best = rule_optimum(g, options.budget_bytes);
        if (best < 0)
            continue;
        Err err = plan_solve(pool, g, &options, &plan);
        if (err)
            fprintf(stderr, "  said: %s\n", err_text());
        good &= CHECK_INT(err, OK);
        if (!err) {
            CHECK_OK(plan_check(g, plan, options.budget_bytes));
            good &= CHECK_NEAR(plan->cost, best, 1e-9 * best);
        }
    }
    return good;
}

/* The annealers, which larger graphs rely on: how often do they miss? */
static void search_alone(Pool *pool, const PGraph *g, int64_t lowest, int *peaks, int *costs,
                         int *n)
{
    Plan *all;
    CHECK_OK(plan_keep_all(pool, g, &all));
    Task      *task = task_new(pool, g);
    SolverArgs args = { .task = task, .budget_bytes = LOWEST, .effort = VIEW_EFFORT };
    int64_t    budget = lowest + (all->live_bytes - lowest) / 3;
    RunList    low, list;
    if (task->n_nodes == 0 || lowest == all->live_bytes)
        return;
    solve_min_peak(pool, &args, &low);
    args.budget_bytes = budget;
    args.start = low;
    if (low.peak_bytes > budget)
        args.start = (RunList){ 0 };
    solve_anneal(pool, &args, &list);
    double best = rule_optimum(g, budget);
    *peaks += low.peak_bytes > lowest;
    *costs += !list.node || list.cost > best * (1 + 1e-9) + 1e-12;
    for (int32_t node = 0; node < task->n_nodes; node++) { /* no bound is above the optimum */
        MinCutBound bound = min_cut_bound(pool, task, node, budget);
        CHECK(bound.bytes <= lowest);
        CHECK(task->base_cost + bound.cost <= best * (1 + 1e-9));
    }
    CHECK(low.peak_bytes >= lowest);
    CHECK(!list.node || list.cost >= best * (1 - 1e-9));
    ++*n;
}

/* The integer program of the input order: what it finds is a plan, and within the budget. */
static void program_knows_views(void)
{
    int solved = 0;
    if (!milp_can_solve()) {
        SKIP(MILP_NO_SOLVER);
        return;
    }
    for (uint64_t seed = 1; solved < VIEW_PROGRAMS; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = tiny_views(pool, seed);
        Plan   *all, *plan;
        double  lowest = pgraph_check(g) || !has_views(g) ? -1 : rule_optimum(g, -1);
        if (lowest > 0 && !plan_keep_all(pool, g, &all) && lowest < (double)all->live_bytes) {
            int64_t    budget = (int64_t)(lowest + 0.4 * ((double)all->live_bytes - lowest));
            Task      *task = task_new(pool, g);
            Stages     stages;
            MilpAnswer answer;
            RunList    list;
            int32_t   *runs, n;
            stages_build(pool, task, budget, &stages);
            CHECK_OK(milp_solve(pool, &stages.milp, 1e9, 10, &answer));
            if (answer.x) {
                stages_list(pool, task, &stages, answer.x, &list);
                task_runs(pool, task, list.node, list.n, &runs, &n);
                CHECK_OK(plan_from_runs(pool, g, runs, n, &plan));
                if (!CHECK_INT(plan_check(g, plan, budget), OK))
                    fprintf(stderr, "  seed %llu: %s\n", (unsigned long long)seed, err_text());
                CHECK(plan->cost >= rule_optimum(g, budget) * (1 - 1e-9));
                solved++;
            }
        }
        pool_free(pool);
    }
}

static int      view_graphs = VIEW_GRAPHS;
static uint64_t view_first = 1;

static void random_views_agree(void)
{
    int      graphs = 0, peaks = 0, costs = 0, searched = 0;
    uint64_t last = view_first + 100 * (uint64_t)view_graphs;
    for (uint64_t seed = view_first; graphs < view_graphs && seed < last; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = tiny_views(pool, seed);
        if (!pgraph_check(g) && has_views(g)) {
            double lowest = rule_optimum(g, -1);
            if (lowest >= 0 && !CHECK(lowest < DBL_MAX))
                fprintf(stderr, "  seed %llu\n", (unsigned long long)seed);
            if (lowest >= 0 && lowest < DBL_MAX) {
                graphs++;
                if (!agrees(pool, g, (int64_t)lowest))
                    fprintf(stderr, "  seed %llu\n", (unsigned long long)seed);
                if (searched < VIEW_SEARCHED)
                    search_alone(pool, g, (int64_t)lowest, &peaks, &costs, &searched);
            }
        }
        pool_free(pool);
        if (test_failed > 20)
            return;
    }
    CHECK_INT(graphs, view_graphs);
    printf("%d random graphs with views agree; of %d the search alone misses %d minima and %d "
           "optima\n",
           graphs, searched, peaks, costs);
    CHECK(peaks * 20 <= searched); /* as often as without views */
    CHECK(costs * 20 <= searched);
}

/* Eleven graphs on which earlier versions were worse than a brute force. */
static void known_views_agree(void)
{
    Pool       *pool = pool_new(NULL, "test");
    const char *folder = pool_print(pool, "%s/../shared/instances/tiny", SOURCE_DIR);
    DIR        *dir = opendir(folder);
    int         n = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        PGraph *g;
        if (!strstr(entry->d_name, ".json"))
            continue;
        CHECK_OK(pgraph_read(pool, pool_print(pool, "%s/%s", folder, entry->d_name), &g));
        double lowest = rule_optimum(g, -1);
        CHECK(lowest >= 0);
        if (!agrees(pool, g, (int64_t)lowest))
            fprintf(stderr, "  %s\n", entry->d_name);
        n++;
    }
    if (dir)
        closedir(dir);
    pool_free(pool);
    if (n == 0)
        SKIP("../shared/instances/tiny is not there");
    else
        CHECK(n >= 11);
}

int main(int n_args, char **args)
{
    if (n_args == 3) {
        view_graphs = atoi(args[1]);
        view_first = strtoull(args[2], NULL, 10);
        RUN(random_views_agree);
        return test_end();
    }
    RUN(program_knows_views);
    RUN(known_views_agree);
    RUN(random_views_agree);
    return test_end();
}
