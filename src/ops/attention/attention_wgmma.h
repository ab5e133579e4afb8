/* attention_wgmma.h -- building blocks for attention on Hopper: warpgroup products, online softmax.
 *
 * A warpgroup (4 warps) multiplies 64 rows at a time. The right-hand side is read from shared
 * memory, the left-hand side from shared memory or registers. Results have the register layout of
 * mma.sync. */
#ifndef OPS_ATTENTION_ATTENTION_WGMMA_H
#define OPS_ATTENTION_ATTENTION_WGMMA_H

#include "ops/attention/attention_mma.h"

/* Runs the statements with COPY, the bytes per copy, as a constant. */
#define WITH_COPY(copy, COPY, ...)                                                                 \
    do {                                                                                           \
        if ((copy) == 16) {                                                                        \
            constexpr int COPY = 16;                                                               \
            __VA_ARGS__                                                                            \
        } else if ((copy) == 8) {                                                                  \
            constexpr int COPY = 8;                                                                \
            __VA_ARGS__                                                                            \
        } else {                                                                                   \
            constexpr int COPY = 4;                                                                \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- products ---- */

/* Keeps the compiler from moving uses of c across this point. */
template <int N> __device__ __forceinline__ void hold(float (&c)[N][4])
{
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+f"(c[i][e])::"memory");
}

#define R_8      "%0,%1,%2,%3"
#define R_16     R_8 ",%4,%5,%6,%7"
#define R_32     "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R_48     R_32 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define R_56     R_48 ",%24,%25,%26,%27"
#define R_64     R_56 ",%28,%29,%30,%31"
#define R_72     R_64 ",%32,%33,%34,%35"
#define R_80     R_72 ",%36,%37,%38,%39"
#define R_96     R_80 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define R_128    R_96 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define C(m, i)  m(c[i][0]), m(c[i][1]), m(c[i][2]), m(c[i][3])
#define C_8(m)   C(m, 0)
#define C_16(m)  C_8(m), C(m, 1)
#define C_32(m)  C(m, 0), C(m, 1), C(m, 2), C(m, 3)
#define C_48(m)  C_32(m), C(m, 4), C(m, 5)
#define C_56(m)  C_48(m), C(m, 6)
#define C_64(m)  C_56(m), C(m, 7)
#define C_72(m)  C_64(m), C(m, 8)
#define C_80(m)  C_72(m), C(m, 9)
#define C_96(m)  C_80(m), C(m, 10), C(m, 11)
#define C_128(m) C_96(m), C(m, 12), C(m, 13), C(m, 14), C(m, 15)
#define C_SET(x) "=f"(x)
#define C_ADD(x) "+f"(x)

/* Operand numbers follow the N/2 results. A result that is set must not be an input operand too:
 * the copy into its registers would make the compiler wait for all pending products. */
#define WGMMA_TILES(N, A, B, ADD, XD, YD, KIND)                                                    \
    do {                                                                                           \
        if (add)                                                                                   \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #ADD ", 0;\n"                      \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND "." KIND           \
                         " {" R_##N "}, %" #A ", %" #B ", p, 1, 1, %" #XD ", %" #YD ";\n}"         \
                         : C_##N(C_ADD)                                                            \
                         : "l"(x), "l"(y), "r"(1), "n"((int)xd), "n"((int)yd));                    \
        else                                                                                       \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #ADD ", 0;\n"                      \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND "." KIND           \
                         " {" R_##N "}, %" #A ", %" #B ", p, 1, 1, %" #XD ", %" #YD ";\n}"         \
                         : C_##N(C_SET)                                                            \
                         : "l"(x), "l"(y), "r"(0), "n"((int)xd), "n"((int)yd));                    \
    } while (0)
