/* prove.c -- do the proofs hold? Compared with all states of small graphs, and with each other on
 * graphs of up to 40 nodes. A bound above an optimum is the worst possible fault. */
#include "test.h"

#include "plan/brute.h"
#include "plan/proof/proof.h"
#include "plan/prove.h"

#include <math.h>
#include <unistd.h>

/* Takes over the first input where that is allowed: no other reader, not final, large enough. */
static void take_over(Pool *pool, PGraph *g)
{
    for (int32_t n = 0; n < g->n_nodes; n++) {
        PNode  *node = &g->nodes[n];
        int32_t in = node->n_in > 0 ? node->in[0] : -1, readers = 0;
        if (in < 0 || g->values[in].persistent || g->values[in].final ||
            g->values[node->out[0]].bytes > g->values[in].bytes)
            continue;
        for (int32_t m = 0; m < g->n_nodes; m++)
            for (int32_t i = 0; i < g->nodes[m].n_in; i++)
                readers += g->nodes[m].in[i] == in;
        if (readers != 1)
            continue;
        node->inplace = pool_alloc(pool, 1, sizeof *node->inplace);
        node->inplace[0][0] = node->out[0];
        node->inplace[0][1] = in;
        node->n_inplace = 1;
    }
}

/* The bound of every moment, and of all moments together, is at or below the optimum of any
 * order. */
static void bounds_hold_in_any_order(void)
{
    int compared = 0, above_base = 0, reached = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = tiny(pool, seed);
        Plan   *all, *minimum;
        CHECK_OK(plan_keep_all(pool, g, &all));
        PlanOptions none = { .budget_bytes = 1 };
        plan_solve(pool, g, &none, &minimum);
        Task *task = task_new(pool, g);
        for (int64_t k = 0; k < 3; k++) {
            int64_t budget = minimum->live_bytes + (all->live_bytes - minimum->live_bytes) * k / 3;
            double  best = brute(g, budget), max_extra = 0;
            bool    tight[16] = { 0 };
            for (int32_t n = 0; n < g->n_nodes; n++) {
                MinCutBound bound = min_cut_bound(pool, task, n, budget);
                CHECK(task->base_cost + bound.cost <= best * (1 + 1e-9));
                CHECK(bound.bytes <= minimum->live_bytes);
                max_extra = bound.cost > max_extra ? bound.cost : max_extra;
                tight[n] = true;
            }
            compared++;
            above_base += max_extra > 0;
            Milp milp;
            if (seed <= 20 && milp_can_solve() &&
                moments_build(pool, task, budget, tight, -1, 8, 1, &milp) > 0) {
                MilpAnswer answer;
                CHECK_OK(milp_solve(pool, &milp, 1e9, 20, &answer));
                CHECK(answer.closed);
                CHECK(task->base_cost + answer.bound <= best + 1e-5);
                reached += task->base_cost + answer.bound >= best - 1e-5;
            }
        }
        pool_free(pool);
    }
    CHECK(compared > 100);
    CHECK(above_base > 20);
    if (!milp_can_solve()) {
        SKIP(MILP_NO_SOLVER);
        return;
    }
    printf("moments reach the optimum of any order on %d of 60\n", reached);
    CHECK(reached > 30);
}

/* The program of stages reaches the exact optimum of all plans in the input order. */
static void stages_are_exact(void)
{
    if (!milp_can_solve()) {
        SKIP(MILP_NO_SOLVER);
        return;
    }
    int compared = 0, extra = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = tiny(pool, seed);
        Plan   *all;
        CHECK_OK(plan_keep_all(pool, g, &all));
        Task *task = task_new(pool, g);
        for (int64_t k = 1; k <= 3; k++) {
            int64_t    budget = all->live_bytes - k * k + k;
            double     best = brute_order(g, budget);
            Stages     stages;
            MilpAnswer answer;
            stages_build(pool, task, budget, &stages);
            CHECK_OK(milp_solve(pool, &stages.milp, 1e9, 20, &answer));
            CHECK(answer.closed);
            if (!CHECK((answer.x != NULL) == (best < DBL_MAX)))
                fprintf(stderr, "  seed %llu budget %lld: %g\n", (unsigned long long)seed,
                        (long long)budget, best);
            if (!answer.x || best == DBL_MAX)
                continue;
            if (!CHECK_NEAR(task->base_cost + answer.cost * stages.unit, best, 1e-6))
                fprintf(stderr, "  seed %llu budget %lld\n", (unsigned long long)seed,
                        (long long)budget);
            RunList  list;
            Plan    *plan;
            int32_t *runs, n;
            stages_list(pool, task, &stages, answer.x, &list);
            task_runs(pool, task, list.node, list.n, &runs, &n);
            CHECK_OK(plan_from_runs(pool, g, runs, n, &plan));
            CHECK_OK(plan_check(g, plan, budget));
            CHECK_NEAR(plan->cost, best, 1e-9);
            compared++;
            extra += best > task->base_cost;
        }
        pool_free(pool);
    }
    CHECK(compared > 25);
    CHECK(extra > 8);
}

