/* layout.h -- buffers with lifetimes -> offsets in one arena.
 *
 * Knows nothing of tensors. A buffer takes `size` bytes in every time t with lower <= t < upper;
 * two buffers that are alive together may not overlap. What comes in: sizes and lifetimes. What
 * goes out: an offset for each buffer, the arena's size, and whether a smaller arena is impossible.
 *
 *        offset
 *          ^    +-------+                     live sum at t: what must be there;
 *          |    |   c   |   +-----+           lower bound: the largest live sum;
 *          | +--+-------+---+  d  |           arena: the highest end of any buffer;
 *          | |   a    |  b  |     |           gap: arena - lower bound.
 *          +-+--------+-----+-----+--> time
 *
 * layout_solve is clever, layout_check is plain and shares no code with it.
 */
#ifndef LAYOUT_LAYOUT_H
#define LAYOUT_LAYOUT_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Buffer {
    int64_t lower, upper;    /* alive in [lower, upper); lower < upper */
    int64_t size;            /* bytes, > 0 */
    int64_t align;           /* offset is a multiple of this; 0 or 1: any */
    int64_t offset;          /* result; with fixed: given */
    bool    fixed;           /* keep the given offset */
} Buffer;

typedef struct LayoutOptions {
    int64_t  capacity;       /* stop once the arena is at most this; 0: as small as possible */
    int64_t  max_nodes;      /* placements tried after the greedy ones; 0: the default effort, which
                              * is about ten seconds; < 0: greedy only (a planner's inner loop) */
    double   time_limit_s;   /* cut off the search here; 0: no limit. Effort, not time, decides */
    uint64_t seed;           /* 0: the preorders as they are; else varied, for another try */
    bool     remember;       /* answers of this process's last searches are taken again: for
                              * planning, which places the same plan many times */
} LayoutOptions;

typedef struct LayoutResult {
    int64_t arena_bytes;     /* highest end of any buffer */
    int64_t bound_bytes;     /* no arena can be smaller: largest live sum, with the padding that an
                              * alignment shared by all forces, or the end of a fixed buffer */
    int64_t n_nodes;         /* placements tried after the greedy ones */
    bool    proved;          /* no smaller arena exists: it equals the bound, or search ended */
    bool    cut;             /* the time limit ended the search */
} LayoutResult;

/* Offsets are always filled in with a valid layout, also when capacity is not reached: then
 * E_BUDGET is returned with a sentence that names the least arena found and the bound. Options may
 * be NULL. Only input that has no layout ends without one: E_FORMAT (a size, time, alignment or
 * fixed offset out of range, 2^63 bytes or more) or E_PLAN (two fixed buffers in each other's way).
 * The same buffers and options give the same layout, unless the time limit cut the search. */
Err layout_solve(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                 LayoutResult *result);

/* The same for one who asks once, with an answer to lean on: where the capacity is not reached, the
 * smallest arena is looked for as well, since that search may reach it on another way; the arena
 * that a refusal names is found again when it is asked for, unless a time limit cut the search. */
Err layout_within(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                  LayoutResult *result);

/* Moves buffers of a valid layout apart that follow each other in time, within arena_bytes, its
 * highest end, which stays the same (layout/spread.c says what for). */
void layout_spread(Pool *pool, Buffer *buffers, int n, int64_t arena_bytes);

/* Judges offsets: within [0, capacity) (capacity < 0: any), aligned, no overlap while alive. */
Err layout_check(const Buffer *buffers, int n, int64_t capacity);

/* layout.csv: id,lower,upper,size[,align][,offset] in; the same with offset out. An offset that is
 * given is fixed; an empty cell leaves the buffer free. */
typedef struct LayoutFile {
    const char **ids;
    Buffer      *buffers;
    int          n;
} LayoutFile;

Err layout_parse(Pool *pool, const char *text, size_t n, LayoutFile *file);
Err layout_read(Pool *pool, const char *path, LayoutFile *file);
Err layout_write(const char *path, const LayoutFile *file);

#endif
