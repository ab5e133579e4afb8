/* dml_cpu.c -- discretised mixture of logistics on the CPU.
 *
 * BLOCK rows are transposed so that each component's numbers are contiguous, and every step is a
 * vector loop over rows.
 *
 * The mass of a bin, sigma(plus) - sigma(minus), is computed as sigma(plus) sigma(-minus) (1 -
 * e^-d) with d = plus - minus: the same number without the cancellation. Where it is below 1e-5 the
 * density at the middle times the width takes its place, as in PixelCNN++; the first and last bins
 * reach to infinity. */
#include "ops/loss/dml.h"

#include "base/int_math.h"
#include "device/convert.h"
#include "ops/loss/loss.h"
#include "ops/elementwise/vmath.h"

enum { BLOCK = 64 };

typedef struct DmlBlock {
    int     k, levels;
    int64_t first, rows;           /* rows of x that are in it */
    float   x[3 * DML_MAX][BLOCK]; /* [logits | means | log scales], by component */
    float   log_p[DML_MAX][BLOCK]; /* log p_j, then log pi_j p_j less a constant */
    float   d_mean[DML_MAX][BLOCK], d_scale[DML_MAX][BLOCK]; /* of log p_j; gradient only */
    float   log_pi[BLOCK], log_sum[BLOCK]; /* log sum exp(logits); log sum pi_j p_j plus that */
    float   value[BLOCK], low[BLOCK], high[BLOCK],
        counts[BLOCK]; /* of the target: x, at an edge?, counted? */
} DmlBlock;

static void block_load(DmlBlock *b, const Call *call, int64_t first)
{
    Shape          s = in_shape(call->node, 0);
    const int32_t *target = call->in[1];
    int64_t        rows = shape_rows(s), n = dim(s, -1);
    b->k = (int)n / 3;
    b->levels = ATTR(call->node, LossAttr)->levels;
    b->first = first;
    b->rows = rows - first < BLOCK ? rows - first : BLOCK;
    for (int64_t r = 0; r < BLOCK; r++) {
        float        buffer[3 * DML_MAX] = { 0 };
        bool         real = r < b->rows;
        const float *x = real ? row_load(in_type(call->node, 0), call->in[0], (first + r) * n, n,
                                         buffer)
                              : buffer;
        int32_t      t = real ? target[first + r] : LOSS_IGNORE;
        for (int64_t j = 0; j < n; j++)
            b->x[j][r] = x[j];
        b->counts[r] = t == LOSS_IGNORE ? 0.0f : 1.0f;
        b->value[r] = t == LOSS_IGNORE ? 0.0f : 2.0f * (float)t / (float)b->levels - 1.0f;
        b->low[r] = t == 0 ? 1.0f : 0.0f;
        b->high[r] = t == b->levels - 1 ? 1.0f : 0.0f;
    }
}

/* log p_j of the target's bin and its slopes by mean and log scale, for every row. */
static void block_component(DmlBlock *b, int j)
{
    const float *mean = b->x[b->k + j], *raw = b->x[2 * b->k + j];
    float        half = 1.0f / (float)b->levels, log_width = logf(2.0f * half);
#pragma omp simd
    for (int i = 0; i < BLOCK; i++) {
        float log_scale = raw[i] < -7.0f ? -7.0f : raw[i];
        float inverse = vexp(-log_scale), centre = b->value[i] - mean[i];
        float plus = inverse * (centre + half), minus = inverse * (centre - half),
              mid = inverse * centre;
        float d = 2.0f * half * inverse, th = vtanh(0.5f * d),
              width = 2.0f * th / (1.0f + th);                 /* 1 - e^-d */
        float over = vsigmoid(-plus), under = vsigmoid(minus); /* the mass above, below the bin */
        float p = vsigmoid(plus) * vsigmoid(-minus) * width;
        bool  low = b->low[i] != 0, high = b->high[i] != 0, plain = p > 1e-5f;

        float at = low ? plus : high ? minus : mid, soft = vsoftplus(at);
        float log_p = plain ? vlog(p > 1e-12f ? p : 1e-12f)
                            : mid - log_scale - 2.0f * soft + log_width;
        log_p = low ? plus - soft : high ? -soft : log_p;

        float tilt = 1.0f - 2.0f * vsigmoid(mid); /* by mid, in the tail */
        float by_mean = plain ? over - under : tilt;
        by_mean = low ? over : high ? -under : by_mean;
        float by_scale = plain ? -plus * over + minus * under - d * (1.0f - width) / width
                               : -mid * tilt - 1.0f;
        by_scale = low ? -plus * over : high ? minus * under : by_scale;

        b->log_p[j][i] = log_p;
        b->d_mean[j][i] = -inverse * by_mean;
        b->d_scale[j][i] = raw[i] < -7.0f ? 0.0f : by_scale;
    }
}

