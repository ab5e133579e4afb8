/* conv_winograd.c -- 3 x 3 fp32 convolutions of stride 1 between many channels, by Winograd's
 * F(2,3) along both axes (Lavin and Gray 2016): 16 products where the plain form has 36.
 *
 * A tile is 2 x 2 positions of y and the 4 x 4 positions of x that they see. With d, w, y of one
 * tile
 *
 *   y  = A' ((G w G') o (B' d B)) A             o: position by position, summed over channels
 *   dw = G' (sum over tiles of (B' d B) o (A dy A')) G
 *
 * the 16 positions become 16 matrix products: tiles x channels x channels for the forward pass, and
 * for the data gradient with w transposed and its taps reversed; channels x tiles x channels for
 * the weights. Transforms add whole rows of channels. Blocks of tiles stay in L2.
 *
 * Each result is summed by one thread in one order, whatever the number of threads. */
#include "linalg/builtin.h"

#include "linalg/gemm.h"

#include <string.h>

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic           ignored "-Wpsabi" /* vectors pass between inlined functions only */
#endif

typedef float Vec __attribute__((vector_size(4 * GEMM_LANES), aligned(4), may_alias));

enum {
    PLACES = 16,              /* positions of a transformed tile */
    MIN_CHANNELS = 32,        /* with fewer, transforms cost what the products save */
    MIN_TILES = 64,           /* with fewer, so does the transform of the weights */
    MAX_WEIGHTS = 4 << 20,    /* transformed, floats: read again for every block of tiles */
    BLOCK_FLOATS = 224 << 10, /* of both sides of a block of tiles */
    DW_BLOCK = 128,           /* channels of either side in a block of a weight gradient, */
    MIN_DW_BLOCK = 32,        /* or a smaller power of two */
    DW_TILES = 48,            /* tiles at once; every block of dw transforms them again */
    MIN_WIDTH = 64,           /* with fewer channels of either side that costs too much */
    APART = 16,               /* extra floats per row: keeps rows out of one cache set */
};

typedef struct Wino {
    BuiltinPrim prim;
    ConvDesc    desc;
    int         threads;
    int64_t     rows, width, channels; /* of the result; of dy for the weights */
    int64_t     from_rows, from_width, from_channels;
    int64_t     pad[2];            /* before, as the transforms see it */
    int64_t     tiles_wide, tiles; /* of an image */
    int64_t     panels, block, ld_from, ld_to;
    int64_t     dw_block;                 /* weights: channels of a block of dw, */
    int64_t     dw_blocks_i, dw_blocks_o; /* and blocks along x's and dy's channels */
    size_t      w_floats, job_floats;
} Wino;

/* --- transforms: n channels of one tile; positions are `step` apart --- */

static inline Vec  load(const float *x) { return *(const Vec *)x; }
static inline void store(float *x, Vec v) { *(Vec *)x = v; }

/* B' d B. */
static void tile_from(const float *const d[PLACES], int64_t n, float *v, int64_t step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[4][4];
        for (int j = 0; j < 4; j++) {
            Vec d0 = load(d[j] + c), d1 = load(d[4 + j] + c);
            Vec d2 = load(d[8 + j] + c), d3 = load(d[12 + j] + c);
            t[0][j] = d0 - d2, t[1][j] = d1 + d2, t[2][j] = d2 - d1, t[3][j] = d1 - d3;
        }
        for (int i = 0; i < 4; i++) {
            store(v + (4 * i + 0) * step + c, t[i][0] - t[i][2]);
            store(v + (4 * i + 1) * step + c, t[i][1] + t[i][2]);
            store(v + (4 * i + 2) * step + c, t[i][2] - t[i][1]);
            store(v + (4 * i + 3) * step + c, t[i][1] - t[i][3]);
        }
    }
}

