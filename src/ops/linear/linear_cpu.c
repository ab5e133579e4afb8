/* linear_cpu.c -- linear layers as matrix products of linalg/linalg.h; column sums. */
#include "device/convert.h"
#include "ops/linear/column_sums.h"
#include "ops/linear/linear.h"
#include "ops/ops.h"
#include "ops/parallel.h"

#include <string.h>

static MatmulDesc linear_desc(const Node *n)
{
    bool       in_out = ATTR(n, LinearAttr)->in_out;
    int64_t    rows = shape_rows(in_shape(n, 0)), in, out;
    MatmulDesc d = {
        .batch = 1, .type_a = in_type(n, 0), .type_b = in_type(n, 1), .type_c = out_type(n, 0)
    };
    if (n->op == &op_linear) {
        in = dim(in_shape(n, 0), -1), out = dim(out_shape(n, 0), -1);
        d.m = rows, d.n = out, d.k = in;
        d.lda = in, d.ldb = in_out ? out : in, d.ldc = out;
        d.trans_b = !in_out;
        d.bias = in_given(n, 2);
        d.accumulate = in_given(n, 3);
        d.type_bias = d.bias ? in_type(n, 2) : F32;
    } else if (n->op == &op_linear_grad_x) {
        out = dim(in_shape(n, 0), -1), in = dim(out_shape(n, 0), -1);
        d.m = rows, d.n = in, d.k = out;
        d.lda = out, d.ldb = in_out ? out : in, d.ldc = in;
        d.trans_b = in_out;
        d.accumulate = in_given(n, 2);
    } else {
        in = dim(in_shape(n, 0), -1), out = dim(in_shape(n, 1), -1);
        d.m = in_out ? in : out, d.n = in_out ? out : in, d.k = rows;
        d.lda = d.m, d.ldb = d.n, d.ldc = d.n;
        d.trans_a = true;
        d.accumulate = in_given(n, 2);
        if (!in_out) { /* dW is (out, in): the product's left side is dy */
            d.type_a = in_type(n, 1);
            d.type_b = in_type(n, 0);
        }
    }
    return d;
}

Err linear_choose_linalg(const Node *n, const Device *device, Choice *choice)
{
    const Prim *prim;
    MatmulDesc  desc = linear_desc(n);
    TRY(linalg_matmul(device->backend, &desc, device->threads, &prim));
    choice->workspace_bytes = prim->workspace_bytes;
    choice->name = prim->impl;
    return OK;
}

Err linear_prepare_linalg(Pool *pool, Call *call)
{
    (void)pool;
    const Prim *prim;
    MatmulDesc  desc = linear_desc(call->node);
    TRY(linalg_matmul(call->device->backend, &desc, call->device->threads, &prim));
    call->prepared = (void *)(uintptr_t)prim;
    return OK;
}

static Err linear_run(const Call *call, void *a, void *b, const void *bias, const void *before)
{
    const Prim *prim = call->prepared;
    return prim->backend->run(prim, &(PrimArgs){ .a = a,
                                                 .b = b,
                                                 .c = call->out[0],
                                                 .bias = bias,
                                                 .before = before,
                                                 .workspace = call->workspace });
}

static const void *linear_before(const Call *call) /* the summand, or NULL */
{
    int i = call->node->op == &op_linear ? 3 : 2;
    return in_given(call->node, i) ? call->in[i] : NULL;
}

Err linear_linalg(const Call *call)
{
    return linear_run(call, call->in[0], call->in[1], call->in[2], linear_before(call));
}

Err linear_grad_x_linalg(const Call *call)
{
    return linear_run(call, call->in[0], call->in[1], NULL, linear_before(call));
}

Err linear_grad_w_linalg(const Call *call)
{
    bool in_out = ATTR(call->node, LinearAttr)->in_out;
    return linear_run(call, call->in[in_out ? 0 : 1], call->in[in_out ? 1 : 0], NULL,
                      linear_before(call));
}

static void linear_copy_before(const Call *call)
{
    const char *from = linear_before(call);
    char       *to = call->out[0];
    int         threads = call->device->threads;
    if (!from || from == to)
        return;
#pragma omp parallel num_threads(threads)
    {
        int64_t first, end;
        parallel_range((int64_t)out_bytes(call->node, 0), 64, omp_get_thread_num(), threads, &first,
                       &end);
        memcpy(to + first, from + first, (size_t)(end - first));
    }
}

