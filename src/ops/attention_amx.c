/* attention_amx.c -- attention's tiles of bf16, multiplied by AMX (Intel SDM volume 1, chapter 18).
 *
 * TDPBF16PS adds to a 16 x 16 tile of fp32 the product of a 16 x 32 tile of bf16 and a 32 x 16 one
 * whose rows are taken in pairs: b[k/2][x] holds (B[k][x], B[k+1][x]) in 32 bits. So, in words:
 *
 *   rows of B's lanes     words of a row are its pairs: turn words
 *   columns               pair two rows, word by word
 *   columns of A's rows   pair two rows, then turn
 *
 * Operands are filled up with zeros to whole tiles; a product writes whole tiles of C.
 */
#include "ops/attention_tile.h"

#include "base/err.h"
#include "device/convert.h"

#if (defined __AMX_BF16__ || defined __AMXBF16__) && defined __linux__   /* gcc's, clang's name */
#define WITH_AMX
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const uint16_t *amx_row(const HeadRows *x, int64_t i)
{
    return (const uint16_t *)(const void *)x->data + i * x->ld;
}

/* Tile (i/16, k/32) of A with `depth` columns: 16 rows of 32. */
static int64_t amx_tile_at(int64_t i, int64_t k, int64_t depth)
{
    return (i / 16 * ((depth + 31) / 32) + k / 32) * 512 + i % 16 * 32;
}

void amx_a_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *a)
{
    for (int64_t i = 0; i < gemm_round_up(n, 16); i++)
        for (int64_t k = 0; k < width; k += 32) {
            uint16_t *dst = a + amx_tile_at(i, k, width);
            int64_t   have = i < n ? gemm_min(32, width - k) : 0;
            if (have < 32)
                memset(dst, 0, 64);
            if (have > 0)
                memcpy(dst, amx_row(x, first + i) + k, (size_t)have * 2);
        }
}

/* pairs[x] = (low[x], high[x]); high may be NULL, for zeros. */
static void amx_pair(uint32_t *restrict pairs, const uint16_t *restrict low,
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
static void amx_turn(uint32_t *dst, int64_t width, const uint32_t *src, int64_t ld)
{
    const float *rows[GEMM_NR];
    for (int64_t r = 0; r < width; r++)
        rows[r] = (const float *)(const void *)(src + r * ld);
    gemm_interleave((float *)(void *)dst, width, rows, width, 16);
}

void amx_a_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *stage,
                   uint32_t *a)
{
    int64_t wide = gemm_round_up(width, 16);
    memset(stage, 0, (size_t)(16 * wide) * 4);
    for (int64_t k = 0; k < n; k += 32) {                /* 16 pairs of rows, then turned */
        for (int64_t j = 0; j < 16; j++) {
            int64_t i = k + 2 * j;
            if (i < n)
                amx_pair(stage + j * wide, amx_row(x, first + i),
                         i + 1 < n ? amx_row(x, first + i + 1) : NULL, width);
            else
                memset(stage + j * wide, 0, (size_t)wide * 4);
        }
        for (int64_t c = 0; c < wide; c += 16)
            amx_turn(a + amx_tile_at(c, k, n) / 2, 16, stage + c, wide);
    }
}

void amx_b_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *stage,
                uint32_t *b)
{
    int64_t wide = gemm_round_up(width, 32);
    memset(stage, 0, (size_t)(TILE_NR * wide) * 2);
    for (int64_t i = 0; i < n; i++)
        memcpy(stage + i * wide, amx_row(x, first + i), (size_t)width * 2);
    for (int64_t k = 0; k < wide; k += 32)
        amx_turn(b + k / 2 * TILE_NR, TILE_NR, (const uint32_t *)(const void *)(stage + k),
                 wide / 2);
}

void amx_b_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *b)
{
    int64_t panel = gemm_round_up(n, 32) / 2 * TILE_NR;
    for (int64_t c = 0; c < width; c += TILE_NR, b += panel) {
        int64_t have = gemm_min(TILE_NR, width - c);
        memset(b, 0, (size_t)panel * 4);
        for (int64_t i = 0; i < n; i += 2)
            amx_pair(b + i / 2 * TILE_NR, amx_row(x, first + i) + c,
                     i + 1 < n ? amx_row(x, first + i + 1) + c : NULL, have);
    }
}

