/* norm_channel_cuda.cu -- batch norms of few pixels: a block has some channels and all their
 * pixels, so that one kernel does everything. What is read twice comes from a cache the second
 * time. */
#include "ops/norm/norm_cuda.h"

/* Measured on an H200: this is faster for 2,048 pixels of 16 channels, not for 8,192 of 64. */
enum { CHANNEL_THREADS = 512, CHANNEL_WARPS = CHANNEL_THREADS / 32, CHANNEL_PIXELS = 2048 };

bool norm_channel_takes(const NormCuda *run)
{
    return run->batch && !run->var && run->pixels <= CHANNEL_PIXELS;
}

/* Sums of 2 V numbers over the block; all threads get them. */
template <int V> __device__ __forceinline__ void channel_sums(float *one, float *two)
{
    __shared__ float sums[2 * V][CHANNEL_WARPS], total[2 * V];
    int              t = (int)threadIdx.x;
#pragma unroll
    for (int j = 0; j < V; j++) {
        one[j] = warp_sum(one[j]);
        two[j] = warp_sum(two[j]);
        if (t % 32 == 0) {
            sums[j][t / 32] = one[j];
            sums[V + j][t / 32] = two[j];
        }
    }
    __syncthreads();
    if (t < 2 * V) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < CHANNEL_WARPS; i++)
            sum += sums[t][i];
        total[t] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < V; j++) {
        one[j] = total[j];
        two[j] = total[V + j];
    }
}

/* Calls take(pixel, x, dy) for all pixels of this thread, with four loads in flight. */
template <class T, int V, class Take>
__device__ __forceinline__ void channel_walk(const NormCuda &run, const T *x, const T *dy,
                                             Take take)
{
    constexpr int AHEAD = 4;
    int           pixels = (int)run.pixels, step = (int)run.channels / V;
    for (int i = (int)threadIdx.x; i < pixels; i += AHEAD * CHANNEL_THREADS) {
        Pack<T, V> packs[AHEAD], slopes[AHEAD];
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            if (i + s * CHANNEL_THREADS < pixels) {
                int64_t at = (int64_t)(i + s * CHANNEL_THREADS) * step + blockIdx.x;
                packs[s] = ((const Pack<T, V> *)x)[at];
                if (dy)
                    slopes[s] = ((const Pack<T, V> *)dy)[at];
            }
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            if (i + s * CHANNEL_THREADS < pixels) {
                float a[V], d[V];
#pragma unroll
                for (int j = 0; j < V; j++) {
                    a[j] = get(packs[s].at, j);
                    d[j] = dy ? get(slopes[s].at, j) : 0;
                }
                take(((int64_t)(i + s * CHANNEL_THREADS) * step + blockIdx.x) * V, a, d);
            }
    }
}

template <class T, int V, NormAct ACT>
__global__ void __launch_bounds__(CHANNEL_THREADS) channel_forward(const NormCuda run)
{
    cuda_begin();
    const T *x = (const T *)run.x;
    int      first = (int)blockIdx.x * V;
    int64_t  half = run.pixels / 2 * run.channels, last = (run.pixels - 1) * run.channels;
    float    n = (float)run.pixels, one[V], two[V], shift[V], scale[V], bias[V];
#pragma unroll
    for (int j = 0; j < V; j++) { /* norm_cuda.h, Note [Accuracy] */
        float a = get(x, first + j), b = get(x, half + first + j), d = get(x, last + first + j);
        shift[j] = fmaxf(fminf(a, b), fminf(fmaxf(a, b), d));
        one[j] = two[j] = 0;
    }
    channel_walk<T, V>(run, x, (const T *)NULL, [&](int64_t, const float *a, const float *) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            float d = a[j] - shift[j];
            one[j] += d;
            two[j] = fmaf(d, d, two[j]);
        }
    });
    channel_sums<V>(one, two);
