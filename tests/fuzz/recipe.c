/* recipe.c -- fuzz target: a recipe is refused with a sentence, or written with every key and read again as the same.
 * The input is used as a file, as keys of each system, and as --set assignments. */
#include "recipe/recipe.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETS_MAX = 20 };

static const char *const systems[] = { "unet",    "stdiff",   "lag",          "dit3d",
                                       "sashimi", "stablesr", "stablesr-vae", "import" };
enum { N_SYSTEMS = sizeof systems / sizeof *systems };

static const char first[] = "fuzz_recipe.yaml", again[] = "fuzz_recipe_again.yaml";

static void written(Pool *pool, const Recipe *recipe, const char **text, size_t *n)
{
    char *bytes;
    REQUIRE(recipe_write(recipe, again) == OK);
    REQUIRE(file_read(pool, again, &bytes, n) == OK);
    *text = bytes;
}

static void try_recipe(const char *text, size_t n, const char *const *sets, int n_sets)
{
    Pool   *pool = pool_new(NULL, "fuzz");
    Recipe *recipe;
    REQUIRE(file_write(first, text, n) == OK);
    Err err = recipe_read(pool, first, sets, n_sets, &recipe);
    if (err)
        REQUIRE(*err_text());
    else if (!recipe->model->seal) { /* which would take the model's file along */
        const char *one, *two;
        size_t      n_one, n_two;
        written(pool, recipe, &one, &n_one);
        err = recipe_read(pool, again, NULL, 0, &recipe);
        if (err)
            fprintf(stderr, "%s\n%s\n", err_text(), one);
        REQUIRE(err == OK);
        written(pool, recipe, &two, &n_two);
        REQUIRE(n_one == n_two && !memcmp(one, two, n_one));
    }
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool *pool = pool_new(NULL, "fuzz");
    try_recipe(n ? (const char *)bytes : "", n, NULL, 0);
    if (n > 1) {
        Text        text = { .pool = pool };
        const char *sets[SETS_MAX];
        int         n_sets = 0;
        text_add(&text, "system: %s\n", systems[bytes[0] % N_SYSTEMS]);
        size_t head = text.n;
        text_addn(&text, (const char *)bytes + 1, n - 1);
        try_recipe(text.at, text.n, NULL, 0);
        char *rest = pool_textn(pool, (const char *)bytes + 1, n - 1);
        for (char *line = strtok(rest, "\n"); line && n_sets < SETS_MAX; line = strtok(NULL, "\n"))
            sets[n_sets++] = line;
        try_recipe(text.at, head, sets, n_sets);
    }
    pool_free(pool);
    remove(first);
    remove(again);
    return 0;
}
