/* phases.c -- validation and sampling between steps: training gives the same bits, every phase uses
 * its planned bytes, a killed run continues as if it had not been; validation allocates nothing;
 * held-out samples are not trained on. */
#include "alloc_count.h"
#include "folder.h"
#include "test.h"

#include "base/file.h"
#include "data/wav.h"
#include "train/checkpoint.h"
#include "train/feeds.h"
#include "fit/fit.h"
#include "train/phases.h"
#include "train/sample.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <unistd.h>

#define SMALL                                                                                      \
    "batch=2", "accumulate=2", "model.widths=[8, 16]", "model.groups=4", "model.height=8",         \
        "model.width=8", "data.samples=16", "sampler.steps=3", "save.every=0"
#define PHASES                                                                                     \
    "validate.every=2", "validate.batches=3", "validate.batch=5", "sample.every=4", "sample.n=3"

enum { MAX_SETS = 32 };

static int count(const char *const *list)
{
    int n = 0;
    while (list[n])
        n++;
    return n;
}

/* The recipe with both lists of settings, each ending with NULL. */
static Recipe *recipe_with(Pool *pool, const char *name, const char *const *some,
                           const char *const *more)
{
    const char *sets[MAX_SETS];
    Recipe     *recipe;
    int         n = 0;
    for (int i = 0; i < count(some); i++)
        sets[n++] = some[i];
    for (int i = 0; more && i < count(more); i++)
        sets[n++] = more[i];
    CHECK_OK(
        recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, n, &recipe));
    return recipe;
}

static Device *cpu(Pool *pool)
{
    Device *device;
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    return device;
}

static bool same_files(Pool *pool, const char *a, const char *b)
{
    char  *x, *y;
    size_t n, m;
    CHECK_OK(file_read(pool, a, &x, &n));
    CHECK_OK(file_read(pool, b, &y, &m));
    return n == m && !memcmp(x, y, n);
}

/* The log without its times, and without the bytes, which stand where they grow in a process. */
static const char *log_text(Pool *pool, const char *run)
{
    static const char *const left_out[] = { ", \"ms\": ", ", \"memory_bytes\": ", ", \"time\": " };
    char                    *text;
    size_t                   n;
    Text                     out = { .pool = pool };
    CHECK_OK(file_read(pool, pool_print(pool, "%s/log.jsonl", run), &text, &n));
    for (const char *at = text; *at;) {
        bool skip = false;
        for (int i = 0; i < 3 && !skip; i++)
            skip = !strncmp(at, left_out[i], strlen(left_out[i]));
        if (!skip)
            text_addn(&out, at, 1);
        at += skip ? strcspn(at + 2, ",}\n") + 2 : 1;
    }
    return out.at;
}

static TrainResult train(Pool *pool, const Recipe *recipe, const char *out, bool resume,
                         int64_t budget)
{
    TrainResult result;
    if (!resume)
        folder_clear(pool, out);
    CHECK_OK(train_run(pool, recipe, cpu(pool),
                       &(TrainOptions){ .out = out,
                                        .resume = resume,
                                        .budget_bytes = budget,
                                        .allow = ALLOW_NONE,
                                        .quiet = true },
                       &result));
    return result;
}

/* Every phase that runs uses what was planned for it; training has the bits it has without phases,
 * and a sample those of `plimsoll sample` from the checkpoint of its step. */
