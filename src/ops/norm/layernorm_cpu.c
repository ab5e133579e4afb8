/* layernorm_cpu.c -- norms over the last axis on the CPU, row by row; a row stays in the cache.
 *
 * Rows are divided into one range per thread. Layer norm is the modulated norm with one weight and
 * bias for all rows. Sums for their gradients are kept per (row b of packed, thread t) in slot b +
 * t, which no other pair has, since ranges are consecutive.
 */
#include "ops/norm/layernorm.h"

#include "device/convert.h"
#include "ops/norm/groupnorm.h"
#include "ops/parallel.h"
#include "ops/reduce/row_sums.h"

#include <math.h>

enum { STAGE_FLOATS = 4096, FLUSH_ROWS = 64 };

typedef struct LayernormRows { /* one run of a kernel, forward or backward */
    int64_t     rows, width;
    int64_t     per;        /* rows that share weight and bias */
    int64_t     stage_rows; /* rows converted at a time */
    int         threads;
    Type        type, type_y, type_w;
    const void *x, *dy, *weight, *bias;
    const void *before; /* added to dx, or NULL; of x's type */
    int64_t     pitch;  /* elements from one sample's weight to the next's, or 0 */
    float       plus;   /* added to the weight */
    double      eps;
    void       *y;      /* or dx */
    double     *sums;   /* [slots][2][width]: of dy * xhat, of dy; NULL: not wanted */
    float      *floats; /* [threads][vectors and stages] */
} LayernormRows;

enum { ROWS_VECTORS = 4, ROWS_STAGES = 3 };

static LayernormRows rows_of(const Node *n, int64_t per, int dy, const Device *device)
{
    Shape         x = in_shape(n, 0);
    int64_t       width = dim(x, -1), rows = shape_count(x) / width;
    LayernormRows job = {
        .rows = rows,
        .width = width,
        .per = per > 0 ? per : rows,
        .stage_rows = STAGE_FLOATS / width > 1 ? STAGE_FLOATS / width : 1,
        .threads = parallel_threads(device->threads, rows),
        .type = in_type(n, 0),
        .type_y = dy < 0 ? out_type(n, 0) : in_type(n, dy),
        .type_w = F32,
    };
    return job;
}

static int64_t rows_slots(const LayernormRows *job)
{
    return job->rows / job->per + job->threads - 1;
}

static int64_t rows_thread_floats(const LayernormRows *job)
{
    bool staged = job->type != F32 || job->type_y != F32;
    return ROWS_VECTORS * job->width + (staged ? ROWS_STAGES * job->stage_rows * job->width : 0);
}

static size_t rows_bytes(const LayernormRows *job, bool sums)
{
    return (size_t)(sums ? rows_slots(job) * 2 * job->width : 0) * sizeof(double) +
           (size_t)(job->threads * rows_thread_floats(job)) * sizeof(float);
}

static void rows_carve(LayernormRows *job, bool sums, void *workspace)
{
    double *doubles = workspace;
    job->sums = sums ? doubles : NULL;
    job->floats = (float *)(sums ? doubles + rows_slots(job) * 2 * job->width : doubles);
}

/* The weight and bias of one sample as fp32. */
static void rows_affine(const LayernormRows *job, int64_t sample, float *weight, float *bias)
{
    int64_t at = sample * job->pitch, n = job->width;
    if (job->weight)
        convert_rows(F32, weight, job->type_w,
                     (const char *)job->weight + at * type_bytes(job->type_w), (size_t)n);
    if (job->bias)
        convert_rows(F32, bias, job->type_w, (const char *)job->bias + at * type_bytes(job->type_w),
                     (size_t)n);
    for (int64_t c = 0; c < n; c++) {
        weight[c] = (job->weight ? weight[c] : 1) + job->plus;
        bias[c] = job->bias ? bias[c] : 0;
    }
}

static inline float row_mean(const float *x, int64_t n) { return row_sum(x, n) / (float)n; }

static inline float row_rstd(const float *x, int64_t n, float mean, double eps)
{
    return (float)(1 / sqrt((double)row_deviation(x, n, mean) / (double)n + eps));
}

static void rows_forward(const LayernormRows *job)
{
#pragma omp parallel num_threads(job->threads)
    {
        float  *weight = job->floats + omp_get_thread_num() * rows_thread_floats(job);
        float  *bias = weight + job->width;
        float  *stage_x = weight + ROWS_VECTORS * job->width;
        float  *stage_y = stage_x + job->stage_rows * job->width;
        int64_t from, to, w = job->width, sample = -1;
        parallel_range(job->rows, 1, omp_get_thread_num(), job->threads, &from, &to);
        for (int64_t r = from, some; r < to; r += some) {
            some = to - r < job->stage_rows ? to - r : job->stage_rows;
            const float *x = row_load(job->type, job->x, r * w, some * w, stage_x);
            float       *y = row_open(job->type_y, job->y, r * w, stage_y);
            for (int64_t i = 0; i < some; i++) {
                const float *xi = x + i * w;
                float       *yi = y + i * w;
                float        mean = row_mean(xi, w), rstd = row_rstd(xi, w, mean, job->eps);
                if ((r + i) / job->per != sample)
                    rows_affine(job, sample = (r + i) / job->per, weight, bias);
#pragma omp simd
                for (int64_t c = 0; c < w; c++)
                    yi[c] = (xi[c] - mean) * rstd * weight[c] + bias[c];
            }
            row_store(job->type_y, job->y, r * w, some * w, y);
        }
    }
}

