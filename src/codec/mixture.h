/* mixture.h -- a mixture of logistics over Q levels as integer frequencies.
 *
 * Level k is the bin from (2k - 1)/Q - 1 to (2k + 1)/Q - 1; the first and the last reach to
 * infinity. With F the mixture's distribution function at the lower edge of bin k,
 *
 *   cum(k) = floor(F (2^28 - 2 Q)) + 2 k,   cum(0) = 0,   cum(Q) = 2^28
 *
 * Every level has a frequency of at least 1, even where rounding lets F fall by a last place.
 * Encoder and decoder call the same function with the same numbers, so that they agree exactly. */
#ifndef CODEC_MIXTURE_H
#define CODEC_MIXTURE_H

#include "models/sashimi.h"

#include "ops/loss/dml.h"

typedef struct Mixture {
    int     k;                                               /* components */
    int64_t levels;                                          /* Q: 2 to 65,536 */
    double  share[DML_MAX], mean[DML_MAX], inverse[DML_MAX]; /* 1 / scale */
} Mixture;

/* From a step's outputs [logits | means | log scales]. False: one of them is not finite. */
bool     mixture_set(Mixture *m, const Sashimi *model, const float *outputs);
uint32_t mixture_cum(const Mixture *m, int64_t level); /* level 0 to Q */
/* The level whose interval holds `at`, with its interval. */
int64_t  mixture_find(const Mixture *m, uint32_t at, uint32_t *cum, uint32_t *freq);
double   mixture_bits(const Mixture *m, int64_t level); /* -log2 of its probability */

#endif
