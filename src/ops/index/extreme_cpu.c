/* extreme_cpu.c -- the largest or smallest along axes on the CPU: blocks of columns, row after
 * row. Integers have loops of their own, because fp32 does not hold all of them. */
#include "ops/index/extreme.h"

#include "device/convert.h"
#include "ops/parallel.h"

#include <math.h>

enum { EXTREME_BLOCK = 256 };

typedef struct ExtremeBlock {
    float   value[EXTREME_BLOCK];
    int32_t whole[EXTREME_BLOCK]; /* of integers */
    int32_t which[EXTREME_BLOCK];
} ExtremeBlock;

static void block_floats(const ExtremeAttr *at, Type type, const void *p, int64_t first, int64_t w,
                         ExtremeBlock *b)
{
    float buffer[EXTREME_BLOCK];
    for (int64_t m = 0; m < at->m; m++) {
        const float *x = row_load(type, p, first + m * at->k, w, buffer);
        for (int64_t j = 0; j < w; j++) {
            float old = b->value[j];
            bool  more = at->min ? x[j] < old : x[j] > old;
            bool  better = m == 0 || more || (x[j] != x[j] && old == old);
            b->value[j] = better ? x[j] : old;
            b->which[j] = better ? (int32_t)m : b->which[j];
        }
    }
}

static void block_ints(const ExtremeAttr *at, Type type, const void *p, int64_t first, int64_t w,
                       ExtremeBlock *b)
{
    for (int64_t m = 0; m < at->m; m++)
        for (int64_t j = 0; j < w; j++) {
            int64_t i = first + m * at->k + j;
            int32_t x = type == U8 ? ((const uint8_t *)p)[i] : ((const int32_t *)p)[i];
            if (m == 0 || (at->min ? x < b->whole[j] : x > b->whole[j])) {
                b->whole[j] = x;
                b->which[j] = (int32_t)m;
            }
        }
}

/* The largest of a contiguous row, in lanes that do not wait for each other. */
static float row_largest(const float *x, int64_t n, float best, bool *nan)
{
    int32_t any = 0;
#pragma omp simd reduction(max : best) reduction(| : any)
    for (int64_t j = 0; j < n; j++) {
        best = x[j] > best ? x[j] : best;
        any |= x[j] != x[j];
    }
    *nan |= any != 0;
    return best;
}

static float row_smallest(const float *x, int64_t n, float best, bool *nan)
{
    int32_t any = 0;
#pragma omp simd reduction(min : best) reduction(| : any)
    for (int64_t j = 0; j < n; j++) {
        best = x[j] < best ? x[j] : best;
        any |= x[j] != x[j];
    }
    *nan |= any != 0;
    return best;
}

static float row_extreme(Type type, const void *p, int64_t first, int64_t n, bool min)
{
    float buffer[EXTREME_BLOCK], best = min ? INFINITY : -INFINITY;
    bool  nan = false;
    for (int64_t c = 0; c < n; c += EXTREME_BLOCK) {
        int64_t      m = n - c < EXTREME_BLOCK ? n - c : EXTREME_BLOCK;
        const float *x = row_load(type, p, first + c, m, buffer);
        best = min ? row_smallest(x, m, best, &nan) : row_largest(x, m, best, &nan);
    }
    return nan ? NAN : best;
}

/* The first place of a value in a row; of NaN, the first NaN. */
static int32_t row_find(Type type, const void *p, int64_t first, int64_t n, float value)
{
    float buffer[EXTREME_BLOCK];
    for (int64_t c = 0; c < n; c += EXTREME_BLOCK) {
        int64_t      m = n - c < EXTREME_BLOCK ? n - c : EXTREME_BLOCK;
        const float *x = row_load(type, p, first + c, m, buffer);
        int32_t      found = 0;
        for (int64_t j = 0; j < m; j++)
            found |= value == value ? x[j] == value : x[j] != x[j];
        for (int64_t j = 0; found && j < m; j++)
            if (value == value ? x[j] == value : x[j] != x[j])
                return (int32_t)(c + j);
    }
    return 0;
}

