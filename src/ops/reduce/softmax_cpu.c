/* softmax_cpu.c -- softmax and its relatives on the CPU: a row at a time, in blocks. */
#include "ops/reduce/softmax.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/elementwise/vmath.h"

RowSum softmax_row_sum(Type type, const void *x, int64_t first, int64_t n)
{
    float        buffer[ROW_BLOCK];
    RowSum       row = { .max = -INFINITY };
    const float *block = buffer;
    for (int64_t i = 0; i < n; i += ROW_BLOCK) {
        int64_t m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
        float   largest = row.max;
        block = row_load(type, x, first + i, m, buffer);
#pragma omp simd reduction(max : largest)
        for (int64_t j = 0; j < m; j++)
            largest = block[j] > largest ? block[j] : largest;
        row.max = largest;
    }
    if (isinf(row.max)) { /* all -inf, or some +inf: x - max is not finite */
        row.sum = 1;
        return row;
    }
    for (int64_t i = 0; i < n; i += ROW_BLOCK) {
        int64_t m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
        float   sum = 0;
        if (n > ROW_BLOCK) /* else the one block is still there */
            block = row_load(type, x, first + i, m, buffer);
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < m; j++)
            sum += vexp(block[j] - row.max);
        row.sum += sum;
    }
    return row;
}

/* A row that fits a block: each exponential is computed once, into y. Returns their sum. */
static float softmax_short(const float *x, float *y, int64_t n)
{
    float largest = -INFINITY, sum = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t j = 0; j < n; j++)
        largest = x[j] > largest ? x[j] : largest;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        float e = vexp(x[j] - largest);
        y[j] = e;
        sum += e;
    }
    return sum;
}

static void softmax_store(Type type, void *out, int64_t first, int64_t n, float *y, float scale)
{
    if (type == BF16) {
        uint16_t *half = (uint16_t *)out + first;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            half[j] = f32_to_bf16(y[j] * scale);
        return;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        y[j] *= scale;
    row_store(type, out, first, n, y);
}

static Err softmax_rows(const Call *call, SoftmaxKind kind)
{
    const Node *node = call->node;
    Shape       s = in_shape(node, 0);
    Type        tx = in_type(node, 0), ty = out_type(node, 0);
    int64_t     rows = shape_rows(s), n = dim(s, -1);
    int         threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float buffer[2][ROW_BLOCK];
        if (kind == SOFTMAX_PLAIN && n <= ROW_BLOCK) {
            float *y = row_open(ty, call->out[0], r * n, buffer[1]);
            float  sum = softmax_short(row_load(tx, call->in[0], r * n, n, buffer[0]), y, n);
            softmax_store(ty, call->out[0], r * n, n, y, 1.0f / sum);
            continue;
        }
        RowSum sum = softmax_row_sum(tx, call->in[0], r * n, n);
        float  scale = 1.0f / sum.sum, log_sum = vlog(sum.sum);
        for (int64_t i = 0; i < n; i += ROW_BLOCK) {
            int64_t      m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK, first = r * n + i;
            const float *x = row_load(tx, call->in[0], first, m, buffer[0]);
            float       *y = row_open(ty, call->out[0], first, buffer[1]);
            if (kind == SOFTMAX_PLAIN)
#pragma omp simd
                for (int64_t j = 0; j < m; j++)
                    y[j] = vexp(x[j] - sum.max) * scale;
            else
#pragma omp simd
                for (int64_t j = 0; j < m; j++)
                    y[j] = (x[j] - sum.max) - log_sum;
            row_store(ty, call->out[0], first, m, y);
        }
    }
    return OK;
}

/* clang-format off */
Err softmax_cpu(const Call *call)     { return softmax_rows(call, SOFTMAX_PLAIN); }
Err log_softmax_cpu(const Call *call) { return softmax_rows(call, SOFTMAX_LOG); }
/* clang-format on */

Err logsumexp_cpu(const Call *call)
{
    Shape   s = in_shape(call->node, 0);
    int64_t rows = shape_rows(s), n = dim(s, -1);
    float  *y = call->out[0];
    int     threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        RowSum sum = softmax_row_sum(in_type(call->node, 0), call->in[0], r * n, n);
        y[r] = sum.max + vlog(sum.sum);
    }
    return OK;
}

