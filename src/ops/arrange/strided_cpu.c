/* strided_cpu.c -- copies between strided views on the CPU.
 *
 * If the innermost axis is contiguous on both sides, runs of bytes are copied. If another axis is
 * the nearer one in the source, the two span a plane, which is transposed tile by tile, so that
 * both sides touch whole cache lines. Otherwise rows are copied element by element. */
#include "ops/arrange/strided.h"

#include "device/convert.h"
#include "ops/parallel.h"

#include <stdlib.h>

enum { TILE = 16, FEW = 4 };

typedef struct StridedWalk { /* a position along all axes but two, and its offsets */
    int64_t at[STRIDED_RANK], from, to;
} StridedWalk;

static StridedWalk walk_start(const StridedAxes *axes, int skip, int skip2, int64_t flat)
{
    StridedWalk walk = { .from = axes->from0, .to = axes->to0 };
    for (int i = axes->rank - 1; i >= 0; i--) {
        if (i == skip || i == skip2)
            continue;
        walk.at[i] = flat % axes->dim[i];
        walk.from += walk.at[i] * axes->from[i];
        walk.to += walk.at[i] * axes->to[i];
        flat /= axes->dim[i];
    }
    return walk;
}

static void walk_next(const StridedAxes *axes, int skip, StridedWalk *walk)
{
    for (int i = axes->rank - 1; i >= 0; i--) {
        if (i == skip)
            continue;
        walk->from += axes->from[i];
        walk->to += axes->to[i];
        if (++walk->at[i] < axes->dim[i])
            return;
        walk->from -= axes->dim[i] * axes->from[i];
        walk->to -= axes->dim[i] * axes->to[i];
        walk->at[i] = 0;
    }
}

#define STRIDED_COPIES(T)                                                                          \
    static void row_##T(T *restrict y, int64_t y_step, const T *restrict x, int64_t x_step,        \
                        int64_t n)                                                                 \
    {                                                                                              \
        if (y_step == 1 && x_step == 0)                                                            \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = *x;                                                                         \
        else if (y_step == 1 && x_step == -1)                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = x[-i];                                                                      \
        else if (y_step == 1)                                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = x[i * x_step];                                                              \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i * y_step] = x[i * x_step];                                                     \
    }                                                                                              \
    static void tile_##T(T *restrict y, int64_t y_row, int64_t y_step, const T *restrict x,        \
                         int64_t x_row, int64_t x_step, int64_t rows, int64_t n)                   \
    {                                                                                              \
        if (y_step == 1 && x_row == 1)                                                             \
            for (int64_t r = 0; r < rows; r++)                                                     \
                for (int64_t i = 0; i < n; i++)                                                    \
                    y[r * y_row + i] = x[i * x_step + r];                                          \
        else                                                                                       \
            for (int64_t r = 0; r < rows; r++)                                                     \
                for (int64_t i = 0; i < n; i++)                                                    \
                    y[r * y_row + i * y_step] = x[i * x_step + r * x_row];                         \
    }
STRIDED_COPIES(uint32_t)
STRIDED_COPIES(uint16_t)
STRIDED_COPIES(uint8_t)

static void row_copy(int64_t size, char *y, int64_t y_step, const char *x, int64_t x_step,
                     int64_t n)
{
    if (y_step == 1 && x_step == 1)
        memcpy(y, x, (size_t)(n * size));
    else if (size == 4)
        row_uint32_t((void *)y, y_step, (const void *)x, x_step, n);
    else if (size == 2)
        row_uint16_t((void *)y, y_step, (const void *)x, x_step, n);
    else
        row_uint8_t((void *)y, y_step, (const void *)x, x_step, n);
}

