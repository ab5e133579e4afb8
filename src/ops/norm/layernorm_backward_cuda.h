/* layernorm_backward_cuda.h -- backward kernels of norms over the last axis (layernorm_cuda.h). */
#ifndef OPS_NORM_LAYERNORM_BACKWARD_CUDA_H
#define OPS_NORM_LAYERNORM_BACKWARD_CUDA_H

#include "ops/norm/layernorm_rows_cuda.h"

/* Floats of shared memory for one kind of sums of a warp. Those of a lane lie lanes + 4 apart, so
 * that neither writing them by lanes nor reading them by columns has bank conflicts. */
__host__ __device__ __forceinline__ int join_numbers(int lanes, int numbers)
{
    return (lanes + 4) * numbers;
}

/* to[0..width) = the sums of a block's teams, added in order. Needs dynamic shared memory of
 * join_numbers for each warp. */
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
    __syncthreads(); /* earlier contents have been read */
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

/* scalar_norm: adds the sums of teams; team_s and team_m are the same in all lanes of a team. */
template <bool BLOCK>
__device__ void scalars_join(const RowsCuda &job, float team_s, float team_m, float *shared)
{
    bool  leads = BLOCK ? threadIdx.x == 0 : (int)threadIdx.x % job.lanes == 0;
    float s = block_sum(leads ? team_s : 0.0f, shared),
          m = block_sum(leads ? team_m : 0.0f, shared);
    if (threadIdx.x == 0) {
        job.partial[2 * blockIdx.x] = s;
        job.partial[2 * blockIdx.x + 1] = m;
    }
}

/* dx = before + rstd (g - mean(g) - xhat mean(g (xhat + add))), g = weight dy. A block takes one
 * slice. */