Err linear_cpu(const Call *call)
{
    linear_copy_before(call);
    return linear_linalg(call);
}

Err linear_grad_x_cpu(const Call *call)
{
    linear_copy_before(call);
    return linear_grad_x_linalg(call);
}

Err linear_grad_w_cpu(const Call *call)
{
    linear_copy_before(call);
    return linear_grad_w_linalg(call);
}

/* Column sums: each thread sums a range of rows into its own row of the workspace, in double so
 * that millions of pixels do not lose digits. The threads' sums are then added in order. */
size_t bias_sums_bytes(int threads, int64_t width)
{
    return (size_t)threads * (size_t)width * sizeof(double);
}

Err bias_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = bias_sums_bytes(device->threads, dim(in_shape(n, 0), -1));
    return OK;
}

enum { BIAS_ROWS = 32 }; /* rows summed in fp32 before they are added to the double sum */

/* sum[j] += x[0][j] + .. + x[3][j], rows `width` apart: four at a time, so that sums are loaded and
 * stored a quarter as often. */
static void bias_add_four(float *restrict sum, Type type, const void *x, int64_t first,
                          int64_t width, int64_t m)
{
    if (type == F32) {
        const float *a = (const float *)x + first, *b = a + width, *c = b + width, *d = c + width;
        for (int64_t j = 0; j < m; j++)
            sum[j] += (a[j] + b[j]) + (c[j] + d[j]);
    } else {
        const uint16_t *a = (const uint16_t *)x + first, *b = a + width, *c = b + width,
                       *d = c + width;
        for (int64_t j = 0; j < m; j++)
            sum[j] += (bf16_to_f32(a[j]) + bf16_to_f32(b[j])) +
                      (bf16_to_f32(c[j]) + bf16_to_f32(d[j]));
    }
}

/* total[j] = the sum of column c + j over rows from..to; m columns, at most a block */
static void bias_rows(double *total, Type type, const void *x, int64_t from, int64_t to,
                      int64_t width, int64_t c, int64_t m)
{
    float buffer[ROW_BLOCK], sum[ROW_BLOCK];
    memset(total, 0, (size_t)m * sizeof *total);
    for (int64_t r = from; r < to; r += BIAS_ROWS) {
        int64_t end = r + BIAS_ROWS < to ? r + BIAS_ROWS : to;
        memset(sum, 0, (size_t)m * sizeof *sum);
        int64_t i = r;
        for (; type != F16 && i + 4 <= end; i += 4)
            bias_add_four(sum, type, x, i * width + c, width, m);
        for (; i < end; i++) {
            const float *row = row_load(type, x, i * width + c, m, buffer);
            for (int64_t j = 0; j < m; j++)
                sum[j] += row[j];
        }
        for (int64_t j = 0; j < m; j++)
            total[j] += (double)sum[j];
    }
}

void col_sums_of_rows(Type type, const void *x, int64_t first, int64_t rows, int64_t width,
                      float *sums)
{
    double total[ROW_BLOCK];
    for (int64_t c = 0; c < width; c += ROW_BLOCK) {
        int64_t m = width - c < ROW_BLOCK ? width - c : ROW_BLOCK;
        bias_rows(total, type, x, first, first + rows, width, c, m);
        for (int64_t j = 0; j < m; j++)
            sums[c + j] = (float)total[j];
    }
}

void bias_sums(int threads, Type type, const void *x, int64_t rows, int64_t width, double *sums,
               const float *before, float *out)
{
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        double *own = sums + omp_get_thread_num() * width;
        parallel_range(rows, 1, omp_get_thread_num(), threads, &from, &to);
        for (int64_t c = 0; c < width; c += ROW_BLOCK)
            bias_rows(own + c, type, x, from, to, width, c,
                      width - c < ROW_BLOCK ? width - c : ROW_BLOCK);
    }
    for (int64_t j = 0; j < width; j++) {
        double sum = 0;
        for (int t = 0; t < threads; t++)
            sum += sums[t * width + j];
        out[j] = before ? before[j] + (float)sum : (float)sum;
    }
}

Err bias_grad_cpu(const Call *call)
{
    Shape dy = in_shape(call->node, 0);
    bias_sums(call->device->threads, in_type(call->node, 0), call->in[0], shape_rows(dy),
              dim(dy, -1), call->workspace, call->in[1], call->out[0]);
    return OK;
}
