/* audio_levels.h -- audio quantized to Q levels: linear, or mu-law, which has more levels for quiet
 * passages. As in SaShiMi, u in [0,1] becomes floor(u (Q - 0.01) + 0.005), decoded as 2k/Q - 1. */
#ifndef BASE_AUDIO_LEVELS_H
#define BASE_AUDIO_LEVELS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* A chunk is scaled by its own extremes before it is quantized. */
typedef struct Levels {
    int64_t count; /* Q */
    bool    mu_law;
    double  low, high; /* of the chunk */
    bool    as_is;     /* the levels of [-1,1), whatever the chunk's extremes: those of a file of as
                        * many bits are kept exactly */
} Levels;

static inline int32_t level_of(const Levels *l, double x)
{
    double u = l->as_is ? (x + 1) / 2 : (x - l->low) / (l->high - l->low + 1e-6);
    if (l->mu_law) {
        double mu = (double)l->count - 1, s = 2 * u - 1;
        u = (copysign(log1p(mu * fabs(s + 1e-8)) / log1p(mu), s) + 1) / 2;
    }
    double k = l->as_is && !l->mu_law ? floor(u * (double)l->count + 0.5)
                                      : floor(u * ((double)l->count - 0.01) + 0.005);
    return (int32_t)(k < 0 ? 0 : k > (double)l->count - 1 ? (double)l->count - 1 : k);
}

/* In [-1,1), of the scaled chunk. */
static inline double level_audio(const Levels *l, int32_t level)
{
    double x = 2.0 * level / (double)l->count - 1, mu = (double)l->count - 1;
    return l->mu_law ? copysign((pow(1 + mu, fabs(x)) - 1) / mu, x) : x;
}

#endif
