/* s4_kernel_grad_cuda.cu -- gradients of the S4 kernel on CUDA: Note [Gradient] in
 * s4_kernel_grad_cpu.c.
 *
 * A block takes 32 channels and a chunk of frequencies, 32 at a time. In pass one each warp has two
 * frequencies and recomputes their sums; in pass two each warp has two poles and sums over the 32.
 * The sums of a chunk are [poles][POLE_SUMS][channels]; chunks are added in double precision.
 *
 * Note [Step size]. A Cauchy sum does not change if y', A and v are multiplied by the same number,
 * so by Euler's theorem sum_k y' dL/dy' is minus the sum over the others of value times gradient;
 * |A|^2 and q count twice. dt, which divides y, thus gets its gradient from sums that are there
 * already.
 */
#include "ops/s4/s4_cauchy_cuda.h"

enum { FREQ_VECS = 1 + SUMS }; /* a frequency of one channel in shared memory */
enum { CHAIN_WARPS = 8 };

__device__ __forceinline__ float2 c_conj_mul(float2 a, float2 b) { return c_mul(c_conj(a), b); }

/* Frequency k < L/2 of a real signal; half_y: tan(pi k / L). */
__device__ __forceinline__ float2 spectrum_at(const S4Cuda &s, int64_t h, int64_t k, float half_y)
{
    if (s.length % 2)
        return s.spectrum[k * s.channels + h];
    float2 z = s.spectrum[k * s.channels + h],
           mirror = s.spectrum[(k ? s.length / 2 - k : 0) * s.channels + h];
    float2 e = make_float2(z.x + mirror.x, z.y - mirror.y),
           o = make_float2(z.y + mirror.y, mirror.x - z.x);
    float  q = __fdividef(2.0f, 1.0f + half_y * half_y); /* 1 + cos(2 pi k / L) */
    float2 x = c_mul(o, make_float2(q - 1, -half_y * q));
    return make_float2(0.5f * (e.x + x.x), 0.5f * (e.y + x.y));
}

/* Pass one for frequencies k and k + 1 of one channel, the first `there` of them (maybe none), into
 * shared memory. */
template <bool B_PER_CHANNEL>
__device__ __forceinline__ void grad_of_sums(const S4Cuda &s, StagedPoles<B_PER_CHANNEL> *staged,
                                             int64_t h, int64_t k, int there,
                                             float4 (*to)[FREQ_VECS][S4_LANES])
{
    int      lane = (int)threadIdx.x;
    FreqCuda f[S4_TWO];
    Cauchy   sums[S4_TWO];
#pragma unroll
    for (int j = 0; j < S4_TWO; j++)
        f[j] = freq_of(s, j < there ? k + j : 0, s.inverse_dt[h]);
    cauchy<B_PER_CHANNEL, BQ>(sums, s, staged, f);
#pragma unroll
    for (int j = 0; j < S4_TWO; j++) {
        if (j >= there)
            break;
        float factor = (k + j == 0 ? 1.0f : 2.0f) / (float)s.length,
              half_y = 0.5f * s.tangents[2 * (k + j)];
        float2 outer = spectrum_at(s, h, k + j, half_y), g[SUMS];
        outer = make_float2(outer.x * factor, outer.y * factor);
        g[BC] = make_float2(outer.x + half_y * outer.y, outer.y - half_y * outer.x);
        g[BQ] = c_conj_mul(sums[j].ratio_c, g[BC]);
        g[PC] = c_conj_mul(sums[j].ratio_b, g[BC]);
        g[PQ] = c_conj_mul(sums[j].ratio_b, g[BQ]);
        g[BQ] = make_float2(-g[BQ].x, -g[BQ].y);
        g[PC] = make_float2(-g[PC].x, -g[PC].y);
        to[j][0][lane] = make_float4(f[j].hi, f[j].lo, f[j].s, f[j].t);
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            to[j][1 + i][lane] = make_float4(2.0f * f[j].t * g[i].y, -2.0f * f[j].t * g[i].x,
                                             -2.0f * f[j].s * g[i].x, -2.0f * f[j].s * g[i].y);
    }
}

struct PoleLane { /* a pole of one channel */
    PoleCuda pole;
    float    weight[SUMS][2];
};

