/* point_math.h -- elementary functions beyond vmath.h, in the same manner: no branches, no calls, so
 * that the compiler turns loops over them into vector code.
 *
 * Errors in ulp of the fp32 result, measured by tests/ops/pointwise/point_math.c: exp2 1, expm1 2,
 * log2 2, sin and cos 2 (|x| up to POINT_SIN_MAX), pow 1. Outside their range, sin, cos and pow
 * are left to libm.
 */
#ifndef OPS_POINTWISE_POINT_MATH_H
#define OPS_POINTWISE_POINT_MATH_H

#include "device/convert.h"
#include "ops/elementwise/vmath.h"

/* 2^x: n = round(x), and exp of the rest. */
static inline float point_exp2(float x)
{
    const float shift = 0x1.8p23f;
    x = x > 129.0f ? 129.0f : x;
    x = x < -151.0f ? -151.0f : x;
    float t = x + shift, whole = t - shift, r = (x - whole);
    float p = 1.5196151e-05f; /* 2^r = 1 + r p(r) */
    p = fmaf(p, r, 1.5466756e-04f);
    p = fmaf(p, r, 1.3333935e-03f);
    p = fmaf(p, r, 9.6180383e-03f);
    p = fmaf(p, r, 5.5504102e-02f);
    p = fmaf(p, r, 2.4022651e-01f);
    p = fmaf(p, r, 6.9314718e-01f);
    p = fmaf(p, r, 1.0f);
    int32_t n = (int32_t)(vbits(t) - vbits(shift)), half = n >> 1;
    return p * vfloat((uint32_t)(half + 127) << 23) * vfloat((uint32_t)(n - half + 127) << 23);
}

/* exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1) */
static inline float point_expm1(float x)
{
    const float shift = 0x1.8p23f;
    float       z = x > 89.0f ? 89.0f : x;
    z = z < -30.0f ? -30.0f : z;
    float t = fmaf(z, 0x1.715476p0f, shift), whole = t - shift;
    float r = fmaf(whole, -0x1.7f7d1cp-20f, fmaf(whole, -0x1.62e4p-1f, z));
    float p = 1.9841270e-04f; /* exp(r) - 1 = r + r^2 p(r) */
    p = fmaf(p, r, 1.3888889e-03f);
    p = fmaf(p, r, 8.3333333e-03f);
    p = fmaf(p, r, 4.1666668e-02f);
    p = fmaf(p, r, 1.6666667e-01f);
    p = fmaf(p, r, 0.5f);
    float   q = fmaf(r * r, p, r);
    int32_t n = (int32_t)(vbits(t) - vbits(shift)), half = n >> 1;
    /* two factors, so that 2^128 is not needed */
    float   one = vfloat((uint32_t)(half + 127) << 23),
          two = vfloat((uint32_t)(n - half + 127) << 23);
    float y = n > 60 ? (1.0f + q) * one * two : fmaf(q, one * two, one * two - 1.0f);
    return x == 0 ? x : y;
}

