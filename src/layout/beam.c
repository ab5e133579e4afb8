/* beam.c -- a third search for a layout within a capacity: many partial layouts side by side.
 *
 * A partial layout is a skyline: in each section the placed buffers end at its floor, and what
 * waits goes above. A valley is a flat stretch between two higher walls; what covers one of its
 * sections at its height must lie within the valley:
 *
 *          +----+                 +-----+
 *          |    |                 |     |     A level of the search takes, in each partial layout,
 *     -----+    +--------k--------+     +---  the section k of a valley that the fewest waiting
 *                                             buffers can cover at its height, and makes a child of each.
 *
 * Of all children the W best go on (a beam). Good is a skyline with few steps at borders that
 * waiting buffers cross: those steps must be levelled first, and only sums of sizes that happen to
 * agree can level them. Where a section may waste bytes, one more child closes it: nothing starts
 * at this height. What nothing can cover is closed at once. A closed stretch is raised to its lower
 * wall when both walls stand; what it wastes makes a partial layout worse, and no section may waste
 * more than the capacity less its live sum. A child is dropped if
 *
 *  - waiting buffers stacked by rising lowest offset exceed the capacity (as in layout_search.c);
 *  - no sums of waiting buffers that end or start at a border can level it, though others cross it.
 *
 * Tries differ in their noise and their width. They prove nothing, and handle what fill.c handles.
 */
#include "base/random.h"
#include "base/stop.h"
#include "layout/layout_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEAM_WIDTH = 16,      /* partial layouts of the narrowest beam */
    BEAM_CHILDREN = 64,   /* for each of the beam's width; more are left out */
    BEAM_SUMMED = 9,      /* buffers at one side of a border whose sums are tried, */
    BEAM_PAIRS = 1 << 13, /* and pairs of sums */
    BEAM_BYTES = 1 << 26, /* of all partial layouts */
    BEAM_LEVELS = 6,      /* at most so many per section, besides one for each buffer */
};

/* What makes a partial layout worse, in steps of its skyline. */
static const double beam_new_gap = 2, beam_wider_gap = 0.05; /* a section is closed */

typedef struct BeamState { /* a partial layout */
    int64_t  *floor;       /* [m] the skyline; the capacity once nothing waits there */
    int64_t  *room;        /* [m] bytes that may still be wasted */
    int32_t  *crossing;    /* [m] waiting in both this section and the one before */
    bool     *closed;      /* [m] floor is one above a height at which nothing starts */
    uint64_t *placed;      /* bits of the placed items */
    int32_t   n_left, steps;
    double    price; /* of gaps and what they waste */
} BeamState;

typedef struct BeamChild {
    double  score, price; /* least first */
    int32_t parent, item; /* item < 0: closes section ~item */
    int64_t at;
} BeamChild;

typedef struct BeamMove {
    int32_t parent, item;
    int64_t at;
} BeamMove;

struct Beam {
    const Component *component;
    int32_t          n, m;
    int32_t         *twin;               /* [n] the item before it of the same shape, or -1 */
    int32_t         *starts, *starts_at; /* items by first section: section k has
                                          * starts[starts_at[k], starts_at[k + 1]) */
    int32_t         *ends, *ends_at;     /* the same by the section they end before */
    double           mean;               /* bytes x sections of an item */
    int64_t         *offset;             /* [n] of the layout found */
    /* of one partial layout */
    int64_t         *low, *top; /* [n], [m] lowest offset of what waits; heights of the stacks */
    int32_t         *waiting;   /* [n] by rising low */
    int32_t         *valley;    /* [m] where its valley starts, or -1 */
    int32_t         *count;     /* [m + 1] */
    int32_t          n_waiting;
    double           lost; /* what no placement can use any more, in items */
    /* of one try */
    Pool            *pool, *temp;
    BeamState       *states, *next;
    BeamChild       *children;
    uint64_t        *seen;  /* hashes of the states of a level */
    BeamMove       **moves; /* [level][state] */
    int32_t          width, n_children;
    double           bulk; /* how much more a large buffer is worth */
    RandomKey        key;
    uint64_t         draws;
    int64_t          capacity, n_nodes;
};

