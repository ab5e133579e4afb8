/* cmd_list.c -- `list`: the recipes, devices, systems and kinds of data that there are. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/shipped.h"
#include "base/text.h"
#include "data/kinds.h"
#include "profile/devices.h"
#include "profile/profile.h"
#include "recipe/recipe.h"

#include <string.h>

static const Option options[] = { { 0 } };

enum { NAME_WIDTH = 20, RECIPE_MAX = 1 << 20 };

static void list_row(const char *name, const char *text)
{
    printf("  %-*s ", NAME_WIDTH, name);
    print_sentence(stdout, "%s", text);
}

/* The comment in a recipe's first line says what it is. */
static const char *recipe_summary(Pool *pool, const char *name)
{
    const char *path;
    char       *text;
    size_t      n;
    if (shipped_find(pool, "recipes", ".yaml", "recipe", name, &path) ||
        file_read_within(pool, path, RECIPE_MAX, &text, &n))
        return "";
    return *text == '#' ? pool_textn(pool, text + 2, strcspn(text + 2, "\n")) : "";
}

static Err list_recipes(Pool *pool)
{
    char **names;
    int    n;
    TRY(shipped_list(pool, "recipes", ".yaml", &names, &n));
    for (int i = 0; i < n; i++)
        list_row(names[i], recipe_summary(pool, names[i]));
    printf("next: plimsoll explain %s\n", n ? names[0] : "RECIPE");
    return OK;
}

static Err list_devices(Pool *pool)
{
    char **names;
    int    n;
    list_row("cpu", "this machine's processor");
    list_row("cuda", "this machine's GPU, an NVIDIA one of compute capability 8.0 or newer");
    TRY(shipped_list(pool, "profiles", ".json", &names, &n));
    for (int i = 0; i < n; i++) {
        Profile *profile;
        TRY(profile_open(pool, names[i], &profile));
        bool old = profile->capability > 0 && profile->capability < MIN_CAPABILITY;
        list_row(names[i],
                 pool_print(pool, "%s, %s%s", profile->title, bytes_text(profile->total_bytes),
                            old ? "; planned only, it cannot be trained on" : ""));
    }
    printf("next: plimsoll fit RECIPE --device %s\n", n ? names[0] : "cpu");
    return OK;
}

static Err list_systems(Pool *pool)
{
    (void)pool;
    for (int i = 0; i < models_count; i++)
        list_row(models_all[i]->name, models_all[i]->summary);
    printf("next: plimsoll help recipe SYSTEM\n");
    return OK;
}

static Err list_data(Pool *pool)
{
    for (int i = 0; i < data_kinds_count; i++)
        list_row(data_kinds[i].name,
                 data_kinds[i].drawn
                     ? pool_print(pool, "%s (--data DIR)", data_kinds[i].help)
                     : pool_print(pool, "%s, made by the program", data_kinds[i].help));
    printf("next: plimsoll train RECIPE --data DIR\n");
    return OK;
}

static const struct {
    const char *name;
    Err (*run)(Pool *pool);
} lists[] = { { "recipes", list_recipes },
              { "devices", list_devices },
              { "systems", list_systems },
              { "data", list_data } };

static Err cmd_list_run(Pool *pool, int n_args, char **args)
{
    for (size_t i = 0; n_args == 1 && i < sizeof lists / sizeof *lists; i++)
        if (!strcmp(args[0], lists[i].name))
            return lists[i].run(pool);
    return fail(E_USAGE, "list takes one of recipes, devices, systems and data: plimsoll list "
                         "recipes");
}

const Command cmd_list = { "list", "recipes|devices|systems|data",
                           "list what there is to name on the command line", options,
                           cmd_list_run };
