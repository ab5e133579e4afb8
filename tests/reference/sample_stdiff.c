/* sample_stdiff.c -- compares STDiff's sampling with PyTorch in fp64, step by step, from the same
 * noise.
 *
 *   sample_stdiff CASE_FOLDER       (tests/ref/case.py makes it)
 *
 * Every x fed to the network must be the one the reference had before that step, and every frame
 * before it the one that was generated last; then the clips that come out. */
#include "sampler.h"

enum { FRAME_AXES = 2 }; /* (...,C,H,W) in the file, (...,H,W,C) here */

typedef struct StdiffTest {
    SampleCase  c;
    const char *trace; /* what to compare with; NULL: nothing */
} StdiffTest;

/* x before step i of frame k: the reference's after the previous step, or the frame's noise. */
static void check_step(SampleCase *c, const char *trace)
{
    int64_t     steps = c->recipe->sampler.steps, k = c->runs[1] / steps, i = c->runs[1] % steps;
    FeedBuffer *x = case_feed(c, "x"), *before = case_feed(c, "before");
    int64_t     n = shape_count(x->shape);
    int32_t     t = *(int32_t *)case_feed(c, "t")->bytes;
    CHECK_INT(t, (steps - 1 - i) * (1000 / steps));
    CHECK_INT(c->runs[2], k + 1);
    case_near(c, x->bytes,
              i ? case_numbers(c, trace, k * steps + i - 1, n, x->shape, FRAME_AXES)
                : case_numbers(c, "noise.x", k, n, x->shape, FRAME_AXES),
              n, 1e-4);
    float       *want = NEWN(c->pool, float, n);
    FeedBuffer  *observed = case_feed(c, "observed");
    int64_t      To = observed->shape.dim[1], rows = x->shape.dim[0], size = n / rows;
    const float *last = case_numbers(c, trace, k ? k * steps - 1 : 0, n, x->shape, FRAME_AXES);
    for (int64_t e = 0; e < n; e++)
        want[e] = k ? fminf(fmaxf(last[e], -1), 1)
                    : ((float *)observed->bytes)[(e / size * To + To - 1) * size + e % size];
    case_near(c, before->bytes, want, n, 1e-4);
}

static Err run_compared(Sampler *s, Phase phase)
{
    StdiffTest *test = s->own;
    if (phase == PHASE_SAMPLE && test->trace)
        check_step(&test->c, test->trace);
    return sampler_run(s, phase);
}

static void normal_from_file(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    StdiffTest *test = s->own;
    Shape       shape = case_feed(&test->c, !strcmp(name, "z") ? "x" : name)->shape;
    sampler_numbers(&test->c, name, test->trace ? index : 0, shape, FRAME_AXES, to, n);
}

static Err sample_compared(StdiffTest *test, SamplerConfig *config, const char *trace,
                           SampleResult *result)
{
    case_give(&test->c, "observed", "in.observed", FRAME_AXES);
    test->trace = trace;
    return case_sample(&test->c, config, run_compared, normal_from_file, result);
}

static void same_clips(StdiffTest *test, SamplerKind kind, const char *trace, const char *frames_of)
{
    SampleCase   *c = &test->c;
    SampleResult  result;
    SamplerConfig config = c->recipe->sampler;
    config.kind = kind;
    config.eta = kind == SAMPLER_DDIM ? 0.5 : 0;
    CHECK_OK(sample_compared(test, &config, trace, &result));
    int64_t n = shape_count(result.shape), frames = result.shape.dim[1];
    CHECK_INT(result.kind, RESULT_CLIPS);
    CHECK_INT(c->runs[0], 1);
    CHECK_INT(c->runs[1], frames * config.steps);
    CHECK_INT(c->runs[2], frames);
    /* in [0,1] */
    const float *want = case_numbers(c, frames_of, 0, n, result.shape, FRAME_AXES);
    float       *ours = NEWN(c->pool, float, n);
    for (int64_t i = 0; i < n; i++)
        ours[i] = result.data[i] / 2 + 0.5f;
    case_near(c, ours, want, n, 1e-4);
    printf("%s: largest error %.3g over %lld steps\n", trace, c->worst, (long long)c->runs[1]);
}

/* The same noise gives the same bits; other lengths run; impossible settings are refused. */
static void other_ways(StdiffTest *test)
{
    SampleResult  first, second;
    SamplerConfig config = test->c.recipe->sampler;
    config.steps = 1;
    CHECK_OK(sample_compared(test, &config, NULL, &first));
    CHECK_INT(test->c.runs[1], first.shape.dim[1]);
    CHECK_OK(sample_compared(test, &config, NULL, &second));
    CHECK(!memcmp(first.data, second.data, (size_t)shape_count(first.shape) * 4));
    CHECK_INT(count_outside(&first), 0);
    config.steps = 1001;
    CHECK_INT(sample_compared(test, &config, NULL, &second), E_USAGE);
    config.steps = 2;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(sample_compared(test, &config, NULL, &second), E_USAGE);
}

static void compare_case(SampleCase *c)
{
    same_clips((StdiffTest *)c, SAMPLER_DDPM, "out.trace", "out.frames");
    same_clips((StdiffTest *)c, SAMPLER_DDIM, "out.trace_ddim", "out.frames_ddim");
    other_ways((StdiffTest *)c);
}

int main(int argc, char **argv)
{
    StdiffTest test = { 0 };
    return case_main(argc, argv, &test.c, false, compare_case);
}