static bool beam_alike(const Item *a, const Item *b)
{
    return a->first == b->first && a->end == b->end && a->span == b->span;
}

/* Lists the items by one of their borders, [m + 1]. */
static void beam_list(Beam *b, bool by_end, int32_t *list, int32_t *list_at)
{
    const Item *items = b->component->items;
    for (int32_t i = 0; i < b->n; i++)
        list_at[(by_end ? items[i].end : items[i].first) + 1]++;
    for (int32_t k = 0; k <= b->m; k++)
        list_at[k + 1] += list_at[k];
    for (int32_t i = b->n; i-- > 0;) /* the ends of the lists, until all are filled in */
        list[--list_at[(by_end ? items[i].end : items[i].first) + 1]] = i;
    for (int32_t k = 0; k <= b->m; k++)
        list_at[k] = list_at[k + 1];
    list_at[b->m + 1] = b->n;
}

Beam *beam_new(Pool *pool, const Component *component)
{
    Beam       *b = NEW(pool, Beam);
    const Item *items = component->items;
    size_t      n = (size_t)component->n, m = (size_t)component->n_sections;
    *b = (Beam){ .component = component,
                 .n = component->n,
                 .m = component->n_sections,
                 .twin = NEWN(pool, int32_t, n),
                 .starts = NEWN(pool, int32_t, n),
                 .starts_at = NEWN(pool, int32_t, m + 2),
                 .ends = NEWN(pool, int32_t, n),
                 .ends_at = NEWN(pool, int32_t, m + 2),
                 .offset = NEWN(pool, int64_t, n),
                 .low = NEWN(pool, int64_t, n),
                 .top = NEWN(pool, int64_t, m),
                 .waiting = NEWN(pool, int32_t, n),
                 .valley = NEWN(pool, int32_t, m),
                 .count = NEWN(pool, int32_t, m + 1),
                 .pool = pool };
    beam_list(b, false, b->starts, b->starts_at);
    beam_list(b, true, b->ends, b->ends_at);
    for (int32_t i = 0; i < b->n; i++) {
        int32_t k = items[i].first;
        b->mean += (double)items[i].span * (items[i].end - k) / b->n;
        b->twin[i] = -1;
        for (int32_t j = b->starts_at[k]; b->starts[j] != i; j++)
            if (beam_alike(&items[b->starts[j]], &items[i]))
                b->twin[i] = b->starts[j];
    }
    return b;
}

int64_t beam_nodes(const Beam *b) { return b->n_nodes; }

void beam_get(const Beam *b, int64_t *offset)
{
    memcpy(offset, b->offset, sizeof *offset * (size_t)b->n);
}

static bool beam_waits(const BeamState *s, int32_t i)
{
    return !(s->placed[i / 64] >> (i % 64) & 1);
}

/* Sums of all subsets of what waits in a list; -1: too many. */
static int32_t beam_sums(const Beam *b, const BeamState *s, const int32_t *list, int32_t n,
                         int64_t *sums)
{
    int32_t n_sums = 1, summed = 0;
    sums[0] = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!beam_waits(s, list[i]))
            continue;
        if (++summed > BEAM_SUMMED)
            return -1;
        for (int32_t j = 0; j < n_sums; j++)
            sums[n_sums + j] = sums[j] + b->component->items[list[i]].span;
        n_sums *= 2;
    }
    return n_sums;
}

/* The lowest waiting buffer that crosses a border rests at one height on both sides: what lies
 * below it ends or starts at the border, and wastes no more than there is room for. */
