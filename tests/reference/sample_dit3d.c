/* sample_dit3d.c -- compares DiT3D's sampling with PyTorch in fp64, step by step, from the same
 * noise.
 *
 *   sample_dit3d CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * As published, with the predicted clip clipped to [-1,1], and by DDIM: every clip fed to the network must be
 * the reference's at that step, with and without text if sampling is guided; then the result. */
#include "sampler.h"

enum { CLIP_AXES = 3 }; /* (B,C,F,H,W) in the file, (B,F,H,W,C) here */

typedef struct Dit3dTest {
    SampleCase  c;
    const char *trace; /* what to compare with; NULL: nothing */
} Dit3dTest;

static Err run_compared(Sampler *s, Phase phase)
{
    Dit3dTest  *test = s->own;
    SampleCase *c = &test->c;
    FeedBuffer *x = case_feed(c, "x");
    int64_t     n = shape_count(x->shape);
    if (phase == PHASE_SAMPLE && test->trace)
        case_near(c, x->bytes,
                  c->done ? case_numbers(c, test->trace, c->done - 1, n, x->shape, CLIP_AXES)
                          : case_numbers(c, "noise.x", 0, n, x->shape, CLIP_AXES),
                  n, 2e-5);
    return sampler_run(s, phase);
}

static void normal_from_file(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase *c = s->own;
    sampler_numbers(c, name, index, case_feed(c, "x")->shape, CLIP_AXES, to, n);
}

static Err sample_compared(Dit3dTest *test, SamplerConfig *config, const char *trace,
                           SampleResult *result)
{
    case_give(&test->c, "text", "in.text", 0);
    test->trace = trace;
    return case_sample(&test->c, config, run_compared, normal_from_file, result);
}

static void same_clip(Dit3dTest *test, SamplerKind kind, bool clip, const char *trace,
                      const char *out)
{
    SampleCase   *c = &test->c;
    SampleResult  result;
    SamplerConfig config = c->recipe->sampler;
    config.clip = clip;
    config.kind = kind;
    config.eta = kind == SAMPLER_DDIM ? 0.5 : 0;
    c->worst = 0;
    CHECK_OK(sample_compared(test, &config, trace, &result));
    CHECK_INT(c->done, config.steps);
    CHECK_INT(c->runs[1], config.steps * (config.guidance == 1 ? 1 : 2));
    CHECK_INT(result.kind, RESULT_CLIPS);
    int64_t n = shape_count(result.shape);
    /* the published form's last step leaves a small difference of large numbers */
    case_near(c, result.data, case_numbers(c, out, 0, n, result.shape, CLIP_AXES), n, 2e-4);
    printf("%s: off by %.3g at most\n", trace, c->worst);
}

/* Without guidance a step is one run. */
static void other_ways(Dit3dTest *test)
{
    SampleResult  result;
    SamplerConfig config = test->c.recipe->sampler;
    config.guidance = 1;
    CHECK_OK(sample_compared(test, &config, NULL, &result));
    CHECK_INT(test->c.runs[1], config.steps);
    CHECK_INT(count_outside(&result), 0);
    config.steps = 1000000;
    CHECK_INT(sample_compared(test, &config, NULL, &result), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(sample_compared(test, &config, NULL, &result), E_USAGE);
}

static void compare_case(SampleCase *c)
{
    Dit3dTest *test = (Dit3dTest *)c;
    same_clip(test, SAMPLER_DDPM, false, "out.trace", "out.clip");
    same_clip(test, SAMPLER_DDPM, true, "out.trace_clipped", "out.clip_clipped");
    same_clip(test, SAMPLER_DDIM, true, "out.trace_ddim", "out.clip_ddim");
    other_ways(test);
}

int main(int argc, char **argv)
{
    Dit3dTest test = { 0 };
    return case_main(argc, argv, &test.c, false, compare_case);
}
