/* conv_winograd_bf16.c -- 3 x 3 bf16 convolutions of stride 1 between many channels, by Winograd's
 * F(4,3) along both axes (Lavin and Gray 2016): 36 products where the plain form has 144.
 *
 * Everything between the operands and the result is fp32, so that only a bf16 result is rounded to
 * bf16. F(4,3) loses a few more bits of fp32 than F(2,3): too many for fp32 operands, but far fewer
 * than bf16 ones have lost. Without AMX, fp32 products run at half the rate of bf16 ones, and a quarter of
 * them are left.
 *
 * A tile is 4 x 4 positions of the result (of dy, for the weights) and the 6 x 6 positions that they
 * see. With d, w, y of one tile
 *
 *   y  = A' ((G w G') o (B' d B)) A             o: position by position, summed over channels
 *   dw = G' (sum over tiles of (B' d B) o (A dy A')) G
 *
 * The data gradient is the first with w transposed and its taps reversed. Each result is summed by
 * one thread in one order, whatever the number of threads. */
#include "linalg/builtin.h"

#include "device/amx_unit.h"
#include "device/convert.h"
#include "linalg/gemm.h"

#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic           ignored "-Wpsabi" /* vectors pass between inlined functions only */
#endif

typedef float    Vec __attribute__((vector_size(4 * GEMM_LANES), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(4 * GEMM_LANES), aligned(4), may_alias));
typedef uint16_t Half __attribute__((vector_size(2 * GEMM_LANES), aligned(2), may_alias));

enum {
    EDGE = 4,        /* positions of the result along an axis of a tile, */
    SEEN = EDGE + 2, /* and those that they see */
    PLACES = SEEN * SEEN,
    MIN_CHANNELS = 64,        /* with fewer, transforms cost what the products save */
    MIN_TILES = 48,           /* with fewer, so does the transform of the weights */
    MAX_WEIGHTS = 4 << 20,    /* transformed, floats: read again for every block of tiles */
    BLOCK_FLOATS = 224 << 10, /* of both sides of a block of tiles */
    DW_BLOCK = 128,           /* channels of either side in a block of a weight gradient, */
    MIN_DW_BLOCK = 64,        /* or half of them */
    DW_TILES = 28,            /* tiles at once; every block of dw transforms them again */
    APART = 16,               /* extra floats per tile: keeps rows out of one cache set */
};

typedef struct HalfWino {
    BuiltinPrim prim;
    ConvDesc    desc;
    int         threads;
    int64_t     rows, width, channels; /* of the result */
    int64_t     from_rows, from_width, from_channels;
    int64_t     pad[2];            /* before, as the transforms see it */
    int64_t     tiles_wide, tiles; /* of an image */
    int64_t     panels, block;
    int64_t     to_floats;      /* of one position of a transformed tile of the result */
    int64_t     ld_from, ld_to; /* from one transformed tile to the next */
    int64_t     dw_block;       /* weights: channels of a block of dw */
    size_t      w_floats, job_floats;
} HalfWino;

/* --- transforms along one axis --- */

/* Compilers halve vectors to convert them, unless an intrinsic asks for the width. */
static inline Vec load(const uint16_t *x)
{
#ifdef __AVX512F__
    return (Vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)x)), 16);
#else
    return (Vec)(__builtin_convertvector(*(const Half *)x, Bits) << 16);
#endif
}

/* As f32_to_bf16 does. */
static inline void store(uint16_t *x, Vec v)
{
    Bits bits = (Bits)v, high = bits >> 16, nan = (Bits)(v != v);
    Bits to = (nan & (high | 0x40)) | (~nan & ((bits + 0x7fff + (high & 1)) >> 16));
#ifdef __AVX512F__
    _mm256_storeu_si256((void *)x, _mm512_cvtepi32_epi16((__m512i)to));
#else
    *(Half *)x = __builtin_convertvector(to, Half);
#endif
}

