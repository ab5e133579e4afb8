/* explained.c -- explain's JSON has figures that are known by other means, and its tables agree. */
#include "test.h"

#include "base/json.h"
#include "report/explain_pages.h"

#include <stdlib.h>

static const Json *explain(Pool *pool, const char *name, const char *const *sets, int n,
                           Explained **out)
{
    Recipe     *recipe;
    Device     *device;
    char       *text = NULL;
    size_t      bytes = 0;
    const Json *json = NULL;
    test_name = name;
    CHECK_OK(
        recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, n, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_OK(explained_new(pool, recipe, device,
                           &(ExplainOptions){ .budget_bytes = (int64_t)16 << 30 }, out));
    FILE *to = open_memstream(&text, &bytes);
    CHECK_OK(explain_json(to, *out));
    fclose(to);
    CHECK_OK(json_parse(pool, name, text, bytes, 0, &json));
    free(text);
    return json;
}

static int64_t number(const Json *object, const char *key)
{
    int64_t value = -1;
    CHECK_OK(json_need_int(object, key, &value));
    return value;
}

static int64_t class_bytes(const Json *json, const char *mem_class)
{
    return number(json_get(json, "classes"), mem_class);
}

static int64_t sum(const Json *rows, const char *key)
{
    int64_t all = 0;
    for (uint32_t i = 0; i < rows->n; i++)
        all += number(&rows->items[i], key);
    return all;
}

static bool has(const Json *row, const char *key, const char *word)
{
    const Json *text = json_get(row, key);
    return text && text->kind == JSON_TEXT && strstr(text->text, word);
}

static int64_t members(const Json *object)
{
    int64_t all = 0;
    for (uint32_t i = 0; i < object->n; i++)
        all += object->members[i].value.integer;
    return all;
}

static bool public_phase(const char *name)
{
    static const char *const names[] = { "first", "micro", "update", "validate", "sample", "save" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* What must hold for every recipe. */
static void tables_agree(const Json *json)
{
    int64_t     peak = number(json, "peak_bytes"), gaps = class_bytes(json, "gaps"), live = 0;
    const Json *timeline = json_get(json, "timeline");
    CHECK_INT(members(json_get(json, "classes")), peak);
    CHECK_INT(sum(json_get(json, "modules"), "bytes"), peak);
    CHECK_INT(sum(json_get(json, "lines"), "bytes"), peak);
    CHECK_INT(sum(json_get(json, "tensors_at_peak"), "bytes"), peak);
    CHECK_INT(sum(json_get(json, "bottlenecks"), "bytes"), peak);
    for (int i = 0; i < 4; i++) { /* every table ends with the row of gaps */
        static const char *const tables[][2] = { { "modules", "module" },
                                                 { "lines", "line" },
                                                 { "tensors_at_peak", "name" },
                                                 { "bottlenecks", "what" } };
        const Json *table = json_get(json, tables[i][0]), *last = &table->items[table->n - 1];
        CHECK_TEXT(json_get(last, tables[i][1])->text, "(gaps)");
        CHECK_INT(number(last, "bytes"), gaps);
    }
    CHECK_INT(sum(json_get(json, "batch"), "bytes"), number(json, "batch_bytes"));
    for (uint32_t i = 0; i < timeline->n; i++) {
        const Json *curve = json_get(&timeline->items[i], "live_bytes");
        for (uint32_t j = 0; j < curve->n; j++)
            live = curve->items[j].integer > live ? curve->items[j].integer : live;
    }
    CHECK_INT(live, number(json, "live_bytes"));
    CHECK(number(json, "minimum_bytes") <= peak);

    /* Every phase has its public name, one of them is the peak's, and each has its curve (saving
     * runs no node). */
    const Json *phases = json_get(json, "phases");
    int64_t     highest = 0;
    bool        named = false;
    CHECK_INT(phases->n, timeline->n + 1);
    for (uint32_t i = 0; i < phases->n; i++) {
        const Json *phase = &phases->items[i];
        CHECK(public_phase(json_get(phase, "name")->text));
        CHECK_INT(members(json_get(phase, "classes")), number(phase, "peak_bytes"));
        CHECK_INT(number(phase, "peak_bytes") - number(json_get(phase, "classes"), "gaps"),
                  number(phase, "live_bytes"));
        CHECK(number(json_get(phase, "classes"), "gaps") >= 0);
        highest = number(phase, "peak_bytes") > highest ? number(phase, "peak_bytes") : highest;
        named |= !strcmp(json_get(phase, "name")->text, json_get(json, "peak_phase")->text);
        if (i == timeline->n)
            continue;
        const Json *curve = json_get(&timeline->items[i], "live_bytes");
        int64_t     most = 0;
        CHECK_TEXT(json_get(&timeline->items[i], "phase")->text, json_get(phase, "name")->text);
        CHECK_INT(curve->n, number(phase, "steps"));
        for (uint32_t j = 0; j < curve->n; j++)
            most = curve->items[j].integer > most ? curve->items[j].integer : most;
        CHECK_INT(most, number(phase, "live_bytes"));
    }
    CHECK_INT(highest, peak);
    CHECK(named);
}

static void stdiff(void)
{
    Pool       *pool = pool_new(NULL, "stdiff");
    Explained  *e;
    const Json *json = explain(pool, "stdiff-64x2048", NULL, 0, &e);
    tables_agree(json);
    CHECK_INT(class_bytes(json, "parameters"), 816893188);
    CHECK_INT(class_bytes(json, "gradients"), 816893188);
    CHECK_INT(class_bytes(json, "ema"), 816893188);
    CHECK_INT(class_bytes(json, "optimizer"), 1633786376);
    CHECK_INT(class_bytes(json, "skips"), 3240099840);
    CHECK_INT(number(json, "batch_bytes"), 14417920);
    int         skips = 0, views = 0, unread = 0;
    const Json *tensors = json_get(json, "tensors_at_peak"), *batch = json_get(json, "batch");
    for (uint32_t i = 0; i < tensors->n; i++)
        skips += has(&tensors->items[i], "class", "skips");
    CHECK_INT(skips, 15);
    for (uint32_t i = 0; i < batch->n; i++) {
        bool read = false;
        CHECK_OK(json_need_bool(&batch->items[i], "read", &read));
        views += has(&batch->items[i], "view_of", "observed");
        unread += !read;
    }
    CHECK_INT(views, 1);
    CHECK_INT(unread, 2);
    /* 10 images x 2 heads x 32,768^2 scores, five times; 21 layers in all */
    const Json *avoided = json_get(json, "avoided");
    int64_t     layers = 0;
    CHECK_INT(number(&avoided->items[0], "bytes"), 85899345920);
    CHECK_INT(number(&avoided->items[0], "count"), 5);
    for (uint32_t i = 0; i < avoided->n; i++)
        if (has(&avoided->items[i], "name", "attention scores"))
            layers += number(&avoided->items[i], "count");
    CHECK_INT(layers, 21);
    pool_free(pool);
}

static void edge_before(void)
{
    Pool       *pool = pool_new(NULL, "edge");
    Explained  *e;
    const Json *json = explain(pool, "stablesr-edge-before", NULL, 0, &e),
               *tensors = json_get(json, "tensors_at_peak");
    int maps = 0;
    tables_agree(json);
    for (uint32_t i = 0; i < tensors->n; i++)
        if (has(&tensors->items[i], "module", "edge_processor.stage1_layers") &&
            has(&tensors->items[i], "class", "activations") &&
            json_get(&tensors->items[i], "shape")->n == 4) {
            CHECK_INT(number(&tensors->items[i], "bytes"), 6442450944);
            maps++;
        }
    CHECK_INT(maps, 10);
    pool_free(pool);
}

static void lag(void)
{
    Pool       *pool = pool_new(NULL, "lag");
    Explained  *e;
    const Json *json = explain(pool, "lag-32x6", NULL, 0, &e),
               *tensors = json_get(json, "tensors_at_peak");
    int64_t context = 0;
    tables_agree(json);
    for (uint32_t i = 0; i < tensors->n; i++)
        if (has(&tensors->items[i], "name", "context") &&
            strlen(json_get(&tensors->items[i], "name")->text) == 7)
            context = number(&tensors->items[i], "bytes");
    CHECK_INT(context, 50331648);
    CHECK_INT(number(json_get(json, "parameters"), "trainable"), 33594686);
    pool_free(pool);
}

static void sashimi(void)
{
    Pool       *pool = pool_new(NULL, "sashimi");
    Explained  *e;
    const Json *json = explain(pool, "sashimi-24576", NULL, 0, &e),
               *avoided = json_get(json, "avoided");
    tables_agree(json);
    CHECK(has(&avoided->items[0], "name", "Cauchy matrix"));
    CHECK_INT(number(&avoided->items[0], "bytes"), 1610743808);
    CHECK_INT(class_bytes(json, "ema"), 0);
    pool_free(pool);
}

/* bf16: every trained parameter keeps its fp32 copy; asking for the minimum that is named works. */
static void halves(void)
{
    static const char *const sets[] = { "precision=bf16" };
    Pool                    *pool = pool_new(NULL, "small");
    Explained               *e;
    const Json              *json = explain(pool, "dit3d-small", sets, 1, &e);
    tables_agree(json);
    CHECK_INT(class_bytes(json, "master"), 2 * class_bytes(json, "parameters"));
    FitResult *fit = NEW(pool, FitResult);
    CHECK_OK(fit_run(pool, e->recipe, e->device,
                     &(FitOptions){ .budget_bytes = number(json, "minimum_bytes"),
                                    .allow = ALLOW_DEFAULT,
                                    .effort = 2000 },
                     fit));
    CHECK(fit->fits && fit->engine->arena_bytes <= number(json, "minimum_bytes"));
    pool_free(pool);
}

/* A plan within a budget has a sheet of its own that adds up in every phase; a sampler is one. */
static void within_a_budget(void)
{
    static const char *const sets[] = { "sample.every=50", "sample.n=2", "validate.every=20",
                                        "validate.batches=2" };
    Pool                    *pool = pool_new(NULL, "budget");
    Explained               *e;
    const Json              *json = explain(pool, "dit3d-small", sets, 4, &e);
    tables_agree(json);
    CHECK(!json_get(json_get(json, "plan"), "classes"));
    e->fit = NEW(pool, FitResult);
    CHECK_OK(fit_run(pool, e->recipe, e->device,
                     &(FitOptions){ .budget_bytes = (e->minimum_bytes + e->sheet->peak_bytes) / 2,
                                    .allow = ALLOW_DEFAULT,
                                    .effort = 500 },
                     e->fit));
    CHECK_OK(explained_plan(pool, e));
    char  *text = NULL;
    size_t bytes = 0;
    FILE  *to = open_memstream(&text, &bytes);
    CHECK_OK(explain_json(to, e));
    fclose(to);
    CHECK_OK(json_parse(pool, "plan", text, bytes, 0, &json));
    free(text);
    const Json *plan = json_get(json, "plan"), *phases = json_get(plan, "phases");
    int64_t     highest = 0;
    int         samplers = 0;
    CHECK_INT(number(plan, "peak_bytes"), e->fit->engine->arena_bytes);
    CHECK_INT(members(json_get(plan, "classes")), number(plan, "peak_bytes"));
    for (uint32_t i = 0; i < phases->n; i++) {
        const Json *phase = &phases->items[i];
        CHECK(public_phase(json_get(phase, "name")->text));
        CHECK_INT(members(json_get(phase, "classes")), number(phase, "peak_bytes"));
        highest = number(phase, "peak_bytes") > highest ? number(phase, "peak_bytes") : highest;
        samplers += !strcmp(json_get(phase, "name")->text, "sample");
    }
    CHECK_INT(highest, number(plan, "peak_bytes"));
    CHECK_INT(samplers, 1);
    tables_agree(json);

    /* A plan below the minimum of the short search becomes the minimum. */
    int64_t minimum = e->minimum_bytes;
    e->fit->engine->arena_bytes = minimum - 1;
    CHECK_OK(explained_plan(pool, e));
    CHECK_INT(e->minimum_bytes, minimum - 1);
    pool_free(pool);
}

/* No line of the terminal's page is wider than 100 columns, and none is coloured unless asked
 * for. */
static void page(void)
{
    Pool      *pool = pool_new(NULL, "page");
    Explained *e;
    char      *text = NULL;
    size_t     bytes = 0;
    explain(pool, "stdiff-small", NULL, 0, &e);
    FILE *to = open_memstream(&text, &bytes);
    explain_text_sheet(to, e, false);
    explain_text_rest(to, e, false);
    fclose(to);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!CHECK(strlen(line) <= 100))
            fprintf(stderr, "  %s\n", line);
    CHECK(!memchr(text, 27, bytes));
    free(text);
    pool_free(pool);
}

int main(void)
{
    RUN(stdiff);
    RUN(edge_before);
    RUN(lag);
    RUN(sashimi);
    RUN(halves);
    RUN(within_a_budget);
    RUN(page);
    return test_end();
}
