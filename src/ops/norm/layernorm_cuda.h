/* layernorm_cuda.h -- kernels of the norms over the last axis on CUDA.
 *
 * A row stays in the registers of a few lanes of a warp, of a warp, or of a block, as its width
 * asks, so that every byte passes once; rows too wide for that are read again from the cache. Layer
 * norm is the modulated norm with one weight and bias for all rows; scalar_norm has the number s
 * for a weight and rstd * m beside xhat.
 *
 * What a row waits for is the memory: where it pays, the packs of the next rows are on their way to
 * shared memory, each thread's to places only it looks at, so that it waits for its own alone.
 *
 * Sums over rows (gradients of weight and bias): rows are cut into pieces, none of which crosses
 * the end of a sample of the packed tensor; a block keeps the sums of one piece in registers and
 * writes [2][width], dy * xhat and dy; the pieces are added in order, in double.
 */
#ifndef OPS_NORM_LAYERNORM_CUDA_H
#define OPS_NORM_LAYERNORM_CUDA_H

#include "ops/ops_cuda.h"

enum { ROW_THREADS = 256, BACK_THREADS = 128, BLOCK_ROW_THREADS = 512 };

/* What weight and bias are: anything; given, of x's type, and so placed that packs of them can be
 * fetched with the row; or the two numbers of scalar_norm. */
typedef enum Affine { AFFINE_ANY, AFFINE_SAME, AFFINE_SCALAR } Affine;

/* Blocks of BACK_THREADS that a multiprocessor shall hold in a gradient, by the numbers of a row in
 * one lane: each needs x and g in registers, and two sums where a column has its own. */
__host__ __device__ constexpr int back_blocks(int numbers, bool scalar)
{
    return scalar ? (numbers <= 16 ? 6 : numbers <= 24 ? 4 : 3)
                  : (numbers <= 8 ? 6 : numbers <= 16 ? 4 : numbers <= 24 ? 3 : 2);
}

__host__ __device__ constexpr int forward_blocks(int numbers, bool scalar)
{
    return scalar ? (numbers >= 20 ? 3 : 5) : numbers >= 20 ? 2 : 3;
}

/* Rows that a thread has asked for ahead of the one it is at: on their way to shared memory they
 * cost no registers, of which sums over rows leave few. */
enum { RING = 2, RING_ROOM = 220 * 1024 };       /* RING_ROOM: bytes of a multiprocessor's rings */

/* Bytes of a block's ring in a gradient: x, dy and what dx is added to, and the weight. bytes: of a
 * row in one lane. */
__host__ __device__ constexpr int back_ring(int bytes)
{
    return (3 * RING + 1) * bytes * BACK_THREADS;
}

__host__ __device__ constexpr int ring_blocks(int numbers, int bytes)
{
    int held = numbers <= 8 ? 7 : numbers <= 24 ? 4 : numbers <= 32 ? 3 : 2;
    int room = RING_ROOM / (back_ring(bytes) + 2048);
    return held < room ? held : room;
}

typedef struct RowsCuda {        /* one run, forward or backward */
    int64_t     rows, width;
    int64_t     per;             /* rows that share weight and bias */
    int64_t     pieces, piece;   /* of each sample; rows of a piece */
    Type        type, type_w;
    const void *x, *dy, *weight, *bias;
    const void *before;          /* added to dx, or NULL */
    int64_t     pitch;           /* elements from one sample's weight to the next's */
    float       plus;            /* added to the weight */
    float       eps;
    bool        scalar;          /* weight and bias are the numbers s and m */
    bool        vectors_w;       /* weight and bias can be read 16 bytes at a time */
    int         lanes;           /* of a row */
    void       *y;               /* or dx */
    float      *partial;         /* [samples][pieces][2][width, or 1 if scalar]; NULL: not wanted */
} RowsCuda;

template <int V>
__device__ __forceinline__ void affine_get(const RowsCuda &job, const void *p, int64_t i,
                                           float absent, float *w)
{
    constexpr int wide = V < 4 ? V : 4;
    if (!p) {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = absent;
    } else if (job.type_w == F32) {
        if (job.vectors_w)
#pragma unroll
            for (int j = 0; j < V; j += wide)
                get_pack<wide>((const float *)p, i + j, w + j);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const float *)p, i + j);
    } else if (job.type_w == BF16) {
        if (job.vectors_w)
            get_pack<V>((const bf16 *)p, i, w);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const bf16 *)p, i + j);
    } else {
        if (job.vectors_w)
            get_pack<V>((const f16 *)p, i, w);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                w[j] = get((const f16 *)p, i + j);
    }
}

