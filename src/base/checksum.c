/* checksum.c -- XXH64: four lanes that do not wait for each other, mixed at the end. */
#include "base/checksum.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t little(const unsigned char *at, int n)
{
    uint64_t x = 0;
    memcpy(&x, at, (size_t)n);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x) >> (64 - 8 * n);
#endif
    return x;
}

static uint64_t take(uint64_t lane, uint64_t x) { return turn(lane + x * P2, 31) * P1; }

/* Takes in whole stripes; returns where they end. */
static const unsigned char *stripes(uint64_t lane[4], const unsigned char *at, size_t n)
{
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; n >= CHECKSUM_STRIPE; n -= CHECKSUM_STRIPE, at += CHECKSUM_STRIPE) {
        a = take(a, little(at, 8));
        b = take(b, little(at + 8, 8));
        c = take(c, little(at + 16, 8));
        d = take(d, little(at + 24, 8));
    }
    lane[0] = a, lane[1] = b, lane[2] = c, lane[3] = d;
    return at;
}

Checksum checksum_begin(void) { return (Checksum){ .lane = { P1 + P2, P2, 0, 0 - P1 } }; }

void checksum_add(Checksum *sum, const void *bytes, size_t n)
{
    const unsigned char *at = bytes, *end = at + n;
    size_t               had = (size_t)(sum->n % CHECKSUM_STRIPE);
    if (!n)
        return;
    sum->n += n;
    if (had) {
        size_t more = CHECKSUM_STRIPE - had < n ? CHECKSUM_STRIPE - had : n;
        memcpy(sum->rest + had, at, more);
        at += more;
        if (had + more < CHECKSUM_STRIPE)
            return;
        stripes(sum->lane, sum->rest, CHECKSUM_STRIPE);
    }
    at = stripes(sum->lane, at, (size_t)(end - at));
    memcpy(sum->rest, at, (size_t)(end - at));
}

uint64_t checksum_end(const Checksum *sum)
{
    const uint64_t      *lane = sum->lane;
    const unsigned char *at = sum->rest;
    size_t               left = (size_t)(sum->n % CHECKSUM_STRIPE);
    uint64_t             h = P5;
    if (sum->n >= CHECKSUM_STRIPE) {
        h = turn(lane[0], 1) + turn(lane[1], 7) + turn(lane[2], 12) + turn(lane[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ take(0, lane[i])) * P1 + P4;
    }
    h += sum->n;
    for (; left >= 8; left -= 8, at += 8)
        h = turn(h ^ take(0, little(at, 8)), 27) * P1 + P4;
    if (left >= 4) {
        h = turn(h ^ little(at, 4) * P1, 23) * P2 + P3;
        left -= 4, at += 4;
    }
    for (; left; left--, at++)
        h = turn(h ^ *at * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}
