/* png_write.c -- writing PNG without a library: rows filtered, then deflated (RFC 1951) by greedy
 * matching and the fixed Huffman code. Good enough for drawings and results; always there. */
#include "data/png.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 32768, HASH = 1 << 15, MATCH_MIN = 3, MATCH_MAX = 258 };

typedef struct BitsOut {
    unsigned char *at;
    size_t         n;
    uint64_t       held;
    int            n_held;
} BitsOut;

static void bits_put(BitsOut *b, uint32_t value, int n)      /* lowest bit first */
{
    b->held |= (uint64_t)value << b->n_held;
    for (b->n_held += n; b->n_held >= 8; b->n_held -= 8) {
        b->at[b->n++] = (unsigned char)b->held;
        b->held >>= 8;
    }
}

static void bits_code(BitsOut *b, uint32_t code, int n)      /* Huffman codes: highest bit first */
{
    uint32_t turned = 0;
    for (int i = 0; i < n; i++)
        turned |= (code >> i & 1) << (n - 1 - i);
    bits_put(b, turned, n);
}

static void deflate_symbol(BitsOut *b, uint32_t s)           /* RFC 1951, 3.2.6 */
{
    if (s < 144)
        bits_code(b, 0x30 + s, 8);
    else if (s < 256)
        bits_code(b, 0x190 + s - 144, 9);
    else if (s < 280)
        bits_code(b, s - 256, 7);
    else
        bits_code(b, 0xC0 + s - 280, 8);
}

static void deflate_match(BitsOut *b, uint32_t length, uint32_t distance)    /* RFC 1951, 3.2.5 */
{
    uint32_t code = 0, rest = length - MATCH_MIN;
    int      extra = 0;
    if (length == MATCH_MAX)
        deflate_symbol(b, 285);
    else {
        if (rest >= 8) {  /* groups of four codes, each group with one more bit */
            while (rest >> (extra + 3))
                extra++;
            code = 4 * (uint32_t)extra + (rest >> extra);
        } else
            code = rest;
        deflate_symbol(b, 257 + code);
        bits_put(b, rest & ((1u << extra) - 1), extra);
    }
    rest = distance - 1;
    extra = 0;
    code = rest;
    if (rest >= 4) {                         /* groups of two codes */
        while (rest >> (extra + 2))
            extra++;
        code = 2 * (uint32_t)extra + (rest >> extra);
    }
    bits_code(b, code, 5);
    bits_put(b, rest & ((1u << extra) - 1), extra);
}

/* last[HASH]: place + 1 */
static void deflate_all(BitsOut *b, const unsigned char *in, size_t n, size_t *last)
{
    bits_put(b, 1, 1);                       /* the last block; fixed codes */
    bits_put(b, 1, 2);
    for (size_t i = 0; i < n;) {
        size_t length = 0, from = 0;
        if (i + MATCH_MIN <= n) {
            uint32_t key = ((uint32_t)in[i] << 16 | (uint32_t)in[i + 1] << 8 | in[i + 2]) *
                               2654435761u >>
                           17;
            from = last[key];
            last[key] = i + 1;
            if (from && i - (from - 1) <= WINDOW)
                while (length < MATCH_MAX && i + length < n &&
                       in[from - 1 + length] == in[i + length])
                    length++;
        }
        if (length >= MATCH_MIN) {
            deflate_match(b, (uint32_t)length, (uint32_t)(i - (from - 1)));
            i += length;
        } else
            deflate_symbol(b, in[i++]);
    }
    deflate_symbol(b, 256);
    bits_put(b, 0, 7);                       /* to the end of the byte */
}

/* Each row with the filter whose differences are smallest: none, left, above. */
static void filter_rows(const unsigned char *pixels, int64_t height, size_t row, size_t step,
                        unsigned char *out)
{
    for (int64_t y = 0; y < height; y++, out += row + 1) {
        const unsigned char *at = pixels + (size_t)y * row, *above = y ? at - row : NULL;
        size_t sums[3] = { 0 };
        for (size_t x = 0; x < row; x++) {
            sums[0] += (size_t)abs((signed char)at[x]);
            sums[1] += (size_t)abs(
                (signed char)(unsigned char)(at[x] - (x >= step ? at[x - step] : 0)));
            sums[2] += (size_t)abs((signed char)(unsigned char)(at[x] - (above ? above[x] : 0)));
        }
        int best = sums[1] < sums[0] ? 1 : 0;
        best = sums[2] < sums[best] ? 2 : best;
        out[0] = (unsigned char)best;
        for (size_t x = 0; x < row; x++)
            out[1 + x] = (unsigned char)(at[x] - (best == 1 && x >= step ? at[x - step]
                                                  : best == 2 && above   ? above[x]
                                                                         : 0));
    }
}

uint32_t png_crc(const unsigned char *bytes, size_t n)
{
    static const uint32_t four[16] = {       /* what four bits do to it */
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c
    };
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++) {
        crc = crc >> 4 ^ four[(crc ^ bytes[i]) & 15];
        crc = crc >> 4 ^ four[(crc ^ bytes[i] >> 4) & 15];
    }
    return ~crc;
}

static unsigned char *put32(unsigned char *to, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(x >> (24 - 8 * i));
    return to + 4;
}

static size_t chunk_put(unsigned char *to, const char *name, size_t n) /* its bytes are at to + 8 */
{
    put32(to, (uint32_t)n);
    memcpy(to + 4, name, 4);
    put32(to + 8 + n, png_crc(to + 4, n + 4));
    return n + 12;
}

Err png_write(const char *path, const unsigned char *pixels, int64_t height, int64_t width,
              int channels)
{
    return png_write_in(NULL, path, pixels, height, width, channels);
}

Err png_write_in(Pool *parent, const char *path, const unsigned char *pixels, int64_t height,
                 int64_t width, int channels)
{
    if (height < 1 || width < 1 || (channels != 1 && channels != 3) ||
        height > INT32_MAX / 4 / width)
        return fail(E_USAGE, "%s: cannot write a image of %lld x %lld with %d channels",
                    path ? path : "a sample", (long long)width, (long long)height, channels);
    Pool   *pool = pool_new(parent, "png");
    size_t  row = (size_t)width * (size_t)channels, n = (row + 1) * (size_t)height, at = 8;
    unsigned char *rows = NEWN(pool, unsigned char, n),
                  *file = NEWN(pool, unsigned char, n + n / 8 + 256);
    memcpy(file, "\x89PNG\r\n\x1a\n", 8);
    put32(put32(file + at + 8, (uint32_t)width), (uint32_t)height);
    file[at + 16] = 8;
    file[at + 17] = channels == 3 ? 2 : 0;
    at += chunk_put(file + at, "IHDR", 13);

    filter_rows(pixels, height, row, (size_t)channels, rows);
    BitsOut bits = { .at = file + at + 8 + 2 };
    file[at + 8] = 0x78;                     /* zlib (RFC 1950): 32 KiB window, fast */
    file[at + 9] = 0x01;
    deflate_all(&bits, rows, n, NEWN(pool, size_t, HASH));
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < n; i++) {
        a = (a + rows[i]) % 65521;
        b = (b + a) % 65521;
    }
    put32(bits.at + bits.n, b << 16 | a);
    at += chunk_put(file + at, "IDAT", bits.n + 2 + 4);
    at += chunk_put(file + at, "IEND", 0);
    Err err = path ? file_write(path, file, at) : OK;
    pool_free(pool);
    return err;
}