__device__ __forceinline__ float number(Type type, const void *p)
{
    return type == F32    ? *(const float *)p
           : type == BF16 ? get((const bf16 *)p, 0)
                          : get((const f16 *)p, 0);
}

/* The sum over the lanes of a row; every lane gets it. */
template <bool BLOCK> __device__ __forceinline__ float row_sum(float x, int lanes, float *lines)
{
    if constexpr (BLOCK) {
        return block_sum(x, lines);
    } else {
        for (int d = lanes / 2; d; d >>= 1)
            x += __shfl_xor_sync(0xffffffffu, x, d);
        return x;
    }
}

/* Two at once: neither waits for the other. */
template <bool BLOCK>
__device__ __forceinline__ void row_sums(float *x, float *y, int lanes, float *lines)
{
    if constexpr (BLOCK) {
        *x = block_sum(*x, lines);
        *y = block_sum(*y, lines);
    } else {
        for (int d = lanes / 2; d; d >>= 1) {
            float other = __shfl_xor_sync(0xffffffffu, *x, d);
            *y += __shfl_xor_sync(0xffffffffu, *y, d);
            *x += other;
        }
    }
}

/* A row as it is stored: lane l holds packs l, l + lanes, ... of `count`, zeros beyond the end. */
template <class T, int V, int K>
__device__ __forceinline__ void row_get(const T *p, int64_t at, int lane, int lanes, int count,
                                        bool live, Pack<T, V> (&x)[K])
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        int v = lane + k * lanes;
        if (live && v < count)
            x[k] = *(const Pack<T, V> *)(p + at + (int64_t)v * V);
        else
#pragma unroll
            for (int j = 0; j < V; j++)
                put(x[k].at, j, 0.0f);
    }
}

/* Mean and 1 / std. */
template <class T, int V, int K, bool BLOCK>
__device__ __forceinline__ void row_moments(const RowsCuda &job, const Pack<T, V> (&x)[K], int lane,
                                            int count, float *lines, float *mean, float *rstd)
{
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < K; k++) {            /* packs by themselves: no long chain of additions */
        float part = 0;
#pragma unroll
        for (int j = 0; j < V; j++)
            part += get(x[k].at, j);
        sum += part;
    }
    *mean = row_sum<BLOCK>(sum, job.lanes, lines) / (float)job.width;
#pragma unroll
    for (int k = 0; k < K; k++) {
        float part = 0;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float away = get(x[k].at, j) - *mean;
            part += away * away;
        }
        squares += lane + k * job.lanes < count ? part : 0;
    }
    squares = row_sum<BLOCK>(squares, job.lanes, lines);
    *rstd = 1.0f / sqrtf(squares / (float)job.width + job.eps);
}

/* Pack k of weight or bias as numbers: from what was fetched with the row, else from where it lies,
 * `absent` where it is not given. */
template <class T, int V, Affine FORM>
__device__ __forceinline__ void affine_pack(const RowsCuda &job, const Pack<T, V> &fetched,
                                            const void *p, int64_t at, bool inside, float absent,
                                            float *w)
{
    if constexpr (FORM == AFFINE_SAME) {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = get(fetched.at, j);
    } else if constexpr (FORM == AFFINE_SCALAR) {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = absent;
    } else {
#pragma unroll
        for (int j = 0; j < V; j++)
            w[j] = 0;
        if (inside)
            affine_get<V>(job, p, at, absent, w);
    }
}

/* Packs beyond a row's end are worked on like all others, as zeros, and not stored: without
 * branches between them the packs do not wait for one another. */