/* A' m A + bias, into the positions of y that exist. */
static void tile_to(const float *m, int64_t step, int64_t n, const float *bias, float *const y[4])
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[2][4], b = bias ? load(bias + c) : (Vec){ 0 };
        for (int j = 0; j < 4; j++) {
            Vec m0 = load(m + j * step + c), m1 = load(m + (4 + j) * step + c);
            Vec m2 = load(m + (8 + j) * step + c), m3 = load(m + (12 + j) * step + c);
            t[0][j] = m0 + m1 + m2, t[1][j] = m1 - m2 - m3;
        }
        for (int i = 0; i < 2; i++) {
            if (y[2 * i])
                store(y[2 * i] + c, t[i][0] + t[i][1] + t[i][2] + b);
            if (y[2 * i + 1])
                store(y[2 * i + 1] + c, t[i][1] - t[i][2] - t[i][3] + b);
        }
    }
}

/* A dy A'. */
static void tile_spread(const float *const dy[4], int64_t n, float *z, int64_t step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[4][2];
        for (int j = 0; j < 2; j++) {
            Vec d0 = load(dy[j] + c), d1 = load(dy[2 + j] + c);
            t[0][j] = d0, t[1][j] = d0 + d1, t[2][j] = d0 - d1, t[3][j] = -d1;
        }
        for (int i = 0; i < 4; i++) {
            store(z + (4 * i + 0) * step + c, t[i][0]);
            store(z + (4 * i + 1) * step + c, t[i][0] + t[i][1]);
            store(z + (4 * i + 2) * step + c, t[i][0] - t[i][1]);
            store(z + (4 * i + 3) * step + c, -t[i][1]);
        }
    }
}

/* G w G'; taps are tap_step apart, negative for taps in reverse order. */
static void tile_weights(const float *w, int64_t tap_step, int64_t n, float *u, int64_t step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[4][3];
        for (int j = 0; j < 3; j++) {
            Vec w0 = load(w + j * tap_step + c), w1 = load(w + (3 + j) * tap_step + c);
            Vec w2 = load(w + (6 + j) * tap_step + c);
            t[0][j] = w0, t[3][j] = w2;
            t[1][j] = 0.5f * (w0 + w1 + w2), t[2][j] = 0.5f * (w0 - w1 + w2);
        }
        for (int i = 0; i < 4; i++) {
            store(u + (4 * i + 0) * step + c, t[i][0]);
            store(u + (4 * i + 1) * step + c, 0.5f * (t[i][0] + t[i][1] + t[i][2]));
            store(u + (4 * i + 2) * step + c, 0.5f * (t[i][0] - t[i][1] + t[i][2]));
            store(u + (4 * i + 3) * step + c, t[i][2]);
        }
    }
}

