/* offload.c -- copies to the host and back: added up by hand, checked, and chosen by the
 * planner. */
#include "test.h"

#include "plan/make.h"
#include "plan/plan_buffers.h"

#include <unistd.h>

/* a (10 bytes) is produced, idle while b and c run, then read by d. Bandwidths: 2 out, 5 back. */
typedef struct Case {
    PGraph *graph;
    int32_t a, b, c, d; /* values; node ids are the same here */
} Case;

static Case small(Pool *pool)
{
    Make m = make_begin(pool, 1);
    Case k;
    k.a = make_act(&m, 3, 10, -1, -1, -1);
    k.b = make_act(&m, 4, 20, -1, -1, -1);
    k.c = make_act(&m, 4, 20, k.b, -1, -1);
    k.d = make_act(&m, 1, 1, k.a, k.c, -1);
    m.graph->values[k.d].final = true;
    m.graph->to_host = 2;
    m.graph->to_device = 5;
    k.graph = m.graph;
    return k;
}

static void waits_add_up_by_hand(void)
{
    Pool     *pool = pool_new(NULL, "test");
    Case      k = small(pool);
    Plan      plan = { 0 };
    PlanMeter meter;
    plan_add(pool, &plan, STEP_RUN, 0);    /* time 3 */
    plan_add(pool, &plan, STEP_SAVE, k.a); /* ends at 3 + 10 / 2 = 8 */
    plan_add(pool, &plan, STEP_RUN, 1);    /* time 7, 30 bytes */
    plan_add(pool, &plan, STEP_WAIT, k.a); /* time 8: one unit was not hidden */
    plan_add(pool, &plan, STEP_DROP, k.a); /* 20 bytes */
    plan_add(pool, &plan, STEP_RUN, 2);    /* time 12, 40 bytes */
    plan_add(pool, &plan, STEP_DROP, k.b); /* 20 bytes */
    plan_add(pool, &plan, STEP_LOAD, k.a); /* 30 bytes at once; ends at 14 */
    plan_add(pool, &plan, STEP_WAIT, k.a); /* time 14: two more */
    plan_add(pool, &plan, STEP_FREE_HOST, k.a);
    plan_add(pool, &plan, STEP_RUN, 3); /* time 15, 31 bytes */
    CHECK_OK(plan_simulate(pool, k.graph, &plan, &meter));
    CHECK_INT(meter.live_bytes, 40);
    CHECK_INT(meter.curve[7], 30);
    CHECK_INT(meter.host_bytes, 10);
    CHECK_NEAR(meter.waited, 3, 1e-12);
    CHECK_NEAR(meter.cost, 15, 1e-12);
    CHECK_OK(plan_check(k.graph, &plan, 40));
    plan.cost = 15;
    plan.host_bytes = 10;
    CHECK_OK(plan_check(k.graph, &plan, 40)); /* the checker comes to the same figures */
    plan.cost = 14;
    CHECK_INT(plan_check(k.graph, &plan, 40), E_PLAN);
    plan.cost = 15;
    plan.host_bytes = 9;
    CHECK_INT(plan_check(k.graph, &plan, 40), E_PLAN);
    plan.host_bytes = 10;
    plan.host_budget_bytes = 9;
    CHECK_INT(plan_check(k.graph, &plan, 40), E_PLAN);
    CHECK(strstr(err_text(), "on the host") != NULL);

    PlanBuffers buffers; /* two live ranges of a: two buffers */
    CHECK_OK(plan_buffers(pool, k.graph, &plan, &buffers));
    CHECK_INT(buffers.n_buffers, 5);
    pool_free(pool);
}

