/* sample_stdiff.c -- STDiff's sampling against PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_stdiff CASE_FOLDER       (tests/ref/case.py makes it)
 *
 * Every x fed to the network must be the one the reference had before that step, and every frame
 * before it the one that was generated last; then the clips that come out. */
#include "../test.h"

#include "base/safetensors.h"
#include "train/checkpoint.h"
#include "train/feeds.h"
#include "train/recipe.h"

typedef struct Judge {
    Pool    *pool;
    Recipe  *recipe;
    Session *session;
    Feeds    feeds[3];           /* of PART_SAMPLE_BEGIN, PART_SAMPLE, PART_SAMPLE_END */
    SafeFile file;
    int64_t  begun, moved, runs, done;
    bool     compare;
    double   worst;
} Judge;

/* Channels lie innermost here, right before the last two axes in the file: (...,C,H,W). */
static void channels_last(const float *from, int64_t pixels, int64_t channels, int64_t n, float *to)
{
    int64_t image = pixels * channels;
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i / image * image + i % channels * pixels + i / channels % pixels];
}

/* Part `index` of n numbers of the file's tensor, as ours; shape is ours: (...,H,W,C). */
static const float *from_file(Judge *j, const char *name, int64_t index, Shape shape, int64_t n)
{
    const SafeTensor *t = safetensors_find(&j->file, name);
    float            *to = NEWN(j->pool, float, n);
    if (!t || t->type != SAFE_F32 || t->n_bytes < (size_t)((index + 1) * n) * 4) {
        fprintf(stderr, "the case has no %s[%lld] of %lld numbers\n", name, (long long)index,
                (long long)n);
        test_failed++;
        return to;
    }
    channels_last((const float *)t->data + index * n, dim(shape, -3) * dim(shape, -2),
                  dim(shape, -1), n, to);
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

static void *judge_feed(Sampler *s, const char *name)
{
    return find_feed(s->own, name)->bytes;
}

/* x before step i of frame k: the reference's after the step before, or the frame's own noise. */
static void check_step(Judge *j)
{
    int64_t     steps = j->recipe->sampler.steps, k = j->runs / steps, i = j->runs % steps;
    FeedBuffer *x = find_feed(j, "x"), *before = find_feed(j, "before");
    int64_t     n = shape_count(x->shape);
    int32_t     t = *(int32_t *)find_feed(j, "t")->bytes;
    CHECK_INT(t, (steps - 1 - i) * (1000 / steps));
    CHECK_INT(j->moved, k + 1);
    check_near(j, x->bytes, i ? from_file(j, "out.trace", k * steps + i - 1, x->shape, n)
                              : from_file(j, "noise.x", k, x->shape, n), n);
    float       *want = NEWN(j->pool, float, n);
    FeedBuffer  *observed = find_feed(j, "observed");
    int64_t      To = observed->shape.dim[1], rows = x->shape.dim[0], size = n / rows;
    const float *last = from_file(j, "out.trace", k ? k * steps - 1 : 0, x->shape, n);
    for (int64_t e = 0; e < n; e++)
        want[e] = k ? fminf(fmaxf(last[e], -1), 1)
                    : ((float *)observed->bytes)[(e / size * To + To - 1) * size + e % size];
    check_near(j, before->bytes, want, n);
}

static Err judge_run(Sampler *s, Part part)
{
    Judge *j = s->own;
    if (part == PART_SAMPLE && j->compare)
        check_step(j);
    j->begun += part == PART_SAMPLE_BEGIN;
    j->moved += part == PART_SAMPLE_END;
    j->runs += part == PART_SAMPLE;
    return session_run(j->session, part);
}

static const float *judge_output(Sampler *s, const char *name)
{
    return session_output(((Judge *)s->own)->session, name);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    Judge *j = s->own;
    Shape  shape = find_feed(j, !strcmp(name, "z") ? "x" : name)->shape;
    const char *full = pool_print(j->pool, "noise.%s", name);
    memcpy(to, from_file(j, full, j->compare ? index : 0, shape, n), (size_t)n * 4);
}

static void judge_progress(Sampler *s, int64_t done, int64_t of)
{
    Judge *j = s->own;
    CHECK_INT(++j->done, done);
    CHECK(done <= of);
}

static Err judge_sample(Judge *j, SamplerConfig *config, bool compare, SampleResult *result)
{
    FeedBuffer *observed = find_feed(j, "observed");
    int64_t     n = shape_count(observed->shape);
    Sampler     s = { .pool = j->pool, .n = j->recipe->batch, .config = config, .own = j,
                      .run = judge_run, .feed = judge_feed, .output = judge_output,
                      .normal = judge_normal, .progress = judge_progress };
    j->begun = j->moved = j->runs = j->done = 0;
    j->compare = compare;
    memcpy(observed->bytes, from_file(j, "in.observed", 0, observed->shape, n), (size_t)n * 4);
    return j->recipe->model->sample(&s, j->recipe->config, result);
}

static void same_clips(Judge *j)
{
    SampleResult  result;
    SamplerConfig config = j->recipe->sampler;
    CHECK_OK(judge_sample(j, &config, true, &result));
    int64_t n = shape_count(result.shape), frames = result.shape.dim[1];
    CHECK_INT(result.kind, RESULT_CLIPS);
    CHECK_INT(j->begun, 1);
    CHECK_INT(j->moved, frames);
    CHECK_INT(j->runs, frames * config.steps);
    const float *want = from_file(j, "out.frames", 0, result.shape, n);     /* in [0,1] */
    float       *ours = NEWN(j->pool, float, n);
    for (int64_t i = 0; i < n; i++)
        ours[i] = result.data[i] / 2 + 0.5f;
    check_near(j, ours, want, n);
    printf("largest error %.3g over %lld steps\n", j->worst, (long long)j->runs);
}

/* Twice from the same noise gives the same bits; other lengths run; what cannot be done is said. */
static void other_ways(Judge *j)
{
    SampleResult  first, second;
    SamplerConfig config = j->recipe->sampler;
    config.steps = 1;
    CHECK_OK(judge_sample(j, &config, false, &first));
    CHECK_INT(j->runs, first.shape.dim[1]);
    CHECK_OK(judge_sample(j, &config, false, &second));
    CHECK(!memcmp(first.data, second.data, (size_t)shape_count(first.shape) * 4));
    bool inside = true;
    for (int64_t i = 0; i < shape_count(first.shape); i++)
        inside &= first.data[i] >= -1 && first.data[i] <= 1;
    CHECK(inside);
    config.steps = 1001;
    CHECK_INT(judge_sample(j, &config, false, &second), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_DDIM;
    CHECK_INT(judge_sample(j, &config, false, &second), E_USAGE);
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
    for (int part = 0; part < 3; part++)
        STOP(feeds_new(j.pool, j.session, (Part)(PART_SAMPLE_BEGIN + part), &j.feeds[part]));
    same_clips(&j);
    other_ways(&j);
    for (int part = PART_SAMPLE_BEGIN; part <= PART_SAMPLE_END; part++)
        CHECK_INT(session_measured_bytes(j.session, (Part)part),
                  session_planned_bytes(j.session, (Part)part));
    pool_free(j.pool);
    return test_end();
}
