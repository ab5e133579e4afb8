/* row_sums.h -- sums over a contiguous row of fp32, in a fixed order: four vectors of 8 lanes,
 * joined pairwise. The order depends on the length alone, whereas a compiler's own reduction may
 * start at the first aligned address. */
#ifndef OPS_REDUCE_ROW_SUMS_H
#define OPS_REDUCE_ROW_SUMS_H

#include <stdint.h>
#include <string.h>

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic           ignored "-Wpsabi" /* vectors pass between inlined functions only */
#endif

typedef float Lanes __attribute__((vector_size(32)));
enum { LANES = 8 };

static inline __attribute__((always_inline)) Lanes lanes_at(const float *p)
{
    Lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) float lanes_sum(Lanes v)
{
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
    v += __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3);
    return v[0] + v[1];
}

static inline float row_sum(const float *x, int64_t n)
{
    Lanes   a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a += lanes_at(x + i);
        b += lanes_at(x + i + LANES);
        c += lanes_at(x + i + 2 * LANES);
        d += lanes_at(x + i + 3 * LANES);
    }
    for (; i + LANES <= n; i += LANES)
        a += lanes_at(x + i);
    float rest = 0;
    for (; i < n; i++)
        rest += x[i];
    return lanes_sum((a + b) + (c + d)) + rest;
}

/* The sum of (x - mean) * (y - shift). */
static inline __attribute__((always_inline)) float row_dot(const float *x, float mean,
                                                           const float *y, float shift, int64_t n)
{
    Lanes   a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a += (lanes_at(x + i) - mean) * (lanes_at(y + i) - shift);
        b += (lanes_at(x + i + LANES) - mean) * (lanes_at(y + i + LANES) - shift);
        c += (lanes_at(x + i + 2 * LANES) - mean) * (lanes_at(y + i + 2 * LANES) - shift);
        d += (lanes_at(x + i + 3 * LANES) - mean) * (lanes_at(y + i + 3 * LANES) - shift);
    }
    for (; i + LANES <= n; i += LANES)
        a += (lanes_at(x + i) - mean) * (lanes_at(y + i) - shift);
    float rest = 0;
    for (; i < n; i++)
        rest += (x[i] - mean) * (y[i] - shift);
    return lanes_sum((a + b) + (c + d)) + rest;
}

/* The sum of (x - mean)^2. */
static inline float row_deviation(const float *x, int64_t n, float mean)
{
    return row_dot(x, mean, x, mean, n);
}

#endif
