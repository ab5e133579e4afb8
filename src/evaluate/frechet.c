/* frechet.c -- means, covariances, a pivoted Cholesky factor, and eigenvalues by tridiagonalisation
 * (Householder) and the implicit QL method (Golub and Van Loan, 8.3). */
#include "evaluate/frechet.h"

#include "base/int_math.h"

#include <math.h>
#include <string.h>

enum { TILE_ROWS = 4, TILE_COLS = 8, BLOCK = 256, QL_ROUNDS = 60 };

/* ---- products ---- */

/* `k` rows of a (k,n) in tiles of `width` columns, each (k,width), the last filled with zeros. */
static void tiles_pack(const double *a, int64_t k, int64_t n, int width, double *to)
{
    for (int64_t j = 0; j < n; j += width, to += k * width)
        for (int64_t r = 0; r < k; r++)
            for (int i = 0; i < width; i++)
                to[r * width + i] = j + i < n ? a[r * n + j + i] : 0;
}

static void tile_add(int64_t k, const double *restrict a, const double *restrict b, double *c,
                     int64_t stride, int64_t rows, int64_t cols)
{
    double sums[TILE_ROWS][TILE_COLS] = { { 0 } };
    for (int64_t r = 0; r < k; r++)
        for (int i = 0; i < TILE_ROWS; i++)
#pragma omp simd
            for (int j = 0; j < TILE_COLS; j++)
                sums[i][j] += a[r * TILE_ROWS + i] * b[r * TILE_COLS + j];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            c[i * stride + j] += sums[i][j];
}

/* c (n_a,n_b) += a^T b of a (k,n_a), b (k,n_b). The order of additions does not depend on the number
 * of threads. */
static void add_product(Pool *pool, int64_t k, const double *a, int64_t n_a, const double *b,
                        int64_t n_b, double *c)
{
    Pool   *work = pool_new(pool, "product");
    double *tiles_a = NEWN(work, double, (BLOCK * align_up(n_a, TILE_ROWS)));
    double *tiles_b = NEWN(work, double, (BLOCK * align_up(n_b, TILE_COLS)));
    for (int64_t at = 0; at < k; at += BLOCK) {
        int64_t rows = int_min(BLOCK, k - at);
        tiles_pack(a + at * n_a, rows, n_a, TILE_ROWS, tiles_a);
        tiles_pack(b + at * n_b, rows, n_b, TILE_COLS, tiles_b);
#pragma omp parallel for schedule(static)
        for (int64_t j = 0; j < n_b; j += TILE_COLS)
            for (int64_t i = 0; i < n_a; i += TILE_ROWS)
                tile_add(rows, tiles_a + i * rows, tiles_b + j * rows, c + i * n_b + j, n_b,
                         int_min(TILE_ROWS, n_a - i), int_min(TILE_COLS, n_b - j));
    }
    pool_free(work);
}

/* ---- features ---- */

static double feature_at(const Npy *x, int64_t i)
{
    float  narrow;
    double wide;
    if (x->type == NPY_F8) {
        memcpy(&wide, (const char *)x->data + i * 8, 8);
        return wide;
    }
    memcpy(&narrow, (const char *)x->data + i * 4, 4);
    return (double)narrow;
}

static Err features_check(const char *name, const Npy *x)
{
    if ((x->type != NPY_F4 && x->type != NPY_F8) || x->rank != 2)
        return fail(E_USAGE,
                    "%s holds %s with %d axes; features are float32 or float64 of shape "
                    "(samples, features)",
                    name, npy_type_name(x->type), x->rank);
    if (x->shape[0] < 2 || x->shape[1] < 1)
        return fail(E_USAGE,
                    "%s holds %lld samples of %lld features; a covariance needs at least 2 samples",
                    name, (long long)x->shape[0], (long long)x->shape[1]);
    if (x->shape[1] > FRECHET_MAX)
        return fail(E_USAGE, "%s has %lld features; at most %d are supported", name,
                    (long long)x->shape[1], FRECHET_MAX);
    for (int64_t i = 0; i < x->count; i++)
        if (!isfinite(feature_at(x, i)))
            return fail(E_NUMBER, "%s: feature %lld of sample %lld is not finite", name,
                        (long long)(i % x->shape[1]), (long long)(i / x->shape[1]));
    return OK;
}

static void features_mean(const Npy *x, double *mean)
{
    int64_t n = x->shape[0], d = x->shape[1];
    memset(mean, 0, (size_t)d * sizeof *mean);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++)
            mean[j] += feature_at(x, i * d + j);
    for (int64_t j = 0; j < d; j++)
        mean[j] /= (double)n;
}

