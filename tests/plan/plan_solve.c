/* plan_solve.c -- are the plans valid, cheap, repeatable and monotone? Compared with brute force on
 * small graphs, published optima, and plain per-block checkpointing. Efforts are small, so that
 * this takes seconds. */
#include "test.h"

#include "base/clock.h"
#include "plan/brute.h"
#include "plan/solvers/search.h"

#include <float.h>
#include <math.h>
#include <unistd.h>

/* Small graphs are solved exactly; the annealer, which solves larger ones, must rarely miss that
 * optimum. */
static void annealer_is_close(void)
{
    int equal = 0, all_seeds = 0;
    for (uint64_t seed = 101; seed <= 130; seed++) {
        Pool       *pool = pool_new(NULL, "test");
        PGraph     *g = tiny(pool, seed);
        Plan       *minimum;
        PlanOptions options = { .budget_bytes = 1 };
        if (plan_solve(pool, g, &options, &minimum) == E_BUDGET) {
            int64_t    budget = minimum->live_bytes + 2;
            double     best = brute(g, budget), cost = DBL_MAX;
            SolverArgs args = { .task = task_new(pool, g),
                                .budget_bytes = budget,
                                .effort = 50000 };
            for (args.seed = 1; args.seed <= 4; args.seed++) {
                RunList list;
                solve_anneal(pool, &args, &list);
                if (list.node && list.cost < cost)
                    cost = list.cost;
            }
            CHECK(cost > best - 1e-9);
            equal += cost < best + 1e-9;
            all_seeds++;
        }
        pool_free(pool);
    }
    CHECK(all_seeds > 15);
    CHECK(equal >= all_seeds * 9 / 10);
    printf("annealer: %d of %d small graphs at the optimum\n", equal, all_seeds);
}

/* A step of four layers with views and places taken over, 14 nodes and 25 values: more states than
 * a search by the cost of all runs could hold. The optimum is that of a brute force outside this
 * tree. */
static const char four_layers[] =
    "{'format':'plimsoll-graph-1','finals':[20,23,24],'values':[{'id':0,'bytes':4,"
    "'persistent':true},{'id':1,'bytes':1,'persistent':true},{'id':2,'bytes':3,"
    "'persistent':true},{'id':3,'bytes':19,'persistent':true},{'id':4,'bytes':40},"
    "{'id':5,'bytes':0,'view_of':4},{'id':6,'bytes':21},{'id':7,'bytes':10},{'id':8,"
    "'bytes':0,'view_of':6},{'id':9,'bytes':21},{'id':10,'bytes':7},{'id':11,'bytes':0,"
    "'view_of':9},{'id':12,'bytes':34},{'id':13,'bytes':3},{'id':14,'bytes':0,"
    "'view_of':12},{'id':15,'bytes':38},{'id':16,'bytes':16},{'id':17,'bytes':16},"
    "{'id':18,'bytes':19},{'id':19,'bytes':16},{'id':20,'bytes':3},{'id':21,'bytes':31},"
    "{'id':22,'bytes':1},{'id':23,'bytes':28},{'id':24,'bytes':4}],'nodes':[{'id':0,"
    "'cost':3,'outputs':[4]},{'id':1,'cost':3,'inputs':[3,4],'outputs':[5],"
    "'workspace':28},{'id':2,'cost':3,'inputs':[0,5],'outputs':[6,7,8],'workspace':7},"
    "{'id':3,'cost':7,'inputs':[1,6],'outputs':[9,10,11]},{'id':4,'cost':3,'inputs':[2,"
    "9],'outputs':[12,13]},{'id':5,'cost':0,'inputs':[12],'outputs':[14],'workspace':9},"
    "{'id':6,'cost':7,'inputs':[3,14],'outputs':[15]},{'id':7,'cost':5,'inputs':[15],"
    "'outputs':[16]},{'id':8,'cost':5,'inputs':[3,12,16],'outputs':[17,18],"
    "'inplace':[[17,16]]},{'id':9,'cost':1,'inputs':[3,18],'outputs':[3],'once':true},"
    "{'id':10,'cost':23,'inputs':[2,9,13,17],'outputs':[19,20],'inplace':[[19,17]]},"
    "{'id':11,'cost':7,'inputs':[1,6,10,19],'outputs':[21,22],'workspace':9},{'id':12,"
    "'cost':3,'inputs':[1,22],'outputs':[1],'once':true},{'id':13,'cost':14,'inputs':[0,"
    "4,7,21],'outputs':[23,24],'workspace':26}]}";

