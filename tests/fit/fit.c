/* fit.c -- levers by word, split micro-batches, gradient release, and plan files: written, read
 * back and refused. */
#include "test.h"

#include "base/clock.h"
#include "base/file.h"
#include "profile/node_time.h"
#include "fit/fit.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <unistd.h>

#define PLAN "fit_test.plan.json"
#define SMALL                                                                                      \
    "batch=2", "model.widths=[8, 16]", "model.groups=4", "model.height=8", "model.width=8",        \
        "data.samples=16"

static Recipe *unet(Pool *pool, const char *more)
{
    const char *sets[] = { SMALL, more };
    Recipe     *recipe;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", sets, more ? 7 : 6, &recipe));
    return recipe;
}

static Device *cpu(Pool *pool, int threads, const char *backend)
{
    Device *device;
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = threads, .backend = backend }, &device));
    return device;
}

static void words(void)
{
    unsigned allow;
    CHECK_OK(allow_read("none", &allow));
    CHECK_INT(allow, ALLOW_NONE);
    CHECK_OK(allow_read("algorithm,chunk,split", &allow));
    CHECK_INT(allow, ALLOW_DEFAULT);
    CHECK_OK(allow_read("batchnorm-split", &allow)); /* names the split it is about */
    CHECK_INT(allow, ALLOW_SPLIT | ALLOW_BATCHNORM_SPLIT);
    const char *const wrong[] = { "",       ",",          "split,",     "all",
                                  "splits", "split none", "none,split", "split,,chunk" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(allow_read(wrong[i], &allow), E_USAGE);
        CHECK(strstr(err_text(), "batchnorm-split") != NULL);
    }
}

static void split(void)
{
    Pool   *pool = pool_new(NULL, "split");
    Recipe *recipe = unet(pool, "accumulate=3");
    CHECK_INT(recipe_split(recipe, 3), E_USAGE);
    CHECK_INT(recipe_split(recipe, 0), E_USAGE);
    CHECK_INT(recipe->batch, 2);
    CHECK_OK(recipe_split(recipe, 2));
    CHECK_INT(recipe->batch, 1);
    CHECK_INT(recipe->accumulate, 6);
    CHECK_INT(recipe->levers.split, 2);
    pool_free(pool);
}

/* Precision only where named; the split keeps the effective batch; batch norm is not split
 * unasked. */
static void levers(void)
{
    Pool      *pool = pool_new(NULL, "levers");
    Device    *device = cpu(pool, 2, "builtin");
    Recipe    *recipe = unet(pool, "accumulate=1"), *norm;
    FitResult  fit;
    FitOptions how = { .budget_bytes = 1, .effort = 500, .allow = ALLOW_DEFAULT };
    CHECK_INT(fit_run(pool, recipe, device, &how, &fit), E_BUDGET);
    CHECK_INT(fit.recipe->precision, recipe->precision);
    int64_t in_fp32 = fit.minimum_bytes;
    how.allow |= ALLOW_PRECISION;
    CHECK_INT(fit_run(pool, recipe, device, &how, &fit), E_BUDGET);
    how.budget_bytes = fit.minimum_bytes;
    CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
    CHECK(fit.engine->arena_bytes <= in_fp32);

    const char *sets[] = { "batch=2" };
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/stablesr-small.yaml", sets, 1, &norm));
    how = (FitOptions){ .budget_bytes = 1, .effort = 200, .allow = ALLOW_DEFAULT };
    CHECK_INT(fit_run(pool, norm, device, &how, &fit), E_BUDGET);
    CHECK_INT(fit.recipe->batch, 2);
    CHECK(fit.n_notes > 0 && strstr(fit.notes[0], "batchnorm-split") != NULL);
    int64_t whole = fit.minimum_bytes;
    how.allow |= ALLOW_BATCHNORM_SPLIT;
    CHECK_INT(fit_run(pool, norm, device, &how, &fit), E_BUDGET);
    CHECK_INT(fit.recipe->batch * fit.recipe->accumulate, 2);
    CHECK(fit.minimum_bytes <= whole);
    pool_free(pool);
}

