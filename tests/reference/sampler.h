/* sampler.h -- shared by the tests of sampling: loads a case's weights into a session, and makes a
 * sampler that takes its noise from the case's file.
 *
 * A test's own struct begins with a SampleCase, so that Sampler.own points to both. The test brings
 * a `run` that compares what is fed before each step, and a `normal`. */
#ifndef REFERENCE_SAMPLER_H
#define REFERENCE_SAMPLER_H

#include "test.h"

#include "base/safetensors.h"
#include "train/feeds.h"
#include "recipe/recipe.h"
#include "train/weights.h"

typedef struct SampleCase {
    Pool    *pool;
    Recipe  *recipe;
    Session *session;
    Feeds    feeds[3]; /* of PHASE_SAMPLE_BEGIN, PHASE_SAMPLE, PHASE_SAMPLE_END */
    SafeFile file;
    int64_t  runs[3]; /* of the same phases, in this chain */
    bool     ran[3];  /* in any chain */
    int64_t  done;    /* steps reported */
    double   worst;   /* error */
} SampleCase;

/* Opens the folder, builds and fills the sampling graph. Noise inside it is fed if
 * `given_noise`. */
static inline Err case_open(SampleCase *c, const char *folder, bool given_noise)
{
    Device *device;
    Engine *engine;
    c->pool = pool_new(NULL, "sample case");
    TRY(recipe_read(c->pool, pool_print(c->pool, "%s/config.json", folder), NULL, 0, &c->recipe));
    TRY(safetensors_read(c->pool, pool_print(c->pool, "%s/sample.safetensors", folder), &c->file));
    TRY(device_cpu(c->pool, &(DeviceOptions){ .threads = 2 }, &device));
    Graph *graph = graph_new_with(c->pool, F32, &(BuildOptions){ .given_noise = given_noise });
    c->recipe->model->sample_graph(graph, c->recipe->config, &c->recipe->sampler, c->recipe->batch);
    TRY(graph_check(graph));
    TRY(engine_new(c->pool, graph, device, NULL, &engine));
    TRY(session_new(c->pool, engine, &c->session));
    TRY(session_init(c->session, 1));
    const char *weights = pool_print(c->pool, "%s/weights.safetensors", folder);
    TRY(weights_load(c->pool, c->session, weights, false, NULL));
    for (int phase = 0; phase < 3; phase++)
        TRY(feeds_new(c->pool, c->session, (Phase)(PHASE_SAMPLE_BEGIN + phase), &c->feeds[phase]));
    return OK;
}

/* Returns the exit status: 77, skipped, if no case is given. Otherwise calls `compare` and checks
 * that every phase used the planned bytes. */
static inline int case_main(int argc, char **argv, SampleCase *c, bool given_noise,
                            void (*compare)(SampleCase *))
{
    if (argc < 2) {
        SKIP("no case given");
        return test_end();
    }
    if (case_open(c, argv[1], given_noise)) {
        fprintf(stderr, "%s\n", err_text());
        return 1;
    }
    compare(c);
    for (int phase = 0; phase < 3; phase++) {
        int64_t planned = session_planned_bytes(c->session, (Phase)(PHASE_SAMPLE_BEGIN + phase));
        CHECK_INT(session_measured_bytes(c->session, (Phase)(PHASE_SAMPLE_BEGIN + phase)),
                  c->ran[phase] ? planned : 0);
    }
    pool_free(c->pool);
    return test_end();
}

/* Slice `index`, of n numbers, of a tensor of the file, in our order. In the file the channels come
 * before the last `axes` axes; here they come after them, as the last axis of `shape`. */
static inline const float *case_numbers(SampleCase *c, const char *name, int64_t index, int64_t n,
                                        Shape shape, int axes)
{
    const SafeTensor *t = safetensors_find(&c->file, name);
    int64_t           channels = dim(shape, -1), pixels = 1;
    float            *to = NEWN(c->pool, float, n);
    if (!t || t->type != SAFE_F32 || t->n_bytes < (size_t)((index + 1) * n) * sizeof *to) {
        fprintf(stderr, "the case has no %s[%lld] of %lld numbers\n", name, (long long)index,
                (long long)n);
        test_failed++;
        return to;
    }
    for (int i = 0; i < axes; i++)
        pixels *= dim(shape, -2 - i);
    const float *from = (const float *)t->data + index * n;
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i / (pixels * channels) * pixels * channels + i % channels * pixels +
                     i / channels % pixels];
    return to;
}

/* Checks that ||a - b|| / ||b|| is at most `max`, and keeps the largest. */
static inline void case_near(SampleCase *c, const float *a, const float *b, int64_t n, double max)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    double off = sqrt(apart / (size + 1e-300));
    c->worst = fmax(c->worst, off);
    CHECK_NEAR(off, 0, max);
}

static inline FeedBuffer *case_feed(SampleCase *c, const char *name)
{
    for (int phase = 0; phase < 3; phase++) {
        FeedBuffer *feed = feeds_find(&c->feeds[phase], name);
        if (feed)
            return feed;
    }
    REQUIRE(!"a feed of that name");
    return NULL;
}

/* Fills the feed from the file's tensor. */
static inline void case_give(SampleCase *c, const char *feed, const char *tensor, int axes)
{
    FeedBuffer *f = case_feed(c, feed);
    int64_t     n = shape_count(f->shape);
    memcpy(f->bytes, case_numbers(c, tensor, 0, n, f->shape, axes), (size_t)n * sizeof(float));
}

static inline void sampler_numbers(SampleCase *c, const char *name, int64_t index, Shape shape,
                                   int axes, float *to, int64_t n)
{
    const char *tensor = pool_print(c->pool, "noise.%s", name);
    memcpy(to, case_numbers(c, tensor, index, n, shape, axes), (size_t)n * sizeof *to);
}

static inline void *sampler_feed(Sampler *s, const char *name)
{
    return case_feed(s->own, name)->bytes;
}
static inline const float *sampler_output(Sampler *s, const char *name)
{
    return session_output(((SampleCase *)s->own)->session, name);
}

static inline Err sampler_run(Sampler *s, Phase phase)
{
    SampleCase *c = s->own;
    c->runs[phase - PHASE_SAMPLE_BEGIN]++;
    c->ran[phase - PHASE_SAMPLE_BEGIN] = true;
    return session_run(c->session, phase);
}

static inline void sampler_progress(Sampler *s, int64_t done, int64_t of)
{
    SampleCase *c = s->own;
    CHECK_INT(++c->done, done);
    CHECK(done <= of);
}

/* Runs a chain. `normal` provides noise; `run` is sampler_run, or compares and calls it. */
static inline Err case_sample(SampleCase *c, const SamplerConfig *config,
                              Err (*run)(Sampler *, Phase),
                              void (*normal)(Sampler *, const char *, int64_t, float *, int64_t),
                              SampleResult *result)
{
    Sampler s = { .pool = c->pool,
                  .n = c->recipe->batch,
                  .config = config,
                  .own = c,
                  .run = run,
                  .feed = sampler_feed,
                  .output = sampler_output,
                  .normal = normal,
                  .progress = sampler_progress };
    memset(c->runs, 0, sizeof c->runs);
    c->done = 0;
    return c->recipe->model->sample(&s, c->recipe->config, result);
}

/* How many numbers are outside [-1,1] or NaN. */
static inline int64_t count_outside(const SampleResult *r)
{
    int64_t outside = 0;
    for (int64_t i = 0; i < shape_count(r->shape); i++)
        outside += !(r->data[i] >= -1 && r->data[i] <= 1);
    return outside;
}

#endif