template <class T, int V, int K, bool BLOCK, Affine FORM>
__global__ void __launch_bounds__(BLOCK ? BLOCK_ROW_THREADS : ROW_THREADS,
                                  BLOCK ? 1 : forward_blocks(K * V, FORM == AFFINE_SCALAR))
    rows_forward(RowsCuda job)
{
    cuda_begin();
    __shared__ float lines[32];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = (int)blockDim.x / lanes, count = (int)(job.width / V);
    bool    scalar = FORM == AFFINE_SCALAR || (FORM == AFFINE_ANY && job.scalar);
    float   m = scalar ? number(job.type_w, job.bias) : 0;
    float   s = scalar ? number(job.type_w, job.weight) : 1;
    for (int64_t first = (int64_t)blockIdx.x * teams; first < job.rows;
         first += (int64_t)gridDim.x * teams) {
        int64_t row = first + team;          /* all lanes of a warp stay: their sums need them */
        bool    live = row < job.rows;
        int64_t sample = job.rows >> 32 ? row / job.per : (uint32_t)row / (uint32_t)job.per;
        int64_t affine = sample * job.pitch;
        float   mean, rstd;
        Pack<T, V> x[K], weight[K], bias[K];
        row_get<T, V, K>((const T *)job.x, row * job.width, lane, lanes, count, live, x);
        if constexpr (FORM == AFFINE_SAME) {
            row_get<T, V, K>((const T *)job.weight, affine, lane, lanes, count, live, weight);
            row_get<T, V, K>((const T *)job.bias, affine, lane, lanes, count, live, bias);
        }
        row_moments<T, V, K, BLOCK>(job, x, lane, count, lines, &mean, &rstd);
        if (!live)
            continue;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int     v = lane + k * lanes;
            int64_t at = affine + (int64_t)v * V;
            float   w[V], b[V], y[V];
            affine_pack<T, V, FORM>(job, weight[k], scalar ? NULL : job.weight, at, v < count,
                                    s, w);
            affine_pack<T, V, FORM>(job, bias[k], scalar ? NULL : job.bias, at, v < count,
                                    s * rstd * m, b);
#pragma unroll
            for (int j = 0; j < V; j++)
                y[j] = (get(x[k].at, j) - mean) * rstd * (w[j] + job.plus) + b[j];
            if (v < count)
                put_pack<V>((T *)job.y, row * job.width + (int64_t)v * V, y);
        }
    }
}

/* A pack on its way to shared memory, or zeros: it is there when ring_wait() has said so. */
template <class T, int V>
__device__ __forceinline__ void ring_ask(Pack<T, V> *to, const T *from, bool inside)
{
    constexpr int bytes = (int)sizeof(Pack<T, V>);
    static_assert(bytes == 16 || bytes == 8, "what can be copied so");
    unsigned at = (unsigned)__cvta_generic_to_shared(to), take = inside ? bytes : 0;
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(at), "l"(from), "r"(take) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                     :: "r"(at), "l"(from), "r"(take) : "memory");
}

__device__ __forceinline__ void ring_asked()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until all but the last LEFT that were asked for are there. */
template <int LEFT> __device__ __forceinline__ void ring_wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}

/* As rows_forward for weights of columns, each thread with a ring of its own: its packs of the rows
 * that come next. One turn of blocks. */
template <class T, int V, int K, Affine FORM>
__global__ void __launch_bounds__(ROW_THREADS, forward_blocks(K * V, false))
    rows_forward_ring(RowsCuda job)
{
    cuda_begin();
    extern __shared__ __align__(16) char ring[];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = ROW_THREADS / lanes, count = (int)(job.width / V);
    int64_t step = (int64_t)gridDim.x * teams;
    Pack<T, V> *slots = (Pack<T, V> *)ring + threadIdx.x;
    auto ask = [&](int64_t first, int stage) {
        int64_t  row = first + team;
        const T *from = (const T *)job.x + row * job.width + lane * V;
#pragma unroll
        for (int k = 0; k < K; k++)
            ring_ask<T, V>(&slots[(stage * K + k) * ROW_THREADS], from + k * lanes * V,
                           row < job.rows && lane + k * lanes < count);
        ring_asked();
    };
    int64_t first = (int64_t)blockIdx.x * teams;
#pragma unroll
    for (int i = 0; i < RING; i++)
        ask(first + i * step, i);
    for (int stage = 0; first < job.rows; first += step) {
        int64_t row = first + team;
        bool    live = row < job.rows;
        int64_t sample = job.rows >> 32 ? row / job.per : (uint32_t)row / (uint32_t)job.per;
        int64_t affine = sample * job.pitch;
        float   mean, rstd;
        Pack<T, V> x[K], weight[K], bias[K];
        if constexpr (FORM == AFFINE_SAME) {
            row_get<T, V, K>((const T *)job.weight, affine, lane, lanes, count, live, weight);
            row_get<T, V, K>((const T *)job.bias, affine, lane, lanes, count, live, bias);
        }
        ring_wait<RING - 1>();
#pragma unroll
        for (int k = 0; k < K; k++)
            x[k] = slots[(stage * K + k) * ROW_THREADS];
        row_moments<T, V, K, false>(job, x, lane, count, (float *)NULL, &mean, &rstd);
        ask(first + RING * step, stage);
        stage = stage + 1 < RING ? stage + 1 : 0;
        if (!live)
            continue;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int     v = lane + k * lanes;
            int64_t at = affine + (int64_t)v * V;
            float   w[V], b[V], y[V];
            affine_pack<T, V, FORM>(job, weight[k], job.weight, at, v < count, 1, w);
            affine_pack<T, V, FORM>(job, bias[k], job.bias, at, v < count, 0, b);
#pragma unroll
            for (int j = 0; j < V; j++)
                y[j] = (get(x[k].at, j) - mean) * rstd * (w[j] + job.plus) + b[j];
            if (v < count)
                put_pack<V>((T *)job.y, row * job.width + (int64_t)v * V, y);
        }
    }
    ring_wait<0>();
}

