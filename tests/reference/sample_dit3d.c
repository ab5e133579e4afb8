/* sample_dit3d.c -- DiT3D's sampling against PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_dit3d CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * As published and with the predicted clip kept within [-1,1]: every clip fed to the network must
 * be the one the reference had before that step, with and without text where sampling is guided;
 * then the clip that comes out. */
#include "sampler.h"

#include "base/prompt.h"

enum { CLIP_AXES = 3 };          /* (B,C,F,H,W) in the file, (B,F,H,W,C) here */

typedef struct Judge {
    SampleCase  c;
    const char *trace;           /* what to compare with; NULL: nothing */
} Judge;

static Err judge_run(Sampler *s, Phase phase)
{
    Judge      *j = s->own;
    SampleCase *c = &j->c;
    FeedBuffer *x = case_feed(c, "x");
    int64_t     n = shape_count(x->shape);
    if (phase == PHASE_SAMPLE && j->trace)
        case_near(c, x->bytes,
                  c->done ? case_numbers(c, j->trace, c->done - 1, n, x->shape, CLIP_AXES)
                          : case_numbers(c, "noise.x", 0, n, x->shape, CLIP_AXES),
                  n, 2e-5);
    return sampler_run(s, phase);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase *c = s->own;
    sampler_numbers(c, name, index, case_feed(c, "x")->shape, CLIP_AXES, to, n);
}

static Err judge_sample(Judge *j, SamplerConfig *config, const char *prompt, const char *trace,
                        SampleResult *result)
{
    case_give(&j->c, "text", "in.text", 0);
    j->trace = trace;
    return case_sample(&j->c, config, prompt, judge_run, judge_normal, result);
}

static void same_clip(Judge *j, bool clip, const char *trace, const char *out)
{
    SampleCase   *c = &j->c;
    SampleResult  result;
    SamplerConfig config = c->recipe->sampler;
    config.clip = clip;
    c->worst = 0;
    CHECK_OK(judge_sample(j, &config, NULL, trace, &result));
    CHECK_INT(c->done, config.steps);
    CHECK_INT(c->runs[1], config.steps * (config.guidance == 1 ? 1 : 2));
    CHECK_INT(result.kind, RESULT_CLIPS);
    int64_t n = shape_count(result.shape);
    /* the published form's last step leaves a small difference of large numbers */
    case_near(c, result.data, case_numbers(c, out, 0, n, result.shape, CLIP_AXES), n, 2e-4);
    printf("%s: off by %.3g at most\n", trace, c->worst);
}

/* Without guidance a step is one run; a prompt takes the place of the given texts. */
static void other_ways(Judge *j)
{
    SampleResult  result;
    SamplerConfig config = j->c.recipe->sampler;
    FeedBuffer   *text = case_feed(&j->c, "text");
    float         want[768];
    config.guidance = 1;
    CHECK_OK(judge_sample(j, &config, "hello", NULL, &result));
    CHECK_INT(j->c.runs[1], config.steps);
    prompt_embed("hello", want, 768);
    for (int64_t row = 0; row < j->c.recipe->batch; row++)
        CHECK(!memcmp((float *)text->bytes + row * 768, want, sizeof want));
    CHECK_INT(count_outside(&result), 0);
    config.steps = 1000000;
    CHECK_INT(judge_sample(j, &config, NULL, NULL, &result), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_DDIM;
    CHECK_INT(judge_sample(j, &config, NULL, NULL, &result), E_USAGE);
}

static void judge(SampleCase *c)
{
    Judge *j = (Judge *)c;
    same_clip(j, false, "out.trace", "out.clip");
    same_clip(j, true, "out.trace_clipped", "out.clip_clipped");
    other_ways(j);
}

int main(int argc, char **argv)
{
    Judge j = { 0 };
    return case_judge(argc, argv, &j.c, false, judge);
}
