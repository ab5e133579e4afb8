/* wgmma.h -- Hopper's instructions for convolutions: boxes copied by the TMA, and products of a
 * warpgroup from shared memory.
 *
 * A box has rows of 128 bytes whose 16-byte chunks are permuted within each eight rows (the
 * 128-byte swizzle). It can be used with the summed index along its rows (K-major) or down its
 * columns (MN-major). */
#ifndef DEVICE_WGMMA_H
#define DEVICE_WGMMA_H

#include "device/hopper.h"

#include <cuda.h>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ void box_fetch3(void *to, const CUtensorMap *map, uint64_t *full, int a,
                                           int b, int c)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(smem_at(to)),
                 "l"(map), "r"(smem_at(full)), "r"(a), "r"(b), "r"(c)
                 : "memory");
}
__device__ __forceinline__ void box_fetch5(void *to, const CUtensorMap *map, uint64_t *full, int a,
                                           int b, int c, int d, int e)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, "
                 "%7}], [%2];" ::"r"(smem_at(to)),
                 "l"(map), "r"(smem_at(full)), "r"(a), "r"(b), "r"(c), "r"(d), "r"(e)
                 : "memory");
}
__device__ __forceinline__ void box_store5(const CUtensorMap *map, const void *from, int a, int b,
                                           int c, int d, int e)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, "
                 "%6}], [%1];" ::"l"(map),
                 "r"(smem_at(from)), "r"(a), "r"(b), "r"(c), "r"(d), "r"(e)
                 : "memory");
}
__device__ __forceinline__ void box_stores_end()
{
    asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
}

/* The matrix descriptor of a factor: groups of eight rows are 1024 bytes apart, neighbouring boxes
 * `leading` bytes. */
__device__ __forceinline__ uint64_t factor_at(const void *p, int leading)
{
    return (uint64_t)((smem_at(p) & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#define R8(a, b, c, d, e, f, g, h) "%" #a ",%" #b ",%" #c ",%" #d ",%" #e ",%" #f ",%" #g ",%" #h
#define R_64                                                                                       \
    R8(0, 1, 2, 3, 4, 5, 6, 7)                                                                     \
    "," R8(8, 9, 10, 11, 12, 13, 14, 15) "," R8(16, 17, 18, 19, 20, 21, 22,                        \
                                                23) "," R8(24, 25, 26, 27, 28, 29, 30, 31)
#define R_128                                                                                      \
    R_64 "," R8(32, 33, 34, 35, 36, 37, 38, 39) "," R8(40, 41, 42, 43, 44, 45, 46, 47) "," R8(     \
        48, 49, 50, 51, 52, 53, 54, 55) "," R8(56, 57, 58, 59, 60, 61, 62, 63)
#define R_192                                                                                      \
    R_128 "," R8(64, 65, 66, 67, 68, 69, 70, 71) "," R8(72, 73, 74, 75, 76, 77, 78, 79) "," R8(    \
        80, 81, 82, 83, 84, 85, 86, 87) "," R8(88, 89, 90, 91, 92, 93, 94, 95)
#define R_256                                                                                      \
    R_192 "," R8(96, 97, 98, 99, 100, 101, 102,                                                    \
                 103) "," R8(104, 105, 106, 107, 108, 109, 110,                                    \
                             111) "," R8(112, 113, 114, 115, 116, 117, 118,                        \
                                         119) "," R8(120, 121, 122, 123, 124, 125, 126, 127)
#define C4(i)  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define C16(i) C4(i), C4(i + 4), C4(i + 8), C4(i + 12)
#define C_64   C16(0), C16(16)
#define C_128  C_64, C16(32), C16(48)
#define C_192  C_128, C16(64), C16(80)
#define C_256  C_192, C16(96), C16(112)
#define PRODUCT(N, A, B, TA, TB, KIND)                                                             \
    asm volatile("{\n .reg .pred p;\n setp.eq.u32 p, 0, 0;\n"                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND "." KIND " {" R_##N        \
                 "}, %" #A ", %" #B ", p, 1, 1, %" #TA ", %" #TB ";\n}"                            \
                 : C_##N                                                                           \
                 : "l"(x), "l"(y), "n"(TRANSPOSE_X), "n"(TRANSPOSE_Y))
#define PRODUCT_OF(type, kind)                                                                     \
    template <int N, int TRANSPOSE_X, int TRANSPOSE_Y>                                             \
    __device__ __forceinline__ void product(float(&c)[N / 2], uint64_t x, uint64_t y, type)        \
    {                                                                                              \
        if constexpr (N == 64)                                                                     \
            PRODUCT(64, 32, 33, 34, 35, kind);                                                     \
        else if constexpr (N == 128)                                                               \
            PRODUCT(128, 64, 65, 66, 67, kind);                                                    \
        else if constexpr (N == 192)                                                               \
            PRODUCT(192, 96, 97, 98, 99, kind);                                                    \
        else                                                                                       \
            PRODUCT(256, 128, 129, 130, 131, kind);                                                \
    }
/* c += x y over 16 of the summed index, 64 rows by N columns; TRANSPOSE: that factor is MN-major.
 * Only queues the product. */
PRODUCT_OF(__nv_bfloat16, "bf16")
PRODUCT_OF(__half, "f16")
#undef PRODUCT_OF
#undef PRODUCT

#endif
#endif