/* Graphs of 24 to 40 nodes: the search is at or below the program's optimum, and above every
 * bound. */
static void search_meets_the_program(void)
{
    int optimal = 0, compared = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = make_layered(pool, 22 + 3 * (int32_t)seed, seed);
        Plan   *all, *plan;
        Proof   proof;
        if (seed % 2)
            take_over(pool, g);
        CHECK_OK(pgraph_check(g));
        CHECK_OK(plan_keep_all(pool, g, &all));
        PlanOptions  options = { .budget_bytes = all->live_bytes * (70 + 3 * (int64_t)seed) / 100,
                                 .effort = 3000000 };
        ProveOptions prove = { .budget_bytes = options.budget_bytes, .time_limit_s = 10 };
        Err          err = plan_solve(pool, g, &options, &plan);
        if (err == E_BUDGET) {
            pool_free(pool);
            continue;
        }
        CHECK_OK(plan_prove(pool, g, plan, &prove, &proof));
        CHECK(proof.any_cost <= plan->cost * (1 + 1e-9));
        CHECK(proof.any_bytes <= plan->live_bytes);
        CHECK(proof.any_bytes >= plan->bound_bytes);
        CHECK(!proof.order_tried || proof.order_cost <= plan->cost * (1 + 1e-9));
        if (!CHECK(!proof.cheaper)) /* the search missed nothing that the program found */
            fprintf(stderr, "  seed %llu: found %g, there is %g, base %g\n",
                    (unsigned long long)seed, plan->cost, proof.cheaper->cost, plan->base_cost);
        compared++;
        optimal += proof.order_closed || !proof.order_tried;
        pool_free(pool);
    }
    CHECK(compared >= 5);
    if (milp_can_solve())
        CHECK(optimal >= 4);
    else
        SKIP(MILP_NO_SOLVER);
}

/* A plan that recomputes an expensive value: the program finds a cheaper one. */
static void a_dear_plan_is_beaten(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    int32_t a = make_act(&m, 50, 10, -1, -1, -1), b = make_act(&m, 1, 10, -1, -1, -1);
    int32_t x = make_act(&m, 1, 12, a, b, -1), y = make_act(&m, 1, 12, x, -1, -1);
    int32_t z = make_act(&m, 1, 1, y, -1, -1);
    for (int i = 0; i < 6; i++) /* enough nodes that the states are not searched */
        z = make_act(&m, 1, 1, z, -1, -1);
    make_act(&m, 1, 1, a, b, z);
    static const int32_t runs[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 11 };
    Plan                *dear;
    CHECK_OK(pgraph_check(m.graph));
    CHECK_OK(plan_from_runs(pool, m.graph, runs, 13, &dear));
    CHECK_INT(dear->live_bytes, 34);
    ProveOptions options = { .budget_bytes = 34 };
    Proof        proof;
    CHECK_OK(plan_prove(pool, m.graph, dear, &options, &proof));
    CHECK(proof.any_cost <= dear->base_cost + 1 + 1e-6);
    if (milp_can_solve()) {
        CHECK(proof.cheaper != NULL);
        CHECK(proof.cheaper && proof.cheaper->cost < dear->cost);
        CHECK_OK(plan_check(m.graph, proof.cheaper, 34));
    } else {
        SKIP(MILP_NO_SOLVER);
    }
    options.budget_bytes = 33; /* a plan that does not fit is not proved */
    CHECK_INT(plan_prove(pool, m.graph, dear, &options, &proof), E_PLAN);
    pool_free(pool);
}

