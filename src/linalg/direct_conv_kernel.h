/* direct_conv_kernel.h -- the kernels of direct_conv_cuda.cu; subpixel_conv_kernel.h uses them too.
 *
 * A block has two warpgroups for products, 64 rows each, and a warp that only lets the TMA fetch
 * the next boxes into a ring of stages. A long sum over few tiles is split (split-K); a second
 * kernel adds the partial sums in order. So every result has one writer and one order of summation.
 */
#ifndef LINALG_DIRECT_CONV_KERNEL_H
#define LINALG_DIRECT_CONV_KERNEL_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" {
#include "linalg/direct_conv.h"
}
#include "device/wgmma.h"

enum { ROWS = 128, DEEP = 64, BOX = 64 * 128, A_BYTES = 2 * BOX, THREADS = 288 };

/* Shared memory: 4 or 5 stages if a multiprocessor runs one block, 3 or 4 if it runs two. */
template <int N> struct Tile {
    enum {
        B_BYTES = N / 64 * BOX,
        STAGE = A_BYTES + B_BYTES,
        STAGES = N == 192   ? 5
                 : N == 128 ? 3
                            : 4,
        BLOCKS = N <= 128 ? 2 : 1,
        BYTES = STAGE * STAGES + 1024
    };
};

struct DirectJob {
    int          extent[4], box[4], blocks[4]; /* of the positions, along N, D, H, W */
    int          kernel[3], stride[3], shift[3], tap_sign;
    /* a tap's position: stride * p + shift + tap_sign * tap */
    int          rows, columns; /* weights: channels along either side */
    int          tiles_n, tiles_m, steps, per_split, deep_blocks; /* deep_blocks: of channels */
    bool         transposed, joined, direct; /* direct: not split, writes the result itself */
    int64_t      result;                     /* elements of it */
    const void  *bias;
    int          bias_type;
    const float *before;
    float       *out;  /* partial sums; or dw itself */
    float       *sums; /* weights: partial column sums of dy, per split and tap; or NULL */
    const float *sums_before;
};

static __device__ __forceinline__ float bias_at(const DirectJob &job, int i)
{
    return job.bias_type == F32    ? ((const float *)job.bias)[i]
           : job.bias_type == BF16 ? __bfloat162float(((const __nv_bfloat16 *)job.bias)[i])
                                   : __half2float(((const __half *)job.bias)[i]);
}
/* Converts two neighbours of either type to and from fp32. */
inline __device__ __nv_bfloat162 narrow2(float x, float y, __nv_bfloat16)
{
    return __floats2bfloat162_rn(x, y);
}
inline __device__ __half2 narrow2(float x, float y, __half) { return __floats2half2_rn(x, y); }
inline __device__ float2  wide2(const void *p, __nv_bfloat16)
{
    return __bfloat1622float2(*(const __nv_bfloat162 *)p);
}
inline __device__ float2 wide2(const void *p, __half)
{
    return __half22float2(*(const __half2 *)p);
}

