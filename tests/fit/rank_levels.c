/* rank_levels.c -- one rank of several: the planner chooses level, buckets and rounds; its plan is
 * never slower than that of any one level, and a file of it reads back. */
#include "test.h"

#include "fit/explained.h"
#include "fit/fit.h"
#include "profile/devices.h"
#include "profile/rank_device.h"

#include <unistd.h>

#define PLAN "rank_levels_test.plan.json"

enum { RANKS = 2 };

static Recipe *unet(Pool *pool, const char *accumulate)
{
    const char *sets[] = { "batch=1",        "model.widths=[8, 16]", "model.groups=4",
                           "model.height=8", "model.width=8",        "data.samples=16",
                           accumulate };
    Recipe     *recipe;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", sets, 7, &recipe));
    recipe->levers.ranks = RANKS;
    recipe->levers.shard = SHARD_DEFAULT;
    return recipe;
}

/* One link with this bandwidth, of which nothing is hidden. */
static Device *device_linked(Pool *pool, double bytes_per_ns)
{
    Wire   *wire = NEW(pool, Wire);
    Device *device;
    *wire = (Wire){ .name = "test", .between = { .bytes_per_ns = bytes_per_ns } };
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 1, .backend = "builtin" }, &device));
    device->ranks = RANKS;
    device->per_node = 1;
    device->wire = wire;
    return device;
}

static const char *changed(const FitResult *r, const char *what)
{
    for (int i = 0; i < r->n_changes; i++)
        if (!strcmp(r->changes[i].what, what))
            return r->changes[i].to;
    return "";
}

static void never_slower_than_one_level(void)
{
    Pool  *pool = pool_new(NULL, "levels");
    double links[] = { 0.01, 1, 100 };
    for (int i = 0; i < 3; i++) {
        Recipe    *recipe = unet(pool, "accumulate=4");
        Device    *device = device_linked(pool, links[i]);
        FitResult  all, one;
        FitOptions how = { .budget_bytes = 1 << 30, .allow = ALLOW_DEFAULT, .shard_auto = true };
        CHECK_OK(fit_run(pool, recipe, device, &how, &all));
        CHECK(all.n_notes > 0); /* says why not another level */
        how.shard_auto = false;
        for (recipe->levers.shard = 0; recipe->levers.shard <= SHARD_MAX; recipe->levers.shard++) {
            CHECK_OK(fit_run(pool, recipe, device, &how, &one));
            CHECK(all.engine->cost_ns <= one.engine->cost_ns * (1 + 1e-9));
        }
    }
    pool_free(pool);
}

/* What only fits divided is divided, though it takes longer. */
static void budget_decides(void)
{
    Pool      *pool = pool_new(NULL, "budget");
    Recipe    *recipe = unet(pool, "accumulate=2");
    Device    *device = device_linked(pool, 1e-3);
    FitOptions how = { .budget_bytes = 1, .effort = 500 };
    FitResult  whole, divided, chosen;
    recipe->levers.shard = 0;
    CHECK_INT(fit_plan(pool, recipe, device, &how, &whole), E_BUDGET);
    recipe->levers.shard = 1;
    CHECK_INT(fit_plan(pool, recipe, device, &how, &divided), E_BUDGET);
    CHECK(divided.minimum_bytes < whole.minimum_bytes);
    how.budget_bytes = (divided.minimum_bytes + whole.minimum_bytes) / 2;
    how.shard_auto = true;
    recipe->levers.shard = 0;
    how.allow = ALLOW_NONE;
    CHECK_OK(fit_run(pool, recipe, device, &how, &chosen));
    CHECK(chosen.recipe->levers.shard > 0);
    CHECK_TEXT(changed(&chosen, "level of division"),
               pool_print(pool, "%d", chosen.recipe->levers.shard));
    pool_free(pool);
}

/* Over a slow link, rounds cost much: micro-batches are run together where that is allowed. */
static void rounds(void)
{
    Pool      *pool = pool_new(NULL, "rounds");
    Recipe    *recipe = unet(pool, "accumulate=8");
    Device    *device = device_linked(pool, 1e-3);
    FitOptions how = { .budget_bytes = 1 << 30, .allow = ALLOW_DEFAULT, .shard_auto = true };
    FitResult  r, again;
    CHECK_OK(fit_run(pool, recipe, device, &how, &r));
    CHECK_INT(r.recipe->accumulate, 2); /* one round */
    CHECK_INT(r.recipe->batch, 4);
    CHECK_INT(recipe_rounds(r.recipe), 1);
    CHECK_INT(recipe_validation(r.recipe).batch, recipe_validation(recipe).batch);
    CHECK_TEXT(changed(&r, "micro-batch"), "4 x 2");
    CHECK_OK(fit_write(PLAN, recipe, &r));
    CHECK_OK(fit_read(pool, PLAN, recipe, device, false, &again));
    CHECK_INT(again.recipe->batch, 4);
    CHECK_INT(again.recipe->levers.merge, 4);
    CHECK_INT(again.recipe->levers.bucket, r.recipe->levers.bucket);
    CHECK_INT(again.engine->arena_bytes, r.engine->arena_bytes);
    recipe->levers.ranks = 4; /* two micro-batches remain */
    CHECK_INT(fit_again(pool, PLAN, recipe, device, false, &again), E_PLAN);
    CHECK(strstr(err_text(), "as many ranks as divide") != NULL);
    recipe->levers.ranks = RANKS;
    how.allow = ALLOW_NONE;
    CHECK_OK(fit_run(pool, recipe, device, &how, &r));
    CHECK_INT(r.recipe->accumulate, 8);
    unlink(PLAN);
    pool_free(pool);
}

/* The loss of stdiff is a mean over the pixels of a mask, which differ from sample to sample. */
static void merged_where_the_loss_allows(void)
{
    Pool       *pool = pool_new(NULL, "merges");
    const char *names[] = { "unet-small", "dit3d-small", "stdiff-small" };
    bool        want[] = { true, true, false };
    for (int i = 0; i < 3; i++) {
        Recipe *recipe;
        bool    merges;
        CHECK_OK(recipe_read(pool, names[i], NULL, 0, &recipe));
        CHECK_OK(recipe_merges(recipe, &merges));
        CHECK_INT(merges, want[i]);
    }
    pool_free(pool);
}

/* Nothing is hidden on this link, so all that moves is waited for, and is part of the step. */
static void moving_is_waited_for(void)
{
    Pool      *pool = pool_new(NULL, "moving");
    Recipe    *recipe = unet(pool, "accumulate=4");
    FitOptions how = { 0 };
    FitResult  slow, fast;
    CHECK_OK(fit_plan(pool, recipe, device_linked(pool, 0.01), &how, &slow));
    CHECK_OK(fit_plan(pool, recipe, device_linked(pool, 1e9), &how, &fast));
    EngineMoving m = engine_moving(slow.engine, recipe_rounds(recipe));
    CHECK(m.bytes > 0);
    CHECK_NEAR(m.waits_ns, m.moving_ns, 1e-9 * m.moving_ns);
    CHECK_NEAR(m.moving_ns, (double)m.bytes / 0.01, 1e-6 * m.moving_ns);
    CHECK_NEAR(slow.step_ns - fast.step_ns, m.moving_ns, 1e-6 * m.moving_ns);
    pool_free(pool);
}

int main(void)
{
    RUN(never_slower_than_one_level);
    RUN(budget_decides);
    RUN(rounds);
    RUN(merged_where_the_loss_allows);
    RUN(moving_is_waited_for);
    return test_end();
}
