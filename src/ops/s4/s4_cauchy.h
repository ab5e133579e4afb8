/* s4_cauchy.h -- what the S4 kernel and its gradient share on the CPU: buffers, poles, and the
 * Cauchy sums at one frequency.
 *
 * Note [Pairs of poles]. z_k = 2 (1 - w) / (1 + w) is imaginary, i y with y = 2 tan(pi k / L).
 * Divided by dt, every Cauchy sum depends on the poles A_n alone, at y' = y / dt. A pole and its
 * conjugate give
 *
 *     v / (i y' - A) + conj(v) / (i y' - conj(A))  =  2 (i y' p - q) / D,
 *     p = Re v,  q = Re(v conj(A)),  D = |A|^2 - y'^2 - 2 i y' Re A:
 *
 * one complex reciprocal R = 1 / D per pole, shared by the four sums, with real weights. Only
 * v = B C and v = P C differ between channels. B Q and P Q are scalars, unless each channel has its
 * own B (S4.b_per_channel): then B Q differs too.
 *
 * Near a resonance, y' = |A|, the real part of D is a small difference of large numbers. It is
 * computed as (|A| - y') (|A| + y'), with |A| and y' each as a sum of two floats. For large y' (k
 * near L/2, where 1 + w approaches 0) D would overflow. So D, y' and 1 are all multiplied by
 * s = 1 / max(1, y')^2, which cancels: r = 2 (i t sum p R - s sum q R), t = y' s. At k = L/2 itself
 * the limit is dt sum p for v = B C.
 */
#ifndef OPS_S4_S4_CAUCHY_H
#define OPS_S4_S4_CAUCHY_H

#include "ops/fft/fft.h"
#include "ops/s4/s4_kernel.h"

#include <complex.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

enum { BC, BQ, PC, PQ, SUMS }; /* v = X Y of the four sums, with weights p and q each */
enum { FREQ_BLOCK = 16 };      /* chunks of frequencies begin at multiples of this */
/* Gradients of a pole: p and q of each sum, |A|^2, -2 Re A. */
enum { SUM_M = 2 * SUMS, SUM_DAMP, POLE_SUMS };

typedef FftVec Vec;

typedef struct S4Pole { /* what does not depend on the channel */
    float hi, lo;       /* |A| */
    float damp;         /* -2 Re A */
    float bq[2], pq[2]; /* p, q */
    float unused;
} S4Pole;

typedef struct PoleLanes { /* what depends on the channel: p and q of B C and P C */
    Vec bc[2], pc[2];
} PoleLanes;

/* Groups of 16 channels are processed in waves of as many groups as there are threads. With fewer
 * groups than threads, the frequencies of each group are divided into chunks. */
typedef struct S4 {
    Fft          f;
    int64_t      channels, groups, poles, length, n_freq;
    int          threads, wave;
    bool         grad;
    bool         b_per_channel; /* every channel has its own B */
    const float *param[S4_PARAMS], *tangents;
} S4;

typedef struct S4Slot { /* the buffers of one group of a wave */
    PoleLanes *lanes;
    Vec       *bq; /* p and q of B Q, 2 per pole; NULL unless b_per_channel */
    Vec       *spectrum, *workspace;
    Vec       *big; /* gradient only */
} S4Slot;

S4      s4_of(const Call *call, const Node *n, int threads, bool grad); /* call NULL: sizes only */
size_t  s4_bytes(const S4 *s);
int     s4_freq_chunks(const S4 *s, int64_t groups); /* per group, in a wave of `groups` */
S4Pole *s4_poles(const S4 *s, void *workspace);
S4Slot  s4_slot(const S4 *s, void *workspace, int64_t i);
/* Sums of a task: [poles][POLE_SUMS][16], then those for dt: [2][16]. Over all channels, for B, P,
 * A: [poles][6]. */
double *s4_sums(const S4 *s, void *workspace, int64_t task);
double *s4_shared_sums(const S4 *s, void *workspace);
FftRows s4_rows(const S4 *s, float *k, int64_t group);

typedef struct S4PoleParams { /* parameters of one pole */
    double complex a, b, p;
} S4PoleParams;

S4PoleParams   s4_pole_params(const S4 *s, int64_t n);
double complex s4_c(const S4 *s, int64_t h, int64_t n);
double complex s4_b(const S4 *s, int64_t h, int64_t n);
double         s4_dt(const S4 *s, int64_t h);
void s4_inverse_dt(const S4 *s, int64_t group, double *inverse_dt); /* 1 / dt of 16 channels */
void s4_fill_poles(const S4 *s, S4Pole *poles);
void s4_fill_lanes(const S4 *s, int64_t group, const S4Slot *slot);

static inline bool is_nyquist(const S4 *s, int64_t k) { return 2 * k == s->length; }

/* ---- one frequency ---- */

typedef struct S4Freq {
    Vec   hi, lo; /* y' */
    Vec   s, t;   /* 1 / max(1, y')^2, y' s */
    float half_y; /* 2 / (1 + w) = 1 + i half_y */
} S4Freq;

