/* lag_sample.c -- samples new images for given sets: the context once, then a chain from noise to
 * image.
 *
 *   support (n,ns,H,W,c) -> n ns images; image i of a set is drawn given the others of the set
 *
 * DDIM (ddim.h) or DDPM with the larger of its fixed variances, beta (Ho et al. 2020, section 3.2). The predicted image is clipped to [-1,1] in both.
 */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/ddim.h"
#include "models/lag.h"
#include "models/layers.h"

#include <math.h>

/* x at noise level a -> x at level next, given the predicted noise; z NULL: none is added. */
static void lag_step(float *x, const float *predicted, const float *z, int64_t n, double a,
                     double next)
{
    double alpha = a / next, root = sqrt(a), rest = sqrt(1 / a - 1), spread = sqrt(1 - alpha);
    double from_x0 = sqrt(next) * (1 - alpha) / (1 - a);
    double from_x = sqrt(alpha) * (1 - next) / (1 - a);
    for (int64_t i = 0; i < n; i++) {
        double now = (double)x[i], x0 = fmin(fmax(now / root - rest * (double)predicted[i], -1), 1);
        x[i] = (float)(from_x0 * x0 + from_x * now + (z ? spread * (double)z[i] : 0));
    }
}

Err lag_check_sampler(const void *config, const SamplerConfig *sampler)
{
    (void)config;
    return sampler_check(sampler, "lag", SAMPLERS_DENOISING, false);
}

Err lag_sample(Sampler *s, const void *config, SampleResult *result)
{
    const Lag *m = config;
    bool       ddim = s->config->kind == SAMPLER_DDIM;
    int64_t    steps = s->config->steps ? s->config->steps : m->timesteps;
    TRY(lag_check_sampler(m, s->config));
    TRY(sampler_steps_check("lag", steps, m->timesteps));
    Shape    shape = SHAPE(s->n * m->set_size, m->image, m->image, m->channels);
    int64_t  count = shape_count(shape);
    double  *table = alpha_bar_table(s->pool, (NoiseSchedule)m->noise_schedule, m->timesteps,
                                     m->beta_start, m->beta_end);
    float   *z = NEWN(s->pool, float, count), *x = s->feed(s, "x");
    int32_t *t = s->feed(s, "t");
    TRY(s->run(s, PHASE_SAMPLE_BEGIN));
    s->normal(s, "x", 0, x, count);
    for (int64_t i = 0; i < steps && !s->dry; i++) {
        int64_t k = steps - 1 - i; /* the last step removes all noise */
        double  next = k ? table[respaced_time(m->timesteps, steps, k - 1)] : 1;
        *t = (int32_t)respaced_time(m->timesteps, steps, k);
        TRY(s->run(s, PHASE_SAMPLE));
        const float *noise = s->output(s, "prediction");
        if (!ddim && k)
            s->normal(s, "z", i, z, count);
        if (ddim)
            ddim_take(s, &(DdimStep){ i, table[*t], next, true }, x, noise, z, count);
        else
            lag_step(x, noise, k ? z : NULL, count, table[*t], next);
        s->progress(s, i + 1, steps);
    }
    float *images = NEWN(s->pool, float, count);
    for (int64_t i = 0; i < count; i++)
        images[i] = x[i];
    *result = (SampleResult){
        .kind = RESULT_IMAGES, .shape = shape, .data = images, .columns = m->set_size
    };
    return OK;
}
