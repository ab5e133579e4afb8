/* attention_mma.h -- tensor-core building blocks for attention: rows in shared memory, fragments,
 * products.
 *
 * Rows in shared memory are D elements and 16 bytes apart, so that a warp's reads of eight rows
 * fall into different banks. Heads narrower than D and rows beyond the end are padded with zeros.
 * Floats are rounded to tf32 when they are loaded as factors.
 */
#ifndef OPS_ATTENTION_ATTENTION_MMA_H
#define OPS_ATTENTION_ATTENTION_MMA_H

#include "device/hopper.h"
#include "ops/attention/attention_cuda.h"

enum { MMA_THREADS = 128 };

/* ROW: elements between rows. FRAGMENT: registers for 16 values of the summed index, by 16 rows on
 * the left or two blocks of 8 columns on the right. */
template <class T, int D> constexpr int ROW = D + 16 / (int)sizeof(T);
template <class T> constexpr int        FRAGMENT = 2 * (int)sizeof(T);

__device__ __forceinline__ float fast_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Copies COPY bytes (4, 8, 16): reads `size` of them, the rest are zeros. */
template <int COPY>
__device__ __forceinline__ void cp_async(uint32_t at, const void *from, int size)
{
    if (COPY == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size)
                     : "memory");
    else if (COPY == 8)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(size)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(size)
                     : "memory");
}
/* Copies `bytes`, or zeros if the source is not there. */
__device__ __forceinline__ void copy_async(void *to, const void *from, int bytes, bool there)
{
    if (bytes == 16)
        cp_async<16>(smem_at(to), from, there ? 16 : 0);
    else if (bytes == 8)
        cp_async<8>(smem_at(to), from, there ? 8 : 0);
    else
        cp_async<4>(smem_at(to), from, there ? 4 : 0);
}
__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Loads ROWS rows of x, n of which exist. Neighbouring threads share a row. Only the first `width`
 * columns are written. */
template <class T, int D, int ROWS>
__device__ __forceinline__ void rows_load(T (*to)[ROW<T, D>], const T *x, int64_t ld, int64_t n,
                                          int width, int copy)
{
    constexpr int size = (int)sizeof(T);
    int count = width * size / copy, step = MMA_THREADS / count, first = (int)threadIdx.x / count,
        c = (int)threadIdx.x % count * (copy / size);
    const T *from = x + (int64_t)first * ld + c;
    if (first >= step)
        return;
    for (int r = first; r < ROWS; r += step) {
        bool there = r < n;
        if (copy > 2)
            copy_async(&to[r][c], there ? from : x, copy, there);
        else
            to[r][c] = there ? *from : T(0.0f);
        from += step * ld;
    }
}

__device__ __forceinline__ void shared_clear(void *p, int bytes) /* a multiple of 16 */
{
    for (int i = (int)threadIdx.x; i < bytes / 16; i += MMA_THREADS)
        ((uint4 *)p)[i] = make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_at(p))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_transposed(uint32_t (&r)[4], const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_at(p))
                 : "memory");
}

__device__ __forceinline__ uint32_t tf32(float x)
{
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

/* Fragments. A: 16 rows by 16 of the summed index. B from rows: two blocks of 8 rows of y, the
 * summed index along the row (x y^T). B from columns: two blocks of 8 columns, the summed index
 * down the rows (p y). The first half of the registers is the first block of B, the second half the
 * second. Floats take two steps of 8. Down the rows they are ordered as scores lie in registers,
 * neighbours in one thread; fragment_of_scores uses the same order. */
template <class T, int D>
__device__ __forceinline__ void fragment_a(uint32_t (&r)[FRAGMENT<T>], T (*x)[ROW<T, D>], int row,
                                           int k)
{
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if constexpr (sizeof(T) == 2) {
        ldmatrix(r, &x[row + lane % 16][k + lane / 16 * 8]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            r[i] = tf32(x[row + g + i % 2 * 8][k + i / 4 * 8 + i / 2 % 2 * 4 + t]);
    }
}
template <class T, int D>
__device__ __forceinline__ void fragment_b_rows(uint32_t (&r)[FRAGMENT<T>], T (*y)[ROW<T, D>],
                                                int row, int k)
{
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if constexpr (sizeof(T) == 2) {
        ldmatrix(r, &y[row + lane % 8 + lane / 16 * 8][k + lane / 8 % 2 * 8]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            r[i] = tf32(y[row + i / 4 * 8 + g][k + i % 4 * 4 + t]);
    }
}
template <class T, int D>
__device__ __forceinline__ void fragment_b_columns(uint32_t (&r)[FRAGMENT<T>], T (*y)[ROW<T, D>],
                                                   int k, int column)
{
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if constexpr (sizeof(T) == 2) {
        ldmatrix_transposed(r, &y[k + lane % 16][column + lane / 16 * 8]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            r[i] = tf32(y[k + i / 2 % 2 * 8 + 2 * t + i % 2][column + i / 4 * 8 + g]);
    }
}

/* c += a b, where b is one block of 8 columns. */
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b, bf16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b, f16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[8], const uint32_t *b, float)
{
#pragma unroll
    for (int k = 0; k < 2; k++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[4 * k]), "r"(a[4 * k + 1]), "r"(a[4 * k + 2]), "r"(a[4 * k + 3]),
                       "r"(b[2 * k]), "r"(b[2 * k + 1]));
}

__device__ __forceinline__ uint32_t pair(float lo, float hi, bf16)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *(uint32_t *)&v;
}
__device__ __forceinline__ uint32_t pair(float lo, float hi, f16)
{
    __half2 v = __floats2half2_rn(lo, hi);
    return *(uint32_t *)&v;
}

/* Makes two neighbouring blocks of scores the left-hand side of the next product. */
template <class T>
__device__ __forceinline__ void fragment_of_scores(uint32_t (&r)[FRAGMENT<T>], const float (&lo)[4],
                                                   const float (&hi)[4])
{
    if constexpr (sizeof(T) == 2) {
        r[0] = pair(lo[0], lo[1], T());
        r[1] = pair(lo[2], lo[3], T());
        r[2] = pair(hi[0], hi[1], T());
        r[3] = pair(hi[2], hi[3], T());
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            r[i] = tf32(lo[i % 2 * 2 + i / 2]);
            r[4 + i] = tf32(hi[i % 2 * 2 + i / 2]);
        }
    }
}

