/* norm_cuda.cu -- act(weight * (x - mean) * rstd + bias), SPADE's form of it, and their
 * gradients. */
#include "ops/norm/norm_cuda.h"

/* Vectors that a thread asks for at once, and blocks that a multiprocessor holds, of the passes
 * that take sums and of those that write results. One turn of blocks does all the work, so that
 * none waits for a second. */
enum { MOMENTS_AHEAD = 4, MOMENTS_BLOCKS = 3, SLOPES_AHEAD = 4, SLOPES_BLOCKS = 2,
       APPLY_AHEAD = 4, APPLY_BLOCKS = 3, BACK_AHEAD = 4, BACK_BLOCKS = 2,
       ADD_AHEAD = 3,                            /* a gradient that reads three tensors */
       MAP_AHEAD = 2, MAP_BLOCKS = 2 };          /* SPADE, which reads three tensors */

/* What becomes of z = weight * (x - mean) * rstd + bias: an activation's output, or SPADE's. */
enum { MAPPED = NORM_ACTS };

/* Where a thread stands: vectors v, v + step, ... of each of its rounds, all of the same
 * channels. */
struct Place {
    int64_t sample;
    int     chunk, rounds, column, lane;
    int     first, end, step, stride;            /* first: of round 0; stride: to the next round */
    bool    active;
};

/* Rounds of a chunk. */
__device__ __forceinline__ int rounds_of(const NormCuda &run, int chunk)
{
    return (int)((unsigned)(run.rounds + run.chunks - 1 - chunk) / (unsigned)run.chunks);
}

/* Pixels of a chunk: the sample's last round may be a short one. */
__device__ __forceinline__ int64_t pixels_of(const NormCuda &run, int chunk)
{
    int     mine = rounds_of(run, chunk), last = chunk + (mine - 1) * run.chunks;
    int64_t over = run.rounds * run.round - run.pixels;
    return mine * run.round - (last == run.rounds - 1 ? over : 0);
}

