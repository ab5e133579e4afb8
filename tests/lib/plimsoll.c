/* plimsoll.c -- the library's calls: answers checked here by plain loops, wrong arguments
 * reported. */
#include "test.h"

#include "lib/plimsoll.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static plimsoll_error error;

static void says(const char *text)
{
    if (!CHECK(strstr(error.text, text) != NULL))
        fprintf(stderr, "  said: %s\n", error.text);
}

/* ---- buffers ---- */

static void buffers_lie_apart(void)
{
    plimsoll_buffer b[] = { { .lower = 0, .upper = 4, .size = 10 },
                            { .lower = 0, .upper = 2, .size = 20 },
                            { .lower = 2, .upper = 5, .size = 20 },
                            { .lower = 4, .upper = 5, .size = 10 } };
    plimsoll_arena  arena;
    CHECK_INT(plimsoll_place(b, 4, NULL, &arena, &error), PLIMSOLL_OK);
    CHECK_TEXT(error.text, "");
    CHECK_INT(arena.bytes, 30);
    CHECK_INT(arena.bound_bytes, 30);
    CHECK(arena.proved && !arena.cut);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            CHECK(b[i].upper <= b[j].lower || b[j].upper <= b[i].lower ||
                  b[i].offset + b[i].size <= b[j].offset || b[j].offset + b[j].size <= b[i].offset);
}

static void a_capacity_may_be_too_small(void)
{
    plimsoll_buffer        b[] = { { .upper = 1, .size = 10 }, { .upper = 1, .size = 20 } };
    plimsoll_place_options tight = { .capacity = 29 };
    plimsoll_arena         arena;
    CHECK_INT(plimsoll_place(b, 2, &tight, &arena, &error), PLIMSOLL_DOES_NOT_FIT);
    says("30");
    CHECK_INT(arena.bytes, 30);
    CHECK(b[0].offset != b[1].offset); /* the smallest layout found is filled in */
    tight.capacity = 30;
    CHECK_INT(plimsoll_place(b, 2, &tight, NULL, NULL), PLIMSOLL_OK);
}

static void fixed_buffers_remain(void)
{
    plimsoll_buffer b[] = { { .upper = 1, .size = 8, .offset = 64, .fixed = true },
                            { .upper = 1, .size = 100, .align = 32, .offset = 7 } };
    plimsoll_arena  arena;
    CHECK_INT(plimsoll_place(b, 2, NULL, &arena, &error), PLIMSOLL_OK);
    CHECK_INT(b[0].offset, 64);
    CHECK_INT(b[1].offset, 96);
    CHECK_INT(arena.bytes, 196);
    b[1].fixed = true;
    b[1].offset = 60;
    CHECK_INT(plimsoll_place(b, 2, NULL, &arena, &error), PLIMSOLL_FAILED);
    CHECK_INT(b[1].offset, 60);
}

static void places_that_make_no_sense(void)
{
    plimsoll_buffer b = { .lower = 3, .upper = 3, .size = 1 };
    CHECK_INT(plimsoll_place(&b, 1, NULL, NULL, &error), PLIMSOLL_FAILED);
    b = (plimsoll_buffer){ .upper = 1, .size = 0 };
    CHECK_INT(plimsoll_place(&b, 1, NULL, NULL, &error), PLIMSOLL_FAILED);
    b.size = 1;
    CHECK_INT(plimsoll_place(&b, 1, &(plimsoll_place_options){ .effort = -2 }, NULL, &error),
              PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_place(&b, 1, &(plimsoll_place_options){ .capacity = -1 }, NULL, &error),
              PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_place(&b, 1, &(plimsoll_place_options){ .time_limit_s = NAN }, NULL, &error),
              PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_place(NULL, 0, NULL, NULL, &error), PLIMSOLL_OK);
}

/* ---- plans ---- */

/* A forward chain of n values of 100 bytes and a backward chain that reads each of them, as in a
 * training step. A last node updates the parameters. */
