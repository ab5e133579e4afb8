/* plan_check.c -- plants every kind of fault in a good plan: the checker must find each and name
 * it. */
#include "test.h"

#include "plan/make.h"

typedef struct Case {
    Pool   *pool;
    Make    m;
    int32_t w, a, b, view, sum, out; /* values */
    int32_t na, nb, nview, nsum, update, nout;
} Case;

/* w persistent; a = f(w); b = g(a); view of a; sum = view + b; w is updated; out = h(sum, w). */
static Case case_new(void)
{
    Case c = { .pool = pool_new(NULL, "test") };
    c.m = make_begin(c.pool, 1);
    Make *m = &c.m;
    c.w = make_value(m, 50, true);
    c.a = make_value(m, 10, false);
    c.b = make_value(m, 10, false);
    c.view = make_value(m, 0, false);
    m->graph->values[c.view].view_of = c.a;
    c.sum = make_value(m, 10, false);
    c.out = make_value(m, 5, false);
    c.na = make_node(m, 2, 0, c.w, -1, c.a, -1);
    c.nb = make_node(m, 3, 0, c.a, -1, c.b, -1);
    c.nview = make_node(m, 0, 0, c.a, -1, c.view, -1);
    c.nsum = make_node(m, 1, 0, c.view, c.b, -1, c.sum, -1);
    c.update = make_node(m, 1, 0, c.w, c.b, -1, c.w, -1);
    c.nout = make_node(m, 1, 0, c.sum, c.w, -1, c.out, -1);
    m->graph->values[c.out].final = true;
    REQUIRE(pgraph_check(m->graph) == OK);
    return c;
}

/* steps: pairs (kind, id), ended by -1. says: words that the message must contain; NULL: the plan
 * is good. */
static void check_steps_of(const Case *c, const char *says, const int32_t *steps)
{
    Plan plan = { 0 };
    for (int i = 0; steps[2 * i] >= 0; i++)
        plan_add(c->pool, &plan, (StepKind)steps[2 * i], steps[2 * i + 1]);
    Err err = plan_check(c->m.graph, &plan, 0);
    CHECK_INT(err, says ? E_PLAN : OK);
    if (says && err && !CHECK(strstr(err_text(), says) != NULL))
        fprintf(stderr, "  wanted \"%s\", said \"%s\"\n", says, err_text());
    if (!says && err)
        fprintf(stderr, "  said: %s\n", err_text());
}

#define R(x)                  STEP_RUN, c.x
#define D(x)                  STEP_DROP, c.x
#define CHECK_PLAN(says, ...) check_steps_of(&c, says, (const int32_t[]){ __VA_ARGS__, -1, -1 })

static void faults_are_found(void)
{
    Case c = case_new();
    CHECK_PLAN(NULL, R(na), R(nb), R(nview), R(nsum), D(view), D(a), R(update), D(b), R(nout),
               D(sum));
    CHECK_PLAN(NULL, R(na), R(nb), D(a), R(na), R(nview), R(nsum), R(update),
               R(nout)); /* a again */
    CHECK_PLAN("not live", R(nb));
    CHECK_PLAN("not live", R(na), D(a), R(nb));
    CHECK_PLAN("is not live", R(na), R(nb), R(nview), D(view), R(nsum));
    CHECK_PLAN("again", R(na), R(nb), R(update), R(update));
    CHECK_PLAN("version", R(na), R(nb), R(nview), R(nsum), R(update), R(na)); /* reads w too late */
    /* reads w too early */
    CHECK_PLAN("version", R(na), R(nb), R(nview), R(nsum), R(nout));
    CHECK_PLAN("persistent", R(na), D(w));
    CHECK_PLAN("drops", D(a));
    CHECK_PLAN("drops", R(na), D(a), D(a));
    CHECK_PLAN("views", R(na), R(nview), D(a));
    CHECK_PLAN("never runs", R(na), R(nb), R(nview), R(nsum), R(update));
    CHECK_PLAN("final", R(na), R(nb), R(nview), R(nsum), R(update), R(nout), D(out));
    CHECK_PLAN("not live", R(na), R(nb), D(a), R(nview));
    CHECK_PLAN("nothing of this graph", STEP_RUN, 77);
    CHECK_PLAN("nothing of this graph", STEP_DROP, 77);
    CHECK_PLAN("nothing of this graph", 99, 0);
    pool_free(c.pool);
}
static void copies_are_checked(void)
{
    Case c = case_new();
#define S(kind, x) STEP_##kind, c.x
    CHECK_PLAN(NULL, R(na), S(SAVE, a), R(nb), S(WAIT, a), D(a), S(LOAD, a), S(WAIT, a), R(nview),
               R(nsum), S(FREE_HOST, a), R(update), R(nout));
    CHECK_PLAN("pending", R(na), S(SAVE, a), D(a));
    CHECK_PLAN("pending", R(na), S(SAVE, a), S(SAVE, a));
    CHECK_PLAN("pending", R(na), S(SAVE, a), R(na));
    CHECK_PLAN("not on the host", R(na), S(LOAD, a));
    CHECK_PLAN("live already", R(na), S(SAVE, a), S(WAIT, a), S(LOAD, a));
    CHECK_PLAN("still being loaded", R(na), S(SAVE, a), S(WAIT, a), D(a), S(LOAD, a), R(nb));
    CHECK_PLAN("no copy pending", R(na), S(WAIT, a));
    CHECK_PLAN("host slot", R(na), S(FREE_HOST, a));
    CHECK_PLAN("is not live", S(SAVE, a));
    CHECK_PLAN("view", R(na), R(nview), S(SAVE, view));
    CHECK_PLAN("never waited", R(na), R(nb), R(nview), R(nsum), R(update), R(nout), S(SAVE, out));
    pool_free(c.pool);
}

