/* compare.c -- rows of a comparison agree with explain, failures are rows, pages are well
 * formed. */
#include "test.h"

#include "base/clock.h"
#include "base/json.h"
#include "report/compare_pages.h"

#include <stdlib.h>

static Recipe *open_recipe(Pool *pool, const char *set)
{
    Recipe *recipe = NULL;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", &set, 1, &recipe));
    return recipe;
}

static void table(void)
{
    Pool   *pool = pool_new(NULL, "compare");
    Device *device;
    Recipe *bad = NULL, *one = open_recipe(pool, "batch=4"), *two = open_recipe(pool, "batch=8");
    const char    *wrong = "batch=none";
    Explained     *e;
    CompareOptions how = { .allow = ALLOW_NONE, .effort = 200, .deadline_s = clock_now() + 600 };
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_OK(
        explained_new(pool, one, device, &(ExplainOptions){ .effort = 200, .no_split = true }, &e));

    int64_t    budgets[] = { e->sheet->peak_bytes, e->sheet->peak_bytes - 1,
                             e->sheet->engine->persistent_bytes / 2 };
    Comparison c = { .device = device, .budgets = budgets, .n_budgets = 3 };
    CHECK_OK(compare_add(pool, &c, "batch=4", one, c.device, OK, &how));
    CHECK_INT(compare_add(pool, &c, wrong, NULL, c.device,
                          recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", &wrong, 1, &bad),
                          &how),
              E_USAGE);
    CHECK_OK(compare_add(pool, &c, "batch=8", two, c.device, OK, &how));
    CHECK_INT(c.n_rows, 3);
    CHECK_INT(c.rows[0].peak_bytes, e->sheet->peak_bytes);
    CHECK_INT(c.rows[0].minimum_bytes, e->minimum_bytes);
    CHECK_INT(c.rows[0].cells[0].verdict, VERDICT_FITS);
    CHECK_INT(c.rows[0].cells[1].verdict, VERDICT_REPLANNED);
    CHECK(c.rows[0].cells[1].planned && c.rows[0].cells[1].peak_bytes < e->sheet->peak_bytes &&
          c.rows[0].cells[1].slowdown >= 1);
    CHECK_INT(c.rows[0].cells[2].verdict, VERDICT_NO);
    CHECK(c.rows[1].error && strstr(c.rows[1].error, "batch"));
    CHECK(c.rows[2].peak_bytes > c.rows[0].peak_bytes);

    /* Nothing is searched once the time is up; what is known without a search is still there. */
    how.deadline_s = clock_now() - 1;
    CHECK_OK(compare_add(pool, &c, "late", one, c.device, OK, &how));
    CHECK_INT(c.rows[3].minimum_bytes, 0);
    CHECK_INT(c.rows[3].cells[0].verdict, VERDICT_FITS);
    CHECK(!c.rows[3].cells[1].planned);

    char       *text = NULL;
    size_t      n = 0;
    const Json *json = NULL;
    FILE       *to = open_memstream(&text, &n);
    CHECK_OK(compare_json(to, &c));
    fclose(to);
    CHECK_OK(json_parse(pool, "compare", text, n, 0, &json));
    CHECK_INT(json_get(json, "rows")->n, 4);
    CHECK(json_get(&json_get(json, "rows")->items[1], "error")->kind == JSON_TEXT);
    free(text);
    to = open_memstream(&text, &n);
    compare_text(to, &c, false);
    fclose(to);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!CHECK(strlen(line) <= 100))
            fprintf(stderr, "  %s\n", line);
    free(text);
    Text md = { .pool = pool };
    compare_md(&md, &c);
    CHECK(strstr(md.at, "| batch=8 |") != NULL);

    /* A share of everything kept is each row's own budget, as for fit. */
    const char *shares[] = { NULL, "80%", NULL };
    c.shares = shares;
    how.deadline_s = clock_now() + 600;
    CHECK_OK(compare_add(pool, &c, "shares", two, c.device, OK, &how));
    CompareCell *cell = &c.rows[4].cells[1];
    CHECK_NEAR((double)(cell->budget_bytes - device->runtime_bytes),
               0.8 * (double)c.rows[4].peak_bytes, 1);
    CHECK_INT(cell->verdict, VERDICT_REPLANNED);
    CHECK(cell->peak_bytes <= cell->budget_bytes - device->runtime_bytes);
    compare_md(&md, &c);
    CHECK(strstr(md.at, "| 80%kept |") != NULL);
    pool_free(pool);
}

int main(void)
{
    RUN(table);
    return test_end();
}