/* What forbids gradient release, and that it lowers the peak where nothing does. */
static void release(void)
{
    Pool   *pool = pool_new(NULL, "release");
    Device *device = cpu(pool, 2, "builtin");
    Recipe *recipe = unet(pool, "accumulate=2");
    CHECK(strstr(recipe_no_release(recipe), "accumulated") != NULL);
    recipe->accumulate = 1;
    CHECK(strstr(recipe_no_release(recipe), "clipping") != NULL);
    recipe->optimizer.clip = 0;
    CHECK(recipe_no_release(recipe) == NULL);
    recipe->precision = PRECISION_FP16;
    CHECK(strstr(recipe_no_release(recipe), "fp16") != NULL);
    recipe->precision = PRECISION_FP32;

    FitResult at_end, early;
    CHECK_OK(fit_plan(pool, recipe, device, &(FitOptions){ 0 }, &at_end));
    recipe->levers.release = true;
    CHECK_OK(fit_plan(pool, recipe, device, &(FitOptions){ 0 }, &early));
    CHECK_INT(early.engine->persistent_bytes, at_end.engine->persistent_bytes);
    CHECK_INT(llround(early.step_ns), llround(at_end.step_ns));
    CHECK(early.engine->arena_bytes <= at_end.engine->arena_bytes);
    pool_free(pool);
}

/* Training through files: a plan is followed, a run keeps its plan and goes on with it, to the same
 * bits. */
static void followed(void)
{
    Pool       *pool = pool_new(NULL, "followed");
    Device     *device = cpu(pool, 2, "builtin");
    Recipe     *recipe = unet(pool, "accumulate=2");
    FitResult   fit, minimum;
    FitOptions  how = { .budget_bytes = 1, .effort = 500, .allow = ALLOW_NONE };
    TrainResult plain, planned;
    const char *files[2];
    char       *bytes[2];
    size_t      n[2];
    CHECK_INT(fit_run(pool, recipe, device, &how, &minimum), E_BUDGET);
    how.budget_bytes = minimum.minimum_bytes;
    CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
    CHECK(fit.engine->recomputed > 0);
    CHECK_OK(fit_write(PLAN, recipe, &fit));
    for (int i = 0; i < 2; i++) {
        const char       *out = pool_print(pool, "fit_test_run%d", i);
        const char *const old[] = { "recipe.yaml",
                                    "plan.json",
                                    "log.jsonl",
                                    "step-000002.json",
                                    "step-000002.safetensors",
                                    "step-000004.json",
                                    "step-000004.safetensors" };
        for (size_t f = 0; f < sizeof old / sizeof *old; f++)
            unlink(pool_print(pool, "%s/%s", out, old[f]));
        recipe->steps = 2;
        CHECK_OK(train_run(pool, recipe, device,
                           &(TrainOptions){ .out = out, .plan = i ? PLAN : NULL, .quiet = true },
                           i ? &planned : &plain));
        recipe->steps = 4;
        CHECK_OK(train_run(pool, recipe, device,
                           &(TrainOptions){ .out = out, .resume = true, .quiet = true },
                           i ? &planned : &plain));
        files[i] = pool_print(pool, "%s/step-000004.safetensors", out);
        CHECK_OK(file_read(pool, files[i], &bytes[i], &n[i]));
    }
    CHECK(n[0] == n[1] && !memcmp(bytes[0], bytes[1], n[0]));
    CHECK_INT(planned.planned_bytes, fit.engine->arena_bytes);
    CHECK_INT(planned.recomputed, fit.engine->recomputed);
    CHECK_INT(plain.recomputed, 0);
    CHECK_INT(train_run(pool, recipe, cpu(pool, 1, "builtin"),
                        &(TrainOptions){ .out = "fit_test_run1", .resume = true, .quiet = true },
                        &planned),
              E_PLAN); /* the run's plan is for two threads */
    CHECK(strstr(err_text(), "2 threads") != NULL);
    pool_free(pool);
}

