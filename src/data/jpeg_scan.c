/* jpeg_scan.c -- the coded data of one scan: bits, Huffman codes, coefficients (T.81 annexes F, G).
 *
 * Beyond the end of the data the reader delivers zeros and counts them. A block that has used one
 * ends the scan as damaged, so that no single bit needs a check. */
#include "data/jpeg_int.h"

#include <string.h>

/* clang-format off */
const uint8_t jpeg_zigzag[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63
};
/* clang-format on */

/* Reasons, to end the sentence of jpeg_damaged. */
static const char ends_early[] = "a scan's data end early";
static const char no_code[] = "a scan has a code that is not in its Huffman table";
static const char too_many[] = "a block has more than 64 coefficients";
static const char too_large[] = "a coefficient is too large for an image of 8 bits";
static const char left_over[] = "a scan's data go on after its last block";

/* ---- bits ---- */

typedef struct Bits {
    uint64_t             bits;       /* the next bits, from the top */
    int                  n, padding; /* bits there are; of these, zeros beyond the data */
    const unsigned char *at, *end;
} Bits;

static bool any_ff(uint64_t x) /* whether a byte of ~x is zero (Mycroft 1987) */
{
    return ((~x - 0x0101010101010101u) & x & 0x8080808080808080u) != 0;
}

/* Fills up to at least 56 bits. A stuffed zero follows every FF of the data; any other FF begins a
 * marker. */
