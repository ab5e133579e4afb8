/* attention_head.h -- pieces for short sequences on Hopper: a head's keys all in shared memory.
 *
 * Each warpgroup has 64 queries. Tiles lie as in attention_wgmma.h and have room for R rows, a
 * constant, so that every place in them is one too; rows beyond the end are zeros. The last
 * warpgroup may read rows that its tile does not have: they are those of the next column or tile,
 * and what comes of them is never stored.
 */
#ifndef OPS_ATTENTION_HEAD_H
#define OPS_ATTENTION_HEAD_H

#include "ops/attention_wgmma.h"

enum { HEAD_MOST = 288, HEAD_WIDTH = 64 };       /* rows that fit, and columns */

#define WITH_HEAD_WIDTHS(width, K, N, ...)                                                    \
    do {                                                                                      \
        if ((width) <= 32)      { constexpr int K = 32, N = 32; __VA_ARGS__ }                 \
        else if ((width) <= 56) { constexpr int K = 64, N = 56; __VA_ARGS__ }                 \
        else                    { constexpr int K = 64, N = 64; __VA_ARGS__ }                 \
    } while (0)
#define WITH_HEAD_ROWS(rows, R, ...)                                                          \
    do {                                                                                      \
        if ((rows) <= 128)      { constexpr int R = 128; __VA_ARGS__ }                        \
        else if ((rows) <= 256) { constexpr int R = 256; __VA_ARGS__ }                        \
        else                    { constexpr int R = HEAD_MOST; __VA_ARGS__ }                  \
    } while (0)

/* Blocks of 64 rows a warpgroup: as many to a head as it takes. */
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

struct HeadPlace {               /* of a head: divided once, in 32 bits */
    int batch, head;
    __device__ __forceinline__ HeadPlace(const AttentionCuda &a, int i)
        : batch(i / (int)a.heads), head(i % (int)a.heads)
    {
    }
    template <class T> __device__ __forceinline__ T *rows(const SideCuda &s) const
    {
        return (T *)s.data + batch * s.batch_stride + head * s.head_stride + s.column;
    }
};

/* One tensor's rows, on their way through this thread's registers. */
template <int COPY, int R, int K> struct HeadFeed {
    enum { WORDS = COPY / 4, AHEAD = 16 / WORDS };       /* pieces under way */
    uint32_t    x[AHEAD][WORDS];
    const char *from;
    int64_t     step;
    uint32_t    to;
    int         row, rows, n;    /* the next row, from it to the one after, how many exist */

    template <class T>
    __device__ __forceinline__ HeadFeed(const WideTile<R, K> &tile, const T *x_, int64_t ld,
                                        int64_t count, int width)
    {
        int pieces = width * 2 / COPY, byte = (int)threadIdx.x % pieces * COPY;
        rows = (int)blockDim.x / pieces;
        row = (int)threadIdx.x / pieces;
        from = (const char *)(x_ + row * ld) + byte;
        step = rows * ld * 2;
        to = shared_at(tile.at) +
             (uint32_t)(byte / 16 * WideTile<R, K>::STEP + row * 16 + byte % 16);
        n = (int)count;
        if (row >= rows)
            row = R;             /* one of the threads that are too many */
    }
    __device__ __forceinline__ bool more() const { return row < R; }
    __device__ __forceinline__ void load()
    {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            piece_load<WORDS>(x[i], from, row + i * rows < n);
            from += step;
        }
    }
    /* To shared memory, signs turned where `flip` says so. */
    __device__ __forceinline__ void store(uint32_t flip = 0)
    {
#pragma unroll
        for (int i = 0; i < AHEAD; i++, row += rows, to += (uint32_t)rows * 16) {
#pragma unroll
            for (int w = 0; w < WORDS; w++)
                x[i][w] ^= flip;
            piece_store<WORDS>(to, x[i], row < R);
        }
    }
};

/* s = x y^T over K columns: 64 rows of x from `row` on, N of y from `key` on. Only queued. */
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

/* Of two values in each of two lanes that differ in bit M, the first has both firsts, the second
 * both seconds. */
template <int M> __device__ __forceinline__ void quad_swap(uint32_t &first, uint32_t &second)
{
    bool     high = threadIdx.x & M;
    uint32_t got = __shfl_xor_sync(0xffffffffu, high ? first : second, M);
    first = high ? got : first;
    second = high ? second : got;
}

/* Note [Whole pieces]
 * fragment_store of 4 bytes a thread writes 16 bytes of a row at a time, half of what the second
 * cache takes at least, and what a head's block stores at once then fills the way there. So the
 * four threads of a row exchange their pairs first: of four blocks of 8 columns each then has one,
 * 16 bytes; where places allow only 8, of two blocks half of one. An even width, all lanes
 * together. */
template <class T, int D>
__device__ __forceinline__ void quad_store(T *to, int64_t ld, int n, int width, int copy,
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

#endif
#endif
