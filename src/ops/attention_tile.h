/* attention_tile.h -- what the attention kernels share: where q, k, v lie, how many there are of
 * everything, and products of small tiles by the kernel of device/gemm.h.
 *
 * A product is C = alpha * A B (+ C). A comes in panels of TILE_MR rows, B in panels of TILE_NR
 * columns, both with the summed index outermost:
 *
 *      A panel: a[k*rows + r]          B panel: b[k*step + x], x < TILE_NR
 *
 * tile_pack_rows turns rows into such panels (rows become lanes), tile_pack_columns cuts rows at
 * columns (columns become lanes). A C panel has the form of a B panel, so the result of one product
 * is the right-hand side of the next: scores are never packed.
 */
#ifndef OPS_ATTENTION_TILE_H
#define OPS_ATTENTION_TILE_H

#include "device/gemm.h"
#include "ops/attention.h"

enum { TILE_MR = GEMM_MR, TILE_NR = GEMM_NR };

typedef struct AttentionDims {
    int64_t batch, heads, lq, lk, width;
    int64_t wide;                /* width rounded up to whole vectors */
    int64_t n_heads;             /* batch * heads */
    Type    type;
} AttentionDims;

/* q, k, v, y or a gradient of them. data is NULL for one that is not wanted. */
typedef struct AttentionSide {
    char   *data;
    Type    type;
    int64_t ld;                  /* elements between rows */
    int64_t batch_stride, column, head_stride;
} AttentionSide;

/* The rows of one head of a side. */
typedef struct HeadRows {
    char   *data;
    Type    type;
    int64_t ld;
} HeadRows;

AttentionDims attention_dims(const Node *n);
AttentionSide attention_side(const Node *n, AttentionSlice slice, void *const *pointers);
AttentionSide attention_side_y(const Node *n, void *data);
HeadRows      attention_rows(const AttentionSide *side, const AttentionDims *d, int64_t head);
float         attention_scale(const Node *n, void *const *in);

/* Rows [first, first+n) as fp32, in place (ld as stored) or converted into buffer (ld = width). */
const float *tile_load(const HeadRows *x, int64_t first, int64_t n, int64_t width, float *buffer, int64_t *ld);
/* The same into a dense block of rows `wide` apart, zero beyond width. */
void tile_dense(const HeadRows *x, int64_t first, int64_t n, int64_t width, float *dst, int64_t wide);

/* Panels of `panel` (TILE_MR or TILE_NR) rows, the last with what is left (TILE_NR: filled up with
 * zeros); writes tile_panel_floats. */
void   tile_pack_rows(const float *x, int64_t ld, int64_t rows, int64_t width, int64_t panel, float *dst);
void   tile_pack_columns(const float *x, int64_t ld, int64_t rows, int64_t width, float *dst);
size_t tile_panel_floats(int64_t rows, int64_t width);   /* with room for the last vector; both kinds */

typedef struct TileProduct {
    const float *a;              /* panels of TILE_MR rows */
    const float *b;
    float       *c;
    int64_t      m, n, k;        /* n: columns of one panel, at most TILE_NR */
    int64_t      b_step, ldc;
    float        alpha;
    bool         add;
} TileProduct;

void tile_product(const TileProduct *p);

/* Writes a panel x[c*TILE_NR + i] as rows i = 0..n-1 of a head; turn: TILE_NR * round32(width). */
void   tile_store_turned(const float *x, int64_t n, int64_t width, const HeadRows *dst, int64_t first,
                         float *turn);
size_t tile_turn_floats(int64_t width);

static inline size_t tile_round(int64_t floats) { return (size_t)gemm_round_up(floats, 16); }

#endif
