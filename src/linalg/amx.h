/* amx.h -- tiles of bf16, multiplied by AMX (Intel SDM volume 1, chapter 18) or, where there is
 * none and it is faster than fp32, by vectors of pairs (VDPBF16PS: Zen 4 and later).
 *
 * TDPBF16PS adds to a 16 x 16 tile of fp32 the product of a 16 x 32 tile of bf16 and a 32 x 16 one
 * whose rows are taken in pairs: b[k/2][x] holds (B[k][x], B[k+1][x]) in 32 bits. So operands lie
 *
 *   A  tiles of 16 rows by 32, all of a row of tiles before the next:    a[r*32 + k]
 *   B  panels of AMX_NR columns, pair by pair:                           b[k/2*AMX_NR + x]
 *
 * filled up with zeros to whole tiles. In 32-bit words one is the other turned. VDPBF16PS wants
 * the same: a pair of A for all lanes, a row of pairs of B.
 */
#ifndef LINALG_AMX_H
#define LINALG_AMX_H

#include "device/amx_unit.h"

#include <stdint.h>

enum { AMX_ROWS = 16, AMX_K = 32, AMX_NR = 32, AMX_TILE = AMX_ROWS * AMX_K };

typedef struct AmxProduct {      /* C = A B (+ C if add): whole tiles of C are written */
    const uint16_t *a;
    const uint32_t *b;           /* one panel */
    float          *c;
    int64_t         m, n, k;     /* n: columns that matter, at most AMX_NR */
    int64_t         ldc;
    bool            add;
} AmxProduct;

void amx_product(const AmxProduct *p);

/* Where row i, column k of A begins that has `depth` columns; k a multiple of AMX_K. */
static inline int64_t amx_tile_at(int64_t i, int64_t k, int64_t depth)
{
    return (i / AMX_ROWS * ((depth + AMX_K - 1) / AMX_K) + k / AMX_K) * AMX_TILE +
           i % AMX_ROWS * AMX_K;
}

/* pairs[x] = (low[x], high[x]); high may be NULL, for zeros. */
static inline void amx_pair(uint32_t *restrict pairs, const uint16_t *restrict low,
                            const uint16_t *restrict high, int64_t n)
{
    if (high)
        for (int64_t x = 0; x < n; x++)
            pairs[x] = (uint32_t)high[x] << 16 | low[x];
    else
        for (int64_t x = 0; x < n; x++)
            pairs[x] = low[x];
}

/* dst[k*width + r] = src[r*ld + k] for 16 k: 32-bit words of any meaning, 16 or 32 rows. */
void amx_turn(uint32_t *dst, int64_t width, const uint32_t *src, int64_t ld);

#endif
