/* dit3d.c -- settings that DiT3D refuses, with their messages; the shapes it builds; its
 * sampler. */
#include "test.h"

#include "base/random.h"
#include "models/dit3d.h"
#include "recipe/recipe.h"

static const ModelDef *dit3d(void) { return model_find("dit3d"); }

static Dit3d defaults(Dit3dReading reading)
{
    Dit3d m = *(const Dit3d *)dit3d()->defaults;
    m.reading = (int)reading;
    if (reading == DIT3D_FRAMES)
        m.patch = (Ints){ { 4 }, 1 };
    return m;
}

static void refuses(const Dit3d *m, const char *word)
{
    CHECK_INT(dit3d()->check(m), E_USAGE);
    if (!CHECK(strstr(err_text(), word) != NULL))
        fprintf(stderr, "  said: %s\n", err_text());
}

static const char *output_shape(const Graph *graph, int i)
{
    return shape_text(value_at(graph, graph->outputs[i].value)->shape);
}

static void settings(void)
{
    Dit3d m = defaults(DIT3D_PATCHES);
    CHECK_OK(dit3d()->check(&m));
    m.heads = 3;
    refuses(&m, "model.heads");
    m = defaults(DIT3D_PATCHES);
    m.patch = (Ints){ { 4 }, 1 };
    refuses(&m, "three");
    m.patch = (Ints){ { 3, 16, 16 }, 3 };
    refuses(&m, "model.frames of 16");
    m.patch = (Ints){ { 4, 16, 24 }, 3 };
    refuses(&m, "of 64 does not divide by 24");
    m = defaults(DIT3D_PATCHES);
    m.image.n = 1;
    refuses(&m, "height and width");
    m = defaults(DIT3D_PATCHES);
    m.width = 24;
    refuses(&m, "multiple of 16");

    m = defaults(DIT3D_FRAMES);
    CHECK_OK(dit3d()->check(&m));
    m.patch = (Ints){ { 4, 16, 16 }, 3 };
    refuses(&m, "takes one");
    m.patch = (Ints){ { 5 }, 1 };
    refuses(&m, "64 does not divide by 5");
    m = defaults(DIT3D_FRAMES);
    m.width = 12; /* 4 heads divide it, 8 temporal heads do not */
    refuses(&m, "temporal_heads");
}

/* Different height and width, an odd number of channels; the sampling graph uses the same
 * weights. */
static void odd_sizes(void)
{
    for (int reading = 0; reading < 2; reading++)
        for (int sigma = 0; sigma < 2; sigma++) {
            Pool *pool = pool_new(NULL, "test");
            Dit3d m = defaults((Dit3dReading)reading);
            m.frames = 3;
            m.image = (Ints){ { 12, 20 }, 2 };
            m.image_channels = 5;
            m.width = 16;
            m.heads = 2;
            m.depth = 1;
            m.learn_sigma = sigma;
            m.patch = reading ? (Ints){ { 4 }, 1 } : (Ints){ { 1, 3, 4 }, 3 };
            CHECK_OK(dit3d()->check(&m));
            Graph *graph = graph_new_with(pool, BF16, &(BuildOptions){ .given_noise = true });
            Tensor loss = dit3d()->loss(graph, &m, 2, 1);
            CHECK_OK(graph_check(graph));
            CHECK_TEXT(shape_text(tensor_shape(loss)), "(1)");
            CHECK_INT(graph->n_outputs, 1);
            CHECK_TEXT(output_shape(graph, 0), sigma ? "(2,3,12,20,10)" : "(2,3,12,20,5)");
            /* the backbone sees squares of the larger side: 5 x 5 tokens */
            Param *where = param_find(graph, "dit_backbone.backbone.pos_embed");
            CHECK_INT(where ? shape_count(where->disk) : 0, reading ? 5 * 5 * 16 : 0);
            int32_t n_params = graph->n_params;
            dit3d()->sample_graph(graph, &m, &(SamplerConfig){ .guidance = 2 }, 7);
            CHECK_OK(graph_check(graph));
            CHECK_INT(graph->n_params, n_params); /* the same weights */
            CHECK_INT(graph->phase, PHASE_MICRO);
            CHECK_INT(graph->n_outputs, 2);
            CHECK_TEXT(output_shape(graph, 1), "(7,3,12,20,5)");
            pool_free(pool);
        }
}

