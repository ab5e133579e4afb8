/* session.c -- what a session promises (docs/dev/MEMORY_MODEL.md): nothing is allocated from the
 * second step on, every pointer given to a kernel is where the plan says, bytes that the plan never
 * assigns stay untouched, and the process holds little more than the arena. */
#include "linalg/linalg.h"
#include "profile/devices.h"
#include "alloc_count.h"
#include "test.h"

#include "ops/optimizer/optim.h"
#include "train/feeds.h"
#include "recipe/recipe.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct Run {
    Pool         *pool;
    Recipe       *recipe;
    Device       *device;
    TrainingGraph graph;
    Engine       *engine;
    Session      *session;
    Feeds         feeds;
} Run;

static const char *recipe_name = "unet-small";
static int         threads = 2;

static Err run_new(Run *r, const char *precision, const char *backend, int accumulate)
{
    r->pool = pool_new(NULL, "run");
    const char *sets[] = { pool_print(r->pool, "precision=%s", precision),
                           pool_print(r->pool, "accumulate=%d", accumulate), "batch=2", "steps=9" };
    const char *path = pool_print(r->pool, SOURCE_DIR "/recipes/%s.yaml", recipe_name);
    TRY(recipe_read(r->pool, path, sets, 4, &r->recipe));
    TRY(device_cpu(r->pool, &(DeviceOptions){ .threads = threads, .backend = backend },
                   &r->device));
    TRY(recipe_graph(r->pool, r->recipe, false, &r->graph));
    TRY(engine_new(r->pool, r->graph.graph, r->device, NULL, &r->engine));
    TRY(session_new(r->pool, r->engine, &r->session));
    TRY(session_init(r->session, 1));
    TRY(feeds_new(r->pool, r->session, PHASE_MICRO, &r->feeds));
    return feeds_open(r->pool, &r->feeds, r->recipe);
}

static Err run_step(Run *r, int64_t step)
{
    int32_t *counters = session_bytes(r->session, r->graph.train.counters.id);
    float   *rates = session_bytes(r->session, r->graph.train.rates.id);
    counters[COUNTER_STEP] = (int32_t)step;
    rates[RATE_GROUPS] = 1e-3f;
    rates[RATE_EMA_DECAY] = 0.9f;
    for (int64_t micro = 0; micro < r->recipe->accumulate; micro++) {
        counters[COUNTER_MICRO] = (int32_t)micro;
        TRY(feeds_fill(&r->feeds, step, step * 4 + micro));
        TRY(session_run(r->session, PHASE_MICRO));
    }
    return session_run(r->session, PHASE_UPDATE);
}

static int count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char  line[512];
    int   n = 0;
    while (file && fgets(line, sizeof line, file))
        n++;
    if (file)
        fclose(file);
    return n;
}

static void no_allocation(const char *backend, const char *precision, int accumulate)
{
    Run r;
    CHECK_OK(run_new(&r, precision, backend, accumulate));
    CHECK_OK(run_step(&r, 0));
    CHECK_OK(run_step(&r, 1));
    int       maps = count_maps();
    void     *heap = sbrk(0);
    long long pools = pool_allocations();
    atomic_store(&alloc_calls, 0);
    atomic_store(&alloc_largest, 0);
    for (int step = 2; step < 5; step++)
        CHECK_OK(run_step(&r, step));
    long long calls = atomic_load(&alloc_calls), largest = atomic_load(&alloc_largest);
    CHECK_INT(pool_allocations(), pools);
    CHECK(largest < 4096);
    CHECK(sbrk(0) == heap);
    if (!strcmp(backend, "builtin"))
        CHECK_INT(calls, 0);
    printf("  %s %s %s x%d: %lld allocations in 3 steps, the largest %lld bytes, arena %lld\n",
           recipe_name, backend, precision, accumulate, calls, largest,
           (long long)r.engine->arena_bytes);
    CHECK_INT(count_maps(), maps);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (phase == PHASE_MICRO || phase == PHASE_UPDATE) /* those that ran */
            CHECK_INT(session_measured_bytes(r.session, (Phase)phase),
                      session_planned_bytes(r.session, (Phase)phase));
    pool_free(r.pool);
}

