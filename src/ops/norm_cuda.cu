/* norm_cuda.cu -- act(weight * (x - mean) * rstd + bias), SPADE's form of it, and their
 * gradients. */
#include "ops/norm_cuda.h"

/* Where a thread stands: vectors at, at + step, ... < end of its sample, all of the same
 * channels. */
struct Place {
    int64_t sample, chunk, at, end, step;
    int     column, lane;
    bool    active;
};

template <int V> __device__ __forceinline__ Place place_of(const NormCuda &run)
{
    Place    p;
    unsigned id = blockIdx.x / (unsigned)run.tiles;
    int      tile = (int)(blockIdx.x - id * (unsigned)run.tiles), t = (int)threadIdx.x;
    p.sample = id / (unsigned)run.chunks;
    p.chunk = id - (unsigned)p.sample * (unsigned)run.chunks;
    p.lane = run.tiles > 1 ? 0 : t / run.columns;
    p.column = run.tiles > 1 ? tile * NORM_THREADS + t : t - p.lane * run.columns;
    p.active = p.lane < run.lanes && p.column < run.columns;
    int64_t last = (p.chunk + 1) * run.chunk;
    p.at = p.chunk * run.chunk * run.channels / V + (int64_t)p.lane * run.columns + p.column;
    p.end = p.active ? (last < run.pixels ? last : run.pixels) * run.channels / V : 0;
    p.step = (int64_t)run.lanes * run.columns;
    return p;
}

/* The next vectors of a thread, v, v + step, ... < end: asked for all at once, since what is stored
 * may lie where x lay and a load behind a store waits for it. */
template <class T, int V, int AHEAD>
__device__ __forceinline__ void packs_get(const Place &p, const T *at, int64_t v,
                                          Pack<T, V> (&packs)[AHEAD])
{
#pragma unroll
    for (int s = 0; s < AHEAD; s++)
        if (v + s * p.step < p.end)
            packs[s] = *(const Pack<T, V> *)(at + (v + s * p.step) * V);
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

/* The middle one of three values of a channel in the chunk. */
template <class T>
__device__ __forceinline__ float middle(const NormCuda &run, const Place &p, int c)
{
    const T *x = (const T *)run.x + p.sample * run.pixels * run.channels + c;
    int64_t  first = p.chunk * run.chunk, last = first + run.chunk;
    last = (last < run.pixels ? last : run.pixels) - 1;
    float    a = get(x, first * run.channels), b = get(x, (first + last) / 2 * run.channels);
    float    d = get(x, last * run.channels);
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), d));
}

/* Mean and squared deviations of every channel of a chunk. */
template <class T, int V>
__global__ void __launch_bounds__(NORM_THREADS) moments(NormCuda run, float *partial)
{
    cuda_begin();
    Place    p = place_of<V>(run);
    const T *x = (const T *)run.x + p.sample * run.pixels * run.channels;
    Channel  c(run, p.column * V);
    float    one[V], two[V], shift[V];
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        one[j] = two[j] = 0;
        shift[j] = p.active ? middle<T>(run, p, c.at) : 0;
    }
