/* sample_lag.c -- lag's sampling against PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_lag CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * DDIM and DDPM: the images fed to every step must be the reference's after the step before; then
 * the images that come out. */
#include "../test.h"

#include "base/safetensors.h"
#include "train/checkpoint.h"
#include "train/feeds.h"
#include "train/recipe.h"

typedef struct Judge {
    Pool       *pool;
    Recipe     *recipe;
    Session    *session;
    Feeds       begin, step;
    SafeFile    file;
    const char *trace;           /* the chain of the file: out.ddim or out.ddpm */
    int         done;
    double      worst;
} Judge;

/* Images of the file, (..., C,H,W), as ours, (..., H,W,C). */
static const float *images_from(Judge *j, const char *name, int64_t index, Shape s)
{
    const SafeTensor *t = safetensors_find(&j->file, name);
    int64_t n = shape_count(s), c = dim(s, -1), inner = dim(s, -2) * dim(s, -3);
    float  *to = NEWN(j->pool, float, n);
    if (!t || t->type != SAFE_F32 || t->n_bytes < (size_t)((index + 1) * n) * 4) {
        fprintf(stderr, "the case has no %s[%lld]\n", name, (long long)index);
        test_failed++;
        return to;
    }
    const float *from = (const float *)t->data + index * n;
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i / (inner * c) * inner * c + i % c * inner + i / c % inner];
    return to;
}

static double distance(const float *a, const float *b, int64_t n)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / (size + 1e-300));
}

static FeedBuffer *find_feed(Feeds *feeds, const char *name)
{
    for (int32_t i = 0; i < feeds->n; i++)
        if (!strcmp(feeds->list[i].name, name))
            return &feeds->list[i];
    return NULL;
}

static void *judge_feed(Sampler *s, const char *name)
{
    FeedBuffer *feed = find_feed(&((Judge *)s->own)->step, name);
    REQUIRE(feed);
    return feed->bytes;
}

static void compare(Judge *j, const float *x, int step, Shape shape)
{
    double off = distance(x, images_from(j, j->trace, step, shape), shape_count(shape));
    CHECK_NEAR(off, 0, 2e-5);
    j->worst = fmax(j->worst, off);
}

static Err judge_run(Sampler *s, Part part)
{
    Judge      *j = s->own;
    FeedBuffer *x = find_feed(&j->step, "x");
    if (part == PART_SAMPLE && j->trace && j->done)
        compare(j, x->bytes, j->done - 1, x->shape);
    return session_run(j->session, part);
}

static const float *judge_output(Sampler *s, const char *name)
{
    return session_output(((Judge *)s->own)->session, name);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    Judge *j = s->own;
    Shape  shape = find_feed(&j->step, "x")->shape;
    CHECK_INT(n, shape_count(shape));
    memcpy(to, images_from(j, pool_print(j->pool, "noise.%s", name), index, shape), (size_t)n * 4);
}

static void judge_progress(Sampler *s, int64_t done, int64_t of)
{
    CHECK_INT(++((Judge *)s->own)->done, done);
    CHECK(done <= of);
}

static Err judge_sample(Judge *j, SamplerConfig *config, const char *trace, SampleResult *result)
{
    Sampler s = { .pool = j->pool, .n = j->recipe->batch, .config = config, .own = j,
                  .run = judge_run, .feed = judge_feed, .output = judge_output,
                  .normal = judge_normal, .progress = judge_progress };
    FeedBuffer *support = find_feed(&j->begin, "support");
    memcpy(support->bytes, images_from(j, "in.support", 0, support->shape),
           (size_t)shape_count(support->shape) * 4);
    j->done = 0;
    j->worst = 0;
    j->trace = trace;
    return j->recipe->model->sample(&s, j->recipe->config, result);
}

static void same_images(Judge *j, SamplerKind kind, const char *trace)
{
    SampleResult  result;
    SamplerConfig config = j->recipe->sampler;
    config.kind = kind;
    CHECK_OK(judge_sample(j, &config, trace, &result));
    CHECK_INT(j->done, config.steps);
    CHECK_INT(result.kind, RESULT_IMAGES);
    compare(j, result.data, (int)config.steps - 1, result.shape);
    printf("%s: %d steps, the images are off by %.3g at most\n", trace, j->done, j->worst);
}

static void other_ways(Judge *j)
{
    SampleResult  result;
    SamplerConfig config = j->recipe->sampler;
    config.steps = 1;
    CHECK_OK(judge_sample(j, &config, NULL, &result));
    int64_t outside = 0;
    for (int64_t i = 0; i < shape_count(result.shape); i++)
        outside += !(result.data[i] >= -1 && result.data[i] <= 1);
    CHECK_INT(outside, 0);
    config.steps = 0;                        /* the system's own: every time */
    CHECK_OK(judge_sample(j, &config, NULL, &result));
    CHECK_INT(j->done, 250);
    config.steps = 251;
    CHECK_INT(judge_sample(j, &config, NULL, &result), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(judge_sample(j, &config, NULL, &result), E_USAGE);
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
    j.recipe->model->sample_graph(graph, j.recipe->config, &j.recipe->sampler, j.recipe->batch);
    STOP(graph_check(graph));
    STOP(engine_new(j.pool, graph, device, NULL, &engine));
    STOP(session_new(j.pool, engine, &j.session));
    STOP(session_init(j.session, 1));
    const char *weights = pool_print(j.pool, "%s/weights.safetensors", argv[1]);
    STOP(weights_load(j.pool, j.session, weights, false));
    STOP(feeds_new(j.pool, j.session, PART_SAMPLE_BEGIN, &j.begin));
    STOP(feeds_new(j.pool, j.session, PART_SAMPLE, &j.step));
    same_images(&j, SAMPLER_DDIM, "out.ddim");
    same_images(&j, SAMPLER_DDPM, "out.ddpm");
    other_ways(&j);
    for (int part = PART_SAMPLE_BEGIN; part <= PART_SAMPLE; part++)
        CHECK_INT(session_measured_bytes(j.session, (Part)part),
                  session_planned_bytes(j.session, (Part)part));
    pool_free(j.pool);
    return test_end();
}
