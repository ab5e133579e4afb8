/* resize_cpu.c -- resizing on the CPU: per output row, first a sum of input rows, then of columns.
 *
 * A Taps table says for each index of the output which indices of the input it sums, with weights.
 * The gradient uses the transposed table. Each run builds its tables in the workspace, which takes
 * next to no time compared with the image.
 */
#include "ops/resample/resize.h"

#include "device/convert.h"
#include "ops/parallel.h"

#include <math.h>

typedef struct Taps {            /* entries from[i] .. from[i+1] belong to output i */
    int32_t *from, *index;
    float   *weight;
} Taps;

typedef struct ResizeAxis { ResizeMode mode; int64_t in, out; } ResizeAxis;

enum { MAX_TAPS = 4 };          /* of one output, RESIZE_AREA excepted */

static int64_t area_start(ResizeAxis a, int64_t i) { return i * a.in / a.out; }
static int64_t area_end(ResizeAxis a, int64_t i)   { return ((i + 1) * a.in + a.out - 1) / a.out; }

/* Taps in the whole table. */
static int64_t taps_count(ResizeAxis a)
{
    int64_t count = 0;
    if (a.mode == RESIZE_AREA)
        for (int64_t i = 0; i < a.out; i++)
            count += area_end(a, i) - area_start(a, i);
    else
        count = a.out * (a.mode == RESIZE_NEAREST ? 1 : a.mode == RESIZE_BILINEAR ? 2 : MAX_TAPS);
    return count;
}

/* In fp32 as in PyTorch, since rounding decides which pixel is taken. */
static int64_t nearest_index(ResizeAxis a, int64_t i)
{
    int64_t index = (int64_t)floorf((float)i * ((float)a.in / (float)a.out));
    return a.out == 2 * a.in ? i / 2 : index < a.in ? index : a.in - 1;
}

/* Keys' cubic (1981) with a = -0.75 at distance d. */
static double cubic(double d)
{
    const double a = -0.75;
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* The taps of output i; returns how many. Indices outside the image move to its edge. */
static int64_t taps_of(ResizeAxis a, int64_t i, int32_t *index, float *weight)
{
    if (a.mode == RESIZE_NEAREST) {
        index[0] = (int32_t)nearest_index(a, i);
        weight[0] = 1;
        return 1;
    }
    if (a.mode == RESIZE_AREA) {
        int64_t start = area_start(a, i), n = area_end(a, i) - start;
        for (int64_t k = 0; k < n; k++) {
            index[k] = (int32_t)(start + k);
            weight[k] = (float)(1.0 / (double)n);
        }
        return n;
    }
    double at = ((double)i + 0.5) * (double)a.in / (double)a.out - 0.5;
    bool   bilinear = a.mode == RESIZE_BILINEAR;
    if (bilinear && at < 0)
        at = 0;
    int64_t base = (int64_t)floor(at), n = bilinear ? 2 : MAX_TAPS;
    int64_t first = bilinear ? base : base - 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t p = first + k;
        double  d = at - (double)p;
        index[k] = (int32_t)(p < 0 ? 0 : p < a.in ? p : a.in - 1);
        weight[k] = (float)(bilinear ? 1 - fabs(d) : cubic(d));
    }
    return n;
}

static Taps taps_forward(ResizeAxis a, Taps t)
{
    t.from[0] = 0;
    for (int64_t i = 0; i < a.out; i++)
        t.from[i + 1] = t.from[i] + (int32_t)taps_of(a, i, t.index + t.from[i],
                                                     t.weight + t.from[i]);
    return t;
}