static void more_states_are_searched(void)
{
    Pool       *pool = pool_new(NULL, "test");
    PGraph     *g;
    Plan       *plan;
    PlanOptions options = { .budget_bytes = 166 };
    char        text[sizeof four_layers];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = four_layers[i] == '\'' ? '"' : four_layers[i];
    if (CHECK_INT(pgraph_parse(pool, "four layers", text, sizeof text - 1, &g), OK) &&
        CHECK_INT(plan_solve(pool, g, &options, &plan), OK))
        CHECK_NEAR(plan->cost, 169, 1e-9);
    options.budget_bytes = 165;
    CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
    CHECK_INT(plan->bound_bytes, 166);
    pool_free(pool);
}

static void brute_force_agrees(void)
{
    int compared = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = tiny(pool, seed);
        Plan   *all, *plan;
        CHECK_OK(plan_keep_all(pool, g, &all));
        PlanOptions options = { .effort = 1000000, .budget_bytes = 1 };
        Err         err = plan_solve(pool, g, &options, &plan);
        int64_t     minimum = plan->live_bytes;
        if (err == E_BUDGET) {
            CHECK(brute(g, minimum) < DBL_MAX);
            if (!CHECK(brute(g, minimum - 1) == DBL_MAX))
                fprintf(stderr, "  seed %llu: least %lld\n", (unsigned long long)seed,
                        (long long)minimum);
        }
        for (int64_t k = 0; k < 4 && minimum > 0; k++) {
            options.budget_bytes = minimum + (all->live_bytes - minimum) * k / 4;
            if (!CHECK_INT(plan_solve(pool, g, &options, &plan), OK))
                continue;
            CHECK_OK(plan_check(g, plan, options.budget_bytes));
            if (!CHECK_NEAR(plan->cost, brute(g, options.budget_bytes), 1e-9))
                fprintf(stderr, "  seed %llu budget %lld\n", (unsigned long long)seed,
                        (long long)options.budget_bytes);
            compared++;
        }
        pool_free(pool);
    }
    CHECK(compared > 100);
}

typedef struct Known {
    const char *graph;
    double      fraction;
    int         extra;
} Known;

/* Extra cost of proved optima (../shared/instances/README.md); ours may be lower where another
 * order helps. */
