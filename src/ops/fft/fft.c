/* fft.c -- Fourier transforms on the CPU: lengths, tables, passes, columns and rows, real
 * signals. */
#include "ops/fft/fft.h"

#include "base/err.h"

#include <math.h>
#include <string.h>

enum { FFT_SINGLE = 256 }; /* up to this length a signal and its copy fit in the cache */

/* ---- lengths ---- */

static int fft_factor(int64_t n) /* radix of the next pass */
{
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
}

bool fft_valid(int64_t n)
{
    static const int primes[] = { 2, 3, 5 };
    for (int i = 0; n > 0 && i < 3; i++)
        while (n % primes[i] == 0)
            n /= primes[i];
    return n == 1;
}

int64_t fft_next(int64_t n)
{
    n = n < 1 ? 1 : n;
    while (!fft_valid(n))
        n++;
    return n;
}

int64_t fft_near(int64_t n)
{
    n = n < 1 ? 1 : n;
    for (int64_t d = 0;; d++) {
        if (n - d >= 1 && fft_valid(n - d))
            return n - d;
        if (fft_valid(n + d))
            return n + d;
    }
}

/* Chooses n2 <= n1, both as near to sqrt(n) as the factors of n allow. */
static void fft_split_length(Fft *f)
{
    f->n2 = 1;
    for (int64_t d = 2; f->n > FFT_SINGLE && d * d <= f->n; d++)
        if (f->n % d == 0)
            f->n2 = d;
    f->n1 = f->n / f->n2;
}

/* ---- tables ---- */

static Fft fft_shape(FftKind kind, int64_t n)
{
    REQUIRE(fft_valid(n));
    Fft f = { .kind = kind, .n = kind == FFT_REAL && n % 2 == 0 ? n / 2 : n, .n_real = n };
    fft_split_length(&f);
    /* With rows a power of two apart, columns would map to few sets of the cache. Spectra of real
     * signals are transformed in place and in order, so there the pitch must be n2. */
    f.pitch = kind == FFT_ANGLE && f.n2 > 1 ? f.n2 + 1 : f.n2;
    return f;
}

static int64_t split_count(const Fft *f)
{
    return f->kind == FFT_ANGLE ? f->n1 : f->n_real % 2 ? 0 : f->n + 1;
}

Fft fft_open(FftKind kind, int64_t n, const float *table)
{
    Fft f = fft_shape(kind, n);
    f.sub1 = table;
    f.sub2 = f.sub1 + 2 * (f.n1 - 1);
    f.cross = f.sub2 + 2 * (f.n2 - 1);
    f.split = f.cross + (f.n2 > 1 ? 2 * f.n : 0);
    return f;
}

int64_t fft_table_floats(FftKind kind, int64_t n)
{
    Fft f = fft_open(kind, n, NULL);
    return 2 * (f.n1 - 1 + f.n2 - 1 + (f.n2 > 1 ? f.n : 0) + split_count(&f));
}

static float *put_root(float *out, double numerator, double denominator) /* exp(-2 pi i a / b) */
{
    double angle = -2 * M_PI * (fmod(numerator, denominator) / denominator);
    *out++ = (float)cos(angle);
    *out++ = (float)sin(angle);
    return out;
}

static float *put_passes(float *out, int64_t n)
{
    for (int64_t m; n > 1; n = m) {
        int r = fft_factor(n);
        m = n / r;
        for (int64_t p = 0; p < m; p++)
            for (int i = 1; i < r; i++)
                out = put_root(out, (double)(p * i), (double)n);
    }
    return out;
}

void fft_table_fill(FftKind kind, int64_t n, float *out)
{
    Fft    f = fft_shape(kind, n);
    double shift = kind == FFT_ANGLE ? 1 : 0; /* the part of the weight that depends on j2 */
    out = put_passes(out, f.n1);
    out = put_passes(out, f.n2);
    for (int64_t j2 = 0; f.n2 > 1 && j2 < f.n2; j2++)
        for (int64_t k1 = 0; k1 < f.n1; k1++)
            out = put_root(out, (double)j2 * (4 * (double)k1 - shift), 4 * (double)f.n);
    for (int64_t j = 0; j < split_count(&f); j++)
        out = kind == FFT_ANGLE ? put_root(out, -(double)j, 4 * (double)f.n1)
                                : put_root(out, (double)j, (double)f.n_real);
}

