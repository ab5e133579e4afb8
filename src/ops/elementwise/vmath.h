/* vmath.h -- elementary functions that the compiler turns into vector code: no branches, no tables,
 * no calls. Use them in plain or `omp simd` loops over contiguous rows.
 *
 * Errors, measured over all floats by tests/ops/elementwise/vmath.c (ulp of the fp32 result):
 *   vexp 1, vlog 1, vlog1p 2, vtanh 2, vsigmoid 2.5, verf 2, vsoftplus 2; vgelu: see below.
 * NaN stays NaN; infinities, overflow, underflow and subnormal results are as in libm.
 *
 * Every product followed by a sum is an explicit fmaf, so scalar and vector code, any compiler and
 * any optimisation level give the same bits. Polynomials are minimax fits of the form written
 * beside them (Lawson's iteration in double, then rounded).
 */
#ifndef OPS_ELEMENTWISE_VMATH_H
#define OPS_ELEMENTWISE_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t vbits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline float vfloat(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2: exp(r), and a number whose lowest bits are n's (the sum
 * with 1.5 * 2^23). */
static inline float vexp_parts(float x, uint32_t *n_bits)
{
    const float shift = 0x1.8p23f;
    float       t = fmaf(x, 0x1.715476p0f, shift), whole = t - shift;
    float       r = fmaf(whole, -0x1.7f7d1cp-20f, fmaf(whole, -0x1.62e4p-1f, x));
    float       p = 1.3814172e-03f; /* exp(r) = 1 + r + r^2 p(r) */
    p = fmaf(p, r, 8.368922e-03f);
    p = fmaf(p, r, 4.1668408e-02f);
    p = fmaf(p, r, 1.666652e-01f);
    p = fmaf(p, r, 4.9999994e-01f);
    *n_bits = vbits(t);
    return fmaf(r * r, p, r) + 1.0f;
}

/* The scale is applied in two halves, so that it neither overflows early nor loses subnormals. */
static inline float vexp(float x)
{
    uint32_t bits;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float   p = vexp_parts(x, &bits);
    int32_t n = (int32_t)(bits - vbits(0x1.8p23f)), half = n >> 1;
    return p * vfloat((uint32_t)(half + 127) << 23) * vfloat((uint32_t)(n - half + 127) << 23);
}

/* The same for |x| <= 87, where one scale will do. (A product, not a sum of exponents: NaN
 * stays.) */
static inline float vexp_within(float x)
{
    uint32_t bits;
    float    p = vexp_parts(x, &bits);
    return p * vfloat((bits << 23) + vbits(1.0f));
}

/* exp of what is at most 87, for weights: results that are not normal numbers become 0. */
static inline float vexp_weight(float x)
{
    float e = vexp_within(x < -87.0f ? -87.0f : x);
    return x < -87.0f ? 0.0f : e;
}

