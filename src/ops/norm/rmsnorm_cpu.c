/* rmsnorm_cpu.c -- root mean square norm on the CPU: each row stays in the first cache throughout.
 *
 *   r = 1 / sqrt(mean(x^2) + eps),  y = w x r
 *   dx = r (w dy - x r^2 mean(w dy x)),  dw = sum over rows of dy x r
 *
 * Every thread has one run of rows and its own column sums for dw, which are added in thread order:
 * results repeat bit for bit. */
#include "ops/norm/rmsnorm.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/reduce/row_sums.h"

#include <math.h>

/* Rows summed in floats before they go to the doubles: short float sums keep their accuracy. */
enum { FLOAT_ROWS = 64 };

typedef struct RmsJob {
    int64_t     rows, width;
    int         threads;
    Type        type, type_w;
    const void *x, *weight, *dy;
    const void *before; /* added to dx, or NULL; of x's type */
    void       *y;      /* or dx; NULL: not wanted */
    double      eps;
    double     *sums;   /* [threads][width]: of dy x r; NULL: not wanted */
    float      *floats; /* weight [width], then per thread: x, dy, y, sums [width] each */
} RmsJob;

enum { THREAD_ROWS = 4 };

static RmsJob rms_job(const Node *n, const Device *device)
{
    Shape x = in_shape(n, 0);
    return (RmsJob){ .rows = shape_rows(x),
                     .width = dim(x, -1),
                     .threads = parallel_threads(device->threads, shape_rows(x)),
                     .type = in_type(n, 0),
                     .type_w = in_given(n, 1) ? in_type(n, 1) : F32,
                     .eps = (double)ATTR(n, RmsnormAttr)->eps };
}

static size_t rms_bytes(const RmsJob *job, bool sums)
{
    int64_t floats = (1 + THREAD_ROWS * job->threads) * job->width;
    return (size_t)(sums ? job->threads * job->width : 0) * sizeof(double) +
           (size_t)floats * sizeof(float);
}

static void rms_carve(RmsJob *job, bool sums, void *workspace)
{
    double *doubles = workspace;
    job->sums = sums ? doubles : NULL;
    job->floats = (float *)(sums ? doubles + job->threads * job->width : doubles);
    for (int64_t c = 0; c < job->width && !job->weight; c++)
        job->floats[c] = 1;
    if (job->weight)
        convert_rows(F32, job->floats, job->type_w, job->weight, (size_t)job->width);
}

static inline float rms_scale(const float *x, int64_t n, double eps)
{
    return (float)(1 / sqrt((double)row_dot(x, 0, x, 0, n) / (double)n + eps));
}

Err rmsnorm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    RmsJob job = rms_job(n, device);
    choice->workspace_bytes = rms_bytes(&job, false);
    return OK;
}

Err rmsnorm_cpu(const Call *call)
{
    RmsJob job = rms_job(call->node, call->device);
    job.x = call->in[0];
    job.weight = call->in[1];
    job.y = call->out[0];
    rms_carve(&job, false, call->workspace);
#pragma omp parallel num_threads(job.threads)
    {
        int64_t      from, to, w = job.width;
        const float *weight = job.floats;
        float       *mine = job.floats + w + omp_get_thread_num() * THREAD_ROWS * w;
        parallel_range(job.rows, 1, omp_get_thread_num(), job.threads, &from, &to);
        for (int64_t row = from; row < to; row++) {
            const float *x = row_load(job.type, job.x, row * w, w, mine);
            float       *y = row_open(job.type, job.y, row * w, mine + w);
            float        r = rms_scale(x, w, job.eps);
#pragma omp simd
            for (int64_t c = 0; c < w; c++)
                y[c] = x[c] * r * weight[c];
            row_store(job.type, job.y, row * w, w, y);
        }
    }
    return OK;
}

/* The sum of w dy x; with sums, dy x r is added to the columns. */
static float rms_backward_sums(const float *x, const float *dy, const float *weight, int64_t n,
                               float r, float *sums)
{
    Lanes   total = { 0 };
    float   rest = 0;
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES)
        total += lanes_at(x + c) * lanes_at(dy + c) * lanes_at(weight + c);
    for (; c < n; c++)
        rest += x[c] * dy[c] * weight[c];
    if (sums)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sums[i] += dy[i] * x[i] * r;
    return lanes_sum(total) + rest;
}

static void rms_flush(double *to, float *from, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        to[c] += (double)from[c];
        from[c] = 0;
    }
}

static void rms_backward(const RmsJob *job, Type type_dy, int thread)
{
    int64_t      from, to, w = job->width;
    const float *weight = job->floats;
    float       *mine = job->floats + w + thread * THREAD_ROWS * w, *columns = mine + 3 * w;
    double      *sums = job->sums ? job->sums + thread * w : NULL;
    parallel_range(job->rows, 1, thread, job->threads, &from, &to);
    for (int64_t c = 0; c < w && sums; c++)
        sums[c] = columns[c] = 0;
    for (int64_t row = from; row < to; row++) {
        const float *x = row_load(job->type, job->x, row * w, w, mine);
        const float *dy = row_load(type_dy, job->dy, row * w, w, mine + w);
        float        r = rms_scale(x, w, job->eps);
        float        dot = rms_backward_sums(x, dy, weight, w, r, sums ? columns : NULL);
        float        pull = r * r * dot / (float)w;
        if (sums && (row - from) % FLOAT_ROWS == FLOAT_ROWS - 1)
            rms_flush(sums, columns, w);
        if (!job->y)
            continue;
        float *dx = row_open(job->type, job->y, row * w, mine + 2 * w);
#pragma omp simd
        for (int64_t c = 0; c < w; c++)
            dx[c] = r * (dy[c] * weight[c] - x[c] * pull);
        if (job->before)
            row_add(job->type, job->before, row * w, w, dx);
        row_store(job->type, job->y, row * w, w, dx);
    }
    if (sums)
        rms_flush(sums, columns, w);
}

Err rmsnorm_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    RmsJob job = rms_job(n, device);
    choice->workspace_bytes = rms_bytes(&job, ATTR(n, RmsnormAttr)->wants[1]);
    return OK;
}

Err rmsnorm_grad_cpu(const Call *call)
{
    RmsJob job = rms_job(call->node, call->device);
    Type   type_dy = in_type(call->node, 2);
    job.x = call->in[0];
    job.weight = call->in[1];
    job.dy = call->in[2];
    job.before = call->in[3];
    job.y = call->out[0];
    rms_carve(&job, call->out[1] != NULL, call->workspace);
#pragma omp parallel num_threads(job.threads)
    rms_backward(&job, type_dy, omp_get_thread_num());
    float *dweight = call->out[1];
    for (int64_t c = 0; c < job.width && dweight; c++) {
        double sum = 0;
        for (int t = 0; t < job.threads; t++)
            sum += job.sums[t * job.width + c];
        dweight[c] = (float)sum;
    }
    return OK;
}