#pragma unroll 4
    for (int64_t v = p.at; v < p.end; v += p.step) {
        float a[V];
        get_pack<V>(x, v * V, a);
#pragma unroll
        for (int j = 0; j < V; j++) {
            float d = a[j] - shift[j];
            one[j] += d;
            two[j] += d * d;
        }
    }
    int64_t last = (p.chunk + 1) * run.chunk;
    float   n = (float)((last < run.pixels ? last : run.pixels) - p.chunk * run.chunk);
    sum_columns<V>(run, p, one, two, [&](int c, float s, float q) {
        float *out = partial_at(run, p, partial, c), left = q - s * (s / n);
        out[0] = middle<T>(run, p, c) + s / n;
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

__device__ double block_sum_double(double x, double *lines)      /* lines: 32 */
{
    x = warp_sum_double(x);
    if (threadIdx.x % 32 == 0)
        lines[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? lines[threadIdx.x % 32] : 0.0;
    x = warp_sum_double(x);
    __syncthreads();
    return x;
}

/* One block for each group of each sample joins what the chunks found. */
__global__ void join_moments(NormCuda run, const float *partial)
{
    cuda_begin();
    __shared__ double lines[32];
    int64_t width = run.channels / run.groups, sample = blockIdx.x / run.groups;
    int64_t group = blockIdx.x % run.groups, n = width * run.chunks;
    double  count = (double)run.pixels * (double)width, sum = 0, squares = 0;
    const float *of = partial + 2 * (sample * run.chunks * run.channels + group * width);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        int64_t k = i / (unsigned)width, left = run.pixels - k * run.chunk;
        sum += (double)(left < run.chunk ? left : run.chunk) *
               (double)of[2 * (k * run.channels + i % (unsigned)width)];
    }
    double mean = block_sum_double(sum, lines) / count;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        int64_t      k = i / (unsigned)width, left = run.pixels - k * run.chunk;
        const float *at = of + 2 * (k * run.channels + i % (unsigned)width);
        double       away = (double)at[0] - mean;
        squares += (double)at[1] + (double)(left < run.chunk ? left : run.chunk) * away * away;
    }
    squares = block_sum_double(squares, lines);
    if (threadIdx.x == 0) {
        run.statistics[2 * blockIdx.x] = (float)mean;
        run.statistics[2 * blockIdx.x + 1] = (float)(1 / sqrt(squares / count + (double)run.eps));
    }
}

/* What a thread's channels are treated with. */
template <int V> struct Columns {
    float mean[V], rstd[V], weight[V], bias[V];
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
__device__ __forceinline__ void columns_of(const NormCuda &run, const Place &p, Columns<V> &k)
{
    if (!p.active)
        return;
    const float2 *of = (const float2 *)run.statistics + p.sample * run.groups;
    Channel       c(run, p.column * V);
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        float2 s = run.var ? make_float2(run.mean[c.at], (float)(1 / sqrt((double)run.var[c.at] +
                                                                         (double)run.eps)))
                           : of[c.group];
        k.mean[j] = s.x;
        k.rstd[j] = s.y;
        k.weight[j] = 1;
        k.bias[j] = 0;
    }
    affines_of<V>(run.type_w, run.weight, p.column * V, (int)run.channels, k.weight);
    affines_of<V>(run.type_w, run.bias, p.column * V, (int)run.channels, k.bias);
}

/* Element of the map gamma for vector v of a sample: rows are single pixels there, so it lies as x
 * does, or with twice the channels. */
template <int V>
__device__ __forceinline__ int64_t map_at(const NormCuda &run, const Place &p, int64_t v)
{
    int64_t at = p.sample * run.pixels * run.channels + v * V;
    return run.packed ? 2 * at - (int64_t)p.column * V : at;
}

template <class T, int V, bool MAP>
__global__ void __launch_bounds__(NORM_THREADS, 2) apply(NormCuda run)
{
    cuda_begin();
    constexpr int AHEAD = MAP ? 2 : 4;
    Place      p = place_of<V>(run);
    int64_t    base = p.sample * run.pixels * run.channels;
    Columns<V> k;
    columns_of<V>(run, p, k);
    for (int64_t v = p.at; v < p.end; v += AHEAD * p.step) {
        Pack<T, V> x[AHEAD], gammas[AHEAD], betas[AHEAD];
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        if (MAP)
#pragma unroll
            for (int s = 0; s < AHEAD; s++)
                if (v + s * p.step < p.end) {
                    int64_t  at = map_at<V>(run, p, v + s * p.step);
                    const T *beta = run.packed ? (const T *)run.gamma + run.channels
                                               : (const T *)run.beta;
                    gammas[s] = *(const Pack<T, V> *)((const T *)run.gamma + at);
                    betas[s] = *(const Pack<T, V> *)(beta + at);
                }
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V], gamma[V], beta[V];
            if (v + s * p.step >= p.end)
                break;
            pack_numbers<T, V>(x[s], a);
            if (MAP) {
                pack_numbers<T, V>(gammas[s], gamma);
                pack_numbers<T, V>(betas[s], beta);
            }
#pragma unroll
            for (int j = 0; j < V; j++) {
                float z = (a[j] - k.mean[j]) * k.rstd[j] * k.weight[j] + k.bias[j];
                a[j] = MAP ? z * (1 + gamma[j]) + beta[j] : act_of(run.act, z);
            }
            put_pack<V>((T *)run.y, base + (v + s * p.step) * V, a);
        }
    }
}

