/* degrade.c -- blur, resize, noise: the chain that degrades an image. */
#include "data/degrade.h"

#include "base/stencil.h"

#include <math.h>
#include <string.h>

enum { SHARP_REACH = 25, SHARP_THRESHOLD = 10 };

static const double PI = 3.141592653589793;

/* ---- kernels ---- */

static void kernel_normalise(Kernel2 *k)
{
    double sum = 0;
    for (int i = 0; i < k->size * k->size; i++)
        sum += (double)k->at[i];
    for (int i = 0; i < k->size * k->size; i++)
        k->at[i] = (float)((double)k->at[i] / sum);
}

/* Bessel's J1 as an integral over 64 points, exact to rounding for the arguments used here. */
static double bessel_j1(double x)
{
    double sum = 0;
    for (int i = 0; i < 64; i++) {
        double t = PI * (i + 0.5) / 64;
        sum += cos(t - x * sin(t));
    }
    return sum / 64;
}

void kernel_sinc(float cutoff, int size, Kernel2 *k)
{
    double w = (double)cutoff;
    k->size = size;
    for (int i = 0; i < size * size; i++) {
        double r = hypot(i / size - size / 2, i % size - size / 2);
        k->at[i] = (float)(r > 0 ? w * bessel_j1(w * r) / (2 * PI * r) : w * w / (4 * PI));
    }
    kernel_normalise(k);
}

void kernel_blur(Dice *dice, float sigma_max, Kernel2 *k)
{
    k->size = 7 + 2 * dice_below(dice, 8);
    if (dice_unit(dice) < 0.1f) {
        kernel_sinc(dice_range(dice, k->size < 13 ? (float)PI / 3 : (float)PI / 5, (float)PI),
                    k->size, k);
        return;
    }
    /* Probabilities of isotropic and anisotropic Gaussians, and of their generalised and plateau
     * forms. */
    static const float share[] = { 0.45f, 0.25f, 0.12f, 0.03f, 0.12f, 0.03f };
    float              u = dice_unit(dice);
    int                kind = 0;
    while (kind < 5 && u >= share[kind])
        u -= share[kind++];
    double s1 = (double)dice_range(dice, 0.2f, sigma_max),
           s2 = (double)dice_range(dice, 0.2f, sigma_max);
    double angle = (double)dice_range(dice, -(float)PI, (float)PI), beta = 1;
    if (kind % 2 == 0)
        s2 = s1;
    if (kind == 2 || kind == 3)
        beta = (double)dice_range(dice, 0.5f, 4);
    else if (kind > 3)
        beta = (double)dice_range(dice, 1, 2);
    for (int i = 0; i < k->size * k->size; i++) {
        double y = i / k->size - k->size / 2, x = i % k->size - k->size / 2;
        double a = (x * cos(angle) + y * sin(angle)) / s1,
               b = (y * cos(angle) - x * sin(angle)) / s2, d = a * a + b * b;
        k->at[i] = (float)(kind > 3 ? 1 / (pow(d, beta) + 1) : exp(-0.5 * pow(d, beta)));
    }
    kernel_normalise(k);
}

/* A row with `reach` mirrored pixels added on both sides. */
static void mirrored_row(const float *row, int64_t w, int64_t reach, float *to)
{
    for (int64_t x = 1; x <= reach; x++)
        for (int c = 0; c < 3; c++) {
            to[3 * (reach - x) + c] = row[3 * mirror(-x, w) + c];
            to[3 * (reach + w - 1 + x) + c] = row[3 * mirror(w - 1 + x, w) + c];
        }
    memcpy(to + 3 * reach, row, (size_t)(3 * w) * sizeof *to);
}

void blur(const float *from, int64_t h, int64_t w, const Kernel2 *k, float *to, Work *work)
{
    size_t  used = work->used;
    int64_t half = k->size / 2, stride = 3 * (w + 2 * half);
    float  *wider = work_take(work, (size_t)(h * stride) * sizeof *wider);
    for (int64_t y = 0; y < h; y++)
        mirrored_row(from + y * w * 3, w, half, wider + y * stride);
    for (int64_t y = 0; y < h; y++) {
        const float *rows[KERNEL_MAX];
        for (int64_t i = 0; i < k->size; i++)
            rows[i] = wider + mirror(y + i - half, h) * stride;
        stencil_row(rows, k->size, k->at, k->size, 3, to + y * w * 3, 3 * w);
    }
    work->used = used;
}

