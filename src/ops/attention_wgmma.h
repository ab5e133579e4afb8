/* attention_wgmma.h -- pieces for attention on Hopper: tiles, products of a warpgroup, a ring of
 * stages.
 *
 * A warpgroup (4 warps) multiplies 64 rows at a time; the right-hand side is read from shared
 * memory, the left-hand side from there or from registers, where the results lie as those of
 * mma.sync do. The last warpgroup of a block only fetches tiles into a ring of stages (`full` says
 * that a tile is there, `empty` that all have read it) and leaves most of its registers to the
 * others.
 *
 * A tile in shared memory is a row of columns 16 bytes wide, each with all rows of the tile: eight
 * rows of a column are the 128 bytes that the tensor cores take at a time, so the same tile serves
 * with the summed index along its rows and down its columns, for any width in steps of 8. The 16
 * bytes between columns put the pieces of one row, which are copied together, into different
 * banks. */
#ifndef OPS_ATTENTION_WGMMA_H
#define OPS_ATTENTION_WGMMA_H

#include "ops/attention_mma.h"

enum { STAGES = 4 };

template <int ROWS, int D> struct WideTile {
    enum { STEP = ROWS * 16 + 16 };              /* bytes from a column to the next */
    char at[D / 8 * STEP];
};

/* K: the head's width in steps of the summed index, N: in steps of a result's columns. */
#define WITH_WIDTHS(width, K, N, ...)                                                         \
    do {                                                                                      \
        if ((width) <= 32)      { constexpr int K = 32, N = 32; __VA_ARGS__ }                 \
        else if ((width) <= 56) { constexpr int K = 64, N = 56; __VA_ARGS__ }                 \
        else if ((width) <= 64) { constexpr int K = 64, N = 64; __VA_ARGS__ }                 \
        else if ((width) <= 72) { constexpr int K = 80, N = 72; __VA_ARGS__ }                 \
        else if ((width) <= 80) { constexpr int K = 80, N = 80; __VA_ARGS__ }                 \
        else                    { constexpr int K = 128, N = 128; __VA_ARGS__ }               \
    } while (0)

/* Shall three warpgroups share a tile, or would too many of them have no rows? */
static inline bool three_pay(int64_t rows)
{
    return ceil_div(rows, 192) * 3 <= ceil_div(rows, 128) * 2 + 1;
}

/* Blocks of 64 rows a reading warpgroup, and one warpgroup that fetches. */
template <class Kernel>
static Err wgmma_launch(const Call *call, Kernel kernel, const AttentionCuda &a, int64_t rows,
                        int groups, size_t bytes)
{
    int64_t blocks = ceil_div(rows, 64 * groups);
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    kernel<<<(unsigned)(a.n_heads * blocks), (unsigned)(groups * 128 + 128), bytes,
             cuda_stream(call)>>>(a, blocks);
    CUDA_LAUNCHED();
    return OK;
}

/* Bytes copied at a time, as a constant. */
#define WITH_COPY(copy, COPY, ...)                                                            \
    do {                                                                                      \
        if ((copy) == 16)     { constexpr int COPY = 16; __VA_ARGS__ }                        \
        else if ((copy) == 8) { constexpr int COPY = 8; __VA_ARGS__ }                         \
        else                  { constexpr int COPY = 4; __VA_ARGS__ }                         \
    } while (0)

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- order ---- */

struct Ring { uint64_t full[STAGES], empty[STAGES]; };

__device__ __forceinline__ void barrier_init(uint64_t *b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(count)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(b)) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t *b, int parity)
{
    asm volatile("{\n .reg .pred p;\n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 " @p bra DONE;\n bra WAIT;\nDONE:\n}" ::"r"(shared_at(b)), "r"(parity) : "memory");
}
/* Shared memory written by copies or stores may now be read by the tensor cores. */
__device__ __forceinline__ void writes_visible()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* A warpgroup's registers, each thread's: the fetching one gives, the others take. In all they may
 * be no more than the block was launched with, or all wait for ever: 168 each (3 warpgroups), 128
 * (4). */
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

/* By one thread, then a __syncthreads. Each fetching thread fills, each reading warp empties. */
__device__ __forceinline__ void ring_init(Ring &ring, int readers)
{
    for (int i = 0; i < STAGES; i++) {
        barrier_init(&ring.full[i], 128);
        barrier_init(&ring.empty[i], readers);
    }
}