static void nothing_changes(const char *name, const char *const *some)
{
    static const char *const phases[] = { PHASES, NULL };
    Pool                    *pool = pool_new(NULL, name);
    Recipe                  *with = recipe_with(pool, name, some, phases),
           *without = recipe_with(pool, name, some, NULL);
    SampleReport report;
    with->steps = without->steps = 4;
    TrainResult result = train(pool, with, "phases_a", false, 0);
    train(pool, without, "phases_b", false, 0);
    CHECK(same_files(pool, "phases_a/step-000004.safetensors", "phases_b/step-000004.safetensors"));
    CHECK_INT(result.validations, 2);
    CHECK(isfinite(result.validation_last));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        /* drawn on the host: the phase only holds weights */
        if (phase != PHASE_SAMPLE || strcmp(name, "sashimi-small"))
            CHECK_INT(result.phase_measured[phase], result.phase_planned[phase]);
    CHECK(result.phase_planned[PHASE_VALIDATE] > 0);
    CHECK_INT(strstr(log_text(pool, "phases_a"), "val_loss") != NULL, 1);
    CHECK(strstr(log_text(pool, "phases_b"), "val_loss") == NULL);

    CHECK_OK(sample_run(
        pool, "phases_a", with, cpu(pool),
        &(SampleOptions){ .out = "phases_c", .n = 3, .seed = -1, .checkpoint = -1, .quiet = true },
        &report));
    CHECK(report.n_files > 0);
    for (int32_t i = 0; i < report.n_files; i++) {
        const char *file = strrchr(report.files[i], '/');
        CHECK(
            same_files(pool, report.files[i], pool_print(pool, "phases_a/samples/000004%s", file)));
    }
    pool_free(pool);
}

static void in_every_system(void)
{
    static const char *const        unet[] = { SMALL, NULL },
                             *const unet_bf16[] = { SMALL, "precision=bf16", NULL },
                             *const unet_fp16[] = { SMALL, "precision=fp16", "ema.rule=none",
                                                    NULL },
                             *const dit[] = { "sampler.steps=2", "model.depth=1", "batch=2", NULL },
                             *const lag[] = { "sampler.steps=2", "batch=2", "precision=bf16",
                                              NULL },
                             *const sashimi[] = { "sampler.length=32", "model.length=256",
                                                  "batch=2", "accumulate=2", NULL },
                             *const sashimi_bf16[] = { "sampler.length=32", "model.length=64",
                                                       "precision=bf16", NULL },
                             *const vae[] = { "batch=2", "model.vae_channels=8",
                                              "ema.rule=constant", NULL };
    nothing_changes("unet-small", unet);
    nothing_changes("unet-small", unet_bf16);
    nothing_changes("unet-small", unet_fp16);
    nothing_changes("dit3d-small", dit);
    nothing_changes("lag-small", lag);
    nothing_changes("sashimi-small", sashimi);
    nothing_changes("sashimi-small", sashimi_bf16);
    nothing_changes("stablesr-vae-small", vae);
}

/* A phase larger than the step: it is the peak, and it must fit the budget. */
static void counts_in_budgets(void)
{
    static const char *const some[] = { SMALL, NULL }, *const more[] = {
        "validate.every=2", "validate.batch=40", "validate.batches=1", NULL
    };
    Pool     *pool = pool_new(NULL, "budget");
    Recipe   *recipe = recipe_with(pool, "unet-small", some, more);
    FitResult kept, least, fit;
    recipe->steps = 4;
    CHECK_OK(fit_run(pool, recipe, cpu(pool), &(FitOptions){ 0 }, &kept));
    CHECK_TEXT(kept.engine->programs[kept.engine->peak_program].name, "validate");
    CHECK_INT(
        fit_run(pool, recipe, cpu(pool), &(FitOptions){ .budget_bytes = 1, .effort = 300 }, &least),
        E_BUDGET);
    CHECK(strstr(err_text(), "validate") != NULL); /* names the phase */
    CHECK(least.minimum_bytes < kept.engine->arena_bytes);
    CHECK_OK(fit_run(pool, recipe, cpu(pool),
                     &(FitOptions){ .budget_bytes = least.minimum_bytes, .effort = 300 }, &fit));
    CHECK(fit.engine->arena_bytes <= least.minimum_bytes);
    TrainResult wide = train(pool, recipe, "phases_a", false, 0),
                tight = train(pool, recipe, "phases_b", false, least.minimum_bytes);
    CHECK_INT(wide.measured_bytes, wide.planned_bytes);
    CHECK_INT(tight.measured_bytes, tight.planned_bytes);
    CHECK(tight.planned_bytes < wide.planned_bytes);
    CHECK_TEXT(log_text(pool, "phases_a"), log_text(pool, "phases_b"));
    pool_free(pool);
}

