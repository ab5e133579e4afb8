/* offload.c -- keeps the runs and copies idle values to the host and back.
 *
 * In comes a list of runs, out goes a plan of the same runs with copies. Each live range of a value
 * offers one window: its longest time without a reader.
 *
 *   run         make         from            gone           load        to
 *   value v      |============|===============|   (host)     |===========|====
 *   to host      |--- copy ---|-------->|                    |-- copy -->|
 *   steps      save v                      wait, drop     load v      wait v, free_host v
 *
 * Greedy: while the fullest run is above the budget, take the longest window over it. Saves start
 * in order of production; a value is dropped after the first run that ends after its copy, so
 * nothing waits for a save. Loads are queued in order of need, each as late as possible to arrive
 * in time; if that would be before the drop, they start right after it, and the rest of the copy is
 * waited for. Times are those of the runs alone; the simulator then finds the true cost of the
 * plan.
 *
 * Predicted times err: on a GPU that is faster than predicted, copies planned to end just in time
 * are late. So copies are first planned to take 1.5 times as long. If the budget has no room for
 * that, just in time; if that is not enough either, as if they took no time: a value is dropped as
 * soon as nothing reads it, is loaded for its reader, and both copies are waited for.
 */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct OffloadWindow {
    int32_t value, make, from, to; /* runs: produced; last use before and first use after the
                                          * window */
    int32_t gone;                  /* dropped after this run */
    int32_t load;                  /* loaded before this run */
    double  stretch;               /* time between from and to */
    double  out, in;               /* times of its copies, once the window is taken */
    double  sent, due;             /* when its save ends and its load must begin, in their queues */
    int32_t ends, seen;            /* the run during which the save ends: now, and when `load` was
                              * computed */
} OffloadWindow;

typedef struct Offload {
    const PGraph   *graph;
    Pool           *pool;
    const int32_t  *runs;
    int32_t         n_runs;
    double          margin;  /* copies are planned to take this many times their time */
    double         *start;   /* [run]; [n_runs] is the end */
    int64_t        *live;    /* [run] bytes with nothing offloaded */
    int64_t        *change;  /* [run] bytes offloaded from this run on, less those loaded by then */
    OffloadWindow  *windows; /* by falling stretch; a taken window covers no run any more */
    int32_t         n_windows, cap_windows;
    OffloadWindow **taken;   /* in order of production */
    OffloadWindow **by_need; /* the same windows, the last needed first */
    int32_t         n_taken;
} Offload;

/* Values that a transfer between ranks moves stay where they are while it does. */
static void offload_leave_transfers(const PGraph *graph, bool *movable)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const PNode *node = &graph->nodes[n];
        const PNode *start = node->joins ? &graph->nodes[TRANSFER_NODE(node->joins)] : NULL;
        for (int32_t i = 0; start && i < start->n_in + start->n_out; i++) {
            int32_t v = i < start->n_in ? start->in[i] : start->out[i - start->n_in];
            for (int32_t k = 0; k < node->n_in; k++)
                if (node->in[k] == v)
                    movable[v] = false;
        }
    }
}

/* Values that may be offloaded: without views, and, if they took over bytes, as large as those. A
 * loaded value has its own size, and so has a value that takes it over. */
static bool *offload_movable(const Offload *o)
{
    const PGraph  *graph = o->graph;
    bool          *movable = NEWN(o->pool, bool, graph->n_values + 1);
    const int64_t *held = pgraph_held_bytes(o->pool, graph);
    for (int32_t v = 0; v < graph->n_values; v++)
        movable[v] = !graph->values[v].persistent && graph->values[v].view_of < 0 &&
                     graph->values[v].bytes > 0 && held[v] == graph->values[v].bytes;
    for (int32_t v = 0; v < graph->n_values; v++) {
        if (graph->values[v].view_of >= 0)
            movable[graph->values[v].view_of] = false;
    }
    offload_leave_transfers(graph, movable);
    return movable;
}

static int offload_order(const void *a, const void *b)
{
    const OffloadWindow *x = a, *y = b;
    if (x->stretch != y->stretch)
        return x->stretch < y->stretch ? 1 : -1;
    return x->make != y->make ? x->make - y->make : x->value - y->value;
}

