/* resize_cuda.cu -- resizing on CUDA. Each pixel of the result sums a range of rows and a range of
 * columns of the source; a small kernel first writes these ranges and their weights to the
 * workspace.
 *
 * The inputs of an output are contiguous, and the ranges of later outputs start later. So the
 * outputs that read an input are contiguous too, and the gradient is the same sum with another
 * table. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/resample/resize.h"
}

typedef struct TapAxis {            /* as the forward operation sees it */
    ResizeMode mode;
    int32_t    in, out;
} TapAxis;

typedef struct TapRange { int32_t from, count; } TapRange;

/* In fp32 as in PyTorch, since rounding decides which pixel is taken. */
__host__ __device__ static int32_t nearest_index(TapAxis a, int32_t i)
{
    float   scale = (float)a.in / (float)a.out;
    int32_t index = (int32_t)floorf((float)i * scale);
    return a.out == 2 * (int64_t)a.in ? i / 2 : index < a.in ? index : a.in - 1;
}

/* Keys' cubic (1981) with a = -0.75 at distance d. */
__device__ static double cubic(double d)
{
    const double a = -0.75;
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* Bilinear and cubic: the first tap of output i, not yet clamped to the edge; *at: its centre. */
__host__ __device__ static int32_t first_tap(TapAxis a, int32_t i, double *at)
{
    *at = ((double)i + 0.5) * (double)a.in / (double)a.out - 0.5;
    if (a.mode == RESIZE_BILINEAR && *at < 0)
        *at = 0;
    return (int32_t)floor(*at) - (a.mode == RESIZE_BICUBIC);
}

__host__ __device__ static int32_t at_edge(TapAxis a, int32_t index)
{
    return index < 0 ? 0 : index < a.in ? index : a.in - 1;
}

/* The indices of the input that output i sums. */
__host__ __device__ static TapRange range_of(TapAxis a, int32_t i)
{
    if (a.mode == RESIZE_NEAREST)
        return { nearest_index(a, i), 1 };
    if (a.mode == RESIZE_AREA) {
        int64_t from = (int64_t)i * a.in / a.out,
                to = (((int64_t)i + 1) * a.in + a.out - 1) / a.out;
        return { (int32_t)from, (int32_t)(to - from) };
    }
    double  at;
    int32_t first = first_tap(a, i, &at), taps = a.mode == RESIZE_BILINEAR ? 2 : 4;
    int32_t from = at_edge(a, first), to = at_edge(a, first + taps - 1);
    return { from, to - from + 1 };
}

/* The weight of `index` in output i; taps beyond the edge count for the edge. */
__device__ static float weight_of(TapAxis a, int32_t i, int32_t index, TapRange range)
{
    if (a.mode == RESIZE_NEAREST)
        return 1;
    if (a.mode == RESIZE_AREA)
        return (float)(1.0 / (double)range.count);
    double  at, sum = 0;
    int32_t first = first_tap(a, i, &at), taps = a.mode == RESIZE_BILINEAR ? 2 : 4;
    for (int32_t tap = first; tap < first + taps; tap++)
        if (at_edge(a, tap) == index) {
            double d = at - (double)tap;
            sum += a.mode == RESIZE_BILINEAR ? 1 - fabs(d) : cubic(d);
        }
    return (float)sum;
}

/* Bounds of the outputs that sum an index of the input. They hold for every mode, since a tap is at
 * most two indices away from its output's centre, four at the edge. */
__host__ __device__ static TapRange range_search(TapAxis a, int32_t index)
{
    double  step = (double)a.out / (double)a.in;
    int64_t low = (int64_t)floor(((double)index - 5) * step) - 2,
            high = (int64_t)ceil(((double)index + 6) * step) + 2;
    low = low > 0 ? low : 0;
    high = high < a.out ? high : a.out;
    return { (int32_t)low, (int32_t)(high - low) };
}

__host__ __device__ static bool sums_index(TapAxis a, int32_t i, int32_t index)
{
    TapRange r = range_of(a, i);
    return index >= r.from && index < r.from + r.count;
}

static TapRange range_back(TapAxis a, int32_t index)
{
    TapRange search = range_search(a, index), back = { 0, 0 };
    for (int32_t i = search.from; i < search.from + search.count; i++)
        if (sums_index(a, i, index)) {
            if (back.count == 0)
                back.from = i;
            back.count++;
        }
    return back;
}

/* The same by a warp. */
__device__ static TapRange range_back_warp(TapAxis a, int32_t index, int lane)
{
    TapRange search = range_search(a, index), back = { 0, 0 };
    for (int32_t k = 0; k < search.count; k += 32) {
        bool     sums = k + lane < search.count && sums_index(a, search.from + k + lane, index);
        unsigned found = __ballot_sync(0xffffffffu, sums);
        if (found && back.count == 0)
            back.from = search.from + k + __ffs((int)found) - 1;
        back.count += __popc(found);
    }
    return back;
}

typedef struct TapTable {           /* of one axis: for every index of the result */
    TapRange   *range;
    float   *weight;             /* [count][longest] */
    TapAxis     axis;
    int32_t  count, longest;
} TapTable;

static TapTable table_of(ResizeMode mode, int64_t in, int64_t out, bool back)
{
    TapTable t = { NULL, NULL, { mode, (int32_t)in, (int32_t)out }, (int32_t)(back ? in : out), 1 };
    for (int32_t i = 0; i < t.count; i++) {
        TapRange r = back ? range_back(t.axis, i) : range_of(t.axis, i);
        t.longest = r.count > t.longest ? r.count : t.longest;
    }
    return t;
}

static size_t table_bytes(const TapTable *t)
{
    return (size_t)t->count * (sizeof(TapRange) + t->longest * sizeof(float));
}

/* A warp per index. */
__global__ void __launch_bounds__(ROW_THREADS)
    table_fill(TapTable rows, TapTable columns, bool back)
{
    const TapTable &t = blockIdx.y ? columns : rows;
    int          lane = (int)threadIdx.x % 32;
    for (int32_t i = (int32_t)(blockIdx.x * ROW_THREADS + threadIdx.x) / 32; i < t.count;
         i += (int32_t)(gridDim.x * ROW_THREADS) / 32) {
        TapRange r = back ? range_back_warp(t.axis, i, lane) : range_of(t.axis, i);
        if (lane == 0)
            t.range[i] = r;
        for (int32_t k = lane; k < r.count; k += 32)
            t.weight[(int64_t)i * t.longest + k] =
                back ? weight_of(t.axis, r.from + k, i, range_of(t.axis, r.from + k))
                     : weight_of(t.axis, i, r.from + k, r);
    }
}

typedef struct ResizeJob {
    TapTable   y, x;
    int64_t images, channels, src_h, src_w;
} ResizeJob;

/* Finding the longest ranges takes a search along both axes, so it is done once, in prepare. */
static ResizeJob resize_of(const Node *n, bool back)
{
    Shape src = in_shape(n, 0), dst = out_shape(n, 0), in = back ? dst : src,
          out = back ? src : dst;
    ResizeMode mode = ATTR(n, ResizeAttr)->mode;
    return { table_of(mode, in.dim[1], out.dim[1], back),
             table_of(mode, in.dim[2], out.dim[2], back),
             src.dim[0],
             src.dim[3],
             src.dim[1],
             src.dim[2] };
}

/* Sums the rows of a column first, then the columns. */
template <int N>
__global__ void __launch_bounds__(ROW_THREADS) resize_sum(ResizeJob job, AnyIn src, AnyOut dst)
{
    int64_t packs = job.channels / N, count = job.images * job.y.count * job.x.count * packs;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t      c, i, j, left = divided(t, packs, &c);
        left = divided(left, job.x.count, &j);
        int64_t      image = divided(left, job.y.count, &i);
        TapRange        rows = job.y.range[i], columns = job.x.range[j];
        const float *weight_y = job.y.weight + i * job.y.longest,
                    *weight_x = job.x.weight + j * job.x.longest;
        float        sum[N] = { 0 };
        for (int32_t q = 0; q < columns.count; q++) {
            float column[N] = { 0 }, x[N], w = weight_x[q];
            for (int32_t p = 0; p < rows.count; p++) {
                int64_t pixel = (image * job.src_h + rows.from + p) * job.src_w + columns.from + q;
                any_get<N>(src, pixel * job.channels + c * N, x);
#pragma unroll
                for (int k = 0; k < N; k++)
                    column[k] = fmaf(weight_y[p], x[k], column[k]);
            }
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] = fmaf(w, column[k], sum[k]);
        }
        any_put<N>(dst, t * N, sum);
    }
}