static plimsoll_graph *step(int n)
{
    plimsoll_graph *g = plimsoll_graph_new();
    int32_t         w = plimsoll_value(g, 50, PLIMSOLL_PERSISTENT);
    int32_t        *x = malloc(sizeof *x * (size_t)n), grad = -1;
    for (int i = 0; i < n; i++) {
        int32_t in[] = { w, i ? x[i - 1] : w };
        x[i] = plimsoll_value(g, 100, 0);
        plimsoll_node(g, 10, 0, in, 2, &x[i], 1);
    }
    for (int i = n - 1; i >= 0; i--) {
        int32_t in[] = { w, x[i], grad }, out = plimsoll_value(g, 100, 0);
        plimsoll_node(g, 20, 30, in, grad < 0 ? 2 : 3, &out, 1);
        grad = out;
    }
    plimsoll_node(g, 5, 0, (int32_t[]){ w, grad }, 2, &w, 1);
    free(x);
    return g;
}

/* Runs the steps: what a run reads must be live. Returns the largest sum of live bytes. */
static int64_t played(const plimsoll_plan *plan, int n)
{
    int     nodes = 2 * n + 1, values = 2 * n + 1;
    bool   *live = calloc((size_t)values, 1);
    int    *runs = calloc((size_t)nodes, sizeof *runs);
    int64_t peak = 0, now = 50;
    live[0] = true;
    for (size_t s = 0; s < plan->n_steps; s++) {
        int32_t id = plan->steps[s].id;
        if (plan->steps[s].kind == PLIMSOLL_DROP) {
            CHECK(live[id]);
            live[id] = false;
            now -= 100;
            continue;
        }
        if (!CHECK_INT(plan->steps[s].kind, PLIMSOLL_RUN))
            continue;
        int back = id - n;                              /* values: 0 w, 1..n x, n+1..2n gradients */
        CHECK(id == 0 || id >= n || live[id]);          /* x[id-1] is value id */
        CHECK(back < 0 || back >= n || live[n - back]); /* its x */
        CHECK(back <= 0 || back > n || live[n + back]); /* the gradient before */
        runs[id]++;
        if (id < 2 * n && !live[id + 1]) {
            live[id + 1] = true;
            now += 100;
        }
        int64_t at = now + (back >= 0 && back < n ? 30 : 0);
        peak = at > peak ? at : peak;
    }
    for (int i = 0; i < nodes; i++)
        CHECK(runs[i] >= 1);
    CHECK_INT(runs[2 * n], 1); /* an update is never repeated */
    free(live);
    free(runs);
    return peak;
}

static void live_ranges_lie_apart(const plimsoll_plan *plan)
{
    int64_t top = 0;
    for (size_t i = 0; i < plan->n_live_ranges; i++) {
        const plimsoll_live_range *a = &plan->live_ranges[i];
        top = a->offset + a->bytes > top ? a->offset + a->bytes : top;
        CHECK((a->value < 0) != (a->node < 0));
        for (size_t j = 0; j < i; j++) {
            const plimsoll_live_range *b = &plan->live_ranges[j];
            CHECK(a->last_step < b->first_step || b->last_step < a->first_step ||
                  a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    }
    CHECK_INT(top, plan->arena_bytes);
}

static void plans_keep_within_budgets(void)
{
    enum { N = 12 };
    plimsoll_graph *g = step(N);
    plimsoll_plan  *plan;
    CHECK_INT(plimsoll_nodes(g), 2 * N + 1);
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, &error), PLIMSOLL_OK);
    int64_t all = plan->live_bytes;
    CHECK_INT(all, 50 + 100 * N + 100 + 30);
    CHECK_NEAR(plan->cost, plan->base_cost, 0);
    CHECK_NEAR(plan->cost, 30 * N + 5, 1e-9);
    CHECK_INT(plan->arena_bytes, 0);
    CHECK(!plan->live_ranges && plan->n_live_ranges == 0);
    CHECK_INT(played(plan, N), all);
    plimsoll_plan_free(plan);
    double last = 30 * N + 5;
    for (int64_t budget = all; budget >= 700; budget -= 100) {
        plimsoll_plan_options o = { .budget_bytes = budget, .effort = 2000, .place = true };
        CHECK_INT(plimsoll_find_plan(g, &o, &plan, &error), PLIMSOLL_OK);
        CHECK(plan->arena_bytes <= budget && plan->live_bytes <= plan->arena_bytes);
        CHECK_INT(played(plan, N), plan->live_bytes);
        CHECK(plan->cost >= last);
        last = plan->cost;
        live_ranges_lie_apart(plan);
        plimsoll_plan_free(plan);
    }
    CHECK(last > 30 * N + 5); /* it did recompute */
    plimsoll_graph_free(g);
}

