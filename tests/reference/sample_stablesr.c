/* sample_stablesr.c -- StableSR's sampling against PyTorch in fp64, step by step, from the same
 * noise.
 *
 *   sample_stablesr CASE_FOLDER     (tests/ref/case.py makes it)
 *
 * By DDPM and by DDIM: every latent fed to the network must be the one the reference had before
 * that step, the one fed to the decoder its last. Then the images, under each of the colour
 * fixes. Then an image that is larger than the model, by overlapping tiles. */
#include "sampler.h"

enum { IMAGE_AXES = 2 }; /* (...,C,H,W) in the file, (...,H,W,C) here */

typedef struct StablesrTest {
    SampleCase  c;
    const char *trace; /* what to compare latents with; NULL: nothing */
} StablesrTest;

static void compare(StablesrTest *test, const float *x, const char *name, int64_t index,
                    Shape shape)
{
    int64_t n = shape_count(shape);
    case_near(&test->c, x, case_numbers(&test->c, name, index, n, shape, IMAGE_AXES), n, 1e-4);
}

static Err run_compared(Sampler *s, Phase phase)
{
    StablesrTest *test = s->own;
    int64_t       run = test->c.runs[1];
    FeedBuffer   *x = case_feed(&test->c, phase == PHASE_SAMPLE_END ? "result" : "x");
    if (phase == PHASE_SAMPLE && test->trace) {
        int32_t t = *(int32_t *)case_feed(&test->c, "t")->bytes;
        CHECK_INT(t, nearbyint((double)(s->config->steps - 1 - run) * 999 /
                               (double)(s->config->steps - 1)));
    }
    if (phase != PHASE_SAMPLE_BEGIN && test->trace)
        compare(test, x->bytes, run ? test->trace : "noise.x", run ? run - 1 : 0, x->shape);
    return sampler_run(s, phase);
}

static void normal_from_file(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase *c = s->own;
    Shape       shape = case_feed(c, "x")->shape;
    CHECK_INT(shape_count(shape), n);
    sampler_numbers(c, name, index, shape, IMAGE_AXES, to, n);
}

static Err sample_compared(StablesrTest *test, const SamplerConfig *config, const char *trace,
                           SampleResult *result)
{
    case_give(&test->c, "image_lq", "in.image_lq", IMAGE_AXES);
    case_give(&test->c, "edge", "in.edge", IMAGE_AXES);
    case_give(&test->c, "vae_lq", "noise.vae_lq", IMAGE_AXES);
    case_give(&test->c, "context", "in.context", 0);
    test->trace = trace;
    return case_sample(&test->c, config, run_compared, normal_from_file, result);
}

static void same_images(StablesrTest *test)
{
    static const struct {
        int         kind, colour;
        const char *trace, *image;
    } rows[] = {
        { SAMPLER_DDPM, COLOUR_NONE, "out.ddpm", "out.image" },
        { SAMPLER_DDPM, COLOUR_ADAIN, "out.ddpm", "out.adain" },
        { SAMPLER_DDPM, COLOUR_WAVELET, "out.ddpm", "out.wavelet" },
        { SAMPLER_DDIM, COLOUR_NONE, "out.ddim", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SampleResult  result;
        SamplerConfig config = test->c.recipe->sampler;
        config.kind = rows[i].kind;
        config.colour = rows[i].colour;
        config.eta = rows[i].kind == SAMPLER_DDIM ? config.eta : 0;
        CHECK_OK(sample_compared(test, &config, rows[i].trace, &result));
        CHECK_INT(result.kind, RESULT_IMAGES);
        CHECK_INT(test->c.runs[0], 1);
        CHECK_INT(test->c.runs[1], config.steps);
        CHECK_INT(test->c.runs[2], 1);
        CHECK_INT(test->c.done, config.steps);
        if (rows[i].image)
            compare(test, result.data, rows[i].image, 0, result.shape);
    }
    printf("largest error %.3g\n", test->c.worst);
}

/* The same noise gives the same bits; impossible settings are refused. */
static void other_ways(StablesrTest *test)
{
    SampleResult  first, second;
    SamplerConfig config = test->c.recipe->sampler;
    config.steps = 1;
    config.kind = SAMPLER_DDIM;
    config.eta = 0;
    CHECK_OK(sample_compared(test, &config, NULL, &first));
    CHECK_INT(test->c.runs[1], 1);
    CHECK_OK(sample_compared(test, &config, NULL, &second));
    CHECK(!memcmp(first.data, second.data, (size_t)shape_count(first.shape) * 4));
    config.steps = 1001;
    CHECK_INT(sample_compared(test, &config, NULL, &second), E_USAGE);
    config.steps = 2;
    config.guidance = 3;
    CHECK_INT(sample_compared(test, &config, NULL, &second), E_USAGE);
    config.guidance = 1;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(sample_compared(test, &config, NULL, &second), E_USAGE);
}

/* ---- an image of several tiles ---- */

typedef struct WideImage {
    Enlarging    job;
    const float *image, *edge; /* (height, width, 3) */
    float       *result;
    int64_t      written;
} WideImage;

static Err wide_square(Enlarging *job, int64_t y, int64_t x, int64_t side, float *image,
                       float *edge)
{
    WideImage *w = (WideImage *)job;
    CHECK(y + side <= job->height && x + side <= job->width);
    for (int64_t r = 0; r < side; r++) {
        size_t from = (size_t)((y + r) * job->width + x) * 3, n = (size_t)side * 3;
        memcpy(image + r * side * 3, w->image + from, n * sizeof *image);
        if (edge)
            memcpy(edge + r * side * 3, w->edge + from, n * sizeof *edge);
    }
    return OK;
}

static Err wide_again(Enlarging *job)
{
    CHECK_INT(((WideImage *)job)->written, 0);
    return OK;
}

static Err wide_rows(Enlarging *job, int64_t n, const float *rgb, int64_t pitch)
{
    WideImage *w = (WideImage *)job;
    CHECK(w->written + n <= job->height);
    for (int64_t y = 0; y < n; y++)
        memcpy(w->result + (w->written + y) * job->width * 3, rgb + y * pitch * 3,
               (size_t)job->width * 3 * sizeof *rgb);
    w->written += n;
    return OK;
}

static int32_t state_named(SampleCase *c, const char *name)
{
    const Graph *graph = session_engine(c->session)->graph;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].name && !strcmp(graph->values[i].name, name))
            return i;
    REQUIRE(!"a state of that name");
    return -1;
}

