/* inflate.c -- blocks of deflate: stored, with the fixed codes, or with codes of their own.
 *
 * Codes up to FAST_BITS are found by one look at a table; longer ones, which are rare, bit by bit
 * in canonical order.
 */
#include "base/inflate.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { FAST_BITS = 10, CODE_BITS = 15, LENGTH_SYMBOLS = 288, DISTANCE_SYMBOLS = 32 };

typedef struct Codes {
    uint16_t fast[1 << FAST_BITS]; /* symbol << 4 | bits; 0: a longer code */
    uint16_t count[CODE_BITS + 1]; /* codes of each length */
    uint16_t symbol[LENGTH_SYMBOLS];
} Codes;

typedef struct Inflate {
    const unsigned char *in, *in_end;
    unsigned char       *out, *out_start, *out_end;
    uint64_t             bits;   /* the next n_bits of the input, lowest first */
    int                  n_bits; /* those past the end of the input are 0 */
    int                  past;   /* bytes taken from behind the end */
    Codes                lengths, distances;
} Inflate;

static void inflate_fill(Inflate *s)
{
    if (s->in_end - s->in >= 8) {
        uint64_t word = 0;
        for (int i = 0; i < 8; i++)
            word |= (uint64_t)s->in[i] << 8 * i;
        s->bits |= word << s->n_bits;
        int whole = (63 - s->n_bits) >> 3;
        s->in += whole;
        s->n_bits += 8 * whole;
        return;
    }
    while (s->n_bits <= 56) {
        if (s->in < s->in_end)
            s->bits |= (uint64_t)*s->in++ << s->n_bits;
        else
            s->past++;
        s->n_bits += 8;
    }
}

static unsigned inflate_take(Inflate *s, int n)
{
    if (s->n_bits < n)
        inflate_fill(s);
    unsigned value = (unsigned)(s->bits & ((1u << n) - 1));
    s->bits >>= n;
    s->n_bits -= n;
    return value;
}

/* Were bits used that the input does not have? */
static bool inflate_overrun(const Inflate *s) { return s->past > 0 && s->n_bits < 8 * s->past; }

static unsigned bits_reversed(unsigned code, int n)
{
    unsigned reversed = 0;
    for (int i = 0; i < n; i++)
        reversed |= (code >> i & 1) << (n - 1 - i);
    return reversed;
}

/* Canonical codes from their lengths. A set must use every code; the single code of one bit is
 * the exception that the format allows. */
static const char *codes_make(Codes *codes, const uint8_t *length, int n)
{
    uint16_t first[CODE_BITS + 2] = { 0 }, offset[CODE_BITS + 2] = { 0 };
    int      left = 1, used = 0;
    memset(codes, 0, sizeof *codes);
    for (int i = 0; i < n; i++)
        codes->count[length[i]]++;
    codes->count[0] = 0;
    for (int bits = 1; bits <= CODE_BITS; bits++) {
        left = 2 * left - codes->count[bits];
        if (left < 0)
            return "a set of codes is over-full";
        used += codes->count[bits];
        first[bits + 1] = (uint16_t)((first[bits] + codes->count[bits]) << 1);
        offset[bits + 1] = (uint16_t)(offset[bits] + codes->count[bits]);
    }
    if (left > 0 && !(used == 0 || (used == 1 && codes->count[1] == 1)))
        return "a set of codes has holes";
    for (int i = 0; i < n; i++) {
        int bits = length[i];
        if (!bits)
            continue;
        unsigned code = first[bits]++;
        codes->symbol[offset[bits]++] = (uint16_t)i;
        if (bits <= FAST_BITS)
            for (unsigned at = bits_reversed(code, bits); at < 1u << FAST_BITS; at += 1u << bits)
                codes->fast[at] = (uint16_t)(i << 4 | bits);
    }
    return NULL;
}

/* -1: no symbol has this code. At least CODE_BITS bits are at hand. */
static int codes_next(Inflate *s, const Codes *codes)
{
    unsigned entry = codes->fast[s->bits & ((1u << FAST_BITS) - 1)];
    if (entry) {
        s->bits >>= entry & 15;
        s->n_bits -= (int)(entry & 15);
        return (int)(entry >> 4);
    }
    int code = 0, first = 0, index = 0;
    for (int bits = 1; bits <= CODE_BITS; bits++) {
        code |= (int)(s->bits >> (bits - 1) & 1);
        if (code - first < codes->count[bits]) {
            s->bits >>= bits;
            s->n_bits -= bits;
            return codes->symbol[index + code - first];
        }
        index += codes->count[bits];
        first = (first + codes->count[bits]) << 1;
        code <<= 1;
    }
    return -1;
}

static const char *inflate_stored(Inflate *s)
{
    inflate_take(s, s->n_bits & 7);
    unsigned n = inflate_take(s, 16), inverse = inflate_take(s, 16);
    if (inflate_overrun(s))
        return "the data ends early";
    if (n != (~inverse & 0xFFFF))
        return "the length of a stored block is damaged";
    s->in -= s->n_bits / 8 - s->past; /* whole bytes back to the input */
    s->bits = 0;
    s->n_bits = s->past = 0;
    if (n > (size_t)(s->in_end - s->in))
        return "the data ends early";
    if (n > (size_t)(s->out_end - s->out))
        return "there is more data than the archive says";
    if (n)
        memcpy(s->out, s->in, n);
    s->in += n;
    s->out += n;
    return NULL;
}