static inline __attribute__((always_inline)) void axis_from(const Vec d[SEEN], Vec t[SEEN])
{
    Vec even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
    Vec near = d[4] - d[2], twice = 2.0f * (d[3] - d[1]);
    t[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
    t[1] = even + odd, t[2] = even - odd;
    t[3] = near + twice, t[4] = near - twice;
    t[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
}

static inline __attribute__((always_inline)) void axis_to(const Vec m[SEEN], Vec t[EDGE])
{
    Vec sum = m[1] + m[2], less = m[1] - m[2], sum2 = m[3] + m[4], less2 = m[3] - m[4];
    t[0] = m[0] + sum + sum2;
    t[1] = less + 2.0f * less2;
    t[2] = sum + 4.0f * sum2;
    t[3] = less + 8.0f * less2 + m[5];
}

static inline __attribute__((always_inline)) void axis_spread(const Vec d[EDGE], Vec t[SEEN])
{
    Vec even = d[0] + d[2], odd = d[1] + d[3];
    Vec even2 = d[0] + 4.0f * d[2], odd2 = 2.0f * d[1] + 8.0f * d[3];
    t[0] = d[0], t[5] = d[3];
    t[1] = even + odd, t[2] = even - odd;
    t[3] = even2 + odd2, t[4] = even2 - odd2;
}

static inline __attribute__((always_inline)) void axis_gradient(const Vec p[SEEN], Vec t[3])
{
    Vec sum = (-1.0f / 6) * (p[1] + p[2]), sum2 = (1.0f / 6) * (p[3] + p[4]);
    t[0] = 0.25f * (p[0] + sum2) + sum;
    t[1] = (1.0f / 6) * (p[2] - p[1]) + (1.0f / 12) * (p[3] - p[4]);
    t[2] = sum + sum2 + p[5];
}

static inline __attribute__((always_inline)) void axis_weights(const Vec w[3], Vec t[SEEN])
{
    Vec ends = w[0] + w[2], far = 0.25f * w[0] + w[2], half = 0.5f * w[1];
    t[0] = 0.25f * w[0];
    t[1] = (-1.0f / 6) * (ends + w[1]), t[2] = (-1.0f / 6) * (ends - w[1]);
    t[3] = (1.0f / 6) * (far + half), t[4] = (1.0f / 6) * (far - half);
    t[5] = w[2];
}

/* --- transforms of n channels of one tile; positions are `step` apart --- */

/* B' d B. */
static void tile_from(const uint16_t *const d[PLACES], int64_t n, float *v, int64_t step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[SEEN][SEEN], column[SEEN], done[SEEN];
        for (int j = 0; j < SEEN; j++) {
            for (int i = 0; i < SEEN; i++)
                column[i] = load(d[SEEN * i + j] + c);
            axis_from(column, done);
            for (int i = 0; i < SEEN; i++)
                t[i][j] = done[i];
        }
        for (int i = 0; i < SEEN; i++) {
            axis_from(t[i], done);
            for (int j = 0; j < SEEN; j++)
                *(Vec *)(v + (SEEN * i + j) * step + c) = done[j];
        }
    }
}

/* A' m A + bias, into the positions of the result that exist. */
static void tile_to(const float *m, int64_t step, int64_t n, const float *bias,
                    uint16_t *const y[EDGE * EDGE])
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[EDGE][SEEN], column[SEEN], done[EDGE], b = *(const Vec *)(bias + c);
        for (int j = 0; j < SEEN; j++) {
            for (int i = 0; i < SEEN; i++)
                column[i] = *(const Vec *)(m + (SEEN * i + j) * step + c);
            axis_to(column, done);
            for (int i = 0; i < EDGE; i++)
                t[i][j] = done[i];
        }
        for (int i = 0; i < EDGE; i++) {
            axis_to(t[i], done);
            for (int j = 0; j < EDGE; j++)
                if (y[EDGE * i + j])
                    store(y[EDGE * i + j] + c, done[j] + b);
        }
    }
}

