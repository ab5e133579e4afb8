/* amx.c -- products of bf16 tiles. Compiled for every processor, used where amx_ready(). */
#include "linalg/amx.h"

#include "base/err.h"
#include "linalg/gemm.h"

void amx_transpose(uint32_t *dst, int64_t width, const uint32_t *src, int64_t ld)
{
    const float *rows[AMX_NR];
    for (int64_t r = 0; r < width; r++)
        rows[r] = (const float *)(const void *)(src + r * ld);
    for (int64_t r = 0; r < width; r += GEMM_NR) { /* 32-bit words are moved as floats */
        int64_t count = int_min(GEMM_NR, width - r);
        gemm_interleave((float *)(void *)dst + r, width, rows + r, count, 16);
    }
}

#if defined __AVX512F__ && defined __linux__

#include <immintrin.h>
#include <string.h>

#define WITH_TILES   __attribute__((target("amx-tile,amx-bf16")))
#define WITH_VECTORS __attribute__((target("avx512bf16")))

/* 32 rows of C at a time: sums in tiles 0..3, A in 4 and 5, B in 6 and 7. */
WITH_TILES static void amx_rows_32(const uint16_t *a, int64_t next, const uint32_t *b, float *c,
                                   const AmxProduct *p)
{
    size_t ldc = (size_t)p->ldc * 4;
    float *low = c + 16 * p->ldc;
    if (p->add) {
        _tile_loadd(0, c, ldc);
        _tile_loadd(1, c + 16, ldc);
        _tile_loadd(2, low, ldc);
        _tile_loadd(3, low + 16, ldc);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < p->k; k += AMX_K, a += AMX_TILE, b += AMX_K / 2 * AMX_NR) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, AMX_NR * 4);
        _tile_loadd(7, b + 16, AMX_NR * 4);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + next, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, ldc);
    _tile_stored(1, c + 16, ldc);
    _tile_stored(2, low, ldc);
    _tile_stored(3, low + 16, ldc);
}

/* 16 rows of C, 16 or 32 columns. */
WITH_TILES static void amx_rows_16(const uint16_t *a, const uint32_t *b, float *c,
                                   const AmxProduct *p)
{
    size_t ldc = (size_t)p->ldc * 4;
    bool   wide = p->n > 16;
    _tile_zero(0);
    _tile_zero(1);
    if (p->add) {
        _tile_loadd(0, c, ldc);
        if (wide)
            _tile_loadd(1, c + 16, ldc);
    }
    for (int64_t k = 0; k < p->k; k += AMX_K, a += AMX_TILE, b += AMX_K / 2 * AMX_NR) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, AMX_NR * 4);
        _tile_dpbf16ps(0, 4, 6);
        if (wide) {
            _tile_loadd(7, b + 16, AMX_NR * 4);
            _tile_dpbf16ps(1, 4, 7);
        }
    }
    _tile_stored(0, c, ldc);
    if (wide)
        _tile_stored(1, c + 16, ldc);
}

/* 32 rows of C, 16 columns: two sums share the loaded tile of B. */
WITH_TILES static void amx_rows_32_narrow(const uint16_t *a, int64_t next, const uint32_t *b,
                                          float *c, const AmxProduct *p)
{
    size_t ldc = (size_t)p->ldc * 4;
    float *low = c + 16 * p->ldc;
    _tile_zero(0);
    _tile_zero(2);
    if (p->add) {
        _tile_loadd(0, c, ldc);
        _tile_loadd(2, low, ldc);
    }
    for (int64_t k = 0; k < p->k; k += AMX_K, a += AMX_TILE, b += AMX_K / 2 * AMX_NR) {
        _tile_loadd(6, b, AMX_NR * 4);
        _tile_loadd(4, a, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, a + next, 64);
        _tile_dpbf16ps(2, 5, 6);
    }
    _tile_stored(0, c, ldc);
    _tile_stored(2, low, ldc);
}

/* Eight rows of C, 32 columns: 16 sums, a pair of each row times two vectors of B's pairs. */
enum { VECTOR_ROWS = 8 };

