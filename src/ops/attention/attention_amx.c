/* attention_amx.c -- attention's operands in the forms of linalg/amx.h. In words of 32 bits:
 *
 *   rows as lanes of B      each word of a row is a pair already: transpose the words
 *   columns                 pair two rows, word by word
 *   columns as rows of A    pair two rows, then transpose
 *
 * Operands are padded with zeros to whole tiles; a product writes whole tiles of C.
 */
#include "ops/attention/attention_tile.h"

#include "device/convert.h"

static const uint16_t *amx_row(const HeadRows *x, int64_t i)
{
    return (const uint16_t *)(const void *)x->data + i * x->ld;
}

void amx_a_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *a)
{
    for (int64_t i = 0; i < align_up(n, 16); i++)
        for (int64_t k = 0; k < width; k += 32) {
            uint16_t *dst = a + amx_tile_at(i, k, width);
            int64_t   have = i < n ? int_min(32, width - k) : 0;
            if (have < 32)
                memset(dst, 0, 64);
            if (have > 0)
                memcpy(dst, amx_row(x, first + i) + k, (size_t)have * 2);
        }
}

void amx_a_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *staging,
                   uint32_t *a)
{
    int64_t wide = align_up(width, 16);
    memset(staging, 0, (size_t)(16 * wide) * 4);
    for (int64_t k = 0; k < n; k += 32) { /* 16 pairs of rows, then transpose */
        for (int64_t j = 0; j < 16; j++) {
            int64_t i = k + 2 * j;
            if (i < n)
                amx_pair(staging + j * wide, amx_row(x, first + i),
                         i + 1 < n ? amx_row(x, first + i + 1) : NULL, width);
            else
                memset(staging + j * wide, 0, (size_t)wide * 4);
        }
        for (int64_t c = 0; c < wide; c += 16)
            amx_transpose(a + amx_tile_at(c, k, n) / 2, 16, staging + c, wide);
    }
}

void amx_b_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *staging,
                uint32_t *b)
{
    int64_t wide = align_up(width, 32);
    memset(staging, 0, (size_t)(TILE_NR * wide) * 2);
    for (int64_t i = 0; i < n; i++)
        memcpy(staging + i * wide, amx_row(x, first + i), (size_t)width * 2);
    for (int64_t k = 0; k < wide; k += 32)
        amx_transpose(b + k / 2 * TILE_NR, TILE_NR, (const uint32_t *)(const void *)(staging + k),
                      wide / 2);
}

void amx_b_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *b)
{
    int64_t panel = align_up(n, 32) / 2 * TILE_NR;
    for (int64_t c = 0; c < width; c += TILE_NR, b += panel) {
        int64_t have = int_min(TILE_NR, width - c);
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
    int64_t pairs = (rows + 1) / 2, all = align_up(rows, 32) / 2;
    memset(b + pairs * TILE_NR, 0, (size_t)((all - pairs) * TILE_NR) * 4);
}

void amx_a_score(const float *restrict score, int64_t rows, int64_t k, int64_t n, int64_t depth,
                 uint16_t *restrict a)
{
    for (int64_t i = 0; i < align_up(rows, 16); i++) {
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