static void the_program_is_written(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g = make_layered(pool, 20, 3);
    Plan   *all;
    Proof   proof;
    char    path[] = "prove_test.lp", text[200] = { 0 };
    CHECK_OK(plan_keep_all(pool, g, &all));
    ProveOptions options = { .budget_bytes = all->live_bytes, .lp_path = path };
    CHECK_OK(plan_prove(pool, g, all, &options, &proof));
    CHECK(!proof.order_tried && proof.order_note != NULL);
    CHECK(proof.order_columns > 200 && proof.order_rows > 200);
    FILE *f = fopen(path, "r");
    if (CHECK(f != NULL)) {
        CHECK(fread(text, 1, sizeof text - 1, f) > 100);
        CHECK(strstr(text, "Minimize") != NULL);
        fseek(f, -4, SEEK_END);
        CHECK(fread(text, 1, 4, f) == 4 && !memcmp(text, "End\n", 4));
        fclose(f);
    }
    unlink(path);
    options.lp_path = "no/such/folder/x.lp";
    CHECK_INT(plan_prove(pool, g, all, &options, &proof), E_IO);
    pool_free(pool);
}

/* A forward and backward chain whose idle values can be offloaded at almost no cost: no bound that
 * counts recomputation may exceed such a plan. Host-resident state causes copies, too. */
static void copies_are_no_second_runs(void)
{
    for (int size = 3; size <= 20; size += 17)
        for (int host_resident = 0; host_resident < 2; host_resident++) {
            Pool   *pool = pool_new(NULL, "test");
            Make    m = make_begin(pool, 1);
            int32_t kept[20], back = -1, state = host_resident ? make_value(&m, 50, false) : -1;
            Plan   *plan;
            Proof   proof;
            m.graph->to_host = m.graph->to_device = 1e9;
            for (int i = 0; i < size; i++)
                kept[i] = make_act(&m, 1, 100, i ? kept[i - 1] : -1, -1, -1);
            for (int i = size - 1; i >= 0; i--)
                back = make_act(&m, 1, 100, kept[i], back, -1);
            m.graph->values[back].final = true;
            if (host_resident) {
                m.graph->values[state].host_resident = true;
                make_node(&m, 1, 0, state, back, -1, state, -1);
            }
            PlanOptions  how = { .budget_bytes = 450, .effort = 2000 };
            ProveOptions options = { .budget_bytes = 450, .time_limit_s = 1 };
            CHECK_OK(plan_solve(pool, m.graph, &how, &plan));
            CHECK(plan->cost < plan->base_cost * 1.001);
            CHECK_OK(plan_prove(pool, m.graph, plan, &options, &proof));
            CHECK(proof.any_cost <= plan->cost && proof.any_bytes <= plan->live_bytes);
            CHECK(!proof.exact && !proof.order_tried && proof.order_note);
            options.lp_path = "never.lp";
            CHECK_INT(plan_prove(pool, m.graph, plan, &options, &proof), E_USAGE);
            pool_free(pool);
        }
}

/* A large graph: the bound is above the base cost and below the plan's. */
static void large_graphs_have_a_bound(void)
{
    Pool      *pool = pool_new(NULL, "test");
    MakeBlocks blocks;
    PGraph    *g = make_transformer(pool, 60, 1 << 16, &blocks);
    Plan      *plain;
    Proof      proof;
    CHECK_OK(make_per_block(pool, g, &blocks, 30, &plain));
    ProveOptions options = { .budget_bytes = plain->live_bytes, .time_limit_s = 1 };
    CHECK_OK(plan_prove(pool, g, plain, &options, &proof));
    CHECK(proof.any_cost > plain->base_cost * 1.001);
    CHECK(proof.any_cost < plain->cost);
    pool_free(pool);
}

int main(void)
{
    RUN(bounds_hold_in_any_order);
    RUN(stages_are_exact);
    RUN(a_dear_plan_is_beaten);
    RUN(the_program_is_written);
    RUN(search_meets_the_program);
    RUN(copies_are_no_second_runs);
    RUN(large_graphs_have_a_bound);
    return test_end();
}