/* G w G'; taps are tap_step apart, negative for taps in reverse order. */
static void tile_weights(const uint16_t *w, int64_t tap_step, int64_t n, float *u, int64_t step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[SEEN][3], column[3], done[SEEN];
        for (int j = 0; j < 3; j++) {
            for (int i = 0; i < 3; i++)
                column[i] = load(w + (3 * i + j) * tap_step + c);
            axis_weights(column, done);
            for (int i = 0; i < SEEN; i++)
                t[i][j] = done[i];
        }
        for (int i = 0; i < SEEN; i++) {
            axis_weights(t[i], done);
            for (int j = 0; j < SEEN; j++)
                *(Vec *)(u + (SEEN * i + j) * step + c) = done[j];
        }
    }
}

/* A dy A'. */
static void tile_spread(const uint16_t *const dy[EDGE * EDGE], int64_t n, float *z, int64_t step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[SEEN][EDGE], column[EDGE], done[SEEN];
        for (int j = 0; j < EDGE; j++) {
            for (int i = 0; i < EDGE; i++)
                column[i] = load(dy[EDGE * i + j] + c);
            axis_spread(column, done);
            for (int i = 0; i < SEEN; i++)
                t[i][j] = done[i];
        }
        for (int i = 0; i < SEEN; i++) {
            axis_spread(t[i], done);
            for (int j = 0; j < SEEN; j++)
                *(Vec *)(z + (SEEN * i + j) * step + c) = done[j];
        }
    }
}

/* G' p G. */
static void tile_gradient(const float *p, int64_t step, int64_t n, float *dw, int64_t tap_step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[3][SEEN], column[SEEN], done[3];
        for (int j = 0; j < SEEN; j++) {
            for (int i = 0; i < SEEN; i++)
                column[i] = *(const Vec *)(p + (SEEN * i + j) * step + c);
            axis_gradient(column, done);
            for (int i = 0; i < 3; i++)
                t[i][j] = done[i];
        }
        for (int i = 0; i < 3; i++) {
            axis_gradient(t[i], done);
            for (int j = 0; j < 3; j++)
                *(Vec *)(dw + (3 * i + j) * tap_step + c) = done[j];
        }
    }
}

/* --- where tiles lie --- */

typedef struct HalfSpot {
    int64_t image, y, x;
} HalfSpot; /* first position of a tile */

static HalfSpot wino_spot(const HalfWino *w, int64_t tile)
{
    int64_t in_image = tile % w->tiles;
    return (HalfSpot){ tile / w->tiles, in_image / w->tiles_wide * EDGE,
                       in_image % w->tiles_wide * EDGE };
}

/* The positions that a tile sees; zeros outside the image. */
static void wino_sees(const HalfWino *w, const uint16_t *from, HalfSpot s, const uint16_t *zeros,
                      const uint16_t *d[PLACES])
{
    for (int64_t i = 0; i < PLACES; i++) {
        int64_t y = s.y - w->pad[0] + i / SEEN, x = s.x - w->pad[1] + i % SEEN;
        bool    there = y >= 0 && y < w->from_rows && x >= 0 && x < w->from_width;
        int64_t at = (s.image * w->from_rows + y) * w->from_width + x;
        d[i] = there ? from + at * w->from_channels : zeros;
    }
}

/* Its positions in the result, NULL outside. */
static void wino_places(const HalfWino *w, uint16_t *to, HalfSpot s, uint16_t *y[EDGE * EDGE])
{
    for (int64_t i = 0; i < EDGE * EDGE; i++) {
        int64_t row = s.y + i / EDGE, x = s.x + i % EDGE;
        bool    there = row < w->rows && x < w->width;
        y[i] = there ? to + ((s.image * w->rows + row) * w->width + x) * w->channels : NULL;
    }
}