/* Copies of one direction run one after the other. */
static void queues_are_in_order(void)
{
    Pool     *pool = pool_new(NULL, "test");
    Make      m = make_begin(pool, 1);
    PlanMeter meter;
    Plan      plan = { 0 };
    int32_t   a = make_act(&m, 1, 10, -1, -1, -1), b = make_act(&m, 1, 30, -1, -1, -1);
    int32_t   c = make_act(&m, 1, 1, a, b, -1);
    m.graph->to_host = m.graph->to_device = 10;
    plan_add(pool, &plan, STEP_RUN, 0);
    plan_add(pool, &plan, STEP_SAVE, a); /* 1 to 2 */
    plan_add(pool, &plan, STEP_RUN, 1);
    plan_add(pool, &plan, STEP_SAVE, b); /* 2 to 5 */
    plan_add(pool, &plan, STEP_WAIT, b); /* waits 3 */
    plan_add(pool, &plan, STEP_DROP, b);
    plan_add(pool, &plan, STEP_LOAD, b); /* 5 to 8, the other queue */
    plan_add(pool, &plan, STEP_WAIT, a); /* arrived long ago */
    plan_add(pool, &plan, STEP_DROP, a);
    plan_add(pool, &plan, STEP_LOAD, a); /* 8 to 9 */
    plan_add(pool, &plan, STEP_WAIT, a); /* waits 4: b has arrived as well */
    plan_add(pool, &plan, STEP_WAIT, b);
    plan_add(pool, &plan, STEP_RUN, 2);
    CHECK_OK(plan_simulate(NULL, m.graph, &plan, &meter));
    CHECK_NEAR(meter.waited, 7, 1e-12);
    CHECK_NEAR(meter.cost, 10, 1e-12);
    CHECK_INT(meter.host_bytes, 40); /* slots are occupied until they are freed */
    plan.cost = meter.cost;
    plan.host_bytes = meter.host_bytes;
    CHECK_OK(plan_check(m.graph, &plan, 0));
    (void)c;
    pool_free(pool);
}

/* With a fast host the planner offloads instead of recomputing; without one it cannot. */
static void planner_uses_the_host(void)
{
    Pool      *pool = pool_new(NULL, "test");
    MakeBlocks blocks;
    Plan      *all, *without, *with;
    PGraph    *g = make_transformer(pool, 12, 1 << 16, &blocks);
    CHECK_OK(plan_keep_all(pool, g, &all));
    int64_t     fixed = pgraph_persistent_bytes(g);
    PlanOptions options = { .budget_bytes = fixed + (all->live_bytes - fixed) * 4 / 10,
                            .effort = 50000 };
    CHECK_OK(plan_solve(pool, g, &options, &without));
    CHECK_INT(without->host_bytes, 0);
    g->to_host = g->to_device = (double)(1 << 16) / 20; /* 16 units a block in 320 of 1390 */
    CHECK_OK(plan_solve(pool, g, &options, &with));
    CHECK_OK(plan_check(g, with, options.budget_bytes));
    CHECK(with->host_bytes > 0);
    CHECK(with->cost < without->cost);
    CHECK(with->cost < with->base_cost * 1.02); /* nearly all of it is hidden */

    char  path[] = "offload_test.json";
    Plan *again;
    CHECK_OK(plan_write(path, g, with));
    CHECK_OK(plan_read(pool, path, g, &again));
    CHECK_INT(again->n_steps, with->n_steps);
    CHECK_INT(again->host_bytes, with->host_bytes);
    CHECK_OK(plan_check(g, again, options.budget_bytes));
    CHECK_OK(pgraph_write(g, path));
    PGraph *read;
    CHECK_OK(pgraph_read(pool, path, &read));
    CHECK_NEAR(read->to_host, g->to_host, 1e-9);
    CHECK_NEAR(read->to_device, g->to_device, 1e-9);
    unlink(path);

    options.host_budget_bytes = 1 << 16; /* room for one value: the rest is
                                                              * recomputed */
    CHECK_OK(plan_solve(pool, g, &options, &with));
    CHECK(with->host_bytes <= options.host_budget_bytes);
    CHECK(with->cost <= without->cost);
    options.host_budget_bytes = 0;

    g->to_host = g->to_device = 1; /* far too slow to help */
    CHECK_OK(plan_solve(pool, g, &options, &with));
    CHECK_NEAR(with->cost, without->cost, 1e-9);
    pool_free(pool);
}