struct Place {                   /* in the ring */
    int stage, phase;
    __device__ __forceinline__ void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

/* The fetching warpgroup: tiles of two tensors, and what a tile has besides. What comes next is on
 * its way into registers while a stage is waited for. */
template <class Feed, class More>
__device__ __forceinline__ void ring_fill(Ring &ring, int64_t tiles, Feed one, Feed two, More more)
{
    Place at = { 0, 0 };
    one.load();
    two.load();
    more.load();
    for (int64_t tile = 0; tile < tiles; tile++) {
        barrier_wait(&ring.empty[at.stage], at.phase ^ 1);
#pragma unroll 1
        for (int s = 0; s < Feed::SPLIT; s++) {
            one.store(at.stage, s);
            one.load();
            two.store(at.stage, s);
            two.load();
        }
        more.store(at.stage);
        more.load();
        writes_visible();
        barrier_arrive(&ring.full[at.stage]);
        at.next();
    }
}
struct NoMore {
    __device__ __forceinline__ void load() {}
    __device__ __forceinline__ void store(int) {}
};

/* ---- tiles ---- */

/* Rows of x, n of which exist, into rows `first` on, by one warpgroup; neighbours take one row.
 * Only the head's columns are written. */
template <int COPY, int ROWS, int D, class T>
__device__ __forceinline__ void tile_fetch(WideTile<ROWS, D> &to, int first, int rows, const T *x,
                                           int64_t ld, int64_t n, int width)
{
    int lane = (int)threadIdx.x % 128, count = width * 2 / COPY, step = 128 / count,
        r = lane / count;
    if (r < step) {
        int         byte = lane % count * COPY;
        const char *from = (const char *)(x + (int64_t)r * ld) + byte;
        char       *at = to.at + byte / 16 * WideTile<ROWS, D>::STEP + (first + r) * 16 + byte % 16;
#pragma unroll 4
        for (int i = r; i < rows; i += step) {
            copy_async(at, i < n ? from : (const char *)x, COPY, i < n);
            from += step * ld * 2;
            at += step * 16;
        }
    }
}

/* N numbers of 4 bytes from global memory, 0 where there is nothing, and to shared memory.
 * Volatile: the compiler must leave the load where it is, far ahead of the store. */
template <int N>
__device__ __forceinline__ void piece_load(uint32_t (&x)[N], const char *p, bool there)
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
                     : "=&r"(x[0]), "=&r"(x[1]) : "l"(p), "r"((int)there));
    else
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b32 %0, 0;\n"
                     " @p ld.global.nc.L1::no_allocate.b32 %0, [%1];\n}"
                     : "=&r"(x[0])
                     : "l"(p), "r"((int)there));
}
template <int N>
__device__ __forceinline__ void piece_store(uint32_t at, const uint32_t (&x)[N], bool wanted)
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
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n @p st.shared.b32 [%0], %1;\n}"
                     ::"r"(at), "r"(x[0]), "r"((int)wanted) : "memory");
}

/* Note [Through registers] Tiles of ROWS rows one after another, N columns at most, are loaded and
 * stored, not copied by cp.async: a row is spread over many columns of the tile, and copies that do
 * not lie together in shared memory are not put together into one request either. Each then takes a
 * sector of 32 bytes from the second cache for its 16, eight requests where one would do, and the
 * cache, not the tensor cores, sets the pace.
 *
 * What a thread needs is worked out once: the fetching warps compete with the others for every
 * instruction. A tile comes in as many parts as make a thread's share of one fit into MOST
 * registers. */