static bool beam_levels(const Beam *b, const BeamState *s, int32_t k)
{
    int64_t ending[1 << BEAM_SUMMED], starting[1 << BEAM_SUMMED];
    if (k <= 0 || k >= b->m || !s->crossing[k] || s->floor[k - 1] == s->floor[k])
        return true;
    int32_t n_ending = beam_sums(b, s, b->ends + b->ends_at[k], b->ends_at[k + 1] - b->ends_at[k],
                                 ending);
    int32_t n_starting = beam_sums(b, s, b->starts + b->starts_at[k],
                                   b->starts_at[k + 1] - b->starts_at[k], starting);
    if (n_ending < 0 || n_starting < 0 || n_ending * n_starting > BEAM_PAIRS)
        return true;
    int64_t step = s->floor[k] - s->floor[k - 1];
    for (int32_t i = 0; i < n_ending; i++)
        for (int32_t j = 0; j < n_starting; j++) {
            int64_t above = starting[j] + step - ending[i]; /* right side over left */
            if (above <= s->room[k - 1] && -above <= s->room[k])
                return true;
        }
    return false;
}

/* Closed sections count as if they were not. */
static int64_t beam_height(const BeamState *s, int32_t k) { return s->floor[k] - s->closed[k]; }

/* Raises closed valleys to their lower wall; false if they waste too much. */
static bool beam_raise(const Beam *b, BeamState *s)
{
    for (int32_t a = 0, z; a < b->m; a = z) {
        int64_t height = s->floor[a];
        bool    open = !s->closed[a];
        for (z = a + 1; z < b->m && s->floor[z] == height; z++)
            open |= !s->closed[z];
        int64_t left = a ? s->floor[a - 1] : INT64_MAX, right = z < b->m ? s->floor[z] : INT64_MAX;
        int64_t wall = left < right ? left : right;
        if (open || height >= b->capacity || wall < height)
            continue;
        for (int32_t k = a; k < z; k++) {
            s->room[k] -= wall - height;
            if (wall == INT64_MAX || s->room[k] < 0)
                return false;
            s->price += (double)(wall - height) / b->mean;
            s->floor[k] = wall;
            s->closed[k] = false;
        }
        z = 0; /* from the start: valleys have joined */
    }
    return true;
}

/* Lists what waits, and ends the sections where nothing does. */
static void beam_wait(Beam *b, BeamState *s)
{
    const Item *items = b->component->items;
    b->n_waiting = 0;
    memset(b->count, 0, sizeof *b->count * (size_t)(b->m + 1));
    for (int32_t i = 0; i < b->n; i++)
        if (beam_waits(s, i)) {
            b->count[items[i].first]++;
            b->count[items[i].end]--;
            b->waiting[b->n_waiting++] = i;
        }
    for (int32_t k = 0, live = 0; k < b->m; k++)
        if (!(live += b->count[k])) {
            s->floor[k] = b->capacity;
            s->closed[k] = false;
        }
}

static void beam_sort(Beam *b)
{
    static const int32_t gaps[] = { 57, 23, 10, 4, 1 }; /* Ciura's, for a Shell sort */
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (int32_t i = gaps[g]; i < b->n_waiting; i++) {
            int32_t item = b->waiting[i], j = i;
            for (; j >= gaps[g] && b->low[b->waiting[j - gaps[g]]] > b->low[item]; j -= gaps[g])
                b->waiting[j] = b->waiting[j - gaps[g]];
            b->waiting[j] = item;
        }
}

/* In every section, does what waits fit above the floor if stacked by rising low? */
static bool beam_stacks(Beam *b, const BeamState *s)
{
    const Item *items = b->component->items;
    int64_t *restrict top = b->top;
    int64_t highest = 0;
    for (int32_t i = 0; i < b->n_waiting; i++) {
        const Item *item = &items[b->waiting[i]];
        int64_t     low = 0;
        for (int32_t k = item->first; k < item->end; k++)
            low = s->floor[k] > low ? s->floor[k] : low;
        b->low[b->waiting[i]] = low;
    }
    beam_sort(b);
    memcpy(top, s->floor, sizeof *top * (size_t)b->m);
    for (int32_t i = 0; i < b->n_waiting; i++) {
        const Item *item = &items[b->waiting[i]];
        int64_t     low = b->low[b->waiting[i]], span = item->span;
        for (int32_t k = item->first; k < item->end; k++)
            top[k] = (top[k] > low ? top[k] : low) + span;
    }
    double lost = 0;
    for (int32_t k = 0; k < b->m; k++) {
        highest = top[k] > highest ? top[k] : highest;
        lost += s->floor[k] < b->capacity ? (double)(top[k] + s->room[k] - b->capacity) : 0;
    }
    b->lost = lost / b->mean;
    return highest <= b->capacity;
}

