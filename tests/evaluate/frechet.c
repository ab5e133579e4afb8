/* frechet.c -- the distance where it is known by hand: independent features, equal sets, a singular
 * covariance, rotated sets; and what is refused. tests/py/evaluate.py compares with numpy. */
#include "test.h"

#include "base/random.h"
#include "evaluate/frechet.h"

enum { N = 400 };

static Npy npy_of(const double *x, int64_t n, int64_t d)
{
    return (Npy){ .type = NPY_F8, .rank = 2, .shape = { n, d }, .count = n * d, .data = x };
}

/* Column j: +-a[j] with every combination of signs of the columns equally often, around m[j]. */
static void signs(double *to, int d, const double *a, const double *m)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < d; j++)
            to[i * d + j] = m[j] + (i >> j & 1 ? a[j] : -a[j]);
}

static double distance(Pool *pool, const double *x, const double *y, int64_t d)
{
    Frechet f = { .distance = -1 };
    Npy     a = npy_of(x, N, d), b = npy_of(y, N, d);
    CHECK_OK(frechet_distance(pool, "a", &a, "b", &b, &f));
    return f.distance;
}

static void independent(void)
{
    Pool  *pool = pool_new(NULL, "frechet");
    double x[N * 4], y[N * 4], a[] = { 1, 2, 3, 0 }, b[] = { 2, 0.5, 3, 1 };
    double m[] = { 0, 1, 2, 3 }, z[] = { 1, 1, 4, 3 }, want = 1 + 4, k = sqrt(N / (N - 1.0));
    signs(x, 4, a, m);
    signs(y, 4, b, z);
    for (int j = 0; j < 4; j++)
        want += pow(k * (a[j] - b[j]), 2); /* a feature without spread among them */
    CHECK_NEAR(distance(pool, x, y, 4), want, 1e-9);
    CHECK_NEAR(distance(pool, y, x, 4), want, 1e-9);
    CHECK_NEAR(distance(pool, x, x, 4), 0, 1e-6);
    for (int i = 0; i < N; i++) /* both rotated in the first two features: the same distance */
        for (int s = 0; s < 2; s++) {
            double *p = (s ? y : x) + 4 * i, u = p[0], v = p[1];
            p[0] = 0.6 * u - 0.8 * v;
            p[1] = 0.8 * u + 0.6 * v;
        }
    CHECK_NEAR(distance(pool, x, y, 4), want, 1e-9);
    pool_free(pool);
}

/* One feature: (m1 - m2)^2 + (s1 - s2)^2. */
static void one_feature(void)
{
    Pool   *pool = pool_new(NULL, "frechet");
    double  x[] = { 1, 3 }, y[] = { 10, 10, 16 };
    Frechet f;
    Npy     a = npy_of(x, 2, 1), b = npy_of(y, 3, 1);
    CHECK_OK(frechet_distance(pool, "a", &a, "b", &b, &f));
    CHECK_NEAR(f.distance, 100 + pow(sqrt(2) - sqrt(12), 2), 1e-12);
    CHECK_INT(f.n[1], 3);
    pool_free(pool);
}

/* More features than samples: both covariances are singular. Sets that differ by a shift only. */
static void singular(void)
{
    enum { FEW = 7, MANY = 300 };
    Pool   *pool = pool_new(NULL, "frechet");
    double *x = NEWN(pool, double, 2 * FEW * MANY), *y = x + FEW * MANY;
    Frechet f;
    for (int i = 0; i < FEW * MANY; i++) {
        x[i] = (double)random_normal_at((RandomKey){ .seed = 5 }, (uint64_t)i);
        y[i] = x[i] + 0.5;
    }
    Npy a = npy_of(x, FEW, MANY), b = npy_of(y, FEW, MANY);
    CHECK_OK(frechet_distance(pool, "a", &a, "b", &b, &f));
    CHECK_NEAR(f.mean_term, 0.25 * MANY, 1e-9);
    CHECK_NEAR(f.trace_term, 0, 1e-6 * MANY);
    pool_free(pool);
}

static void refuses(void)
{
    Pool   *pool = pool_new(NULL, "frechet");
    double  x[] = { 1, 2, 3, NAN, 5, 6 };
    Frechet f;
    Npy     a = npy_of(x, 3, 2), b = npy_of(x, 2, 3), one = npy_of(x, 1, 2), good = npy_of(x, 3, 1);
    CHECK_INT(frechet_distance(pool, "a", &good, "b", &a, &f), E_NUMBER);
    CHECK(strstr(err_text(), "feature 1 of sample 1") != NULL);
    x[3] = 4;
    CHECK_INT(frechet_distance(pool, "a", &a, "b", &b, &f), E_USAGE);
    CHECK_INT(frechet_distance(pool, "a", &a, "b", &one, &f), E_USAGE);
    a.rank = 1;
    CHECK_INT(frechet_distance(pool, "a", &a, "b", &b, &f), E_USAGE);
    a.rank = 2;
    a.type = NPY_I8;
    CHECK_INT(frechet_distance(pool, "a", &a, "b", &b, &f), E_USAGE);
    pool_free(pool);
}

int main(void)
{
    RUN(independent);
    RUN(one_feature);
    RUN(singular);
    RUN(refuses);
    return test_end();
}
