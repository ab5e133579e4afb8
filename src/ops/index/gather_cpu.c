/* gather_cpu.c -- gather, scatter_add and scatter on the CPU. */
#include "ops/index/gather.h"

#include "device/convert.h"
#include "ops/parallel.h"

/* Every index must lie in its axis; the first one that does not is named. */
static Err index_range(const Call *call, const GatherAttr *at, const int32_t *index)
{
    int64_t count = at->shared ? at->m : at->a * at->m * at->k, bad = 0;
    int32_t low = at->wrap ? -(int32_t)at->n : 0, high = (int32_t)at->n;
    int     threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : bad)
    for (int64_t i = 0; i < count; i++)
        bad |= index[i] < low || index[i] >= high;
    for (int64_t i = 0; bad && i < count; i++)
        if (index[i] < low || index[i] >= high)
            return fail(E_NUMBER, "%s: index %d at place %lld is not one of %d to %d",
                        call->node->op->name, index[i], (long long)i, low, high - 1);
    return OK;
}

/* The index of (a, m, k), counted from the front. */
static inline int64_t index_of(const GatherAttr *at, const int32_t *index, int64_t a, int64_t m,
                               int64_t k)
{
    int32_t i = index[at->shared ? m : (a * at->m + m) * at->k + k];
    return i < 0 ? i + at->n : i;
}

static inline void element_copy(char *y, const char *x, int64_t size)
{
    if (size == 4)
        memcpy(y, x, 4);
    else if (size == 2)
        memcpy(y, x, 2);
    else
        *y = *x;
}

/* y[k] = x[index[k]][k], rows of x `width` apart. */
#define GATHER_ROW(T)                                                                              \
    static void gather_##T(T *restrict y, const T *restrict x, const int32_t *restrict index,      \
                           int64_t n, int64_t width)                                               \
    {                                                                                              \
        for (int64_t k = 0; k < width; k++) {                                                      \
            int64_t i = index[k];                                                                  \
            y[k] = x[(i < 0 ? i + n : i) * width + k];                                             \
        }                                                                                          \
    }
GATHER_ROW(uint32_t)
GATHER_ROW(uint16_t)
GATHER_ROW(uint8_t)

/* One row of y, each element by its index. */
static void gather_row(const GatherAttr *at, int64_t size, char *y, const char *x,
                       const int32_t *index)
{
    if (size == 4)
        gather_uint32_t((void *)y, (const void *)x, index, at->n, at->k);
    else if (size == 2)
        gather_uint16_t((void *)y, (const void *)x, index, at->n, at->k);
    else
        gather_uint8_t((void *)y, (const void *)x, index, at->n, at->k);
}

Err gather_cpu(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    const int32_t    *index = call->in[1];
    const char       *x = call->in[0];
    char             *y = call->out[0];
    int64_t           size = type_bytes(in_type(call->node, 0)), row = at->k * size;
    int               threads = call->device->threads;
    TRY(index_range(call, at, index));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < at->a * at->m; r++) {
        int64_t a = r / at->m;
        if (!at->shared)
            gather_row(at, size, y + r * row, x + a * at->n * row, index + r * at->k);
        else
            memcpy(y + r * row, x + (a * at->n + index_of(at, index, a, r % at->m, 0)) * row,
                   (size_t)row);
    }
    return OK;
}

/* ---- sums: a thread owns a range of one of the result's axes and walks the indices in order ---- */

typedef struct SumRange {
    int64_t a0, a1, n0, n1, k0, k1;
} SumRange;

static SumRange sum_range(const GatherAttr *at, int i, int threads)
{
    SumRange r = { 0, at->a, 0, at->n, 0, at->k };
    if (at->a >= threads)
        parallel_range(at->a, 1, i, threads, &r.a0, &r.a1);
    else if (at->k >= 16 * threads)
        parallel_range(at->k, 16, i, threads, &r.k0, &r.k1);
    else
        parallel_range(at->n, 1, i, threads, &r.n0, &r.n1);
    return r;
}