typedef struct Damage {
    const char *find, *put, *says;
} Damage;

static void put_file(Pool *pool, const char *text, const Damage *damage)
{
    Text        out = { .pool = pool };
    const char *at = damage ? strstr(text, damage->find) : NULL;
    CHECK(!damage || at);
    text_add(&out, "%.*s%s%s", at ? (int)(at - text) : 0, text, at ? damage->put : "",
             at ? at + strlen(damage->find) : text);
    CHECK_OK(file_write(PLAN, out.at, out.n));
}

/* Nothing in a file is believed. */
static void damaged(void)
{
    Pool     *pool = pool_new(NULL, "damaged");
    Device   *device = cpu(pool, 2, "builtin");
    Recipe   *recipe = unet(pool, "accumulate=1");
    FitResult fit;
    char     *text;
    size_t    n;
    CHECK_OK(fit_run(pool, recipe, device, &(FitOptions){ 0 }, &fit));
    CHECK_OK(fit_write(PLAN, recipe, &fit));
    CHECK_OK(file_read(pool, PLAN, &text, &n));
    CHECK_OK(fit_read(pool, PLAN, recipe, device, false, &fit));

    const Damage damages[] = {
        { "plimsoll-plan-1", "plimsoll-plan-9", "format" },
        { "\"graph\": \"", "\"graph\": \"0", "another graph" },
        { "\"threads\": 2", "\"threads\": 3", "3 threads" },
        { "\"library\": \"builtin", "\"library\": \"built-in", "library" },
        { "\"name\": \"cpu\"", "\"name\": \"cud\"", "device" },
        { "\"release\": false", "\"release\": 0", "release" },
        { "\"release\": false", "\"release\": true", "early" },
        { "\"batch\": 2", "\"batch\": 4", "micro-batches" },
        { "\"split\": 1", "\"split\": 2", "micro-batches" },
        { "\"split\": 1", "\"split\": -9223372036854775807", "micro-batches" },
        { "\"precision\": \"fp32\"", "\"precision\": \"fp31\"", "precision" },
        { "\"asked_precision\": \"fp32\"", "\"asked_precision\": \"bf16\"", "bf16" },
        { "\"attention\": \"streamed\"", "\"attention\": \"stored\"", "another graph" },
        { "\"steps\": [", "\"steps\": [[\"run\", 1],", "node" },
        { "\"steps\": [", "\"steps\": [[\"walk\", \"x\"],", "walk" },
        { "[\"drop\", ", "[\"save\", ", "" },
        { "\"offsets\": [", "\"offsets\": [0, ", "offsets" },
        { "\"offsets\": [", "\"offsets\": [-", "" },
        { "\"offsets\": [", "\"offsets\": [9", "" },
        { "\"offsets\": [", "\"offsets\": [0.5, ", "" },
        { "\"phases\": [", "\"phases\": [null, ", "phase must be an object" },
        { "\"phases\": [", "\"phases\": [{}, ", "phases are given" },
        { "\"name\": \"micro\"", "\"name\": \"micro+update\"", "earlier version" },
        { "\"name\": \"micro\"", "\"name\": \"update\"", "this step has micro" },
        { "\"name\": \"update\"", "\"name\": \"save\"", "this step has update" },
        { "\"choices\": [", "\"choices\": [7, ", "choice" },
        { "\"workspace\": ", "\"workspace\": 1", "workspace" },
        { "\"algorithm\": \"", "\"algorithm\": \"x", "workspace" },
        { "\"repeat\": 1", "\"repeat\": 2", "phase" },
        { "\"arena_bytes\": ", "\"arena_bytes\": 1", "arena_bytes" },
        { "\"live_bytes\": ", "\"live_bytes\": 1", "live_bytes" },
        { "\"persistent_bytes\": ", "\"persistent_bytes\": 1", "persistent_bytes" },
        { "\"sample_chunks\": 1", "\"sample_chunks\": 0", "only one of the two" },
        { "\"sample_chunks\": 1", "\"sample_chunks\": 5000", "only one of the two" },
        { "\"sample_chunks\": 1", "\"sample_chunks\": 1.5", "sample_chunks" },
        { "\"loss_chunks\": 1", "\"loss_chunks\": -4", "only one of the two" },
        { "\"loss_chunks\": 1", "\"loss_chunks\": \"4\"", "loss_chunks" },
        { "\"sample_chunks\": 1", "\"sample_chunks\": 2", "" }, /* another graph */
        { "{", "[", "" },
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        put_file(pool, text, &damages[i]);
        Err err = fit_read(pool, PLAN, recipe, device, false, &fit);
        CHECK(err == E_PLAN || err == E_FORMAT);
        if (!strstr(err_text(), damages[i].says) || !(err == E_PLAN || err == E_FORMAT))
            CHECK_TEXT(err_text(), damages[i].find); /* shows what was said about which damage */
    }
    /* Every prefix of the file, and a plan of a bare graph. */
    for (size_t keep = 0; keep < n; keep += 1 + n / 40) {
        CHECK_OK(file_write(PLAN, text, keep));
        CHECK_INT(fit_read(pool, PLAN, recipe, device, false, &fit), E_FORMAT);
    }
    CHECK_OK(file_write(PLAN, "{\"format\": \"plimsoll-plan-1\", \"steps\": []}", 42));
    CHECK_INT(fit_read(pool, PLAN, recipe, device, false, &fit), E_FORMAT);
    CHECK(strstr(err_text(), "bare graph") != NULL);
    unlink(PLAN);
    CHECK_INT(fit_read(pool, PLAN, recipe, device, false, &fit), E_IO);
    pool_free(pool);
}

