/* budgets.c -- which cards a step fits, and the largest batch that does.
 *
 * "Fits" is everything kept, placed. "Fits re-planned" is proved by the plan of least arena, which
 * is smaller. The largest batch is found by placing: peaks are close to a line in the batch, so a
 * few tries do; every answer was placed and so was its failing neighbour.
 */
#include "report/explain.h"

#include <string.h>

const char *const verdict_words[] = { "fits", "replanned", "no" };

static const int64_t budget_sizes[] = { 8, 12, 16, 24, 40, 80 };     /* GiB */

enum { BATCH_MOST = 1 << 20, TRIES = 64 };   /* a million: no limit that matters */

typedef struct Tried {
    int64_t batch, peak_bytes;
} Tried;

typedef struct Batches {
    const Recipe *recipe;
    const Device *device;
    Tried         list[TRIES];
    int           n;
} Batches;

/* The arena with everything kept at another batch. */
static Err batch_peak(Batches *b, int64_t batch, int64_t *peak_bytes)
{
    for (int i = 0; i < b->n; i++)
        if (b->list[i].batch == batch) {
            *peak_bytes = b->list[i].peak_bytes;
            return OK;
        }
    Pool         *pool = pool_new(NULL, "batch");
    Recipe        recipe = *b->recipe;
    TrainingGraph graph;
    Engine       *engine;
    recipe.batch = batch;
    Err err = recipe_graph(pool, &recipe, false, &graph);
    if (!err)
        err = engine_new(pool, graph.graph, b->device, NULL, &engine);
    if (!err) {
        *peak_bytes = engine->arena_bytes;
        if (b->n < TRIES)
            b->list[b->n++] = (Tried){ batch, *peak_bytes };
    }
    pool_free(pool);
    return err;
}

/* Between a batch that fits and one that does not: where the line through them meets the budget. */
static Err batch_between(Batches *b, int64_t budget, Tried low, Tried high, int64_t *largest)
{
    while (high.batch - low.batch > 1) {
        double slope =
            (double)(high.peak_bytes - low.peak_bytes) / (double)(high.batch - low.batch);
        double  steps = slope > 0 ? (double)(budget - low.peak_bytes) / slope : 1;
        int64_t guess = low.batch + (int64_t)steps, peak;
        guess = guess <= low.batch ? low.batch + 1 : guess >= high.batch ? high.batch - 1 : guess;
        TRY(batch_peak(b, guess, &peak));
        if (peak <= budget)
            low = (Tried){ guess, peak };
        else
            high = (Tried){ guess, peak };
    }
    *largest = low.batch;
    return OK;
}

static Err batch_largest(Batches *b, int64_t budget, int64_t *largest)
{
    Tried low = { 0, 0 }, high = { 1, 0 };
    for (;; high.batch *= 2) {
        TRY(batch_peak(b, high.batch, &high.peak_bytes));
        if (high.peak_bytes > budget)
            break;
        low = high;
        if (high.batch >= BATCH_MOST) {
            *largest = high.batch;
            return OK;
        }
    }
    if (!low.batch) {
        *largest = 0;
        return OK;
    }
    return batch_between(b, budget, low, high, largest);
}

Err budgets_find(Pool *pool, Explained *e, bool batches)
{
    Batches b = { .recipe = e->recipe, .device = e->device };
    int     n = (int)(sizeof budget_sizes / sizeof *budget_sizes);
    e->budgets = NEWN(pool, Budget, n + 1);
    for (int i = 0; i < n; i++)
        e->budgets[e->n_budgets++].asked_bytes = budget_sizes[i] << 30;
    int64_t asked = e->budget_bytes ? e->budget_bytes + e->device->runtime_bytes : 0;
    for (int i = 0; i < n; i++)
        asked = asked == e->budgets[i].asked_bytes ? 0 : asked;
    if (asked)
        e->budgets[e->n_budgets++].asked_bytes = asked;
    b.list[b.n++] = (Tried){ e->recipe->batch, e->sheet->peak_bytes };
    for (int i = 0; i < e->n_budgets; i++) {
        Budget *row = &e->budgets[i];
        row->arena_bytes = row->asked_bytes - e->device->runtime_bytes;
        row->verdict = e->sheet->peak_bytes <= row->arena_bytes ? VERDICT_FITS
                       : e->minimum_bytes && e->minimum_bytes <= row->arena_bytes
                           ? VERDICT_REPLANNED
                           : VERDICT_NO;
        row->largest_batch = -1;
        if (batches)
            TRY(batch_largest(&b, row->arena_bytes, &row->largest_batch));
    }
    return OK;
}