/* ---- stages ---- */

/* Gaussian noise, or Poisson noise approximated by a normal whose variance grows with the light;
 * grey noise in 40% of the images. */
static void add_noise(float *x, int64_t pixels, Dice *dice, float sigma_max, float poisson_max)
{
    bool      gaussian = dice_unit(dice) < 0.5f, grey = dice_unit(dice) < 0.4f;
    float     scale = gaussian ? dice_range(dice, 1, sigma_max) / 255
                               : dice_range(dice, 0.05f, poisson_max);
    RandomKey key = dice->key;
    uint64_t  first = (dice->next + 3) / 4 * 4 + 1024; /* beyond the numbers for choices */
    for (int64_t p = 0; p < pixels; p++) {
        float light = 0.299f * x[3 * p] + 0.587f * x[3 * p + 1] + 0.114f * x[3 * p + 2];
        for (int c = 0; c < 3; c++) {
            float z = random_normal_at(key, first + (uint64_t)(3 * p + (grey ? 0 : c)));
            float deviation = gaussian ? scale
                                       : scale * sqrtf(clamp01(grey ? light : x[3 * p + c]) / 256);
            x[3 * p + c] = clamp01(x[3 * p + c] + z * deviation);
        }
    }
    dice->next = first + (uint64_t)(3 * pixels);
}

/* A factor up to max with probability `up`, one from min with probability `down`, else 1. */
static float draw_scale(Dice *dice, float up, float down, float min, float max)
{
    float u = dice_unit(dice);
    return u < up ? dice_range(dice, 1, max) : u < up + down ? dice_range(dice, min, 1) : 1;
}

typedef struct DegradeStage { /* the image so far, and room for the next stage's */
    float  *now, *next;
    int64_t h, w;
    Work   *work;
} DegradeStage;

static void stage_swap(DegradeStage *s)
{
    float *t = s->now;
    s->now = s->next;
    s->next = t;
}

static void stage_blur(DegradeStage *s, const Kernel2 *k)
{
    blur(s->now, s->h, s->w, k, s->next, s->work);
    stage_swap(s);
}

static void stage_resize(DegradeStage *s, int64_t h, int64_t w, ResizeKind kind)
{
    h = h < 1 ? 1 : h;
    w = w < 1 ? 1 : w;
    image_resize(s->now, s->h, s->w, 3, s->next, h, w, kind, s->work);
    for (int64_t i = 0; i < h * w * 3; i++)
        s->next[i] = clamp01(s->next[i]);
    s->h = h;
    s->w = w;
    stage_swap(s);
}

static void stage_jpeg(DegradeStage *s, Dice *dice, int min_quality, int max_quality)
{
    jpeg_loss(s->now, s->h, s->w, min_quality + dice_below(dice, max_quality - min_quality + 1));
}

enum { SMALLER = 4 }; /* the degraded image has 1/4 of the side */

