/* fft.c -- CPU transforms of many lengths against sums in double precision; which lengths are
 * valid. */
#include "test.h"

#include "base/pool.h"
#include "base/random.h"
#include "ops/fft/fft.h"

#include <stdlib.h>

typedef struct Signal { /* one real signal of up to 16 channels, with its tables and buffers */
    Fft     f;
    FftRows rows;
    FftVec *big, *spectrum, *workspace;
} Signal;

static FftVec *vecs(Pool *pool, int64_t n)
{
    return (FftVec *)(((uintptr_t)pool_alloc(pool, (size_t)n + 1, sizeof(FftVec)) + 63) &
                      ~(uintptr_t)63);
}

static Signal signal_new(Pool *pool, int64_t n, int lanes)
{
    float *table = NEWN(pool, float, fft_table_floats(FFT_REAL, n) + 1);
    fft_table_fill(FFT_REAL, n, table);
    Signal s = { .f = fft_open(FFT_REAL, n, table),
                 .rows = { .stride = lanes + 3, .lanes = lanes } };
    s.rows.p = NEWN(pool, float, (n * s.rows.stride));
    for (int64_t i = 0; i < n * s.rows.stride; i++)
        s.rows.p[i] = random_normal_at((RandomKey){ .seed = 5 }, (uint64_t)i);
    s.big = vecs(pool, fft_signal_vecs(&s.f));
    s.spectrum = vecs(pool, fft_spectrum_vecs(&s.f));
    s.workspace = vecs(pool, fft_workspace_vecs(&s.f));
    return s;
}

/* X_k of one channel by the definition. */
static void naive(const Signal *s, int lane, int64_t k, double *re, double *im)
{
    int64_t n = s->f.n_real;
    *re = *im = 0;
    for (int64_t l = 0; l < n; l++) {
        double x = (double)s->rows.p[l * s->rows.stride + lane];
        double angle = -2 * M_PI * (double)(k * l % n) / (double)n;
        *re += x * cos(angle);
        *im += x * sin(angle);
    }
}

static void one_length(int64_t n, int lanes)
{
    Pool   *pool = pool_new(NULL, "fft");
    Signal  s = signal_new(pool, n, lanes);
    int64_t count = n * s.rows.stride, top = n / 2, step = top > 64 ? top / 23 : 1;
    float  *kept = memcpy(NEWN(pool, float, count), s.rows.p, (size_t)count * sizeof(float));

    fft_real(&s.f, s.rows, s.big, s.spectrum, s.workspace);
    double worst = 0, scale = sqrt((double)n);
    for (int64_t k = 0; k <= top; k += k + step > top && k < top ? top - k : step)
        for (int lane = 0; lane<lanes; lane += lanes> 1 ? lanes - 1 : 1) {
            double re, im;
            naive(&s, lane, k, &re, &im);
            worst = fmax(worst, fabs(re - (double)s.spectrum[2 * k][lane]));
            worst = fmax(worst, fabs(im - (double)s.spectrum[2 * k + 1][lane]));
        }
    if (!(worst < 2e-6 * scale))
        fprintf(stderr, "n = %lld: off by %g of %g\n", (long long)n, worst, scale);
    CHECK(worst < 2e-6 * scale);

    s.spectrum[1] += 3.0f; /* must be ignored */
    if (n % 2 == 0)
        s.spectrum[n + 1] -= 5.0f;
    for (int64_t l = 0; l < n; l++) /* clear the samples, not what lies between the rows */
        memset(s.rows.p + l * s.rows.stride, 0, (size_t)lanes * sizeof(float));
    fft_real_back(&s.f, s.spectrum, s.rows, 1 / (float)n, s.workspace);
    worst = 0;
    for (int64_t i = 0; i < count; i++)
        worst = fmax(worst, fabs((double)s.rows.p[i] - (double)kept[i]));
    CHECK(worst < 4e-6);
    pool_free(pool);
}

static void many_lengths(void)
{
    static const int64_t some[] = { 256,  258,  320,  360,   375,   512,   540,  600,  625,
                                    729,  768,  1000, 1024,  1125,  1458,  1536, 2048, 2187,
                                    3125, 4096, 6144, 15625, 24576, 30000, 49152 };
    for (int64_t n = 1; n <= 250; n++)
        if (fft_valid(n))
            one_length(n, n % 3 == 0 ? 16 : n % 3 == 1 ? 1 : 7);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (fft_valid(some[i]))
            one_length(some[i], i % 2 ? 16 : 3);
}

/* The complex transform in its own order of frequencies, and its inverse, as convolutions use
 * it. */
static void columns_and_rows(void)
{
    static const int64_t lengths[] = { 1, 2, 15, 240, 300, 625, 2880, 24576 };
    for (size_t t = 0; t < sizeof lengths / sizeof *lengths; t++) {
        int64_t n = lengths[t];
        Pool   *pool = pool_new(NULL, "fft");
        float  *table = NEWN(pool, float, fft_table_floats(FFT_ANGLE, n));
        fft_table_fill(FFT_ANGLE, n, table);
        Fft     f = fft_open(FFT_ANGLE, n, table);
        FftVec *big = vecs(pool, fft_signal_vecs(&f)),
               *workspace = vecs(pool, fft_workspace_vecs(&f));
        CHECK_INT(f.n1 * f.n2, n);
        for (int64_t j2 = 0; j2 < f.n2; j2++) {
            for (int64_t i = 0; i < 2 * f.n1; i++)
                for (int lane = 0; lane < FFT_LANES; lane++)
                    workspace[i][lane] = (float)((i * f.n2 + 7 * j2 + 3 * lane) % 13) - 6;
            fft_column(&f, j2, workspace, big, 0);
        }
        fft_rows(&f, big, workspace, 0);
        fft_rows(&f, big, workspace, 1);
        double worst = 0;
        for (int64_t j2 = 0; j2 < f.n2; j2++) {
            const FftVec *col = fft_column_back(&f, j2, big, workspace);
            for (int64_t i = 0; i < 2 * f.n1; i++)
                for (int lane = 0; lane < FFT_LANES; lane++) {
                    double want = (double)((i * f.n2 + 7 * j2 + 3 * lane) % 13) - 6;
                    worst = fmax(worst, fabs((double)col[i][lane] / (double)n - want));
                }
        }
        CHECK(worst < 2e-5);
        pool_free(pool);
    }
}

static void lengths(void)
{
    CHECK(fft_valid(1) && fft_valid(2) && fft_valid(24576) && fft_valid(30375));
    CHECK(!fft_valid(0) && !fft_valid(-4) && !fft_valid(7) && !fft_valid(22) && !fft_valid(24577));
    CHECK_INT(fft_next(7), 8);
    CHECK_INT(fft_next(-3), 1);
    CHECK_INT(fft_next(24577), 25000);
    CHECK_INT(fft_next(49152), 49152);
    CHECK_INT(fft_near(7), 6);
    CHECK_INT(fft_near(23), 24);
    CHECK_INT(fft_near(0), 1);
}

int main(void)
{
    RUN(lengths);
    RUN(many_lengths);
    RUN(columns_and_rows);
    return test_end();
}