static void copy_rows(int threads, int64_t size, char *dst, const char *src,
                      const StridedAxes *axes, int64_t count)
{
    int     last = axes->rank - 1;
    int64_t n = axes->dim[last], rows = count / n;
    if (rows == 1) { /* one long row */
#pragma omp parallel num_threads(threads)
        {
            int64_t i, end;
            parallel_range(n, 64, omp_get_thread_num(), threads, &i, &end);
            row_copy(size, dst + (axes->to0 + i * axes->to[last]) * size, axes->to[last],
                     src + (axes->from0 + i * axes->from[last]) * size, axes->from[last], end - i);
        }
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        int64_t r, end;
        parallel_range(rows, 1, omp_get_thread_num(), threads, &r, &end);
        StridedWalk walk = walk_start(axes, last, -1, r);
        for (; r < end; r++, walk_next(axes, last, &walk))
            row_copy(size, dst + walk.to * size, axes->to[last], src + walk.from * size,
                     axes->from[last], n);
    }
}

static void copy_tiles(int threads, int64_t size, char *dst, const char *src,
                       const StridedAxes *axes, int inner, int64_t count)
{
    int     last = axes->rank - 1;
    int64_t rows = axes->dim[inner], n = axes->dim[last], strips = ceil_div(rows, TILE);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < count / rows / n * strips; t++) {
        StridedWalk walk = walk_start(axes, inner, last, t / strips);
        int64_t     r0 = t % strips * TILE, r = rows - r0 < TILE ? rows - r0 : TILE;
        for (int64_t i0 = 0; i0 < n; i0 += TILE) {
            int64_t     m = n - i0 < TILE ? n - i0 : TILE;
            char       *y = dst + (walk.to + r0 * axes->to[inner] + i0 * axes->to[last]) * size;
            const char *x = src +
                            (walk.from + r0 * axes->from[inner] + i0 * axes->from[last]) * size;
            if (size == 4)
                tile_uint32_t((void *)y, axes->to[inner], axes->to[last], (const void *)x,
                              axes->from[inner], axes->from[last], r, m);
            else if (size == 2)
                tile_uint16_t((void *)y, axes->to[inner], axes->to[last], (const void *)x,
                              axes->from[inner], axes->from[last], r, m);
            else
                tile_uint8_t((void *)y, axes->to[inner], axes->to[last], (const void *)x,
                             axes->from[inner], axes->from[last], r, m);
        }
    }
}

/* The axes are in dst's order: strides falling. */
static void axes_copy(int threads, int64_t size, char *dst, const char *src,
                      const StridedAxes *axes)
{
    int     last = axes->rank - 1, inner = last;
    int64_t count = 1;
    if (axes->rank == 0) {
        memcpy(dst + axes->to0 * size, src + axes->from0 * size, (size_t)size);
        return;
    }
    for (int i = 0; i < axes->rank; i++) {
        count *= axes->dim[i];
        if (axes->from[i] && axes->dim[i] >= FEW && llabs(axes->from[i]) < llabs(axes->from[inner]))
            inner = i;
    }
    if (inner != last && axes->dim[last] >= FEW)
        copy_tiles(threads, size, dst, src, axes, inner, count);
    else
        copy_rows(threads, size, dst, src, axes, count);
}

Err strided_cpu(const Call *call)
{
    StridedAxes axes = strided_axes(ATTR(call->node, StridedAttr));
    axes_copy(call->device->threads, type_bytes(in_type(call->node, 0)), call->out[0], call->in[0],
              &axes);
    return OK;
}

/* ---- gradient ---- */

/* A sum is divided into tasks: an interval of dx, or a part of one where they are few. */
typedef struct SpanParts {
    StridedSpan span;
    int64_t     parts, part; /* per interval; elements of one */
} SpanParts;

static SpanParts span_parts(const StridedAxes *axes, int threads)
{
    SpanParts p = { .span = strided_span(axes), .parts = 1 };
    if (p.span.intervals < 4 * threads && p.span.span > 256)
        p.parts = threads;
    p.part = ceil_div(p.span.span, p.parts);
    return p;
}

Err strided_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    const StridedGradAttr *at = ATTR(n, StridedGradAttr);
    StridedAxes            axes = strided_back(&at->view);
    if (at->sums && at->type != F32)
        choice->workspace_bytes = (size_t)device->threads *
                                  (size_t)span_parts(&axes, device->threads).part * sizeof(float);
    return OK;
}

