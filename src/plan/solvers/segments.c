/* segments.c -- checkpointing by segments (Chen et al. 2016), their borders chosen by dynamic
 * programming.
 *
 * The input order, up to the fullest moment with everything kept, is divided into segments. What
 * later segments read is kept; what is read only within its own segment and after the fullest
 * moment is dropped, and recomputed from the kept values when it is needed. So the peak is about
 *
 *      all kept values  +  the dropped values of the largest segment
 *
 * For each of several limits on the second term, the borders that minimize the first are found. A
 * value counts once, in the segment that produces it, whether the next segment reads it or a far
 * later one (a long skip). So the sum is over segments, and the search over the possible borders is
 * exact:
 *
 *      f(j) = min over i < j with dropped(i, j) <= limit of f(i) + kept(i, j)
 *
 * Then only as many segments drop their values as the budget requires, the first ones: their second
 * runs happen when memory is empty again. Within them the values that cost most for their bytes are
 * kept: from none of the bytes to three quarters, each choice with its own borders. Blocks of any
 * kind and size are found without being named; in a network of equal blocks the borders are those
 * of the blocks. Every list is evaluated exactly.
 */
#include "plan/solvers/recomputation.h"
#include "plan/solvers/search.h"

#include <stdlib.h>
#include <string.h>

enum { SEGMENTS_BORDERS = 200, SEGMENTS_LIMITS = 8 };

typedef struct Segments {
    const SolverArgs *args;
    Pool             *pool; /* temporary */
    Schedule         *s;
    Recomputation     r;
    int32_t           peak;     /* node of the fullest moment */
    int32_t          *until;    /* [value] its last reader up to the peak */
    bool             *across;   /* [value] read after the peak, and it can be recomputed */
    bool             *cheap;    /* [value] across, and dropped in a segment that drops */
    int32_t          *by_price; /* values across, the most expensive for their bytes first */
    int32_t           n_across;
    int64_t           across_bytes;
    int32_t          *segment; /* [node] up to the peak: its segment, for the borders being
                              * evaluated */
    int32_t          *border;  /* [n_borders] last node of a possible segment; the last one is the
                              * peak */
    int32_t           n_borders;
    /* [i * (n_borders + 1) + j] bytes of the segment after border i - 1, up to border j */
    int64_t          *kept, *lost;
} Segments;

typedef struct Priced {
    double  price;
    int32_t value;
} Priced;

static int segments_dearest(const void *a, const void *b)
{
    const Priced *x = a, *y = b;
    if (x->price != y->price)
        return x->price < y->price ? 1 : -1;
    return x->value - y->value;
}

static void segments_values(Segments *g)
{
    const Task *task = g->args->task;
    g->peak = g->s->node_at[schedule_load(g->s, 0).peak_position];
    for (int32_t v = 0; v < task->n_values; v++) {
        const TaskValue *value = &task->values[v];
        g->until[v] = value->producer;
        for (int32_t r = 0; r < value->n_readers && value->readers[r] <= g->peak; r++)
            g->until[v] = value->readers[r];
        g->across[v] = g->r.last[v] > g->peak && value->producer <= g->peak &&
                       !task->nodes[value->producer].once &&
                       !recomputation_pins(&g->r, v, g->until[v]);
        g->r.window[v] = g->until[v];
    }
    Priced *list = NEWN(g->pool, Priced, task->n_values + 1);
    for (int32_t v = 0; v < task->n_values; v++) {
        double bytes = (double)task->values[v].bytes;
        if (g->across[v] && bytes > 0) {
            list[g->n_across++] = (Priced){ task->nodes[task->values[v].producer].cost / bytes, v };
            g->across_bytes += task->values[v].bytes;
        }
    }
    if (g->n_across > 0)
        qsort(list, (size_t)g->n_across, sizeof *list, segments_dearest);
    for (int32_t i = 0; i < g->n_across; i++)
        g->by_price[i] = list[i].value;
}

/* Keeps this share of the bytes: the values that are most expensive for their bytes. */
static void segments_spare(Segments *g, double share)
{
    int64_t left = (int64_t)(share * (double)g->across_bytes);
    memcpy(g->cheap, g->across, sizeof *g->cheap * (size_t)g->args->task->n_values);
    for (int32_t i = 0; i < g->n_across && left > 0; i++) {
        left -= g->args->task->values[g->by_price[i]].bytes;
        if (left >= 0)
            g->cheap[g->by_price[i]] = false;
    }
}

