/* range_coder.c -- what is coded is decoded, at the cost of its frequencies, however extreme they
 * are. */
#include "test.h"

#include "base/random.h"
#include "codec/range_coder.h"

#include <stdlib.h>

static const uint32_t total = (uint32_t)1 << RANGE_BITS;

typedef struct Interval {
    uint32_t cum, freq;
} Interval;

/* kind 0: of any size; 1: as small as possible; 2: nearly everything; 3: at the end; 4: a mix */
static Interval interval_of(int kind, uint64_t i)
{
    RandomKey key = { .seed = 7, .stream = (uint32_t)kind };
    uint32_t  a = random_below_at(key, 2 * i, total), b = random_below_at(key, 2 * i + 1, total);
    if (kind == 4)
        kind = (int)(a % 4);
    if (kind == 1)
        return (Interval){ a, 1 };
    if (kind == 2)
        return b % 997 ? (Interval){ 1, total - 1 } : (Interval){ 0, 1 };
    if (kind == 3)
        return (Interval){ a, total - a };
    return a < b ? (Interval){ a, b - a } : (Interval){ b, a - b + 1 };
}

static void goes_round(int kind, int64_t n)
{
    Pool        *pool = pool_new(NULL, "coder");
    RangeEncoder e = range_encoder(pool);
    double       bits = 0;
    for (int64_t i = 0; i < n; i++) {
        Interval x = interval_of(kind, (uint64_t)i);
        range_encode(&e, x.cum, x.freq);
        bits += RANGE_BITS - log2(x.freq);
    }
    range_encode_end(&e);
    RangeDecoder d = range_decoder(e.bytes, (size_t)e.n);
    int64_t      wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        Interval x = interval_of(kind, (uint64_t)i);
        uint32_t at = range_decode_at(&d);
        wrong += at < x.cum || at - x.cum >= x.freq;
        range_decode(&d, x.cum, x.freq);
    }
    CHECK_INT(wrong, 0);
    CHECK(8.0 * e.n <= bits * (1 + 1e-5) + 16); /* at most two bytes for the end */
    pool_free(pool);
}

static void every_kind(void)
{
    for (int kind = 0; kind < 5; kind++)
        for (int64_t n = 0; n < 40; n++)
            goes_round(kind, n);
    for (int kind = 0; kind < 5; kind++)
        goes_round(kind, 30000);
}

/* Low stays just below a carry for long: bytes of 0xff wait for it. */
static void carries(void)
{
    for (int last = 0; last < 2; last++) {
        Pool        *pool = pool_new(NULL, "carry");
        RangeEncoder e = range_encoder(pool);
        for (int i = 0; i < 200; i++)
            range_encode(&e, total - 1, 1);
        range_encode(&e, last ? total - 1 : 0, 1);
        range_encode_end(&e);
        RangeDecoder d = range_decoder(e.bytes, (size_t)e.n);
        for (int i = 0; i < 200; i++) {
            CHECK_INT(range_decode_at(&d), total - 1);
            range_decode(&d, total - 1, 1);
        }
        CHECK_INT(range_decode_at(&d), last ? total - 1 : 0);
        pool_free(pool);
    }
}

/* A decoder given any bytes stays within its intervals. */
static void any_bytes(void)
{
    uint8_t bytes[64];
    for (int i = 0; i < 64; i++)
        bytes[i] = (uint8_t)random_below_at((RandomKey){ .seed = 3 }, (uint64_t)i, 256);
    for (size_t n = 0; n <= 64; n++) {
        RangeDecoder d = range_decoder(bytes, n);
        for (int i = 0; i < 500; i++) {
            uint32_t at = range_decode_at(&d);
            CHECK(at < total);
            uint32_t cum = at & ~0xffu;
            range_decode(&d, cum, 0x100);
        }
    }
}

int main(void)
{
    RUN(every_kind);
    RUN(carries);
    RUN(any_bytes);
    return test_end();
}
