/* plan_simulate.c -- the meter, on plans small enough to add up by hand. */
#include "test.h"

#include "plan/make.h"

static void adds_up_by_hand(void)
{
    Pool     *pool = pool_new(NULL, "test");
    Make      m = make_begin(pool, 1);
    PlanMeter meter;
    Plan      plan = { 0 };
    int32_t   w = make_value(&m, 100, true), a = make_value(&m, 10, false),
            b = make_value(&m, 20, false);
    int32_t na = make_node(&m, 3, 7, w, -1, a, -1), nb = make_node(&m, 4, 0, a, -1, b, -1);
    plan_add(pool, &plan, STEP_RUN, na); /* 100 + 10 + 7 */
    plan_add(pool, &plan, STEP_RUN, nb); /* 100 + 10 + 20 */
    plan_add(pool, &plan, STEP_DROP, a); /* 120 */
    plan_add(pool, &plan, STEP_RUN, na); /* 137 with workspace */
    plan_add(pool, &plan, STEP_RUN, nb); /* b is live: rewritten, 130 */
    CHECK_OK(plan_simulate(pool, m.graph, &plan, &meter));
    CHECK_INT(meter.live_bytes, 137);
    CHECK_INT(meter.peak_step, 3);
    CHECK_INT(meter.curve[0], 117);
    CHECK_INT(meter.curve[1], 130);
    CHECK_INT(meter.curve[2], 120);
    CHECK_INT(meter.curve[3], 137);
    CHECK_INT(meter.curve[4], 130);
    CHECK_NEAR(meter.cost, 14, 0);
    CHECK_INT(meter.n_runs, 4);
    CHECK_INT(meter.n_recomputes, 2);
    CHECK_OK(plan_check(m.graph, &plan, 137));
    CHECK_INT(plan_check(m.graph, &plan, 136), E_PLAN);

    Plan bad = { 0 };
    plan_add(pool, &bad, STEP_RUN, nb);
    CHECK_INT(plan_simulate(NULL, m.graph, &bad, &meter), E_PLAN);
    Plan worse = { 0 };
    plan_add(pool, &worse, STEP_DROP, 99);
    CHECK_INT(plan_simulate(NULL, m.graph, &worse, &meter), E_PLAN);
    pool_free(pool);
}

static void takeover_and_views(void)
{
    Pool     *pool = pool_new(NULL, "test");
    Make      m = make_begin(pool, 1);
    Plan     *plan;
    PlanMeter meter;
    int32_t   a = make_value(&m, 16, false), v = make_value(&m, 0, false),
            o = make_value(&m, 12, false);
    m.graph->values[v].view_of = a;
    make_node(&m, 1, 0, -1, a, -1);
    make_node(&m, 0, 0, a, -1, v, -1);
    int32_t node = make_node(&m, 1, 5, v, -1, o, -1);
    int32_t pair[1][2] = { { o, v } };
    m.graph->nodes[node].inplace = pair;
    m.graph->nodes[node].n_inplace = 1;
    m.graph->values[o].final = true;
    CHECK_OK(pgraph_check(m.graph));
    CHECK_OK(plan_keep_all(pool, m.graph, &plan));
    CHECK_OK(plan_check(m.graph, plan, 0));
    CHECK_INT(plan->live_bytes, 21); /* the 16 bytes pass on whole, and 5 of workspace */
    CHECK_INT(plan->n_steps, 3);     /* nothing to drop: a and v ended when they were taken
                                               * over */
    CHECK_OK(plan_simulate(NULL, m.graph, plan, &meter));
    CHECK_INT(plan_bound_bytes(m.graph), 21);
    pool_free(pool);
}

static void drops_come_at_once(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    Plan   *plan;
    int32_t a = make_act(&m, 1, 10, -1, -1, -1), b = make_act(&m, 1, 10, a, -1, -1);
    int32_t c = make_act(&m, 1, 10, b, -1, -1);
    int32_t runs[] = { 0, 1, 0, 2 }; /* the second production of a is not read */
    m.graph->values[c].final = true;
    CHECK_OK(plan_from_runs(pool, m.graph, runs, 4, &plan));
    CHECK_OK(plan_check(m.graph, plan, 0));
    CHECK_INT(plan->live_bytes, 20);
    CHECK_INT(plan->n_steps, 7); /* four runs; a is dropped twice, b once, c remains */
    CHECK_NEAR(plan->cost, 4, 0);
    CHECK_NEAR(plan->base_cost, 3, 0);
    pool_free(pool);
}

int main(void)
{
    RUN(adds_up_by_hand);
    RUN(takeover_and_views);
    RUN(drops_come_at_once);
    return test_end();
}
