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

typedef struct TapAxis { /* as the forward operation sees it */
    ResizeMode mode;
    bool       align_corners, antialias;
    int32_t    in, out;
    double     scale;
} TapAxis;

typedef struct TapRange {
    int32_t from, count;
} TapRange;

/* In fp32 as in PyTorch, since rounding decides which pixel is taken. */
__host__ __device__ static int32_t nearest_index(TapAxis a, int32_t i)
{
    float   step = a.scale > 0 ? (float)(1 / a.scale) : (float)a.in / (float)a.out;
    int32_t index = a.mode == RESIZE_NEAREST_EXACT
                        ? (int32_t)floorf((float)(((double)i + 0.5) * (double)step))
                        : (int32_t)floorf((float)i * step);
    if (a.mode == RESIZE_NEAREST && a.scale == 0 && a.out == 2 * (int64_t)a.in)
        return i / 2;
    return index < a.in ? index : a.in - 1;
}

/* Keys' cubic (1981) at distance d. */
__device__ static double cubic(double d, double a)
{
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* Input pixels per output pixel. */
__host__ __device__ static double step_of(TapAxis a)
{
    if (a.align_corners)
        return a.out > 1 ? (double)(a.in - 1) / (double)(a.out - 1) : 0;
    return a.scale > 0 ? 1 / a.scale : (double)a.in / (double)a.out;
}

/* Bilinear and cubic: the first tap of output i, not yet clamped to the edge; *at: its centre. */
__host__ __device__ static int32_t first_tap(TapAxis a, int32_t i, double *at)
{
    *at = a.align_corners ? step_of(a) * (double)i
          : a.scale > 0   ? ((double)i + 0.5) * step_of(a) - 0.5
                          : ((double)i + 0.5) * (double)a.in / (double)a.out - 0.5;
    bool bilinear = a.mode == RESIZE_BILINEAR;
    if (bilinear && a.in == a.out)
        *at = (double)i; /* whatever the scale */
    if (bilinear && *at < 0)
        *at = 0;
    double base = floor(*at);
    if (base > (double)(a.in - 1)) { /* a given scale may point beyond the edge */
        base = (double)(a.in - 1);
        *at = *at < (double)a.in ? *at : (double)a.in;
    }
    return (int32_t)base - (a.mode == RESIZE_BICUBIC);
}

__host__ __device__ static int32_t at_edge(TapAxis a, int32_t index)
{
    return index < 0 ? 0 : index < a.in ? index : a.in - 1;
}

/* Antialias: the filter covers a distance on both sides of an output's centre, which grows as the
 * map shrinks. */
__host__ __device__ static TapRange smooth_range(TapAxis a, int32_t i)
{
    double half = a.mode == RESIZE_BILINEAR ? 1 : 2, step = step_of(a),
           support = step > 1 ? half * step : half, centre = step * ((double)i + 0.5);
    int64_t from = (int64_t)(centre - support + 0.5), to = (int64_t)(centre + support + 0.5);
    from = from > 0 ? from : 0;
    to = to < a.in ? to : a.in;
    return { (int32_t)from, (int32_t)(to - from) };
}

__device__ static double filter_at(TapAxis a, int32_t i, int32_t index)
{
    double step = step_of(a),
           d = fabs((double)index - step * ((double)i + 0.5) + 0.5) * (step > 1 ? 1 / step : 1);
    if (a.mode == RESIZE_BILINEAR)
        return d < 1 ? 1 - d : 0;
    return d < 2 ? cubic(d, -0.5) : 0;
}

__device__ static float smooth_weight(TapAxis a, int32_t i, int32_t index, TapRange range)
{
    double sum = 0, own = filter_at(a, i, index);
    for (int32_t k = range.from; k < range.from + range.count; k++)
        sum += filter_at(a, i, k);
    return (float)(sum != 0 ? own / sum : own);
}

/* The indices of the input that output i sums. */
__host__ __device__ static TapRange range_of(TapAxis a, int32_t i)
{
    if (a.mode == RESIZE_NEAREST || a.mode == RESIZE_NEAREST_EXACT)
        return { nearest_index(a, i), 1 };
    if (a.mode == RESIZE_AREA) {
        int64_t from = (int64_t)i * a.in / a.out, to = ceil_div(((int64_t)i + 1) * a.in, a.out);
        return { (int32_t)from, (int32_t)(to - from) };
    }
    if (a.antialias)
        return smooth_range(a, i);
    double  at;
    int32_t first = first_tap(a, i, &at), taps = a.mode == RESIZE_BILINEAR ? 2 : 4;
    int32_t from = at_edge(a, first), to = at_edge(a, first + taps - 1);
    return { from, to - from + 1 };
}

/* The weight of `index` in output i; taps beyond the edge count for the edge. */
__device__ static float weight_of(TapAxis a, int32_t i, int32_t index, TapRange range)
{
    if (a.mode == RESIZE_NEAREST || a.mode == RESIZE_NEAREST_EXACT)
        return 1;
    if (a.mode == RESIZE_AREA)
        return (float)(1.0 / (double)range.count);
    if (a.antialias)
        return smooth_weight(a, i, index, range);
    double  at, sum = 0;
    int32_t first = first_tap(a, i, &at), taps = a.mode == RESIZE_BILINEAR ? 2 : 4;
    for (int32_t tap = first; tap < first + taps; tap++)
        if (at_edge(a, tap) == index) {
            double d = at - (double)tap;
            sum += a.mode == RESIZE_BILINEAR ? 1 - fabs(d) : cubic(d, -0.75);
        }
    return (float)sum;
}

/* The first output whose range ends behind index, or begins behind it. */
__host__ __device__ static int32_t first_beyond(TapAxis a, int32_t index, bool begins)
{
    int32_t low = 0, high = a.out;
    while (low < high) {
        int32_t  middle = low + (high - low) / 2;
        TapRange r = range_of(a, middle);
        if ((begins ? r.from : r.from + r.count - 1) >= index + begins)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The outputs that sum an index of the input. Both ends of the ranges grow with the output. */
__host__ __device__ static TapRange range_back(TapAxis a, int32_t index)
{
    int32_t from = first_beyond(a, index, false), to = first_beyond(a, index, true);
    return { from, to > from ? to - from : 0 };
}

typedef struct TapTable { /* of one axis: for every index of the result */
    TapRange *range;
    float    *weight; /* [count][longest] */
    TapAxis   axis;
    int32_t   count, longest;
} TapTable;

static TapTable table_of(const ResizeAxis *a, bool back)
{
    TapAxis  axis = { a->mode,        a->align_corners, a->antialias,
                      (int32_t)a->in, (int32_t)a->out,  a->scale };
    TapTable t = { NULL, NULL, axis, back ? axis.in : axis.out, 1 };
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

typedef struct ResizeJob {
    TapTable axis[3]; /* depth, height, width */
    bool     flat;    /* there is no depth and no table of it */
    int64_t  images, channels, src[3];
} ResizeJob;

/* A warp per index. */
__global__ void __launch_bounds__(ROW_THREADS) table_fill(ResizeJob job, bool back)
{
    const TapTable &t = job.axis[blockIdx.y + job.flat];
    int             lane = (int)threadIdx.x % 32;
    for (int32_t i = (int32_t)(blockIdx.x * ROW_THREADS + threadIdx.x) / 32; i < t.count;
         i += (int32_t)(gridDim.x * ROW_THREADS) / 32) {
        TapRange r = back ? range_back(t.axis, i) : range_of(t.axis, i);
        if (lane == 0)
            t.range[i] = r;
        for (int32_t k = lane; k < r.count; k += 32)
            t.weight[(int64_t)i * t.longest + k] = back ? weight_of(t.axis, r.from + k, i,
                                                                    range_of(t.axis, r.from + k))
                                                        : weight_of(t.axis, i, r.from + k, r);
    }
}

/* Finding the longest ranges takes a search along all axes, so it is done once, in prepare. */
static ResizeJob resize_of(const Node *n, bool back)
{
    Shape      src = in_shape(n, 0), dst = out_shape(n, 0);
    ResizeAxis axes[3];
    ResizeJob  job = {};
    resize_axes(ATTR(n, ResizeAttr), back ? dst : src, back ? src : dst, axes);
    job.flat = src.rank < 5;
    job.images = src.dim[0];
    job.channels = dim(src, -1);
    for (int i = 0; i < 3; i++) {
        job.axis[i] = table_of(&axes[i], back);
        job.src[i] = back ? axes[i].out : axes[i].in;
    }
    return job;
}

/* Sums the rows of a column first, then the columns. */
template <int N>
__global__ void __launch_bounds__(ROW_THREADS) resize_sum(ResizeJob job, AnyIn src, AnyOut dst)
{
    int64_t packs = job.channels / N,
            count = job.images * job.axis[0].count * job.axis[1].count * job.axis[2].count * packs;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t c, d = 0, i, j, left = divided(t, packs, &c);
        left = divided(left, job.axis[2].count, &j);
        int64_t      image = divided(left, job.axis[1].count, &i);
        TapRange     planes = { 0, 1 }, rows = job.axis[1].range[i], columns = job.axis[2].range[j];
        const float *weight_d = NULL, *weight_y = job.axis[1].weight + i * job.axis[1].longest,
                    *weight_x = job.axis[2].weight + j * job.axis[2].longest;
        if (!job.flat) {
            image = divided(image, job.axis[0].count, &d);
            planes = job.axis[0].range[d];
            weight_d = job.axis[0].weight + d * job.axis[0].longest;
        }
        float sum[N] = { 0 };
        for (int32_t q = 0; q < columns.count; q++) {
            float column[N] = { 0 }, x[N], w = weight_x[q];
            for (int32_t o = 0; o < planes.count; o++) {
                int64_t plane = image * job.src[0] + planes.from + o;
                float   depth = weight_d ? weight_d[o] : 1.0f;
                for (int32_t p = 0; p < rows.count; p++) {
                    int64_t pixel = (plane * job.src[1] + rows.from + p) * job.src[2] +
                                    columns.from + q;
                    any_get<N>(src, pixel * job.channels + c * N, x);
#pragma unroll
                    for (int k = 0; k < N; k++)
                        column[k] = fmaf(depth * weight_y[p], x[k], column[k]);
                }
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
    choice->workspace_bytes = 0;
    for (int i = job.flat; i < 3; i++)
        choice->workspace_bytes += table_bytes(&job.axis[i]);
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
    AnyIn     src = any_in(call, 0);
    AnyOut    dst = any_out(call, 0);
    PackOf    pack = { 8 };
    TapRange *ranges = (TapRange *)call->workspace;
    int32_t   longest = 0;
    for (int i = job.flat; i < 3; i++) {
        job.axis[i].range = ranges;
        ranges += job.axis[i].count;
        longest = job.axis[i].count > longest ? job.axis[i].count : longest;
    }
    float *weights = (float *)ranges;
    for (int i = job.flat; i < 3; i++) {
        job.axis[i].weight = weights;
        weights += (int64_t)job.axis[i].count * job.axis[i].longest;
    }
    dim3 tables((unsigned)ceil_div(longest, ROW_THREADS / 32), job.flat ? 2 : 3);
    table_fill<<<tables, ROW_THREADS, 0, cuda_stream(call)>>>(job, back);
    CUDA_LAUNCHED();

    int64_t count = shape_count(out_shape(call->node, 0));
    pack_with(&pack, src.p, src.type);
    pack_with(&pack, dst.p, dst.type);
    pack_along(&pack, job.channels);
    if (count / pack.n < (int64_t)cuda_handle(call)->sms * ROW_THREADS)
        pack.n = 1; /* more threads instead of wider packs */
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
