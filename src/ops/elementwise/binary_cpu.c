/* binary_cpu.c -- two tensors element by element, and a vector along a tensor, on the CPU. */
#include "ops/elementwise/binary.h"

#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/rows.h"

#include <math.h>
#include <string.h>

static void sub_row(const Call *call, int64_t first, int64_t n, const float *const *in, float *out)
{
    const float *x = in[0], *y = in[1];
    (void)call, (void)first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] - y[i];
}

static void mul_row(const Call *call, int64_t first, int64_t n, const float *const *in, float *out)
{
    const float *x = in[0], *y = in[1];
    (void)call, (void)first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * y[i];
}

static void weighted_sum_row(const Call *call, int64_t first, int64_t n, const float *const *in,
                             float *out)
{
    const float *x = in[0], *y = in[1];
    WeightedAttr w = *ATTR(call->node, WeightedAttr);
    (void)first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = fmaf(w.a, x[i], w.b * y[i]);
}

/* clang-format off */
Err sub_cpu(const Call *call)          { return rows_run(call, 2, sub_row); }
Err mul_cpu(const Call *call)          { return rows_run(call, 2, mul_row); }
Err weighted_sum_cpu(const Call *call) { return rows_run(call, 2, weighted_sum_row); }
/* clang-format on */

typedef void AlongFn(int64_t n, const float *x, const float *v, const float *h, float *out);

static void add_along(int64_t n, const float *x, const float *v, const float *h, float *out)
{
    (void)h;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] + v[i];
}

static void mul_along(int64_t n, const float *x, const float *v, const float *h, float *out)
{
    (void)h;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * v[i];
}

static void gate_along(int64_t n, const float *x, const float *v, const float *h, float *out)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = fmaf(v[i], h[i], x[i]);
}

typedef struct AlongBuffers {
    float v[ROW_BLOCK], x[ROW_BLOCK], h[ROW_BLOCK], out[ROW_BLOCK];
} AlongBuffers;

/* n values from element `first` on, with the n values of v that lie along them. */
static void along_run(const Call *call, AlongFn *fn, int64_t first, int64_t n, const float *v,
                      AlongBuffers *b)
{
    const Node  *node = call->node;
    Type         type = out_type(node, 0);
    const float *h = fn == gate_along ? row_load(in_type(node, 2), call->in[2], first, n, b->h)
                                      : NULL;
    float       *out = row_open(type, call->out[0], first, b->out);
    fn(n, row_load(in_type(node, 0), call->in[0], first, n, b->x), v, h, out);
    row_store(type, call->out[0], first, n, out);
}

/* m rows of x from row r on, all with row a of v. Where K is small, v is repeated to fill a block,
 * so that several rows are done at a time. */
static void along_rows(const Call *call, AlongFn *fn, const ReduceAttr *at, int64_t a, int64_t r,
                       int64_t m, AlongBuffers *b)
{
    Type    tv = in_type(call->node, 1);
    int64_t k = at->k, stripe = ROW_BLOCK / k < m ? ROW_BLOCK / k : m;
    if (stripe > 1) {
        const float *v = row_load(tv, call->in[1], a * k, k, b->v);
        memmove(b->v, v, (size_t)k * sizeof *v);
        for (int64_t have = k; have < stripe * k;) { /* doubling */
            int64_t more = have < stripe * k - have ? have : stripe * k - have;
            memcpy(b->v + have, b->v, (size_t)more * sizeof *v);
            have += more;
        }
        for (int64_t i = 0; i < m; i += stripe)
            along_run(call, fn, (r + i) * k, (m - i < stripe ? m - i : stripe) * k, b->v, b);
        return;
    }
    for (int64_t i = r; i < r + m; i++)
        for (int64_t j = 0; j < k; j += ROW_BLOCK) {
            int64_t n = k - j < ROW_BLOCK ? k - j : ROW_BLOCK;
            along_run(call, fn, i * k + j, n, row_load(tv, call->in[1], a * k + j, n, b->v), b);
        }
}

static Err along_cpu(const Call *call, AlongFn *fn)
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    int64_t           rows = at->a * at->m;
    int               threads = call->device->threads;

#pragma omp parallel num_threads(threads)
    {
        AlongBuffers buffers;
        int64_t      from, to;
        parallel_range(rows, 1, omp_get_thread_num(), threads, &from, &to);
        for (int64_t r = from; r < to;) {
            int64_t a = r / at->m, end = (a + 1) * at->m < to ? (a + 1) * at->m : to;
            along_rows(call, fn, at, a, r, end - r, &buffers);
            r = end;
        }
    }
    return OK;
}

/* clang-format off */
Err add_rows_cpu(const Call *call)  { return along_cpu(call, add_along); }
Err mul_rows_cpu(const Call *call)  { return along_cpu(call, mul_along); }
Err gated_add_cpu(const Call *call) { return along_cpu(call, gate_along); }
/* clang-format on */

Err gated_add_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    return sum_choose_cpu(n, device, choice);
}

/* dh in blocks of rows_each rows: one thread computes a block and sums its columns while it is in
 * the cache. */
static Err gated_add_grad_dh(const Call *call, float *col_sums)
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    int64_t           rows_each = gated_add_grad_rows(at), per_sample = ceil_div(at->m, rows_each);
    int               threads = call->device->threads;

#pragma omp parallel num_threads(threads)
    {
        AlongBuffers buffers;
        int64_t      from, to;
        parallel_range(at->a * per_sample, 1, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i++) {
            int64_t a = i / per_sample, m = i % per_sample * rows_each, first = a * at->m + m;
            int64_t rows = at->m - m < rows_each ? at->m - m : rows_each;
            along_rows(call, mul_along, at, a, first, rows, &buffers);
            col_sums_of_rows(out_type(call->node, 0), call->out[0], first, rows, at->k,
                             col_sums + i * at->k);
        }
    }
    return OK;
}

/* dy gate h -> dh dgate, and partial column sums of dh if asked for. dgate comes first, because dh
 * may take over dy's bytes. */
Err gated_add_grad_cpu(const Call *call)
{
    const Node *n = call->node;
    TRY(sum_rows_cpu(call, &(SumRows){ .type_x = in_type(n, 0),
                                       .x = call->in[0],
                                       .type_y = in_type(n, 2),
                                       .y = call->in[2],
                                       .type_out = out_type(n, 1),
                                       .out = call->out[1] }));
    return call_partial_sums(call) ? gated_add_grad_dh(call, call_partial_sums(call))
                                   : along_cpu(call, mul_along);
}
