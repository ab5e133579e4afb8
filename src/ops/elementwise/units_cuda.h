/* units_cuda.h -- copying bytes in the widest unit, up to 16 bytes, that all extents and pointers
 * allow. */
#ifndef OPS_ELEMENTWISE_UNITS_CUDA_H
#define OPS_ELEMENTWISE_UNITS_CUDA_H

#include <cuda_runtime.h>
#include <stdint.h>

/* The largest power of 2 up to `unit` that divides `bytes`. */
static inline int unit_of(int unit, int64_t bytes)
{
    while (bytes % unit)
        unit /= 2;
    return unit;
}

static inline int unit_of_pointer(int unit, const void *p)
{
    return unit_of(unit, (int64_t)((uintptr_t)p % 16));
}

/* Runs the statements with U a type of that many bytes, for which U{} is zero. */
#define WITH_UNIT(unit, U, ...)                                                                    \
    switch (unit) {                                                                                \
    case 16: {                                                                                     \
        typedef uint4 U;                                                                           \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case 8: {                                                                                      \
        typedef uint2 U;                                                                           \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case 4: {                                                                                      \
        typedef uint32_t U;                                                                        \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case 2: {                                                                                      \
        typedef uint16_t U;                                                                        \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    default: {                                                                                     \
        typedef uint8_t U;                                                                         \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    }

#endif
