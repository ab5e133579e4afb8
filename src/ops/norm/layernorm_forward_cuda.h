/* layernorm_forward_cuda.h -- forward kernels of norms over the last axis (layernorm_cuda.h). */
#ifndef OPS_NORM_LAYERNORM_FORWARD_CUDA_H
#define OPS_NORM_LAYERNORM_FORWARD_CUDA_H

#include "ops/norm/layernorm_rows_cuda.h"

/* Packs beyond a row's end are computed like all others, as zeros, and not stored: without branches
 * between them, packs do not wait for one another. */
template <class T, int V, int K, bool BLOCK, Affine FORM>
__global__ void __launch_bounds__(BLOCK ? BLOCK_ROW_THREADS : ROW_THREADS,
                                  BLOCK ? 1 : forward_blocks(K *V, FORM == AFFINE_SCALAR))
    rows_forward(RowsCuda job)
{
    cuda_begin();
    __shared__ float shared[32];
    int   lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int   teams = (int)blockDim.x / lanes, count = (int)(job.width / V);
    bool  scalar = FORM == AFFINE_SCALAR || (FORM == AFFINE_ANY && job.scalar);
    float m = scalar ? number(job.type_w, job.bias) : 0;
    float s = scalar ? number(job.type_w, job.weight) : 1;
    for (int64_t first = (int64_t)blockIdx.x * teams; first < job.rows;
         first += (int64_t)gridDim.x * teams) {
        int64_t    row = first + team; /* no lane leaves: the warp's sums need all */
        bool       live = row < job.rows;
        int64_t    sample = job.rows >> 32 ? row / job.per : (uint32_t)row / (uint32_t)job.per;
        int64_t    affine = sample * job.pitch;
        float      mean, rstd;
        Pack<T, V> x[K], weight[K], bias[K];
        row_get<T, V, K>((const T *)job.x, row * job.width, lane, lanes, count, live, x);
        if constexpr (FORM == AFFINE_SAME) {
            row_get<T, V, K>((const T *)job.weight, affine, lane, lanes, count, live, weight);
            row_get<T, V, K>((const T *)job.bias, affine, lane, lanes, count, live, bias);
        }
        row_moments<T, V, K, BLOCK>(job, x, lane, count, shared, &mean, &rstd);
        if (!live)
            continue;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int     v = lane + k * lanes;
            int64_t at = affine + (int64_t)v * V;
            float   w[V], b[V], y[V];
            affine_pack<T, V, FORM>(job, weight[k], scalar ? NULL : job.weight, at, v < count, s,
                                    w);
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

/* As rows_forward for weights per column. Each thread has a ring of its own with its packs of the
 * next rows. One wave of blocks. */
template <class T, int V, int K, Affine FORM>
__global__ void __launch_bounds__(ROW_THREADS, forward_blocks(K *V, false))
    rows_forward_ring(RowsCuda job)
{
    cuda_begin();
    extern __shared__ __align__(16) char ring[];
    int         lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int         teams = ROW_THREADS / lanes, count = (int)(job.width / V);
    int64_t     step = (int64_t)gridDim.x * teams;
    Pack<T, V> *slots = (Pack<T, V> *)ring + threadIdx.x;
    auto        ask = [&](int64_t first, int stage) {
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
        int64_t    row = first + team;
        bool       live = row < job.rows;
        int64_t    sample = job.rows >> 32 ? row / job.per : (uint32_t)row / (uint32_t)job.per;
        int64_t    affine = sample * job.pitch;
        float      mean, rstd;
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
    __shared__ float shared[32];
    float            m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const T *x = (const T *)job.x + row * job.width;
        int64_t  affine = row / job.per * job.pitch;
        float    sum = 0, squares = 0;
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x)
            sum += get(x, c);
        float mean = block_sum(sum, shared) / (float)job.width;
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x)
            squares += (get(x, c) - mean) * (get(x, c) - mean);
        float rstd = 1.0f / sqrtf(block_sum(squares, shared) / (float)job.width + job.eps);
        for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x) {
            float w, b;
            affine_get<1>(job, job.scalar ? NULL : job.weight, affine + c, s, &w);
            affine_get<1>(job, job.scalar ? NULL : job.bias, affine + c, s * rstd * m, &b);
            put((T *)job.y, row * job.width + c, (get(x, c) - mean) * rstd * (w + job.plus) + b);
        }
    }
}

/* ---- host ---- */

/* Measured on an H200: rings of up to 16 elements a lane are faster (rows of 468 and 256), those of
 * 24 and 40 are slower, since as many blocks fit without rings. */
template <class T, int V>
static bool ring_forward(const Call *call, const RowsCuda &job, Team team, Affine form)
{
    if (!ring_takes(&job, V) || !team.packs || team.packs * V > 16)
        return false;
    if constexpr (V > 1) {
        unsigned sms = (unsigned)cuda_handle(call)->sms;
        unsigned blocks = cuda_blocks(call, job.rows * job.lanes, ROW_THREADS);
        WITH_PACKS(team.packs, K, {
            constexpr int P = K * V > 16 ? 1 : K;
            constexpr int bytes = RING * P * (int)sizeof(Pack<T, V>) * ROW_THREADS;
            unsigned      wave = sms * (unsigned)forward_blocks(P * V, false);
            ring_launch(call,
                        form == AFFINE_SAME ? rows_forward_ring<T, V, P, AFFINE_SAME>
                                            : rows_forward_ring<T, V, P, AFFINE_ANY>,
                        blocks < wave ? blocks : wave, ROW_THREADS, bytes, job);
        })
    }
    return true;
}

template <class T, int V> static void launch_forward(const Call *call, RowsCuda job)
{
    int64_t      count = job.width / V;
    Team         team = team_of(count);
    cudaStream_t stream = cuda_stream(call);
    job.lanes = team.lanes;
    unsigned blocks = cuda_blocks(call, job.rows * job.lanes, ROW_THREADS);
    Affine   form = affine_of(&job, true);
    if (ring_forward<T, V>(call, job, team, form))
        return;
    if (team.packs) {
        WITH_AFFINE(form, FORM,
                    WITH_PACKS(team.packs, K,
                               cuda_launch(stream, rows_forward<T, V, K, false, FORM>, blocks,
                                           ROW_THREADS, 0, job);))
    } else if (count <= BLOCK_ROW_THREADS) {
        job.lanes = (int)ceil_div(count, 32) * 32;
        blocks = cuda_blocks(call, job.rows * job.lanes, job.lanes);
        WITH_AFFINE(form, FORM,
                    cuda_launch(stream, rows_forward<T, V, 1, true, FORM>, blocks,
                                (unsigned)job.lanes, 0, job);)
    } else {
        blocks = cuda_blocks(call, job.rows * ROW_THREADS, ROW_THREADS);
        job.vectors_w = false;
        cuda_launch(stream, rows_forward_wide<T>, blocks, ROW_THREADS, 0, job);
    }
}

/* The widest packs that fit. */
template <class T> static void rows_forward_of(const Call *call, RowsCuda job)
{
    constexpr int wide = 16 / (int)sizeof(T);
    if (vectors_fit(&job, wide))
        launch_forward<T, wide>(call, job);
    else if (vectors_fit(&job, 4))
        launch_forward<T, 4>(call, job);
    else if (vectors_fit(&job, 1))
        launch_forward<T, 1>(call, job);
}

#endif