/* --- forward, and the data gradient as a convolution with transposed weights --- */

static float *wino_panel(const HalfWino *w, float *u, int64_t place, int64_t panel)
{
    return u + (place * w->panels + panel) * w->from_channels * GEMM_NR;
}

/* A panel of the transformed weights, all positions: u[k][column]. room: PLACES x GEMM_NR x k. */
static void wino_weights(const HalfWino *w, const uint16_t *weights, int64_t panel, float *u,
                         float *room)
{
    const ConvDesc *d = &w->desc;
    int64_t         tap = d->ci * d->co, k_end = w->from_channels;
    int64_t         first = panel * GEMM_NR, have = int_min(GEMM_NR, w->channels - first);
    int64_t         step = w->panels * k_end * GEMM_NR; /* between positions of u */
    if (d->kind == CONV_FORWARD) {
        for (int64_t k = 0; k < k_end; k++)
            tile_weights(weights + k * d->co + first, tap, have,
                         wino_panel(w, u, 0, panel) + k * GEMM_NR, step);
        return;
    }
    for (int64_t r = 0; r < have; r++)
        tile_weights(weights + 8 * tap + (first + r) * d->co, -tap, k_end, room + r * k_end,
                     GEMM_NR * k_end);
    for (int64_t place = 0; place < PLACES; place++)
        for (int64_t k = 0; k < k_end; k += GEMM_KC) {
            const float *rows[GEMM_NR];
            for (int64_t r = 0; r < have; r++)
                rows[r] = room + (place * GEMM_NR + r) * k_end + k;
            gemm_interleave(wino_panel(w, u, place, panel) + k * GEMM_NR, GEMM_NR, rows, have,
                            int_min(GEMM_KC, k_end - k));
        }
}

/* m = v u for one position, `count` tiles. */
static void wino_product(const HalfWino *w, const float *v, const float *u, float *m, int64_t count)
{
    static const float no_init[GEMM_NR];
    for (int64_t p = 0; p < w->panels; p++)
        for (int64_t r = 0; r < count; r += GEMM_MR)
            gemm_kernel(int_min(GEMM_MR, count - r), w->channels - p * GEMM_NR > GEMM_LANES ? 2 : 1,
                        &(GemmTile){ .k = w->from_channels,
                                     .lda = w->ld_from,
                                     .b_step = GEMM_NR,
                                     .ldc = w->ld_to,
                                     .a = v + r * w->ld_from,
                                     .b = u + p * w->from_channels * GEMM_NR,
                                     .init = no_init,
                                     .c = m + r * w->ld_to + p * GEMM_NR,
                                     .alpha = 1 });
}

typedef struct HalfRoom {
    uint16_t *zeros;
    float    *bias, *v, *m;
} HalfRoom; /* of one thread */

static HalfRoom wino_room(const HalfWino *w, const PrimArgs *args, int job)
{
    HalfRoom room = { .bias = (float *)args->workspace + w->w_floats +
                              (size_t)job * w->job_floats };
    room.zeros = (uint16_t *)(void *)(room.bias + w->channels);
    room.v = room.bias + w->channels + w->from_channels;
    room.m = room.v + w->block * w->ld_from;
    return room;
}

static void wino_block(const HalfWino *w, const uint16_t *from, uint16_t *to, float *u,
                       GemmRange tiles, const HalfRoom *room)
{
    int64_t count = tiles.hi - tiles.lo;
    int64_t step_v = w->from_channels, step_m = w->to_floats;
    for (int64_t t = 0; t < count; t++) {
        const uint16_t *d[PLACES];
        wino_sees(w, from, wino_spot(w, tiles.lo + t), room->zeros, d);
        tile_from(d, w->from_channels, room->v + t * w->ld_from, step_v);
    }
    for (int64_t place = 0; place < PLACES; place++)
        wino_product(w, room->v + place * step_v, wino_panel(w, u, place, 0),
                     room->m + place * step_m, count);
    for (int64_t t = 0; t < count; t++) {
        uint16_t *y[EDGE * EDGE];
        wino_places(w, to, wino_spot(w, tiles.lo + t), y);
        tile_to(room->m + t * w->ld_to, step_m, w->channels, room->bias, y);
    }
}

