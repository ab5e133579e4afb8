/* rows.c -- elementwise work in blocks, shared among threads. */
#include "ops/rows.h"

#include "device/convert.h"
#include "ops/parallel.h"

Err rows_run(const Call *call, int n_in, RowFn *fn)
{
    const Node *n = call->node;
    int64_t count = shape_count(out_shape(n, 0));
    Type    type = out_type(n, 0);
    int     threads = call->device->threads;

#pragma omp parallel num_threads(threads)
    {
        float        buffer[ROWS_MOST_IN + 1][ROW_BLOCK];
        const float *in[ROWS_MOST_IN];
        int64_t      from, to;
        parallel_piece(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i += ROW_BLOCK) {
            int64_t m = to - i < ROW_BLOCK ? to - i : ROW_BLOCK;
            for (int j = 0; j < n_in; j++)
                in[j] = row_load(in_type(n, j), call->in[j], i, m, buffer[j]);
            float *out = row_open(type, call->out[0], i, buffer[n_in]);
            fn(call, i, m, in, out);
            row_store(type, call->out[0], i, m, out);
        }
    }
    return OK;
}

Err rows_run_bf16(const Call *call, int n_in, RowBf16Fn *fn)
{
    int64_t count = shape_count(out_shape(call->node, 0));
    int     threads = call->device->threads;

#pragma omp parallel num_threads(threads)
    {
        const uint16_t *in[ROWS_MOST_IN];
        int64_t         from, to;
        parallel_piece(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        for (int j = 0; j < n_in; j++)
            in[j] = (const uint16_t *)call->in[j] + from;
        fn(to - from, in, (uint16_t *)call->out[0] + from);
    }
    return OK;
}
