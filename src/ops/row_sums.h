/* row_sums.h -- sums over a contiguous row of fp32, in a fixed order: 16 lanes side by side, four of
 * these vectors in flight, joined pairwise. The order depends on nothing but the length. */
#ifndef OPS_ROW_SUMS_H
#define OPS_ROW_SUMS_H

#include <stdint.h>
#include <string.h>

typedef float Lanes __attribute__((vector_size(64)));
enum { LANES = 16 };

#define LANES_AT(p, i) lanes_load((p) + (i))

static inline __attribute__((always_inline)) Lanes lanes_load(const float *p)
{
    Lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) float lanes_sum(Lanes v)
{
    v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    v += __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3);
    return v[0] + v[1];
}

static inline float row_sum(const float *x, int64_t n)
{
    Lanes   a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a += LANES_AT(x, i);
        b += LANES_AT(x, i + LANES);
        c += LANES_AT(x, i + 2 * LANES);
        d += LANES_AT(x, i + 3 * LANES);
    }
    for (; i + LANES <= n; i += LANES)
        a += LANES_AT(x, i);
    float rest = 0;
    for (; i < n; i++)
        rest += x[i];
    return lanes_sum((a + b) + (c + d)) + rest;
}

/* The sum of (x - mean)^2. */
static inline float row_deviation(const float *x, int64_t n, float mean)
{
    Lanes   a = { 0 }, b = { 0 };
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        Lanes p = LANES_AT(x, i) - mean, q = LANES_AT(x, i + LANES) - mean;
        a += p * p;
        b += q * q;
    }
    float rest = 0;
    for (; i < n; i++)
        rest += (x[i] - mean) * (x[i] - mean);
    return lanes_sum(a + b) + rest;
}

static inline float row_dot(const float *x, const float *y, int64_t n)
{
    Lanes   a = { 0 }, b = { 0 };
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a += LANES_AT(x, i) * LANES_AT(y, i);
        b += LANES_AT(x, i + LANES) * LANES_AT(y, i + LANES);
    }
    float rest = 0;
    for (; i < n; i++)
        rest += x[i] * y[i];
    return lanes_sum(a + b) + rest;
}

#endif
