/* conv_blocks.c -- operands of a convolution as blocks of bf16 for AMX (gemm.h, GemmSide.block).
 *
 * Neighbouring positions of a row read the same line at a fixed distance. So a block of positions
 * in one row of the grid and elements in one line is used in place, in the image, unless it reaches
 * into the padding; all other blocks are gathered in room.
 */
#include "linalg/amx.h"
#include "linalg/conv_window.h"

static const uint16_t conv_zeros[GEMM_ROOM_K];

/* Copies `rows` rows of n elements, read `apart` and written ld apart. A short row is copied as two
 * overlapping halves: the same few instructions for every length. */
static void conv_copy(uint16_t *dst, int64_t ld, const uint16_t *src, int64_t apart, int64_t n,
                      int64_t rows)
{
#define HALVES(bytes)                                                                              \
    for (int64_t r = 0; r < rows; r++, dst += ld, src += apart) {                                  \
        typedef uint16_t Half __attribute__((vector_size(bytes), aligned(2), may_alias));          \
        Half             lo = *(const Half *)src, hi = *(const Half *)(src + n - bytes / 2);       \
        *(Half *)dst = lo;                                                                         \
        *(Half *)(dst + n - bytes / 2) = hi;                                                       \
    }
    if (n > 64)
        for (int64_t r = 0; r < rows; r++, dst += ld, src += apart)
            memcpy(dst, src, (size_t)n * 2);
    else if (n >= 32)
        HALVES(64)
    else if (n >= 16)
        HALVES(32)
    else if (n >= 8)
        HALVES(16)
    else if (n >= 4)
        HALVES(8)
    else if (n >= 2)
        HALVES(4)
    else
        HALVES(2)
#undef HALVES
}

/* The segment as `count` positions from o on see it: rows ld apart. */
static void conv_see(const GemmSide *side, const ConvWindow *w, Origin o, int64_t count,
                     WindowSegment l, uint16_t *to, int64_t ld)
{
    int64_t width = w->width, apart = w->step[2] * w->pixel;
    for (int64_t run; count > 0; count -= run, to += run * ld) {
        int64_t row, from;
        bool    there = conv_find(w, &o, l, &row, &from);
        run = conv_run(w, &o, count);
        /* positions [first, last) of the run see all of it inside the image */
        int64_t         first = from >= 0 ? 0 : int_min((apart - 1 - from) / apart, run);
        int64_t         last = from + l.n > width
                                   ? first
                                   : int_max(first, int_min((width - l.n - from) / apart + 1, run));
        const uint16_t *src = (const uint16_t *)side->data + row;
        if (!there)
            first = last = 0;
        for (int64_t r = 0; r < run; r++) {
            if (r == first && first < last) {
                conv_copy(to + r * ld, ld, src + from + r * apart, apart, l.n, last - first);
                r = last - 1;
                continue;
            }
            for (int64_t x = 0; x < l.n; x++) {
                int64_t at = from + r * apart + x;
                to[r * ld + x] = there && at >= 0 && at < width ? src[at] : 0;
            }
        }
        o.q[2] += run - 1;
        conv_next(w, &o);
    }
}

/* Elements e of the windows of `count` positions from o on; rows are ld apart. */
static void conv_gather(const GemmSide *side, const ConvWindow *w, Origin o, int64_t count,
                        GemmRange e, uint16_t *room, int64_t ld)
{
    for (int64_t x = e.lo, n; x < e.hi; x += n) {
        WindowSegment l = conv_segment(w, x, e.hi);
        conv_see(side, w, o, count, l, room + x - e.lo, ld);
        n = l.n;
    }
}

/* Segment l of `count` positions from o on, if the image holds it as a block; else NULL. */
static const uint16_t *conv_in_place(const GemmSide *side, const ConvWindow *w, const Origin *o,
                                     WindowSegment l, int64_t count, int64_t *ld)
{
    int64_t row, from, apart = w->step[2] * w->pixel;
    if (conv_run(w, o, count) < count)
        return NULL;
    *ld = apart;
    if (!conv_find(w, o, l, &row, &from)) {
        *ld = 0;
        return l.n <= GEMM_ROOM_K ? conv_zeros : NULL;
    }
    if (from < 0 || from + (count - 1) * apart + l.n > w->width)
        return NULL;
    return (const uint16_t *)side->data + row + from;
}

/* X[i][k]: i is a position, k an element of its window. */
const uint16_t *conv_block_positions(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                     uint16_t *room, int64_t *ld)
{
    const ConvWindow *w = side->shape;
    Origin            o = conv_origin(w, i.lo);
    WindowSegment     l = conv_segment(w, k0, k0 + *nk);
    if (l.n == *nk || l.n >= AMX_K) {
        l.n = l.n == *nk ? l.n : l.n / AMX_K * AMX_K;
        const uint16_t *there = conv_in_place(side, w, &o, l, i.hi - i.lo, ld);
        if (there) {
            *nk = l.n;
            return there;
        }
    }
    *nk = int_min(*nk, GEMM_ROOM_K);
    *ld = align_up(*nk, AMX_K);
    conv_gather(side, w, o, i.hi - i.lo, (GemmRange){ k0, k0 + *nk }, room, *ld);
    return room;
}

/* X[i][k]: i is an element of the window, k a position; rows along i. */
const uint16_t *conv_block_elements(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                    uint16_t *room, int64_t *ld)
{
    const ConvWindow *w = side->shape;
    Origin            o = conv_origin(w, k0);
    WindowSegment     l = conv_segment(w, i.lo, i.hi);
    if (l.n == i.hi - i.lo) {
        const uint16_t *there = conv_in_place(side, w, &o, l, *nk, ld);
        if (there)
            return there;
    }
    *ld = i.hi - i.lo;
    conv_gather(side, w, o, *nk, i, room, *ld);
    return room;
}

/* X[i][k]: i is an input channel, k a (tap of this residue, output channel), both of one group; w is
 * (KD,KH,KW,I/groups,O). */
const uint16_t *conv_block_weights(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                   uint16_t *room, int64_t *ld)
{
    const ConvWindow *w = side->shape;
    const ConvDesc   *c = w->desc;
    const uint16_t   *data = side->data;
    int64_t           ci = c->ci / c->groups, co = c->co / c->groups;
    int64_t           o = k0 % co, run = int_min(co - o, *nk);
    if (run == *nk || run >= AMX_K) {
        *nk = run == *nk ? run : run / AMX_K * AMX_K;
        *ld = c->co;
        return data + (conv_tap(w, k0) * ci + i.lo) * c->co + o;
    }
    *nk = int_min(*nk, GEMM_ROOM_K);
    *ld = align_up(*nk, AMX_K);
    for (int64_t k = 0; k < *nk; k += run) {
        o = (k0 + k) % co;
        run = int_min(co - o, *nk - k);
        const uint16_t *at = data + (conv_tap(w, k0 + k) * ci + i.lo) * c->co + o;
        conv_copy(room + k, *ld, at, c->co, run, i.hi - i.lo);
    }
    return room;
}
