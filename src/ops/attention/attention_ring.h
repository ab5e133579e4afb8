/* attention_ring.h -- attention over long sequences on Hopper: the TMA fetches tiles into a ring of
 * pipeline stages.
 *
 * A block owns some rows (queries or keys), 64 per reading warpgroup, and iterates over pairs of
 * tiles of the other side. Its last warpgroup only fetches into the ring and gives most of its
 * registers to the others. The barrier `full` says that a pair of tiles has arrived, `empty` that
 * all readers are done with it. Every lane arrives at `empty` itself: one arrival per warp would
 * do, but is not faster, and racecheck tracks single threads.
 *
 * A tile consists of panels of 64 columns, the last one narrower, in the TMA's swizzle. The tensor
 * cores can read it with the summed index along its rows or down its columns. Columns beyond a
 * head's width and rows beyond the last are zeros. Wider panels are copied faster: two tiles of
 * 64 x 64 take 278 ns in panels of 128 bytes, 514 in panels of 32 and 772 in panels of 16, with all
 * multiprocessors busy.
 *
 * The TMA needs strides in multiples of 16 bytes. For head widths that do not give that, the
 * threads of the fetching warpgroup copy.
 */
#ifndef OPS_ATTENTION_ATTENTION_RING_H
#define OPS_ATTENTION_ATTENTION_RING_H

#include "device/map_cuda.h"
#include "ops/attention/attention_wgmma.h"

template <int ROWS, int K> struct Panels {
    enum {
        FULL = K / 64,
        PANEL = ROWS * 128, /* panels of 64 columns; bytes of one */
        REST = K % 64,
        LINE = REST * 2 /* columns of the last panel; bytes of its rows */
    };
    static_assert(REST == 0 || REST == 16 || REST == 32,
                  "there is a swizzle for rows of this length");
    char at[ROWS * K * 2];
};

template <int K, int OWNS, int OWN, int ROWS, int STAGES> struct RingShared {
    Panels<OWN, K>  own[OWNS];
    Panels<ROWS, K> one[STAGES], two[STAGES];
    uint64_t        full[STAGES], empty[STAGES], ready; /* ready: own has arrived */
};

struct TileMaps {
    CUtensorMap full, rest;
};

struct RingArgs {
    TileMaps own_map[2], walk_map[2];
    SideCuda own[2], walk[2];
    int64_t  own_rows, walk_rows; /* per head */
    int64_t  blocks;              /* per head */
    int64_t  heads;               /* that own rows, of all samples */
};

/* Runs the statements with the head's width rounded up: K as a summed index, N as columns of a
 * result. */
