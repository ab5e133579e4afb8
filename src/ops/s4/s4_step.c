/* s4_step.c -- the recurrent form of an S4 layer. */
#include "ops/s4/s4_step.h"

#include <complex.h>
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <string.h>

static double complex pair_at(const float *x, int64_t i)
{
    return (double)x[2 * i] + I * (double)x[2 * i + 1];
}

static S4Coefs coefs_new(Pool *pool, int64_t pairs)
{
    double complex *all = NEWN(pool, double complex, 4 * pairs);
    return (S4Coefs){ .e = all, .f = all + pairs, .b = all + 2 * pairs, .p = all + 3 * pairs };
}

void s4_coefs(const S4Params *params, int64_t h, const S4Coefs *to)
{
    double x = (double)params->inv_dt[h], dt = x > 30 ? x : log1p(exp(x)), denominator = 0;
    for (int64_t n = 0; n < params->pairs; n++) {
        double complex a = -exp((double)params->a_real[n]) - I * (double)params->a_imag[n];
        to->p[n] = pair_at(params->p, n);
        to->b[n] = dt * pair_at(params->b, n);
        to->e[n] = 1 / (1 - dt / 2 * a);
        denominator += 2 * creal(to->p[n] * conj(to->p[n]) * to->e[n]);
    }
    for (int64_t n = 0; n < params->pairs; n++) /* 2 Re-sum runs over a pole and its conjugate */
        to->f[n] = 2 * to->e[n] * to->p[n] / (2 / dt + denominator);
}

/* ---- C for a length: dense matrices over the reals ----
 *
 * A state and its conjugate are one real vector (Re x, Im x), on which Abar acts as a real matrix
 * and C as the row (2 Re C, -2 Im C). */

static void abar_dense(const S4Coefs *coefs, int64_t pairs, double *m)
{
    int64_t n = 2 * pairs;
    for (int64_t col = 0; col < n; col++) { /* Abar times a unit vector: one step without input */
        int64_t        at = col % pairs;
        double complex x = col < pairs ? 1 : I, e = 2 * coefs->e[at] * x;
        double         sigma = creal(conj(coefs->p[at]) * e);
        for (int64_t i = 0; i < pairs; i++) {
            double complex to = (i == at ? e - x : 0) - coefs->f[i] * sigma;
            m[i * n + col] = creal(to);
            m[(i + pairs) * n + col] = cimag(to);
        }
    }
}

/* to = a b, in tiles of 4 x 16 whose sums stay in registers; n need not be a multiple of either. */
static void square_times(int64_t n, double *restrict to, const double *restrict a,
                         const double *restrict b)
{
    enum { ROWS = 4, COLS = 16 };
    for (int64_t j0 = 0; j0 < n; j0 += COLS)
        for (int64_t i0 = 0; i0 < n; i0 += ROWS) {
            int64_t rows = n - i0 < ROWS ? n - i0 : ROWS, cols = n - j0 < COLS ? n - j0 : COLS;
            double  sums[ROWS][COLS] = { { 0 } };
            for (int64_t k = 0; rows == ROWS && cols == COLS && k < n; k++)
                for (int i = 0; i < ROWS; i++)
#pragma omp simd
                    for (int j = 0; j < COLS; j++)
                        sums[i][j] += a[(i0 + i) * n + k] * b[k * n + j0 + j];
            for (int64_t k = 0; (rows < ROWS || cols < COLS) && k < n; k++)
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < cols; j++)
                        sums[i][j] += a[(i0 + i) * n + k] * b[k * n + j0 + j];
            for (int64_t i = 0; i < rows; i++)
                memcpy(to + (i0 + i) * n + j0, sums[i], (size_t)cols * sizeof *to);
        }
}

