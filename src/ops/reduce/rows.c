/* rows.c -- elementwise work in blocks, shared among threads. */
#include "ops/reduce/rows.h"

#include "device/convert.h"
#include "ops/linear/column_sums.h"
#include "ops/parallel.h"

static void rows_block(const Call *call, int n_in, RowFn *fn, int64_t from, int64_t to)
{
    const Node  *n = call->node;
    Type         type = out_type(n, 0);
    float        buffer[ROWS_MAX_IN + 1][ROW_BLOCK];
    const float *in[ROWS_MAX_IN];
    for (int64_t i = from; i < to; i += ROW_BLOCK) {
        int64_t m = to - i < ROW_BLOCK ? to - i : ROW_BLOCK;
        for (int j = 0; j < n_in; j++)
            in[j] = row_load(in_type(n, j), call->in[j], i, m, buffer[j]);
        float *out = row_open(type, call->out[0], i, buffer[n_in]);
        fn(call, i, m, in, out);
        row_store(type, call->out[0], i, m, out);
    }
}

static void rows_block_bf16(const Call *call, int n_in, RowBf16Fn *fn, int64_t from, int64_t to)
{
    const uint16_t *in[ROWS_MAX_IN];
    for (int j = 0; j < n_in; j++)
        in[j] = (const uint16_t *)call->in[j] + from;
    fn(to - from, in, (uint16_t *)call->out[0] + from);
}

/* Runs one of the two functions. Where partial column sums are asked for, each block of rows is
 * summed while it is in the cache. */
static Err rows_share(const Call *call, int n_in, RowFn *fn, RowBf16Fn *fn_bf16)
{
    Shape   out = out_shape(call->node, 0);
    float  *col_sums = call_partial_sums(call);
    int64_t count = shape_count(out), width = col_sums ? dim(out, -1) : 1,
            unit = col_sums ? col_sums_rows(shape_rows(out)) * width : ROW_BLOCK;
    int threads = call->device->threads;

#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        parallel_range(count, unit, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from, end; i < to; i = end) {
            end = col_sums && i + unit < to ? i + unit : to;
            if (fn)
                rows_block(call, n_in, fn, i, end);
            else
                rows_block_bf16(call, n_in, fn_bf16, i, end);
            if (col_sums)
                col_sums_of_rows(out_type(call->node, 0), call->out[0], i / width,
                                 (end - i) / width, width, col_sums + i / unit * width);
        }
    }
    return OK;
}

Err rows_run(const Call *call, int n_in, RowFn *fn) { return rows_share(call, n_in, fn, NULL); }

Err rows_run_bf16(const Call *call, int n_in, RowBf16Fn *fn)
{
    return rows_share(call, n_in, NULL, fn);
}