/* The host helps even below what recomputation can reach; also when arenas are compared. */
static void below_the_min_peak(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    Plan   *plan;
    int32_t kept[8], x;
    for (int i = 0; i < 8; i++) { /* these may not be recomputed */
        kept[i] = make_act(&m, 50, 100, i > 0 ? kept[i - 1] : -1, -1, -1);
        m.graph->nodes[m.graph->n_nodes - 1].once = true;
    }
    x = make_act(&m, 50, 100, -1, -1, -1);
    for (int i = 0; i < 8; i++)
        x = make_act(&m, 50, 10, kept[7 - i], x, -1);
    PlanOptions options = { .budget_bytes = 400, .effort = 20000 };
    CHECK_INT(plan_solve(pool, m.graph, &options, &plan), E_BUDGET);
    m.graph->to_host = m.graph->to_device = 10;
    for (int layout = 0; layout < 2; layout++) {
        options.layout = layout;
        CHECK_OK(plan_solve(pool, m.graph, &options, &plan));
        CHECK_OK(plan_check(m.graph, plan, 400));
        CHECK(plan_peak_bytes(plan) <= 400);
        CHECK(plan->host_bytes >= 300);
    }
    options.budget_bytes = 20; /* no node fits */
    CHECK_INT(plan_solve(pool, m.graph, &options, &plan), E_BUDGET);
    pool_free(pool);
}

/* a is idle for only one run: no copy hides behind it, so both are waited for. */
static void what_does_not_hide_is_waited_for(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    int32_t a = make_act(&m, 3, 10, -1, -1, -1), b = make_act(&m, 4, 20, a, -1, -1);
    int32_t c = make_act(&m, 4, 20, b, -1, -1), d = make_act(&m, 1, 1, a, c, -1);
    int32_t runs[] = { 0, 1, 2, 3 };
    Plan   *plan;
    m.graph->values[d].final = true;
    m.graph->to_host = 2;
    m.graph->to_device = 5;
    CHECK_OK(plan_offload(pool, m.graph, runs, 4, 50, 0, NULL, &plan)); /* nothing need be
                                                                          * offloaded */
    CHECK(plan && plan->host_bytes == 0);
    CHECK_OK(plan_offload(pool, m.graph, runs, 4, 40, 0, NULL, &plan));
    if (CHECK(plan != NULL)) {
        CHECK_INT(plan->live_bytes, 40);
        CHECK_INT(plan->host_bytes, 10);
        CHECK_NEAR(plan->cost, 12 + 1 + 2, 1e-12); /* out by time 8, not 7; back 2 */
    }
    CHECK_OK(plan_offload(pool, m.graph, runs, 4, 39, 0, NULL, &plan)); /* b and c are live
                                                                                * together */
    CHECK(plan == NULL);
    pool_free(pool);
}

/* Random graphs, bandwidths and budgets: every plan passes the checker. */
static void random_graphs_pass_the_checker(void)
{
    int moved = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        Pool          *pool = pool_new(NULL, "test");
        PGraph        *g = make_layered(pool, 20 + (int32_t)seed, seed);
        Plan          *all, *plan, *again;
        int32_t       *runs = NEWN(pool, int32_t, g->n_nodes);
        OffloadMinimum minimum = { 0 };
        for (int32_t n = 0; n < g->n_nodes; n++)
            runs[n] = n;
        g->to_host = 1 + (double)(seed * 7 % 23);
        g->to_device = 1 + (double)(seed * 5 % 19);
        CHECK_OK(plan_keep_all(pool, g, &all));
        for (int64_t k = 3; k < 10; k++) {
            int64_t budget = all->live_bytes * k / 10;
            CHECK_OK(plan_offload(pool, g, runs, g->n_nodes, budget, 0, NULL, &plan));
            /* what was learned at lower budgets changes no answer */
            CHECK_OK(plan_offload(pool, g, runs, g->n_nodes, budget, 0, &minimum, &again));
            CHECK_INT(again != NULL, plan != NULL);
            if (plan && again) {
                CHECK_INT(again->n_steps, plan->n_steps);
                CHECK(!memcmp(again->steps, plan->steps, sizeof *plan->steps * plan->n_steps));
            }
            if (!plan || k < 5)
                continue;
            moved++;
            CHECK(plan->live_bytes <= all->live_bytes * k / 10);
            CHECK(plan->cost >= all->cost * (1 - 1e-12));
            CHECK_OK(plan_check(g, plan, all->live_bytes * k / 10));
        }
        pool_free(pool);
    }
    printf("moved %d of 300\n", moved);
    CHECK(moved > 200);
}

