/* layout_search.c -- exact: is there a layout within a capacity? Depth-first search after
 * MiniMalloc.
 *
 * Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning"
 * (ASPLOS 2023). Among all layouts take one whose offsets have the smallest sum: every buffer in it
 * rests on others or on the ground, so it is built by placing buffers in order of (offset, rank),
 * each at the lowest offset that those before it leave. The search visits exactly these orders.
 * `low` is that lowest offset for each buffer that is not placed yet. What keeps the tree small:
 *
 *  1. Canonical order: (offset, rank) never falls along a branch.
 *  2. Dominance: nothing is placed at or above `low + size` of a waiting buffer, which could
 *     otherwise drop below it and reduce the sum.
 *  3. Sections: in each section the waiting buffers must be stacked, each at or above its own
 *     `low`, below the capacity. Stacked by rising `low` they reach the smallest height (the
 *     one-machine bound of scheduling with release times; MiniMalloc uses its first step, smallest
 *     `low` + sum).
 *  4. No sibling is tried once a buffer that no waiting buffer meets has failed.
 *  5. If no waiting buffer crosses from one section to the next, both sides are solved alone.
 *  6. A buffer that was passed over (its `low` is before the last placed in canonical order) must
 *     rest on one that still waits and meets it: `low` rises to the smallest such end, or the
 *     branch is dead.
 *
 * Every failure for lack of room is noted with the capacity that would have avoided it. If the
 * search ends without a layout, the smallest of these is a proved bound (as in iterative
 * deepening).
 *
 * Alignment: offsets are multiples of the alignment that all share, so a buffer takes its `span`,
 * except the topmost of a section, which may save its padding (`slack`).
 */
#include "base/stop.h"
#include "layout/layout_int.h"

#include <string.h>

typedef struct TrailEntry {
    int64_t low;
    int32_t rank;
    bool    placed, loose;
} TrailEntry;
typedef struct SearchRange {
    int32_t a, z, lo, hi;
} SearchRange; /* list[a,z) waits in sections [lo,hi) */

struct LayoutSearch {
    const Component *component;
    int32_t          n, n_sections;
    /* by rank */
    int32_t         *first, *end, *item;
    int64_t         *size, *span, *align, *fixed;
    int64_t         *low;   /* lowest possible offset while waiting; its offset once placed */
    bool            *loose; /* low is only a bound, nothing placed ends there: not a
                                  * candidate */
    /* by section */
    /* waiting buffers in both this section and the one before */
    int32_t         *crossing;
    int64_t         *top; /* for rule 3 */
    /* the search */
    /* a stack of lists of waiting ranks, each in order of (low, rank) */
    int32_t         *list;
    int32_t         *raised; /* ranks just raised */
    TrailEntry      *trail;  /* what to undo: old values of `low`, and placements */
    int64_t          n_trail, cap_trail;
    Pool            *pool;
    int64_t          capacity, min_needed, n_nodes, max_nodes;
    double           deadline;
    SearchEnd        ending;
    bool             stopped;
};

LayoutSearch *search_new(Pool *pool, const Component *component, const int32_t *by_rank)
{
    LayoutSearch *s = NEW(pool, LayoutSearch);
    size_t        n = (size_t)component->n, m = (size_t)component->n_sections;
    REQUIRE(component->n <= SEARCH_ITEMS);
    *s = (LayoutSearch){ .n = component->n,
                         .n_sections = component->n_sections,
                         .pool = pool,
                         .component = component,
                         .first = NEWN(pool, int32_t, n),
                         .end = NEWN(pool, int32_t, n),
                         .item = NEWN(pool, int32_t, n),
                         .size = NEWN(pool, int64_t, n),
                         .span = NEWN(pool, int64_t, n),
                         .align = NEWN(pool, int64_t, n),
                         .fixed = NEWN(pool, int64_t, n),
                         .low = NEWN(pool, int64_t, n),
                         .loose = NEWN(pool, bool, n),
                         .crossing = NEWN(pool, int32_t, m),
                         .top = NEWN(pool, int64_t, m),
                         .list = NEWN(pool, int32_t, n * (n + 1)),
                         .raised = NEWN(pool, int32_t, n),
                         .cap_trail = 4 * component->n,
                         .trail = NEWN(pool, TrailEntry, 4 * n) };
    for (int32_t r = 0; r < component->n; r++) {
        const Item *item = &component->items[by_rank[r]];
        s->item[r] = by_rank[r];
        s->first[r] = item->first;
        s->end[r] = item->end;
        s->size[r] = item->size;
        s->span[r] = item->span;
        s->align[r] = item->align;
        s->fixed[r] = item->fixed;
    }
    return s;
}

int64_t search_nodes(const LayoutSearch *s) { return s->n_nodes; }

int64_t search_minimum(const LayoutSearch *s) { return s->min_needed; }