/* Possible borders: in each of SEGMENTS_BORDERS stretches, the node after which the fewest bytes
 * are live. */
static void segments_borders(Segments *g)
{
    const Task *task = g->args->task;
    int32_t     n = g->peak + 1, stretches = n < SEGMENTS_BORDERS ? n : SEGMENTS_BORDERS;
    int64_t    *over = NEWN(g->pool, int64_t, n + 1), live = 0;
    for (int32_t v = 0; v < task->n_values; v++) {
        if (task->values[v].producer <= g->peak) {
            over[task->values[v].producer] += task->values[v].bytes;
            over[g->until[v]] -= task->values[v].bytes;
        }
    }
    for (int32_t p = 0; p < n; p++)
        over[p] = live += over[p];
    for (int32_t k = 0; k < stretches; k++) {
        int32_t from = (int32_t)((int64_t)n * k / stretches), best = from;
        int32_t to = (int32_t)((int64_t)n * (k + 1) / stretches);
        for (int32_t p = from; p < to; p++)
            best = over[p] <= over[best] ? p : best;
        g->border[g->n_borders++] = best;
    }
    g->border[g->n_borders - 1] = g->peak;
}

/* Computes kept and lost for every segment. A value that is produced before border a and last read
 * before border z is kept by segments that end between them, and lost in those that end later. */
static void segments_bytes(Segments *g)
{
    const Task *task = g->args->task;
    int32_t     n = g->n_borders, w = n + 1, *index = NEWN(g->pool, int32_t, g->peak + 2);
    for (int32_t p = 0, b = 0; p <= g->peak; p++) {
        index[p] = b; /* the first border at or after p */
        b += p == g->border[b];
    }
    memset(g->kept, 0, sizeof *g->kept * (size_t)(w * w));
    memset(g->lost, 0, sizeof *g->lost * (size_t)(w * w));
    for (int32_t v = 0; v < task->n_values; v++) {
        if (task->values[v].producer > g->peak)
            continue;
        int64_t bytes = task->values[v].bytes;
        int32_t a = index[task->values[v].producer], z = index[g->until[v]];
        if (g->across[v] && !g->cheap[v]) /* always kept */
            continue;
        for (int32_t i = 0; i <= a; i++) { /* differences along the ends, summed below */
            g->kept[i * w + a] += bytes;
            g->kept[i * w + z] -= bytes;
            g->lost[i * w + z] += g->cheap[v] ? bytes : 0;
        }
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = i + 1; j < n; j++) {
            g->kept[i * w + j] += g->kept[i * w + j - 1];
            g->lost[i * w + j] += g->lost[i * w + j - 1];
        }
}

/* Finds the borders with the fewest kept bytes such that no segment loses more than limit. Returns
 * their number; 0: none. */
static int32_t segments_choose_ends(const Segments *g, int64_t limit, int32_t *ends)
{
    int32_t n = g->n_borders, w = n + 1, count = 0, from[SEGMENTS_BORDERS + 1];
    int64_t f[SEGMENTS_BORDERS + 1] = { 0 };
    for (int32_t j = 1; j <= n; j++) {
        f[j] = INT64_MAX;
        for (int32_t i = j - 1; i >= 0 && g->lost[i * w + j - 1] <= limit; i--) {
            if (f[i] < INT64_MAX && f[i] + g->kept[i * w + j - 1] < f[j]) {
                f[j] = f[i] + g->kept[i * w + j - 1];
                from[j] = i;
            }
        }
    }
    if (f[n] == INT64_MAX)
        return 0;
    for (int32_t j = n; j > 0; j = from[j])
        ends[count++] = g->border[j - 1];
    for (int32_t i = 0; i < count / 2; i++) {
        int32_t swap = ends[i];
        ends[i] = ends[count - 1 - i];
        ends[count - 1 - i] = swap;
    }
    return count;
}