/* A row of bf16 that fits the first-level cache: converted in registers, read twice. */
static void softmax_grad_bf16(const uint16_t *y, const uint16_t *dy, uint16_t *dx, int64_t n)
{
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < n; j++)
        total += bf16_to_f32(y[j]) * bf16_to_f32(dy[j]);
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        dx[j] = f32_to_bf16(bf16_to_f32(y[j]) * (bf16_to_f32(dy[j]) - total));
}

/* softmax: dx = y (dy - sum(y dy)); log_softmax: dx = dy - exp(y) sum(dy). */
static Err softmax_grads(const Call *call, SoftmaxKind kind)
{
    const Node *node = call->node;
    Shape       s = in_shape(node, 0);
    Type        ty = in_type(node, 0), td = in_type(node, 1), tx = out_type(node, 0);
    int64_t     rows = shape_rows(s), n = dim(s, -1);
    int         threads = call->device->threads;

#pragma omp      parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
             float        buffer[3][ROW_BLOCK], total = 0;
             const float *y = NULL, *dy = NULL;
             if (kind == SOFTMAX_PLAIN && n <= ROW_BLOCK && ty == BF16 && td == BF16 && tx == BF16) {
                 softmax_grad_bf16((const uint16_t *)call->in[0] + r * n,
                                   (const uint16_t *)call->in[1] + r * n,
                                   (uint16_t *)call->out[0] + r * n, n);
                 continue;
        }
             for (int64_t i = 0; i < n; i += ROW_BLOCK) {
                 int64_t m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK, first = r * n + i;
                 float   sum = 0;
                 y = row_load(ty, call->in[0], first, m, buffer[0]);
                 dy = row_load(td, call->in[1], first, m, buffer[1]);
                 if (kind == SOFTMAX_PLAIN)
     #pragma omp simd reduction(+ : sum)
                for (int64_t j = 0; j < m; j++)
                    sum += y[j] * dy[j];
            else
#pragma omp simd reduction(+ : sum)
                for (int64_t j = 0; j < m; j++)
                    sum += dy[j];
            total += sum;
             }
             for (int64_t i = 0; i < n; i += ROW_BLOCK) {
                 int64_t m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK, first = r * n + i;
                 float  *dx = row_open(tx, call->out[0], first, buffer[2]);
                 if (n > ROW_BLOCK) { /* else the one block is still there */
                y = row_load(ty, call->in[0], first, m, buffer[0]);
                dy = row_load(td, call->in[1], first, m, buffer[1]);
            }
                 if (kind == SOFTMAX_PLAIN)
     #pragma omp simd
                for (int64_t j = 0; j < m; j++)
                    dx[j] = y[j] * (dy[j] - total);
            else
#pragma omp simd
                for (int64_t j = 0; j < m; j++)
                    dx[j] = fmaf(-vexp(y[j]), total, dy[j]);
            row_store(tx, call->out[0], first, m, dx);
        }
    }
    return OK;
}

/* clang-format off */
Err softmax_grad_cpu(const Call *call)     { return softmax_grads(call, SOFTMAX_PLAIN); }
Err log_softmax_grad_cpu(const Call *call) { return softmax_grads(call, SOFTMAX_LOG); }
/* clang-format on */

Err logsumexp_grad_cpu(const Call *call) /* in: x, lse, dy */
{
    const Node  *node = call->node;
    const float *lse = call->in[1];
    Shape        s = in_shape(node, 0);
    Type         tx = in_type(node, 0), td = in_type(node, 2), ty = out_type(node, 0);
    int64_t      rows = shape_rows(s), n = dim(s, -1);
    int          threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float buffer[3][ROW_BLOCK], dy = *row_load(td, call->in[2], r, 1, buffer[0]);
        for (int64_t i = 0; i < n; i += ROW_BLOCK) {
            int64_t      m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK, first = r * n + i;
            const float *x = row_load(tx, call->in[0], first, m, buffer[1]);
            float       *dx = row_open(ty, call->out[0], first, buffer[2]);
#pragma omp simd
            for (int64_t j = 0; j < m; j++)
                dx[j] = vexp(x[j] - lse[r]) * dy;
            row_store(ty, call->out[0], first, m, dx);
        }
    }
    return OK;
}
