/* sample_stdiff.c -- STDiff's sampling against PyTorch in fp64, step by step, from the same noise.
 *
 *   sample_stdiff CASE_FOLDER       (tests/ref/case.py makes it)
 *
 * Every x fed to the network must be the one the reference had before that step, and every frame
 * before it the one that was generated last; then the clips that come out. */
#include "sampler.h"

enum { FRAME_AXES = 2 };         /* (...,C,H,W) in the file, (...,H,W,C) here */

typedef struct Judge {
    SampleCase c;
    bool       compare;
} Judge;

/* x before step i of frame k: the reference's after the step before, or the frame's own noise. */
static void check_step(SampleCase *c)
{
    int64_t     steps = c->recipe->sampler.steps, k = c->runs[1] / steps, i = c->runs[1] % steps;
    FeedBuffer *x = case_feed(c, "x"), *before = case_feed(c, "before");
    int64_t     n = shape_count(x->shape);
    int32_t     t = *(int32_t *)case_feed(c, "t")->bytes;
    CHECK_INT(t, (steps - 1 - i) * (1000 / steps));
    CHECK_INT(c->runs[2], k + 1);
    case_near(c, x->bytes,
              i ? case_numbers(c, "out.trace", k * steps + i - 1, n, x->shape, FRAME_AXES)
                : case_numbers(c, "noise.x", k, n, x->shape, FRAME_AXES),
              n, 1e-4);
    float       *want = NEWN(c->pool, float, n);
    FeedBuffer  *observed = case_feed(c, "observed");
    int64_t      To = observed->shape.dim[1], rows = x->shape.dim[0], size = n / rows;
    const float *last = case_numbers(c, "out.trace", k ? k * steps - 1 : 0, n, x->shape,
                                     FRAME_AXES);
    for (int64_t e = 0; e < n; e++)
        want[e] = k ? fminf(fmaxf(last[e], -1), 1)
                    : ((float *)observed->bytes)[(e / size * To + To - 1) * size + e % size];
    case_near(c, before->bytes, want, n, 1e-4);
}

static Err judge_run(Sampler *s, Phase phase)
{
    Judge *j = s->own;
    if (phase == PHASE_SAMPLE && j->compare)
        check_step(&j->c);
    return sampler_run(s, phase);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    Judge *j = s->own;
    Shape  shape = case_feed(&j->c, !strcmp(name, "z") ? "x" : name)->shape;
    sampler_numbers(&j->c, name, j->compare ? index : 0, shape, FRAME_AXES, to, n);
}

static Err judge_sample(Judge *j, SamplerConfig *config, bool compare, SampleResult *result)
{
    case_give(&j->c, "observed", "in.observed", FRAME_AXES);
    j->compare = compare;
    return case_sample(&j->c, config, NULL, judge_run, judge_normal, result);
}

static void same_clips(Judge *j)
{
    SampleCase   *c = &j->c;
    SampleResult  result;
    SamplerConfig config = c->recipe->sampler;
    CHECK_OK(judge_sample(j, &config, true, &result));
    int64_t n = shape_count(result.shape), frames = result.shape.dim[1];
    CHECK_INT(result.kind, RESULT_CLIPS);
    CHECK_INT(c->runs[0], 1);
    CHECK_INT(c->runs[1], frames * config.steps);
    CHECK_INT(c->runs[2], frames);
    /* in [0,1] */
    const float *want = case_numbers(c, "out.frames", 0, n, result.shape, FRAME_AXES);
    float       *ours = NEWN(c->pool, float, n);
    for (int64_t i = 0; i < n; i++)
        ours[i] = result.data[i] / 2 + 0.5f;
    case_near(c, ours, want, n, 1e-4);
    printf("largest error %.3g over %lld steps\n", c->worst, (long long)c->runs[1]);
}

/* Twice from the same noise gives the same bits; other lengths run; what cannot be done is said. */
static void other_ways(Judge *j)
{
    SampleResult  first, second;
    SamplerConfig config = j->c.recipe->sampler;
    config.steps = 1;
    CHECK_OK(judge_sample(j, &config, false, &first));
    CHECK_INT(j->c.runs[1], first.shape.dim[1]);
    CHECK_OK(judge_sample(j, &config, false, &second));
    CHECK(!memcmp(first.data, second.data, (size_t)shape_count(first.shape) * 4));
    CHECK_INT(count_outside(&first), 0);
    config.steps = 1001;
    CHECK_INT(judge_sample(j, &config, false, &second), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_DDIM;
    CHECK_INT(judge_sample(j, &config, false, &second), E_USAGE);
}

static void judge(SampleCase *c)
{
    same_clips((Judge *)c);
    other_ways((Judge *)c);
}

int main(int argc, char **argv)
{
    Judge j = { 0 };
    return case_judge(argc, argv, &j.c, false, judge);
}
