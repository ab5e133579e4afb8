/* attention_head.h -- pieces for short sequences on Hopper: a block has a whole head in shared memory.
 *
 * Each warpgroup has 64 queries, and nothing is fetched twice. Tiles lie as in attention_wgmma.h, with as
 * many rows as the sequence needs: queries in steps of 16, keys in steps of a tile's. Rows beyond the end
 * are zeros. The last warpgroup may read rows that its tile does not have: they are those of the next
 * column or tile, and what comes of them is never stored.
 */
#ifndef OPS_ATTENTION_HEAD_H
#define OPS_ATTENTION_HEAD_H

#include "ops/attention_wgmma.h"

enum { HEAD_KEYS = 32, HEAD_GROUPS = 5, HEAD_MOST = 64 * HEAD_GROUPS, HEAD_WIDTH = 64 };

#define WITH_HEAD_WIDTHS(width, K, N, ...)                                                    \
    do {                                                                                      \
        if ((width) <= 32)      { constexpr int K = 32, N = 32; __VA_ARGS__ }                 \
        else if ((width) <= 56) { constexpr int K = 64, N = 56; __VA_ARGS__ }                 \
        else                    { constexpr int K = 64, N = 64; __VA_ARGS__ }                 \
    } while (0)

struct HeadLines {               /* of the backward pass, before its tiles */
    float2 lines[HEAD_MOST];             /* log-sum-exp (of powers of two) and delta of each query */
    float  heat[HEAD_MOST / 64][2][4];   /* parts of the temperature's gradient */
};

/* Bytes from a column of a tile to the next; the shared memory of a block. */
__host__ __device__ constexpr int head_step(int64_t rows, int unit)
{
    return (int)((rows + unit - 1) / unit * unit) * 16 + 16;
}
static inline size_t head_forward_bytes(int64_t rows, int64_t lk, int k)
{
    return (size_t)(k / 8) * (size_t)(head_step(rows, 16) + 2 * head_step(lk, HEAD_KEYS));
}
static inline size_t head_backward_bytes(int64_t lq, int64_t lk, int k)
{
    return (size_t)(k / 8) * 2 * (size_t)(head_step(lq, 16) + head_step(lk, HEAD_KEYS)) +
           16 * (size_t)head_step(lq, 16) + sizeof(HeadLines);
}

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

struct HeadTile {
    uint32_t at;                 /* in shared memory: 32 bits, registers are few */
    int      step;

    /* Takes its place at `free`, and moves that on. */
    __device__ __forceinline__ HeadTile(uint32_t &free, int columns, int step_) : at(free), step(step_)
    {
        free += (uint32_t)(columns * step);
    }
    __device__ __forceinline__ int rows() const { return step / 16 - 1; }
    __device__ __forceinline__ uint64_t along(int row) const { return place_at(at + (uint32_t)row * 16, step, 128); }
    __device__ __forceinline__ uint64_t down(int row) const { return place_at(at + (uint32_t)row * 16, 128, step); }
    /* Two neighbours in a row. */
    __device__ __forceinline__ uint32_t pair_at(int row, int column) const
    {
        return at + (uint32_t)(column / 8 * step + row * 16 + column % 8 * 2);
    }
    __device__ __forceinline__ void fill_up(int columns, int width) const   /* zeros beyond the width */
    {
        const uint32_t zeros[4] = { 0, 0, 0, 0 };
        for (int i = width / 8 * step + 16 * (int)threadIdx.x; i < columns * step; i += 16 * (int)blockDim.x)
            piece_store<4>(at + (uint32_t)i, zeros, true);
    }
};

/* One tensor's rows, on their way through this thread's registers. */
template <int COPY> struct HeadFeed {
    enum { WORDS = COPY / 4, AHEAD = 16 / WORDS };       /* pieces under way */
    uint32_t    x[AHEAD][WORDS];
    const char *from;
    int64_t     step;
    uint32_t    to;
    int         row, rows, n, all;       /* the next row, to the one after it, that exist, of the tile */

    template <class T>
    __device__ __forceinline__ HeadFeed(const HeadTile &tile, const T *x_, int64_t ld, int64_t count,
                                        int width)
    {
        int pieces = width * 2 / COPY, byte = (int)threadIdx.x % pieces * COPY;
        rows = (int)blockDim.x / pieces;
        row = (int)threadIdx.x / pieces;
        from = (const char *)(x_ + row * ld) + byte;
        step = rows * ld * 2;
        to = tile.at + (uint32_t)(byte / 16 * tile.step + row * 16 + byte % 16);
        n = (int)count;
        all = tile.rows();
        if (row >= rows)
            row = all;           /* one of the threads that are too many */
    }
    __device__ __forceinline__ bool more() const { return row < all; }
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
            piece_store<WORDS>(to, x[i], row < all);
        }
    }
};

/* Asks the second cache for rows that this or another block will read after this one. */
template <class T>
__device__ __forceinline__ void rows_ask(const AttentionCuda &a, const SideCuda &side, int64_t head,
                                         int64_t rows)
{
    const char *x = (const char *)head_rows<T>(a, side, head);
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
        uint64_t at = (uint64_t)(x + i * side.ld * 2), end = at + (uint64_t)a.width * 2;
        at &= ~(uint64_t)15;
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                     ::"l"(at), "r"((uint32_t)(end - at) & ~15u) : "memory");
    }
}
/* The head that takes this one's place when all multiprocessors have done theirs. */
__device__ __forceinline__ int64_t head_after(int64_t head, int at_once)
{
    int sms;
    asm("mov.u32 %0, %%nsmid;" : "=r"(sms));
    return head + sms * at_once;
}

/* s = x y^T over K columns: 64 rows of x and HEAD_KEYS of y. Only queued. */
template <class T, int K>
__device__ __forceinline__ void head_scores(float (&s)[HEAD_KEYS / 8][4], const HeadTile &x, int row,
                                            const HeadTile &y, int key)
{
    uint64_t xs = x.along(row), ys = y.along(key);
    wgmma<HEAD_KEYS, false>(s, xs, ys, T());
#pragma unroll
    for (int k = 1; k < K / 16; k++)
        wgmma<HEAD_KEYS, true>(s, xs + (uint64_t)(k * (x.step / 8)), ys + (uint64_t)(k * (y.step / 8)), T());
}

/* acc += p y: p in registers, 64 rows by HEAD_KEYS, y from row `key` on. Only queued. */
template <class T, int N>
__device__ __forceinline__ void head_sums(float (&acc)[N / 8][4], const uint32_t (&p)[HEAD_KEYS / 16][4],
                                          const HeadTile &y, int key)
{
    uint64_t ys = y.down(key);
#pragma unroll
    for (int k = 0; k < HEAD_KEYS / 16; k++)
        wgmma<N>(acc, p[k], ys + (uint64_t)(k * 16), T());
}

#endif
#endif
