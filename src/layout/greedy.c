/* greedy.c -- lowest offset first: place the buffer that can lie lowest (ties by rank), repeat.
 *
 * The placed buffers have a skyline over the sections. Its lowest stretch is a valley; the buffers
 * that can lie lowest are those that fit between the valley's walls:
 *
 *          +----+            +-----+          f fits into the valley and is placed at height h;
 *          |    |  +-[f]-+   |     |          if none fits, the valley can never be used again and
 *     -----+    +--+-----+---+     +---       is filled up to its lower wall.
 *               h  <- valley ->
 *
 * Each step places a buffer or merges two stretches, so there are O(n) steps; a tree finds the best
 * waiting buffer inside a valley. Updating the lowest offset of every buffer instead is quadratic
 * (seconds at 20,000 buffers).
 *
 * Fixed buffers are obstacles: they are not part of the skyline. A buffer that would touch one is
 * put aside until the valleys have risen to the place above it.
 */
#include "layout/layout_int.h"

#include <stdlib.h>

typedef struct GreedyEntry {
    int64_t height;
    int32_t key;
} GreedyEntry; /* heap entry, lowest
                                                                              * first */
typedef struct Heap {
    GreedyEntry *at;
    int32_t      n, cap;
    Pool        *pool;
} Heap;

static bool greedy_entry_before(GreedyEntry a, GreedyEntry b)
{
    return a.height != b.height ? a.height < b.height : a.key < b.key;
}

static void heap_add(Heap *heap, GreedyEntry entry)
{
    VEC_ADD(heap->pool, heap->at, heap->n, heap->cap, entry);
    int32_t at = heap->n - 1;
    for (; at && greedy_entry_before(entry, heap->at[(at - 1) / 2]); at = (at - 1) / 2)
        heap->at[at] = heap->at[(at - 1) / 2];
    heap->at[at] = entry;
}

static GreedyEntry heap_take(Heap *heap)
{
    GreedyEntry first = heap->at[0], last = heap->at[--heap->n];
    int32_t     at = 0;
    for (int32_t child; (child = 2 * at + 1) < heap->n; at = child) {
        if (child + 1 < heap->n && greedy_entry_before(heap->at[child + 1], heap->at[child]))
            child++;
        if (!greedy_entry_before(heap->at[child], last))
            break;
        heap->at[at] = heap->at[child];
    }
    heap->at[at] = last;
    return first;
}

/* A tree over the items, which are in order of `first`: for each tree node the best rank below it,
 * where that buffer ends, and the smallest end of all. */
typedef struct Best {
    int32_t rank, rank_end, min_end;
} Best;
typedef struct Waiting {
    Best   *node;
    int32_t n;
} Waiting; /* n leaves, a power of two */

static const Best best_none = { INT32_MAX, INT32_MAX, INT32_MAX };

static void waiting_set(Waiting *waiting, int32_t item, Best best)
{
    int32_t i = item + waiting->n;
    waiting->node[i] = best;
    while (i /= 2) {
        const Best *l = &waiting->node[2 * i], *r = l + 1, *b = l->rank < r->rank ? l : r;
        waiting->node[i] = (Best){ b->rank, b->rank_end,
                                   l->min_end < r->min_end ? l->min_end : r->min_end };
    }
}

/* The smallest rank among items [a,z) that end by `end`, if below best; `node` covers [lo,hi). */
static int32_t waiting_find(const Waiting *waiting, int32_t node, int32_t lo, int32_t hi, int32_t a,
                            int32_t z, int32_t end, int32_t best)
{
    const Best *b = &waiting->node[node];
    if (hi <= a || z <= lo || b->min_end > end || b->rank >= best)
        return best;
    if (a <= lo && hi <= z && b->rank_end <= end)
        return b->rank;
    int32_t mid = lo + (hi - lo) / 2;
    best = waiting_find(waiting, 2 * node, lo, mid, a, z, end, best);
    return waiting_find(waiting, 2 * node + 1, mid, hi, a, z, end, best);
}

/* The skyline: stretches of equal height, found by their first section. */
typedef struct Stretch {
    int64_t height;
    int32_t end, before;
    bool    here;
} Stretch;

typedef struct Greedy {
    const Component *component;
    const int32_t   *by_rank;
    Stretch         *stretch;    /* [n_sections] */
    int32_t         *items_from; /* [n_sections + 1] items whose first section is below this */
    Waiting          waiting;
    /* (height, first section); stale if the stretch has changed */
    Heap             valleys;
    Heap             aside;     /* (lowest offset clear of fixed buffers, rank) */
    const Item     **obstacles; /* fixed items, in order of offset */
    int32_t          n_obstacles;
} Greedy;

/* Saturates at INT64_MAX: a fixed buffer may end near the top of the range. */
static int64_t greedy_align(int64_t low, int64_t align)
{
    int64_t over = low % align;
    return over && __builtin_add_overflow(low, align - over, &low) ? INT64_MAX : low;
}

/* Lowest aligned offset at or above low that touches no fixed buffer. */
static int64_t greedy_clear(const Greedy *g, const Item *item, int64_t low)
{
    low = greedy_align(low, item->align);
    for (int32_t i = 0; i < g->n_obstacles; i++) {
        const Item *obstacle = g->obstacles[i];
        if (obstacle->first < item->end && item->first < obstacle->end &&
            low < obstacle->fixed + obstacle->size && obstacle->fixed - low < item->size)
            low = greedy_align(obstacle->fixed + obstacle->size, item->align);
    }
    return low;
}

static void greedy_wait(Greedy *g, int32_t rank, bool waits)
{
    int32_t i = g->by_rank[rank], end = g->component->items[i].end;
    waiting_set(&g->waiting, i, waits ? (Best){ rank, end, end } : best_none);
}

