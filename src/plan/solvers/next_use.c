/* next_use.c -- runs the step under the budget, knowing the whole order (an offline DTR).
 *
 * As in DTR (Kirisame et al. 2021), when bytes run short, the value with the smallest
 *     cost to recompute it / (bytes * distance to its next reader ^ g)
 * is dropped, and what is missing is recomputed when it is read. DTR looks back (staleness); here
 * the order is known, so the distance to the next reader is exact (Belady 1966). Several exponents
 * g and several budgets at or below the given one are tried; the cheapest list wins.
 *
 * Scores sit in a heap and are refreshed when they come up: dropping a value only makes its
 * neighbours more expensive, so a score that has not risen is still the smallest.
 */
#include "plan/solvers/search.h"

#include <math.h>

enum { NEXT_USE_CLOSURE = 200, NEXT_USE_RUNS = SCHEDULE_MAX_RUNS - 2, NEXT_USE_DEPTH = 20000 };

typedef struct DropCandidate {
    double  score;
    int32_t value, version;
} DropCandidate;

typedef struct NextUse {
    const Task    *task;
    Pool          *pool;
    int64_t        budget, live;
    double         g;
    int32_t        now;      /* the current node of the input order */
    bool          *present;  /* [value] */
    int32_t       *pins;     /* [value] */
    int32_t       *reader;   /* [value] index of its next reader in the input order */
    int32_t       *version;  /* [value] version of its newest heap entry */
    int32_t       *n_runs;   /* [node] */
    int32_t       *deadline; /* [node] must not run after this node of the input order */
    int32_t       *seen;     /* [node] for closures */
    int32_t        n_seen;
    DropCandidate *heap;
    int32_t        n_heap, cap_heap;
    int32_t       *runs;
    int32_t        n, cap;
} NextUse;

static int32_t next_use_of(const NextUse *e, int32_t value)
{
    const TaskValue *v = &e->task->values[value];
    if (e->reader[value] < v->n_readers)
        return v->readers[e->reader[value]];
    return v->final ? e->task->n_nodes : -1;
}

static double next_use_closure(NextUse *e, int32_t node, int32_t *left)
{
    const TaskNode *t = &e->task->nodes[node];
    double          cost = t->cost;
    e->seen[node] = e->n_seen;
    for (int32_t i = 0; i < t->n_in; i++) {
        int32_t producer = e->task->values[t->in[i]].producer;
        if (e->present[t->in[i]] || e->seen[producer] == e->n_seen)
            continue;
        if (--*left <= 0)
            return cost * 2;
        cost += next_use_closure(e, producer, left);
    }
    return cost;
}

/* Can the value be produced once more, for its next reader? */
static bool next_use_can_return(const NextUse *e, int32_t value)
{
    int32_t producer = e->task->values[value].producer;
    return !e->task->nodes[producer].once && e->n_runs[producer] < NEXT_USE_RUNS &&
           e->deadline[producer] >= next_use_of(e, value);
}

/* Views go with their root: is this one present and still to be read? */
static bool next_use_view_is_needed(const NextUse *e, int32_t view)
{
    return e->present[view] && next_use_of(e, view) >= 0;
}

static bool next_use_can_drop(const NextUse *e, int32_t value)
{
    const TaskValue *v = &e->task->values[value];
    for (int32_t w = 0; w < v->n_views; w++) {
        if (next_use_view_is_needed(e, v->views[w]) && !next_use_can_return(e, v->views[w]))
            return false;
    }
    return e->present[value] && e->pins[value] == 0 && v->bytes > 0 && next_use_of(e, value) >= 0 &&
           next_use_can_return(e, value);
}

