/* gemm.h -- the built-in matrix product: of builtin.c, conv_builtin.c and attention's gemm_tile.
 *
 * The scheme is that of BLIS (Van Zee and van de Geijn 2015): operands are packed into panels, and
 * one small kernel, whose sums stay in registers, does all the arithmetic. Operands that already
 * have the right layout (fp32, contiguous along the right axis) are used in place where packing
 * would not pay.
 *
 *         n, in panels of GEMM_NR (or GEMM_LANES at the edge)
 *         +------------+
 *         |  B panels  | k, in blocks of kc     panel of X:  dst[k*width + r] = X[i0 + r][k0 + k]
 *    +----+------------+
 *    | A  |     C      | m, in panels of at most GEMM_MR rows
 *    +----+------------+
 *
 * A and B panels have the same layout, so one set of packers serves both sides, and a product with
 * few columns is computed as its transpose. Only the packer knows what an operand is (a matrix of
 * any type and orientation, or the windows of an image): a convolution is a product whose operand
 * is never written out.
 *
 * Products of two bf16 operands use AMX where there is one (amx.h, gemm_amx.c), divided among
 * threads in the same way. Their operands are packed from blocks of the operand as it is stored.
 *
 * Threads divide batch, m and n; they divide k only if the others do not suffice, with partial sums
 * in workspace added in a fixed order. So results depend only on the shape and the number of
 * threads, and workspace_bytes is exact. Nothing is allocated.
 */
#ifndef LINALG_GEMM_H
#define LINALG_GEMM_H

#include "base/int_math.h"
#include "device/type.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __AVX512F__
enum { GEMM_LANES = 16, GEMM_MR = 14 }; /* 28 sums and 2 of B in 32 registers */
#elif defined __AVX__
enum { GEMM_LANES = 8, GEMM_MR = 6 }; /* 12 sums, 2 of B and 1 of A in 16 registers */
#else
enum { GEMM_LANES = 4, GEMM_MR = 4 }; /* 8 sums; packing needs MR <= lanes */
#endif
enum {
    GEMM_NR = 2 * GEMM_LANES,
    GEMM_KC = 320,            /* a packer packs at most so much of k at once */
    GEMM_KC_MIN = 256,        /* C is read and written once per this much k */
    GEMM_KC_ONCE = 384,       /* up to this k, C is written only once */
    GEMM_NC = 512,            /* columns of a block, at most */
    GEMM_NC_DIRECT = 1024,    /* the same where C itself holds the sums */
    GEMM_A_FLOATS = 56 << 10, /* packed A and B of a block: both stay in L2 */
    GEMM_B_FLOATS = 160 << 10,
    GEMM_FEW_ROWS = 2 * GEMM_MR,   /* up to so many rows, B is not packed */
    GEMM_FEW_COLS = 192,           /* up to so many columns, A is not packed */
    GEMM_AHEAD = 12,               /* B is prefetched so many steps of k ahead */
    GEMM_TILE_ROWS = 48 * GEMM_MR, /* rows of fp32 sums in workspace when C is not fp32 */
    GEMM_ROOM = 8192,              /* elements of a bf16 block that must be gathered */
    GEMM_ROOM_I = 256,
    GEMM_ROOM_K = 256, /* and its largest extents along i and k */
};

typedef struct GemmRange {
    int64_t lo, hi;
} GemmRange;

/* One operand, seen as X[i][k]: i is the row of op(A) or the column of op(B). */
typedef struct GemmSide GemmSide;
struct GemmSide {
    /* Writes kk*width floats (and up to GEMM_LANES more); rows beyond count are zero. */
    void (*pack)(const GemmSide *side, int64_t i0, int64_t count, int64_t width, int64_t k0,
                 int64_t kk, float *dst);
    /* bf16: returns the block X[i][k0 .. k0+nk) as it is stored, in place or gathered in room;
     * rows (along k, or along i if along_i) are *ld apart. *nk may be reduced to a multiple of
     * AMX_K. Callers ask for at most GEMM_ROOM_I of i by AMX_K of k if along_i, else AMX_NR of i
     * by any k. */
    const uint16_t *(*block)(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                             uint16_t *room, int64_t *ld);
    /* fp32, or NULL: X[i][k0 .. k0+nk) of `count` rows as they lie in memory, *lda apart; *nk may be
     * reduced. NULL: these must be packed. Rows i that are a multiple of `run` begin a new run:
     * callers ask for rows of one run. */
    const float *(*in_place)(const GemmSide *side, int64_t i, int64_t count, int64_t k0,
                             int64_t *nk, int64_t *lda);
    int64_t     run;
    const void *data;
    Type        type;
    int64_t     ld; /* matrices: elements between rows as stored */
    /* i is contiguous: packing is fastest by short runs of k across all panels */
    bool        along_i;
    int64_t     batch_stride; /* elements */
    const void *shape;        /* convolutions: a ConvWindow (conv_window.h) */
};

