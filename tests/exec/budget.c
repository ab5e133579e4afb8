/* budget.c -- a plan changes when and where values are computed, never the values: at every budget
 * from everything kept down to the minimum, three steps give the same bits within the budget. A
 * budget below the minimum is refused, and the minimum that the message names works. */
#include "test.h"

#include "ops/optimizer/optim.h"
#include "train/feeds.h"
#include "recipe/recipe.h"

#include <stdlib.h>

enum { RUNGS = 4, STEPS = 3 };

static int64_t named_minimum(void) /* "... at least 1.2 MiB (1234567 bytes) ..." */
{
    const char *at = strstr(err_text(), "at least"), *open = at ? strchr(at, '(') : NULL;
    return open ? strtoll(open + 1, NULL, 10) : -1;
}

/* Trains and returns a copy of all persistent bytes; NULL with the error if it does not fit. */
static char *run(const char *const *sets, int n_sets, int64_t budget, Err *err, Engine **out,
                 Pool *pool)
{
    Recipe       *recipe;
    Device       *device;
    TrainingGraph graph;
    Session      *session;
    Feeds         feeds;

    *err = recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", sets, n_sets, &recipe);
    *err = *err ? *err : device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device);
    *err = *err ? *err : recipe_graph(pool, recipe, false, &graph);
    *err = *err ? *err
                : engine_new(pool, graph.graph, device,
                             &(EngineOptions){ .budget_bytes = budget, .effort = 20000 }, out);
    if (*err)
        return NULL;
    CHECK_OK(session_new(pool, *out, &session));
    CHECK_OK(session_init(session, 1));
    CHECK_OK(feeds_new(pool, session, PHASE_MICRO, &feeds));
    CHECK_OK(feeds_open(pool, &feeds, recipe));
    int32_t *counters = session_bytes(session, graph.train.counters.id);
    float   *rates = session_bytes(session, graph.train.rates.id);
    for (int step = 0; step < STEPS; step++) {
        counters[COUNTER_STEP] = step;
        rates[RATE_GROUPS] = 1e-3f;
        rates[RATE_EMA_DECAY] = 0.9f;
        for (int micro = 0; micro < recipe->accumulate; micro++) {
            counters[COUNTER_MICRO] = micro;
            CHECK_OK(feeds_fill(&feeds, 0, step * 8 + micro * 4));
            CHECK_OK(session_run(session, PHASE_MICRO));
        }
        CHECK_OK(session_run(session, PHASE_UPDATE));
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        CHECK_INT(session_measured_bytes(session, (Phase)phase),
                  session_planned_bytes(session, (Phase)phase));
    char *bytes = pool_alloc(pool, (size_t)(*out)->persistent_bytes, 1);
    memcpy(bytes, session_arena(session)->base, (size_t)(*out)->persistent_bytes);
    return bytes;
}

static void ladder(const char *const *sets, int n_sets)
{
    Pool   *pool = pool_new(NULL, "ladder");
    Engine *keep, *engine;
    Err     err;
    char   *want = run(sets, n_sets, 0, &err, &keep, pool);
    CHECK_OK(err);
    CHECK(!run(sets, n_sets, keep->persistent_bytes + 1, &err, &engine, pool));
    CHECK_INT(err, E_BUDGET);
    int64_t min = named_minimum(), max = keep->arena_bytes;
    CHECK(min > keep->persistent_bytes && min < max);
    printf("  everything kept %lld, minimum %lld, state %lld\n", (long long)max, (long long)min,
           (long long)keep->persistent_bytes);
    for (int rung = 0; rung <= RUNGS; rung++) {
        int64_t budget = min + (max - min) * (RUNGS - rung) / RUNGS;
        Pool   *one = pool_new(pool, "rung");
        char   *got = run(sets, n_sets, budget, &err, &engine, one);
        CHECK_OK(err);
        if (!err) {
            CHECK(engine->arena_bytes <= budget);
            CHECK(!memcmp(got, want, (size_t)keep->persistent_bytes));
            printf("  budget %9lld: arena %9lld, %3d recomputed, predicted %+.1f %%\n",
                   (long long)budget, (long long)engine->arena_bytes, engine->recomputed,
                   100 * (engine->cost_ns / engine->keep_all_ns - 1));
        }
        pool_free(one);
    }
    /* A rung below, not a byte: the minimum is the smallest arena that one search found, and
     * another search may find a slightly smaller one. */
    CHECK(!run(sets, n_sets, min - (max - min) / RUNGS, &err, &engine, pool));
    CHECK_INT(err, E_BUDGET);
    pool_free(pool);
}

#define SMALL "batch=2", "model.widths=[8, 16]", "model.groups=4", "model.height=8", "model.width=8"

static void accumulated(void) { ladder((const char *const[]){ SMALL, "accumulate=2" }, 6); }
static void joined(void)
{
    ladder((const char *const[]){ SMALL, "accumulate=1", "optimizer.clip=0" }, 7);
}

int main(void)
{
    RUN(accumulated);
    RUN(joined);
    return test_end();
}
