/* gpu_plans.c -- plans for an H200, made without one, have the arenas that runs on an H200 then
 * used (docs/dev/CUDA.md). Skips where the CUDA plugin was not built or has another cuDNN. */
#include "test.h"

#include "base/file.h"
#include "base/text.h"
#include "plan/engine.h"
#include "fit/fit.h"
#include "recipe/recipe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAN "gpu_test_plan.json"

/* clang-format off */
static const struct { const char *recipe; int64_t arena_bytes; } seen[] = {
    { "dit3d-s",             3255198048 },
    { "dit3d-xl",            19081605984 },
    { "lag-32x6",            9900640304 },
    { "sashimi-24576",       732580680 },
    { "stablesr-edge-after", 5591687040 },
    { "stdiff-64x512",       14677779712 },
};
/* clang-format on */

static Device *device;

static void arenas(void)
{
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        Pool         *pool = pool_new(NULL, "GPU");
        Recipe       *recipe;
        TrainingGraph graph;
        Engine       *engine;
        const char   *path = pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", seen[i].recipe);
        CHECK_OK(recipe_read(pool, path, (const char *const[]){ "precision=bf16" }, 1, &recipe));
        recipe = recipe_for(pool, recipe, device);
        CHECK_OK(recipe_graph(pool, recipe, false, &graph));
        CHECK_OK(engine_new(pool, graph.graph, device, NULL, &engine));
        CHECK_INT(engine->arena_bytes, seen[i].arena_bytes);
        printf("  %s: %s bytes\n", seen[i].recipe, count_text(engine->arena_bytes));
        pool_free(pool);
    }
}

/* A plan made from a GPU's profile is accepted on the GPU itself, under its other name, and where
 * its libraries need a little less workspace than the plan has; never where they need more, and
 * never on another GPU. */
static void elsewhere(void)
{
    Pool     *pool = pool_new(NULL, "elsewhere");
    Recipe   *recipe;
    FitResult fit;
    Device    here = *device, other = *device;
    char     *text, *end;
    size_t    n;
    int       more = 0, less = 0, choices = 0;
    here.name = "cuda";
    other.model = "NVIDIA H100";
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", NULL, 0, &recipe));
    CHECK_OK(fit_run(pool, recipe, device, &(FitOptions){ 0 }, &fit));
    CHECK_OK(fit_write(PLAN, recipe, &fit));
    CHECK_OK(fit_read(pool, PLAN, recipe, &here, false, &fit));
    CHECK_INT(fit_read(pool, PLAN, recipe, &other, false, &fit), E_PLAN);
    CHECK(strstr(err_text(), "NVIDIA H100") != NULL);
    CHECK_OK(file_read(pool, PLAN, &text, &n));
    for (char *at = text; choices < 12 && (at = strstr(at, "\"workspace\": ")); choices++) {
        at += strlen("\"workspace\": ");
        long long bytes = strtoll(at, &end, 10);
        for (int sign = -1; sign <= 1 && bytes + 256 * sign >= 0; sign += 2) {
            Text out = { .pool = pool };
            text_add(&out, "%.*s%lld%s", (int)(at - text), text, bytes + 256 * sign, end);
            CHECK_OK(file_write(PLAN, out.at, out.n));
            Err err = fit_read(pool, PLAN, recipe, &here, false, &fit);
            *(sign < 0 ? &less : &more) += err == OK;
            CHECK(err == OK || err == E_PLAN);
        }
    }
    printf("  %d choices: %d may have more workspace in the same places, %d less\n", choices, more,
           less);
    CHECK(choices == 0 || more > 0);
    CHECK_INT(less, 0);
    unlink(PLAN);
    pool_free(pool);
}

/* The best plan without copies is not the best to add copies to: a longer search once ended with a
 * slower step (169.8 ms for 168.9). */
static void longer_is_not_slower(void)
{
    Pool      *pool = pool_new(NULL, "longer");
    Recipe    *recipe;
    FitResult  fit;
    FitOptions how = { .budget_bytes = 2370861197, .effort = 10000 };
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/dit3d-s.yaml", NULL, 0, &recipe));
    CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
    double ns = fit.step_ns;
    how.effort = 0;
    CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
    printf("  dit3d-s: %.2f ms, longer %.2f ms\n", 1e-6 * ns, 1e-6 * fit.step_ns);
    CHECK(fit.step_ns <= ns * (1 + 1e-9));
    pool_free(pool);
}

int main(void)
{
    Pool *pool = pool_new(NULL, "device");
    CHECK_OK(device_open(pool, SOURCE_DIR "/profiles/h200.json", NULL, &device));
    if (!device_has_kernels(device) || !strstr(device->library, "cuDNN 91900")) {
        printf("skipped: %s\n", device->profile_note ? device->profile_note : device->library);
        pool_free(pool);
        return 77;
    }
    RUN(arenas);
    RUN(elsewhere);
    RUN(longer_is_not_slower);
    pool_free(pool);
    return test_end();
}
