/* cut_layouts.h -- hard layouts by construction: a rectangle of time x bytes, cut into buffers.
 *
 * The parts fill the rectangle, so the largest live sum is the capacity at every time, and only a
 * perfect packing fits: the kind of MiniMalloc's challenging instances. Cuts are straight through a
 * part (guillotine) or five parts around a middle one (pinwheel), which no straight cut makes.
 */
#ifndef TESTS_CUT_LAYOUTS_H
#define TESTS_CUT_LAYOUTS_H

#include "base/random.h"
#include "layout/layout.h"

enum { CUT_SIDE = 1024, CUT_UNIT = 1024 }; /* the rectangle in units, and bytes or time of one */

typedef struct CutFamily {
    const char *name;
    double      along;    /* share of cuts along time, which leave lifetimes as they are */
    double      pinwheel; /* share of cuts into five */
    double      even;     /* share of cuts of the largest part; else of any */
    int         time_step, byte_step; /* cuts lie on multiples of these units */
    double      drop; /* share of parts left out again, none of them alive in the middle */
} CutFamily;

static const CutFamily cut_families[] = {
    { "mixed", 0.50, 0.0, 0.5, 1, 1, 0 },    { "long", 0.70, 0.0, 0.5, 1, 1, 0 },
    { "short", 0.35, 0.0, 0.5, 1, 1, 0 },    { "pinwheel", 0.50, 0.4, 0.5, 1, 1, 0 },
    { "wheels", 0.50, 1.0, 0.8, 1, 1, 0 },   { "uneven", 0.55, 0.1, 0.0, 1, 1, 0 },
    { "steps", 0.50, 0.2, 0.5, 4, 1, 0 },    { "coarse", 0.60, 0.2, 0.5, 8, 8, 0 },
    { "holes", 0.50, 0.2, 0.5, 1, 1, 0.05 }, { "gaps", 0.60, 0.2, 0.5, 4, 1, 0.15 },
    { "columns", 0.50, 0.2, 0.5, 16, 1, 0 }, { "grid", 0.60, 0.2, 0.5, 16, 16, 0 },
};
enum {
    CUT_FAMILIES = sizeof cut_families / sizeof *cut_families,
    CUT_SOLVED = 6, /* short tries place the first ones; the others need beam.c */
};

typedef struct CutDraw {
    RandomKey key;
    uint64_t  at;
} CutDraw;

static int64_t cut_below(CutDraw *draw, int64_t n)
{
    return (int64_t)random_below_at(draw->key, draw->at++, (uint32_t)n);
}

static bool cut_chance(CutDraw *draw, double share)
{
    return (double)random_uniform_at(draw->key, draw->at++) < share;
}

/* A multiple of step strictly inside (a, z), or -1. */
static int64_t cut_place(CutDraw *draw, int64_t a, int64_t z, int64_t step)
{
    int64_t first = a / step + 1, n = (z - 1) / step - first + 1;
    return n > 0 ? (first + cut_below(draw, n)) * step : -1;
}

static double cut_area(const Buffer *b) { return (double)(b->upper - b->lower) * (double)b->size; }

static int cut_choose(CutDraw *draw, const CutFamily *family, const Buffer *b, int n)
{
    int best = (int)cut_below(draw, n), tries = cut_chance(draw, family->even) ? n : 3;
    for (int i = 0; i < tries; i++) {
        int other = tries == n ? i : (int)cut_below(draw, n);
        if (cut_area(&b[other]) > cut_area(&b[best]))
            best = other;
    }
    return best;
}

/* One cut of b[at] into two or five parts; returns the new number of parts. */
static int cut_once(CutDraw *draw, const CutFamily *family, Buffer *b, int n, int at)
{
    Buffer  whole = b[at];
    int64_t low = whole.offset, high = low + whole.size;
    int64_t t = cut_place(draw, whole.lower, whole.upper, family->time_step);
    int64_t m = cut_place(draw, low, high, family->byte_step);
    if (cut_chance(draw, family->pinwheel)) {
        int64_t t2 = cut_place(draw, whole.lower, whole.upper, family->time_step);
        int64_t m2 = cut_place(draw, low, high, family->byte_step);
        int64_t t1 = t < t2 ? t : t2, m1 = m < m2 ? m : m2;
        t2 = t < t2 ? t2 : t;
        m2 = m < m2 ? m2 : m;
        if (t1 < 0 || m1 < 0 || t1 == t2 || m1 == m2)
            return n;
        b[at] = (Buffer){ whole.lower, t2, m1 - low, 1, low, false };
        b[n++] = (Buffer){ t2, whole.upper, m2 - low, 1, low, false };
        b[n++] = (Buffer){ t1, whole.upper, high - m2, 1, m2, false };
        b[n++] = (Buffer){ whole.lower, t1, high - m1, 1, m1, false };
        b[n++] = (Buffer){ t1, t2, m2 - m1, 1, m1, false };
        return n;
    }
    bool along = cut_chance(draw, family->along);
    if (along ? m < 0 : t < 0)
        return n;
    b[n] = whole;
    if (along) {
        b[at].size = m - low;
        b[n].offset = m;
        b[n].size = high - m;
    } else {
        b[at].upper = b[n].lower = t;
    }
    return n + 1;
}

/* Takes some parts away; the middle of time stays full, so the bound remains the capacity. */
static int cut_drop(CutDraw *draw, const CutFamily *family, Buffer *b, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        bool middle = b[i].lower <= CUT_SIDE / 2 && CUT_SIDE / 2 < b[i].upper;
        if (middle || !cut_chance(draw, family->drop))
            b[kept++] = b[i];
    }
    return kept;
}

/* Fills in about n buffers, n + 3 at most (b has room for n + 4), in a random order; returns their
 * number. */
static int cut_layout(const CutFamily *family, uint64_t seed, int n, Buffer *b)
{
    CutDraw draw = { .key = { .seed = seed } };
    int     count = 1;
    b[0] = (Buffer){ 0, CUT_SIDE, CUT_SIDE, 1, 0, false };
    while (count < n)
        count = cut_once(&draw, family, b, count, cut_choose(&draw, family, b, count));
    count = cut_drop(&draw, family, b, count);
    for (int i = 0; i < count; i++) {
        int    other = i + (int)cut_below(&draw, count - i);
        Buffer swap = b[other];
        b[other] = b[i];
        b[i] = swap;
        b[i].lower *= CUT_UNIT;
        b[i].upper *= CUT_UNIT;
        b[i].size *= CUT_UNIT;
        b[i].offset = 0;
    }
    return count;
}

#endif