/* Chunks survive a plan file. The bound of a proof is never above the cost of the plan. */
static void chunks(void)
{
    Pool       *pool = pool_new(NULL, "chunks");
    Device     *device = cpu(pool, 2, "builtin");
    const char *sets[] = { "model.length=256", "batch=4" };
    Recipe     *asked, *recipe;
    FitResult   fit, back;
    EngineProof proof;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/sashimi-small.yaml", sets, 2, &asked));
    for (int i = 0; i < 2; i++) {
        recipe = recipe_copy(pool, asked);
        *(i ? &recipe->levers.loss_chunks : &recipe->levers.sample_chunks) = 4;
        CHECK_OK(fit_plan(pool, recipe, device, &(FitOptions){ 0 }, &fit));
        CHECK(fit.graph.chunked > 1);
        CHECK_OK(fit_write(PLAN, asked, &fit));
        CHECK_OK(fit_read(pool, PLAN, asked, device, false, &back));
        CHECK_INT(back.graph.chunked, fit.graph.chunked);
        CHECK_INT(back.engine->arena_bytes, fit.engine->arena_bytes);
        CHECK_INT(i ? back.recipe->levers.loss_chunks : back.recipe->levers.sample_chunks, 4);
        CHECK_OK(engine_prove(pool, fit.engine, fit.engine->arena_bytes, 1, &proof));
        CHECK(proof.reached && proof.bytes <= fit.engine->arena_bytes);
        CHECK_NEAR(proof.cost_ns, fit.step_ns, 1);
    }
    unlink(PLAN);
    /* Within a budget, the bound on time is between every node once and the plan; the minimum is
     * not below the bound on bytes. */
    FitOptions how = { .budget_bytes = 1, .effort = 300, .allow = ALLOW_NONE };
    CHECK_INT(fit_run(pool, asked, device, &how, &fit), E_BUDGET);
    CHECK_OK(engine_prove(pool, fit.engine, 1, 1, &proof));
    CHECK(proof.bytes > 0 && proof.bytes <= fit.minimum_bytes);
    how.budget_bytes = (fit.minimum_bytes + fit.default_bytes) / 2;
    CHECK_OK(fit_run(pool, asked, device, &how, &fit));
    CHECK(fit.engine->recomputed > 0);
    CHECK_OK(engine_prove(pool, fit.engine, how.budget_bytes, 1, &proof));
    CHECK(proof.cost_ns >= fit.default_ns * (1 - 1e-9) &&
          proof.cost_ns <= fit.step_ns * (1 + 1e-9));
    pool_free(pool);
}

