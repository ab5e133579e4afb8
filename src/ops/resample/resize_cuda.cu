/* resize_cuda.cu -- resizing on CUDA. Each place of the result sums a range of rows and a range of
 * columns of the source; a small kernel first writes these ranges and their weights to the
 * workspace.
 *
 * What an output sums lies side by side, and outputs follow their places in order; so what a place
 * of the input went into lies side by side too, and the gradient is the same sum with another
 * table. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "ops/resample/resize.h"
}

typedef struct Axis {            /* as the forward operation sees it */
    ResizeMode mode;
    int32_t    in, out;
} Axis;

typedef struct Range { int32_t from, count; } Range;

/* PyTorch computes this one in fp32, and rounding decides which pixel is taken. */
__host__ __device__ static int32_t nearest_place(Axis a, int32_t i)
{
    float   scale = (float)a.in / (float)a.out;
    int32_t place = (int32_t)floorf((float)i * scale);
    return a.out == 2 * (int64_t)a.in ? i / 2 : place < a.in ? place : a.in - 1;
}

/* Keys' cubic (1981) with a = -0.75 at distance d. */
__device__ static double cubic(double d)
{
    const double a = -0.75;
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* Where output i looks, bilinear and cubic: the first tap, before the edge, and the exact place. */
__host__ __device__ static int32_t first_tap(Axis a, int32_t i, double *at)
{
    *at = ((double)i + 0.5) * (double)a.in / (double)a.out - 0.5;
    if (a.mode == RESIZE_BILINEAR && *at < 0)
        *at = 0;
    return (int32_t)floor(*at) - (a.mode == RESIZE_BICUBIC);
}

__host__ __device__ static int32_t at_edge(Axis a, int32_t place)
{
    return place < 0 ? 0 : place < a.in ? place : a.in - 1;
}

/* The places of the input that output i sums. */
__host__ __device__ static Range range_of(Axis a, int32_t i)
{
    if (a.mode == RESIZE_NEAREST)
        return { nearest_place(a, i), 1 };
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

/* The weight of `place` in output i; taps beyond the edge count for the edge. */
__device__ static float weight_of(Axis a, int32_t i, int32_t place, Range range)
{
    if (a.mode == RESIZE_NEAREST)
        return 1;
    if (a.mode == RESIZE_AREA)
        return (float)(1.0 / (double)range.count);
    double  at, sum = 0;
    int32_t first = first_tap(a, i, &at), taps = a.mode == RESIZE_BILINEAR ? 2 : 4;
    for (int32_t tap = first; tap < first + taps; tap++)
        if (at_edge(a, tap) == place) {
            double d = at - (double)tap;
            sum += a.mode == RESIZE_BILINEAR ? 1 - fabs(d) : cubic(d);
        }
    return (float)sum;
}

/* The outputs that sum a place of the input lie between bounds that hold for every mode, since a
 * tap is never more than two places away from where its output looks, four at the edge. */
__host__ __device__ static Range range_search(Axis a, int32_t place)
{
    double  step = (double)a.out / (double)a.in;
    int64_t low = (int64_t)floor(((double)place - 5) * step) - 2,
            high = (int64_t)ceil(((double)place + 6) * step) + 2;
    low = low > 0 ? low : 0;
    high = high < a.out ? high : a.out;
    return { (int32_t)low, (int32_t)(high - low) };
}

__host__ __device__ static bool sums_place(Axis a, int32_t i, int32_t place)
{
    Range r = range_of(a, i);
    return place >= r.from && place < r.from + r.count;
}

static Range range_back(Axis a, int32_t place)
{
    Range search = range_search(a, place), back = { 0, 0 };
    for (int32_t i = search.from; i < search.from + search.count; i++)
        if (sums_place(a, i, place)) {
            if (back.count == 0)
                back.from = i;
            back.count++;
        }
    return back;
}

/* The same by a warp. */
__device__ static Range range_back_warp(Axis a, int32_t place, int lane)
{
    Range search = range_search(a, place), back = { 0, 0 };
    for (int32_t k = 0; k < search.count; k += 32) {
        bool     sums = k + lane < search.count && sums_place(a, search.from + k + lane, place);
        unsigned found = __ballot_sync(0xffffffffu, sums);
        if (found && back.count == 0)
            back.from = search.from + k + __ffs((int)found) - 1;
        back.count += __popc(found);
    }
    return back;
}

typedef struct Table {           /* of one axis: for every place of the result */
    Range   *range;
    float   *weight;             /* [places][most] */
    Axis     axis;
    int32_t  places, most;
} Table;

static Table table_of(ResizeMode mode, int64_t in, int64_t out, bool back)
{
    Table t = { NULL, NULL, { mode, (int32_t)in, (int32_t)out }, (int32_t)(back ? in : out), 1 };
    for (int32_t i = 0; i < t.places; i++) {
        Range r = back ? range_back(t.axis, i) : range_of(t.axis, i);
        t.most = r.count > t.most ? r.count : t.most;
    }
    return t;
}

static size_t table_bytes(const Table *t)
{
    return (size_t)t->places * (sizeof(Range) + t->most * sizeof(float));
}

/* A warp to a place. */
__global__ void __launch_bounds__(ROW_THREADS) table_fill(Table rows, Table columns, bool back)
{
    const Table &t = blockIdx.y ? columns : rows;
    int          lane = (int)threadIdx.x % 32;
    for (int32_t i = (int32_t)(blockIdx.x * ROW_THREADS + threadIdx.x) / 32; i < t.places;
         i += (int32_t)(gridDim.x * ROW_THREADS) / 32) {
        Range r = back ? range_back_warp(t.axis, i, lane) : range_of(t.axis, i);
        if (lane == 0)
            t.range[i] = r;
        for (int32_t k = lane; k < r.count; k += 32)
            t.weight[(int64_t)i * t.most + k] =
                back ? weight_of(t.axis, r.from + k, i, range_of(t.axis, r.from + k))
                     : weight_of(t.axis, i, r.from + k, r);
    }
}

typedef struct Resize {
    Table   y, x;
    int64_t images, channels, src_h, src_w;
} Resize;

/* Finding the longest ranges takes a search along both axes: done once, in prepare, not in every
 * run. */
static Resize resize_of(const Node *n, bool back)
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

/* A column of rows at a time, then the columns: the order of the CPU's sums. */
template <int N>
__global__ void __launch_bounds__(ROW_THREADS) resize_sum(Resize job, AnyIn src, AnyOut dst)
{
    int64_t packs = job.channels / N, count = job.images * job.y.places * job.x.places * packs;
    for (int64_t t = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; t < count;
         t += (int64_t)gridDim.x * ROW_THREADS) {
        int64_t      c, i, j, left = divided(t, packs, &c);
        left = divided(left, job.x.places, &j);
        int64_t      image = divided(left, job.y.places, &i);
        Range        rows = job.y.range[i], columns = job.x.range[j];
        const float *weight_y = job.y.weight + i * job.y.most,
                    *weight_x = job.x.weight + j * job.x.most;
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
    Resize job = resize_of(n, back);
    choice->workspace_bytes = table_bytes(&job.y) + table_bytes(&job.x);
    return OK;
}

static Err resize_prepare(Pool *pool, Call *call, bool back)
{
    Resize *job = NEW(pool, Resize);
    *job = resize_of(call->node, back);
    call->prepared = job;
    return OK;
}

static Err resize_run(const Call *call, bool back)
{
    Resize job = *(const Resize *)call->prepared;
    AnyIn  src = any_in(call, 0);
    AnyOut dst = any_out(call, 0);
    PackOf pack = { 8 };
    job.y.range = (Range *)call->workspace;
    job.x.range = job.y.range + job.y.places;
    job.y.weight = (float *)(job.x.range + job.x.places);
    job.x.weight = job.y.weight + (int64_t)job.y.places * job.y.most;
    int32_t longer = job.y.places > job.x.places ? job.y.places : job.x.places;
    dim3    tables((unsigned)ceil_div(longer, ROW_THREADS / 32), 2);
    table_fill<<<tables, ROW_THREADS, 0, cuda_stream(call)>>>(job.y, job.x, back);
    CUDA_LAUNCHED();

    int64_t count = job.images * job.y.places * job.x.places * job.channels;
    pack_with(&pack, src.p, src.type);
    pack_with(&pack, dst.p, dst.type);
    pack_along(&pack, job.channels);
    if (count / pack.n < (int64_t)cuda_handle(call)->sms * ROW_THREADS)
        pack.n = 1;                          /* rather more threads */
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
