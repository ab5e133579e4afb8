/* sashimi_nucleus.c -- choosing among the likeliest levels only (Holtzman et al. 2020).
 *
 * The nucleus is the shortest list of levels, likeliest first, whose probabilities reach top_p. A
 * mixture's probability of a level is that of the interval of numbers that become it, by the
 * mixture's distribution function; the level is then found by the uniform number, in the order of
 * levels, so that a rounding of shares moves it to a neighbour at most. A categorical head keeps
 * its Gumbel numbers. */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/layers.h"
#include "models/sashimi.h"
#include "ops/loss/dml.h"

#include <math.h>
#include <stdlib.h>

/* Shares of n choices at this temperature, which add up to 1; at 0 the highest has all. */
static void shares_of(const float *logits, int64_t n, double temperature, LikelyLevel *list)
{
    double highest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        highest = fmax(highest, (double)logits[i]);
    for (int64_t i = 0; i < n; i++) {
        double below = (double)logits[i] - highest;
        list[i] = (LikelyLevel){ temperature > 0 ? exp(below / temperature) : below == 0,
                                 (int32_t)i };
        sum += list[i].share;
    }
    for (int64_t i = 0; i < n; i++)
        list[i].share /= sum;
}

/* The mixture's share below x. */
static double share_below(const Sashimi *m, const float *outputs, const LikelyLevel *parts,
                          double x)
{
    double share = 0;
    for (int64_t i = 0; i < m->components; i++) {
        double scale = exp(fmax((double)outputs[2 * m->components + i], SASHIMI_LOG_SCALE_MIN));
        share += parts[i].share / (1 + exp(((double)outputs[m->components + i] - x) / scale));
    }
    return share;
}

static void mixture_levels(const Sashimi *m, double temperature, const float *outputs,
                           LikelyLevel *list)
{
    LikelyLevel parts[DML_MAX];
    int64_t     levels = sashimi_levels(m);
    double      half = m->dml_round == ROUND_NEAREST ? 0.5 : 0, below = 0;
    shares_of(outputs, m->components, temperature, parts);
    for (int64_t k = 0; k < levels; k++) {
        double edge = ((double)k + 1 - half) * 2 / (double)levels - 1;
        double up_to = k + 1 < levels ? share_below(m, outputs, parts, edge) : 1;
        list[k] = (LikelyLevel){ up_to - below, (int32_t)k };
        below = up_to;
    }
}

/* Equal ones in the order of the levels, so that the choice is the same everywhere. */
static int likelier(const void *a, const void *b)
{
    const LikelyLevel *x = a, *y = b;
    return x->share < y->share ? 1 : x->share > y->share ? -1 : (x->level > y->level) * 2 - 1;
}

static int lower_level(const void *a, const void *b)
{
    const LikelyLevel *x = a, *y = b;
    return (x->level > y->level) - (x->level < y->level);
}

int64_t sashimi_pick_likely(const Sashimi *m, const SamplerConfig *sampler, const float *outputs,
                            const float *choice, double u, LikelyLevel *list)
{
    int64_t levels = sashimi_levels(m), kept = 0, best = 0;
    bool    mixture = m->head == HEAD_DML;
    double  sum = 0, highest = -INFINITY;
    if (mixture)
        mixture_levels(m, sampler->temperature, outputs, list);
    else
        shares_of(outputs, levels, sampler->temperature, list);
    qsort(list, (size_t)levels, sizeof *list, likelier);
    while (kept < levels && sum < sampler->top_p)
        sum += list[kept++].share;
    if (mixture) {
        double place = u * sum;
        qsort(list, (size_t)kept, sizeof *list, lower_level);
        for (double at = list[0].share; best + 1 < kept && at <= place; at += list[best].share)
            best++;
        return list[best].level;
    }
    for (int64_t i = 0; i < kept; i++) { /* Gumbel trick, as without a nucleus */
        int32_t level = list[i].level;
        double  score = (double)outputs[level] -
                       sampler->temperature * log(-log((double)choice[level]));
        if (score > highest) {
            highest = score;
            best = level;
        }
    }
    return best;
}
