/* loss_cpu.c -- losses on the CPU. Blocks of fixed size are summed in double and added in order, so
 * a loss does not depend on the number of threads. */
#include "ops/loss/loss.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/reduce/rows.h"
#include "ops/reduce/softmax.h"
#include "ops/elementwise/vmath.h"

enum { LOSS_BLOCK = 16 * ROW_BLOCK, LOSS_ROWS = 64 };

Err loss_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    (void)device;
    choice->workspace_bytes = (size_t)ceil_div(shape_count(in_shape(n, 0)), LOSS_BLOCK) *
                              sizeof(double);
    return OK;
}

/* 0 or 1 for each of n elements from `first` on: the mask of its row of channels. */
static const float *mask_row(const Call *call, int64_t first, int64_t n, float *buffer)
{
    const uint8_t *mask = call->in[2];
    int64_t        channels = dim(in_shape(call->node, 0), -1), row = first / channels,
            at = first % channels;
    for (int64_t i = 0; i < n; i++) {
        buffer[i] = mask[row] ? 1.0f : 0.0f;
        if (++at == channels) {
            at = 0;
            row++;
        }
    }
    return buffer;
}

typedef double BlockFn(int64_t n, const float *x, const float *t, const float *mask);

static double square_block(int64_t n, const float *x, const float *t, const float *mask)
{
    double sum = 0;
    (void)mask;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)t[i];
        sum += d * d;
    }
    return sum;
}

static double absolute_block(int64_t n, const float *x, const float *t, const float *mask)
{
    double sum = 0;
    (void)mask;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += fabs((double)x[i] - (double)t[i]);
    return sum;
}

static double masked_block(int64_t n, const float *x, const float *t, const float *mask)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += mask[i] != 0 ? fabs((double)x[i] - (double)t[i]) : 0;
    return sum;
}

static double loss_total(const Call *call, BlockFn *fn, bool masked)
{
    const Node *n = call->node;
    int64_t     count = shape_count(in_shape(n, 0)), blocks = ceil_div(count, LOSS_BLOCK);
    double     *partial = call->workspace, total = 0;
    int         threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t p = 0; p < blocks; p++) {
        float   buffer[3][ROW_BLOCK];
        int64_t end = (p + 1) * LOSS_BLOCK < count ? (p + 1) * LOSS_BLOCK : count;
        double  sum = 0;
        for (int64_t i = p * LOSS_BLOCK; i < end; i += ROW_BLOCK) {
            int64_t m = end - i < ROW_BLOCK ? end - i : ROW_BLOCK;
            sum += fn(m, row_load(in_type(n, 0), call->in[0], i, m, buffer[0]),
                      row_load(in_type(n, 1), call->in[1], i, m, buffer[1]),
                      masked ? mask_row(call, i, m, buffer[2]) : NULL);
        }
        partial[p] = sum;
    }
    for (int64_t p = 0; p < blocks; p++)
        total += partial[p];
    return total;
}

static Err loss_mean(const Call *call, BlockFn *fn)
{
    double scale = (double)ATTR(call->node, LossAttr)->scale;
    *(float *)call->out[0] = (float)(scale * loss_total(call, fn, false) / in_count(call->node, 0));
    return OK;
}

Err mse_loss_cpu(const Call *call) { return loss_mean(call, square_block); }
Err l1_loss_cpu(const Call *call) { return loss_mean(call, absolute_block); }

Err masked_l1_loss_cpu(const Call *call)
{
    const uint8_t *mask = call->in[2];
    const float   *given = call->in[3];
    int64_t        count = shape_count(in_shape(call->node, 2)), set = 0;
    double         scale = (double)ATTR(call->node, LossAttr)->scale;
    if (!given) {
        for (int64_t i = 0; i < count; i++)
            set += mask[i] != 0;
        *(float *)call->out[1] = set > 1 ? (float)set : 1;
    }
    double denominator = given ? (double)*given : (double)(set > 1 ? set : 1);
    *(float *)call->out[0] = (float)(scale * loss_total(call, masked_block, true) / denominator);
    return OK;
}

static void mse_grad_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                         float *out)
{
    float f = (float)(2 * (double)ATTR(call->node, LossAttr)->scale / in_count(call->node, 0)) *
              *(float *)call->in[2];
    const float *x = in[0], *t = in[1];
    (void)first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = f * (x[i] - t[i]);
}

static inline float sign_of(float d) { return d > 0 ? 1.0f : d < 0 ? -1.0f : d; }