void search_get(const LayoutSearch *s, int64_t *offset)
{
    for (int32_t r = 0; r < s->n; r++)
        offset[s->item[r]] = s->low[r];
}

/* Do `need` bytes fit? If not, no smaller capacity can succeed on this branch. */
static bool search_fits(LayoutSearch *s, int64_t need)
{
    if (need <= s->capacity)
        return true;
    if (need < s->min_needed)
        s->min_needed = need;
    return false;
}

/* Rule 3 for all sections of a range; nothing more will be placed below `at`. */
static bool search_stacks(LayoutSearch *s, SearchRange range, int64_t at)
{
    int64_t *restrict top = s->top;
    const int64_t *slack = s->component->slack;
    int64_t        highest = 0;
    for (int32_t k = range.lo; k < range.hi; k++)
        top[k] = at;
    for (int32_t i = range.a; i < range.z; i++) {
        int32_t r = s->list[i], end = s->end[r];
        int64_t low = s->low[r], span = s->span[r];
        for (int32_t k = s->first[r]; k < end; k++)
            top[k] = (top[k] > low ? top[k] : low) + span;
    }
    for (int32_t k = range.lo; k < range.hi; k++)
        highest = top[k] - slack[k] > highest ? top[k] - slack[k] : highest;
    return search_fits(s, highest);
}

static bool search_before(const LayoutSearch *s, int32_t a, int32_t b)
{
    return s->low[a] != s->low[b] ? s->low[a] < s->low[b] : a < b;
}

static void search_note(LayoutSearch *s, int32_t r, bool placed)
{
    if (s->n_trail == s->cap_trail) {
        size_t bytes = sizeof *s->trail * (size_t)s->cap_trail;
        s->trail = pool_grow(s->pool, s->trail, bytes, 2 * bytes);
        s->cap_trail *= 2;
    }
    s->trail[s->n_trail++] = (TrailEntry){ s->low[r], r, placed, s->loose[r] };
}

static void search_cross(LayoutSearch *s, int32_t r, int32_t step)
{
    for (int32_t k = s->first[r] + 1; k < s->end[r]; k++)
        s->crossing[k] += step;
}

static void search_undo(LayoutSearch *s, int64_t n_trail)
{
    while (s->n_trail > n_trail) {
        TrailEntry last = s->trail[--s->n_trail];
        if (last.placed)
            search_cross(s, last.rank, 1);
        s->low[last.rank] = last.low;
        s->loose[last.rank] = last.loose;
    }
}

/* Sets low[u] and inserts u into `raised`, in order; false if it now ends beyond the capacity. */
static bool search_raise(LayoutSearch *s, int32_t u, int64_t low, bool loose, int32_t *n_raised)
{
    int32_t j = (*n_raised)++; /* usually all are equally low, and the ranks decide */
    search_note(s, u, false);
    s->low[u] = layout_align(low, s->align[u]);
    s->loose[u] = loose;
    for (; j && search_before(s, u, s->raised[j - 1]); j--)
        s->raised[j] = s->raised[j - 1];
    s->raised[j] = u;
    return (s->fixed[u] < 0 || s->low[u] <= s->fixed[u]) & search_fits(s, s->low[u] + s->size[u]);
}

/* The lowest place where a buffer that was passed over can rest, if that is below `rest`: on one of
 * these, which wait in order of `low` and will be placed from `at` upwards. */
static int64_t search_rest(const LayoutSearch *s, int32_t u, const int32_t *list, int32_t n,
                           int64_t at, int64_t rest)
{
    for (int32_t i = 0; i < n && s->low[list[i]] < rest; i++) {
        int32_t v = list[i];
        int64_t low = (s->low[v] > at ? s->low[v] : at) + s->size[v];
        if (low < rest && s->first[v] < s->end[u] && s->first[u] < s->end[v])
            rest = low;
    }
    return rest;
}

/* Writes the buffers that wait once r is placed to list[range.z..), in order, with every buffer
 * that meets r raised above it. False if one of them has no place left. */
