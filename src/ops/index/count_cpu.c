/* count_cpu.c -- one-hot rows and counts on the CPU: counts per thread, added up. */
#include "ops/index/count.h"

#include "device/convert.h"
#include "ops/parallel.h"

Err one_hot_cpu(const Call *call)
{
    const OneHotAttr *at = ATTR(call->node, OneHotAttr);
    const int32_t    *ids = call->in[0];
    int64_t           count = shape_count(in_shape(call->node, 0)), size = type_bytes(at->type);
    int               threads = call->device->threads;
    char              one[4];
    if (type_is_float(at->type))
        convert_rows(at->type, one, F32, &(float){ 1 }, 1);
    else
        memcpy(one, &(int32_t){ 1 }, 4); /* little endian: also a byte */
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= at->classes)
            return fail(E_NUMBER, "one_hot: id %d at index %lld is not one of 0 to %lld", ids[i],
                        (long long)i, (long long)at->classes - 1);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        char *row = (char *)call->out[0] + i * at->classes * size;
        memset(row, 0, (size_t)(at->classes * size));
        memcpy(row + ids[i] * size, one, (size_t)size);
    }
    return OK;
}

Err count_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = (size_t)device->threads * (size_t)ATTR(n, CountAttr)->bins *
                              sizeof(int32_t);
    return OK;
}

/* The bin of a float, -1 if it has none. */
static int64_t bin_of(const CountAttr *at, float x)
{
    if (!(x >= at->low && x <= at->high))
        return -1;
    int64_t bin = (int64_t)((x - at->low) / (at->high - at->low) * (float)at->bins);
    return bin < at->bins ? bin : at->bins - 1;
}

Err count_cpu(const Call *call)
{
    const CountAttr *at = ATTR(call->node, CountAttr);
    Type             type = in_type(call->node, 0);
    int64_t          count = shape_count(in_shape(call->node, 0));
    const int32_t   *ids = call->in[0];
    int32_t         *counts = call->workspace;
    int              threads = call->device->threads;
    for (int64_t i = 0; i < count && type == I32; i++)
        if (ids[i] < 0 || ids[i] >= at->bins)
            return fail(E_NUMBER, "bincount: id %d at index %lld is not one of 0 to %lld", ids[i],
                        (long long)i, (long long)at->bins - 1);
#pragma omp parallel num_threads(threads)
    {
        int64_t  from, to;
        int32_t *own = counts + omp_get_thread_num() * at->bins;
        float    buffer;
        memset(own, 0, (size_t)at->bins * sizeof *own);
        parallel_range(count, 1, omp_get_thread_num(), threads, &from, &to);
        for (int64_t i = from; i < to; i++) {
            int64_t bin = type == I32 ? ids[i]
                                      : bin_of(at, *row_load(type, call->in[0], i, 1, &buffer));
            if (bin >= 0)
                own[bin]++;
        }
    }
    for (int64_t b = 0; b < at->bins; b++) {
        int32_t sum = 0;
        for (int t = 0; t < threads; t++)
            sum += counts[t * at->bins + b];
        if (at->type == I32)
            ((int32_t *)call->out[0])[b] = sum;
        else
            ((float *)call->out[0])[b] = (float)sum;
    }
    return OK;
}