/* Each node takes over an input that nothing reads later, if that is large enough. */
static void take_over(Pool *pool, PGraph *g)
{
    int32_t *last = NEWN(pool, int32_t, g->n_values + 1);
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int32_t i = 0; i < g->nodes[n].n_in; i++)
            last[g->nodes[n].in[i]] = n;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        PNode *node = &g->nodes[n];
        for (int32_t i = 0; i < node->n_in && !node->n_inplace; i++) {
            const PValue *in = &g->values[node->in[i]];
            if (in->persistent || in->final || last[node->in[i]] != n ||
                g->values[node->out[0]].bytes > in->bytes)
                continue;
            node->inplace = pool_alloc(pool, 1, sizeof *node->inplace);
            node->inplace[0][0] = node->out[0];
            node->inplace[0][1] = node->in[i];
            node->n_inplace = 1;
        }
    }
}

/* Values that take over bytes, or are taken over, can be offloaded too, unless they hold more than
 * their own bytes. */
static void values_in_place_are_moved(void)
{
    int moved = 0, taken = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        Pool    *pool = pool_new(NULL, "test");
        PGraph  *g = make_layered(pool, 30 + (int32_t)seed, seed);
        Plan    *all, *plan;
        int32_t *runs = NEWN(pool, int32_t, g->n_nodes);
        bool    *in_place = NEWN(pool, bool, g->n_values);
        for (int32_t v = 0; v < g->n_values; v++)
            g->values[v].bytes = 64 << (v * 7 % 3 == 0);
        take_over(pool, g);
        CHECK_OK(pgraph_check(g));
        for (int32_t n = 0; n < g->n_nodes; n++) {
            runs[n] = n;
            if (g->nodes[n].n_inplace)
                in_place[g->nodes[n].inplace[0][0]] = in_place[g->nodes[n].inplace[0][1]] = true;
        }
        g->to_host = 1 + (double)(seed * 7 % 23);
        g->to_device = 1 + (double)(seed * 5 % 19);
        CHECK_OK(plan_keep_all(pool, g, &all));
        for (int64_t k = 5; k < 10; k++) {
            int64_t     budget = all->live_bytes * k / 10, arena;
            PlanBuffers buffers;
            CHECK_OK(plan_offload(pool, g, runs, g->n_nodes, budget, 0, NULL, &plan));
            if (!plan)
                continue;
            moved++;
            CHECK(plan->live_bytes <= budget);
            CHECK_OK(plan_buffers_place(pool, g, plan, budget, &buffers, &arena));
            CHECK(arena >= plan->live_bytes);
            for (int32_t s = 0; s < plan->n_steps; s++)
                taken += plan->steps[s].kind == STEP_SAVE && in_place[plan->steps[s].id];
        }
        pool_free(pool);
    }
    printf("with places taken over: moved %d of 200, %d copies of such\n", moved, taken);
    CHECK(moved > 100 && taken > 100);
}