/* Any width: the row is read three times. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) rows_forward_wide(RowsCuda job)
{
    cuda_begin();
    __shared__ float lines[32];
    float m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const T *x = (const T *)job.x + row * job.width;
        int64_t  affine = row / job.per * job.pitch;
        float    sum = 0, squares = 0;
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x)
            sum += get(x, c);
        float mean = block_sum(sum, lines) / (float)job.width;
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x)
            squares += (get(x, c) - mean) * (get(x, c) - mean);
        float rstd = 1.0f / sqrtf(block_sum(squares, lines) / (float)job.width + job.eps);
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x) {
            float w, b;
            affine_get<1>(job, job.scalar ? NULL : job.weight, affine + c, s, &w);
            affine_get<1>(job, job.scalar ? NULL : job.bias, affine + c, s * rstd * m, &b);
            put((T *)job.y, row * job.width + c, (get(x, c) - mean) * rstd * (w + job.plus) + b);
        }
    }
}

/* Numbers of shared memory in which a warp lays down its sums of one kind, those of a lane
 * lanes + 4 apart: neither writing them by lanes nor reading them by columns meets a bank twice. */
__host__ __device__ __forceinline__ int join_numbers(int lanes, int numbers)
{
    return (lanes + 4) * numbers;
}

/* to[0..width) = the sums of a block's teams, added in order: dynamic shared memory of join_numbers
 * for each warp. */
template <int V, int K>
__device__ __forceinline__ void columns_join(const RowsCuda &job, float (&sums)[K][V], int lane,
                                             float *to)
{
    extern __shared__ float columns[];
    int lanes = job.lanes, apart = join_numbers(lanes, K * V), own = (int)threadIdx.x / 32 * apart;
    for (int d = lanes; d < 32; d <<= 1)
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++)
                sums[k][j] += __shfl_xor_sync(0xffffffffu, sums[k][j], d);
    __syncthreads();                         /* what was here has been read */
    if ((int)threadIdx.x % 32 < lanes)
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++)
                columns[own + (k * V + j) * (lanes + 4) + lane] = sums[k][j];
    __syncthreads();
    for (int c = threadIdx.x; c < (int)job.width; c += blockDim.x) {
        int   v = c / V, at = (v / lanes * V + c % V) * (lanes + 4) + v % lanes;
        float sum = columns[at];
        for (int warp = 1; warp < (int)blockDim.x / 32; warp++)
            sum += columns[warp * apart + at];
        to[c] = sum;
    }
}

/* scalar_norm: the sums of teams; team_s and team_m are the same in all lanes of a team. */
template <bool BLOCK>
__device__ void scalars_join(const RowsCuda &job, float team_s, float team_m, float *lines)
{
    bool  leads = BLOCK ? threadIdx.x == 0 : (int)threadIdx.x % job.lanes == 0;
    float s = block_sum(leads ? team_s : 0.0f, lines), m = block_sum(leads ? team_m : 0.0f, lines);
    if (threadIdx.x == 0) {
        job.partial[2 * blockIdx.x] = s;
        job.partial[2 * blockIdx.x + 1] = m;
    }
}

/* dx = before + rstd (g - mean(g) - xhat mean(g (xhat + add))), g = weight dy. A block takes one
 * piece. */
