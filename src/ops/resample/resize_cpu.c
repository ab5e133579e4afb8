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

typedef struct Taps { /* entries from[i] .. from[i+1] belong to output i */
    int32_t *from, *index;
    float   *weight;
} Taps;

enum { MAX_TAPS = 4 }; /* of one output, RESIZE_AREA and antialias excepted */

static int64_t area_start(ResizeAxis a, int64_t i) { return i * a.in / a.out; }
static int64_t area_end(ResizeAxis a, int64_t i) { return ceil_div((i + 1) * a.in, a.out); }

/* Input pixels per output pixel: what moves one output on. */
static double step_of(ResizeAxis a)
{
    if (a.align_corners)
        return a.out > 1 ? (double)(a.in - 1) / (double)(a.out - 1) : 0;
    return a.scale > 0 ? 1 / a.scale : (double)a.in / (double)a.out;
}

/* Antialias: the filter covers support on both sides of an output's centre. */
static double support_of(ResizeAxis a)
{
    double half = a.mode == RESIZE_BILINEAR ? 1 : 2, step = step_of(a);
    return step > 1 ? half * step : half;
}

static int64_t smooth_start(ResizeAxis a, int64_t i)
{
    int64_t start = (int64_t)(step_of(a) * ((double)i + 0.5) - support_of(a) + 0.5);
    return start > 0 ? start : 0;
}

static int64_t smooth_end(ResizeAxis a, int64_t i)
{
    int64_t end = (int64_t)(step_of(a) * ((double)i + 0.5) + support_of(a) + 0.5);
    return end < a.in ? end : a.in;
}

/* Taps in the whole table. */
static int64_t taps_count(ResizeAxis a)
{
    int64_t count = 0;
    if (a.mode == RESIZE_AREA)
        for (int64_t i = 0; i < a.out; i++)
            count += area_end(a, i) - area_start(a, i);
    else if (a.antialias)
        for (int64_t i = 0; i < a.out; i++)
            count += smooth_end(a, i) - smooth_start(a, i);
    else
        count = a.out * (a.mode == RESIZE_BILINEAR ? 2 : a.mode == RESIZE_BICUBIC ? MAX_TAPS : 1);
    return count;
}

/* In fp32 as in PyTorch, since rounding decides which pixel is taken. */
static int64_t nearest_index(ResizeAxis a, int64_t i)
{
    float   step = a.scale > 0 ? (float)(1 / a.scale) : (float)a.in / (float)a.out;
    int64_t index = a.mode == RESIZE_NEAREST_EXACT
                        ? (int64_t)floorf((float)(((double)i + 0.5) * (double)step))
                        : (int64_t)floorf((float)i * step);
    if (a.mode == RESIZE_NEAREST && a.scale == 0 && a.out == 2 * a.in)
        return i / 2;
    return index < a.in ? index : a.in - 1;
}