static void wino_weights_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const HalfWino *w = (const HalfWino *)prim;
    for (int64_t p = w->panels * job / w->threads; p < w->panels * (job + 1) / w->threads; p++)
        wino_weights(w, args->b, p, args->workspace, wino_room(w, args, job).v);
}

static void wino_tiles_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const HalfWino *w = (const HalfWino *)prim;
    bool            back = w->desc.kind == CONV_BACKWARD_DATA;
    HalfRoom        room = wino_room(w, args, job);
    int64_t         all = w->desc.n * w->tiles, end = all * (job + 1) / w->threads;
    memset(room.bias, 0, (size_t)(w->channels + w->from_channels) * sizeof(float));
    if (w->desc.bias)
        convert_rows(F32, room.bias, w->desc.type_bias, args->bias, (size_t)w->channels);
    for (int64_t lo = all * job / w->threads; lo < end; lo += w->block)
        wino_block(w, back ? args->c : args->a, back ? args->a : args->c, args->workspace,
                   (GemmRange){ lo, int_min(lo + w->block, end) }, &room);
}

/* --- weights --- */

typedef struct HalfBlock {    /* of dw: some of x's channels by some of dy's */
    int64_t   i, o, n_i, n_o; /* first channel and number of channels, of x and dy */
    int64_t   size, ld, row;  /* channels; from one tile, or one row of sums, to the next */
    uint16_t *zeros;
    float    *a, *b, *v, *z, *p;
} HalfBlock;

static int64_t dw_blocks(const ConvDesc *d, int64_t size)
{
    return ceil_div(d->ci, size) * ceil_div(d->co, size);
}

static size_t dw_floats(int64_t size)
{
    int64_t tile = GEMM_MR + size + 2 * (PLACES * size + APART);
    return (size_t)(size + DW_TILES * tile + GEMM_LANES + PLACES * size * (size + APART));
}

/* Channels of a block so that threads share the blocks evenly; 0: there is no such size. */
static int64_t dw_block_size(const ConvDesc *d, int threads)
{
    for (int64_t size = DW_BLOCK; size >= MIN_DW_BLOCK; size /= 2) {
        int64_t blocks = dw_blocks(d, size);
        if (blocks % threads == 0 || blocks >= 4 * threads)
            return size;
    }
    return 0;
}

static HalfBlock dw_block(const HalfWino *w, int64_t number, float *room)
{
    int64_t   size = w->dw_block, across = ceil_div(w->desc.co, size);
    int64_t   i = number / across * size, o = number % across * size;
    HalfBlock p = { .i = i,
                    .o = o,
                    .n_i = int_min(size, w->desc.ci - i),
                    .n_o = int_min(size, w->desc.co - o),
                    .size = size,
                    .ld = PLACES * size + APART,
                    .row = size + APART,
                    .zeros = (uint16_t *)(void *)room };
    p.v = room + size;
    p.z = p.v + DW_TILES * p.ld;
    p.p = p.z + DW_TILES * p.ld;
    p.b = p.p + PLACES * size * p.row;
    p.a = p.b + DW_TILES * size;
    return p;
}

static void dw_transform(const HalfWino *w, const HalfBlock *p, const uint16_t *x, uint16_t *dy,
                         GemmRange tiles)
{
    for (int64_t t = 0; t < tiles.hi - tiles.lo; t++) {
        const uint16_t *d[PLACES], *y[EDGE * EDGE];
        uint16_t       *places[EDGE * EDGE];
        HalfSpot        s = wino_spot(w, tiles.lo + t);
        wino_sees(w, x + p->i, s, p->zeros, d);
        wino_places(w, dy + p->o, s, places);
        for (int i = 0; i < EDGE * EDGE; i++)
            y[i] = places[i] ? places[i] : p->zeros;
        tile_from(d, p->n_i, p->v + t * p->ld, p->size);
        tile_spread(y, p->n_o, p->z + t * p->ld, p->size);
    }
}

