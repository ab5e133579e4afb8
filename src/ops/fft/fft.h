/* fft.h -- Fourier transforms of many channels at once on the CPU: 16 channels are the lanes of a
 * vector, so every butterfly is plain vector arithmetic without shuffles.
 *
 * A signal of n complex elements is FftVec[n][2], real and imaginary parts side by side. A
 * transform of length n = n1 * n2 takes two steps (Bailey 1990): n2 columns of length n1, then n1
 * rows of length n2. Each column or row fits in the L1 cache, so that the whole signal passes
 * through memory twice, however long it is. The small transforms are Stockham's autosort form with
 * factors 4, 2, 3, 5.
 *
 *   fft_column: element j1 * n2 + j2 of the signal is element j1 of column j2; the result goes to
 *               big[k1 * pitch + j2].
 *   fft_row:    row k1 of big; its element k2 is frequency k1 + n1 * k2.
 *
 * A convolution does not depend on the order of frequencies and leaves them in this one. flip = 1
 * swaps real and imaginary parts on input and output, which gives the inverse (not divided by n).
 */
#ifndef OPS_FFT_FFT_H
#define OPS_FFT_FFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FFT_LANES = 16 };
typedef float FftVec __attribute__((vector_size(64)));

typedef enum FftKind {
    FFT_REAL,  /* real signals of length n: a complex transform of n / 2, or n if odd */
    FFT_ANGLE, /* weighted complex signals of length n: Note [Right angle] in fft_conv_cpu.c */
} FftKind;

typedef struct Fft { /* points into a table (fft_table); opened for every call */
    FftKind      kind;
    int64_t      n; /* length of the complex transform */
    int64_t      n1, n2;
    int64_t      pitch;       /* elements between rows, at least n2; see fft_shape */
    int64_t      n_real;      /* FFT_REAL: length of the real signal */
    const float *sub1, *sub2; /* twiddles of the passes */
    const float *cross;       /* [n2][n1][2], between columns and rows */
    const float *split;       /* FFT_REAL, even: exp(-2 pi i k / n_real), k = 0..n;
                                  * FFT_ANGLE: exp(i pi j / (2 n1)), j < n1 */
} Fft;

bool    fft_valid(int64_t n); /* all prime factors are 2, 3 or 5 */
int64_t fft_next(int64_t n);  /* the smallest valid length >= n */
int64_t fft_near(int64_t n);  /* the valid length nearest to n; the smaller in a tie */

int64_t fft_table_floats(FftKind kind, int64_t n);
void    fft_table_fill(FftKind kind, int64_t n, float *table);
Fft     fft_open(FftKind kind, int64_t n, const float *table);

/* Sizes in FftVec: a whole signal, and the workspace of one thread. */
static inline int64_t fft_signal_vecs(const Fft *f) { return 2 * f->n1 * f->pitch; }
static inline int64_t fft_workspace_vecs(const Fft *f)
{
    return 4 * (f->n1 > f->n2 ? f->n1 : f->n2);
}

/* The first n1 elements of workspace hold the column. */
void    fft_column(const Fft *f, int64_t j2, FftVec *workspace, FftVec *big, int flip);
FftVec *fft_row(const Fft *f, FftVec *row, FftVec *other, int flip);      /* returns row or other */
void    fft_rows(const Fft *f, FftVec *big, FftVec *workspace, int flip); /* every row, in place */
/* The inverse of fft_column, for column j2 of big: n1 elements in workspace. */
FftVec *fft_column_back(const Fft *f, int64_t j2, const FftVec *big, FftVec *workspace);

/* Samples of up to 16 channels: sample l at p + l * stride. */
typedef struct FftRows {
    float  *p;
    int64_t stride;
    int     lanes;
} FftRows;

/* Transforms between a real signal of n_real samples and its spectrum X_k, k = 0..n_real/2, in
 * order. The spectrum needs room for fft_spectrum_vecs. fft_real_back overwrites it and, like
 * PyTorch, ignores the imaginary parts of X_0 and X_(n/2). */
static inline int64_t fft_spectrum_vecs(const Fft *f)
{
    return 2 * (f->n_real % 2 ? f->n : f->n + 1);
}
void fft_real(const Fft *f, FftRows x, FftVec *big, FftVec *spectrum, FftVec *workspace);
void fft_real_back(const Fft *f, FftVec *spectrum, FftRows y, float scale, FftVec *workspace);

/* Loads up to 16 floats, other lanes 0; stores up to 16 lanes. */
static inline void fft_load(FftVec *v, const float *p, int lanes)
{
    if (lanes == FFT_LANES) {
        __builtin_memcpy(v, p, sizeof *v);
        return;
    }
    *v = (FftVec){ 0 };
    for (int i = 0; i < lanes; i++)
        (*v)[i] = p[i];
}

static inline void fft_store(float *p, const FftVec *v, int lanes)
{
    if (lanes == FFT_LANES) {
        __builtin_memcpy(p, v, sizeof *v);
        return;
    }
    for (int i = 0; i < lanes; i++)
        p[i] = (*v)[i];
}

#endif