static void l1_grad_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                        float *out)
{
    float f = (float)((double)ATTR(call->node, LossAttr)->scale / in_count(call->node, 0)) *
              *(float *)call->in[2];
    const float *x = in[0], *t = in[1];
    (void)first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = f * sign_of(x[i] - t[i]);
}

static void masked_grad_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                            float *out)
{
    float        buffer[ROW_BLOCK], denominator = *(float *)call->in[3];
    float        f = ATTR(call->node, LossAttr)->scale / denominator * *(float *)call->in[4];
    const float *x = in[0], *t = in[1], *mask = mask_row(call, first, n, buffer);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = mask[i] != 0 ? f * sign_of(x[i] - t[i]) : 0.0f;
}

/* clang-format off */
Err mse_loss_grad_cpu(const Call *call)       { return rows_run(call, 2, mse_grad_row); }
Err l1_loss_grad_cpu(const Call *call)        { return rows_run(call, 2, l1_grad_row); }
Err masked_l1_loss_grad_cpu(const Call *call) { return rows_run(call, 2, masked_grad_row); }
/* clang-format on */

Err loss_targets(const char *op, const int32_t *target, int64_t n, int64_t end, int64_t *counted)
{
    *counted = 0;
    for (int64_t i = 0; i < n; i++) {
        if (target[i] != LOSS_IGNORE && (target[i] < 0 || target[i] >= end))
            return fail(E_NUMBER, "%s: target %d at index %lld is neither %d nor one of 0 to %lld",
                        op, target[i], (long long)i, LOSS_IGNORE, (long long)end - 1);
        *counted += target[i] != LOSS_IGNORE;
    }
    return OK;
}

Err cross_entropy_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    (void)device;
    choice->workspace_bytes = (size_t)ceil_div(shape_rows(in_shape(n, 0)), LOSS_ROWS) *
                              sizeof(double);
    return OK;
}

Err cross_entropy_cpu(const Call *call)
{
    const Node    *node = call->node;
    const int32_t *target = call->in[1];
    const float   *given = call->in[2];
    Shape          s = in_shape(node, 0);
    Type           type = in_type(node, 0);
    int64_t rows = shape_rows(s), n = dim(s, -1), blocks = ceil_div(rows, LOSS_ROWS), counted;
    float  *lse = call->out[2];
    double *partial = call->workspace, total = 0;
    int     threads = call->device->threads;
    TRY(loss_targets("cross_entropy", target, rows, n, &counted));

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t p = 0; p < blocks; p++) {
        double sum = 0;
        for (int64_t r = p * LOSS_ROWS; r < rows && r < (p + 1) * LOSS_ROWS; r++) {
            RowSum row = softmax_row_sum(type, call->in[0], r * n, n);
            float  x;
            lse[r] = row.max + vlog(row.sum);
            if (target[r] != LOSS_IGNORE)
                sum += (double)lse[r] -
                       (double)*row_load(type, call->in[0], r * n + target[r], 1, &x);
        }
        partial[p] = sum;
    }
    for (int64_t p = 0; p < blocks; p++)
        total += partial[p];
    if (!given)
        *(float *)call->out[1] = counted > 1 ? (float)counted : 1;
    double denominator = given ? (double)*given : (double)(counted > 1 ? counted : 1);
    *(float *)call->out[0] = (float)((double)ATTR(node, LossAttr)->scale * total / denominator);
    return OK;
}

Err cross_entropy_grad_cpu(const Call *call) /* in: x, target, denominator, lse, dy */
{
    const Node    *node = call->node;
    const int32_t *target = call->in[1];
    const float   *lse = call->in[3];
    Shape          s = in_shape(node, 0);
    Type           tx = in_type(node, 0), ty = out_type(node, 0);
    int64_t        rows = shape_rows(s), n = dim(s, -1);
    float factor = ATTR(node, LossAttr)->scale / *(float *)call->in[2] * *(float *)call->in[4];
    int   threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float buffer[2][ROW_BLOCK], f = target[r] == LOSS_IGNORE ? 0 : factor;
        for (int64_t i = 0; i < n; i += ROW_BLOCK) {
            int64_t m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK, first = r * n + i,
                    hit = target[r] - i;
            const float *x = row_load(tx, call->in[0], first, m, buffer[0]);
            float       *dx = row_open(ty, call->out[0], first, buffer[1]);
#pragma omp simd
            for (int64_t j = 0; j < m; j++)
                dx[j] = f * vexp(x[j] - lse[r]);
            if (hit >= 0 && hit < m)
                dx[hit] -= f;
            row_store(ty, call->out[0], first, m, dx);
        }
    }
    return OK;
}