/* Where micro-batches are split, validation is split too, over the same samples: its loss differs
 * only by noise and rounding. */
static void is_cut_with_the_step(void)
{
    Pool   *pool = pool_new(NULL, "cut");
    Recipe *recipe = recipe_with(
        pool, "unet-small",
        (const char *const[]){ "batch=6", "validate.every=1", "validate.batches=2", NULL }, NULL);
    Validation v = recipe_validation(recipe);
    CHECK_INT(v.batch, 6);
    CHECK_INT(v.batches, 2);
    CHECK_OK(recipe_split(recipe, 3));
    v = recipe_validation(recipe);
    CHECK_INT(v.batch, 2);
    CHECK_INT(v.batches, 6);
    CHECK_INT(v.split, 3);
    recipe->validate.batch = 4; /* not divisible: not split */
    v = recipe_validation(recipe);
    CHECK_INT(v.batch, 4);
    CHECK_INT(v.batches, 2);
    CHECK_INT(v.split, 1);
    pool_free(pool);
}

/* A run that was killed between a validation and the next checkpoint is resumed to the same log,
 * rates, samples and weights; so is one stopped between any other two steps. */
static void goes_on(const char *watch)
{
    Pool             *pool = pool_new(NULL, "on");
    const char *const some[] = { SMALL, NULL };
    const char *const more[] = { "validate.every=3",
                                 "validate.batches=2",
                                 "sample.every=6",
                                 "sample.n=2",
                                 "save.every=4",
                                 "save.keep=9",
                                 "schedule.kind=plateau",
                                 "schedule.patience=0",
                                 "schedule.period=3",
                                 "schedule.factor=0.5",
                                 "schedule.threshold=0.2",
                                 watch,
                                 NULL };
    Recipe           *recipe = recipe_with(pool, "unet-small", some, more);
    char             *text;
    size_t            n;
    recipe->save.every = 4;
    recipe->save.best = false; /* step 4 is the newest whole one when step 7 is lost */
    recipe->steps = 14;
    train(pool, recipe, "phases_a", false, 0);
    CHECK_OK(file_read(pool, "phases_a/step-000014.json", &text, &n));
    CHECK(strstr(text, "plateau") != NULL);
    /* the plateau lowered it on the way */
    CHECK(strstr(log_text(pool, "phases_a"), "\"lr\": 0.000500000") != NULL);

    recipe->steps = 7;
    train(pool, recipe, "phases_b", false, 0);
    CHECK_OK(file_remove("phases_b/step-000007.json")); /* as if killed while saving */
    CHECK_OK(file_remove("phases_b/step-000007.safetensors"));
    folder_clear(pool, "phases_b/samples/000006");
    recipe->steps = 13;
    train(pool, recipe, "phases_b", true, 0);
    recipe->steps = 14;
    train(pool, recipe, "phases_b", true, 0);
    CHECK_TEXT(log_text(pool, "phases_a"), log_text(pool, "phases_b"));
    CHECK(same_files(pool, "phases_a/step-000014.safetensors", "phases_b/step-000014.safetensors"));
    CHECK(same_files(pool, "phases_a/step-000014.json", "phases_b/step-000014.json"));
    CHECK(same_files(pool, "phases_a/samples/000006/samples.png",
                     "phases_b/samples/000006/samples.png"));
    pool_free(pool);
}

static void goes_on_by_validation(void) { goes_on("schedule.watch=validation"); }
static void goes_on_by_loss(void) { goes_on("schedule.watch=loss"); }

