/* conv_depth.c -- depthwise convolutions: each output channel reads one input channel.
 *
 *   forward           y[p][e]  = sum over taps t        x[p + t][e]  * w[t][e]
 *   backward data     dx[p][e] = sum over taps t        dy[p - t][e] * w[t][e],  residue by residue
 *   backward weights  dw[t][e] = sum over positions p   x[p + t][e]  * dy[p][e]
 *
 * Nothing is multiplied by anything else's channel, so there is no matrix product in it: a vector is
 * adjacent channels, and the sums of a few positions by a few vectors (forward, data) or of a few
 * taps by a few vectors (weights) stay in registers. Images are read where they lie, in bands of rows
 * that stay in the cache over all taps. bf16 is widened as it is loaded.
 *
 * The vectorised form needs as many output as input channels, and at least one vector of them. Other
 * shapes (several output channels for each input channel, few channels, f16) use plain loops.
 *
 * Every thread sums weight gradients over bands of its own; these sums are then added in the order
 * of the threads. */
#include "linalg/builtin.h"

#include "base/int_math.h"
#include "device/convert.h"
#include "linalg/gemm.h"

enum {
    LANES = GEMM_LANES,
    VECTORS = 4,                     /* of adjacent channels at once */
    TILE = GEMM_LANES == 16 ? 4 : 3, /* positions at once */
    TAPS = GEMM_LANES == 16 ? 4 : 3, /* taps at once, backward weights */
    BAND = 512,                      /* positions in a band, about */
    SEGMENT = 256,                   /* positions of a row in a band, at most */
    BANDS = 4,                       /* for each thread, at least, if there are enough rows */
    NEAR = 8192,                     /* floats of the source in the first cache */
    BLOCK = 256,                     /* elements at once in the plain loops */
};

typedef float    DepthVec __attribute__((vector_size(4 * GEMM_LANES), aligned(4), may_alias));
typedef uint16_t DepthHalf __attribute__((vector_size(2 * GEMM_LANES), aligned(2), may_alias));
typedef uint32_t DepthBits __attribute__((vector_size(4 * GEMM_LANES), aligned(4), may_alias));

/* Along an axis, position q of the grid is element place + q*spread of the result. Through tap j < taps
 * it reads the source at q*step + base + j*apart; the tap is kernel index first + j*jump. */
typedef struct DepthAxis {
    int64_t grid, place, spread, step, base, apart, taps, first, jump, source;
} DepthAxis;

typedef struct DepthWalk {
    DepthAxis axis[3];
} DepthWalk;

typedef struct DepthConv {
    BuiltinPrim prim;
    ConvDesc    desc;
    int         threads, n_walks; /* walks: residue classes of backward data; otherwise 1 */
    DepthWalk  *walks;
    int64_t     times; /* output channels for each input channel */
    bool        plain; /* by plain loops */
    int64_t     taps, w_floats;
} DepthConv;

typedef struct DepthBand { /* rows [h, h_end) and positions [w, w_end) in them, of one plane */
    int64_t image, d, h, h_end, w, w_end;
} DepthBand;

/* --- vectors --- */

static inline __attribute__((always_inline)) DepthVec depth_load(Type type, const void *p,
                                                                 int64_t i)
{
    if (type == F32)
        return *(const DepthVec *)((const float *)p + i);
    DepthHalf half = *(const DepthHalf *)((const uint16_t *)p + i);
    return (DepthVec)(__builtin_convertvector(half, DepthBits) << 16);
}

static inline __attribute__((always_inline)) void depth_store(Type type, void *p, int64_t i,
                                                              DepthVec v)
{
    if (type == F32) {
        *(DepthVec *)((float *)p + i) = v;
        return;
    }
    DepthBits bits = (DepthBits)v, nan = (DepthBits)(v != v); /* f32_to_bf16 */
    DepthBits rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
    *(DepthHalf *)((uint16_t *)p + i) = __builtin_convertvector((rounded & ~nan) | (quiet & nan),
                                                                DepthHalf);
}

/* --- bands --- */

static int64_t depth_band_rows(const DepthConv *c, const DepthWalk *w)
{
    const DepthAxis *a = w->axis;
    int64_t          segment = int_min(int_max(a[2].grid, 1), SEGMENT), rows = BAND / segment;
    int64_t          planes = c->desc.n * a[0].grid * ceil_div(int_max(a[2].grid, 1), segment);
    rows = int_min(int_max(rows, 1), int_max(a[1].grid, 1));
    while (rows > 1 && planes * ceil_div(a[1].grid, rows) < BANDS * c->threads)
        rows = (rows + 1) / 2;
    return rows;
}

