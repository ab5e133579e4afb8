/* glu_cpu.c -- gated linear units on the CPU: row by row, in blocks of the half width. */
#include "ops/elementwise/glu.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/elementwise/vmath.h"

typedef void GateFn(int64_t n, const float *a, const float *b, float *y);
typedef void GateGradFn(int64_t n, const float *a, const float *b, const float *dy, float *da,
                        float *db);

static void glu_gate(int64_t n, const float *a, const float *b, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * vsigmoid(b[i]);
}

static void glu_gate_grad(int64_t n, const float *a, const float *b, const float *dy, float *da,
                          float *db)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = vsigmoid(b[i]), d = dy[i];
        db[i] = d * a[i] * s * (1.0f - s);
        da[i] = d * s;
    }
}

static void geglu_gate(int64_t n, const float *a, const float *b, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * vgelu(b[i]);
}

static void geglu_gate_grad(int64_t n, const float *a, const float *b, const float *dy, float *da,
                            float *db)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float x = b[i], d = dy[i];
        db[i] = d * a[i] * vgelu_slope(x);
        da[i] = d * vgelu(x);
    }
}

static Err gate_cpu(const Call *call, GateFn *fn)
{
    Shape   s = out_shape(call->node, 0);
    int64_t rows = shape_rows(s), c = dim(s, -1);
    Type    tx = in_type(call->node, 0), ty = out_type(call->node, 0);
    int     threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float a[ROW_BLOCK], b[ROW_BLOCK], out[ROW_BLOCK];
        for (int64_t j = 0; j < c; j += ROW_BLOCK) {
            int64_t n = c - j < ROW_BLOCK ? c - j : ROW_BLOCK;
            float  *y = row_open(ty, call->out[0], r * c + j, out);
            fn(n, row_load(tx, call->in[0], 2 * r * c + j, n, a),
               row_load(tx, call->in[0], (2 * r + 1) * c + j, n, b), y);
            row_store(ty, call->out[0], r * c + j, n, y);
        }
    }
    return OK;
}

static Err gate_grad_cpu(const Call *call, GateGradFn *fn)
{
    Shape   s = in_shape(call->node, 1);
    int64_t rows = shape_rows(s), c = dim(s, -1);
    Type    tx = in_type(call->node, 0), td = in_type(call->node, 1), ty = out_type(call->node, 0);
    int     threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float a[ROW_BLOCK], b[ROW_BLOCK], d[ROW_BLOCK], out[2][ROW_BLOCK];
        for (int64_t j = 0; j < c; j += ROW_BLOCK) {
            int64_t n = c - j < ROW_BLOCK ? c - j : ROW_BLOCK, first = 2 * r * c + j,
                    second = first + c;
            float *da = row_open(ty, call->out[0], first, out[0]),
                  *db = row_open(ty, call->out[0], second, out[1]);
            fn(n, row_load(tx, call->in[0], first, n, a), row_load(tx, call->in[0], second, n, b),
               row_load(td, call->in[1], r * c + j, n, d), da, db);
            row_store(ty, call->out[0], first, n, da);
            row_store(ty, call->out[0], second, n, db);
        }
    }
    return OK;
}

/* clang-format off */
Err glu_cpu(const Call *call)        { return gate_cpu(call, glu_gate); }
Err glu_grad_cpu(const Call *call)   { return gate_grad_cpu(call, glu_gate_grad); }
Err geglu_cpu(const Call *call)      { return gate_cpu(call, geglu_gate); }
Err geglu_grad_cpu(const Call *call) { return gate_grad_cpu(call, geglu_gate_grad); }
/* clang-format on */