static void allocates_none(const char *name, const char *const *some)
{
    static const char *const phases[] = { "validate.every=1", "validate.batches=3",
                                          "sample.every=1", "sample.n=3", NULL };
    Pool                    *pool = pool_new(NULL, "none");
    Recipe                  *recipe = recipe_with(pool, name, some, phases);
    TrainingGraph            graph;
    Engine                  *engine;
    Session                 *session;
    Phases                  *p;
    double                   first, again;
    CHECK_OK(recipe_graph(pool, recipe, false, &graph));
    CHECK_OK(engine_new(pool, graph.graph, cpu(pool), NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 1));
    folder_clear(pool, "phases_d");
    CHECK_OK(
        phases_open(pool, session, recipe, &graph, "phases_d", &(Feeds){ .quiet = true }, 0, &p));
    CHECK_OK(phases_validate(p, &first));
    long long before = atomic_load(&alloc_calls), pools = pool_allocations();
    CHECK_OK(phases_validate(p, &again));
    CHECK_INT(atomic_load(&alloc_calls) - before, 0);
    CHECK_INT(pool_allocations(), pools);
    CHECK(first == again); /* the same samples and noise */
    CHECK_INT(session_measured_bytes(session, PHASE_VALIDATE),
              session_planned_bytes(session, PHASE_VALIDATE));
    CHECK_INT(session_measured_bytes(session, PHASE_MICRO), 0);
    before = atomic_load(&alloc_calls);
    CHECK_OK(phases_sample(p, 1));
    CHECK_OK(phases_sample(p, 2));
    CHECK_INT(atomic_load(&alloc_calls) - before, 0);
    const char *file = strcmp(name, "sashimi-small") ? "samples.png" : "audio-002.wav";
    CHECK(same_files(pool, pool_print(pool, "phases_d/samples/000001/%s", file),
                     pool_print(pool, "phases_d/samples/000002/%s", file)));
    CHECK_OK(phases_open(pool, session, recipe, &graph, NULL, &(Feeds){ .quiet = true }, 0, &p));
    CHECK_OK(phases_sample(p, 3)); /* no folder: does nothing */
    CHECK(!folder_exists("phases_d/samples/000003"));
    pool_free(pool);
}

static void allocates_nothing(void)
{
    static const char *const unet[] = { SMALL, NULL };
    static const char *const sashimi[] = { "model.length=64", "model.width=8", "sampler.length=40",
                                           "batch=2", NULL };
    static const char *const lag[] = { "sampler.steps=2", "batch=2", "precision=bf16", NULL };
    allocates_none("unet-small", unet);
    allocates_none("sashimi-small", sashimi);
    allocates_none("lag-small", lag);
}

/* Validation uses the averaged weights: its loss changes with the averages, not with the
 * weights. */
static void reads_the_average(void)
{
    static const char *const some[] = { SMALL, NULL }, *const phases[] = { "validate.every=1",
                                                                           NULL };
    Pool         *pool = pool_new(NULL, "average");
    Recipe       *recipe = recipe_with(pool, "unet-small", some, phases);
    TrainingGraph graph;
    Engine       *engine;
    Session      *session;
    Phases       *p;
    double        loss[3];
    CHECK_OK(recipe_graph(pool, recipe, false, &graph));
    CHECK_OK(engine_new(pool, graph.graph, cpu(pool), NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 1));
    CHECK_OK(phases_open(pool, session, recipe, &graph, NULL, &(Feeds){ .quiet = true }, 0, &p));
    CHECK_OK(phases_validate(p, &loss[0]));
    const Param *bias = param_find(graph.graph, "conv_out.bias");
    if (CHECK(bias && bias->ema >= 0)) {
        float ones[3] = { 1, 1, 1 };
        CHECK_OK(session_write(session, bias->value, ones));
        CHECK_OK(phases_validate(p, &loss[1]));
        CHECK_OK(session_write(session, bias->ema, ones));
        CHECK_OK(phases_validate(p, &loss[2]));
        CHECK(loss[1] == loss[0]);
        CHECK_NEAR(loss[2], loss[0] + 1, 0.2); /* predictions near 0 are now off by 1 */
    }
    pool_free(pool);
}

/* ---- held-out samples ---- */