/* The minimum that a refusal names includes copies: it works, and nothing below it does. */
static void the_minimum_counts_copies(void)
{
    int lower = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        Pool       *pool = pool_new(NULL, "test");
        PGraph     *g = make_layered(pool, 24 + (int32_t)seed, seed);
        Plan       *without, *minimum, *plan;
        PlanOptions options = { .budget_bytes = 1, .effort = 20000, .layout = seed % 2 };
        CHECK_INT(plan_solve(pool, g, &options, &without), E_BUDGET);
        g->to_host = 1 + (double)(seed * 7 % 23);
        g->to_device = 1 + (double)(seed * 5 % 19);
        CHECK_INT(plan_solve(pool, g, &options, &minimum), E_BUDGET);
        CHECK(plan_peak_bytes(minimum) <= plan_peak_bytes(without));
        CHECK(plan_peak_bytes(minimum) >= plan_bound_bytes(g));
        lower += plan_peak_bytes(minimum) < plan_peak_bytes(without);
        options.budget_bytes = plan_peak_bytes(minimum);
        CHECK_OK(plan_solve(pool, g, &options, &plan));
        CHECK(plan_peak_bytes(plan) <= options.budget_bytes && plan->cost <= minimum->cost);
        for (int64_t less = 1; less < 2000; less *= 7) {
            options.budget_bytes = plan_peak_bytes(minimum) - less;
            CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
            CHECK_INT(plan_peak_bytes(plan), plan_peak_bytes(minimum));
        }
        pool_free(pool);
    }
    printf("copies lower the least of %d graphs of 12\n", lower);
    CHECK(lower >= 6);
}

/* One search for several budgets gives what a fresh search for each would, or better. */
static void one_search_many_budgets(void)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        Pool       *pool = pool_new(NULL, "test");
        PGraph     *g = make_layered(pool, 40, seed);
        Plan       *all, *fresh, *plan;
        PlanOptions options = { .effort = 30000 };
        if (seed % 2)
            g->to_host = g->to_device = 5;
        CHECK_OK(plan_keep_all(pool, g, &all));
        PlanSearch *search = plan_search_new(pool, g, &options);
        for (int64_t k = 9; k > 4; k--) {
            options.budget_bytes = all->live_bytes * k / 10;
            Err err = plan_solve(pool, g, &options, &fresh);
            CHECK_INT(plan_search_within(pool, search, options.budget_bytes, &plan), err);
            CHECK_OK(plan_check(g, plan, err ? 0 : options.budget_bytes));
            CHECK(err ? plan->live_bytes == fresh->live_bytes
                      : plan->cost <= fresh->cost * (1 + 1e-12));
        }
        pool_free(pool);
    }
}

/* A forward chain whose values are read back in reverse order, with each copy hidden under runs; on
 * a machine a quarter faster than predicted nothing waits either. */
static void forecasts_may_err(void)
{
    enum { LONG = 40, BYTES = 100 };
    Pool     *pool = pool_new(NULL, "test");
    Make      m = make_begin(pool, 1);
    int32_t   act[LONG], x = -1;
    Plan     *plan;
    PlanMeter meter;
    for (int i = 0; i < LONG; i++)
        x = act[i] = make_act(&m, 10, BYTES, x, -1, -1);
    for (int i = LONG - 1; i >= 0; i--)
        x = make_act(&m, 10, BYTES, x, act[i], -1);
    m.graph->values[x].final = true;
    m.graph->to_host = m.graph->to_device = BYTES / 9.0;
    int32_t runs[2 * LONG];
    for (int i = 0; i < 2 * LONG; i++)
        runs[i] = i;
    CHECK_OK(plan_offload(pool, m.graph, runs, 2 * LONG, 24 * BYTES, 0, NULL, &plan));
    CHECK(plan != NULL && plan->host_bytes > 0);
    CHECK_NEAR(plan->cost, 20.0 * LONG, 1e-9);
    for (int i = 0; i < 2 * LONG; i++)
        m.graph->nodes[i].cost *= 0.8;
    CHECK_OK(plan_simulate(pool, m.graph, plan, &meter));
    CHECK_NEAR(meter.waited, 0, 1e-9);
    pool_free(pool);
}