#define WGMMA_REGISTERS(N, A0, A1, A2, A3, B, ADD, YD, KIND)                                       \
    do {                                                                                           \
        if (add)                                                                                   \
            asm volatile(                                                                          \
                "{\n .reg .pred p;\n setp.ne.b32 p, %" #ADD ", 0;\n"                               \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND "." KIND " {" R_##N         \
                "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", p, 1, 1, %" #YD ";\n}"         \
                : C_##N(C_ADD)                                                                     \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(y), "r"(1), "n"((int)yd));       \
        else                                                                                       \
            asm volatile(                                                                          \
                "{\n .reg .pred p;\n setp.ne.b32 p, %" #ADD ", 0;\n"                               \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND "." KIND " {" R_##N         \
                "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", p, 1, 1, %" #YD ";\n}"         \
                : C_##N(C_SET)                                                                     \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(y), "r"(0), "n"((int)yd));       \
    } while (0)

#define WGMMA_OF(type, kind)                                                                       \
    /* xd, yd: the summed index goes down x or y, not along its rows */                            \
    template <int N, bool add, bool xd = false, bool yd = false>                                   \
    __device__ __forceinline__ void wgmma(float(&c)[N / 8][4], uint64_t x, uint64_t y, type)       \
    {                                                                                              \
        if constexpr (N == 32)                                                                     \
            WGMMA_TILES(32, 16, 17, 18, 19, 20, kind);                                             \
        else if constexpr (N == 48)                                                                \
            WGMMA_TILES(48, 24, 25, 26, 27, 28, kind);                                             \
        else if constexpr (N == 56)                                                                \
            WGMMA_TILES(56, 28, 29, 30, 31, 32, kind);                                             \
        else if constexpr (N == 96)                                                                \
            WGMMA_TILES(96, 48, 49, 50, 51, 52, kind);                                             \
        else if constexpr (N == 128)                                                               \
            WGMMA_TILES(128, 64, 65, 66, 67, 68, kind);                                            \
        else                                                                                       \
            WGMMA_TILES(64, 32, 33, 34, 35, 36, kind);                                             \
    }                                                                                              \
    template <int N, bool add = true, bool yd = true>                                              \
    __device__ __forceinline__ void wgmma(float(&c)[N / 8][4], const uint32_t(&a)[4], uint64_t y,  \
                                          type)                                                    \
    {                                                                                              \
        if constexpr (N == 8)                                                                      \
            WGMMA_REGISTERS(8, 4, 5, 6, 7, 8, 9, 10, kind);                                        \
        else if constexpr (N == 16)                                                                \
            WGMMA_REGISTERS(16, 8, 9, 10, 11, 12, 13, 14, kind);                                   \
        else if constexpr (N == 32)                                                                \
            WGMMA_REGISTERS(32, 16, 17, 18, 19, 20, 21, 22, kind);                                 \
        else if constexpr (N == 48)                                                                \
            WGMMA_REGISTERS(48, 24, 25, 26, 27, 28, 29, 30, kind);                                 \
        else if constexpr (N == 56)                                                                \
            WGMMA_REGISTERS(56, 28, 29, 30, 31, 32, 33, 34, kind);                                 \
        else if constexpr (N == 64)                                                                \
            WGMMA_REGISTERS(64, 32, 33, 34, 35, 36, 37, 38, kind);                                 \
        else if constexpr (N == 72)                                                                \
            WGMMA_REGISTERS(72, 36, 37, 38, 39, 40, 41, 42, kind);                                 \
        else if constexpr (N == 80)                                                                \
            WGMMA_REGISTERS(80, 40, 41, 42, 43, 44, 45, 46, kind);                                 \
        else if constexpr (N == 96)                                                                \
            WGMMA_REGISTERS(96, 48, 49, 50, 51, 52, 53, 54, kind);                                 \
        else                                                                                       \
            WGMMA_REGISTERS(128, 64, 65, 66, 67, 68, 69, 70, kind);                                \
    }
WGMMA_OF(bf16, "bf16")
WGMMA_OF(f16, "f16")
#undef WGMMA_OF
#undef WGMMA_TILES
#undef WGMMA_REGISTERS
#undef C

/* ---- online softmax ---- */

struct SoftmaxRows { /* maximum and sum so far, of this thread's two rows */
    float top[2], sum[2];
};

/* Replaces scores by exponentials relative to the maximum so far. Returns true if the maximum grew
 * in any row of the warp: then y must be multiplied by `factor`, as the sum was. The scale is
 * positive. */
template <int KEYS>
__device__ __forceinline__ bool softmax_step(float (&score)[KEYS / 8][4], SoftmaxRows &r,
                                             float scale, float (&factor)[2])
{
    float high[2] = { r.top[0], r.top[1] };
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            high[e / 2] = fmaxf(high[e / 2], score[n][e]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        high[h] = fmaxf(high[h], __shfl_xor_sync(0xffffffffu, high[h], 1));
        high[h] = fmaxf(high[h], __shfl_xor_sync(0xffffffffu, high[h], 2));
    }
    bool grown = !((high[0] - r.top[0]) * scale <= 8 && (high[1] - r.top[1]) * scale <= 8);
    grown = __any_sync(0xffffffffu, grown);
    if (grown) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            factor[h] = fast_exp2((r.top[h] - high[h]) * scale);
            r.top[h] = high[h];
            r.sum[h] *= factor[h];
        }
    }
    float less[2] = { r.top[0] * scale, r.top[1] * scale };
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            score[n][e] = fast_exp2(fmaf(score[n][e], scale, -less[e / 2]));
            r.sum[e / 2] += score[n][e];
        }
    return grown;
}
template <int N>
__device__ __forceinline__ void rows_scale(float (&y)[N / 8][4], const float (&factor)[2])
{
#pragma unroll
    for (int d = 0; d < N / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            y[d][e] *= factor[e / 2];
}

/* Masks, and the bias divided by the scale, which will multiply it, of 16 queries from `query`
 * on. */
template <int KEYS>
__device__ __forceinline__ void scores_form(const AttentionCuda &a, const FormHead &f,
                                            float (&score)[KEYS / 8][4], int64_t query, int64_t key,
                                            float scale)
{
    int   g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    float by = LOG2_E / scale;
    if (!a.bias && !a.mask_diagonal && key + KEYS <= a.lk && !(a.causal && key + KEYS > query + 1))
        return;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int64_t row = query + g + e / 2 * 8, at = key + n * 8 + 2 * t + (e & 1);
            bool    sees = form_sees(a, row, at);
            if (a.bias && sees)
                score[n][e] += form_bias(a, f, row, at) * by;
            score[n][e] = sees ? score[n][e] : -INFINITY;
        }
}

