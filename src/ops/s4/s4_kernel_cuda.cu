/* s4_kernel_cuda.cu -- the S4 kernel and its gradient on CUDA; the arithmetic is that of
 * s4_cauchy.h.
 *
 * A thread has one channel and two frequencies and runs over the poles; what depends on channel and
 * pole is read side by side, what depends on the pole alone by all at once. Backward, a block takes
 * 32 channels and a run of frequencies, 32 at a time: in phase one each warp has two frequencies
 * and makes the sums again, in phase two each warp has two poles and sums over the 32; a run's sums
 * are [poles][POLE_SUMS][channels], added over the runs in double. Two at once because what is read
 * for one, and not the arithmetic, would set the pace. Parameters are taken to double precision and
 * back at both ends, as on the CPU. EACH: every channel has a B of its own.
 *
 * Note [Half the length]. Of an even number of samples, two neighbours are one complex number, and
 * the transform is one of half the length M = L / 2: Z_k = E_k + i O_k, where X_k = E_k + w^k O_k
 * is the spectrum, w = exp(-2 pi i / L), and E_k, O_k are those of the even and odd samples. Both
 * are known from X_k and X_(M - k), so forward a thread has these two frequencies.
 *
 * Note [Step size]. A Cauchy sum does not change if y', A and v are multiplied by the same number,
 * so sum_k y' dL/dy' is less the sum of what each of the others is times its gradient (Euler):
 * |A|^2 and q count twice. dt, which divides y, so gets its gradient from sums that are there. */
#include "ops/fft/fft_cuda.h"

extern "C" {
#include "ops/s4/s4_kernel.h"
}

enum { BC, BQ, PC, PQ, SUMS };           /* v = X Y of the four sums; of each, weights p and q */
enum { SUM_M = 2 * SUMS, SUM_DAMP, POLE_SUMS };
/* channels, warps of a block */
enum { S4_LANES = 32, S4_WARPS = 16, S4_TWO = 2, S4_FREQS = S4_WARPS * S4_TWO, S4_POLES = 32 };
enum { FREQ_VECS = 1 + SUMS };           /* a frequency of one channel in shared memory */
enum { SHARED_SUMS = 6, DT = SHARED_SUMS, CHAIN_SUMS };  /* of B, P, A, over channels; dt's share */
enum { CHAIN_WARPS = 8 };

typedef struct Complex {
    double re, im;
} Complex;

struct __align__(16) Pole {              /* what does not depend on the channel */
    float hi, lo;                        /* |A| */
    float damp;                          /* -2 Re A */
    float bq[2], pq[2];                  /* p, q */
    float unused;
};

typedef struct S4Cuda {
    FftCuda      f;
    int64_t      channels, poles, length, n_freq, chunks, chunk;  /* chunk: frequencies of a run */
    const float *param[S4_PARAMS], *tangents;
    float       *out[S4_PARAMS];         /* gradients */
    double      *inverse_dt;             /* [channels] */
    Pole        *pole;                   /* [poles] */
    float4      *lanes;                  /* [poles][channels]: p, q of B C, p, q of P C */
    float2      *bq;                     /* each: [poles][channels]: p, q of B Q; else NULL */
    float2      *spectrum, *workspace;     /* [n_freq][channels], [f.n][channels]; of even lengths
                                          * spectrum is Z: [length / 2][channels] */
    float       *sums;                   /* [chunks][poles][POLE_SUMS][channels] */
    double      *shared;                 /* [poles][CHAIN_SUMS][channels] */
    size_t       bytes;
    bool         each;
} S4Cuda;

