/* quality.c -- PSNR and SSIM against their definitions, written out plainly. */
#include "test.h"

#include "base/random.h"
#include "evaluate/quality.h"

#include <stdlib.h>

enum { H = 19, W = 23, C = 3 };

static void images_make(unsigned char *a, unsigned char *b, int n)
{
    for (int i = 0; i < n; i++) {
        a[i] = (unsigned char)random_below_at((RandomKey){ .seed = 1 }, (uint64_t)i, 256);
        int x = a[i] + (int)random_below_at((RandomKey){ .seed = 2 }, (uint64_t)i, 60) - 30;
        b[i] = (unsigned char)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
}

static double value_of(const unsigned char *p, int c)
{
    return c >= 0 ? p[c] : 16 + (65.481 * p[0] + 128.553 * p[1] + 24.966 * p[2]) / 255;
}

/* SSIM with its window in two dimensions. c -1: luma */
static double plain_ssim(const unsigned char *a, const unsigned char *b, int c)
{
    double total = 0, norm = 0;
    int    n = 0;
    for (int i = 0; i < 121; i++)
        norm += exp(-(pow(i / 11 - 5, 2) + pow(i % 11 - 5, 2)) / 4.5);
    for (int y = 0; y + 11 <= H; y++)
        for (int x = 0; x + 11 <= W; x++, n++) {
            double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
            for (int pass = 0; pass < 2; pass++)
                for (int i = 0; i < 121; i++) {
                    int    at = ((y + i / 11) * W + x + i % 11) * C;
                    double w = exp(-(pow(i / 11 - 5, 2) + pow(i % 11 - 5, 2)) / 4.5) / norm;
                    double p = value_of(a + at, c), q = value_of(b + at, c);
                    ma += pass ? 0 : w * p;
                    mb += pass ? 0 : w * q;
                    aa += pass ? w * (p - ma) * (p - ma) : 0;
                    bb += pass ? w * (q - mb) * (q - mb) : 0;
                    ab += pass ? w * (p - ma) * (q - mb) : 0;
                }
            total += (2 * ma * mb + 6.5025) * (2 * ab + 58.5225) /
                     ((ma * ma + mb * mb + 6.5025) * (aa + bb + 58.5225));
        }
    return total / n;
}

static void as_defined(void)
{
    Pool         *pool = pool_new(NULL, "quality");
    unsigned char a[H * W * C], b[H * W * C];
    images_make(a, b, H * W * C);
    Quality q = quality_of(pool, &(Levels8){ a, H, W, C }, &(Levels8){ b, H, W, C });
    double  mean = 0, luma = 0;
    for (int i = 0; i < H * W * C; i++)
        mean += pow((double)a[i] - b[i], 2) / (H * W * C);
    for (int i = 0; i < H * W; i++)
        luma += pow(value_of(a + i * C, -1) - value_of(b + i * C, -1), 2) / (H * W);
    CHECK_NEAR(q.psnr, 10 * log10(65025 / mean), 1e-9);
    CHECK_NEAR(q.psnr_y, 10 * log10(65025 / luma), 1e-9);
    CHECK_NEAR(q.ssim, (plain_ssim(a, b, 0) + plain_ssim(a, b, 1) + plain_ssim(a, b, 2)) / 3, 1e-9);
    CHECK_NEAR(q.ssim_y, plain_ssim(a, b, -1), 1e-9);
    pool_free(pool);
}

static void at_the_ends(void)
{
    Pool         *pool = pool_new(NULL, "quality");
    unsigned char a[H * W * C], b[H * W * C];
    images_make(a, b, H * W * C);
    Quality q = quality_of(pool, &(Levels8){ a, H, W, C }, &(Levels8){ a, H, W, C });
    CHECK(isinf(q.psnr) && isinf(q.psnr_y));
    CHECK_NEAR(q.ssim, 1, 1e-12);
    q = quality_of(pool, &(Levels8){ a, 10, 12, C }, &(Levels8){ b, 10, 12, C });
    CHECK(isnan(q.ssim) && isnan(q.ssim_y) && q.psnr > 0); /* smaller than the window */
    q = quality_of(pool, &(Levels8){ a, H, W, 1 }, &(Levels8){ b, H, W, 1 });
    CHECK(q.psnr == q.psnr_y && q.ssim == q.ssim_y);
    memset(a, 0, sizeof a);
    memset(b, 255, sizeof b);
    q = quality_of(pool, &(Levels8){ a, H, W, C }, &(Levels8){ b, H, W, C });
    CHECK_NEAR(q.psnr, 0, 1e-12);
    CHECK_NEAR(q.psnr_y, 10 * log10(65025.0 / (219 * 219)), 1e-9); /* 16 against 235 */
    pool_free(pool);
}

int main(void)
{
    RUN(as_defined);
    RUN(at_the_ends);
    return test_end();
}
