/* embedding_cpu.c -- rows of a table and sinusoids of time on the CPU. */
#include "ops/embedding/embedding.h"

#include "device/convert.h"
#include "ops/parallel.h"

#include <math.h>

static Err ids_check(const int32_t *ids, int64_t count, int64_t most)
{
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= most)
            return fail(E_NUMBER, "embedding: id %d at index %lld is not one of 0 to %lld", ids[i],
                        (long long)i, (long long)most - 1);
    return OK;
}

Err embedding_cpu(const Call *call)
{
    const Node    *n = call->node;
    const int32_t *ids = call->in[1];
    Shape          table = in_shape(n, 0);
    int64_t count = shape_count(in_shape(n, 1)), row = table.dim[1] * type_bytes(in_type(n, 0));
    int     threads = call->device->threads;
    TRY(ids_check(ids, count, table.dim[0]));

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)call->out[0] + i * row, (const char *)call->in[0] + ids[i] * row,
               (size_t)row);
    return OK;
}

/* Threads divide the columns; each walks all ids in order, so every sum has one order. */
Err embedding_grad_cpu(const Call *call)
{
    const Node    *n = call->node;
    const int32_t *ids = call->in[0];
    Shape          table = out_shape(n, 0);
    int64_t        count = shape_count(in_shape(n, 0)), c = table.dim[1];
    Type           type = in_type(n, 1);
    float         *sum = call->out[0];
    int            threads = call->device->threads;
    TRY(ids_check(ids, count, table.dim[0]));

#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;
        float   buffer[ROW_BLOCK];
        parallel_range(c, 16, omp_get_thread_num(), threads, &from, &to);
        for (int64_t v = 0; from < to && v < table.dim[0]; v++)
            memset(sum + v * c + from, 0, (size_t)(to - from) * sizeof *sum);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = from; j < to; j += ROW_BLOCK) {
                int64_t      m = to - j < ROW_BLOCK ? to - j : ROW_BLOCK;
                const float *dy = row_load(type, call->in[1], i * c + j, m, buffer);
                float       *row = sum + ids[i] * c + j;
                for (int64_t k = 0; k < m; k++)
                    row[k] += dy[k];
            }
    }
    return OK;
}

Err time_embedding_cpu(const Call *call)
{
    const Node     *n = call->node;
    const TimeAttr *at = ATTR(n, TimeAttr);
    int64_t         half = at->width / 2, count = in_shape(n, 0).dim[0];
    int             threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < count; b++) {
        double t = in_type(n, 0) == I32 ? (double)((const int32_t *)call->in[0])[b]
                                        : (double)((const float *)call->in[0])[b];
        for (int64_t k = 0; k < half; k++) {
            double angle = t * exp(-log((double)at->longest) * (double)k / (double)half);
            float  pair[2] = { (float)cos(angle), (float)sin(angle) };
            for (int i = 0; i < 2; i++)
                convert_rows(at->type,
                             (char *)call->out[0] +
                                 (b * at->width + i * half + k) * type_bytes(at->type),
                             F32, &pair[i], 1);
        }
    }
    return OK;
}
