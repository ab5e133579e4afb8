/* exact.c -- the optimum of small graphs, by Dijkstra (1959) over all states.
 *
 * A state is the set of live values and the set of nodes that have run; a step runs a node or drops
 * a value. With a budget the key is the cost; without (LOWEST) it is the peak so far, which never
 * falls either. Only states that are reached are held, at most EXACT_STATES of them: the number of
 * states depends on the graph's shape more than on its size. A search that would need more finds
 * nothing.
 *
 * Values without bytes are never dropped, except those in the way of a taking over. Views go with
 * their root.
 */
#include "base/stop.h"
#include "plan/solvers/solver.h"

#include <string.h>

enum { EXACT_BITS = 40, EXACT_STATES = 1 << 18, EXACT_SLOTS = 2 * EXACT_STATES };

typedef struct ExactState {
    uint64_t set;  /* values live, then nodes that have run */
    double   key;  /* smallest found */
    int32_t  from; /* its predecessor, or -1 */
    int16_t  run;  /* the node run to get here, or -1: a drop */
    bool     done;
} ExactState;

typedef struct Exact {
    const Task *task;
    Pool       *pool;
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
    if (e->n_states == EXACT_STATES) {
        e->full = true;
        return -1;
    }
    ExactState fresh = { .set = set, .key = -1 };
    VEC_ADD(e->pool, e->states, e->n_states, e->cap_states, fresh);
    e->slots[slot] = e->n_states;
    return e->n_states - 1;
}

static void exact_push(Exact *e, uint64_t set, double key, int32_t from, int32_t run)
{
    int32_t state = exact_find(e, set);
    if (state < 0 || e->states[state].done ||
        (e->states[state].key >= 0 && e->states[state].key <= key))
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
    for (int32_t i = 0; i < t->n_out; i++) {
        if ((live >> t->out[i] & 1) && task->values[t->out[i]].takes)
            return false; /* it would have two productions: never useful */
    }
    return true;
}

/* The values live after running a node; *bytes: live at the run. */
static uint64_t exact_run(const Task *task, uint64_t live, int32_t node, int64_t *bytes)
{
    const TaskNode *t = &task->nodes[node];
    *bytes = task->fixed_bytes + t->workspace;
    for (int32_t i = 0; i < t->n_takes; i++)
        live = exact_without(task, live, t->in[i]);
    for (int32_t i = 0; i < t->n_out; i++)
        live |= exact_bit(t->out[i]);
    for (int32_t v = 0; v < task->n_values; v++)
        *bytes += live >> v & 1 ? task->values[v].bytes : 0;
    return live;
}

/* Can dropping this value help? */
static bool exact_drops(const Task *task, int32_t value)
{
    const TaskValue *v = &task->values[value];
    return v->view_of < 0 && (v->bytes > 0 || v->takes);
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
        n += e->states[s].run >= 0;
    *out = (RunList){ .node = NEWN(pool, int32_t, n + 1), .n = n };
    for (int32_t s = end; e->states[s].from >= 0; s = e->states[s].from) {
        if (e->states[s].run >= 0) {
            out->node[--n] = e->states[s].run;
            out->cost += e->task->nodes[e->states[s].run].cost;
        }
    }
}

static void exact_expand(Exact *e, int32_t state, int64_t budget)
{
    const Task *task = e->task;
    uint64_t    set = e->states[state].set, live = set & (exact_bit(task->n_values) - 1);
    uint64_t    ran = set >> task->n_values;
    double      key = e->states[state].key;
    for (int32_t node = 0; node < task->n_nodes; node++) {
        int64_t bytes;
        if (!exact_can_run(task, live, ran, node))
            continue;
        uint64_t next = exact_run(task, live, node, &bytes);
        double   then = budget != LOWEST      ? key + task->nodes[node].cost
                        : (double)bytes > key ? (double)bytes
                                              : key;
        next |= (ran | exact_bit(node)) << task->n_values;
        if (next != set && (budget == LOWEST || bytes <= budget))
            exact_push(e, next, then, state, node);
    }
    for (int32_t v = 0; v < task->n_values; v++) {
        if ((live >> v & 1) && exact_drops(task, v))
            exact_push(e, exact_without(task, set, v), key, state, -1);
    }
}

/* Meters the list; a list that runs a node too often for a schedule is given up. */
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

void solve_exact(Pool *pool, const SolverArgs *args, RunList *out)
{
    const Task *task = args->task;
    *out = (RunList){ 0 };
    if (!exact_can(task))
        return;
    Pool *temp = pool_new(NULL, "exact");
    Exact e = { .task = task, .pool = temp, .slots = NEWN(temp, int32_t, EXACT_SLOTS) };
    bool  lowest = args->budget_bytes == LOWEST;
    exact_push(&e, 0, lowest ? (double)task->fixed_bytes : 0, -1, -1);
    for (int64_t turn = 0; e.n_heap > 0 && !e.full; turn++) {
        int32_t state = exact_pop(&e);
        if (e.states[state].done)
            continue;
        e.states[state].done = true;
        if (exact_is_end(task, e.states[state].set)) {
            exact_list(pool, &e, state, out);
            break;
        }
        if (turn % 1024 == 1023 && stop_late(args->deadline_s)) {
            out->cut = true;
            break;
        }
        exact_expand(&e, state, args->budget_bytes);
    }
    if (out->node)
        exact_meter(temp, task, out);
    pool_free(temp);
}
