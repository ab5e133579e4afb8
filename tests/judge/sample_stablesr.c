/* sample_stablesr.c -- StableSR's sampling against PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_stablesr CASE_FOLDER     (tests/ref/case.py makes it)
 *
 * By DDPM and by DDIM: every latent fed to the network must be the one the reference had before that
 * step, the one fed to the decoder its last. Then the pictures, under each of the colour fixes. */
#include "../test.h"

#include "base/safetensors.h"
#include "train/checkpoint.h"
#include "train/feeds.h"
#include "train/recipe.h"

typedef struct Judge {
    Pool       *pool;
    Recipe     *recipe;
    Session    *session;
    Feeds       feeds[3];        /* of PART_SAMPLE_BEGIN, PART_SAMPLE, PART_SAMPLE_END */
    SafeFile    file;
    const char *trace;           /* what to compare latents with; NULL: nothing */
    int64_t     begun, runs, ended, done;
    double      worst;
} Judge;

/* Part `index` of n numbers of the file's tensor: (...,C,H,W) there, (...,H,W,C) here. */
static const float *from_file(Judge *j, const char *name, int64_t index, Shape shape)
{
    const SafeTensor *t = safetensors_find(&j->file, name);
    int64_t n = shape_count(shape), channels = dim(shape, -1), pixels = shape.rank > 2 ? dim(shape, -2) * dim(shape, -3) : 1;
    float  *to = NEWN(j->pool, float, n);
    if (!t || t->type != SAFE_F32 || t->n_bytes < (size_t)((index + 1) * n) * 4) {
        fprintf(stderr, "the case has no %s[%lld] of %lld numbers\n", name, (long long)index, (long long)n);
        test_failed++;
        return to;
    }
    const float *from = (const float *)t->data + index * n;
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i / (pixels * channels) * pixels * channels + i % channels * pixels + i / channels % pixels];
    return to;
}

static void check_near(Judge *j, const float *a, const float *b, int64_t n)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    double off = sqrt(apart / (size + 1e-300));
    j->worst = off > j->worst ? off : j->worst;
    CHECK_NEAR(off, 0, 1e-4);
}

static FeedBuffer *find_feed(Judge *j, const char *name)
{
    for (int part = 0; part < 3; part++)
        for (int32_t i = 0; i < j->feeds[part].n; i++)
            if (!strcmp(j->feeds[part].list[i].name, name))
                return &j->feeds[part].list[i];
    REQUIRE(!"a feed of that name");
    return NULL;
}

static void *judge_feed(Sampler *s, const char *name) { return find_feed(s->own, name)->bytes; }

static Err judge_run(Sampler *s, Part part)
{
    Judge      *j = s->own;
    FeedBuffer *x = find_feed(j, part == PART_SAMPLE_END ? "result" : "x");
    if (part == PART_SAMPLE && j->trace) {
        int32_t t = *(int32_t *)find_feed(j, "t")->bytes;
        CHECK_INT(t, nearbyint((double)(s->config->steps - 1 - j->runs) * 999 / (double)(s->config->steps - 1)));
    }
    if (part != PART_SAMPLE_BEGIN && j->trace)
        check_near(j, x->bytes, j->runs ? from_file(j, j->trace, j->runs - 1, x->shape) : from_file(j, "noise.x", 0, x->shape),
                   shape_count(x->shape));
    j->begun += part == PART_SAMPLE_BEGIN;
    j->runs += part == PART_SAMPLE;
    j->ended += part == PART_SAMPLE_END;
    return session_run(j->session, part);
}

static const float *judge_output(Sampler *s, const char *name)
{
    return session_output(((Judge *)s->own)->session, name);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    Judge *j = s->own;
    Shape  shape = find_feed(j, "x")->shape;
    CHECK_INT(shape_count(shape), n);
    memcpy(to, from_file(j, pool_print(j->pool, "noise.%s", name), index, shape), (size_t)n * 4);
}

static void judge_progress(Sampler *s, int64_t done, int64_t of)
{
    Judge *j = s->own;
    CHECK_INT(++j->done, done);
    CHECK_INT(of, s->config->steps);
}

