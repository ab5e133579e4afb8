/* fill.c -- a second search for a layout within a capacity: fills corners instead of buffers.
 *
 * For dense buffers, where every section is full or nearly so. The placed buffers have a skyline
 * over the sections. A valley is a flat stretch between two higher walls; whatever covers its first
 * section at its height must start exactly there and end within the valley, and its last section
 * must be covered alike by one that ends exactly there:
 *
 *          +----+                 +-----+     corners of the valley: l and r
 *          |    |l               r|     |     candidates at l: waiting buffers that start at l
 *     -----+    +-----------------+     +---  and end by r; at r: that end at r and start from l
 *
 * A search node takes the corner with the fewest candidates (none: the branch is dead), tries each
 * of them, first those that end level with a neighbour, then leaves the corner empty: its section is closed at this height. A stretch of closed
 * sections is filled up to its lower wall and wastes that much of each; no section may waste more
 * than the capacity less its live sum. Where all sections are full nothing can be wasted, and most
 * corners have one candidate.
 *
 * Every layout in which each buffer rests on another or on the ground can be built in this way, in
 * one order only. But a search from the ground up (layout_search.c) proves more; this one finds
 * more. Fixed buffers and mixed alignments are not handled.
 */
#include "base/stop.h"
#include "layout/layout_int.h"

#include <string.h>

typedef struct FillTrail {
    int64_t floor, room;
    int32_t section;
} FillTrail;

struct Fill {
    const Component *component;
    int32_t          n, m;                /* items, sections */
    int32_t         *by_first, *first_at; /* items by first section, in order of rank: section k has
                                           * by_first[first_at[k], first_at[k + 1]) */
    int32_t         *by_end, *end_at;     /* the same by last section */
    int64_t         *floor;               /* [m] the skyline; `capacity` once nothing waits there */
    int64_t         *closed;              /* [m] the height at which it was left empty, or -1 */
    int64_t         *room;                /* [m] bytes that may still be wasted */
    int32_t         *n_waiting;           /* [m] */
    int64_t         *offset;              /* [n] of the placed items; -1: waiting */
    FillTrail       *trail;               /* sections raised over empty places */
    int32_t          n_trail, cap_trail, n_left;
    Pool            *pool;
    int64_t          capacity, n_nodes, max_nodes;
    double           deadline;
    SearchEnd        ending;
};

typedef struct Corner {
    int32_t l, r;  /* the open part of the valley */
    bool    right; /* at r, not at l */
    int32_t count; /* candidates; with room to waste one more */
    int64_t height;
} Corner;

bool fill_applies(const Component *component)
{
    for (int32_t i = 0; i < component->n; i++)
        if (component->items[i].fixed >= 0 ||
            component->items[i].align != component->items[0].align)
            return false;
    return component->n <= SEARCH_ITEMS;
}

Fill *fill_new(Pool *pool, const Component *component)
{
    Fill  *f = NEW(pool, Fill);
    size_t n = (size_t)component->n, m = (size_t)component->n_sections;
    *f = (Fill){ .component = component,
                 .n = component->n,
                 .m = component->n_sections,
                 .by_first = NEWN(pool, int32_t, n),
                 .first_at = NEWN(pool, int32_t, m + 1),
                 .by_end = NEWN(pool, int32_t, n),
                 .end_at = NEWN(pool, int32_t, m + 1),
                 .floor = NEWN(pool, int64_t, m),
                 .closed = NEWN(pool, int64_t, m),
                 .room = NEWN(pool, int64_t, m),
                 .n_waiting = NEWN(pool, int32_t, m),
                 .offset = NEWN(pool, int64_t, n),
                 .cap_trail = component->n_sections,
                 .trail = NEWN(pool, FillTrail, m),
                 .pool = pool };
    return f;
}

int64_t fill_nodes(const Fill *f) { return f->n_nodes; }

void fill_get(const Fill *f, int64_t *offset)
{
    memcpy(offset, f->offset, sizeof *offset * (size_t)f->n);
}