static void extreme_block(const Call *call, const ExtremeAttr *at, int64_t a, int64_t k0, int64_t w,
                          bool which)
{
    Type         type = in_type(call->node, 0);
    int64_t      first = a * at->m * at->k + k0, to = a * at->k + k0;
    ExtremeBlock b;
    if (!type_is_float(type))
        block_ints(at, type, call->in[0], first, w, &b);
    else if (at->k == 1) {
        b.value[0] = row_extreme(type, call->in[0], first, at->m, at->min);
        if (which)
            b.which[0] = row_find(type, call->in[0], first, at->m, b.value[0]);
    } else
        block_floats(at, type, call->in[0], first, w, &b);
    if (which)
        memcpy((int32_t *)call->out[0] + to, b.which, (size_t)w * sizeof *b.which);
    else if (type_is_float(type))
        convert_rows(type, (char *)call->out[0] + to * type_bytes(type), F32, b.value, (size_t)w);
    else
        for (int64_t j = 0; j < w; j++)
            if (type == U8)
                ((uint8_t *)call->out[0])[to + j] = (uint8_t)b.whole[j];
            else
                ((int32_t *)call->out[0])[to + j] = b.whole[j];
}

static Err extreme_run(const Call *call, bool which)
{
    const ExtremeAttr *at = ATTR(call->node, ExtremeAttr);
    int64_t            blocks = ceil_div(at->k, EXTREME_BLOCK);
    int                threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < at->a * blocks; t++) {
        int64_t k0 = t % blocks * EXTREME_BLOCK,
                w = at->k - k0 < EXTREME_BLOCK ? at->k - k0 : EXTREME_BLOCK;
        extreme_block(call, at, t / blocks, k0, w, which);
    }
    return OK;
}

Err arg_extreme_cpu(const Call *call) { return extreme_run(call, true); }
Err extreme_cpu(const Call *call) { return extreme_run(call, false); }

/* in: x, y, dy */
static void grad_block(const Call *call, const ExtremeAttr *at, int64_t a, int64_t k0, int64_t w)
{
    const Node  *n = call->node;
    float        buffer[4][EXTREME_BLOCK], share[EXTREME_BLOCK] = { 0 };
    int64_t      first = a * at->m * at->k + k0, of = a * at->k + k0;
    const float *y = row_load(in_type(n, 1), call->in[1], of, w, buffer[0]),
                *dy = row_load(in_type(n, 2), call->in[2], of, w, buffer[1]);
    for (int64_t m = 0; m < at->m; m++) {
        const float *x = row_load(in_type(n, 0), call->in[0], first + m * at->k, w, buffer[2]);
        for (int64_t j = 0; j < w; j++)
            share[j] += x[j] == y[j] ? 1.0f : 0.0f;
    }
    for (int64_t j = 0; j < w; j++)
        share[j] = share[j] > 0 ? dy[j] / share[j] : 0;
    for (int64_t m = 0; m < at->m; m++) {
        const float *x = row_load(in_type(n, 0), call->in[0], first + m * at->k, w, buffer[2]);
        float       *dx = row_open(out_type(n, 0), call->out[0], first + m * at->k, buffer[3]);
        for (int64_t j = 0; j < w; j++)
            dx[j] = x[j] == y[j] ? share[j] : 0;
        row_store(out_type(n, 0), call->out[0], first + m * at->k, w, dx);
    }
}

/* One column of contiguous elements. */
static void grad_row(const Call *call, const ExtremeAttr *at, int64_t a)
{
    const Node *n = call->node;
    float       buffer[2][EXTREME_BLOCK], count = 0, one[2];
    float       y = *row_load(in_type(n, 1), call->in[1], a, 1, &one[0]),
          dy = *row_load(in_type(n, 2), call->in[2], a, 1, &one[1]);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t c = 0; c < at->m; c += EXTREME_BLOCK) {
            int64_t      w = at->m - c < EXTREME_BLOCK ? at->m - c : EXTREME_BLOCK;
            int64_t      first = a * at->m + c;
            const float *x = row_load(in_type(n, 0), call->in[0], first, w, buffer[0]);
            if (!pass) {
                int32_t equal = 0;
                for (int64_t j = 0; j < w; j++)
                    equal += x[j] == y;
                count += (float)equal;
                continue;
            }
            float *dx = row_open(out_type(n, 0), call->out[0], first, buffer[1]);
            for (int64_t j = 0; j < w; j++)
                dx[j] = x[j] == y ? dy / count : 0;
            row_store(out_type(n, 0), call->out[0], first, w, dx);
        }
}

Err extreme_grad_cpu(const Call *call)
{
    const ExtremeAttr *at = ATTR(call->node, ExtremeAttr);
    int64_t            blocks = ceil_div(at->k, EXTREME_BLOCK);
    int                threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < at->a * blocks; t++) {
        int64_t k0 = t % blocks * EXTREME_BLOCK,
                w = at->k - k0 < EXTREME_BLOCK ? at->k - k0 : EXTREME_BLOCK;
        if (at->k == 1)
            grad_row(call, at, t);
        else
            grad_block(call, at, t / blocks, k0, w);
    }
    return OK;
}
