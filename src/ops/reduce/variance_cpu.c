/* variance_cpu.c -- variance and product over M of (A, M, K) on the CPU. Long rows (K = 1) are summed
 * by row_sums.h, columns side by side with sums in double. */
#include "ops/reduce/variance.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/reduce/row_sums.h"

enum { MOMENT_BLOCK = 256 };

typedef struct MomentColumns { /* a block of columns of one a */
    Type        type;
    const void *x;
    int64_t     first, m, k, w; /* rows k apart, w columns */
} MomentColumns;

/* Sums over the rows of x - mean, or of its square. */
static void column_sums(const MomentColumns *c, const double *mean, bool square, double *sum)
{
    float buffer[MOMENT_BLOCK];
    if (c->k == 1) {
        *sum = 0;
        for (int64_t i = 0; i < c->m; i += MOMENT_BLOCK) {
            int64_t      n = c->m - i < MOMENT_BLOCK ? c->m - i : MOMENT_BLOCK;
            const float *x = row_load(c->type, c->x, c->first + i, n, buffer);
            *sum += (double)(square ? row_deviation(x, n, (float)*mean) : row_sum(x, n));
        }
        return;
    }
    for (int64_t j = 0; j < c->w; j++)
        sum[j] = 0;
    for (int64_t i = 0; i < c->m; i++) {
        const float *x = row_load(c->type, c->x, c->first + i * c->k, c->w, buffer);
        if (square)
            for (int64_t j = 0; j < c->w; j++)
                sum[j] += ((double)x[j] - mean[j]) * ((double)x[j] - mean[j]);
        else
            for (int64_t j = 0; j < c->w; j++)
                sum[j] += (double)x[j];
    }
}

/* The product of the elements that are not 0, and how many are. */
static void column_products(const MomentColumns *c, double *product, double *zeros)
{
    float buffer[MOMENT_BLOCK];
    for (int64_t j = 0; j < c->w; j++)
        product[j] = 1, zeros[j] = 0;
    for (int64_t i = 0; i < c->m; i++) {
        const float *x = row_load(c->type, c->x, c->first + i * c->k, c->w, buffer);
        for (int64_t j = 0; j < c->w; j++) {
            product[j] *= x[j] == 0 ? 1 : (double)x[j];
            zeros[j] += x[j] == 0;
        }
    }
}

static void columns_mean(const MomentColumns *c, double *mean)
{
    column_sums(c, NULL, false, mean);
    for (int64_t j = 0; j < c->w; j++)
        mean[j] /= (double)c->m;
}

static void var_columns(const Call *call, const MomentAttr *at, const MomentColumns *c, int64_t to)
{
    double mean[MOMENT_BLOCK], sum[MOMENT_BLOCK];
    float  y[MOMENT_BLOCK];
    columns_mean(c, mean);
    column_sums(c, mean, true, sum);
    for (int64_t j = 0; j < c->w; j++)
        y[j] = (float)(sum[j] / ((double)at->m - (double)at->correction));
    convert_rows(at->type, (char *)call->out[0] + to * type_bytes(at->type), F32, y, (size_t)c->w);
}

static void prod_columns(const Call *call, const MomentAttr *at, const MomentColumns *c, int64_t to)
{
    double product[MOMENT_BLOCK], zeros[MOMENT_BLOCK];
    float  y[MOMENT_BLOCK];
    column_products(c, product, zeros);
    for (int64_t j = 0; j < c->w; j++)
        y[j] = zeros[j] > 0 ? 0 : (float)product[j];
    convert_rows(at->type, (char *)call->out[0] + to * type_bytes(at->type), F32, y, (size_t)c->w);
}

/* dx of rows of w columns, w = m where K is 1: scale (x - mean). */
static void var_grad_row(Type type, const Call *call, int64_t first, int64_t w, const double *mean,
                         const double *scale, int64_t step)
{
    float buffer[2][MOMENT_BLOCK];
    for (int64_t i = 0; i < w; i += MOMENT_BLOCK) {
        int64_t      n = w - i < MOMENT_BLOCK ? w - i : MOMENT_BLOCK;
        const float *x = row_load(in_type(call->node, 0), call->in[0], first + i, n, buffer[0]);
        float       *dx = row_open(type, call->out[0], first + i, buffer[1]);
        if (step)
            for (int64_t j = 0; j < n; j++)
                dx[j] = (float)(((double)x[j] - mean[j]) * scale[j]);
        else
            for (int64_t j = 0; j < n; j++)
                dx[j] = (x[j] - (float)*mean) * (float)*scale;
        row_store(type, call->out[0], first + i, n, dx);
    }
}

static void var_grad_columns(const Call *call, const MomentAttr *at, const MomentColumns *c,
                             int64_t of)
{
    double       mean[MOMENT_BLOCK], scale[MOMENT_BLOCK];
    float        buffer[MOMENT_BLOCK];
    const float *dy = row_load(in_type(call->node, 1), call->in[1], of, c->w, buffer);
    columns_mean(c, mean);
    for (int64_t j = 0; j < c->w; j++)
        scale[j] = 2 * (double)dy[j] / ((double)at->m - (double)at->correction);
    if (c->k == 1)
        var_grad_row(at->type, call, c->first, c->m, mean, scale, 0);
    else
        for (int64_t i = 0; i < c->m; i++)
            var_grad_row(at->type, call, c->first + i * c->k, c->w, mean, scale, 1);
}

static void prod_grad_columns(const Call *call, const MomentAttr *at, const MomentColumns *c,
                              int64_t of)
{
    double       product[MOMENT_BLOCK], zeros[MOMENT_BLOCK];
    float        buffer[3][MOMENT_BLOCK];
    const float *dy = row_load(in_type(call->node, 1), call->in[1], of, c->w, buffer[0]);
    column_products(c, product, zeros);
    for (int64_t i = 0; i < c->m; i++) {
        int64_t      first = c->first + i * c->k;
        const float *x = row_load(c->type, c->x, first, c->w, buffer[1]);
        float       *dx = row_open(at->type, call->out[0], first, buffer[2]);
        for (int64_t j = 0; j < c->w; j++) { /* the product of all others */
            double others = zeros[j] == 0                ? product[j] / (double)x[j]
                            : zeros[j] == 1 && x[j] == 0 ? product[j]
                                                         : 0;
            dx[j] = (float)(others * (double)dy[j]);
        }
        row_store(at->type, call->out[0], first, c->w, dx);
    }
}

typedef void ColumnsFn(const Call *call, const MomentAttr *at, const MomentColumns *c, int64_t of);

static Err columns_run(const Call *call, ColumnsFn *fn)
{
    const MomentAttr *at = ATTR(call->node, MomentAttr);
    int64_t           blocks = ceil_div(at->k, MOMENT_BLOCK);
    int               threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < at->a * blocks; t++) {
        int64_t       a = t / blocks, k0 = t % blocks * MOMENT_BLOCK;
        MomentColumns c = { in_type(call->node, 0),
                            call->in[0],
                            a * at->m * at->k + k0,
                            at->m,
                            at->k,
                            at->k - k0 < MOMENT_BLOCK ? at->k - k0 : MOMENT_BLOCK };
        fn(call, at, &c, a * at->k + k0);
    }
    return OK;
}

Err var_cpu(const Call *call) { return columns_run(call, var_columns); }
Err var_grad_cpu(const Call *call) { return columns_run(call, var_grad_columns); }
Err prod_cpu(const Call *call) { return columns_run(call, prod_columns); }
Err prod_grad_cpu(const Call *call) { return columns_run(call, prod_grad_columns); }
