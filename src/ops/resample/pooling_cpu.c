/* pooling_cpu.c -- pooling on the CPU.
 *
 * A task is a block of columns of one line (a row of an image, or of a plane of a volume). Forward:
 * lines are reduced first, value by value along whole rows, then columns. Gradient of the mean: the
 * same with the transposed windows. Gradient of the largest: see BandRun. Each sum has a fixed order,
 * whatever the number of threads. */
#include "ops/resample/pooling.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/resample/pooling_window.h"

#include <math.h>

enum { BLOCK_NUMBERS = 8192 }; /* numbers of a block of columns, about */

typedef struct PoolRun {
    PoolAxes axes;
    PoolKind kind;
    bool     count_padding;
    int64_t  divisor;
    int64_t  out_block, in_block; /* columns of a task: of results, of values */
    int64_t  out_span, in_span;   /* the columns of values, of results that it reads */
    int64_t  out_tasks, in_tasks; /* tasks of a line */
    int64_t  out_lines, in_lines; /* lines of results, of values */
    int64_t  thread_floats;
    int      threads;
} PoolRun;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static PoolRun run_of(const PoolAttr *attr, Shape x, const Device *device)
{
    PoolRun  run = { .axes = pool_axes(attr, x),
                     .kind = attr->kind,
                     .count_padding = attr->count_padding,
                     .divisor = attr->divisor };
    PoolAxis a = run.axes.at[2];
    int64_t  block = most(1, BLOCK_NUMBERS / run.axes.channels);
    run.out_block = least(a.out, most(1, block / most(1, a.in / a.out)));
    run.in_block = least(a.in, block);
    if (a.adaptive) {
        run.out_span = least(a.in, run.out_block * a.in / a.out + 2);
        run.in_span = least(a.out, run.in_block * a.out / a.in + 3);
    } else {
        int64_t extent = (a.kernel - 1) * a.dilation + 1;
        run.out_span = least(a.in, (run.out_block - 1) * a.stride + extent);
        run.in_span = least(a.out, (run.in_block + extent) / a.stride + 2);
    }
    run.out_tasks = ceil_div(a.out, run.out_block);
    run.in_tasks = ceil_div(a.in, run.in_block);
    run.out_lines = run.axes.images * run.axes.at[0].out * run.axes.at[1].out;
    run.in_lines = run.axes.images * run.axes.at[0].in * run.axes.at[1].in;
    run.thread_floats = 2 * run.axes.channels *
                        (run.out_block + run.out_span + run.in_block + run.in_span);
    run.threads = parallel_threads(
        device->threads, least(run.out_lines * run.out_tasks, run.in_lines * run.in_tasks));
    return run;
}

static size_t run_bytes(const PoolRun *run)
{
    return (size_t)run->threads * (size_t)run->thread_floats * sizeof(float);
}

/* As in PyTorch, a later value wins only if it is larger or NaN. */
static inline bool wins(float later, float best) { return later > best || later != later; }

static void reduce_into(PoolKind kind, float *restrict to, const float *x, int64_t n)
{
    if (kind == POOL_MAX)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = wins(x[i], to[i]) ? x[i] : to[i];
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] += x[i];
}

static void add_scaled(float *restrict to, const float *x, float scale, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] += scale * x[i];
}

typedef struct LineTask { /* columns from .. to of line (image, d, h) */
    int64_t image, d, h, from, to, line;
} LineTask;

static LineTask task_at(int64_t task, int64_t tasks, int64_t block, const PoolAxis *d,
                        const PoolAxis *h, const PoolAxis *w, bool results)
{
    int64_t line = task / tasks, rows = results ? h->out : h->in, planes = results ? d->out : d->in;
    LineTask t = { .line = line, .h = line % rows, .d = line / rows % planes };
    t.image = line / rows / planes;
    t.from = task % tasks * block;
    t.to = least(t.from + block, results ? w->out : w->in);
    return t;
}

/* Numbers before value (or result) `column` of a line, channels last. */
static int64_t place(const PoolAxes *axes, bool results, int64_t image, int64_t d, int64_t h,
                     int64_t column)
{
    const PoolAxis *a = axes->at;
    int64_t         planes = results ? a[0].out : a[0].in, rows = results ? a[1].out : a[1].in,
            columns = results ? a[2].out : a[2].in;
    return (((image * planes + d) * rows + h) * columns + column) * axes->channels;
}

