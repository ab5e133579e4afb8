/* norm_group_cuda.cu -- norms whose groups are small: a block holds one group of one sample in
 * shared memory, so that x (and dy) are read once and nothing passes between kernels.
 *
 * The mean is corrected by the mean of the deviations, so the variance is as good as sums in
 * double.
 */
#include "ops/norm/norm_cuda.h"

/* Measured on an H200: this is faster for a group of 40 KiB, not for one of 80 KiB. MIN_RUN: bytes
 * of a group in one pixel. */
enum { GROUP_THREADS = 512, GROUP_BYTES = 48 << 10, MIN_RUN = 16 };

bool norm_group_takes(const NormCuda *run, bool backward)
{
    int64_t pixel = run->channels / run->groups * type_bytes(run->type);
    int64_t bytes = run->pixels * pixel;
    if (run->var || pixel < MIN_RUN || run->samples * run->groups > INT32_MAX ||
        (backward && (run->dweight || run->dbias || !run->dx)))
        return false;
    return bytes <= GROUP_BYTES;
}

/* Where vector i of a group lies, and its first channel. */
template <int V> struct NormGroup {
    int64_t first;          /* element of x at pixel 0 */
    int     columns, count; /* vectors of a pixel; of the group */
    int     channel;        /* first of the group */

    __device__ __forceinline__ NormGroup(const NormCuda &run)
    {
        int width = (int)(run.channels / run.groups), sample = (int)(blockIdx.x / run.groups);
        channel = (int)(blockIdx.x % run.groups) * width;
        columns = width / V;
        count = (int)run.pixels * columns;
        first = sample * run.pixels * run.channels + channel;
    }
    __device__ __forceinline__ int64_t at(const NormCuda &run, int i, int *c) const
    {
        int pixel = i / columns, column = i - pixel * columns;
        *c = channel + column * V;
        return first + pixel * run.channels + column * V;
    }
};

/* SPADE's maps are laid out like x, or like x with twice the channels. */
__device__ __forceinline__ int64_t map_of(const NormCuda &run, int64_t at, int c)
{
    return run.packed ? 2 * at - c : at;
}

template <class T, int V, bool MAP>
__global__ void __launch_bounds__(GROUP_THREADS) group_forward(const NormCuda run)
{
    extern __shared__ uint4 raw[];
    __shared__ float        shared[32];
    T                      *x = (T *)raw;
    NormGroup<V>            g(run);
    float                   n = (float)(g.count * V), one = 0, two = 0;
    int                     c;
#pragma unroll 4
    for (int i = threadIdx.x; i < g.count; i += GROUP_THREADS) {
        Pack<T, V> pack = *(const Pack<T, V> *)((const T *)run.x + g.at(run, i, &c));
        *(Pack<T, V> *)(x + i * V) = pack;
#pragma unroll
        for (int j = 0; j < V; j++)
            one += get(pack.at, j);
    }
    float mean = block_sum(one, shared) / n;
    one = 0;
    for (int i = threadIdx.x; i < g.count; i += GROUP_THREADS)
#pragma unroll
        for (int j = 0; j < V; j++) {
            float d = get(x, i * V + j) - mean;
            one += d;
            two = fmaf(d, d, two);
        }
    one = block_sum(one, shared) / n;
    two = block_sum(two, shared) / n - one * one;
    mean += one;
    float rstd = rsqrtf(fmaxf(two, 0.0f) + run.eps);
    if (threadIdx.x == 0) {
        run.statistics[2 * blockIdx.x] = mean;
        run.statistics[2 * blockIdx.x + 1] = rstd;
    }
    for (int i = threadIdx.x; i < g.count; i += GROUP_THREADS) {
        int64_t at = g.at(run, i, &c);
        float   gamma[V], beta[V], y[V];
        if (MAP) {
            int64_t map = map_of(run, at, c);
            get_pack<V>((const T *)run.gamma, map, gamma);
            get_pack<V>((const T *)(run.packed ? run.gamma : run.beta),
                        run.packed ? map + run.channels : map, beta);
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            float z = (get(x, i * V + j) - mean) * rstd *
                          affine_at(run.type_w, run.weight, c + j, 1) +
                      affine_at(run.type_w, run.bias, c + j, 0);
            y[j] = MAP ? z * (1 + gamma[j]) + beta[j] : act_of(run.act, z);
        }
        put_pack<V>((T *)run.y, at, y);
    }
}