static int64_t depth_segment(const DepthConv *c, const DepthWalk *w)
{
    const DepthAxis *a = w->axis;
    int64_t          segment = int_min(int_max(a[2].grid, 1), SEGMENT);
    while (segment > 4 * TILE && depth_band_rows(c, w) == 1 &&
           c->desc.n * a[0].grid * a[1].grid * ceil_div(a[2].grid, segment) < BANDS * c->threads)
        segment = (segment + 1) / 2;
    return segment;
}

static int64_t depth_bands(const DepthConv *c, const DepthWalk *w)
{
    const DepthAxis *a = w->axis;
    return c->desc.n * a[0].grid * ceil_div(a[1].grid, depth_band_rows(c, w)) *
           ceil_div(a[2].grid, depth_segment(c, w));
}

static DepthBand depth_band(const DepthConv *c, const DepthWalk *w, int64_t i)
{
    const DepthAxis *a = w->axis;
    int64_t          rows = depth_band_rows(c, w), segment = depth_segment(c, w);
    int64_t          across = ceil_div(a[2].grid, segment), down = ceil_div(a[1].grid, rows);
    DepthBand        b = { .w = i % across * segment, .h = i / across % down * rows };
    b.d = i / (across * down) % a[0].grid;
    b.image = i / (across * down) / a[0].grid;
    b.w_end = int_min(b.w + segment, a[2].grid);
    b.h_end = int_min(b.h + rows, a[1].grid);
    return b;
}

/* Taps [lo, hi) of position q meet the source. */
static GemmRange depth_span(const DepthAxis *a, int64_t q)
{
    int64_t   at = q * a->step + a->base;
    GemmRange span = { 0, a->taps };
#define OUTSIDE(j) (at + (j)*a->apart < 0 || at + (j)*a->apart >= a->source)
    while (span.lo < span.hi && OUTSIDE(span.lo))
        span.lo++;
    while (span.hi > span.lo && OUTSIDE(span.hi - 1))
        span.hi--;
    return span;
#undef OUTSIDE
}

/* --- forward and backward data --- */

static const float depth_zeros[VECTORS * LANES];

typedef struct DepthRow { /* one row of the result: which taps meet the source */
    const void  *source;
    void        *result;
    const float *w, *bias;
    Type         type, to; /* of source and result */
    GemmRange    d, h;
    int64_t      at_d, at_h, image, to_row, channels;
} DepthRow;

static inline __attribute__((always_inline)) void
depth_tile(const DepthConv *c, const DepthWalk *walk, const DepthRow *r, int64_t q, GemmRange span,
           int64_t e, int tile, int vectors, Type type)
{
    const DepthAxis *a = walk->axis;
    const int64_t   *kernel = c->desc.kernel;
    int64_t          step = a[2].step * r->channels, at = (q * a[2].step + a[2].base) * r->channels;
    const float     *bias = r->bias ? r->bias + e : depth_zeros;
    DepthVec         sum[TILE][VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
        DepthVec start = *(const DepthVec *)(bias + v * LANES);
#pragma GCC unroll 8
        for (int t = 0; t < tile; t++)
            sum[t][v] = start;
    }
    for (int64_t jd = r->d.lo; jd < r->d.hi; jd++)
        for (int64_t jh = r->h.lo; jh < r->h.hi; jh++) {
            int64_t row = (r->image * a[0].source + r->at_d + jd * a[0].apart) * a[1].source +
                          r->at_h + jh * a[1].apart;
            int64_t tap = (a[0].first + jd * a[0].jump) * kernel[1] + a[1].first + jh * a[1].jump;
            int64_t from = row * a[2].source * r->channels + at + e;
            const float *w = r->w + (tap * kernel[2] + a[2].first) * r->channels + e;
            for (int64_t j = span.lo; j < span.hi; j++)
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++) {
                    DepthVec k = *(const DepthVec *)(w + j * a[2].jump * r->channels + v * LANES);
#pragma GCC unroll 8
                    for (int t = 0; t < tile; t++)
                        sum[t][v] += k * depth_load(type, r->source,
                                                    from + j * a[2].apart * r->channels + t * step +
                                                        v * LANES);
                }
        }
