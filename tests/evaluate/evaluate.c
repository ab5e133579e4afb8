/* evaluate.c -- the loss at a timestep is the training graph's loss for the same sample, noise and
 * timestep; the batch changes nothing; results are compared; planned bytes are measured. */
#include "tiny_run.h"

#include "evaluate/evaluate.h"
#include "evaluate/noise_inputs.h"
#include "train/checkpoint.h"
#include "train/feeds.h"

#define RUN_FOLDER "evaluate_run"

enum { MAX_SETS = 16, TIMES = 3, SAMPLES = 2 };

typedef struct System {
    const char *name, *sets[MAX_SETS];
} System;

static const System systems[] = {
    { "unet-small",
      { "model.widths=[8, 16]", "model.groups=4", "model.height=8", "model.width=8", "batch=2" } },
    { "lag-small", { "model.depth=1", "model.encoder_depth=1", "batch=2" } },
    { "dit3d-small", { "model.depth=1", "batch=2" } },
    { "stdiff-small",
      { "model.image=[8, 16]", "model.channels=[16]", "model.layers=1", "model.groups=4",
        "model.head_width=16", "sampler.steps=2", "batch=2", "accumulate=1" } },
    { "stablesr-small",
      { "model.image=32", "model.latent=8", "model.channels=16", "model.mult=[1]",
        "model.struct_mult=[1]", "model.groups=4", "model.spade_hidden=8",
        "model.struct_channels=16", "model.struct_out=16", "model.edge_ladder=[8, 4]",
        "sampler.steps=2", "batch=2" } },
    { "sashimi-small", { "model.length=64", "model.width=8", "model.layers=1", "batch=2" } },
};
enum { N_SYSTEMS = sizeof systems / sizeof *systems };

static Recipe *recipe_of(Pool *pool, const System *system)
{
    const char *sets[MAX_SETS + 4];
    int         n = 0;
    for (; system->sets[n]; n++)
        sets[n] = system->sets[n];
    sets[n++] = "steps=2";
    sets[n++] = "data.samples=8";
    sets[n++] = "validate.every=0";
    sets[n++] = "save.every=2";
    return tiny_recipe(pool, system->name, sets, n);
}

static bool has_timesteps(const Recipe *recipe) { return strcmp(recipe->system, "sashimi") != 0; }

static Evaluation evaluated(Pool *pool, const Recipe *recipe, int64_t batch, bool raw)
{
    Evaluation e;
    CHECK_OK(evaluate_run(pool, RUN_FOLDER, recipe, tiny_device(pool, 2),
                          &(EvaluateOptions){ .n = SAMPLES,
                                              .batch = batch,
                                              .draw = -1,
                                              .timesteps = has_timesteps(recipe) ? TIMES : 0,
                                              .seed = -1,
                                              .checkpoint = -1,
                                              .weights = raw ? WEIGHTS_RAW : WEIGHTS_USUAL,
                                              .quiet = true },
                          &e));
    return e;
}

/* The loss of the graph that trains, for sample i of those that evaluation reads, at timestep t. */
static double training_loss(Pool *pool, const Recipe *given, int64_t i, int64_t t)
{
    Recipe       *recipe = recipe_copy(pool, given);
    TrainingGraph graph;
    Engine       *engine;
    Session      *session;
    Feeds         feeds;
    NoiseInputs   noise;
    WeightsRead   read = { .step = 2, .kind = WEIGHTS_RAW };
    recipe->batch = recipe->accumulate = 1;
    recipe->validate = (EveryConfig){ .every = 1, .batch = 1, .batches = SAMPLES };
    CHECK_OK(recipe_graph(pool, recipe, true, &graph));
    CHECK_OK(engine_new(pool, graph.graph, tiny_device(pool, 2), NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 1));
    CHECK_OK(checkpoint_weights(pool, session, RUN_FOLDER, &read));
    BuildOptions build = { .given_noise = true };
    CHECK_OK(noise_inputs_find(pool, recipe, &build, &noise));
    CHECK_OK(feeds_new(pool, session, PHASE_MICRO, &feeds));
    const char **aside = NEWN(pool, const char *, noise.n + 3);
    memcpy(aside, noise.names, (size_t)noise.n * sizeof *aside);
    aside[noise.n] = "keep"; /* which only training has */
    feeds.aside = aside;
    CHECK_OK(feeds_open_held(pool, &feeds, recipe));
    CHECK_OK(feeds_fill(&feeds, i, i));
    for (int32_t k = 0; k < noise.n; k++) {
        FeedBuffer *feed = feeds_find(&feeds, noise.list[k].name);
        noise_fill(&noise, feed->name, i, 1, feed->bytes);
        for (int64_t at = 0; noise.list[k].times && at < shape_count(feed->shape); at++)
            ((int32_t *)feed->bytes)[at] = (int32_t)t;
    }
    FeedBuffer *keep = feeds_find(&feeds, "keep");
    if (keep)
        *(float *)keep->bytes = 1;
    CHECK_OK(session_run(session, PHASE_MICRO));
    float loss;
    CHECK_OK(session_read(session, graph.train.loss.id, &loss));
    return (double)loss;
}