static void offload_windows(Offload *o)
{
    const PGraph *graph = o->graph;
    bool         *movable = offload_movable(o);
    int32_t      *last = NEWN(o->pool, int32_t, graph->n_values + 1); /* the last run that used
                                                                         * it */
    int32_t      *open = NEWN(o->pool, int32_t, graph->n_values + 1); /* its window + 1 */
    int32_t      *make = NEWN(o->pool, int32_t, graph->n_values + 1);
    for (int32_t r = 0; r < o->n_runs; r++) {
        const PNode *node = &graph->nodes[o->runs[r]];
        for (int32_t i = 0; i < node->n_in; i++) {
            int32_t v = node->in[i];
            if (!movable[v] || last[v] == r)
                continue;
            double        stretch = o->start[r] - o->start[last[v] + 1];
            OffloadWindow window = {
                .value = v, .make = make[v], .from = last[v], .to = r, .stretch = stretch
            };
            if (open[v] == 0) {
                VEC_ADD(o->pool, o->windows, o->n_windows, o->cap_windows, window);
                open[v] = o->n_windows;
            } else if (stretch > o->windows[open[v] - 1].stretch) {
                o->windows[open[v] - 1] = window;
            }
            last[v] = r;
        }
        for (int32_t i = 0; i < node->n_out; i++) {
            int32_t v = node->out[i];
            last[v] = make[v] = r;
            open[v] = 0;
        }
    }
    if (o->n_windows > 0)
        qsort(o->windows, (size_t)o->n_windows, sizeof *o->windows, offload_order);
}