#pragma GCC unroll 8
    for (int t = 0; t < tile; t++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            depth_store(type, r->result,
                        (r->to_row + a[2].place + (q + t) * a[2].spread) * r->channels + e +
                            v * LANES,
                        sum[t][v]);
}

/* `tile` positions from q on, for channels `e`. The last vector may begin earlier: the same sums
 * again. */
static inline __attribute__((always_inline)) void
depth_tiles(const DepthConv *c, const DepthWalk *walk, const DepthRow *r, int64_t q, GemmRange span,
            GemmRange e, int tile, Type type)
{
    int64_t i = e.lo;
    for (; i + VECTORS * LANES <= e.hi; i += VECTORS * LANES)
        depth_tile(c, walk, r, q, span, i, tile, VECTORS, type);
    for (; i < e.hi; i += LANES)
        depth_tile(c, walk, r, q, span, int_min(i, r->channels - LANES), tile, 1, type);
}

static inline __attribute__((always_inline)) void depth_row(const DepthConv *c,
                                                            const DepthWalk *walk,
                                                            const DepthRow *r, GemmRange q,
                                                            GemmRange e, Type type)
{
    const DepthAxis *a = &walk->axis[2];
    int64_t          reach = (a->taps - 1) * a->apart + (TILE - 1) * a->step;
    for (int64_t i = q.lo; i < q.hi;) {
        int64_t at = i * a->step + a->base;
        if (i + TILE <= q.hi && at >= 0 && at + reach < a->source) {
            depth_tiles(c, walk, r, i, (GemmRange){ 0, a->taps }, e, TILE, type);
            i += TILE;
        } else {
            depth_tiles(c, walk, r, i, depth_span(a, i), e, 1, type);
            i++;
        }
    }
}

/* So many channels that what a tile reads of them stays in the first cache. */
static int64_t depth_channels(const DepthWalk *walk)
{
    const DepthAxis *a = walk->axis;
    int64_t          pixels = int_max(a[0].taps * a[1].taps * (a[2].taps + TILE * a[2].step), 1);
    return int_max(NEAR / pixels / (VECTORS * LANES), 1) * VECTORS * LANES;
}

static inline __attribute__((always_inline)) void
depth_rows(const DepthConv *c, const DepthWalk *walk, DepthRow *r, const DepthBand *b, Type type)
{
    const DepthAxis *a = walk->axis;
    const int64_t   *size = c->desc.kind == CONV_BACKWARD_DATA ? c->desc.in : c->desc.out;
    int64_t          block = depth_channels(walk);
    r->image = b->image;
    r->at_d = b->d * a[0].step + a[0].base;
    r->d = depth_span(&a[0], b->d);
    for (int64_t e = 0; e < r->channels; e += block)
        for (int64_t h = b->h; h < b->h_end; h++) {
            r->at_h = h * a[1].step + a[1].base;
            r->h = depth_span(&a[1], h);
            r->to_row = ((b->image * size[0] + a[0].place + b->d * a[0].spread) * size[1] +
                         a[1].place + h * a[1].spread) *
                        size[2];
            depth_row(c, walk, r, (GemmRange){ b->w, b->w_end },
                      (GemmRange){ e, int_min(e + block, r->channels) }, type);
        }
}

static void depth_band_f32(const DepthConv *c, const DepthWalk *walk, DepthRow *r,
                           const DepthBand *b)
{
    depth_rows(c, walk, r, b, F32);
}

static void depth_band_bf16(const DepthConv *c, const DepthWalk *walk, DepthRow *r,
                            const DepthBand *b)
{
    depth_rows(c, walk, r, b, BF16);
}

