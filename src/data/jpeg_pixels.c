/* jpeg_pixels.c -- coefficients to samples, samples to pixels.
 *
 * The inverse cosine transform of Loeffler, Ligtenberg and Moschytz (1989), figure 1 read from
 * right to left, in integers: constants of 13 bits, two bits kept between its two passes. Colour at
 * half size is widened by a triangle filter: each new sample is three parts of the nearer old one
 * and one of the farther, along each axis. Other ratios repeat samples. With the same constants and
 * the same rounding as libjpeg-turbo's default every level is the same as there. */
#include "data/jpeg_int.h"

#include <string.h>

static inline uint8_t level(int x) { return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x); }

/* ---- blocks ---- */

enum { BITS = 13, KEPT = 2 };
/* What goes into a pass is kept within 16 bits, so that 32 suffice for every sum in it. No image
 * of 8 bits comes near. */
static inline int32_t bound(int32_t x)
{
    return x < -INT16_MAX ? -INT16_MAX : x > INT16_MAX ? INT16_MAX : x;
}

#define FIXED(x) ((int32_t)((x) * (1 << BITS) + 0.5))

/* Eight transforms of eight numbers side by side: number u of each at in[8 u], of the result y at
 * out[8 y]; the last `drop` bits are rounded off. */
static void transform(const int32_t *in, int32_t *out, int drop)
{
    for (int i = 0; i < 8; i++) {
        /* even: sums and differences, and a turn by 6/16 pi */
        int32_t turn = (in[16 + i] + in[48 + i]) * FIXED(0.541196100);
        int32_t low = turn - in[48 + i] * FIXED(1.847759065),
                high = turn + in[16 + i] * FIXED(0.765366865);
        int32_t sum = (in[i] + in[32 + i]) * (1 << BITS) + (1 << (drop - 1)),
                less = (in[i] - in[32 + i]) * (1 << BITS) + (1 << (drop - 1));
        int32_t e0 = sum + high, e1 = less + low, e2 = less - low, e3 = sum - high;
        /* odd: two turns in one */
        int32_t a = in[56 + i], b = in[40 + i], c = in[24 + i], d = in[8 + i];
        int32_t both = (a + c + b + d) * FIXED(1.175875602);
        int32_t ad = (a + d) * FIXED(0.899976223), bc = (b + c) * FIXED(2.562915447);
        int32_t ac = both - (a + c) * FIXED(1.961570560),
                bd = both - (b + d) * FIXED(0.390180644);
        int32_t o3 = a * FIXED(0.298631336) - ad + ac, o2 = b * FIXED(2.053119869) - bc + bd,
                o1 = c * FIXED(3.072711026) - bc + ac, o0 = d * FIXED(1.501321110) - ad + bd;
        out[i] = (e0 + o0) >> drop;
        out[8 + i] = (e1 + o1) >> drop;
        out[16 + i] = (e2 + o2) >> drop;
        out[24 + i] = (e3 + o3) >> drop;
        out[32 + i] = (e3 - o3) >> drop;
        out[40 + i] = (e2 - o2) >> drop;
        out[48 + i] = (e1 - o1) >> drop;
        out[56 + i] = (e0 - o0) >> drop;
    }
}

void jpeg_block(const int16_t *block, const uint16_t *quant, uint8_t *to, int64_t stride)
{
    int32_t a[64], b[64];
    for (int i = 0; i < 64; i++)
        a[i] = bound(block[i] * quant[i]);
    transform(a, b, BITS - KEPT);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            a[x * 8 + y] = bound(b[y * 8 + x]);
    transform(a, b, BITS + KEPT + 3);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            to[y * stride + x] = level(b[x * 8 + y] + 128);
}

void jpeg_flat_block(int dc, uint8_t *to, int64_t stride)    /* what jpeg_block does, at once */
{
    int x = level(((bound(dc) + 4) >> 3) + 128);
    for (int y = 0; y < 8; y++)
        memset(to + y * stride, x, 8);
}

/* ---- to full size ---- */

typedef struct Widening {            /* a part and its row, widened */
    const JpegPart *part;
    int             h, v;            /* how many times */
    uint8_t        *row;             /* (h width); NULL: the plane's own */
    int16_t        *sums;            /* (width) */
} Widening;

/* Along a row; `left` and `right` round what becomes the left and the right of two, so that ties
 * fall to either side in turn. */