static void beam_valleys(Beam *b, const BeamState *s)
{
    for (int32_t a = 0, z; a < b->m; a = z) {
        int64_t height = s->floor[a];
        for (z = a + 1; z < b->m && s->floor[z] == height; z++)
            ;
        bool valley = height < b->capacity && (!a || s->floor[a - 1] > height) &&
                      (z == b->m || s->floor[z] > height);
        for (int32_t k = a; k < z; k++)
            b->valley[k] = valley ? a : -1;
    }
}

/* Can a waiting item lie on the floor of a valley? */
static bool beam_lies(const Beam *b, const BeamState *s, int32_t i)
{
    const Item *item = &b->component->items[i];
    int32_t     valley = b->valley[item->first];
    return valley >= 0 && valley == b->valley[item->end - 1] && b->low[i] == s->floor[item->first];
}

/* Counts, for each section, the waiting items that can cover it at its height. */
static void beam_count(Beam *b, const BeamState *s)
{
    memset(b->count, 0, sizeof *b->count * (size_t)(b->m + 1));
    for (int32_t i = 0; i < b->n_waiting; i++)
        if (beam_lies(b, s, b->waiting[i])) {
            b->count[b->component->items[b->waiting[i]].first]++;
            b->count[b->component->items[b->waiting[i]].end]--;
        }
    for (int32_t k = 1; k < b->m; k++)
        b->count[k] += b->count[k - 1];
}

static void beam_close(BeamState *s, int32_t k)
{
    s->floor[k]++;
    s->room[k]--;
    s->closed[k] = true;
}

/* Closes what nothing can cover: 1 if there was any, -1 if there is no room to waste. */
static int beam_shut(const Beam *b, BeamState *s)
{
    int shut = 0;
    for (int32_t k = 0; k < b->m; k++) {
        if (b->valley[k] < 0 || s->closed[k] || b->count[k])
            continue;
        if (s->room[k] <= 0)
            return -1;
        beam_close(s, k);
        shut = 1;
    }
    return shut;
}

/* The section of a valley with the fewest children. */
static int32_t beam_section(const Beam *b, const BeamState *s)
{
    int32_t best = -1, fewest = INT32_MAX;
    for (int32_t k = 0; k < b->m; k++) {
        int32_t count = b->count[k] + (s->room[k] > 0);
        if (b->valley[k] < 0 || s->closed[k])
            continue;
        if (count < fewest || (count == fewest && s->floor[k] < s->floor[best])) {
            best = k;
            fewest = count;
        }
    }
    return best;
}

/* By how much placing an item changes the steps of the skyline. */
static int32_t beam_steps(const Beam *b, const BeamState *s, const Item *item, int64_t at)
{
    int32_t steps = 0, k = item->first;
    int64_t top = at + item->span;
    if (k > 0 && s->crossing[k])
        steps += (beam_height(s, k - 1) != top) - (beam_height(s, k - 1) != at);
    k = item->end;
    if (k < b->m && s->crossing[k])
        steps += (beam_height(s, k) != top) - (beam_height(s, k) != at);
    return steps;
}

/* Is a neighbour of section k closed at the same height? */
static bool beam_widens(const Beam *b, const BeamState *s, int32_t k)
{
    int64_t closed = s->floor[k] + 1;
    return (k > 0 && s->closed[k - 1] && s->floor[k - 1] == closed) ||
           (k + 1 < b->m && s->closed[k + 1] && s->floor[k + 1] == closed);
}

static void beam_child(Beam *b, int32_t parent, int32_t item, int64_t at)
{
    const BeamState *s = &b->states[parent];
    double           price = s->price;
    int32_t          steps = s->steps;
    if (b->n_children == BEAM_CHILDREN * b->width)
        return;
    if (item >= 0) {
        const Item *of = &b->component->items[item];
        price -= b->bulk * sqrt((double)of->span * (of->end - of->first) / b->mean);
        steps += beam_steps(b, s, of, at);
    } else {
        price += beam_widens(b, s, ~item) ? beam_wider_gap : beam_new_gap;
    }
    double score = steps + price + b->lost + (double)random_uniform_at(b->key, b->draws++);
    b->children[b->n_children++] = (BeamChild){ score, price, parent, item, at };
}

