/* exact.c -- the optimum of small graphs, by a search over all states (Dijkstra 1959).
 *
 * A state is the set of live values and the set of nodes that have run; a step drops what is in the
 * way of a node and runs it. Nothing is dropped earlier: a state with more live values can do all
 * that one with fewer can, as drops cost nothing. So a step drops a smallest set that leaves room:
 * one of which every value is needed. The key is the cost of recomputation alone, since each node
 * runs once in any case. Without a budget (LOWEST) the smallest one within which the end can be
 * reached is found by bisection; a failed search names the next budget that reaches more.
 *
 * Only states that are reached are held, at most EXACT_STATES of them: their number depends on the
 * graph's shape more than on its size. A search that would need more, or look at 16 times as many
 * sets to make room, finds nothing.
 *
 * Values without bytes are never dropped, except those in the way of a taking over. Views go with
 * their root.
 */
#include "base/stop.h"
#include "plan/solvers/solver.h"

#include <float.h>
#include <string.h>

enum {
    EXACT_BITS = 60,
    EXACT_STATES = 1 << 18,
    EXACT_FEW_BITS = 40, /* larger graphs rarely suffice with as many: they get a quarter */
    EXACT_SLOTS = 2 * EXACT_STATES,
    EXACT_AHEAD = 1000 /* any end: one more node run outweighs this many recomputations */
};

typedef struct ExactState {
    uint64_t set;  /* values live, then nodes that have run */
    double   key;  /* smallest found */
    int32_t  from; /* its predecessor, or -1 */
    int16_t  run;  /* the node run to get here */
    bool     done;
} ExactState;

typedef struct Exact {
    const Task *task;
    Pool       *pool;
    int64_t     budget;
    bool        any;  /* any end will do, not only the cheapest */
    int64_t     over; /* the fewest bytes beyond the budget with which some run can be made: the
                       * next budget that reaches more */
    int32_t     max_states;
    int64_t     tries;
    double      deadline_s;
    bool        cut;
    ExactState *states;
    int32_t     n_states, cap_states;
    int32_t    *slots; /* hash table: state + 1 */
    int32_t    *heap, n_heap, cap_heap;
    double     *heap_key;
    int32_t     cap_keys;
    bool        full;
} Exact;

bool exact_can(const Task *task) { return task->n_nodes + task->n_values <= EXACT_BITS; }

static uint64_t exact_bit(int32_t i) { return (uint64_t)1 << i; }

/* The state with this set, new if need be; -1: too many. */
static int32_t exact_find(Exact *e, uint64_t set)
{
    uint64_t hash = set * 0x9E3779B97F4A7C15u;
    uint64_t slot = (hash ^ hash >> 32) % EXACT_SLOTS;
    while (e->slots[slot] && e->states[e->slots[slot] - 1].set != set)
        slot = (slot + 1) % EXACT_SLOTS;
    if (e->slots[slot])
        return e->slots[slot] - 1;
    if (e->n_states == e->max_states) {
        e->full = true;
        return -1;
    }
    ExactState fresh = { .set = set, .key = DBL_MAX };
    VEC_ADD(e->pool, e->states, e->n_states, e->cap_states, fresh);
    e->slots[slot] = e->n_states;
    return e->n_states - 1;
}

static void exact_push(Exact *e, uint64_t set, double key, int32_t from, int32_t run)
{
    int32_t state = exact_find(e, set);
    if (state < 0 || e->states[state].done || e->states[state].key <= key)
        return;
    e->states[state] = (ExactState){ set, key, from, (int16_t)run, false };
    int32_t i = e->n_heap, keys = e->n_heap;
    VEC_ADD(e->pool, e->heap_key, keys, e->cap_keys, key);
    VEC_ADD(e->pool, e->heap, e->n_heap, e->cap_heap, state);
    for (; i > 0 && e->heap_key[(i - 1) / 2] > key; i = (i - 1) / 2) {
        e->heap[i] = e->heap[(i - 1) / 2];
        e->heap_key[i] = e->heap_key[(i - 1) / 2];
    }
    e->heap[i] = state;
    e->heap_key[i] = key;
}

static int32_t exact_pop(Exact *e)
{
    int32_t top = e->heap[0], last = e->heap[--e->n_heap], i = 0, child;
    double  key = e->heap_key[e->n_heap];
    while ((child = 2 * i + 1) < e->n_heap) {
        if (child + 1 < e->n_heap && e->heap_key[child + 1] < e->heap_key[child])
            child++;
        if (e->heap_key[child] >= key)
            break;
        e->heap[i] = e->heap[child];
        e->heap_key[i] = e->heap_key[child];
        i = child;
    }
    e->heap[i] = last;
    e->heap_key[i] = key;
    return top;
}