/* How many columns of values the windows of a task span, from *first on. */
static int64_t columns_read(const PoolAxis *a, const LineTask *t, int64_t *first)
{
    PoolWindow left = pool_window(*a, t->from), right = pool_window(*a, t->to - 1);
    int64_t    end = right.start + (a->adaptive ? right.to : (a->kernel - 1) * a->dilation + 1);
    *first = most(0, left.start);
    return least(a->in, end) - *first;
}

/* Two or three columns at once; last is the second or the third. */
static void few_columns(PoolKind kind, const float *one, const float *two, const float *last,
                        int64_t taps, float by, int64_t n, float *restrict y)
{
    if (kind == POOL_MAX)
#pragma omp simd
        for (int64_t c = 0; c < n; c++) {
            float best = wins(two[c], one[c]) ? two[c] : one[c];
            y[c] = wins(last[c], best) ? last[c] : best;
        }
    else if (taps == 2)
#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            y[c] = (one[c] + two[c]) * by;
    else
#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            y[c] = (one[c] + two[c] + last[c]) * by;
}

/* The columns of results from reduced values, which begin at column `first`. */
static void reduce_columns(const PoolRun *run, const LineTask *t, const float *values,
                           int64_t first, float scale, float *y)
{
    const PoolAxis *a = &run->axes.at[2];
    int64_t         n = run->axes.channels;
    bool            max = run->kind == POOL_MAX;
    for (int64_t i = t->from; i < t->to; i++, y += n) {
        PoolWindow   w = pool_window(*a, i);
        const float *x = values + (w.start + w.from * a->dilation - first) * n;
        int64_t      step = a->dilation * n, taps = w.to - w.from;
        float        by = max || run->divisor ? scale
                                              : scale / (float)pool_size(*a, i, run->count_padding);
        if (taps == 2 || taps == 3) {
            few_columns(run->kind, x, x + step, x + (taps - 1) * step, taps, by, n, y);
            continue;
        }
        memcpy(y, x, (size_t)n * sizeof *y);
        for (int64_t k = 1; k < taps; k++)
            reduce_into(run->kind, y, x + k * step, n);
        if (!max)
#pragma omp simd
            for (int64_t c = 0; c < n; c++)
                y[c] *= by;
    }
}

static void pool_task(const PoolRun *run, const Call *call, int64_t task, float *floats)
{
    const PoolAxis *a = run->axes.at;
    int64_t         n = run->axes.channels;
    Type            type = in_type(call->node, 0), type_y = out_type(call->node, 0);
    LineTask        t = task_at(task, run->out_tasks, run->out_block, &a[0], &a[1], &a[2], true);
    PoolWindow      d = pool_window(a[0], t.d), h = pool_window(a[1], t.h);
    int64_t         first, count = columns_read(&a[2], &t, &first) * n;
    float *sum = floats, *stage = sum + run->out_span * n, *stage_y = stage + run->out_span * n;
    const float *rows = NULL;
    for (int64_t kd = d.from; kd < d.to; kd++)
        for (int64_t kh = h.from; kh < h.to; kh++) {
            int64_t      at = place(&run->axes, false, t.image, d.start + kd * a[0].dilation,
                                    h.start + kh * a[1].dilation, first);
            const float *x = row_load(type, call->in[0], at, count, stage);
            if (!rows && d.to - d.from == 1 && h.to - h.from == 1)
                rows = x;
            else if (!rows)
                rows = memcpy(sum, x, (size_t)count * sizeof *sum);
            else
                reduce_into(run->kind, sum, x, count);
        }
    float   scale = run->divisor ? (float)(1 / (double)run->divisor)
                                 : (float)(1 / (double)(pool_size(a[0], t.d, run->count_padding) *
                                                      pool_size(a[1], t.h, run->count_padding)));
    int64_t to = place(&run->axes, true, t.image, t.d, t.h, t.from), m = (t.to - t.from) * n;
    float  *y = row_open(type_y, call->out[0], to, stage_y);
    reduce_columns(run, &t, rows, first, scale, y);
    row_store(type_y, call->out[0], to, m, y);
}

