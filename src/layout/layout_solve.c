/* layout_solve.c -- from buffers to offsets: greedy placement first, then search, down to the goal.
 *
 * The goal is the arena below which nothing is gained: the capacity, or the largest bound of any
 * component, or what a component that could not be improved needs anyway. Each component keeps its
 * best layout; whenever the work stops, it has at least the greedy one. Nodes decide, not time, so
 * the same input gives the same layout on any machine.
 */
#include "base/clock.h"
#include "base/stop.h"
#include "base/text.h"
#include "layout/layout_int.h"

#include <string.h>

enum {
    SOLVE_FIRST_NODES = 1 << 13, /* of the first try; doubled after each round of all preorders */
    SOLVE_FILL_NODES = 512,      /* of a short try of fill.c */
    SOLVE_FILL_PRICE = 32,       /* nodes of fill.c that take the time of one other */
    SOLVE_BEAM_NODES = 1 << 15,  /* of the first tries of beam.c */
    SOLVE_SHARE = 4,             /* nodes of fill.c and of beam.c for each of the first search */
};

typedef struct LayoutSolve {
    Pool      *pool;
    Component *components;
    int        n_components;
    int64_t    capacity;         /* 0: as small as possible */
    int64_t    nodes, max_nodes; /* 0: the default for each component */
    double     deadline;         /* 0: none */
    uint64_t   seed;
    bool       cut;
} LayoutSolve;

static void solve_greedy(LayoutSolve *solve, Component *component, int64_t goal)
{
    Pool    *temp = pool_new(solve->pool, "greedy");
    int32_t *by_rank = NEWN(temp, int32_t, component->n);
    int64_t *offset = NEWN(temp, int64_t, component->n);
    for (int i = 0; i < ORDER_COUNT && (component->top > goal || component->top == INT64_MAX);
         i++) {
        order_build(component, order_names[i], solve->seed, by_rank);
        int64_t top = greedy_place(temp, component, by_rank, offset);
        if (top < component->top) {
            component->top = top;
            component->order = i;
            memcpy(component->offset, offset, sizeof *offset * (size_t)component->n);
        }
    }
    pool_free(temp);
}

static int64_t solve_top(const Component *component, const int64_t *offset)
{
    int64_t top = 0;
    for (int32_t k = 0; k < component->n; k++)
        top = int_max(top, offset[k] + component->items[k].size);
    return top;
}

static void solve_found(Component *component, const int64_t *offset)
{
    component->top = solve_top(component, offset);
    memcpy(component->offset, offset, sizeof *offset * (size_t)component->n);
}

/* 1 1 2 1 1 2 4 ..., from i = 1 (Luby, Sinclair and Zuckerman 1993). */
static int64_t solve_luby(int i)
{
    int k = 1;
    while ((1 << k) - 1 < i)
        k++;
    return i == (1 << k) - 1 ? (int64_t)1 << (k - 1) : solve_luby(i - (1 << (k - 1)) + 1);
}

/* A layout that a search found, unless the padding of the topmost buffer is in the way. */
static SearchEnd solve_take(Component *component, const int64_t *offset, int64_t capacity)
{
    if (solve_top(component, offset) > capacity)
        return SEARCH_LIMIT;
    solve_found(component, offset);
    return SEARCH_FOUND;
}

/* Many short tries of fill.c, each in another order of candidates: it succeeds soon or not at all.
 * `tries` counts those of earlier rounds. */
static SearchEnd solve_fill(LayoutSolve *solve, Component *component, Fill *fill, int64_t capacity,
                            int64_t nodes, int *tries)
{
    static const char *const orders[] = { "WAT", "AW", "SW", "TWA" };
    enum { ORDERS = sizeof orders / sizeof *orders };
    Pool     *temp = pool_new(solve->pool, "fill");
    int32_t  *by_rank = NEWN(temp, int32_t, component->n);
    int64_t  *offset = NEWN(temp, int64_t, component->n), end_nodes = solve->nodes + nodes;
    SearchEnd end = SEARCH_LIMIT;
    while (end == SEARCH_LIMIT && solve->nodes < end_nodes) {
        int     round = (*tries)++ / ORDERS;
        int64_t limit = SOLVE_FILL_NODES * solve_luby(round + 1);
        order_build(component, orders[(*tries - 1) % ORDERS],
                    round ? solve->seed + (uint64_t)*tries : solve->seed, by_rank);
        end = fill_run(fill, by_rank, capacity, limit, solve->deadline);
        solve->nodes += fill_nodes(fill) / SOLVE_FILL_PRICE + 1;
        if (end != SEARCH_FOUND)
            continue;
        fill_get(fill, offset);
        end = solve_take(component, offset, capacity);
    }
    pool_free(temp);
    return end;
}

