/* pad_mode_cpu.c -- padding by any rule on the CPU: rows along the innermost padded axis. */
#include "ops/arrange/pad_mode.h"

#include "device/convert.h"
#include "ops/parallel.h"

typedef struct PadRows {
    int     axis;             /* the innermost padded one */
    int64_t outer, inner;     /* rows of y or dx; elements of one step along the axis */
    int64_t before, n, total; /* along it */
} PadRows;

static PadRows pad_rows(const PadAttr *pad, Shape x, Shape y, bool of_x)
{
    PadRows rows = { .axis = x.rank - 1, .outer = 1, .inner = 1 };
    while (rows.axis > 0 && !pad->before[rows.axis] && !pad->after[rows.axis])
        rows.axis--;
    for (int i = 0; i < rows.axis; i++)
        rows.outer *= of_x ? x.dim[i] : y.dim[i];
    for (int i = rows.axis + 1; i < x.rank; i++)
        rows.inner *= x.dim[i];
    rows.before = pad->before[rows.axis];
    rows.n = x.dim[rows.axis];
    rows.total = y.dim[rows.axis];
    return rows;
}

/* `value` n times. */
static void pad_fill(Type type, char *y, int64_t n, float value)
{
    if (type == F32 || type == I32) {
        union {
            float   f;
            int32_t i;
        } bits = { .f = value };
        if (type == I32)
            bits.i = (int32_t)value;
        for (int64_t i = 0; i < n; i++)
            memcpy(y + 4 * i, &bits, 4);
    } else if (type == U8)
        memset(y, (uint8_t)value, (size_t)n);
    else {
        uint16_t half;
        convert_rows(type, &half, F32, &value, 1);
        for (int64_t i = 0; i < n; i++)
            memcpy(y + 2 * i, &half, 2);
    }
}

Err pad_mode_cpu(const Call *call)
{
    const Node        *n = call->node;
    const PadModeAttr *at = ATTR(n, PadModeAttr);
    Shape              x = in_shape(n, 0), y = out_shape(n, 0);
    PadRows            rows = pad_rows(&at->pad, x, y, false);
    Type               type = in_type(n, 0);
    int64_t            step = rows.inner * type_bytes(type);
    int                threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows.outer; r++) {
        int64_t left = r, source = 0, stride = 1;
        char   *dst = (char *)call->out[0] + r * rows.total * step;
        for (int i = rows.axis - 1; i >= 0; i--) {
            int64_t p = pad_source(at->mode, left % y.dim[i], at->pad.before[i], x.dim[i]);
            left /= y.dim[i];
            source = p < 0 || source < 0 ? -1 : source + p * stride;
            stride *= x.dim[i];
        }
        if (source < 0) {
            pad_fill(type, dst, rows.total * rows.inner, at->value);
            continue;
        }
        const char *src = (const char *)call->in[0] + source * rows.n * step;
        for (int64_t i = 0, run; i < rows.total; i += run) {
            int64_t p = pad_source(at->mode, i, rows.before, rows.n);
            run = 1;
            if (p < 0)
                pad_fill(type, dst + i * step, rows.inner, at->value);
            else {
                if (i < rows.before && at->mode == PAD_CIRCULAR)
                    run = rows.before - i;
                else if (i >= rows.before)
                    run = rows.n - p;
                if (at->mode != PAD_CIRCULAR && i >= rows.before + rows.n)
                    run = 1;
                run = run < rows.total - i ? run : rows.total - i;
                memcpy(dst + i * step, src + p * step, (size_t)(run * step));
            }
        }
    }
    return OK;
}

/* sum[j] += dy's row at elements b + j of the row of dx: x's own place, then what the padding
 * showed of it. */
static void pad_add_row(const PadRows *rows, PadMode mode, Type type, const void *dy, int64_t first,
                        int64_t b, int64_t m, float *sum)
{
    row_add(type, dy, first + rows->before * rows->inner + b, m, sum);
    for (int64_t i = 0; i < rows->total; i++) {
        if (i == rows->before)
            i += rows->n;
        if (i >= rows->total)
            break;
        int64_t p = pad_source(mode, i, rows->before, rows->n) * rows->inner - b;
        int64_t from = p > 0 ? p : 0, to = p + rows->inner < m ? p + rows->inner : m;
        if (from < to)
            row_add(type, dy, first + i * rows->inner + from - p, to - from, sum + from);
    }
}

Err pad_mode_grad_cpu(const Call *call)
{
    const Node        *n = call->node;
    const PadGradAttr *at = ATTR(n, PadGradAttr);
    Shape              x = at->x, y = in_shape(n, 0);
    PadRows            rows = pad_rows(&at->pad, x, y, true);
    int64_t            width = rows.n * rows.inner;
    int                threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows.outer; r++) {
        int64_t p[MAX_RANK], k[MAX_RANK] = { 0 }, left = r;
        PadHits hits[MAX_RANK];
        for (int i = rows.axis - 1; i >= 0; i--) {
            p[i] = left % x.dim[i];
            left /= x.dim[i];
            hits[i] = pad_hits(at->mode, p[i], at->pad.before[i], x.dim[i], y.dim[i]);
        }
        for (int64_t b = 0; b < width; b += ROW_BLOCK) {
            int64_t m = width - b < ROW_BLOCK ? width - b : ROW_BLOCK;
            float   sum[ROW_BLOCK];
            memset(sum, 0, (size_t)m * sizeof *sum);
            for (int axis = 0; axis >= 0;) { /* all rows of y that show this row of x */
                int64_t row = 0;
                for (int i = 0; i < rows.axis; i++)
                    row = row * y.dim[i] + pad_hit(&hits[i], p[i], at->pad.before[i], k[i]);
                pad_add_row(&rows, at->mode, in_type(n, 0), call->in[0],
                            row * rows.total * rows.inner, b, m, sum);
                for (axis = rows.axis - 1; axis >= 0 && ++k[axis] == hits[axis].n; axis--)
                    k[axis] = 0;
            }
            convert_rows(at->type, (char *)call->out[0] + (r * width + b) * type_bytes(at->type),
                         F32, sum, (size_t)m);
        }
    }
    return OK;
}