/* out[i] = log sum_j exp(x[j][i]) */
static void block_log_sum(const float (*x)[BLOCK], int k, float *out)
{
    float most[BLOCK], sum[BLOCK] = { 0 };
    memcpy(most, x[0], sizeof most);
    for (int j = 1; j < k; j++)
        for (int i = 0; i < BLOCK; i++)
            most[i] = x[j][i] > most[i] ? x[j][i] : most[i];
    for (int j = 0; j < k; j++)
#pragma omp simd
        for (int i = 0; i < BLOCK; i++)
            sum[i] += vexp(x[j][i] - most[i]);
#pragma omp simd
    for (int i = 0; i < BLOCK; i++)
        out[i] = most[i] + vlog(sum[i]);
}

static void block_run(DmlBlock *b, const Call *call, int64_t first)
{
    block_load(b, call, first);
    for (int j = 0; j < b->k; j++) {
        block_component(b, j);
        for (int i = 0; i < BLOCK; i++)
            b->log_p[j][i] += b->x[j][i];
    }
    block_log_sum((const float(*)[BLOCK])b->x, b->k, b->log_pi);
    block_log_sum((const float(*)[BLOCK])b->log_p, b->k, b->log_sum);
}

static int64_t dml_blocks(const Node *n) { return ceil_div(shape_rows(in_shape(n, 0)), BLOCK); }

Err dml_loss_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    (void)device;
    choice->workspace_bytes = (size_t)dml_blocks(n) * sizeof(double);
    return OK;
}

Err dml_loss_cpu(const Call *call)
{
    const Node     *n = call->node;
    const LossAttr *at = ATTR(n, LossAttr);
    const float    *given = call->in[2];
    int64_t         rows = shape_rows(in_shape(n, 0)), blocks = dml_blocks(n), counted;
    double         *partial = call->workspace, total = 0;
    int             threads = call->device->threads;
    TRY(loss_targets("dml_loss", call->in[1], rows, at->levels, &counted));

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t p = 0; p < blocks; p++) {
        DmlBlock b;
        double   sum = 0;
        block_run(&b, call, p * BLOCK);
        for (int i = 0; i < BLOCK; i++)
            sum += b.counts[i] != 0 ? (double)b.log_pi[i] - (double)b.log_sum[i] : 0;
        partial[p] = sum;
    }
    for (int64_t p = 0; p < blocks; p++)
        total += partial[p];
    if (!given)
        *(float *)call->out[1] = counted > 1 ? (float)counted : 1;
    double denominator = given ? (double)*given : (double)(counted > 1 ? counted : 1);
    *(float *)call->out[0] = (float)((double)at->scale * total / denominator);
    return OK;
}

/* With r_j the share of component j in the target's probability, the gradient by its logit is pi_j
 * - r_j, by its other parameters -r_j times the slope of log p_j. They replace x in the block. */
static void block_grad(DmlBlock *b, float factor)
{
    for (int j = 0; j < b->k; j++) {
        float *logit = b->x[j], *mean = b->x[b->k + j], *scale = b->x[2 * b->k + j];
#pragma omp simd
        for (int i = 0; i < BLOCK; i++) {
            float f = b->counts[i] != 0 ? factor : 0.0f;
            float share = vexp(b->log_p[j][i] - b->log_sum[i]), pi = vexp(logit[i] - b->log_pi[i]);
            logit[i] = f != 0 ? f * (pi - share) : 0.0f;
            mean[i] = f != 0 ? -f * share * b->d_mean[j][i] : 0.0f;
            scale[i] = f != 0 ? -f * share * b->d_scale[j][i] : 0.0f;
        }
    }
}

Err dml_loss_grad_cpu(const Call *call) /* in: x, target, denominator, dy */
{
    const Node *n = call->node;
    int64_t     blocks = dml_blocks(n), width = dim(in_shape(n, 0), -1);
    Type        type = out_type(n, 0);
    float       factor = ATTR(n, LossAttr)->scale / *(float *)call->in[2] * *(float *)call->in[3];
    int         threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t p = 0; p < blocks; p++) {
        DmlBlock b;
        block_run(&b, call, p * BLOCK);
        block_grad(&b, factor);
        for (int64_t r = 0; r < b.rows; r++) {
            float  buffer[3 * DML_MAX];
            float *dx = row_open(type, call->out[0], (b.first + r) * width, buffer);
            for (int64_t j = 0; j < width; j++)
                dx[j] = b.x[j][r];
            row_store(type, call->out[0], (b.first + r) * width, width, dx);
        }
    }
    return OK;
}
