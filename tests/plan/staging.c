/* staging.c -- host-resident values: added up by hand, staged into plans, within the window and the
 * budget. */
#include "test.h"

#include "plan/make.h"
#include "plan/plan_buffers.h"
#include "plan/staging.h"

#include <unistd.h>

/* n parameters of 10 bytes with a gradient each, produced one after the other, then an update each
 * that reads and writes the parameter and a host-resident state of 40 bytes. Gradients take 5,
 * updates 1; bandwidth 4 bytes per unit of time. */
static PGraph *steps_of(Pool *pool, int n)
{
    Make    m = make_begin(pool, 1);
    int32_t params[16], grads[16], states[16];
    for (int i = 0; i < n; i++) {
        params[i] = make_value(&m, 10, true);
        states[i] = make_value(&m, 40, false);
        m.graph->values[states[i]].host_resident = true;
    }
    for (int i = 0; i < n; i++) {
        grads[i] = make_value(&m, 10, false);
        make_node(&m, 5, 0, params[i], -1, grads[i], -1);
    }
    for (int i = 0; i < n; i++)
        m.graph
            ->nodes[make_node(&m, 1, 0, params[i], grads[i], states[i], -1, params[i], states[i],
                              -1)]
            .once = true;
    m.graph->to_host = m.graph->to_device = 4;
    return m.graph;
}

static void added_up_by_hand(void)
{
    Pool     *pool = pool_new(NULL, "test");
    PGraph   *graph = steps_of(pool, 1);
    Plan      plan = { 0 };
    PlanMeter meter;
    CHECK_OK(pgraph_check(graph));
    plan_add(pool, &plan, STEP_LOAD, 1); /* 10 + 40 bytes, there at 10 */
    plan_add(pool, &plan, STEP_RUN, 0);  /* time 5, 60 bytes */
    plan_add(pool, &plan, STEP_WAIT, 1); /* time 10 */
    plan_add(pool, &plan, STEP_RUN, 1);  /* time 11 */
    plan_add(pool, &plan, STEP_SAVE, 1); /* there at 21 */
    plan_add(pool, &plan, STEP_DROP, 2);
    CHECK_INT(plan_check(graph, &plan, 0), E_PLAN); /* never waited for */
    plan_add(pool, &plan, STEP_WAIT, 1);
    plan_add(pool, &plan, STEP_DROP, 1);
    CHECK_OK(plan_simulate(pool, graph, &plan, &meter));
    CHECK_INT(meter.live_bytes, 60);
    CHECK_INT(meter.host_bytes, 40);
    CHECK_NEAR(meter.cost, 21, 1e-12);
    plan.cost = 21;
    plan.live_bytes = 60;
    plan.host_bytes = 40;
    CHECK_OK(plan_check(graph, &plan, 60));
    CHECK_INT(plan_check(graph, &plan, 59), E_PLAN);

    PlanBuffers slots; /* a host-resident value takes no further slot */
    CHECK_OK(plan_slots(pool, graph, &plan, &slots));
    CHECK_INT(slots.n_buffers, 0);

    plan_add(pool, &plan, STEP_FREE_HOST, 1);
    CHECK_INT(plan_check(graph, &plan, 0), E_PLAN);
    CHECK(strstr(err_text(), "host-resident") != NULL);
    plan.n_steps--;
    plan.cost = 0;
    /* written and dropped, but not saved: an old state on the host */
    plan.steps[4] = plan.steps[5];
    plan.n_steps = 5;
    plan_add(pool, &plan, STEP_DROP, 1);
    CHECK_INT(plan_check(graph, &plan, 0), E_PLAN);
    CHECK(strstr(err_text(), "version 0 of 1 on the host") != NULL);
    plan.n_steps = 0; /* read before it is there */
    plan_add(pool, &plan, STEP_RUN, 0);
    plan_add(pool, &plan, STEP_LOAD, 1);
    plan_add(pool, &plan, STEP_RUN, 1);
    CHECK_INT(plan_check(graph, &plan, 0), E_PLAN);
    CHECK(strstr(err_text(), "still being loaded") != NULL);
    pool_free(pool);
}