static Err resize_choose(const Node *n, bool back, Choice *choice)
{
    ResizeJob job = resize_of(n, back);
    choice->workspace_bytes = table_bytes(&job.y) + table_bytes(&job.x);
    return OK;
}

static Err resize_prepare(Pool *pool, Call *call, bool back)
{
    ResizeJob *job = NEW(pool, ResizeJob);
    *job = resize_of(call->node, back);
    call->prepared = job;
    return OK;
}

static Err resize_run(const Call *call, bool back)
{
    ResizeJob job = *(const ResizeJob *)call->prepared;
    AnyIn  src = any_in(call, 0);
    AnyOut dst = any_out(call, 0);
    PackOf pack = { 8 };
    job.y.range = (TapRange *)call->workspace;
    job.x.range = job.y.range + job.y.count;
    job.y.weight = (float *)(job.x.range + job.x.count);
    job.x.weight = job.y.weight + (int64_t)job.y.count * job.y.longest;
    int32_t longer = job.y.count > job.x.count ? job.y.count : job.x.count;
    dim3    tables((unsigned)ceil_div(longer, ROW_THREADS / 32), 2);
    table_fill<<<tables, ROW_THREADS, 0, cuda_stream(call)>>>(job.y, job.x, back);
    CUDA_LAUNCHED();

    int64_t count = job.images * job.y.count * job.x.count * job.channels;
    pack_with(&pack, src.p, src.type);
    pack_with(&pack, dst.p, dst.type);
    pack_along(&pack, job.channels);
    if (count / pack.n < (int64_t)cuda_handle(call)->sms * ROW_THREADS)
        pack.n = 1;                          /* more threads instead of wider packs */
    WITH_PACK(pack, N,
              resize_sum<N>
              <<<cuda_blocks(call, count / N, ROW_THREADS), ROW_THREADS, 0, cuda_stream(call)>>>(
                  job, src, dst);)
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err resize_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    return resize_choose(n, false, choice);
}
extern "C" Err resize_prepare_cuda(Pool *pool, Call *call)
{
    return resize_prepare(pool, call, false);
}
extern "C" Err resize_cuda(const Call *call) { return resize_run(call, false); }

extern "C" Err resize_grad_choose_cuda(const Node *n, const Device *, Choice *choice)
{
    return resize_choose(n, true, choice);
}
extern "C" Err resize_grad_prepare_cuda(Pool *pool, Call *call)
{
    return resize_prepare(pool, call, true);
}
extern "C" Err resize_grad_cuda(const Call *call) { return resize_run(call, true); }

CUDA_KERNEL(resize, .choose = resize_choose_cuda, .prepare = resize_prepare_cuda,
            .run = resize_cuda)
CUDA_KERNEL(resize_grad, .choose = resize_grad_choose_cuda, .prepare = resize_grad_prepare_cuda,
            .run = resize_grad_cuda)
