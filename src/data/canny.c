/* canny.c -- edges (Canny 1986): smoothing, gradients, thinning, then hysteresis: weak edges count
 * where they touch strong ones. */
#include "data/degrade.h"

#include <math.h>

enum { WEAK = 100, STRONG = 200 };

/* Grey levels 0..255, smoothed by a 5x5 Gaussian of deviation 1.4 and rounded, as for an image in
 * bytes. */
static void canny_smooth(const float *rgb, int64_t h, int64_t w, float *grey, float *half,
                         float *to)
{
    float taps[5], sum = 0;
    for (int i = -2; i <= 2; i++)
        sum += taps[i + 2] = expf(-(float)(i * i) / (2 * 1.4f * 1.4f));
    for (int64_t p = 0; p < h * w; p++)
        grey[p] = rintf(255 *
                        (0.299f * rgb[3 * p] + 0.587f * rgb[3 * p + 1] + 0.114f * rgb[3 * p + 2]));
    for (int pass = 0; pass < 2; pass++)
        for (int64_t p = 0; p < h * w; p++) {
            float v = 0;
            for (int64_t i = -2; i <= 2; i++)
                v += taps[i + 2] * (pass ? half[mirror(p / w + i, h) * w + p % w]
                                         : grey[p / w * w + mirror(p % w + i, w)]);
            (pass ? to : half)[p] = pass ? rintf(v / sum) : v / sum;
        }
}

static float at(const float *x, int64_t h, int64_t w, int64_t row, int64_t col)
{
    row = row < 0 ? 0 : row >= h ? h - 1 : row;
    col = col < 0 ? 0 : col >= w ? w - 1 : col;
    return x[row * w + col];
}

/* Sobel gradients; the strength is |dx| + |dy|. */
static void canny_slopes(const float *x, int64_t h, int64_t w, float *dx, float *dy,
                         float *strength)
{
    for (int64_t r = 0; r < h; r++)
        for (int64_t c = 0; c < w; c++) {
            float right = at(x, h, w, r - 1, c + 1) + 2 * at(x, h, w, r, c + 1) +
                          at(x, h, w, r + 1, c + 1);
            float left = at(x, h, w, r - 1, c - 1) + 2 * at(x, h, w, r, c - 1) +
                         at(x, h, w, r + 1, c - 1);
            float below = at(x, h, w, r + 1, c - 1) + 2 * at(x, h, w, r + 1, c) +
                          at(x, h, w, r + 1, c + 1);
            float above = at(x, h, w, r - 1, c - 1) + 2 * at(x, h, w, r - 1, c) +
                          at(x, h, w, r - 1, c + 1);
            dx[r * w + c] = right - left;
            dy[r * w + c] = below - above;
            strength[r * w + c] = fabsf(right - left) + fabsf(below - above);
        }
}

static float outside0(const float *x, int64_t h, int64_t w, int64_t row, int64_t col)
{
    return row < 0 || row >= h || col < 0 || col >= w ? 0 : x[row * w + col];
}

/* Whether the strength is maximal across the edge; directions in four sectors of 45 degrees. */
static bool is_ridge(const float *s, float dx, float dy, int64_t h, int64_t w, int64_t r, int64_t c)
{
    float   here = s[r * w + c], ax = fabsf(dx), ay = fabsf(dy);
    int64_t step_r = 0, step_c = 1;
    if (ay >= ax * 0.41421356f) {
        step_r = 1;
        step_c = ay > ax * 2.41421356f ? 0 : (dx < 0) != (dy < 0) ? -1 : 1;
    }
    return here > outside0(s, h, w, r - step_r, c - step_c) &&
           here >= outside0(s, h, w, r + step_r, c + step_c);
}

void canny(const float *rgb, int64_t h, int64_t w, uint8_t *edges, Work *work)
{
    size_t   used = work->used, bytes = (size_t)(h * w) * sizeof(float);
    float   *smooth = work_take(work, bytes), *strength = work_take(work, bytes);
    float   *dx = work_take(work, bytes), *dy = work_take(work, bytes);
    int32_t *stack = work_take(work, (size_t)(h * w) * sizeof *stack);
    int64_t  n = 0;
    canny_smooth(rgb, h, w, dx, dy, smooth);
    canny_slopes(smooth, h, w, dx, dy, strength);
    for (int64_t p = 0; p < h * w; p++) {
        edges[p] = 0;
        if (strength[p] > WEAK && is_ridge(strength, dx[p], dy[p], h, w, p / w, p % w)) {
            edges[p] = 2; /* weak so far */
            if (strength[p] > STRONG) {
                edges[p] = 1;
                stack[n++] = (int32_t)p;
            }
        }
    }
    while (n) {
        int64_t p = stack[--n];
        for (int64_t k = 0; k < 9; k++) {
            int64_t r = p / w + k / 3 - 1, c = p % w + k % 3 - 1;
            if (r >= 0 && r < h && c >= 0 && c < w && edges[r * w + c] == 2) {
                edges[r * w + c] = 1;
                stack[n++] = (int32_t)(r * w + c);
            }
        }
    }
    for (int64_t p = 0; p < h * w; p++)
        edges[p] = edges[p] == 1;
    work->used = used;
}