/* log of a normal, finite, positive x. */
static inline float vlog_core(float x)
{
    uint32_t shifted = vbits(x) - 0x3f3504f3u; /* sqrt(1/2) */
    float    e = (float)((int32_t)shifted >> 23);
    float    f = vfloat((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float    p = -7.623061e-02f; /* log(1 + f) = f + f^2 p(f) */
    p = fmaf(p, f, 1.2905502e-01f);
    p = fmaf(p, f, -1.3242981e-01f);
    p = fmaf(p, f, 1.4181635e-01f);
    p = fmaf(p, f, -1.6609056e-01f);
    p = fmaf(p, f, 2.0001985e-01f);
    p = fmaf(p, f, -2.5001585e-01f);
    p = fmaf(p, f, 3.3333325e-01f);
    p = fmaf(p, f, -4.9999988e-01f);
    float low = fmaf(f * f, p, e * -0x1.05c610p-29f); /* ln 2 = 0x1.62e430p-1 - 0x1.05c610p-29 */
    float high = fmaf(e, 0x1.62e430p-1f, f);
    float lost = fmaf(e, 0x1.62e430p-1f, -high) + f; /* what rounding of high dropped */
    return high + (low + lost);
}

static inline float vlog(float x)
{
    float scale = x < 0x1p-126f ? 0x1p23f : 1.0f, less = x < 0x1p-126f ? 23 * 0x1.62e430p-1f : 0.0f;
    float y = vlog_core(x * scale) - less;
    y = x < INFINITY ? y : x; /* infinity and NaN */
    y = x == 0 ? -INFINITY : y;
    return x < 0 ? NAN : y;
}

/* log(1 + x) for x > -1: the logarithm of the rounded sum, and what rounding left out. */
static inline float vlog1p(float x)
{
    float u = 1.0f + x, lost = x - (u - 1.0f);
    float y = vlog(u) + (u < 0x1p60f ? lost / u : 0.0f);
    return u == 1.0f ? x : y;
}

static inline float vsigmoid(float x) { return 1.0f / (1.0f + vexp(-x)); }

static inline float vtanh(float x)
{
    float a = fabsf(x), z = x * x, p = -5.5286246e-03f; /* |x| < 0.65: x + x^3 p(x^2) */
    p = fmaf(p, z, 2.0483306e-02f);
    p = fmaf(p, z, -5.3692963e-02f);
    p = fmaf(p, z, 1.3330899e-01f);
    p = fmaf(p, z, -3.3333263e-01f);
    float small = fmaf(x * z, p, x);
    float b = a > 10.0f ? 10.0f : a; /* beyond, it is 1 */
    float large = copysignf(1.0f - 2.0f / (vexp_within(2.0f * b) + 1.0f), x);
    return a < 0.65f ? small : large;
}

static inline float verf(float x)
{
    float a = fabsf(x), z = x * x, p = -6.535235e-04f; /* |x| < 0.8: x + x p(x^2) */
    p = fmaf(p, z, 5.08513e-03f);
    p = fmaf(p, z, -2.6820807e-02f);
    p = fmaf(p, z, 1.1283113e-01f);
    p = fmaf(p, z, -3.7612602e-01f);
    p = fmaf(p, z, 1.2837908e-01f);
    float b = a > 3.95f ? 3.95f : a,
          q = 2.0870045e-04f; /* above: 1 - exp(q(x)); beyond 3.95 it is 1 */
    q = fmaf(q, b, -3.1649e-03f);
    q = fmaf(q, b, 2.269741e-02f);
    q = fmaf(q, b, -1.0487645e-01f);
    q = fmaf(q, b, -6.361421e-01f);
    q = fmaf(q, b, -1.1282713e+00f);
    q = fmaf(q, b, -5.6841825e-05f);
    float large = copysignf(1.0f - vexp_within(q), x);
    return a < 0.8f ? fmaf(x, p, x) : large;
}

/* log(1 + exp(x)), without overflow. */
static inline float vsoftplus(float x) { return (x > 0 ? x : 0.0f) + vlog1p(vexp(-fabsf(x))); }

/* GELU, x Phi(x) with Phi the normal distribution, and its slope Phi(x) + x Phi'(x). Less one half,
 * Phi and the slope are odd, so each is one polynomial u p(v), u = |x| / L and v = u^2 - 1/2,
 * without an exponential or a choice; its even and odd powers go side by side. Errors are absolute,
 * as those of (1 + erf) / 2 are: Phi 2e-7, the slope 3e-7. From L on (5.25 and 5.65) Phi and the
 * slope are exactly 0 and 1: p(1/2) is one half. */
static inline float vgelu(float x)
{
    uint32_t a = vbits(fabsf(x) * 0.190476194f), one = vbits(1.0f);
    float    u = vfloat(a < one ? a : one); /* of NaN too: the last product brings it back */
    float    v = fmaf(u, u, -0.5f), w = v * v;
    float    even = 2.06395531e+01f, odd = -2.82383652e+01f;
    even = fmaf(even, w, 1.42944002e+01f);
    odd = fmaf(odd, w, -1.11770735e+01f);
    even = fmaf(even, w, 1.55493374e+01f);
    odd = fmaf(odd, w, -1.46456242e+01f);
    even = fmaf(even, w, 1.13136196e+01f);
    odd = fmaf(odd, w, -8.58496571e+00f);
    even = fmaf(even, w, 6.22898483e+00f);
    odd = fmaf(odd, w, -4.20704556e+00f);
    even = fmaf(even, w, 2.69064140e+00f);
    odd = fmaf(odd, w, -1.67006326e+00f);
    even = fmaf(even, w, 1.04256141e+00f);
    odd = fmaf(odd, w, -7.04831541e-01f);
    even = fmaf(even, w, 7.06961572e-01f);
    return x * fmaf(copysignf(u, x), fmaf(odd, v, even), 0.5f);
}

static inline float vgelu_slope(float x)
{
    float a = fabsf(x) * 0.17699115f, u = a > 1.0f ? 1.0f : a;
    float v = fmaf(u, u, -0.5f), w = v * v;
    float even = 1.63958862e+03f, odd = -1.25362744e+03f;
    even = fmaf(even, w, 1.75970901e+02f);
    odd = fmaf(odd, w, -4.64616669e+02f);
    even = fmaf(even, w, 6.02271423e+02f);
    odd = fmaf(odd, w, -6.16942749e+02f);
    even = fmaf(even, w, 2.39292526e+02f);
    odd = fmaf(odd, w, -3.65013580e+02f);
    even = fmaf(even, w, 9.88646927e+01f);
    odd = fmaf(odd, w, -1.65224091e+02f);
    even = fmaf(even, w, 2.52792664e+01f);
    odd = fmaf(odd, w, -5.20940094e+01f);
    even = fmaf(even, w, 4.97061825e+00f);
    odd = fmaf(odd, w, -1.14270964e+01f);
    even = fmaf(even, w, 1.15147030e+00f);
    odd = fmaf(odd, w, -2.24526668e+00f);
    even = fmaf(even, w, 7.07832038e-01f);
    odd = fmaf(odd, w, -7.18594849e-01f);
    return fmaf(copysignf(u, x), fmaf(odd, v, even), 0.5f);
}

#endif
