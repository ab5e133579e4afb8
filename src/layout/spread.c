/* spread.c -- moves buffers that follow each other in time to different places, within the same
 * arena.
 *
 * A layout packs tightly everywhere, though only the peak needs it. If a buffer takes the place of
 * one that was just freed, the node that writes it must wait for the last reader of the other;
 * apart, the two can run concurrently (exec/lanes.h). Nothing else changes: lifetimes, the arena's
 * size and the buffers that end at its top remain as they are.
 */
#include "layout/layout_int.h"

#include <stdlib.h>

enum { SPREAD_MAX = 30000 }; /* buffers; the time is quadratic */

typedef struct Spread {
    Buffer  *buffers;
    int     *order; /* by offset */
    /* of the buffers in that order, in rows that a scan reads one after the other */
    int64_t *offset, *end, *lower, *upper;
    int64_t *reach; /* for how long before and after its lifetime the place is unused; 0: not
                     * moved */
    int      n;
} Spread;

/* The lowest place that no other buffer uses within `reach` of the lifetime of the buffer which is
 * the `self`-th by offset; -1: none. */
static int64_t spread_place(const Spread *s, int self, int64_t reach, int64_t arena_bytes)
{
    const Buffer *b = &s->buffers[s->order[self]];
    int64_t       place = 0;
    for (int i = 0; i < s->n; i++) {
        int64_t apart = reach > s->reach[i] ? reach : s->reach[i];
        bool    far = s->upper[i] + apart <= b->lower || b->upper + apart <= s->lower[i];
        if (far || s->end[i] <= place || i == self)
            continue;
        if (s->offset[i] >= place + b->size)
            break;
        place = layout_align(s->end[i], b->align > 1 ? b->align : 1);
    }
    return place + b->size <= arena_bytes ? place : -1;
}

static void spread_put(Spread *s, int i, int at, int64_t reach)
{
    const Buffer *b = &s->buffers[at];
    s->order[i] = at;
    s->offset[i] = b->offset;
    s->end[i] = b->offset + b->size;
    s->lower[i] = b->lower;
    s->upper[i] = b->upper;
    s->reach[i] = reach;
}

/* Sets the offset of the i-th buffer and its reach, and keeps the order. */
static void spread_move(Spread *s, int i, int64_t offset, int64_t reach)
{
    int at = s->order[i];
    for (; i + 1 < s->n && s->offset[i + 1] < offset; i++)
        spread_put(s, i, s->order[i + 1], s->reach[i + 1]);
    for (; i > 0 && s->offset[i - 1] > offset; i--)
        spread_put(s, i, s->order[i - 1], s->reach[i - 1]);
    s->buffers[at].offset = offset;
    spread_put(s, i, at, reach);
}

static int spread_find(const Spread *s, int at)
{
    int i = 0;
    while (s->order[i] != at)
        i++;
    return i;
}

typedef struct SpreadKey {
    int64_t at;
    int     index;
} SpreadKey;

static int by_key(const void *a, const void *b)
{
    const SpreadKey *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

void layout_spread(Pool *pool, Buffer *buffers, int n, int64_t arena_bytes)
{
    static const int64_t reaches[] = { 128, 32, 8 };
    if (n > SPREAD_MAX)
        return;
    Pool      *temp = pool_new(pool, "spread");
    SpreadKey *keys = NEWN(temp, SpreadKey, n + 1), *times = NEWN(temp, SpreadKey, n + 1);
    Spread     s = { .buffers = buffers,
                     .order = NEWN(temp, int, n + 1),
                     .offset = NEWN(temp, int64_t, n + 1),
                     .end = NEWN(temp, int64_t, n + 1),
                     .lower = NEWN(temp, int64_t, n + 1),
                     .upper = NEWN(temp, int64_t, n + 1),
                     .reach = NEWN(temp, int64_t, n + 1),
                     .n = n };
    for (int i = 0; i < n; i++) {
        keys[i] = (SpreadKey){ buffers[i].offset, i };
        times[i] = (SpreadKey){ buffers[i].lower, i };
    }
    qsort(keys, (size_t)n, sizeof *keys, by_key);
    qsort(times, (size_t)n, sizeof *times, by_key);
    for (int i = 0; i < n; i++)
        spread_put(&s, i, keys[i].index, 0);
    for (size_t r = 0; r < sizeof reaches / sizeof *reaches; r++)
        for (int i = 0; i < n; i++) {
            const Buffer *b = &buffers[times[i].index];
            if (b->fixed || b->offset + b->size == arena_bytes)
                continue;
            int self = spread_find(&s, times[i].index);
            if (s.reach[self])
                continue;
            int64_t place = spread_place(&s, self, reaches[r], arena_bytes);
            if (place >= 0)
                spread_move(&s, self, place, reaches[r]);
        }
    pool_free(temp);
}