/* Tries of beam.c, wider and wider; `tries` counts those of earlier rounds. */
static SearchEnd solve_beam(LayoutSolve *solve, Component *component, Beam *beam, int64_t capacity,
                            int64_t nodes, int *tries)
{
    int64_t   end_nodes = solve->nodes + nodes;
    SearchEnd end = SEARCH_LIMIT;
    while (end == SEARCH_LIMIT && solve->nodes < end_nodes) {
        end = beam_run(beam, ++*tries, solve->seed, capacity, end_nodes - solve->nodes,
                       solve->deadline);
        solve->nodes += beam_nodes(beam) + 1;
        if (end != SEARCH_FOUND)
            continue;
        Pool    *temp = pool_new(solve->pool, "offsets");
        int64_t *offset = NEWN(temp, int64_t, component->n);
        beam_get(beam, offset);
        end = solve_take(component, offset, capacity);
        pool_free(temp);
    }
    return end;
}

/* Searches for one capacity with all preorders in turn and growing limits: some answer at once,
 * others never (heavy tails). */
static SearchEnd solve_ask(LayoutSolve *solve, Component *component, LayoutSearch **search,
                           Fill *fill, Beam *beam, int64_t capacity, int64_t nodes)
{
    int64_t end_nodes = solve->nodes + nodes;
    int     tries = 0, beams = 0;
    for (int64_t limit = SOLVE_FIRST_NODES;; limit *= 2) {
        for (int i = 0; i < ORDER_SEARCH; i++) {
            int64_t left = end_nodes - solve->nodes;
            if (left <= 0)
                return SEARCH_LIMIT;
            SearchEnd end = search_run(search[i], capacity, limit < left ? limit : left,
                                       solve->deadline);
            solve->nodes += search_nodes(search[i]);
            if (end == SEARCH_NONE && component->bound < search_minimum(search[i]))
                component->bound = search_minimum(search[i]);
            if (end == SEARCH_FOUND) {
                search_get(search[i], component->offset);
                component->top = solve_top(component, component->offset);
            }
            if (end != SEARCH_LIMIT)
                return end;
        }
        int64_t share = limit == SOLVE_FIRST_NODES ? limit / 2 : SOLVE_SHARE * ORDER_SEARCH * limit;
        SearchEnd end = SEARCH_LIMIT;
        if (fill && solve->nodes < end_nodes)
            end = solve_fill(solve, component, fill, capacity,
                             int_min(share, end_nodes - solve->nodes), &tries);
        if (end == SEARCH_NONE) { /* it proves nothing about paddings */
            fill = NULL;
            end = SEARCH_LIMIT;
        }
        if (end == SEARCH_LIMIT && beam && solve->nodes < end_nodes)
            end = solve_beam(solve, component, beam, capacity,
                             int_min(int_max(share, SOLVE_BEAM_NODES), end_nodes - solve->nodes),
                             &beams);
        if (end != SEARCH_LIMIT)
            return end;
    }
}

/* Tries the goal itself first, with most of the nodes: components that can be solved are usually
 * solved there, and a capacity is all or nothing. Then bisects between what failed and what was
 * found. */
static void solve_search(LayoutSolve *solve, Component *component, int64_t goal, int64_t nodes)
{
    Pool         *temp = pool_new(solve->pool, "search");
    int32_t      *by_rank = NEWN(temp, int32_t, component->n);
    LayoutSearch *search[ORDER_SEARCH];
    for (int i = 0; i < ORDER_SEARCH; i++) {
        order_build(component, order_names[i], solve->seed, by_rank);
        search[i] = search_new(temp, component, by_rank);
    }
    bool    like = fill_applies(component);
    Fill   *fill = like ? fill_new(temp, component) : NULL;
    Beam   *beam = like ? beam_new(temp, component) : NULL;
    int64_t low = goal, ask = goal; /* low: the smallest capacity still worth
                                                      * trying */
    int64_t share = solve->capacity ? nodes - nodes / 8 : nodes / 2;
    while (low < component->top && share > 0 && !solve->cut) {
        int64_t   before = solve->nodes;
        SearchEnd end = solve_ask(solve, component, search, fill, beam, ask, share);
        nodes -= solve->nodes - before;
        share = nodes / 4;
        solve->cut = end == SEARCH_CUT;
        if (end != SEARCH_FOUND)
            low = ask < component->bound ? component->bound : ask + 1;
        ask = low + (component->top - low) / 2;
    }
    pool_free(temp);
}