typedef struct S4Complex {
    Vec re, im;
} S4Complex;

INLINE void freq_set(S4Freq *f, const float *tangent, const double *inverse_dt)
{
    double y = (double)tangent[0] + (double)tangent[1];
    float  hi[FFT_LANES], lo[FFT_LANES], s[FFT_LANES], t[FFT_LANES];
#pragma omp simd
    for (int i = 0; i < FFT_LANES; i++) {
        double scaled = y * inverse_dt[i];
        hi[i] = (float)scaled;
        lo[i] = (float)(scaled - (double)hi[i]);
        float root = hi[i] > 1 ? 1 / hi[i] : 1;
        s[i] = root * root;
        t[i] = hi[i] * root * root;
    }
    fft_load(&f->hi, hi, FFT_LANES);
    fft_load(&f->lo, lo, FFT_LANES);
    fft_load(&f->s, s, FFT_LANES);
    fft_load(&f->t, t, FFT_LANES);
    f->half_y = 0.5f * tangent[0];
}

INLINE void reciprocal(Vec *x) /* of positive, finite numbers */
{
#ifdef __AVX512F__
    __m512 v = (__m512)*x, guess = _mm512_rcp14_ps(v); /* accurate to 2^-14; one Newton step */
    *x = (Vec)_mm512_fmadd_ps(_mm512_fnmadd_ps(v, guess, _mm512_set1_ps(1)), guess, guess);
#else
    *x = 1.0f / *x;
#endif
}

/* R = 1 / D of one pole, with D scaled by s. */
INLINE void resolvent(const S4Pole *pole, const S4Freq *f, S4Complex *r)
{
    Vec near = (pole->hi - f->hi) + (pole->lo - f->lo);
    Vec re = near * ((pole->hi + f->hi) * f->s), im = pole->damp * f->t;
    Vec size = re * re + im * im;
    reciprocal(&size);
    r->re = re * size;
    r->im = -(im * size);
}

INLINE void weigh(S4Complex sum[2], const S4Complex *r, const Vec *p, const Vec *q)
{
    sum[0].re += *p * r->re;
    sum[0].im += *p * r->im;
    sum[1].re += *q * r->re;
    sum[1].im += *q * r->im;
}

INLINE void weigh_scalar(S4Complex sum[2], const S4Complex *r, const float w[2])
{
    sum[0].re += w[0] * r->re;
    sum[0].im += w[0] * r->im;
    sum[1].re += w[1] * r->re;
    sum[1].im += w[1] * r->im;
}

INLINE void product(S4Complex *to, const S4Complex *a, const S4Complex *b)
{
    Vec re = a->re * b->re - a->im * b->im;
    to->im = a->re * b->im + a->im * b->re;
    to->re = re;
}

INLINE void product_conj(S4Complex *to, const S4Complex *a, const S4Complex *b) /* conj(a) b */
{
    Vec re = a->re * b->re + a->im * b->im;
    to->im = a->re * b->im - a->im * b->re;
    to->re = re;
}

typedef struct CauchySums {     /* at one frequency */
    S4Complex p[SUMS];          /* sum of p R */
    S4Complex r[SUMS];          /* the Cauchy sum */
    S4Complex ratio_b, ratio_c; /* r_BQ and r_PC over 1 + r_PQ */
} CauchySums;

/* bq as in S4Slot; if it is a constant NULL, the compiler removes the branch. */
INLINE void cauchy(CauchySums *out, const S4 *s, const S4Pole *poles, const PoleLanes *lanes,
                   const Vec *bq, const S4Freq *f)
{
    S4Complex sum[SUMS][2] = { 0 };
    for (int64_t n = 0; n < s->poles; n++) {
        S4Complex r;
        resolvent(&poles[n], f, &r);
        weigh(sum[BC], &r, &lanes[n].bc[0], &lanes[n].bc[1]);
        weigh(sum[PC], &r, &lanes[n].pc[0], &lanes[n].pc[1]);
        if (bq)
            weigh(sum[BQ], &r, &bq[2 * n], &bq[2 * n + 1]);
        else
            weigh_scalar(sum[BQ], &r, poles[n].bq);
        weigh_scalar(sum[PQ], &r, poles[n].pq);
    }
    for (int i = 0; i < SUMS; i++) {
        out->p[i] = sum[i][0];
        out->r[i].re = -2.0f * (f->t * sum[i][0].im + f->s * sum[i][1].re);
        out->r[i].im = 2.0f * (f->t * sum[i][0].re - f->s * sum[i][1].im);
    }
    S4Complex denominator = { 1.0f + out->r[PQ].re, out->r[PQ].im }, inverse;
    Vec       size = 1.0f / (denominator.re * denominator.re + denominator.im * denominator.im);
    inverse.re = denominator.re * size;
    inverse.im = -(denominator.im * size);
    product(&out->ratio_b, &out->r[BQ], &inverse);
    product(&out->ratio_c, &out->r[PC], &inverse);
}

#endif