/* Adds `n` partial column sums in a fixed order: one warp per column. */
static __device__ __forceinline__ void col_sums_add(const DirectJob &job, int n, int columns,
                                                    float *sums)
{
    int   k = (int)(blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = (int)threadIdx.x % 32;
    float all = 0;
    if (k >= columns)
        return;
    for (int p = lane; p < n; p += 32)
        all += job.sums[(int64_t)p * columns + k];
#pragma unroll
    for (int d = 16; d; d >>= 1)
        all += __shfl_xor_sync(0xffffffffu, all, d);
    if (lane == 0)
        sums[k] = job.sums_before ? job.sums_before[k] + all : all;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct At {
    int n, d, h, w;
};

static __device__ __forceinline__ At block_at(const DirectJob &job, int i)
{
    At at;
    at.w = i % job.blocks[3] * job.box[3];
    i /= job.blocks[3];
    at.h = i % job.blocks[2] * job.box[2];
    i /= job.blocks[2];
    at.d = i % job.blocks[1] * job.box[1];
    at.n = i / job.blocks[1] * job.box[0];
    return at;
}

/* The next block, without divisions, which a fetch would have to wait for. */
static __device__ __forceinline__ void block_next(const DirectJob &job, At &p)
{
    if ((p.w += job.box[3]) < job.extent[3])
        return;
    p.w = 0;
    if ((p.h += job.box[2]) < job.extent[2])
        return;
    p.h = 0;
    if ((p.d += job.box[1]) < job.extent[1])
        return;
    p.d = 0;
    p.n += job.box[0];
}

/* A tap as offsets along D, H and W; n is not used. */
static __device__ __forceinline__ At tap_of(const DirectJob &job, int tap)
{
    int line = tap / job.kernel[2], plane = line / job.kernel[1];
    return { 0, plane, line - plane * job.kernel[1], tap - line * job.kernel[2] };
}

static __device__ __forceinline__ void tap_next(const DirectJob &job, At &tap)
{
    if (++tap.w < job.kernel[2])
        return;
    tap.w = 0;
    if (++tap.h < job.kernel[1])
        return;
    tap.h = 0;
    tap.d++;
}

static __device__ __forceinline__ At tap_at(const DirectJob &job, At p, At tap)
{
    return { p.n, p.d * job.stride[0] + job.shift[0] + job.tap_sign * tap.d,
             p.h * job.stride[1] + job.shift[1] + job.tap_sign * tap.h,
             p.w * job.stride[2] + job.shift[2] + job.tap_sign * tap.w };
}

template <int N> struct Ring {
    uint64_t full[Tile<N>::STAGES], empty[Tile<N>::STAGES];
};

template <int N> static __device__ __forceinline__ void ring_ready(Ring<N> &ring)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < Tile<N>::STAGES; i++) {
            bar_init(&ring.full[i], 1);
            bar_init(&ring.empty[i], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        smem_writes_visible();
    }
    __syncthreads();
}

/* One thread fetches all boxes of steps [from, to), one stage at a time. */
template <int N, class Fetch>
static __device__ __forceinline__ void fetch_stages(char *stages, Ring<N> &ring, int from, int to,
                                                    Fetch fetch)
{
    int stage = 0, parity = 1;
    for (int s = from; s < to; s++) {
        bar_wait(&ring.empty[stage], parity);
        bar_expect(&ring.full[stage], Tile<N>::STAGE);
        fetch(stages + stage * Tile<N>::STAGE, &ring.full[stage]);
        if (++stage == Tile<N>::STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
}

template <int KIND, int N>
static __device__ __forceinline__ void
fetch_positions(const CUtensorMap *map_a, const CUtensorMap *map_b, const DirectJob &job,
                char *stages, Ring<N> &ring, int m, int n, int from, int to)
{
    int t = from / job.deep_blocks, c = (from - t * job.deep_blocks) * DEEP;
    At  tile = block_at(job, m), tap = tap_of(job, t);
    fetch_stages<N>(stages, ring, from, to, [&](char *a, uint64_t *full) {
        char *b = a + A_BYTES;
        At    q = tap_at(job, tile, tap);
        box_fetch5(a, map_a, full, c, q.w, q.h, q.d, q.n);
        if (KIND == CONV_FORWARD)
#pragma unroll
            for (int i = 0; i < N / 64; i++)
                box_fetch3(b + i * BOX, map_b, full, n * N + i * 64, c, t);
        else
            box_fetch3(b, map_b, full, c, n * N, t);
        if ((c += DEEP) == job.deep_blocks * DEEP) {
            c = 0;
            t++;
            tap_next(job, tap);
        }
    });
}

template <int N>
static __device__ __forceinline__ void
fetch_weights(const CUtensorMap *map_a, const CUtensorMap *map_b, const DirectJob &job,
              char *stages, Ring<N> &ring, int m, int n, int tap, int from, int to)
{
    At  p = block_at(job, from), taps[N / 64];
    int c[N / 64];
#pragma unroll
    for (int i = 0; i < N / 64; i++) { /* beyond the last tap: fetched, but not used */
        int box = n * (N / 64) + i, t = job.joined ? box / job.deep_blocks : 0;
        c[i] = (box - t * job.deep_blocks) * 64;
        taps[i] = tap_of(job, tap + t);
    }
    fetch_stages<N>(stages, ring, from, to, [&](char *a, uint64_t *full) {
        char *b = a + A_BYTES;
        At    pa = job.transposed ? p : tap_at(job, p, taps[0]);
#pragma unroll
        for (int i = 0; i < 2; i++)
            box_fetch5(a + i * BOX, map_a, full, m * ROWS + i * 64, pa.w, pa.h, pa.d, pa.n);
#pragma unroll
        for (int i = 0; i < N / 64; i++) {
            At pb = job.transposed ? tap_at(job, p, taps[i]) : p;
            box_fetch5(b + i * BOX, map_b, full, c[i], pb.w, pb.h, pb.d, pb.n);
        }
        block_next(job, p);
    });
}

/* Column sums of dy while its boxes are in shared memory. The blocks of all taps (joined: of all
 * columns) read the same boxes, so they divide the boxes among them: one block alone would make all
 * others wait. A thread adds two neighbouring columns of some of the rows. */
struct DyColSums {
    bool   wanted;          /* does this block compute some? */
    int    at, width, rows; /* offset of dy in a stage; its columns there; rows per thread */
    int    next, every;     /* steps until the next box to add; steps between two such boxes */
    float2 sum;

    __device__ __forceinline__ int pair() const { return (int)threadIdx.x % (width / 2); }
    __device__ __forceinline__ int share() const { return (int)threadIdx.x / (width / 2); }

    template <class T> __device__ __forceinline__ void add(const char *stage, T)
    {
        const char *box = stage + at + pair() / 32 * BOX + pair() % 4 * 4;
        int         chunk = pair() % 32 / 4;
        for (int r = share() * rows; r < share() * rows + rows && r < DEEP; r += 8)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float2 v = wide2(box + (r + i) * 128 + (chunk ^ i) * 16, T());
                sum.x += v.x, sum.y += v.y;
            }
    }

    /* Adds the threads' sums of each column in order, through `room`, into a row of `columns` sums,
     * in which this block's begin at `first`. */
    __device__ __forceinline__ void give(float *room, float *row, int first, int columns)
    {
        int shares = DEEP / rows;
        /* Both warpgroups have read their last stage. */
        asm volatile("bar.sync 1, 256;" ::: "memory");
        if (share() < shares)
            *(float2 *)(room + share() * width + pair() * 2) = sum;
        asm volatile("bar.sync 1, 256;" ::: "memory");
        for (int k = (int)threadIdx.x; k < width && first + k < columns; k += 256) {
            float all = 0;
            for (int s = 0; s < shares; s++)
                all += room[s * width + k];
            row[first + k] = all;
        }
    }
};

/* The 64 rows of a warpgroup. A stage is released when the products after it are under way. */
template <int KIND, int N, class T>
static __device__ __forceinline__ void multiply_all(float (&c)[N / 2], char *stages, Ring<N> &ring,
                                                    int group, int steps, DyColSums &sums)
{
    constexpr int TRANSPOSE_A = KIND == CONV_BACKWARD_WEIGHTS,
                  TRANSPOSE_B = KIND != CONV_BACKWARD_DATA;
    int stage = 0, parity = 0, before = 0;
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        c[i] = 0;
    for (int s = 0; s < steps; s++) {
        bar_wait(&ring.full[stage], parity);
        uint64_t a = factor_at(stages + stage * Tile<N>::STAGE + group * BOX, BOX);
        uint64_t b = factor_at(stages + stage * Tile<N>::STAGE + A_BYTES, BOX);
        products_begin();
#pragma unroll
        for (int k = 0; k < DEEP / 16; k++) /* 16 rows of 128 bytes down, or 32 bytes along */
            product<N, TRANSPOSE_A, TRANSPOSE_B>(c, a + (uint64_t)(TRANSPOSE_A ? 128 * k : 2 * k),
                                                 b + (uint64_t)(TRANSPOSE_B ? 128 * k : 2 * k),
                                                 T());
        products_commit();
        if (KIND == CONV_BACKWARD_WEIGHTS && sums.wanted && sums.next-- == 0) {
            sums.next = sums.every - 1;
            sums.add(stages + stage * Tile<N>::STAGE, T());
            /* no warp still reads the stage that is released */
            asm volatile("bar.sync %0, 128;" ::"r"(2 + group) : "memory");
        }
        products_wait<1>();
        if (s && threadIdx.x % 128 == 0)
            bar_arrive(&ring.empty[before]);
        before = stage;
        if (++stage == Tile<N>::STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    products_wait<0>();
}

/* Writes dw or a partial sum of it: rows and columns are channels. Four lanes write 32 bytes of a
 * row; transposed, eight lanes write those of a column. */
template <int N>
static __device__ __forceinline__ void weights_out(const DirectJob &job, const float (&c)[N / 2],
                                                   int m, int n, int tap, int split, int group)
{
    int          lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % 128 / 32;
    int          row = m * ROWS + group * 64 + warp * 16 + lane / 4, column = n * N + lane % 4 * 2;
    int64_t      first = (int64_t)tap * job.rows * job.columns;
    float       *out = job.out + (int64_t)split * job.result + first;
    const float *before = job.before ? job.before + first : NULL;
#pragma unroll
    for (int i = 0; i < N / 4; i++) { /* two columns beside each other */
        int r = row + i % 2 * 8, k = column + i / 2 * 8;
        if (r >= job.rows || k >= job.columns)
            continue;
        float2 v = make_float2(c[2 * i], c[2 * i + 1]);
        if (job.transposed) {
            int64_t at = (int64_t)k * job.rows + r;
            out[at] = before ? before[at] + v.x : v.x;
            out[at + job.rows] = before ? before[at + job.rows] + v.y : v.y;
        } else {
            int64_t at = (int64_t)r * job.columns + k;
            float2  b = before ? *(const float2 *)(before + at) : make_float2(0, 0);
            *(float2 *)(out + at) = before ? make_float2(b.x + v.x, b.y + v.y) : v;
        }
    }
}

/* Writes a partial sum of y or dx in fp32: rows are positions. */
template <int N>
static __device__ __forceinline__ void positions_out(const DirectJob &job, const float (&c)[N / 2],
                                                     int m, int n, int split, int group)
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % 128 / 32,
        column = n * N + lane % 4 * 2;
    float *out = job.out + (int64_t)split * job.result;
    At     tile = block_at(job, m);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int r = group * 64 + warp * 16 + lane / 4 + half * 8;
        At  p = { tile.n + r / (job.box[3] * job.box[2] * job.box[1]),
                  tile.d + r / (job.box[3] * job.box[2]) % job.box[1],
                  tile.h + r / job.box[3] % job.box[2], tile.w + r % job.box[3] };
        if (p.n >= job.extent[0] || p.d >= job.extent[1] || p.h >= job.extent[2] ||
            p.w >= job.extent[3])
            continue;
        float *to = out +
                    (((int64_t)(p.n * job.extent[1] + p.d) * job.extent[2] + p.h) * job.extent[3] +
                     p.w) *
                        job.columns;
#pragma unroll
        for (int j = 0; j < N / 8; j++)
            if (column + 8 * j < job.columns)
                *(float2 *)(to + column + 8 * j) = make_float2(c[4 * j + 2 * half],
                                                               c[4 * j + 2 * half + 1]);
    }
}

/* Writes y or dx itself, through shared memory, as boxes; `store` gets each box and its first
 * column. The TMA does not write outside the image. */
template <int N, class T, class Store>
static __device__ __forceinline__ void boxes_out(const DirectJob &job, const float (&c)[N / 2],
                                                 char *room, int n, int group, Store store)
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % 128 / 32;
    /* The other warpgroup may still read its last stage. */
    asm volatile("bar.sync 1, 256;" ::: "memory");
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
        int   column = n * N + 8 * j + lane % 4 * 2;
        float b0 = 0, b1 = 0;
        if (job.bias && column < job.columns)
            b0 = bias_at(job, column), b1 = bias_at(job, column + 1);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = group * 64 + warp * 16 + lane / 4 + half * 8;
            *(decltype(narrow2(0, 0, T())) *)(room + j / 8 * A_BYTES + row * 128 +
                                              (j % 8 ^ row % 8) * 16 + lane % 4 * 4) =
                narrow2(c[4 * j + 2 * half] + b0, c[4 * j + 2 * half + 1] + b1, T());
        }
    }
    smem_writes_visible();
    asm volatile("bar.sync 1, 256;" ::: "memory");
    if (threadIdx.x == 0) {
        for (int i = 0; i < N / 64; i++)
            if (n * N + i * 64 < job.columns)
                store(room + i * A_BYTES, n * N + i * 64);
        box_stores_end();
    }
}