template <class T, int V, int K, bool BLOCK, Affine FORM>
__global__ void __launch_bounds__(BLOCK ? BLOCK_ROW_THREADS : BACK_THREADS,
                                  BLOCK ? 1 : back_blocks(K * V, FORM == AFFINE_SCALAR))
    rows_backward(RowsCuda job)
{
    cuda_begin();
    __shared__ float lines[32];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = (int)blockDim.x / lanes, count = (int)(job.width / V);
    int64_t sample = blockIdx.x / job.pieces, from = blockIdx.x % job.pieces * job.piece;
    int64_t to = from + job.piece < job.per ? from + job.piece : job.per;
    int64_t affine = sample * job.pitch;
    bool    scalar = FORM == AFFINE_SCALAR || (FORM == AFFINE_ANY && job.scalar);
    float   m = scalar ? number(job.type_w, job.bias) : 0;
    float   s = scalar ? number(job.type_w, job.weight) : 1;
    float   one[K][V], two[K][V], sum_s = 0, sum_m = 0, inverse = 1 / (float)job.width;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            one[k][j] = two[k][j] = 0;
    for (int64_t first = from; first < to; first += teams) {
        int64_t row = sample * job.per + first + team;
        bool    live = first + team < to;
        float   g[K][V], mean, rstd, sum = 0, dot = 0;
        Pack<T, V> x[K], d[K], weight[K];
        row_get<T, V, K>((const T *)job.x, row * job.width, lane, lanes, count, live, x);
        row_get<T, V, K>((const T *)job.dy, row * job.width, lane, lanes, count, live, d);
        row_moments<T, V, K, BLOCK>(job, x, lane, count, lines, &mean, &rstd);
        if (!live)                               /* zeros throughout, whatever 1 / std is */
            mean = rstd = 0;
        float add = rstd * m;
        if constexpr (FORM == AFFINE_SAME)
            row_get<T, V, K>((const T *)job.weight, affine, lane, lanes, count, live, weight);
#pragma unroll
        for (int k = 0; k < K; k++) {
            int     v = lane + k * lanes;
            float   w[V], part = 0, part_dot = 0;
            affine_pack<T, V, FORM>(job, weight[k], scalar ? NULL : job.weight,
                                    affine + (int64_t)v * V, live && v < count, 1, w);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float xhat = (get(x[k].at, j) - mean) * rstd, dy = get(d[k].at, j);
                if constexpr (FORM != AFFINE_SCALAR) {
                    one[k][j] += dy * xhat;
                    two[k][j] += dy;
                }
                g[k][j] = dy * (w[j] + job.plus);
                part += g[k][j];
                part_dot += g[k][j] * (xhat + add);
            }
            sum += part;
            dot += part_dot;
        }
        if (job.before)                          /* on its way while the sums are made */
            row_get<T, V, K>((const T *)job.before, row * job.width, lane, lanes, count, live, d);
        row_sums<BLOCK>(&sum, &dot, lanes, lines);
        if (!live)
            continue;
        sum_s += dot;
        sum_m += s * rstd * sum;
        if (!job.y)
            continue;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int v = lane + k * lanes;
#pragma unroll
            for (int j = 0; j < V; j++) {
                float xhat = (get(x[k].at, j) - mean) * rstd;
                g[k][j] = s * rstd * (g[k][j] - sum * inverse - xhat * (dot * inverse));
                if (job.before)
                    g[k][j] += get(d[k].at, j);
            }
            if (v < count)
                put_pack<V>((T *)job.y, row * job.width + (int64_t)v * V, g[k]);
        }
    }
    if (!job.partial)
        return;
    float *sums = job.partial + blockIdx.x * 2 * job.width;
    if (scalar) {
        scalars_join<BLOCK>(job, sum_s, sum_m, lines);
    } else if (BLOCK) {
        if (lane < count)
#pragma unroll
            for (int j = 0; j < V; j++) {
                sums[lane * V + j] = one[0][j];
                sums[job.width + lane * V + j] = two[0][j];
            }
    } else {
        columns_join<V, K>(job, one, lane, sums);
        columns_join<V, K>(job, two, lane, sums + job.width);
    }
}

/* As rows_backward for weights of columns, each thread with a ring of its own: its packs of the
 * rows that come next, and those of the weight. */
