/* tiny_run.h -- a run of a few steps of a small recipe, made as small as possible, for tests of what
 * reads runs. */
#ifndef TESTS_TINY_RUN_H
#define TESTS_TINY_RUN_H

#include "folder.h"
#include "test.h"

#include "fit/fit.h"
#include "recipe/recipe.h"
#include "train/trainer.h"

static inline Device *tiny_device(Pool *pool, int threads)
{
    Device *device;
    CHECK_OK(
        device_cpu(pool, &(DeviceOptions){ .threads = threads, .backend = "builtin" }, &device));
    return device;
}

static inline Recipe *tiny_recipe(Pool *pool, const char *name, const char *const *sets, int n)
{
    Recipe *recipe;
    CHECK_OK(
        recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, n, &recipe));
    return recipe;
}

/* Trains into the folder, which is cleared before. */
static inline void tiny_train(Pool *pool, const Recipe *recipe, const char *out)
{
    TrainResult result;
    folder_clear(pool, out);
    CHECK_OK(train_run(pool, recipe, tiny_device(pool, 2),
                       &(TrainOptions){ .out = out, .allow = ALLOW_NONE, .quiet = true }, &result));
}

#endif
