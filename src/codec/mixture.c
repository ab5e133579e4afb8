/* mixture.c -- distribution function at bin edges, and its search. */
#include "codec/mixture.h"

#include "codec/range_coder.h"

#include <math.h>

static const double LOG_SCALE_MIN = -7; /* as in ops/loss/dml_cpu.c */

bool mixture_set(Mixture *m, const Sashimi *model, const float *outputs)
{
    int    k = (int)model->components;
    double highest = -INFINITY, sum = 0;
    m->k = k;
    m->levels = sashimi_levels(model);
    for (int i = 0; i < 3 * k; i++)
        if (!isfinite(outputs[i]))
            return false;
    for (int i = 0; i < k; i++)
        highest = fmax(highest, (double)outputs[i]);
    for (int i = 0; i < k; i++)
        sum += m->share[i] = exp((double)outputs[i] - highest);
    for (int i = 0; i < k; i++) {
        m->share[i] /= sum;
        m->mean[i] = (double)outputs[k + i];
        m->inverse[i] = exp(-fmax((double)outputs[2 * k + i], LOG_SCALE_MIN));
    }
    return true;
}

static double logistic(double x) /* without overflow on either side */
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* Never inlined: the same machine code, and so the same rounding, for encoder and decoder. */
__attribute__((noinline)) uint32_t mixture_cum(const Mixture *m, int64_t level)
{
    double total = (double)(1 << RANGE_BITS), q = (double)m->levels, f = 0;
    if (level <= 0)
        return 0;
    if (level >= m->levels)
        return (uint32_t)1 << RANGE_BITS;
    double edge = (2 * (double)level - 1) / q - 1;
    for (int i = 0; i < m->k; i++)
        f += m->share[i] * logistic((edge - m->mean[i]) * m->inverse[i]);
    return (uint32_t)floor(fmin(f, 1) * (total - 2 * q)) + 2 * (uint32_t)level;
}

int64_t mixture_find(const Mixture *m, uint32_t at, uint32_t *cum, uint32_t *freq)
{
    int64_t  low = 0, high = m->levels; /* cum(low) <= at < cum(high) */
    uint32_t below = 0, above = (uint32_t)1 << RANGE_BITS;
    while (high - low > 1) {
        int64_t  middle = (low + high) / 2;
        uint32_t value = mixture_cum(m, middle);
        if (value <= at) {
            low = middle;
            below = value;
        } else {
            high = middle;
            above = value;
        }
    }
    *cum = below;
    *freq = above - below;
    return low;
}

double mixture_bits(const Mixture *m, int64_t level)
{
    double p = 0, half = 1 / (double)m->levels, x = 2 * (double)level * half - 1;
    for (int i = 0; i < m->k; i++) {
        double plus = (x - m->mean[i] + half) * m->inverse[i],
               minus = (x - m->mean[i] - half) * m->inverse[i];
        if (level == 0)
            p += m->share[i] * logistic(plus);
        else if (level == m->levels - 1)
            p += m->share[i] * logistic(-minus);
        else /* sigma(plus) - sigma(minus), without the cancellation */
            p += m->share[i] * logistic(plus) * logistic(-minus) * -expm1(minus - plus);
    }
    return -log2(fmax(p, 0x1p-1000));
}