#pragma unroll
    for (int j = 0; j < V; j++) {
        float off = one[j] / n, var = two[j] / n - off * off;
        float rstd = 1 / sqrtf(fmaxf(var, 0.0f) + run.eps);
        shift[j] += off;
        scale[j] = rstd * affine_at(run.type_w, run.weight, first + j, 1);
        bias[j] = affine_at(run.type_w, run.bias, first + j, 0);
        if (threadIdx.x == 0) {
            run.statistics[2 * (first + j)] = shift[j];
            run.statistics[2 * (first + j) + 1] = rstd;
        }
    }
    channel_walk<T, V>(run, x, (const T *)NULL, [&](int64_t at, const float *a, const float *) {
        float y[V];
#pragma unroll
        for (int j = 0; j < V; j++)
            y[j] = act_of(ACT, (a[j] - shift[j]) * scale[j] + bias[j]);
        put_pack<V>((T *)run.y, at, y);
    });
}

template <class T, int V, NormAct ACT>
__global__ void __launch_bounds__(CHANNEL_THREADS) channel_backward(const NormCuda run)
{
    cuda_begin();
    const T *x = (const T *)run.x, *dy = (const T *)run.dy;
    int      first = (int)blockIdx.x * V;
    float    n = (float)run.pixels, mean[V], rstd[V], scale[V], bias[V], one[V], two[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
        mean[j] = run.statistics[2 * (first + j)];
        rstd[j] = run.statistics[2 * (first + j) + 1];
        scale[j] = rstd[j] * affine_at(run.type_w, run.weight, first + j, 1);
        bias[j] = affine_at(run.type_w, run.bias, first + j, 0);
        one[j] = two[j] = 0;
    }
    channel_walk<T, V>(run, x, dy, [&](int64_t, const float *a, const float *d) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            float away = a[j] - mean[j];
            float dz = d[j] * act_slope(ACT, away * scale[j] + bias[j]);
            one[j] += dz;
            two[j] = fmaf(dz, away, two[j]);
        }
    });
    channel_sums<V>(one, two);
#pragma unroll
    for (int j = 0; j < V; j++) {
        if (threadIdx.x == 0 && run.dbias)
            run.dbias[first + j] = one[j];
        if (threadIdx.x == 0 && run.dweight)
            run.dweight[first + j] = two[j] * rstd[j];
        one[j] *= scale[j] / n;
        two[j] *= scale[j] * rstd[j] * rstd[j] / n;
    }
    if (!run.dx)
        return;
    channel_walk<T, V>(run, x, dy, [&](int64_t at, const float *a, const float *d) {
        float dx[V];
#pragma unroll
        for (int j = 0; j < V; j++) {
            float away = a[j] - mean[j];
            float dz = d[j] * act_slope(ACT, away * scale[j] + bias[j]);
            dx[j] = dz * scale[j] - one[j] - away * two[j];
        }
        put_pack<V>((T *)run.dx, at, dx);
    });
}

template <class T, int V> static void channel_run(const Call *call, const NormCuda &run)
{
    unsigned blocks = (unsigned)(run.channels / V);
    bool     relu = run.act == NORM_RELU;
    if (run.dy)
        cuda_launch(cuda_stream(call),
                    relu ? channel_backward<T, V, NORM_RELU> : channel_backward<T, V, NORM_LINEAR>,
                    blocks, CHANNEL_THREADS, 0, run);
    else
        cuda_launch(cuda_stream(call),
                    relu ? channel_forward<T, V, NORM_RELU> : channel_forward<T, V, NORM_LINEAR>,
                    blocks, CHANNEL_THREADS, 0, run);
}

/* At most two channels per block: a block's work besides its loads grows with them. */
Err norm_channel_cuda(const Call *call, NormCuda run)
{
    uintptr_t places = (uintptr_t)run.x | (uintptr_t)run.dy | (uintptr_t)run.y | (uintptr_t)run.dx;
    WITH_FLOAT(run.type, T, {
        if (run.channels % 2 == 0 && places % (2 * sizeof(T)) == 0)
            channel_run<T, 2>(call, run);
        else
            channel_run<T, 1>(call, run);
    })
    CUDA_LAUNCHED();
    return OK;
}
