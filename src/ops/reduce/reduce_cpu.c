/* reduce_cpu.c -- sums over the middle of (A, M, K), and repetition, on the CPU.
 *
 * M is divided into slices of a fixed number of rows, K into blocks. Every (a, slice, block) is
 * summed on its own; the slices are then added in order. The split depends on the shape alone, so
 * the sum is the same for any number of threads. Narrow rows (small K) are summed many at a time,
 * side by side in one vector-friendly stripe, which is folded at the end. */
#include "ops/reduce/reduce.h"

#include "device/convert.h"
#include "ops/parallel.h"

#include <string.h>

enum { SLICE_ELEMENTS = 16384, SLICE_ROWS = 64 };

typedef struct SumSplit {
    int64_t rows, slices;  /* of M: rows per slice, slices */
    int64_t block, blocks; /* of K */
} SumSplit;

static SumSplit sum_split(const ReduceAttr *at)
{
    SumSplit split = { .rows = SLICE_ELEMENTS / at->k };
    if (split.rows < SLICE_ROWS)
        split.rows = SLICE_ROWS;
    split.slices = ceil_div(at->m, split.rows);
    split.block = at->k < ROW_BLOCK ? at->k : ROW_BLOCK;
    split.blocks = ceil_div(at->k, split.block);
    return split;
}

Err sum_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    const ReduceAttr *at = ATTR(n, ReduceAttr);
    SumSplit          split = sum_split(at);
    (void)device;
    if (split.slices > 1)
        choice->workspace_bytes = (size_t)(at->a * split.slices * at->k) * sizeof(float);
    return OK;
}

static void stripe_add(float *restrict sum, const float *x, const float *y, int64_t n)
{
    if (y)
        for (int64_t i = 0; i < n; i++)
            sum[i] = x[i] * y[i] + sum[i];
    else
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i];
}

/* Rows from..to of one block of K into out[width]. Where the block is all of K, rows are contiguous
 * and a stripe of several is added at a time. */
static void sum_slice(const SumRows *job, const ReduceAttr *at, int64_t a, int64_t from, int64_t to,
                      int64_t k0, int64_t width, float *out)
{
    float   sum[ROW_BLOCK] = { 0 }, buffer_x[ROW_BLOCK], buffer_y[ROW_BLOCK];
    int64_t stripe = width == at->k ? ROW_BLOCK / width : 1;
    for (int64_t r = from; r < to; r += stripe) {
        int64_t rows = to - r < stripe ? to - r : stripe, first = (a * at->m + r) * at->k + k0;
        stripe_add(sum, row_load(job->type_x, job->x, first, rows * width, buffer_x),
                   job->y ? row_load(job->type_y, job->y, first, rows * width, buffer_y) : NULL,
                   rows * width);
    }
    for (int64_t s = 1; s < stripe && s < to - from; s++)
        for (int64_t i = 0; i < width; i++)
            sum[i] += sum[s * width + i];
    memcpy(out, sum, (size_t)width * sizeof *out);
}

static void sum_finish(const SumRows *job, const ReduceAttr *at, int64_t first, int64_t n,
                       float *row)
{
    float buffer[ROW_BLOCK], *out = row_open(job->type_out, job->out, first, buffer);
    for (int64_t i = 0; i < n; i++)
        out[i] = row[i] * at->scale;
    row_store(job->type_out, job->out, first, n, out);
}

Err sum_cpu(const Call *call)
{
    const Node *n = call->node;
    return sum_rows_cpu(call, &(SumRows){ .type_x = in_type(n, 0),
                                          .x = call->in[0],
                                          .type_y = call->in[1] ? in_type(n, 1) : F32,
                                          .y = call->in[1],
                                          .type_out = out_type(n, 0),
                                          .out = call->out[0] });
}