/* sum[0..m) += what dy gives elements lo.. of an interval that begins at element `base`. The rows
 * are walked in one order, so every sum has one order. */
static void span_add(const StridedAxes *inner, Type type, const void *dy, int64_t lo, int64_t m,
                     float *sum)
{
    int         last = inner->rank - 1;
    int64_t     step = inner->to[last], back = inner->from[last], rows = 1;
    StridedWalk walk = walk_start(inner, last, -1, 0);
    for (int i = 0; i < last; i++)
        rows *= inner->dim[i];
    for (int64_t r = 0; r < rows; r++, walk_next(inner, last, &walk)) {
        int64_t at = walk.to - lo; /* of the row's first element */
        int64_t i = at < 0 ? ceil_div(-at, step) : 0, end = at < m ? ceil_div(m - at, step) : 0;
        end = end < inner->dim[last] ? end : inner->dim[last];
        if (i >= end)
            continue;
        float *to = sum + at;
        if (type == F32 && step == 1 && back == 1) {
            const float *from = (const float *)dy + walk.from;
            for (; i < end; i++)
                to[i] += from[i];
        } else if (back == 1) {
            float buffer[ROW_BLOCK];
            for (int64_t n; i < end; i += n) {
                n = end - i < ROW_BLOCK ? end - i : ROW_BLOCK;
                const float *from = row_load(type, dy, walk.from + i, n, buffer);
                for (int64_t j = 0; j < n; j++)
                    to[(i + j) * step] += from[j];
            }
        } else {
            float buffer;
            for (; i < end; i++)
                to[i * step] += *row_load(type, dy, walk.from + i * back, 1, &buffer);
        }
    }
}

static void span_sums(const Call *call, const StridedAxes *axes)
{
    const Node *n = call->node;
    Type        type = out_type(n, 0);
    int         threads = call->device->threads;
    SpanParts   p = span_parts(axes, threads);
    StridedAxes outer = *axes, inner = *axes;
    outer.rank = p.span.outer;
    inner.rank -= p.span.outer;
    for (int i = 0; i < inner.rank; i++) {
        inner.dim[i] = axes->dim[p.span.outer + i];
        inner.from[i] = axes->from[p.span.outer + i];
        inner.to[i] = axes->to[p.span.outer + i];
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < p.span.intervals * p.parts; t++) {
        StridedWalk at = walk_start(&outer, -1, -1, t / p.parts);
        StridedAxes own = inner;
        int64_t     lo = t % p.parts * p.part,
                m = p.span.span - lo < p.part ? p.span.span - lo : p.part;
        float *sum = type == F32 ? (float *)call->out[0] + at.to + lo
                                 : (float *)call->workspace + omp_get_thread_num() * p.part;
        if (m <= 0)
            continue;
        own.from0 = at.from;
        own.to0 = 0;
        memset(sum, 0, (size_t)m * sizeof *sum);
        span_add(&own, in_type(n, 0), call->in[0], lo, m, sum);
        row_store(type, call->out[0], at.to + lo, m, sum);
    }
}

Err strided_grad_cpu(const Call *call)
{
    const StridedGradAttr *at = ATTR(call->node, StridedGradAttr);
    StridedAxes            axes = strided_back(&at->view);
    int                    threads = call->device->threads;
    int64_t                size = type_bytes(at->type), bytes = shape_count(at->x) * size, read = 1;
    for (int i = 0; i < axes.rank; i++)
        read *= axes.dim[i];
    if (at->sums || read != shape_count(at->x)) {
#pragma omp parallel num_threads(threads)
        {
            int64_t from, to;
            parallel_range(bytes, 64, omp_get_thread_num(), threads, &from, &to);
            memset((char *)call->out[0] + from, 0, (size_t)(to - from));
        }
    }
    if (at->sums)
        span_sums(call, &axes);
    else
        axes_copy(threads, size, call->out[0], call->in[0], &axes);
    return OK;
}
