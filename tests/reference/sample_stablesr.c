/* sample_stablesr.c -- StableSR's sampling against PyTorch in fp64, step by step, from the same
 * noise.
 *
 *   sample_stablesr CASE_FOLDER     (tests/ref/case.py makes it)
 *
 * By DDPM and by DDIM: every latent fed to the network must be the one the reference had before
 * that step, the one fed to the decoder its last. Then the images, under each of the colour
 * fixes. */
#include "sampler.h"

enum { IMAGE_AXES = 2 };         /* (...,C,H,W) in the file, (...,H,W,C) here */

typedef struct Judge {
    SampleCase  c;
    const char *trace;           /* what to compare latents with; NULL: nothing */
} Judge;

static void compare(Judge *j, const float *x, const char *name, int64_t index, Shape shape)
{
    int64_t n = shape_count(shape);
    case_near(&j->c, x, case_numbers(&j->c, name, index, n, shape, IMAGE_AXES), n, 1e-4);
}

static Err judge_run(Sampler *s, Phase phase)
{
    Judge      *j = s->own;
    int64_t     run = j->c.runs[1];
    FeedBuffer *x = case_feed(&j->c, phase == PHASE_SAMPLE_END ? "result" : "x");
    if (phase == PHASE_SAMPLE && j->trace) {
        int32_t t = *(int32_t *)case_feed(&j->c, "t")->bytes;
        CHECK_INT(t, nearbyint((double)(s->config->steps - 1 - run) * 999 /
                               (double)(s->config->steps - 1)));
    }
    if (phase != PHASE_SAMPLE_BEGIN && j->trace)
        compare(j, x->bytes, run ? j->trace : "noise.x", run ? run - 1 : 0, x->shape);
    return sampler_run(s, phase);
}

static void judge_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SampleCase *c = s->own;
    Shape       shape = case_feed(c, "x")->shape;
    CHECK_INT(shape_count(shape), n);
    sampler_numbers(c, name, index, shape, IMAGE_AXES, to, n);
}

static Err judge_sample(Judge *j, const SamplerConfig *config, const char *trace,
                        SampleResult *result)
{
    case_give(&j->c, "image_lq", "in.image_lq", IMAGE_AXES);
    case_give(&j->c, "edge", "in.edge", IMAGE_AXES);
    case_give(&j->c, "vae_lq", "noise.vae_lq", IMAGE_AXES);
    case_give(&j->c, "context", "in.context", 0);
    j->trace = trace;
    return case_sample(&j->c, config, NULL, judge_run, judge_normal, result);
}

static void same_images(Judge *j)
{
    static const struct { int kind, colour; const char *trace, *image; } rows[] = {
        { SAMPLER_DDPM, COLOUR_NONE,    "out.ddpm", "out.image" },
        { SAMPLER_DDPM, COLOUR_ADAIN,   "out.ddpm", "out.adain" },
        { SAMPLER_DDPM, COLOUR_WAVELET, "out.ddpm", "out.wavelet" },
        { SAMPLER_DDIM, COLOUR_NONE,    "out.ddim", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SampleResult  result;
        SamplerConfig config = j->c.recipe->sampler;
        config.kind = rows[i].kind;
        config.colour = rows[i].colour;
        CHECK_OK(judge_sample(j, &config, rows[i].trace, &result));
        CHECK_INT(result.kind, RESULT_IMAGES);
        CHECK_INT(j->c.runs[0], 1);
        CHECK_INT(j->c.runs[1], config.steps);
        CHECK_INT(j->c.runs[2], 1);
        CHECK_INT(j->c.done, config.steps);
        if (rows[i].image)
            compare(j, result.data, rows[i].image, 0, result.shape);
    }
    printf("largest error %.3g\n", j->c.worst);
}

/* Twice from the same noise gives the same bits; what cannot be done is said. */
static void other_ways(Judge *j)
{
    SampleResult  first, second;
    SamplerConfig config = j->c.recipe->sampler;
    config.steps = 1;
    config.kind = SAMPLER_DDIM;
    config.eta = 0;
    CHECK_OK(judge_sample(j, &config, NULL, &first));
    CHECK_INT(j->c.runs[1], 1);
    CHECK_OK(judge_sample(j, &config, NULL, &second));
    CHECK(!memcmp(first.data, second.data, (size_t)shape_count(first.shape) * 4));
    config.steps = 1001;
    CHECK_INT(judge_sample(j, &config, NULL, &second), E_USAGE);
    config.steps = 2;
    config.guidance = 3;
    CHECK_INT(judge_sample(j, &config, NULL, &second), E_USAGE);
    config.guidance = 1;
    config.kind = SAMPLER_RECURRENT;
    CHECK_INT(judge_sample(j, &config, NULL, &second), E_USAGE);
}

static void judge(SampleCase *c)
{
    same_images((Judge *)c);
    other_ways((Judge *)c);
}

int main(int argc, char **argv)
{
    Judge j = { 0 };
    return case_judge(argc, argv, &j.c, true, judge);
}
