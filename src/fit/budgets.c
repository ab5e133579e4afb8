/* budgets.c -- which budgets a step fits, and the largest batch that fits each.
 *
 * "Fits" means that everything kept was placed within the budget. "Fits re-planned" means that the
 * plan with the smallest arena is within it. The largest batch is found by placing: the peak is
 * nearly linear in the batch, so a few tries suffice. With everything kept, the answer was placed
 * and the next larger batch was seen to fail. Re-planned, the answer was placed, but a longer
 * search may find a larger one.
 */
#include "base/int_math.h"
#include "fit/explained.h"

#include "base/clock.h"

const char *const verdict_words[] = { "fits", "replanned", "no", "unknown" };

static const int64_t budget_sizes[] = { 8, 12, 16, 24, 40, 80 }; /* GiB */

enum { BATCH_MAX = 1 << 20, TRIES = 128 }; /* a million samples: more than any real batch */

typedef struct Tried {
    int64_t batch, peak_bytes;
} Tried;

typedef struct Batches {
    const Explained *e;
    double           deadline_s; /* of clock_now; 0: everything kept, without a search */
    int              tries;      /* per budget */
    Tried            list[TRIES];
    int              n;
} Batches;

static bool batch_late(const Batches *b)
{
    return b->deadline_s > 0 && clock_now() > b->deadline_s;
}

/* The arena at another batch: with everything kept, or the smallest that a short search finds. A
 * batch that cannot be built (too many elements for an operator) fits no budget. */
static int64_t batch_peak(Batches *b, int64_t batch)
{
    Pool      *pool = pool_new(NULL, "batch");
    Recipe    *recipe = recipe_copy(pool, b->e->recipe);
    FitResult *result = NEW(pool, FitResult);
    FitOptions how = { 0 };
    int64_t    peak = INT64_MAX;
    recipe->batch = batch;
    if (b->deadline_s > 0) {
        recipe->levers.host = b->e->whole_host;
        how = (FitOptions){ .budget_bytes = 1,
                            .effort = EXPLAIN_EFFORT,
                            .time_limit_s = b->deadline_s - clock_now() };
    }
    Err err = fit_plan(pool, recipe, b->e->device, &how, result);
    if ((!err || err == E_BUDGET) && result->engine) /* NULL: the host has no room for state */
        peak = result->engine->arena_bytes;
    if (b->n < TRIES && !batch_late(b)) /* a search that was cut off proves nothing */
        b->list[b->n++] = (Tried){ batch, peak };
    pool_free(pool);
    return peak;
}

static double slope_of(Tried a, Tried b)
{
    return (double)(b.peak_bytes - a.peak_bytes) / (double)(b.batch - a.batch);
}

/* The next batch to try: where the line through the largest batch that fits and the smallest that
 * does not meets the budget. While none has failed, the line goes through the two largest tried. */
static int64_t batch_guess(int64_t budget, Tried below, Tried low, Tried high, int tries)
{
    bool   open = high.peak_bytes == INT64_MAX;
    double slope = !open ? slope_of(low, high) : low.batch ? slope_of(below, low) : 0;
    double guess = slope > 0 ? (double)low.batch + (double)(budget - low.peak_bytes) / slope
                             : 2.0 * (double)low.batch + 1;
    if (tries > 4 && !open) /* not linear: bisect */
        guess = 0.5 * (double)(low.batch + high.batch);
    return guess >= (double)high.batch     ? high.batch - 1
           : guess < (double)low.batch + 1 ? low.batch + 1
                                           : (int64_t)guess;
}

/* -1: the time was up first. A batch known from a smaller budget, or one that leaves a twentieth of
 * this budget free, is then no answer. */
static int64_t batch_largest(Batches *b, int64_t budget)
{
    Tried         below = { 0, b->e->sheet->engine->persistent_bytes }, low = below;
    const Recipe *recipe = b->e->recipe;
    int64_t most = recipe->model->max_batch ? recipe->model->max_batch(recipe->config) : BATCH_MAX;
    Tried   high = { int_min(most, BATCH_MAX) + 1, INT64_MAX };
    bool    found = false, late = false;
    if (low.peak_bytes >= budget && b->deadline_s <= 0)
        return 0;
    for (int i = 0; i < b->n; i++) {
        Tried t = b->list[i];
        if (t.peak_bytes > budget) {
            high = t.batch < high.batch ? t : high;
        } else if (t.batch > low.batch) {
            below = low;
            low = t;
        } else if (t.batch < low.batch && t.batch > below.batch) {
            below = t;
        }
    }
    for (int i = 0; i < b->tries && high.batch - low.batch > 1 && !late; i++) {
        Tried t = { batch_guess(budget, below, low, high, i), INT64_MAX };
        if (!batch_late(b))
            t.peak_bytes = batch_peak(b, t.batch);
        late = batch_late(b);
        if (t.peak_bytes <= budget) {
            below = low;
            low = t;
            found = true;
        } else {
            high = t;
        }
    }
    bool full = found && low.peak_bytes >= budget - budget / 20;
    return late && !full ? -1 : low.batch;
}

void budgets_update(Explained *e)
{
    for (int i = 0; i < e->n_budgets; i++) {
        Budget *row = &e->budgets[i];
        bool    replanned = e->minimum_bytes && e->minimum_bytes <= row->arena_bytes;
        row->verdict = e->sheet->peak_bytes <= row->arena_bytes ? VERDICT_FITS
                       : replanned                              ? VERDICT_REPLANNED
                       : e->minimum_bytes                       ? VERDICT_NO
                                                                : VERDICT_UNKNOWN;
    }
}

void budgets_find(Pool *pool, Explained *e, bool batches)
{
    Batches b = { .e = e, .tries = TRIES };
    int     n = (int)(sizeof budget_sizes / sizeof *budget_sizes);
    e->budgets = NEWN(pool, Budget, n + 1);
    for (int i = 0; i < n; i++)
        e->budgets[e->n_budgets++].asked_bytes = budget_sizes[i] << 30;
    /* The budget that was asked for; on a GPU without one, all of its memory. */
    int64_t asked = e->budget_bytes ? e->budget_bytes + e->device->runtime_bytes
                    : e->device->kind == DEVICE_CUDA
                        ? e->device->memory_bytes + e->device->runtime_bytes
                        : 0;
    for (int i = 0; i < n; i++)
        asked = asked == e->budgets[i].asked_bytes ? 0 : asked;
    if (asked)
        e->budgets[e->n_budgets++].asked_bytes = asked;
    b.list[b.n++] = (Tried){ e->recipe->batch, e->sheet->peak_bytes };
    for (int i = 0; i < e->n_budgets; i++) {
        Budget *row = &e->budgets[i];
        row->arena_bytes = row->asked_bytes - e->device->runtime_bytes;
        row->largest_batch = batches ? batch_largest(&b, row->arena_bytes) : -1;
        row->largest_replanned = -1;
    }
    budgets_update(e);
}

void budgets_replan(Explained *e, double time_limit_s)
{
    Batches b = { .e = e, .tries = 3, .deadline_s = clock_now() + time_limit_s };
    if (e->whole_minimum_bytes)
        b.list[b.n++] = (Tried){ e->recipe->batch, e->whole_minimum_bytes };
    for (int i = 0; i < e->n_budgets; i++) {
        Budget *row = &e->budgets[i];
        row->largest_replanned = batch_largest(&b, row->arena_bytes);
        if (row->largest_replanned >= 0 && row->largest_replanned < row->largest_batch)
            row->largest_replanned = row->largest_batch;
    }
}
