/* s4_cauchy_cuda.h -- what the S4 kernel and its gradient share on CUDA: workspace, poles, and the
 * Cauchy sums at two frequencies. The arithmetic is that of s4_cauchy.h.
 *
 * A thread has one channel and two frequencies and iterates over the poles. Two at once, since
 * reading the poles, not the arithmetic, would limit the speed. Values that depend on channel and
 * pole are read from neighbouring addresses, values that depend on the pole alone are broadcast.
 * Parameters are converted to double precision at both ends, as on the CPU. B_PER_CHANNEL: every
 * channel has its own B.
 *
 * Note [Half the length]. For an even number of samples, two neighbours form one complex number,
 * and the transform has half the length, M = L / 2: Z_k = E_k + i O_k, where X_k = E_k + w^k O_k is
 * the spectrum, w = exp(-2 pi i / L), and E_k, O_k are the spectra of the even and odd samples. X_k
 * and X_(M - k) give both, so forward a thread has these two frequencies.
 */
#ifndef OPS_S4_S4_CAUCHY_CUDA_H
#define OPS_S4_S4_CAUCHY_CUDA_H

#include "ops/fft/fft_cuda.h"
#include "ops/s4/s4_complex_cuda.h"

extern "C" {
#include "ops/s4/s4_kernel.h"
}

enum { BC, BQ, PC, PQ, SUMS }; /* v = X Y of the four sums, with weights p and q each */
enum { SUM_M = 2 * SUMS, SUM_DAMP, POLE_SUMS };
enum {
    S4_LANES = 32,                /* channels per block */
    S4_WARPS = 16,                /* warps per block of the gradient */
    S4_TWO = 2,                   /* frequencies or poles per thread */
    S4_FREQS = S4_WARPS * S4_TWO, /* frequencies per block at a time */
    S4_POLES = 32                 /* poles in shared memory at a time */
};
enum { SHARED_SUMS = 6, DT = SHARED_SUMS, CHAIN_SUMS }; /* of B, P, A; dt's share */

struct __align__(16) PoleCuda
{                       /* what does not depend on the channel */
    float hi, lo;       /* |A| */
    float damp;         /* -2 Re A */
    float bq[2], pq[2]; /* p, q */
    float unused;
};

typedef struct S4Cuda {
    FftCuda      f;
    int64_t      channels, poles, length, n_freq, chunks, chunk; /* chunk: frequencies per chunk */
    const float *param[S4_PARAMS], *tangents;
    float       *out[S4_PARAMS]; /* gradients */
    double      *inverse_dt;     /* [channels] */
    PoleCuda    *pole;           /* [poles] */
    float4      *lanes;          /* [poles][channels]: p, q of B C, p, q of P C */
    float2      *bq;             /* [poles][channels]: p, q of B Q; if b_per_channel */
    float2      *spectrum;       /* [n_freq][channels]; even lengths: Z, [length / 2][channels] */
    float2      *workspace;      /* [f.n][channels] */
    float       *sums;           /* [chunks][poles][POLE_SUMS][channels] */
    double      *shared;         /* [poles][CHAIN_SUMS][channels] */
    size_t       bytes;
    bool         b_per_channel; /* every channel has its own B */
} S4Cuda;

struct PoleParamsCuda { /* parameters of one pole; b may be the channel's own */
    Complex a, b, p;
};

__device__ __forceinline__ PoleParamsCuda pole_params(const S4Cuda &s, int64_t h, int64_t n)
{
    return { { -exp((double)s.param[S4_A_REAL][n]), -(double)s.param[S4_A_IMAG][n] },
             z_at(s.param[S4_B], s.b_per_channel ? h * s.poles + n : n),
             z_at(s.param[S4_P], n) };
}

__device__ __forceinline__ double dt_of(const S4Cuda &s, int64_t h)
{
    double x = (double)s.param[S4_INV_DT][h];
    return x > 30 ? x : log1p(exp(x));
}

struct FreqCuda {
    float hi, lo; /* y' */
    float s, t;   /* 1 / max(1, y')^2, y' s */
};

__device__ __forceinline__ FreqCuda freq_of(const S4Cuda &s, int64_t k, double inverse_dt)
{
    double   scaled = ((double)s.tangents[2 * k] + (double)s.tangents[2 * k + 1]) * inverse_dt;
    FreqCuda f;
    f.hi = (float)scaled;
    f.lo = (float)(scaled - (double)f.hi);
    float root = f.hi > 1 ? 1 / f.hi : 1;
    f.s = root * root;
    f.t = f.hi * root * root;
    return f;
}