template <int COPY, int ROWS, int D, int N, int MOST> struct Feed {
    enum { WORDS = COPY / 4, LEAST = 128 / (N * 2 / COPY) };  /* rows at a time, at least */
    static constexpr int share(int split) { return (ROWS / split + LEAST - 1) / LEAST; }
    enum {
        SPLIT = share(1) * WORDS <= MOST   ? 1
                : share(2) * WORDS <= MOST ? 2
                                           : 4,
        PART = ROWS / SPLIT,
        SHARE = share(SPLIT)
    };
    static_assert(ROWS % SPLIT == 0, "parts are equal");

    uint32_t    x[SHARE][WORDS];
    const char *from;            /* this thread's first piece of the next part */
    int         part, step;      /* bytes to the next part, to its next piece */
    int         n;               /* rows left, from its first piece on */
    uint32_t    to;              /* its place in the first stage */
    int         row, rows;       /* its first row, and from each to the next */

    template <class T>
    __device__ __forceinline__ Feed(const WideTile<ROWS, D> *stages, const T *x_, int64_t ld,
                                    int64_t count, int width)
    {
        int pieces = width * 2 / COPY, byte = (int)threadIdx.x % 128 % pieces * COPY;
        row = (int)threadIdx.x % 128 / pieces;
        rows = 128 / pieces;
        from = (const char *)(x_ + row * ld) + byte;
        to = shared_at(stages->at) +
             (uint32_t)(byte / 16 * WideTile<ROWS, D>::STEP + row * 16 + byte % 16);
        part = (int)(PART * ld * 2);
        step = (int)(rows * ld * 2);
        n = (int)(count < INT32_MAX ? count : INT32_MAX) - row;
        if (row >= rows)
            row = PART;          /* one of the 128 that are too many */
    }
    /* Addresses are counted up, not made ready for each piece: registers are few. */
    __device__ __forceinline__ void load()
    {
        const char *p = from;
        int         r = 0;
#pragma unroll
        for (int i = 0; i < SHARE; i++, p += step, r += rows) {
            asm volatile("" : "+l"(p), "+r"(r));
            piece_load<WORDS>(x[i], p, row + r < PART && r < n);
        }
        from += part;
        n -= PART;
    }
    __device__ __forceinline__ void store(int stage, int s) const
    {
        uint32_t at = to + (uint32_t)stage * (uint32_t)sizeof(WideTile<ROWS, D>) +
                      (uint32_t)s * PART * 16;
        int      r = row;
#pragma unroll
        for (int i = 0; i < SHARE; i++, at += (uint32_t)rows * 16, r += rows) {
            asm volatile("" : "+r"(at), "+r"(r));
            piece_store<WORDS>(at, x[i], r < PART);
        }
    }
};

/* Zeros in the columns beyond the head's width. */
template <int ROWS, int D>
__device__ __forceinline__ void tile_fill_up(WideTile<ROWS, D> &t, int width)
{
    int from = width / 8 * WideTile<ROWS, D>::STEP;
    for (int i = from + 16 * (int)threadIdx.x; i < (int)sizeof t.at; i += 16 * (int)blockDim.x)
        *(uint4 *)(t.at + i) = make_uint4(0, 0, 0, 0);
}

/* Where the tensor cores find a tile's pieces, summed along the rows or down the columns. */
__device__ __forceinline__ uint64_t place_at(uint32_t p, int leading, int stride)
{
    return (uint64_t)(p >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32;
}
__device__ __forceinline__ uint64_t place_of(const void *p, int leading, int stride)
{
    return place_at(shared_at(p), leading, stride);
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

/* ---- products ---- */

__device__ __forceinline__ void wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* The compiler does not move uses of c over this place. */
template <int N> __device__ __forceinline__ void hold(float (&c)[N][4])
{
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+f"(c[i][e])::"memory");
}

#define R_32  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R_48  R_32 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define R_56  R_48 ",%24,%25,%26,%27"
#define R_64  R_56 ",%28,%29,%30,%31"
#define R_72  R_64 ",%32,%33,%34,%35"
#define R_80  R_72 ",%36,%37,%38,%39"
#define R_128                                                                                      \
    R_80 ",%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%"  \
         "61,%62,%63"
#define C(m, i)  m(c[i][0]), m(c[i][1]), m(c[i][2]), m(c[i][3])
#define C_32(m)  C(m, 0), C(m, 1), C(m, 2), C(m, 3)
#define C_48(m)  C_32(m), C(m, 4), C(m, 5)
#define C_56(m)  C_48(m), C(m, 6)
#define C_64(m)  C_56(m), C(m, 7)
#define C_72(m)  C_64(m), C(m, 8)
#define C_80(m)  C_72(m), C(m, 9)
#define C_128(m) C_80(m), C(m, 10), C(m, 11), C(m, 12), C(m, 13), C(m, 14), C(m, 15)
#define C_SET(x) "=f"(x)
#define C_ADD(x) "+f"(x)

/* Operands after the N/2 results, by number. A result that is set must not be an operand too: the
 * copy into its registers would make the compiler end all products under way. */
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
#define WGMMA_REGISTERS(N, A0, A1, A2, A3, B, ADD, KIND)                                           \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #ADD ", 0;\n"                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND "." KIND " {" R_##N        \
                 "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", p, 1, 1, 1;\n}"               \
                 : C_##N(C_ADD)                                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(y), "r"(1))

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
        else if constexpr (N == 128)                                                               \
            WGMMA_TILES(128, 64, 65, 66, 67, 68, kind);                                            \
        else                                                                                       \
            WGMMA_TILES(64, 32, 33, 34, 35, 36, kind);                                             \
    }                                                                                              \
    template <int N>                                                                               \
    __device__ __forceinline__ void wgmma(float(&c)[N / 8][4], const uint32_t(&a)[4], uint64_t y,  \
                                          type)                                                    \
    {                                                                                              \
        if constexpr (N == 32)                                                                     \
            WGMMA_REGISTERS(32, 16, 17, 18, 19, 20, 21, kind);                                     \
        else if constexpr (N == 56)                                                                \
            WGMMA_REGISTERS(56, 28, 29, 30, 31, 32, 33, kind);                                     \
        else if constexpr (N == 64)                                                                \
            WGMMA_REGISTERS(64, 32, 33, 34, 35, 36, 37, kind);                                     \
        else if constexpr (N == 72)                                                                \
            WGMMA_REGISTERS(72, 36, 37, 38, 39, 40, 41, kind);                                     \
        else if constexpr (N == 80)                                                                \
            WGMMA_REGISTERS(80, 40, 41, 42, 43, 44, 45, kind);                                     \
        else                                                                                       \
            WGMMA_REGISTERS(128, 64, 65, 66, 67, 68, 69, kind);                                    \
    }