static bool search_place(LayoutSearch *s, SearchRange range, int32_t r, SearchRange *below,
                         bool *meets)
{
    int64_t  at = s->low[r], end = at + s->size[r];
    int32_t *list = s->list, *out = list + range.z, n_out = 0, n_raised = 0, n_low = 0;
    bool     fits = true;
    *meets = false;
    for (int32_t i = range.a; i < range.z; i++) {
        int32_t u = list[i];
        if (u == r)
            continue;
        bool meet = s->first[u] < s->end[r] && s->first[r] < s->end[u];
        *meets |= meet;
        if (meet &&
            (s->low[u] < end || (s->loose[u] && s->low[u] == layout_align(end, s->align[u]))))
            fits &= search_raise(s, u, end, false, &n_raised);
        else
            out[n_out++] = u;
    }
    *below = (SearchRange){ range.z, range.z + n_out + n_raised, range.lo, range.hi };
    if (!fits)
        return false;
    while (n_low < n_out && search_before(s, out[n_low], r)) /* rule 6 */
        n_low++;
    for (int32_t i = 0; i < n_low && fits; i++) {
        /* those before it are among the raised */
        int64_t rest = search_rest(s, out[i], out + i + 1, n_out - i - 1, at, INT64_MAX);
        rest = search_rest(s, out[i], s->raised, n_raised, at, rest);
        fits = rest < INT64_MAX && search_raise(s, out[i], rest, true, &n_raised);
    }
    if (!fits)
        return false;
    n_out -= n_low;
    memmove(out, out + n_low, sizeof *out * (size_t)n_out);
    for (int32_t to = n_out + n_raised; n_raised;) /* merge, from the back */
        if (n_out && search_before(s, s->raised[n_raised - 1], out[n_out - 1])) {
            int32_t u = out[--n_out];
            out[--to] = u;
        } else {
            out[--to] = s->raised[--n_raised];
        }
    return true;
}

static bool search_range(LayoutSearch *s, SearchRange range, int64_t at, int32_t rank);

/* Rule 5: solves what still waits after r, one run of sections after the other. */
static bool search_split(LayoutSearch *s, SearchRange range, int32_t r)
{
    int32_t lo = range.lo;
    for (int32_t k = s->first[r] + 1; k <= s->end[r]; k++) {
        bool last = k == s->end[r];
        if (!last && s->crossing[k])
            continue;
        if (last && lo == range.lo) /* no border found: the list can be used as it
                                                  * is */
            return search_range(s, range, s->low[r], r);
        SearchRange run = { range.z, range.z, lo, last ? range.hi : k };
        for (int32_t i = range.a; i < range.z; i++)
            if (s->first[s->list[i]] >= lo && s->first[s->list[i]] < run.hi)
                s->list[run.z++] = s->list[i];
        if (!search_range(s, run, s->low[r], r))
            return false;
        lo = k;
    }
    return true;
}

/* Counts a placement. True: a limit is reached. */
static bool search_stops(LayoutSearch *s)
{
    if (s->n_nodes >= s->max_nodes)
        s->ending = SEARCH_LIMIT;
    else if (s->n_nodes % 1024 == 0 && stop_late(s->deadline))
        s->ending = SEARCH_CUT;
    else
        return s->n_nodes++, false;
    return s->stopped = true;
}

/* Places all of list[a,z), each after (at, rank) in canonical order; false, with nothing changed,
 * if that cannot be done. */
static bool search_range(LayoutSearch *s, SearchRange range, int64_t at, int32_t rank)
{
    int64_t height = INT64_MAX; /* rule 2 */
    for (int32_t i = range.a; i < range.z; i++) {
        int64_t end = s->low[s->list[i]] + s->size[s->list[i]];
        height = end < height ? end : height;
    }
    for (int32_t i = range.a; i < range.z && s->low[s->list[i]] < height; i++) {
        int32_t     r = s->list[i];
        int64_t     n_trail = s->n_trail;
        bool        meets;
        SearchRange below;
        if (s->loose[r] || s->low[r] < at || (s->low[r] == at && r < rank)) /* rules 1 and 6 */
            continue;
        if (s->low[r] > at && i > range.a && !search_stacks(s, range, s->low[r]))
            return false; /* later candidates lie even higher */
        if (search_stops(s))
            return false;
        at = s->low[r];
        rank = r;
        search_note(s, r, true);
        search_cross(s, r, -1);
        if (search_place(s, range, r, &below, &meets) && search_stacks(s, below, at) &&
            search_split(s, below, r))
            return true;
        search_undo(s, n_trail);
        if (!meets || s->stopped)
            return false;
    }
    return range.a == range.z;
}

SearchEnd search_run(LayoutSearch *s, int64_t capacity, int64_t max_nodes, double deadline)
{
    s->capacity = capacity;
    s->min_needed = INT64_MAX;
    s->n_nodes = s->n_trail = 0;
    s->max_nodes = max_nodes;
    s->deadline = deadline;
    s->stopped = false;
    memset(s->crossing, 0, sizeof *s->crossing * (size_t)s->n_sections);
    for (int32_t r = 0; r < s->n; r++) {
        s->low[r] = s->fixed[r] >= 0 ? s->fixed[r] : 0;
        s->loose[r] = false;
        search_cross(s, r, 1);
        int32_t j = r; /* fixed buffers may start higher: keep the order */
        for (; j && search_before(s, r, s->list[j - 1]); j--)
            s->list[j] = s->list[j - 1];
        s->list[j] = r;
    }
    SearchRange all = { 0, s->n, 0, s->n_sections };
    if (search_stacks(s, all, 0) && search_range(s, all, 0, 0))
        return SEARCH_FOUND;
    return s->stopped ? s->ending : SEARCH_NONE;
}