static void what_does_not_fit_names_the_minimum(void)
{
    plimsoll_graph       *g = step(8);
    plimsoll_plan        *plan;
    plimsoll_plan_options o = { .budget_bytes = 300, .effort = 2000, .place = true };
    CHECK_INT(plimsoll_find_plan(g, &o, &plan, &error), PLIMSOLL_DOES_NOT_FIT);
    says("300");
    CHECK(plan->arena_bytes > 300 && plan->bound_bytes > 300);
    live_ranges_lie_apart(plan);
    o.budget_bytes = plan->arena_bytes; /* that budget is accepted */
    plimsoll_plan_free(plan);
    CHECK_INT(plimsoll_find_plan(g, &o, &plan, &error), PLIMSOLL_OK);
    CHECK_INT(plan->arena_bytes, o.budget_bytes);
    plimsoll_plan_free(plan);
    plimsoll_graph_free(g);
}

/* x is produced, a view of it is read, then x is taken over in place; the host may hold idle
 * values. */
static void graphs_can_say_more(void)
{
    plimsoll_graph *g = plimsoll_graph_new();
    int32_t         in = plimsoll_value(g, 8, PLIMSOLL_PERSISTENT), x = plimsoll_value(g, 64, 0);
    int32_t         seen = plimsoll_view(g, x, 0), again = plimsoll_view(g, seen, 0);
    int32_t         y = plimsoll_value(g, 64, PLIMSOLL_FINAL);
    plimsoll_plan  *plan;
    plimsoll_align(g, 16);
    plimsoll_once(g, plimsoll_node(g, 1, 0, &in, 1, &x, 1));
    plimsoll_node(g, 0, 0, &x, 1, (int32_t[]){ seen, again }, 2);
    int32_t last = plimsoll_node(g, 1, 0, (int32_t[]){ again, x }, 2, &y, 1);
    plimsoll_in_place(g, last, y, x);
    CHECK_INT(plimsoll_find_plan(g, &(plimsoll_plan_options){ .place = true }, &plan, &error),
              PLIMSOLL_OK);
    CHECK_TEXT(error.text, "");
    CHECK_INT(plan->live_bytes, 72); /* y has x's bytes */
    CHECK_INT(plan->arena_bytes, 80);
    CHECK_INT(plan->n_live_ranges, 3);
    CHECK_INT(plan->live_ranges[0].value, in);
    CHECK_INT(plan->live_ranges[1].offset, 16);
    CHECK_INT(plan->live_ranges[2].offset, 16);
    plimsoll_plan_free(plan);
    plimsoll_graph_free(g);

    g = plimsoll_graph_new(); /* as tests/plan/offload.c has it */
    int32_t a = plimsoll_value(g, 10, 0), b = plimsoll_value(g, 20, 0);
    int32_t c = plimsoll_value(g, 20, 0), d = plimsoll_value(g, 1, PLIMSOLL_FINAL);
    plimsoll_node(g, 300, 0, NULL, 0, &a, 1); /* expensive: offloaded, not recomputed */
    plimsoll_node(g, 40, 0, &a, 1, &b, 1);
    plimsoll_node(g, 40, 0, &b, 1, &c, 1);
    plimsoll_node(g, 1, 0, (int32_t[]){ a, c }, 2, &d, 1);
    plimsoll_bandwidth(g, 2, 5);
    plimsoll_once(g, 0);
    plimsoll_plan_options tight = { .budget_bytes = 40, .effort = 1000 };
    CHECK_INT(plimsoll_find_plan(g, &tight, &plan, &error), PLIMSOLL_OK);
    CHECK(plan->live_bytes <= 40);
    int copies = 0;
    for (size_t s = 0; s < plan->n_steps; s++)
        copies += plan->steps[s].kind == PLIMSOLL_SAVE || plan->steps[s].kind == PLIMSOLL_LOAD;
    CHECK_INT(copies, 2);
    CHECK_INT(plan->host_bytes, 10);
    CHECK_NEAR(plan->cost, plan->base_cost + 2, 1e-9); /* only the load is waited for */
    plimsoll_plan_free(plan);
    plimsoll_graph_free(g);
}