/* Stores the log-sum-exp of a warp's 16 rows; the sum becomes the factor for y. */
template <bool FORM = false>
__device__ __forceinline__ void softmax_end(const AttentionCuda &a, int64_t head, int64_t row,
                                            SoftmaxRows &r, float scale)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        r.sum[h] += __shfl_xor_sync(0xffffffffu, r.sum[h], 1);
        r.sum[h] += __shfl_xor_sync(0xffffffffu, r.sum[h], 2);
        if (t == 0 && row + g + 8 * h < a.lq) {
            if (FORM)
                lse_put_safe(a, head * a.lq + row + g + 8 * h, r.top[h] * scale, r.sum[h]);
            else
                lse_put(a, head * a.lq + row + g + 8 * h, r.top[h] * scale, r.sum[h]);
        }
        r.sum[h] = FORM && !(r.sum[h] > 0) ? 0.0f : 1 / r.sum[h];
    }
}

/* ---- results ---- */

/* Exchanges values between two lanes that differ in bit M: the lower lane gets both first values,
 * the upper one both second values. */
template <int M> __device__ __forceinline__ void quad_swap(uint32_t &first, uint32_t &second)
{
    bool     high = threadIdx.x & M;
    uint32_t got = __shfl_xor_sync(0xffffffffu, high ? first : second, M);
    first = high ? got : first;
    second = high ? second : got;
}

/* Note [Whole sectors]
 * fragment_store writes 4 bytes per thread, 16 bytes of a row at a time: half a sector of the L2
 * cache, so that a block's stores saturate the path to it. Here the four threads of a row exchange
 * pairs first. Each then holds one of four blocks of 8 columns and stores 16 bytes; where alignment
 * allows only 8 bytes, half of one of two blocks. The width is even; all lanes must take part. */
template <class T, int D>
__device__ __forceinline__ void quad_store(T *to, int64_t ld, int64_t n, int width, int copy,
                                           const float (&acc)[D / 8][4], float first, float second)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    if (copy < 8) {
        fragment_store<T, D>(to, ld, n, width, true, acc, first, second);
        return;
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float factor = h ? second : first;
        T    *row = to + (g + 8 * h) * ld;
        bool  there = g + 8 * h < n;
#pragma unroll
        for (int d = 0; d < D / 8; d += 4) {
            uint32_t x[4] = { 0, 0, 0, 0 };
#pragma unroll
            for (int i = 0; i < 4 && d + i < D / 8; i++)
                x[i] = pair(acc[d + i][2 * h] * factor, acc[d + i][2 * h + 1] * factor, T());
            quad_swap<1>(x[0], x[1]);
            quad_swap<1>(x[2], x[3]);
            if (copy == 8) {
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    int c = 8 * (d + i + t % 2) + 4 * (t / 2);
                    if (there && c < width)
                        *(uint2 *)(row + c) = make_uint2(x[i], x[i + 1]);
                }
                continue;
            }
            quad_swap<2>(x[0], x[2]);
            quad_swap<2>(x[1], x[3]);
            if (there && 8 * (d + t) < width)
                *(uint4 *)(row + 8 * (d + t)) = make_uint4(x[0], x[1], x[2], x[3]);
        }
    }
}

/* What dropout leaves of s. */
template <class T, int N>
__device__ __forceinline__ void fragments_kept(const AttentionCuda &a, uint32_t (&p)[N / 16][4],
                                               const float (&s)[N / 8][4], uint32_t kept)
{
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        float x[2][4];
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i / 4][i % 4] = s[2 * k + i / 4][i % 4];
        form_drop<16>(a, x, kept >> 8 * k);
        fragment_of_scores<T>(p[k], x[0], x[1]);
    }
}

template <class T, int N>
__device__ __forceinline__ void fragments_of(uint32_t (&p)[N / 16][4], const float (&s)[N / 8][4])
{
#pragma unroll
    for (int k = 0; k < N / 16; k++)
        fragment_of_scores<T>(p[k], s[2 * k], s[2 * k + 1]);
}

#endif
#endif
