/* feeds.c -- prefetching: the same numbers as without it, errors are reported, nothing is allocated
 * once it runs; and the count of targets of a step. */
#include "alloc_count.h"
#include "test.h"

#include "base/file.h"
#include "data/png.h"
#include "data/wav.h"
#include "train/feeds.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct Run {
    Pool    *pool;
    Recipe  *recipe;
    Session *session;
    Feeds    feeds;
} Run;

/* ahead: number of prefetching threads; 0: none */
static Err run_new(Run *r, const char *recipe, const char *const *sets, int n, int ahead)
{
    Device       *device;
    Engine       *engine;
    TrainingGraph graph;
    *r = (Run){ .pool = pool_new(NULL, "run") };
    TRY(recipe_read(r->pool, pool_print(r->pool, SOURCE_DIR "/recipes/%s.yaml", recipe), sets, n,
                    &r->recipe));
    TRY(device_cpu(r->pool, &(DeviceOptions){ .threads = 1, .backend = "builtin" }, &device));
    TRY(recipe_graph(r->pool, r->recipe, false, &graph));
    TRY(engine_new(r->pool, graph.graph, device, NULL, &engine));
    TRY(session_new(r->pool, engine, &r->session));
    TRY(feeds_new(r->pool, r->session, PHASE_MICRO, &r->feeds));
    TRY(feeds_open(r->pool, &r->feeds, r->recipe));
    r->feeds.loaders = ahead;
    return ahead ? feeds_prefetch(r->pool, &r->feeds) : OK;
}

static void same_buffers(Run *a, Run *b)
{
    CHECK_INT(a->feeds.n, b->feeds.n);
    for (int32_t i = 0; i < a->feeds.n; i++) {
        const FeedBuffer *x = &a->feeds.list[i], *y = &b->feeds.list[i];
        CHECK(!memcmp(x->bytes, y->bytes, (size_t)(shape_count(x->shape) * type_bytes(x->type))));
    }
}

static void images(int n)
{
    unsigned char pixels[24 * 24 * 3];
    CHECK_OK(folder_make("feeds_test"));
    for (int k = 0; k < n; k++) {
        char path[64];
        for (size_t i = 0; i < sizeof pixels; i++)
            pixels[i] = (unsigned char)(rand() % 64 + 10 * k);
        snprintf(path, sizeof path, "feeds_test/%d.png", k);
        CHECK_OK(image_write(path, pixels, 24, 24, 3));
    }
}

/* With more threads than rows, several micro-batches are loaded at once. */
static void so_many_ahead(const char *recipe, const char *const *sets, int n, int threads)
{
    Run a, b;
    CHECK_OK(run_new(&a, recipe, sets, n, 0));
    CHECK_OK(run_new(&b, recipe, sets, n, threads));
    int64_t       batch = a.recipe->batch;
    /* Forward, then back (as after a resume), then a jump. */
    const int64_t places[] = { 0, 1, 2, 3, 4, 2, 3, 50, 51, 52 };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        CHECK_OK(feeds_fill(&a.feeds, places[i], places[i] * batch));
        CHECK_OK(feeds_fill(&b.feeds, places[i], places[i] * batch));
        same_buffers(&a, &b);
    }
    long long before = atomic_load(&alloc_calls);
    for (int64_t i = 53; i < 60; i++)
        CHECK_OK(feeds_fill(&b.feeds, i, i * batch));
    CHECK_INT(atomic_load(&alloc_calls) - before, 0);
    CHECK(b.feeds.bytes > a.feeds.bytes);
    pool_free(b.pool);
    pool_free(a.pool);
}

static void ahead_is_the_same(const char *recipe, const char *const *sets, int n)
{
    so_many_ahead(recipe, sets, n, 1);
    so_many_ahead(recipe, sets, n, 5);
}

static void drawn(void)
{
    ahead_is_the_same("unet-small", (const char *[]){ "batch=3" }, 1);
    ahead_is_the_same("stablesr-small", NULL, 0);
    ahead_is_the_same("lag-small", (const char *[]){ "batch=2" }, 1);
}

static void from_files(void)
{
    images(7);
    ahead_is_the_same("unet-small", (const char *[]){ "batch=2", "data.path=feeds_test" }, 2);
    ahead_is_the_same("stablesr-small", (const char *[]){ "data.path=feeds_test" }, 1);
}