void degrade(const float *good, int64_t h, int64_t w, float *bad, Dice *dice, Work *work)
{
    size_t used = work->used,
           max_bytes = (size_t)((h * 3 / 2 + 2) * (w * 3 / 2 + 2) * 3) * sizeof(float);
    DegradeStage s = { .now = work_take(work, max_bytes),
                       .next = work_take(work, max_bytes),
                       .h = h,
                       .w = w,
                       .work = work };
    Kernel2      kernel;
    memcpy(s.now, good, (size_t)(h * w * 3) * sizeof *good);
    if (dice_unit(dice) >= 0.01f) { /* 1% are only resized */
        kernel_blur(dice, 3, &kernel);
        stage_blur(&s, &kernel);
        float scale = draw_scale(dice, 0.2f, 0.7f, 0.3f, 1.5f);
        stage_resize(&s, (int64_t)((float)h * scale), (int64_t)((float)w * scale),
                     (ResizeKind)dice_below(dice, 3));
        add_noise(s.now, s.h * s.w, dice, 15, 2);
        stage_jpeg(&s, dice, 60, 95);

        if (dice_unit(dice) < 0.5f) {
            kernel_blur(dice, 1.5f, &kernel);
            stage_blur(&s, &kernel);
        }
        scale = draw_scale(dice, 0.3f, 0.4f, 0.6f, 1.2f) / SMALLER;
        stage_resize(&s, (int64_t)((float)h * scale), (int64_t)((float)w * scale),
                     (ResizeKind)dice_below(dice, 3));
        add_noise(s.now, s.h * s.w, dice, 12, 1);
        bool jpeg_first = dice_unit(dice) < 0.5f, sinc = dice_unit(dice) < 0.8f;
        kernel_sinc(dice_range(dice, (float)PI / 3, (float)PI), 7 + 2 * dice_below(dice, 8),
                    &kernel);
        if (jpeg_first)
            stage_jpeg(&s, dice, 60, 100);
        stage_resize(&s, h / SMALLER, w / SMALLER, (ResizeKind)dice_below(dice, 3));
        if (sinc)
            stage_blur(&s, &kernel);
        if (!jpeg_first)
            stage_jpeg(&s, dice, 60, 100);
    } else
        stage_resize(&s, h / SMALLER, w / SMALLER, RESIZE_CUBIC);
    stage_resize(&s, h, w, RESIZE_CUBIC);
    for (int64_t i = 0; i < h * w * 3; i++) /* rounded as if stored in bytes */
        bad[i] = rintf(clamp01(s.now[i]) * 255) / 255;
    work->used = used;
}

size_t degrade_work(int64_t h, int64_t w)
{
    int64_t max_h = h * 3 / 2 + 2, max_w = w * 3 / 2 + 2;
    size_t  one = work_size((size_t)(max_h * max_w * 3) * sizeof(float));
    size_t  wider = work_size((size_t)(max_h * (max_w + 2 * SHARP_REACH) * 3) * sizeof(float));
    return 2 * one + wider + image_resize_work(max_h, max_w, 3, max_h, max_w);
}

/* ---- sharper good images ---- */

/* Gaussian of 51 taps, deviation 8 (what OpenCV takes for that many), along rows and columns. */
static void wide_blur(const float *from, int64_t h, int64_t w, float *half, float *to, Work *work)
{
    enum { TAPS = 2 * SHARP_REACH + 1 };
    size_t used = work->used;
    float *row = work_take(work, (size_t)(3 * (w + 2 * SHARP_REACH)) * sizeof *row), taps[TAPS],
          sum = 0;
    for (int i = 0; i < TAPS; i++)
        sum += taps[i] = expf(-(float)((i - SHARP_REACH) * (i - SHARP_REACH)) / 128);
    for (int i = 0; i < TAPS; i++)
        taps[i] /= sum;
    for (int64_t y = 0; y < h; y++) {
        mirrored_row(from + y * w * 3, w, SHARP_REACH, row);
        stencil_row((const float *const[]){ row }, 1, taps, TAPS, 3, half + y * w * 3, 3 * w);
    }
    for (int64_t y = 0; y < h; y++) {
        const float *rows[TAPS];
        for (int i = 0; i < TAPS; i++)
            rows[i] = half + mirror(y + i - SHARP_REACH, h) * w * 3;
        stencil_row(rows, TAPS, taps, 1, 0, to + y * w * 3, 3 * w);
    }
    work->used = used;
}

void sharpen(const float *from, int64_t h, int64_t w, float *to, Work *work)
{
    size_t  used = work->used, bytes = (size_t)(h * w * 3) * sizeof(float);
    float  *smooth = work_take(work, bytes), *half = work_take(work, bytes);
    int64_t n = h * w * 3;
    wide_blur(from, h, w, half, smooth, work);
    for (int64_t i = 0; i < n; i++)
        to[i] = fabsf(from[i] - smooth[i]) * 255 > SHARP_THRESHOLD ? 1 : 0;
    float *soft = work_take(work, bytes);
    wide_blur(to, h, w, half, soft, work);
    for (int64_t i = 0; i < n; i++) {
        float sharp = clamp01(from[i] + 0.5f * (from[i] - smooth[i]));
        to[i] = soft[i] * sharp + (1 - soft[i]) * from[i];
    }
    work->used = used;
}
