/* permute_cpu.c -- axes in another order, on the CPU.
 *
 * Axes that stay neighbours are merged first. If the innermost axis stays innermost, runs of bytes
 * are copied. Otherwise the innermost axes of input and output span a plane, which is transposed
 * tile by tile, so that both sides touch whole cache lines. */
#include "base/int_math.h"
#include "ops/arrange/permute.h"

#include <string.h>

enum { TILE = 16 };

/* Offsets of output index `flat`, counted over all axes but `skip` and `skip2`, on both sides. */
static void axes_start(const PermuteAxes *axes, int skip, int skip2, int64_t flat, int64_t *from,
                       int64_t *to)
{
    *from = *to = 0;
    for (int i = axes->rank - 1; i >= 0; i--) {
        if (i == skip || i == skip2)
            continue;
        *from += flat % axes->dim[i] * axes->from[i];
        *to += flat % axes->dim[i] * axes->to[i];
        flat /= axes->dim[i];
    }
}

#define TILE_COPY(T)                                                                               \
    static void tile_##T(T *restrict y, int64_t y_step, const T *restrict x, int64_t x_step,       \
                         int64_t rows, int64_t n)                                                  \
    {                                                                                              \
        for (int64_t r = 0; r < rows; r++)                                                         \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[r * y_step + i] = x[i * x_step + r];                                             \
    }
TILE_COPY(uint32_t)
TILE_COPY(uint16_t)
TILE_COPY(uint8_t)

Err permute_cpu(const Call *call)
{
    const PermuteAttr *at = ATTR(call->node, PermuteAttr);
    PermuteAxes        axes = permute_axes(at);
    int64_t            count = shape_count(at->shape), size = type_bytes(in_type(call->node, 0));
    const char        *x = call->in[0];
    char              *y = call->out[0];
    int                last = axes.rank - 1, inner = 0, threads = call->device->threads;
    while (axes.from[inner] != 1)
        inner++;

    if (inner == last) {
        int64_t n = axes.dim[last];
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t r = 0; r < count / n; r++) {
            int64_t from, to;
            axes_start(&axes, last, -1, r, &from, &to);
            memcpy(y + to * size, x + from * size, (size_t)(n * size));
        }
        return OK;
    }
    int64_t rows = axes.dim[inner], n = axes.dim[last], planes = count / rows / n;
    int64_t strips = ceil_div(rows, TILE);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < planes * strips; t++) {
        int64_t from, to, r0 = t % strips * TILE, r = rows - r0 < TILE ? rows - r0 : TILE;
        axes_start(&axes, inner, last, t / strips, &from, &to);
        for (int64_t i0 = 0; i0 < n; i0 += TILE) {
            int64_t     m = n - i0 < TILE ? n - i0 : TILE, dst = to + r0 * axes.to[inner] + i0;
            const char *src = x + (from + r0 + i0 * axes.from[last]) * size;
            if (size == 4)
                tile_uint32_t((uint32_t *)(void *)y + dst, axes.to[inner], (const void *)src,
                              axes.from[last], r, m);
            else if (size == 2)
                tile_uint16_t((uint16_t *)(void *)y + dst, axes.to[inner], (const void *)src,
                              axes.from[last], r, m);
            else
                tile_uint8_t((uint8_t *)y + dst, axes.to[inner], (const void *)src, axes.from[last],
                             r, m);
        }
    }
    return OK;
}
