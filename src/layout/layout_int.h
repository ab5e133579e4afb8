/* layout_int.h -- what the files of the solver share; the checker must not include it.
 *
 * A *section* is a maximal set of buffers that are live at the same time. Two buffers meet in time
 * exactly if they share a section, so sections replace time. A *component* is a run of sections
 * that no buffer enters or leaves: components share nothing and are solved one by one.
 *
 *     time      0 1 2 3 4 5 6 7 8
 *     a         [=====)                   sections     0: a b    1: b c    2: d e
 *     b           [=======)               components   {a b c} = sections 0..1
 *     c                 [===)                          {d e}   = section 2
 *     d                     [===)
 *     e                       [===)
 */
#ifndef LAYOUT_LAYOUT_INT_H
#define LAYOUT_LAYOUT_INT_H

#include "base/int_math.h"
#include "layout/layout.h"

/* Above this the sum of two offsets could overflow: greedy placement only, no search. */
#define LAYOUT_SEARCH_BYTES ((int64_t)1 << 60)

typedef struct Item {   /* one buffer, as its component sees it */
    int32_t first, end; /* its sections [first, end), counted from the component's first */
    int32_t buffer;     /* index into the caller's array */
    int64_t size;       /* bytes */
    int64_t span;       /* size rounded up to the alignment that all buffers share */
    int64_t align;      /* >= 1 */
    int64_t fixed;      /* given offset, or -1 */
    int64_t width;      /* its lifetime */
    int64_t load;       /* the largest live sum of its sections */
} Item;

typedef struct Component {
    Item    *items; /* [n], in order of (first, buffer) */
    int64_t *load;  /* [n_sections] sum of spans */
    int64_t *slack; /* [n_sections] padding that the topmost buffer may save */
    int32_t  n, n_sections, n_fixed;
    int64_t  members; /* sum of live counts over the sections */
    int64_t  bound;   /* no smaller arena can hold this component */
    int64_t  top;     /* smallest arena found so far */
    int64_t *offset;  /* [n] the layout that has it */
    int      order;   /* preorder of the best greedy placement */
} Component;

/* components.c: what to solve. */
Err components_build(Pool *pool, const Buffer *buffers, int n, Component **components,
                     int *n_components);

/* layout_order.c: preorders such as "TWA": sort by these keys, largest first. Fills in items by
 * rank. */
extern const char *const order_names[];
enum { ORDER_COUNT = 6, ORDER_SEARCH = 3 }; /* the search also uses the first few */
void order_build(const Component *component, const char *keys, uint64_t seed, int32_t *by_rank);

/* greedy.c: lowest offset first, ties by rank. Fills in offset and returns the arena, or INT64_MAX
 * if that would exceed int64_t. */
int64_t greedy_place(Pool *pool, const Component *component, const int32_t *by_rank,
                     int64_t *offset);

/* climb.c: round by round, buffers above the goal get better ranks. Returns the number of
 * placements. */
int64_t climb_improve(Pool *pool, Component *component, uint64_t seed, int64_t goal,
                      int64_t max_nodes, double deadline);

/* memo.c: results of earlier searches in this process. */
enum { MEMO_BUFFERS = 1 << 14 }; /* results for more buffers are not kept */
typedef struct MemoKey {
    uint64_t a, b;
} MemoKey;
MemoKey memo_key(const Buffer *buffers, int n, const LayoutOptions *options);
bool    memo_find(MemoKey key, Buffer *buffers, int n, LayoutResult *result);
void    memo_keep(MemoKey key, const Buffer *buffers, int n, const LayoutResult *result);

/* layout_search.c: is there a layout of at most `capacity`? */
/* memory grows with the square: larger components are not searched */
enum { SEARCH_ITEMS = 4096 };
typedef enum SearchEnd { SEARCH_FOUND, SEARCH_NONE, SEARCH_LIMIT, SEARCH_CUT } SearchEnd;
typedef struct LayoutSearch LayoutSearch;
LayoutSearch *search_new(Pool *pool, const Component *component, const int32_t *by_rank);
SearchEnd search_run(LayoutSearch *search, int64_t capacity, int64_t max_nodes, double deadline);
int64_t   search_nodes(const LayoutSearch *search); /* nodes of the last run */
int64_t
     search_minimum(const LayoutSearch *search); /* after SEARCH_NONE: no arena below this exists */
void search_get(const LayoutSearch *search, int64_t *offset); /* after SEARCH_FOUND */

/* fill.c: the same question, asked corner by corner; for dense buffers. SEARCH_NONE proves
 * nothing. */
typedef struct Fill Fill;
bool                fill_applies(const Component *component);
Fill               *fill_new(Pool *pool, const Component *component);
SearchEnd fill_run(Fill *fill, const int32_t *by_rank, int64_t capacity, int64_t max_nodes,
                   double deadline);
int64_t   fill_nodes(const Fill *fill);                /* nodes of the last run */
void      fill_get(const Fill *fill, int64_t *offset); /* after SEARCH_FOUND */

/* beam.c: the same again, with many partial layouts side by side, where fill_applies. SEARCH_LIMIT:
 * this try found none. */
typedef struct Beam Beam;
Beam               *beam_new(Pool *pool, const Component *component);
SearchEnd beam_run(Beam *beam, int try, uint64_t seed, int64_t capacity, int64_t max_nodes,
                   double deadline);
int64_t   beam_nodes(const Beam *beam);                /* nodes of the last run */
void      beam_get(const Beam *beam, int64_t *offset); /* after SEARCH_FOUND */

/* layout_solve.c: the sentence of a request that was not met. */
Err solve_refuse(int n, int64_t capacity, const LayoutResult *result);

/* skyline.c: a height for each section; ranges can be raised and queried for their maximum. */
typedef struct Skyline {
    int64_t *high; /* [2 * n] maximum below this tree node */
    int64_t *all;  /* [2 * n] every leaf below is at least this */
    int32_t  n;    /* leaves, a power of two */
} Skyline;
Skyline skyline_new(Pool *pool, int32_t n);
void    skyline_raise(Skyline *skyline, int32_t first, int32_t end, int64_t height);
int64_t skyline_high(const Skyline *skyline, int32_t first, int32_t end);

/* Most items of a search have an alignment of 1, which needs no division. x <= 2^61,
 * align <= 2^62. */
static inline int64_t layout_align(int64_t x, int64_t align)
{
    return align == 1 ? x : align_up(x, align);
}

#endif