/* For each index of the input the outputs that sum it, in order: a stable counting sort. */
static Taps taps_transposed(ResizeAxis a, Taps forward, Taps t)
{
    forward = taps_forward(a, forward);
    memset(t.from, 0, (size_t)(a.in + 1) * sizeof *t.from);
    for (int32_t k = 0; k < forward.from[a.out]; k++)
        t.from[forward.index[k] + 1]++;
    for (int64_t p = 0; p < a.in; p++)
        t.from[p + 1] += t.from[p];
    for (int64_t i = 0; i < a.out; i++)
        for (int32_t k = forward.from[i]; k < forward.from[i + 1]; k++) {
            int32_t slot = t.from[forward.index[k]]++;
            t.index[slot] = (int32_t)i;
            t.weight[slot] = forward.weight[k];
        }
    memmove(t.from + 1, t.from, (size_t)a.in * sizeof *t.from);      /* each start became its end */
    t.from[0] = 0;
    return t;
}

/* One run: src (N,H,W,C) to dst (N,rows,cols,C); axes as the forward operation sees them. */
typedef struct ResizeRun {
    ResizeAxis    y, x;
    bool    transposed;
    int64_t images, channels, src_h, src_w, dst_h, dst_w;
    Type    type_src, type_dst;
    int     threads;
} ResizeRun;

static ResizeRun resize_of(const Node *n, bool transposed, const Device *device)
{
    Shape      src = in_shape(n, 0), dst = out_shape(n, 0), in = transposed ? dst : src;
    Shape      out = transposed ? src : dst;
    ResizeMode mode = ATTR(n, ResizeAttr)->mode;
    int64_t    rows = dst.dim[0] * dst.dim[1];
    return (ResizeRun){
        .y = { mode, in.dim[1], out.dim[1] }, .x = { mode, in.dim[2], out.dim[2] },
        .transposed = transposed,
        .images = src.dim[0], .channels = src.dim[3],
        .src_h = src.dim[1], .src_w = src.dim[2], .dst_h = dst.dim[1], .dst_w = dst.dim[2],
        .type_src = in_type(n, 0), .type_dst = out_type(n, 0),
        .threads = parallel_threads(device->threads, rows),
    };
}

/* 4-byte words of a table: starts, places, weights; when transposed, also of its forward form. */
static int64_t taps_words(ResizeAxis a, bool transposed)
{
    int64_t taps = 2 * taps_count(a);
    return transposed ? a.in + 1 + taps + a.out + 1 + taps : a.out + 1 + taps;
}

static Taps taps_make(ResizeAxis a, bool transposed, int32_t *words)
{
    int64_t taps = taps_count(a);
    Taps    forward = { words, words + a.out + 1, (float *)(words + a.out + 1 + taps) };
    if (!transposed)
        return taps_forward(a, forward);
    words += a.out + 1 + 2 * taps;
    return taps_transposed(a, forward, (Taps){ words, words + a.in + 1,
                                               (float *)(words + a.in + 1 + taps) });
}

/* Floats of one thread: a sum of rows, a converted row of the source, a row of the result. */
static int64_t thread_floats(const ResizeRun *job)
{
    return (2 * job->src_w + job->dst_w) * job->channels;
}

static Err choose(const Node *n, bool transposed, const Device *device, Choice *choice)
{
    ResizeRun job = resize_of(n, transposed, device);
    int64_t words = taps_words(job.y, transposed) + taps_words(job.x, transposed);
    choice->workspace_bytes = 4 * (size_t)(words + job.threads * thread_floats(&job));
    return OK;
}

/* The weighted sum of the input rows of an output row. A single row of weight 1 is used in
 * place. */
static const float *sum_rows(const ResizeRun *job, const Taps *taps, const void *src, int64_t image,
                             int64_t row,
                             float *sum, float *stage)
{
    int64_t n = job->src_w * job->channels;
    int32_t from = taps->from[row], to = taps->from[row + 1];
    if (to == from + 1 && taps->weight[from] == 1.0f)
        return row_load(job->type_src, src, (image * job->src_h + taps->index[from]) * n, n, stage);
    if (from == to)                          /* no output used this row */
        memset(sum, 0, (size_t)n * sizeof *sum);
    for (int32_t k = from; k < to; k++) {
        const float *x = row_load(job->type_src, src, (image * job->src_h + taps->index[k]) * n, n,
                                  stage);
        float        weight = taps->weight[k];
        if (k == from)
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                sum[i] = weight * x[i];
        else
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                sum[i] += weight * x[i];
    }
    return sum;
}