WITH_VECTORS static inline __m512bh vector_pairs(const uint32_t *b)
{
    return (__m512bh)_mm512_loadu_si512(b);
}

/* The pair at columns k and k+1 of a row, in all lanes. */
WITH_VECTORS static inline __m512bh vector_pair(const uint16_t *a)
{
    int pair;
    memcpy(&pair, a, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

WITH_VECTORS static void vectors_wide(const uint16_t *a, const uint32_t *b, float *c,
                                      const AmxProduct *p)
{
    __m512 sum[VECTOR_ROWS][2];
    for (int r = 0; r < VECTOR_ROWS; r++)
        for (int x = 0; x < 2; x++)
            sum[r][x] = p->add ? _mm512_loadu_ps(c + r * p->ldc + 16 * x) : _mm512_setzero_ps();
    for (int64_t k = 0; k < p->k; k += AMX_K, a += AMX_TILE)
        for (int64_t j = 0; j < AMX_K; j += 2, b += AMX_NR) {
            __m512bh low = vector_pairs(b), high = vector_pairs(b + 16);
#pragma GCC unroll 8
            for (int r = 0; r < VECTOR_ROWS; r++) {
                __m512bh pair = vector_pair(a + r * AMX_K + j);
                sum[r][0] = _mm512_dpbf16_ps(sum[r][0], pair, low);
                sum[r][1] = _mm512_dpbf16_ps(sum[r][1], pair, high);
            }
        }
    for (int r = 0; r < VECTOR_ROWS; r++)
        for (int x = 0; x < 2; x++)
            _mm512_storeu_ps(c + r * p->ldc + 16 * x, sum[r][x]);
}

WITH_VECTORS static void vectors_narrow(const uint16_t *a, const uint32_t *b, float *c,
                                        const AmxProduct *p)
{
    __m512 sum[AMX_ROWS];
    for (int r = 0; r < AMX_ROWS; r++)
        sum[r] = p->add ? _mm512_loadu_ps(c + r * p->ldc) : _mm512_setzero_ps();
    for (int64_t k = 0; k < p->k; k += AMX_K, a += AMX_TILE)
        for (int64_t j = 0; j < AMX_K; j += 2, b += AMX_NR) {
            __m512bh low = vector_pairs(b);
#pragma GCC unroll 16
            for (int r = 0; r < AMX_ROWS; r++)
                sum[r] = _mm512_dpbf16_ps(sum[r], vector_pair(a + r * AMX_K + j), low);
        }
    for (int r = 0; r < AMX_ROWS; r++)
        _mm512_storeu_ps(c + r * p->ldc, sum[r]);
}

static void vectors_product(const AmxProduct *p)
{
    int64_t         next = ceil_div(p->k, AMX_K) * AMX_TILE;
    const uint16_t *a = p->a;
    for (int64_t i = 0; i < p->m; i += AMX_ROWS, a += next) {
        float *c = p->c + i * p->ldc;
        if (p->n <= 16) {
            vectors_narrow(a, p->b, c, p);
            continue;
        }
        for (int r = 0; r < AMX_ROWS; r += VECTOR_ROWS)
            vectors_wide(a + r * AMX_K, p->b, c + r * p->ldc, p);
    }
}

WITH_TILES static void tiles_product(const AmxProduct *p)
{
    int64_t         next = ceil_div(p->k, AMX_K) * AMX_TILE; /* to the next row of tiles */
    const uint16_t *a = p->a;
    for (int64_t i = 0; i < p->m;) {
        float *c = p->c + i * p->ldc;
        bool   two = p->m - i > 16;
        if (!two)
            amx_rows_16(a, p->b, c, p);
        else if (p->n > 16)
            amx_rows_32(a, next, p->b, c, p);
        else
            amx_rows_32_narrow(a, next, p->b, c, p);
        a += two ? 2 * next : next;
        i += two ? 32 : 16;
    }
}

void amx_product(const AmxProduct *p)
{
    if (amx_unit() == AMX_TILES)
        tiles_product(p);
    else
        vectors_product(p);
}

#else

void amx_product(const AmxProduct *p)
{
    (void)p;
    REQUIRE(amx_ready());
}

#endif