static double next_use_score(NextUse *e, int32_t value)
{
    const TaskValue *v = &e->task->values[value];
    int32_t          left = NEXT_USE_CLOSURE, away = next_use_of(e, value) - e->now;
    e->n_seen++;
    double cost = next_use_closure(e, v->producer, &left) + 1e-9 * e->task->base_cost;
    for (int32_t w = 0; w < v->n_views; w++) {
        int32_t producer = e->task->values[v->views[w]].producer;
        if (next_use_view_is_needed(e, v->views[w]) && e->seen[producer] != e->n_seen)
            cost += next_use_closure(e, producer, &left);
    }
    return cost / ((double)v->bytes * pow(away > 0 ? away + 1 : 1, e->g));
}

static void next_use_push(NextUse *e, int32_t value)
{
    if (!next_use_can_drop(e, value))
        return;
    DropCandidate entry = { next_use_score(e, value), value, ++e->version[value] };
    int32_t       i;
    VEC_ADD(e->pool, e->heap, e->n_heap, e->cap_heap, entry);
    for (i = e->n_heap - 1; i > 0 && e->heap[(i - 1) / 2].score > entry.score; i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = entry;
}

static DropCandidate next_use_pop(NextUse *e)
{
    DropCandidate top = e->heap[0], last = e->heap[--e->n_heap];
    int32_t       i = 0, child;
    while ((child = 2 * i + 1) < e->n_heap) {
        if (child + 1 < e->n_heap && e->heap[child + 1].score < e->heap[child].score)
            child++;
        if (e->heap[child].score >= last.score)
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

static void next_use_drop(NextUse *e, int32_t value)
{
    const TaskValue *v = &e->task->values[value];
    e->present[value] = false;
    e->live -= v->bytes;
    for (int32_t w = 0; w < v->n_views; w++)
        e->present[v->views[w]] = false;
}

/* Drops values until `need` more bytes fit. Values that were pinned when they came up are no longer
 * in the heap: before giving up, all are added once more. */
static bool next_use_make_room(NextUse *e, int64_t need)
{
    bool refilled = false;
    while (e->live + need > e->budget) {
        if (e->n_heap == 0) {
            if (refilled)
                return false;
            refilled = true;
            for (int32_t v = 0; v < e->task->n_values; v++)
                next_use_push(e, v);
            continue;
        }
        DropCandidate top = next_use_pop(e);
        if (top.version != e->version[top.value] || !next_use_can_drop(e, top.value))
            continue;
        double score = next_use_score(e, top.value);
        if (score > top.score * 1.0001 && e->n_heap > 0 && score > e->heap[0].score)
            next_use_push(e, top.value);
        else
            next_use_drop(e, top.value);
    }
    return true;
}

static bool next_use_run(NextUse *e, int32_t node, int32_t depth)
{
    const TaskNode *t = &e->task->nodes[node];
    int32_t         pinned = 0;
    int64_t         need = t->workspace;
    bool            good = depth < NEXT_USE_DEPTH &&
                (e->n_runs[node] == 0 || (!t->once && e->deadline[node] >= e->now));
    for (; good && pinned < t->n_in; pinned++) {
        int32_t v = t->in[pinned];
        if (!e->present[v])
            good = next_use_run(e, e->task->values[v].producer, depth + 1);
        e->pins[v]++;
    }
    for (int32_t i = 0; i < t->n_out; i++)
        need += e->present[t->out[i]] ? 0 : e->task->values[t->out[i]].bytes;
    for (int32_t i = 0; i < t->n_takes; i++)
        need -= e->task->values[t->in[i]].bytes;
    for (int32_t i = 0; i < t->n_out; i++)
        e->pins[t->out[i]]++;
    good = good && next_use_make_room(e, need);
    if (good) {
        for (int32_t i = 0; i < t->n_takes; i++)
            next_use_drop(e, t->in[i]);
        for (int32_t i = 0; i < t->n_out; i++) {
            const TaskValue *out = &e->task->values[t->out[i]];
            for (int32_t w = 0; w < out->n_views && out->takes; w++)
                e->present[out->views[w]] = false; /* its root has other bytes now */
        }
        for (int32_t i = 0; i < t->n_out; i++) {
            e->live += e->present[t->out[i]] ? 0 : e->task->values[t->out[i]].bytes;
            e->present[t->out[i]] = true;
        }
        e->n_runs[node]++;
        VEC_ADD(e->pool, e->runs, e->n, e->cap, node);
        good = e->n_runs[node] <= SCHEDULE_MAX_RUNS && e->n <= 6 * e->task->n_nodes;
    }
    for (int32_t i = 0; i < t->n_out; i++)
        e->pins[t->out[i]]--;
    for (int32_t i = 0; i < pinned; i++)
        e->pins[t->in[i]]--;
    for (int32_t i = 0; i < pinned + t->n_out; i++) {
        int32_t v = i < pinned ? t->in[i] : t->out[i - pinned];
        if (depth == 0 && i < pinned)
            while (e->reader[v] < e->task->values[v].n_readers &&
                   e->task->values[v].readers[e->reader[v]] <= node)
                e->reader[v]++;
        if (e->present[v] && e->pins[v] == 0 && next_use_of(e, v) < 0)
            next_use_drop(e, v);
        else
            next_use_push(e, v);
    }
    return good;
}

static bool next_use_solve(Pool *pool, const Task *task, int64_t budget, double g, RunList *out)
{
    size_t  n_values = (size_t)task->n_values + 1, n_nodes = (size_t)task->n_nodes + 1;
    NextUse e = {
        .task = task,
        .pool = pool,
        .budget = budget,
        .live = task->fixed_bytes,
        .g = g,
        .present = NEWN(pool, bool, n_values),
        .pins = NEWN(pool, int32_t, n_values),
        .reader = NEWN(pool, int32_t, n_values),
        .version = NEWN(pool, int32_t, n_values),
        .n_runs = NEWN(pool, int32_t, n_nodes),
        .deadline = task_deadlines(pool, task),
        .seen = NEWN(pool, int32_t, n_nodes),
    };
    for (e.now = 0; e.now < task->n_nodes; e.now++) {
        if (!next_use_run(&e, e.now, 0))
            return false;
    }
    for (int32_t v = 0; v < task->n_values; v++) {
        if (task->values[v].final && !e.present[v] &&
            !next_use_run(&e, task->values[v].producer, 1))
            return false;
        e.pins[v] += task->values[v].final;
    }
    *out = (RunList){ .node = e.runs, .n = e.n };
    return true;
}

void solve_next_use(Pool *pool, const SolverArgs *args, RunList *out)
{
    static const double exponents[] = { 1, 0.5, 0.25 }, shrink[] = { 1, 0.97, 0.93, 0.88, 0.8 };
    int64_t             fixed = args->task->fixed_bytes, tries = 15;
    *out = (RunList){ 0 };
    if (args->effort < 15)
        tries = args->effort > 0 ? args->effort : 1;
    for (int64_t k = 0; k < tries; k++) {
        if (search_late(args, 0)) {
            out->cut = true;
            break;
        }
        Pool   *temp = pool_new(NULL, "next_use");
        double  factor = shrink[k / 3];
        int64_t budget = fixed + (int64_t)((double)(args->budget_bytes - fixed) * factor);
        RunList list;
        if (next_use_solve(temp, args->task, budget, exponents[k % 3], &list)) {
            SolverArgs     from = *args;
            ScheduleSearch x;
            from.start = list;
            search_init(&x, temp, &from);
            Load load = schedule_load(x.s, args->budget_bytes);
            if (load.excess <= 0) {
                if (args->task->n_nodes <= 2000)
                    out->cut |= !search_polish(&x, args);
                RunList found = { 0 };
                search_keep(temp, &x, schedule_load(x.s, args->budget_bytes), &found);
                run_list_keep(pool, out, &found, args->budget_bytes);
            }
        }
        pool_free(temp);
    }
}