/* ---- passes ----
 *
 * Stockham's form, decimation in frequency (Van Loan 1992, section 1.7): with n = r m,
 *     y[q + s (r p + i)] = w_n^(p i) sum_j w_r^(i j) x[q + s (p + m j)],   p < m, q < s.
 * In the last pass m = 1 and every twiddle is 1. */

#define INLINE static inline __attribute__((always_inline))

typedef struct FftComplex { /* 16 complex numbers, in registers */
    FftVec re, im;
} FftComplex;

INLINE void get(FftComplex *v, const FftVec *x, int64_t at, int flip)
{
    v->re = x[2 * at + flip];
    v->im = x[2 * at + 1 - flip];
}

INLINE void put(FftVec *y, int64_t at, int flip, const FftComplex *v, const float *w, bool unit)
{
    y[2 * at + flip] = unit ? v->re : v->re * w[0] - v->im * w[1];
    y[2 * at + 1 - flip] = unit ? v->im : v->re * w[1] + v->im * w[0];
}

INLINE void butterfly2(FftComplex *v)
{
    FftComplex a = v[0], b = v[1];
    v[0] = (FftComplex){ a.re + b.re, a.im + b.im };
    v[1] = (FftComplex){ a.re - b.re, a.im - b.im };
}

INLINE void butterfly3(FftComplex *v)
{
    const float half_root3 = 0.86602540378443864676f;
    FftComplex  a = v[0];
    FftComplex  sum = { v[1].re + v[2].re, v[1].im + v[2].im };
    FftComplex  diff = { (v[1].re - v[2].re) * half_root3, (v[1].im - v[2].im) * half_root3 };
    FftComplex  mid = { a.re - 0.5f * sum.re, a.im - 0.5f * sum.im };
    v[0] = (FftComplex){ a.re + sum.re, a.im + sum.im };
    v[1] = (FftComplex){ mid.re + diff.im, mid.im - diff.re };
    v[2] = (FftComplex){ mid.re - diff.im, mid.im + diff.re };
}

INLINE void butterfly4(FftComplex *v)
{
    FftComplex even[2] = { v[0], v[2] }, odd[2] = { v[1], v[3] };
    butterfly2(even);
    butterfly2(odd);
    v[0] = (FftComplex){ even[0].re + odd[0].re, even[0].im + odd[0].im };
    v[1] = (FftComplex){ even[1].re + odd[1].im, even[1].im - odd[1].re };
    v[2] = (FftComplex){ even[0].re - odd[0].re, even[0].im - odd[0].im };
    v[3] = (FftComplex){ even[1].re - odd[1].im, even[1].im + odd[1].re };
}

INLINE void butterfly5(FftComplex *v)
{
    /* Cosines and sines of 2 pi / 5 and 4 pi / 5. */
    const float c1 = 0.30901699437494742410f, c2 = -0.80901699437494742410f;
    const float s1 = 0.95105651629515357212f, s2 = 0.58778525229247312917f;
    FftComplex  a = v[0];
    FftComplex  p1 = { v[1].re + v[4].re, v[1].im + v[4].im },
               m1 = { v[1].re - v[4].re, v[1].im - v[4].im };
    FftComplex p2 = { v[2].re + v[3].re, v[2].im + v[3].im },
               m2 = { v[2].re - v[3].re, v[2].im - v[3].im };
    FftComplex e1 = { a.re + c1 * p1.re + c2 * p2.re, a.im + c1 * p1.im + c2 * p2.im };
    FftComplex e2 = { a.re + c2 * p1.re + c1 * p2.re, a.im + c2 * p1.im + c1 * p2.im };
    FftComplex o1 = { s1 * m1.im + s2 * m2.im, -(s1 * m1.re + s2 * m2.re) };
    FftComplex o2 = { s2 * m1.im - s1 * m2.im, -(s2 * m1.re - s1 * m2.re) };
    v[0] = (FftComplex){ a.re + p1.re + p2.re, a.im + p1.im + p2.im };
    v[1] = (FftComplex){ e1.re + o1.re, e1.im + o1.im };
    v[2] = (FftComplex){ e2.re + o2.re, e2.im + o2.im };
    v[3] = (FftComplex){ e2.re - o2.re, e2.im - o2.im };
    v[4] = (FftComplex){ e1.re - o1.re, e1.im - o1.im };
}

