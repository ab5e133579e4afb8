/* basic_cpu.c -- feed and add on the CPU. */
#include "device/convert.h"
#include "ops/elementwise/basic.h"
#include "ops/parallel.h"

#include <string.h>

Err feed_cpu(const Call *call)
{
    const Node *n = call->node;
    if (!call->feed)
        return fail(E_USAGE, "input '%s' was not given", ATTR(n, FeedAttr)->name);
    memcpy(call->out[0], call->feed, (size_t)out_bytes(n, 0));
    return OK;
}

Err add_cpu(const Call *call)
{
    const Node *n = call->node;
    int64_t     count = shape_count(out_shape(n, 0));
    Type        ta = in_type(n, 0), tb = in_type(n, 1), ty = out_type(n, 0);
    int         threads = call->device->threads;

#pragma omp parallel num_threads(threads)
    {
        float   buffer_a[ROW_BLOCK], buffer_b[ROW_BLOCK], buffer_y[ROW_BLOCK];
        int64_t from, to;
        parallel_range(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i += ROW_BLOCK) {
            int64_t      m = to - i < ROW_BLOCK ? to - i : ROW_BLOCK;
            const float *a = row_load(ta, call->in[0], i, m, buffer_a);
            const float *b = row_load(tb, call->in[1], i, m, buffer_b);
            float       *y = row_open(ty, call->out[0], i, buffer_y);
            for (int64_t j = 0; j < m; j++)
                y[j] = a[j] + b[j];
            row_store(ty, call->out[0], i, m, y);
        }
    }
    return OK;
}

Err cast_cpu(const Call *call)
{
    const Node *n = call->node;
    int64_t     count = shape_count(out_shape(n, 0));
    Type        tx = in_type(n, 0), ty = out_type(n, 0);
    int         threads = call->device->threads;

#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        parallel_range(count, ROW_BLOCK, omp_get_thread_num(), threads, &from, &to);
        if (to > from)
            convert_rows(ty, (char *)call->out[0] + from * type_bytes(ty), tx,
                         (const char *)call->in[0] + from * type_bytes(tx), (size_t)(to - from));
    }
    return OK;
}

Err assign_cpu(const Call *call)
{
    memcpy(call->out[0], call->in[1], (size_t)in_bytes(call->node, 1));
    return OK;
}