#endif

template <int KIND, int N, class T>
static __global__ void __launch_bounds__(THREADS, Tile<N>::BLOCKS)
    direct_kernel(const __grid_constant__ CUtensorMap map_a,
                  const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ CUtensorMap map_out,
                  const __grid_constant__ DirectJob   job)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ char raw[];
    __shared__ Ring<N> ring;
    char              *stages = raw + (1024 - (smem_at(raw) & 1023)) % 1024;
    int group = (int)threadIdx.x / 128, tile = (int)blockIdx.x, split = (int)blockIdx.y;
    int n = tile % job.tiles_n, m = tile / job.tiles_n % job.tiles_m,
        tap = tile / job.tiles_n / job.tiles_m;
    int from = split * job.per_split,
        to = from + job.per_split < job.steps ? from + job.per_split : job.steps;
    ring_ready(ring);
    if (group == 2) {
        if (threadIdx.x == 256 && KIND == CONV_BACKWARD_WEIGHTS)
            fetch_weights<N>(&map_a, &map_b, job, stages, ring, m, n, tap, from, to);
        else if (threadIdx.x == 256)
            fetch_positions<KIND, N>(&map_a, &map_b, job, stages, ring, m, n, from, to);
    } else {
        float     c[N / 2];
        int       width = job.transposed ? ROWS : N, shares = 512 / width; /* 2 columns each */
        int       taps = job.kernel[0] * job.kernel[1] * job.kernel[2];
        int       mine = job.joined ? n : tap;
        DyColSums sums = { job.sums && (job.joined || (job.transposed ? n : m) == 0),
                           job.transposed ? 0 : A_BYTES,
                           width,
                           DEEP / shares,
                           mine,
                           job.joined ? job.tiles_n : taps };
        multiply_all<KIND, N, T>(c, stages, ring, group, to - from, sums);
        if (KIND == CONV_BACKWARD_WEIGHTS) {
            weights_out<N>(job, c, m, n, tap, split, group);
            if (sums.wanted) {
                int columns = job.transposed ? job.rows : job.columns;
                sums.give((float *)stages,
                          job.sums + (int64_t)(split * sums.every + mine) * columns,
                          (job.transposed ? m : n) * width, columns);
            }
        } else if (!job.direct) {
            positions_out<N>(job, c, m, n, split, group);
        } else {
            boxes_out<N, T>(job, c, stages, n, group, [&](const char *from, int column) {
                At p = block_at(job, m);
                box_store5(&map_out, from, column, p.w, p.h, p.d, p.n);
            });
        }
    }
#endif
}

/* y or dx = the partial sums in order + bias; four neighbours per thread. */
template <class T>
static __global__ void partials_kernel(const float4 *partials, int splits,
                                       const __grid_constant__ DirectJob job, T *y)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, count = job.result / 4;
    if (i >= count)
        return;
    float4 s = partials[i];
    for (int p = 1; p < splits; p++) {
        float4 v = partials[p * count + i];
        s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w;
    }
    float sum[4] = { s.x, s.y, s.z, s.w };
#pragma unroll
    for (int j = 0; j < 4; j++)
        y[4 * i + j] = (T)(job.bias ? sum[j] + bias_at(job, (int)((4 * i + j) % job.columns))
                                    : sum[j]);
}

#endif
