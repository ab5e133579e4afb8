/* transfers.c -- transfers between ranks in a plan: simulator and checker give them the same time,
 * counted by hand; the checker finds every planted fault; a graph with them reads back the same. */
#include "test.h"

#include "base/file.h"
#include "plan/make.h"

#include <unistd.h>

typedef struct Case {
    Pool   *pool;
    Make    m;
    int32_t w, x, packed, received, y, sum, out; /* values */
    int32_t make, start, work, fold, last;       /* nodes */
} Case;

/* x = f(w); a transfer of x starts; y = g(x) meanwhile; sum = what arrived; out = h(sum, y). */
static Case case_new(double wire)
{
    Case c = { .pool = pool_new(NULL, "test") };
    c.m = make_begin(c.pool, 1);
    Make *m = &c.m;
    c.w = make_value(m, 50, true);
    c.x = make_value(m, 10, false);
    c.packed = make_value(m, 10, false);
    c.received = make_value(m, 20, false);
    c.y = make_value(m, 10, false);
    c.sum = make_value(m, 10, false);
    c.out = make_value(m, 5, false);
    c.make = make_node(m, 4, 0, c.w, -1, c.x, -1);
    c.start = make_node(m, 1, 0, c.x, -1, c.packed, c.received, -1);
    c.work = make_node(m, 3, 0, c.x, -1, c.y, -1);
    c.fold = make_node(m, 2, 0, c.packed, c.received, -1, c.sum, -1);
    c.last = make_node(m, 1, 0, c.sum, c.y, -1, c.out, -1);
    m->graph->nodes[c.start].wire = wire;
    m->graph->nodes[c.start].once = true;
    m->graph->nodes[c.fold].joins = TRANSFER_OF(c.start);
    m->graph->nodes[c.fold].once = true;
    m->graph->values[c.out].final = true;
    return c;
}

static void one_transfer(double wire, double waited)
{
    Case      c = case_new(wire);
    Plan     *plan;
    PlanMeter meter;
    CHECK_OK(pgraph_check(c.m.graph));
    CHECK_OK(plan_keep_all(c.pool, c.m.graph, &plan));
    CHECK_OK(plan_check(c.m.graph, plan, 0)); /* it counts the same cost */
    CHECK_OK(plan_simulate(NULL, c.m.graph, plan, &meter));
    CHECK_NEAR(plan->cost, 11 + waited, 1e-12);
    CHECK_NEAR(plan->base_cost, 11, 1e-12);
    CHECK_NEAR(meter.waited_wire, waited, 1e-12);
    CHECK_NEAR(meter.wire, wire, 1e-12);
    CHECK_INT(meter.live_bytes, 50 + 10 + 30 + 10); /* w, x, what moves, y */
    plan->cost += 1;
    CHECK_INT(plan_check(c.m.graph, plan, 0), E_PLAN);
    pool_free(c.pool);
}

static void time_by_hand(void)
{
    one_transfer(0, 0);
    one_transfer(2, 0); /* hidden by `work` */
    one_transfer(3, 0);
    one_transfer(10, 7);
}

/* Two transfers share one queue: the second begins when the first has ended. */
static void one_queue(void)
{
    Pool     *pool = pool_new(NULL, "test");
    Make      m = make_begin(pool, 1);
    Plan     *plan;
    PlanMeter meter;
    int32_t   sent[2], sum[2], start[2];
    for (int i = 0; i < 2; i++) {
        sent[i] = make_value(&m, 8, false);
        start[i] = make_node(&m, 1, 0, -1, sent[i], -1);
        m.graph->nodes[start[i]].wire = 6;
    }
    for (int i = 0; i < 2; i++) {
        sum[i] = make_value(&m, 8, false);
        int32_t fold = make_node(&m, 1, 0, sent[i], -1, sum[i], -1);
        m.graph->nodes[fold].joins = TRANSFER_OF(start[i]);
        m.graph->values[sum[i]].final = true;
    }
    CHECK_OK(pgraph_check(m.graph));
    CHECK_OK(plan_keep_all(pool, m.graph, &plan));
    CHECK_OK(plan_check(m.graph, plan, 0));
    CHECK_OK(plan_simulate(NULL, m.graph, plan, &meter));
    /* starts end at 1 and 2; transfers at 7 and 13; folds at 8 and 14 */
    CHECK_NEAR(meter.cost, 14, 1e-12);
    CHECK_NEAR(meter.waited_wire, 10, 1e-12);
    pool_free(pool);
}

static void check_steps_of(const Case *c, const char *says, const int32_t *steps)
{
    Plan plan = { 0 };
    for (int i = 0; steps[2 * i] >= 0; i++)
        plan_add(c->pool, &plan, (StepKind)steps[2 * i], steps[2 * i + 1]);
    Err err = plan_check(c->m.graph, &plan, 0);
    CHECK_INT(err, says ? E_PLAN : OK);
    if (says && err && !CHECK(strstr(err_text(), says) != NULL))
        fprintf(stderr, "  wanted \"%s\", said \"%s\"\n", says, err_text());
}

