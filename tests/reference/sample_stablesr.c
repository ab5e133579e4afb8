/* sample_stablesr.c -- StableSR's sampling against PyTorch in fp64, step by step, from the same
 * noise.
 *
 *   sample_stablesr CASE_FOLDER     (tests/ref/case.py makes it)
 *
 * By DDPM and by DDIM: every latent fed to the network must be the one the reference had before
 * that step, the one fed to the decoder its last. Then the images, under each of the colour
 * fixes. */
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
    return case_sample(&test->c, config, NULL, run_compared, normal_from_file, result);
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

static void compare_case(SampleCase *c)
{
    same_images((StablesrTest *)c);
    other_ways((StablesrTest *)c);
}

int main(int argc, char **argv)
{
    StablesrTest test = { 0 };
    return case_main(argc, argv, &test.c, true, compare_case);
}
