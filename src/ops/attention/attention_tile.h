/* attention_tile.h -- what the CPU attention kernels share: sizes, the layout of q, k, v, and
 * products of small tiles.
 *
 * A product is C = A B (+ C). B and C are panels of TILE_NR columns, C in fp32: c[i*ldc + x]. The
 * memory layout of A and B is known only here and depends on the instructions in use:
 *
 *   floats (linalg/gemm.h)   A panel of TILE_MR rows: a[k*rows + r]     B: b[k*TILE_NR + x]
 *   AMX, for bf16            A tiles of 16 rows by 32: a[r*32 + k]      B: pairs b[k/2*TILE_NR + x]
 *                            padded with zeros to whole tiles (linalg/amx.h)
 *
 * Operands are packed from the rows of a head, whose rows or columns become the rows of A or the
 * lanes of B, or from a panel of scores. With floats a C panel already has the layout of a B panel,
 * so scores are not packed.
 */
#ifndef OPS_ATTENTION_ATTENTION_TILE_H
#define OPS_ATTENTION_ATTENTION_TILE_H

#include "base/random.h"
#include "linalg/amx.h"
#include "linalg/gemm.h"
#include "ops/attention/attention.h"

enum { TILE_MR = GEMM_MR, TILE_NR = GEMM_NR };

typedef struct AttentionDims {
    int64_t batch, heads, lq, lk;
    int64_t width, v_width;
    int64_t wide;    /* width rounded up to whole vectors */
    int64_t n_heads; /* batch * heads */
    int64_t share;   /* heads of q that share one of k and v */
    Type    type;
} AttentionDims;

/* q, k, v, y or one of their gradients. data is NULL if a gradient is not wanted. */
typedef struct AttentionSide {
    char   *data;
    Type    type;
    int64_t ld; /* elements between rows */
    int64_t batch_stride, column, head_stride;
    int64_t share; /* heads of q that share one of its heads */
} AttentionSide;

/* The rows of one head of a side. */
typedef struct HeadRows {
    char   *data;
    Type    type;
    int64_t ld;
} HeadRows;

/* What is done to scores between the products. Heads are those of q, of all samples. */
typedef struct AttentionForm {
    bool        plain; /* at most a masked diagonal: none of the rest, and every query sees a key */
    bool        causal, mask_diagonal;
    const char *bias; /* or NULL */
    Type        bias_type;
    int64_t     bias_stride[3]; /* of samples, heads, queries; 0 where it is repeated */
    float       dropout;
    RandomKey   key;
    uint64_t    first; /* number of the micro-batch's first score within the step */
    int64_t     heads, lq, lk;
} AttentionForm;

enum { FORM_KEYS = 256 };
static const float FORM_LOW = -1e30f; /* a row whose maximum is not above it is masked */

AttentionForm attention_form(const Node *n, void *const *in);
bool          attention_form_plain(const AttentionAttr *a, const Node *n);

/* Scores of one query to logits: scaled, with bias, minus infinity where masked. */
void form_row(const AttentionForm *f, int64_t head, int64_t query, int64_t key, int64_t n,
              float scale, float *row);
/* The factors of dropout of one query: 0 or 1 / (1 - dropout). */
void form_keep(const AttentionForm *f, int64_t head, int64_t query, int64_t key, int64_t n,
               float *keep);

/* The same for a panel score[key*TILE_NR + query]; work holds form_panel_floats. */
size_t form_panel_floats(const AttentionForm *f, int64_t keys);
void   form_panel(const AttentionForm *f, int64_t head, int64_t query, int64_t n, int64_t key,
                  int64_t keys, float scale, float *score, float *work);
void   form_drop_panel(const AttentionForm *f, int64_t head, int64_t query, int64_t n, int64_t key,
                       int64_t keys, float *score, float *work);

AttentionDims attention_dims(const Node *n);
AttentionSide attention_side(const Node *n, AttentionSlice slice, void *const *pointers);
AttentionSide attention_side_y(const Node *n, void *data);
HeadRows      attention_rows(const AttentionSide *side, const AttentionDims *d, int64_t head);
float         attention_scale(const Node *n, void *const *in);

/* Rows [first, first+n) as fp32, in place (ld as stored) or converted into buffer (ld = width). */
const float *tile_load(const HeadRows *x, int64_t first, int64_t n, int64_t width, float *buffer,
                       int64_t *ld);

/* Floats in an operand, and rows of C that a product with m rows writes. */
size_t  tile_a_floats(bool amx, int64_t m, int64_t k);
size_t  tile_b_floats(bool amx, int64_t k); /* one panel */
size_t  tile_staging_floats(bool amx, Type type, int64_t rows, int64_t width);
int64_t tile_c_rows(bool amx, int64_t m);

/* Operands from rows [first, first+n) of a head; staging holds tile_staging_floats. */
void tile_a_rows(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                 float *staging, float *a);
void tile_a_columns(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                    float *staging, float *a);
void tile_b_rows(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                 float *staging, float *b);
/* One panel for every TILE_NR columns, one after another. */
void tile_b_columns(bool amx, const HeadRows *x, int64_t first, int64_t n, int64_t width,
                    float *staging, float *b);

/* Operands from a panel of scores. As B, its rows are the summed index. As A, its rows are the rows
 * and its n lanes are columns [k, k+n) of a summed index of length `depth`. */
const float *tile_b_score(bool amx, const float *score, int64_t rows, float *pairs);
void tile_a_score(bool amx, const float *score, int64_t rows, int64_t k, int64_t n, int64_t depth,
                  float *a);

/* Prefetches rows of up to five sides, one row of each between tiles. The rows of a head lie far
 * apart, so the hardware prefetcher misses them; requested all at once they would stall the
 * core. */
typedef struct TileAhead {
    HeadRows rows[5];
    int      n;
    int64_t  at, end; /* the next row, and the end */
    int64_t  bytes;   /* of a row */
} TileAhead;

/* Prefetches the rows of `head` that all sides have. Does nothing if there is no such head or its
 * rows do not fit in the cache. */
void tile_ahead_start(TileAhead *ahead, const AttentionDims *d, int64_t head,
                      const AttentionSide *const *sides, int n);

typedef struct TileProduct {
    const float *a, *b;
    float       *c;
    int64_t      m, n, k; /* n: columns in use, at most TILE_NR */
    int64_t      ldc;
    bool         add;
    bool         from_score; /* A comes from tile_a_score */
    TileAhead   *ahead;      /* or NULL */
} TileProduct;

void tile_product(bool amx, const TileProduct *p);

/* Writes a panel x[c*TILE_NR + i] as rows i = 0..n-1 of a head; transposed holds
 * tile_transpose_floats. */
void   tile_store_transposed(const float *x, int64_t n, int64_t width, const HeadRows *dst,
                             int64_t first, float *transposed);
size_t tile_transpose_floats(int64_t width);

/* The same operands for AMX (attention_amx.c). */
void amx_a_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *a);
void amx_a_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *staging,
                   uint32_t *a);
void amx_b_rows(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint16_t *staging,
                uint32_t *b);
void amx_b_columns(const HeadRows *x, int64_t first, int64_t n, int64_t width, uint32_t *b);
void amx_b_score(const float *score, int64_t rows, uint32_t *b);
void amx_a_score(const float *score, int64_t rows, int64_t k, int64_t n, int64_t depth,
                 uint16_t *a);

static inline size_t tile_round(int64_t floats) { return (size_t)align_up(floats, 16); }

#endif