INLINE void pass_of(int r, bool unit, const FftVec *x, FftVec *y, int64_t m, int64_t s,
                    const float *w, int flip)
{
    for (int64_t p = 0; p < m; p++, w += 2 * (r - 1))
        for (int64_t q = 0; q < s; q++) {
            FftComplex v[5];
            for (int j = 0; j < r; j++)
                get(&v[j], x, q + s * (p + m * j), flip);
            if (r == 2)
                butterfly2(v);
            else if (r == 3)
                butterfly3(v);
            else if (r == 4)
                butterfly4(v);
            else
                butterfly5(v);
            put(y, q + s * r * p, flip, &v[0], w, true);
            for (int i = 1; i < r; i++)
                put(y, q + s * (r * p + i), flip, &v[i], w + 2 * (i - 1), unit);
        }
}

/* One function for each radix, with and without twiddles, so that all inner loops unroll. */
#define PASS(r)                                                                                    \
    static void pass##r(const FftVec *restrict x, FftVec *restrict y, int64_t m, int64_t s,        \
                        const float *w, int flip)                                                  \
    {                                                                                              \
        if (m == 1)                                                                                \
            pass_of(r, true, x, y, m, s, w, flip);                                                 \
        else                                                                                       \
            pass_of(r, false, x, y, m, s, w, flip);                                                \
    }
PASS(2)
PASS(3)
PASS(4)
PASS(5)

/* The transform of x[0..n), alternating between x and other; returns the one with the result. */
static FftVec *stockham(int64_t n, const float *w, FftVec *x, FftVec *other, int flip)
{
    for (int64_t s = 1, m; n > 1; n = m) {
        int r = fft_factor(n);
        m = n / r;
        (r == 2 ? pass2 : r == 3 ? pass3 : r == 4 ? pass4 : pass5)(x, other, m, s, w, flip);
        w += 2 * (r - 1) * m;
        s *= r;
        FftVec *swap = x;
        x = other;
        other = swap;
    }
    return x;
}

/* ---- columns and rows ---- */

void fft_column(const Fft *f, int64_t j2, FftVec *workspace, FftVec *big, int flip)
{
    const FftVec *col = stockham(f->n1, f->sub1, workspace, workspace + 2 * f->n1, flip);
    const float  *w = f->cross + 2 * f->n1 * j2;
    bool          unit = f->n2 == 1;
    for (int64_t k1 = 0; k1 < f->n1; k1++) {
        FftComplex v;
        get(&v, col, k1, flip);
        put(big, k1 * f->pitch + j2, flip, &v, w + 2 * k1, unit);
    }
}

FftVec *fft_column_back(const Fft *f, int64_t j2, const FftVec *big, FftVec *workspace)
{
    const float *w = f->cross + 2 * f->n1 * j2;
    bool         unit = f->n2 == 1;
    for (int64_t k1 = 0; k1 < f->n1; k1++) {
        FftComplex v; /* swap parts, multiply by w, swap back: multiplies by the conjugate of w */
        get(&v, big, k1 * f->pitch + j2, 1);
        put(workspace, k1, 1, &v, w + 2 * k1, unit);
    }
    return stockham(f->n1, f->sub1, workspace, workspace + 2 * f->n1, 1);
}

FftVec *fft_row(const Fft *f, FftVec *row, FftVec *other, int flip)
{
    return stockham(f->n2, f->sub2, row, other, flip);
}

void fft_rows(const Fft *f, FftVec *big, FftVec *workspace, int flip)
{
    for (int64_t k1 = 0; f->n2 > 1 && k1 < f->n1; k1++) {
        FftVec *row = big + 2 * f->pitch * k1, *done = fft_row(f, row, workspace, flip);
        if (done != row)
            memcpy(row, done, (size_t)(2 * f->n2) * sizeof *row);
    }
}

/* ---- real signals ----
 *
 * Even lengths: the transform of z_j = x_2j + i x_(2j+1), of half the length, contains the spectra
 * of the even and odd samples as its symmetric and antisymmetric parts. With e and o these parts at
 * k, X_k = e - i w^k o, and X_(n-k) is the conjugate of e + i w^k o. */