/* The first run that ends at or after time; at least `from`. */
static int32_t offload_run_ending(const Offload *o, int32_t from, double time)
{
    int32_t low = from, high = o->n_runs;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (o->start[middle + 1] >= time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The last run that starts at or before time, but after run `after` and at most `to`. */
static int32_t offload_run_starting(const Offload *o, int32_t after, int32_t to, double time)
{
    int32_t low = after + 1, high = to;
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (o->start[middle] <= time)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void offload_count(Offload *o, const OffloadWindow *w, int64_t sign)
{
    if (w->load <= w->gone + 1)
        return;
    o->change[w->gone + 1] += sign * o->graph->values[w->value].bytes;
    o->change[w->load] -= sign * o->graph->values[w->value].bytes;
}

/* Computes when the value of each taken window is dropped and loaded. One more window changes few
 * of these times, so only changed ones are looked up again; otherwise long steps would take
 * minutes. */
static void offload_times(Offload *o)
{
    double queue = 0;
    for (int32_t i = 0; i < o->n_taken; i++) {
        OffloadWindow *w = o->taken[i];
        queue = (o->start[w->make + 1] > queue ? o->start[w->make + 1] : queue) + w->out;
        if (w->sent != queue)
            w->ends = offload_run_ending(o, w->from, queue);
        w->sent = queue;
    }
    queue = o->start[o->n_runs];
    for (int32_t i = 0; i < o->n_taken; i++) {
        OffloadWindow *w = o->by_need[i];
        queue = (o->start[w->to] < queue ? o->start[w->to] : queue) - w->in;
        if (w->due == queue && w->seen == w->ends)
            continue;
        offload_count(o, w, -1);
        w->due = queue;
        w->gone = w->seen = w->ends;
        if (w->gone >= w->to - 1)
            w->gone = w->load = w->to; /* too short to be dropped: not offloaded */
        else
            w->load = offload_run_starting(o, w->gone, w->to, queue);
        offload_count(o, w, 1);
    }
}

/* The run with the most bytes. */
static int32_t offload_fullest(const Offload *o, int64_t *bytes)
{
    int32_t full = 0;
    int64_t less = 0;
    *bytes = 0;
    for (int32_t r = 0; r < o->n_runs; r++) {
        less += o->change[r];
        if (o->live[r] - less > *bytes) {
            *bytes = o->live[r] - less;
            full = r;
        }
    }
    return full;
}

static void offload_take(Offload *o, int32_t index)
{
    OffloadWindow *w = NEW(o->pool, OffloadWindow);
    int32_t        i = o->n_taken, k = o->n_taken++;
    *w = o->windows[index];
    o->windows[index].to = o->windows[index].from;
    double bytes = (double)o->graph->values[w->value].bytes;
    w->out = o->margin * bytes / o->graph->to_host;
    w->in = o->margin * bytes / o->graph->to_device;
    w->sent = w->due = -1;
    w->seen = -1;
    for (; i > 0; i--) { /* in order of production, then of values */
        const OffloadWindow *b = o->taken[i - 1];
        if (b->make < w->make || (b->make == w->make && b->value < w->value))
            break;
        o->taken[i] = o->taken[i - 1];
    }
    o->taken[i] = w;
    for (; k > 0; k--) {
        const OffloadWindow *b = o->by_need[k - 1];
        if (b->to > w->to || (b->to == w->to && b->value > w->value))
            break;
        o->by_need[k] = o->by_need[k - 1];
    }
    o->by_need[k] = w;
}

/* Takes windows until the budget holds. False: nothing is left to offload at the fullest run. The
 * windows taken are the same for every budget, so no budget below *min_bytes, the fewest bytes
 * seen, need be tried again. */
static bool offload_choose(Offload *o, int64_t budget, int64_t *min_bytes)
{
    int64_t bytes, fewest = INT64_MAX;
    o->change = NEWN(o->pool, int64_t, o->n_runs + 2);
    o->taken = NEWN(o->pool, OffloadWindow *, o->n_windows + 1);
    o->by_need = NEWN(o->pool, OffloadWindow *, o->n_windows + 1);
    for (;;) {
        offload_times(o);
        int32_t full = offload_fullest(o, &bytes), pick = 0;
        if (bytes <= budget)
            return true;
        fewest = bytes < fewest ? bytes : fewest;
        while (pick < o->n_windows &&
               (o->windows[pick].from >= full || o->windows[pick].to <= full))
            pick++;
        if (pick == o->n_windows) {
            *min_bytes = fewest;
            return false;
        }
        offload_take(o, pick);
    }
}

static int offload_by_load(const void *a, const void *b)
{
    const OffloadWindow *x = *(OffloadWindow *const *)a, *y = *(OffloadWindow *const *)b;
    if (x->load != y->load)
        return x->load - y->load;
    return x->to != y->to ? x->to - y->to : x->value - y->value;
}

/* Writes the runs and drops of `kept` with the copies between them. */
static void offload_steps(Offload *o, const Plan *kept, Plan *plan)
{
    OffloadWindow **by_load = NEWN(o->pool, OffloadWindow *, o->n_taken + 1), **moved = by_load;
    int32_t         n = 0, at_load = 0, run = -1;
    int32_t        *first_gone = NEWN(o->pool, int32_t, o->n_runs + 2);
    int32_t        *first_make = NEWN(o->pool, int32_t, o->n_runs + 2);
    int32_t        *first_need = NEWN(o->pool, int32_t, o->n_runs + 2);
    int32_t        *next = NEWN(o->pool, int32_t, 3 * o->n_taken + 3); /* lists, index + 1 */
    for (int32_t i = 0; i < o->n_taken; i++) {
        if (o->taken[i]->load > o->taken[i]->gone + 1)
            moved[n++] = o->taken[i];
    }
    if (n > 0)
        qsort(by_load, (size_t)n, sizeof *by_load, offload_by_load);
    for (int32_t i = n - 1; i >= 0; i--) {
        next[3 * i] = first_make[moved[i]->make];
        next[3 * i + 1] = first_gone[moved[i]->gone];
        next[3 * i + 2] = first_need[moved[i]->to];
        first_make[moved[i]->make] = first_gone[moved[i]->gone] = first_need[moved[i]->to] = i + 1;
    }
    for (int32_t s = 0; s <= kept->n_steps; s++) {
        bool is_run = s == kept->n_steps || kept->steps[s].kind == STEP_RUN;
        if (is_run && run >= 0) { /* after the previous run and its drops */
            for (int32_t i = first_make[run]; i > 0; i = next[3 * (i - 1)])
                plan_add(o->pool, plan, STEP_SAVE, moved[i - 1]->value);
            for (int32_t i = first_gone[run]; i > 0; i = next[3 * (i - 1) + 1]) {
                plan_add(o->pool, plan, STEP_WAIT, moved[i - 1]->value);
                plan_add(o->pool, plan, STEP_DROP, moved[i - 1]->value);
            }
        }
        if (s == kept->n_steps)
            break;
        if (is_run) {
            run++;
            for (; at_load < n && moved[at_load]->load == run; at_load++)
                plan_add(o->pool, plan, STEP_LOAD, moved[at_load]->value);
            for (int32_t i = first_need[run]; i > 0; i = next[3 * (i - 1) + 2]) {
                plan_add(o->pool, plan, STEP_WAIT, moved[i - 1]->value);
                plan_add(o->pool, plan, STEP_FREE_HOST, moved[i - 1]->value);
            }
        }
        plan_add(o->pool, plan, kept->steps[s].kind, kept->steps[s].id);
    }
}

static Err offload_plan(Offload *o, const Plan *kept, int64_t budget, int64_t host_budget,
                        int64_t *min_bytes, Pool *pool, Plan **out)
{
    Plan      steps = { 0 };
    PlanMeter meter;
    if (!offload_choose(o, budget, min_bytes))
        return OK;
    offload_steps(o, kept, &steps);
    TRY(plan_simulate(NULL, o->graph, &steps, &meter));
    if (meter.live_bytes > budget || (host_budget > 0 && meter.host_bytes > host_budget))
        return OK;
    Plan *plan = NEW(pool, Plan);
    *plan = *kept;
    plan->steps = NEWN(pool, Step, steps.n_steps + 1);
    memcpy(plan->steps, steps.steps, sizeof *steps.steps * (size_t)steps.n_steps);
    plan->n_steps = plan->cap = steps.n_steps;
    plan->live_bytes = meter.live_bytes;
    plan->host_bytes = meter.host_bytes;
    plan->cost = meter.cost;
    plan->budget_bytes = budget;
    plan->host_budget_bytes = host_budget;
    *out = plan;
    return plan_check(o->graph, plan, budget);
}

Err plan_offload(Pool *pool, const PGraph *graph, const int32_t *runs, int32_t n_runs,
                 int64_t budget_bytes, int64_t host_budget_bytes, OffloadMinimum *known,
                 Plan **plan)
{
    OffloadMinimum none = { 0 };
    Pool          *temp = pool_new(NULL, "plan_offload");
    Offload        o = { .graph = graph, .pool = temp, .runs = runs, .n_runs = n_runs };
    Plan          *kept;
    PlanMeter      meter;
    *plan = NULL;
    Err err = graph->to_host > 0 && graph->to_device > 0
                  ? OK
                  : fail(E_PLAN, "the graph has no bandwidth to the host");
    if (!err)
        err = plan_from_runs(temp, graph, runs, n_runs, &kept);
    if (!err)
        err = plan_simulate(temp, graph, kept, &meter);
    if (!err) {
        o.start = NEWN(temp, double, n_runs + 2);
        o.live = NEWN(temp, int64_t, n_runs + 2);
        for (int32_t s = 0, r = 0; s < kept->n_steps; s++) {
            if (kept->steps[s].kind != STEP_RUN)
                continue;
            o.start[r + 1] = o.start[r] + graph->nodes[runs[r]].cost;
            o.live[r++] = meter.curve[s];
        }
        static const double margins[OFFLOAD_MARGINS] = { 1.5, 1, 0 };
        int64_t            *bytes = known ? known->bytes : none.bytes;
        for (int i = 0; !err && !*plan && i < OFFLOAD_MARGINS; i++) {
            if (budget_bytes < bytes[i])
                continue;
            o.margin = margins[i];
            o.n_windows = o.n_taken = 0;
            offload_windows(&o);
            err = offload_plan(&o, kept, budget_bytes, host_budget_bytes, &bytes[i], pool, plan);
        }
    }
    pool_free(temp);
    return err;
}
