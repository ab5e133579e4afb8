/* arrange_cpu.c -- concat, split, slice, put, pad and shift on the CPU: strided copies of rows.
 *
 * Along an axis a tensor is `outer` rows, each of extent * inner bytes; a run is the same range of
 * every row. */
#include "ops/arrange/arrange.h"

#include "ops/parallel.h"

#include <string.h>

typedef struct AxisRuns {
    int64_t outer, inner; /* rows; bytes of one step along the axis */
} AxisRuns;

static AxisRuns runs_of(Shape shape, int axis, Type type)
{
    AxisRuns runs = { 1, type_bytes(type) };
    for (int i = 0; i < shape.rank; i++)
        *(i < axis ? &runs.outer : &runs.inner) *= i == axis ? 1 : shape.dim[i];
    return runs;
}

/* Copies rows from..to from src (NULL: zeros) to dst, each with its stride. Single elements have
 * loops of their own, where memcpy becomes one instruction instead of a call. */
static void copy_rows(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                      int64_t bytes, int64_t from, int64_t to)
{
    dst += from * dst_stride;
    src = src ? src + from * src_stride : NULL;
    int64_t n = to - from;
    if (!src)
        for (int64_t i = 0; i < n; i++)
            memset(dst + i * dst_stride, 0, (size_t)bytes);
    else if (bytes == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * dst_stride, src + i * src_stride, 4);
    else if (bytes == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * dst_stride, src + i * src_stride, 2);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * dst_stride, src + i * src_stride, (size_t)bytes);
}

/* The same with threads: over rows where there are several, over bytes where there is one. */
static void copy_runs(const Call *call, char *dst, int64_t dst_stride, const char *src,
                      int64_t src_stride, int64_t bytes, int64_t rows)
{
    int threads = call->device->threads;
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        bool    one = rows == 1;
        parallel_range(one ? bytes : rows, one ? 64 : 1, omp_get_thread_num(), threads, &from, &to);
        if (one)
            copy_rows(dst + from, 0, src ? src + from : NULL, 0, to - from, 0, 1);
        else
            copy_rows(dst, dst_stride, src, src_stride, bytes, from, to);
    }
}

Err concat_cpu(const Call *call)
{
    const JoinAttr *at = ATTR(call->node, JoinAttr);
    AxisRuns        runs = runs_of(at->whole, at->axis, at->type);
    int64_t         row = at->whole.dim[at->axis] * runs.inner, offset = 0;
    for (int i = 0; i < at->n; i++) {
        int64_t bytes = at->extent[i] * runs.inner;
        copy_runs(call, (char *)call->out[0] + offset, row, call->in[i], bytes, bytes, runs.outer);
        offset += bytes;
    }
    return OK;
}

Err split_cpu(const Call *call)
{
    const JoinAttr *at = ATTR(call->node, JoinAttr);
    AxisRuns        runs = runs_of(at->whole, at->axis, at->type);
    int64_t         row = at->whole.dim[at->axis] * runs.inner, offset = 0;
    for (int i = 0; i < at->n; i++) {
        int64_t bytes = at->extent[i] * runs.inner;
        if (call->out[i])
            copy_runs(call, call->out[i], bytes, (char *)call->in[0] + offset, row, bytes,
                      runs.outer);
        offset += bytes;
    }
    return OK;
}

Err slice_cpu(const Call *call)
{
    const SliceAttr *at = ATTR(call->node, SliceAttr);
    Shape            s = in_shape(call->node, 0);
    AxisRuns         runs = runs_of(s, at->axis, in_type(call->node, 0));
    int64_t          bytes = (at->to - at->from) * runs.inner;
    copy_runs(call, call->out[0], bytes, (char *)call->in[0] + at->from * runs.inner,
              s.dim[at->axis] * runs.inner, bytes, runs.outer);
    return OK;
}

Err put_cpu(const Call *call)
{
    const Node    *n = call->node;
    const PutAttr *at = ATTR(n, PutAttr);
    AxisRuns       runs = runs_of(at->whole, at->axis, in_type(n, 0));
    int64_t        bytes = in_shape(n, 0).dim[at->axis] * runs.inner,
            all = at->whole.dim[at->axis] * runs.inner;
    if (call->in[1] && call->in[1] != call->out[0])
        copy_runs(call, call->out[0], 0, call->in[1], 0, all, 1);
    copy_runs(call, (char *)call->out[0] + at->from * runs.inner, 0, call->in[0], 0, bytes, 1);
    return OK;
}

/* Every output row along the innermost padded axis is all zeros, or zeros, a row of x, zeros. */
Err pad_cpu(const Call *call)
{
    const Node    *n = call->node;
    const PadAttr *at = ATTR(n, PadAttr);
    Shape          x = in_shape(n, 0), y = out_shape(n, 0);
    int            axis = x.rank - 1;
    while (axis > 0 && !at->before[axis] && !at->after[axis])
        axis--;
    AxisRuns runs = runs_of(y, axis, in_type(n, 0));
    int64_t  row = y.dim[axis] * runs.inner, bytes = x.dim[axis] * runs.inner,
            head = at->before[axis] * runs.inner;
    int threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < runs.outer; r++) {
        int64_t left = r, source = 0, stride = 1;
        bool    inside = true;
        char   *dst = (char *)call->out[0] + r * row;
        for (int i = axis - 1; i >= 0; i--) {
            int64_t index = left % y.dim[i] - at->before[i];
            left /= y.dim[i];
            inside &= index >= 0 && index < x.dim[i];
            source += index * stride;
            stride *= x.dim[i];
        }
        if (!inside) {
            memset(dst, 0, (size_t)row);
            continue;
        }
        memset(dst, 0, (size_t)head);
        memcpy(dst + head, (char *)call->in[0] + source * bytes, (size_t)bytes);
        memset(dst + head + bytes, 0, (size_t)(row - head - bytes));
    }
    return OK;
}

Err shift_cpu(const Call *call)
{
    const ShiftAttr *at = ATTR(call->node, ShiftAttr);
    Shape            s = in_shape(call->node, 0);
    AxisRuns         runs = runs_of(s, at->axis, in_type(call->node, 0));
    int64_t          extent = s.dim[at->axis], row = extent * runs.inner;
    int64_t          by = at->by > extent ? extent : at->by < -extent ? -extent : at->by;
    int64_t          gone = (by < 0 ? -by : by) * runs.inner, kept = row - gone;
    char            *y = call->out[0], *x = call->in[0];
    copy_runs(call, by > 0 ? y : y + kept, row, NULL, 0, gone, runs.outer);
    if (kept)
        copy_runs(call, by > 0 ? y + gone : y, row, by > 0 ? x : x + gone, row, kept, runs.outer);
    return OK;
}