/* s = x[row..row+16) y^T over N rows of y. */
template <class T, int D, int N>
__device__ __forceinline__ void product_rows(float (&s)[N / 8][4], T (*x)[ROW<T, D>], int row,
                                             T (*y)[ROW<T, D>])
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t a[FRAGMENT<T>];
        fragment_a<T, D>(a, x, row, k);
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            uint32_t b[FRAGMENT<T>];
            fragment_b_rows<T, D>(b, y, n * 16, k);
            mma(s[2 * n], a, b, T());
            mma(s[2 * n + 1], a, b + FRAGMENT<T> / 2, T());
        }
    }
}

/* acc += s y: s is 16 rows by N, y has N rows of D columns. */
template <class T, int D, int N>
__device__ __forceinline__ void product_columns(float (&acc)[D / 8][4], const float (&s)[N / 8][4],
                                                T (*y)[ROW<T, D>])
{
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        uint32_t a[FRAGMENT<T>];
        fragment_of_scores<T>(a, s[2 * k], s[2 * k + 1]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t b[FRAGMENT<T>];
            fragment_b_columns<T, D>(b, y, k * 16, d * 16);
            mma(acc[2 * d], a, b, T());
            mma(acc[2 * d + 1], a, b + FRAGMENT<T> / 2, T());
        }
    }
}

/* Sets scores to `hidden` from column `end` on and, if asked, on the diagonal, which passes through
 * row 0 at column `self`. */
template <int N>
__device__ __forceinline__ void scores_mask(float (&s)[N / 8][4], float hidden, int64_t end,
                                            bool diagonal, int self)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4, last = (int)min(end, (int64_t)N);
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int c = n * 8 + 2 * t + (e & 1);
            if (c >= last || (diagonal && c == self + g + e / 2 * 8))
                s[n][e] = hidden;
        }
}

/* Stores a fragment of 16 rows: a thread holds rows g and g + 8, columns 2t and 2t + 1 of each
 * block of 8. */
template <class T, int D>
__device__ __forceinline__ void fragment_store(T *to, int64_t ld, int64_t n, int width, bool pairs,
                                               const float (&acc)[D / 8][4], float first,
                                               float second)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    T  *rows[2] = { to + g * ld + 2 * t, to + (g + 8) * ld + 2 * t };
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            int   c = 8 * d + 2 * t;
            float factor = half ? second : first;
            float lo = acc[d][2 * half] * factor, hi = acc[d][2 * half + 1] * factor;
            if (g + 8 * half >= n || c >= width)
                continue;
            if (pairs) { /* even width, aligned pairs */
                if constexpr (sizeof(T) == 2)
                    *(uint32_t *)(rows[half] + 8 * d) = pair(lo, hi, T());
                else
                    *(float2 *)(rows[half] + 8 * d) = make_float2(lo, hi);
            } else {
                put(rows[half], 8 * d, lo);
                if (c + 1 < width)
                    put(rows[half], 8 * d + 1, hi);
            }
        }
}

/* Runs the statements with D the smallest size that a head fits in. */
#define WITH_WIDTH(width, D, ...)                                                                  \
    do {                                                                                           \
        if ((width) <= 16) {                                                                       \
            constexpr int D = 16;                                                                  \
            __VA_ARGS__                                                                            \
        } else if ((width) <= 32) {                                                                \
            constexpr int D = 32;                                                                  \
            __VA_ARGS__                                                                            \
        } else if ((width) <= 64) {                                                                \
            constexpr int D = 64;                                                                  \
            __VA_ARGS__                                                                            \
        } else if ((width) <= 80) {                                                                \
            constexpr int D = 80;                                                                  \
            __VA_ARGS__                                                                            \
        } else {                                                                                   \
            constexpr int D = 128;                                                                 \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

#endif