/* Lists the items of each section in order of rank. */
static void fill_lists(Fill *f, const int32_t *by_rank)
{
    const Item *items = f->component->items;
    memset(f->first_at, 0, sizeof *f->first_at * (size_t)(f->m + 1));
    memset(f->end_at, 0, sizeof *f->end_at * (size_t)(f->m + 1));
    for (int32_t i = 0; i < f->n; i++) {
        f->first_at[items[i].first]++;
        f->end_at[items[i].end - 1]++;
    }
    for (int32_t k = 0, first = 0, end = 0; k <= f->m; k++) { /* where each list ends */
        f->first_at[k] = first += f->first_at[k];
        f->end_at[k] = end += f->end_at[k];
    }
    for (int32_t rank = f->n; rank-- > 0;) {
        int32_t i = by_rank[rank];
        f->by_first[--f->first_at[items[i].first]] = i;
        f->by_end[--f->end_at[items[i].end - 1]] = i;
    }
}

static bool fill_raise(Fill *f, int32_t k, int64_t height)
{
    if (f->n_trail == f->cap_trail) {
        size_t bytes = sizeof *f->trail * (size_t)f->cap_trail;
        f->trail = pool_grow(f->pool, f->trail, bytes, 2 * bytes);
        f->cap_trail *= 2;
    }
    f->trail[f->n_trail++] = (FillTrail){ f->floor[k], f->room[k], k };
    f->room[k] -= height - f->floor[k];
    f->floor[k] = height;
    return f->room[k] >= 0;
}

static void fill_undo(Fill *f, int32_t n_trail)
{
    while (f->n_trail > n_trail) {
        FillTrail last = f->trail[--f->n_trail];
        f->floor[last.section] = last.floor;
        f->room[last.section] = last.room;
    }
}

static void fill_place(Fill *f, int32_t i)
{
    const Item *item = &f->component->items[i];
    int64_t     top = (f->offset[i] = f->floor[item->first]) + item->span;
    for (int32_t k = item->first; k < item->end; k++)
        f->floor[k] = --f->n_waiting[k] ? top : f->capacity;
    f->n_left--;
}

static void fill_remove(Fill *f, int32_t i)
{
    const Item *item = &f->component->items[i];
    for (int32_t k = item->first; k < item->end; k++) {
        f->floor[k] = f->offset[i];
        f->n_waiting[k]++;
    }
    f->offset[i] = -1;
    f->n_left++;
}

/* The list of items at a corner. */
static const int32_t *fill_list(const Fill *f, const Corner *corner, int32_t *n)
{
    int32_t        k = corner->right ? corner->r - 1 : corner->l;
    const int32_t *at = corner->right ? f->end_at : f->first_at;
    *n = at[k + 1] - at[k];
    return (corner->right ? f->by_end : f->by_first) + at[k];
}

static bool fill_candidate(const Fill *f, const Corner *corner, int32_t i)
{
    const Item *item = &f->component->items[i];
    return f->offset[i] < 0 && item->first >= corner->l && item->end <= corner->r;
}

/* Counts candidates, up to one more than `fewest`. */
static void fill_count(const Fill *f, Corner *corner, int32_t fewest)
{
    int32_t        n;
    const int32_t *list = fill_list(f, corner, &n);
    corner->count = f->room[corner->right ? corner->r - 1 : corner->l] > 0;
    for (int32_t j = 0; j < n && corner->count <= fewest; j++)
        corner->count += fill_candidate(f, corner, list[j]);
}

/* The corner with the fewest candidates; count 0: the branch is dead. Fills up closed valleys. */
static Corner fill_corner(Fill *f)
{
    Corner best = { .count = INT32_MAX };
    for (int32_t a = 0, z; a < f->m && best.count; a = z) {
        int64_t height = f->floor[a];
        for (z = a + 1; z < f->m && f->floor[z] == height; z++)
            ;
        int64_t left = a ? f->floor[a - 1] : INT64_MAX, right = z < f->m ? f->floor[z] : INT64_MAX;
        if (height == f->capacity || left < height || right < height)
            continue;
        Corner corner = { .l = a, .r = z, .height = height };
        while (corner.l < z && f->closed[corner.l] == height)
            corner.l++;
        while (corner.r > corner.l && f->closed[corner.r - 1] == height)
            corner.r--;
        if (corner.l == corner.r) {
            int64_t wall = left < right ? left : right;
            for (int32_t k = a; k < z; k++)
                if (wall == INT64_MAX || !fill_raise(f, k, wall))
                    return (Corner){ 0 };
            best = (Corner){ .count = INT32_MAX };
            z = 0; /* from the start: valleys have joined */
            continue;
        }
        for (int side = 0; side < 2; side++) {
            corner.right = side == 1;
            fill_count(f, &corner, best.count);
            if (corner.count < best.count ||
                (corner.count == best.count && corner.height < best.height))
                best = corner;
        }
    }
    return best;
}