static void bytes_repeat(unsigned char *to, size_t distance, size_t n)
{
    if (distance >= n) {
        memcpy(to, to - distance, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = to[(ptrdiff_t)i - (ptrdiff_t)distance];
}

static const char *inflate_coded(Inflate *s)
{
    static const uint16_t base[29] = { 3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                       15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                       67, 83, 99, 115, 131, 163, 195, 227, 258 };
    static const uint8_t  extra[29] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                        2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
    static const uint16_t far[30] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577
    };
    for (;;) {
        inflate_fill(s); /* 56 bits or more: enough for one length and its distance */
        int symbol = codes_next(s, &s->lengths);
        if (inflate_overrun(s))
            return "the data ends early";
        if (symbol < 0 || symbol > 285)
            return "there is a code that means nothing";
        if (symbol == 256)
            return NULL;
        if (symbol < 256) {
            if (s->out == s->out_end)
                return "there is more data than the archive says";
            *s->out++ = (unsigned char)symbol;
            continue;
        }
        size_t n = base[symbol - 257] + inflate_take(s, extra[symbol - 257]);
        int    step = codes_next(s, &s->distances);
        if (step < 0 || step > 29)
            return "there is a code that means nothing";
        size_t distance = far[step] + inflate_take(s, step < 2 ? 0 : step / 2 - 1);
        if (inflate_overrun(s))
            return "the data ends early";
        if (distance > (size_t)(s->out - s->out_start))
            return "a copy begins before the data";
        if (n > (size_t)(s->out_end - s->out))
            return "there is more data than the archive says";
        bytes_repeat(s->out, distance, n);
        s->out += n;
    }
}

static const char *inflate_fixed_codes(Inflate *s)
{
    uint8_t length[LENGTH_SYMBOLS], distance[DISTANCE_SYMBOLS];
    for (int i = 0; i < LENGTH_SYMBOLS; i++)
        length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    memset(distance, 5, sizeof distance);
    codes_make(&s->lengths, length, LENGTH_SYMBOLS);
    codes_make(&s->distances, distance, DISTANCE_SYMBOLS);
    return NULL;
}

static const char *inflate_own_codes(Inflate *s)
{
    static const uint8_t order[19] = { 16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                       11, 4,  12, 3, 13, 2, 14, 1, 15 };
    uint8_t              length[LENGTH_SYMBOLS + DISTANCE_SYMBOLS] = { 0 }, meta[19] = { 0 };
    int n_lengths = (int)inflate_take(s, 5) + 257, n_distances = (int)inflate_take(s, 5) + 1,
        n_meta = (int)inflate_take(s, 4) + 4, total = n_lengths + n_distances;
    if (n_lengths > 286 || n_distances > 30)
        return "a block has too many codes";
    for (int i = 0; i < n_meta; i++)
        meta[order[i]] = (uint8_t)inflate_take(s, 3);
    const char *wrong = codes_make(&s->lengths, meta, 19);
    for (int i = 0; !wrong && i < total;) {
        inflate_fill(s);
        int symbol = codes_next(s, &s->lengths);
        if (inflate_overrun(s))
            return "the data ends early";
        if (symbol < 0)
            return "there is a code that means nothing";
        if (symbol < 16) {
            length[i++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == 16 && i == 0)
            return "a block repeats a length before the first";
        uint8_t value = symbol == 16 ? length[i - 1] : 0;
        int     n = symbol == 16   ? 3 + (int)inflate_take(s, 2)
                    : symbol == 17 ? 3 + (int)inflate_take(s, 3)
                                   : 11 + (int)inflate_take(s, 7);
        if (n > total - i)
            return "a block has too many codes";
        memset(length + i, value, (size_t)n);
        i += n;
    }
    if (!wrong && !length[256])
        return "a block has no code for its end";
    if (!wrong)
        wrong = codes_make(&s->lengths, length, n_lengths);
    return wrong ? wrong : codes_make(&s->distances, length + n_lengths, n_distances);
}

const char *inflate_bytes(const void *in, size_t n_in, void *out, size_t n_out)
{
    Inflate     s = { .in = in,
                      .in_end = (const unsigned char *)in + n_in,
                      .out = out,
                      .out_start = out,
                      .out_end = (unsigned char *)out + n_out };
    const char *wrong = NULL;
    for (bool last = false; !last && !wrong;) {
        last = inflate_take(&s, 1);
        unsigned kind = inflate_take(&s, 2);
        if (inflate_overrun(&s))
            return "the data ends early";
        switch (kind) {
        case 0: wrong = inflate_stored(&s); break;
        case 1:
            wrong = inflate_fixed_codes(&s);
            wrong = wrong ? wrong : inflate_coded(&s);
            break;
        case 2:
            wrong = inflate_own_codes(&s);
            wrong = wrong ? wrong : inflate_coded(&s);
            break;
        default: return "there is a block of no known kind";
        }
    }
    if (!wrong && s.out != s.out_end)
        wrong = "there is less data than the archive says";
    return wrong;
}
