/* plan_buffers.c -- the buffers of a plan: one for each live range, one for joined values, and a
 * largest live sum that equals the simulator's. */
#include "test.h"

#include "plan/make.h"
#include "plan/plan_buffers.h"

static int64_t live_at_most(const PlanBuffers *b, int32_t n_steps)
{
    int64_t peak = 0;
    for (int32_t t = 0; t < n_steps; t++) {
        int64_t sum = 0;
        for (int32_t i = 0; i < b->n_buffers; i++)
            sum += b->buffers[i].lower <= t && t < b->buffers[i].upper ? b->buffers[i].size : 0;
        peak = sum > peak ? sum : peak;
    }
    return peak;
}

static void sums_agree(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Pool       *pool = pool_new(NULL, "test");
        PGraph     *g = make_layered(pool, 40, seed);
        int32_t     runs[120], n = 0;
        Plan       *plan;
        PlanBuffers b;
        for (int32_t i = 0; i < 40; i++) { /* some nodes are recomputed while their inputs are
                                               * live */
            runs[n++] = i;
            if (i % 5 == 4)
                runs[n++] = i;
            g->nodes[i].workspace = i % 7 == 0 ? 33 : 0;
        }
        CHECK_OK(plan_from_runs(pool, g, runs, n, &plan));
        CHECK_OK(plan_check(g, plan, 0));
        CHECK_OK(plan_buffers(pool, g, plan, &b));
        CHECK_INT(live_at_most(&b, plan->n_steps), plan->live_bytes);
        CHECK_OK(plan_place(g, plan, 0));
        CHECK(plan->arena_bytes >= plan->live_bytes);
        for (int32_t i = 0; i < b.n_ranges; i++) {
            CHECK(b.ranges[i].first_step <= b.ranges[i].last_step);
            CHECK(i == 0 || b.ranges[i - 1].first_step <= b.ranges[i].first_step);
        }
        pool_free(pool);
    }
}

static void joined_values_share(void)
{
    Pool       *pool = pool_new(NULL, "test");
    Make        m = make_begin(pool, 1);
    PlanBuffers b;
    Plan        plan = { 0 };
    int32_t     w = make_value(&m, 64, true), a = make_value(&m, 16, false),
            c = make_value(&m, 16, false);
    int32_t view = make_value(&m, 0, false), zero = make_value(&m, 0, false);
    int32_t within = make_value(&m, 8, false);
    int32_t p1[1][2] = { { c, a } }, p2[1][2] = { { within, w } };
    m.graph->values[view].view_of = c;
    m.graph->align = 64;
    int32_t na = make_node(&m, 1, 0, w, -1, a, -1), nc = make_node(&m, 1, 0, a, -1, c, -1);
    int32_t nv = make_node(&m, 1, 0, c, -1, view, -1), nz = make_node(&m, 1, 9, view, -1, zero, -1);
    int32_t nw = make_node(&m, 1, 0, w, zero, -1, within, -1);
    m.graph->nodes[nc].inplace = p1;
    m.graph->nodes[nw].inplace = p2;
    m.graph->nodes[nc].n_inplace = m.graph->nodes[nw].n_inplace = 1;
    CHECK_OK(pgraph_check(m.graph));
    const int32_t steps[][2] = {
        { STEP_RUN, na }, { STEP_RUN, nc }, { STEP_RUN, nv }, { STEP_RUN, nz }, { STEP_DROP, view },
        { STEP_DROP, c }, { STEP_RUN, na }, { STEP_DROP, a }, { STEP_RUN, nw },
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        plan_add(pool, &plan, (StepKind)steps[i][0], steps[i][1]);
    CHECK_OK(plan_check(m.graph, &plan, 0));
    CHECK_OK(plan_buffers(pool, m.graph, &plan, &b));
    CHECK_INT(b.n_buffers, 3); /* a with c, workspace, a again */
    CHECK_INT(b.n_ranges, 6);  /* a, c, zero, workspace, a, within */
    CHECK_INT(b.ranges[0].value, a);
    CHECK_INT(b.ranges[1].value, c);
    CHECK_INT(b.ranges[0].buffer, b.ranges[1].buffer);
    CHECK_INT(b.buffers[0].lower, 0);
    CHECK_INT(b.buffers[0].upper, 5); /* live until the step before its drop */
    CHECK_INT(b.buffers[0].size, 16);
    CHECK_INT(b.buffers[0].align, 64);
    CHECK_INT(b.ranges[3].value, -1);
    CHECK_INT(b.ranges[3].node, nz);
    CHECK_INT(b.buffers[b.ranges[3].buffer].size, 9);
    CHECK_INT(b.buffers[2].lower, 6);
    CHECK_INT(b.buffers[2].upper, 7);
    CHECK_INT(b.ranges[5].value, within);
    CHECK_INT(b.ranges[5].buffer, -1);
    CHECK_INT(b.ranges[5].within, w);
    pool_free(pool);
}

int main(void)
{
    RUN(sums_agree);
    RUN(joined_values_share);
    return test_end();
}
