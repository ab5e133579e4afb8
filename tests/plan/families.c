/* families.c -- training steps of many kinds of networks, generated here.
 *
 * Does the search find what integer programs find? Does every budget hold? Is it never worse than
 * plain checkpointing? Seeds are fixed, graphs small, efforts far below the default. */
#include "test.h"

#include "plan/families.h"
#include "plan/proof/milp.h"
#include "plan/prove.h"
#include "plan/solvers/solver.h"

static int64_t min_bytes(Pool *pool, const PGraph *graph, int64_t effort)
{
    PlanOptions options = { .budget_bytes = 1, .effort = effort };
    Plan       *plan;
    CHECK_INT(plan_solve(pool, graph, &options, &plan), E_BUDGET);
    CHECK_OK(plan_check(graph, plan, 0));
    CHECK(plan->live_bytes >= plan->bound_bytes);
    return plan->live_bytes;
}

/* 24 to 40 nodes each: CBC looks for anything cheaper. */
static void small_ones_meet_the_program(void)
{
    int optimal = 0, compared = 0;
    if (!milp_can_solve()) {
        SKIP(MILP_NO_SOLVER);
        return;
    }
    for (int f = 0; f < N_FAMILIES; f++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = families[f].build(pool, families[f].small, 11);
        Plan   *all, *plan;
        Proof   proof;
        CHECK_OK(pgraph_check(g));
        CHECK(g->n_nodes <= 40);
        CHECK_OK(plan_keep_all(pool, g, &all));
        int64_t      minimum = min_bytes(pool, g, 1000000);
        PlanOptions  options = { .budget_bytes = minimum + (all->live_bytes - minimum) * 4 / 10,
                                 .effort = 1000000 };
        ProveOptions how = { .budget_bytes = options.budget_bytes, .time_limit_s = 2 };
        CHECK_OK(plan_solve(pool, g, &options, &plan));
        CHECK_OK(plan_prove(pool, g, plan, &how, &proof));
        CHECK(proof.any_cost <= plan->cost * (1 + 1e-9));
        if (!CHECK(!proof.cheaper))
            fprintf(stderr, "  %s: found %g, there is %g\n", families[f].name, plan->cost,
                    proof.cheaper->cost);
        optimal += proof.order_closed || !proof.order_tried ||
                   proof.any_cost >= plan->cost * (1 - 1e-9);
        compared++;
        pool_free(pool);
    }
    printf("families: %d of %d small graphs proved optimal within two seconds\n", optimal,
           compared);
}

/* The minimum that is named works, one byte less does not; every budget between is checked, and
 * none is more expensive than a smaller one. */
static void every_rung_holds(void)
{
    for (int f = 0; f < N_FAMILIES; f++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = families[f].build(pool, families[f].medium, 3);
        Plan   *all, *plans[6], *plan;
        int64_t budgets[6], minimum = min_bytes(pool, g, 30000);
        CHECK_OK(plan_keep_all(pool, g, &all));
        CHECK(minimum < all->live_bytes);
        for (int i = 0; i < 6; i++)
            budgets[i] = minimum + (all->live_bytes - minimum) * i / 5;
        PlanOptions options = { .effort = 30000 };
        CHECK_OK(plan_curve(pool, g, &options, budgets, 6, plans));
        for (int i = 0; i < 6; i++) {
            if (!CHECK(plans[i] != NULL))
                fprintf(stderr, "  %s rung %d\n", families[f].name, i);
            CHECK(!plans[i] || plan_check(g, plans[i], budgets[i]) == OK);
            CHECK(i == 0 || !plans[i] || !plans[i - 1] || plans[i]->cost <= plans[i - 1]->cost);
        }
        options.budget_bytes = minimum - 1;
        CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
        CHECK_INT(plan->live_bytes, minimum);
        pool_free(pool);
    }
}

/* Almost without search: at every budget that plain checkpointing of k blocks needs, and below what
 * it can reach at all. 690 blocks are 20,000 nodes; bench/plan.c plans them. */
static void never_worse_than_per_block(void)
{
    static const int32_t sizes[] = { 12, 60 };
    for (int i = 0; i < 2; i++) {
        Pool      *pool = pool_new(NULL, "test");
        MakeBlocks blocks;
        PGraph    *g = make_transformer(pool, sizes[i], 1 << 16, &blocks);
        printf("%d nodes, extra cost in %%:  per block / ours\n", g->n_nodes);
        for (int32_t k = sizes[i]; k > 0; k -= (sizes[i] + 4) / 5) {
            Plan *plain, *plan;
            CHECK_OK(make_per_block(pool, g, &blocks, k, &plain));
            PlanOptions options = { .budget_bytes = plain->live_bytes, .effort = 3000 };
            CHECK_OK(plan_solve(pool, g, &options, &plan));
            CHECK_OK(plan_check(g, plan, options.budget_bytes));
            CHECK(plan->cost <= plain->cost);
            printf("  %3d blocks forgotten: %7.3f / %7.3f\n", k,
                   100 * (plain->cost / plain->base_cost - 1),
                   100 * (plan->cost / plan->base_cost - 1));
            if (k == sizes[i]) {
                int64_t minimum = min_bytes(pool, g, 3000);
                CHECK(minimum < plain->live_bytes);
            }
        }
        pool_free(pool);
    }
}

/* Borders by dynamic programming alone, without any search afterwards. */
static void segments_are_valid(void)
{
    int lower = 0;
    for (int f = 0; f < N_FAMILIES; f++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = families[f].build(pool, families[f].medium, 5);
        Task   *task = task_new(pool, g);
        Plan   *all, *plan;
        CHECK_OK(plan_keep_all(pool, g, &all));
        for (int k = 0; k < 3; k++) {
            SolverArgs args = { .task = task, .budget_bytes = LOWEST };
            RunList    list;
            int32_t   *runs, n;
            if (k > 0)
                args.budget_bytes = all->live_bytes * (10 - 2 * k) / 10;
            solve_segments(pool, &args, &list);
            if (!list.node)
                continue; /* not a training step: there may be no such plan */
            task_runs(pool, task, list.node, list.n, &runs, &n);
            CHECK_OK(plan_from_runs(pool, g, runs, n, &plan));
            CHECK_OK(plan_check(g, plan, k ? args.budget_bytes : 0));
            CHECK_INT(plan->live_bytes, list.peak_bytes);
            CHECK_NEAR(plan->cost, list.cost, 1e-6 * plan->cost);
            lower += k == 0 && list.peak_bytes < all->live_bytes * 8 / 10;
        }
        pool_free(pool);
    }
    CHECK(lower >= 6);
}

int main(void)
{
    RUN(segments_are_valid);
    RUN(never_worse_than_per_block);
    RUN(every_rung_holds);
    RUN(small_ones_meet_the_program);
    return test_end();
}