/* The same by plain loops; also for several output channels for each input channel. */
static void depth_band_plain(const DepthConv *c, const DepthWalk *walk, DepthRow *r,
                             const DepthBand *b)
{
    const DepthAxis *a = walk->axis;
    const int64_t   *kernel = c->desc.kernel;
    bool             back = c->desc.kind == CONV_BACKWARD_DATA;
    const int64_t   *size = back ? c->desc.in : c->desc.out;
    int64_t          few = c->desc.ci, many = c->desc.co, times = c->times;
    float            sum[BLOCK], room[BLOCK];
    for (int64_t h = b->h; h < b->h_end; h++)
        for (int64_t q = b->w; q < b->w_end; q++) {
            int64_t to = ((b->image * size[0] + a[0].place + b->d * a[0].spread) * size[1] +
                          a[1].place + h * a[1].spread) *
                             size[2] +
                         a[2].place + q * a[2].spread;
            GemmRange d = depth_span(&a[0], b->d), s = depth_span(&a[1], h),
                      t = depth_span(&a[2], q);
            int64_t count = back ? few : many;
            for (int64_t e0 = 0; e0 < count; e0 += BLOCK) {
                int64_t n = int_min(BLOCK, count - e0);
                for (int64_t i = 0; i < n; i++)
                    sum[i] = r->bias ? r->bias[e0 + i] : 0.0f;
                for (int64_t jd = d.lo; jd < d.hi; jd++)
                    for (int64_t jh = s.lo; jh < s.hi; jh++)
                        for (int64_t j = t.lo; j < t.hi; j++) {
                            int64_t row = (b->image * a[0].source + b->d * a[0].step + a[0].base +
                                           jd * a[0].apart) *
                                              a[1].source +
                                          h * a[1].step + a[1].base + jh * a[1].apart;
                            int64_t from = row * a[2].source + q * a[2].step + a[2].base +
                                           j * a[2].apart;
                            int64_t tap = ((a[0].first + jd * a[0].jump) * kernel[1] + a[1].first +
                                           jh * a[1].jump) *
                                              kernel[2] +
                                          a[2].first + j * a[2].jump;
                            const float *w = r->w + tap * many;
                            if (back) { /* the results of an input channel lie side by side */
                                for (int64_t k = 0; k < n * times; k += BLOCK) {
                                    int64_t      m = int_min(BLOCK, n * times - k);
                                    const float *x = row_load(
                                        r->type, r->source, from * many + e0 * times + k, m, room);
                                    for (int64_t i = 0; i < m; i++)
                                        sum[(k + i) / times] += x[i] * w[e0 * times + k + i];
                                }
                                continue;
                            }
                            int64_t      first = e0 / times, m = (e0 + n - 1) / times - first + 1;
                            const float *x = row_load(r->type, r->source, from * few + first, m,
                                                      room);
                            for (int64_t i = 0; i < n; i++)
                                sum[i] += x[(e0 + i) / times - first] * w[e0 + i];
                        }
                convert_rows(r->to, (char *)r->result + (to * count + e0) * type_bytes(r->to), F32,
                             sum, (size_t)n);
            }
        }
}

static void depth_image_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const DepthConv *c = (const DepthConv *)prim;
    const ConvDesc  *d = &c->desc;
    bool             back = d->kind == CONV_BACKWARD_DATA;
    float           *weights = args->workspace, *bias = weights + c->w_floats;
    DepthRow         r = { .source = back ? args->c : args->a,
                           .result = back ? args->a : args->c,
                           .type = back ? d->type_y : d->type_x,
                           .to = back ? d->type_x : d->type_y,
                           .w = d->type_w == F32 ? args->b : weights,
                           .bias = !d->bias              ? NULL
                                   : d->type_bias == F32 ? args->bias
                                                         : bias,
                           .channels = d->co };
    for (int i = 0; i < c->n_walks; i++) {
        int64_t bands = depth_bands(c, &c->walks[i]);
        for (int64_t k = bands * job / c->threads; k < bands * (job + 1) / c->threads; k++) {
            DepthBand b = depth_band(c, &c->walks[i], k);
            if (c->plain)
                depth_band_plain(c, &c->walks[i], &r, &b);
            else if (r.type == F32)
                depth_band_f32(c, &c->walks[i], &r, &b);
            else
                depth_band_bf16(c, &c->walks[i], &r, &b);
        }
    }
}

/* --- backward weights --- */

typedef struct DepthSum { /* sums of some taps of one row of the kernel */
    const void *x, *dy;
    float      *dw;  /* of the first tap and channel */
    int64_t     tap; /* the first */
    int64_t     d, h;
} DepthSum;

/* Positions [lo, hi) of [q.lo, q.hi) whose tap j meets the source. */
static GemmRange depth_met(const DepthAxis *a, int64_t j, GemmRange q)
{
    int64_t at = a->base + j * a->apart; /* of position 0 */
    int64_t lo = at < 0 ? ceil_div(-at, a->step) : 0;
    int64_t hi = at < a->source ? (a->source - 1 - at) / a->step + 1 : 0;
    lo = int_max(lo, q.lo);
    return (GemmRange){ lo, int_max(int_min(hi, q.hi), lo) };
}