/* dx, plus `before` if ADD, and SPADE's dgamma. It has no gradients of weight and bias. */
template <class T, int V, bool MAP, bool ADD>
__global__ void __launch_bounds__(GROUP_THREADS) group_backward(const NormCuda run)
{
    extern __shared__ uint4 raw[];
    __shared__ float        shared[32];
    NormGroup<V>            g(run);
    T    *x = (T *)raw, *dz = x + g.count * V; /* dz: dy as stored; each pass weights it */
    float mean = run.statistics[2 * blockIdx.x], rstd = run.statistics[2 * blockIdx.x + 1];
    float n = (float)(g.count * V), one = 0, two = 0;
    int   c;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = threadIdx.x; i < g.count; i += GROUP_THREADS) {
            int64_t at = g.at(run, i, &c), map = map_of(run, at, c);
            float   a[V], d[V], gamma[V], dg[V], before[V];
            if (pass == 0) {
                *(Pack<T, V> *)(x + i * V) = *(const Pack<T, V> *)((const T *)run.x + at);
                *(Pack<T, V> *)(dz + i * V) = *(const Pack<T, V> *)((const T *)run.dy + at);
            }
            get_pack<V>(x, i * V, a);
            get_pack<V>(dz, i * V, d);
            if (MAP)
                get_pack<V>((const T *)run.gamma, map, gamma);
            if (ADD && pass == 1)
                get_pack<V>((const T *)run.before, at, before);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float w = affine_at(run.type_w, run.weight, c + j, 1),
                      b = affine_at(run.type_w, run.bias, c + j, 0);
                float xhat = (a[j] - mean) * rstd, z = xhat * w + b;
                float dxhat = d[j] * (MAP ? 1 + gamma[j] : act_slope(run.act, z)) * w;
                dg[j] = d[j] * z;
                if (pass == 0) {
                    one += dxhat;
                    two += dxhat * xhat;
                }
                a[j] = rstd * (dxhat - one - xhat * two);
                if (ADD && pass == 1)
                    a[j] += before[j];
            }
            if (pass == 1) {
                if (MAP && run.dgamma) {
                    put_pack<V>((T *)run.dgamma, map, dg);
                    if (run.packed)
                        put_pack<V>((T *)run.dgamma, map + run.channels, d);
                }
                put_pack<V>((T *)run.dx, at, a);
            }
        }
        if (pass == 0) {
            one = block_sum(one, shared) / n;
            two = block_sum(two, shared) / n;
        }
    }
}

/* The widest vectors that the group's width and all pointers allow. */
static int group_vector(const NormCuda *run)
{
    const void *p[] = { run->x,     run->dy,   run->y,      run->dx,
                        run->gamma, run->beta, run->dgamma, run->before };
    int64_t     element = type_bytes(run->type), width = run->channels / run->groups;
    int         v = (int)(16 / element);
    for (; v > 1; v /= 2) {
        bool fits = width % v == 0;
        for (size_t i = 0; i < sizeof p / sizeof *p; i++)
            fits = fits && (uintptr_t)p[i] % (uintptr_t)(v * element) == 0;
        if (fits)
            break;
    }
    return v;
}

template <class T, int V, bool MAP>
static Err group_run(const Call *call, const NormCuda &run, bool backward)
{
    static bool ready;
    auto       *plain = group_backward<T, V, MAP, false>, *adding = group_backward<T, V, MAP, !MAP>;
    size_t      bytes = (size_t)(run.pixels * (run.channels / run.groups)) * sizeof(T) *
                   (backward ? 2 : 1);
    unsigned blocks = (unsigned)(run.samples * run.groups);
    if (!ready) {
        CUDA_TRY(cudaFuncSetAttribute(group_forward<T, V, MAP>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, GROUP_BYTES));
        for (auto *back : { plain, adding })
            CUDA_TRY(cudaFuncSetAttribute(back, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          2 * GROUP_BYTES));
    }
    ready = true;
    if (backward)
        (run.before ? adding : plain)<<<blocks, GROUP_THREADS, bytes, cuda_stream(call)>>>(run);
    else
        group_forward<T, V, MAP><<<blocks, GROUP_THREADS, bytes, cuda_stream(call)>>>(run);
    CUDA_LAUNCHED();
    return OK;
}

template <class T, int V> static Err group_map(const Call *call, const NormCuda &run, bool backward)
{
    return run.gamma ? group_run<T, V, true>(call, run, backward)
                     : group_run<T, V, false>(call, run, backward);
}

static Err group_cuda(const Call *call, const NormCuda &run, bool backward)
{
    int v = group_vector(&run);
    WITH_FLOAT(run.type, T, {
        if (v == 8) {
            if constexpr (sizeof(T) == 2)
                return group_map<T, 8>(call, run, backward);
        }
        return v == 4   ? group_map<T, 4>(call, run, backward)
               : v == 2 ? group_map<T, 2>(call, run, backward)
                        : group_map<T, 1>(call, run, backward);
    })
    return OK;
}

Err norm_group_forward_cuda(const Call *call, NormCuda run) { return group_cuda(call, run, false); }
Err norm_group_backward_cuda(const Call *call, NormCuda run) { return group_cuda(call, run, true); }