/* m becomes I - m^length. */
static void one_less_power(int64_t n, double *m, int64_t length, double *spare)
{
    double *base = spare, *result = spare + n * n, *free_one = spare + 2 * n * n, *swap;
    memcpy(base, m, (size_t)(n * n) * sizeof *m);
    memset(result, 0, (size_t)(n * n) * sizeof *m);
    for (int64_t i = 0; i < n; i++)
        result[i * n + i] = 1;
    for (; length > 0; length /= 2) {
        if (length % 2) {
            square_times(n, free_one, result, base);
            swap = result, result = free_one, free_one = swap;
        }
        if (length > 1) {
            square_times(n, free_one, base, base);
            swap = base, base = free_one, free_one = swap;
        }
    }
    for (int64_t i = 0; i < n * n; i++)
        m[i] = (i / n == i % n ? 1 : 0) - result[i];
}

static void row_times(int64_t n, const double *row, const double *m, double *out)
{
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            out[j] += row[i] * m[i * n + j];
}

/* Solves x m = row for x, in row, by elimination of columns with pivots from each row. Overwrites
 * m. Returns false if m is singular. */
static bool row_solve(int64_t n, double *row, double *m)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++)
            if (fabs(m[i * n + j]) > fabs(m[i * n + best]))
                best = j;
        if (!(fabs(m[i * n + best]) > 0) || !isfinite(m[i * n + best]))
            return false;
        for (int64_t k = 0; best != i && k < n; k++) {
            double swap = m[k * n + i];
            m[k * n + i] = m[k * n + best];
            m[k * n + best] = swap;
        }
        double swap = row[i];
        row[i] = row[best];
        row[best] = swap;
        for (int64_t j = i + 1; j < n; j++) {
            double factor = m[i * n + j] / m[i * n + i];
            row[j] -= factor * row[i];
            for (int64_t k = i; k < n; k++)
                m[k * n + j] -= factor * m[k * n + i];
        }
    }
    for (int64_t i = n - 1; i >= 0; i--) { /* m is lower triangular now */
        for (int64_t k = i + 1; k < n; k++)
            row[i] -= row[k] * m[k * n + i];
        row[i] /= m[i * n + i];
    }
    return true;
}

/* For every channel: C from C~ for length `from` (0: it is C already), then C~ for length `to` (0:
 * keep C). */
static Err c_between(Pool *parent, const S4Params *params, int64_t from, int64_t to, double *out)
{
    int64_t  n = 2 * params->pairs, bad = -1;
    Pool    *pool = pool_new(parent, "s4");
    int      threads = omp_get_max_threads();
    double  *room = NEWN(pool, double, (4 * n + 2) * n * threads);
    S4Coefs *coefs = NEWN(pool, S4Coefs, threads);
    for (int i = 0; i < threads; i++)
        coefs[i] = coefs_new(pool, params->pairs);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t h = 0; h < params->channels; h++) {
        double *m = room + omp_get_thread_num() * (4 * n * n + 2 * n), *spare = m + n * n,
               *row = spare + 3 * n * n;
        double  *next = row + n;
        S4Coefs *mine = &coefs[omp_get_thread_num()];
        s4_coefs(params, h, mine);
        for (int64_t i = 0; i < params->pairs; i++) {
            double complex c = pair_at(params->c, h * params->pairs + i);
            row[i] = 2 * creal(c);
            row[i + params->pairs] = -2 * cimag(c);
        }
        if (from > 0) {
            abar_dense(mine, params->pairs, m);
            one_less_power(n, m, from, spare);
            if (!row_solve(n, row, m)) {
#pragma omp critical
                bad = bad < 0 || h < bad ? h : bad;
            }
        }
        if (to > 0) {
            abar_dense(mine, params->pairs, m);
            one_less_power(n, m, to, spare);
            row_times(n, row, m, next);
            memcpy(row, next, (size_t)n * sizeof *row);
        }
        for (int64_t i = 0; i < params->pairs; i++) {
            out[2 * (h * params->pairs + i)] = row[i] / 2;
            out[2 * (h * params->pairs + i) + 1] = -row[i + params->pairs] / 2;
        }
    }
    pool_free(pool);
    return bad < 0
               ? OK
               : fail(E_NUMBER,
                      "S4 channel %lld: C cannot be recovered, because I - Abar^%lld is singular",
                      (long long)bad, (long long)from);
}