/* Sums over a row of g = dy * weight and g * xhat; with `both`, dy * xhat and dy into columns. */
static inline __attribute__((always_inline)) void
row_backward_sums(bool both, const float *x, const float *dy, int64_t n, float mean, float rstd,
                  const float *weight, float *dweight, float *dbias, float *sum, float *dot)
{
    Lanes   a = { 0 }, b = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Lanes xhat = (lanes_at(x + i) - mean) * rstd, d = lanes_at(dy + i);
        Lanes g = d * lanes_at(weight + i);
        a += g;
        b += g * xhat;
        if (both) {
            Lanes dw = lanes_at(dweight + i) + d * xhat, db = lanes_at(dbias + i) + d;
            memcpy(dweight + i, &dw, sizeof dw);
            memcpy(dbias + i, &db, sizeof db);
        }
    }
    float rest_sum = 0, rest_dot = 0;
    for (; i < n; i++) {
        float xhat = (x[i] - mean) * rstd, g = dy[i] * weight[i];
        rest_sum += g;
        rest_dot += g * xhat;
        if (both) {
            dweight[i] += dy[i] * xhat;
            dbias[i] += dy[i];
        }
    }
    *sum = lanes_sum(a) + rest_sum;
    *dot = lanes_sum(b) + rest_dot;
}

/* Adds the fp32 column sums of the last rows to their slot, and clears them. */
static void rows_flush(const LayernormRows *job, int64_t sample, int thread, float *dweight,
                       float *dbias)
{
    double *sums = job->sums + (sample + thread) * 2 * job->width;
    for (int64_t c = 0; c < job->width; c++) {
        sums[c] += (double)dweight[c];
        sums[job->width + c] += (double)dbias[c];
        dweight[c] = dbias[c] = 0;
    }
}

static void rows_backward(const LayernormRows *job)
{
#pragma omp parallel num_threads(job->threads)
    {
        int     t = omp_get_thread_num();
        int64_t from, to, w = job->width, sample = -1, unsaved = 0;
        float  *weight = job->floats + t * rows_thread_floats(job), *bias = weight + w;
        float  *dweight = weight + 2 * w, *dbias = weight + 3 * w;
        float  *stage = weight + ROWS_VECTORS * w;
        parallel_range(job->rows, 1, t, job->threads, &from, &to);
        for (int64_t r = from, some; r < to; r += some) {
            some = to - r < job->stage_rows ? to - r : job->stage_rows;
            const float *x = row_load(job->type, job->x, r * w, some * w, stage);
            const float *dy = row_load(job->type_y, job->dy, r * w, some * w,
                                       stage + job->stage_rows * w);
            float *dx = job->y ? row_open(job->type, job->y, r * w, stage + 2 * job->stage_rows * w)
                               : NULL;
            for (int64_t i = 0; i < some; i++) {
                const float *xi = x + i * w, *di = dy + i * w;
                float        mean = row_mean(xi, w), rstd = row_rstd(xi, w, mean, job->eps);
                float        sum, dot;
                if ((r + i) / job->per != sample) {
                    if (unsaved)
                        rows_flush(job, sample, t, dweight, dbias);
                    rows_affine(job, sample = (r + i) / job->per, weight, bias);
                    unsaved = 0;
                    if (job->sums) {
                        memset(dweight, 0, (size_t)w * 2 * sizeof *dweight);
                        memset(job->sums + (sample + t) * 2 * w, 0,
                               (size_t)w * 2 * sizeof *job->sums);
                    }
                }
                if (job->sums) {
                    row_backward_sums(true, xi, di, w, mean, rstd, weight, dweight, dbias, &sum,
                                      &dot);
                    if (++unsaved == FLUSH_ROWS) { /* short fp32 sums stay accurate */
                        rows_flush(job, sample, t, dweight, dbias);
                        unsaved = 0;
                    }
                } else {
                    row_backward_sums(false, xi, di, w, mean, rstd, weight, NULL, NULL, &sum, &dot);
                }
                float mean_sum = sum / (float)w, mean_dot = dot / (float)w;
                if (!dx)
                    continue;
                float *yi = dx + i * w;
#pragma omp simd
                for (int64_t c = 0; c < w; c++)
                    yi[c] = rstd *
                            (di[c] * weight[c] - mean_sum - (xi[c] - mean) * rstd * mean_dot);
                if (job->before)
                    row_add(job->type, job->before, (r + i) * w, w, yi);
            }
            if (dx)
                row_store(job->type, job->y, r * w, some * w, dx);
        }
        if (unsaved)
            rows_flush(job, sample, t, dweight, dbias);
    }
}