/* G' p G. */
static void tile_gradient(const float *p, int64_t step, int64_t n, float *dw, int64_t tap_step)
{
    for (int64_t c = 0; c < n; c += GEMM_LANES) {
        Vec t[3][4];
        for (int j = 0; j < 4; j++) {
            Vec p0 = load(p + j * step + c), p1 = load(p + (4 + j) * step + c);
            Vec p2 = load(p + (8 + j) * step + c), p3 = load(p + (12 + j) * step + c);
            t[0][j] = p0 + 0.5f * (p1 + p2), t[1][j] = 0.5f * (p1 - p2);
            t[2][j] = 0.5f * (p1 + p2) + p3;
        }
        for (int i = 0; i < 3; i++) {
            store(dw + (3 * i + 0) * tap_step + c, t[i][0] + 0.5f * (t[i][1] + t[i][2]));
            store(dw + (3 * i + 1) * tap_step + c, 0.5f * (t[i][1] - t[i][2]));
            store(dw + (3 * i + 2) * tap_step + c, 0.5f * (t[i][1] + t[i][2]) + t[i][3]);
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
    return (Spot){ tile / w->tiles, in_image / w->tiles_wide * 2, in_image % w->tiles_wide * 2 };
}

/* The 4 x 4 positions that a tile sees, from channel c on; zeros outside the image. */
static void wino_sees(const Wino *w, const float *from, int64_t tile, int64_t c, const float *zeros,
                      const float *d[PLACES])
{
    Spot s = wino_spot(w, tile);
    for (int64_t i = 0; i < PLACES; i++) {
        int64_t y = s.y - w->pad[0] + i / 4, x = s.x - w->pad[1] + i % 4;
        bool    there = y >= 0 && y < w->from_rows && x >= 0 && x < w->from_width;
        int64_t at = (s.image * w->from_rows + y) * w->from_width + x;
        d[i] = there ? from + at * w->from_channels + c : zeros;
    }
}

/* Offset of position i of a tile's 2 x 2, or -1 outside. */
static int64_t wino_place(const Wino *w, int64_t tile, int i)
{
    Spot    s = wino_spot(w, tile);
    int64_t y = s.y + i / 2, x = s.x + i % 2;
    return y < w->rows && x < w->width ? ((s.image * w->rows + y) * w->width + x) * w->channels
                                       : -1;
}

/* --- forward, and the data gradient as a convolution with transposed weights --- */

static const float no_init[GEMM_NR];

static float *wino_panel(const Wino *w, float *u, int64_t place, int64_t panel)
{
    return u + (place * w->panels + panel) * w->from_channels * GEMM_NR;
}

/* A panel of the transformed weights, all positions: u[k][column]. room: PLACES x GEMM_NR x k. */
static void wino_weights(const Wino *w, const float *weights, int64_t panel, float *u, float *room)
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

static void wino_block(const Wino *w, const float *from, float *to, const float *bias, float *u,
                       GemmRange tiles, float *room)
{
    int64_t count = tiles.hi - tiles.lo, step_v = w->block * w->ld_from;
    int64_t step_m = w->block * w->ld_to;
    float  *zeros = room, *v = zeros + w->from_channels, *m = v + PLACES * step_v;
    for (int64_t t = 0; t < count; t++) {
        const float *d[PLACES];
        wino_sees(w, from, tiles.lo + t, 0, zeros, d);
        tile_from(d, w->from_channels, v + t * w->ld_from, step_v);
    }
    for (int64_t place = 0; place < PLACES; place++)
        for (int64_t p = 0; p < w->panels; p++)
            for (int64_t r = 0; r < count; r += GEMM_MR)
                gemm_kernel(int_min(GEMM_MR, count - r),
                            w->channels - p * GEMM_NR > GEMM_LANES ? 2 : 1,
                            &(GemmTile){ .k = w->from_channels,
                                         .lda = w->ld_from,
                                         .b_step = GEMM_NR,
                                         .ldc = w->ld_to,
                                         .a = v + place * step_v + r * w->ld_from,
                                         .b = wino_panel(w, u, place, p),
                                         .init = no_init,
                                         .c = m + place * step_m + r * w->ld_to + p * GEMM_NR,
                                         .alpha = 1 });
    for (int64_t t = 0; t < count; t++) {
        float *y[4];
        for (int i = 0; i < 4; i++) {
            int64_t at = wino_place(w, tiles.lo + t, i);
            y[i] = at < 0 ? NULL : to + at;
        }
        tile_to(m + t * w->ld_to, step_m, w->channels, bias, y);
    }
}

static float *wino_room(const Wino *w, const PrimArgs *args, int job)
{
    return (float *)args->workspace + w->w_floats + (size_t)job * w->job_floats;
}

static void wino_weights_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const Wino *w = (const Wino *)prim;
    for (int64_t p = w->panels * job / w->threads; p < w->panels * (job + 1) / w->threads; p++)
        wino_weights(w, args->b, p, args->workspace, wino_room(w, args, job));
}

static void wino_tiles_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const Wino *w = (const Wino *)prim;
    bool        back = w->desc.kind == CONV_BACKWARD_DATA;
    float      *room = wino_room(w, args, job);
    int64_t     all = w->desc.n * w->tiles, end = all * (job + 1) / w->threads;
    memset(room, 0, (size_t)w->from_channels * sizeof *room);
    for (int64_t lo = all * job / w->threads; lo < end; lo += w->block)
        wino_block(w, back ? args->c : args->a, back ? args->a : args->c,
                   w->desc.bias ? args->bias : NULL, args->workspace,
                   (GemmRange){ lo, int_min(lo + w->block, end) }, room);
}

/* --- weights --- */