/* A predictor that knows the clip and errs as a network does: it predicts less noise than there is,
 * and never more than in training. */
typedef struct Knowing {
    const Dit3d  *m;
    const double *bar;
    float        *x, *keep, *noise, *clip;
    int32_t      *t;
    int64_t       count;
} Knowing;

static Err knowing_run(Sampler *s, Phase phase)
{
    const Knowing *k = s->own;
    double         a = k->bar[k->t[0]];
    for (int64_t i = 0; phase == PHASE_SAMPLE && i < k->count; i++)
        k->noise[i] =
            (float)(0.8 *
                    fmin(fmax(((double)k->x[i] - sqrt(a) * (double)k->clip[i]) / sqrt(1 - a), -4),
                         4));
    return OK;
}

static void *knowing_feed(Sampler *s, const char *name)
{
    const Knowing *k = s->own;
    return !strcmp(name, "x") ? (void *)k->x : !strcmp(name, "t") ? (void *)k->t : (void *)k->keep;
}

static const float *knowing_output(Sampler *s, const char *name)
{
    (void)name;
    return ((const Knowing *)s->own)->noise;
}

static void knowing_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    (void)s;
    random_normals((RandomKey){ 7, random_stream(name), (uint32_t)index }, 0, n, to);
}

static void knowing_progress(Sampler *s, int64_t done, int64_t of)
{
    (void)s;
    (void)done;
    (void)of;
}

/* The root mean square distance of a drawn clip from the known one; the share of numbers at the
 * ends of the range. */
static double knowing_error(int reading, bool clip, double *ends)
{
    Pool *pool = pool_new(NULL, "known");
    Dit3d m = defaults((Dit3dReading)reading);
    m.frames = 2;
    m.image = (Ints){ { 8, 8 }, 2 };
    int64_t count = shape_count(dit3d_clip(&m, 1));
    float   keep = 1;
    int32_t t = 0;
    double  sum = 0;
    Knowing k = { .m = &m,
                  .bar = dit3d_alpha_bar(pool, &m, true),
                  .x = NEWN(pool, float, count),
                  .keep = &keep,
                  .t = &t,
                  .noise = NEWN(pool, float, count),
                  .clip = NEWN(pool, float, count),
                  .count = count };
    for (int64_t i = 0; i < count; i++)
        k.clip[i] = 0.8f * sinf((float)i);
    SamplerConfig config = { .steps = 1000, .guidance = 1, .clip = clip };
    Sampler       s = { .pool = pool,
                        .n = 1,
                        .config = &config,
                        .own = &k,
                        .run = knowing_run,
                        .feed = knowing_feed,
                        .output = knowing_output,
                        .normal = knowing_normal,
                        .progress = knowing_progress };
    SampleResult  result;
    CHECK_OK(dit3d_sample(&s, &m, &result));
    *ends = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += pow((double)(result.data[i] - k.clip[i]), 2);
        *ends += fabsf(result.data[i]) >= 1;
    }
    *ends /= (double)count;
    pool_free(pool);
    return sqrt(sum / (double)count);
}

/* The published chain divides the error of a prediction by ever smaller numbers and ends far off,
 * at the ends of the range. The recipes clip each predicted clip. */
static void clipped_chains_hold(void)
{
    double ends, error = knowing_error(DIT3D_PATCHES, true, &ends);
    printf("  clipped: error %.4f, %.3f at the ends; ", error, ends);
    CHECK(error < 0.05);
    CHECK(ends < 0.01);
    error = knowing_error(DIT3D_PATCHES, false, &ends);
    printf("as published: error %.4f, %.3f at the ends\n", error, ends);
    CHECK(error > 0.1);
}

int main(void)
{
    RUN(settings);
    RUN(odd_sizes);
    RUN(clipped_chains_hold);
    return test_end();
}
