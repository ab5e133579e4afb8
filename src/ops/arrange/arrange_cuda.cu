/* arrange_cuda.cu -- concat, split, slice, put, pad and shift on CUDA: strided copies of rows, in
 * units of up to 16 bytes. */
#include "ops/reduce/rows_cuda.h"
#include "ops/elementwise/units_cuda.h"

extern "C" {
#include "ops/arrange/arrange.h"
}

typedef struct CopyRun { /* the same range of every row; in bytes, then in units */
    char       *dst;
    const char *src; /* NULL: zeros */
    int64_t     dst_stride, src_stride, width;
} CopyRun;

typedef struct CopyRuns {
    int64_t rows;
    int     n;
    CopyRun run[ARRANGE_MAX];
} CopyRuns;

static_assert(sizeof(CopyRuns) < 4000, "CopyRuns is passed to a kernel by value");

/* One run per blockIdx.y. */
template <class U>
__global__ void __launch_bounds__(ROW_THREADS) copy_runs(const __grid_constant__ CopyRuns runs)
{
    cuda_begin();
    const CopyRun &run = runs.run[blockIdx.y];
    int64_t        count = runs.rows * run.width;
    U             *dst = (U *)run.dst;
    const U       *src = (const U *)run.src;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t column, row = divided(i, run.width, &column);
        dst[row * run.dst_stride + column] = src ? src[row * run.src_stride + column] : U{};
    }
}

static Err runs_go(const Call *call, CopyRuns *runs)
{
    int     unit = 16;
    int64_t widest = 0;
    for (int i = 0; i < runs->n; i++) {
        CopyRun *run = &runs->run[i];
        unit = unit_of(unit, run->width);
        if (runs->rows > 1) /* one row has no stride */
            unit = unit_of(unit_of(unit, run->dst_stride), run->src ? run->src_stride : 0);
        unit = unit_of_pointer(unit_of_pointer(unit, run->dst), run->src);
    }
    for (int i = 0; i < runs->n; i++) {
        CopyRun *run = &runs->run[i];
        run->width /= unit;
        run->dst_stride /= unit;
        run->src_stride /= unit;
        widest = widest > run->width ? widest : run->width;
    }
    if (runs->n == 0 || runs->rows * widest == 0)
        return OK;
    dim3 grid(cuda_blocks(call, runs->rows * widest, ROW_THREADS), (unsigned)runs->n);
    WITH_UNIT(unit, U, cuda_launch(cuda_stream(call), copy_runs<U>, grid, ROW_THREADS, 0, *runs);)
    CUDA_LAUNCHED();
    return OK;
}

static void runs_add(CopyRuns *runs, void *dst, int64_t dst_stride, const void *src,
                     int64_t src_stride, int64_t width)
{
    if (width > 0)
        runs->run[runs->n++] = { (char *)dst, (const char *)src, dst_stride, src_stride, width };
}

/* Rows before the axis; *inner: bytes of one step along it. */
static int64_t rows_of(Shape shape, int axis, Type type, int64_t *inner)
{
    int64_t rows = 1;
    *inner = type_bytes(type);
    for (int i = 0; i < shape.rank; i++)
        *(i < axis ? &rows : inner) *= i == axis ? 1 : shape.dim[i];
    return rows;
}

extern "C" Err concat_cuda(const Call *call)
{
    const JoinAttr *at = ATTR(call->node, JoinAttr);
    int64_t         inner, offset = 0;
    CopyRuns        runs = { rows_of(at->whole, at->axis, at->type, &inner), 0, {} };
    for (int i = 0; i < at->n; i++) {
        int64_t width = at->extent[i] * inner;
        runs_add(&runs, (char *)call->out[0] + offset, at->whole.dim[at->axis] * inner, call->in[i],
                 width, width);
        offset += width;
    }
    return runs_go(call, &runs);
}

extern "C" Err split_cuda(const Call *call)
{
    const JoinAttr *at = ATTR(call->node, JoinAttr);
    int64_t         inner, offset = 0;
    CopyRuns        runs = { rows_of(at->whole, at->axis, at->type, &inner), 0, {} };
    for (int i = 0; i < at->n; i++) {
        int64_t width = at->extent[i] * inner;
        if (call->out[i])
            runs_add(&runs, call->out[i], width, (char *)call->in[0] + offset,
                     at->whole.dim[at->axis] * inner, width);
        offset += width;
    }
    return runs_go(call, &runs);
}

extern "C" Err slice_cuda(const Call *call)
{
    const SliceAttr *at = ATTR(call->node, SliceAttr);
    Shape            s = in_shape(call->node, 0);
    int64_t          inner;
    CopyRuns         runs = { rows_of(s, at->axis, in_type(call->node, 0), &inner), 0, {} };
    int64_t          width = (at->to - at->from) * inner;
    runs_add(&runs, call->out[0], width, (char *)call->in[0] + at->from * inner,
             s.dim[at->axis] * inner, width);
    return runs_go(call, &runs);
}