/* The sums of one sample over all threads, in order; which 0: of dy * xhat, 1: of dy. */
static void rows_total(const LayernormRows *job, int64_t sample, int which, Type type, void *out,
                       int64_t at)
{
    float   block[256];
    int64_t start = sample * job->per, end = start + job->per;
    for (int64_t c = 0; c < job->width; c += 256) {
        int64_t n = job->width - c < 256 ? job->width - c : 256;
        double  sum[256] = { 0 };
        for (int t = 0; t < job->threads; t++) {
            int64_t from, to;
            parallel_range(job->rows, 1, t, job->threads, &from, &to);
            if (from >= end || to <= start)
                continue;
            const double *sums = job->sums + ((sample + t) * 2 + which) * job->width + c;
            for (int64_t i = 0; i < n; i++)
                sum[i] += sums[i];
        }
        for (int64_t i = 0; i < n; i++)
            block[i] = (float)sum[i];
        convert_rows(type, (char *)out + (at + c) * type_bytes(type), F32, block, (size_t)n);
    }
}

static LayernormRows layernorm_rows(const Node *n, int dy, const Device *device)
{
    LayernormRows job = rows_of(n, 0, dy, device);
    job.eps = (double)ATTR(n, LayernormAttr)->eps;
    if (in_given(n, 1))
        job.type_w = in_type(n, 1);
    return job;
}

Err layernorm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    LayernormRows job = layernorm_rows(n, -1, device);
    choice->workspace_bytes = rows_bytes(&job, false);
    return OK;
}

Err layernorm_cpu(const Call *call)
{
    LayernormRows job = layernorm_rows(call->node, -1, call->device);
    job.type_w = norm_affine_type(call->node, 1);
    rows_carve(&job, false, call->workspace);
    job.x = call->in[0];
    job.weight = call->in[1];
    job.bias = call->in[2];
    job.y = call->out[0];
    rows_forward(&job);
    return OK;
}

static bool layernorm_sums(const Node *n)
{
    return ATTR(n, LayernormAttr)->wants[1] || ATTR(n, LayernormAttr)->wants[2];
}

Err layernorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    LayernormRows job = layernorm_rows(n, 2, device);
    choice->workspace_bytes = rows_bytes(&job, layernorm_sums(n));
    return OK;
}

Err layernorm_grad_cpu(const Call *call)
{
    LayernormRows job = layernorm_rows(call->node, 2, call->device);
    rows_carve(&job, layernorm_sums(call->node), call->workspace);
    job.x = call->in[0];
    job.weight = call->in[1];
    job.dy = call->in[2];
    job.before = call->in[3];
    job.y = call->out[0];
    rows_backward(&job);
    for (int i = 1; i < 3; i++)
        if (call->out[i])
            rows_total(&job, 0, i - 1, F32, call->out[i], 0);
    return OK;
}

static LayernormRows modulate_rows(const Node *n, int dy, const Device *device)
{
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    Shape                packed = in_shape(n, 1);
    LayernormRows        job = rows_of(n, shape_rows(in_shape(n, 0)) / packed.dim[0], dy, device);
    job.eps = (double)attr->eps;
    job.type_w = in_type(n, 1);
    job.pitch = packed.dim[1];
    job.plus = 1;
    return job;
}

static const char *modulate_columns(const Node *n, const void *packed, int64_t at)
{
    return (const char *)packed + at * type_bytes(in_type(n, 1));
}

Err layernorm_modulate_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    LayernormRows job = modulate_rows(n, -1, device);
    choice->workspace_bytes = rows_bytes(&job, false);
    return OK;
}

Err layernorm_modulate_cpu(const Call *call)
{
    const LayernormAttr *attr = ATTR(call->node, LayernormAttr);
    LayernormRows        job = modulate_rows(call->node, -1, call->device);
    rows_carve(&job, false, call->workspace);
    job.x = call->in[0];
    job.weight = modulate_columns(call->node, call->in[1], attr->scale_at);
    job.bias = modulate_columns(call->node, call->in[1], attr->shift_at);
    job.y = call->out[0];
    rows_forward(&job);
    return OK;
}

Err layernorm_modulate_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    LayernormRows job = modulate_rows(n, 2, device);
    choice->workspace_bytes = rows_bytes(&job, ATTR(n, LayernormAttr)->wants[1]);
    return OK;
}

Err layernorm_modulate_grad_cpu(const Call *call)
{
    const Node          *n = call->node;
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    LayernormRows        job = modulate_rows(n, 2, call->device);
    rows_carve(&job, attr->wants[1], call->workspace);
    job.x = call->in[0];
    job.weight = modulate_columns(n, call->in[1], attr->scale_at);
    job.dy = call->in[2];
    job.before = call->in[3];
    job.y = call->out[0];
    rows_backward(&job);
    if (call->out[1]) {
        memset(call->out[1], 0, (size_t)out_bytes(n, 1));
        for (int64_t b = 0; b < job.rows / job.per; b++) {
            rows_total(&job, b, 0, out_type(n, 1), call->out[1], b * job.pitch + attr->scale_at);
            rows_total(&job, b, 1, out_type(n, 1), call->out[1], b * job.pitch + attr->shift_at);
        }
    }
    return OK;
}