/* Accurate to the last bit; 0 or infinity if x is not a normal number. */
__device__ __forceinline__ float reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* R = 1 / D of one pole; D scaled by s. */
__device__ __forceinline__ float2 resolvent(const PoleCuda &pole, const FreqCuda &f)
{
    float near = (pole.hi - f.hi) + (pole.lo - f.lo);
    float re = near * ((pole.hi + f.hi) * f.s), im = pole.damp * f.t;
    float size = reciprocal(re * re + im * im);
    return make_float2(re * size, -(im * size));
}

struct Cauchy { /* the Cauchy sums at one frequency */
    float2 r[SUMS];
    float2 ratio_b, ratio_c; /* r_BQ and r_PC over 1 + r_PQ */
};

__device__ __forceinline__ void weigh(float2 (&sum)[2], float2 r, float p, float q)
{
    sum[0].x += p * r.x;
    sum[0].y += p * r.y;
    sum[1].x += q * r.x;
    sum[1].y += q * r.y;
}

/* Poles of the block's channels in shared memory. Most models have no more than S4_POLES. */
template <bool B_PER_CHANNEL> struct StagedPoles {
    PoleCuda pole[S4_POLES];
    float4   lanes[S4_POLES][S4_LANES];
    float2   bq[B_PER_CHANNEL ? S4_POLES : 1][S4_LANES];
};

/* Loads poles from `first` on. Beyond the last pole or channel the last one is repeated. */
template <bool B_PER_CHANNEL>
__device__ __forceinline__ void load_poles(const S4Cuda &s, StagedPoles<B_PER_CHANNEL> *staged,
                                           int64_t first)
{
    int     me = (int)(threadIdx.y * S4_LANES + threadIdx.x), all = (int)blockDim.y * S4_LANES;
    int64_t h = blockIdx.y * (int64_t)S4_LANES + threadIdx.x;
    h = h < s.channels ? h : s.channels - 1;
#pragma unroll 4
    for (int i = (int)threadIdx.y; i < S4_POLES; i += (int)blockDim.y) {
        int64_t n = first + i < s.poles ? first + i : s.poles - 1;
        staged->lanes[i][threadIdx.x] = s.lanes[n * s.channels + h];
        if (B_PER_CHANNEL)
            staged->bq[i][threadIdx.x] = s.bq[n * s.channels + h];
    }
    for (int i = me; i < S4_POLES; i += all)
        staged->pole[i] = s.pole[first + i < s.poles ? first + i : s.poles - 1];
}

/* Called by all threads of a block, with the first poles loaded. Sums before FIRST are not
 * computed. */
template <bool B_PER_CHANNEL, int FIRST>
__device__ __forceinline__ void cauchy(Cauchy (&out)[S4_TWO], const S4Cuda &s,
                                       StagedPoles<B_PER_CHANNEL> *staged,
                                       const FreqCuda (&f)[S4_TWO])
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
            load_poles<B_PER_CHANNEL>(s, staged, first);
            __syncthreads();
        }
#pragma unroll 4
        for (int n = 0; n < count; n++) {
            PoleCuda pole = staged->pole[n];
            float4   w = staged->lanes[n][lane];
            float2   bq = B_PER_CHANNEL ? staged->bq[n][lane] : make_float2(pole.bq[0], pole.bq[1]);
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
        float2 denominator = make_float2(1.0f + out[j].r[PQ].x, out[j].r[PQ].y);
        float  size = 1.0f / (denominator.x * denominator.x + denominator.y * denominator.y);
        float2 inverse = make_float2(denominator.x * size, -(denominator.y * size));
        out[j].ratio_b = c_mul(out[j].r[BQ], inverse);
        out[j].ratio_c = c_mul(out[j].r[PC], inverse);
    }
}

/* A real signal of even length, two neighbours as one complex number: Note [Half the length]. */
struct PairSignal {
    float                            *p;
    int64_t                           channels;
    __device__ __forceinline__ float2 operator()(int64_t, int64_t e, int64_t c, float2) const
    {
        return make_float2(p[2 * e * channels + c], p[(2 * e + 1) * channels + c]);
    }
    /* Stores the result of an inverse transform, whose parts are swapped. */
    __device__ __forceinline__ void operator()(int64_t, int64_t e, int64_t c, float2 v,
                                               float2) const
    {
        p[2 * e * channels + c] = v.y;
        p[(2 * e + 1) * channels + c] = v.x;
    }
};

/* ---- host ---- */

S4Cuda s4_cuda_of(const Call *call, const Node *n, int sms, bool grad); /* call NULL: sizes only */
Err    s4_cuda_choose(const Node *n, const Device *device, bool grad, Choice *choice);
/* Fills inverse_dt, pole, lanes and bq. */
Err    s4_cuda_fill(const Call *call, const S4Cuda *s);

#endif