/* fit predicts the same time as train and explain for the same plan, with the profile's correction
 * for tight arenas (docs/dev/TIME.md), also when the plan is read from its file. */
static void forecasts(void)
{
    Pool     *pool = pool_new(NULL, "forecasts");
    Device   *device = cpu(pool, 2, "builtin");
    Recipe   *recipe = unet(pool, "accumulate=2");
    Bandwidth bandwidth = { 2, 1e10, 1e10, 1e10 };
    Profile   profile = { .name = "p", .launch_ns = 10, .bandwidth = &bandwidth, .n_bandwidth = 1 };
    FitResult kept, fit, again;
    FitOptions how = { .effort = 500, .allow = ALLOW_NONE };
    device->profile = &profile;
    CHECK_OK(fit_run(pool, recipe, device, &how, &kept));
    profile_add_tight(pool, &profile, (Tightness){ graph_identity(kept.graph.graph), 0.1, 0.25 });
    CHECK_NEAR(kept.step_ns, engine_step_ns(kept.engine, 2), 1e-6);
    how.budget_bytes = 1;
    CHECK_INT(fit_run(pool, recipe, device, &how, &fit), E_BUDGET);
    how.budget_bytes = fit.minimum_bytes;
    CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
    CHECK(fit.engine->recomputed > 0);
    CHECK_NEAR(fit.step_ns, engine_step_ns(fit.engine, fit.recipe->accumulate), 1e-6);
    CHECK(fit.step_ns < 0.9 * fit.engine->cost_ns); /* the minimum saves some % */
    CHECK_NEAR(fit.default_ns, kept.step_ns, 1e-6);
    CHECK_OK(fit_write(PLAN, recipe, &fit));
    CHECK_OK(fit_read(pool, PLAN, recipe, device, false, &again));
    CHECK_NEAR(again.step_ns, fit.step_ns, 1e-6 * fit.step_ns);
    unlink(PLAN);
    FitPoint *points;
    int       n;
    CHECK_OK(fit_curve(pool, recipe, device, &how, NULL, &points, &n));
    for (int i = 0; i < n; i++)
        CHECK_NEAR(points[i].step_ns,
                   engine_forecast_ns(kept.engine, points[i].sum_ns, points[i].peak_bytes), 1e-3);
    CHECK(n > 1 && points[n - 1].step_ns < points[n - 1].sum_ns);
    pool_free(pool);
}

typedef struct PointsTold {
    int     n;
    int64_t peak_bytes; /* the smallest */
    double  sum_ns;     /* the shortest */
} PointsTold;

static void told_add(void *arg, const FitPoint *p)
{
    PointsTold *told = arg;
    told->peak_bytes = !told->n || p->peak_bytes < told->peak_bytes ? p->peak_bytes
                                                                    : told->peak_bytes;
    told->sum_ns = !told->n || p->sum_ns < told->sum_ns ? p->sum_ns : told->sum_ns;
    told->n++;
}