/* Makes [first, end) one stretch, joined with neighbours of the same height. */
static void greedy_set(Greedy *g, int32_t first, int32_t end, int64_t height)
{
    int32_t before = g->stretch[first].before;
    if (before >= 0 && g->stretch[before].height == height) {
        g->stretch[first].here = false;
        first = before;
        before = g->stretch[first].before;
    }
    if (end < g->component->n_sections && g->stretch[end].height == height) {
        g->stretch[end].here = false;
        end = g->stretch[end].end;
    }
    g->stretch[first] = (Stretch){ height, end, before, true };
    if (end < g->component->n_sections)
        g->stretch[end].before = first;
    heap_add(&g->valleys, (GreedyEntry){ height, first });
}

/* Raises [first, end) of the stretch that starts at `valley`; the rest of it keeps its height. */
static void greedy_raise(Greedy *g, int32_t valley, int32_t first, int32_t end, int64_t height)
{
    Stretch old = g->stretch[valley];
    if (end < old.end) {
        g->stretch[end] = (Stretch){ old.height, old.end, first, true };
        if (old.end < g->component->n_sections)
            g->stretch[old.end].before = end;
        heap_add(&g->valleys, (GreedyEntry){ old.height, end });
    }
    if (first > valley) {
        g->stretch[valley].end = first;
        g->stretch[first].before = valley;
        heap_add(&g->valleys, (GreedyEntry){ old.height, valley });
    }
    greedy_set(g, first, end, height);
}

static int greedy_compare_obstacles(const void *a, const void *b)
{
    const Item *x = *(const Item *const *)a, *y = *(const Item *const *)b;
    return x->fixed < y->fixed ? -1 : x->fixed > y->fixed;
}

static void greedy_init(Greedy *g, Pool *pool, const Component *component, const int32_t *by_rank)
{
    int32_t leaves = 1;
    while (leaves < component->n)
        leaves *= 2;
    *g = (Greedy){ .component = component,
                   .by_rank = by_rank,
                   .stretch = NEWN(pool, Stretch, component->n_sections),
                   .items_from = NEWN(pool, int32_t, component->n_sections + 1),
                   .valleys.pool = pool,
                   .waiting = { NEWN(pool, Best, 2 * leaves), leaves },
                   .aside.pool = pool,
                   .obstacles = NEWN(pool, const Item *, component->n_fixed) };
    for (int32_t i = 0; i < 2 * leaves; i++)
        g->waiting.node[i] = best_none;
    for (int32_t i = 0; i < component->n; i++) {
        g->items_from[component->items[i].first + 1]++;
        if (component->items[i].fixed >= 0)
            g->obstacles[g->n_obstacles++] = &component->items[i];
    }
    for (int32_t k = 0; k < component->n_sections; k++)
        g->items_from[k + 1] += g->items_from[k];
    qsort(g->obstacles, (size_t)g->n_obstacles, sizeof *g->obstacles, greedy_compare_obstacles);
    for (int32_t rank = 0; rank < component->n; rank++)
        if (component->items[by_rank[rank]].fixed < 0)
            greedy_wait(g, rank, true);
    g->stretch[0].before = -1;
    greedy_set(g, 0, component->n_sections, 0);
}

int64_t greedy_place(Pool *pool, const Component *component, const int32_t *by_rank,
                     int64_t *offset)
{
    Pool   *temp = pool_new(pool, "greedy");
    int64_t top = 0;
    int32_t left = component->n - component->n_fixed;
    Greedy  g;
    greedy_init(&g, temp, component, by_rank);
    for (int32_t i = 0; i < component->n; i++)
        if (component->items[i].fixed >= 0) {
            offset[i] = component->items[i].fixed;
            top = top > offset[i] + component->items[i].size ? top
                                                             : offset[i] + component->items[i].size;
        }
    while (left && top < INT64_MAX) {
        GreedyEntry lowest = heap_take(&g.valleys);
        Stretch     valley = g.stretch[lowest.key];
        if (!valley.here || valley.height != lowest.height) /* stale */
            continue;
        while (g.aside.n && g.aside.at[0].height <= valley.height)
            greedy_wait(&g, heap_take(&g.aside).key, true);
        int32_t rank = waiting_find(&g.waiting, 1, 0, g.waiting.n, g.items_from[lowest.key],
                                    g.items_from[valley.end], valley.end, INT32_MAX);
        if (rank == INT32_MAX) { /* fill the valley up to the lower wall */
            int64_t height = g.aside.n ? g.aside.at[0].height : INT64_MAX;
            if (valley.before >= 0 && g.stretch[valley.before].height < height)
                height = g.stretch[valley.before].height;
            if (valley.end < component->n_sections && g.stretch[valley.end].height < height)
                height = g.stretch[valley.end].height;
            greedy_raise(&g, lowest.key, lowest.key, valley.end, height);
            continue;
        }
        int32_t     i = by_rank[rank];
        const Item *item = &component->items[i];
        int64_t     end, low = greedy_clear(&g, item, valley.height);
        greedy_wait(&g, rank, false);
        if (g.n_obstacles && low > greedy_align(valley.height, item->align)) {
            heap_add(&g.aside, (GreedyEntry){ low, rank });
            heap_add(&g.valleys, lowest);
            continue;
        }
        if (__builtin_add_overflow(low, item->size, &end))
            end = INT64_MAX;
        offset[i] = low;
        greedy_raise(&g, lowest.key, item->first, item->end, end);
        top = top > end ? top : end;
        left--;
    }
    pool_free(temp);
    return top;
}
