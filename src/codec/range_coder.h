/* range_coder.h -- an arithmetic coder over integer frequencies (Martin 1979, with 56 bits and carries).
 *
 * A symbol is an interval [cum, cum + freq) of 2^RANGE_BITS; its cost is RANGE_BITS - log2(freq) bits, within
 * 2^-20 of it. Bytes at the end that are 0 are not written: the decoder reads zeros there. */
#ifndef CODEC_RANGE_CODER_H
#define CODEC_RANGE_CODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

enum { RANGE_BITS = 28 };

typedef struct RangeEncoder {
    Pool    *pool;
    uint64_t low, range, pending; /* pending: bytes that a carry may still change */
    bool     begun;
    uint8_t  cache;
    uint8_t *bytes;
    int32_t  n, cap;
} RangeEncoder;

RangeEncoder range_encoder(Pool *pool);
void         range_encode(RangeEncoder *e, uint32_t cum, uint32_t freq); /* freq above 0 */
void         range_encode_end(RangeEncoder *e);                          /* then: bytes, n */

typedef struct RangeDecoder {
    const uint8_t *bytes;
    size_t         n, at; /* at: bytes taken, zeros behind the end among them */
    uint64_t       code, range, unit;
} RangeDecoder;

RangeDecoder range_decoder(const uint8_t *bytes, size_t n);
/* A place in the symbol's interval; then range_decode with that interval. */
uint32_t     range_decode_at(RangeDecoder *d);
void         range_decode(RangeDecoder *d, uint32_t cum, uint32_t freq);

#endif