static void range_start(const GatherAttr *at, const SumRange *r, const float *x, float *y)
{
    bool   rows = r->k0 == 0 && r->k1 == at->k;
    size_t bytes = (size_t)((r->k1 - r->k0) * (rows ? r->n1 - r->n0 : 1)) * sizeof *y;
    for (int64_t a = r->a0; a < r->a1 && r->n0 < r->n1; a++)
        for (int64_t n = r->n0; n < r->n1; n += rows ? r->n1 - r->n0 : 1) {
            int64_t first = (a * at->n + n) * at->k + r->k0;
            if (!x)
                memset(y + first, 0, bytes);
            else if (x != y)
                memcpy(y + first, x + first, bytes);
        }
}

/* Rows of one element: values are loaded in blocks along the index. */
static void range_add_elements(const GatherAttr *at, const SumRange *r, const int32_t *index,
                               Type type, const void *src, float *y)
{
    float buffer[ROW_BLOCK];
    for (int64_t a = r->a0; a < r->a1; a++)
        for (int64_t m = 0; m < at->m; m += ROW_BLOCK) {
            int64_t        w = at->m - m < ROW_BLOCK ? at->m - m : ROW_BLOCK;
            const float   *x = row_load(type, src, a * at->m + m, w, buffer);
            const int32_t *ids = index + (at->shared ? 0 : a * at->m) + m;
            for (int64_t j = 0; j < w; j++) {
                int64_t n = ids[j] < 0 ? ids[j] + at->n : ids[j];
                if (n >= r->n0 && n < r->n1 && n != at->padding)
                    y[a * at->n + n] += x[j];
            }
        }
}

static void range_add(const GatherAttr *at, const SumRange *r, const int32_t *index, Type type,
                      const void *src, float *y)
{
    if (at->k == 1) {
        range_add_elements(at, r, index, type, src, y);
        return;
    }
    for (int64_t a = r->a0; a < r->a1; a++)
        for (int64_t m = 0; m < at->m; m++) {
            int64_t from = (a * at->m + m) * at->k;
            if (at->shared) {
                int64_t n = index_of(at, index, a, m, 0);
                if (n >= r->n0 && n < r->n1 && n != at->padding)
                    row_add(type, src, from + r->k0, r->k1 - r->k0,
                            y + (a * at->n + n) * at->k + r->k0);
                continue;
            }
            for (int64_t k = r->k0; k < r->k1; k += ROW_BLOCK) {
                int64_t      w = r->k1 - k < ROW_BLOCK ? r->k1 - k : ROW_BLOCK;
                float        buffer[ROW_BLOCK];
                const float *row = row_load(type, src, from + k, w, buffer);
                for (int64_t j = 0; j < w; j++) {
                    int64_t n = index_of(at, index, a, m, k + j);
                    if (n >= r->n0 && n < r->n1 && n != at->padding)
                        y[(a * at->n + n) * at->k + k + j] += row[j];
                }
            }
        }
}

Err scatter_add_cpu(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    Type              type = in_type(call->node, 2);
    int               threads = call->device->threads;
    TRY(index_range(call, at, call->in[1]));
#pragma omp parallel num_threads(threads)
    {
        SumRange r = sum_range(at, omp_get_thread_num(), threads);
        range_start(at, &r, call->in[0], call->out[0]);
        range_add(at, &r, call->in[1], type, call->in[2], call->out[0]);
    }
    return OK;
}

/* ---- writes ---- */

Err scatter_last_cpu(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    const int32_t    *index = call->in[0];
    int32_t          *last = call->out[0];
    int64_t           outer = at->shared ? 1 : at->a, inner = at->shared ? 1 : at->k;
    int               threads = call->device->threads;
    TRY(index_range(call, at, index));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t a = 0; a < outer; a++) {
        memset(last + a * at->n * inner, 0xff, (size_t)(at->n * inner) * sizeof *last);
        for (int64_t m = 0; m < at->m; m++)
            for (int64_t k = 0; k < inner; k++)
                last[(a * at->n + index_of(at, index, a, m, k)) * inner + k] = (int32_t)m;
    }
    return OK;
}

