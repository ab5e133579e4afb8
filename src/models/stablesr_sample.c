/* stablesr_sample.c -- StableSR sampling: from a low-quality image and an edge map to a
 * high-quality image.
 *
 * DDPM (Ho et al. 2020) or DDIM (ddim.h) over respaced timesteps, on the host;
 * then the decoder; then the colours of the low-quality image. */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/ddim.h"
#include "models/layers.h"
#include "models/stablesr.h"

#include <math.h>
#include <string.h>

void stablesr_chain_step(Sampler *s, int64_t index, double a, double next, float *x, const float *e,
                         float *z, int64_t count)
{
    double alpha = a / next, share = (1 - next) / (1 - a), sigma = sqrt((1 - alpha) * share);
    double of_x0 = (1 - alpha) * sqrt(next) / (1 - a), of_x = share * sqrt(alpha);
    if (s->config->kind == SAMPLER_DDIM) {
        ddim_take(s, &(DdimStep){ index, a, next, false }, x, e, z, count);
        return;
    }
    if (sigma > 0)
        s->normal(s, "z", index, z, count);
    for (int64_t i = 0; i < count; i++) {
        double x0 = (double)x[i] / sqrt(a) - sqrt(1 / a - 1) * (double)e[i];
        x[i] = (float)(of_x0 * x0 + of_x * (double)x[i] + sigma * (double)z[i]);
    }
}

Err stablesr_check_sampler(const void *config, const SamplerConfig *sampler)
{
    (void)config;
    return sampler_check(sampler, "stablesr", SAMPLERS_DENOISING, false);
}

Err stablesr_sample(Sampler *s, const void *config, SampleResult *result)
{
    const StableSr *m = config;
    int64_t         steps = s->config->steps ? s->config->steps : STABLESR_STEPS,
            count = s->n * m->latent * m->latent * STABLESR_LATENT;
    int64_t pixels = s->n * m->image * m->image * 3;
    TRY(stablesr_check_sampler(m, s->config));
    TRY(sampler_steps_check("stablesr", steps, m->timesteps));
    const double *bar = stablesr_alpha_bar(s->pool, m);
    float        *x = s->feed(s, "x"), *z = NEWN(s->pool, float, count),
          *image = NEWN(s->pool, float, pixels);
    int32_t *times = s->feed(s, "t");

    TRY(s->run(s, PHASE_SAMPLE_BEGIN));
    s->normal(s, "x", 0, x, count);
    for (int64_t k = steps - 1; k >= 0 && !s->dry; k--) {
        int64_t t = respaced_time(m->timesteps, steps, k);
        for (int64_t i = 0; i < s->n; i++)
            times[i] = (int32_t)t;
        TRY(s->run(s, PHASE_SAMPLE));
        double next = k ? bar[respaced_time(m->timesteps, steps, k - 1)] : 1;
        stablesr_chain_step(s, steps - 1 - k, bar[t], next, x, s->output(s, "noise"), z, count);
        s->progress(s, steps - k, steps);
    }
    memcpy(s->feed(s, "result"), x, (size_t)count * sizeof *x);
    TRY(s->run(s, PHASE_SAMPLE_END));
    memcpy(image, s->output(s, "image"), (size_t)pixels * sizeof *image);
    stablesr_colours(s->config, image, s->feed(s, "image_lq"), s->n, m->image,
                     NEWN(s->pool, float, 2 * m->image * m->image * 3));
    *result = (SampleResult){ .kind = RESULT_IMAGES,
                              .shape = SHAPE(s->n, m->image, m->image, 3),
                              .data = image };
    return OK;
}

/* ---- colours ---- */

static void channel_moments(const float *x, int64_t n, double *mean, double *deviation)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[3 * i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += ((double)x[3 * i] - *mean) * ((double)x[3 * i] - *mean);
    *deviation = sqrt(square / (double)(n - 1) + 1e-5); /* unbiased, as in the original */
}

/* Gives every channel of every image the mean and deviation of `like` (Huang and Belongie 2017). */
void stablesr_adain(float *x, const float *like, int64_t n, int64_t side)
{
    int64_t area = side * side;
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++) {
            float *at = x + i * area * 3 + c;
            double mean, deviation, mean_like, deviation_like;
            channel_moments(at, area, &mean, &deviation);
            channel_moments(like + i * area * 3 + c, area, &mean_like, &deviation_like);
            for (int64_t p = 0; p < area; p++)
                at[3 * p] = (float)(((double)at[3 * p] - mean) / deviation * deviation_like +
                                    mean_like);
        }
}

static int64_t inside(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* Dilated [1 2 1]/4 filter along rows, or columns if `down`; the border is repeated. */
static void smooth(const float *x, float *y, int64_t side, int64_t dilation, bool down)
{
    for (int64_t r = 0; r < side; r++)
        for (int64_t p = 0; p < side; p++) {
            int64_t before = inside((down ? r : p) - dilation, side),
                    after = inside((down ? r : p) + dilation, side);
            const float *a = x + (down ? before * side + p : r * side + before) * 3;
            const float *b = x + (down ? after * side + p : r * side + after) * 3;
            const float *mid = x + (r * side + p) * 3;
            for (int c = 0; c < 3; c++)
                y[(r * side + p) * 3 + c] = 0.25f * (a[c] + b[c]) + 0.5f * mid[c];
        }
}

/* The high bands of x with the low band of `like`: x - low(x) + low(like) = x + low(like - x), over
 * five octaves. */
void stablesr_wavelet(float *x, const float *like, int64_t n, int64_t side, float *work)
{
    int64_t size = side * side * 3;
    float  *low = work, *half = work + size;
    for (int64_t i = 0; i < n; i++) {
        float *at = x + i * size;
        for (int64_t p = 0; p < size; p++)
            low[p] = like[i * size + p] - at[p];
        for (int64_t dilation = 1; dilation <= 16; dilation *= 2) {
            smooth(low, half, side, dilation, false);
            smooth(half, low, side, dilation, true);
        }
        for (int64_t p = 0; p < size; p++)
            at[p] += low[p];
    }
}

void stablesr_colours(const SamplerConfig *sampler, float *x, const float *like, int64_t n,
                      int64_t side, float *work)
{
    if (sampler->colour == COLOUR_ADAIN)
        stablesr_adain(x, like, n, side);
    else if (sampler->colour == COLOUR_WAVELET)
        stablesr_wavelet(x, like, n, side, work);
}
