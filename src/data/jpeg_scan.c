/* jpeg_scan.c -- the coded data of one scan: bits, Huffman codes, coefficients (T.81 annexes F, G).
 *
 * Bits that are asked for beyond the data are zeros, counted; a block that used one of them ends
 * the scan as damaged, so nothing is looked for bit by bit. */
#include "data/jpeg_int.h"

#include <string.h>

const uint8_t jpeg_zigzag[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63
};

/* Reasons, as jpeg_damaged ends its sentence. */
static const char ends_early[] = "a scan's data end early";
static const char no_code[] = "a scan has a code that its table does not";
static const char too_many[] = "a block has more than 64 coefficients";
static const char too_large[] = "a coefficient is larger than images of 8 bits can have";
static const char left_over[] = "a scan's data go on after its last block";

/* ---- bits ---- */

typedef struct Bits {
    uint64_t             hold;       /* the next bits, from the top */
    int                  n, beyond;  /* bits in hold; of these, zeros that no byte stands for */
    const unsigned char *at, *end;
} Bits;

static bool any_ff(uint64_t x)       /* a byte of ~x is zero (Mycroft 1987) */
{
    return ((~x - 0x0101010101010101u) & x & 0x8080808080808080u) != 0;
}

/* At least 56 bits. A stuffed zero follows every FF of the data; any other FF is a marker's. */
static void bits_fill(Bits *b)
{
    if (b->end - b->at >= 8) {
        uint64_t x;
        memcpy(&x, b->at, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        x = __builtin_bswap64(x);
#endif
        if (!any_ff(x)) {            /* bits beyond the whole bytes come again, the same */
            int more = (63 - b->n) >> 3;
            b->hold |= x >> b->n;
            b->at += more;
            b->n += 8 * more;
            return;
        }
    }
    for (; b->n <= 56; b->n += 8) {
        bool ff = b->at < b->end && *b->at == 0xFF;
        if (b->at == b->end || (ff && (b->end - b->at < 2 || b->at[1]))) {
            b->beyond += 8;
            continue;
        }
        b->hold |= (uint64_t)*b->at << (56 - b->n);
        b->at += ff ? 2 : 1;
    }
}

static inline void bits_need(Bits *b, int n)
{
    if (b->n < n)
        bits_fill(b);
}

static inline int bits_take(Bits *b, int n)          /* 1 to 16, that are there */
{
    int x = (int)(b->hold >> (64 - n));
    b->hold <<= n;
    b->n -= n;
    return x;
}

static inline int bits_get(Bits *b, int n)
{
    bits_need(b, n);
    return n ? bits_take(b, n) : 0;
}

/* T.81 F.2.2.1: the lower half of the numbers of n bits stands for negative ones. */
static inline int bits_signed(Bits *b, int n)
{
    if (!n)
        return 0;
    int x = bits_take(b, n);
    return x >> (n - 1) ? x : x - (1 << n) + 1;
}

static inline bool bits_short(const Bits *b) { return b->n < b->beyond; }

/* A symbol, or -1; leaves 16 more bits to take. */
static inline int symbol_get(Bits *b, const Huffman *h)
{
    bits_need(b, 32);
    int found = h->fast[b->hold >> (64 - HUFFMAN_FAST)];
    if (found) {
        b->hold <<= found >> 8;
        b->n -= found >> 8;
        return found & 0xFF;
    }
    uint32_t next = (uint32_t)(b->hold >> 48);
    for (int length = HUFFMAN_FAST + 1; length <= 16; length++)
        if (next < h->end[length]) {
            int at = (int)(next >> (16 - length)) + h->skip[length];
            b->hold <<= length;
            b->n -= length;
            return h->symbols[at];
        }
    return -1;
}

/* ---- blocks ---- */

typedef struct Coder {               /* where a scan stands */
    Bits            bits;
    const JpegScan *scan;
    int             before[JPEG_PARTS];      /* the DC of the block before */
    int             run;                     /* blocks that end at once (T.81 G.1.2.2) */
} Coder;

static const char *dc_next(Coder *c, int part)       /* to c->before */
{
    int n = symbol_get(&c->bits, c->scan->dc[part]);
    if (n < 0)
        return no_code;
    c->before[part] += bits_signed(&c->bits, n);     /* of n <= 15: the table was looked at */
    int most = INT16_MAX >> c->scan->low;
    return c->before[part] > most || c->before[part] < -most ? too_large : NULL;
}

/* All coefficients of a block that was zeros, in *last the place of the last. */
static const char *block_whole(Coder *c, int part, int16_t *block, int *last)
{
    const Huffman *ac = c->scan->ac[part];
    const char    *why = dc_next(c, part);
    if (why)
        return why;
    block[0] = (int16_t)c->before[part];
    *last = 0;
    for (int k = 1; k < 64; k++) {
        int symbol = symbol_get(&c->bits, ac), n = symbol & 15;
        if (symbol < 0)
            return no_code;
        if (!n && symbol != 0xF0)            /* the rest is zeros */
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

static const char *dc_first(Coder *c, int part, int16_t *block)
{
    const char *why = dc_next(c, part);
    block[0] = (int16_t)(c->before[part] * (1 << c->scan->low));
    return why;
}

static void dc_refine(Coder *c, int16_t *block)
{
    block[0] = (int16_t)(block[0] | bits_get(&c->bits, 1) << c->scan->low);
}

static const char *ac_first(Coder *c, int16_t *block)
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
        if (!n && zeros < 15) {              /* this block and some more */
            c->run = (1 << zeros) + bits_get(&c->bits, zeros) - 1;
            break;
        }
        k += zeros;
        if (k > s->last)
            return n ? too_many : NULL;
        int x = bits_signed(&c->bits, n) * (1 << s->low);
        if (x > INT16_MAX || x < -INT16_MAX)
            return too_large;
        block[jpeg_zigzag[k]] = (int16_t)x;  /* n 0: sixteen zeros, this the last */
    }
    return NULL;
}

/* One more bit for each coefficient that is not 0, until so many zeros have been passed; the place
 * of the one after. */
static int ac_pass(Coder *c, int16_t *block, int k, int zeros)
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

static const char *ac_refine(Coder *c, int16_t *block)
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

/* The block at (y,x) of a part, counted in blocks. */
static const char *block_next(Coder *c, int part, int64_t y, int64_t x)
{
    const JpegScan *s = c->scan;
    JpegPart       *p = s->parts[part];
    const char     *why = NULL;
    if (!p->blocks) {
        int16_t  block[64] = { 0 };
        int      last;
        uint8_t *to = p->plane + (y * p->stride * 8 + x) * 8;
        why = block_whole(c, part, block, &last);
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
            why = dc_first(c, part, block);
    }
    return bits_short(&c->bits) ? ends_early : why;
}

/* A unit: one block of the only part, or of each part as many as its factors say. */
static const char *unit_next(Coder *c, int64_t uy, int64_t ux)
{
    const JpegScan *s = c->scan;
    if (s->n == 1)
        return block_next(c, 0, uy, ux);
    for (int part = 0; part < s->n; part++)
        for (int y = 0; y < s->parts[part]->v; y++)
            for (int x = 0; x < s->parts[part]->h; x++) {
                const char *why = block_next(c, part, uy * s->parts[part]->v + y,
                                             ux * s->parts[part]->h + x);
                if (why)
                    return why;
            }
    return NULL;
}

/* ---- the scan ---- */

/* The data end here: less than a byte is left, then comes a marker, to which b->at is moved. */
static const char *data_end(Coder *c)
{
    Bits *b = &c->bits;
    if (b->n - b->beyond >= 8 || b->at == b->end || *b->at != 0xFF || c->run)
        return b->at == b->end ? ends_early : left_over;
    while (b->end - b->at > 2 && b->at[1] == 0xFF)   /* any number may stand before a marker */
        b->at++;
    return b->end - b->at < 2 ? ends_early : b->at[1] ? NULL : left_over;
}

static const char *restart(Coder *c, int64_t number)
{
    const char *why = data_end(c);
    if (why)
        return why;
    if (c->bits.at[1] != 0xD0 + number % 8)
        return "a restart mark is missing or out of its order";
    c->bits = (Bits){ .at = c->bits.at + 2, .end = c->bits.end };
    memset(c->before, 0, sizeof c->before);
    return NULL;
}

/* After the last block: the image is whole, and a few bytes that some programs leave there are
 * passed over. Many mean that blocks were read where others are. */
enum { STRAY_MAX = 64 };

static bool is_marker(const unsigned char *at)       /* but for restarts, which belong to a scan */
{
    return at[0] == 0xFF && at[1] && at[1] != 0xFF && (at[1] < 0xD0 || at[1] > 0xD7);
}

static const char *scan_end(Coder *c)
{
    Bits *b = &c->bits;
    int   stray = (b->n - b->beyond) / 8;
    for (; b->end - b->at >= 2 && !is_marker(b->at); b->at++)
        stray += *b->at != 0xFF;
    if (b->end - b->at < 2)
        return ends_early;
    return stray > STRAY_MAX || c->run ? left_over : NULL;
}

static const char *scan_units(const Jpeg *j, Coder *c)
{
    const JpegScan *s = c->scan;
    int64_t         across = s->n == 1 ? s->parts[0]->across : j->units_across,
                    down = s->n == 1 ? s->parts[0]->down : j->units_down;
    for (int64_t unit = 0; unit < across * down; unit++) {
        const char *why = NULL;
        if (j->restart && unit && unit % j->restart == 0)
            why = restart(c, unit / j->restart - 1);
        why = why ? why : unit_next(c, unit / across, unit % across);
        if (why)
            return why;
    }
    return scan_end(c);
}

Err jpeg_scan(Jpeg *j, JpegScan *scan)
{
    Coder c = { .scan = scan, .bits = { .at = j->bytes + j->at, .end = j->bytes + j->n } };
    const char *why = scan_units(j, &c);
    j->at = (size_t)(c.bits.at - j->bytes);
    return why ? jpeg_damaged(j, why) : OK;
}
