/* norm_kernels_cuda.h -- what the kernels of norm_forward_cuda.cu, norm_backward_cuda.cu and
 * norm_dx_cuda.cu share: where a thread stands, its packs and channels, sums of columns, and how
 * work is divided (norm_cuda.h). */
#ifndef OPS_NORM_NORM_KERNELS_CUDA_H
#define OPS_NORM_NORM_KERNELS_CUDA_H

#include "ops/norm/norm_cuda.h"

/* Vectors that a thread loads at once (AHEAD) and blocks per multiprocessor (BLOCKS), for the
 * passes that take sums and those that write results. One wave of blocks does all the work. */
enum {
    MOMENTS_AHEAD = 4,
    MOMENTS_BLOCKS = 3,
    SLOPES_AHEAD = 4,
    SLOPES_BLOCKS = 2,
    APPLY_AHEAD = 4,
    APPLY_BLOCKS = 3,
    DX_AHEAD = 4,
    DX_BLOCKS = 2,
    ADD_AHEAD = 3, /* a gradient that reads three tensors */
    MAP_AHEAD = 2,
    MAP_BLOCKS = 2
}; /* SPADE, which reads three tensors */

/* A kernel's FORM says what becomes of z = weight * (x - mean) * rstd + bias: a NormAct, or MAPPED
 * for SPADE. */
enum { MAPPED = NORM_ACTS };

/* A thread's share: vectors v, v + step, ... of each of its rounds, all of the same channels. */
struct NormPlace {
    int64_t sample;
    int     chunk, rounds, column, lane;
    int     first, end, step, stride; /* first: of round 0; stride: to the next round */
    bool    active;
};

/* Rounds of a chunk. */
__device__ __forceinline__ int rounds_of(const NormCuda &run, int chunk)
{
    return (int)((unsigned)(run.rounds + run.chunks - 1 - chunk) / (unsigned)run.chunks);
}

/* Pixels of a chunk: the sample's last round may be short. */
__device__ __forceinline__ int64_t pixels_of(const NormCuda &run, int chunk)
{
    int     mine = rounds_of(run, chunk), last = chunk + (mine - 1) * run.chunks;
    int64_t over = run.rounds * run.round - run.pixels;
    return mine * run.round - (last == run.rounds - 1 ? over : 0);
}

template <int V, int AHEAD> __device__ __forceinline__ NormPlace place_of(const NormCuda &run)
{
    NormPlace p;
    unsigned  id = blockIdx.x / (unsigned)run.tiles;
    int       tile = (int)(blockIdx.x - id * (unsigned)run.tiles), t = (int)threadIdx.x;
    p.sample = id / (unsigned)run.chunks;
    p.chunk = (int)(id - (unsigned)p.sample * (unsigned)run.chunks);
    p.lane = run.tiles > 1 ? 0 : t / run.columns;
    p.column = run.tiles > 1 ? tile * NORM_THREADS + t : t - p.lane * run.columns;
    p.active = p.lane < run.lanes && p.column < run.columns;
    p.rounds = p.active ? rounds_of(run, p.chunk) : 0;
    p.step = run.lanes * run.columns;
    p.first = p.chunk * (AHEAD * p.step) + p.lane * run.columns + p.column;
    p.stride = run.chunks * (AHEAD * p.step);
    p.end = (int)(run.pixels * run.channels / V);
    return p;
}

/* The vectors v, v + step, ... < end of a round, and zeros beyond. All are loaded at once: results
 * may overwrite x, and a load after a store would wait for it. */
template <class T, int V, int AHEAD>
__device__ __forceinline__ void packs_get(const NormPlace &p, const T *at, int v,
                                          Pack<T, V> (&packs)[AHEAD])
{
#pragma unroll
    for (int s = 0; s < AHEAD; s++) {
        memset(&packs[s], 0, sizeof packs[s]);
        if (v + s * p.step < p.end)
            packs[s] = ((const Pack<T, V> *)at)[v + s * p.step];
    }
}

template <class T, int V>
__device__ __forceinline__ void pack_numbers(const Pack<T, V> &pack, float *x)
{
#pragma unroll
    for (int j = 0; j < V; j++)
        x[j] = get(pack.at, j);
}

/* Steps through the channels of a thread's vector and their groups. */
struct NormChannel {
    int at, group, in_group, width, channels;

