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
#include <string.h>

enum {
    SPREAD_MAX = 30000, /* buffers; the time is quadratic */
    SPREAD_BLOCK = 64,  /* buffers that are compared at once */
    SPREAD_TIME = 1 << 30
};

/* Reach: for how long before and after its lifetime a buffer's place is unused; 0: not moved. */
typedef struct Spread {
    Buffer  *buffers;
    int64_t *reach; /* per buffer */
    int      n;
    /* by offset, padded to whole blocks */
    int32_t *order;
    int32_t *lower, *upper; /* lifetimes, from the first time of all */
    int32_t *from, *until;  /* with their reach */
} Spread;

static void spread_row(Spread *s, int i, int at, int64_t begin)
{
    s->order[i] = at;
    s->lower[i] = (int32_t)(s->buffers[at].lower - begin);
    s->upper[i] = (int32_t)(s->buffers[at].upper - begin);
    s->from[i] = s->lower[i] - (int32_t)s->reach[at];
    s->until[i] = s->upper[i] + (int32_t)s->reach[at];
}

/* Which buffers of a block use their places within `reach` of the lifetime [lower, upper), or would
 * with their own reach? */
static void spread_meet(const Spread *s, int first, int32_t lower, int32_t upper, int32_t reach,
                        uint8_t meet[SPREAD_BLOCK])
{
    const int32_t *starts = s->lower + first, *ends = s->upper + first;
    const int32_t *from = s->from + first, *until = s->until + first;
    for (int i = 0; i < SPREAD_BLOCK; i++)
        meet[i] = ((starts[i] - reach < upper) | (from[i] < upper)) &
                  ((ends[i] + reach > lower) | (until[i] > lower));
}

/* The lowest place that no other buffer uses within `reach` of its lifetime; -1: none. */
static int64_t spread_place(const Spread *s, int at, int64_t begin, int64_t reach,
                            int64_t arena_bytes)
{
    const Buffer *b = &s->buffers[at];
    int32_t       lower = (int32_t)(b->lower - begin), upper = (int32_t)(b->upper - begin);
    int64_t       place = 0;
    for (int first = 0; first < s->n; first += SPREAD_BLOCK) {
        uint8_t meet[SPREAD_BLOCK];
        spread_meet(s, first, lower, upper, (int32_t)reach, meet);
        for (int i = first; i < s->n && i < first + SPREAD_BLOCK; i++) {
            const Buffer *other = &s->buffers[s->order[i]];
            if (!meet[i - first] || other == b || other->offset + other->size <= place)
                continue;
            if (other->offset >= place + b->size)
                return place + b->size <= arena_bytes ? place : -1;
            place = layout_align(other->offset + other->size, b->align > 1 ? b->align : 1);
        }
    }
    return place + b->size <= arena_bytes ? place : -1;
}

/* Sets the offset and the reach of a buffer, and keeps the order sorted. */
static void spread_move(Spread *s, int at, int64_t begin, int64_t offset, int64_t reach)
{
    int32_t *const rows[] = { s->order, s->lower, s->upper, s->from, s->until };
    int            from = 0, to;
    while (s->order[from] != at)
        from++;
    for (to = from; to + 1 < s->n && s->buffers[s->order[to + 1]].offset < offset; to++)
        ;
    while (to <= from && to > 0 && s->buffers[s->order[to - 1]].offset > offset)
        to--;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (to > from)
            memmove(rows[k] + from, rows[k] + from + 1, sizeof(int32_t) * (size_t)(to - from));
        else
            memmove(rows[k] + to + 1, rows[k] + to, sizeof(int32_t) * (size_t)(from - to));
    }
    s->buffers[at].offset = offset;
    s->reach[at] = reach;
    spread_row(s, to, at, begin);
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

static Spread spread_new(Pool *pool, Buffer *buffers, int n)
{
    int rows = (n + SPREAD_BLOCK) / SPREAD_BLOCK * SPREAD_BLOCK;
    return (Spread){ .buffers = buffers,
                     .n = n,
                     .reach = NEWN(pool, int64_t, n + 1),
                     .order = NEWN(pool, int32_t, rows),
                     .lower = NEWN(pool, int32_t, rows),
                     .upper = NEWN(pool, int32_t, rows),
                     .from = NEWN(pool, int32_t, rows),
                     .until = NEWN(pool, int32_t, rows) };
}

void layout_spread(Pool *pool, Buffer *buffers, int n, int64_t arena_bytes)
{
    static const int64_t reaches[] = { 128, 32, 8 };
    int64_t              begin = INT64_MAX, end = INT64_MIN;
    for (int i = 0; i < n; i++) {
        begin = int_min(begin, buffers[i].lower);
        end = int_max(end, buffers[i].upper);
    }
    if (n == 0 || n > SPREAD_MAX || begin < -SPREAD_TIME || end > SPREAD_TIME)
        return;
    Pool      *temp = pool_new(pool, "spread");
    SpreadKey *keys = NEWN(temp, SpreadKey, n), *times = NEWN(temp, SpreadKey, n);
    Spread     s = spread_new(temp, buffers, n);
    for (int i = 0; i < n; i++) {
        keys[i] = (SpreadKey){ buffers[i].offset, i };
        times[i] = (SpreadKey){ buffers[i].lower, i };
    }
    qsort(keys, (size_t)n, sizeof *keys, by_key);
    qsort(times, (size_t)n, sizeof *times, by_key);
    for (int i = 0; i < n; i++)
        spread_row(&s, i, keys[i].index, begin);
    for (size_t r = 0; r < sizeof reaches / sizeof *reaches; r++)
        for (int i = 0; i < n; i++) {
            int     at = times[i].index;
            int64_t place;
            if (s.reach[at] || buffers[at].fixed ||
                buffers[at].offset + buffers[at].size == arena_bytes)
                continue;
            place = spread_place(&s, at, begin, reaches[r], arena_bytes);
            if (place >= 0)
                spread_move(&s, at, begin, place, reaches[r]);
        }
    pool_free(temp);
}
