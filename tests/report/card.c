/* card.c -- plans for an H200, made without one, have the arenas that an H200 was then seen to run
 * with (docs/CUDA.md). Skips where the CUDA plugin was not built or has another cuDNN. */
#include "../test.h"

#include "base/text.h"
#include "plan/engine.h"
#include "train/recipe.h"

#include <string.h>

static const struct { const char *recipe; int64_t arena_bytes; } seen[] = {
    { "dit3d-s",             3255198048 },
    { "dit3d-xl",            19081605984 },
    { "lag-32x6",            9900640304 },
    { "sashimi-24576",       732580864 },
    { "stablesr-edge-after", 5591687040 },
    { "stdiff-64x512",       14677779712 },
};

static Device *device;

static void arenas(void)
{
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        Pool         *pool = pool_new(NULL, "card");
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
    pool_free(pool);
    return test_end();
}