/* Which index wrote element (a, n, k). */
static inline int64_t last_of(const GatherAttr *at, const int32_t *last, int64_t a, int64_t n,
                              int64_t k)
{
    return last[at->shared ? n : (a * at->n + n) * at->k + k];
}

static void write_row(char *y, const char *src, int64_t row, int64_t bytes) /* src NULL: zeros */
{
    if (src)
        memcpy(y, src + row * bytes, (size_t)bytes);
    else
        memset(y, 0, (size_t)bytes);
}

Err scatter_cpu(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    const char       *x = call->in[0], *src = call->in[2];
    const int32_t    *last = call->in[3];
    char             *y = call->out[0];
    int64_t           size = type_bytes(in_type(call->node, 0)), bytes = at->k * size;
    int               threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < at->a * at->n; r++) {
        int64_t a = r / at->n, n = r % at->n;
        if (at->shared) {
            int64_t m = last_of(at, last, a, n, 0);
            if (m >= 0)
                write_row(y + r * bytes, src, a * at->m + m, bytes);
            else if (x != y)
                memcpy(y + r * bytes, x + r * bytes, (size_t)bytes);
            continue;
        }
        for (int64_t k = 0; k < at->k; k++) {
            int64_t m = last_of(at, last, a, n, k);
            char   *to = y + (r * at->k + k) * size;
            if (m >= 0)
                write_row(to, src, (a * at->m + m) * at->k + k, size);
            else if (x != y)
                element_copy(to, x + (r * at->k + k) * size, size);
        }
    }
    return OK;
}

Err scatter_grad_cpu(const Call *call)
{
    const GatherAttr *at = ATTR(call->node, GatherAttr);
    const char       *dy = call->in[0];
    const int32_t    *index = call->in[1], *last = call->in[2];
    char             *dsrc = call->out[0];
    int64_t           size = type_bytes(in_type(call->node, 0)), bytes = at->k * size;
    int               threads = call->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < at->a * at->m; r++) {
        int64_t a = r / at->m, m = r % at->m;
        if (at->shared) {
            int64_t n = index_of(at, index, a, m, 0);
            write_row(dsrc + r * bytes, last_of(at, last, a, n, 0) == m ? dy : NULL, a * at->n + n,
                      bytes);
            continue;
        }
        for (int64_t k = 0; k < at->k; k++) {
            int64_t n = index_of(at, index, a, m, k);
            write_row(dsrc + (r * at->k + k) * size, last_of(at, last, a, n, k) == m ? dy : NULL,
                      (a * at->n + n) * at->k + k, size);
        }
    }
    return OK;
}

/* ---- several indices as one ---- */

Err flat_index_cpu(const Call *call)
{
    const FlatIndexAttr *at = ATTR(call->node, FlatIndexAttr);
    int64_t              count = shape_count(at->shape);
    int32_t             *flat = call->out[0];
    for (int64_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int j = 0; j < at->n; j++) {
            Shape   s = in_shape(call->node, j);
            int64_t left = i, from = 0, step = 1;
            for (int x = 0; x < at->shape.rank; x++) { /* from the last axis on */
                int64_t at_x = left % at->shape.dim[at->shape.rank - 1 - x];
                left /= at->shape.dim[at->shape.rank - 1 - x];
                if (x >= s.rank)
                    continue;
                from += s.dim[s.rank - 1 - x] == 1 ? 0 : at_x * step;
                step *= s.dim[s.rank - 1 - x];
            }
            int32_t id = ((const int32_t *)call->in[j])[from];
            if (id < -at->extent[j] || id >= at->extent[j])
                return fail(E_NUMBER, "index: %d is not an index of an axis of %lld", id,
                            (long long)at->extent[j]);
            sum = sum * at->extent[j] + (id < 0 ? id + at->extent[j] : id);
        }
        flat[i] = (int32_t)sum;
    }
    return OK;
}