/* Adds the children of a partial layout. */
static void beam_expand(Beam *b, int32_t parent)
{
    BeamState *s = &b->states[parent];
    int        shut;
    b->n_nodes++;
    beam_wait(b, s);
    do {
        if (!beam_raise(b, s) || !beam_stacks(b, s))
            return;
        beam_valleys(b, s);
        beam_count(b, s);
    } while ((shut = beam_shut(b, s)) > 0);
    int32_t k = shut ? -1 : beam_section(b, s);
    if (k < 0)
        return;
    s->steps = 0;
    for (int32_t i = 1; i < b->m; i++)
        s->steps += s->crossing[i] && beam_height(s, i) != beam_height(s, i - 1);
    if (s->room[k] > 0)
        beam_child(b, parent, ~k, s->floor[k]);
    for (int32_t i = 0; i < b->n_waiting; i++) {
        int32_t     at = b->waiting[i];
        const Item *item = &b->component->items[at];
        if (item->first <= k && k < item->end && beam_lies(b, s, at) &&
            (b->twin[at] < 0 || !beam_waits(s, b->twin[at])))
            beam_child(b, parent, at, s->floor[k]);
    }
}

static void beam_copy(const Beam *b, BeamState *to, const BeamState *from)
{
    size_t m = (size_t)b->m;
    memcpy(to->floor, from->floor, sizeof *to->floor * m);
    memcpy(to->room, from->room, sizeof *to->room * m);
    memcpy(to->crossing, from->crossing, sizeof *to->crossing * m);
    memcpy(to->closed, from->closed, sizeof *to->closed * m);
    memcpy(to->placed, from->placed, sizeof *to->placed * (size_t)(b->n / 64 + 1));
    to->n_left = from->n_left;
}

/* Turns a copy of its parent into the child; false if it leads nowhere. */
static bool beam_move(const Beam *b, BeamState *s, const BeamChild *child)
{
    s->price = child->price;
    if (child->item < 0) {
        beam_close(s, ~child->item);
        return true;
    }
    const Item *item = &b->component->items[child->item];
    s->placed[child->item / 64] |= (uint64_t)1 << (child->item % 64);
    s->n_left--;
    for (int32_t k = item->first; k < item->end; k++) {
        s->floor[k] = child->at + item->span;
        s->closed[k] = false;
        s->crossing[k] -= k > item->first;
    }
    return beam_levels(b, s, item->first) && beam_levels(b, s, item->end);
}

static uint64_t beam_mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* Notes a state of this level; false if it was there before. */
static bool beam_new_state(Beam *b, const BeamState *s)
{
    uint64_t hash = 1;
    uint32_t slots = 4 * (uint32_t)b->width;
    for (int32_t i = 0; i <= b->n / 64; i++)
        hash = beam_mix(hash, s->placed[i]);
    for (int32_t k = 0; k < b->m; k++)
        if (s->crossing[k] || s->closed[k])
            hash = beam_mix(hash, (uint64_t)s->floor[k]);
    hash |= 1; /* 0: free */
    uint32_t slot = (uint32_t)(hash >> 8) % slots;
    for (; b->seen[slot]; slot = (slot + 1) % slots)
        if (b->seen[slot] == hash)
            return false;
    b->seen[slot] = hash;
    return true;
}

static int beam_by_score(const void *a, const void *b)
{
    const BeamChild *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->parent != y->parent ? (x->parent > y->parent) - (x->parent < y->parent)
                                  : (x->item > y->item) - (x->item < y->item);
}

/* Fills in the next level from the best children; returns its number of states. The last is
 * complete if `complete` says so. */