static void row_twice(const int16_t *in, int64_t n, int left, int right, int shift, uint8_t *to)
{
    to[0] = (uint8_t)((4 * in[0] + left) >> shift);
    for (int64_t i = 0; i < n - 1; i++) {
        to[2 * i + 1] = (uint8_t)((3 * in[i] + in[i + 1] + right) >> shift);
        to[2 * i + 2] = (uint8_t)((3 * in[i + 1] + in[i] + left) >> shift);
    }
    to[2 * n - 1] = (uint8_t)((4 * in[n - 1] + right) >> shift);
}

static void row_repeat(const uint8_t *in, int64_t n, int times, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < times; k++)
            *to++ = in[i];
}

/* Three parts of the nearer row, one of the farther; beyond the image lies its last row again. */
static const uint8_t *row_far(const JpegPart *p, int64_t near, bool lower)
{
    int64_t far = lower ? near + 1 : near - 1;
    far = far < 0 ? 0 : far >= p->height ? p->height - 1 : far;
    return p->plane + far * p->stride * 8;
}

static const uint8_t *row_at(const Widening *w, int64_t y)
{
    const JpegPart *p = w->part;
    const uint8_t  *in = p->plane + y / w->v * p->stride * 8,
                   *far = w->v == 2 ? row_far(p, y / 2, y % 2) : in;
    bool            smooth = p->width > 2;           /* as libjpeg: narrower ones are repeated */
    if (!w->row)
        return in;
    if (w->h == 1 && w->v == 2)
        for (int64_t i = 0; i < p->width; i++)
            w->row[i] = (uint8_t)((3 * in[i] + far[i] + 1 + y % 2) >> 2);
    else if (w->h == 2 && w->v <= 2 && smooth) {
        for (int64_t i = 0; i < p->width; i++)
            w->sums[i] = (int16_t)(w->v == 2 ? 3 * in[i] + far[i] : in[i]);
        if (w->v == 2)
            row_twice(w->sums, p->width, 8, 7, 4, w->row);
        else
            row_twice(w->sums, p->width, 1, 2, 2, w->row);
    } else
        row_repeat(in, p->width, w->h, w->row);
    return w->row;
}

/* ---- colours ---- */

/* JFIF 1.02: levels around 128, rounded in 16 bits. */
static void row_colours(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t n,
                        uint8_t *to)
{
    const int half = 1 << 15;
    for (int64_t i = 0; i < n; i++, to += 3) {
        int u = cb[i] - 128, v = cr[i] - 128;
        to[0] = level(y[i] + ((91881 * v + half) >> 16));
        to[1] = level(y[i] + ((-22554 * u - 46802 * v + half) >> 16));
        to[2] = level(y[i] + ((116130 * u + half) >> 16));
    }
}

/* As libjpeg decides: JFIF is always luminance and chroma, Adobe's marker says, and without either
 * the parts' names do. */
static bool has_chroma(const Jpeg *j)
{
    if (j->jfif || j->adobe >= 0)
        return j->jfif || j->adobe != 0;
    return j->parts[0].id != 'R' || j->parts[1].id != 'G' || j->parts[2].id != 'B';
}

static size_t row_bytes(const Jpeg *j, const JpegPart *p)
{
    return (size_t)(j->h_max / p->h) * (size_t)p->width;
}

size_t jpeg_rows_room(const Jpeg *j)
{
    size_t room = 0;
    for (int i = 0; i < j->n_parts; i++)
        room += work_size(row_bytes(j, &j->parts[i])) +
                work_size((size_t)j->parts[i].width * sizeof(int16_t));
    return room;
}

void jpeg_pixels(const Jpeg *j, Work *work, uint8_t *to)
{
    Widening wide[JPEG_PARTS];
    bool     chroma = j->n_parts == 3 && has_chroma(j);
    for (int i = 0; i < j->n_parts; i++) {
        const JpegPart *p = &j->parts[i];
        wide[i] = (Widening){ .part = p, .h = j->h_max / p->h, .v = j->v_max / p->v };
        if (wide[i].h > 1 || wide[i].v > 1) {
            wide[i].row = work_take(work, row_bytes(j, p));
            wide[i].sums = work_take(work, (size_t)p->width * sizeof(int16_t));
        }
    }
    for (int64_t y = 0; y < j->height; y++, to += j->width * j->n_parts) {
        const uint8_t *rows[JPEG_PARTS];
        for (int i = 0; i < j->n_parts; i++)
            rows[i] = row_at(&wide[i], y);
        if (chroma)
            row_colours(rows[0], rows[1], rows[2], j->width, to);
        else
            for (int64_t x = 0; x < j->width; x++)
                for (int i = 0; i < j->n_parts; i++)
                    to[x * j->n_parts + i] = rows[i][x];
    }
}