static void an_error_comes_from(int threads)
{
    Run         r;
    const char *sets[] = { "batch=2", "data.path=feeds_test" };
    images(2);
    CHECK_OK(file_remove("feeds_test/2.png"));
    for (int i = 2; i < 7; i++) {
        char path[64];
        snprintf(path, sizeof path, "feeds_test/%d.png", i);
        CHECK_OK(file_remove(path));
    }
    CHECK_OK(run_new(&r, "unet-small", sets, 2, threads));
    CHECK_OK(feeds_fill(&r.feeds, 0, 0));
    CHECK_OK(feeds_fill(&r.feeds, 1, 2)); /* the thread is loading the third, or has loaded it */
    CHECK_OK(file_write("feeds_test/1.png", "gone", 4));
    Err err = OK;
    int i = 2;
    for (; i < 12 && !err; i++)
        err = feeds_fill(&r.feeds, i, 2 * i);
    CHECK_INT(err, E_FORMAT);
    CHECK(strstr(err_text(), "feeds_test/1.png") != NULL);
    CHECK_INT(feeds_fill(&r.feeds, i - 1, 2 * (i - 1)), E_FORMAT); /* the same error again */
    pool_free(r.pool);
}

static void an_error_is_passed_on(void)
{
    an_error_comes_from(1);
    an_error_comes_from(4);
}

/* Padded targets do not count; every micro-batch of a step gets the count of the whole step. */
static void targets_are_counted(void)
{
    Run         r;
    float       silence[1500] = { 0 };
    const char *sets[] = {
        "data.kind=audio", "data.path=feeds_test", "data.keep_rest=true", "accumulate=3",
        "batch=1",         "model.rate=8000",      "model.length=1024",   "validate.every=0"
    };
    CHECK_OK(wav_write("feeds_test/a.wav", silence, 1500, 1, 8000)); /* 1024 + 476 */
    CHECK_OK(wav_write("feeds_test/b.wav", silence, 100, 1, 8000));
    CHECK_OK(run_new(&r, "sashimi-small", sets, 8, 1));
    CHECK_INT(r.feeds.source->n_samples, 3);
    for (int micro = 0; micro < 6; micro++) {
        CHECK_OK(feeds_fill(&r.feeds, micro, micro));
        CHECK_NEAR(*(float *)feeds_find(&r.feeds, "denominator")->bytes, 1600, 0);
        const int32_t *target = feeds_find(&r.feeds, "target")->bytes;
        int64_t        counted = 0;
        for (int i = 0; i < 1024; i++)
            counted += target[i] != -100;
        CHECK(counted == 1024 || counted == 476 || counted == 100);
    }
    pool_free(r.pool);
}

/* A given file that is cut short in mid-run is an error, not a signal. */
static void given_file_cut(void)
{
    static const char path[] = "feeds_test/given.safetensors";
    enum { ROWS = 64 };
    Run        r;
    SafeTensor tensors[8];
    int64_t    rows, shapes[8][MAX_RANK + 1];
    CHECK_OK(run_new(&r, "unet-small", (const char *[]){ "batch=2" }, 1, 0));
    CHECK(r.feeds.n <= 8);
    for (int32_t i = 0; i < r.feeds.n; i++) {
        const FeedBuffer *feed = &r.feeds.list[i];
        size_t            n = (size_t)(shape_count(feed->shape) * type_bytes(feed->type));
        char             *data = pool_alloc(r.pool, ROWS * n, 1);
        for (size_t k = 0; k < ROWS * n; k++)
            data[k] = (char)(k / n);
        shapes[i][0] = ROWS;
        memcpy(shapes[i] + 1, feed->shape.dim, sizeof feed->shape.dim);
        tensors[i] = (SafeTensor){ .name = feed->name,
                                   .type = feed->type == F32   ? SAFE_F32
                                           : feed->type == I32 ? SAFE_I32
                                                               : SAFE_U8,
                                   .rank = feed->shape.rank + 1,
                                   .shape = shapes[i],
                                   .data = data };
    }
    CHECK_OK(folder_make("feeds_test"));
    CHECK_OK(safetensors_write(path, tensors, r.feeds.n, NULL));
    CHECK_OK(feeds_new(r.pool, r.session, PHASE_MICRO, &r.feeds));
    CHECK_OK(feeds_from_file(r.pool, &r.feeds, path, &rows));
    CHECK_INT(rows, ROWS);
    CHECK_OK(feeds_fill(&r.feeds, 5, 10));
    CHECK_INT(((char *)r.feeds.list[0].bytes)[3], 5);
    CHECK_INT(truncate(path, 5000), 0);
    CHECK_INT(feeds_fill(&r.feeds, ROWS - 1, 0), E_IO);
    CHECK(strstr(err_text(), "given.safetensors became shorter") != NULL);
    pool_free(r.pool);
}

int main(void)
{
    RUN(drawn);
    RUN(from_files);
    RUN(an_error_is_passed_on);
    RUN(targets_are_counted);
    RUN(given_file_cut);
    REQUIRE(system("rm -rf feeds_test") == 0);
    return test_end();
}
