/* scan_cpu.c -- running sums and products on the CPU: blocks of columns, row after row. The running
 * values are doubles: sums of thousands of terms keep their digits. */
#include "ops/index/scan.h"

#include "device/convert.h"
#include "ops/parallel.h"

enum { SCAN_BLOCK = 256 };

static void scan_floats(const Call *call, const ScanAttr *at, int64_t a, int64_t k0, int64_t w,
                        bool product)
{
    Type   tx = in_type(call->node, 0), ty = at->type;
    double run[SCAN_BLOCK];
    float  buffer_x[SCAN_BLOCK], buffer_y[SCAN_BLOCK];
    for (int64_t j = 0; j < w; j++)
        run[j] = product ? 1 : 0;
    for (int64_t i = 0; i < at->n; i++) {
        int64_t      n = at->reverse ? at->n - 1 - i : i, first = (a * at->n + n) * at->k + k0;
        const float *x = row_load(tx, call->in[0], first, w, buffer_x);
        float       *y = row_open(ty, call->out[0], first, buffer_y);
        if (product)
            for (int64_t j = 0; j < w; j++)
                y[j] = (float)(run[j] *= (double)x[j]);
        else
            for (int64_t j = 0; j < w; j++)
                y[j] = (float)(run[j] += (double)x[j]);
        row_store(ty, call->out[0], first, w, y);
    }
}

/* One column of contiguous elements, a block at a time. */
static void scan_row(const Call *call, const ScanAttr *at, int64_t a, bool product)
{
    Type   tx = in_type(call->node, 0), ty = at->type;
    double run = product ? 1 : 0;
    float  buffer_x[SCAN_BLOCK], buffer_y[SCAN_BLOCK];
    for (int64_t i = 0; i < at->n; i += SCAN_BLOCK) {
        int64_t      m = at->n - i < SCAN_BLOCK ? at->n - i : SCAN_BLOCK;
        int64_t      first = a * at->n + (at->reverse ? at->n - i - m : i);
        const float *x = row_load(tx, call->in[0], first, m, buffer_x);
        float       *y = row_open(ty, call->out[0], first, buffer_y);
        for (int64_t j = 0; j < m; j++) {
            int64_t n = at->reverse ? m - 1 - j : j;
            run = product ? run * (double)x[n] : run + (double)x[n];
            y[n] = (float)run;
        }
        row_store(ty, call->out[0], first, m, y);
    }
}

static void scan_ints(const Call *call, const ScanAttr *at, int64_t a, int64_t k0, int64_t w)
{
    bool     bytes = in_type(call->node, 0) == U8;
    int32_t *y = call->out[0];
    for (int64_t k = k0; k < k0 + w; k++) {
        int32_t run = 0;
        for (int64_t i = 0; i < at->n; i++) {
            int64_t n = at->reverse ? at->n - 1 - i : i, at_n = (a * at->n + n) * at->k + k;
            run += bytes ? ((const uint8_t *)call->in[0])[at_n]
                         : ((const int32_t *)call->in[0])[at_n];
            y[at_n] = run;
        }
    }
}

static Err scan_run(const Call *call, bool product)
{
    const ScanAttr *at = ATTR(call->node, ScanAttr);
    int64_t         blocks = ceil_div(at->k, SCAN_BLOCK);
    bool            floats = type_is_float(in_type(call->node, 0));
    int             threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < at->a * blocks; t++) {
        int64_t k0 = t % blocks * SCAN_BLOCK, w = at->k - k0 < SCAN_BLOCK ? at->k - k0 : SCAN_BLOCK;
        if (floats && at->k == 1)
            scan_row(call, at, t, product);
        else if (floats)
            scan_floats(call, at, t / blocks, k0, w, product);
        else
            scan_ints(call, at, t / blocks, k0, w);
    }
    return OK;
}

Err cumsum_cpu(const Call *call) { return scan_run(call, false); }
Err cumprod_cpu(const Call *call) { return scan_run(call, true); }

static inline float one_at(Type type, const void *p, int64_t i)
{
    float buffer;
    return *row_load(type, p, i, 1, &buffer);
}

static inline void one_put(Type type, void *p, int64_t i, double x)
{
    float y = (float)x;
    convert_rows(type, (char *)p + i * type_bytes(type), F32, &y, 1);
}

/* Before the first zero dx_i = (the sum of dy_j y_j from i to that zero) / x_i; at the zero the
 * products leave it out; behind it all are 0. */
static void cumprod_column(const Call *call, const ScanAttr *at, int64_t first)
{
    Type    tx = in_type(call->node, 0), td = in_type(call->node, 1);
    int64_t zero = 0, step = at->k;
    double  product = 1, sum = 0;
    for (; zero < at->n; zero++) {
        double x = (double)one_at(tx, call->in[0], first + zero * step);
        if (x == 0)
            break;
        product *= x;
    }
    double y = product; /* of all before the zero */
    for (int64_t i = zero - 1; i >= 0; i--) {
        double x = (double)one_at(tx, call->in[0], first + i * step);
        sum += (double)one_at(td, call->in[1], first + i * step) * y;
        one_put(at->type, call->out[0], first + i * step, sum / x);
        y /= x;
    }
    sum = 0;
    for (int64_t i = zero; i < at->n; i++) {
        if (i > zero) {
            product *= (double)one_at(tx, call->in[0], first + i * step);
            one_put(at->type, call->out[0], first + i * step, 0);
        }
        sum += (double)one_at(td, call->in[1], first + i * step) * product;
    }
    if (zero < at->n)
        one_put(at->type, call->out[0], first + zero * step, sum);
}

Err cumprod_grad_cpu(const Call *call)
{
    const ScanAttr *at = ATTR(call->node, ScanAttr);
    int             threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t c = 0; c < at->a * at->k; c++)
        cumprod_column(call, at, c / at->k * at->n * at->k + c % at->k);
    return OK;
}
