/* layout_solve.c -- from buffers to offsets: greedy first, then what is needed to come down to the goal.
 *
 * The goal is the arena below which nothing is gained: the capacity, or the largest bound of any
 * part, or what a part that was given up needs anyway. Each part keeps its best layout; whatever
 * stops the work, it has one from greedy placement. Nodes decide, not time, so the same input gives
 * the same layout on any machine.
 */
#include "base/clock.h"
#include "base/text.h"
#include "layout/layout_int.h"

#include <string.h>

enum { SOLVE_FIRST_NODES = 1 << 13 };    /* of the first try; doubled when all preorders had one */

typedef struct Solve {
    Pool    *pool;
    Part    *parts;
    int      n_parts;
    int64_t  capacity;                   /* 0: as small as possible */
    int64_t  nodes, max_nodes;           /* 0: the default for each part */
    double   deadline;                   /* 0: none */
    uint64_t seed;
    bool     cut;
} Solve;

static void solve_greedy(Solve *solve, Part *part, int64_t goal)
{
    Pool    *temp = pool_new(solve->pool, "greedy");
    int32_t *by_rank = NEWN(temp, int32_t, part->n);
    int64_t *offset = NEWN(temp, int64_t, part->n);
    for (int i = 0; i < ORDER_COUNT && (part->top > goal || part->top == INT64_MAX); i++) {
        order_build(part, order_names[i], solve->seed, by_rank);
        int64_t top = greedy_place(temp, part, by_rank, offset);
        if (top < part->top) {
            part->top = top;
            part->order = i;
            memcpy(part->offset, offset, sizeof *offset * (size_t)part->n);
        }
    }
    pool_free(temp);
}

/* One question, put to all preorders in turn with growing limits: some answer it at once, others
 * never (heavy tails). */
static SearchEnd solve_ask(Solve *solve, Part *part, Search **search, int64_t capacity,
                           int64_t nodes)
{
    int64_t end_nodes = solve->nodes + nodes;
    for (int64_t limit = SOLVE_FIRST_NODES;; limit *= 2)
        for (int i = 0; i < ORDER_SEARCH; i++) {
            int64_t left = end_nodes - solve->nodes;
            if (left <= 0)
                return SEARCH_LIMIT;
            SearchEnd end = search_run(search[i], capacity, limit < left ? limit : left,
                                       solve->deadline);
            solve->nodes += search_nodes(search[i]);
            if (end == SEARCH_NONE && part->bound < search_minimum(search[i]))
                part->bound = search_minimum(search[i]);
            if (end == SEARCH_FOUND) {
                search_get(search[i], part->offset);
                part->top = 0;
                for (int32_t k = 0; k < part->n; k++)
                    if (part->top < part->offset[k] + part->items[k].size)
                        part->top = part->offset[k] + part->items[k].size;
            }
            if (end != SEARCH_LIMIT)
                return end;
        }
}

/* Asks for the goal itself first, with most of the nodes: parts that can be solved mostly are
 * solved there, and a capacity is all or nothing. Then by halves between what was refused and
 * found. */
static void solve_search(Solve *solve, Part *part, int64_t goal, int64_t nodes)
{
    Pool    *temp = pool_new(solve->pool, "search");
    int32_t *by_rank = NEWN(temp, int32_t, part->n);
    Search  *search[ORDER_SEARCH];
    for (int i = 0; i < ORDER_SEARCH; i++) {
        order_build(part, order_names[i], solve->seed, by_rank);
        search[i] = search_new(temp, part, by_rank);
    }
    int64_t low = goal, ask = goal;                  /* low: the least that is still worth asking */
    int64_t share = solve->capacity ? nodes - nodes / 8 : nodes / 2;
    while (low < part->top && share > 0 && !solve->cut) {
        int64_t   before = solve->nodes;
        SearchEnd end = solve_ask(solve, part, search, ask, share);
        nodes -= solve->nodes - before;
        share = nodes / 4;
        solve->cut = end == SEARCH_CUT;
        if (end != SEARCH_FOUND)
            low = ask < part->bound ? part->bound : ask + 1;
        ask = low + (part->top - low) / 2;
    }
    pool_free(temp);
}

/* Brings part->top down to the goal, or as near as the nodes allow. */
static void solve_part(Solve *solve, Part *part, int64_t goal)
{
    int64_t left = solve->max_nodes ? solve->max_nodes - solve->nodes : INT64_MAX;
    int64_t spent = climb_improve(solve->pool, part, solve->seed, goal, left, solve->deadline);
    /* The default is about ten seconds: a node's work was measured to grow so with the part. */
    int64_t usual = 40000000000 / (60 * part->n + part->members);
    solve->nodes += spent;
    solve->cut |= part->top > goal && solve->deadline > 0 && clock_now() > solve->deadline;
    if (part->top > goal && part->top <= LAYOUT_SEARCH_BYTES && part->n <= SEARCH_ITEMS)
        solve_search(solve, part, goal, solve->max_nodes ? left - spent : usual);
}

