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
    int64_t *reach; /* per buffer: for how long before and after its lifetime
                                          * its place is unused; 0: not moved */
    int      n;
} Spread;

/* Time between two lifetimes; 0 or less: they meet. */
static int64_t time_between(const Buffer *a, const Buffer *b)
{
    return a->lower > b->lower ? a->lower - b->upper : b->lower - a->upper;
}

/* The lowest place that no other buffer uses within `reach` of its lifetime; -1: none. */
static int64_t spread_place(const Spread *s, int at, int64_t reach, int64_t arena_bytes)
{
    const Buffer *b = &s->buffers[at];
    int64_t       place = 0;
    for (int i = 0; i < s->n; i++) {
        const Buffer *other = &s->buffers[s->order[i]];
        int64_t       apart = reach > s->reach[s->order[i]] ? reach : s->reach[s->order[i]];
        if (other == b || other->offset + other->size <= place || time_between(b, other) >= apart)
            continue;
        if (other->offset >= place + b->size)
            break;
        place = layout_align(other->offset + other->size, b->align > 1 ? b->align : 1);
    }
    return place + b->size <= arena_bytes ? place : -1;
}

/* Sets the offset of a buffer and keeps the order sorted. */
static void spread_move(Spread *s, int at, int64_t offset)
{
    int i = 0;
    while (s->order[i] != at)
        i++;
    for (; i + 1 < s->n && s->buffers[s->order[i + 1]].offset < offset; i++)
        s->order[i] = s->order[i + 1];
    for (; i > 0 && s->buffers[s->order[i - 1]].offset > offset; i--)
        s->order[i] = s->order[i - 1];
    s->order[i] = at;
    s->buffers[at].offset = offset;
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
                     .reach = NEWN(temp, int64_t, n + 1),
                     .n = n };
    for (int i = 0; i < n; i++) {
        keys[i] = (SpreadKey){ buffers[i].offset, i };
        times[i] = (SpreadKey){ buffers[i].lower, i };
    }
    qsort(keys, (size_t)n, sizeof *keys, by_key);
    qsort(times, (size_t)n, sizeof *times, by_key);
    for (int i = 0; i < n; i++)
        s.order[i] = keys[i].index;
    for (size_t r = 0; r < sizeof reaches / sizeof *reaches; r++)
        for (int i = 0; i < n; i++) {
            int     at = times[i].index;
            int64_t place;
            if (s.reach[at] || buffers[at].fixed ||
                buffers[at].offset + buffers[at].size == arena_bytes)
                continue;
            place = spread_place(&s, at, reaches[r], arena_bytes);
            if (place < 0)
                continue;
            spread_move(&s, at, place);
            s.reach[at] = reaches[r];
        }
    pool_free(temp);
}
