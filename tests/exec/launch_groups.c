/* launch_groups.c -- launches that run as one: a device that accumulates gradients and updates
 * parameters in groups trains to the same bits as one that runs them one by one.
 *
 * The device is simulated on the CPU: it has the CPU's kernels, and runs several nodes at once
 * where a GPU does. */
#include "test.h"

#include "base/hash.h"
#include "ops/ops.h"
#include "ops/optimizer/optim.h"
#include "train/feeds.h"
#include "fit/fit.h"

#include <stdlib.h>

static int64_t lists, listed; /* calls of more than one node, and their nodes */

static Err fake_run_all(const Call *const *calls, int n)
{
    lists += n > 1;
    listed += n > 1 ? n : 0;
    for (int i = n - 1; i >= 0; i--) /* they are independent: any order is right */
        TRY(calls[i]->node->op->cpu.run(calls[i]));
    return OK;
}

static const Kernel *const *fake_kernels(void)
{
    static Kernel        listing[2];
    static const Kernel *kernels[OP_COUNT];
    for (int i = 0; i < OP_COUNT; i++)
        kernels[i] = &ops_all[i]->cpu;
    for (int i = 0; i < 2; i++) {
        const OpDef *op = i ? &op_adam : &op_accumulate;
        listing[i] = op->cpu;
        listing[i].run_all = fake_run_all;
        kernels[op->id] = &listing[i];
    }
    return kernels;
}

static Err fake_alloc(const Device *device, int64_t bytes, void **base)
{
    (void)device;
    *base = aligned_alloc(64, ((size_t)bytes + 64) / 64 * 64);
    memset(*base, 0, (size_t)bytes);
    return OK;
}

static void fake_free(const Device *device, void *base)
{
    (void)device;
    free(base);
}

static Err fake_copy(const Device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return OK;
}

static Err fake_wait(const Device *device)
{
    (void)device;
    return OK;
}

static Err fake_event_new(const Device *device, void **event)
{
    (void)device;
    *event = calloc(1, 1);
    return OK;
}

static Err fake_event(const Device *device, void *event)
{
    (void)device, (void)event;
    return OK;
}

static const DeviceApi fake_api = { .alloc = fake_alloc,
                                    .free = fake_free,
                                    .alloc_host = fake_alloc,
                                    .free_host = fake_free,
                                    .write = fake_copy,
                                    .read = fake_copy,
                                    .wait = fake_wait,
                                    .event_new = fake_event_new,
                                    .event_free = fake_free,
                                    .event = fake_event,
                                    .event_wait = fake_event };

/* Two steps; a digest of all parameters and their state. */
static uint64_t train(Pool *pool, const FitResult *fit)
{
    const TrainGraph *train = &fit->graph.train;
    const Graph      *graph = fit->engine->graph;
    int32_t           counters[COUNTER_WORDS];
    float             rates[RATE_GROUPS + 2] = { 0.9f, 1e-3f, 1e-3f };
    uint64_t          digest = HASH_EMPTY;
    Session          *session;
    Feeds             feeds;
    CHECK_OK(session_new(pool, fit->engine, &session));
    CHECK_OK(session_init(session, 1));
    CHECK_OK(feeds_new(pool, session, PHASE_MICRO, &feeds));
    CHECK_OK(feeds_open(pool, &feeds, fit->recipe));
    CHECK_OK(session_read(session, train->counters.id, counters));
    CHECK_OK(session_write(session, train->rates.id, rates));
    for (int step = 0; step < 2; step++) {
        counters[COUNTER_STEP] = step;
        for (int64_t micro = 0; micro < fit->recipe->accumulate; micro++) {
            int64_t at = step * fit->recipe->accumulate + micro;
            counters[COUNTER_MICRO] = (int32_t)micro;
            CHECK_OK(session_write(session, train->counters.id, counters));
            CHECK_OK(feeds_fill(&feeds, at, at * fit->recipe->batch));
            CHECK_OK(session_run(session, PHASE_MICRO));
        }
        CHECK_OK(session_run(session, PHASE_UPDATE));
    }
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param  *p = &graph->params[i];
        const int32_t ids[] = { p->value, p->m, p->v, p->ema, p->master };
        for (int j = 0; j < 5; j++) {
            size_t bytes = ids[j] >= 0 ? (size_t)value_at(graph, ids[j])->bytes : 0;
            void  *copy = pool_alloc(pool, bytes + 1, 1);
            if (ids[j] < 0)
                continue;
            CHECK_OK(session_read(session, ids[j], copy));
            digest = hash_bytes(digest, copy, bytes);
        }
    }
    return digest;
}

/* min: of nodes that must have run in groups. budget: as a share of everything kept. */
static void trains_the_same(const char *name, const char *accumulate, const char *clip,
                            bool release, double budget, int64_t min)
{
    Pool       *pool = pool_new(NULL, "together");
    const char *sets[] = { pool_print(pool, "accumulate=%s", accumulate),
                           pool_print(pool, "optimizer.clip=%s", clip), "precision=bf16" };
    Recipe     *recipe;
    Device     *device, *grouping = NEW(pool, Device);
    FitOptions  how = { .allow = ALLOW_NONE, .effort = 2000 };
    FitResult   fit;
    CHECK_OK(
        recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, 3, &recipe));
    recipe->levers.release = release;
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    *grouping = *device;
    grouping->api = &fake_api;
    grouping->kernels = fake_kernels();
    lists = listed = 0;
    CHECK_OK(fit_plan(pool, recipe, device, &how, &fit));
    how.budget_bytes = (int64_t)((double)fit.engine->arena_bytes * budget);
    uint64_t want = train(pool, &fit);
    CHECK_INT(lists, 0);
    CHECK_OK(fit_plan(pool, recipe, grouping, &how, &fit));
    CHECK(train(pool, &fit) == want);
    CHECK(listed >= min);
    printf("  %s: %lld nodes in %lld lists\n", name, (long long)listed, (long long)lists);
    pool_free(pool);
}

static void sums_and_updates(void)
{
    trains_the_same("dit3d-small", "2", "1", false, 1, 100);
    trains_the_same("dit3d-small", "1", "0", true, 1, 50);
    trains_the_same("dit3d-small", "2", "1", false, 0.9, 100);
    trains_the_same("lag-small", "2", "1", false, 1, 100);
}

int main(void)
{
    RUN(sums_and_updates);
    return test_end();
}
