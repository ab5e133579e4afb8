/* plan.c -- fuzz target: a plan file as `fit` writes it, with bytes changed as the input says
 * (three bytes of index, one of value). What is still accepted must have the same arena as before,
 * since the checkers refuse any other number, step or offset. */
#include "fit/fit.h"

#include <string.h>

static Pool   *keep; /* made once */
static Recipe *recipe;
static Device *device;
static char   *plan;
static size_t  n_plan;
static int64_t arena_bytes;

static void fuzz_begin(void)
{
    const char *const sets[] = { "batch=1",        "accumulate=1",   "model.widths=[8]",
                                 "model.groups=4", "model.height=4", "model.width=4" };
    FitResult         fit;
    keep = pool_new(NULL, "fuzz");
    REQUIRE(recipe_read(keep, "recipes/unet-small.yaml", sets, 6, &recipe) == OK);
    DeviceOptions options = { .threads = 1, .backend = "builtin" };
    REQUIRE(device_cpu(keep, &options, &device) == OK);
    REQUIRE(fit_plan(keep, recipe, device, &(FitOptions){ 0 }, &fit) == OK);
    const char *path = "fuzz_plan.json";
    REQUIRE(fit_write(path, recipe, &fit) == OK);
    REQUIRE(file_read(keep, path, &plan, &n_plan) == OK);
    REQUIRE(file_remove(path) == OK);
    arena_bytes = fit.engine->arena_bytes;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    if (!keep)
        fuzz_begin();
    Pool       *pool = pool_new(NULL, "fuzz");
    char       *text = pool_textn(pool, plan, n_plan);
    const Json *root;
    FitResult   fit;
    for (size_t i = 0; i + 4 <= n; i += 4)
        text[((size_t)bytes[i] << 16 | (size_t)bytes[i + 1] << 8 | bytes[i + 2]) % n_plan] =
            (char)bytes[i + 3];
    if (json_parse(pool, "fuzz", text, n_plan, 0, &root) == OK &&
        fit_from_json(pool, root, recipe, device, false, &fit) == OK)
        REQUIRE(fit.engine->arena_bytes == arena_bytes);
    pool_free(pool);
    return 0;
}
