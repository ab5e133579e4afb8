/* amx.h -- products of bf16 tiles by AMX (Intel SDM volume 1, chapter 18) or, without AMX and where
 * that is faster than fp32, by AVX-512 vectors of pairs (VDPBF16PS: Zen 4 and later).
 *
 * TDPBF16PS adds to a 16 x 16 tile of fp32 the product of a 16 x 32 tile of bf16 and a 32 x 16 one
 * whose rows are taken in pairs: b[k/2][x] holds (B[k][x], B[k+1][x]) in 32 bits. So operands are
 * stored as
 *
 *   A  tiles of 16 rows by 32, all of a row of tiles before the next:    a[r*32 + k]
 *   B  panels of AMX_NR columns, pair by pair:                           b[k/2*AMX_NR + x]
 *
 * padded with zeros to whole tiles. In 32-bit words one layout is the other transposed. VDPBF16PS
 * needs the same layout: a pair of A for all lanes, a row of pairs of B.
 */
#ifndef LINALG_AMX_H
#define LINALG_AMX_H

#include "base/int_math.h"
#include "device/amx_unit.h"

#include <stdint.h>

enum { AMX_ROWS = 16, AMX_K = 32, AMX_NR = 32, AMX_TILE = AMX_ROWS * AMX_K };

typedef struct AmxProduct { /* C = A B (+ C if add): whole tiles of C are written */
    const uint16_t *a;
    const uint32_t *b; /* one panel */
    float          *c;
    int64_t         m, n, k; /* n: columns that are used, at most AMX_NR */
    int64_t         ldc;
    bool            add;
} AmxProduct;

void amx_product(const AmxProduct *p);

/* Offset of row i, column k in the tiles of A, which has `depth` columns; k is a multiple of
 * AMX_K. */
static inline int64_t amx_tile_at(int64_t i, int64_t k, int64_t depth)
{
    return (i / AMX_ROWS * ceil_div(depth, AMX_K) + k / AMX_K) * AMX_TILE + i % AMX_ROWS * AMX_K;
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

/* Transposes: dst[k*width + r] = src[r*ld + k] for 16 k; any 32-bit words, 16 or 32 rows. */
void amx_transpose(uint32_t *dst, int64_t width, const uint32_t *src, int64_t ld);

#endif