/* One position of the block's sums: x's channels by dy's, over `count` tiles. */
static void dw_product(const HalfBlock *p, int64_t place, int64_t count, bool add)
{
    static const float no_init[GEMM_NR];
    GemmSide           x = gemm_matrix(true, F32, p->v + place * p->size, p->ld);
    GemmSide           dy = gemm_matrix(true, F32, p->z + place * p->size, p->ld);
    int64_t            panels = ceil_div(p->n_i, GEMM_MR);
    for (int64_t o = 0; o < p->n_o; o += GEMM_NR)
        gemm_pack_along_i(&dy, o, int_min(GEMM_NR, p->n_o - o), GEMM_NR, 0, count,
                          p->b + o * count);
    for (int64_t n = 0; n < panels; n++) {
        int64_t i = p->n_i * n / panels, rows = p->n_i * (n + 1) / panels - i;
        gemm_pack_along_i(&x, i, rows, rows, 0, count, p->a);
        for (int64_t o = 0; o < p->n_o; o += GEMM_NR)
            gemm_kernel(rows, p->n_o - o > GEMM_LANES ? 2 : 1,
                        &(GemmTile){ .k = count,
                                     .b_step = GEMM_NR,
                                     .ldc = p->row,
                                     .a = p->a,
                                     .b = p->b + o * count,
                                     .init = no_init,
                                     .alpha = 1,
                                     .add = add,
                                     .c = p->p + (place * p->size + i) * p->row + o });
    }
}

static void wino_dw_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const HalfWino *w = (const HalfWino *)prim;
    const ConvDesc *d = &w->desc;
    float          *dw = args->b, *room = (float *)args->workspace + (size_t)job * w->job_floats;
    int64_t         all = dw_blocks(d, w->dw_block), tiles = d->n * w->tiles;
    memset(room, 0, (size_t)w->dw_block * sizeof *room);
    for (int64_t n = all * job / w->threads; n < all * (job + 1) / w->threads; n++) {
        HalfBlock p = dw_block(w, n, room);
        for (int64_t lo = 0; lo < tiles; lo += DW_TILES) {
            GemmRange some = { lo, int_min(lo + DW_TILES, tiles) };
            dw_transform(w, &p, args->a, args->c, some);
            for (int64_t place = 0; place < PLACES; place++)
                dw_product(&p, place, some.hi - some.lo, lo > 0);
        }
        for (int64_t i = 0; i < p.n_i; i++)
            tile_gradient(p.p + i * p.row, p.size * p.row, p.n_o, dw + (p.i + i) * d->co + p.o,
                          d->ci * d->co);
    }
}

static void wino_run(const BuiltinPrim *prim, const PrimArgs *args)
{
    const HalfWino *w = (const HalfWino *)prim;
    if (w->desc.kind == CONV_BACKWARD_WEIGHTS) {
        builtin_jobs(prim, args, w->threads, wino_dw_job);
    } else {
        builtin_jobs(prim, args, w->threads, wino_weights_job);
        builtin_jobs(prim, args, w->threads, wino_tiles_job);
    }
}

/* --- the primitive --- */

/* Weight gradients are fp32, and their blocks must divide evenly among threads. */
static bool wino_dw_fits(const ConvDesc *d, int threads)
{
    return d->type_w == F32 && dw_block_size(d, threads);
}

/* Tiles mix the positions that they see, and what cancels leaves its rounding: what sees only
 * padding would not be exactly zero. So a padding of three is not taken. */
