/* grid_sample_cpu.c -- a map read at given points, on the CPU.
 *
 * The gradient of the map: each thread has a band of rows, goes through all points of an image in
 * order and adds what falls into its band. So a pixel's sum has one order, whatever the threads. */
#include "ops/resample/grid_sample.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/resample/grid_axis.h"

enum { CHANNEL_BLOCK = 512 }; /* channels staged at a time */

typedef struct GridRun {
    GridSampleAttr attr;
    int64_t        images, height, width, rows, columns, channels; /* rows, columns: of points */
    Type           type_grid, type;
    const void    *grid;
    int            threads;
} GridRun;

static GridRun run_of(const Node *n, Shape y, int64_t height, int64_t width, Type type,
                      const Device *device)
{
    GridRun run = { .attr = *ATTR(n, GridSampleAttr),
                    .images = y.dim[0],
                    .height = height,
                    .width = width,
                    .rows = y.dim[1],
                    .columns = y.dim[2],
                    .channels = y.dim[3],
                    .type_grid = in_type(n, 1),
                    .type = type };
    run.threads = parallel_threads(device->threads, run.images * run.rows);
    return run;
}

typedef struct PointTaps {
    GridAxis y, x;
} PointTaps;

GRID_FN void point_of(GridMode mode, const GridRun *run, const float at[2], PointTaps *taps)
{
    const GridSampleAttr *a = &run->attr;
    grid_axis(mode, a->padding, a->align_corners, (int)run->height, at[1], &taps->y);
    grid_axis(mode, a->padding, a->align_corners, (int)run->width, at[0], &taps->x);
}

static void point_at(const GridRun *run, int64_t point, PointTaps *taps)
{
    float        stage[2];
    const float *at = row_load(run->type_grid, run->grid, 2 * point, 2, stage);
    switch (run->attr.mode) {
    case GRID_NEAREST: point_of(GRID_NEAREST, run, at, taps); break;
    case GRID_BICUBIC: point_of(GRID_BICUBIC, run, at, taps); break;
    default: point_of(GRID_BILINEAR, run, at, taps); break;
    }
}

/* y[0..n) = the weighted sum of channels c .. c + n of the pixels that a point reads. */
static void point_sum(const GridRun *run, const PointTaps *taps, const void *x, int64_t image,
                      int64_t c, int64_t n, float *y)
{
    float stage[CHANNEL_BLOCK];
    bool  first = true;
    for (int i = 0; i < taps->y.taps; i++)
        for (int j = 0; j < taps->x.taps; j++) {
            float   w = taps->y.weight[i] * taps->x.weight[j];
            int64_t row = taps->y.index[i], column = taps->x.index[j];
            if (row < 0 || column < 0)
                continue;
            int64_t at = ((image * run->height + row) * run->width + column) * run->channels + c;
            const float *v = row_load(run->type, x, at, n, stage);
            if (first)
#pragma omp simd
                for (int64_t k = 0; k < n; k++)
                    y[k] = w * v[k];
            else
#pragma omp simd
                for (int64_t k = 0; k < n; k++)
                    y[k] += w * v[k];
            first = false;
        }
    if (first)
        memset(y, 0, (size_t)n * sizeof *y);
}

Err grid_sample_cpu(const Call *call)
{
    const Node *n = call->node;
    Shape       x = in_shape(n, 0);
    GridRun     run = run_of(n, out_shape(n, 0), x.dim[1], x.dim[2], in_type(n, 0), call->device);
    Type        type_y = out_type(n, 0);
    run.grid = call->in[1];
#pragma omp parallel for num_threads(run.threads) schedule(static)
    for (int64_t row = 0; row < run.images * run.rows; row++) {
        float stage[CHANNEL_BLOCK];
        for (int64_t p = row * run.columns; p < (row + 1) * run.columns; p++) {
            PointTaps taps;
            point_at(&run, p, &taps);
            for (int64_t c = 0; c < run.channels; c += CHANNEL_BLOCK) {
                int64_t m = run.channels - c < CHANNEL_BLOCK ? run.channels - c : CHANNEL_BLOCK;
                float  *y = row_open(type_y, call->out[0], p * run.channels + c, stage);
                point_sum(&run, &taps, call->in[0], row / run.rows, c, m, y);
                row_store(type_y, call->out[0], p * run.channels + c, m, y);
            }
        }
    }
    return OK;
}

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The gradient of a point's column and row. */
static void point_slope(const GridRun *run, const Call *call, int64_t point, float d[2])
{
    float     stage[CHANNEL_BLOCK], stage_dy[CHANNEL_BLOCK];
    PointTaps taps;
    int64_t   image = point / (run->rows * run->columns);
    d[0] = d[1] = 0;
    if (run->attr.mode == GRID_NEAREST)
        return;
    point_at(run, point, &taps);
    for (int64_t c = 0; c < run->channels; c += CHANNEL_BLOCK) {
        int64_t      m = run->channels - c < CHANNEL_BLOCK ? run->channels - c : CHANNEL_BLOCK;
        const float *dy = row_load(run->type, call->in[2], point * run->channels + c, m, stage_dy);
        for (int i = 0; i < taps.y.taps; i++)
            for (int j = 0; j < taps.x.taps; j++) {
                int64_t row = taps.y.index[i], column = taps.x.index[j];
                if (row < 0 || column < 0)
                    continue;
                int64_t pixel = (image * run->height + row) * run->width + column;
                float   sum = dot(row_load(in_type(call->node, 0), call->in[0],
                                           pixel * run->channels + c, m, stage),
                                  dy, m);
                d[0] += taps.y.weight[i] * taps.x.slope[j] * sum;
                d[1] += taps.y.slope[i] * taps.x.weight[j] * sum;
            }
    }
}