static void wrong_graphs_are_said(void)
{
    plimsoll_graph *g = plimsoll_graph_new();
    plimsoll_plan  *plan = (plimsoll_plan *)&error;
    int32_t         x = plimsoll_value(g, 8, 0), none = 7;
    CHECK_INT(plimsoll_node(g, 1, 0, &none, 1, &x, 1), -1);
    CHECK_INT(plimsoll_view(g, 9, 0), -1);
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, &error), PLIMSOLL_USAGE);
    CHECK(plan == NULL);
    says("node 0: input 0 is value 7, which is not there"); /* the first of the two */
    plimsoll_graph_free(g);

    g = plimsoll_graph_new();
    CHECK_INT(plimsoll_value(g, 8, 64), -1);
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, &error), PLIMSOLL_USAGE);
    says("0x40");
    plimsoll_graph_free(g);

    g = plimsoll_graph_new();
    plimsoll_value(g, 8, 0); /* no node produces it */
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, &error), PLIMSOLL_FAILED);
    says("must be persistent");
    plimsoll_graph_free(g);

    g = step(3);
    plimsoll_in_place(g, 99, 0, 0);
    CHECK_INT(plimsoll_graph_write(g, "/nowhere", &error), PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, NULL), PLIMSOLL_USAGE);
    plimsoll_graph_free(g);

    g = step(3);
    plimsoll_in_place(g, 0, -5, 3);
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, &error), PLIMSOLL_FAILED);
    plimsoll_graph_free(g);
    g = step(3);
    plimsoll_align(g, 24);
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, &error), PLIMSOLL_FAILED);
    says("power of two");
    plimsoll_align(g, 1);
    CHECK_INT(plimsoll_find_plan(g, &(plimsoll_plan_options){ .effort = -1 }, &plan, &error),
              PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_find_plan(g, &(plimsoll_plan_options){ .budget_bytes = -1 }, &plan, &error),
              PLIMSOLL_USAGE);
    CHECK(plimsoll_value_name(g, 99) == NULL && plimsoll_node_name(g, -1) == NULL);

    /* missing pointers, such as a graph that could not be read */
    CHECK_INT(plimsoll_place(NULL, 3, NULL, NULL, &error), PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_find_plan(NULL, NULL, &plan, &error), PLIMSOLL_USAGE);
    CHECK(plan == NULL && strstr(error.text, "the graph is NULL") != NULL);
    CHECK_INT(plimsoll_find_plan(g, NULL, NULL, &error), PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_graph_write(NULL, "x.json", &error), PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_graph_write(g, NULL, &error), PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_graph_read("x.json", NULL, &error), PLIMSOLL_USAGE);
    plimsoll_graph *absent = g;
    CHECK_INT(plimsoll_graph_read(NULL, &absent, &error), PLIMSOLL_USAGE);
    CHECK(absent == NULL);
    CHECK_INT(plimsoll_value(absent, 1, 0), -1);
    CHECK_INT(plimsoll_view(absent, 0, 0), -1);
    CHECK_INT(plimsoll_node(absent, 1, 0, NULL, 0, NULL, 0), -1);
    plimsoll_once(absent, 0);
    plimsoll_in_place(absent, 0, 0, 0);
    plimsoll_align(absent, 1);
    plimsoll_bandwidth(absent, 1, 1);
    CHECK_INT(plimsoll_values(absent) + plimsoll_nodes(absent), 0);
    plimsoll_graph_free(g);
    plimsoll_graph_free(NULL);
    plimsoll_plan_free(NULL);
}