static void is_the_training_loss(void)
{
    for (int s = 0; s < N_SYSTEMS; s++) {
        Pool   *pool = pool_new(NULL, "loss");
        Recipe *recipe = recipe_of(pool, &systems[s]);
        tiny_train(pool, recipe, RUN_FOLDER);
        Evaluation e = evaluated(pool, recipe, 1, true);
        CHECK(!e.averaged && e.step == 2 && e.samples == SAMPLES);
        CHECK_INT(e.planned_bytes, e.measured_bytes);
        CHECK_INT(e.n_times, has_timesteps(recipe) ? TIMES : 0);
        /* training takes a batch norm's statistics from the batch */
        for (int64_t i = 0; i < SAMPLES && strcmp(systems[s].name, "stablesr-small"); i++) {
            int64_t runs = e.n_times ? e.n_times : 1;
            double  mean = 0;
            for (int64_t k = 0; k < runs; k++)
                mean += training_loss(pool, recipe, i, e.n_times ? e.times[k] : 0) / (double)runs;
            printf("%s, sample %lld: %.9g\n", systems[s].name, (long long)i, mean);
            CHECK_NEAR(e.list[i].loss, mean, 2e-6 * fabs(mean));
        }
        Evaluation two = evaluated(pool, recipe, 2, true),
                   averaged = evaluated(pool, recipe, 1, false);
        CHECK(two.fingerprint == e.fingerprint && two.weights == e.weights && !two.list);
        CHECK_NEAR(two.loss, e.loss, 2e-6 * e.loss);
        CHECK(averaged.averaged && averaged.weights != e.weights && averaged.loss != e.loss);
        CHECK_INT(e.has_images, !strcmp(systems[s].name, "stablesr-small"));
        CHECK_INT(e.has_clips, !strcmp(systems[s].name, "stdiff-small"));
        if (e.has_images) {
            CHECK_INT(e.drawn, SAMPLES);
            CHECK_NEAR(two.images.psnr, e.images.psnr, 0.01);
            CHECK(two.inputs.psnr == e.inputs.psnr && e.inputs.ssim > 0.1);
        }
        if (e.has_clips) {
            CHECK(e.clips.metres && e.clips.mae > 0 && e.clips.rmse >= e.clips.mae);
            CHECK_NEAR(two.clips.mae, e.clips.mae, 1e-3 * e.clips.mae);
            CHECK(e.clips.valid < e.clips.pixels && e.clips.temporal > 0);
        }
        pool_free(pool);
    }
}

static void says(Err err, Err want, const char *words)
{
    CHECK_INT(err, want);
    if (err && !CHECK(strstr(err_text(), words) != NULL))
        fprintf(stderr, "  said: %s\n", err_text());
}

static void refuses(void)
{
    Pool           *pool = pool_new(NULL, "refuses");
    Recipe         *recipe = recipe_of(pool, &systems[0]);
    Evaluation      e;
    EvaluateOptions plain = { .n = 2,
                              .batch = 1,
                              .timesteps = 1,
                              .seed = -1,
                              .checkpoint = -1,
                              .quiet = true },
                    o = plain;
    recipe->ema.rule = EMA_NONE;
    tiny_train(pool, recipe, RUN_FOLDER);
    o.budget_bytes = 1000;
    says(evaluate_run(pool, RUN_FOLDER, recipe, tiny_device(pool, 2), &o, &e), E_BUDGET,
         "the budget is 1000");
    o = plain;
    o.weights = WEIGHTS_AVERAGED;
    says(evaluate_run(pool, RUN_FOLDER, recipe, tiny_device(pool, 2), &o, &e), E_USAGE,
         "no average");
    o = plain;
    o.pairs = "evaluate_pairs";
    says(evaluate_run(pool, RUN_FOLDER, recipe, tiny_device(pool, 2), &o, &e), E_USAGE, "--pairs");
    o = plain;
    o.checkpoint = 1;
    says(evaluate_run(pool, RUN_FOLDER, recipe, tiny_device(pool, 2), &o, &e), E_IO, "step 1");
    o = plain;
    o.data = "evaluate_nowhere";
    says(evaluate_run(pool, RUN_FOLDER, recipe, tiny_device(pool, 2), &o, &e), E_IO,
         "evaluate_nowhere");
    recipe->data.path = "some_folder";
    says(evaluate_run(pool, RUN_FOLDER, recipe, tiny_device(pool, 2), &plain, &e), E_USAGE,
         "--data TEST");
    pool_free(pool);
}

int main(void)
{
    RUN(is_the_training_loss);
    RUN(refuses);
    return test_end();
}