static void grid_grad(const GridRun *run, const Call *call)
{
    Type type = out_type(call->node, 1);
#pragma omp parallel for num_threads(run->threads) schedule(static)
    for (int64_t row = 0; row < run->images * run->rows; row++)
        for (int64_t p = row * run->columns; p < (row + 1) * run->columns; p++) {
            float d[2];
            point_slope(run, call, p, d);
            convert_rows(type, (char *)call->out[1] + 2 * p * type_bytes(type), F32, d, 2);
        }
}

/* Adds what the points of an image give to rows from .. to of dx, an image in fp32. */
static void band_grad(const GridRun *run, const void *dy, int64_t image, int64_t from, int64_t to,
                      float *dx)
{
    float   stage[CHANNEL_BLOCK];
    int64_t points = run->rows * run->columns;
    memset(dx + from * run->width * run->channels, 0,
           (size_t)((to - from) * run->width * run->channels) * sizeof *dx);
    for (int64_t p = image * points; p < (image + 1) * points; p++) {
        PointTaps taps;
        bool      touches = false;
        point_at(run, p, &taps);
        for (int i = 0; i < taps.y.taps; i++)
            touches = touches || (taps.y.index[i] >= from && taps.y.index[i] < to);
        for (int64_t c = 0; touches && c < run->channels; c += CHANNEL_BLOCK) {
            int64_t      m = run->channels - c < CHANNEL_BLOCK ? run->channels - c : CHANNEL_BLOCK;
            const float *d = row_load(run->type, dy, p * run->channels + c, m, stage);
            for (int i = 0; i < taps.y.taps; i++)
                for (int j = 0; j < taps.x.taps; j++) {
                    int64_t row = taps.y.index[i], column = taps.x.index[j];
                    float   w = taps.y.weight[i] * taps.x.weight[j];
                    if (row < from || row >= to || column < 0)
                        continue;
                    float *sum = dx + (row * run->width + column) * run->channels + c;
#pragma omp simd
                    for (int64_t k = 0; k < m; k++)
                        sum[k] += w * d[k];
                }
        }
    }
}

static void map_grad(const GridRun *run, const Call *call)
{
    Type    type = out_type(call->node, 0);
    int64_t line = run->width * run->channels, image_numbers = run->height * line;
    int     threads = parallel_threads(call->device->threads, run->height);
    for (int64_t image = 0; image < run->images; image++) {
        int64_t first = image * image_numbers;
        float  *dx = row_open(type, call->out[0], first, call->workspace);
#pragma omp parallel num_threads(threads)
        {
            int64_t from, to;
            parallel_range(run->height, 1, omp_get_thread_num(), threads, &from, &to);
            band_grad(run, call->in[2], image, from, to, dx);
            row_store(type, call->out[0], first + from * line, (to - from) * line,
                      dx + from * line);
        }
    }
}

Err grid_sample_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    (void)device;
    if (ATTR(n, GridSampleAttr)->wants[0] && out_type(n, 0) != F32) /* an image in fp32 */
        choice->workspace_bytes = (size_t)(shape_count(out_shape(n, 0)) / out_shape(n, 0).dim[0]) *
                                  sizeof(float);
    return OK;
}

Err grid_sample_grad_cpu(const Call *call)
{
    const Node           *n = call->node;
    const GridSampleAttr *attr = ATTR(n, GridSampleAttr);
    GridRun run = run_of(n, in_shape(n, 2), attr->height, attr->width, in_type(n, 2), call->device);
    run.grid = call->in[1];
    if (attr->wants[1])
        grid_grad(&run, call);
    if (attr->wants[0])
        map_grad(&run, call);
    return OK;
}