Err pool_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    PoolRun run = run_of(ATTR(n, PoolAttr), in_shape(n, 0), device);
    choice->workspace_bytes = run_bytes(&run);
    return OK;
}

Err pool_cpu(const Call *call)
{
    PoolRun run = run_of(ATTR(call->node, PoolAttr), in_shape(call->node, 0), call->device);
#pragma omp parallel num_threads(run.threads)
    {
        float  *floats = (float *)call->workspace + omp_get_thread_num() * run.thread_floats;
        int64_t from, to;
        parallel_range(run.out_lines * run.out_tasks, 1, omp_get_thread_num(), run.threads, &from,
                       &to);
        for (int64_t task = from; task < to; task++)
            pool_task(&run, call, task, floats);
    }
    return OK;
}

/* The share of result i in the mean's gradient, along one axis. */
static float mean_share(const PoolRun *run, int axis, int64_t i)
{
    if (run->divisor)
        return axis == 2 ? (float)(1 / (double)run->divisor) : 1;
    return 1 / (float)pool_size(run->axes.at[axis], i, run->count_padding);
}

static void mean_grad_task(const PoolRun *run, const Call *call, int64_t task, float *floats)
{
    const PoolAxis *a = run->axes.at;
    int64_t         n = run->axes.channels;
    Type            type_dy = in_type(call->node, 0), type = out_type(call->node, 0);
    LineTask        t = task_at(task, run->in_tasks, run->in_block, &a[0], &a[1], &a[2], false);
    PoolCover       d = pool_cover(a[0], t.d), h = pool_cover(a[1], t.h);
    int64_t         first = pool_cover(a[2], t.from).first, last = pool_cover(a[2], t.to - 1).last;
    int64_t         count = most(0, last - first + 1) * n, m = (t.to - t.from) * n;
    int64_t         at = place(&run->axes, false, t.image, t.d, t.h, t.from);
    float *sum = floats, *stage = sum + run->in_span * n, *stage_dx = stage + run->in_span * n;
    float *dx = row_open(type, call->out[0], at, stage_dx);
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t i = d.first; i <= d.last; i++)
        for (int64_t j = h.first; j <= h.last; j++) {
            int64_t      from = place(&run->axes, true, t.image, i, j, first);
            const float *dy = row_load(type_dy, call->in[0], from, count, stage);
            add_scaled(sum, dy, mean_share(run, 0, i) * mean_share(run, 1, j), count);
        }
    memset(dx, 0, (size_t)m * sizeof *dx);
    for (int64_t p = t.from; p < t.to; p++) {
        PoolCover w = pool_cover(a[2], p);
        for (int64_t i = w.first; i <= w.last; i++)
            add_scaled(dx + (p - t.from) * n, sum + (i - first) * n, mean_share(run, 2, i), n);
    }
    row_store(type, call->out[0], at, m, dx);
}

static PoolRun mean_grad_run(const Node *n, const Device *device)
{
    return run_of(&ATTR(n, PoolMeanGradAttr)->of, out_shape(n, 0), device);
}

Err pool_mean_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    PoolRun run = mean_grad_run(n, device);
    choice->workspace_bytes = run_bytes(&run);
    return OK;
}

Err pool_mean_grad_cpu(const Call *call)
{
    PoolRun run = mean_grad_run(call->node, call->device);
#pragma omp parallel num_threads(run.threads)
    {
        float  *floats = (float *)call->workspace + omp_get_thread_num() * run.thread_floats;
        int64_t from, to;
        parallel_range(run.in_lines * run.in_tasks, 1, omp_get_thread_num(), run.threads, &from,
                       &to);
        for (int64_t task = from; task < to; task++)
            mean_grad_task(&run, call, task, floats);
    }
    return OK;
}

/* Gradient of the largest. A task is a band of values along the first axis that has more than one
 * (an image's planes, rows or columns). It goes through all results whose windows reach into the
 * band, finds each one's largest value again and adds its gradient there if that is in the band. */
