/* whatif.c -- what-if rows are plans of the changed recipe, limits are kept, failures are rows. */
#include "test.h"

#include "base/clock.h"
#include "fit/whatif.h"

static Explained *explain(Pool *pool, const char *name, const char *const *sets, int n)
{
    Recipe    *recipe;
    Device    *device;
    Explained *e = NULL;
    CHECK_OK(
        recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, n, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_OK(explained_new(pool, recipe, device, &(ExplainOptions){ 0 }, &e));
    return e;
}

static const WhatIf *row(const Explained *e, const char *name)
{
    static const WhatIf none;
    for (int32_t i = 0; i < e->n_what_if; i++)
        if (strstr(e->what_if[i].name, name))
            return &e->what_if[i];
    fprintf(stderr, "no row '%s'\n", name);
    CHECK(false);
    return &none;
}

/* A row has the figures that explain gives for the changed recipe. */
static void rows_are_plans(void)
{
    static const struct {
        const char *row, *sets[2];
        int         n;
    } same[] = {
        { "no average", { "ema.rule=none" }, 1 },
        { "SGD without", { "optimizer.kind=sgd", "optimizer.beta1=0" }, 2 },
        { "bf16", { "precision=bf16" }, 1 },
        { "half the channels", { "model.channels=[16,16,16,32,32]" }, 1 },
        { "fewer predicted frames", { "model.predicted=1" }, 1 },
    };
    Pool      *pool = pool_new(NULL, "rows");
    Explained *e = explain(pool, "stdiff-small", NULL, 0);
    CHECK_OK(whatif_run(
        pool, e, &(WhatIfOptions){ .time_limit_s = 600, .effort = 50, .allow = ALLOW_DEFAULT }));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const WhatIf *w = row(e, same[i].row);
        test_name = same[i].row;
        if (w->failed) {
            printf("  %s: %s\n", w->name, w->note);
            continue;
        }
        Explained *other = explain(pool, "stdiff-small", same[i].sets, same[i].n);
        CHECK_INT(w->peak_bytes, other->sheet->peak_bytes);
        CHECK_INT(w->saved_bytes, e->sheet->peak_bytes - other->sheet->peak_bytes);
        CHECK_NEAR(w->slowdown, other->step_ms / e->step_ms, 1e-9);
    }
    test_name = "recompute";
    CHECK(row(e, "recompute")->saved_bytes > 0 && row(e, "recompute")->slowdown > 1);
    CHECK(strstr(row(e, "recompute as")->how,
                 pool_print(pool, "--budget %lld",
                            (long long)row(e, "recompute as")->peak_bytes)) != NULL);
    CHECK(row(e, "all levers")->peak_bytes <= row(e, "recompute")->peak_bytes);
    CHECK(!strcmp(e->what_if[e->n_what_if - 1].name, row(e, "all levers")->name));
    for (int32_t i = 0; i + 2 < e->n_what_if; i++) /* most saved first, failed rows last */
        CHECK(e->what_if[i + 1].failed ||
              e->what_if[i].saved_bytes >= e->what_if[i + 1].saved_bytes);
    CHECK(e->n_beliefs >= 4);
    pool_free(pool);
}

/* With a time limit that is over at once, every row is there, marked, and has no figures. */
static void limit_is_kept(void)
{
    Pool      *pool = pool_new(NULL, "limit");
    Explained *e = explain(pool, "unet-small", NULL, 0);
    double     start = clock_now();
    CHECK_OK(whatif_run(pool, e, &(WhatIfOptions){ .time_limit_s = 1e-9, .allow = ALLOW_DEFAULT }));
    CHECK(clock_now() - start < 60);
    CHECK(e->n_what_if > 5);
    for (int32_t i = 0; i < e->n_what_if; i++)
        CHECK(e->what_if[i].failed && e->what_if[i].note && e->what_if[i].peak_bytes == 0);
    pool_free(pool);
}

/* Changes that a system refuses are rows with its sentence. */
static void refusals_are_rows(void)
{
    Pool      *pool = pool_new(NULL, "refusals");
    Explained *e = explain(pool, "dit3d-small", NULL, 0);
    CHECK_OK(whatif_run(
        pool, e, &(WhatIfOptions){ .time_limit_s = 600, .effort = 100, .allow = ALLOW_NONE }));
    for (int32_t i = 0; i < e->n_what_if; i++)
        CHECK(!e->what_if[i].failed || (e->what_if[i].note && *e->what_if[i].note));
    pool_free(pool);
}

/* However short the time limit, a larger budget (by a third or more) has a larger batch, or none is
 * named. */
static void batches_in_time(void)
{
    Pool      *pool = pool_new(NULL, "test");
    Explained *e = explain(pool, "sashimi-small", NULL, 0);
    for (int ms = 100; ms <= 1000; ms += 150) {
        int64_t before = 0;
        budgets_replan(e, ms / 1e3);
        for (int i = 0; i < e->n_budgets; i++) {
            int64_t batch = e->budgets[i].largest_replanned;
            CHECK(batch == -1 || batch > before + before / 5);
            before = batch > before ? batch : before;
        }
    }
    pool_free(pool);
}

int main(void)
{
    RUN(rows_are_plans);
    RUN(limit_is_kept);
    RUN(refusals_are_rows);
    RUN(batches_in_time);
    return test_end();
}