static Err c_between_float(const S4Params *params, int64_t from, int64_t to, float *out)
{
    int64_t count = 2 * params->channels * params->pairs;
    Pool   *pool = pool_new(NULL, "s4");
    double *c = NEWN(pool, double, count);
    Err     err = c_between(pool, params, from, to, c);
    for (int64_t i = 0; !err && i < count; i++)
        out[i] = (float)c[i];
    pool_free(pool);
    return err;
}

void s4_c_store(const S4Params *params, int64_t length, float *out)
{
    REQUIRE(c_between_float(params, 0, length, out) == OK); /* nothing to invert */
}

Err s4_c_recover(const S4Params *params, int64_t length, float *out)
{
    return c_between_float(params, length, 0, out);
}

Err s4_c_convert(const S4Params *params, int64_t from, int64_t to, float *out)
{
    return c_between_float(params, from, to, out);
}

/* ---- one time step ---- */

Err s4_step_new(Pool *pool, const S4Params *params, int64_t length, S4Step **step)
{
    int64_t channels = params->channels, pairs = params->pairs, count = 2 * channels * pairs;
    S4Step *s = NEW(pool, S4Step);
    Pool   *temporary = pool_new(pool, "s4");
    S4Coefs coefs = coefs_new(temporary, pairs);
    double *c = NEWN(temporary, double, count);
    TRY(c_between(temporary, params, length, 0, c));
    *s = (S4Step){ .channels = channels,
                   .pairs = pairs,
                   .e = NEWN(pool, double, count),
                   .f = NEWN(pool, double, count),
                   .b = NEWN(pool, double, count),
                   .c = NEWN(pool, double, count),
                   .p = NEWN(pool, double, 2 * pairs) };
    for (int64_t h = 0; h < channels; h++) {
        s4_coefs(params, h, &coefs);
        for (int64_t n = 0; n < pairs; n++) {
            int64_t re = 2 * n * channels + h, im = re + channels;
            s->e[re] = creal(coefs.e[n]), s->e[im] = cimag(coefs.e[n]);
            s->f[re] = creal(coefs.f[n]), s->f[im] = cimag(coefs.f[n]);
            s->b[re] = creal(coefs.b[n]), s->b[im] = cimag(coefs.b[n]);
            s->c[re] = c[2 * (h * pairs + n)], s->c[im] = c[2 * (h * pairs + n) + 1];
            s->p[2 * n] = creal(coefs.p[n]), s->p[2 * n + 1] = cimag(coefs.p[n]);
        }
    }
    pool_free(temporary);
    *step = s;
    return OK;
}

void s4_step(const S4Step *s, double *state, double *sums, const float *u, float *y)
{
    int64_t channels = s->channels;
    memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int64_t n = 0; n < s->pairs; n++) { /* e - x into the state, Re-sum conj(P) e into sums */
        const double *e = s->e + 2 * n * channels, *b = s->b + 2 * n * channels, *p = s->p + 2 * n;
        double       *x = state + 2 * n * channels;
#pragma omp simd
        for (int64_t h = 0; h < channels; h++) {
            double w_re = 2 * x[h] + b[h] * (double)u[h],
                   w_im = 2 * x[h + channels] + b[h + channels] * (double)u[h];
            double e_re = e[h] * w_re - e[h + channels] * w_im,
                   e_im = e[h] * w_im + e[h + channels] * w_re;
            sums[h] += p[0] * e_re + p[1] * e_im;
            x[h] = e_re - x[h];
            x[h + channels] = e_im - x[h + channels];
        }
    }
    for (int64_t n = 0; n < s->pairs; n++) {
        const double *f = s->f + 2 * n * channels;
        double       *x = state + 2 * n * channels;
#pragma omp simd
        for (int64_t h = 0; h < channels; h++) {
            x[h] -= f[h] * sums[h];
            x[h + channels] -= f[h + channels] * sums[h];
        }
    }
    memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int64_t n = 0; n < s->pairs; n++) {
        const double *c = s->c + 2 * n * channels, *x = state + 2 * n * channels;
#pragma omp simd
        for (int64_t h = 0; h < channels; h++)
            sums[h] += 2 * (c[h] * x[h] - c[h + channels] * x[h + channels]);
    }
    for (int64_t h = 0; h < channels; h++)
        y[h] = (float)sums[h];
}
