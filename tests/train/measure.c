/* measure.c -- times of a recipe's operators, written to a profile and found again: a plan made
 * with them uses measurements alone, and its predicted step is the measured one. No check is about
 * speed. */
#include "train/measure.h"

#include "profile/probe.h"
#include "test.h"

#include <unistd.h>

static Pool *pool;

static void found_again(const char *name, const char *set)
{
    Recipe  *recipe;
    Device  *device;
    Measured m;
    Profile *profile = NEW(pool, Profile);
    CHECK_OK(recipe_read(pool, name, &set, set != NULL, &recipe));
    CHECK_OK(device_cpu(pool, NULL, &device));
    ProbeOptions tiny = { .bandwidth_bytes = 1 << 16, .largest_flops = 1e6, .seconds = 1e-4 };
    CHECK_OK(probe_rates(pool, device, &tiny, profile));
    CHECK_OK(measure_recipe(pool, recipe, device, &(MeasureOptions){ .seconds = 0 }, profile, &m));
    CHECK(m.calls > 20 && m.calls <= m.nodes && profile->n_ops == m.calls);
    CHECK(m.step_ms > 0 && m.nodes_ms > 0 && m.runtime_bytes > 0);
    CHECK_INT(profile->n_tight, 1);
    CHECK(profile->tight[0].saved > 0 && profile->tight[0].saved < 1);
    CHECK(profile->tight[0].ratio > 0 && isfinite(profile->tight[0].ratio));
    profile_ready(pool, profile);
    for (int32_t i = 0; i < profile->n_ops; i++)
        CHECK(profile->ops[i].ns > 0 && isfinite(profile->ops[i].ns));

    device->profile = profile;
    Stopwatch    *plan;
    TrainingGraph graph;
    Engine       *engine;
    CHECK_OK(recipe_graph(pool, recipe, false, &graph)); /* the same keys in another graph */
    CHECK_OK(engine_new(pool, graph.graph, device, NULL, &engine));
    CHECK_NEAR(engine_time_share(engine, TIME_MEASURED), 1, 1e-12);
    CHECK_NEAR(engine_step_ns(engine, recipe->accumulate) * 1e-6 / m.step_ms, 1, 1e-6);
    CHECK_TEXT(engine_time_source(engine), "profile cpu");

    /* Recomputed nodes have the same keys. */
    int64_t tight = engine->persistent_bytes +
                    (engine->arena_bytes - engine->persistent_bytes) * 17 / 20;
    EngineOptions budget = { .budget_bytes = tight, .effort = 200 };
    double        ms;
    CHECK_OK(stopwatch_new(pool, recipe, device, &budget, &plan));
    CHECK(stopwatch_engine(plan)->arena_bytes <= tight);
    CHECK_NEAR(engine_time_share(stopwatch_engine(plan), TIME_MEASURED), 1, 1e-12);
    CHECK(stopwatch_engine(plan)->cost_ns >= stopwatch_engine(plan)->keep_all_ns * (1 - 1e-9));
    CHECK_OK(stopwatch_step(plan, &ms));
    CHECK(ms > 0);
    CHECK_NEAR(stopwatch_predict_ms(plan, profile) /
                   (engine_step_ns(stopwatch_engine(plan), recipe->accumulate) * 1e-6),
               1, 1e-9);

    /* The plan with the smallest arena: requested by STOPWATCH_MIN, found again by its bytes. */
    Stopwatch *smallest;
    budget.budget_bytes = STOPWATCH_MIN;
    CHECK_OK(stopwatch_new(pool, recipe, device, &budget, &smallest));
    CHECK_OK(stopwatch_step(smallest, &ms));
    budget.budget_bytes = stopwatch_engine(smallest)->arena_bytes;
    CHECK_OK(stopwatch_new(pool, recipe, device, &budget, &plan));
    CHECK(stopwatch_engine(plan)->arena_bytes <= budget.budget_bytes);
    budget.budget_bytes = 2; /* any other budget that is too small is refused */
    CHECK_INT(stopwatch_new(pool, recipe, device, &budget, &plan), E_BUDGET);

    /* Another batch: no call was measured, but most operators were. */
    if (!set)
        CHECK_OK(recipe_read(pool, name, (const char *[]){ "batch=3" }, 1, &recipe));
    CHECK_OK(recipe_graph(pool, recipe, false, &graph));
    CHECK_OK(engine_new(pool, graph.graph, device, NULL, &engine));
    CHECK_NEAR(engine_time_share(engine, TIME_ROOFLINE), 0, 1e-12);
}

static void plain(void) { found_again("unet-small", NULL); }
static void accumulated(void) { found_again("unet-small", "accumulate=3"); }

static void no_such_data(void)
{
    Recipe     *recipe;
    Device     *device;
    Measured    m;
    Profile    *profile = NEW(pool, Profile);
    const char *set = "data.path=\"nowhere\"";
    CHECK_OK(recipe_read(pool, "unet-small", &set, 1, &recipe));
    CHECK_OK(device_cpu(pool, NULL, &device));
    CHECK(measure_recipe(pool, recipe, device, &(MeasureOptions){ 0 }, profile, &m) != OK);
    CHECK_INT(profile->n_ops, 0);
}

/* A step of 76.7 ms whose operators take 23.5 was once filed without a word. */
static void a_disturbed_step_is_noticed(void)
{
    CHECK(measured_apart(&(Measured){ .step_ms = 76.7, .nodes_ms = 23.5 }));
    CHECK(measured_apart(&(Measured){ .step_ms = 10, .nodes_ms = 25 }));
    CHECK(!measured_apart(&(Measured){ .step_ms = 24.4, .nodes_ms = 23.5 }));
    CHECK(!measured_apart(&(Measured){ .step_ms = 23.5, .nodes_ms = 33 }));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    CHECK(!chdir(SOURCE_DIR));
    RUN(plain);
    RUN(accumulated);
    RUN(no_such_data);
    RUN(a_disturbed_step_is_noticed);
    pool_free(pool);
    return test_end();
}