static void features_covariance(Pool *pool, const Npy *x, const double *mean, double *to)
{
    int64_t n = x->shape[0], d = x->shape[1];
    Pool   *work = pool_new(pool, "covariance");
    double *block = NEWN(work, double, BLOCK *d);
    memset(to, 0, (size_t)(d * d) * sizeof *to);
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t rows = int_min(BLOCK, n - at);
        for (int64_t i = 0; i < rows * d; i++)
            block[i] = feature_at(x, at * d + i) - mean[i % d];
        add_product(work, rows, block, d, block, d, to);
    }
    for (int64_t i = 0; i < d * d; i++)
        to[i] /= (double)(n - 1);
    pool_free(work);
}

/* ---- factor ---- */

static void swap_doubles(double *a, double *b)
{
    double old = *a;
    *a = *b;
    *b = old;
}

/* The symmetric matrix c (d,d) with rows and columns i and k exchanged. */
static void exchange(double *c, int64_t d, int64_t i, int64_t k)
{
    for (int64_t j = 0; j < d; j++)
        swap_doubles(&c[i * d + j], &c[k * d + j]);
    for (int64_t j = 0; j < d; j++)
        swap_doubles(&c[j * d + i], &c[j * d + k]);
}

/* Cholesky with the largest remaining diagonal first: l (d,d) is lower triangular and row order[i]
 * of the matrix is l's row i. Stops at its numerical rank, which it returns; columns from there on
 * are 0. Overwrites c. */
static int64_t cholesky(double *c, int64_t d, double *l, int64_t *order)
{
    double first = 0;
    memset(l, 0, (size_t)(d * d) * sizeof *l);
    for (int64_t i = 0; i < d; i++)
        order[i] = i;
    for (int64_t k = 0; k < d; k++) {
        int64_t best = k;
        for (int64_t i = k; i < d; i++)
            best = c[i * d + i] > c[best * d + best] ? i : best;
        double pivot = c[best * d + best];
        first = k ? first : pivot;
        if (!(pivot > first * 1e-15 * (double)d))
            return k;
        exchange(c, d, k, best);
        for (int64_t j = 0; j < k; j++)
            swap_doubles(&l[k * d + j], &l[best * d + j]);
        int64_t row = order[k];
        order[k] = order[best];
        order[best] = row;
        l[k * d + k] = sqrt(pivot);
#pragma omp parallel for schedule(static) if (d - k > 256)
        for (int64_t i = k + 1; i < d; i++) {
            double sum = c[i * d + k];
            for (int64_t j = 0; j < k; j++)
                sum -= l[i * d + j] * l[k * d + j];
            l[i * d + k] = sum / l[k * d + k];
            c[i * d + i] -= l[i * d + k] * l[i * d + k];
        }
    }
    return d;
}

/* ---- eigenvalues ---- */

/* Householder: the symmetric a (n,n) becomes tridiagonal with `diagonal` and `off` (off[i] beside
 * diagonal[i] and diagonal[i+1]). Overwrites a. */
static void tridiagonal(double *a, int64_t n, double *diagonal, double *off, double *v, double *p)
{
    for (int64_t k = 0; k + 1 < n; k++) {
        int64_t m = n - k - 1; /* the block below and to the right of k */
        double *block = a + (k + 1) * n + k + 1, norm = 0, dot = 0;
        for (int64_t i = 0; i < m; i++) {
            v[i] = a[(k + 1 + i) * n + k];
            norm += v[i] * v[i];
        }
        norm = sqrt(norm);
        diagonal[k] = a[k * n + k];
        off[k] = v[0] > 0 ? -norm : norm;
        double beta = norm * (norm + fabs(v[0]));
        if (!(beta > 0))
            continue;
        v[0] -= off[k];
#pragma omp      parallel for schedule(static) if (m > 256)
        for (int64_t i = 0; i < m; i++) {
                 double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < m; j++)
                sum += block[i * n + j] * v[j];
            p[i] = sum / beta;
             }
             for (int64_t i = 0; i < m; i++)
            dot += p[i] * v[i];
        for (int64_t i = 0; i < m; i++)
            p[i] -= dot / (2 * beta) * v[i];
#pragma omp parallel for schedule(static) if (m > 256)
        for (int64_t i = 0; i < m; i++)
#pragma omp simd
            for (int64_t j = 0; j < m; j++)
                block[i * n + j] -= v[i] * p[j] + p[i] * v[j];
    }
    diagonal[n - 1] = a[n * n - 1];
    off[n - 1] = 0;
}

