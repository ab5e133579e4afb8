/* norm_forward_cuda.cu -- act(weight * (x - mean) * rstd + bias) and SPADE's form of it on CUDA. */
#include "ops/norm/norm_kernels_cuda.h"

/* The median of three values of a channel in a chunk that is not empty. */
template <class T>
__device__ __forceinline__ float middle(const NormCuda &run, const NormPlace &p, int c)
{
    const T *x = (const T *)run.x + p.sample * run.pixels * run.channels + c;
    int      rounds = rounds_of(run, p.chunk);
    int64_t  first = p.chunk * run.round, far = run.chunks * run.round;
    int64_t  half = first + rounds / 2 * far, last = first + (rounds - 1) * far + run.round - 1;
    half += half + run.round / 2 < run.pixels ? run.round / 2 : 0;
    last = last < run.pixels ? last : run.pixels - 1;
    half = half < run.pixels ? half : last;
    float a = get(x, first * run.channels), b = get(x, half * run.channels);
    float d = get(x, last * run.channels);
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), d));
}

/* Mean and squared deviations of every channel of a chunk. */
template <class T, int V>
__global__ void __launch_bounds__(NORM_THREADS, MOMENTS_BLOCKS)
    moments(NormCuda run, float *partial)
{
    cuda_begin();
    constexpr int    AHEAD = MOMENTS_AHEAD;
    __shared__ float shifts[NORM_THREADS * V];
    NormPlace        p = place_of<V, AHEAD>(run);
    const T         *x = (const T *)run.x + p.sample * run.pixels * run.channels;
    int64_t          n = pixels_of(run, p.chunk);
    int              from = run.tiles > 1 ? (p.column - (int)threadIdx.x) * V : 0;
    int              wide = (int)run.channels - from < NORM_THREADS * V ? (int)run.channels - from
                                                                        : NORM_THREADS * V;
    float            one[V], two[V], shift[V];
    for (int c = (int)threadIdx.x; c < wide; c += NORM_THREADS)
        shifts[c] = n ? middle<T>(run, p, from + c) : 0;
    __syncthreads();
    NormChannel c(run, p.column * V);
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        one[j] = two[j] = 0;
        shift[j] = p.active ? shifts[c.at - from] : 0;
    }
    for (int r = p.rounds - 1; r >= 0; r--) {
        int        v = p.first + r * p.stride;
        Pack<T, V> packs[AHEAD];
        packs_get<T, V, AHEAD>(p, x, v, packs);
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V];
            bool  in = v + s * p.step < p.end;
            pack_numbers<T, V>(packs[s], a);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float d = in ? a[j] - shift[j] : 0;
                one[j] += d;
                two[j] += d * d;
            }
        }
    }
    float share = n ? 1 / (float)n : 0;
    sum_columns<V>(run, p, one, two, [&](int c, float s, float q) {
        float *out = partial_at(run, p, partial, c), left = q - s * (s * share);
        out[0] = shifts[c - from] + s * share;
        out[1] = left < 0 ? 0 : left;
    });
}

/* Sums over a block; its first warp gets them. */
__device__ void block_sums_double(double *one, double *two, double (*shared)[32])
{
    *one = warp_sum_double(*one);
    *two = warp_sum_double(*two);
    if (threadIdx.x % 32 == 0) {
        shared[0][threadIdx.x / 32] = *one;
        shared[1][threadIdx.x / 32] = *two;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        bool in = threadIdx.x < blockDim.x / 32;
        *one = warp_sum_double(in ? shared[0][threadIdx.x] : 0.0);
        *two = warp_sum_double(in ? shared[1][threadIdx.x] : 0.0);
    }
}

/* One block for each group of each sample joins the moments of its chunks. Means are taken relative
 * to the first one, which in double is as good as relative to their own mean. */