    __device__ __forceinline__ NormChannel(const NormCuda &run, int first)
    {
        channels = (int)run.channels;
        width = channels / (int)run.groups;
        at = first % channels; /* a vector may span several pixels */
        group = at / width;
        in_group = at - group * width;
    }
    __device__ __forceinline__ void next()
    {
        if (++in_group == width)
            in_group = 0, group++;
        if (++at == channels)
            at = group = in_group = 0;
    }
};

/* Sums of the block's columns over all lanes and, where a row holds several pixels, over these.
 * Calls give(channel, one, two) once for each channel of the block. */
template <int V, class Give>
__device__ void sum_columns(const NormCuda &run, const NormPlace &p, const float *one,
                            const float *two, Give give)
{
    __shared__ float sum[2][V][NORM_THREADS];
    int              t = (int)threadIdx.x;
#pragma unroll
    for (int j = 0; j < V; j++) {
        sum[0][j][t] = one[j];
        sum[1][j][t] = two[j];
    }
    __syncthreads();
    for (int n = run.lanes; n > 1;) {
        int half = (n + 1) / 2;
        if (p.active && p.lane < n - half)
#pragma unroll
            for (int j = 0; j < V; j++) {
                sum[0][j][t] += sum[0][j][t + half * run.columns];
                sum[1][j][t] += sum[1][j][t + half * run.columns];
            }
        __syncthreads();
        n = half;
    }
    int wide = run.columns * V;
    if (run.tiles > 1) { /* a row is one pixel here */
        if (p.active)
#pragma unroll
            for (int j = 0; j < V; j++)
                give(p.column * V + j, sum[0][j][t], sum[1][j][t]);
        return;
    }
    for (int c = t; c < run.channels; c += NORM_THREADS) {
        float a = 0, b = 0;
        for (int e = c; e < wide; e += (int)run.channels) {
            a += sum[0][e % V][e / V];
            b += sum[1][e % V][e / V];
        }
        give(c, a, b);
    }
}

__device__ __forceinline__ float *partial_at(const NormCuda &run, const NormPlace &p,
                                             float *partial, int c)
{
    return partial + 2 * ((p.sample * run.chunks + p.chunk) * run.channels + c);
}

__device__ __forceinline__ double warp_sum_double(double x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* The constants of a thread's channels: z = (x - mean) * scale + bias. */
template <int V> struct ColumnAffine {
    float mean[V], scale[V], bias[V];
};

template <int V, class T>
__device__ __forceinline__ void affines_as(const T *p, int first, int channels, float *to)
{
    int c = first % channels;
#pragma unroll
    for (int j = 0; j < V; j++) {
        to[j] = get(p, c);
        c = c + 1 == channels ? 0 : c + 1;
    }
}

/* Weights or biases of V channels; `to` is unchanged where there are none. */
template <int V>
__device__ __forceinline__ void affines_of(Type type, const void *p, int first, int channels,
                                           float *to)
{
    if (!p)
        return;
    switch (type) {
    case BF16: affines_as<V>((const bf16 *)p, first, channels, to); break;
    case F16: affines_as<V>((const f16 *)p, first, channels, to); break;
    default: affines_as<V>((const float *)p, first, channels, to); break;
    }
}

template <int V>
__device__ __forceinline__ void columns_of(const NormCuda &run, const NormPlace &p,
                                           ColumnAffine<V> &k, float *rstd)
{
    if (!p.active)
        return;
    float         weight[V];
    const float2 *of = (const float2 *)run.statistics + p.sample * run.groups;
    NormChannel   c(run, p.column * V);
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        float2 s = run.var ? make_float2(run.mean[c.at],
                                         (float)(1 / sqrt((double)run.var[c.at] + (double)run.eps)))
                           : of[c.group];
        k.mean[j] = s.x;
        rstd[j] = s.y;
        weight[j] = 1;
        k.bias[j] = 0;
    }
    affines_of<V>(run.type_w, run.weight, p.column * V, (int)run.channels, weight);
    affines_of<V>(run.type_w, run.bias, p.column * V, (int)run.channels, k.bias);
#pragma unroll
    for (int j = 0; j < V; j++)
        k.scale[j] = rstd[j] * weight[j];
}

/* The element of the map gamma for vector v of a sample. A row is a single pixel here, so gamma is
 * laid out like x, or like x with twice the channels. */