#define R(x)                  STEP_RUN, c.x
#define D(x)                  STEP_DROP, c.x
#define CHECK_PLAN(says, ...) check_steps_of(&c, says, (const int32_t[]){ __VA_ARGS__, -1, -1 })

static void faults_are_found(void)
{
    Case c = case_new(10);
    CHECK_PLAN(NULL, R(make), R(start), R(work), R(fold), R(last));
    CHECK_PLAN(NULL, R(make), R(start), R(work), D(x), R(fold), D(packed), D(received), R(last));
    CHECK_PLAN("drops v2 while it moves", R(make), R(start), D(packed), R(work), R(fold), R(last));
    CHECK_PLAN("drops v3 while it moves", R(make), R(start), D(received), R(work), R(fold));
    CHECK_PLAN("has not started", R(make), R(fold));
    CHECK_PLAN("runs n1 again", R(make), R(start), R(start), R(work), R(fold), R(last));
    CHECK_PLAN("never waited for", R(make), R(start), R(work));
    CHECK_PLAN("copies v2 while it moves", R(make), R(start), STEP_SAVE, c.packed, R(fold));
    /* nobody but the fold may read what arrives */
    PNode *work = &c.m.graph->nodes[c.work];
    work->in[0] = c.received;
    CHECK_PLAN("still arriving", R(make), R(start), R(work), R(fold), R(last));
    CHECK_PLAN(NULL, R(make), R(start), R(fold), R(work), R(last));
    work->in[0] = c.x;
    /* ... nor write what is sent */
    PNode *fold = &c.m.graph->nodes[c.fold];
    fold->in[1] = c.w;
    c.m.graph->nodes[c.start].in[0] = c.w;
    work->out[0] = c.w;
    CHECK_PLAN("writes v0 while", R(make), R(start), R(work), R(fold), R(last));
    pool_free(c.pool);
}

/* A transfer that may be repeated is waited for once each time. */
static void repeated(void)
{
    Case c = case_new(10);
    c.m.graph->nodes[c.start].once = c.m.graph->nodes[c.fold].once = false;
    CHECK_PLAN(NULL, R(make), R(start), R(fold), D(packed), D(received), D(sum), R(start), R(work),
               R(fold), R(last));
    CHECK_PLAN("was not waited for", R(make), R(start), R(start), R(work), R(fold), R(last));
    CHECK_PLAN("has not started", R(make), R(start), R(fold), R(fold), R(work), R(last));
    CHECK_PLAN("never waited for", R(make), R(start), R(fold), R(start), R(work), R(last));
    pool_free(c.pool);
}

static void graph_refused(void (*harm)(Case *), const char *says)
{
    Case c = case_new(1);
    harm(&c);
    CHECK_INT(pgraph_check(c.m.graph), E_FORMAT);
    if (!CHECK(strstr(err_text(), says) != NULL))
        fprintf(stderr, "  wanted \"%s\", said \"%s\"\n", says, err_text());
    pool_free(c.pool);
}

static void harm_later(Case *c) { c->m.graph->nodes[c->fold].joins = TRANSFER_OF(c->last); }
static void harm_other(Case *c) { c->m.graph->nodes[c->fold].joins = TRANSFER_OF(c->make); }
static void harm_wire(Case *c) { c->m.graph->nodes[c->start].wire = -1; }
static void harm_both(Case *c)
{
    c->m.graph->nodes[c->last].in[0] = c->packed;
    c->m.graph->nodes[c->last].joins = TRANSFER_OF(c->start);
}

static void bad_graphs(void)
{
    graph_refused(harm_later, "must name a node before it");
    graph_refused(harm_other, "reads none of its outputs");
    graph_refused(harm_wire, "wire is -1");
    graph_refused(harm_both, "so does a node before it");
}

static void reads_back(void)
{
    Case        c = case_new(2.5);
    PGraph     *again;
    const char *path = pool_print(c.pool, "test-transfers-%d.json", (int)getpid());
    CHECK_OK(pgraph_write(c.m.graph, path));
    CHECK_OK(pgraph_read(c.pool, path, &again));
    unlink(path);
    for (int32_t n = 0; n < c.m.graph->n_nodes; n++) {
        CHECK_NEAR(again->nodes[n].wire, c.m.graph->nodes[n].wire, 0);
        CHECK_INT(again->nodes[n].joins, c.m.graph->nodes[n].joins);
    }
    static const char unknown[] = "{\"format\": \"plimsoll-graph-1\", \"values\": [], \"nodes\": "
                                  "[{\"id\": \"a\", \"cost\": 1, \"joins\": \"b\"}]}";
    CHECK_INT(pgraph_parse(c.pool, "g", unknown, sizeof unknown - 1, &again), E_FORMAT);
    CHECK(strstr(err_text(), "no node b before") != NULL);
    pool_free(c.pool);
}

int main(void)
{
    RUN(time_by_hand);
    RUN(one_queue);
    RUN(faults_are_found);
    RUN(repeated);
    RUN(bad_graphs);
    RUN(reads_back);
    return test_end();
}