template <bool B_PER_CHANNEL>
__device__ __forceinline__ PoleLane pole_lane(const S4Cuda &s, int64_t h, int64_t n)
{
    float4   w = s.lanes[n * s.channels + h];
    PoleCuda pole = s.pole[n];
    float2   bq = B_PER_CHANNEL ? s.bq[n * s.channels + h] : make_float2(pole.bq[0], pole.bq[1]);
    return { pole, { { w.x, w.y }, { bq.x, bq.y }, { w.z, w.w }, { pole.pq[0], pole.pq[1] } } };
}

/* Pass two: adds `count` frequencies to the sums of two poles. */
__device__ __forceinline__ void grad_of_poles(const PoleLane (&at)[S4_TWO],
                                              const float4 (*from)[FREQ_VECS][S4_LANES], int count,
                                              float (&total)[S4_TWO][POLE_SUMS])
{
    int lane = (int)threadIdx.x;
    for (int k = 0; k < count; k++) {
        float4   first = from[k][0][lane];
        FreqCuda f = { first.x, first.y, first.z, first.w };
        float2   r[S4_TWO], g[S4_TWO];
#pragma unroll
        for (int j = 0; j < S4_TWO; j++) {
            r[j] = resolvent(at[j].pole, f);
            g[j] = make_float2(0, 0);
        }
#pragma unroll
        for (int i = 0; i < SUMS; i++) {
            float4 of = from[k][1 + i][lane];
#pragma unroll
            for (int j = 0; j < S4_TWO; j++) {
                const float(&w)[2] = at[j].weight[i];
                total[j][2 * i] += r[j].x * of.x + r[j].y * of.y;
                total[j][2 * i + 1] += r[j].x * of.z + r[j].y * of.w;
                g[j].x += w[0] * of.x + w[1] * of.z;
                g[j].y += w[0] * of.y + w[1] * of.w;
            }
        }
#pragma unroll
        for (int j = 0; j < S4_TWO; j++) {
            float2 d = c_conj_mul(c_mul(r[j], r[j]), g[j]); /* dR/dD = -R^2 */
            total[j][SUM_M] -= f.s * d.x;
            total[j][SUM_DAMP] -= f.t * d.y;
        }
    }
}

template <bool B_PER_CHANNEL> struct SlopesMemory {
    StagedPoles<B_PER_CHANNEL> staged;
    float4                     freq[S4_FREQS][FREQ_VECS][S4_LANES];
};

/* Threads (32 channels, 16 warps); blocks (chunks of frequencies, channels / 32). 32 poles at a
 * time. */
template <bool B_PER_CHANNEL>
__global__ void __launch_bounds__(S4_LANES *S4_WARPS) s4_slopes(S4Cuda s)
{
    cuda_begin();
    extern __shared__ float4 s4_memory[];
    auto                    *memory = (SlopesMemory<B_PER_CHANNEL> *)s4_memory;
    int64_t h = blockIdx.y * (int64_t)S4_LANES + threadIdx.x, last = s.n_freq - (s.length % 2 == 0);
    int64_t from = blockIdx.x * s.chunk, to = from + s.chunk < last ? from + s.chunk : last;
    int     mine = (int)threadIdx.y * S4_TWO;
    bool    there = h < s.channels;
    h = there ? h : s.channels - 1;
    load_poles<B_PER_CHANNEL>(s, &memory->staged, 0);
    for (int64_t first = 0; first < s.poles; first += S4_POLES) {
        int64_t  n[S4_TWO];
        PoleLane at[S4_TWO];
        float    total[S4_TWO][POLE_SUMS] = {};
#pragma unroll
        for (int j = 0; j < S4_TWO; j++) {
            n[j] = first + threadIdx.y + j * S4_WARPS;
            at[j] = pole_lane<B_PER_CHANNEL>(s, h, n[j] < s.poles ? n[j] : 0);
        }
        for (int64_t k = from; k < to; k += S4_FREQS) {
            int count = to - k < S4_FREQS ? (int)(to - k) : S4_FREQS;
            __syncthreads();
            grad_of_sums<B_PER_CHANNEL>(s, &memory->staged, h, k + mine, count - mine,
                                        &memory->freq[mine]);
            __syncthreads();
            if (n[0] < s.poles)
                grad_of_poles(at, memory->freq, count, total);
        }
        cuda_ends();
#pragma unroll
        for (int j = 0; j < S4_TWO; j++)
#pragma unroll
            for (int i = 0; i < POLE_SUMS; i++)
                if (there && n[j] < s.poles)
                    s.sums[((blockIdx.x * s.poles + n[j]) * POLE_SUMS + i) * s.channels + h] =
                        total[j][i];
    }
}

