/* sample_dit3d.c -- DiT3D's sampling against PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_dit3d CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * Every clip fed to the network must be the one the reference had before that step, with and
 * without text where sampling is guided; then the clip that comes out. */
#include "../test.h"

#include "base/safetensors.h"
#include "models/prompt.h"
#include "train/checkpoint.h"
#include "train/feeds.h"
#include "train/recipe.h"

typedef struct Judge {
    Pool       *pool;
    Recipe     *recipe;
    Session    *session;
    Feeds       begin, step;
    SafeFile    file;
    int         runs, done;
    bool        compare;
} Judge;

/* A clip of the file, (B,C,F,H,W), as ours, (B,F,H,W,C). */
static void clip_from(const float *from, Shape s, float *to)
{
    int64_t c = dim(s, -1), inner = s.dim[1] * s.dim[2] * s.dim[3];
    for (int64_t i = 0; i < shape_count(s); i++)
        to[i] = from[i / (inner * c) * inner * c + i % c * inner + i / c % inner];
}

static const float *file_f32(Judge *j, const char *name, int64_t index, int64_t n)
{
    const SafeTensor *t = safetensors_find(&j->file, name);
    if (!t || t->type != SAFE_F32 || t->n_bytes < (size_t)((index + 1) * n) * 4) {
        fprintf(stderr, "the case has no %s[%lld]\n", name, (long long)index);
        test_failed++;
        return NULL;
    }
    return (const float *)t->data + index * n;
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
    Judge      *j = s->own;
    FeedBuffer *feed = find_feed(&j->begin, name);
    feed = feed ? feed : find_feed(&j->step, name);
    REQUIRE(feed);
    return feed->bytes;
}

static Err judge_run(Sampler *s, Part part)
{
    Judge *j = s->own;
    if (part == PART_SAMPLE && j->compare) {
        FeedBuffer  *x = find_feed(&j->step, "x");
        int64_t      n = shape_count(x->shape);
        const float *from = j->done ? file_f32(j, "out.trace", j->done - 1, n)
                                    : file_f32(j, "noise.x", 0, n);
        float       *want = NEWN(j->pool, float, n);
        if (from) {
            clip_from(from, x->shape, want);
            CHECK_NEAR(distance(x->bytes, want, n), 0, 2e-5);
        }
    }
    j->runs += part == PART_SAMPLE;
    return session_run(j->session, part);
}

static const float *judge_output(Sampler *s, const char *name)
{
    return session_output(((Judge *)s->own)->session, name);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    Judge       *j = s->own;
    const float *from = file_f32(j, pool_print(j->pool, "noise.%s", name), index, n);
    if (from)
        clip_from(from, find_feed(&j->step, "x")->shape, to);
}

static void judge_progress(Sampler *s, int64_t done, int64_t of)
{
    Judge *j = s->own;
    CHECK_INT(++j->done, done);
    CHECK_INT(of, s->config->steps);
}

static Err judge_sample(Judge *j, SamplerConfig *config, const char *prompt, bool compare,
                        SampleResult *result)
{
    FeedBuffer *text = find_feed(&j->begin, "text");
    int64_t     n_text = shape_count(text->shape);
    Sampler     s = { .pool = j->pool, .n = j->recipe->batch, .config = config, .prompt = prompt,
                      .own = j, .run = judge_run, .feed = judge_feed, .output = judge_output,
                      .normal = judge_normal, .progress = judge_progress };
    j->runs = j->done = 0;
    j->compare = compare;
    memcpy(text->bytes, file_f32(j, "in.text", 0, n_text), (size_t)n_text * 4);
    return j->recipe->model->sample(&s, j->recipe->config, result);
}

static void same_clip(Judge *j)
{
    SampleResult  result;
    SamplerConfig config = j->recipe->sampler;
    CHECK_OK(judge_sample(j, &config, NULL, true, &result));
    CHECK_INT(j->done, config.steps);
    CHECK_INT(j->runs, config.steps * (config.guidance == 1 ? 1 : 2));
    CHECK_INT(result.kind, RESULT_CLIPS);
    int64_t      n = shape_count(result.shape);
    const float *from = file_f32(j, "out.clip", 0, n);
    float       *want = NEWN(j->pool, float, n);
    if (from) {
        clip_from(from, result.shape, want);
        double off = distance(result.data, want, n);
        printf("the clip is off by %.3g\n", off);
        CHECK_NEAR(off, 0, 2e-4);    /* the last step leaves a small difference of large numbers */
    }
}

/* Without guidance a step is one run; a prompt takes the place of the given texts. */
static void other_ways(Judge *j)
{
    SampleResult  result;
    SamplerConfig config = j->recipe->sampler;
    FeedBuffer   *text = find_feed(&j->begin, "text");
    float         want[768];
    config.guidance = 1;
    CHECK_OK(judge_sample(j, &config, "hello", false, &result));
    CHECK_INT(j->runs, config.steps);
    prompt_embed("hello", want, 768);
    for (int64_t row = 0; row < j->recipe->batch; row++)
        CHECK(!memcmp((float *)text->bytes + row * 768, want, sizeof want));
    int64_t outside = 0;
    for (int64_t i = 0; i < shape_count(result.shape); i++)
        outside += !(result.data[i] >= -1 && result.data[i] <= 1);
    CHECK_INT(outside, 0);
    config.steps = 1000000;
    CHECK_INT(judge_sample(j, &config, NULL, false, &result), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_DDIM;
    CHECK_INT(judge_sample(j, &config, NULL, false, &result), E_USAGE);
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
    STOP(weights_load(j.pool, j.session,
                      pool_print(j.pool, "%s/weights.safetensors", argv[1]), false));
    STOP(feeds_new(j.pool, j.session, PART_SAMPLE_BEGIN, &j.begin));
    STOP(feeds_new(j.pool, j.session, PART_SAMPLE, &j.step));
    same_clip(&j);
    other_ways(&j);
    for (int part = PART_SAMPLE_BEGIN; part <= PART_SAMPLE; part++)
        CHECK_INT(session_measured_bytes(j.session, (Part)part),
                  session_planned_bytes(j.session, (Part)part));
    pool_free(j.pool);
    return test_end();
}
