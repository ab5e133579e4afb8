/* convert.c -- converts rows between float types: to nearest, ties to even, NaN stays NaN.
 *
 * bf16 uses integer arithmetic, which the compiler vectorizes: the processor's instruction
 * (VCVTNEPS2BF16) flushes subnormals and would differ from the scalar form in convert.h.
 * f16 uses F16C where the processor has it (every x86-64-v3 machine). Conversion between the two
 * 2-byte types goes through fp32, which holds both exactly, so a value is rounded once.
 */
#include "device/convert.h"

#include "base/err.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#ifndef __F16C__
/* The plain forms, for processors without F16C. */
static float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u;
    uint32_t mantissa = h & 1023u, bits;
    float    f;
    if (exponent == 31)
        bits = sign | 0x7F800000u | (mantissa ? mantissa << 13 | 0x400000u : 0u);
    else if (exponent)
        bits = sign | (exponent + 112u) << 23 | mantissa << 13;
    else {
        f = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t f32_to_f16(float f)
{
    uint32_t bits, sign, rounded;
    memcpy(&bits, &f, 4);
    sign = bits >> 16 & 0x8000u;
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u | (bits >> 13 & 0x3FFu));
    if (bits >= 0x477FF000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7C00u);
    if (bits >= 0x38800000u)
        return (uint16_t)(sign | (bits - 0x38000000u + 0xFFFu + (bits >> 13 & 1u)) >> 13);
    /* subnormal: the processor's addition rounds */
    float scaled, magic = 0.5f;
    memcpy(&scaled, &bits, 4);
    scaled += magic;
    memcpy(&rounded, &scaled, 4);
    return (uint16_t)(sign | (rounded - 0x3F000000u));
}
#endif

static void convert_bf16_up(float *restrict dst, const uint16_t *restrict src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = bf16_to_f32(src[i]);
}

static void convert_bf16_down(uint16_t *restrict dst, const float *restrict src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f32_to_bf16(src[i]);
}

static void convert_f16_up(float *restrict dst, const uint16_t *restrict src, size_t n)
{
#ifdef __F16C__
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(src + i))));
    for (; i < n; i++)
        dst[i] = _cvtsh_ss(src[i]);
#else
    for (size_t i = 0; i < n; i++)
        dst[i] = f16_to_f32(src[i]);
#endif
}

static void convert_f16_down(uint16_t *restrict dst, const float *restrict src, size_t n)
{
#ifdef __F16C__
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i_u *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        dst[i] = (uint16_t)_cvtss_sh(src[i], _MM_FROUND_TO_NEAREST_INT);
#else
    for (size_t i = 0; i < n; i++)
        dst[i] = f32_to_f16(src[i]);
#endif
}

static void convert_up(float *dst, Type from, const void *src, size_t n)
{
    if (from == BF16)
        convert_bf16_up(dst, src, n);
    else
        convert_f16_up(dst, src, n);
}

static void convert_down(Type to, void *dst, const float *src, size_t n)
{
    if (to == BF16)
        convert_bf16_down(dst, src, n);
    else
        convert_f16_down(dst, src, n);
}

void convert_rows(Type to, void *dst, Type from, const void *src, size_t n)
{
    REQUIRE(type_is_float(to) && type_is_float(from));
    if (n == 0)
        return;
    if (to == from) {
        memmove(dst, src, n * (size_t)type_bytes(to));
    } else if (to == F32) {
        convert_up(dst, from, src, n);
    } else if (from == F32) {
        convert_down(to, dst, src, n);
    } else {
        enum { BLOCK = 256 };
        float block[BLOCK];
        for (size_t i = 0; i < n; i += BLOCK) {
            size_t some = n - i < BLOCK ? n - i : BLOCK;
            convert_up(block, from, (const uint16_t *)src + i, some);
            convert_down(to, (uint16_t *)dst + i, block, some);
        }
    }
}
