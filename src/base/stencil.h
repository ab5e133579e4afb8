/* stencil.h -- weighted sums of shifted rows: what blurs and other filters of images are made
 * of. */
#ifndef BASE_STENCIL_H
#define BASE_STENCIL_H

#include <stdint.h>

/* to[x] = sum over i, j of taps[i * width + j] * rows[i][x + j * step], for x < n; added in that
 * order. A row has n + (width - 1) * step numbers; `to` is none of them. */
void stencil_row(const float *const *rows, int n_rows, const float *taps, int width, int64_t step,
                 float *restrict to, int64_t n);

#endif