static Err held_open(Pool *pool, const char *name, const char *const *sets, Feeds *train_feeds,
                     Feeds *held, Recipe **out)
{
    TrainingGraph graph;
    Engine       *engine;
    Session      *session;
    Recipe       *recipe;
    TRY(recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, count(sets),
                    &recipe));
    if (out)
        *out = recipe;
    TRY(recipe_graph(pool, recipe, false, &graph));
    TRY(engine_new(pool, graph.graph, cpu(pool), NULL, &engine));
    TRY(session_new(pool, engine, &session));
    TRY(feeds_new(pool, session, PHASE_MICRO, train_feeds));
    TRY(feeds_open(pool, train_feeds, recipe));
    TRY(feeds_new(pool, session, PHASE_VALIDATE, held));
    return feeds_open_held(pool, held, recipe);
}

/* Four files of 5, 5, 5 and 9 chunks of 64 steps. */
static void write_audio(void)
{
    float wave[9 * 64];
    CHECK_OK(folder_make("phases_audio"));
    for (int k = 0; k < 4; k++) {
        char path[64];
        for (int i = 0; i < 9 * 64; i++)
            wave[i] = (float)sin((0.05 + 0.02 * k) * i);
        snprintf(path, sizeof path, "phases_audio/%d.wav", k);
        CHECK_OK(wav_write(path, wave, k < 3 ? 5 * 64 : 9 * 64, 1, 8000));
    }
}

#define AUDIO                                                                                      \
    "model.length=64", "data.kind=audio", "data.path=phases_audio", "validate.every=1",            \
        "validate.batches=1"

static void whole_files(void)
{
    Pool *pool = pool_new(NULL, "held");
    Feeds trained, held;
    write_audio();
    /* A fifth of 24 chunks is 5, inside the last file: all 9 of it are held out. */
    CHECK_OK(held_open(pool, "sashimi-small",
                       (const char *const[]){ AUDIO, "data.holdout=0.2", NULL }, &trained, &held,
                       NULL));
    CHECK_INT(trained.source->n_samples, 15);
    CHECK_INT(held.first, 15);
    CHECK_OK(held_open(pool, "sashimi-small",
                       (const char *const[]){ AUDIO, "data.holdout_path=phases_audio/3.wav", NULL },
                       &trained, &held, NULL));
    CHECK_INT(trained.source->n_samples, 24);
    CHECK_INT(held.first, 0);
    /* Fewer than asked for: starts again with the first. */
    CHECK_OK(
        held_open(pool, "sashimi-small",
                  (const char *const[]){ AUDIO, "data.holdout=0.2", "validate.batches=3", NULL },
                  &trained, &held, NULL));
    int32_t first[4 * 64];
    CHECK_OK(feeds_fill(&held, 0, 0));
    memcpy(first, feeds_find(&held, "tokens")->bytes, sizeof first);
    CHECK_OK(feeds_fill(&held, 1, 9));
    CHECK(!memcmp(first, feeds_find(&held, "tokens")->bytes, sizeof first));
    CHECK_OK(feeds_fill(&held, 1, 8));
    CHECK(memcmp(first, feeds_find(&held, "tokens")->bytes, sizeof first) != 0);
    /* A single file is divided at the share. */
    CHECK_OK(held_open(pool, "sashimi-small",
                       (const char *const[]){ "model.length=64", "data.kind=audio",
                                              "data.path=phases_audio/3.wav", "validate.every=1",
                                              "validate.batches=1", "data.holdout=0.5", NULL },
                       &trained, &held, NULL));
    CHECK_INT(trained.source->n_samples, 4);
    CHECK_INT(held.first, 4);
    /* A share of most samples: training keeps one file. */
    CHECK_OK(held_open(pool, "sashimi-small",
                       (const char *const[]){ AUDIO, "data.holdout=0.97", NULL }, &trained, &held,
                       NULL));
    CHECK_INT(trained.source->n_samples, 5);
    /* No share given: one in twenty, at the end of a long file; a single sample serves both. */
    CHECK_OK(held_open(pool, "sashimi-small", (const char *const[]){ AUDIO, NULL }, &trained, &held,
                       NULL));
    CHECK_INT(trained.source->n_samples, 23);
    CHECK_INT(trained.held, 1);
    CHECK_INT(held.first, 23);
    CHECK_OK(held_open(pool, "sashimi-small",
                       (const char *const[]){ "model.length=512", "data.kind=audio",
                                              "data.path=phases_audio/3.wav", "validate.every=1",
                                              "validate.batches=1", NULL },
                       &trained, &held, NULL));
    CHECK_INT(trained.source->n_samples, 1);
    CHECK_INT(held.first, 0);
    pool_free(pool);
}