/* The values without this one and its views. */
static uint64_t exact_without(const Task *task, uint64_t live, int32_t value)
{
    const TaskValue *v = &task->values[value];
    live &= ~exact_bit(value);
    for (int32_t w = 0; w < v->n_views; w++)
        live &= ~exact_bit(v->views[w]);
    return live;
}

/* Can a node run in this state? */
static bool exact_can_run(const Task *task, uint64_t live, uint64_t ran, int32_t node)
{
    const TaskNode *t = &task->nodes[node];
    if (t->once && (ran >> node & 1))
        return false;
    for (int32_t i = 0; i < t->n_in; i++) {
        if (!(live >> t->in[i] & 1))
            return false;
    }
    for (int32_t i = 0; i < t->n_after; i++) {
        if (ran >> t->after[i] & 1)
            return false;
    }
    for (int32_t i = 0; i < t->n_before; i++) {
        if (!(ran >> t->before[i] & 1))
            return false;
    }
    return true;
}

/* The values live after running a node. An output that takes over bytes must not be live before it:
 * it would have two productions. */
static uint64_t exact_run(const Task *task, uint64_t live, int32_t node)
{
    const TaskNode *t = &task->nodes[node];
    for (int32_t i = 0; i < t->n_out; i++) {
        if ((live >> t->out[i] & 1) && task->values[t->out[i]].takes)
            live = exact_without(task, live, t->out[i]);
    }
    for (int32_t i = 0; i < t->n_takes; i++)
        live = exact_without(task, live, t->in[i]);
    for (int32_t i = 0; i < t->n_out; i++)
        live |= exact_bit(t->out[i]);
    return live;
}

static int64_t exact_bytes(const Task *task, uint64_t live)
{
    int64_t bytes = task->fixed_bytes;
    for (int32_t v = 0; v < task->n_values; v++)
        bytes += live >> v & 1 ? task->values[v].bytes : 0;
    return bytes;
}

static bool exact_is_end(const Task *task, uint64_t set)
{
    if (set >> task->n_values != exact_bit(task->n_nodes) - 1)
        return false;
    for (int32_t v = 0; v < task->n_values; v++) {
        if (task->values[v].final && !(set >> v & 1))
            return false;
    }
    return true;
}

static void exact_list(Pool *pool, const Exact *e, int32_t end, RunList *out)
{
    int32_t n = 0;
    for (int32_t s = end; e->states[s].from >= 0; s = e->states[s].from)
        n++;
    *out = (RunList){ .node = NEWN(pool, int32_t, n + 1), .n = n };
    for (int32_t s = end; e->states[s].from >= 0; s = e->states[s].from) {
        out->node[--n] = e->states[s].run;
        out->cost += e->task->nodes[e->states[s].run].cost;
    }
}

/* One step under way: a node to run, and what may be dropped for it, the largest first. */
typedef struct ExactStep {
    int32_t  from, node;
    uint64_t ran;
    double   key;
    int32_t  value[EXACT_BITS], n;
} ExactStep;

/* Some run could have been made with as few bytes, from some state. */
static void exact_note_over(Exact *e, int64_t bytes)
{
    if (bytes < e->over)
        e->over = bytes;
}

/* Drops values from the k-th on until `excess` bytes are gone, in every way. As the largest come
 * first and the last one was still needed, all of them are. */
static void exact_make_room(Exact *e, const ExactStep *step, int32_t k, uint64_t live,
                            int64_t excess)
{
    if (excess <= 0) {
        exact_push(e, live | step->ran, step->key, step->from, step->node);
        return;
    }
    exact_note_over(e, e->budget + excess);
    for (; k < step->n && !e->full; k++) {
        int32_t v = step->value[k];
        e->full |= ++e->tries > 16 * (int64_t)e->max_states;
        exact_make_room(e, step, k + 1, exact_without(e->task, live, v),
                        excess - e->task->values[v].bytes);
    }
}

/* The values that may be dropped for a run: live, with bytes, not its own. Returns their bytes. */
static int64_t exact_droppable(const Task *task, uint64_t live, ExactStep *step)
{
    const TaskNode *t = &task->nodes[step->node];
    int64_t         sum = 0;
    for (int32_t i = 0; i < t->n_in; i++)
        live &= ~exact_bit(t->in[i]);
    for (int32_t i = 0; i < t->n_out; i++)
        live &= ~exact_bit(t->out[i]);
    step->n = 0;
    for (int32_t v = 0; v < task->n_values; v++) {
        int64_t bytes = task->values[v].bytes;
        int32_t at = step->n;
        if (!(live >> v & 1) || bytes == 0)
            continue;
        sum += bytes;
        for (; at > 0 && task->values[step->value[at - 1]].bytes < bytes; at--)
            step->value[at] = step->value[at - 1];
        step->value[at] = v;
        step->n++;
    }
    return sum;
}

