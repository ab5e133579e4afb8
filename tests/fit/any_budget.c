/* any_budget.c -- every budget from the minimum upwards is met.
 *
 * Several small recipes, with exact levers and with all: asking for the minimum that was named
 * works, and so does anything above it, drawn at random with a fixed seed and mostly near the
 * minimum, where placement is hardest. More memory is never slower, and allowing more never needs
 * more. */
#include "test.h"

#include "base/random.h"
#include "fit/fit.h"

#include <math.h>
#include <stdlib.h>

enum { EFFORT = 150, DRAWN = 3, RUNGS = 3 };

static const struct {
    const char *recipe;
    const char *sets[6];
} smalls[] = {
    { "unet-small", { "batch=4" } },
    { "unet-small", { "batch=4", "accumulate=1", "optimizer.clip=0" } },
    { "stablesr-small", { "model.image=32", "model.latent=8" } },
    { "sashimi-small", { "model.length=256" } },
    { "dit3d-small", { "batch=2" } },
    { "dit3d-wrap-small", { "batch=2" } },
};
enum { N_SMALLS = sizeof smalls / sizeof *smalls };

static double ask(Pool *parent, const Recipe *recipe, const Device *device, unsigned allow,
                  int64_t budget)
{
    Pool      *pool = pool_new(parent, "ask");
    FitOptions how = { .budget_bytes = budget, .allow = allow, .effort = EFFORT };
    FitResult  fit;
    Err        err = fit_run(pool, recipe, device, &how, &fit);
    if (err)
        printf("  %lld: %s\n", (long long)budget, err_text());
    CHECK_OK(err);
    CHECK(err || fit.engine->arena_bytes <= budget);
    double ns = err ? INFINITY : fit.step_ns;
    pool_free(pool);
    return ns;
}

static int64_t budgets(int which, unsigned allow)
{
    Pool      *pool = pool_new(NULL, "budgets");
    Recipe    *recipe;
    Device    *device;
    FitResult  minimum;
    FitOptions how = { .budget_bytes = 1, .allow = allow, .effort = EFFORT };
    RandomKey  key = { .seed = 11, .stream = (uint32_t)which };
    int        n_sets = 0;
    while (n_sets < 6 && smalls[which].sets[n_sets])
        n_sets++;
    CHECK_OK(recipe_read(pool,
                         pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", smalls[which].recipe),
                         smalls[which].sets, n_sets, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_INT(fit_run(pool, recipe, device, &how, &minimum), E_BUDGET);
    int64_t low = minimum.minimum_bytes, high = minimum.default_bytes;
    ask(pool, recipe, device, allow, low);
    ask(pool, recipe, device, allow, low + 1);
    for (int i = 0; i < DRAWN; i++) {
        double u = (double)random_uniform_at(key, (uint64_t)i);
        ask(pool, recipe, device, allow, low + (int64_t)(u * u * u * (double)(high - low)));
    }
    double before = INFINITY;
    for (int i = 0; i < RUNGS; i++) { /* rungs of the planner: twentieths of everything kept */
        int64_t budget = high / 20 * (20 - (RUNGS - 1 - i));
        if (budget < low)
            continue;
        double ns = ask(pool, recipe, device, allow, budget);
        CHECK(ns <= before * (1 + 1e-9));
        before = ns;
    }
    pool_free(pool);
    return low;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N_SMALLS; i++) {
        if (argc > 1 && strcmp(argv[1], smalls[i].recipe))
            continue;
        test_name = smalls[i].recipe;
        int64_t exact = budgets(i, ALLOW_NONE), all = budgets(i, ALLOW_DEFAULT);
        printf("%s: minimum %lld by exact levers, %lld by all\n", smalls[i].recipe,
               (long long)exact, (long long)all);
        CHECK(all <= exact);
    }
    return test_end();
}
