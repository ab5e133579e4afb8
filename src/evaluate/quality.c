/* quality.c -- PSNR and SSIM. */
#include "evaluate/quality.h"

#include "base/err.h"

#include <math.h>

enum { MOMENTS = 5, RADIUS = SSIM_WINDOW / 2 }; /* of x, y: x, y, xx, yy, xy */

typedef struct PlanePair { /* one channel of both images */
    int64_t       height, width;
    const double *x, *y;
} PlanePair;

static double mean_square(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sum / (double)n;
}

static double psnr_of(double mean) { return mean > 0 ? 10 * log10(255 * 255 / mean) : INFINITY; }

static void window_weights(double *to)
{
    double sum = 0;
    for (int i = 0; i < SSIM_WINDOW; i++)
        sum += to[i] = exp(-0.5 * (i - RADIUS) * (i - RADIUS) / (1.5 * 1.5));
    for (int i = 0; i < SSIM_WINDOW; i++)
        to[i] /= sum;
}

/* The moments of row y, weighted along x: (MOMENTS, width - SSIM_WINDOW + 1). */
static void row_moments(const PlanePair *p, int64_t row, const double *weights, double *to)
{
    int64_t       n = p->width - SSIM_WINDOW + 1;
    const double *x = p->x + row * p->width, *y = p->y + row * p->width;
    for (int64_t i = 0; i < n; i++) {
        double sum[MOMENTS] = { 0 };
        for (int k = 0; k < SSIM_WINDOW; k++) {
            double a = x[i + k], b = y[i + k], w = weights[k];
            sum[0] += w * a;
            sum[1] += w * b;
            sum[2] += w * a * a;
            sum[3] += w * b * b;
            sum[4] += w * a * b;
        }
        for (int m = 0; m < MOMENTS; m++)
            to[m * n + i] = sum[m];
    }
}

static double ssim_at(const double moment[MOMENTS])
{
    double c1 = 0.01 * 255 * (0.01 * 255), c2 = 0.03 * 255 * (0.03 * 255);
    double a = moment[0], b = moment[1];
    double aa = moment[2] - a * a, bb = moment[3] - b * b, ab = moment[4] - a * b;
    return (2 * a * b + c1) * (2 * ab + c2) / ((a * a + b * b + c1) * (aa + bb + c2));
}

static double plane_ssim(Pool *pool, const PlanePair *p)
{
    int64_t n = p->width - SSIM_WINDOW + 1, rows = p->height - SSIM_WINDOW + 1;
    double  weights[SSIM_WINDOW], total = 0;
    if (n < 1 || rows < 1)
        return NAN;
    window_weights(weights);
    Pool   *work = pool_new(pool, "ssim");
    double *moments = NEWN(work, double, p->height *MOMENTS *n);
    for (int64_t y = 0; y < p->height; y++)
        row_moments(p, y, weights, moments + y * MOMENTS * n);
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < n; x++) {
            double moment[MOMENTS] = { 0 };
            for (int k = 0; k < SSIM_WINDOW; k++)
                for (int m = 0; m < MOMENTS; m++)
                    moment[m] += weights[k] * moments[((y + k) * MOMENTS + m) * n + x];
            total += ssim_at(moment);
        }
    pool_free(work);
    return total / (double)(n * rows);
}

/* Channel c, or the luma of three channels if c < 0. */
static double *plane_of(Pool *pool, const Levels8 *image, int64_t c)
{
    int64_t n = image->height * image->width, step = image->channels;
    double *to = NEWN(pool, double, n);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *at = image->at + i * step;
        to[i] = c >= 0 ? at[c] : 16 + (65.481 * at[0] + 128.553 * at[1] + 24.966 * at[2]) / 255;
    }
    return to;
}

static void plane_compare(Pool *pool, const Levels8 *image, const Levels8 *truth, int64_t c,
                          double *mean, double *ssim)
{
    Pool     *work = pool_new(pool, "plane");
    PlanePair p = { image->height, image->width, plane_of(work, image, c),
                    plane_of(work, truth, c) };
    *mean = mean_square(p.x, p.y, p.height * p.width);
    *ssim = plane_ssim(work, &p);
    pool_free(work);
}

Quality quality_of(Pool *pool, const Levels8 *image, const Levels8 *truth)
{
    Quality q = { 0 };
    int64_t channels = image->channels;
    double  all = 0, mean, ssim;
    REQUIRE(image->height == truth->height && image->width == truth->width &&
            channels == truth->channels && (channels == 1 || channels == 3));
    for (int64_t c = 0; c < channels; c++) {
        plane_compare(pool, image, truth, c, &mean, &ssim);
        all += mean / (double)channels;
        q.ssim += ssim / (double)channels;
    }
    q.psnr = q.psnr_y = psnr_of(all);
    q.ssim_y = q.ssim;
    if (channels == 3) {
        plane_compare(pool, image, truth, -1, &mean, &q.ssim_y);
        q.psnr_y = psnr_of(mean);
    }
    return q;
}