static void bits_fill(Bits *b)
{
    if (b->end - b->at >= 8) {
        uint64_t x;
        memcpy(&x, b->at, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        x = __builtin_bswap64(x);
#endif
        if (!any_ff(x)) { /* bits beyond whole bytes are read again, and are the same */
            int more = (63 - b->n) >> 3;
            b->bits |= x >> b->n;
            b->at += more;
            b->n += 8 * more;
            return;
        }
    }
    for (; b->n <= 56; b->n += 8) {
        bool ff = b->at < b->end && *b->at == 0xFF;
        if (b->at == b->end || (ff && (b->end - b->at < 2 || b->at[1]))) {
            b->padding += 8;
            continue;
        }
        b->bits |= (uint64_t)*b->at << (56 - b->n);
        b->at += ff ? 2 : 1;
    }
}

static inline void bits_need(Bits *b, int n)
{
    if (b->n < n)
        bits_fill(b);
}

static inline int bits_take(Bits *b, int n) /* 1 to 16 bits, after bits_need */
{
    int x = (int)(b->bits >> (64 - n));
    b->bits <<= n;
    b->n -= n;
    return x;
}

static inline int bits_get(Bits *b, int n)
{
    bits_need(b, n);
    return n ? bits_take(b, n) : 0;
}

/* T.81 F.2.2.1: the lower half of the numbers of n bits stands for negative values. */
static inline int bits_signed(Bits *b, int n)
{
    if (!n)
        return 0;
    int x = bits_take(b, n);
    return x >> (n - 1) ? x : x - (1 << n) + 1;
}

static inline bool bits_exhausted(const Bits *b) { return b->n < b->padding; }

/* The next symbol, or -1; 16 more bits may be taken after it. */
static inline int symbol_get(Bits *b, const Huffman *h)
{
    bits_need(b, 32);
    int found = h->fast[b->bits >> (64 - HUFFMAN_FAST)];
    if (found) {
        b->bits <<= found >> 8;
        b->n -= found >> 8;
        return found & 0xFF;
    }
    uint32_t next = (uint32_t)(b->bits >> 48);
    for (int length = HUFFMAN_FAST + 1; length <= 16; length++)
        if (next < h->end[length]) {
            int at = (int)(next >> (16 - length)) + h->skip[length];
            b->bits <<= length;
            b->n -= length;
            return h->symbols[at];
        }
    return -1;
}

/* ---- blocks ---- */

typedef struct ScanDecoder {
    Bits            bits;
    const JpegScan *scan;
    int             dc[JPEG_COMPONENTS]; /* of the block before */
    int             run;                 /* end-of-band run (T.81 G.1.2.2) */
} ScanDecoder;

static const char *dc_next(ScanDecoder *c, int component) /* to c->dc */
{
    int n = symbol_get(&c->bits, c->scan->dc[component]);
    if (n < 0)
        return no_code;
    c->dc[component] += bits_signed(&c->bits, n); /* huffman_tables checked n <= 15 */
    int limit = INT16_MAX >> c->scan->low;
    return c->dc[component] > limit || c->dc[component] < -limit ? too_large : NULL;
}

/* All coefficients of a block that holds zeros; *last is the zigzag index of the last. */
static const char *block_whole(ScanDecoder *c, int component, int16_t *block, int *last)
{
    const Huffman *ac = c->scan->ac[component];
    const char    *why = dc_next(c, component);
    if (why)
        return why;
    block[0] = (int16_t)c->dc[component];
    *last = 0;
    for (int k = 1; k < 64; k++) {
        int symbol = symbol_get(&c->bits, ac), n = symbol & 15;
        if (symbol < 0)
            return no_code;
        if (!n && symbol != 0xF0) /* the rest are zeros */
            break;
        k += symbol >> 4;
        if (!n)
            continue;
        if (k > 63)
            return too_many;
        block[jpeg_zigzag[k]] = (int16_t)bits_signed(&c->bits, n);
        *last = k;
    }
    return NULL;
}

static const char *dc_first(ScanDecoder *c, int component, int16_t *block)
{
    const char *why = dc_next(c, component);
    block[0] = (int16_t)(c->dc[component] * (1 << c->scan->low));
    return why;
}

static void dc_refine(ScanDecoder *c, int16_t *block)
{
    block[0] = (int16_t)(block[0] | bits_get(&c->bits, 1) << c->scan->low);
}

static const char *ac_first(ScanDecoder *c, int16_t *block)
{
    const JpegScan *s = c->scan;
    if (c->run) {
        c->run--;
        return NULL;
    }
    for (int k = s->first; k <= s->last; k++) {
        int symbol = symbol_get(&c->bits, s->ac[0]), n = symbol & 15, zeros = symbol >> 4;
        if (symbol < 0)
            return no_code;
        if (!n && zeros < 15) { /* ends the band in this block and `run` more */
            c->run = (1 << zeros) + bits_get(&c->bits, zeros) - 1;
            break;
        }
        k += zeros;
        if (k > s->last)
            return n ? too_many : NULL;
        int x = bits_signed(&c->bits, n) * (1 << s->low);
        if (x > INT16_MAX || x < -INT16_MAX)
            return too_large;
        block[jpeg_zigzag[k]] = (int16_t)x; /* n 0: the last of sixteen zeros */
    }
    return NULL;
}

/* Reads one more bit for each coefficient that is not 0, until it has passed so many zeros; returns
 * the index of the coefficient after them. */
static int ac_pass(ScanDecoder *c, int16_t *block, int k, int zeros)
{
    int more = 1 << c->scan->low;
    for (; k <= c->scan->last; k++) {
        int16_t *at = &block[jpeg_zigzag[k]];
        if (!*at) {
            if (!zeros--)
                break;
        } else if (bits_get(&c->bits, 1))
            *at = (int16_t)(*at > 0 ? *at + more : *at - more);
    }
    return k;
}

static const char *ac_refine(ScanDecoder *c, int16_t *block)
{
    const JpegScan *s = c->scan;
    int             k = s->first;
    for (; !c->run && k <= s->last; k++) {
        int symbol = symbol_get(&c->bits, s->ac[0]), n = symbol & 15, zeros = symbol >> 4, x = 0;
        if (symbol < 0 || n > 1)
            return no_code;
        if (!n && zeros < 15) {
            c->run = (1 << zeros) + bits_get(&c->bits, zeros);
            break;
        }
        if (n)
            x = bits_get(&c->bits, 1) ? 1 << s->low : -(1 << s->low);
        k = ac_pass(c, block, k, zeros);
        if (k > s->last)
            return n ? too_many : NULL;
        if (x)
            block[jpeg_zigzag[k]] = (int16_t)x;
    }
    if (c->run) {
        ac_pass(c, block, k, 64);
        c->run--;
    }
    return NULL;
}

/* The block in row y and column x of a component. */
static const char *block_next(ScanDecoder *c, int component, int64_t y, int64_t x)
{
    const JpegScan *s = c->scan;
    JpegComponent  *p = s->components[component];
    const char     *why = NULL;
    if (!p->blocks) {
        int16_t  block[64] = { 0 };
        int      last;
        uint8_t *to = p->plane + (y * p->stride * 8 + x) * 8;
        why = block_whole(c, component, block, &last);
        if (why)
            return why;
        if (last)
            jpeg_block(block, p->quant, to, p->stride * 8);
        else
            jpeg_flat_block(block[0] * p->quant[0], to, p->stride * 8);
    } else {
        int16_t *block = p->blocks + (y * p->stride + x) * 64;
        if (s->first)
            why = s->high ? ac_refine(c, block) : ac_first(c, block);
        else if (s->high)
            dc_refine(c, block);
        else
            why = dc_first(c, component, block);
    }
    return bits_exhausted(&c->bits) ? ends_early : why;
}

/* An MCU: one block of the only component, or h x v blocks of each. */
static const char *mcu_next(ScanDecoder *c, int64_t uy, int64_t ux)
{
    const JpegScan *s = c->scan;
    if (s->n == 1)
        return block_next(c, 0, uy, ux);
    for (int component = 0; component < s->n; component++)
        for (int y = 0; y < s->components[component]->v; y++)
            for (int x = 0; x < s->components[component]->h; x++) {
                const char *why = block_next(c, component, uy * s->components[component]->v + y,
                                             ux * s->components[component]->h + x);
                if (why)
                    return why;
            }
    return NULL;
}

/* ---- the scan ---- */

/* Checks that less than a byte of data is left before the next marker, and moves b->at there. */
static const char *data_end(ScanDecoder *c)
{
    Bits *b = &c->bits;
    if (b->n - b->padding >= 8 || b->at == b->end || *b->at != 0xFF || c->run)
        return b->at == b->end ? ends_early : left_over;
    while (b->end - b->at > 2 && b->at[1] == 0xFF) /* fill bytes may precede a marker */
        b->at++;
    return b->end - b->at < 2 ? ends_early : b->at[1] ? NULL : left_over;
}

static const char *restart(ScanDecoder *c, int64_t number)
{
    const char *why = data_end(c);
    if (why)
        return why;
    if (c->bits.at[1] != 0xD0 + number % 8)
        return "a restart marker is missing or out of order";
    c->bits = (Bits){ .at = c->bits.at + 2, .end = c->bits.end };
    memset(c->dc, 0, sizeof c->dc);
    return NULL;
}

/* Some programs leave a few bytes after the last block; they are skipped. Many bytes mean that the
 * blocks were misread. */
enum { MAX_STRAY_BYTES = 64 };

static bool is_marker(const unsigned char *at) /* other than a restart marker */
{
    return at[0] == 0xFF && at[1] && at[1] != 0xFF && (at[1] < 0xD0 || at[1] > 0xD7);
}

static const char *scan_end(ScanDecoder *c)
{
    Bits *b = &c->bits;
    int   stray = (b->n - b->padding) / 8;
    for (; b->end - b->at >= 2 && !is_marker(b->at); b->at++)
        stray += *b->at != 0xFF;
    if (b->end - b->at < 2)
        return ends_early;
    return stray > MAX_STRAY_BYTES || c->run ? left_over : NULL;
}

static const char *scan_mcus(const Jpeg *j, ScanDecoder *c)
{
    const JpegScan *s = c->scan;
    int64_t         across = s->n == 1 ? s->components[0]->across : j->mcus_across,
            down = s->n == 1 ? s->components[0]->down : j->mcus_down;
    for (int64_t mcu = 0; mcu < across * down; mcu++) {
        const char *why = NULL;
        if (j->restart && mcu && mcu % j->restart == 0)
            why = restart(c, mcu / j->restart - 1);
        why = why ? why : mcu_next(c, mcu / across, mcu % across);
        if (why)
            return why;
    }
    return scan_end(c);
}

Err jpeg_scan(Jpeg *j, JpegScan *scan)
{
    ScanDecoder c = { .scan = scan, .bits = { .at = j->bytes + j->at, .end = j->bytes + j->n } };
    const char *why = scan_mcus(j, &c);
    j->at = (size_t)(c.bits.at - j->bytes);
    return why ? jpeg_damaged(j, why) : OK;
}