static void files_hold_the_same_graph(void)
{
    char                  path[] = "/tmp/plimsoll-lib-XXXXXX";
    plimsoll_graph       *g = step(9), *read;
    plimsoll_plan        *a, *b;
    plimsoll_plan_options o = { .budget_bytes = 700, .effort = 1000 };
    close(mkstemp(path));
    CHECK_INT(plimsoll_graph_write(g, path, &error), PLIMSOLL_OK);
    CHECK_INT(plimsoll_graph_read(path, &read, &error), PLIMSOLL_OK);
    unlink(path);
    CHECK_INT(plimsoll_values(read), plimsoll_values(g));
    CHECK_TEXT(plimsoll_node_name(read, 3), "3");
    CHECK_INT(plimsoll_find_plan(g, &o, &a, &error), PLIMSOLL_OK);
    CHECK_INT(plimsoll_find_plan(read, &o, &b, &error), PLIMSOLL_OK);
    CHECK_INT(a->n_steps, b->n_steps);
    for (size_t s = 0; s < a->n_steps && s < b->n_steps; s++)
        CHECK(a->steps[s].kind == b->steps[s].kind && a->steps[s].id == b->steps[s].id);
    plimsoll_plan_free(a);
    plimsoll_plan_free(b);
    int32_t more = plimsoll_value(read, 10, PLIMSOLL_FINAL); /* a graph that was read can be
                                                                  * extended */
    plimsoll_node(read, 1, 0, (int32_t[]){ 1 }, 1, &more, 1);
    CHECK_INT(plimsoll_find_plan(read, NULL, &a, &error), PLIMSOLL_OK);
    plimsoll_plan_free(a);
    plimsoll_graph_free(read);
    plimsoll_graph_free(g);
    CHECK_INT(plimsoll_graph_read("/nowhere/graph.json", &read, &error), PLIMSOLL_FAILED);
    says("/nowhere/graph.json");
    CHECK(read == NULL);
}

static void *plans(void *cost)
{
    plimsoll_graph       *g = step(10);
    plimsoll_plan        *plan;
    plimsoll_plan_options o = { .budget_bytes = 800, .effort = 1500, .place = true };
    *(double *)cost = plimsoll_find_plan(g, &o, &plan, NULL) ? -1 : plan->cost;
    plimsoll_plan_free(plan);
    plimsoll_graph_free(g);
    return NULL;
}

