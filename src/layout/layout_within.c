/* layout_within.c -- one request, with all the effort that a single one deserves.
 *
 * The search is not monotone: a larger capacity may fail where a smaller one is found at once. So a
 * request that failed is answered by the smallest arena that is found, which does not depend on the
 * request: the search for the smallest, then a ladder of arenas from the bound upwards.
 */
#include "base/clock.h"
#include "layout/layout_int.h"

#include <string.h>

enum {
    WITHIN_RUNGS = 512,    /* to one bound above the bound, */
    WITHIN_LAST = 64,      /* of which these are tried, up to 1/8 above it */
    WITHIN_NODES = 120000, /* for each: hard ones are found soon or not at all */
};

typedef struct Within {
    Pool         *pool;
    Buffer       *buffers, *copy;
    int           n;
    LayoutOptions how;
    double        end; /* of the time limit */
    LayoutResult *result;
} Within;

/* Searches once more; keeps the layout if it is smaller. */
static Err within_ask(Within *w, int64_t capacity, int64_t max_nodes, bool exactly)
{
    LayoutResult  found;
    LayoutOptions how = w->how;
    int64_t       nodes = w->result->n_nodes;
    how.capacity = capacity;
    how.max_nodes = max_nodes;
    if (how.time_limit_s > 0)
        how.time_limit_s = w->end - clock_now() > 0.001 ? w->end - clock_now() : 0.001;
    Err err = layout_solve(w->pool, w->copy, w->n, &how, &found);
    if (err && err != E_BUDGET)
        return err;
    bool better = exactly ? found.arena_bytes == capacity
                          : found.arena_bytes < w->result->arena_bytes;
    if (better) {
        memcpy(w->buffers, w->copy, sizeof *w->copy * (size_t)w->n);
        *w->result = found;
    }
    w->result->cut |= found.cut;
    w->result->n_nodes = nodes + found.n_nodes;
    return OK;
}

/* From the bound upwards, until a layout within a rung is found. */
static Err within_ladder(Within *w)
{
    int64_t bound = w->result->bound_bytes, nodes = w->how.max_nodes, rung = bound;
    if (!nodes || nodes > WITHIN_NODES)
        nodes = WITHIN_NODES;
    for (int i = 0; i <= WITHIN_LAST && w->result->arena_bytes > rung && !w->result->cut; i++) {
        TRY(within_ask(w, rung, nodes, false));
        rung = bound + (bound / WITHIN_RUNGS) * (i + 1);
    }
    return OK;
}

Err layout_within(Pool *pool, Buffer *buffers, int n, const LayoutOptions *options,
                  LayoutResult *result)
{
    Within w = { .pool = pool,
                 .buffers = buffers,
                 .n = n,
                 .how = *options,
                 .end = clock_now() + options->time_limit_s,
                 .result = result };
    Err    err = layout_solve(pool, buffers, n, options, result);
    if ((err && err != E_BUDGET) || (!err && options->capacity) || result->proved || result->cut ||
        options->max_nodes < 0)
        return err;
    int64_t named = result->arena_bytes; /* by the request itself: only if it is found again */
    w.copy = NEWN(pool, Buffer, n);
    memcpy(w.copy, buffers, sizeof *buffers * (size_t)n);
    if (options->capacity) {
        result->arena_bytes = INT64_MAX;
        TRY(within_ask(&w, 0, options->max_nodes, false));
    }
    if (!result->proved && !result->cut)
        TRY(within_ladder(&w));
    if (options->capacity && named < result->arena_bytes && !result->cut)
        TRY(within_ask(&w, named, options->max_nodes, true));
    return !options->capacity || result->arena_bytes <= options->capacity
               ? OK
               : solve_refuse(n, options->capacity, result);
}
