/* stencil.c -- weighted sums of shifted rows: a strip of results stays in registers. */
#include "base/stencil.h"

enum { STRIP = 64 };

void stencil_row(const float *const *rows, int n_rows, const float *taps, int width, int64_t step,
                 float *restrict to, int64_t n)
{
    int64_t x = 0;
    for (; x + STRIP <= n; x += STRIP) {
        float sum[STRIP] = { 0 };
        for (int i = 0; i < n_rows; i++)
            for (int j = 0; j < width; j++) {
                const float *in = rows[i] + x + j * step;
                float        tap = taps[i * width + j];
                for (int k = 0; k < STRIP; k++)
                    sum[k] += tap * in[k];
            }
        for (int k = 0; k < STRIP; k++)
            to[x + k] = sum[k];
    }
    for (; x < n; x++) {
        float sum = 0;
        for (int i = 0; i < n_rows; i++)
            for (int j = 0; j < width; j++)
                sum += taps[i * width + j] * rows[i][x + j * step];
        to[x] = sum;
    }
}