typedef struct GemmOut {
    void       *data;
    Type        type;
    int64_t     ld, batch_stride;
    const void *bias; /* n values, or NULL */
    Type        type_bias;
    bool        accumulate;
    bool        swapped; /* the transpose of C is computed: m counts columns of C */
    /* offset of row i of C in elements; NULL: i*ld. In one run of A's rows they are ld apart. */
    int64_t (*row)(const void *shape, int64_t i);
    const void *shape;
} GemmOut;

typedef struct GemmPlan {
    int64_t batch, m, n, k;
    int     threads;
    int64_t parts_b, parts_m, parts_n, parts_k; /* jobs along each axis, one per thread */
    int64_t mc, kc, nc, mb; /* block sizes; mb rows are summed over all of k before the next */
    bool    direct;         /* C itself holds the sums: fp32, rows ld apart, not swapped */
    bool    amx, b_whole;   /* b_whole: B is packed over all of k before the first row */
    float   product, pack_a, pack_b; /* cycles per product and per packed element */
    size_t  a_floats, b_floats, tile_floats, partial_floats;
    size_t  job_bytes, workspace_bytes;
} GemmPlan;

void gemm_plan(GemmPlan *plan, int64_t batch, int64_t m, int64_t n, int64_t k, int threads,
               bool direct);
/* For bf16 operands if amx_ready(); direct also needs whole tiles and no bias. */
void gemm_plan_amx(GemmPlan *plan, int64_t batch, int64_t m, int64_t n, int64_t k, int threads,
                   bool direct, bool a_along_i, bool b_along_i);
bool gemm_swap_amx(int64_t m, int64_t n, int64_t k, bool a_along_i, bool b_along_i);
void gemm_run(const GemmPlan *plan, const GemmSide *a, const GemmSide *b, const GemmOut *c,
              void *workspace);

/* Is C^T = B^T A^T cheaper? Lanes run along n, so a few columns would leave most lanes idle. */
bool gemm_swap(int64_t m, int64_t n);

/* Packers of plain matrices: k is contiguous (A as stored, B transposed), or i is. */
void gemm_pack_along_k(const GemmSide *side, int64_t i0, int64_t count, int64_t width, int64_t k0,
                       int64_t kk, float *dst);
void gemm_pack_along_i(const GemmSide *side, int64_t i0, int64_t count, int64_t width, int64_t k0,
                       int64_t kk, float *dst);

const uint16_t *gemm_block_matrix(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                  uint16_t *room, int64_t *ld);

GemmSide gemm_matrix(bool along_i, Type type, const void *data, int64_t ld);

/* dst[k*width + r] = rows[r][k] for r < count; the packers are built on this. */
void gemm_interleave(float *dst, int64_t width, const float *const rows[GEMM_NR], int64_t count,
                     int64_t n);

/* Copies a few floats: two overlapping halves cover any n from 8 to 16. */
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
 * 1..GEMM_MR rows and j < GEMM_LANES * vectors (1 or 2). A sum begins at sums[r*GEMM_NR + j], if
 * given: it then has the bits of one sum over the k before and these. */
typedef struct GemmTile {
    int64_t      k, lda, b_step, ldc; /* lda 0: A is a packed panel, else rows in place */
    const float *a, *b, *init, *sums;
    float       *c;
    float        alpha;
    bool         add;
} GemmTile;

void gemm_kernel(int64_t rows, int vectors, const GemmTile *tile);

#endif