/* Two fixed buffers in each other's way cannot be helped by any layout. */
static Err solve_rocks(const Part *part)
{
    for (int32_t i = 0; part->n_fixed && i < part->n; i++)
        for (int32_t j = i + 1; part->items[i].fixed >= 0 && j < part->n; j++) {
            const Item *a = &part->items[i], *b = &part->items[j];
            if (b->fixed >= 0 && a->first < b->end && b->first < a->end &&
                a->fixed < b->fixed + b->size && b->fixed < a->fixed + a->size)
                return fail(E_PLAN, "buffers %d and %d are alive together and both fixed, at "
                            "offset %lld "
                            "with %lld bytes and at offset %lld with %lld bytes: they overlap",
                            a->buffer, b->buffer, (long long)a->fixed, (long long)a->size,
                            (long long)b->fixed, (long long)b->size);
        }
    return OK;
}

static Err solve_all(Solve *solve, Buffer *buffers, int n, LayoutResult *result)
{
    int64_t least = 0, goal = solve->capacity;
    TRY(parts_build(solve->pool, buffers, n, &solve->parts, &solve->n_parts));
    for (int i = 0; i < solve->n_parts; i++) {
        TRY(solve_rocks(&solve->parts[i]));
        if (result->bound_bytes < solve->parts[i].bound)
            result->bound_bytes = solve->parts[i].bound;
    }
    bool hopeless = solve->capacity && solve->capacity < result->bound_bytes;
    if (goal < result->bound_bytes)
        goal = result->bound_bytes;
    for (int i = 0; i < solve->n_parts; i++) {
        solve_greedy(solve, &solve->parts[i], goal);
        if (solve->parts[i].top == INT64_MAX)
            return fail(E_FORMAT, "no layout of these %d buffers below 2^63 - 1 bytes was found",
                        n);
    }
    for (int i = 0; i < solve->n_parts; i++) {
        Part *part = &solve->parts[i];
        if (part->top > goal && solve->max_nodes >= 0 && !hopeless)
            solve_part(solve, part, goal);
        if (goal < part->top)
            goal = part->top;                    /* the others need not do better than this one */
        if (least < part->bound)
            least = part->bound;
        for (int32_t k = 0; k < part->n; k++)
            buffers[part->items[k].buffer].offset = part->offset[k];
        if (result->arena_bytes < part->top)
            result->arena_bytes = part->top;
    }
    result->proved = result->arena_bytes == least;
    return OK;
}

static Err solve_refuse(int n, int64_t capacity, const LayoutResult *result)
{
    return fail(E_BUDGET, "%d buffers do not fit %s bytes: the least arena %s is %s bytes (%s), "
                "and no layout can be below %s bytes", n, count_text(capacity),
                result->proved ? "possible" : "found", count_text(result->arena_bytes),
                bytes_text(result->arena_bytes), count_text(result->bound_bytes));
}

Err layout_solve(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                 LayoutResult *result)
{
    static const LayoutOptions defaults = { 0 };
    const LayoutOptions *opt = options ? options : &defaults;
    Solve solve = { .pool = pool_new(pool, "layout"), .max_nodes = opt->max_nodes,
        .seed = opt->seed, .capacity = opt->capacity,
        .deadline = opt->time_limit_s > 0 ? clock_now() + opt->time_limit_s : 0 };
    bool    remember = opt->remember && opt->time_limit_s <= 0 && n <= MEMO_BUFFERS;
    MemoKey key = remember ? memo_key(buffers, n, opt) : (MemoKey){ 0 };
    Err     err = OK;
    *result = (LayoutResult){ 0 };
    if (!remember || !memo_find(key, buffers, n, result)) {
        err = solve_all(&solve, buffers, n, result);
        result->n_nodes = solve.nodes;
        result->cut = solve.cut;
        if (!err && remember && solve.nodes)     /* greedy answers are as quickly made again */
            memo_keep(key, buffers, n, result);
    }
    pool_free(solve.pool);
    if (err || !opt->capacity || result->arena_bytes <= opt->capacity)
        return err;
    return solve_refuse(n, opt->capacity, result);
}

Err layout_within(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                  LayoutResult *result)
{
    LayoutOptions how = *options;
    double        end = clock_now() + how.time_limit_s;
    Err           err = layout_solve(pool, buffers, n, &how, result);
    if (err != E_BUDGET || result->proved || result->cut || how.max_nodes < 0)
        return err;
    Buffer      *least = NEWN(pool, Buffer, n);
    LayoutResult at_least;
    int64_t      ask[] = { 0, result->arena_bytes };
    memcpy(least, buffers, sizeof *buffers * (size_t)n);
    /* What the first search ended with counts where it is less and comes again when asked for. */
    for (int i = 0; i < 2 && (i == 0 || ask[i] < result->arena_bytes); i++) {
        how.capacity = ask[i];
        if (how.time_limit_s > 0)
            how.time_limit_s = end - clock_now() > 0.001 ? end - clock_now() : 0.001;
        err = layout_solve(pool, least, n, &how, &at_least);
        if (err && err != E_BUDGET)
            return err;
        if (i == 0 || at_least.arena_bytes == ask[i]) {
            int64_t nodes = result->n_nodes;
            memcpy(buffers, least, sizeof *buffers * (size_t)n);
            *result = at_least;
            result->n_nodes += nodes;
        }
    }
    return result->arena_bytes <= options->capacity
               ? OK
               : solve_refuse(n, options->capacity, result);
}