static void takeovers_are_checked(void)
{
    Case    c = { .pool = pool_new(NULL, "test") };
    int32_t pair[1][2];
    c.m = make_begin(c.pool, 1);
    c.a = make_value(&c.m, 10, false);
    c.b = make_value(&c.m, 10, false);
    c.out = make_value(&c.m, 1, false);
    c.na = make_node(&c.m, 1, 0, -1, c.a, -1);
    c.nout = make_node(&c.m, 1, 0, c.a, -1, c.out, -1);
    c.nb = make_node(&c.m, 1, 0, c.a, -1, c.b, -1);
    pair[0][0] = c.b;
    pair[0][1] = c.a;
    c.m.graph->nodes[c.nb].inplace = pair;
    c.m.graph->nodes[c.nb].n_inplace = 1;
    CHECK_OK(pgraph_check(c.m.graph));
    CHECK_PLAN(NULL, R(na), R(nout), R(nb), D(b));
    CHECK_PLAN("not live", R(na), R(nb), R(nout));
    CHECK_PLAN("not live", R(na), R(nout), R(nb), D(a));
    CHECK_PLAN(NULL, R(na), R(nb), R(na), R(nout), R(nb)); /* b is recomputed while it is
                                                                  * live */
    Plan plan = { 0 };
    for (int i = 0; i < 2; i++) {
        plan_add(c.pool, &plan, STEP_RUN, c.na);
        plan_add(c.pool, &plan, STEP_RUN, c.nb);
    }
    plan_add(c.pool, &plan, STEP_RUN, c.na);
    plan_add(c.pool, &plan, STEP_RUN, c.nout);
    PlanMeter meter;
    CHECK_OK(plan_simulate(NULL, c.m.graph, &plan, &meter));
    CHECK_INT(meter.live_bytes, 21); /* old b and new a at once, then out */
    CHECK_OK(plan_check(c.m.graph, &plan, 21));
    CHECK_INT(plan_check(c.m.graph, &plan, 20), E_PLAN);
    pool_free(c.pool);
}

static void figures_are_checked(void)
{
    Case  c = case_new();
    Plan *plan;
    CHECK_OK(plan_keep_all(c.pool, c.m.graph, &plan));
    CHECK_OK(plan_check(c.m.graph, plan, plan->live_bytes));
    CHECK_INT(plan_check(c.m.graph, plan, plan->live_bytes - 1), E_PLAN);
    CHECK(strstr(err_text(), "budget") != NULL);
    plan->live_bytes++;
    CHECK_INT(plan_check(c.m.graph, plan, 0), E_PLAN);
    plan->live_bytes--;
    plan->cost += 0.5;
    CHECK_INT(plan_check(c.m.graph, plan, 0), E_PLAN);
    CHECK(strstr(err_text(), "cost") != NULL);
    pool_free(c.pool);
}

int main(void)
{
    RUN(faults_are_found);
    RUN(copies_are_checked);
    RUN(takeovers_are_checked);
    RUN(figures_are_checked);
    return test_end();
}