template <class T, int V, int K, bool BLOCK, Affine FORM>
__global__ void __launch_bounds__(BLOCK ? BLOCK_ROW_THREADS : BACK_THREADS,
                                  BLOCK ? 1 : back_blocks(K *V, FORM == AFFINE_SCALAR))
    rows_backward(RowsCuda job)
{
    cuda_begin();
    __shared__ float shared[32];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = (int)blockDim.x / lanes, count = (int)(job.width / V);
    int64_t sample = blockIdx.x / job.slices, from = blockIdx.x % job.slices * job.slice_rows;
    int64_t to = from + job.slice_rows < job.per ? from + job.slice_rows : job.per;
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
        int64_t    row = sample * job.per + first + team;
        bool       live = first + team < to;
        float      g[K][V], mean, rstd, sum = 0, dot = 0;
        Pack<T, V> x[K], d[K], weight[K];
        row_get<T, V, K>((const T *)job.x, row * job.width, lane, lanes, count, live, x);
        row_get<T, V, K>((const T *)job.dy, row * job.width, lane, lanes, count, live, d);
        row_moments<T, V, K, BLOCK>(job, x, lane, count, shared, &mean, &rstd);
        if (!live) /* zeros throughout, whatever 1 / std is */
            mean = rstd = 0;
        float add = rstd * m;
        if constexpr (FORM == AFFINE_SAME)
            row_get<T, V, K>((const T *)job.weight, affine, lane, lanes, count, live, weight);
#pragma unroll
        for (int k = 0; k < K; k++) {
            int   v = lane + k * lanes;
            float w[V], part = 0, part_dot = 0;
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
        if (job.before) /* loaded while the sums are computed */
            row_get<T, V, K>((const T *)job.before, row * job.width, lane, lanes, count, live, d);
        row_sums<BLOCK>(&sum, &dot, lanes, shared);
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
        scalars_join<BLOCK>(job, sum_s, sum_m, shared);
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

/* As rows_backward for weights per column. Each thread has a ring of its own with its packs of the
 * next rows and of the weight. */
template <class T, int V, int K, Affine FORM>
__global__ void __launch_bounds__(BACK_THREADS, ring_blocks(K *V, K *(int)sizeof(Pack<T, V>)))
    rows_backward_ring(RowsCuda job)
{
    cuda_begin();
    extern __shared__ __align__(16) char ring[];
    int     lanes = job.lanes, lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    int     teams = BACK_THREADS / lanes, count = (int)(job.width / V);
    int     sample = (int)(blockIdx.x / (unsigned)job.slices);
    int     from = (int)((blockIdx.x - sample * (unsigned)job.slices) * (unsigned)job.slice_rows);
    int     to = from + job.slice_rows < job.per ? (int)(from + job.slice_rows) : (int)job.per;
    int64_t affine = sample * job.pitch, own = sample * job.per * job.width + (int64_t)lane * V;
    float   one[K][V], two[K][V], inverse = 1 / (float)job.width;
    Pack<T, V> *slots = (Pack<T, V> *)ring + threadIdx.x;
    const T    *x_of = (const T *)job.x + own, *dy_of = (const T *)job.dy + own;
    const T    *before_of = job.before ? (const T *)job.before + own : NULL;
    auto        slot = [&](int stage, int which, int k) -> Pack<T, V>        &{
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
        bool       live = first + team < to;
        float      g[K][V], mean, rstd, sum = 0, dot = 0;
        Pack<T, V> x[K];
        ring_wait<RING - 1>();
#pragma unroll
        for (int k = 0; k < K; k++)
            x[k] = slot(stage, 0, k);
        row_moments<T, V, K, false>(job, x, lane, count, (float *)NULL, &mean, &rstd);
        if (!live) /* zeros throughout, whatever 1 / std is */
            mean = rstd = 0;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int        v = lane + k * lanes;
            float      w[V], part = 0, part_dot = 0;
            Pack<T, V> d = slot(stage, 1, k), weight = {};
            if constexpr (FORM == AFFINE_SAME)
                weight = slot(RING, 0, k);
            affine_pack<T, V, FORM>(job, weight, job.weight, affine + (int64_t)v * V,
                                    live && v < count, 1, w);
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

/* Any width: rows are reread, sums are kept in the output. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) rows_backward_wide(RowsCuda job)
{
    cuda_begin();
    __shared__ float shared[32];
    int64_t sample = blockIdx.x / job.slices, from = blockIdx.x % job.slices * job.slice_rows,
            w = job.width;
    int64_t to = from + job.slice_rows < job.per ? from + job.slice_rows : job.per,
            affine = sample * job.pitch;
    float m = job.scalar ? number(job.type_w, job.bias) : 0,
          s = job.scalar ? number(job.type_w, job.weight) : 1;
    float sum_s = 0, sum_m = 0, *one = job.partial + blockIdx.x * 2 * w, *two = one + w;
    bool  columns = job.partial && !job.scalar;
    for (int64_t i = from; i < to; i++) {
        int64_t  row = sample * job.per + i;
        const T *x = (const T *)job.x + row * w, *dy = (const T *)job.dy + row * w;
        float    total = 0, squares = 0, sum = 0, dot = 0, weight;
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x)
            total += get(x, c);
        float mean = block_sum(total, shared) / (float)w;
        for (int64_t c = threadIdx.x; c < w; c += blockDim.x)
            squares += (get(x, c) - mean) * (get(x, c) - mean);
        float rstd = 1.0f / sqrtf(block_sum(squares, shared) / (float)w + job.eps);
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
        sum = block_sum(sum, shared);
        dot = block_sum(dot, shared);
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
        scalars_join<true>(job, sum_s, sum_m, shared);
}

/* ---- host ---- */

template <class T, int V>
static bool ring_backward(const Call *call, const RowsCuda &job, Team team, Affine form)
{
    if (!ring_takes(&job, V) || !team.packs)
        return false;
    if constexpr (V > 1) {
        int join = BACK_THREADS / 32 * join_numbers(team.lanes, team.packs * V) *
                   (int)sizeof(float);
        int ring = back_ring(team.packs * (int)sizeof(Pack<T, V>));
        WITH_PACKS(team.packs, K, {
            ring_launch(call,
                        form == AFFINE_SAME ? rows_backward_ring<T, V, K, AFFINE_SAME>
                                            : rows_backward_ring<T, V, K, AFFINE_ANY>,
                        (unsigned)(job.rows / job.per * job.slices), BACK_THREADS,
                        ring < join ? join : ring, job);
        })
    }
    return true;
}

template <class T, int V> static void launch_backward(const Call *call, RowsCuda job)
{
    int64_t      count = job.width / V;
    Team         team = team_of(count);
    cudaStream_t stream = cuda_stream(call);
    unsigned     blocks = (unsigned)(job.rows / job.per * job.slices);
    Affine       form = affine_of(&job, false);
    job.lanes = team.lanes;
    if (ring_backward<T, V>(call, job, team, form))
        return;
    if (team.packs) {
        size_t shared = 0;
        if (job.partial && !job.scalar)
            shared = (size_t)(BACK_THREADS / 32 * join_numbers(team.lanes, team.packs * V)) *
                     sizeof(float);
        WITH_AFFINE(form, FORM,
                    WITH_PACKS(team.packs, K,
                               cuda_launch(stream, rows_backward<T, V, K, false, FORM>, blocks,
                                           BACK_THREADS, shared, job);))
    } else if (count <= BLOCK_ROW_THREADS) {
        job.lanes = (int)ceil_div(count, 32) * 32;
        WITH_AFFINE(form, FORM,
                    cuda_launch(stream, rows_backward<T, V, 1, true, FORM>, blocks,
                                (unsigned)job.lanes, 0, job);)
    } else {
        job.vectors_w = false;
        cuda_launch(stream, rows_backward_wide<T>, blocks, ROW_THREADS, 0, job);
    }
}

/* The widest packs that fit. */
template <class T> static void rows_backward_of(const Call *call, RowsCuda job)
{
    constexpr int wide = 16 / (int)sizeof(T);
    if (vectors_fit(&job, wide))
        launch_backward<T, wide>(call, job);
    else if (vectors_fit(&job, 4))
        launch_backward<T, 4>(call, job);
    else if (vectors_fit(&job, 1))
        launch_backward<T, 1>(call, job);
}

#endif
