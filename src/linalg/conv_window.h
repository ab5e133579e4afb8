/* conv_window.h -- the window of a position of a convolution; for conv_builtin.c and conv_blocks.c.
 *
 * A ConvWindow says which source element a position reads through a tap: along each axis
 *     source = position * step + base + tap * dilate,          zero outside the source.
 * Taps along W and their channels are contiguous in a channels-last image: one line of the window.
 * If they are dilated, or the channels are those of one of several groups, every tap is a line.
 */
#ifndef LINALG_CONV_WINDOW_H
#define LINALG_CONV_WINDOW_H

#include "linalg/linalg.h"
#include "linalg/gemm.h"

typedef struct ConvWindow {
    int64_t         grid[3], taps[3], source[3], step[3], base[3], dilate[3];
    int64_t         channels; /* of the source, in one group */
    int64_t         pixel;    /* elements from one position of the source to the next */
    int64_t         width;    /* elements of a row of the source, as far as this group's reach */
    int64_t         line;     /* elements of a line */
    int64_t         lines;    /* along W: 1, or one for each tap */
    /* backward data: tap t is kernel index first + t*jump */
    int64_t         first[3], jump[3];
    /* backward data: position q is element place + q*spread of dx */
    int64_t         place[3], spread[3];
    const ConvDesc *desc;
    GemmPlan        plan;
} ConvWindow;

typedef struct Origin {
    int64_t image, q[3];
} Origin; /* a position of the grid */

static inline Origin conv_origin(const ConvWindow *w, int64_t i)
{
    Origin o;
    for (int axis = 2; axis >= 0; axis--) {
        o.q[axis] = i % w->grid[axis];
        i /= w->grid[axis];
    }
    o.image = i;
    return o;
}

static inline void conv_next(const ConvWindow *w, Origin *o)
{
    for (int axis = 2; axis >= 0; axis--) {
        if (++o->q[axis] < w->grid[axis])
            return;
        o->q[axis] = 0;
    }
    o->image++;
}

/* Completes a window whose taps, source, dilate and channels are known. */
static inline void conv_window_lines(ConvWindow *w, int64_t pixel)
{
    bool joined = pixel == w->channels && (w->taps[2] == 1 || w->dilate[2] == 1);
    w->pixel = pixel;
    w->width = (w->source[2] - 1) * pixel + w->channels;
    w->lines = joined ? 1 : w->taps[2];
    w->line = joined ? w->taps[2] * w->channels : w->channels;
}

/* n elements of the line of taps td, th, tw, starting at `from`. */
typedef struct WindowSegment {
    int64_t td, th, tw, from, n;
} WindowSegment;

/* Elements [k, end) of a window, as far as they lie in one line. */
static inline WindowSegment conv_segment(const ConvWindow *w, int64_t k, int64_t end)
{
    int64_t line = k / w->line, from = k % w->line, tall = line / w->lines;
    return (WindowSegment){ tall / w->taps[1], tall % w->taps[1], line % w->lines, from,
                            int_min(w->line - from, end - k) };
}

/* How many of the n positions from o on lie in the same row of the grid. */
static inline int64_t conv_run(const ConvWindow *w, const Origin *o, int64_t n)
{
    return int_min(n, w->grid[2] - o->q[2]);
}

/* Where the segment of this position begins in the source: at offset `row` the source's row, in it
 * element `from`, which may lie outside. False: the row itself lies outside. */
static inline bool conv_find(const ConvWindow *w, const Origin *o, WindowSegment l, int64_t *row,
                             int64_t *from)
{
    int64_t d = o->q[0] * w->step[0] + w->base[0] + l.td * w->dilate[0],
            h = o->q[1] * w->step[1] + w->base[1] + l.th * w->dilate[1];
    *row = ((o->image * w->source[0] + d) * w->source[1] + h) * w->source[2] * w->pixel;
    *from = (o->q[2] * w->step[2] + w->base[2] + l.tw * w->dilate[2]) * w->pixel + l.from;
    return d >= 0 && d < w->source[0] && h >= 0 && h < w->source[1];
}

/* Segment l of `count` positions from o on, in one row of the grid, if the image holds all of it:
 * offset *at, and *apart from one position to the next. */
static inline bool conv_held(const ConvWindow *w, const Origin *o, WindowSegment l, int64_t count,
                             int64_t *at, int64_t *apart)
{
    int64_t row, from;
    *apart = w->step[2] * w->pixel;
    if (!conv_find(w, o, l, &row, &from) || from < 0 ||
        from + (count - 1) * *apart + l.n > w->width)
        return false;
    *at = row + from;
    return true;
}

/* Backward data: the kernel index (of KD*KH*KW) of element k of a window. */
static inline int64_t conv_tap(const ConvWindow *w, int64_t k)
{
    const int64_t *kernel = w->desc->kernel;
    int64_t        tap = k / w->channels;
    int64_t        tw = tap % w->taps[2], th = tap / w->taps[2] % w->taps[1],
            td = tap / (w->taps[1] * w->taps[2]);
    int64_t kd = w->first[0] + td * w->jump[0], kh = w->first[1] + th * w->jump[1];
    return (kd * kernel[1] + kh) * kernel[2] + w->first[2] + tw * w->jump[2];
}

/* Blocks of bf16 for AMX (GemmSide.block), conv_blocks.c. */
const uint16_t *conv_block_positions(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                     uint16_t *room, int64_t *ld);
const uint16_t *conv_block_elements(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                    uint16_t *room, int64_t *ld);
const uint16_t *conv_block_weights(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                   uint16_t *room, int64_t *ld);

#endif