/* One implicit QL step on rows first..last, shifted by Wilkinson's choice. */
static void ql_step(double *diagonal, double *off, int64_t first, int64_t last)
{
    double half = (diagonal[first + 1] - diagonal[first]) / (2 * off[first]);
    double root = hypot(half, 1);
    double g = diagonal[last] - diagonal[first] + off[first] / (half + copysign(root, half));
    double sine = 1, cosine = 1, shift = 0;
    for (int64_t i = last - 1; i >= first; i--) {
        double f = sine * off[i], b = cosine * off[i], r = hypot(f, g);
        off[i + 1] = r;
        if (!(r > 0)) { /* the matrix falls in two */
            diagonal[i + 1] -= shift;
            off[last] = 0;
            return;
        }
        sine = f / r;
        cosine = g / r;
        g = diagonal[i + 1] - shift;
        r = (diagonal[i] - g) * sine + 2 * cosine * b;
        shift = sine * r;
        diagonal[i + 1] = g + shift;
        g = cosine * r - b;
    }
    diagonal[first] -= shift;
    off[first] = g;
    off[last] = 0;
}

/* The eigenvalues, in `diagonal`. False: they were not found, which no finite matrix has shown. */
static bool eigenvalues(double *diagonal, double *off, int64_t n)
{
    for (int64_t first = 0; first < n; first++)
        for (int round = 0;; round++) {
            int64_t last = first;
            while (last + 1 < n &&
                   fabs(off[last]) > 0x1p-52 * (fabs(diagonal[last]) + fabs(diagonal[last + 1])))
                last++;
            if (last == first)
                break;
            if (round == QL_ROUNDS)
                return false;
            ql_step(diagonal, off, first, last);
        }
    return true;
}

/* ---- distance ---- */

/* The sum of the square roots of the eigenvalues of c1 c2. Overwrites c1. */
static Err root_trace(Pool *pool, double *c1, const double *c2, int64_t d, double *out)
{
    double  *l = NEWN(pool, double, d *d), *rows = NEWN(pool, double, d *d);
    int64_t *order = NEWN(pool, int64_t, d);
    int64_t  rank = cholesky(c1, d, l, order);
    *out = 0;
    if (!rank)
        return OK;
    for (int64_t i = 0; i < d; i++) /* back in the matrix's order, and only `rank` columns */
        memcpy(rows + order[i] * rank, l + i * d, (size_t)rank * sizeof *rows);
    double *product = NEWN(pool, double, d *rank), *s = NEWN(pool, double, rank *rank);
    add_product(pool, d, c2, d, rows, rank, product);
    add_product(pool, d, rows, rank, product, rank, s);
    double *diagonal = NEWN(pool, double, rank), *off = NEWN(pool, double, rank);
    tridiagonal(s, rank, diagonal, off, NEWN(pool, double, rank), NEWN(pool, double, rank));
    if (!eigenvalues(diagonal, off, rank))
        return fail(E_NUMBER, "the eigenvalues of %lld features were not found after %d rounds",
                    (long long)rank, QL_ROUNDS);
    for (int64_t i = 0; i < rank; i++)
        *out += sqrt(fmax(diagonal[i], 0));
    return OK;
}

static double trace(const double *c, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += c[i * d + i];
    return sum;
}

Err frechet_distance(Pool *pool, const char *a, const Npy *x, const char *b, const Npy *y,
                     Frechet *out)
{
    TRY(features_check(a, x));
    TRY(features_check(b, y));
    int64_t d = x->shape[1];
    if (y->shape[1] != d)
        return fail(
            E_USAGE,
            "%s has %lld features and %s %lld; take both from the same layer of one network", a,
            (long long)d, b, (long long)y->shape[1]);
    Pool   *work = pool_new(pool, "frechet");
    double *mean = NEWN(work, double, 2 * d), *c1 = NEWN(work, double, d *d);
    double *c2 = NEWN(work, double, d *d), root;
    features_mean(x, mean);
    features_mean(y, mean + d);
    features_covariance(work, x, mean, c1);
    features_covariance(work, y, mean + d, c2);
    *out = (Frechet){ .n = { x->shape[0], y->shape[0] }, .features = d };
    for (int64_t i = 0; i < d; i++)
        out->mean_term += (mean[i] - mean[d + i]) * (mean[i] - mean[d + i]);
    double traces = trace(c1, d) + trace(c2, d);
    Err    err = root_trace(work, c1, c2, d, &root);
    out->trace_term = traces - 2 * (err ? 0 : root);
    out->distance = fmax(out->mean_term + out->trace_term, 0);
    pool_free(work);
    return err;
}

Err frechet_files(Pool *pool, const char *a, const char *b, Frechet *out)
{
    Npy x, y;
    TRY(npy_read(pool, a, &x));
    TRY(npy_read(pool, b, &y));
    return frechet_distance(pool, a, &x, b, &y, out);
}