typedef struct DwBlock {    /* of dw: some of x's channels by some of dy's */
    int64_t i, o, n_i, n_o; /* first channel and number of channels, of x and dy */
    float  *zeros, *a, *v, *z, *p;
} DwBlock;

static DwBlock wino_dw_block(const Wino *w, int64_t number, float *room)
{
    int64_t i = number / w->dw_blocks_o * w->dw_block, o = number % w->dw_blocks_o * w->dw_block;
    DwBlock p = { .i = i,
                  .o = o,
                  .n_i = int_min(w->dw_block, w->desc.ci - i),
                  .n_o = int_min(w->dw_block, w->desc.co - o) };
    p.zeros = room;
    p.a = p.zeros + w->dw_block;
    p.v = p.a + DW_TILES * GEMM_MR + GEMM_LANES;
    p.z = p.v + PLACES * DW_TILES * w->dw_block;
    p.p = p.z + PLACES * DW_TILES * w->ld_to;
    return p;
}

static void dw_block_add(const Wino *w, const DwBlock *p, const float *x, const float *dy,
                         GemmRange tiles, bool add)
{
    int64_t count = tiles.hi - tiles.lo, step_v = DW_TILES * w->dw_block;
    int64_t step_z = DW_TILES * w->ld_to, step_p = w->dw_block * w->ld_to;
    for (int64_t t = 0; t < count; t++) {
        const float *d[PLACES], *y[4];
        wino_sees(w, x, tiles.lo + t, p->i, p->zeros, d);
        for (int i = 0; i < 4; i++) {
            int64_t at = wino_place(w, tiles.lo + t, i);
            y[i] = at < 0 ? p->zeros : dy + at + p->o;
        }
        tile_from(d, p->n_i, p->v + t * w->dw_block, step_v);
        tile_spread(y, p->n_o, p->z + t * w->ld_to, step_z);
    }
    for (int64_t place = 0; place < PLACES; place++)
        for (int64_t i = 0; i < p->n_i; i += GEMM_MR) {
            int64_t  rows = int_min(GEMM_MR, p->n_i - i);
            GemmSide side = gemm_matrix(true, F32, p->v + place * step_v, w->dw_block);
            gemm_pack_along_i(&side, i, rows, rows, 0, count, p->a);
            for (int64_t o = 0; o < p->n_o; o += GEMM_NR)
                gemm_kernel(rows, p->n_o - o > GEMM_LANES ? 2 : 1,
                            &(GemmTile){ .k = count,
                                         .b_step = w->ld_to,
                                         .ldc = w->ld_to,
                                         .a = p->a,
                                         .b = p->z + place * step_z + o,
                                         .init = no_init,
                                         .alpha = 1,
                                         .add = add,
                                         .c = p->p + place * step_p + i * w->ld_to + o });
        }
}

static void wino_dw_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const Wino     *w = (const Wino *)prim;
    const ConvDesc *d = &w->desc;
    float          *room = wino_room(w, args, job), *dw = args->b;
    int64_t         all = w->dw_blocks_i * w->dw_blocks_o, tiles = d->n * w->tiles;
    memset(room, 0, (size_t)w->dw_block * sizeof *room);
    for (int64_t n = all * job / w->threads; n < all * (job + 1) / w->threads; n++) {
        DwBlock p = wino_dw_block(w, n, room);
        for (int64_t lo = 0; lo < tiles; lo += DW_TILES)
            dw_block_add(w, &p, args->a, args->c, (GemmRange){ lo, int_min(lo + DW_TILES, tiles) },
                         lo > 0);
        for (int64_t i = 0; i < p.n_i; i++)
            tile_gradient(p.p + i * w->ld_to, w->dw_block * w->ld_to, p.n_o,
                          dw + (p.i + i) * d->co + p.o, d->ci * d->co);
    }
}

/* --- the primitive --- */

static void wino_run(const BuiltinPrim *prim, const PrimArgs *args)
{
    const Wino *w = (const Wino *)prim;
    if (w->desc.kind == CONV_BACKWARD_WEIGHTS) {
        builtin_jobs(prim, args, w->threads, wino_dw_job);
    } else {
        builtin_jobs(prim, args, w->threads, wino_weights_job);
        builtin_jobs(prim, args, w->threads, wino_tiles_job);
    }
}