/* Sums over a chunk of dz and dz * xhat; dz = dy act'(z), or dy (1 + gamma). */
template <class T, int V, bool MAP>
__global__ void __launch_bounds__(NORM_THREADS, 2) slopes(NormCuda run, float *partial)
{
    cuda_begin();
    constexpr int AHEAD = MAP ? 2 : 3;
    Place      p = place_of<V>(run);
    int64_t    base = p.sample * run.pixels * run.channels;
    Columns<V> k;
    float      one[V], two[V];
    columns_of<V>(run, p, k);
#pragma unroll
    for (int j = 0; j < V; j++)
        one[j] = two[j] = 0;
    for (int64_t v = p.at; v < p.end; v += AHEAD * p.step) {
        Pack<T, V> x[AHEAD], dy[AHEAD], gammas[AHEAD];
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        packs_get<T, V, AHEAD>(p, (const T *)run.dy + base, v, dy);
        if (MAP)
#pragma unroll
            for (int s = 0; s < AHEAD; s++)
                if (v + s * p.step < p.end)
                    gammas[s] = *(const Pack<T, V> *)((const T *)run.gamma +
                                                      map_at<V>(run, p, v + s * p.step));
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V], d[V], gamma[V];
            if (v + s * p.step >= p.end)
                break;
            pack_numbers<T, V>(x[s], a);
            pack_numbers<T, V>(dy[s], d);
            if (MAP)
                pack_numbers<T, V>(gammas[s], gamma);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float xhat = (a[j] - k.mean[j]) * k.rstd[j];
                float dz = d[j] * (MAP ? 1 + gamma[j]
                                       : act_slope(run.act, xhat * k.weight[j] + k.bias[j]));
                one[j] += dz;
                two[j] += dz * xhat;
            }
        }
    }
    sum_columns<V>(run, p, one, two, [&](int c, float s, float q) {
        float *out = partial_at(run, p, partial, c);
        out[0] = s;
        out[1] = q;
    });
}

/* One block for each group of each sample: totals of its channels over all chunks, and the means of
 * dxhat and of dxhat * xhat over the group. */
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
        for (int64_t i = lane; i < run.chunks; i += 32) {
            const float *at = partial + 2 * ((sample * run.chunks + i) * run.channels + c);
            one += (double)at[0];
            two += (double)at[1];
        }
        one = warp_sum_double(one);
        two = warp_sum_double(two);
        double w = (double)affine_at(run.type_w, run.weight, c, 1);
        sum_one += w * one;
        sum_two += w * two;
        if (lane == 0) {
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
    if (run.dbias)
        run.dbias[c] = (float)one;
    if (run.dweight)
        run.dweight[c] = (float)two;
}

/* dx, and SPADE's gradient of its maps. Every element of dy is read before dx takes its place. */
template <class T, int V, bool MAP>
__global__ void __launch_bounds__(NORM_THREADS, 2) back(NormCuda run, const float *means)
{
    cuda_begin();
    constexpr int AHEAD = MAP ? 1 : 3;
    Place      p = place_of<V>(run);
    int64_t    base = p.sample * run.pixels * run.channels;
    Columns<V> k;
    Channel    c(run, p.column * V);
    float      one[V], two[V];
    const float2 *of = (const float2 *)means + p.sample * run.groups;
    columns_of<V>(run, p, k);
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        bool   moves = p.active && !run.var && run.dx;
        float2 m = moves ? of[c.group] : make_float2(0, 0);
        one[j] = m.x;
        two[j] = m.y;
    }
    for (int64_t v = p.at; v < p.end; v += AHEAD * p.step) {
        Pack<T, V> x[AHEAD], dy[AHEAD], gammas[AHEAD];
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        packs_get<T, V, AHEAD>(p, (const T *)run.dy + base, v, dy);
        if (MAP)
#pragma unroll
            for (int s = 0; s < AHEAD; s++)
                if (v + s * p.step < p.end)
                    gammas[s] = *(const Pack<T, V> *)((const T *)run.gamma +
                                                      map_at<V>(run, p, v + s * p.step));
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V], d[V], gamma[V];
            if (v + s * p.step >= p.end)
                break;
            pack_numbers<T, V>(x[s], a);
            pack_numbers<T, V>(dy[s], d);
            if (MAP) {
                pack_numbers<T, V>(gammas[s], gamma);
                if (run.dgamma) {
                    int64_t at = map_at<V>(run, p, v + s * p.step);
                    float   dg[V];
#pragma unroll
                    for (int j = 0; j < V; j++)
                        dg[j] = d[j] * ((a[j] - k.mean[j]) * k.rstd[j] * k.weight[j] + k.bias[j]);
                    put_pack<V>((T *)run.dgamma, at, dg);
                    if (run.packed)              /* the gradient of beta is dy itself */
                        put_pack<V>((T *)run.dgamma, at + run.channels, d);
                }
                if (!run.dx)
                    continue;
            }
#pragma unroll
            for (int j = 0; j < V; j++) {
                float xhat = (a[j] - k.mean[j]) * k.rstd[j];
                float dz = d[j] * (MAP ? 1 + gamma[j]
                                       : act_slope(run.act, xhat * k.weight[j] + k.bias[j]));
                a[j] = k.rstd[j] * (dz * k.weight[j] - one[j] - xhat * two[j]);
            }
            put_pack<V>((T *)run.dx, base + (v + s * p.step) * V, a);
        }
    }
}

