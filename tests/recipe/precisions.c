/* precisions.c -- the sampling graph of every recipe builds and can be placed in every
 * precision. */
#include "test.h"

#include "base/file.h"
#include "ir/graph.h"
#include "plan/engine.h"
#include "recipe/recipe.h"

#include <dirent.h>

static void builds(const char *file, const char *precision)
{
    Pool       *pool = pool_new(NULL, "precisions");
    const char *set = pool_print(pool, "precision=%s", precision);
    Recipe     *recipe;
    Device     *device;
    Engine     *engine;
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_OK(recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s", file), &set, 1, &recipe));
    Graph *graph = graph_new(pool, recipe_type(recipe));
    if (recipe->model->sample_graph)
        recipe->model->sample_graph(graph, recipe->config, &recipe->sampler, 2);
    CHECK_OK(graph_check(graph));
    if (strstr(file, "small")) /* the others take seconds to place */
        CHECK_OK(engine_new(pool, graph, device, NULL, &engine));
    pool_free(pool);
}

int main(void)
{
    static const char *const precisions[] = { "fp32", "bf16", "fp16" };
    DIR                     *folder = opendir(SOURCE_DIR "/recipes");
    struct dirent           *entry;
    int                      n = 0;
    CHECK(folder != NULL);
    while ((entry = readdir(folder)))
        if (strstr(entry->d_name, ".yaml")) {
            test_name = entry->d_name;
            for (int i = 0; i < 3; i++)
                builds(entry->d_name, precisions[i]);
            n++;
        }
    closedir(folder);
    CHECK(n >= 20);
    return test_end();
}