/* Channels of a block of dw so that threads share the blocks evenly; 0: there is no such size. */
static int64_t wino_dw_block_size(const ConvDesc *d, int threads)
{
    for (int64_t size = DW_BLOCK; size >= MIN_DW_BLOCK; size /= 2) {
        int64_t blocks = ceil_div(d->ci, size) * ceil_div(d->co, size);
        if (blocks % threads == 0 || blocks >= 4 * threads)
            return size;
    }
    return 0;
}

bool conv_wino_fits(const ConvDesc *d, int threads)
{
    bool plain = d->kernel[0] == 1 && d->in[0] == 1 && d->pad_lo[0] == 0 && d->pad_hi[0] == 0 &&
                 d->kernel[1] == 3 && d->kernel[2] == 3 && d->stride[1] == 1 && d->stride[2] == 1;
    bool fp32 = d->type_x == F32 && d->type_w == F32 && d->type_y == F32 &&
                (!d->bias || d->type_bias == F32);
    const int64_t *to = d->kind == CONV_BACKWARD_DATA ? d->in : d->out;
    return plain && conv_is_plain(d) && fp32 && d->ci >= MIN_CHANNELS && d->co >= MIN_CHANNELS &&
           d->ci % 16 == 0 && d->co % 16 == 0 && d->ci * d->co * PLACES <= MAX_WEIGHTS &&
           conv_samples(d) * ceil_div(to[1], 2) * ceil_div(to[2], 2) >= MIN_TILES &&
           (d->kind != CONV_BACKWARD_WEIGHTS ||
            (int_min(d->ci, d->co) >= MIN_WIDTH && wino_dw_block_size(d, threads)));
}

static void wino_plan_dw(Wino *w)
{
    w->dw_block = wino_dw_block_size(&w->desc, w->threads);
    w->dw_blocks_i = ceil_div(w->desc.ci, w->dw_block);
    w->dw_blocks_o = ceil_div(w->desc.co, w->dw_block);
    w->ld_to = w->dw_block + APART;
    w->job_floats = (size_t)(w->dw_block + DW_TILES * GEMM_MR + GEMM_LANES +
                             PLACES * DW_TILES * (w->dw_block + w->ld_to) +
                             PLACES * w->dw_block * w->ld_to);
}

static void wino_plan_tiles(Wino *w)
{
    w->panels = ceil_div(w->channels, GEMM_NR);
    w->ld_from = w->from_channels + APART, w->ld_to = w->panels * GEMM_NR + APART;
    int64_t fit = BLOCK_FLOATS / (PLACES * (w->ld_from + w->ld_to)) / GEMM_MR * GEMM_MR;
    w->block = int_max(fit, GEMM_MR);
    w->w_floats = (size_t)(PLACES * w->panels * GEMM_NR * w->from_channels);
    int64_t floats = w->from_channels + PLACES * w->block * (w->ld_from + w->ld_to);
    if (w->desc.kind == CONV_BACKWARD_DATA)
        floats = int_max(floats, PLACES * GEMM_NR * w->from_channels);
    w->job_floats = (size_t)floats;
}

Prim *conv_wino(Pool *pool, const ConvDesc *d, int threads)
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
    w->tiles_wide = ceil_div(w->width, 2);
    w->tiles = ceil_div(w->rows, 2) * w->tiles_wide;
    if (d->kind == CONV_BACKWARD_WEIGHTS)
        wino_plan_dw(w);
    else
        wino_plan_tiles(w);
    w->job_floats = align_bytes(w->job_floats, 16);
    w->w_floats = align_bytes(w->w_floats, 16);
    w->prim = (BuiltinPrim){ .head = { .backend = backend_builtin(),
                                       .impl = "builtin:winograd",
                                       .workspace_bytes = sizeof(float) *
                                                          (w->w_floats +
                                                           (size_t)threads * w->job_floats) },
                             .run = wino_run };
    return &w->prim.head;
}