#define WITH_WIDTHS(width, K, N, ...)                                                              \
    do {                                                                                           \
        if ((width) <= 32) {                                                                       \
            constexpr int K = 32, N = 32;                                                          \
            __VA_ARGS__                                                                            \
        } else if ((width) <= 64) {                                                                \
            constexpr int K = 64, N = 64;                                                          \
            __VA_ARGS__                                                                            \
        } else if ((width) <= 72) {                                                                \
            constexpr int K = 80, N = 72;                                                          \
            __VA_ARGS__                                                                            \
        } else if ((width) <= 80) {                                                                \
            constexpr int K = 80, N = 80;                                                          \
            __VA_ARGS__                                                                            \
        } else {                                                                                   \
            constexpr int K = 128, N = 128;                                                        \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

/* Is it worth sharing a tile among so many warpgroups instead of two? Not if too many get no
 * rows. */
static inline bool groups_pay(int64_t rows, int groups)
{
    return ceil_div(rows, 64 * groups) * groups <= ceil_div(rows, 128) * 2 + 1;
}

template <int K>
static Err ring_map(const AttentionCuda &a, const SideCuda &side, int64_t length, int rows,
                    TileMaps *maps)
{
    int64_t         extent[4] = { side.width, length, a.heads / side.share, a.n_heads / a.heads };
    int64_t         between[3] = { side.ld, side.head_stride, side.batch_stride };
    int             full[4] = { 64, rows, 1, 1 }, rest[4] = { K % 64, rows, 1, 1 };
    const uint16_t *from = (const uint16_t *)side.data + side.column;
    if (K >= 64)
        TRY(map_make(a.type, 4, extent, between, full, from, &maps->full));
    return K % 64 ? map_make(a.type, 4, extent, between, rest, from, &maps->rest) : OK;
}

/* Launches blocks of OWN rows, 64 per reading warpgroup. */
template <int K, int OWNS, int OWN, int ROWS, class Kernel>
static Err ring_launch(const Call *call, Kernel kernel, const AttentionCuda &a, RingArgs r,
                       size_t bytes)
{
    r.blocks = ceil_div(r.own_rows, OWN);
    if (a.copy == 16)
        for (int i = 0; i < 2; i++) {
            if (i < OWNS)
                TRY(ring_map<K>(a, r.own[i], r.own_rows, OWN, &r.own_map[i]));
            TRY(ring_map<K>(a, r.walk[i], r.walk_rows, ROWS, &r.walk_map[i]));
        }
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    kernel<<<(unsigned)(r.heads * r.blocks), OWN * 2 + 128, bytes, cuda_stream(call)>>>(a, r);
    CUDA_LAUNCHED();
    return OK;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- synchronization ---- */

/* Registers per thread. The fetching warpgroup gives some up and the others take them. The total
 * must not exceed what the block was launched with, or the block deadlocks: 168 each with 2 reading
 * warpgroups, 128 with 3, 96 with 4. */
constexpr int registers_fetching(int groups) { return groups == 2 ? 40 : 32; }
constexpr int registers_reading(int groups) { return groups == 2 ? 232 : groups == 3 ? 160 : 112; }
template <int N> __device__ __forceinline__ void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
__device__ __forceinline__ void group_sync(int group)
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}

/* Reading warpgroups take turns in queueing products (Shah et al. 2024, FlashAttention-3), so that
 * one uses the tensor cores while another computes exponentials. Otherwise all would wait for
 * products at the same time and then compete for the same units. */
template <int GROUPS> struct Turns {
    int        group;
    __device__ __forceinline__ explicit Turns(int group_) : group(group_)
    {
        if (group == GROUPS - 1)
            pass(); /* the first warpgroup begins */
    }
    __device__ __forceinline__ void take() const
    {
        asm volatile("bar.sync %0, 256;" ::"r"(8 + group) : "memory");
    }
    __device__ __forceinline__ void pass() const
    {
        asm volatile("bar.arrive %0, 256;" ::"r"(8 + (group + 1) % GROUPS) : "memory");
    }
};

struct RingPosition { /* pipeline stage, and the parity its barrier has in this round */
    int                                                   stage, parity;
    template <int STAGES> __device__ __forceinline__ void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* ---- the fetching warpgroup ---- */

/* Called first, by all threads. Tiles that threads copy get their zero padding here. */
template <int K, int OWNS, int OWN, int ROWS, int STAGES>
__device__ __forceinline__ void ring_begin(RingShared<K, OWNS, OWN, ROWS, STAGES> &s,
                                           const AttentionCuda                    &a)
{
    int fetchers = a.copy == 16 ? 32 : 128;
    if (threadIdx.x == 0) {
        bar_init(&s.ready, fetchers);
        for (int i = 0; i < STAGES; i++) {
            bar_init(&s.full[i], fetchers);
            bar_init(&s.empty[i], OWN * 2); /* each reader */
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (a.copy < 16) {
        for (int i = 16 * (int)threadIdx.x; i < (int)((char *)s.full - (char *)&s);
             i += 16 * (int)blockDim.x)
            *(uint4 *)((char *)&s + i) = make_uint4(0, 0, 0, 0);
        smem_writes_visible();
    }
    __syncthreads();
}

/* One thread asks the TMA for rows from `row` on. */
__device__ __forceinline__ void box_ask(char *to, const CUtensorMap *map, uint64_t *full,
                                        int column, int row, int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(smem_at(to)),
                 "l"(map), "r"(smem_at(full)), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}
template <int ROWS, int K>
__device__ __forceinline__ void tile_ask(Panels<ROWS, K> &to, const TileMaps &maps, uint64_t *full,
                                         int row, int head, int batch)
{
    constexpr int panels = Panels<ROWS, K>::FULL, bytes = Panels<ROWS, K>::PANEL;
#pragma unroll
    for (int i = 0; i < panels; i++)
        box_ask(to.at + i * bytes, &maps.full, full, i * 64, row, head, batch);
    if (K % 64)
        box_ask(to.at + panels * bytes, &maps.rest, full, panels * 64, row, head, batch);
}

/* Offset of a byte of a row. The TMA's swizzle permutes the 16-byte units of a row; the pattern
 * repeats every eight rows. */
template <int ROWS, int K> __device__ __forceinline__ int byte_at(int row, int byte)
{
    constexpr int full = Panels<ROWS, K>::FULL * 128, line = Panels<ROWS, K>::LINE;
    if (K % 64 == 0 || byte < full) {
        int at = row * 128 + byte % 128;
        return byte / 128 * Panels<ROWS, K>::PANEL + (at ^ (at >> 3 & 0x70));
    }
    int at = row * line + byte - full;
    return Panels<ROWS, K>::FULL * Panels<ROWS, K>::PANEL + (at ^ (at >> 3 & (line - 1) & 0x70));
}

/* The threads of the warpgroup copy a tile; neighbours share a row. Only the head's columns are
 * written. */
template <int ROWS, int K>
__device__ __forceinline__ void tile_copy(Panels<ROWS, K> &to, const AttentionCuda &a,
                                          const SideCuda &side, int64_t head, int64_t row,
                                          int64_t rows)
{
    int lane = (int)threadIdx.x % 128, count = side.width * 2 / a.copy, step = 128 / count,
        byte = lane % count * a.copy;
    const char *from = (const char *)(head_rows<uint16_t>(a, side, head) + row * side.ld) + byte;
    for (int r = lane / count; r < ROWS && lane < step * count; r += step) {
        bool there = row + r < rows;
        copy_async(to.at + byte_at<ROWS, K>(r, byte),
                   there ? from + (int64_t)r * side.ld * 2 : side.data, a.copy, there);
    }
}

/* Asks for contiguous bytes, a multiple of 16, in addition to whatever else `full` waits for. */
__device__ __forceinline__ void bulk_ask(void *to, const void *from, int bytes, uint64_t *full)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(smem_at(full)),
                 "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(smem_at(to)),
                 "l"(from), "r"(bytes), "r"(smem_at(full))
                 : "memory");
}

/* Which head of q the i-th tile is of, and its place in that head: one head's tiles from the first
 * on; or those of the heads that share keys, each from some tile on. */
struct OneHead {
    int64_t                            at;
    __device__ __forceinline__ int64_t head(int64_t) const { return at; }
    __device__ __forceinline__ int64_t tile(int64_t i) const { return i; }
};
struct SharedHeads {
    int64_t                            at, of_head, first;
    __device__ __forceinline__ int64_t head(int64_t i) const { return at + i / of_head; }
    __device__ __forceinline__ int64_t tile(int64_t i) const { return first + i % of_head; }
};

/* Fetches all tiles of a block. `more` asks for what accompanies a pair of tiles; one thread calls
 * it before it arrives. */
template <int K, int OWNS, int OWN, int ROWS, int STAGES, class Walk, class More>
__device__ __forceinline__ void ring_fetch(RingShared<K, OWNS, OWN, ROWS, STAGES> &s,
                                           const AttentionCuda &a, const RingArgs &r, Walk walk,
                                           int64_t first, int64_t tiles, More more)
{
    int64_t      head = walk.head(0);
    bool         asks = a.copy == 16, one = threadIdx.x % 128 == 0;
    RingPosition at = { 0, 0 }, before = { 0, 0 };
    int          batch = (int)(head / a.heads), inner = (int)(head % a.heads);
    if (asks && threadIdx.x % 128 >= 32)
        return;
    if (asks) {
        if (one) {
            bar_expect(&s.ready, (int)sizeof s.own);
            for (int i = 0; i < OWNS; i++)
                tile_ask(s.own[i], r.own_map[i], &s.ready, (int)first, inner / r.own[i].share,
                         batch);
        } else
            bar_arrive(&s.ready);
    } else {
        for (int i = 0; i < OWNS; i++)
            tile_copy(s.own[i], a, r.own[i], head, first, r.own_rows);
        copy_commit();
        copy_wait<0>();
        smem_writes_visible();
        bar_arrive(&s.ready);
    }
    for (int64_t i = 0; i < tiles; i++) {
        uint64_t *full = &s.full[at.stage];
        int64_t   tile = walk.tile(i), of = walk.head(i);
        inner = (int)(of % a.heads);
        bar_wait(&s.empty[at.stage], at.parity ^ 1);
        if (one)
            more.ask(at.stage, of, tile, full);
        if (asks) {
            if (one) {
                bar_expect(full, (int)(2 * sizeof s.one[0]));
                tile_ask(s.one[at.stage], r.walk_map[0], full, (int)(tile * ROWS),
                         inner / r.walk[0].share, batch);
                tile_ask(s.two[at.stage], r.walk_map[1], full, (int)(tile * ROWS),
                         inner / r.walk[1].share, batch);
            } else
                bar_arrive(full);
            __syncwarp();
        } else {
            tile_copy(s.one[at.stage], a, r.walk[0], of, tile * ROWS, r.walk_rows);
            tile_copy(s.two[at.stage], a, r.walk[1], of, tile * ROWS, r.walk_rows);
            copy_commit();
            if (i) {
                copy_wait<1>();
                smem_writes_visible();
                bar_arrive(&s.full[before.stage]);
                before.template next<STAGES>();
            }
        }
        at.template next<STAGES>();
    }
    if (!asks) {
        copy_wait<0>();
        smem_writes_visible();
        bar_arrive(&s.full[before.stage]);
    }
}
struct NoMore {
    __device__ __forceinline__ void ask(int, int64_t, int64_t, uint64_t *) const {}
};

/* ---- products ---- */

/* The tensor cores' descriptor of rows of LINE bytes; `leading`: bytes to the neighbouring
 * panel. */
template <int LINE> __device__ __forceinline__ uint64_t panel_at(const void *p, int leading)
{
    constexpr uint64_t kind = LINE == 128 ? 1 : LINE == 64 ? 2 : 3;
    return (uint64_t)(smem_at(p) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(LINE * 8 >> 4) << 32 | kind << 62;
}
/* The k-th block of 16 columns of a tile's rows from `row` on, the summed index along the rows. */
template <int ROWS, int K>
__device__ __forceinline__ uint64_t along(const Panels<ROWS, K> &t, int row, int k)
{
    constexpr int full = Panels<ROWS, K>::FULL, bytes = Panels<ROWS, K>::PANEL,
                  line = Panels<ROWS, K>::LINE;
    if (k < 4 * full)
        return panel_at<128>(t.at + row * 128, 0) + (uint64_t)((k / 4 * bytes + k % 4 * 32) >> 4);
    return panel_at<line>(t.at + full * bytes + row * line, 0) + (uint64_t)((k - 4 * full) * 2);
}

/* Loads this warpgroup's 64 rows of x, from `row` on, as left-hand sides. */
template <int K, int RX>
__device__ __forceinline__ void rows_get(uint32_t (&x)[K / 16][4], const Panels<RX, K> &from,
                                         int row)
{
    int lane = (int)threadIdx.x % 32;
    row += (int)threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < K / 16; k++)
        ldmatrix(x[k], from.at + byte_at<RX, K>(row, k * 32 + lane / 16 * 16));
}

/* s = x y^T over K columns: 64 rows of x from `row` on, all N rows of y. Queued, not waited
 * for. */
template <class T, int K, int RX, int N>
__device__ __forceinline__ void scores_queue(float (&s)[N / 8][4], const Panels<RX, K> &x, int row,
                                             const Panels<N, K> &y)
{
    wgmma<N, false>(s, along(x, row, 0), along(y, 0, 0), T());
#pragma unroll
    for (int k = 1; k < K / 16; k++)
        wgmma<N, true>(s, along(x, row, k), along(y, 0, k), T());
}
template <class T, int K, int N> /* x in registers */
__device__ __forceinline__ void scores_queue(float (&s)[N / 8][4], const uint32_t (&x)[K / 16][4],
                                             const Panels<N, K> &y)
{
    wgmma<N, false, false>(s, x[0], along(y, 0, 0), T());
#pragma unroll
    for (int k = 1; k < K / 16; k++)
        wgmma<N, true, false>(s, x[k], along(y, 0, k), T());
}

/* acc += p y: p in registers, 64 rows by ROWS; y has ROWS rows of N columns. Queued, not
 * waited for. */
template <class T, int N, int ROWS, int K>
__device__ __forceinline__ void
sums_queue(float (&acc)[N / 8][4], const uint32_t (&p)[ROWS / 16][4], const Panels<ROWS, K> &y)
{
    constexpr int full = Panels<ROWS, K>::FULL, bytes = Panels<ROWS, K>::PANEL,
                  line = Panels<ROWS, K>::LINE, n = full * 64;
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) {
        if constexpr (full > 0)
            wgmma<n>(*(float(*)[n / 8][4]) acc, p[k],
                     panel_at<128>(y.at, bytes) + (uint64_t)(k * 128), T());
        if constexpr (line > 0)
            wgmma<N - n>(*(float(*)[(N - n) / 8][4])(acc + n / 8), p[k],
                         panel_at<line>(y.at + full * bytes, 0) + (uint64_t)(k * line), T());
    }
}

template <int N> __device__ __forceinline__ void clear(float (&c)[N][4])
{
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            c[i][e] = 0;
    hold(c);
}

#endif
#endif