__device__ __forceinline__ Complex z_mul(Complex a, Complex b)
{
    return { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}
__device__ __forceinline__ Complex z_add(Complex a, Complex b)
{
    return { a.re + b.re, a.im + b.im };
}
__device__ __forceinline__ Complex z_conj(Complex a) { return { a.re, -a.im }; }
__device__ __forceinline__ Complex z_at(const float *x, int64_t i)
{
    return { (double)x[2 * i], (double)x[2 * i + 1] };
}

struct Shared {  /* parameters of one pole; b of one channel where each has its own */
    Complex a, b, p;
};

__device__ __forceinline__ Shared shared_of(const S4Cuda &s, int64_t h, int64_t n)
{
    return { { -exp((double)s.param[S4_A_REAL][n]), -(double)s.param[S4_A_IMAG][n] },
             z_at(s.param[S4_B], s.each ? h * s.poles + n : n), z_at(s.param[S4_P], n) };
}

__device__ __forceinline__ double dt_of(const S4Cuda &s, int64_t h)
{
    double x = (double)s.param[S4_INV_DT][h];
    return x > 30 ? x : log1p(exp(x));
}

__device__ __forceinline__ float weight_p(Complex v) { return (float)v.re; }
__device__ __forceinline__ float weight_q(Complex v, Complex a)
{
    return (float)(v.re * a.re + v.im * a.im);
}

/* Thread (channel, pole); the first pole's also do dt, the first channel's the pole itself. */
__global__ void s4_fill(S4Cuda s)
{
    cuda_begin();
    int64_t h = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, n = blockIdx.y;
    if (h >= s.channels)
        return;
    Shared  at = shared_of(s, h, n);
    Complex c = z_at(s.param[S4_C], h * s.poles + n), bc = z_mul(at.b, c), pc = z_mul(at.p, c);
    s.lanes[n * s.channels + h] = make_float4(weight_p(bc), weight_q(bc, at.a), weight_p(pc),
                                              weight_q(pc, at.a));
    if (s.each) {
        Complex bq = z_mul(at.b, z_conj(at.p));
        s.bq[n * s.channels + h] = make_float2(weight_p(bq), weight_q(bq, at.a));
    }
    if (n == 0)
        s.inverse_dt[h] = 1 / dt_of(s, h);
    if (h == 0) {
        double  size = sqrt(at.a.re * at.a.re + at.a.im * at.a.im);
        Complex bq = z_mul(at.b, z_conj(at.p)), pq = z_mul(at.p, z_conj(at.p));
        Pole    pole;
        pole.hi = (float)size;
        pole.lo = (float)(size - (double)pole.hi);
        pole.damp = (float)(-2 * at.a.re);
        pole.bq[0] = weight_p(bq);
        pole.bq[1] = weight_q(bq, at.a);
        pole.pq[0] = weight_p(pq);
        pole.pq[1] = weight_q(pq, at.a);
        pole.unused = 0;
        s.pole[n] = pole;
    }
}

struct Freq {
    float hi, lo;                        /* y' */
    float s, t;                          /* 1 / max(1, y')^2, y' s */
};

__device__ __forceinline__ Freq freq_of(const S4Cuda &s, int64_t k, double inverse_dt)
{
    double scaled = ((double)s.tangents[2 * k] + (double)s.tangents[2 * k + 1]) * inverse_dt;
    Freq   f;
    f.hi = (float)scaled;
    f.lo = (float)(scaled - (double)f.hi);
    float root = f.hi > 1 ? 1 / f.hi : 1;
    f.s = root * root;
    f.t = f.hi * root * root;
    return f;
}

/* Good to its last bit; 0 and infinity where x is beyond the normal numbers. */
__device__ __forceinline__ float reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* R = 1 / D of one pole; D scaled by s. */
__device__ __forceinline__ float2 resolvent(const Pole &pole, const Freq &f)
{
    float near = (pole.hi - f.hi) + (pole.lo - f.lo);
    float re = near * ((pole.hi + f.hi) * f.s), im = pole.damp * f.t;
    float size = reciprocal(re * re + im * im);
    return make_float2(re * size, -(im * size));
}

struct Cauchy {                          /* of one frequency */
    float2 r[SUMS];                      /* the Cauchy sums */
    float2 ratio_b, ratio_c;             /* r_BQ and r_PC over 1 + r_PQ */
};

__device__ __forceinline__ void weigh(float2 (&sum)[2], float2 r, float p, float q)
{
    sum[0].x += p * r.x;
    sum[0].y += p * r.y;
    sum[1].x += q * r.x;
    sum[1].y += q * r.y;
}

/* Poles of the block's channels in shared memory, as many at a time as most have. */
template <bool EACH> struct Stage {
    Pole   pole[S4_POLES];
    float4 lanes[S4_POLES][S4_LANES];
    float2 bq[EACH ? S4_POLES : 1][S4_LANES];
};

/* Poles from `first` on; beyond the last pole or channel there is the last again. */
template <bool EACH>
__device__ __forceinline__ void stage_poles(const S4Cuda &s, Stage<EACH> *stage, int64_t first)
{
    int me = (int)(threadIdx.y * S4_LANES + threadIdx.x), all = (int)blockDim.y * S4_LANES;
    int64_t h = blockIdx.y * (int64_t)S4_LANES + threadIdx.x;
    h = h < s.channels ? h : s.channels - 1;
#pragma unroll 4
    for (int i = (int)threadIdx.y; i < S4_POLES; i += (int)blockDim.y) {
        int64_t n = first + i < s.poles ? first + i : s.poles - 1;
        stage->lanes[i][threadIdx.x] = s.lanes[n * s.channels + h];
        if (EACH)
            stage->bq[i][threadIdx.x] = s.bq[n * s.channels + h];
    }
    for (int i = me; i < S4_POLES; i += all)
        stage->pole[i] = s.pole[first + i < s.poles ? first + i : s.poles - 1];
}

/* By all threads of a block; the first poles are in place. FIRST: the sums before it are not
 * made. */
template <bool EACH, int FIRST>
__device__ __forceinline__ void cauchy(Cauchy (&out)[S4_TWO], const S4Cuda &s, Stage<EACH> *stage,
                                       const Freq (&f)[S4_TWO])
{
    int    lane = (int)threadIdx.x;
    float2 sum[S4_TWO][SUMS][2];
#pragma unroll
    for (int j = 0; j < S4_TWO; j++)
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            sum[j][i][0] = sum[j][i][1] = make_float2(0, 0);
    for (int64_t first = 0; first < s.poles; first += S4_POLES) {
        int count = s.poles - first < S4_POLES ? (int)(s.poles - first) : S4_POLES;
        if (s.poles > S4_POLES) {
            __syncthreads();
            stage_poles<EACH>(s, stage, first);
            __syncthreads();
        }
#pragma unroll 4
        for (int n = 0; n < count; n++) {
            Pole   pole = stage->pole[n];
            float4 w = stage->lanes[n][lane];
            float2 bq = EACH ? stage->bq[n][lane] : make_float2(pole.bq[0], pole.bq[1]);
#pragma unroll
            for (int j = 0; j < S4_TWO; j++) {
                float2 r = resolvent(pole, f[j]);
                if (FIRST == BC)
                    weigh(sum[j][BC], r, w.x, w.y);
                weigh(sum[j][PC], r, w.z, w.w);
                weigh(sum[j][BQ], r, bq.x, bq.y);
                weigh(sum[j][PQ], r, pole.pq[0], pole.pq[1]);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < S4_TWO; j++) {
#pragma unroll
        for (int i = FIRST; i < SUMS; i++) {
            out[j].r[i].x = -2.0f * (f[j].t * sum[j][i][0].y + f[j].s * sum[j][i][1].x);
            out[j].r[i].y = 2.0f * (f[j].t * sum[j][i][0].x - f[j].s * sum[j][i][1].y);
        }
        float2 below = make_float2(1.0f + out[j].r[PQ].x, out[j].r[PQ].y);
        float  size = 1.0f / (below.x * below.x + below.y * below.y);
        float2 inverse = make_float2(below.x * size, -(below.y * size));
        out[j].ratio_b = c_mul(out[j].r[BQ], inverse);
        out[j].ratio_c = c_mul(out[j].r[PC], inverse);
    }
}

/* At the frequency k = L/2, where the tangent has its pole. */
__device__ __forceinline__ float s4_edge(const S4Cuda &s, int64_t h)
{
    float sum = 0;
    for (int64_t n = 0; n < s.poles; n++)
        sum += s.lanes[n * s.channels + h].x;
    return (float)((double)sum / s.inverse_dt[h]);
}

/* Z_k and Z_(M - k), k <= M - k, from X_k and X_(M - k): Note [Half the length]. Twice of them,
 * which 1 / L makes up for. */
__device__ __forceinline__ void put_pair(const S4Cuda &s, int64_t h, int64_t k, float2 x,
                                         float2 mirror)
{
    float2 e = make_float2(x.x + mirror.x, x.y - mirror.y);
    float2 o = c_mul(make_float2(x.x - mirror.x, x.y + mirror.y), turn(2 * k, s.length));
    int64_t other = s.length / 2 - k;
    s.spectrum[k * s.channels + h] = make_float2(e.x - o.y, e.y + o.x);
    if (k && other != k)
        s.spectrum[other * s.channels + h] = make_float2(e.x + o.y, o.x - e.y);
}

/* Threads (32 channels, 8 pairs of frequencies): the k-th and the k-th from the end. */
template <bool EACH> __global__ void __launch_bounds__(256) s4_spectrum(S4Cuda s)
{
    __shared__ Stage<EACH> stage;
    cuda_begin();
    int64_t h = blockIdx.y * (int64_t)S4_LANES + threadIdx.x,
            at = blockIdx.x * (int64_t)8 + threadIdx.y;
    int64_t k[S4_TWO] = { at, s.n_freq - 1 - at };
    bool    even = s.length % 2 == 0, there = h < s.channels && k[0] <= k[1];
    if (!there) {                            /* poles are staged by all threads */
        h = 0;
        k[0] = k[1] = 0;
    }
    bool   edge = even && k[0] == 0;
    stage_poles<EACH>(s, &stage, 0);
    Freq   f[S4_TWO];
    Cauchy sums[S4_TWO];
    float2 x[S4_TWO];
#pragma unroll
    for (int j = 0; j < S4_TWO; j++)         /* the edge is made like the first, for nothing */
        f[j] = freq_of(s, edge ? 0 : k[j], s.inverse_dt[h]);
    __syncthreads();
    cauchy<EACH, BC>(sums, s, &stage, f);
    cuda_ends();
    if (!there)
        return;
#pragma unroll
    for (int j = 0; j < S4_TWO; j++) {
        float2 less = c_sub(sums[j].r[BC], c_mul(sums[j].ratio_b, sums[j].r[PC]));
        float  half_y = 0.5f * s.tangents[2 * (edge ? 0 : k[j])];
        x[j] = make_float2(less.x - half_y * less.y, less.y + half_y * less.x);
    }
    if (edge) {                              /* both are real */
        x[0].y = 0;
        x[1] = make_float2(s4_edge(s, h), 0);
    }
    if (even) {
        put_pair(s, h, at, x[0], x[1]);
        return;
    }
#pragma unroll
    for (int j = 0; j < S4_TWO; j++)
        s.spectrum[k[j] * s.channels + h] = x[j];
}

/* A real signal of even length, two neighbours as one number: Note [Half the length]. */
struct PairSignal {
    float  *p;
    int64_t channels;
    __device__ __forceinline__ float2 operator()(int64_t, int64_t e, int64_t c, float2) const
    {
        return make_float2(p[2 * e * channels + c], p[(2 * e + 1) * channels + c]);
    }
    /* Stores what an inverse made, flipped. */
    __device__ __forceinline__ void operator()(int64_t, int64_t e, int64_t c, float2 v,
                                               float2) const
    {
        p[2 * e * channels + c] = v.y;
        p[(2 * e + 1) * channels + c] = v.x;
    }
};

/* Z for an inverse: flipped and divided by the length. */
struct PairSpectrum {
    const float2 *p;
    int64_t       channels;
    float         scale;
    __device__ __forceinline__ float2 operator()(int64_t, int64_t e, int64_t c, float2) const
    {
        float2 v = p[e * channels + c];
        return make_float2(scale * v.y, scale * v.x);
    }
};

/* ---- gradient: see Note [Gradient] in s4_kernel_grad_cpu.c ---- */

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
    float  q = __fdividef(2.0f, 1.0f + half_y * half_y);         /* 1 + the cosine of the turn */
    float2 x = c_mul(o, make_float2(q - 1, -half_y * q));
    return make_float2(0.5f * (e.x + x.x), 0.5f * (e.y + x.y));
}

/* Frequencies [0, there) of two, k and k + 1, of one channel into shared memory; `there` may be
 * none of them. */
template <bool EACH>
__device__ __forceinline__ void phase_one(const S4Cuda &s, Stage<EACH> *stage, int64_t h, int64_t k,
                                          int there, float4 (*to)[FREQ_VECS][S4_LANES])
{
    int    lane = (int)threadIdx.x;
    Freq   f[S4_TWO];
    Cauchy sums[S4_TWO];
#pragma unroll
    for (int j = 0; j < S4_TWO; j++)
        f[j] = freq_of(s, j < there ? k + j : 0, s.inverse_dt[h]);
    cauchy<EACH, BQ>(sums, s, stage, f);
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

struct PoleLane {                        /* a pole of one channel */
    Pole  pole;
    float weight[SUMS][2];
};

template <bool EACH>
__device__ __forceinline__ PoleLane pole_lane(const S4Cuda &s, int64_t h, int64_t n)
{
    float4 w = s.lanes[n * s.channels + h];
    Pole   pole = s.pole[n];
    float2 bq = EACH ? s.bq[n * s.channels + h] : make_float2(pole.bq[0], pole.bq[1]);
    return { pole, { { w.x, w.y }, { bq.x, bq.y }, { w.z, w.w }, { pole.pq[0], pole.pq[1] } } };
}

/* Adds `count` frequencies to the sums of two poles. */
__device__ __forceinline__ void phase_two(const PoleLane (&at)[S4_TWO],
                                          const float4 (*from)[FREQ_VECS][S4_LANES], int count,
                                          float (&total)[S4_TWO][POLE_SUMS])
{
    int lane = (int)threadIdx.x;
    for (int k = 0; k < count; k++) {
        float4 first = from[k][0][lane];
        Freq   f = { first.x, first.y, first.z, first.w };
        float2 r[S4_TWO], g[S4_TWO];
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
            float2 d = c_conj_mul(c_mul(r[j], r[j]), g[j]);      /* dR/dD = -R^2 */
            total[j][SUM_M] -= f.s * d.x;
            total[j][SUM_DAMP] -= f.t * d.y;
        }
    }
}

template <bool EACH> struct SlopesMemory {
    Stage<EACH> stage;
    float4      freq[S4_FREQS][FREQ_VECS][S4_LANES];
};

/* Threads (32 channels, 16 warps); blocks (runs of frequencies, channels / 32). More than 32 poles
 * go 32 at a time. */
template <bool EACH> __global__ void __launch_bounds__(S4_LANES *S4_WARPS) s4_slopes(S4Cuda s)
{
    cuda_begin();
    extern __shared__ float4 s4_memory[];
    auto   *memory = (SlopesMemory<EACH> *)s4_memory;
    int64_t h = blockIdx.y * (int64_t)S4_LANES + threadIdx.x, last = s.n_freq - (s.length % 2 == 0);
    int64_t from = blockIdx.x * s.chunk, to = from + s.chunk < last ? from + s.chunk : last;
    int     mine = (int)threadIdx.y * S4_TWO;
    bool    there = h < s.channels;
    h = there ? h : s.channels - 1;
    stage_poles<EACH>(s, &memory->stage, 0);
    for (int64_t first = 0; first < s.poles; first += S4_POLES) {
        int64_t  n[S4_TWO];
        PoleLane at[S4_TWO];
        float    total[S4_TWO][POLE_SUMS] = {};
#pragma unroll
        for (int j = 0; j < S4_TWO; j++) {
            n[j] = first + threadIdx.y + j * S4_WARPS;
            at[j] = pole_lane<EACH>(s, h, n[j] < s.poles ? n[j] : 0);
        }
        for (int64_t k = from; k < to; k += S4_FREQS) {
            int count = to - k < S4_FREQS ? (int)(to - k) : S4_FREQS;
            __syncthreads();
            phase_one<EACH>(s, &memory->stage, h, k + mine, count - mine, &memory->freq[mine]);
            __syncthreads();
            if (n[0] < s.poles)
                phase_two(at, memory->freq, count, total);
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

/* Of y at k = L/2, dt times the sum of p of B C: its gradient, 0 if there is no such frequency. */
__device__ __forceinline__ double nyquist(const S4Cuda &s, int64_t h)
{
    if (s.length % 2)
        return 0;
    float2 z = s.spectrum[h];
    return (double)((z.x - z.y) / (float)s.length);
}

/* The sums of one channel and pole over all runs, by all warps of the block; warp 0 has them. */
__device__ __forceinline__ void chain_sums(const S4Cuda &s, int64_t h, int64_t n,
                                           double (&sum)[POLE_SUMS])
{
    __shared__ double parts[CHAIN_WARPS][POLE_SUMS][S4_LANES];
    int warp = (int)threadIdx.y, lane = (int)threadIdx.x;
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

/* From sums over frequencies to parameters: blocks (channels / 32, poles), threads (32 channels, 8
 * warps that share the runs). */
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
    double  dt = dt_of(s, h), edge = nyquist(s, h);
    Shared  at = shared_of(s, h, n);
    Complex c = z_at(s.param[S4_C], h * s.poles + n), q = z_conj(at.p), g[SUMS];
    Complex v[SUMS] = { z_mul(at.b, c), z_mul(at.b, q), z_mul(at.p, c), z_mul(at.p, q) };
    double  d_re = 2 * at.a.re * sum[SUM_M] - 2 * sum[SUM_DAMP], d_im = 2 * at.a.im * sum[SUM_M];
    double  scale = at.a.re * d_re + at.a.im * d_im;     /* Note [Step size] */
#pragma unroll
    for (int j = 0; j < SUMS; j++)
        scale += v[j].re * sum[2 * j] +
                 2 * (v[j].re * at.a.re + v[j].im * at.a.im) * sum[2 * j + 1];
    double step = scale / dt + edge * v[BC].re;
    sum[0] += edge * dt;
#pragma unroll
    for (int j = 0; j < SUMS; j++) {     /* p = Re v, q = Re v Re A + Im v Im A */
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
    if (s.each && s.out[S4_B]) {
        s.out[S4_B][2 * (h * s.poles + n)] = (float)db.re;
        s.out[S4_B][2 * (h * s.poles + n) + 1] = (float)db.im;
    }
    double more[CHAIN_SUMS] = { db.re, db.im, dp.re, dp.im, at.a.re * d_re, -d_im, step };
#pragma unroll
    for (int j = 0; j < CHAIN_SUMS; j++)
        s.shared[(n * CHAIN_SUMS + j) * s.channels + h] = more[j];
}

/* The gradient of one channel's dt, from all poles. */
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

/* One block a pole, one warp for each of its six numbers: the sum over all channels. Behind them a
 * block for every 192 channels, for dt. */
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
    float *out = j < 2    ? (s.each ? NULL : s.out[S4_B])
                 : j < 4  ? s.out[S4_P]
                 : j == 4 ? s.out[S4_A_REAL]
                          : s.out[S4_A_IMAG];
    if (threadIdx.x == 0 && out)
        out[j < 4 ? 2 * n + j % 2 : n] = (float)sum;
}

/* ---- host ---- */

static size_t place(size_t *bytes, size_t more)
{
    size_t at = *bytes;
    *bytes += (more + 255) / 256 * 256;
    return at;
}

/* base NULL: sizes only. */
static S4Cuda s4_of(const Call *call, const Node *n, int sms, bool grad)
{
    S4Cuda s = {};
    Shape  c = in_shape(n, S4_C);
    char  *base = call ? (char *)call->workspace : NULL;
    s.channels = c.dim[1];
    s.poles = c.dim[2];
    s.each = shape_same(in_shape(n, S4_B), c);
    s.length = ATTR(n, S4KernelAttr)->length;
    s.n_freq = s.length / 2 + 1;
    s.f = fft_cuda_of(s.length % 2 ? s.length : s.length / 2, s.channels, true);
    /* as many blocks as there are multiprocessors, in one turn */
    int64_t runs = sms / ceil_div(s.channels, S4_LANES), most = ceil_div(s.n_freq, S4_FREQS);
    s.chunk = ceil_div(s.n_freq, runs < 1 ? 1 : runs < most ? runs : most);
    s.chunks = ceil_div(s.n_freq, s.chunk);
    size_t pairs = (size_t)(s.poles * s.channels), width = (size_t)s.channels;
    s.inverse_dt = (double *)(base + place(&s.bytes, width * sizeof(double)));
    s.pole = (Pole *)(base + place(&s.bytes, (size_t)s.poles * sizeof(Pole)));
    s.lanes = (float4 *)(base + place(&s.bytes, pairs * sizeof(float4)));
    if (s.each)
        s.bq = (float2 *)(base + place(&s.bytes, pairs * sizeof(float2)));
    s.spectrum = (float2 *)(base + place(&s.bytes, (size_t)s.n_freq * width * sizeof(float2)));
    s.workspace = (float2 *)(base + place(&s.bytes, s.f.n2 == 1 ? 0 : fft_signal_bytes(&s.f)));
    if (grad) {
        s.sums = (float *)(base +
                           place(&s.bytes, (size_t)s.chunks * pairs * POLE_SUMS * sizeof(float)));
        s.shared = (double *)(base + place(&s.bytes, pairs * CHAIN_SUMS * sizeof(double)));
    }
    for (int i = 0; call && i < S4_PARAMS; i++) {
        s.param[i] = (const float *)call->in[i];
        s.out[i] = grad ? (float *)call->out[i] : NULL;
    }
    s.tangents = call ? (const float *)call->in[S4_PARAMS + 1] : NULL;
    return s;
}

static Err s4_choose(const Node *n, const Device *device, Choice *choice, bool grad)
{
    S4Cuda s = s4_of(NULL, n, ((const CudaHandle *)device->handle)->sms, grad);
    TRY(fft_cuda_check(n->op->name, &s.f, 2));
    choice->workspace_bytes = s.bytes;
    choice->name = "streamed";
    return OK;
}

extern "C" Err s4_kernel_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    return s4_choose(n, device, choice, false);
}

extern "C" Err s4_kernel_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    return s4_choose(n, device, choice, true);
}

static Err s4_begin(const Call *call, const S4Cuda *s)
{
    dim3 blocks((unsigned)ceil_div(s->channels, 128), (unsigned)s->poles);
    cuda_launch(cuda_stream(call), s4_fill, blocks, 128, 0, *s);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err s4_kernel_cuda(const Call *call)
{
    S4Cuda s = s4_of(call, call->node, cuda_handle(call)->sms, false);
    dim3 blocks((unsigned)ceil_div(s.n_freq, 8 * S4_TWO), (unsigned)ceil_div(s.channels, S4_LANES));
    float one = 1 / (float)s.length, *out = (float *)call->out[0];
    TRY(s4_begin(call, &s));
    if (s.each)
        cuda_launch(cuda_stream(call), s4_spectrum<true>, blocks, dim3(S4_LANES, 8), 0, s);
    else
        cuda_launch(cuda_stream(call), s4_spectrum<false>, blocks, dim3(S4_LANES, 8), 0, s);
    CUDA_LAUNCHED();
    if (s.length % 2) {
        HalfSpectrum from = { s.spectrum, s.length, s.channels, one, one };
        RealSignal   to = { out, s.length, s.channels };
        return fft_whole(call, s.f, 1, from, to, s.workspace);
    }
    PairSpectrum from = { s.spectrum, s.channels, one };
    PairSignal   to = { out, s.channels };
    return fft_whole(call, s.f, 1, from, to, s.workspace);
}

/* The spectrum of the kernel's gradient. */
static Err s4_transform(const Call *call, const S4Cuda *s)
{
    float *dk = (float *)call->in[S4_PARAMS + 2];
    if (s->length % 2) {
        RealSignal   from = { dk, s->length, s->channels };
        HalfSpectrum to = { s->spectrum, s->length, s->channels, 1, 1 };
        return fft_whole(call, s->f, 1, from, to, s->workspace);
    }
    PairSignal from = { dk, s->channels };
    Workspace    to = { s->spectrum, s->f.n, s->channels };
    return fft_whole(call, s->f, 1, from, to, s->workspace);
}

extern "C" Err s4_kernel_grad_cuda(const Call *call)
{
    S4Cuda       s = s4_of(call, call->node, cuda_handle(call)->sms, true);
    cudaStream_t stream = cuda_stream(call);
    unsigned     groups = (unsigned)ceil_div(s.channels, S4_LANES);
    TRY(s4_begin(call, &s));
    TRY(s4_transform(call, &s));
    auto slopes = s.each ? s4_slopes<true> : s4_slopes<false>;
    int  bytes = (int)(s.each ? sizeof(SlopesMemory<true>) : sizeof(SlopesMemory<false>));
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

CUDA_KERNEL(s4_kernel, .choose = s4_kernel_choose_cuda, .run = s4_kernel_cuda)
CUDA_KERNEL(s4_kernel_grad, .choose = s4_kernel_grad_choose_cuda, .run = s4_kernel_grad_cuda)
