/* layout_check.c -- checks a layout: no two buffers that are live at the same time share a byte.
 *
 * Shares nothing with the solver, not even a header. O(n log n), since plans of a hundred thousand
 * buffers are checked, too. Buffers are taken in order of birth. Before buffer b is added, buffers
 * that died by then leave the live set, which is ordered by offset. b is then compared with its two
 * neighbours in that order only. This finds an overlap if there is one:
 *
 *  1. Two buffers that meet in time are in the live set together: when the later one is added, the
 *     earlier one is born and not dead. So it suffices that every addition is checked against all
 *     of the live set.
 *  2. Before the first fault is found, the live buffers are disjoint in memory. Let c overlap b.
 *     If c comes before b in the order, no live d comes between them: c and d are disjoint, so c
 *     would end at or below the start of d, hence at or below the start of b. So c is b's
 *     neighbour. If c comes after b, any live d between them starts at or above b and at or below
 *     c, which starts below the end of b. So d overlaps b, and the nearest such d is b's neighbour.
 *     Either way, if any live buffer overlaps b, a neighbour of b does.
 *
 * tests/layout/layout_check.c compares it with a plain check of every pair.
 */
#include "layout/layout.h"

#include <stdint.h>
#include <stdlib.h>

#define CHECK_ORDER(name, key)                                                                     \
    static int name(const void *a, const void *b)                                                  \
    {                                                                                              \
        const Buffer *x = *(const Buffer *const *)a, *y = *(const Buffer *const *)b;               \
        return x->key < y->key ? -1 : x->key > y->key;                                             \
    }
CHECK_ORDER(by_birth, lower)
CHECK_ORDER(by_death, upper)
CHECK_ORDER(by_offset, offset)

static Err check_alone(const Buffer *b, int i, int64_t capacity)
{
    if (b->lower >= b->upper || b->size <= 0)
        return fail(E_PLAN, "buffer %d has %lld bytes in times [%lld, %lld); both must be positive",
                    i, (long long)b->size, (long long)b->lower, (long long)b->upper);
    if (b->offset < 0)
        return fail(E_PLAN, "buffer %d lies at offset %lld, below 0", i, (long long)b->offset);
    if (b->align > 1 && b->offset % b->align != 0)
        return fail(E_PLAN,
                    "buffer %d lies at offset %lld, which is not a multiple of its "
                    "alignment %lld",
                    i, (long long)b->offset, (long long)b->align);
    if (b->offset > INT64_MAX - b->size)
        return fail(E_PLAN, "buffer %d lies at offset %lld with %lld bytes: it ends beyond 2^63", i,
                    (long long)b->offset, (long long)b->size);
    if (capacity >= 0 && b->offset + b->size > capacity)
        return fail(E_PLAN, "buffer %d takes bytes [%lld, %lld), beyond the capacity of %lld", i,
                    (long long)b->offset, (long long)(b->offset + b->size), (long long)capacity);
    return OK;
}

static Err check_pair(const Buffer *buffers, const Buffer *a, const Buffer *b)
{
    if (a->lower >= b->upper || b->lower >= a->upper || a->offset >= b->offset + b->size ||
        b->offset >= a->offset + a->size)
        return OK;
    int i = (int)(a - buffers), j = (int)(b - buffers);
    return fail(E_PLAN,
                "buffers %d and %d overlap: %d takes bytes [%lld, %lld) in times [%lld, "
                "%lld), %d takes bytes [%lld, %lld) in times [%lld, %lld)",
                i, j, i, (long long)a->offset, (long long)(a->offset + a->size),
                (long long)a->lower, (long long)a->upper, j, (long long)b->offset,
                (long long)(b->offset + b->size), (long long)b->lower, (long long)b->upper);
}

/* The live buffers, as a set of places in the order of offsets: a bit for each place, and above it,
 * level by level, a bit for each word that is not 0. */
enum {
    LIVE_SET_LEVELS = 6
}; /* each level divides by 64: enough for every
                                                   * int */

typedef struct LiveSet {
    uint64_t *bits[LIVE_SET_LEVELS];
} LiveSet;

static LiveSet live_set_new(Pool *pool, int n)
{
    LiveSet t;
    for (int i = 0; i < LIVE_SET_LEVELS; i++) {
        n = n / 64 + 1;
        t.bits[i] = NEWN(pool, uint64_t, n);
    }
    return t;
}

static void live_set_put(LiveSet *t, int at, bool is)
{
    for (int i = 0; i < LIVE_SET_LEVELS; i++, at /= 64) {
        uint64_t bit = (uint64_t)1 << at % 64, *word = &t->bits[i][at / 64];
        bool     had = *word != 0;
        *word = is ? *word | bit : *word & ~bit;
        if (had == (*word != 0))
            return;
    }
}

/* The lowest (up) or highest (down) bit of a word. */
static int bit_first(uint64_t word, bool up)
{
    return up ? __builtin_ctzll(word) : 63 - __builtin_clzll(word);
}

/* The live place next to `at`, above or below it; -1: none. */
static int live_set_next(const LiveSet *t, int at, bool up)
{
    for (int i = 0; i < LIVE_SET_LEVELS; i++, at /= 64) {
        uint64_t self = (uint64_t)1 << at % 64,
                 rest = t->bits[i][at / 64] & (up ? ~(self | (self - 1)) : self - 1);
        if (!rest)
            continue;
        at = at / 64 * 64 + bit_first(rest, up);
        while (i-- > 0)
            at = at * 64 + bit_first(t->bits[i][at], up);
        return at;
    }
    return -1;
}

typedef struct CheckOrders { /* all buffers, in three orders */
    const Buffer **born, **dying, **placed;
    int           *place; /* [buffer] its index in `placed` */
} CheckOrders;

static CheckOrders check_orders_new(Pool *pool, const Buffer *buffers, int n)
{
    CheckOrders o = { NEWN(pool, const Buffer *, n), NEWN(pool, const Buffer *, n),
                      NEWN(pool, const Buffer *, n), NEWN(pool, int, n) };
    for (int i = 0; i < n; i++)
        o.born[i] = o.dying[i] = o.placed[i] = &buffers[i];
    qsort(o.born, (size_t)n, sizeof *o.born, by_birth);
    qsort(o.dying, (size_t)n, sizeof *o.dying, by_death);
    qsort(o.placed, (size_t)n, sizeof *o.placed, by_offset);
    for (int i = 0; i < n; i++)
        o.place[o.placed[i] - buffers] = i;
    return o;
}

Err layout_check(const Buffer *buffers, int n, int64_t capacity)
{
    for (int i = 0; i < n; i++)
        TRY(check_alone(&buffers[i], i, capacity));

    Pool       *pool = pool_new(NULL, "layout check");
    CheckOrders o = check_orders_new(pool, buffers, n);
    LiveSet     live = live_set_new(pool, n);
    Err         err = OK;
    for (int i = 0, dead = 0; i < n && !err; i++) {
        const Buffer *b = o.born[i];
        int           at = o.place[b - buffers];
        for (; o.dying[dead]->upper <= b->lower; dead++)
            live_set_put(&live, o.place[o.dying[dead] - buffers], false);
        for (int up = 0; up < 2 && !err; up++) {
            int beside = live_set_next(&live, at, up);
            if (beside >= 0)
                err = check_pair(buffers, o.placed[beside], b);
        }
        live_set_put(&live, at, true);
    }
    pool_free(pool);
    return err;
}