/* Lowers component->top to the goal, or as near as the nodes allow. */
static void solve_component(LayoutSolve *solve, Component *component, int64_t goal)
{
    int64_t left = solve->max_nodes ? solve->max_nodes - solve->nodes : INT64_MAX;
    int64_t spent = climb_improve(solve->pool, component, solve->seed, goal, left, solve->deadline);
    /* The default is about ten seconds: the measured work per node grows like this with the
     * component. */
    int64_t usual = 40000000000 / (60 * component->n + component->members);
    solve->nodes += spent;
    solve->cut |= component->top > goal && stop_late(solve->deadline);
    if (component->top > goal && component->top <= LAYOUT_SEARCH_BYTES &&
        component->n <= SEARCH_ITEMS)
        solve_search(solve, component, goal, solve->max_nodes ? left - spent : usual);
}

/* No layout exists if two fixed buffers overlap. */
static Err solve_check_fixed(const Component *component)
{
    for (int32_t i = 0; component->n_fixed && i < component->n; i++)
        for (int32_t j = i + 1; component->items[i].fixed >= 0 && j < component->n; j++) {
            const Item *a = &component->items[i], *b = &component->items[j];
            if (b->fixed >= 0 && a->first < b->end && b->first < a->end &&
                a->fixed < b->fixed + b->size && b->fixed < a->fixed + a->size)
                return fail(E_PLAN,
                            "buffers %d and %d are alive together and both fixed, at "
                            "offset %lld "
                            "with %lld bytes and at offset %lld with %lld bytes: they overlap",
                            a->buffer, b->buffer, (long long)a->fixed, (long long)a->size,
                            (long long)b->fixed, (long long)b->size);
        }
    return OK;
}

static Err solve_all(LayoutSolve *solve, Buffer *buffers, int n, LayoutResult *result)
{
    int64_t bound = 0, goal = solve->capacity;
    TRY(components_build(solve->pool, buffers, n, &solve->components, &solve->n_components));
    for (int i = 0; i < solve->n_components; i++) {
        TRY(solve_check_fixed(&solve->components[i]));
        if (result->bound_bytes < solve->components[i].bound)
            result->bound_bytes = solve->components[i].bound;
    }
    bool hopeless = solve->capacity && solve->capacity < result->bound_bytes;
    if (goal < result->bound_bytes)
        goal = result->bound_bytes;
    for (int i = 0; i < solve->n_components; i++) {
        solve_greedy(solve, &solve->components[i], goal);
        if (solve->components[i].top == INT64_MAX)
            return fail(E_FORMAT, "no layout of these %d buffers below 2^63 - 1 bytes was found",
                        n);
    }
    for (int i = 0; i < solve->n_components; i++) {
        Component *component = &solve->components[i];
        if (component->top > goal && solve->max_nodes >= 0 && !hopeless)
            solve_component(solve, component, goal);
        if (goal < component->top)
            goal = component->top; /* the others need not do better than this
                                                       * one */
        if (bound < component->bound)
            bound = component->bound;
        for (int32_t k = 0; k < component->n; k++)
            buffers[component->items[k].buffer].offset = component->offset[k];
        if (result->arena_bytes < component->top)
            result->arena_bytes = component->top;
    }
    result->proved = result->arena_bytes == bound;
    return OK;
}

Err solve_refuse(int n, int64_t capacity, const LayoutResult *result)
{
    return fail(E_BUDGET,
                "%d buffers do not fit %s bytes: the smallest arena %s takes %s bytes (%s), "
                "and no layout can be below %s bytes",
                n, count_text(capacity), result->proved ? "possible" : "found",
                count_text(result->arena_bytes), bytes_text(result->arena_bytes),
                count_text(result->bound_bytes));
}

Err layout_solve(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                 LayoutResult *result)
{
    static const LayoutOptions defaults = { 0 };
    const LayoutOptions       *opt = options ? options : &defaults;
    LayoutSolve                solve = { .pool = pool_new(pool, "layout"),
                                         .max_nodes = opt->max_nodes,
                                         .seed = opt->seed,
                                         .capacity = opt->capacity,
                                         .deadline = opt->time_limit_s > 0 ? clock_now() + opt->time_limit_s : 0 };
    bool    remember = opt->remember && opt->time_limit_s <= 0 && n <= MEMO_BUFFERS;
    MemoKey key = remember ? memo_key(buffers, n, opt) : (MemoKey){ 0 };
    Err     err = OK;
    *result = (LayoutResult){ 0 };
    if (!remember || !memo_find(key, buffers, n, result)) {
        err = solve_all(&solve, buffers, n, result);
        result->n_nodes = solve.nodes;
        result->cut = solve.cut;
        if (!err && remember && solve.nodes) /* greedy answers are quick anyway */
            memo_keep(key, buffers, n, result);
    }
    pool_free(solve.pool);
    if (err || !opt->capacity || result->arena_bytes <= opt->capacity)
        return err;
    return solve_refuse(n, opt->capacity, result);
}