static void builtin_fp32(void) { no_allocation("builtin", "fp32", 2); }
static void builtin_bf16(void) { no_allocation("builtin", "bf16", 1); }
static void builtin_fp16(void) { no_allocation("builtin", "fp16", 2); }
/* libgomp allocates a team of one for every parallel loop: they must not reach it. */
static void one_thread(void)
{
    static const char *const recipes[] = { "unet-small", "lag-small", "sashimi-small",
                                           "dit3d-wrap-small" };
    threads = 1;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        recipe_name = recipes[i];
        no_allocation("builtin", i ? "fp32" : "bf16", 1);
    }
    recipe_name = recipes[0];
    threads = 2;
}
static void onednn(void)
{
    if (backend_dnnl()) {
        no_allocation("onednn", "fp32", 1);
        no_allocation("onednn", "bf16", 2);
    } else {
        SKIP(backend_why());
    }
}

/* Bytes that belong to no buffer keep their content; those of buffers are written. */
static void canary(void)
{
    Run r;
    CHECK_OK(run_new(&r, "fp32", "builtin", 1));
    const Arena   *arena = session_arena(r.session);
    const Engine  *engine = r.engine;
    unsigned char *owned = calloc((size_t)arena->bytes, 1), *base = (unsigned char *)arena->base;
    for (int32_t v = 0; v < engine->graph->n_values; v++)
        if (engine->offset[v] >= 0)
            memset(owned + engine->offset[v], 1, (size_t)value_at(engine->graph, v)->bytes);
    for (int p = 0; p < engine->n_programs; p++)
        for (int32_t b = 0; b < engine->programs[p].buffers.n_buffers; b++) {
            const Buffer *buffer = &engine->programs[p].buffers.buffers[b];
            memset(owned + engine->persistent_bytes + buffer->offset, 1, (size_t)buffer->size);
        }
    int64_t free_bytes = 0, touched = 0, written = 0;
    for (int64_t i = 0; i < arena->bytes; i++)
        if (!owned[i])
            base[i] = 0xA7, free_bytes++;
    CHECK_OK(run_step(&r, 0));
    CHECK_OK(run_step(&r, 1));
    for (int64_t i = 0; i < arena->bytes; i++) {
        touched += !owned[i] && base[i] != 0xA7;
        written += owned[i] && base[i] != 0;
    }
    CHECK_INT(touched, 0);
    CHECK(written > arena->bytes / 2);
    printf("  %lld bytes belong to no buffer, none was touched\n", (long long)free_bytes);
    free(owned);
    pool_free(r.pool);
}

/* The same steps in another arena give the same bits. */
static void repeats(void)
{
    Run a, b;
    CHECK_OK(run_new(&a, "fp32", NULL, 2));
    CHECK_OK(run_new(&b, "fp32", NULL, 2));
    for (int step = 0; step < 3; step++) {
        CHECK_OK(run_step(&a, step));
        CHECK_OK(run_step(&b, step));
    }
    CHECK(!memcmp(session_arena(a.session)->base, session_arena(b.session)->base,
                  (size_t)a.engine->persistent_bytes));
    pool_free(a.pool);
    pool_free(b.pool);
}

static void resident(void)
{
    Run     r;
    int64_t before = resident_anonymous_bytes();
    CHECK_OK(run_new(&r, "fp32", NULL, 1));
    for (int step = 0; step < 3; step++)
        CHECK_OK(run_step(&r, step));
    int64_t now = resident_anonymous_bytes(), primitives = 0;
    for (int32_t i = 0; i < r.graph.graph->n_nodes; i++)
        primitives += r.engine->choices[i].name != NULL;
    int64_t allowed = r.engine->arena_bytes + (32 << 20) + primitives * (128 << 10) +
                      (int64_t)pool_bytes(r.pool);
    printf("  arena %lld, anonymous resident %lld (before %lld), allowed %lld (host graph %zu)\n",
           (long long)r.engine->arena_bytes, (long long)now, (long long)before, (long long)allowed,
           pool_bytes(r.pool));
    CHECK(now <= allowed);
    pool_free(r.pool);
}

int main(void)
{
    RUN(resident);
    RUN(builtin_fp32);
    RUN(builtin_bf16);
    RUN(builtin_fp16);
    RUN(one_thread);
    RUN(onednn);
    RUN(canary);
    RUN(repeats);
    return test_end();
}
