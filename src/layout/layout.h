/* layout.h -- buffers with lifetimes -> offsets in one arena.
 *
 * Knows nothing of tensors. A buffer takes `size` bytes at every time t with lower <= t < upper;
 * two buffers that are live at the same time must not overlap. Input: sizes and lifetimes. Output:
 * an offset for each buffer, the arena's size, and whether a smaller arena is impossible.
 *
 *        offset
 *          ^    +-------+                     live sum at t: bytes of the buffers live at t;
 *          |    |   c   |   +-----+           lower bound: the largest live sum;
 *          | +--+-------+---+  d  |           arena: the highest end of any buffer;
 *          | |   a    |  b  |     |           gap: arena - lower bound.
 *          +-+--------+-----+-----+--> time
 *
 * layout_solve is clever; layout_check shares no code with it and is proved in its first comment.
 */
#ifndef LAYOUT_LAYOUT_H
#define LAYOUT_LAYOUT_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Buffer {
    int64_t lower, upper; /* live in [lower, upper); lower < upper */
    int64_t size;         /* bytes, > 0 */
    int64_t align;        /* offset is a multiple of this; 0 or 1: any */
    int64_t offset;       /* result; with fixed: given */
    bool    fixed;        /* keep the given offset */
} Buffer;

typedef struct LayoutOptions {
    int64_t  capacity;     /* stop once the arena is this small; 0: as small as possible */
    int64_t  max_nodes;    /* placements tried after the greedy ones; 0: the default effort, about
                              * ten seconds; < 0: greedy only (for a planner's inner loop) */
    double   time_limit_s; /* cuts the search; 0: no limit. Effort, not time, decides the
                              * result */
    uint64_t seed;         /* 0: the preorders as they are; else varied, for another attempt */
    bool     remember;     /* reuse results of earlier searches in this process: for planning,
                              * which places the same plan many times */
} LayoutOptions;

typedef struct LayoutResult {
    int64_t arena_bytes; /* highest end of any buffer */
    int64_t bound_bytes; /* no arena can be smaller: the largest live sum, with the padding that
                              * a common alignment forces, or the end of a fixed buffer */
    int64_t n_nodes;     /* placements tried after the greedy ones */
    bool    proved;      /* no smaller arena exists: it equals the bound, or the search was
                              * exhaustive */
    bool    cut;         /* the time limit ended the search */
} LayoutResult;

/* Always fills in a valid layout, even if the capacity is not reached: then it returns E_BUDGET,
 * with a message that gives the smallest arena found and the bound. Options may be NULL. Only input
 * without any layout fails otherwise: E_FORMAT (a size, time, alignment or fixed offset out of
 * range, 2^63 bytes or more) or E_PLAN (two fixed buffers overlap). The same buffers and options
 * give the same layout, unless the time limit cut the search. */
Err layout_solve(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                 LayoutResult *result);

/* The same for a single request. If the capacity is not reached, it also searches for the smallest
 * arena, because that search may reach it in another way, so that a larger capacity is not refused
 * where a smaller one works. The arena that a refusal names is found again when it is requested,
 * unless a time limit cut the search. */
Err layout_within(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                  LayoutResult *result);

/* Moves buffers that follow each other in time apart, within arena_bytes, the highest end, which
 * does not change (layout/spread.c says why). */
void layout_spread(Pool *pool, Buffer *buffers, int n, int64_t arena_bytes);

/* Checks offsets: within [0, capacity) (capacity < 0: any), aligned, no overlap while live. */
Err layout_check(const Buffer *buffers, int n, int64_t capacity);

/* layout.csv: id,lower,upper,size[,align][,offset] in; the same with offset out. A given offset is
 * fixed; an empty cell leaves the buffer free. */
typedef struct LayoutFile {
    const char **ids;
    Buffer      *buffers;
    int          n;
} LayoutFile;

Err layout_parse(Pool *pool, const char *text, size_t n, LayoutFile *file);
Err layout_read(Pool *pool, const char *path, LayoutFile *file);
Err layout_write(const char *path, const LayoutFile *file);

#endif