static void exact_expand(Exact *e, int32_t state)
{
    const Task *task = e->task;
    uint64_t    set = e->states[state].set, live = set & (exact_bit(task->n_values) - 1);
    uint64_t    ran = set >> task->n_values;
    double      key = e->states[state].key;
    for (int32_t node = 0; node < task->n_nodes && !e->full; node++) {
        if (!exact_can_run(task, live, ran, node))
            continue;
        bool      again = ran >> node & 1;
        ExactStep step = { .from = state, .node = node };
        uint64_t  next = exact_run(task, live, node);
        int64_t   bytes = exact_bytes(task, next) + task->nodes[node].workspace;
        step.ran = (ran | exact_bit(node)) << task->n_values;
        if ((next | step.ran) == set)
            continue;
        step.key = key + (e->any ? (again ? 1 : -EXACT_AHEAD) : again ? task->nodes[node].cost : 0);
        if (bytes <= e->budget) {
            exact_push(e, next | step.ran, step.key, state, node);
            continue;
        }
        int64_t least = bytes - exact_droppable(task, next, &step);
        if (least <= e->budget)
            exact_make_room(e, &step, 0, next, bytes - e->budget);
        else
            exact_note_over(e, least);
    }
}

/* Meters the list; one that runs a node too often for a schedule is given up. */
static void exact_meter(Pool *temp, const Task *task, RunList *out)
{
    int32_t n_runs[EXACT_BITS] = { 0 };
    for (int32_t i = 0; i < out->n; i++) {
        if (++n_runs[out->node[i]] >= SCHEDULE_MAX_RUNS) {
            out->node = NULL;
            return;
        }
    }
    Schedule *s = schedule_new(temp, task);
    schedule_set(s, out->node, out->n);
    out->peak_bytes = schedule_load(s, 0).peak_bytes;
}

/* The cheapest list within e->budget, or any; node NULL if there is none, or if the search is too
 * large (full) or too late (cut). */
static void exact_search(Pool *pool, Exact *e, RunList *out)
{
    *out = (RunList){ 0 };
    e->n_states = e->n_heap = 0;
    e->tries = 0;
    e->over = INT64_MAX;
    memset(e->slots, 0, sizeof *e->slots * EXACT_SLOTS);
    exact_push(e, 0, 0, -1, -1);
    for (int64_t turn = 0; e->n_heap > 0 && !e->full && !e->cut; turn++) {
        int32_t state = exact_pop(e);
        if (e->states[state].done)
            continue;
        e->states[state].done = true;
        if (exact_is_end(e->task, e->states[state].set)) {
            exact_list(pool, e, state, out);
            exact_meter(e->pool, e->task, out);
            e->full = !out->node;
            return;
        }
        e->cut = turn % 1024 == 1023 && stop_late(e->deadline_s);
        exact_expand(e, state);
    }
}

/* The list with the smallest peak: `low` cannot be beaten, `out` can be reached. */
static void exact_lowest(Pool *pool, Exact *e, RunList *out)
{
    int64_t low = e->task->fixed_bytes;
    e->any = true;
    e->budget = INT64_MAX;
    exact_search(pool, e, out);
    while (out->node && low < out->peak_bytes) {
        RunList found;
        e->budget = low + (out->peak_bytes - low) / 2;
        exact_search(pool, e, &found);
        if (e->full || e->cut)
            out->node = NULL;
        else if (found.node)
            *out = found;
        else
            low = e->over < out->peak_bytes ? e->over : out->peak_bytes;
    }
}

void solve_exact(Pool *pool, const SolverArgs *args, RunList *out)
{
    *out = (RunList){ 0 };
    if (!exact_can(args->task))
        return;
    Pool *temp = pool_new(NULL, "exact");
    Exact e = { .task = args->task,
                .pool = temp,
                .slots = NEWN(temp, int32_t, EXACT_SLOTS),
                .max_states = args->task->n_nodes + args->task->n_values > EXACT_FEW_BITS
                                  ? EXACT_STATES / 4
                                  : EXACT_STATES,
                .budget = args->budget_bytes,
                .deadline_s = args->deadline_s };
    if (args->budget_bytes == LOWEST)
        exact_lowest(pool, &e, out);
    else
        exact_search(pool, &e, out);
    out->cut = e.cut;
    pool_free(temp);
}
