/* stdiff_sample.c -- STDiff sampling: predicts the future of a clip frame by frame, on the host. */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/ddim.h"
#include "models/layers.h"
#include "models/stdiff.h"

#include <math.h>
#include <string.h>

enum { STDIFF_STEPS = 50 }; /* of a chain, if the recipe names none */

typedef struct Chain {
    Sampler      *s;
    const double *alpha_bar;
    int64_t       steps, stride; /* times (steps-1) stride, ..., stride, 0 */
    int64_t       count;         /* elements of one frame, over all samples */
    float        *x, *z;
    int32_t      *t;
} Chain;

/* DDPM (Ho et al. 2020, equation 7), from level `now` to `next`; the predicted frame is clipped to
 * [-1,1]. */
static void ddpm_take(const Chain *c, int64_t index, double now, double next, const float *noise)
{
    bool   last = next == 1;
    double alpha = now / next, beta = 1 - alpha, added = 0;
    double of_frame = sqrt(next) * beta / (1 - now), of_x = sqrt(alpha) * (1 - next) / (1 - now);
    if (!last) {
        added = sqrt(fmax(beta * (1 - next) / (1 - now), 1e-20));
        c->s->normal(c->s, "z", index, c->z, c->count);
    }
    for (int64_t j = 0; j < c->count; j++) {
        double x = (double)c->x[j], clean = (x - sqrt(1 - now) * (double)noise[j]) / sqrt(now);
        x = of_frame * fmin(fmax(clean, -1), 1) + of_x * x;
        c->x[j] = (float)(last ? x : x + added * (double)c->z[j]);
    }
}

/* Step i of a frame's chain, over strided timesteps. */
static Err chain_step(const Chain *c, int64_t frame, int64_t i)
{
    Sampler *s = c->s;
    int64_t  t = (c->steps - 1 - i) * c->stride, index = frame * c->steps + i;
    double   now = c->alpha_bar[t], next = i + 1 < c->steps ? c->alpha_bar[t - c->stride] : 1;
    for (int64_t j = 0; j < s->n; j++)
        c->t[j] = (int32_t)t;
    TRY(s->run(s, PHASE_SAMPLE));
    const float *noise = s->output(s, "noise");
    if (s->config->kind == SAMPLER_DDIM)
        ddim_take(s, &(DdimStep){ index, now, next, true }, c->x, noise, c->z, c->count);
    else
        ddpm_take(c, index, now, next, noise);
    return OK;
}

/* Advances the motion by one frame. */
static Err motion_advance(Sampler *s, const Stdiff *m, int64_t frame)
{
    int64_t per_frame = stdiff_substeps(m), cells = shape_count(stdiff_motion_shape(m, s->n));
    float  *noise = s->feed(s, "sde");
    for (int64_t i = 0; i < per_frame; i++)
        s->normal(s, "sde", frame * per_frame + i, noise + i * cells, cells);
    return s->run(s, PHASE_SAMPLE_END);
}

Err stdiff_check_sampler(const void *config, const SamplerConfig *sampler)
{
    (void)config;
    return sampler_check(sampler, "stdiff", SAMPLERS_DENOISING, false);
}

Err stdiff_sample(Sampler *s, const void *config, SampleResult *result)
{
    const Stdiff *m = config;
    int64_t       steps = s->config->steps ? s->config->steps : STDIFF_STEPS;
    int64_t       To = m->observed, Tp = m->predicted;
    int64_t       size = m->image.at[0] * m->image.at[1] * m->image_channels, count = s->n * size;
    TRY(stdiff_check_sampler(m, s->config));
    TRY(sampler_steps_check("stdiff", steps, m->timesteps));
    Chain        c = { .s = s,
                       .alpha_bar = stdiff_alpha_bar(s->pool, m),
                       .steps = steps,
                       .stride = m->timesteps / steps,
                       .count = count,
                       .x = s->feed(s, "x"),
                       .z = NEWN(s->pool, float, count),
                       .t = s->feed(s, "t") };
    const float *observed = s->feed(s, "observed");
    float       *before = s->feed(s, "before"), *clips = NEWN(s->pool, float, count *Tp);

    TRY(s->run(s, PHASE_SAMPLE_BEGIN));
    for (int64_t j = 0; j < s->n; j++)
        memcpy(before + j * size, observed + ((j + 1) * To - 1) * size, (size_t)size * 4);
    for (int64_t k = 0; k < Tp && !s->dry; k++) {
        TRY(motion_advance(s, m, k));
        s->normal(s, "x", k, c.x, count);
        for (int64_t i = 0; i < steps; i++) {
            TRY(chain_step(&c, k, i));
            s->progress(s, k * steps + i + 1, Tp * steps);
        }
        for (int64_t j = 0; j < count; j++)
            before[j] = clips[(j / size * Tp + k) * size + j % size] = fminf(fmaxf(c.x[j], -1), 1);
    }
    Shape shape = SHAPE(s->n, Tp, m->image.at[0], m->image.at[1], m->image_channels);
    *result = (SampleResult){ .kind = RESULT_CLIPS, .shape = shape, .data = clips };
    return OK;
}