static void several_threads_get_one_answer(void)
{
    pthread_t threads[4];
    double    cost[4];
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, plans, &cost[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(cost[i], cost[0], 0);
    CHECK(cost[0] > 0);
    CHECK(strlen(plimsoll_version()) >= 5);
}

/* ---- memory that runs out ---- */

#ifdef __SANITIZE_ADDRESS__ /* it has a calloc of its own, whose blocks it must free itself */
static void memory_runs_out(void) { SKIP("the address sanitizer has a calloc of its own"); }
#else
extern void      *__libc_calloc(size_t, size_t);
static atomic_int allocations_left = -1; /* -1: any number */

void *calloc(size_t n, size_t size) /* what pools are made of */
{
    int left = atomic_load(&allocations_left);
    if (left == 0)
        return NULL;
    if (left > 0)
        atomic_store(&allocations_left, left - 1);
    return __libc_calloc(n, size);
}

/* The n-th allocation fails, and all after it, for every n: each call returns, and with enough
 * memory gives the answer that it gave before. */
static void memory_runs_out(void)
{
    atomic_store(&allocations_left, 0);
    void *volatile block = calloc(1, 1); /* volatile: or the compiler leaves the call out */
    atomic_store(&allocations_left, -1);
    free(block);
    if (block) {
        SKIP("another calloc is in place of this test's, as under valgrind");
        return;
    }
    plimsoll_plan_options o = { .budget_bytes = 800, .effort = 200, .place = true };
    plimsoll_graph       *g = step(10);
    plimsoll_plan        *plan;
    CHECK_INT(plimsoll_find_plan(g, &o, &plan, &error), PLIMSOLL_OK); /* also wakes OpenMP */
    double cost = plan->cost;
    int    refused = 0, n = 0;
    plimsoll_plan_free(plan);
    for (plimsoll_status status = PLIMSOLL_FAILED; status && n < 100000; n += 1 + n / 20) {
        atomic_store(&allocations_left, n);
        status = plimsoll_find_plan(g, &o, &plan, &error);
        atomic_store(&allocations_left, -1);
        CHECK_INT(!plan, status != PLIMSOLL_OK);
        refused += status == PLIMSOLL_FAILED && !strcmp(error.text, "out of memory");
        if (!status)
            CHECK_NEAR(plan->cost, cost, 0);
        plimsoll_plan_free(plan);
    }
    CHECK(refused > 3);
    plimsoll_graph_free(g);

    plimsoll_buffer b[300];
    for (int i = 0; i < 300; i++)
        b[i] = (plimsoll_buffer){ .lower = i, .upper = i + 9, .size = 10 + i % 7 };
    atomic_store(&allocations_left, 1);
    plimsoll_status status = plimsoll_place(b, 300, NULL, NULL, &error);
    atomic_store(&allocations_left, 0);
    plimsoll_graph *none = plimsoll_graph_new();
    atomic_store(&allocations_left, -1);
    CHECK_INT(status, PLIMSOLL_FAILED);
    says("out of memory");
    CHECK(!none);

    g = plimsoll_graph_new();
    atomic_store(&allocations_left, 0);
    int32_t last = 0;
    for (int i = 0; i < 10000 && last >= 0; i++)
        last = plimsoll_value(g, 100, 0);
    atomic_store(&allocations_left, -1);
    CHECK_INT(last, -1);
    CHECK_INT(plimsoll_find_plan(g, NULL, &plan, &error), PLIMSOLL_USAGE);
    says("out of memory");
    plimsoll_graph_free(g);
}
#endif

/* ---- PyTorch's allocator ---- */

static void torch_requests_are_placed(void)
{
    plimsoll_torch_event e[] = { { PLIMSOLL_TORCH_ALLOC, 0, 1048577 },
                                 { PLIMSOLL_TORCH_MARK },
                                 { PLIMSOLL_TORCH_ALLOC, 1, 1 },
                                 { PLIMSOLL_TORCH_FREE, 0 },
                                 { PLIMSOLL_TORCH_FREE, 1 },
                                 { PLIMSOLL_TORCH_EMPTY },
                                 { PLIMSOLL_TORCH_MARK } };
    plimsoll_torch_peak  peaks[3];
    plimsoll_torch_block blocks[7];
    CHECK_INT(plimsoll_torch_replay(NULL, 0, e, 7, peaks, blocks, &error), PLIMSOLL_OK);
    CHECK_INT(peaks[0].allocated_bytes, 1049088);
    CHECK_INT(peaks[0].reserved_bytes, 20 << 20);
    CHECK_INT(peaks[1].allocated_bytes, 1049088 + 512);
    CHECK_INT(peaks[1].allocated_event, 2);
    CHECK_INT(peaks[1].reserved_bytes, 22 << 20);
    CHECK_INT(peaks[2].reserved_bytes, 0);
    CHECK_INT(blocks[1].segment, -1);
    CHECK_INT(blocks[2].segment, 1);
    CHECK_INT(blocks[2].bytes, 512);
    CHECK_INT(plimsoll_torch_replay(NULL, 1 << 20, e, 7, peaks, NULL, &error),
              PLIMSOLL_DOES_NOT_FIT);
    says("1048577");
}

static void wrong_torch_requests_are_refused(void)
{
    plimsoll_torch_event e[] = { { PLIMSOLL_TORCH_FREE, 0, 0 } };
    plimsoll_torch_peak  peak;
    CHECK_INT(plimsoll_torch_replay(NULL, 0, e, 1, &peak, NULL, &error), PLIMSOLL_USAGE);
    says("not live");
    e[0] = (plimsoll_torch_event){ PLIMSOLL_TORCH_ALLOC, 1, 8 };
    CHECK_INT(plimsoll_torch_replay(NULL, 0, e, 1, &peak, NULL, &error), PLIMSOLL_USAGE);
    e[0] = (plimsoll_torch_event){ PLIMSOLL_TORCH_ALLOC, 0, 0 };
    CHECK_INT(plimsoll_torch_replay(NULL, 0, e, 1, &peak, NULL, &error), PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_torch_replay("max_split_size_mb:x", 0, e, 0, &peak, NULL, &error),
              PLIMSOLL_USAGE);
    CHECK_INT(plimsoll_torch_replay(NULL, 0, NULL, 1, &peak, NULL, &error), PLIMSOLL_USAGE);
}

int main(void)
{
    RUN(torch_requests_are_placed);
    RUN(wrong_torch_requests_are_refused);
    RUN(buffers_lie_apart);
    RUN(a_capacity_may_be_too_small);
    RUN(fixed_buffers_remain);
    RUN(places_that_make_no_sense);
    RUN(plans_keep_within_budgets);
    RUN(what_does_not_fit_names_the_minimum);
    RUN(graphs_can_say_more);
    RUN(wrong_graphs_are_said);
    RUN(files_hold_the_same_graph);
    RUN(several_threads_get_one_answer);
    RUN(memory_runs_out);
    return test_end();
}
