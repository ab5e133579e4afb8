/* grouped_mm_cpu.c -- grouped products on the CPU: how many rows a group has is known only when it
 * runs, so tiles of a fixed size are multiplied by one thread each. A thread takes a block of
 * columns of one matrix, converts it to fp32 once, and goes over the group's rows. */
#include "ops/index/grouped_mm.h"

#include "base/int_math.h"
#include "device/convert.h"
#include "linalg/linalg.h"
#include "ops/ops.h"
#include "ops/parallel.h"

enum { ROWS = 48, COLUMNS = 64 }; /* of a tile of the result */

typedef struct GroupedSizes {
    int64_t t, k, n, groups;
    size_t  tile, left, right, gemm;
} GroupedSizes;

/* Workspace per thread, in floats: the result's tile, both factors', the product's own. */
static GroupedSizes grouped_sizes(const Node *n)
{
    GroupedSizes s = { .t = in_shape(n, 0).dim[0], .groups = in_shape(n, 2).dim[0] };
    bool         of_w = n->op != &op_grouped_mm; /* dw: the sum is over a tile of rows */
    s.k = in_shape(n, 0).dim[1];
    s.n = of_w ? in_shape(n, 1).dim[1] : out_shape(n, 0).dim[1];
    s.tile = of_w ? 0 : ROWS * COLUMNS;
    s.left = (size_t)(ROWS * s.k);
    s.right = (size_t)(of_w ? ROWS * COLUMNS : s.k * COLUMNS);
    s.gemm = align_bytes(of_w ? gemm_tile_workspace(s.k, COLUMNS, ROWS)
                              : gemm_tile_workspace(ROWS, COLUMNS, s.k),
                         64) /
             sizeof(float);
    s.left = align_bytes(s.left, 16), s.right = align_bytes(s.right, 16);
    return s;
}

static size_t grouped_floats(const GroupedSizes *s)
{
    return s->tile + s->left + s->right + s->gemm;
}

Err grouped_mm_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    GroupedSizes s = grouped_sizes(n);
    choice->workspace_bytes = (size_t)device->threads * grouped_floats(&s) * sizeof(float);
    return OK;
}

static Err ends_check(const int32_t *ends, int64_t groups, int64_t rows)
{
    for (int64_t g = 0; g < groups; g++)
        if (ends[g] < (g ? ends[g - 1] : 0) || ends[g] > rows)
            return fail(E_NUMBER, "grouped_mm: end %d of group %lld does not rise to at most %lld",
                        ends[g], (long long)g, (long long)rows);
    return OK;
}

/* rows x w values of a matrix with rows ld apart, as fp32 and dense. */
static void block_load(Type type, const void *p, int64_t first, int64_t ld, int64_t rows, int64_t w,
                       float *to)
{
    for (int64_t r = 0; r < rows; r++)
        convert_rows(F32, to + r * w, type, (const char *)p + (first + r * ld) * type_bytes(type),
                     (size_t)w);
}

/* Columns [c0, c0 + w) of all rows of group g. */
static void group_columns(const Call *call, const GroupedSizes *s, int64_t g, int64_t c0, int64_t w,
                          float *work)
{
    const Node    *n = call->node;
    const int32_t *ends = call->in[2];
    bool           transposed = ATTR(n, GroupedAttr)->transposed;
    Type           type = in_type(n, 0);
    int64_t        from = g ? ends[g - 1] : 0;
    float *tile = work, *left = tile + s->tile, *right = left + s->left, *gemm = right + s->right;
    if (transposed) /* w rows of K */
        block_load(type, call->in[1], (g * s->n + c0) * s->k, s->k, w, s->k, right);
    else
        block_load(type, call->in[1], g * s->k * s->n + c0, s->n, s->k, w, right);
    for (int64_t r = from; r < ends[g]; r += ROWS) {
        int64_t rows = ends[g] - r < ROWS ? ends[g] - r : ROWS;
        block_load(type, call->in[0], r * s->k, s->k, rows, s->k, left);
        gemm_tile(false, transposed, rows, w, s->k, 1, left, s->k, right, transposed ? s->k : w, 0,
                  tile, w, gemm);
        for (int64_t i = 0; i < rows; i++)
            convert_rows(type, (char *)call->out[0] + ((r + i) * s->n + c0) * type_bytes(type), F32,
                         tile + i * w, (size_t)w);
    }
}

Err grouped_mm_cpu(const Call *call)
{
    GroupedSizes   s = grouped_sizes(call->node);
    const int32_t *ends = call->in[2];
    int64_t        blocks = ceil_div(s.n, COLUMNS), size = type_bytes(out_type(call->node, 0));
    int            threads = call->device->threads;
    TRY(ends_check(ends, s.groups, s.t));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < s.groups * blocks; t++) {
        int64_t g = t / blocks, c0 = t % blocks * COLUMNS;
        if (ends[g] > (g ? ends[g - 1] : 0))
            group_columns(call, &s, g, c0, s.n - c0 < COLUMNS ? s.n - c0 : COLUMNS,
                          (float *)call->workspace +
                              (size_t)omp_get_thread_num() * grouped_floats(&s));
    }
    int64_t done = ends[s.groups - 1];
    memset((char *)call->out[0] + done * s.n * size, 0, (size_t)((s.t - done) * s.n * size));
    return OK;
}

/* dw of group g, columns [c0, c0 + w): the rows are added tile after tile. */
static void group_weights(const Call *call, const GroupedSizes *s, int64_t g, int64_t c0, int64_t w,
                          float *work)
{
    const int32_t *ends = call->in[2];
    Type           tx = in_type(call->node, 0), ty = in_type(call->node, 1);
    float         *left = work + s->tile, *right = left + s->left, *gemm = right + s->right;
    float         *dw = (float *)call->out[0] + g * s->k * s->n + c0;
    for (int64_t i = 0; i < s->k; i++)
        memset(dw + i * s->n, 0, (size_t)w * sizeof *dw);
    for (int64_t r = g ? ends[g - 1] : 0; r < ends[g]; r += ROWS) {
        int64_t rows = ends[g] - r < ROWS ? ends[g] - r : ROWS;
        block_load(tx, call->in[0], r * s->k, s->k, rows, s->k, left);
        block_load(ty, call->in[1], r * s->n + c0, s->n, rows, w, right);
        gemm_tile(true, false, s->k, w, rows, 1, left, s->k, right, w, 1, dw, s->n, gemm);
    }
}

Err grouped_mm_grad_w_cpu(const Call *call)
{
    GroupedSizes s = grouped_sizes(call->node);
    int64_t      blocks = ceil_div(s.n, COLUMNS);
    int          threads = call->device->threads;
    TRY(ends_check(call->in[2], s.groups, s.t));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < s.groups * blocks; t++) {
        int64_t c0 = t % blocks * COLUMNS;
        group_weights(call, &s, t / blocks, c0, s.n - c0 < COLUMNS ? s.n - c0 : COLUMNS,
                      (float *)call->workspace + (size_t)omp_get_thread_num() * grouped_floats(&s));
    }
    return OK;
}