static inline __attribute__((always_inline)) void depth_sum(const DepthConv *c, const DepthBand *b,
                                                            const DepthSum *s, int64_t e, int taps,
                                                            int vectors, int64_t skip, Type type)
{
    const DepthAxis *a = c->walks->axis;
    const ConvDesc  *d = &c->desc;
    int64_t          channels = d->co, step = a[2].step * channels, apart = a[2].apart * channels;
    GemmRange        met[TAPS], all = { b->w, b->w_end };
    DepthVec         sum[TAPS][VECTORS];
#pragma GCC unroll 8
    for (int t = 0; t < taps; t++) {
        met[t] = depth_met(&a[2], s->tap + t, (GemmRange){ b->w, b->w_end });
        all.lo = int_max(all.lo, met[t].lo);
        all.hi = int_min(all.hi, met[t].hi);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[t][v] = (DepthVec){ 0 };
    }
    all.hi = int_max(all.hi, all.lo);
    int64_t id = b->d * a[0].step + a[0].base + s->d * a[0].apart;
    for (int64_t h = b->h; h < b->h_end; h++) {
        int64_t ih = h * a[1].step + a[1].base + s->h * a[1].apart;
        if (ih < 0 || ih >= a[1].source)
            continue;
        int64_t x = (((b->image * d->in[0] + id) * d->in[1] + ih) * d->in[2] + a[2].base) *
                        channels +
                    s->tap * apart + e;
        int64_t y = ((b->image * d->out[0] + b->d) * d->out[1] + h) * d->out[2] * channels + e;
        for (int64_t q = all.lo; q < all.hi; q++)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) {
                DepthVec k = depth_load(type, s->dy, y + q * channels + v * LANES);
#pragma GCC unroll 8
                for (int t = 0; t < taps; t++)
                    sum[t][v] += k * depth_load(type, s->x, x + q * step + t * apart + v * LANES);
            }
        if (all.lo == b->w && all.hi == b->w_end)
            continue;
#pragma GCC unroll 8
        for (int t = 0; t < taps; t++)
            for (int64_t q = met[t].lo; q < met[t].hi; q++) {
                if (q == all.lo && all.lo < all.hi) {
                    q = all.hi - 1;
                    continue;
                }
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    sum[t][v] += depth_load(type, s->dy, y + q * channels + v * LANES) *
                                 depth_load(type, s->x, x + q * step + t * apart + v * LANES);
            }
    }
#pragma GCC unroll 8
    for (int t = 0; t < taps; t++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            float *to = s->dw + t * channels + e + v * LANES;
            if (!skip)
                *(DepthVec *)to += sum[t][v];
            for (int64_t l = skip; skip && l < LANES; l++)
                to[l] += sum[t][v][l];
        }
}

static inline __attribute__((always_inline)) void depth_sums(const DepthConv *c, const DepthBand *b,
                                                             DepthSum s, int64_t e, int vectors,
                                                             int64_t skip, Type type)
{
    const DepthAxis *a = c->walks->axis;
    float           *dw = s.dw;
    GemmRange        span = depth_span(&a[0], b->d);
    for (s.d = span.lo; s.d < span.hi; s.d++)
        for (s.h = 0; s.h < a[1].taps; s.h++)
            for (s.tap = 0; s.tap < a[2].taps;) {
                int64_t n = int_min(TAPS, a[2].taps - s.tap);
                s.dw = dw + ((s.d * a[1].taps + s.h) * a[2].taps + s.tap) * c->desc.co;
                switch (n) {
                case 1: depth_sum(c, b, &s, e, 1, vectors, skip, type); break;
                case 2: depth_sum(c, b, &s, e, 2, vectors, skip, type); break;
                case 3: depth_sum(c, b, &s, e, 3, vectors, skip, type); break;
                default: depth_sum(c, b, &s, e, TAPS, vectors, skip, type); break;
                }
                s.tap += n;
            }
}

static void depth_dw_f32(const DepthConv *c, const DepthBand *b, DepthSum s)
{
    int64_t e = 0, channels = c->desc.co;
    for (; e + VECTORS * LANES <= channels; e += VECTORS * LANES)
        depth_sums(c, b, s, e, VECTORS, 0, F32);
    for (; e + LANES <= channels; e += LANES)
        depth_sums(c, b, s, e, 1, 0, F32);
    if (e < channels) /* the last vector, without the lanes that are done */
        depth_sums(c, b, s, channels - LANES, 1, e - (channels - LANES), F32);
}