static bool fill_stops(Fill *f)
{
    if (f->n_nodes >= f->max_nodes)
        f->ending = SEARCH_LIMIT;
    else if (f->n_nodes % 1024 == 0 && stop_late(f->deadline))
        f->ending = SEARCH_CUT;
    else
        return f->n_nodes++, false;
    return true;
}

/* Level with a neighbour: the skyline gets simpler. */
static bool fill_level(const Fill *f, int64_t height, int32_t i)
{
    const Item *item = &f->component->items[i];
    int64_t     top = height + item->span;
    return (item->first && f->floor[item->first - 1] == top) ||
           (item->end < f->m && f->floor[item->end] == top);
}

static bool fill_rest(Fill *f);

/* Tries the candidates of a corner that end level with a neighbour, or the others. */
static bool fill_try(Fill *f, const Corner *corner, bool level)
{
    const Item    *items = f->component->items;
    int32_t        n, last = -1;
    const int32_t *list = fill_list(f, corner, &n);
    for (int32_t j = 0; j < n && f->ending == SEARCH_NONE; j++) {
        int32_t i = list[j];
        if (!fill_candidate(f, corner, i) || fill_level(f, corner->height, i) != level ||
            (last >= 0 && items[last].first == items[i].first && items[last].end == items[i].end &&
             items[last].span == items[i].span)) /* the same again */
            continue;
        last = i;
        fill_place(f, i);
        if (fill_rest(f))
            return true;
        fill_remove(f, i);
    }
    return false;
}

/* Places all that wait; false, with nothing changed, if that cannot be done. */
static bool fill_rest(Fill *f)
{
    int32_t n_trail = f->n_trail;
    if (!f->n_left)
        return true;
    if (fill_stops(f))
        return false;
    Corner corner = fill_corner(f);
    if (corner.count && (fill_try(f, &corner, true) || fill_try(f, &corner, false)))
        return true;
    int32_t k = corner.right ? corner.r - 1 : corner.l;
    if (corner.count && f->ending == SEARCH_NONE && f->room[k] > 0) {
        int64_t closed = f->closed[k];
        f->closed[k] = corner.height;
        if (fill_rest(f))
            return true;
        f->closed[k] = closed;
    }
    fill_undo(f, n_trail);
    return false;
}

SearchEnd fill_run(Fill *f, const int32_t *by_rank, int64_t capacity, int64_t max_nodes,
                   double deadline)
{
    f->capacity = layout_align(capacity, f->component->items[0].align);
    f->n_nodes = 0;
    f->max_nodes = max_nodes;
    f->deadline = deadline;
    f->ending = SEARCH_NONE;
    f->n_trail = 0;
    f->n_left = f->n;
    fill_lists(f, by_rank);
    memset(f->n_waiting, 0, sizeof *f->n_waiting * (size_t)f->m);
    for (int32_t i = 0; i < f->n; i++) {
        f->offset[i] = -1;
        for (int32_t k = f->component->items[i].first; k < f->component->items[i].end; k++)
            f->n_waiting[k]++;
    }
    for (int32_t k = 0; k < f->m; k++) {
        f->floor[k] = 0;
        f->closed[k] = -1;
        f->room[k] = f->capacity - f->component->load[k];
        if (f->room[k] < 0)
            return SEARCH_NONE;
    }
    return fill_rest(f) ? SEARCH_FOUND : f->ending;
}
