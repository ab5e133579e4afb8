/* Tests of recipe/recipe: files, settings in their order, and mistakes that name their place. */
#include "test.h"

#include "base/file.h"
#include "recipe/recipe.h"

static Pool *pool;

static Err from_text(const char *yaml, const char *const *sets, int n, Recipe **recipe)
{
    CHECK_OK(file_write("recipe_test.yaml", yaml, strlen(yaml)));
    return recipe_read(pool, "recipe_test.yaml", sets, n, recipe);
}

static void settings(void)
{
    const char *sets[] = { "batch=2", "optimizer.lr=0.5", "batch=3" };
    Recipe     *recipe;
    CHECK_OK(from_text("system: unet\nbatch: 8\noptimizer: {lr: 1e-3}\n", sets, 3, &recipe));
    CHECK_TEXT(recipe->model->name, "unet");
    CHECK_INT(recipe->batch, 3); /* the last one counts */
    CHECK_NEAR(recipe->optimizer.lr, 0.5, 0);
}

static void by_name(void)
{
    Recipe *recipe;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", NULL, 0, &recipe));
    CHECK_TEXT(recipe->name, "unet-small");
    CHECK_INT(recipe_read(pool, "unet-smal", NULL, 0, &recipe), E_USAGE);
    CHECK_INT(recipe_read(pool, "model.py", NULL, 0, &recipe), E_USAGE);
    CHECK(strstr(err_text(), "torch.export") != NULL);
    CHECK(recipe_is_model("a/b.pt2") && recipe_is_model("a.mlir") &&
          recipe_is_model("a.stablehlo"));
    CHECK(!recipe_is_model("unet-small") && !recipe_is_model("a.yaml"));
}

static void mistakes(void)
{
    static const struct {
        const char *yaml, *set, *says;
    } rows[] = {
        { "batch: 8\n", NULL, "system" },
        { "system: unett\n", NULL, "'unet'" },
        { "system: unet\nbatch: 0\n", NULL, "recipe_test.yaml:2: batch must be from 1" },
        { "system: unet\nmodel: {hieght: 16}\n", NULL, "recipe_test.yaml:2" },
        { "system: unet\n", "model.hieght=16", "--set model.hieght=16: " },
        { "system: unet\nmodel: {heads: 3}\n", NULL, "heads" }, /* does not divide a width */
        { "system: unet\n", "system=lag", "--set system=lag: the system cannot be changed" },
        { "system: unet\nsystem: lag\n", NULL, "recipe_test.yaml:2" },
    };
    Recipe *recipe;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Err err = from_text(rows[i].yaml, &rows[i].set, rows[i].set ? 1 : 0, &recipe);
        CHECK(err == E_USAGE || err == E_FORMAT);
        if (!strstr(err_text(), rows[i].says))
            CHECK_TEXT(err_text(), rows[i].says);
    }
}

int main(void)
{
    pool = pool_new(NULL, "recipe");
    RUN(settings);
    RUN(by_name);
    RUN(mistakes);
    file_remove("recipe_test.yaml");
    pool_free(pool);
    return test_end();
}
