/* gathering.c -- gathered values: added up by hand, loaded around the runs that use them, within the
 * window, and recomputed nodes load again. */
#include "test.h"

#include "plan/gathering.h"
#include "plan/make.h"
#include "plan/staging.h"

#include <unistd.h>

enum { BYTES = 100, WIRE = 6, STALL = 1 };

static int32_t gathered_value(Make *m)
{
    int32_t v = make_value(m, BYTES, false);
    m->graph->values[v].gathered = true;
    m->graph->values[v].wire = WIRE;
    m->graph->values[v].stall = STALL;
    return v;
}

/* n layers forward and backward, each of which reads weights of its own. Runs take 5. */
static PGraph *layers(Pool *pool, int n)
{
    Make    m = make_begin(pool, 1);
    int32_t weights[16], x[17], grad;
    for (int i = 0; i < n; i++)
        weights[i] = gathered_value(&m);
    x[0] = make_value(&m, 10, true);
    for (int i = 0; i < n; i++) {
        x[i + 1] = make_value(&m, 50, false);
        make_node(&m, 5, 0, x[i], weights[i], -1, x[i + 1], -1);
    }
    grad = x[n];
    for (int i = n; i-- > 0;) {
        int32_t next = make_value(&m, 50, false);
        make_node(&m, 5, 0, grad, x[i], weights[i], -1, next, -1);
        grad = next;
    }
    m.graph->values[grad].final = true;
    return m.graph;
}

static void added_up_by_hand(void)
{
    Pool     *pool = pool_new(NULL, "test");
    PGraph   *graph = layers(pool, 1);
    Plan      plan = { 0 };
    PlanMeter meter;
    CHECK_OK(pgraph_check(graph));
    plan_add(pool, &plan, STEP_LOAD, 0); /* 10 + 100 bytes, there at 6 */
    plan_add(pool, &plan, STEP_WAIT, 0); /* time 7 */
    plan_add(pool, &plan, STEP_RUN, 0);  /* time 12, 160 bytes */
    plan_add(pool, &plan, STEP_DROP, 0);
    plan_add(pool, &plan, STEP_LOAD, 0); /* there at 18 */
    plan_add(pool, &plan, STEP_WAIT, 0); /* time 19 */
    plan_add(pool, &plan, STEP_RUN, 1);  /* time 24, 210 bytes */
    plan_add(pool, &plan, STEP_DROP, 0);
    CHECK_OK(plan_simulate(pool, graph, &plan, &meter));
    CHECK_INT(meter.live_bytes, 210);
    CHECK_INT(meter.host_bytes, 0); /* it has no slot */
    CHECK_NEAR(meter.cost, 24, 1e-12);
    CHECK_NEAR(meter.wire, 12, 1e-12);
    CHECK_NEAR(meter.waited_wire, 12, 1e-12);
    plan.cost = 24;
    plan.live_bytes = 210;
    CHECK_OK(plan_check(graph, &plan, 210));
    plan.cost = 23;
    CHECK_INT(plan_check(graph, &plan, 0), E_PLAN);
    plan.cost = 0;
    plan.steps[1] = plan.steps[2]; /* read before it is there */
    CHECK_INT(plan_check(graph, &plan, 0), E_PLAN);
    CHECK(strstr(err_text(), "still being loaded") != NULL);
    plan.n_steps = 1;
    plan_add(pool, &plan, STEP_WAIT, 0);
    plan_add(pool, &plan, STEP_SAVE, 0);
    CHECK_INT(plan_check(graph, &plan, 0), E_PLAN);
    CHECK(strstr(err_text(), "which is gathered") != NULL);
    pool_free(pool);
}

static int loads_in(const Plan *plan)
{
    int n = 0;
    for (int32_t i = 0; i < plan->n_steps; i++)
        n += plan->steps[i].kind == STEP_LOAD;
    return n;
}

/* The transfers of weights are hidden by the runs before, but for the first; the window holds two
 * weights, so each is loaded twice except those around the turn. */