/* Eight updates in a row: load, run and save overlap, with at most three states on the device. */
static void a_pipeline(void)
{
    Pool     *pool = pool_new(NULL, "test");
    PGraph   *graph = steps_of(pool, 8);
    Plan     *plan;
    PlanMeter meter;
    int64_t   held = 0, peak = 0;
    int       loads = 0, saves = 0;
    CHECK_OK(plan_keep_all(pool, graph, &plan));
    CHECK_OK(plan_check(graph, plan, 0));
    CHECK_OK(plan_simulate(pool, graph, plan, &meter));
    for (int32_t s = 0; s < plan->n_steps; s++) {
        bool host_resident = plan->steps[s].kind != STEP_RUN &&
                             graph->values[plan->steps[s].id].host_resident;
        loads += plan->steps[s].kind == STEP_LOAD;
        saves += plan->steps[s].kind == STEP_SAVE;
        held += host_resident && plan->steps[s].kind == STEP_LOAD   ? 40
                : host_resident && plan->steps[s].kind == STEP_DROP ? -40
                                                                    : 0;
        peak = held > peak ? held : peak;
    }
    CHECK_INT(loads, 8);
    CHECK_INT(saves, 8);
    CHECK_INT(held, 0);
    CHECK(peak <= 120 && peak >= 80);
    CHECK_INT(plan->host_bytes, 320);
    /* Gradients take 40; 8 copies of 10 each way. One after the other it would be 40 + 8 * 21 =
     * 208. */
    CHECK(meter.cost < 140);
    CHECK(meter.cost >= 48);
    printf("  eight updates: %.0f of at least %.0f, %lld bytes at most\n", meter.cost, 48.0,
           (long long)peak);
    pool_free(pool);
}

/* A host-resident value of no bytes (an empty tensor) comes and goes like any other. */
static void no_bytes(void)
{
    for (int mixed = 0; mixed < 2; mixed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *graph = steps_of(pool, 3);
        Plan   *plan;
        for (int i = 0; i < 3 - mixed; i++)
            graph->values[1 + 2 * i].bytes = 0;
        CHECK_OK(plan_keep_all(pool, graph, &plan));
        CHECK_OK(plan_check(graph, plan, 0));
        CHECK_INT(plan->host_bytes, mixed ? 40 : 0);
        pool_free(pool);
    }
}

/* Random backward passes with updates anywhere: every staged plan passes the checker and keeps
 * within its window. */
static void random_graphs(void)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        Make    m = make_begin(pool, seed);
        int32_t last = make_act(&m, 1, 10, -1, -1, -1), state = -1;
        for (int i = 0; i < 30; i++) {
            int32_t made = make_act(&m, 1 + make_random(&m, 20), 1 + make_random(&m, 50), last, -1,
                                    -1);
            if (make_random(&m, 3) == 0) {
                int32_t param = make_value(&m, 8, true);
                if (state < 0 || make_random(&m, 4)) { /* otherwise two updates share one state */
                    state = make_value(&m, 1 + make_random(&m, 100), false);
                    m.graph->values[state].host_resident = true;
                }
                int32_t node = make_random(&m, 5)
                                   ? make_node(&m, 1 + make_random(&m, 4), make_random(&m, 9), made,
                                               param, state, -1, param, state, -1)
                                   : make_node(&m, 1, 0, made, param, state, -1, param,
                                               -1); /* reads it only */
                m.graph->nodes[node].once = true;
            }
            last = made;
        }
        m.graph->values[last].final = true;
        m.graph->to_host = 1 + make_random(&m, 20);
        m.graph->to_device = 1 + make_random(&m, 20);
        Plan       *keep, *plan;
        PlanOptions how = { .effort = 300 };
        CHECK_OK(pgraph_check(m.graph));
        CHECK_OK(plan_keep_all(pool, m.graph, &keep));
        CHECK_OK(plan_check(m.graph, keep, keep->live_bytes));
        how.budget_bytes = 1;
        CHECK_INT(plan_solve(pool, m.graph, &how, &plan), E_BUDGET);
        int64_t minimum = plan->live_bytes;
        CHECK(minimum <= keep->live_bytes);
        how.budget_bytes = minimum; /* the minimum that was named is
                                                                    * found again */
        CHECK_OK(plan_solve(pool, m.graph, &how, &plan));
        CHECK(plan->live_bytes <= minimum);
        CHECK_OK(plan_check(m.graph, plan, minimum));
        pool_free(pool);
    }
}

static void through_a_file(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *graph = steps_of(pool, 3), *back;
    Plan   *plan, *read;
    CHECK_OK(pgraph_write(graph, "stage.graph.json"));
    CHECK_OK(pgraph_read(pool, "stage.graph.json", &back));
    CHECK(pgraph_has_staged(back));
    CHECK_OK(plan_keep_all(pool, back, &plan));
    CHECK_OK(plan_write("stage.plan.json", back, plan));
    CHECK_OK(plan_read(pool, "stage.plan.json", back, &read));
    CHECK_OK(plan_check(back, read, 0));
    CHECK_INT(read->n_steps, plan->n_steps);
    graph->values[1].persistent = true; /* persistent and host-resident
                                                                  * exclude each other */
    CHECK_INT(pgraph_check(graph), E_FORMAT);
    unlink("stage.graph.json");
    unlink("stage.plan.json");
    pool_free(pool);
}

int main(void)
{
    RUN(added_up_by_hand);
    RUN(a_pipeline);
    RUN(no_bytes);
    RUN(random_graphs);
    RUN(through_a_file);
    return test_end();
}
