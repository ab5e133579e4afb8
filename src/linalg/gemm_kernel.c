/* gemm_kernel.c -- the arithmetic of the built-in matrix product, and the packing of panels.
 *
 * The compiler's vector types make the same code AVX-512, AVX2 or SSE. One function is instantiated
 * for every number of rows and for one or two vectors of columns, with all loops over sums
 * unrolled: the sums stay in registers, and edges cost no more than their size. */
#include "linalg/gemm.h"

#include "device/convert.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic           ignored "-Wpsabi" /* vectors pass between inlined functions only */
#endif

typedef float Vec __attribute__((vector_size(4 * GEMM_LANES), aligned(4), may_alias));

/* clang splits 512-bit vector types in two unless an intrinsic asks for the width. */
static inline __attribute__((always_inline)) Vec kernel_madd(float a, Vec b, Vec sum)
{
#ifdef __AVX512F__
    return (Vec)_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)b, (__m512)sum);
#else
    return a * b + sum;
#endif
}

/* in_place: rows of A are lda apart. Every third row has a pointer; the two rows after it are at
 * lda and 2*lda, which the addressing modes reach at no cost. */
static inline __attribute__((always_inline)) void
kernel_tile(const int rows, const int vectors, const bool in_place, const GemmTile *t)
{
    enum { GROUPS = (GEMM_MR + 2) / 3 };
    Vec           sum[GEMM_MR][2];
    const float  *a = t->a, *b = t->b, *third[GROUPS];
    const int64_t k_end = t->k, b_step = t->b_step, lda = t->lda;
#pragma GCC unroll 5
    for (int g = 0; g < GROUPS; g++)
        third[g] = in_place && 3 * g < rows ? a + 3 * g * lda : a;
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->sums ? *(const Vec *)(t->sums + r * GEMM_NR + v * GEMM_LANES)
                                : (Vec){ 0 };
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) /* prefetch C for the end */
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            __builtin_prefetch(t->c + r * t->ldc + v * GEMM_LANES, 1);
    for (int64_t k = 0; k < k_end; k++, b += b_step) {
        Vec b0 = *(const Vec *)b, b1 = b0;
        __builtin_prefetch(b + GEMM_AHEAD * b_step);
        if (vectors == 2) {
            b1 = *(const Vec *)(b + GEMM_LANES);
            __builtin_prefetch(b + GEMM_AHEAD * b_step + GEMM_LANES);
        }
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            float ar = in_place ? third[r / 3][r % 3 * lda] : a[r];
            sum[r][0] = kernel_madd(ar, b0, sum[r][0]);
            if (vectors == 2)
                sum[r][1] = kernel_madd(ar, b1, sum[r][1]);
        }
        a += rows;
#pragma GCC unroll 5
        for (int g = 0; g < GROUPS; g++)
            third[g]++;
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            Vec *c = (Vec *)(t->c + r * t->ldc + v * GEMM_LANES);
            Vec  x = t->alpha * sum[r][v] + *(const Vec *)(t->init + v * GEMM_LANES);
            if (t->add)
                x += *c;
            *c = x;
        }
}

#define KERNELS(rows)                                                                              \
    static void kernel_##rows##_1(const GemmTile *t) { kernel_tile(rows, 1, false, t); }           \
    static void kernel_##rows##_2(const GemmTile *t) { kernel_tile(rows, 2, false, t); }           \
    static void in_place_##rows##_1(const GemmTile *t) { kernel_tile(rows, 1, true, t); }          \
    static void in_place_##rows##_2(const GemmTile *t) { kernel_tile(rows, 2, true, t); }