static void loaded_ahead(void)
{
    Pool     *pool = pool_new(NULL, "test");
    PGraph   *graph = layers(pool, 8);
    Plan     *plan;
    PlanMeter meter;
    for (int32_t v = 0; v < 8; v++) {
        graph->values[v].wire = 4;
        graph->values[v].stall = 0;
    }
    CHECK_OK(plan_keep_all(pool, graph, &plan));
    CHECK_OK(plan_check(graph, plan, 0));
    CHECK_OK(plan_simulate(pool, graph, plan, &meter));
    CHECK_INT(gather_window(graph), 2 * BYTES);
    CHECK_INT(loads_in(plan), 14);
    CHECK_NEAR(meter.waited_wire, 4, 1e-12);
    CHECK(meter.live_bytes <= 10 + 8 * 50 + 100 + 2 * BYTES);
    pool_free(pool);
}

/* Within a budget the planner recomputes, and what is recomputed loads its weights again. */
static void within_a_budget(void)
{
    Pool       *pool = pool_new(NULL, "test");
    PGraph     *graph = layers(pool, 12);
    Plan       *all, *plan;
    PlanOptions options = { .effort = 2000 };
    CHECK_OK(plan_keep_all(pool, graph, &all));
    options.budget_bytes = all->live_bytes - 150;
    CHECK_OK(plan_solve(pool, graph, &options, &plan));
    CHECK(plan->live_bytes <= options.budget_bytes);
    CHECK_OK(plan_check(graph, plan, options.budget_bytes));
    int32_t runs = 0;
    for (int32_t i = 0; i < plan->n_steps; i++)
        runs += plan->steps[i].kind == STEP_RUN;
    CHECK(runs > graph->n_nodes);
    options.budget_bytes = 1; /* the minimum that is named works */
    CHECK_INT(plan_solve(pool, graph, &options, &plan), E_BUDGET);
    options.budget_bytes = plan->live_bytes;
    CHECK_OK(plan_solve(pool, graph, &options, &plan));
    pool_free(pool);
}

/* Random graphs whose nodes read several gathered values: every plan passes the checker. */
static void many_graphs(void)
{
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        Pool   *pool = pool_new(NULL, "test");
        Make    m = make_begin(pool, 1);
        int32_t weights[6], last = make_value(&m, 10, true);
        Plan   *plan;
        for (int i = 0; i < 6; i++)
            weights[i] = gathered_value(&m);
        for (int i = 0; i < 30; i++) {
            int32_t out = make_value(&m, 8, false);
            int32_t read[3];
            for (int k = 0; k < 3; k++) {
                seed = seed * 1664525u + 1013904223u;
                read[k] = weights[(seed >> 16) % 6];
            }
            if (round % 3 == 0 || read[0] == read[1] || read[1] == read[2] || read[0] == read[2])
                make_node(&m, i % 4, 0, last, read[0], -1, out, -1);
            else
                make_node(&m, i % 4, 0, last, read[0], read[1], read[2], -1, out, -1);
            last = out;
        }
        m.graph->values[last].final = true;
        CHECK_OK(pgraph_check(m.graph));
        CHECK_OK(plan_keep_all(pool, m.graph, &plan));
        CHECK_OK(plan_check(m.graph, plan, 0));
        pool_free(pool);
    }
}

static void in_files(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *graph = layers(pool, 3), *again;
    char    path[64];
    snprintf(path, sizeof path, "/tmp/plimsoll-gathering-%d.json", (int)getpid());
    CHECK_OK(pgraph_write(graph, path));
    CHECK_OK(pgraph_read(pool, path, &again));
    unlink(path);
    CHECK(again->values[0].gathered && !again->values[3].gathered);
    CHECK_NEAR(again->values[1].wire, WIRE, 1e-12);
    CHECK_NEAR(again->values[1].stall, STALL, 1e-12);
    graph->values[0].final = true;
    CHECK_INT(pgraph_check(graph), E_FORMAT);
    CHECK(strstr(err_text(), "gathered") != NULL);
    graph->values[0].final = false;
    graph->values[3].wire = 1; /* it is not gathered */
    CHECK_INT(pgraph_check(graph), E_FORMAT);
    pool_free(pool);
}

int main(void)
{
    RUN(added_up_by_hand);
    RUN(loaded_ahead);
    RUN(within_a_budget);
    RUN(many_graphs);
    RUN(in_files);
    return test_end();
}