/* Gradient of the spectrum at k = L/2, which is dt times the sum of p of B C; 0 for odd lengths. */
__device__ __forceinline__ double nyquist(const S4Cuda &s, int64_t h)
{
    if (s.length % 2)
        return 0;
    float2 z = s.spectrum[h];
    return (double)((z.x - z.y) / (float)s.length);
}

/* The sums of one channel and pole over all chunks of frequencies, by all warps of the block. */
__device__ __forceinline__ void chain_sums(const S4Cuda &s, int64_t h, int64_t n,
                                           double (&sum)[POLE_SUMS])
{
    __shared__ double parts[CHAIN_WARPS][POLE_SUMS][S4_LANES];
    int               warp = (int)threadIdx.y, lane = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < POLE_SUMS; i++)
        sum[i] = 0;
#pragma unroll 3
    for (int64_t k = warp; k < s.chunks; k += CHAIN_WARPS)
#pragma unroll
        for (int i = 0; i < POLE_SUMS; i++)
            sum[i] += (double)s.sums[((k * s.poles + n) * POLE_SUMS + i) * s.channels + h];
#pragma unroll
    for (int i = 0; i < POLE_SUMS; i++)
        parts[warp][i][lane] = sum[i];
    __syncthreads();
    for (int i = warp; i < POLE_SUMS; i += CHAIN_WARPS) {
        double all = 0;
#pragma unroll
        for (int w = 0; w < CHAIN_WARPS; w++)
            all += parts[w][i][lane];
        parts[0][i][lane] = all;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < POLE_SUMS; i++)
        sum[i] = parts[0][i][lane];
}

/* From sums over frequencies to gradients of parameters: blocks (channels / 32, poles), threads (32
 * channels, 8 warps that divide the chunks). */
__global__ void __launch_bounds__(S4_LANES *CHAIN_WARPS) s4_chain(S4Cuda s)
{
    cuda_begin();
    int64_t h = blockIdx.x * (int64_t)S4_LANES + threadIdx.x, n = blockIdx.y;
    bool    there = h < s.channels;
    double  sum[POLE_SUMS];
    h = there ? h : s.channels - 1;
    chain_sums(s, h, n, sum);
    cuda_ends();
    if (threadIdx.y || !there)
        return;
    double         dt = dt_of(s, h), edge = nyquist(s, h);
    PoleParamsCuda at = pole_params(s, h, n);
    Complex        c = z_at(s.param[S4_C], h * s.poles + n), q = z_conj(at.p), g[SUMS];
    Complex        v[SUMS] = { z_mul(at.b, c), z_mul(at.b, q), z_mul(at.p, c), z_mul(at.p, q) };
    double d_re = 2 * at.a.re * sum[SUM_M] - 2 * sum[SUM_DAMP], d_im = 2 * at.a.im * sum[SUM_M];
    double scale = at.a.re * d_re + at.a.im * d_im; /* Note [Step size] */
#pragma unroll
    for (int j = 0; j < SUMS; j++)
        scale += v[j].re * sum[2 * j] +
                 2 * (v[j].re * at.a.re + v[j].im * at.a.im) * sum[2 * j + 1];
    double step = scale / dt + edge * v[BC].re;
    sum[0] += edge * dt;
#pragma unroll
    for (int j = 0; j < SUMS; j++) { /* p = Re v, q = Re v Re A + Im v Im A */
        g[j] = { sum[2 * j] + at.a.re * sum[2 * j + 1], at.a.im * sum[2 * j + 1] };
        d_re += v[j].re * sum[2 * j + 1];
        d_im += v[j].im * sum[2 * j + 1];
    }
    Complex dc = z_add(z_mul(z_conj(at.b), g[BC]), z_mul(z_conj(at.p), g[PC]));
    Complex db = z_add(z_mul(z_conj(c), g[BC]), z_mul(z_conj(q), g[BQ]));
    Complex dp = z_add(z_add(z_mul(z_conj(c), g[PC]), z_mul(z_conj(q), g[PQ])),
                       z_conj(z_add(z_mul(z_conj(at.b), g[BQ]), z_mul(z_conj(at.p), g[PQ]))));
    if (s.out[S4_C]) {
        s.out[S4_C][2 * (h * s.poles + n)] = (float)dc.re;
        s.out[S4_C][2 * (h * s.poles + n) + 1] = (float)dc.im;
    }
    if (s.b_per_channel && s.out[S4_B]) {
        s.out[S4_B][2 * (h * s.poles + n)] = (float)db.re;
        s.out[S4_B][2 * (h * s.poles + n) + 1] = (float)db.im;
    }
    double more[CHAIN_SUMS] = { db.re, db.im, dp.re, dp.im, at.a.re * d_re, -d_im, step };
#pragma unroll
    for (int j = 0; j < CHAIN_SUMS; j++)
        s.shared[(n * CHAIN_SUMS + j) * s.channels + h] = more[j];
}