static void depth_dw_bf16(const DepthConv *c, const DepthBand *b, DepthSum s)
{
    int64_t e = 0, channels = c->desc.co;
    for (; e + VECTORS * LANES <= channels; e += VECTORS * LANES)
        depth_sums(c, b, s, e, VECTORS, 0, BF16);
    for (; e + LANES <= channels; e += LANES)
        depth_sums(c, b, s, e, 1, 0, BF16);
    if (e < channels)
        depth_sums(c, b, s, channels - LANES, 1, e - (channels - LANES), BF16);
}

static void depth_dw_plain(const DepthConv *c, const DepthBand *b, const PrimArgs *args, float *dw)
{
    const ConvDesc  *desc = &c->desc;
    const DepthAxis *a = c->walks->axis;
    float            x_room[BLOCK], y_room[BLOCK];
    GemmRange        d = depth_span(&a[0], b->d);
    for (int64_t h = b->h; h < b->h_end; h++)
        for (int64_t q = b->w; q < b->w_end; q++) {
            GemmRange s = depth_span(&a[1], h), t = depth_span(&a[2], q);
            int64_t   y = ((b->image * desc->out[0] + b->d) * desc->out[1] + h) * desc->out[2] + q;
            for (int64_t e = 0; e < desc->co; e += BLOCK) {
                int64_t      n = int_min(BLOCK, desc->co - e), first = e / c->times;
                int64_t      m = (e + n - 1) / c->times - first + 1;
                const float *dy = row_load(desc->type_y, args->c, y * desc->co + e, n, y_room);
                for (int64_t jd = d.lo; jd < d.hi; jd++)
                    for (int64_t jh = s.lo; jh < s.hi; jh++)
                        for (int64_t j = t.lo; j < t.hi; j++) {
                            int64_t row = (b->image * desc->in[0] + b->d * a[0].step + a[0].base +
                                           jd * a[0].apart) *
                                              desc->in[1] +
                                          h * a[1].step + a[1].base + jh * a[1].apart;
                            int64_t from = row * desc->in[2] + q * a[2].step + a[2].base +
                                           j * a[2].apart;
                            const float *x = row_load(desc->type_x, args->a,
                                                      from * desc->ci + first, m, x_room);
                            float *to = dw + ((jd * a[1].taps + jh) * a[2].taps + j) * desc->co + e;
                            for (int64_t i = 0; i < n; i++)
                                to[i] += x[(e + i) / c->times - first] * dy[i];
                        }
            }
        }
}

static void depth_dw_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const DepthConv *c = (const DepthConv *)prim;
    const DepthWalk *walk = c->walks;
    float           *dw = (float *)args->workspace + job * c->w_floats;
    int64_t          bands = depth_bands(c, walk);
    for (int64_t i = 0; i < c->taps * c->desc.co; i++)
        dw[i] = 0.0f;
    for (int64_t k = bands * job / c->threads; k < bands * (job + 1) / c->threads; k++) {
        DepthBand b = depth_band(c, walk, k);
        DepthSum  s = { .x = args->a, .dy = args->c, .dw = dw };
        if (c->plain)
            depth_dw_plain(c, &b, args, dw);
        else if (c->desc.type_x == F32)
            depth_dw_f32(c, &b, s);
        else
            depth_dw_bf16(c, &b, s);
    }
}

static void depth_dw_add_job(const BuiltinPrim *prim, const PrimArgs *args, int job)
{
    const DepthConv *c = (const DepthConv *)prim;
    Type             type = c->desc.type_w;
    int64_t          count = c->taps * c->desc.co, end = count * (job + 1) / c->threads;
    float            sum[BLOCK];
    for (int64_t i = count * job / c->threads; i < end; i += BLOCK) {
        int64_t      n = int_min(BLOCK, end - i);
        const float *dw = (const float *)args->workspace + i;
        for (int64_t k = 0; k < n; k++)
            sum[k] = dw[k];
        for (int t = 1; t < c->threads; t++)
            for (int64_t k = 0; k < n; k++)
                sum[k] += dw[t * c->w_floats + k];
        convert_rows(type, (char *)args->b + i * type_bytes(type), F32, sum, (size_t)n);
    }
}

/* --- the primitive --- */

