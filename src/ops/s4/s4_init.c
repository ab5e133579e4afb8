/* s4_init.c -- HiPPO-LegS by Jacobi's method on the Hermitian matrix -i S. */
#include "ops/s4/s4_init.h"

#include "base/pool.h"

#include <complex.h>
#include <math.h>

enum { MAX_SWEEPS = 60 }; /* about ten are needed */

/* One rotation that makes a[p,q] zero, applied to the columns of v too (Golub and Van Loan, section
 * 8.5, with the phase of a[p,q]). */
static void rotate(int64_t n, double complex *a, double complex *v, int64_t p, int64_t q)
{
    double complex off = a[p * n + q];
    double         size = cabs(off);
    if (size == 0)
        return;
    double complex phase = off / size;
    double         tau = (creal(a[q * n + q]) - creal(a[p * n + p])) / (2 * size);
    double t = (tau < 0 ? -1 : 1) / (fabs(tau) + sqrt(1 + tau * tau)), c = 1 / sqrt(1 + t * t),
           s = t * c;
    for (int64_t i = 0; i < n; i++) {
        double complex x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * conj(phase) * y;
        a[i * n + q] = s * phase * x + c * y;
        x = v[i * n + p], y = v[i * n + q];
        v[i * n + p] = c * x - s * conj(phase) * y;
        v[i * n + q] = s * phase * x + c * y;
    }
    for (int64_t i = 0; i < n; i++) {
        double complex x = a[p * n + i], y = a[q * n + i];
        a[p * n + i] = c * x - s * phase * y;
        a[q * n + i] = s * conj(phase) * x + c * y;
    }
}

/* a becomes diagonal, v holds the eigenvectors in its columns. */
static void eigen_hermitian(int64_t n, double complex *a, double complex *v)
{
    for (int64_t i = 0; i < n; i++)
        v[i * n + i] = 1;
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        double off = 0, all = 0;
        for (int64_t i = 0; i < n * n; i++) {
            double square = creal(a[i] * conj(a[i]));
            all += square;
            off += i / n != i % n ? square : 0;
        }
        if (off <= 1e-30 * all)
            return;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++)
                rotate(n, a, v, p, q);
    }
}

void s4_init(int64_t pairs, float *a_real, float *a_imag, float *b, float *p)
{
    int64_t         n = 2 * pairs;
    Pool           *pool = pool_new(NULL, "hippo");
    double complex *a = NEWN(pool, double complex, (n * n)),
                   *v = NEWN(pool, double complex, (n * n));
    for (int64_t i = 0; i < n; i++) /* S[i,k] = -sqrt((2i+1)(2k+1)) / 2 for i > k */
        for (int64_t k = 0; k < i; k++) {
            double s = -0.5 * sqrt((double)((2 * i + 1) * (2 * k + 1)));
            a[i * n + k] = -I * s;
            a[k * n + i] = I * s;
        }
    eigen_hermitian(n, a, v);
    for (int64_t i = 0; i < pairs; i++) {
        int64_t        at = -1; /* the i-th smallest; those taken become infinity */
        double complex vb = 0, vp = 0;
        for (int64_t k = 0; k < n; k++)
            if (!isinf(creal(a[k * n + k])) &&
                (at < 0 || creal(a[k * n + k]) < creal(a[at * n + at])))
                at = k;
        double         imag = creal(a[at * n + at]);
        double complex phase = conj(v[at]) / cabs(v[at]);
        for (int64_t k = 0; k < n; k++) {
            double complex w = conj(v[k * n + at] * phase);
            vb += w * sqrt((double)(2 * k + 1));
            vp += w * sqrt((double)k + 0.5);
        }
        if (a_real)
            a_real[i] = (float)log(0.5);
        if (a_imag)
            a_imag[i] = (float)-imag;
        if (b)
            b[2 * i] = (float)creal(vb), b[2 * i + 1] = (float)fmax(-2, fmin(2, cimag(vb)));
        if (p)
            p[2 * i] = (float)creal(vp), p[2 * i + 1] = (float)cimag(vp);
        a[at * n + at] = INFINITY;
    }
    pool_free(pool);
}