/* The gradient of one channel's dt, a sum over all poles. */
__device__ __forceinline__ void chain_dt(const S4Cuda &s, int64_t h)
{
    double sum = 0;
    if (h >= s.channels || !s.out[S4_INV_DT])
        return;
#pragma unroll 8
    for (int64_t n = 0; n < s.poles; n++)
        sum += s.shared[(n * CHAIN_SUMS + DT) * s.channels + h];
    s.out[S4_INV_DT][h] = (float)(sum / (1 + exp(-(double)s.param[S4_INV_DT][h])));
}

/* One block per pole, one warp for each of its SHARED_SUMS numbers: the sum over all channels.
 * After these, a block for every 192 channels computes the gradient of dt. */
__global__ void s4_shared_sums(S4Cuda s)
{
    cuda_begin();
    int64_t n = blockIdx.x;
    int     j = (int)threadIdx.y;
    double  sum = 0;
    if (n >= s.poles) {
        chain_dt(s, ((n - s.poles) * SHARED_SUMS + j) * 32 + threadIdx.x);
        return;
    }
    for (int64_t h = threadIdx.x; h < s.channels; h += 32)
        sum += s.shared[(n * CHAIN_SUMS + j) * s.channels + h];
#pragma unroll
    for (int d = 16; d; d >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    float *out = j < 2    ? (s.b_per_channel ? NULL : s.out[S4_B])
                 : j < 4  ? s.out[S4_P]
                 : j == 4 ? s.out[S4_A_REAL]
                          : s.out[S4_A_IMAG];
    if (threadIdx.x == 0 && out)
        out[j < 4 ? 2 * n + j % 2 : n] = (float)sum;
}

/* ---- host ---- */

extern "C" Err s4_kernel_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    return s4_cuda_choose(n, device, true, choice);
}

/* The spectrum of the kernel's gradient. */
static Err s4_transform(const Call *call, const S4Cuda *s)
{
    float *dk = (float *)call->in[S4_PARAMS + 2];
    if (s->length % 2) {
        RealSignal   from = { dk, s->length, s->channels };
        HalfSpectrum to = { s->spectrum, s->length, s->channels, 1, 1 };
        return fft_real_to_half(call, s->f, 1, from, to, s->workspace);
    }
    PairSignal from = { dk, s->channels };
    Workspace  to = { s->spectrum, s->f.n, s->channels };
    return fft_whole(call, s->f, 1, from, to, s->workspace);
}

extern "C" Err s4_kernel_grad_cuda(const Call *call)
{
    S4Cuda       s = s4_cuda_of(call, call->node, cuda_handle(call)->sms, true);
    cudaStream_t stream = cuda_stream(call);
    unsigned     groups = (unsigned)ceil_div(s.channels, S4_LANES);
    TRY(s4_cuda_fill(call, &s));
    TRY(s4_transform(call, &s));
    auto slopes = s.b_per_channel ? s4_slopes<true> : s4_slopes<false>;
    int  bytes = (int)(s.b_per_channel ? sizeof(SlopesMemory<true>) : sizeof(SlopesMemory<false>));
    CUDA_TRY(cudaFuncSetAttribute(slopes, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    cuda_launch(stream, slopes, dim3((unsigned)s.chunks, groups), dim3(S4_LANES, S4_WARPS), bytes,
                s);
    CUDA_LAUNCHED();
    cuda_launch(stream, s4_chain, dim3(groups, (unsigned)s.poles), dim3(S4_LANES, CHAIN_WARPS), 0,
                s);
    CUDA_LAUNCHED();
    cuda_launch(stream, s4_shared_sums,
                (unsigned)(s.poles + ceil_div(s.channels, 32 * SHARED_SUMS)), dim3(32, SHARED_SUMS),
                0, s);
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(s4_kernel_grad, .choose = s4_kernel_grad_choose_cuda, .run = s4_kernel_grad_cuda)