static Err judge_sample(Judge *j, const SamplerConfig *config, const char *trace, SampleResult *result)
{
    static const char *const given[][2] = { { "image_lq", "in.image_lq" }, { "edge", "in.edge" }, { "vae_lq", "noise.vae_lq" },
                                            { "context", "in.context" } };
    Sampler s = { .pool = j->pool, .n = j->recipe->batch, .config = config, .own = j, .run = judge_run,
                  .feed = judge_feed, .output = judge_output, .normal = judge_normal, .progress = judge_progress };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        FeedBuffer *feed = find_feed(j, given[i][0]);
        memcpy(feed->bytes, from_file(j, given[i][1], 0, feed->shape), (size_t)shape_count(feed->shape) * 4);
    }
    j->begun = j->runs = j->ended = j->done = 0;
    j->trace = trace;
    return j->recipe->model->sample(&s, j->recipe->config, result);
}

static void same_pictures(Judge *j)
{
    static const struct { int kind, colour; const char *trace, *image; } rows[] = {
        { SAMPLER_DDPM, COLOUR_NONE,    "out.ddpm", "out.image" },
        { SAMPLER_DDPM, COLOUR_ADAIN,   "out.ddpm", "out.adain" },
        { SAMPLER_DDPM, COLOUR_WAVELET, "out.ddpm", "out.wavelet" },
        { SAMPLER_DDIM, COLOUR_NONE,    "out.ddim", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SampleResult  result;
        SamplerConfig config = j->recipe->sampler;
        config.kind = rows[i].kind;
        config.colour = rows[i].colour;
        CHECK_OK(judge_sample(j, &config, rows[i].trace, &result));
        CHECK_INT(result.kind, RESULT_IMAGES);
        CHECK_INT(j->begun, 1);
        CHECK_INT(j->runs, config.steps);
        CHECK_INT(j->ended, 1);
        if (rows[i].image)
            check_near(j, result.data, from_file(j, rows[i].image, 0, result.shape), shape_count(result.shape));
    }
    printf("largest error %.3g\n", j->worst);
}

/* Twice from the same noise gives the same bits; what cannot be done is said. */
static void other_ways(Judge *j)
{
    SampleResult  first, second;
    SamplerConfig config = j->recipe->sampler;
    config.steps = 1;
    config.kind = SAMPLER_DDIM;
    config.eta = 0;
    CHECK_OK(judge_sample(j, &config, NULL, &first));
    CHECK_INT(j->runs, 1);
    CHECK_OK(judge_sample(j, &config, NULL, &second));
    CHECK(!memcmp(first.data, second.data, (size_t)shape_count(first.shape) * 4));
    config.steps = 1001;
    CHECK_INT(judge_sample(j, &config, NULL, &second), E_USAGE);
    config.steps = 2;
    config.guidance = 3;
    CHECK_INT(judge_sample(j, &config, NULL, &second), E_USAGE);
    config.guidance = 1;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(judge_sample(j, &config, NULL, &second), E_USAGE);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        printf("skipped: no case given\n");
        return 77;
    }
    Judge   j = { .pool = pool_new(NULL, "judge") };
    Device *device;
    Engine *engine;
#define STOP(call) do { if (call) { fprintf(stderr, "%s\n", err_text()); return 1; } } while (0)
    STOP(recipe_read(j.pool, pool_print(j.pool, "%s/config.json", argv[1]), NULL, 0, &j.recipe));
    STOP(safetensors_read(j.pool, pool_print(j.pool, "%s/sample.safetensors", argv[1]), &j.file));
    STOP(device_cpu(j.pool, &(DeviceOptions){ .threads = 2 }, &device));
    Graph *graph = graph_new(j.pool, F32);
    graph->given_noise = true;
    j.recipe->model->sample_graph(graph, j.recipe->config, &j.recipe->sampler, j.recipe->batch);
    STOP(graph_check(graph));
    STOP(engine_new(j.pool, graph, device, NULL, &engine));
    STOP(session_new(j.pool, engine, &j.session));
    STOP(session_init(j.session, 1));
    STOP(weights_load(j.pool, j.session, pool_print(j.pool, "%s/weights.safetensors", argv[1]), false));
    for (int part = 0; part < 3; part++)
        STOP(feeds_new(j.pool, j.session, (Part)(PART_SAMPLE_BEGIN + part), &j.feeds[part]));
    same_pictures(&j);
    other_ways(&j);
    for (int part = PART_SAMPLE_BEGIN; part <= PART_SAMPLE_END; part++)
        CHECK_INT(session_measured_bytes(j.session, (Part)part), session_planned_bytes(j.session, (Part)part));
    pool_free(j.pool);
    return test_end();
}
