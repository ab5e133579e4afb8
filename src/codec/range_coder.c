/* range_coder.c -- low is a number of 56 bits and a carry; range stays above 2^48. */
#include "codec/range_coder.h"

enum { WORD = 56, TOP = WORD - 8 };
static const uint64_t word_end = (uint64_t)1 << WORD, top_end = (uint64_t)1 << TOP,
                      total = (uint64_t)1 << RANGE_BITS;

RangeEncoder range_encoder(Pool *pool)
{
    return (RangeEncoder){ .pool = pool, .range = word_end - 1 };
}

static void byte_out(RangeEncoder *e, uint8_t byte)
{
    VEC_ADD(e->pool, e->bytes, e->n, e->cap, byte);
}

/* Moves the highest byte of low out. 0xff waits, since a carry would run through it. */
static void shift_low(RangeEncoder *e)
{
    uint8_t carry = (uint8_t)(e->low >> WORD), high = (uint8_t)(e->low >> TOP);
    if (carry || high != 0xff) {
        if (e->begun)
            byte_out(e, (uint8_t)(e->cache + carry));
        for (; e->pending; e->pending--)
            byte_out(e, (uint8_t)(0xff + carry));
        e->begun = true;
        e->cache = high;
    } else {
        e->pending++;
    }
    e->low = (e->low & (top_end - 1)) << 8;
}

void range_encode(RangeEncoder *e, uint32_t cum, uint32_t freq)
{
    uint64_t unit = e->range >> RANGE_BITS;
    e->low += unit * cum;
    /* what the division leaves over belongs to the last symbol */
    e->range = (uint64_t)cum + freq == total ? e->range - unit * cum : unit * freq;
    for (; e->range < top_end; e->range <<= 8)
        shift_low(e);
}

/* Ends with the number of the interval that has the most zeros behind it. */
void range_encode_end(RangeEncoder *e)
{
    uint64_t last = e->low + e->range - 1, mask = word_end - 1;
    while ((last & ~mask) < e->low)
        mask >>= 1;
    e->low = last & ~mask;
    for (int i = 0; i < WORD / 8 + 1; i++)
        shift_low(e);
    while (e->n && !e->bytes[e->n - 1])
        e->n--;
}

RangeDecoder range_decoder(const uint8_t *bytes, size_t n)
{
    RangeDecoder d = { .bytes = bytes, .n = n, .range = word_end - 1 };
    for (; d.at < WORD / 8; d.at++)
        d.code = d.code << 8 | (d.at < n ? bytes[d.at] : 0);
    return d;
}

uint32_t range_decode_at(RangeDecoder *d)
{
    d->unit = d->range >> RANGE_BITS;
    uint64_t at = d->code / d->unit;
    return (uint32_t)(at < total ? at : total - 1);
}

void range_decode(RangeDecoder *d, uint32_t cum, uint32_t freq)
{
    d->code -= d->unit * cum;
    d->range = (uint64_t)cum + freq == total ? d->range - d->unit * cum : d->unit * freq;
    for (; d->range < top_end; d->range <<= 8, d->at++)
        d->code = (d->code << 8 | (d->at < d->n ? d->bytes[d->at] : 0)) & (word_end - 1);
}
