/* gemm.h -- the own matrix product, shared by backend_builtin.c, conv_builtin.c and attention's gemm_tile.
 *
 * The scheme is that of BLIS (Van Zee and van de Geijn 2015): operands are packed into panels, and
 * one small kernel, whose sums live in registers, is all the arithmetic there is. Operands that
 * already lie well (fp32, contiguous the right way) are used where they lie when too little would
 * repay packing.
 *
 *         n, in panels of GEMM_NR (or GEMM_LANES at the edge)
 *         +------------+
 *         |  B panels  | k, in blocks of kc     panel of X:  dst[k*width + r] = X[i0 + r][k0 + k]
 *    +----+------------+
 *    | A  |     C      | m, in panels of at most GEMM_MR rows
 *    +----+------------+
 *
 * A and B panels have the same form, so one set of packers serves both sides, and a product with
 * few columns is done as its transpose. What an operand is (a matrix of any type and either
 * orientation, the windows of an image) is known only to its packer: a convolution is a matrix
 * product that is never written out.
 *
 * Products of two bf16 operands are done by AMX where there is one (amx.h, gemm_amx.c), in the same
 * parts. Their operands are packed from blocks of the operand as it is stored.
 *
 * Threads take parts of (batch, m, n); of k only when the others are too few, with partial sums in
 * workspace added in a fixed order. So results depend on the shape and the thread count alone, and
 * workspace_bytes is exact. Nothing is allocated.
 */
#ifndef LINALG_GEMM_H
#define LINALG_GEMM_H

#include "device/type.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __AVX512F__
enum { GEMM_LANES = 16, GEMM_MR = 14 };      /* 28 sums, 2 of B, of 32 registers */
#elif defined __AVX__
enum { GEMM_LANES = 8, GEMM_MR = 6 };        /* 12 sums, 2 of B, 1 of A, of 16 registers */
#else
enum { GEMM_LANES = 4, GEMM_MR = 4 };        /* 8 sums; packing wants no more rows than lanes */
#endif
enum {
    GEMM_NR = 2 * GEMM_LANES,
    GEMM_KC = 320,                           /* the most of k a packer is asked for at once */
    GEMM_KC_MIN = 256,                     /* C is read and written once for so much of k, */
    GEMM_KC_ONCE = 384,                      /* and only once if this is all of it */
    GEMM_NC = 512,                           /* the most columns of a block */
    GEMM_NC_DIRECT = 1024,                   /* the same where no sums are kept aside */
    GEMM_A_FLOATS = 56 << 10,                /* packed A and B of a block: both stay in L2 */
    GEMM_B_FLOATS = 160 << 10,
    GEMM_FEW_ROWS = 2 * GEMM_MR,             /* up to so many rows B is not packed, */
    GEMM_FEW_COLS = 192,                     /* up to so many columns A is not */
    GEMM_AHEAD = 12,                         /* steps of k that B is fetched ahead */
    GEMM_TILE_ROWS = 48 * GEMM_MR,           /* rows of fp32 sums kept aside when C is not fp32 */
    GEMM_ROOM = 8192,                        /* elements of a block that does not lie well */
    GEMM_ROOM_I = 256, GEMM_ROOM_K = 256,    /* the most of it along i or k */
};

typedef struct Range { int64_t lo, hi; } Range;

/* One operand, seen as X[i][k]: i is the row of op(A) or the column of op(B). */
typedef struct GemmSide GemmSide;
struct GemmSide {
    /* Write kk*width floats (and up to GEMM_LANES more): rows beyond count are zero. */
    void (*pack)(const GemmSide *side, int64_t i0, int64_t count, int64_t width,
                 int64_t k0, int64_t kk, float *dst);
    /* bf16: the block X[i][k0 .. k0+nk) as it is stored, where it lies or in room, rows (of k, or
     * of i if along_i) *ld apart. It may give less of k than asked: a multiple of AMX_K. Asked for:
     * at most GEMM_ROOM_I of i by AMX_K of k if along_i, else AMX_NR of i by any k. */
    const uint16_t *(*block)(const GemmSide *side, Range i, int64_t k0, int64_t *nk,
                             uint16_t *room, int64_t *ld);
    const void *data;
    Type        type;
    int64_t     ld;              /* matrices: elements between rows as stored */
    /* i is contiguous: packs best by short runs of k across all panels */
    bool        along_i;
    int64_t     batch_stride;    /* elements */
    const void *shape;           /* convolutions: a Window, see conv_builtin.c */
};