typedef struct BandRun {
    int     axis;         /* along which bands lie */
    int64_t band, bands;  /* values along it; bands of an image */
    int64_t unit;         /* numbers of one value along it */
    int64_t stage_floats; /* of a thread, without its band */
    bool    sums;         /* dx is not fp32: the band is summed in the workspace */
    int     threads;
} BandRun;

enum { BAND_FLOATS = 1 << 18 };

static BandRun band_of(const PoolRun *run, Type type, const Device *device)
{
    const PoolAxis *a = run->axes.at;
    BandRun         b = { .axis = a[0].in > 1 ? 0 : a[1].in > 1 ? 1 : 2, .sums = type != F32 };
    PoolAxis        s = a[b.axis];
    int64_t         images = run->axes.images, wish = ceil_div(device->threads, images);
    b.unit = run->axes.channels;
    for (int i = b.axis + 1; i < 3; i++)
        b.unit *= a[i].in;
    b.band = ceil_div(s.in, wish);
    if (b.sums) /* not more than the cache holds, but long compared with a window */
        b.band = least(b.band, most(BAND_FLOATS / b.unit, 3 * s.kernel * s.dilation));
    b.band = most(1, least(b.band, INT32_MAX / 2 / (b.unit / run->axes.channels)));
    b.bands = ceil_div(s.in, b.band);
    b.threads = parallel_threads(device->threads, images * b.bands);
    b.stage_floats = (3 * run->out_span + run->out_block + 2) * run->axes.channels;
    return b;
}

static size_t band_bytes(const BandRun *b)
{
    int64_t floats = b->stage_floats + (b->sums ? b->band * b->unit : 0);
    return (size_t)b->threads * (size_t)floats * sizeof(float);
}

typedef struct BandTask {
    int64_t image, from, to; /* values along the axis of bands */
    float  *sum;             /* [to - from][unit] */
    int64_t pixels;          /* of the band */
} BandTask;

/* The pixel of a line's first column, counted from the start of the band. */
static int64_t band_line(const PoolRun *run, const BandRun *b, const BandTask *t, int64_t d,
                         int64_t h)
{
    const PoolAxis *a = run->axes.at;
    int64_t         at[3] = { d, h, 0 };
    at[b->axis] -= t->from;
    return (at[0] * a[1].in + at[1]) * a[2].in + at[2];
}

/* Of each column the largest value so far, and the pixel where its line starts. */
static void best_of_line(const float *x, int32_t line, bool start, int64_t n, float *restrict best,
                         int32_t *restrict where)
{
    if (start) {
        memcpy(best, x, (size_t)n * sizeof *best);
        for (int64_t i = 0; i < n; i++)
            where[i] = line;
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        bool won = wins(x[i], best[i]);
        where[i] = won ? line : where[i];
        best[i] = won ? x[i] : best[i];
    }
}

/* The same among columns. Lines come first in a window's order, so of equal values that of the
 * smaller pixel number counts, and of NaNs the last. */
static void best_of_columns(const PoolAxis *a, PoolWindow w, int64_t first, int64_t n,
                            const float *restrict best, const int32_t *restrict where,
                            float *restrict value, int32_t *restrict pixel)
{
    int64_t column = w.start + w.from * a->dilation, at = (column - first) * n;
    for (int64_t c = 0; c < n; c++) {
        value[c] = best[at + c];
        pixel[c] = where[at + c] + (int32_t)column;
    }
    for (int64_t k = w.from + 1; k < w.to; k++) {
        const float   *v = best + (at += a->dilation * n);
        const int32_t *from = where + at;
        column += a->dilation;
#pragma omp simd
        for (int64_t c = 0; c < n; c++) {
            int32_t p = from[c] + (int32_t)column;
            bool    nan = v[c] != v[c], before = p < pixel[c];
            bool    won = v[c] > value[c] || (v[c] == value[c] && before) ||
                       (nan && (value[c] == value[c] || !before));
            pixel[c] = won ? p : pixel[c];
            value[c] = won ? v[c] : value[c];
        }
    }
}

