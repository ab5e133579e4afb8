/* degrade.c -- each degradation by itself, and edges where they should be. */
#include "test.h"

#include "data/degrade.h"
#include "data/draw.h"

#include <stdlib.h>

enum { S = 48, N = S * S * 3 };

static Pool *pool;
static Work  work;
static float good[N], bad[N];

static void scene(void)
{
    draw_image((RandomKey){ .seed = 5, .stream = 77, .step = 1 }, S, S, 3, good);
    for (int i = 0; i < N; i++)
        good[i] = good[i] * 0.5f + 0.5f;
}

static double off(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / N);
}

static double mean(const float *x)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += (double)x[i];
    return sum / N;
}

static void kernels_keep_the_light(void)
{
    Kernel2 k;
    for (uint32_t trial = 0; trial < 200; trial++) {
        Dice dice = { { .seed = 1, .stream = 2, .step = trial }, 0 };
        kernel_blur(&dice, 3, &k);
        double sum = 0;
        for (int i = 0; i < k.size * k.size; i++) {
            CHECK(isfinite(k.at[i]));
            sum += (double)k.at[i];
        }
        CHECK_NEAR(sum, 1, 1e-5);
        CHECK(k.size % 2 == 1 && k.size >= 7 && k.size <= KERNEL_MAX);
        for (int i = 0; i < k.size * k.size / 2; i++) /* point-symmetric about the centre */
            CHECK_NEAR(k.at[i], k.at[k.size * k.size - 1 - i], 1e-6);
        if (trial < 20) {
            blur(good, S, S, &k, bad, &work);
            CHECK_NEAR(mean(bad), mean(good), 0.02);
        }
    }
    kernel_sinc(3.14159265f, 21, &k); /* passes nearly everything: mostly its centre */
    CHECK(k.at[220] > 0.5f);
    kernel_sinc(1.0f, 21, &k);
    CHECK(k.at[220] < 0.1f);
    float flat[N], out[N];
    for (int i = 0; i < N; i++)
        flat[i] = 0.25f;
    blur(flat, S, S, &k, out, &work);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(out[i], 0.25, 1e-5);
    blur(flat, 3, 2, &k, out, &work); /* smaller than the kernel */
    CHECK_NEAR(out[0], 0.25, 1e-5);
}

static void jpeg_loses_more_at_lower_quality(void)
{
    double before = 0;
    for (int quality = 100; quality >= 10; quality -= 30) {
        memcpy(bad, good, sizeof good);
        jpeg_loss(bad, S, S, quality);
        CHECK(off(good, bad) > before);
        before = off(good, bad);
    }
    CHECK(before > 0.01 && before < 0.2);
    for (int i = 0; i < N; i++)
        bad[i] = 128 / 255.0f;
    jpeg_loss(bad, S - 3, S - 5, 75); /* odd sizes; grey stays grey */
    for (int i = 0; i < (S - 3) * (S - 5) * 3; i++)
        CHECK_NEAR(bad[i], 128 / 255.0, 1e-6);
}

static void sharpened_where_there_is_detail(void)
{
    work.used = 0;
    sharpen(good, S, S, bad, &work);
    CHECK(off(good, bad) > 0.005 && off(good, bad) < 0.2);
    float flat[N];
    for (int i = 0; i < N; i++)
        flat[i] = 0.4f;
    sharpen(flat, S, S, bad, &work);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(bad[i], 0.4, 1e-5);
    CHECK_INT(work.used, 0);
}

static void the_whole_chain(void)
{
    double least = 1, most = 0;
    for (uint32_t trial = 0; trial < 60; trial++) {
        Dice dice = { { .seed = 9, .stream = 2, .step = trial }, 0 };
        work.used = 0;
        degrade(good, S, S, bad, &dice, &work);
        for (int i = 0; i < N; i++)
            CHECK(bad[i] >= 0 && bad[i] <= 1);
        CHECK_NEAR(mean(bad), mean(good), 0.08);
        least = fmin(least, off(good, bad));
        most = fmax(most, off(good, bad));
    }
    CHECK(least > 0.01 && most > 2 * least && most < 0.4);
    float tiny[5 * 7 * 3] = { 0.5f }, out[5 * 7 * 3]; /* less than a block, less than a kernel */
    for (uint32_t trial = 0; trial < 20; trial++)
        degrade(tiny, 5, 7, out, &(Dice){ { .seed = 9, .stream = 3, .step = trial }, 0 }, &work);
}

static void edges_of_a_box(void)
{
    static uint8_t edges[S * S];
    int            on_border = 0, elsewhere = 0;
    for (int i = 0; i < N; i++)
        good[i] = i / 3 % S >= 12 && i / 3 % S < 36 && i / 3 / S >= 12 && i / 3 / S < 36 ? 0.9f
                                                                                         : 0.1f;
    work.used = 0;
    canny(good, S, S, edges, &work);
    for (int p = 0; p < S * S; p++) {
        int x = p % S, y = p / S, near_x = abs(x - 12) <= 1 || abs(x - 36) <= 1,
            near_y = abs(y - 12) <= 1 || abs(y - 36) <= 1;
        int border = (near_x && y >= 11 && y <= 37) || (near_y && x >= 11 && x <= 37);
        on_border += edges[p] && border;
        elsewhere += edges[p] && !border;
    }
    CHECK_INT(elsewhere, 0);
    CHECK(on_border >= 84 && on_border <= 110); /* one pixel wide, all round 4 x 24 */
    for (int i = 0; i < N; i++)
        good[i] = 0.5f + 0.05f * (float)(i / 3 % S) / S; /* a gentle slope has none */
    canny(good, S, S, edges, &work);
    for (int p = 0; p < S * S; p++)
        CHECK_INT(edges[p], 0);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    size_t n = degrade_work(S, S) + 8 * N * sizeof(float);
    work = (Work){ .at = pool_alloc(pool, n, 1), .n = n };
    scene();
    RUN(kernels_keep_the_light);
    RUN(jpeg_loses_more_at_lower_quality);
    RUN(sharpened_where_there_is_detail);
    RUN(the_whole_chain);
    RUN(edges_of_a_box);
    pool_free(pool);
    return test_end();
}
