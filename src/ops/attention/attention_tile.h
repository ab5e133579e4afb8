/* attention_tile.h -- what the attention kernels share: where q, k, v lie, how many there are of
 * everything, and products of small tiles.
 *
 * A product is C = A B (+ C). B and C are panels of TILE_NR columns, C in fp32: c[i*ldc + x]. How A
 * and B lie in memory is known only here and depends on who multiplies:
 *
 *   floats (linalg/gemm.h)   A panel of TILE_MR rows: a[k*rows + r]     B: b[k*TILE_NR + x]
 *   AMX, for bf16            A tiles of 16 rows by 32: a[r*32 + k]      B: pairs b[k/2*TILE_NR + x]
 *                            with everything filled up by zeros (linalg/amx.h)
 *
 * Operands are made from the rows of a head, whose rows or columns become the rows of A or the
 * lanes of B, or from a panel of scores. In floats a C panel already is a B panel: scores are
 * not packed.
 */
#ifndef OPS_ATTENTION_ATTENTION_TILE_H
#define OPS_ATTENTION_ATTENTION_TILE_H

#include "linalg/amx.h"
#include "linalg/gemm.h"
#include "ops/attention/attention.h"

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
const float *tile_load(const HeadRows *x, int64_t first, int64_t n, int64_t width, float *buffer,
                       int64_t *ld);

/* Floats that an operand takes, and rows of C that a product with m rows writes. */
size_t  tile_a_floats(bool amx, int64_t m, int64_t k);
size_t  tile_b_floats(bool amx, int64_t k);          /* one panel */
size_t  tile_stage_floats(bool amx, Type type, int64_t rows, int64_t width);
int64_t tile_c_rows(bool amx, int64_t m);

/* Operands from n rows of a head, from `first` on; stage: tile_stage_floats. */
void tile_a_rows(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width, float *stage,
                 float *a);
void tile_a_columns(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                    float *stage, float *a);
void tile_b_rows(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width, float *stage,
                 float *b);
/* Columns [c, c + TILE_NR) for each c: panels one after the other. */
void tile_b_columns(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                    float *stage, float *b);

/* Operands from a panel of scores: its rows summed over; or its rows as rows of A, and its n lanes
 * as columns [k, k+n) of the `depth` that are summed over. */
const float *tile_b_score(bool amx, const float *score, int64_t rows, float *pairs);
void         tile_a_score(bool amx, const float *score, int64_t rows, int64_t k, int64_t n,
                          int64_t depth, float *a);

/* Rows of up to five sides that will be read soon, fetched one of each at a time between tiles: a
 * head's rows lie far apart, so the processor does not see them coming, and asked for all at once
 * they would be waited for. */
typedef struct TileAhead {
    HeadRows rows[5];
    int      n;
    int64_t  at, end, bytes;     /* of a row */
} TileAhead;

/* The rows of head `head` that all sides have, unless there is no such head or they would not stay
 * in the cache. */
void tile_ahead_start(TileAhead *ahead, const AttentionDims *d, int64_t head,
                      const AttentionSide *const *sides, int n);

typedef struct TileProduct {
    const float *a, *b;
    float       *c;
    int64_t      m, n, k;        /* n: columns that matter, at most TILE_NR */
    int64_t      ldc;
    bool         add;
    bool         from_score;     /* A was made by tile_a_score */
    TileAhead   *ahead;          /* or NULL */
} TileProduct;

void tile_product(bool amx, const TileProduct *p);

/* Writes a panel x[c*TILE_NR + i] as rows i = 0..n-1 of a head; turn: tile_turn_floats. */
void   tile_store_transposed(const float *x, int64_t n, int64_t width, const HeadRows *dst,
                         int64_t first, float *turn);
size_t tile_turn_floats(int64_t width);

/* Operands for AMX (attention_amx.c). */
void amx_a_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *a);
void amx_a_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *stage,
                   uint32_t *a);
void amx_b_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *stage,
                uint32_t *b);
void amx_b_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *b);
void amx_b_score(const float *score, int64_t rows, uint32_t *b);
void amx_a_score(const float *score, int64_t rows, int64_t k, int64_t n, int64_t depth,
                 uint16_t *a);

static inline size_t tile_round(int64_t floats) { return (size_t)gemm_round_up(floats, 16); }

#endif