WGMMA_OF(bf16, "bf16")
WGMMA_OF(f16, "f16")
#undef WGMMA_OF
#undef WGMMA_TILES
#undef WGMMA_REGISTERS
#undef C

/* s = x y^T over K columns: 64 rows of x from `row` on, all N rows of y. Only queued. */
template <class T, int K, int RX, int N>
__device__ __forceinline__ void scores_queue(float (&s)[N / 8][4], const WideTile<RX, K> &x,
                                             int row, const WideTile<N, K> &y)
{
    uint64_t xs = along(x, row), ys = along(y, 0);
    wgmma<N, false>(s, xs, ys, T());
#pragma unroll
    for (int k = 1; k < K / 16; k++)
        wgmma<N, true>(s, xs + (uint64_t)k * (2 * WideTile<RX, K>::STEP / 16),
                       ys + (uint64_t)k * (2 * WideTile<N, K>::STEP / 16), T());
}

/* acc += p y: p in registers, 64 rows by ROWS; y has ROWS rows of N columns. Only queued. */
template <class T, int N, int ROWS, int K>
__device__ __forceinline__ void sums_queue(float (&acc)[N / 8][4],
                                           const uint32_t (&p)[ROWS / 16][4],
                                           const WideTile<ROWS, K> &y)
{
    uint64_t ys = down(y);
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++)
        wgmma<N>(acc, p[k], ys + (uint64_t)k * 16, T());
}

/* ---- softmax of what was seen so far ---- */

struct RowsSeen {                /* of this thread's two rows */
    float top[2], sum[2];
};

/* Scores become exponentials over the highest so far; y and the sum follow where that grew. The
 * scale is positive. */
template <int KEYS, int N>
__device__ __forceinline__ void softmax_step(float (&score)[KEYS / 8][4], float (&y)[N / 8][4],
                                             RowsSeen &r, float scale)
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
    if (__any_sync(0xffffffffu, grown)) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float factor = fast_exp2((r.top[h] - high[h]) * scale);
            r.top[h] = high[h];
            r.sum[h] *= factor;
#pragma unroll
            for (int d = 0; d < N / 8; d++) {
                y[d][2 * h] *= factor;
                y[d][2 * h + 1] *= factor;
            }
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
}

/* The log-sum-exp of a warp's 16 rows; the sum becomes what y is to be multiplied by. */
__device__ __forceinline__ void softmax_end(const AttentionCuda &a, int64_t head, int64_t row,
                                            RowsSeen &r, float scale)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        r.sum[h] += __shfl_xor_sync(0xffffffffu, r.sum[h], 1);
        r.sum[h] += __shfl_xor_sync(0xffffffffu, r.sum[h], 2);
        if (t == 0 && row + g + 8 * h < a.lq)
            lse_put(a, head * a.lq + row + g + 8 * h, r.top[h] * scale, r.sum[h]);
        r.sum[h] = 1 / r.sum[h];
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