template <class T, int V, int K, Affine FORM>
__global__ void __launch_bounds__(BACK_THREADS, ring_blocks(K * V, K * (int)sizeof(Pack<T, V>)))
    rows_backward_ring(RowsCuda job)
{
    cuda_begin();
    extern __shared__ __align__(16) char ring[];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = BACK_THREADS / lanes, count = (int)(job.width / V);
    int     sample = (int)(blockIdx.x / (unsigned)job.pieces);
    int     from = (int)((blockIdx.x - sample * (unsigned)job.pieces) * (unsigned)job.piece);
    int     to = from + job.piece < job.per ? (int)(from + job.piece) : (int)job.per;
    int64_t affine = sample * job.pitch, own = sample * job.per * job.width + (int64_t)lane * V;
    float   one[K][V], two[K][V], inverse = 1 / (float)job.width;
    Pack<T, V> *slots = (Pack<T, V> *)ring + threadIdx.x;
    const T    *x_of = (const T *)job.x + own, *dy_of = (const T *)job.dy + own;
    const T    *before_of = job.before ? (const T *)job.before + own : NULL;
    auto slot = [&](int stage, int which, int k) -> Pack<T, V> & {
        return slots[((stage * 3 + which) * K + k) * BACK_THREADS];
    };
    auto ask = [&](int first, int stage) {
        int64_t at = (int64_t)(first + team) * job.width;
        bool    live = first + team < to;
#pragma unroll
        for (int k = 0; k < K; k++) {
            bool inside = live && lane + k * lanes < count;
            int  next = k * lanes * V;
            ring_ask<T, V>(&slot(stage, 0, k), x_of + at + next, inside);
            ring_ask<T, V>(&slot(stage, 1, k), dy_of + at + next, inside);
            if (before_of)
                ring_ask<T, V>(&slot(stage, 2, k), before_of + at + next, inside);
        }
        ring_asked();
    };
    if constexpr (FORM == AFFINE_SAME)
#pragma unroll
        for (int k = 0; k < K; k++)
            ring_ask<T, V>(&slot(RING, 0, k),
                           (const T *)job.weight + affine + (lane + k * lanes) * V,
                           lane + k * lanes < count);
#pragma unroll
    for (int i = 0; i < RING; i++)
        ask(from + i * teams, i);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            one[k][j] = two[k][j] = 0;
    int stage = 0;
    for (int first = from; first < to; first += teams) {
        bool    live = first + team < to;
        float   g[K][V], mean, rstd, sum = 0, dot = 0;
        Pack<T, V> x[K];
        ring_wait<RING - 1>();
#pragma unroll
        for (int k = 0; k < K; k++)
            x[k] = slot(stage, 0, k);
        row_moments<T, V, K, false>(job, x, lane, count, (float *)NULL, &mean, &rstd);
        if (!live)                               /* zeros throughout, whatever 1 / std is */
            mean = rstd = 0;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int        v = lane + k * lanes;
            float      w[V], part = 0, part_dot = 0;
            Pack<T, V> d = slot(stage, 1, k), weight = {};
            if constexpr (FORM == AFFINE_SAME)
                weight = slot(RING, 0, k);
            affine_pack<T, V, FORM>(job, weight, job.weight,
                                    affine + (int64_t)v * V, live && v < count, 1, w);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float xhat = (get(x[k].at, j) - mean) * rstd, dy = get(d.at, j);
                one[k][j] += dy * xhat;
                two[k][j] += dy;
                g[k][j] = dy * (w[j] + job.plus);
                part += g[k][j];
                part_dot += g[k][j] * xhat;
            }
            sum += part;
            dot += part_dot;
        }
        row_sums<false>(&sum, &dot, lanes, (float *)NULL);
        if (job.y)
#pragma unroll
            for (int k = 0; k < K; k++) {
                int        v = lane + k * lanes;
                Pack<T, V> b;
                if (before_of)
                    b = slot(stage, 2, k);
#pragma unroll
                for (int j = 0; j < V; j++) {
                    float xhat = (get(x[k].at, j) - mean) * rstd;
                    g[k][j] = rstd * (g[k][j] - sum * inverse - xhat * (dot * inverse));
                    if (before_of)
                        g[k][j] += get(b.at, j);
                }
                if (live && v < count)
                    put_pack<V>((T *)job.y,
                                own + (int64_t)(first + team) * job.width + k * lanes * V, g[k]);
            }
        ask(first + RING * teams, stage);
        stage = stage + 1 < RING ? stage + 1 : 0;
    }
    ring_wait<0>();
    if (!job.partial)
        return;
    float *sums = job.partial + blockIdx.x * 2 * job.width;
    columns_join<V, K>(job, one, lane, sums);
    columns_join<V, K>(job, two, lane, sums + job.width);
}