static void published_optima(void)
{
    static const Known known[] = {
        { "VGG16", 0.9, 305 },      { "VGG16", 0.85, 305 },    { "vgg_unet", 0.9, 350 },
        { "vgg_unet", 0.8, 615 },   { "vgg_unet", 0.7, 920 },  { "vgg_unet", 0.6, 1380 },
        { "vgg_unet", 0.45, 2890 }, { "MobileNet", 0.8, 600 }, { "MobileNet", 0.5, 2650 },
        { "RL100", 0.8, 1097 },     { "RL100", 0.7, 3692 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        Pool       *pool = pool_new(NULL, "test");
        const char *path = pool_print(pool, "%s/../shared/instances/recompute/%s.json", SOURCE_DIR,
                                      known[i].graph);
        PGraph     *g;
        Plan       *plan;
        if (access(path, R_OK)) {
            SKIP(pool_print(pool, "%s is not there", path));
        } else if (CHECK_INT(pgraph_read(pool, path, &g), OK)) {
            PlanOptions options = {
                .budget_bytes = (int64_t)ceil(known[i].fraction * (double)g->base_peak_bytes),
                .effort = 3000000,
            };
            CHECK_OK(plan_solve(pool, g, &options, &plan));
            CHECK_OK(plan_check(g, plan, options.budget_bytes));
            if (!CHECK(plan->cost - plan->base_cost <= 1.01 * known[i].extra))
                fprintf(stderr, "  %s at %.2f: extra %.0f, known %d\n", known[i].graph,
                        known[i].fraction, plan->cost - plan->base_cost, known[i].extra);
        }
        pool_free(pool);
    }
}

static void more_memory_is_never_slower(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g = make_layered(pool, 60, 4);
    Plan   *all, *plan, *again;
    double  before = DBL_MAX;
    CHECK_OK(plan_keep_all(pool, g, &all));
    PlanOptions options = { .effort = 400000, .budget_bytes = 1, .seed = 3 };
    CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
    int64_t minimum = plan->live_bytes;
    options.budget_bytes = minimum; /* the minimum that was named is accepted */
    CHECK_OK(plan_solve(pool, g, &options, &plan));
    CHECK(plan->live_bytes <= minimum);
    options.budget_bytes = minimum - 1;
    CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
    CHECK_INT(plan->live_bytes, minimum);
    for (int k = 1; k <= 20; k++) {
        options.budget_bytes = (all->live_bytes * k + 19) / 20;
        if (options.budget_bytes < minimum)
            continue;
        CHECK_OK(plan_solve(pool, g, &options, &plan));
        CHECK(plan->live_bytes <= options.budget_bytes);
        CHECK(plan->cost <= before);
        before = plan->cost;
    }
    CHECK_NEAR(before, all->cost, 0); /* everything kept at the top */

    options.budget_bytes = (minimum + all->live_bytes) / 2;
    CHECK_OK(plan_solve(pool, g, &options, &plan));
    CHECK_OK(plan_solve(pool, g, &options, &again));
    CHECK_INT(plan->n_steps, again->n_steps);
    CHECK(plan->n_steps == again->n_steps &&
          !memcmp(plan->steps, again->steps, sizeof(Step) * (size_t)plan->n_steps));
    CHECK(!plan->cut);
    pool_free(pool);
}

static void curve_falls(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g = make_layered(pool, 50, 9);
    Plan   *all, *plans[12];
    int64_t budgets[12];
    CHECK_OK(plan_keep_all(pool, g, &all));
    for (int i = 0; i < 12; i++)
        budgets[i] = all->live_bytes * (i + 1) / 11 + (i == 0);
    PlanOptions options = { .effort = 300000 };
    CHECK_OK(plan_curve(pool, g, &options, budgets, 12, plans));
    CHECK(plans[0] == NULL);
    CHECK(plans[11] != NULL && plans[11]->cost <= all->cost);
    for (int i = 1; i < 12; i++)
        CHECK(!plans[i - 1] || (plans[i] && plans[i]->cost <= plans[i - 1]->cost));
    pool_free(pool);
}

/* 690 blocks are 20,000 nodes; here a tenth, for time. bench/plan.c plans them all. */
static void no_worse_than_per_block(void)
{
    Pool      *pool = pool_new(NULL, "test");
    MakeBlocks blocks;
    PGraph    *g = make_transformer(pool, 30, 1 << 16, &blocks);
    CHECK_OK(pgraph_check(g));
    for (int32_t k = 6; k <= 30; k += 8) {
        Plan *plain, *plan;
        CHECK_OK(make_per_block(pool, g, &blocks, k, &plain));
        CHECK_OK(plan_check(g, plain, 0));
        PlanOptions options = { .budget_bytes = plain->live_bytes, .effort = 200000 };
        CHECK_OK(plan_solve(pool, g, &options, &plan));
        CHECK(plan->cost < plain->cost);
    }
    pool_free(pool);
}

/* Views, takeovers, updates of persistent values and nodes that may not be recomputed, all at once:
 * every plan must pass the checker at every budget. */
static PGraph *mixed(Pool *pool, uint64_t seed)
{
    Make    m = make_begin(pool, seed);
    int32_t weight = make_value(&m, 10, true), live[200], n_live = 0, updates = 0;
    live[n_live++] = make_act(&m, 5, 20, weight, -1, -1);
    for (int32_t n = 0; n < 40; n++) {
        int32_t a = live[make_random(&m, (uint32_t)n_live)];
        int32_t b = live[make_random(&m, (uint32_t)n_live)];
        switch (make_random(&m, 6)) {
        case 0: { /* a view, made by a node of its own */
            int32_t v = make_value(&m, 0, false);
            m.graph->values[v].view_of = pgraph_root(m.graph, a);
            make_node(&m, 1, 0, a, -1, v, -1);
            live[n_live++] = v;
            break;
        }
        case 1: { /* takes over the bytes of a fresh value */
            int32_t fresh = make_act(&m, 3, 16, a, -1, -1), over = make_value(&m, 12, false);
            int32_t node = make_node(&m, 2, 0, fresh, b, -1, over, -1);
            m.graph->nodes[node].inplace = pool_alloc(pool, 1,
                                                      sizeof *m.graph->nodes[node].inplace);
            m.graph->nodes[node].inplace[0][0] = over;
            m.graph->nodes[node].inplace[0][1] = fresh;
            m.graph->nodes[node].n_inplace = 1;
            live[n_live++] = over;
            break;
        }
        case 2: /* an update, after which others read */
            if (updates++ < 4)
                make_node(&m, 2, 0, weight, a, -1, weight, -1);
            break;
        case 3: { /* a view of what the same node makes */
            int32_t root = make_value(&m, 25, false), view = make_value(&m, 0, false);
            m.graph->values[view].view_of = root;
            make_node(&m, 7, 3, a, -1, root, view, -1);
            live[n_live++] = root;
            live[n_live++] = view;
            break;
        }
        default:
            live[n_live++] = make_act(&m, 1 + make_random(&m, 9), 5 + make_random(&m, 30), a, b,
                                      make_random(&m, 3) == 0 ? weight : -1);
            if (make_random(&m, 8) == 0)
                m.graph->nodes[m.graph->n_nodes - 1].once = true;
        }
        PNode *last = &m.graph->nodes[m.graph->n_nodes - 1];
        if (last->n_in == 2 && last->in[0] == last->in[1])
            last->n_in = 1;
    }
    m.graph->values[live[n_live - 1]].final = true;
    m.graph->values[live[n_live / 2]].final = true;
    return m.graph;
}

static void odd_graphs_are_planned(void)
{
    int saved = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = mixed(pool, seed);
        Plan   *all, *plan;
        if (!CHECK_INT(pgraph_check(g), OK)) {
            fprintf(stderr, "  %s\n", err_text());
            continue;
        }
        CHECK_OK(plan_keep_all(pool, g, &all));
        CHECK_OK(plan_check(g, all, 0));
        PlanOptions options = { .effort = 60000, .budget_bytes = 1, .seed = seed };
        CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
        CHECK_OK(plan_check(g, plan, 0));
        int64_t minimum = plan->live_bytes;
        saved += minimum < all->live_bytes;
        for (int k = 0; k < 3; k++) {
            options.budget_bytes = minimum + (all->live_bytes - minimum) * k / 3;
            options.layout = k == 1;
            Err err = plan_solve(pool, g, &options, &plan);
            CHECK(err == OK || (options.layout && err == E_BUDGET));
            CHECK_OK(plan_check(g, plan, err ? 0 : options.budget_bytes));
            CHECK(err || plan_peak_bytes(plan) <= options.budget_bytes);
        }
        pool_free(pool);
    }
    CHECK(saved > 8);
}