static Err state_get(Sampler *s, const char *name, float *to)
{
    SampleCase *c = s->own;
    return session_read(c->session, state_named(c, name), to);
}

static Err state_set(Sampler *s, const char *name, const float *from)
{
    SampleCase *c = s->own;
    return session_write(c->session, state_named(c, name), from);
}

/* Of the canvas: the same numbers as the reference's. */
static void normal_of_canvas(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase       *c = s->own;
    const SafeTensor *t = safetensors_find(&c->file, "noise.wide_x");
    Shape             canvas = SHAPE(1, t->shape[2], t->shape[3], 4);
    CHECK_INT(shape_count(canvas), n);
    sampler_numbers(c, pool_print(c->pool, "wide_%s", name), index, canvas, IMAGE_AXES, to, n);
}

typedef void NormalOf(Sampler *s, const char *name, int64_t index, float *to, int64_t n);

static WideImage wide_of(SampleCase *c, const char *image, const char *edge, int64_t height,
                         int64_t width)
{
    int64_t n = height * width * 3;
    Shape   shape = SHAPE(1, height, width, 3);
    return (WideImage){ .job = { .height = height,
                                 .width = width,
                                 .square = wide_square,
                                 .again = wide_again,
                                 .rows = wide_rows },
                        .image = case_numbers(c, image, 0, n, shape, IMAGE_AXES),
                        .edge = case_numbers(c, edge, 0, n, shape, IMAGE_AXES),
                        .result = NEWN(c->pool, float, n) };
}

static SamplerConfig wide_config(const SampleCase *c)
{
    SamplerConfig config = c->recipe->sampler;
    config.kind = SAMPLER_DDPM;
    config.eta = 0;
    config.colour = COLOUR_WAVELET;
    return config;
}

static void wide_sample(SampleCase *c, WideImage *w, NormalOf *normal)
{
    SamplerConfig config = wide_config(c);
    Sampler       s = { .pool = c->pool,
                        .n = c->recipe->batch,
                        .config = &config,
                        .own = c,
                        .run = sampler_run,
                        .feed = sampler_feed,
                        .output = sampler_output,
                        .normal = normal,
                        .state_get = state_get,
                        .state_set = state_set,
                        .progress = sampler_progress };
    case_give(c, "vae_lq", "noise.vae_lq", IMAGE_AXES);
    case_give(c, "context", "in.context", 0);
    c->done = 0;
    c->worst = 0;
    CHECK_OK(c->recipe->model->enlarge(&s, c->recipe->config, &w->job));
    CHECK_INT(w->written, w->job.height);
}

/* The numbers of the first image of the batch. */
static void normal_of_first(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase *c = s->own;
    Shape       one = case_feed(c, "x")->shape;
    one.dim[0] = 1;
    CHECK_INT(shape_count(one), n);
    memcpy(to,
           case_numbers(c, pool_print(c->pool, "noise.%s", name), index * c->recipe->batch, n, one,
                        IMAGE_AXES),
           (size_t)n * sizeof *to);
}

/* One tile is what the sampler makes of an image of that size, to the bit. */
static void one_tile(StablesrTest *test)
{
    SampleCase   *c = &test->c;
    SamplerConfig config = wide_config(c);
    SampleResult  result;
    CHECK_OK(sample_compared(test, &config, NULL, &result));
    int64_t   side = result.shape.dim[1];
    WideImage w = wide_of(c, "in.image_lq", "in.edge", side, side);
    wide_sample(c, &w, normal_of_first);
    CHECK_INT(w.job.tiles, 1);
    CHECK(!memcmp(w.result, result.data, (size_t)(side * side * 3) * sizeof(float)));
}

static void same_wide(StablesrTest *test)
{
    SampleCase       *c = &test->c;
    const SafeTensor *t = safetensors_find(&c->file, "in.wide_lq");
    if (!t)
        return;
    int64_t   height = t->shape[2], width = t->shape[3];
    WideImage w = wide_of(c, "in.wide_lq", "in.wide_edge", height, width);
    one_tile(test);
    wide_sample(c, &w, normal_of_canvas);
    CHECK_INT(w.job.tiles, 4);
    compare(test, w.result, "out.wide", 0, SHAPE(1, height, width, 3));
    printf("%lld tiles, %lld x %lld: largest error %.3g\n", (long long)w.job.tiles,
           (long long)height, (long long)width, c->worst);
}

static void compare_case(SampleCase *c)
{
    same_images((StablesrTest *)c);
    same_wide((StablesrTest *)c);
    other_ways((StablesrTest *)c);
}

int main(int argc, char **argv)
{
    StablesrTest test = { 0 };
    return case_main(argc, argv, &test.c, true, compare_case);
}