extern "C" Err put_cuda(const Call *call)
{
    const Node    *n = call->node;
    const PutAttr *at = ATTR(n, PutAttr);
    int64_t        inner, from;
    CopyRuns       runs = { rows_of(at->whole, at->axis, in_type(n, 0), &inner), 0, {} };
    int64_t bytes = in_shape(n, 0).dim[at->axis] * inner, all = at->whole.dim[at->axis] * inner;
    char   *y = (char *)call->out[0], *old = (char *)call->in[1];
    from = at->from * inner;
    runs_add(&runs, y + from, bytes, call->in[0], bytes, bytes);
    if (old && old != y) { /* what lies before the slice, and after it */
        runs_add(&runs, y, from, old, from, from);
        runs_add(&runs, y + from + bytes, 0, old + from + bytes, 0, all - from - bytes);
    }
    return runs_go(call, &runs);
}

extern "C" Err shift_cuda(const Call *call)
{
    const ShiftAttr *at = ATTR(call->node, ShiftAttr);
    Shape            s = in_shape(call->node, 0);
    int64_t          inner;
    CopyRuns         runs = { rows_of(s, at->axis, in_type(call->node, 0), &inner), 0, {} };
    int64_t          extent = s.dim[at->axis], row = extent * inner;
    int64_t          by = at->by > extent ? extent : at->by < -extent ? -extent : at->by;
    int64_t          gone = (by < 0 ? -by : by) * inner, kept = row - gone;
    char            *y = (char *)call->out[0], *x = (char *)call->in[0];
    runs_add(&runs, by > 0 ? y : y + kept, row, NULL, 0, gone);
    runs_add(&runs, by > 0 ? y + gone : y, row, by > 0 ? x : x + gone, row, kept);
    return runs_go(call, &runs);
}

/* Output rows along the innermost padded axis are all zeros, or zeros, a row of x, zeros. Axis 0
 * here is the next axis outwards, and so on; axes without padding are merged with their inner
 * neighbour. */
typedef struct PadJob {
    int64_t row, head, body, count; /* in units */
    int     rank;
    int64_t y[MAX_RANK], x[MAX_RANK], before[MAX_RANK];
} PadJob;

template <class U>
__global__ void __launch_bounds__(ROW_THREADS)
    pad_units(U *__restrict__ y, const U *__restrict__ x, PadJob job)
{
    cuda_begin();
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < job.count;
         i += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t column, left = divided(i, job.row, &column), source = 0, stride = 1;
        bool    inside = column >= job.head && column < job.head + job.body;
#pragma unroll
        for (int a = 0; a < MAX_RANK; a++)
            if (a < job.rank) {
                int64_t index;
                left = divided(left, job.y[a], &index);
                index -= job.before[a];
                inside = inside && index >= 0 && index < job.x[a];
                source += index * stride;
                stride *= job.x[a];
            }
        y[i] = inside ? x[source * job.body + column - job.head] : U{};
    }
}

extern "C" Err pad_cuda(const Call *call)
{
    const Node    *n = call->node;
    const PadAttr *at = ATTR(n, PadAttr);
    Shape          x = in_shape(n, 0), y = out_shape(n, 0);
    int            axis = x.rank - 1;
    int64_t        inner;
    PadJob         job = {};
    while (axis > 0 && !at->before[axis] && !at->after[axis])
        axis--;
    rows_of(y, axis, in_type(n, 0), &inner);
    for (int i = axis - 1; i >= 0; i--) {
        bool plain = !at->before[i] && !at->after[i];
        if (plain && job.rank && job.y[job.rank - 1] == job.x[job.rank - 1]) {
            job.y[job.rank - 1] *= y.dim[i];
            job.x[job.rank - 1] *= x.dim[i];
        } else {
            job.y[job.rank] = y.dim[i];
            job.x[job.rank] = x.dim[i];
            job.before[job.rank++] = at->before[i];
        }
    }
    int unit = unit_of(unit_of(unit_of(16, y.dim[axis] * inner), at->before[axis] * inner),
                       x.dim[axis] * inner);
    unit = unit_of_pointer(unit_of_pointer(unit, call->in[0]), call->out[0]);
    job.row = y.dim[axis] * inner / unit;
    job.head = at->before[axis] * inner / unit;
    job.body = x.dim[axis] * inner / unit;
    job.count = shape_count(y) * type_bytes(in_type(n, 0)) / unit;
    WITH_UNIT(unit, U,
              cuda_launch(cuda_stream(call), pad_units<U>,
                          cuda_blocks(call, job.count, ROW_THREADS), ROW_THREADS, 0,
                          (U *)call->out[0], (const U *)call->in[0], job);)
    CUDA_LAUNCHED();
    return OK;
}

CUDA_KERNEL(concat, .run = concat_cuda)
CUDA_KERNEL(split, .run = split_cuda)
CUDA_KERNEL(slice, .run = slice_cuda)
CUDA_KERNEL(put, .run = put_cuda)
CUDA_KERNEL(pad, .run = pad_cuda)
CUDA_KERNEL(shift, .run = shift_cuda)