typedef struct GemmOut {
    void       *data;
    Type        type;
    int64_t     ld, batch_stride;
    const void *bias;            /* n values, or NULL */
    Type        type_bias;
    bool        accumulate;
    bool        swapped;         /* the product computed is C transposed: m counts columns of C */
    /* element where row i of C begins; NULL: i*ld */
    int64_t   (*row)(const void *shape, int64_t i);
    const void *shape;
} GemmOut;

typedef struct GemmPlan {
    int64_t batch, m, n, k;
    int     threads;
    int64_t parts_b, parts_m, parts_n, parts_k;   /* jobs along each axis; at most one per thread */
    int64_t mc, kc, nc, mb;      /* blocks; mb rows are finished over all of k before the next */
    bool    direct;              /* sums are kept in C itself: fp32, rows ld apart, not swapped */
    bool    amx, b_whole;        /* b_whole: B is packed over all of k before the first row */
    float   product, pack_a, pack_b;              /* cycles a product and a packed element */
    size_t  a_floats, b_floats, tile_floats, partial_floats;
    size_t  job_bytes, workspace_bytes;
} GemmPlan;

void gemm_plan(GemmPlan *plan, int64_t batch, int64_t m, int64_t n, int64_t k, int threads,
               bool direct);
/* Both operands bf16, amx_ready(): direct needs whole tiles and no bias as well. */
void gemm_plan_amx(GemmPlan *plan, int64_t batch, int64_t m, int64_t n, int64_t k, int threads,
                   bool direct, bool a_along_i, bool b_along_i);
bool gemm_swap_amx(int64_t m, int64_t n, int64_t k, bool a_along_i, bool b_along_i);
void gemm_run(const GemmPlan *plan, const GemmSide *a, const GemmSide *b, const GemmOut *c,
              void *workspace);

/* Is C^T = B^T A^T the cheaper form? Lanes run along n, so a few columns would leave most idle. */
bool gemm_swap(int64_t m, int64_t n);

/* Packers of plain matrices: k contiguous in memory (A as stored, B transposed), or i
 * contiguous. */
void gemm_pack_along_k(const GemmSide *side, int64_t i0, int64_t count, int64_t width,
                       int64_t k0, int64_t kk, float *dst);
void gemm_pack_along_i(const GemmSide *side, int64_t i0, int64_t count, int64_t width,
                       int64_t k0, int64_t kk, float *dst);

const uint16_t *gemm_block_matrix(const GemmSide *side, Range i, int64_t k0, int64_t *nk,
                                  uint16_t *room, int64_t *ld);

GemmSide gemm_matrix(bool along_i, Type type, const void *data, int64_t ld);

/* dst[k*width + r] = rows[r][k] for r < count; what the packers are made of. */
void gemm_interleave(float *dst, int64_t width, const float *const rows[GEMM_NR], int64_t count,
                     int64_t n);

/* n floats, few: two overlapping halves do for any n of 8 to 16. */
static inline void gemm_copy(float *restrict dst, const float *restrict src, int64_t n)
{
    typedef float Half __attribute__((vector_size(32), aligned(4), may_alias));
    if (n >= 8 && n <= 16) {
        Half lo = *(const Half *)src, hi = *(const Half *)(src + n - 8);
        *(Half *)dst = lo;
        *(Half *)(dst + n - 8) = hi;
    } else {
        for (int64_t i = 0; i < n; i++)
            dst[i] = src[i];
    }
}

/* c[r][j] = alpha * sum_k a[k*rows + r] b[k*b_step + j] + init[j] (+ c[r][j] if add), for
 * 1..GEMM_MR rows and j < GEMM_LANES * vectors (1 or 2). */
typedef struct GemmTile {
    int64_t      k, lda, b_step, ldc;    /* lda 0: A is a packed panel, else rows as they lie */
    const float *a, *b, *init;
    float       *c;
    float        alpha;
    bool         add;
} GemmTile;

void gemm_kernel(int64_t rows, int vectors, const GemmTile *tile);

static inline int64_t gemm_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static inline int64_t gemm_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gemm_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