static void arenas_are_checked(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g = make_layered(pool, 80, 21);
    Plan   *all, *plan;
    CHECK_OK(plan_keep_all(pool, g, &all));
    PlanOptions options = { .effort = 300000,
                            .budget_bytes = all->live_bytes * 8 / 10,
                            .layout = true };
    CHECK_OK(plan_solve(pool, g, &options, &plan));
    CHECK(plan->arena_bytes >= plan->live_bytes);
    CHECK(plan->arena_bytes <= options.budget_bytes);
    options.budget_bytes = 1;
    CHECK_INT(plan_solve(pool, g, &options, &plan), E_BUDGET);
    int64_t minimum = plan->arena_bytes;
    CHECK(minimum >= plan->live_bytes);
    options.budget_bytes = minimum;
    CHECK_OK(plan_solve(pool, g, &options, &plan));
    CHECK(plan->arena_bytes <= minimum);
    pool_free(pool);
}

static void time_only_cuts(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g = make_layered(pool, 300, 5);
    Plan   *all, *plan;
    CHECK_OK(plan_keep_all(pool, g, &all));
    PlanOptions options = { .budget_bytes = all->live_bytes * 9 / 10,
                            .time_limit_s = 0.3,
                            .effort = 1000000000000 };
    double      begin = clock_now();
    CHECK_OK(plan_solve(pool, g, &options, &plan));
    CHECK(plan->cut);
    CHECK(clock_now() - begin < 20);
    CHECK_OK(plan_check(g, plan, options.budget_bytes));
    pool_free(pool);
}

static void edges(void)
{
    Pool       *pool = pool_new(NULL, "test");
    Make        m = make_begin(pool, 1);
    Plan       *plan;
    PlanOptions options = { .budget_bytes = 5, .effort = 1000 };
    CHECK_OK(plan_solve(pool, m.graph, &options, &plan)); /* an empty graph */
    CHECK_INT(plan->n_steps, 0);
    make_act(&m, 0, 10, -1, -1, -1); /* one node of cost 0 */
    CHECK_INT(plan_solve(pool, m.graph, &options, &plan), E_BUDGET);
    CHECK_INT(plan->live_bytes, 10);
    CHECK(strstr(err_text(), "10") != NULL);
    options.budget_bytes = 10;
    CHECK_OK(plan_solve(pool, m.graph, &options, &plan));
    options.budget_bytes = 0; /* no budget: keep
                                                                      * everything */
    CHECK_OK(plan_solve(pool, m.graph, &options, &plan));
    pool_free(pool);
}