Err sum_rows_cpu(const Call *call, const SumRows *job)
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    SumSplit          split = sum_split(at);
    float            *partial = call->workspace;
    int64_t           tasks = at->a * split.slices * split.blocks;
    int               threads = call->device->threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t block = t % split.blocks, slice = t / split.blocks % split.slices,
                a = t / split.blocks / split.slices;
        int64_t from = slice * split.rows,
                to = from + split.rows < at->m ? from + split.rows : at->m;
        int64_t k0 = block * split.block,
                width = k0 + split.block < at->k ? split.block : at->k - k0;
        float row[ROW_BLOCK];
        bool  whole = split.slices == 1;
        sum_slice(job, at, a, from, to, k0, width,
                  whole ? row : partial + (a * split.slices + slice) * at->k + k0);
        if (whole)
            sum_finish(job, at, a * at->k + k0, width, row);
    }
    if (split.slices == 1)
        return OK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < at->a * split.blocks; t++) {
        int64_t a = t / split.blocks, k0 = t % split.blocks * split.block;
        int64_t width = k0 + split.block < at->k ? split.block : at->k - k0;
        float   row[ROW_BLOCK] = { 0 };
        for (int64_t slice = 0; slice < split.slices; slice++)
            stripe_add(row, partial + (a * split.slices + slice) * at->k + k0, NULL, width);
        sum_finish(job, at, a * at->k + k0, width, row);
    }
    return OK;
}

static void repeat_scaled(const Call *call, const ReduceAttr *at, int64_t row) /* one row of K */
{
    Type  tx = in_type(call->node, 0), ty = out_type(call->node, 0);
    float buffer_x[ROW_BLOCK], buffer_y[ROW_BLOCK];
    for (int64_t k = 0; k < at->k; k += ROW_BLOCK) {
        int64_t      n = at->k - k < ROW_BLOCK ? at->k - k : ROW_BLOCK, first = row * at->k + k;
        const float *x = row_load(tx, call->in[0], row / at->m * at->k + k, n, buffer_x);
        float       *y = row_open(ty, call->out[0], first, buffer_y);
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * at->scale;
        row_store(ty, call->out[0], first, n, y);
    }
}

#define REPEAT_FILL(T)                                                                             \
    static void fill_##T(T *restrict y, const void *x, int64_t n)                                  \
    {                                                                                              \
        T value;                                                                                   \
        memcpy(&value, x, sizeof value);                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = value;                                                                          \
    }
REPEAT_FILL(uint32_t)
REPEAT_FILL(uint16_t)
REPEAT_FILL(uint8_t)

/* Rows of one element: each is scaled and rounded once, then repeated. */
static void repeat_elements(const Call *call, const ReduceAttr *at, bool copy)
{
    Type tx = in_type(call->node, 0), ty = out_type(call->node, 0);
    int  threads = call->device->threads, size = type_bytes(ty);
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to, end;
        parallel_range(at->a * at->m, 64, omp_get_thread_num(), threads, &from, &to);
        for (; from < to; from = end) {
            int64_t     a = from / at->m;
            const char *x = (const char *)call->in[0] + a * type_bytes(tx);
            char       *y = (char *)call->out[0] + from * size, rounded[4];
            end = (a + 1) * at->m < to ? (a + 1) * at->m : to;
            if (!copy) {
                float buffer, value = *row_load(tx, call->in[0], a, 1, &buffer) * at->scale;
                convert_rows(ty, rounded, F32, &value, 1);
                x = rounded;
            }
            if (size == 4)
                fill_uint32_t((void *)y, x, end - from);
            else if (size == 2)
                fill_uint16_t((void *)y, x, end - from);
            else
                fill_uint8_t((void *)y, x, end - from);
        }
    }
}

Err repeat_cpu(const Call *call)
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    int64_t           rows = at->a * at->m;
    size_t            bytes = (size_t)(at->k * type_bytes(at->type));
    bool              copy = at->scale == 1 && in_type(call->node, 0) == at->type;
    int               threads = call->device->threads;
    if (at->k == 1) {
        repeat_elements(call, at, copy);
        return OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        if (copy)
            memcpy((char *)call->out[0] + (size_t)r * bytes,
                   (char *)call->in[0] + (size_t)(r / at->m) * bytes, bytes);
        else
            repeat_scaled(call, at, r);
    return OK;
}
