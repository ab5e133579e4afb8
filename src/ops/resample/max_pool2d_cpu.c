/* max_pool2d_cpu.c -- max pooling on the CPU. */
#include "ops/resample/max_pool2d.h"

#include "device/convert.h"
#include "ops/parallel.h"

enum { POOL_BLOCK = 512 }; /* channels staged at a time */

/* As in PyTorch, a later value wins only if it is larger or NaN. */
static inline bool wins(float later, float best) { return later > best || later != later; }

typedef struct PoolCells {
    int64_t rows, cols, height, width, channels;
    int     threads;
} PoolCells;

static PoolCells cells_of(Shape x, const Device *device)
{
    int64_t rows = x.dim[0] * (x.dim[1] / 2);
    return (PoolCells){ rows,     x.dim[2] / 2, x.dim[1],
                        x.dim[2], x.dim[3],     parallel_threads(device->threads, rows) };
}

/* The four corners of a cell, channels c .. c + n. */
static void cell_load(Type type, const void *x, const PoolCells *k, int64_t row, int64_t col,
                      int64_t c, int64_t n, float (*stage)[POOL_BLOCK], const float *corner[4],
                      int64_t at[4])
{
    int64_t half = k->height / 2, y = row / half * k->height + row % half * 2;
    for (int i = 0; i < 4; i++) {
        at[i] = ((y + i / 2) * k->width + col * 2 + i % 2) * k->channels + c;
        corner[i] = row_load(type, x, at[i], n, stage[i]);
    }
}

Err max_pool2d_cpu(const Call *call)
{
    const Node *node = call->node;
    Type        type = in_type(node, 0), type_y = out_type(node, 0);
    PoolCells   k = cells_of(in_shape(node, 0), call->device);

#pragma omp parallel for num_threads(k.threads) schedule(static)
    for (int64_t row = 0; row < k.rows; row++) {
        float        stage[4][POOL_BLOCK], stage_y[POOL_BLOCK];
        const float *x[4];
        int64_t      at[4];
        for (int64_t col = 0; col < k.cols; col++)
            for (int64_t c = 0; c < k.channels; c += POOL_BLOCK) {
                int64_t n = k.channels - c < POOL_BLOCK ? k.channels - c : POOL_BLOCK;
                int64_t to = (row * k.cols + col) * k.channels + c;
                float  *y = row_open(type_y, call->out[0], to, stage_y);
                cell_load(type, call->in[0], &k, row, col, c, n, stage, x, at);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    float best = x[0][i];
                    best = wins(x[1][i], best) ? x[1][i] : best;
                    best = wins(x[2][i], best) ? x[2][i] : best;
                    y[i] = wins(x[3][i], best) ? x[3][i] : best;
                }
                row_store(type_y, call->out[0], to, n, y);
            }
    }
    return OK;
}

Err max_pool2d_grad_cpu(const Call *call)
{
    const Node *node = call->node;
    Type        type = in_type(node, 0), type_dy = in_type(node, 1);
    PoolCells   k = cells_of(in_shape(node, 0), call->device);
    if (k.height % 2 || k.width % 2) /* what no cell covers */
        memset(call->out[0], 0, (size_t)out_bytes(node, 0));

#pragma omp parallel for num_threads(k.threads) schedule(static)
    for (int64_t row = 0; row < k.rows; row++) {
        float        stage[4][POOL_BLOCK], stage_d[4][POOL_BLOCK], stage_dy[POOL_BLOCK];
        const float *x[4];
        float       *d[4];
        int64_t      at[4];
        for (int64_t col = 0; col < k.cols; col++)
            for (int64_t c = 0; c < k.channels; c += POOL_BLOCK) {
                int64_t      n = k.channels - c < POOL_BLOCK ? k.channels - c : POOL_BLOCK;
                const float *dy = row_load(type_dy, call->in[1],
                                           (row * k.cols + col) * k.channels + c, n, stage_dy);
                cell_load(type, call->in[0], &k, row, col, c, n, stage, x, at);
                for (int j = 0; j < 4; j++)
                    d[j] = row_open(type, call->out[0], at[j], stage_d[j]);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    float best = x[0][i];
                    int   where = 0;
                    where = wins(x[1][i], best) ? 1 : where;
                    best = wins(x[1][i], best) ? x[1][i] : best;
                    where = wins(x[2][i], best) ? 2 : where;
                    best = wins(x[2][i], best) ? x[2][i] : best;
                    where = wins(x[3][i], best) ? 3 : where;
                    d[0][i] = where == 0 ? dy[i] : 0;
                    d[1][i] = where == 1 ? dy[i] : 0;
                    d[2][i] = where == 2 ? dy[i] : 0;
                    d[3][i] = where == 3 ? dy[i] : 0;
                }
                for (int j = 0; j < 4; j++)
                    row_store(type, call->out[0], at[j], n, d[j]);
            }
    }
    return OK;
}
