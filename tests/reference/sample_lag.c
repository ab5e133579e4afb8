/* sample_lag.c -- lag's sampling against PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_lag CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * DDIM and DDPM: the images fed to every step must be the reference's after the step before; then
 * the images that come out. */
#include "sampler.h"

enum { IMAGE_AXES = 2 };         /* (..., C,H,W) in the file, (..., H,W,C) here */

typedef struct Judge {
    SampleCase  c;
    const char *trace;           /* the chain of the file: out.ddim or out.ddpm; NULL: none */
} Judge;

static void compare(Judge *j, const float *x, int64_t step, Shape shape)
{
    int64_t n = shape_count(shape);
    case_near(&j->c, x, case_numbers(&j->c, j->trace, step, n, shape, IMAGE_AXES), n, 2e-5);
}

static Err judge_run(Sampler *s, Phase phase)
{
    Judge      *j = s->own;
    FeedBuffer *x = case_feed(&j->c, "x");
    if (phase == PHASE_SAMPLE && j->trace && j->c.done)
        compare(j, x->bytes, j->c.done - 1, x->shape);
    return sampler_run(s, phase);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase *c = s->own;
    Shape       shape = case_feed(c, "x")->shape;
    CHECK_INT(n, shape_count(shape));
    sampler_numbers(c, name, index, shape, IMAGE_AXES, to, n);
}

static Err judge_sample(Judge *j, SamplerConfig *config, const char *trace, SampleResult *result)
{
    case_give(&j->c, "support", "in.support", IMAGE_AXES);
    j->c.worst = 0;
    j->trace = trace;
    return case_sample(&j->c, config, NULL, judge_run, judge_normal, result);
}

static void same_images(Judge *j, SamplerKind kind, const char *trace)
{
    SampleResult  result;
    SamplerConfig config = j->c.recipe->sampler;
    config.kind = kind;
    CHECK_OK(judge_sample(j, &config, trace, &result));
    CHECK_INT(j->c.done, config.steps);
    CHECK_INT(result.kind, RESULT_IMAGES);
    compare(j, result.data, config.steps - 1, result.shape);
    printf("%s: %lld steps, the images are off by %.3g at most\n", trace, (long long)j->c.done,
           j->c.worst);
}

static void other_ways(Judge *j)
{
    SampleResult  result;
    SamplerConfig config = j->c.recipe->sampler;
    config.steps = 1;
    CHECK_OK(judge_sample(j, &config, NULL, &result));
    CHECK_INT(count_outside(&result), 0);
    config.steps = 0;                        /* the system's own: every time */
    CHECK_OK(judge_sample(j, &config, NULL, &result));
    CHECK_INT(j->c.done, 250);
    config.steps = 251;
    CHECK_INT(judge_sample(j, &config, NULL, &result), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(judge_sample(j, &config, NULL, &result), E_USAGE);
}

static void judge(SampleCase *c)
{
    Judge *j = (Judge *)c;
    same_images(j, SAMPLER_DDIM, "out.ddim");
    same_images(j, SAMPLER_DDPM, "out.ddpm");
    other_ways(j);
}

int main(int argc, char **argv)
{
    Judge j = { 0 };
    return case_judge(argc, argv, &j.c, false, judge);
}