/* A limit on the host limits copies: host-resident state has its slots besides. */
static void host_resident_state_leaves_the_slots_their_room(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    Plan   *plan;
    int32_t kept[8], back = -1, state = make_value(&m, 150, false);
    m.graph->values[state].host_resident = true;
    m.graph->to_host = m.graph->to_device = 1e6;
    for (int i = 0; i < 8; i++) { /* these may not be recomputed */
        kept[i] = make_act(&m, 1, 100, i ? kept[i - 1] : -1, -1, -1);
        m.graph->nodes[m.graph->n_nodes - 1].once = true;
    }
    for (int i = 7; i >= 0; i--)
        back = make_act(&m, 1, 100, kept[i], back, -1);
    m.graph->values[back].final = true;
    make_node(&m, 1, 0, state, back, -1, state, -1);
    PlanOptions options = { .budget_bytes = 1, .host_budget_bytes = 600, .effort = 2000 };
    CHECK_INT(plan_solve(pool, m.graph, &options, &plan), E_BUDGET);
    options.budget_bytes = plan->live_bytes;
    CHECK_OK(plan_solve(pool, m.graph, &options, &plan));
    CHECK_OK(plan_check(m.graph, plan, options.budget_bytes));
    CHECK(plan->host_bytes > 600 && plan->host_bytes <= 750); /* the state's and copies */
    pool_free(pool);
}

/* A curve uses copies as a single budget does, with host-resident values, too; costs fall. */
static void curves_use_the_host(void)
{
    enum { POINTS = 5 };
    for (int host_resident = 0; host_resident < 2; host_resident++) {
        Pool       *pool = pool_new(NULL, "test");
        Make        m = make_begin(pool, 1);
        int32_t     kept[20], back = -1, state = host_resident ? make_value(&m, 50, false) : -1;
        int64_t     budgets[POINTS] = { 10, 460, 700, 1200, 5000 };
        Plan       *curve[POINTS], *alone;
        PlanOptions options = { .effort = 2000 };
        m.graph->to_host = m.graph->to_device = 400;
        for (int i = 0; i < 20; i++)
            kept[i] = make_act(&m, 1, 100, i ? kept[i - 1] : -1, -1, -1);
        for (int i = 19; i >= 0; i--)
            back = make_act(&m, 1, 100, kept[i], back, -1);
        m.graph->values[back].final = true;
        if (host_resident) {
            m.graph->values[state].host_resident = true;
            make_node(&m, 1, 0, state, back, -1, state, -1);
        }
        CHECK_OK(plan_curve(pool, m.graph, &options, budgets, POINTS, curve));
        CHECK(curve[0] == NULL);
        for (int i = 1; i < POINTS; i++) {
            if (!CHECK(curve[i] != NULL))
                continue;
            options.budget_bytes = budgets[i];
            CHECK_OK(plan_check(m.graph, curve[i], budgets[i]));
            CHECK_OK(plan_solve(pool, m.graph, &options, &alone));
            CHECK(curve[i]->cost <= alone->cost);
            CHECK(i == 1 || curve[i]->cost <= curve[i - 1]->cost);
        }
        CHECK(curve[1]->host_bytes > 0);
        pool_free(pool);
    }
}

int main(void)
{
    RUN(waits_add_up_by_hand);
    RUN(forecasts_may_err);
    RUN(queues_are_in_order);
    RUN(what_does_not_hide_is_waited_for);
    RUN(random_graphs_pass_the_checker);
    RUN(below_the_min_peak);
    RUN(planner_uses_the_host);
    RUN(values_in_place_are_moved);
    RUN(the_minimum_counts_copies);
    RUN(one_search_many_budgets);
    RUN(host_resident_state_leaves_the_slots_their_room);
    RUN(curves_use_the_host);
    return test_end();
}
