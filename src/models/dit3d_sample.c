/* dit3d_sample.c -- DiT3D: from noise and a text to a clip, step by step on the host. */
#define LAYERS_OWN_LINES                     /* no graph is built here */
#include "models/dit3d.h"
#include "models/layers.h"
#include "models/prompt.h"

#include <math.h>

/* Predicted noise at time t; guidance w: that without text plus w times what the text changes. */
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
        TRY(s->run(s, PART_SAMPLE));
        const float *e = s->output(s, "noise");
        for (int64_t i = 0; i < count; i++)
            noise[i] = with && w != 1 ? noise[i] + (float)w * (e[i] - noise[i]) : e[i];
    }
    return OK;
}

/* DDPM (Ho et al. 2020, algorithm 2) over respaced times: alpha is the product over the gap. */
Err dit3d_sample(Sampler *s, const void *config, SampleResult *result)
{
    const Dit3d *m = config;
    int64_t steps = s->config->steps ? s->config->steps : m->timesteps;
    int64_t count = shape_count(dit3d_clip(m, s->n));
    if (s->config->kind != SAMPLER_DDPM || steps > m->timesteps)
        return fail(E_USAGE, "sampler: dit3d samples by ddpm in at most %lld steps (the timesteps)",
                    (long long)m->timesteps);
    const double *free_bar = dit3d_alpha_bar(s->pool, m, false);
    const double *bar = dit3d_alpha_bar(s->pool, m, true);
    float *x = s->feed(s, "x");
    float *noise = NEWN(s->pool, float, count), *z = NEWN(s->pool, float, count);

    for (int64_t i = 0; s->prompt && i < s->n; i++)
        prompt_embed(s->prompt, (float *)s->feed(s, "text") + i * DIT3D_TEXT, DIT3D_TEXT);
    TRY(s->run(s, PART_SAMPLE_BEGIN));
    s->normal(s, "x", 0, x, count);
    for (int64_t k = steps - 1; k >= 0; k--) {
        int64_t t = respaced_time(m->timesteps, steps, k);
        int64_t next = k ? respaced_time(m->timesteps, steps, k - 1) : 0;
        double  alpha = k ? free_bar[t] / free_bar[next] : free_bar[t], beta = 1 - alpha;
        double  taken = beta / sqrt(1 - bar[t]), grown = 1 / sqrt(alpha), added = 0;
        TRY(predict_guided(s, t, count, noise));
        if (k) {
            added = sqrt(fmax(beta * (1 - bar[next]) / (1 - bar[t]), 1e-6));
            s->normal(s, "z", steps - 1 - k, z, count);
        }
        for (int64_t i = 0; i < count; i++)
            x[i] = (float)(grown * ((double)x[i] - taken * (double)noise[i]) +
                           added * (double)z[i]);
        s->progress(s, steps - k, steps);
    }
    for (int64_t i = 0; i < count; i++)
        noise[i] = fminf(fmaxf(x[i], -1), 1);
    *result = (SampleResult){ .kind = RESULT_CLIPS, .shape = dit3d_clip(m, s->n), .data = noise };
    return OK;
}
