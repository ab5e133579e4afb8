/* sample_lag.c -- compares lag's sampling with PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_lag CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * DDIM, with and without noise, and DDPM: the images fed to every step must be the reference's after the step before; then
 * the images that come out. */
#include "sampler.h"

enum { IMAGE_AXES = 2 }; /* (..., C,H,W) in the file, (..., H,W,C) here */

typedef struct LagTest {
    SampleCase  c;
    const char *trace; /* the chain of the file; NULL: none */
} LagTest;

static void compare(LagTest *test, const float *x, int64_t step, Shape shape)
{
    int64_t n = shape_count(shape);
    case_near(&test->c, x, case_numbers(&test->c, test->trace, step, n, shape, IMAGE_AXES), n,
              2e-5);
}

static Err run_compared(Sampler *s, Phase phase)
{
    LagTest    *test = s->own;
    FeedBuffer *x = case_feed(&test->c, "x");
    if (phase == PHASE_SAMPLE && test->trace && test->c.done)
        compare(test, x->bytes, test->c.done - 1, x->shape);
    return sampler_run(s, phase);
}

static void normal_from_file(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase *c = s->own;
    Shape       shape = case_feed(c, "x")->shape;
    CHECK_INT(n, shape_count(shape));
    sampler_numbers(c, name, index, shape, IMAGE_AXES, to, n);
}

static Err sample_compared(LagTest *test, SamplerConfig *config, const char *trace,
                           SampleResult *result)
{
    case_give(&test->c, "support", "in.support", IMAGE_AXES);
    test->c.worst = 0;
    test->trace = trace;
    return case_sample(&test->c, config, run_compared, normal_from_file, result);
}

static void same_images(LagTest *test, SamplerKind kind, double eta, const char *trace)
{
    SampleResult  result;
    SamplerConfig config = test->c.recipe->sampler;
    config.kind = kind;
    config.eta = eta;
    CHECK_OK(sample_compared(test, &config, trace, &result));
    CHECK_INT(test->c.done, config.steps);
    CHECK_INT(result.kind, RESULT_IMAGES);
    compare(test, result.data, config.steps - 1, result.shape);
    printf("%s: %lld steps, the images are off by %.3g at most\n", trace, (long long)test->c.done,
           test->c.worst);
}

static void other_ways(LagTest *test)
{
    SampleResult  result;
    SamplerConfig config = test->c.recipe->sampler;
    config.steps = 1;
    CHECK_OK(sample_compared(test, &config, NULL, &result));
    CHECK_INT(count_outside(&result), 0);
    config.steps = 0; /* the default: all timesteps */
    CHECK_OK(sample_compared(test, &config, NULL, &result));
    CHECK_INT(test->c.done, 250);
    config.steps = 251;
    CHECK_INT(sample_compared(test, &config, NULL, &result), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(sample_compared(test, &config, NULL, &result), E_USAGE);
}

static void compare_case(SampleCase *c)
{
    LagTest *test = (LagTest *)c;
    same_images(test, SAMPLER_DDIM, 0, "out.ddim");
    same_images(test, SAMPLER_DDIM, 0.5, "out.ddim_eta");
    same_images(test, SAMPLER_DDPM, 0, "out.ddpm");
    other_ways(test);
}

int main(int argc, char **argv)
{
    LagTest test = { 0 };
    return case_main(argc, argv, &test.c, false, compare_case);
}