/* log2 of a normal, finite, positive x: exact for powers of two. */
static inline float point_log2_core(float x)
{
    uint32_t shifted = vbits(x) - 0x3f3504f3u; /* sqrt(1/2) */
    float    e = (float)((int32_t)shifted >> 23);
    float    f = vfloat((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float    p = -7.623061e-02f; /* log(1 + f) = f + f^2 p(f), as in vlog */
    p = fmaf(p, f, 1.2905502e-01f);
    p = fmaf(p, f, -1.3242981e-01f);
    p = fmaf(p, f, 1.4181635e-01f);
    p = fmaf(p, f, -1.6609056e-01f);
    p = fmaf(p, f, 2.0001985e-01f);
    p = fmaf(p, f, -2.5001585e-01f);
    p = fmaf(p, f, 3.3333325e-01f);
    p = fmaf(p, f, -4.9999988e-01f);
    float rest = f * f * p; /* log(1 + f) - f */
    /* 1 / ln 2 = 0x1.715476p0 + 0x1.4ae0c0p-26 */
    float high = f * 0x1.715476p0f, low = fmaf(f, 0x1.715476p0f, -high);
    low = fmaf(f, 0x1.4ae0c0p-26f, low);
    low = fmaf(rest, 0x1.715476p0f, low);
    return e + (high + low);
}

static inline float point_log2(float x)
{
    float scale = x < 0x1p-126f ? 0x1p23f : 1.0f, less = x < 0x1p-126f ? 23.0f : 0.0f;
    float y = point_log2_core(x * scale) - less;
    y = x < INFINITY ? y : x; /* infinity and NaN */
    y = x == 0 ? -INFINITY : y;
    return x < 0 ? NAN : y;
}

/* log(1 + x): from -1 on, and infinity stays. */
static inline float point_log1p(float x)
{
    float y = vlog1p(x);
    return x == -1.0f ? -INFINITY : x < INFINITY ? y : x;
}

/* Sine and cosine of r + k pi/2, |r| <= pi/4. pi/2 is taken away in three parts; up to this |x| the
 * rest is exact enough. */
#define POINT_SIN_MAX 100000.0f

static inline float point_sin_at(float x, int32_t quarter)
{
    const float shift = 0x1.8p23f;
    float       t = fmaf(x, 0x1.45f306p-1f, shift), k = t - shift;
    float       r = fmaf(k, -0x1.921fb4p0f, x);
    r = fmaf(k, -0x1.4442d0p-24f, r);
    r = fmaf(k, -0x1.846988p-48f, r);
    int32_t q = (int32_t)(vbits(t) - vbits(shift)) + quarter;
    float   z = r * r;
    float   s = 2.7181216e-06f; /* sin r = r + r^3 s(r^2) */
    s = fmaf(s, z, -1.9839313e-04f);
    s = fmaf(s, z, 8.3333291e-03f);
    s = fmaf(s, z, -1.6666667e-01f);
    float sine = fmaf(r * z, s, r);
    float c = 2.4433155e-05f; /* cos r = 1 - r^2 / 2 + r^4 c(r^2) */
    c = fmaf(c, z, -1.3887316e-03f);
    c = fmaf(c, z, 4.1666646e-02f);
    float cosine = fmaf(z * z, c, fmaf(z, -0.5f, 1.0f));
    float y = q & 1 ? cosine : sine;
    return vfloat(vbits(y) ^ ((uint32_t)(q & 2) << 30));
}

static inline float point_sin(float x) { return point_sin_at(x, 0); }
static inline float point_cos(float x) { return point_sin_at(x, 1); }

/* x^y for positive, normal x, in double: 2^(y log2 x). */
static inline float point_pow(float x, float y)
{
    uint32_t shifted = vbits(x) - 0x3f3504f3u;
    double   e = (double)((int32_t)shifted >> 23);
    double   m = (double)vfloat((shifted & 0x7fffffu) + 0x3f3504f3u);
    double   u = (m - 1.0) / (m + 1.0), z = u * u;
    double   p = 2.0 / 13; /* log m = 2 (u + u^3 / 3 + ...) */
    p = fma(p, z, 2.0 / 11);
    p = fma(p, z, 2.0 / 9);
    p = fma(p, z, 2.0 / 7);
    p = fma(p, z, 2.0 / 5);
    p = fma(p, z, 2.0 / 3);
    p = fma(p, z, 2.0);
    double l = fma(u * p, 1.4426950408889634, e) * (double)y;
    l = l > 1000.0 ? 1000.0 : l;
    l = l < -1000.0 ? -1000.0 : l;
    double t = l + 0x1.8p52, r = (l - (t - 0x1.8p52)) * 0.6931471805599453;
    double v = 1.0 / 5040; /* exp r */
    v = fma(v, r, 1.0 / 720);
    v = fma(v, r, 1.0 / 120);
    v = fma(v, r, 1.0 / 24);
    v = fma(v, r, 1.0 / 6);
    v = fma(v, r, 0.5);
    v = fma(v, r, 1.0);
    v = fma(v, r, 1.0);
    uint64_t bits;
    double   scale;
    memcpy(&bits, &t, 8);
    bits = (bits << 52) + 0x3ff0000000000000u;
    memcpy(&scale, &bits, 8);
    return (float)(v * scale);
}

/* What point_pow does not take. */
static inline int point_pow_special(float x, float y)
{
    return !(x >= 0x1p-126f && x < INFINITY && fabsf(y) < INFINITY);
}

/* ---- activations and their slopes: the forms of ops/elementwise/unary_cpu.c ---- */

static inline float point_silu(float x) { return x * vsigmoid(x); }
static inline float point_silu_slope(float x)
{
    float s = vsigmoid(x);
    return s * fmaf(x, 1.0f - s, 1.0f);
}

#define POINT_GELU_A 0.7978845608f /* sqrt(2 / pi) */
#define POINT_GELU_B (0.044715f * 0.7978845608f)

static inline float point_gelu_tanh(float x)
{
    return x * vsigmoid(2.0f * x * fmaf(POINT_GELU_B, x * x, POINT_GELU_A));
}

static inline float point_gelu_tanh_slope(float x)
{
    float z = x * x, s = vsigmoid(2.0f * x * fmaf(POINT_GELU_B, z, POINT_GELU_A));
    float du = fmaf(3.0f * POINT_GELU_B, z, POINT_GELU_A);
    return s * fmaf(2.0f * x * (1.0f - s), du, 1.0f);
}

/* x tanh(softplus(x)); with e = exp(x) and n = e (e + 2) the tangent is n / (n + 2). */
static inline float point_mish(float x)
{
    float e = vexp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
    return x > 20.0f ? x : x * (n / (n + 2.0f));
}

static inline float point_mish_slope(float x)
{
    float e = vexp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f), m = n + 2.0f;
    float t = n / m, slope = fmaf(x * vsigmoid(x), 4.0f * (n + 1.0f) / (m * m), t);
    return x > 20.0f ? 1.0f : slope;
}

static inline float point_round_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

#endif
