/* attention_head.h -- building blocks for short sequences on Hopper, where all keys of a head fit
 * in shared memory.
 *
 * Each warpgroup has 64 queries. A tile in shared memory is a sequence of columns 16 bytes wide,
 * each with all rows of the tile. Eight rows of a column are the 128 bytes that the tensor cores
 * read at a time, so a tile can be read with the summed index along its rows or down its columns,
 * for any width that is a multiple of 8. A gap of 16 bytes between columns spreads the stores of
 * one row over different banks. There is room for R rows, a constant, so that all offsets are
 * constants too; rows beyond the end are zeros. The last warpgroup may read beyond its tile, into
 * the next column or tile; results from there are never stored.
 */
#ifndef OPS_ATTENTION_ATTENTION_HEAD_H
#define OPS_ATTENTION_ATTENTION_HEAD_H

#include "ops/attention/attention_wgmma.h"

enum { HEAD_MAX = 288, HEAD_WIDTH = 64 }; /* max. rows and columns */

template <int ROWS, int D> struct WideTile {
    enum { STEP = ROWS * 16 + 16 }; /* bytes between columns */
    char at[D / 8 * STEP];
};

#define WITH_HEAD_WIDTHS(width, K, N, ...)                                                         \
    do {                                                                                           \
        if ((width) <= 32) {                                                                       \
            constexpr int K = 32, N = 32;                                                          \
            __VA_ARGS__                                                                            \
        } else if ((width) <= 56) {                                                                \
            constexpr int K = 64, N = 56;                                                          \
            __VA_ARGS__                                                                            \
        } else {                                                                                   \
            constexpr int K = 64, N = 64;                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)
#define WITH_HEAD_ROWS(rows, R, ...)                                                               \
    do {                                                                                           \
        if ((rows) <= 128) {                                                                       \
            constexpr int R = 128;                                                                 \
            __VA_ARGS__                                                                            \
        } else if ((rows) <= 256) {                                                                \
            constexpr int R = 256;                                                                 \
            __VA_ARGS__                                                                            \
        } else {                                                                                   \
            constexpr int R = HEAD_MAX;                                                            \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

/* Launches enough blocks for each head, 64 rows per warpgroup. */
template <class Kernel>
static Err head_launch(const Call *call, Kernel kernel, const AttentionCuda &a, int groups,
                       size_t bytes)
{
    unsigned blocks = (unsigned)(a.n_heads * ceil_div(a.lq, 64 * groups));
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    kernel<<<blocks, (unsigned)groups * 128, bytes, cuda_stream(call)>>>(a);
    CUDA_LAUNCHED();
    return OK;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Loads N words of 4 bytes from global memory, or zeros; stores them to shared memory. Volatile, so
 * that the compiler leaves the load well ahead of the store. */
template <int N>
__device__ __forceinline__ void words_load(uint32_t (&x)[N], const char *p, bool there)
{
    if constexpr (N == 4)
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %5, 0;\n mov.b32 %0, 0;\n mov.b32 %1, "
                     "0;\n mov.b32 %2, 0;\n"
                     " mov.b32 %3, 0;\n @p ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, "
                     "[%4];\n}"
                     : "=&r"(x[0]), "=&r"(x[1]), "=&r"(x[2]), "=&r"(x[3])
                     : "l"(p), "r"((int)there));
    else if constexpr (N == 2)
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %3, 0;\n mov.b32 %0, 0;\n mov.b32 %1, 0;\n"
                     " @p ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];\n}"
                     : "=&r"(x[0]), "=&r"(x[1])
                     : "l"(p), "r"((int)there));
    else
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b32 %0, 0;\n"
                     " @p ld.global.nc.L1::no_allocate.b32 %0, [%1];\n}"
                     : "=&r"(x[0])
                     : "l"(p), "r"((int)there));
}
template <int N>
__device__ __forceinline__ void words_store(uint32_t at, const uint32_t (&x)[N], bool wanted)
{
    if constexpr (N == 4)
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %5, 0;\n @p st.shared.v4.b32 [%0], {%1, "
                     "%2, %3, %4};\n}" ::"r"(at),
                     "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"((int)wanted)
                     : "memory");
    else if constexpr (N == 2)
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %3, 0;\n @p st.shared.v2.b32 [%0], {%1, "
                     "%2};\n}" ::"r"(at),
                     "r"(x[0]), "r"(x[1]), "r"((int)wanted)
                     : "memory");
    else
        asm volatile(
            "{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n @p st.shared.b32 [%0], %1;\n}" ::"r"(at),
            "r"(x[0]), "r"((int)wanted)
            : "memory");
}

/* Clears the columns beyond the head's width. */
template <int ROWS, int D>
__device__ __forceinline__ void tile_fill_up(WideTile<ROWS, D> &t, int width)
{
    int from = width / 8 * WideTile<ROWS, D>::STEP;
    for (int i = from + 16 * (int)threadIdx.x; i < (int)sizeof t.at; i += 16 * (int)blockDim.x)
        *(uint4 *)(t.at + i) = make_uint4(0, 0, 0, 0);
}

/* The tensor cores' descriptors of a tile, with the summed index along the rows or down the
 * columns. */
__device__ __forceinline__ uint64_t place_at(uint32_t p, int leading, int stride)
{
    return (uint64_t)(p >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32;
}
__device__ __forceinline__ uint64_t place_of(const void *p, int leading, int stride)
{
    return place_at(smem_at(p), leading, stride);
}
template <int ROWS, int D>
__device__ __forceinline__ uint64_t along(const WideTile<ROWS, D> &t, int row)
{
    return place_of(t.at + row * 16, WideTile<ROWS, D>::STEP, 128);
}
template <int ROWS, int D> __device__ __forceinline__ uint64_t down(const WideTile<ROWS, D> &t)
{
    return place_of(t.at, 128, WideTile<ROWS, D>::STEP);
}

struct HeadPlace { /* batch and head: divided once, in 32 bits */
    int                        batch, head;
    __device__ __forceinline__ HeadPlace(const AttentionCuda &a, int i)
        : batch(i / (int)a.heads), head(i % (int)a.heads)
    {
    }
    template <class T> __device__ __forceinline__ T *rows(const SideCuda &s) const
    {
        return (T *)s.data + batch * s.batch_stride + head * s.head_stride + s.column;
    }
};

/* Copies the rows of one tensor to shared memory through this thread's registers. */
template <int COPY, int R, int K> struct HeadFeed {
    enum { WORDS = COPY / 4, AHEAD = 16 / WORDS }; /* AHEAD: copies in flight */
    uint32_t    x[AHEAD][WORDS];
    const char *from;
    int64_t     step;
    uint32_t    to;
    int         row, rows, n; /* next row; rows per step; rows that exist */

    template <class T>
    __device__ __forceinline__ HeadFeed(const WideTile<R, K> &tile, const T *x_, int64_t ld,
                                        int64_t count, int width)
    {
        int copies = width * 2 / COPY, byte = (int)threadIdx.x % copies * COPY;
        rows = (int)blockDim.x / copies;
        row = (int)threadIdx.x / copies;
        from = (const char *)(x_ + row * ld) + byte;
        step = rows * ld * 2;
        to = smem_at(tile.at) + (uint32_t)(byte / 16 * WideTile<R, K>::STEP + row * 16 + byte % 16);
        n = (int)count;
        if (row >= rows)
            row = R; /* this thread has nothing to copy */
    }
    __device__ __forceinline__ bool more() const { return row < R; }
    __device__ __forceinline__ void load()
    {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            words_load<WORDS>(x[i], from, row + i * rows < n);
            from += step;
        }
    }
    /* Stores to shared memory, with the sign bits in `flip` inverted. */
    __device__ __forceinline__ void store(uint32_t flip = 0)
    {
#pragma unroll
        for (int i = 0; i < AHEAD; i++, row += rows, to += (uint32_t)rows * 16) {
#pragma unroll
            for (int w = 0; w < WORDS; w++)
                x[i][w] ^= flip;
            words_store<WORDS>(to, x[i], row < R);
        }
    }
};

/* s = x y^T over K columns: 64 rows of x from `row` on, N of y from `key` on. Queued, not
 * waited for. */
template <class T, int K, int N, int RX, int RY>
__device__ __forceinline__ void head_scores(float (&s)[N / 8][4], const WideTile<RX, K> &x, int row,
                                            const WideTile<RY, K> &y, int key)
{
    uint64_t xs = along(x, row), ys = along(y, key);
    wgmma<N, false>(s, xs, ys, T());
#pragma unroll
    for (int k = 1; k < K / 16; k++)
        wgmma<N, true>(s, xs + (uint64_t)k * (2 * WideTile<RX, K>::STEP / 16),
                       ys + (uint64_t)k * (2 * WideTile<RY, K>::STEP / 16), T());
}

#endif
#endif