__global__ void join_moments(NormCuda run, const float *partial)
{
    cuda_begin();
    __shared__ double shared[2][32];
    int64_t           width = run.channels / run.groups, sample = blockIdx.x / run.groups;
    int64_t           group = blockIdx.x % run.groups, n = width * run.chunks;
    double            count = (double)run.pixels * (double)width, sum = 0, squares = 0;
    const float2 *of = (const float2 *)partial + sample * run.chunks * run.channels + group * width;
    double        first = (double)of->x;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned k = i / (unsigned)width;
        float2   at = of[k * run.channels + (i - k * (unsigned)width)];
        double   pixels = (double)pixels_of(run, (int)k), away = (double)at.x - first;
        sum += pixels * away;
        squares += (double)at.y + pixels * away * away;
    }
    block_sums_double(&sum, &squares, shared);
    if (threadIdx.x == 0) {
        sum /= count;
        squares = squares / count - sum * sum;
        run.statistics[2 * blockIdx.x] = (float)(first + sum);
        run.statistics[2 * blockIdx.x + 1] =
            (float)(1 / sqrt((squares < 0 ? 0 : squares) + (double)run.eps));
    }
}

template <class T, int V, int FORM>
__global__ void __launch_bounds__(NORM_THREADS, FORM == MAPPED ? MAP_BLOCKS : APPLY_BLOCKS)
    apply(NormCuda run)
{
    cuda_begin();
    constexpr bool  MAP = FORM == MAPPED;
    constexpr int   AHEAD = MAP ? MAP_AHEAD : APPLY_AHEAD;
    NormPlace       p = place_of<V, AHEAD>(run);
    int64_t         base = p.sample * run.pixels * run.channels;
    ColumnAffine<V> k;
    float           rstd[V];
    Pack<T, V>      x[AHEAD], gammas[AHEAD], betas[AHEAD];
    auto            ask = [&](int v) {
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        if (MAP) {
            const T *gamma = (const T *)run.gamma;
            maps_get<T, V, AHEAD>(run, p, gamma, v, gammas);
            maps_get<T, V, AHEAD>(run, p, run.packed ? gamma + run.channels : (const T *)run.beta,
                                  v, betas);
        }
    };
    if (p.rounds) /* loads overlap with columns_of */
        ask(p.first);
    columns_of<V>(run, p, k, rstd);
    for (int r = 0, v = p.first; r < p.rounds; r++, v += p.stride) {
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V], gamma[V], beta[V];
            pack_numbers<T, V>(x[s], a);
            if (MAP) {
                pack_numbers<T, V>(gammas[s], gamma);
                pack_numbers<T, V>(betas[s], beta);
            }
#pragma unroll
            for (int j = 0; j < V; j++) {
                float z = (a[j] - k.mean[j]) * k.scale[j] + k.bias[j];
                a[j] = MAP ? z * (1 + gamma[j]) + beta[j] : act_of((NormAct)FORM, z);
            }
            if (v + s * p.step < p.end)
                put_pack<V>((T *)run.y, base + (int64_t)(v + s * p.step) * V, a);
        }
        if (r + 1 < p.rounds)
            ask(v + p.stride);
    }
}

/* ---- host ---- */

size_t norm_forward_cuda_bytes(const NormCuda *run, int sms)
{
    return norm_group_takes(run, false) || norm_channel_takes(run)
               ? 0
               : partial_bytes(run, (int64_t)sms * MOMENTS_BLOCKS);
}

Err norm_forward_cuda(const Call *call, NormCuda run)
{
    cudaStream_t stream = cuda_stream(call);
    int          sms = cuda_handle(call)->sms;
    float       *partial = (float *)call->workspace;
    if (norm_group_takes(&run, false))
        return norm_group_forward_cuda(call, run);
    if (norm_channel_takes(&run))
        return norm_channel_cuda(call, run);
    if (!run.var) {
        norm_divide(&run, (int64_t)sms * MOMENTS_BLOCKS);
        WITH_VECTORS(
            run, MOMENTS_AHEAD,
            cuda_launch(stream, moments<T, V>, norm_blocks(&run), NORM_THREADS, 0, run, partial););
        CUDA_LAUNCHED();
        unsigned threads = join_threads(run.channels / run.groups * run.chunks);
        cuda_launch(stream, join_moments, (unsigned)(run.samples * run.groups), threads, 0, run,
                    partial);
        CUDA_LAUNCHED();
    }
    norm_divide(&run, (int64_t)sms * (run.gamma ? MAP_BLOCKS : APPLY_BLOCKS));
    WITH_VECTORS(
        run, run.gamma ? MAP_AHEAD : APPLY_AHEAD,
        cuda_launch(stream, FORM_OF(run, apply, T, V), norm_blocks(&run), NORM_THREADS, 0, run););
    CUDA_LAUNCHED();
    return OK;
}