/* Generated samples: training keeps all of its own, validation uses the next ones. */
static void drawn_ones(void)
{
    Pool   *pool = pool_new(NULL, "drawn");
    Feeds   trained, held;
    Recipe *recipe = NULL;
    CHECK_OK(held_open(pool, "unet-small",
                       (const char *const[]){ SMALL, "validate.every=1", "validate.batches=2",
                                              "validate.batch=4", NULL },
                       &trained, &held, &recipe));
    CHECK_INT(trained.source->n_samples, 16);
    CHECK_INT(held.first, 16);
    CHECK_INT(held.source->n_samples, 24);
    CHECK_OK(feeds_fill(&held, 0, 0));
    const float *x = feeds_find(&held, "x")->bytes;
    /* no image of training is among them */
    for (int64_t drawn = 0; drawn < 16; drawn += recipe->batch) {
        CHECK_OK(feeds_fill(&trained, drawn / recipe->batch, drawn));
        const float *y = feeds_find(&trained, "x")->bytes;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < recipe->batch; j++)
                CHECK(memcmp(x + i * 192, y + j * 192, 192 * sizeof *x) != 0);
    }
    pool_free(pool);
}

typedef struct Bad {
    const char *sets[MAX_SETS];
    const char *says;
} Bad;

static void bad_values(void)
{
    static const Bad bads[] = {
        { { "validate.every=-1" }, "every must be from 0" },
        { { "validate.evry=1" }, "did you mean 'every'" },
        { { "validate.batches=0" }, "batches must be from 1" },
        { { "validate.batch=-2" }, "batch must be from 0" },
        { { "validate={every: 5, batchs: 2}" }, "did you mean 'batches'" },
        { { "validate=5" }, "validate" },
        { { "sample.n=0" }, "n must be from 1" },
        { { "sample.n=5000" }, "to 4096" },
        { { "sample.every=1.5" }, "every" },
        { { "sampl.every=1" }, "did you mean 'sample'" },
        { { "save.keep=0" }, "keep must be from 1" },
        { { "data.holdout=1" }, "holdout must be from 0" },
        { { "data.holdout=-0.1" }, "holdout must be from 0" },
        { { "schedule.kind=plateu" }, "did you mean 'plateau'" },
        { { "schedule.kind=plateau", "validate.every=0" }, "validate.every" },
        { { "schedule.kind=plateau", "schedule.watch=validaton", "validate.every=1" },
          "did you mean 'validation'" },
        { { "schedule.factor=1" }, "factor must be from 0" },
        { { "schedule.patience=-1" }, "patience must be from 0" },
        { { AUDIO, "data.holdout=0.99" }, "leaves none" },
        { { AUDIO, "data.holdout_path=phases_nowhere" }, "phases_nowhere" },
    };
    write_audio();
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        Pool *pool = pool_new(NULL, "bad");
        Feeds trained, held;
        test_name = bads[i].says;
        CHECK(held_open(pool, "sashimi-small", bads[i].sets, &trained, &held, NULL) != OK);
        if (!CHECK(strstr(err_text(), bads[i].says) != NULL))
            fprintf(stderr, "  said: %s\n", err_text());
        pool_free(pool);
    }
}

int main(void)
{
    RUN(in_every_system);
    RUN(counts_in_budgets);
    RUN(is_cut_with_the_step);
    RUN(goes_on_by_validation);
    RUN(goes_on_by_loss);
    RUN(allocates_nothing);
    RUN(reads_the_average);
    RUN(whole_files);
    RUN(drawn_ones);
    RUN(bad_values);
    return test_end();
}
