/* norm_backward_cuda.cu -- gradients of norms on CUDA: sums over chunks, gradients of weight and
 * bias; norm_dx_cuda.cu does the rest. */
#include "ops/norm/norm_kernels_cuda.h"

/* Sums over a chunk of dz and dz * xhat, where dz = dy act'(z), or dy (1 + gamma) for SPADE. */
template <class T, int V, int FORM>
__global__ void __launch_bounds__(NORM_THREADS, SLOPES_BLOCKS) slopes(NormCuda run, float *partial)
{
    cuda_begin();
    constexpr bool  MAP = FORM == MAPPED;
    constexpr int   AHEAD = MAP ? MAP_AHEAD : SLOPES_AHEAD;
    NormPlace       p = place_of<V, AHEAD>(run);
    int64_t         base = p.sample * run.pixels * run.channels;
    ColumnAffine<V> k;
    float           one[V], two[V], rstd[V];
    columns_of<V>(run, p, k, rstd);
#pragma unroll
    for (int j = 0; j < V; j++)
        one[j] = two[j] = 0;
    for (int r = p.rounds - 1; r >= 0; r--) {
        int        v = p.first + r * p.stride;
        Pack<T, V> x[AHEAD], dy[AHEAD], gammas[AHEAD];
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        packs_get<T, V, AHEAD>(p, (const T *)run.dy + base, v, dy);
        if (MAP)
            maps_get<T, V, AHEAD>(run, p, (const T *)run.gamma, v, gammas);
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V], d[V], gamma[V];
            pack_numbers<T, V>(x[s], a);
            pack_numbers<T, V>(dy[s], d);
            if (MAP)
                pack_numbers<T, V>(gammas[s], gamma);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float away = a[j] - k.mean[j];
                float dz = d[j] * (MAP ? 1 + gamma[j]
                                       : act_slope((NormAct)FORM, away * k.scale[j] + k.bias[j]));
                one[j] += dz;
                two[j] += dz * away;
            }
        }
    }
    columns_of<V>(run, p, k, rstd); /* again, to free registers in the loop */
#pragma unroll
    for (int j = 0; j < V; j++)
        two[j] *= p.active ? rstd[j] : 0;
    sum_columns<V>(run, p, one, two, [&](int c, float s, float q) {
        float *out = partial_at(run, p, partial, c);
        out[0] = s;
        out[1] = q;
    });
}

__device__ __forceinline__ void affine_put(const NormCuda &run, int64_t c, double one, double two)
{
    if (run.dbias)
        run.dbias[c] = (float)one;
    if (run.dweight)
        run.dweight[c] = (float)two;
}

/* One block for each group of each sample: totals of its channels over all chunks, and the means of
 * dxhat and dxhat * xhat over the group. With one sample, its totals are the gradients of weight
 * and bias. */
__global__ void join_slopes(NormCuda run, const float *partial, double *totals, float *means)
{
    cuda_begin();
    __shared__ double shared[2][32];
    int64_t           width = run.channels / run.groups, sample = blockIdx.x / run.groups;
    int64_t           first = blockIdx.x % run.groups * width;
    int    warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
    double sum_one = 0, sum_two = 0;
    for (int64_t c = first + warp; c < first + width; c += warps) {
        double one = 0, two = 0;
#pragma unroll 4
        for (int i = lane; i < run.chunks; i += 32) {
            const float *at = partial + 2 * ((sample * run.chunks + i) * run.channels + c);
            one += (double)at[0];
            two += (double)at[1];
        }
        one = warp_sum_double(one);
        two = warp_sum_double(two);
        double w = (double)affine_at(run.type_w, run.weight, c, 1);
        sum_one += w * one;
        sum_two += w * two;
        if (lane == 0 && run.samples == 1)
            affine_put(run, c, one, two);
        else if (lane == 0) {
            totals[2 * (sample * run.channels + c)] = one;
            totals[2 * (sample * run.channels + c) + 1] = two;
        }
    }
    if (lane == 0) {
        shared[0][warp] = sum_one;
        shared[1][warp] = sum_two;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        double sum = 0;
        for (int i = 0; i < warps; i++)
            sum += shared[threadIdx.x][i];
        means[2 * blockIdx.x + threadIdx.x] = (float)(sum / ((double)run.pixels * (double)width));
    }
}

__global__ void affine_grads(NormCuda run, const double *totals)
{
    cuda_begin();
    int64_t c = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (c >= run.channels)
        return;
    double one = 0, two = 0;
#pragma unroll 4
    for (int64_t n = 0; n < run.samples; n++) {
        one += totals[2 * (n * run.channels + c)];
        two += totals[2 * (n * run.channels + c) + 1];
    }
    affine_put(run, c, one, two);
}

/* ---- host ---- */

/* Totals, partial sums, means of groups. */
size_t norm_backward_cuda_bytes(const NormCuda *run, int sms)
{
    return (size_t)(run->samples * run->channels) * 2 * sizeof(double) +
           partial_bytes(run, (int64_t)sms * SLOPES_BLOCKS) +
           (size_t)(run->samples * run->groups) * 2 * sizeof(float);
}

Err norm_backward_cuda(const Call *call, NormCuda run)
{
    cudaStream_t stream = cuda_stream(call);
    int          sms = cuda_handle(call)->sms;
    double      *totals = (double *)call->workspace;
    if (norm_group_takes(&run, true))
        return norm_group_backward_cuda(call, run);
    if (norm_channel_takes(&run))
        return norm_channel_cuda(call, run);
    float *partial = (float *)(totals + 2 * run.samples * run.channels);
    norm_divide(&run, (int64_t)sms * SLOPES_BLOCKS);
    float *means = partial + 2 * run.samples * run.chunks * run.channels;
    if (run.dweight || run.dbias || (run.dx && !run.var)) {
        WITH_VECTORS(run, run.gamma ? MAP_AHEAD : SLOPES_AHEAD,
                     cuda_launch(stream, FORM_OF(run, slopes, T, V), norm_blocks(&run),
                                 NORM_THREADS, 0, run, partial););
        CUDA_LAUNCHED();
        unsigned threads = join_threads(run.channels / run.groups * 32);
        cuda_launch(stream, join_slopes, (unsigned)(run.samples * run.groups), threads, 0, run,
                    partial, totals, means);
        CUDA_LAUNCHED();
        if (run.samples > 1 && (run.dweight || run.dbias)) {
            cuda_launch(stream, affine_grads, (unsigned)ceil_div(run.channels, 128), 128, 0, run,
                        totals);
            CUDA_LAUNCHED();
        }
    }
    if (!run.dx && !run.dgamma)
        return OK;
    return norm_dx_cuda(call, run, means);
}
