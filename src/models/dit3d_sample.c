/* dit3d_sample.c -- DiT3D sampling: a clip from noise and a text, step by step on the host. */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/ddim.h"
#include "models/dit3d.h"
#include "models/layers.h"

#include <math.h>

/* The predicted noise at time t: without text plus w times the difference that the text makes. */
static Err predict_guided(Sampler *s, int64_t t, int64_t count, float *noise)
{
    double   w = s->config->guidance;
    float   *keep = s->feed(s, "keep");
    int32_t *times = s->feed(s, "t");
    for (int64_t i = 0; i < s->n; i++)
        times[i] = (int32_t)t;
    for (int with = w == 1; with < 2; with++) {
        for (int64_t i = 0; i < s->n; i++)
            keep[i] = (float)with;
        TRY(s->run(s, PHASE_SAMPLE));
        const float *e = s->output(s, "noise");
        for (int64_t i = 0; i < count; i++)
            noise[i] = with && w != 1 ? noise[i] + (float)w * (e[i] - noise[i]) : e[i];
    }
    return OK;
}

/* One step of DDPM (Ho et al. 2020) from noise level a to `next` (1: the last step).
 *   as published   algorithm 2 with alpha as the unclipped ratio; accurate only for an accurate
 *                  prediction: the first steps of the cosine schedule divide its error by
 *                  sqrt(alpha), 0.03
 *   clip           the same mean by equation 7, with the predicted clip clipped to [-1,1] */
static void chain_step(float *x, const float *noise, const float *z, int64_t count, double a,
                       double next, double alpha, bool clip)
{
    double of_x0 = 0, of_x = 1 / sqrt(alpha), of_e = (1 - alpha) / sqrt((1 - a) * alpha);
    double added = z ? sqrt(fmax((1 - alpha) * (1 - next) / (1 - a), 1e-6)) : 0;
    if (clip) {
        alpha = a / next;
        of_x0 = sqrt(next) * (1 - alpha) / (1 - a);
        of_x = sqrt(alpha) * (1 - next) / (1 - a);
        of_e = 0;
        added = z ? sqrt((1 - alpha) * (1 - next) / (1 - a)) : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        double now = (double)x[i], e = (double)noise[i];
        double x0 = clip ? fmin(fmax((now - sqrt(1 - a) * e) / sqrt(a), -1), 1) : 0;
        x[i] = (float)(of_x0 * x0 + of_x * now - of_e * e + (z ? added * (double)z[i] : 0));
    }
}

Err dit3d_check_sampler(const void *config, const SamplerConfig *sampler)
{
    (void)config;
    return sampler_check(sampler, "dit3d", SAMPLERS_DENOISING, true);
}

/* A chain over respaced times. */
Err dit3d_sample(Sampler *s, const void *config, SampleResult *result)
{
    const Dit3d *m = config;
    int64_t      steps = s->config->steps ? s->config->steps : m->timesteps;
    int64_t      count = shape_count(dit3d_clip(m, s->n));
    TRY(dit3d_check_sampler(m, s->config));
    TRY(sampler_steps_check("dit3d", steps, m->timesteps));
    const double *free_bar = dit3d_alpha_bar(s->pool, m, false);
    const double *bar = dit3d_alpha_bar(s->pool, m, true);
    float        *x = s->feed(s, "x");
    float        *noise = NEWN(s->pool, float, count), *z = NEWN(s->pool, float, count);

    TRY(s->run(s, PHASE_SAMPLE_BEGIN));
    s->normal(s, "x", 0, x, count);
    for (int64_t k = steps - 1; k >= 0 && !s->dry; k--) {
        int64_t t = respaced_time(m->timesteps, steps, k);
        int64_t next = k ? respaced_time(m->timesteps, steps, k - 1) : 0;
        double  alpha = k ? free_bar[t] / free_bar[next] : free_bar[t];
        TRY(predict_guided(s, t, count, noise));
        DdimStep step = { steps - 1 - k, bar[t], k ? bar[next] : 1, s->config->clip };
        if (s->config->kind == SAMPLER_DDIM) {
            ddim_take(s, &step, x, noise, z, count);
        } else {
            if (k)
                s->normal(s, "z", step.index, z, count);
            chain_step(x, noise, k ? z : NULL, count, step.now, step.next, alpha, step.clip);
        }
        s->progress(s, steps - k, steps);
    }
    for (int64_t i = 0; i < count; i++)
        noise[i] = fminf(fmaxf(x[i], -1), 1);
    *result = (SampleResult){ .kind = RESULT_CLIPS, .shape = dit3d_clip(m, s->n), .data = noise };
    return OK;
}