/* Any width: rows read again, sums kept where they go. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) rows_backward_wide(RowsCuda job)
{
    cuda_begin();
    __shared__ float lines[32];
    int64_t sample = blockIdx.x / job.pieces, from = blockIdx.x % job.pieces * job.piece,
            w = job.width;
    int64_t to = from + job.piece < job.per ? from + job.piece : job.per,
            affine = sample * job.pitch;
    float m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    float   sum_s = 0, sum_m = 0, *one = job.partial + blockIdx.x * 2 * w, *two = one + w;
    bool    columns = job.partial && !job.scalar;
    for (int64_t i = from; i < to; i++) {
        int64_t  row = sample * job.per + i;
        const T *x = (const T *)job.x + row * w, *dy = (const T *)job.dy + row * w;
        float    total = 0, squares = 0, sum = 0, dot = 0, weight;
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x)
            total += get(x, c);
        float mean = block_sum(total, lines) / (float)w;
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x)
            squares += (get(x, c) - mean) * (get(x, c) - mean);
        float rstd = 1.0f / sqrtf(block_sum(squares, lines) / (float)w + job.eps);
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x) {
            float xhat = (get(x, c) - mean) * rstd, d = get(dy, c);
            affine_get<1>(job, job.scalar ? NULL : job.weight, affine + c, 1, &weight);
            if (columns) {
                one[c] = (i > from ? one[c] : 0) + d * xhat;
                two[c] = (i > from ? two[c] : 0) + d;
            }
            sum += d * (weight + job.plus);
            dot += d * (weight + job.plus) * (xhat + rstd * m);
        }
        sum = block_sum(sum, lines);
        dot = block_sum(dot, lines);
        sum_s += dot;
        sum_m += s * rstd * sum;
        for (int64_t c = threadIdx.x; job.y && c < w; c += blockDim.x) {
            affine_get<1>(job, job.scalar ? NULL : job.weight, affine + c, 1, &weight);
            float xhat = (get(x, c) - mean) * rstd, g = get(dy, c) * (weight + job.plus);
            float dx = s * rstd * (g - sum / (float)w - xhat * dot / (float)w);
            put((T *)job.y, row * w + c,
                job.before ? dx + get((const T *)job.before, row * w + c) : dx);
        }
    }
    if (job.partial && job.scalar)
        scalars_join<true>(job, sum_s, sum_m, lines);
}

/* Where the sums of pieces go. */
typedef struct Totals {
    const float *partial;
    int64_t      pieces, width, columns;     /* columns: of a sample's output row */
    int64_t      at[2];                      /* first columns of dy * xhat and of dy */
    Type         type;
    void        *out[2];                     /* the same, or one for each; NULL: not wanted */
    bool         packed;                     /* one output for both; 0 between them */
} Totals;

/* threads (32, up to 32), blocks (columns / 32, samples) */
__global__ void __launch_bounds__(1024) rows_totals(Totals to)
{
    cuda_begin();
    __shared__ double sums[32][33];
    int64_t sample = blockIdx.y, column = blockIdx.x * (int64_t)32 + threadIdx.x, c = -1;
    int     part = 0;
    for (int i = 0; i < 2; i++)
        if (column >= to.at[i] && column < to.at[i] + to.width) {
            part = i;
            c = column - to.at[i];
        }
    const float *from = to.partial + (sample * to.pieces * 2 + part) * to.width + c;
    int          pieces = c >= 0 ? (int)to.pieces : 0;
    double       sum = 0;
#pragma unroll 8
    for (int i = threadIdx.y; i < pieces; i += (int)blockDim.y)
        sum += (double)from[2 * i * to.width];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    void *out = part ? to.out[1] : to.out[0];
    if (threadIdx.y || column >= to.columns || !out)
        return;
    for (int i = 1; i < (int)blockDim.y; i++)
        sum += sums[i][threadIdx.x];
    int64_t at = to.packed ? sample * to.columns + column : c;
    if (to.type == F32)
        put((float *)out, at, (float)sum);
    else if (to.type == BF16)
        put((bf16 *)out, at, (float)sum);
    else
        put((f16 *)out, at, (float)sum);
}

#endif