static int32_t beam_next(Beam *b, BeamMove *moves, bool *complete)
{
    int32_t n = 0;
    qsort(b->children, (size_t)b->n_children, sizeof *b->children, beam_by_score);
    memset(b->seen, 0, sizeof *b->seen * 4 * (size_t)b->width);
    for (int32_t i = 0; i < b->n_children && n < b->width && !*complete; i++) {
        const BeamChild *child = &b->children[i];
        BeamState       *s = &b->next[n];
        beam_copy(b, s, &b->states[child->parent]);
        if (!beam_move(b, s, child) || !beam_new_state(b, s))
            continue;
        *complete = s->n_left == 0;
        moves[n++] = (BeamMove){ child->parent, child->item, child->at };
    }
    BeamState *swap = b->states;
    b->states = b->next;
    b->next = swap;
    return n;
}

static BeamState *beam_states(const Beam *b)
{
    BeamState *states = NEWN(b->temp, BeamState, b->width);
    size_t     m = (size_t)b->m;
    for (int32_t w = 0; w < b->width; w++) {
        states[w].floor = NEWN(b->temp, int64_t, m);
        states[w].room = NEWN(b->temp, int64_t, m);
        states[w].crossing = NEWN(b->temp, int32_t, m);
        states[w].closed = NEWN(b->temp, bool, m);
        states[w].placed = NEWN(b->temp, uint64_t, b->n / 64 + 1);
    }
    return states;
}

/* The empty layout; false if a section holds more than the capacity. */
static bool beam_start(Beam *b)
{
    BeamState  *s = &b->states[0];
    const Item *items = b->component->items;
    s->n_left = b->n;
    for (int32_t k = 0; k < b->m; k++)
        if ((s->room[k] = b->capacity - b->component->load[k]) < 0)
            return false;
    for (int32_t i = 0; i < b->n; i++)
        for (int32_t k = items[i].first + 1; k < items[i].end; k++)
            s->crossing[k]++;
    return true;
}

static SearchEnd beam_levels_down(Beam *b, int64_t max_nodes, double deadline)
{
    int32_t n_levels = b->n + BEAM_LEVELS * b->m, n = beam_start(b);
    b->moves = NEWN(b->temp, BeamMove *, n_levels);
    for (int32_t level = 0; level < n_levels && n; level++) {
        bool complete = false;
        if (b->n_nodes >= max_nodes)
            return SEARCH_LIMIT;
        if (stop_late(deadline))
            return SEARCH_CUT;
        b->n_children = 0;
        for (int32_t w = 0; w < n; w++)
            beam_expand(b, w);
        b->moves[level] = NEWN(b->temp, BeamMove, b->width);
        n = beam_next(b, b->moves[level], &complete);
        if (!complete)
            continue;
        for (int32_t w = n - 1; level >= 0; w = b->moves[level--][w].parent)
            if (b->moves[level][w].item >= 0)
                b->offset[b->moves[level][w].item] = b->moves[level][w].at;
        return SEARCH_FOUND;
    }
    return SEARCH_LIMIT;
}

/* Tries 1, 2, 3, ... have widths in the proportion 1 2 1 4 1 2 1 8 ... */
SearchEnd beam_run(Beam *b, int try, uint64_t seed, int64_t capacity, int64_t max_nodes,
                   double deadline)
{
    int64_t state_bytes = 2 * (21 * (int64_t)b->m + b->n / 8 + 64);
    int64_t widest = int_max(BEAM_BYTES / state_bytes, BEAM_WIDTH);
    b->temp = pool_new(b->pool, "beam");
    b->capacity = layout_align(capacity, b->component->items[0].align);
    b->width = (int32_t)int_min((int64_t)BEAM_WIDTH * (try & -try), widest);
    b->bulk = try % 4 == 3 ? 2 : 0;
    b->key = (RandomKey){ .seed = seed + (uint64_t)try };
    b->draws = 0;
    b->n_nodes = 0;
    b->states = beam_states(b);
    b->next = beam_states(b);
    b->children = NEWN(b->temp, BeamChild, (size_t)BEAM_CHILDREN * (size_t)b->width);
    b->seen = NEWN(b->temp, uint64_t, 4 * (size_t)b->width);
    SearchEnd end = beam_levels_down(b, max_nodes, deadline);
    pool_free(b->temp);
    return end;
}