/* Evaluates the list in which the first n_forgetting segments drop their values. */
static bool segments_evaluate(Segments *g, const int32_t *ends, int32_t n_forgetting, Pool *pool,
                              RunList *out)
{
    const Task *task = g->args->task;
    for (int32_t p = 0, k = 0; p <= g->peak; p++) {
        g->segment[p] = k;
        k += p == ends[k];
    }
    for (int32_t v = 0; v < task->n_values; v++) {
        int32_t producer = task->values[v].producer,
                k = producer > g->peak ? n_forgetting : g->segment[producer];
        bool inner = k < n_forgetting && g->until[v] <= ends[k] && (g->cheap[v] || !g->across[v]);
        g->r.dropped[v] = inner && g->cheap[v];
        g->r.kept[v] = k < n_forgetting && !inner;
    }
    if (!recomputation_list(&g->r))
        return false;
    schedule_set(g->s, g->r.runs, g->r.n);
    int64_t budget = g->args->budget_bytes;
    RunList list = { .node = g->r.runs,
                     .n = g->r.n,
                     .cost = g->s->cost,
                     .peak_bytes = schedule_load(g->s, budget < 0 ? 0 : budget).peak_bytes };
    run_list_keep(pool, out, &list, budget);
    return budget != LOWEST && list.peak_bytes <= budget;
}

static int segments_by_bytes(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* One choice of what to keep, with all limits: from the largest of the smallest segments up to
 * everything in one. */
static void segments_try(Segments *g, Pool *pool, RunList *out)
{
    int32_t  n = g->n_borders, w = n + 1, n_limits = 0;
    Pool    *temp = pool_new(NULL, "segments_try");
    int32_t *ends = NEWN(temp, int32_t, w);
    int64_t *limits = NEWN(temp, int64_t, n * n + 1), min_limit = 0;
    segments_bytes(g);
    for (int32_t i = 0; i < n; i++)
        min_limit = g->lost[i * w + i] > min_limit ? g->lost[i * w + i] : min_limit;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = i; j < n; j++)
            if (g->lost[i * w + j] >= min_limit)
                limits[n_limits++] = g->lost[i * w + j];
    qsort(limits, (size_t)n_limits, sizeof *limits, segments_by_bytes);
    for (int32_t k = 0; k < SEGMENTS_LIMITS; k++) {
        /* more small limits than large ones: squares of equal steps */
        double  share = (double)(k * k) / (SEGMENTS_LIMITS * SEGMENTS_LIMITS);
        int32_t count = segments_choose_ends(g, limits[(int32_t)(share * n_limits)], ends);
        int32_t low = 0, high = count;
        if (count == 0 || !segments_evaluate(g, ends, count, pool, out))
            continue;
        while (low < high) { /* the fewest segments that suffice */
            int32_t middle = (low + high) / 2;
            if (segments_evaluate(g, ends, middle, pool, out))
                high = middle;
            else
                low = middle + 1;
        }
    }
    pool_free(temp);
}

void solve_segments(Pool *pool, const SolverArgs *args, RunList *out)
{
    static const double spared[] = { 0, 0.1, 0.25, 0.5, 0.75 };
    Pool               *temp = pool_new(NULL, "segments");
    Segments            g = { .args = args, .pool = temp, .s = schedule_new(temp, args->task) };
    size_t              n_values = (size_t)args->task->n_values + 1;
    *out = (RunList){ 0 };
    recomputation_init(&g.r, temp, args->task);
    g.until = NEWN(temp, int32_t, n_values);
    g.across = NEWN(temp, bool, n_values);
    g.cheap = NEWN(temp, bool, n_values);
    g.by_price = NEWN(temp, int32_t, n_values);
    g.border = NEWN(temp, int32_t, SEGMENTS_BORDERS + 1);
    segments_values(&g);
    segments_borders(&g);
    g.segment = NEWN(temp, int32_t, g.peak + 1);
    g.kept = NEWN(temp, int64_t, (g.n_borders + 1) * (g.n_borders + 1));
    g.lost = NEWN(temp, int64_t, (g.n_borders + 1) * (g.n_borders + 1));
    for (size_t i = 0; i < sizeof spared / sizeof *spared && !search_late(args, 0); i++) {
        segments_spare(&g, spared[i]);
        segments_try(&g, pool, out);
        if (args->budget_bytes == LOWEST)
            break; /* keeping more only raises the peak */
    }
    pool_free(temp);
}
