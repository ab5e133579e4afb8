/* recipes.c -- every recipe: its graph builds, and its tables add up to the peak. Prints the gap of
 * its layout. */
#include "test.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "fit/explained.h"
#include "recipe/recipe.h"

static int64_t rows_sum(const SheetRow *rows, int32_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += rows[i].bytes;
    return sum;
}

/* A module's total is the sum over the modules whose path begins with its own. */
static void totals_follow_paths(const Sheet *sheet)
{
    for (int32_t i = 0; i < sheet->n_modules; i++) {
        const char *path = sheet->modules[i].name;
        size_t      n = strlen(path);
        int64_t     below = 0;
        int         same = 0;
        for (int32_t k = 0; k < sheet->n_modules; k++) {
            const char *name = sheet->modules[k].name;
            same += !strcmp(name, path);
            if (!strcmp(path, "(model)") ||
                (!strncmp(name, path, n) && (!name[n] || name[n] == '.')))
                below += sheet->modules[k].bytes;
        }
        CHECK_INT(sheet->modules[i].total, below);
        CHECK_INT(same, 1);
    }
}

/* At its own peak step every phase adds up to at most its highest byte; the highest is the peak. */
static void phases_add_up(const Recipe *recipe, const Sheet *sheet)
{
    Pool     *pool = pool_new(NULL, "phases");
    PhaseRow *phases;
    int32_t   n;
    int64_t   highest = 0;
    phases_find(pool, recipe, sheet->engine, &phases, &n);
    for (int32_t i = 0; i < n; i++) {
        int64_t live = 0;
        for (int c = 0; c < CLASS_COUNT; c++)
            live += phases[i].classes[c];
        CHECK_INT(live, phases[i].live_bytes);
        CHECK(live <= phases[i].peak_bytes);
        highest = phases[i].peak_bytes > highest ? phases[i].peak_bytes : highest;
    }
    CHECK_INT(highest, sheet->peak_bytes);
    pool_free(pool);
}

static void recipe_adds_up(const char *name, const char *precision)
{
    Pool         *pool = pool_new(NULL, "recipe");
    Recipe       *recipe;
    Device       *device;
    Engine       *engine;
    Sheet        *sheet;
    TrainingGraph graph;
    const char   *sets[] = { pool_print(pool, "precision=%s", precision) };
    double        start = clock_now();

    test_name = name;
    CHECK_OK(recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s", name), sets, 1, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_OK(recipe_graph(pool, recipe, false, &graph));
    CHECK_OK(engine_new(pool, graph.graph, device, NULL, &engine));
    CHECK_OK(sheet_new(pool, engine, &sheet));

    int64_t classes = sheet->gap_bytes, tensors = sheet->gap_bytes, gap = 0;
    bool    proved = true;
    for (int c = 0; c < CLASS_COUNT; c++)
        classes += sheet->classes[c];
    for (int32_t i = 0; i < sheet->n_live; i++)
        tensors += sheet->live[i].bytes;
    CHECK_INT(classes, sheet->peak_bytes);
    CHECK_INT(tensors, sheet->peak_bytes);
    CHECK_INT(rows_sum(sheet->modules, sheet->n_modules) + sheet->gap_bytes, sheet->peak_bytes);
    CHECK_INT(rows_sum(sheet->lines, sheet->n_lines) + sheet->gap_bytes, sheet->peak_bytes);
    totals_follow_paths(sheet);
    phases_add_up(recipe, sheet);
    CHECK(sheet->gap_bytes >= 0 && sheet->trained > 0 && sheet->trained <= sheet->parameters);
    for (int i = 0; i < engine->n_programs; i++) {
        gap += engine->programs[i].layout.arena_bytes - engine->programs[i].layout.bound_bytes;
        proved &= engine->programs[i].layout.proved;
    }
    printf("  %-26s %s %5d nodes  peak %9s  layout gap %8s%s  %.2f s\n", recipe->name, precision,
           graph.graph->n_nodes, bytes_text(sheet->peak_bytes), bytes_text(gap),
           proved ? ", proved minimal" : "", clock_now() - start);
    pool_free(pool);
}

int main(void)
{
    Pool  *pool = pool_new(NULL, "recipes");
    char **names;
    int    n = 0;
    CHECK_OK(folder_list(pool, SOURCE_DIR "/recipes", &names, &n));
    CHECK(n >= 30);
    for (int i = 0; i < n; i++) {
        recipe_adds_up(names[i], "fp32");
        if (strstr(names[i], "small"))
            recipe_adds_up(names[i], "bf16");
    }
    pool_free(pool);
    return test_end();
}