/* A curve falls in bytes and rises in time, and offers name only what is not allowed yet. */
static void curve(void)
{
    Pool      *pool = pool_new(NULL, "curve");
    Device    *device = cpu(pool, 2, "builtin");
    Recipe    *recipe = unet(pool, "accumulate=1");
    FitOptions how = { .budget_bytes = 1, .effort = 1000, .allow = ALLOW_DEFAULT };
    FitPoint  *points;
    FitOffer   offers[ALLOW_COUNT] = { 0 };
    int        n;
    PointsTold told = { 0 };
    how.point = told_add;
    how.point_arg = &told;
    CHECK_OK(fit_curve(pool, recipe, device, &how, NULL, &points, &n));
    how.point = NULL;
    CHECK(n > 3);
    CHECK(told.n >= n); /* and the best of all were among those told as they came */
    CHECK(told.peak_bytes == points[n - 1].peak_bytes && told.sum_ns == points[0].sum_ns);
    for (int i = 1; i < n; i++)
        CHECK(points[i].peak_bytes < points[i - 1].peak_bytes &&
              points[i].step_ns > points[i - 1].step_ns);

    /* A search that is cut off at once has few points; none is worse than a plan that is known. */
    FitResult  fit;
    FitOptions hasty = how;
    how.budget_bytes = (points[0].peak_bytes + points[n - 1].peak_bytes) / 2;
    hasty.time_limit_s = 0.01;
    CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
    CHECK_OK(fit_curve(pool, recipe, device, &hasty, &fit, &points, &n));
    bool there = false;
    for (int i = 0; i < n; i++) {
        there |= points[i].peak_bytes == fit.engine->arena_bytes;
        CHECK(points[i].peak_bytes <= fit.engine->arena_bytes ||
              points[i].sum_ns <= fit.engine->cost_ns);
    }
    CHECK(there);

    /* Of two plans with the same bytes the faster one is kept. */
    Engine slower = *fit.engine;
    fit.engine = &slower;
    slower.arena_bytes = points[n - 1].peak_bytes;
    slower.cost_ns *= 9;
    CHECK_OK(fit_curve(pool, recipe, device, &hasty, &fit, &points, &n));
    for (int i = 1; i < n; i++)
        CHECK(points[i].peak_bytes < points[i - 1].peak_bytes &&
              points[i].sum_ns > points[i - 1].sum_ns);
    how.budget_bytes = 1;
    CHECK_OK(fit_offers(pool, recipe, device, &how, offers, &n));
    CHECK_INT(n, 2);
    CHECK_INT(offers[0].allow, ALLOW_PRECISION_BIT);
    CHECK_INT(offers[1].allow, ALLOW_BATCHNORM_SPLIT_BIT);
    pool_free(pool);
}

/* A budget that only recomputation meets, and hardly any time: the first plan that fits is found
 * and kept, whatever the search that follows has time for. */
static void first_plan_is_kept(void)
{
    Pool      *pool = pool_new(NULL, "test");
    Recipe    *recipe;
    Device    *device;
    FitResult  kept, fit;
    FitOptions how = { .allow = ALLOW_DEFAULT };
    CHECK_OK(recipe_read(pool, "unet-small", NULL, 0, &recipe));
    CHECK_OK(device_open(pool, "generic-cpu", &(DeviceOptions){ .backend = "builtin" }, &device));
    CHECK_OK(fit_run(pool, recipe, device, &how, &kept));
    for (int allowed = 0; allowed < 2; allowed++) {
        how.allow = allowed ? ALLOW_DEFAULT : ALLOW_NONE;
        how.budget_bytes = kept.engine->arena_bytes * (allowed ? 70 : 90) / 100;
        how.effort = 1000000000; /* more than the time allows */
        how.time_limit_s = 3;    /* the first plan takes 0.2 s; the rest is for a busy machine */
        CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
        CHECK(fit.fits && fit.cut);
        CHECK(fit.engine->arena_bytes <= how.budget_bytes);
    }
    pool_free(pool);
}

int main(void)
{
    RUN(words);
    RUN(first_plan_is_kept);
    RUN(split);
    RUN(levers);
    RUN(release);
    RUN(followed);
    RUN(damaged);
    RUN(chunks);
    RUN(curve);
    RUN(forecasts);
    return test_end();
}