#define ENTRY(rows)                                                                                \
    { kernel_##rows##_1, kernel_##rows##_2, in_place_##rows##_1, in_place_##rows##_2 },
#define ROWS_4(X)  X(1) X(2) X(3) X(4)
#define ROWS_6(X)  ROWS_4(X) X(5) X(6)
#define ROWS_14(X) ROWS_6(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#ifdef __AVX512F__
#define ROWS ROWS_14
#elif defined __AVX__
#define ROWS ROWS_6
#else
#define ROWS ROWS_4
#endif

ROWS(KERNELS)

void gemm_kernel(int64_t rows, int vectors, const GemmTile *tile)
{
    static void (*const kernels[GEMM_MR][4])(const GemmTile *) = { ROWS(ENTRY) };
    kernels[rows - 1][vectors - 1 + (tile->lda ? 2 : 0)](tile);
}

/* A square of GEMM_LANES x GEMM_LANES floats, transposed in log2 steps (Eklundh 1972): step s swaps
 * the off-diagonal halves of every 2s x 2s block. */
#ifdef __AVX512F__
#define MASK_LO(s)                                                                                 \
    LO(s, 0), LO(s, 1), LO(s, 2), LO(s, 3), LO(s, 4), LO(s, 5), LO(s, 6), LO(s, 7), LO(s, 8),      \
        LO(s, 9), LO(s, 10), LO(s, 11), LO(s, 12), LO(s, 13), LO(s, 14), LO(s, 15)
#define MASK_HI(s)                                                                                 \
    HI(s, 0), HI(s, 1), HI(s, 2), HI(s, 3), HI(s, 4), HI(s, 5), HI(s, 6), HI(s, 7), HI(s, 8),      \
        HI(s, 9), HI(s, 10), HI(s, 11), HI(s, 12), HI(s, 13), HI(s, 14), HI(s, 15)
#elif defined __AVX__
#define MASK_LO(s) LO(s, 0), LO(s, 1), LO(s, 2), LO(s, 3), LO(s, 4), LO(s, 5), LO(s, 6), LO(s, 7)
#define MASK_HI(s) HI(s, 0), HI(s, 1), HI(s, 2), HI(s, 3), HI(s, 4), HI(s, 5), HI(s, 6), HI(s, 7)
#else
#define MASK_LO(s) LO(s, 0), LO(s, 1), LO(s, 2), LO(s, 3)
#define MASK_HI(s) HI(s, 0), HI(s, 1), HI(s, 2), HI(s, 3)
#endif
#define LO(s, lane) ((lane) & (s) ? GEMM_LANES + (lane) - (s) : (lane))
#define HI(s, lane) ((lane) & (s) ? GEMM_LANES + (lane) : (lane) + (s))
#define TRANSPOSE_STEP(x, s)                                                                       \
    _Pragma("GCC unroll 16") for (int i = 0; i < GEMM_LANES; i++) if (!(i & (s)))                  \
    {                                                                                              \
        Vec lo = __builtin_shufflevector(x[i], x[i + (s)], MASK_LO(s));                            \
        Vec hi = __builtin_shufflevector(x[i], x[i + (s)], MASK_HI(s));                            \
        x[i] = lo;                                                                                 \
        x[i + (s)] = hi;                                                                           \
    }

/* GEMM_LANES rows. Whole vectors are stored in the order of k: what one store writes too much, the
 * next overwrites. */
static inline void interleave_lanes(float *dst, int64_t width, const float *const *rows, int64_t n)
{
    int64_t k = 0;
    while (k < n && n >= GEMM_LANES) {
        Vec x[GEMM_LANES];
        k = int_min(k, n - GEMM_LANES); /* the last square overlaps the one before */
#pragma GCC unroll 16
        for (int r = 0; r < GEMM_LANES; r++)
            x[r] = *(const Vec *)(rows[r] + k);
        TRANSPOSE_STEP(x, 1)
        TRANSPOSE_STEP(x, 2)
#ifdef __AVX__
        TRANSPOSE_STEP(x, 4)
#endif
#ifdef __AVX512F__
        TRANSPOSE_STEP(x, 8)
#endif
#pragma GCC unroll 16
        for (int i = 0; i < GEMM_LANES; i++)
            *(Vec *)(dst + (k + i) * width) = x[i];
        k += GEMM_LANES;
    }
    int64_t filled = int_min(width, GEMM_LANES);
    for (; k < n; k++)
        for (int64_t r = 0; r < filled; r++)
            dst[k * width + r] = rows[r][k];
}

void gemm_interleave(float *dst, int64_t width, const float *const rows[GEMM_NR], int64_t count,
                     int64_t n)
{
    static const float zeros[GEMM_KC];
    const float       *all[GEMM_NR];
    for (int64_t r = 0; r < GEMM_NR; r++)
        all[r] = r < count ? rows[r] : zeros;
    interleave_lanes(dst, width, all, n);
    if (width > GEMM_LANES)
        interleave_lanes(dst + GEMM_LANES, width, all + GEMM_LANES, n);
}

void gemm_pack_along_k(const GemmSide *side, int64_t i0, int64_t count, int64_t width, int64_t k0,
                       int64_t kk, float *dst)
{
    const float *rows[GEMM_NR];
    float        part[GEMM_NR][GEMM_KC];
    for (int64_t r = 0; r < count; r++)
        rows[r] = row_load(side->type, side->data, (i0 + r) * side->ld + k0, kk, part[r]);
    gemm_interleave(dst, width, rows, count, kk);
}

void gemm_pack_along_i(const GemmSide *side, int64_t i0, int64_t count, int64_t width, int64_t k0,
                       int64_t kk, float *dst)
{
    int64_t at = k0 * side->ld + i0;
    if (side->type == F32 && count == GEMM_NR) {
        const float *src = (const float *)side->data + at;
        for (int64_t k = 0; k < kk; k++, src += side->ld, dst += GEMM_NR) {
            Vec lo = *(const Vec *)src, hi = *(const Vec *)(src + GEMM_LANES);
            *(Vec *)dst = lo;
            *(Vec *)(dst + GEMM_LANES) = hi;
        }
        return;
    }
    for (int64_t k = 0; k < kk; k++, at += side->ld, dst += width) {
        if (side->type == F32)
            gemm_copy(dst, (const float *)side->data + at, count);
        else
            row_load(side->type, side->data, at, count, dst);
        for (int64_t r = count; r < width; r++)
            dst[r] = 0.0f;
    }
}

GemmSide gemm_matrix(bool along_i, Type type, const void *data, int64_t ld)
{
    return (GemmSide){ .pack = along_i ? gemm_pack_along_i : gemm_pack_along_k,
                       .along_i = along_i,
                       .block = gemm_block_matrix,
                       .type = type,
                       .data = data,
                       .ld = ld };
}
