/* conv_winograd_bf16.c -- 3 x 3 bf16 convolutions of stride 1 between many channels, by Winograd's
 * F(4,3) along both axes (Lavin and Gray 2016): 36 products where the plain form has 144.
 *
 * Everything between the operands and the result is fp32, so that only the result is rounded to
 * bf16. F(4,3) loses a few more bits of fp32 than F(2,3): too many for fp32 results, but far fewer
 * than bf16 drops. Without AMX, fp32 products run at half the rate of bf16 ones, and a quarter of
 * them are left.
 *
 * A tile is 4 x 4 positions of the result and the 6 x 6 positions that they see:
 *
 *   y = A' ((G w G') o (B' d B)) A             o: position by position, summed over channels
 *
 * The data gradient is the same with w transposed and its taps reversed. Each result is summed by
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
    APART = 16,               /* extra floats per tile: keeps rows out of one cache set */
};

typedef struct Wino {
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
    size_t      w_floats, job_floats;
} Wino;

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

/* --- where tiles lie --- */

typedef struct Spot {
    int64_t image, y, x;
} Spot; /* first position of a tile */

static Spot wino_spot(const Wino *w, int64_t tile)
{
    int64_t in_image = tile % w->tiles;
    return (Spot){ tile / w->tiles, in_image / w->tiles_wide * EDGE,
                   in_image % w->tiles_wide * EDGE };
}

/* The positions that a tile sees; zeros outside the image. */
static void wino_sees(const Wino *w, const uint16_t *from, Spot s, const uint16_t *zeros,
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
static void wino_places(const Wino *w, uint16_t *to, Spot s, uint16_t *y[EDGE * EDGE])
{
    for (int64_t i = 0; i < EDGE * EDGE; i++) {
        int64_t row = s.y + i / EDGE, x = s.x + i % EDGE;
        bool    there = row < w->rows && x < w->width;
        y[i] = there ? to + ((s.image * w->rows + row) * w->width + x) * w->channels : NULL;
    }
}

/* --- the products --- */

static float *wino_panel(const Wino *w, float *u, int64_t place, int64_t panel)
{
    return u + (place * w->panels + panel) * w->from_channels * GEMM_NR;
}

/* A panel of the transformed weights, all positions: u[k][column]. room: PLACES x GEMM_NR x k. */
static void wino_weights(const Wino *w, const uint16_t *weights, int64_t panel, float *u,
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
static void wino_product(const Wino *w, const float *v, const float *u, float *m, int64_t count)
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

typedef struct Room {
    uint16_t *zeros;
    float    *bias, *v, *m;
} Room; /* of one thread */

static Room wino_room(const Wino *w, const PrimArgs *args, int job)
{
    Room room = { .bias = (float *)args->workspace + w->w_floats + (size_t)job * w->job_floats };
    room.zeros = (uint16_t *)(void *)(room.bias + w->channels);
    room.v = room.bias + w->channels + w->from_channels;
    room.m = room.v + w->block * w->ld_from;
    return room;
}

static void wino_block(const Wino *w, const uint16_t *from, uint16_t *to, float *u, GemmRange tiles,
                       const Room *room)
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
    const Wino *w = (const Wino *)prim;
    for (int64_t p = w->panels * job / w->threads; p < w->panels * (job + 1) / w->threads; p++)
        wino_weights(w, args->b, p, args->workspace, wino_room(w, args, job).v);
}

static void wino_tiles_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const Wino *w = (const Wino *)prim;
    bool        back = w->desc.kind == CONV_BACKWARD_DATA;
    Room        room = wino_room(w, args, job);
    int64_t     all = w->desc.n * w->tiles, end = all * (job + 1) / w->threads;
    memset(room.bias, 0, (size_t)(w->channels + w->from_channels) * sizeof(float));
    if (w->desc.bias)
        convert_rows(F32, room.bias, w->desc.type_bias, args->bias, (size_t)w->channels);
    for (int64_t lo = all * job / w->threads; lo < end; lo += w->block)
        wino_block(w, back ? args->c : args->a, back ? args->a : args->c, args->workspace,
                   (GemmRange){ lo, int_min(lo + w->block, end) }, &room);
}

static void wino_run(const BuiltinPrim *prim, const PrimArgs *args)
{
    const Wino *w = (const Wino *)prim;
    builtin_jobs(prim, args, w->threads, wino_weights_job);
    builtin_jobs(prim, args, w->threads, wino_tiles_job);
}

/* --- the primitive --- */

bool conv_wino_bf16_fits(const ConvDesc *d)
{
    bool plain = d->kernel[0] == 1 && d->in[0] == 1 && d->pad_lo[0] == 0 && d->pad_hi[0] == 0 &&
                 d->kernel[1] == 3 && d->kernel[2] == 3 && d->stride[1] == 1 && d->stride[2] == 1;
    bool           bf16 = d->type_x == BF16 && d->type_w == BF16 && d->type_y == BF16;
    const int64_t *to = d->kind == CONV_BACKWARD_DATA ? d->in : d->out;
    int64_t        tiles = ceil_div(to[1], EDGE) * ceil_div(to[2], EDGE);
    return amx_unit() == AMX_VECTORS && plain && bf16 && conv_is_plain(d) &&
           d->kind != CONV_BACKWARD_WEIGHTS && int_min(d->ci, d->co) >= MIN_CHANNELS &&
           d->ci % 16 == 0 && d->co % 16 == 0 && d->ci * d->co * PLACES <= MAX_WEIGHTS &&
           d->n * tiles >= MIN_TILES && 8 * to[1] * to[2] >= 7 * tiles * EDGE * EDGE;
}

static void wino_plan(Wino *w)
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
    Wino          *w = NEW(pool, Wino);
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
    wino_plan(w);
    size_t floats = w->w_floats + (size_t)threads * w->job_floats;
    w->prim = (BuiltinPrim){ .head = { .backend = backend_builtin(),
                                       .impl = "builtin:winograd_bf16",
                                       .workspace_bytes = sizeof(float) * floats },
                             .run = wino_run };
    return &w->prim.head;
}