static void sum_columns(const ResizeRun *job, const Taps *taps, const float *row, float *dst)
{
    int64_t n = job->channels;
    for (int64_t c = 0; c < job->dst_w; c++, dst += n) {
        int32_t k = taps->from[c], to = taps->from[c + 1];
        if (k == to) {
            memset(dst, 0, (size_t)n * sizeof *dst);
            continue;
        }
        const float *x = row + taps->index[k] * n;
        float        weight = taps->weight[k];
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dst[i] = weight * x[i];
        for (k++; k < to; k++) {
            x = row + taps->index[k] * n;
            weight = taps->weight[k];
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dst[i] += weight * x[i];
        }
    }
}

/* Nearest only copies pixels; an output row equal to the one before is copied whole. */
static void copy_nearest(const Call *call, const ResizeRun *job, const Taps *y, const Taps *x)
{
    size_t      pixel = (size_t)(job->channels * type_bytes(job->type_src));
    const char *src = call->in[0];
    char       *dst = call->out[0];

#pragma omp parallel num_threads(job->threads)
    {
        int64_t from, to;
        parallel_range(job->images * job->dst_h, 1, omp_get_thread_num(), job->threads, &from, &to);
        for (int64_t r = from; r < to; r++) {
            int64_t     i = r % job->dst_h, index = r / job->dst_h * job->src_h + y->index[i];
            const char *row = src + (size_t)(index * job->src_w) * pixel;
            char       *out = dst + (size_t)(r * job->dst_w) * pixel;
            if (r > from && i > 0 && y->index[i] == y->index[i - 1])
                memcpy(out, out - (size_t)job->dst_w * pixel, (size_t)job->dst_w * pixel);
            else
                for (int64_t c = 0; c < job->dst_w; c++)
                    memcpy(out + (size_t)c * pixel, row + (size_t)x->index[c] * pixel, pixel);
        }
    }
}

static Err run(const Call *call, bool transposed)
{
    ResizeRun   job = resize_of(call->node, transposed, call->device);
    int32_t *words = call->workspace;
    Taps     y = taps_make(job.y, transposed, words);
    Taps     x = taps_make(job.x, transposed, words + taps_words(job.y, transposed));
    int64_t  tables = taps_words(job.y, transposed) + taps_words(job.x, transposed);
    float   *floats = (float *)(words + tables);
    int64_t  n = job.dst_w * job.channels;
    if (job.y.mode == RESIZE_NEAREST && !transposed) {
        copy_nearest(call, &job, &y, &x);
        return OK;
    }

#pragma omp parallel num_threads(job.threads)
    {
        float  *sum = floats + omp_get_thread_num() * thread_floats(&job);
        float  *stage = sum + job.src_w * job.channels;
        float  *stage_dst = stage + job.src_w * job.channels;
        int64_t from, to;
        parallel_range(job.images * job.dst_h, 1, omp_get_thread_num(), job.threads, &from, &to);
        for (int64_t r = from; r < to; r++) {
            const float *row = sum_rows(&job, &y, call->in[0], r / job.dst_h, r % job.dst_h, sum,
                                        stage);
            float       *dst = row_open(job.type_dst, call->out[0], r * n, stage_dst);
            sum_columns(&job, &x, row, dst);
            row_store(job.type_dst, call->out[0], r * n, n, dst);
        }
    }
    return OK;
}

Err resize_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    return choose(n, false, device, choice);
}

Err resize_cpu(const Call *call) { return run(call, false); }

Err resize_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    return choose(n, true, device, choice);
}

Err resize_grad_cpu(const Call *call) { return run(call, true); }