static void real_split(const Fft *f, FftVec *x)
{
    int64_t n = f->n;
    x[2 * n] = x[0];
    x[2 * n + 1] = x[1];
    for (int64_t k = 0; k <= n / 2; k++) {
        const float *w = f->split + 2 * k;
        FftComplex   a, b;
        get(&a, x, k, 0);
        get(&b, x, n - k, 0);
        FftComplex e = { 0.5f * (a.re + b.re), 0.5f * (a.im - b.im) };
        FftComplex o = { 0.5f * (a.re - b.re), 0.5f * (a.im + b.im) };
        FftComplex t = { o.re * w[1] + o.im * w[0], o.im * w[1] - o.re * w[0] }; /* -i w o */
        x[2 * k] = e.re + t.re;
        x[2 * k + 1] = e.im + t.im;
        x[2 * (n - k)] = e.re - t.re;
        x[2 * (n - k) + 1] = t.im - e.im;
    }
}

static void real_join(const Fft *f, FftVec *x)
{
    int64_t n = f->n;
    x[1] = x[2 * n + 1] = (FftVec){ 0 };
    for (int64_t k = 0; k <= n / 2; k++) {
        const float *w = f->split + 2 * k;
        FftComplex   a, b;
        get(&a, x, k, 0);
        get(&b, x, n - k, 0);
        FftComplex e = { a.re + b.re, a.im - b.im }, d = { a.re - b.re, a.im + b.im };
        FftComplex t = { d.re * w[1] - d.im * w[0], d.re * w[0] + d.im * w[1] }; /* i conj(w) d */
        x[2 * k] = e.re + t.re;
        x[2 * k + 1] = e.im + t.im;
        x[2 * (n - k)] = e.re - t.re;
        x[2 * (n - k) + 1] = t.im - e.im;
    }
}

void fft_real(const Fft *f, FftRows x, FftVec *big, FftVec *spectrum, FftVec *workspace)
{
    bool    even = f->n_real % 2 == 0;
    int64_t keep = even ? f->n : f->n / 2 + 1;
    for (int64_t j2 = 0; j2 < f->n2; j2++) {
        for (int64_t j1 = 0; j1 < f->n1; j1++) {
            const float *at = x.p + (j1 * f->n2 + j2) * (even ? 2 : 1) * x.stride;
            fft_load(&workspace[2 * j1], at, x.lanes);
            if (even)
                fft_load(&workspace[2 * j1 + 1], at + x.stride, x.lanes);
            else
                workspace[2 * j1 + 1] = (FftVec){ 0 };
        }
        fft_column(f, j2, workspace, big, 0);
    }
    for (int64_t k1 = 0; k1 < f->n1; k1++) {
        const FftVec *row = fft_row(f, big + 2 * f->pitch * k1, workspace, 0);
        for (int64_t k2 = 0; k2 < f->n2 && k1 + f->n1 * k2 < keep; k2++) {
            spectrum[2 * (k1 + f->n1 * k2)] = row[2 * k2];
            spectrum[2 * (k1 + f->n1 * k2) + 1] = row[2 * k2 + 1];
        }
    }
    if (even)
        real_split(f, spectrum);
}

void fft_real_back(const Fft *f, FftVec *spectrum, FftRows y, float scale, FftVec *workspace)
{
    bool even = f->n_real % 2 == 0;
    if (even) {
        real_join(f, spectrum);
    } else {
        spectrum[1] = (FftVec){ 0 };
        for (int64_t k = 1; k <= f->n / 2; k++) {
            spectrum[2 * (f->n - k)] = spectrum[2 * k];
            spectrum[2 * (f->n - k) + 1] = -spectrum[2 * k + 1];
        }
    }
    for (int64_t j2 = 0; j2 < f->n2; j2++) { /* a column is read and written in place */
        for (int64_t j1 = 0; j1 < f->n1; j1++) {
            workspace[2 * j1] = spectrum[2 * (j1 * f->n2 + j2)];
            workspace[2 * j1 + 1] = spectrum[2 * (j1 * f->n2 + j2) + 1];
        }
        fft_column(f, j2, workspace, spectrum, 1);
    }
    for (int64_t k1 = 0; k1 < f->n1; k1++) {
        const FftVec *row = fft_row(f, spectrum + 2 * f->n2 * k1, workspace, 1);
        for (int64_t k2 = 0; k2 < f->n2; k2++) {
            float *at = y.p + (k1 + f->n1 * k2) * (even ? 2 : 1) * y.stride;
            FftVec re = row[2 * k2] * scale, im = row[2 * k2 + 1] * scale;
            fft_store(at, &re, y.lanes);
            if (even)
                fft_store(at + y.stride, &im, y.lanes);
        }
    }
}