template <int V, int AHEAD> __device__ __forceinline__ Place place_of(const NormCuda &run)
{
    Place    p;
    unsigned id = blockIdx.x / (unsigned)run.tiles;
    int      tile = (int)(blockIdx.x - id * (unsigned)run.tiles), t = (int)threadIdx.x;
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

/* The vectors v, v + step, ... < end of a round, and zeros behind them: asked for all at once,
 * since what is stored may lie where x lay and a load behind a store waits for it. */
template <class T, int V, int AHEAD>
__device__ __forceinline__ void packs_get(const Place &p, const T *at, int v,
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

/* The channels of a thread's vector and their groups, one after the other. */
struct Channel {
    int at, group, in_group, width, channels;

    __device__ __forceinline__ Channel(const NormCuda &run, int first)
    {
        channels = (int)run.channels;
        width = channels / (int)run.groups;
        at = first % channels;               /* several pixels may lie side by side */
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

/* Sums of this thread's columns over all lanes and, where several pixels lie side by side in a row,
 * over these: give(channel, one, two) is called once for each channel of the block. */
template <int V, class Give>
__device__ void sum_columns(const NormCuda &run, const Place &p, const float *one, const float *two,
                            Give give)
{
    __shared__ float sum[2][V][NORM_THREADS];
    int t = (int)threadIdx.x;
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
    if (run.tiles > 1) {                         /* one row is one pixel here */
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

__device__ __forceinline__ float *partial_at(const NormCuda &run, const Place &p, float *partial,
                                             int c)
{
    return partial + 2 * ((p.sample * run.chunks + p.chunk) * run.channels + c);
}

/* The middle one of three values of a channel in a chunk that is not empty. */
template <class T>
__device__ __forceinline__ float middle(const NormCuda &run, const Place &p, int c)
{
    const T *x = (const T *)run.x + p.sample * run.pixels * run.channels + c;
    int      rounds = rounds_of(run, p.chunk);
    int64_t  first = p.chunk * run.round, far = run.chunks * run.round;
    int64_t  half = first + rounds / 2 * far, last = first + (rounds - 1) * far + run.round - 1;
    half += half + run.round / 2 < run.pixels ? run.round / 2 : 0;
    last = last < run.pixels ? last : run.pixels - 1;
    half = half < run.pixels ? half : last;
    float    a = get(x, first * run.channels), b = get(x, half * run.channels);
    float    d = get(x, last * run.channels);
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), d));
}

/* Mean and squared deviations of every channel of a chunk. */
template <class T, int V>
__global__ void __launch_bounds__(NORM_THREADS, MOMENTS_BLOCKS) moments(NormCuda run,
                                                                       float *partial)
{
    cuda_begin();
    constexpr int AHEAD = MOMENTS_AHEAD;
    __shared__ float shifts[NORM_THREADS * V];
    Place    p = place_of<V, AHEAD>(run);
    const T *x = (const T *)run.x + p.sample * run.pixels * run.channels;
    int64_t  n = pixels_of(run, p.chunk);
    int      from = run.tiles > 1 ? (p.column - (int)threadIdx.x) * V : 0;
    int      wide = (int)run.channels - from < NORM_THREADS * V ? (int)run.channels - from
                                                                : NORM_THREADS * V;
    float    one[V], two[V], shift[V];
    for (int c = (int)threadIdx.x; c < wide; c += NORM_THREADS)
        shifts[c] = n ? middle<T>(run, p, from + c) : 0;
    __syncthreads();
    Channel  c(run, p.column * V);
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

__device__ __forceinline__ double warp_sum_double(double x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* Both sums of a block, to its first warp. */
__device__ void block_sums_double(double *one, double *two, double (*lines)[32])
{
    *one = warp_sum_double(*one);
    *two = warp_sum_double(*two);
    if (threadIdx.x % 32 == 0) {
        lines[0][threadIdx.x / 32] = *one;
        lines[1][threadIdx.x / 32] = *two;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        bool in = threadIdx.x < blockDim.x / 32;
        *one = warp_sum_double(in ? lines[0][threadIdx.x] : 0.0);
        *two = warp_sum_double(in ? lines[1][threadIdx.x] : 0.0);
    }
}

/* One block for each group of each sample joins what the chunks found; means are taken less the
 * first one, which in double is as good as less their own mean. */
__global__ void join_moments(NormCuda run, const float *partial)
{
    cuda_begin();
    __shared__ double lines[2][32];
    int64_t width = run.channels / run.groups, sample = blockIdx.x / run.groups;
    int64_t group = blockIdx.x % run.groups, n = width * run.chunks;
    double  count = (double)run.pixels * (double)width, sum = 0, squares = 0;
    const float2 *of = (const float2 *)partial + sample * run.chunks * run.channels + group * width;
    double  first = (double)of->x;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned k = i / (unsigned)width;
        float2   at = of[k * run.channels + (i - k * (unsigned)width)];
        double   pixels = (double)pixels_of(run, (int)k), away = (double)at.x - first;
        sum += pixels * away;
        squares += (double)at.y + pixels * away * away;
    }
    block_sums_double(&sum, &squares, lines);
    if (threadIdx.x == 0) {
        sum /= count;
        squares = squares / count - sum * sum;
        run.statistics[2 * blockIdx.x] = (float)(first + sum);
        run.statistics[2 * blockIdx.x + 1] = (float)(1 / sqrt((squares < 0 ? 0 : squares) +
                                                              (double)run.eps));
    }
}

/* What a thread's channels are treated with: z = (x - mean) * scale + bias. */
template <int V> struct Columns {
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

/* Weights or biases of V channels; what is absent stays as it is. */
template <int V>
__device__ __forceinline__ void affines_of(Type type, const void *p, int first, int channels,
                                           float *to)
{
    if (!p)
        return;
    switch (type) {
    case BF16: affines_as<V>((const bf16 *)p, first, channels, to); break;
    case F16:  affines_as<V>((const f16 *)p, first, channels, to); break;
    default:   affines_as<V>((const float *)p, first, channels, to); break;
    }
}

template <int V>
__device__ __forceinline__ void columns_of(const NormCuda &run, const Place &p, Columns<V> &k,
                                           float *rstd)
{
    if (!p.active)
        return;
    float         weight[V];
    const float2 *of = (const float2 *)run.statistics + p.sample * run.groups;
    Channel       c(run, p.column * V);
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        float2 s = run.var ? make_float2(run.mean[c.at], (float)(1 / sqrt((double)run.var[c.at] +
                                                                         (double)run.eps)))
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

/* Element of the map gamma for vector v of a sample: rows are single pixels there, so it lies as x
 * does, or with twice the channels. */
template <int V>
__device__ __forceinline__ int64_t map_at(const NormCuda &run, const Place &p, int v)
{
    int64_t at = p.sample * run.pixels * run.channels + (int64_t)v * V;
    return run.packed ? 2 * at - (int64_t)p.column * V : at;
}

/* As packs_get, from a map. */
template <class T, int V, int AHEAD>
__device__ __forceinline__ void maps_get(const NormCuda &run, const Place &p, const T *map, int v,
                                         Pack<T, V> (&packs)[AHEAD])
{
#pragma unroll
    for (int s = 0; s < AHEAD; s++) {
        memset(&packs[s], 0, sizeof packs[s]);
        if (v + s * p.step < p.end)
            packs[s] = *(const Pack<T, V> *)(map + map_at<V>(run, p, v + s * p.step));
    }
}

template <class T, int V, int FORM>
__global__ void __launch_bounds__(NORM_THREADS, FORM == MAPPED ? MAP_BLOCKS : APPLY_BLOCKS)
    apply(NormCuda run)
{
    cuda_begin();
    constexpr bool MAP = FORM == MAPPED;
    constexpr int  AHEAD = MAP ? MAP_AHEAD : APPLY_AHEAD;
    Place      p = place_of<V, AHEAD>(run);
    int64_t    base = p.sample * run.pixels * run.channels;
    Columns<V> k;
    float      rstd[V];
    Pack<T, V> x[AHEAD], gammas[AHEAD], betas[AHEAD];
    auto       ask = [&](int v) {
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        if (MAP) {
            const T *gamma = (const T *)run.gamma;
            maps_get<T, V, AHEAD>(run, p, gamma, v, gammas);
            maps_get<T, V, AHEAD>(run, p, run.packed ? gamma + run.channels : (const T *)run.beta,
                                  v, betas);
        }
    };
    if (p.rounds)                                /* on their way while columns are found */
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

/* Sums over a chunk of dz and dz * xhat; dz = dy act'(z), or dy (1 + gamma). */
template <class T, int V, int FORM>
__global__ void __launch_bounds__(NORM_THREADS, SLOPES_BLOCKS) slopes(NormCuda run, float *partial)
{
    cuda_begin();
    constexpr bool MAP = FORM == MAPPED;
    constexpr int  AHEAD = MAP ? MAP_AHEAD : SLOPES_AHEAD;
    Place      p = place_of<V, AHEAD>(run);
    int64_t    base = p.sample * run.pixels * run.channels;
    Columns<V> k;
    float      one[V], two[V], rstd[V];
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
    columns_of<V>(run, p, k, rstd);              /* once more: not kept through the loop */
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
 * dxhat and of dxhat * xhat over the group. Totals of the only sample are the gradients of weight
 * and bias. */
__global__ void join_slopes(NormCuda run, const float *partial, double *totals, float *means)
{
    cuda_begin();
    __shared__ double lines[2][32];
    int64_t width = run.channels / run.groups, sample = blockIdx.x / run.groups;
    int64_t first = blockIdx.x % run.groups * width;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
    double  sum_one = 0, sum_two = 0;
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
        lines[0][warp] = sum_one;
        lines[1][warp] = sum_two;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        double sum = 0;
        for (int i = 0; i < warps; i++)
            sum += lines[threadIdx.x][i];
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

/* dx, and SPADE's gradient of its maps; ADD: dx and what `before` holds. Every element of dy is
 * read before dx takes its place. */
template <class T, int V, int FORM, bool ADD = false>
__global__ void __launch_bounds__(NORM_THREADS, BACK_BLOCKS) back(NormCuda run, const float *means)
{
    cuda_begin();
    constexpr bool MAP = FORM == MAPPED;
    constexpr int  AHEAD = MAP ? MAP_AHEAD : ADD ? ADD_AHEAD : BACK_AHEAD;
    Place      p = place_of<V, AHEAD>(run);
    int64_t    base = p.sample * run.pixels * run.channels;
    Columns<V> k;
    Channel    c(run, p.column * V);
    float      one[V], two[V], rstd[V];
    const float2 *of = (const float2 *)means + p.sample * run.groups;
    columns_of<V>(run, p, k, rstd);
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        bool   moves = p.active && !run.var && run.dx;
        float2 m = moves ? of[c.group] : make_float2(0, 0);
        one[j] = rstd[j] * m.x;
        two[j] = rstd[j] * rstd[j] * m.y;
    }
    for (int r = 0; r < p.rounds; r++) {
        int        v = p.first + r * p.stride;
        Pack<T, V> x[AHEAD], dy[AHEAD], gammas[AHEAD], befores[AHEAD];
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        packs_get<T, V, AHEAD>(p, (const T *)run.dy + base, v, dy);
        if (MAP)
            maps_get<T, V, AHEAD>(run, p, (const T *)run.gamma, v, gammas);
        if (ADD)
            packs_get<T, V, AHEAD>(p, (const T *)run.before + base, v, befores);
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V], d[V], gamma[V], before[V];
            bool  in = v + s * p.step < p.end;
            pack_numbers<T, V>(x[s], a);
            pack_numbers<T, V>(dy[s], d);
            if (MAP) {
                pack_numbers<T, V>(gammas[s], gamma);
                if (run.dgamma && in) {
                    int64_t at = map_at<V>(run, p, v + s * p.step);
                    float   dg[V];
#pragma unroll
                    for (int j = 0; j < V; j++)
                        dg[j] = d[j] * ((a[j] - k.mean[j]) * k.scale[j] + k.bias[j]);
                    put_pack<V>((T *)run.dgamma, at, dg);
                    if (run.packed)              /* the gradient of beta is dy itself */
                        put_pack<V>((T *)run.dgamma, at + run.channels, d);
                }
                if (!run.dx)
                    continue;
            }
            if (ADD)
                pack_numbers<T, V>(befores[s], before);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float away = a[j] - k.mean[j];
                float dz = d[j] * (MAP ? 1 + gamma[j]
                                       : act_slope((NormAct)FORM, away * k.scale[j] + k.bias[j]));
                a[j] = dz * k.scale[j] - one[j] - away * two[j];
                if (ADD)
                    a[j] += before[j];
            }
            if (in)
                put_pack<V>((T *)run.dx, base + (int64_t)(v + s * p.step) * V, a);
        }
    }
}

/* ---- host ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* At most `blocks` chunks in all; none needlessly small. */
static void cut(NormCuda *run, int64_t blocks)
{
    enum { LEAST = 8192 };                       /* elements */
    int64_t want = blocks / run->samples > 1 ? blocks / run->samples : 1;
    run->chunks = (int)least(want, ceil_div(run->pixels * run->channels, LEAST));
}

static bool aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

/* Columns, lanes, tiles and rounds for vectors of v elements, `ahead` at once; false: they do not
 * fit. */
static bool arrange(NormCuda *run, int v, int ahead)
{
    int64_t c = run->channels, fold = 1;
    while (c * fold % v)
        fold *= 2;
    if (v > 1 &&
        (run->pixels * c % v || !aligned(run->x) || !aligned(run->dy) || !aligned(run->y) ||
         !aligned(run->dx) || !aligned(run->gamma) || !aligned(run->beta) ||
         !aligned(run->dgamma) || !aligned(run->before)))
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

static unsigned norm_blocks(const NormCuda *run)
{
    return (unsigned)(run->samples * run->chunks * run->tiles);
}

/* Runs the statements with T and V: whole 16-byte vectors where they fit. */
#define WITH_VECTORS(run, ahead, ...)                                              \
    WITH_FLOAT((run).type, T, {                                                    \
        constexpr int wide = 16 / (int)sizeof(T);                                  \
        if (arrange(&(run), wide, ahead)) { constexpr int V = wide; __VA_ARGS__ }  \
        else { arrange(&(run), 1, ahead); constexpr int V = 1; __VA_ARGS__ }       \
    })

/* The kernel for what becomes of z. */
#define FORM_OF(run, kernel, T, V)                        \
    ((run).gamma              ? kernel<T, V, MAPPED>      \
     : (run).act == NORM_SILU ? kernel<T, V, NORM_SILU>   \
     : (run).act == NORM_RELU ? kernel<T, V, NORM_RELU>   \
     : (run).act == NORM_GELU ? kernel<T, V, NORM_GELU>   \
                              : kernel<T, V, NORM_LINEAR>)

/* A copy of its own for each activation where dx is added to what is there, so that the others keep
 * their registers. */
#define BACK_OF(run, T, V)                                      \
    (!(run).before            ? FORM_OF(run, back, T, V)        \
     : (run).act == NORM_SILU ? back<T, V, NORM_SILU, true>     \
     : (run).act == NORM_RELU ? back<T, V, NORM_RELU, true>     \
     : (run).act == NORM_GELU ? back<T, V, NORM_GELU, true>     \
                              : back<T, V, NORM_LINEAR, true>)

static size_t partial_bytes(const NormCuda *given, int64_t blocks)
{
    NormCuda run = *given;
    cut(&run, blocks);
    return (size_t)(run.samples * run.chunks * run.channels) * 2 * sizeof(float);
}

size_t norm_forward_cuda_bytes(const NormCuda *run, int sms)
{
    return norm_group_takes(run, false) || norm_channel_takes(run)
               ? 0
               : partial_bytes(run, (int64_t)sms * MOMENTS_BLOCKS);
}

/* totals, partial sums, means of groups */
size_t norm_backward_cuda_bytes(const NormCuda *run, int sms)
{
    return (size_t)(run->samples * run->channels) * 2 * sizeof(double) +
           partial_bytes(run, (int64_t)sms * SLOPES_BLOCKS) +
           (size_t)(run->samples * run->groups) * 2 * sizeof(float);
}

static unsigned join_threads(int64_t work)
{
    return (unsigned)(work >= 256 ? 256 : ceil_div(work < 1 ? 1 : work, 32) * 32);
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
        cut(&run, (int64_t)sms * MOMENTS_BLOCKS);
        WITH_VECTORS(run, MOMENTS_AHEAD, cuda_launch(stream, moments<T, V>, norm_blocks(&run),
                                                     NORM_THREADS, 0, run, partial););
        CUDA_LAUNCHED();
        unsigned threads = join_threads(run.channels / run.groups * run.chunks);
        cuda_launch(stream, join_moments, (unsigned)(run.samples * run.groups), threads, 0, run,
                    partial);
        CUDA_LAUNCHED();
    }
    cut(&run, (int64_t)sms * (run.gamma ? MAP_BLOCKS : APPLY_BLOCKS));
    WITH_VECTORS(run, run.gamma ? MAP_AHEAD : APPLY_AHEAD,
                 cuda_launch(stream, FORM_OF(run, apply, T, V), norm_blocks(&run), NORM_THREADS, 0,
                             run););
    CUDA_LAUNCHED();
    return OK;
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
    float       *partial = (float *)(totals + 2 * run.samples * run.channels);
    cut(&run, (int64_t)sms * SLOPES_BLOCKS);
    float       *means = partial + 2 * run.samples * run.chunks * run.channels;
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
    cut(&run, (int64_t)sms * BACK_BLOCKS);
    WITH_VECTORS(run, run.gamma ? MAP_AHEAD : run.before ? ADD_AHEAD : BACK_AHEAD,
                 cuda_launch(stream, BACK_OF(run, T, V), norm_blocks(&run), NORM_THREADS, 0,
                             run, means););
    CUDA_LAUNCHED();
    return OK;
}