/* Columns from .. to of one line of results. */
static void band_results(const PoolRun *run, const BandRun *b, const BandTask *t, const Call *call,
                         const LineTask *line, float *floats)
{
    const PoolAxis *a = run->axes.at;
    int64_t         n = run->axes.channels, span = run->out_span * n;
    float          *stage = floats, *best = stage + span, *stage_dy = best + 2 * span;
    int32_t        *where = (int32_t *)(best + span);
    float          *value = stage_dy + run->out_block * n;
    int32_t        *pixel = (int32_t *)(value + n);
    PoolWindow      d = pool_window(a[0], line->d), h = pool_window(a[1], line->h);
    int64_t         first, count = columns_read(&a[2], line, &first) * n;
    bool            start = true;
    for (int64_t kd = d.from; kd < d.to; kd++)
        for (int64_t kh = h.from; kh < h.to; kh++, start = false) {
            int64_t      at_d = d.start + kd * a[0].dilation, at_h = h.start + kh * a[1].dilation;
            int64_t      at = place(&run->axes, false, t->image, at_d, at_h, first);
            const float *x = row_load(in_type(call->node, 0), call->in[0], at, count, stage);
            best_of_line(x, (int32_t)band_line(run, b, t, at_d, at_h), start, count, best, where);
        }
    int64_t      at = place(&run->axes, true, t->image, line->d, line->h, line->from);
    const float *dy = row_load(in_type(call->node, 1), call->in[1], at, (line->to - line->from) * n,
                               stage_dy);
    for (int64_t i = line->from; i < line->to; i++, dy += n) {
        best_of_columns(&a[2], pool_window(a[2], i), first, n, best, where, value, pixel);
        for (int64_t c = 0; c < n; c++)
            if (pixel[c] >= 0 && pixel[c] < t->pixels)
                t->sum[pixel[c] * n + c] += dy[c];
    }
}

static void band_task(const PoolRun *run, const BandRun *b, const Call *call, int64_t task,
                      float *floats)
{
    const PoolAxis *a = run->axes.at;
    Type            type = out_type(call->node, 0);
    BandTask        t = { .image = task / b->bands, .from = task % b->bands * b->band };
    t.to = least(t.from + b->band, a[b->axis].in);
    int64_t at[3] = { 0 }, from[3] = { 0 }, to[3];
    at[b->axis] = t.from;
    int64_t start = place(&run->axes, false, t.image, at[0], at[1], at[2]),
            count = (t.to - t.from) * b->unit;
    t.sum = row_open(type, call->out[0], start, floats + b->stage_floats);
    t.pixels = count / run->axes.channels;
    memset(t.sum, 0, (size_t)count * sizeof *t.sum);
    for (int i = 0; i < 3; i++)
        to[i] = a[i].out;
    from[b->axis] = pool_cover(a[b->axis], t.from).first;
    to[b->axis] = pool_cover(a[b->axis], t.to - 1).last + 1;
    for (int64_t d = from[0]; d < to[0]; d++)
        for (int64_t h = from[1]; h < to[1]; h++)
            for (int64_t w = from[2]; w < to[2]; w += run->out_block) {
                LineTask line = { t.image, d, h, w, least(w + run->out_block, to[2]), 0 };
                band_results(run, b, &t, call, &line, floats);
            }
    row_store(type, call->out[0], start, count, t.sum);
}

Err pool_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    PoolRun run = run_of(ATTR(n, PoolAttr), in_shape(n, 0), device);
    BandRun band = band_of(&run, out_type(n, 0), device);
    choice->workspace_bytes = band_bytes(&band);
    return OK;
}

Err pool_grad_cpu(const Call *call)
{
    PoolRun run = run_of(ATTR(call->node, PoolAttr), in_shape(call->node, 0), call->device);
    BandRun b = band_of(&run, out_type(call->node, 0), call->device);
    size_t  each = band_bytes(&b) / (size_t)b.threads;
#pragma omp parallel num_threads(b.threads)
    {
        int     thread = omp_get_thread_num();
        float  *floats = (float *)((char *)call->workspace + (size_t)thread * each);
        int64_t from, to;
        parallel_range(run.axes.images * b.bands, 1, thread, b.threads, &from, &to);
        for (int64_t task = from; task < to; task++)
            band_task(&run, &b, call, task, floats);
    }
    return OK;
}