/* ---- host ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* At most `blocks` chunks in all, so that none waits for a second turn; none needlessly small. */
static void cut(NormCuda *run, int64_t blocks, int64_t elements)
{
    int64_t want = blocks / run->samples > 1 ? blocks / run->samples : 1;
    int64_t most = ceil_div(run->pixels * run->channels, elements);
    run->chunk = ceil_div(ceil_div(run->pixels, least(want, most)), 8) * 8;
    run->chunks = ceil_div(run->pixels, run->chunk);
}

static void cut_sums(NormCuda *run, int sms) { cut(run, (int64_t)sms * 4, 8192); }
static void cut_maps(NormCuda *run, int sms) { cut(run, (int64_t)sms * 8, 4096); }

static bool aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

/* Columns, lanes and tiles for vectors of v elements; false: they do not fit. */
static bool arrange(NormCuda *run, int v)
{
    int64_t c = run->channels, fold = 1;
    while (c * fold % v)
        fold *= 2;
    if (v > 1 &&
        (run->pixels * c % v || !aligned(run->x) || !aligned(run->dy) || !aligned(run->y) ||
         !aligned(run->dx) || !aligned(run->gamma) || !aligned(run->beta) || !aligned(run->dgamma)))
        return false;
    if (fold > 1 && (run->gamma || c * fold > (int64_t)NORM_THREADS * v))
        return false;
    run->columns = (int)(c * fold / v);
    run->tiles = (int)ceil_div(run->columns, NORM_THREADS);
    run->lanes = run->tiles > 1 ? 1 : NORM_THREADS / run->columns;
    return true;
}

static unsigned norm_blocks(const NormCuda *run)
{
    return (unsigned)(run->samples * run->chunks * run->tiles);
}

/* Runs the statements with T and V: whole 16-byte vectors where they fit. */
#define WITH_VECTORS(run, ...)                                                     \
    WITH_FLOAT((run).type, T, {                                                    \
        constexpr int wide = 16 / (int)sizeof(T);                                  \
        if (arrange(&(run), wide)) { constexpr int V = wide; __VA_ARGS__ }         \
        else { arrange(&(run), 1); constexpr int V = 1; __VA_ARGS__ }              \
    })

static size_t partial_bytes(const NormCuda *given, int sms)
{
    NormCuda run = *given;
    cut_sums(&run, sms);
    return (size_t)(run.samples * run.chunks * run.channels) * 2 * sizeof(float);
}

size_t norm_forward_cuda_bytes(const NormCuda *run, int sms)
{
    return norm_group_takes(run, false) ? 0 : partial_bytes(run, sms);
}

/* totals, partial sums, means of groups */
size_t norm_backward_cuda_bytes(const NormCuda *run, int sms)
{
    return (size_t)(run->samples * run->channels) * 2 * sizeof(double) +
           partial_bytes(run, sms) +
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
    if (!run.var) {
        cut_sums(&run, sms);
        WITH_VECTORS(run, cuda_launch(stream, moments<T, V>, norm_blocks(&run), NORM_THREADS, 0,
                                      run, partial););
        CUDA_LAUNCHED();
        unsigned threads = join_threads(run.channels / run.groups * run.chunks);
        cuda_launch(stream, join_moments, (unsigned)(run.samples * run.groups), threads, 0, run,
                    partial);
        CUDA_LAUNCHED();
    }
    cut_maps(&run, sms);
    WITH_VECTORS(run, cuda_launch(stream, run.gamma ? apply<T, V, true> : apply<T, V, false>,
                                  norm_blocks(&run), NORM_THREADS, 0, run););
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
    float       *partial = (float *)(totals + 2 * run.samples * run.channels);
    cut_sums(&run, sms);
    float       *means = partial + 2 * run.samples * run.chunks * run.channels;
    if (run.dweight || run.dbias || (run.dx && !run.var)) {
        WITH_VECTORS(run, cuda_launch(stream, run.gamma ? slopes<T, V, true> : slopes<T, V, false>,
                                      norm_blocks(&run), NORM_THREADS, 0, run, partial););
        CUDA_LAUNCHED();
        unsigned threads = join_threads(run.channels / run.groups * 32);
        cuda_launch(stream, join_slopes, (unsigned)(run.samples * run.groups), threads, 0, run,
                    partial, totals, means);
        CUDA_LAUNCHED();
        if (run.dweight || run.dbias) {
            cuda_launch(stream, affine_grads, (unsigned)ceil_div(run.channels, 128), 128, 0, run,
                        totals);
            CUDA_LAUNCHED();
        }
    }
    if (!run.dx && !run.dgamma)
        return OK;
    cut_maps(&run, sms);
    WITH_VECTORS(run, cuda_launch(stream, run.gamma ? back<T, V, true> : back<T, V, false>,
                                  norm_blocks(&run), NORM_THREADS, 0, run, means););
    CUDA_LAUNCHED();
    return OK;
}