template <int V>
__device__ __forceinline__ int64_t map_at(const NormCuda &run, const NormPlace &p, int v)
{
    int64_t at = p.sample * run.pixels * run.channels + (int64_t)v * V;
    return run.packed ? 2 * at - (int64_t)p.column * V : at;
}

/* As packs_get, from a map. */
template <class T, int V, int AHEAD>
__device__ __forceinline__ void maps_get(const NormCuda &run, const NormPlace &p, const T *map,
                                         int v, Pack<T, V> (&packs)[AHEAD])
{
#pragma unroll
    for (int s = 0; s < AHEAD; s++) {
        memset(&packs[s], 0, sizeof packs[s]);
        if (v + s * p.step < p.end)
            packs[s] = *(const Pack<T, V> *)(map + map_at<V>(run, p, v + s * p.step));
    }
}

/* ---- host ---- */

/* Divides samples into chunks: at most `blocks` in all, none needlessly small. */
static inline void norm_divide(NormCuda *run, int64_t blocks)
{
    enum { MIN_CHUNK = 8192 }; /* elements */
    int64_t want = blocks / run->samples > 1 ? blocks / run->samples : 1;
    int64_t max_chunks = ceil_div(run->pixels * run->channels, MIN_CHUNK);
    run->chunks = (int)(want < max_chunks ? want : max_chunks);
}

static inline bool norm_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

/* Sets columns, lanes, tiles and rounds for vectors of v elements, `ahead` loaded at once; false:
 * the run does not allow such vectors. */
static inline bool norm_arrange(NormCuda *run, int v, int ahead)
{
    int64_t c = run->channels, fold = 1;
    while (c * fold % v)
        fold *= 2;
    if (v > 1 &&
        (run->pixels * c % v || !norm_aligned(run->x) || !norm_aligned(run->dy) ||
         !norm_aligned(run->y) || !norm_aligned(run->dx) || !norm_aligned(run->gamma) ||
         !norm_aligned(run->beta) || !norm_aligned(run->dgamma) || !norm_aligned(run->before)))
        return false;
    if (fold > 1 && (run->gamma || c * fold > (int64_t)NORM_THREADS * v))
        return false;
    run->columns = (int)(c * fold / v);
    run->tiles = (int)ceil_div(run->columns, NORM_THREADS);
    run->lanes = run->tiles > 1 ? 1 : NORM_THREADS / run->columns;
    run->round = run->lanes * fold * ahead;
    run->rounds = (int)ceil_div(run->pixels, run->round);
    return true;
}

static inline unsigned norm_blocks(const NormCuda *run)
{
    return (unsigned)(run->samples * run->chunks * run->tiles);
}

/* Runs the statements with T and V: whole 16-byte vectors where they fit. */
#define WITH_VECTORS(run, ahead, ...)                                                              \
    WITH_FLOAT((run).type, T, {                                                                    \
        constexpr int wide = 16 / (int)sizeof(T);                                                  \
        if (norm_arrange(&(run), wide, ahead)) {                                                   \
            constexpr int V = wide;                                                                \
            __VA_ARGS__                                                                            \
        } else {                                                                                   \
            norm_arrange(&(run), 1, ahead);                                                        \
            constexpr int V = 1;                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    })

/* The kernel of the run's FORM. */
#define FORM_OF(run, kernel, T, V)                                                                 \
    ((run).gamma              ? kernel<T, V, MAPPED>                                               \
     : (run).act == NORM_SILU ? kernel<T, V, NORM_SILU>                                            \
     : (run).act == NORM_RELU ? kernel<T, V, NORM_RELU>                                            \
     : (run).act == NORM_GELU ? kernel<T, V, NORM_GELU>                                            \
                              : kernel<T, V, NORM_LINEAR>)

static inline size_t partial_bytes(const NormCuda *given, int64_t blocks)
{
    NormCuda run = *given;
    norm_divide(&run, blocks);
    return (size_t)(run.samples * run.chunks * run.channels) * 2 * sizeof(float);
}

static inline unsigned join_threads(int64_t work)
{
    return (unsigned)(work >= 256 ? 256 : ceil_div(work < 1 ? 1 : work, 32) * 32);
}

/* norm_dx_cuda.cu: dx, and SPADE's gradient of its maps, from the means that norm_backward_cuda
 * found. */
Err norm_dx_cuda(const Call *call, NormCuda run, const float *means);

#endif