/* Views that nodes produce beside their work, views of those, and two views of which one is final:
 * found by random graphs. Every budget gets a plan with the figures that it states. */
static void odd_views_are_planned(void)
{
    for (int kind = 0; kind < 2; kind++) {
        Pool   *pool = pool_new(NULL, "test");
        Make    m = make_begin(pool, 1);
        PGraph *g = m.graph;
        int32_t root = make_act(&m, 1, 100, -1, -1, -1), far = root, last = -1;
        int32_t a = make_value(&m, 0, false), b = make_value(&m, kind ? 0 : 50, false);
        g->values[a].view_of = root;
        g->values[b].view_of = kind ? root : -1;
        make_node(&m, 1, 0, root, -1, a, b, -1); /* kind 1: two views, one of them final */
        g->values[b].final = kind;
        g->nodes[g->n_nodes - 1].once = !kind; /* kind 0: a view beside its work */
        if (!kind) {                           /* and a view of the view, read by nobody */
            int32_t c = make_value(&m, 0, false);
            g->values[c].view_of = root;
            make_node(&m, 1, 0, a, -1, c, -1);
        }
        for (int i = 0; i < 12; i++) {
            int32_t view = i == 0 ? a : kind ? -1 : b;
            far = make_act(&m, 2, i == 5 || i == 6 ? 400 : 60, far, view, -1);
            last = make_act(&m, 1, 70, far, i == 11 ? root : -1, last);
        }
        g->values[last].final = true;
        CHECK_OK(pgraph_check(g));
        Plan *all, *plan;
        CHECK_OK(plan_keep_all(pool, g, &all));
        for (int k = 0; k <= 10; k++) {
            PlanOptions options = { .budget_bytes = 1 + all->live_bytes * k / 10, .effort = 5000 };
            Err         err = plan_solve(pool, g, &options, &plan);
            if (!CHECK(err == OK || err == E_BUDGET))
                fprintf(stderr, "  kind %d, budget %d: %s\n", kind, k, err_text());
            CHECK(err || plan->live_bytes <= options.budget_bytes);
            if (k == 0 && kind)
                CHECK_INT(plan->live_bytes, 870); /* the root is not live at the peak */
        }
        pool_free(pool);
    }
}

/* Groups of runs move: the list remains valid, its bytes are those of the same list set anew, every
 * node runs as often as before, and undo restores everything. */
static void groups_keep_the_schedule_true(void)
{
    Pool          *pool = pool_new(NULL, "test");
    PGraph        *g = make_layered(pool, 70, 3);
    const Task    *task = task_new(pool, g);
    SolverArgs     args = { .task = task, .budget_bytes = LOWEST, .effort = 20000, .seed = 5 };
    RunList        start;
    ScheduleSearch x;
    int            moved = 0;
    solve_min_peak(pool, &args, &start); /* some nodes are recomputed */
    args.start = start;
    search_init(&x, pool, &args);
    Schedule *anew = schedule_new(pool, task);
    int32_t  *before = NEWN(pool, int32_t, start.n), *after = NEWN(pool, int32_t, start.n);
    CHECK(start.n > task->n_nodes);
    for (int turn = 0; turn < 2000; turn++) {
        int32_t mark = schedule_mark(x.s);
        double  cost = x.s->cost;
        Load    load = schedule_load(x.s, 0);
        schedule_list(x.s, before);
        bool done = search_group(&x, search_position(&x));
        if (done && turn % 3) {
            CHECK_INT(x.s->n, start.n);
            CHECK(fabs(x.s->cost - cost) < 1e-9 * cost);
            schedule_list(x.s, after);
            schedule_set(anew, after, start.n);
            CHECK_INT(schedule_load(x.s, 0).peak_bytes, schedule_load(anew, 0).peak_bytes);
            CHECK(schedule_load(x.s, 0).excess == schedule_load(anew, 0).excess);
            moved += memcmp(before, after, sizeof *after * (size_t)start.n) != 0;
            schedule_commit(x.s);
            continue;
        }
        schedule_undo(x.s, mark);
        schedule_list(x.s, after);
        CHECK(!memcmp(before, after, sizeof *after * (size_t)start.n));
        CHECK_INT(schedule_load(x.s, 0).peak_bytes, load.peak_bytes);
    }
    CHECK(moved > 300);
    printf("groups: %d of 2000 moves changed the order\n", moved);
    pool_free(pool);
}

