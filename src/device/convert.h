/* convert.h -- converts rows of any float type to fp32 and back, so that kernels are written once.
 *
 *   const float *x = row_load(type, pointer, first, n, buffer);    // F32: the row itself, no copy
 *   float       *y = row_open(type, pointer, first, buffer);       // where to write n fp32 values
 *   row_store(type, pointer, first, n, y);                         // F32: nothing left to do
 *
 * Rounding to bf16 and f16 is to nearest, ties to even; NaN stays NaN.
 */
#ifndef DEVICE_CONVERT_H
#define DEVICE_CONVERT_H

#include "device/type.h"

#include <stddef.h>

static inline float bf16_to_f32(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float    f;
    memcpy(&f, &bits, 4);
    return f;
}

/* For numbers, and for a NaN whose low half is zero, as arithmetic on bf16 values gives. */
static inline uint16_t bf16_rounded(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline uint16_t f32_to_bf16(float f) /* for any NaN too: a carry must not reach its sign */
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)(f != f ? quiet : bf16_rounded(f));
}

void convert_rows(Type to, void *dst, Type from, const void *src, size_t n); /* any float pair */

static inline const float *row_load(Type type, const void *p, int64_t first, int64_t n,
                                    float *buffer)
{
    if (type == F32)
        return (const float *)p + first;
    convert_rows(F32, buffer, type, (const char *)p + first * type_bytes(type), (size_t)n);
    return buffer;
}

/* to[0..n) += p[first..first + n) */
static inline void row_add(Type type, const void *p, int64_t first, int64_t n, float *to)
{
    enum { BLOCK = 256 };
    float buffer[BLOCK];
    for (int64_t c = 0; c < n; c += BLOCK) {
        int64_t      m = n - c < BLOCK ? n - c : BLOCK;
        const float *x = row_load(type, p, first + c, m, buffer);
        for (int64_t j = 0; j < m; j++)
            to[c + j] += x[j];
    }
}

static inline float *row_open(Type type, void *p, int64_t first, float *buffer)
{
    return type == F32 ? (float *)p + first : buffer;
}

static inline void row_store(Type type, void *p, int64_t first, int64_t n, const float *row)
{
    if (type != F32)
        convert_rows(type, (char *)p + first * type_bytes(type), F32, row, (size_t)n);
}

#endif