void amx_b_score(const float *restrict score, int64_t rows, uint32_t *restrict b)
{
    for (int64_t i = 0; i + 1 < rows; i += 2)
        for (int x = 0; x < TILE_NR; x++)
            b[i / 2 * TILE_NR + x] = (uint32_t)f32_to_bf16(score[(i + 1) * TILE_NR + x]) << 16 |
                                     f32_to_bf16(score[i * TILE_NR + x]);
    if (rows % 2)
        for (int x = 0; x < TILE_NR; x++)
            b[rows / 2 * TILE_NR + x] = f32_to_bf16(score[(rows - 1) * TILE_NR + x]);
    int64_t pairs = (rows + 1) / 2, all = gemm_round_up(rows, 32) / 2;
    memset(b + pairs * TILE_NR, 0, (size_t)((all - pairs) * TILE_NR) * 4);
}

void amx_a_score(const float *restrict score, int64_t rows, int64_t k, int64_t n, int64_t depth,
                 uint16_t *restrict a)
{
    for (int64_t i = 0; i < gemm_round_up(rows, 16); i++) {
        uint16_t *restrict dst = a + amx_tile_at(i, k, depth);
        int64_t have = i < rows ? n : 0;
        if (have == TILE_NR)
            for (int x = 0; x < TILE_NR; x++)
                dst[x] = f32_to_bf16(score[i * TILE_NR + x]);
        else
            for (int64_t x = 0; x < TILE_NR; x++)
                dst[x] = x < have ? f32_to_bf16(score[i * TILE_NR + x]) : 0;
    }
}

#ifdef WITH_AMX

/* The kernel gives the tile registers only to processes that ask (arch/x86: arch_prctl). */
bool amx_ready(void)
{
    enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
    static int known;            /* 1: yes, 2: no; every thread would find the same */
    int now = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!now) {
        now = syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0 ? 1 : 2;
        __atomic_store_n(&known, now, __ATOMIC_RELAXED);
    }
    return now == 1;
}

/* Eight tiles of 16 rows of 64 bytes. Constant, because gcc's intrinsic does not tell the compiler
 * that all 64 bytes are read. */
static const struct {
    uint8_t  palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
} amx_tiles = {
    .palette = 1,
    .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
    .rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
};
_Static_assert(sizeof amx_tiles == 64 && TILE_NR == 32,
               "the form LDTILECFG reads; panels of two tiles");

void amx_begin(void)
{
    _tile_loadconfig(&amx_tiles);
}

void amx_end(void)
{
    _tile_release();
}

/* 32 rows of C at a time: sums in tiles 0..3, A in 4 and 5, B in 6 and 7. */
static void amx_rows_32(const uint16_t *a, int64_t next, const uint32_t *b, float *c,
                        const TileProduct *p)
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
    for (int64_t k = 0; k < p->k; k += 32, a += 512, b += 16 * TILE_NR) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, TILE_NR * 4);
        _tile_loadd(7, b + 16, TILE_NR * 4);
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

/* 16 rows and 16 columns. */
static void amx_rows_16(const uint16_t *a, const uint32_t *b, float *c, const TileProduct *p)
{
    size_t ldc = (size_t)p->ldc * 4;
    if (p->add)
        _tile_loadd(0, c, ldc);
    else
        _tile_zero(0);
    for (int64_t k = 0; k < p->k; k += 32, a += 512, b += 16 * TILE_NR) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, TILE_NR * 4);
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, c, ldc);
}

void amx_product(const TileProduct *p)
{
    const uint16_t *a = (const uint16_t *)(const void *)p->a;
    const uint32_t *b = (const uint32_t *)(const void *)p->b;
    int64_t next = (p->k + 31) / 32 * 512;   /* from one row of tiles of A to the next */
    for (int64_t i = 0; i < p->m; a += next) {
        float *c = p->c + i * p->ldc;
        if (p->n > 16 && p->m - i > 16) {
            amx_rows_32(a, next, b, c, p);
            a += next;
            i += 32;
            continue;
        }
        amx_rows_16(a, b, c, p);
        if (p->n > 16)
            amx_rows_16(a, b + 16, c + 16, p);
        i += 16;
    }
}

#else

bool amx_ready(void) { return false; }
void amx_begin(void) { REQUIRE(amx_ready()); }
void amx_end(void) { REQUIRE(amx_ready()); }

void amx_product(const TileProduct *p)
{
    (void)p;
    REQUIRE(amx_ready());
}

#endif