/* Keys' cubic (1981) at distance d. */
static double cubic(double d, double a)
{
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* The filter that antialias widens, at distance d. */
static double filter_at(ResizeMode mode, double d)
{
    d = fabs(d);
    if (mode == RESIZE_BILINEAR)
        return d < 1 ? 1 - d : 0;
    return d < 2 ? cubic(d, -0.5) : 0;
}

static int64_t taps_antialias(ResizeAxis a, int64_t i, int32_t *index, float *weight)
{
    double  step = step_of(a), centre = step * ((double)i + 0.5), narrow = step > 1 ? 1 / step : 1;
    int64_t start = smooth_start(a, i), n = smooth_end(a, i) - start;
    double  sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += filter_at(a.mode, ((double)(start + k) - centre + 0.5) * narrow);
    for (int64_t k = 0; k < n; k++) {
        double w = filter_at(a.mode, ((double)(start + k) - centre + 0.5) * narrow);
        index[k] = (int32_t)(start + k);
        weight[k] = (float)(sum != 0 ? w / sum : w);
    }
    return n;
}

/* The taps of output i; returns how many. Indices outside the image move to its edge. */
static int64_t taps_of(ResizeAxis a, int64_t i, int32_t *index, float *weight)
{
    if (a.mode == RESIZE_NEAREST || a.mode == RESIZE_NEAREST_EXACT) {
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
    if (a.antialias)
        return taps_antialias(a, i, index, weight);
    bool   bilinear = a.mode == RESIZE_BILINEAR;
    double at = a.align_corners ? step_of(a) * (double)i
                : a.scale > 0   ? ((double)i + 0.5) * step_of(a) - 0.5
                                : ((double)i + 0.5) * (double)a.in / (double)a.out - 0.5;
    if (bilinear && a.in == a.out)
        at = (double)i; /* whatever the scale */
    if (bilinear && at < 0)
        at = 0;
    int64_t base = (int64_t)floor(at), n = bilinear ? 2 : MAX_TAPS;
    if (base > a.in - 1) { /* a given scale may point beyond the edge */
        base = a.in - 1;
        at = at < (double)a.in ? at : (double)a.in;
    }
    int64_t first = bilinear ? base : base - 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t p = first + k;
        double  d = at - (double)p;
        index[k] = (int32_t)(p < 0 ? 0 : p < a.in ? p : a.in - 1);
        weight[k] = (float)(bilinear ? 1 - fabs(d) : cubic(d, -0.75));
    }
    return n;
}

static Taps taps_forward(ResizeAxis a, Taps t)
{
    t.from[0] = 0;
    for (int64_t i = 0; i < a.out; i++)
        t.from[i + 1] = t.from[i] +
                        (int32_t)taps_of(a, i, t.index + t.from[i], t.weight + t.from[i]);
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
    memmove(t.from + 1, t.from, (size_t)a.in * sizeof *t.from); /* each start became its end */
    t.from[0] = 0;
    return t;
}

/* One run: src (N,D,H,W,C) to dst; axes as the forward operation sees them. */
typedef struct ResizeRun {
    ResizeAxis axis[3];          /* depth, height, width */
    bool       transposed, flat; /* flat: there is no depth */
    int64_t    images, channels;
    int64_t    src[3], dst[3];
    Type       type_src, type_dst;
    int        threads;
} ResizeRun;

static ResizeRun resize_of(const Node *n, bool transposed, const Device *device)
{
    Shape     src = in_shape(n, 0), dst = out_shape(n, 0);
    ResizeRun job = { .transposed = transposed,
                      .flat = src.rank < 5,
                      .images = src.dim[0],
                      .channels = dim(src, -1),
                      .type_src = in_type(n, 0),
                      .type_dst = out_type(n, 0) };
    resize_axes(ATTR(n, ResizeAttr), transposed ? dst : src, transposed ? src : dst, job.axis);
    for (int i = 0; i < 3; i++) {
        job.src[i] = transposed ? job.axis[i].out : job.axis[i].in;
        job.dst[i] = transposed ? job.axis[i].in : job.axis[i].out;
    }
    job.threads = parallel_threads(device->threads, job.images * job.dst[0] * job.dst[1]);
    return job;
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
    return taps_transposed(a, forward,
                           (Taps){ words, words + a.in + 1, (float *)(words + a.in + 1 + taps) });
}

/* Of all axes, one behind the other; a map without depth has a constant table for it. */
static int64_t tables_words(const ResizeRun *job)
{
    int64_t words = 0;
    for (int i = job->flat; i < 3; i++)
        words += taps_words(job->axis[i], job->transposed);
    return words;
}

static void tables_make(const ResizeRun *job, int32_t *words, Taps taps[3])
{
    static int32_t from[] = { 0, 1 }, index[] = { 0 };
    static float   weight[] = { 1 };
    taps[0] = (Taps){ from, index, weight };
    for (int i = job->flat; i < 3; i++) {
        taps[i] = taps_make(job->axis[i], job->transposed, words);
        words += taps_words(job->axis[i], job->transposed);
    }
}

/* Floats of one thread: a sum of rows, a converted row of the source, a row of the result. */
static int64_t thread_floats(const ResizeRun *job)
{
    return (2 * job->src[2] + job->dst[2]) * job->channels;
}

static Err choose(const Node *n, bool transposed, const Device *device, Choice *choice)
{
    ResizeRun job = resize_of(n, transposed, device);
    choice->workspace_bytes = 4 * (size_t)(tables_words(&job) + job.threads * thread_floats(&job));
    return OK;
}

static bool single(const Taps *taps, int64_t i)
{
    return taps->from[i + 1] == taps->from[i] + 1 && taps->weight[taps->from[i]] == 1.0f;
}

/* The weighted sum of the input rows of output row (image, d, h). A single row of weight 1 is used
 * in place. */
static const float *sum_rows(const ResizeRun *job, const Taps taps[3], const void *src, int64_t r,
                             float *sum, float *stage)
{
    int64_t n = job->src[2] * job->channels, h = r % job->dst[1], d = r / job->dst[1] % job->dst[0];
    int64_t image = r / job->dst[1] / job->dst[0];
    bool    first = true;
    for (int32_t j = taps[0].from[d]; j < taps[0].from[d + 1]; j++)
        for (int32_t k = taps[1].from[h]; k < taps[1].from[h + 1]; k++, first = false) {
            int64_t row = (image * job->src[0] + taps[0].index[j]) * job->src[1] + taps[1].index[k];
            const float *x = row_load(job->type_src, src, row * n, n, stage);
            float        weight = taps[0].weight[j] * taps[1].weight[k];
            if (single(&taps[0], d) && single(&taps[1], h))
                return x;
            if (first)
#pragma omp simd
                for (int64_t i = 0; i < n; i++)
                    sum[i] = weight * x[i];
            else
#pragma omp simd
                for (int64_t i = 0; i < n; i++)
                    sum[i] += weight * x[i];
        }
    if (first) /* no output used this row */
        memset(sum, 0, (size_t)n * sizeof *sum);
    return sum;
}

static void sum_columns(const ResizeRun *job, const Taps *taps, const float *row, float *dst)
{
    int64_t n = job->channels;
    for (int64_t c = 0; c < job->dst[2]; c++, dst += n) {
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
static void copy_nearest(const Call *call, const ResizeRun *job, const Taps taps[3])
{
    size_t      pixel = (size_t)(job->channels * type_bytes(job->type_src));
    const char *src = call->in[0];
    char       *dst = call->out[0];
    int64_t     rows = job->images * job->dst[0] * job->dst[1];

#pragma omp parallel num_threads(job->threads)
    {
        int64_t from, to;
        parallel_range(rows, 1, omp_get_thread_num(), job->threads, &from, &to);
        for (int64_t r = from; r < to; r++) {
            int64_t        i = r % job->dst[1], plane = r / job->dst[1];
            const int32_t *y = taps[1].index, *x = taps[2].index;
            int64_t        from_plane = plane / job->dst[0] * job->src[0] +
                                 taps[0].index[plane % job->dst[0]];
            const char *row = src +
                              (size_t)((from_plane * job->src[1] + y[i]) * job->src[2]) * pixel;
            char *out = dst + (size_t)(r * job->dst[2]) * pixel;
            if (r > from && i > 0 && y[i] == y[i - 1])
                memcpy(out, out - (size_t)job->dst[2] * pixel, (size_t)job->dst[2] * pixel);
            else
                for (int64_t c = 0; c < job->dst[2]; c++)
                    memcpy(out + (size_t)c * pixel, row + (size_t)x[c] * pixel, pixel);
        }
    }
}

static Err run(const Call *call, bool transposed)
{
    ResizeRun  job = resize_of(call->node, transposed, call->device);
    ResizeMode mode = ATTR(call->node, ResizeAttr)->mode;
    Taps       taps[3];
    float     *floats = (float *)((int32_t *)call->workspace + tables_words(&job));
    int64_t    n = job.dst[2] * job.channels, rows = job.images * job.dst[0] * job.dst[1];
    tables_make(&job, call->workspace, taps);
    if ((mode == RESIZE_NEAREST || mode == RESIZE_NEAREST_EXACT) && !transposed) {
        copy_nearest(call, &job, taps);
        return OK;
    }

#pragma omp parallel num_threads(job.threads)
    {
        float  *sum = floats + omp_get_thread_num() * thread_floats(&job);
        float  *stage = sum + job.src[2] * job.channels;
        float  *stage_dst = stage + job.src[2] * job.channels;
        int64_t from, to;
        parallel_range(rows, 1, omp_get_thread_num(), job.threads, &from, &to);
        for (int64_t r = from; r < to; r++) {
            const float *row = sum_rows(&job, taps, call->in[0], r, sum, stage);
            float       *dst = row_open(job.type_dst, call->out[0], r * n, stage_dst);
            sum_columns(&job, &taps[2], row, dst);
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