/* Irregular graphs, where another order means moving many runs at once. Moving one run at a time
 * gave 28, 17 and 13 %. */
static void irregular_orders_are_found(void)
{
    static const struct {
        int32_t  nodes;
        uint64_t seed;
    } graphs[] = { { 90, 5 }, { 120, 14 }, { 60, 13 } };
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        Pool   *pool = pool_new(NULL, "test");
        PGraph *g = make_layered(pool, graphs[i].nodes, graphs[i].seed);
        Plan   *all, *plan;
        CHECK_OK(plan_keep_all(pool, g, &all));
        PlanOptions options = { .budget_bytes = (int64_t)ceil(0.55 * (double)all->live_bytes),
                                .effort = plan_default_effort(g->n_nodes) / 5 };
        CHECK_OK(plan_solve(pool, g, &options, &plan));
        CHECK_OK(plan_check(g, plan, options.budget_bytes));
        double extra = 100 * (plan->cost / plan->base_cost - 1);
        printf("layered graph of %d nodes: %.1f %%\n", g->n_nodes, extra);
        sum += extra;
        pool_free(pool);
    }
    CHECK(sum < 50);
}

/* A huge irregular graph: a better order alone takes an eighth of its peak away, and a small effort
 * finds a plan where the input order has none. Earlier versions refused 0.80. */
static void huge_irregular_graphs_are_reordered(void)
{
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g = make_layered(pool, 6000, 1);
    Plan   *all, *plan;
    RunList order;
    CHECK_OK(plan_keep_all(pool, g, &all));
    SolverArgs args = { .task = task_new(pool, g), .budget_bytes = LOWEST };
    solve_order(pool, &args, &order);
    CHECK_INT(order.n, g->n_nodes);
    CHECK((double)order.peak_bytes < 0.9 * (double)all->live_bytes);
    Schedule *again = schedule_new(pool, task_reorder(pool, args.task, order.node));
    CHECK_INT(schedule_load(again, 0).peak_bytes, order.peak_bytes);
    PlanOptions options = { .budget_bytes = order.peak_bytes, .effort = 100000 };
    CHECK_OK(plan_solve(pool, g, &options, &plan));
    CHECK_NEAR(plan->cost, plan->base_cost, 0);
    options.budget_bytes = all->live_bytes * 4 / 5;
    CHECK_OK(plan_solve(pool, g, &options, &plan));
    CHECK_OK(plan_check(g, plan, options.budget_bytes));
    CHECK(plan->cost < 1.1 * plan->base_cost);
    pool_free(pool);
}

/* Budgets between the rungs, asked one after the other: a larger one is never slower. */
static void asked_budgets_are_monotone(void)
{
    Pool       *pool = pool_new(NULL, "test");
    PGraph     *g = make_layered(pool, 60, 4);
    Plan       *all, *plan;
    PlanOptions options = { .effort = 20000 };
    double      before = DBL_MAX;
    CHECK_OK(plan_keep_all(pool, g, &all));
    PlanSearch *search = plan_search_new(pool, g, &options);
    for (int k = 0; k < 24; k++) {
        int64_t budget = all->live_bytes * 7 / 10 + all->live_bytes * k / 80;
        Err     err = plan_search_within(pool, search, budget, &plan);
        CHECK(err == OK || (err == E_BUDGET && before == DBL_MAX));
        if (err)
            continue;
        CHECK(plan->cost <= before);
        before = plan->cost;
    }
    CHECK(before < DBL_MAX);
    pool_free(pool);
}

int main(void)
{
    RUN(huge_irregular_graphs_are_reordered);
    RUN(asked_budgets_are_monotone);
    RUN(groups_keep_the_schedule_true);
    RUN(irregular_orders_are_found);
    RUN(odd_views_are_planned);
    RUN(edges);
    RUN(brute_force_agrees);
    RUN(more_states_are_searched);
    RUN(annealer_is_close);
    RUN(odd_graphs_are_planned);
    RUN(more_memory_is_never_slower);
    RUN(curve_falls);
    RUN(arenas_are_checked);
    RUN(no_worse_than_per_block);
    RUN(time_only_cuts);
    RUN(published_optima);
    return test_end();
}