static void depth_run(const BuiltinPrim *prim, const PrimArgs *args)
{
    const DepthConv *c = (const DepthConv *)prim;
    const ConvDesc  *d = &c->desc;
    float           *weights = args->workspace;
    if (d->kind == CONV_BACKWARD_WEIGHTS) {
        builtin_jobs(prim, args, c->threads, depth_dw_job);
        builtin_jobs(prim, args, c->threads, depth_dw_add_job);
        return;
    }
    if (d->type_w != F32)
        convert_rows(F32, weights, d->type_w, args->b, (size_t)(c->taps * d->co));
    if (d->bias && d->type_bias != F32)
        convert_rows(F32, weights + c->w_floats, d->type_bias, args->bias, (size_t)d->co);
    builtin_jobs(prim, args, c->threads, depth_image_job);
}

static void depth_forward(DepthConv *c)
{
    const ConvDesc *d = &c->desc;
    for (int i = 0; i < 3; i++)
        c->walks->axis[i] = (DepthAxis){ .grid = d->out[i],
                                         .spread = 1,
                                         .step = d->stride[i],
                                         .base = -d->pad_lo[i],
                                         .apart = d->dilation[i],
                                         .taps = d->kernel[i],
                                         .jump = 1,
                                         .source = d->in[i] };
    c->n_walks = 1;
}

static void depth_backward(DepthConv *c)
{
    const ConvDesc *d = &c->desc;
    int64_t         rest[3];
    for (rest[0] = 0; rest[0] < d->stride[0]; rest[0]++)
        for (rest[1] = 0; rest[1] < d->stride[1]; rest[1]++)
            for (rest[2] = 0; rest[2] < d->stride[2]; rest[2]++) {
                bool some = true;
                for (int i = 0; i < 3; i++) {
                    ConvResidue r = conv_residue_of(d, i, rest[i]);
                    int64_t     last = r.taps - 1; /* in reverse, so that taps read onwards */
                    c->walks[c->n_walks].axis[i] = (DepthAxis){ .grid = r.positions,
                                                                .place = rest[i],
                                                                .spread = d->stride[i],
                                                                .step = 1,
                                                                .base = r.base - last * r.apart,
                                                                .apart = r.apart,
                                                                .taps = r.taps,
                                                                .first = r.first + last * r.jump,
                                                                .jump = -r.jump,
                                                                .source = d->out[i] };
                    some = some && r.positions > 0;
                }
                c->n_walks += some;
            }
}

bool conv_depth_fits(const ConvDesc *d) { return conv_groups(d) > 1 && d->ci == conv_groups(d); }

bool conv_depth_pays(const ConvDesc *d)
{
    enum { FEW_TAPS = 9 };
    return conv_depth_fits(d) && (d->kind == CONV_BACKWARD_WEIGHTS || d->ci != d->co ||
                                  d->in[0] > 1 || d->kernel[0] > 1 ||
                                  (d->kind == CONV_BACKWARD_DATA && d->type_y == F32 &&
                                   d->kernel[1] * d->kernel[2] > FEW_TAPS));
}

Prim *conv_depth(Pool *pool, const ConvDesc *desc, int threads)
{
    DepthConv *c = NEW(pool, DepthConv);
    c->desc = conv_filled(desc);
    const ConvDesc *d = &c->desc;
    bool back = d->kind == CONV_BACKWARD_DATA, weights = d->kind == CONV_BACKWARD_WEIGHTS;
    c->threads = threads;
    c->times = d->co / d->ci;
    c->taps = d->kernel[0] * d->kernel[1] * d->kernel[2];
    c->walks = NEWN(pool, DepthWalk, back ? d->stride[0] * d->stride[1] * d->stride[2] : 1);
    Type read = back ? d->type_y : d->type_x;
    c->plain = c->times > 1 || d->co < LANES || (read != F32 && read != BF16) ||
               d->type_x != d->type_y;
    if (back)
        depth_backward(c);
    else
        depth_forward(c);
    c->w_floats = !weights && d->type_w == F32 ? 0 : align_up(c->taps * d->co, 16);
    int64_t floats = weights
                         ? threads * c->w_floats
                         : c->w_floats + (d->bias && d->type_bias != F32 ? align_up(d->co, 16) : 0);
    c->prim = (BuiltinPrim){ .head = { .backend = backend_builtin(),
                                       .impl = c->plain ? "builtin:depth_plain" : "builtin:depth",
                                       .workspace_bytes = (size_t)floats * sizeof(float) },
                             .run = depth_run };
    return &c->prim.head;
}