static bool wino_pads_fit(const ConvDesc *d)
{
    int64_t most = 0;
    for (int axis = 1; axis < 3; axis++)
        most = int_max(most, int_max(d->pad_lo[axis], d->pad_hi[axis]));
    return most < 3 && d->pad_lo[0] == 0 && d->pad_hi[0] == 0;
}

bool conv_wino_bf16_fits(const ConvDesc *d, int threads)
{
    bool plain = d->kernel[0] == 1 && d->in[0] == 1 && wino_pads_fit(d) && d->kernel[1] == 3 &&
                 d->kernel[2] == 3 && d->stride[1] == 1 && d->stride[2] == 1;
    bool bf16 = d->type_x == BF16 && d->type_y == BF16 &&
                (d->kind == CONV_BACKWARD_WEIGHTS ? wino_dw_fits(d, threads) : d->type_w == BF16);
    const int64_t *to = d->kind == CONV_BACKWARD_DATA ? d->in : d->out;
    int64_t        tiles = ceil_div(to[1], EDGE) * ceil_div(to[2], EDGE);
    return amx_unit() == AMX_VECTORS && plain && bf16 && conv_is_plain(d) &&
           int_min(d->ci, d->co) >= MIN_CHANNELS && d->ci % 16 == 0 && d->co % 16 == 0 &&
           d->ci * d->co * PLACES <= MAX_WEIGHTS && conv_samples(d) * tiles >= MIN_TILES &&
           8 * to[1] * to[2] >= 7 * tiles * EDGE * EDGE;
}

static void wino_plan(HalfWino *w)
{
    w->panels = ceil_div(w->channels, GEMM_NR);
    w->to_floats = w->panels * GEMM_NR;
    w->ld_from = PLACES * w->from_channels + APART, w->ld_to = PLACES * w->to_floats + APART;
    int64_t fit = BLOCK_FLOATS / (w->ld_from + w->ld_to) / GEMM_MR * GEMM_MR;
    w->block = int_max(fit, GEMM_MR);
    int64_t floats = w->block * (w->ld_from + w->ld_to);
    if (w->desc.kind == CONV_BACKWARD_DATA)
        floats = int_max(floats, PLACES * GEMM_NR * w->from_channels);
    w->w_floats = align_bytes((size_t)(PLACES * w->panels * GEMM_NR * w->from_channels), 16);
    w->job_floats = align_bytes((size_t)(floats + w->channels + w->from_channels), 16);
}

Prim *conv_wino_bf16(Pool *pool, const ConvDesc *d, int threads)
{
    HalfWino      *w = NEW(pool, HalfWino);
    bool           back = d->kind == CONV_BACKWARD_DATA;
    const int64_t *to = back ? d->in : d->out, *from = back ? d->out : d->in;
    w->desc = *d;
    w->threads = threads;
    w->rows = to[1], w->width = to[2], w->channels = back ? d->ci : d->co;
    w->from_rows = from[1], w->from_width = from[2], w->from_channels = back ? d->co : d->ci;
    for (int axis = 0; axis < 2; axis++)
        w->pad[axis] = back ? 2 - d->pad_lo[1 + axis] : d->pad_lo[1 + axis];
    w->tiles_wide = ceil_div(w->width, EDGE);
    w->tiles = ceil_div(w->rows, EDGE) * w->tiles_wide;
    if (d->kind == CONV_BACKWARD_WEIGHTS) {
        w->dw_block = dw_block_size(d, threads);
        w->job_floats = align_bytes(dw_floats(w->dw_block), 16);
    } else {
        wino_plan(w);
    }
    size_t floats = w->w_floats + (size_t)threads * w->job_floats;
    w->prim = (BuiltinPrim){ .head = { .backend = backend_builtin(),
                                       .impl = "builtin:winograd_bf16",
                                       .workspace_bytes = sizeof(float) * floats },
                             .run = wino_run };
    return &w->prim.head;
}
