/* jpeg_pixels.c -- coefficients to samples, samples to pixels.
 *
 * The inverse cosine transform is that of Loeffler, Ligtenberg and Moschytz (1989), figure 1 read
 * from right to left, in integers: constants of 13 bits, two extra bits between the two passes.
 * Chroma at half size is upsampled by a triangle filter: a new sample is 3/4 of the nearer old one
 * and 1/4 of the farther, along each axis. Other ratios repeat samples. Constants and rounding are
 * those of libjpeg-turbo's defaults, so that every level is equal. */
#include "data/jpeg_int.h"

#include <string.h>

static inline uint8_t level(int x) { return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x); }

/* ---- blocks ---- */

enum { CONSTANT_BITS = 13, PASS_BITS = 2 };
/* The input of a pass is limited to 16 bits, so that 32 suffice for every sum in it. No valid image
 * of 8 bits comes near the limit. */
static inline int32_t bound(int32_t x)
{
    return x < -INT16_MAX ? -INT16_MAX : x > INT16_MAX ? INT16_MAX : x;
}

#define FIXED(x) ((int32_t)((x) * (1 << CONSTANT_BITS) + 0.5))

/* Eight transforms of eight numbers, side by side: coefficient u of each at in[8 u], sample y at
 * out[8 y]; the last `drop` bits are rounded off. */
static void transform(const int32_t *in, int32_t *out, int drop)
{
    for (int i = 0; i < 8; i++) {
        /* even coefficients: sums and differences, and a rotation by 6/16 pi */
        int32_t rotated = (in[16 + i] + in[48 + i]) * FIXED(0.541196100);
        int32_t low = rotated - in[48 + i] * FIXED(1.847759065),
                high = rotated + in[16 + i] * FIXED(0.765366865);
        int32_t sum = (in[i] + in[32 + i]) * (1 << CONSTANT_BITS) + (1 << (drop - 1)),
                diff = (in[i] - in[32 + i]) * (1 << CONSTANT_BITS) + (1 << (drop - 1));
        int32_t e0 = sum + high, e1 = diff + low, e2 = diff - low, e3 = sum - high;
        /* odd coefficients: two rotations in one */
        int32_t a = in[56 + i], b = in[40 + i], c = in[24 + i], d = in[8 + i];
        int32_t both = (a + c + b + d) * FIXED(1.175875602);
        int32_t ad = (a + d) * FIXED(0.899976223), bc = (b + c) * FIXED(2.562915447);
        int32_t ac = both - (a + c) * FIXED(1.961570560), bd = both - (b + d) * FIXED(0.390180644);
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
    transform(a, b, CONSTANT_BITS - PASS_BITS);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            a[x * 8 + y] = bound(b[y * 8 + x]);
    transform(a, b, CONSTANT_BITS + PASS_BITS + 3);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            to[y * stride + x] = level(b[x * 8 + y] + 128);
}

void jpeg_flat_block(int dc, uint8_t *to, int64_t stride) /* the same bits as jpeg_block */
{
    int x = level(((bound(dc) + 4) >> 3) + 128);
    for (int y = 0; y < 8; y++)
        memset(to + y * stride, x, 8);
}

/* ---- upsampling ---- */

typedef struct Upsampling {
    const JpegComponent *component;
    int                  h, v; /* factors */
    uint8_t             *row;  /* an upsampled row (h width); NULL: the plane has full size */
    int16_t             *sums; /* (width) */
} Upsampling;

/* Doubles a row. `left` and `right` are the rounding of the left and the right new sample: they
 * differ, so that ties are rounded up and down alternately. */
static void row_double(const int16_t *in, int64_t n, int left, int right, int shift, uint8_t *to)
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

/* The row above or below; the first and the last row are repeated beyond the image. */
static const uint8_t *row_farther(const JpegComponent *p, int64_t near, bool lower)
{
    int64_t far = lower ? near + 1 : near - 1;
    far = far < 0 ? 0 : far >= p->height ? p->height - 1 : far;
    return p->plane + far * p->stride * 8;
}

static const uint8_t *row_at(const Upsampling *w, int64_t y)
{
    const JpegComponent *p = w->component;
    const uint8_t       *in = p->plane + y / w->v * p->stride * 8,
                  *far = w->v == 2 ? row_farther(p, y / 2, y % 2) : in;
    bool smooth = p->width > 2; /* as libjpeg: narrower rows are repeated */
    if (!w->row)
        return in;
    if (w->h == 1 && w->v == 2)
        for (int64_t i = 0; i < p->width; i++)
            w->row[i] = (uint8_t)((3 * in[i] + far[i] + 1 + y % 2) >> 2);
    else if (w->h == 2 && w->v <= 2 && smooth) {
        for (int64_t i = 0; i < p->width; i++)
            w->sums[i] = (int16_t)(w->v == 2 ? 3 * in[i] + far[i] : in[i]);
        if (w->v == 2)
            row_double(w->sums, p->width, 8, 7, 4, w->row);
        else
            row_double(w->sums, p->width, 1, 2, 2, w->row);
    } else
        row_repeat(in, p->width, w->h, w->row);
    return w->row;
}

/* ---- colours ---- */

/* JFIF 1.02, with chroma around 128 and constants of 16 bits. */
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

/* As libjpeg decides: a JFIF file has luminance and chroma; else the Adobe marker tells; without
 * either the ids of the components do. */
static bool has_chroma(const Jpeg *j)
{
    if (j->jfif || j->adobe >= 0)
        return j->jfif || j->adobe != 0;
    return j->components[0].id != 'R' || j->components[1].id != 'G' || j->components[2].id != 'B';
}

static size_t row_bytes(const Jpeg *j, const JpegComponent *p)
{
    return (size_t)(j->h_max / p->h) * (size_t)p->width;
}

size_t jpeg_rows_bytes(const Jpeg *j)
{
    size_t room = 0;
    for (int i = 0; i < j->n_components; i++)
        room += work_size(row_bytes(j, &j->components[i])) +
                work_size((size_t)j->components[i].width * sizeof(int16_t));
    return room;
}

void jpeg_pixels(const Jpeg *j, Work *work, uint8_t *to)
{
    Upsampling up[JPEG_COMPONENTS];
    bool       chroma = j->n_components == 3 && has_chroma(j);
    for (int i = 0; i < j->n_components; i++) {
        const JpegComponent *p = &j->components[i];
        up[i] = (Upsampling){ .component = p, .h = j->h_max / p->h, .v = j->v_max / p->v };
        if (up[i].h > 1 || up[i].v > 1) {
            up[i].row = work_take(work, row_bytes(j, p));
            up[i].sums = work_take(work, (size_t)p->width * sizeof(int16_t));
        }
    }
    for (int64_t y = 0; y < j->height; y++, to += j->width * j->n_components) {
        const uint8_t *rows[JPEG_COMPONENTS];
        for (int i = 0; i < j->n_components; i++)
            rows[i] = row_at(&up[i], y);
        if (chroma)
            row_colours(rows[0], rows[1], rows[2], j->width, to);
        else
            for (int64_t x = 0; x < j->width; x++)
                for (int i = 0; i < j->n_components; i++)
                    to[x * j->n_components + i] = rows[i][x];
    }
}
