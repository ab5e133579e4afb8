/* exact.c -- the optimum of very small graphs, by Dijkstra (1959) over all states.
 *
 * A state is the set of live values and the set of nodes that have run; a step runs a node or drops
 * a value. With a budget the key is the cost; without (LOWEST) it is the peak so far, which never
 * falls either. At most EXACT_BITS nodes and values together: the states are held in arrays.
 */
#include "plan/solvers/solver.h"

#include <string.h>

enum { EXACT_BITS = 18 };

typedef struct Exact {
    const Task *task;
    double     *key;         /* [state] smallest found, or -1 */
    int32_t    *from;        /* [state] its predecessor */
    int16_t    *run;         /* [state] the node run to get here, or -1: a drop */
    bool       *done;
    int32_t    *heap, n_heap, cap_heap;
    double     *heap_key;
    int32_t     cap_keys;
    Pool       *pool;
} Exact;

bool exact_can(const Task *task) { return task->n_nodes + task->n_values <= EXACT_BITS; }

static void exact_push(Exact *e, int32_t state, double key, int32_t from, int32_t run)
{
    if (e->done[state] || (e->key[state] >= 0 && e->key[state] <= key))
        return;
    e->key[state]  = key;
    e->from[state] = from;
    e->run[state]  = (int16_t)run;
    int32_t i = e->n_heap, keys = e->n_heap;
    VEC_ADD(e->pool, e->heap_key, keys, e->cap_keys, key);
    VEC_ADD(e->pool, e->heap, e->n_heap, e->cap_heap, state);
    for (; i > 0 && e->heap_key[(i - 1) / 2] > key; i = (i - 1) / 2) {
        e->heap[i]     = e->heap[(i - 1) / 2];
        e->heap_key[i] = e->heap_key[(i - 1) / 2];
    }
    e->heap[i]     = state;
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
        e->heap[i]     = e->heap[child];
        e->heap_key[i] = e->heap_key[child];
        i = child;
    }
    e->heap[i]     = last;
    e->heap_key[i] = key;
    return top;
}

/* The state after running a node, or -1 if it cannot run; *bytes: live at the run. */
static int32_t exact_run(const Task *task, int32_t state, int32_t node, int64_t *bytes)
{
    const TaskNode *t = &task->nodes[node];
    int32_t live = state & ((1 << task->n_values) - 1), ran = state >> task->n_values;
    if (t->once && (ran >> node & 1))
        return -1;
    for (int32_t i = 0; i < t->n_in; i++) {
        if (!(live >> t->in[i] & 1))
            return -1;
    }
    for (int32_t i = 0; i < t->n_after; i++) {
        if (ran >> t->after[i] & 1)
            return -1;
    }
    for (int32_t i = 0; i < t->n_before; i++) {
        if (!(ran >> t->before[i] & 1))
            return -1;
    }
    *bytes = task->fixed_bytes + t->workspace;
    for (int32_t i = 0; i < t->n_takes; i++) {
        for (int32_t o = 0; o < t->n_out; o++) {
            if (live >> t->out[o] & 1)
                return -1;               /* an old production of the output: never useful */
        }
        live &= ~(1 << t->in[i]);
    }
    for (int32_t i = 0; i < t->n_out; i++)
        live |= 1 << t->out[i];
    for (int32_t v = 0; v < task->n_values; v++)
        *bytes += live >> v & 1 ? task->values[v].bytes : 0;
    return live | (ran | 1 << node) << task->n_values;
}

static bool exact_is_end(const Task *task, int32_t state)
{
    if (state >> task->n_values != (1 << task->n_nodes) - 1)
        return false;
    for (int32_t v = 0; v < task->n_values; v++) {
        if (task->values[v].final && !(state >> v & 1))
            return false;
    }
    return true;
}

static void exact_list(Pool *pool, const Exact *e, int32_t end, RunList *out)
{
    int32_t n = 0;
    for (int32_t s = end; e->from[s] >= 0; s = e->from[s])
        n += e->run[s] >= 0;
    *out = (RunList){ .node = NEWN(pool, int32_t, n + 1), .n = n };
    for (int32_t s = end; e->from[s] >= 0; s = e->from[s]) {
        if (e->run[s] >= 0) {
            out->node[--n] = e->run[s];
            out->cost += e->task->nodes[e->run[s]].cost;
        }
    }
}

void solve_exact(Pool *pool, const SolverArgs *args, RunList *out)
{
    const Task *task = args->task;
    *out = (RunList){ 0 };
    if (!exact_can(task))
        return;
    Pool   *temp = pool_new(NULL, "exact");
    size_t  n_states = (size_t)1 << (task->n_nodes + task->n_values);
    Exact   e = {
        .task = task, .pool = temp, .key = NEWN(temp, double, n_states),
        .from = NEWN(temp, int32_t, n_states), .run = NEWN(temp, int16_t, n_states),
        .done = NEWN(temp, bool, n_states),
    };
    bool lowest = args->budget_bytes == LOWEST;
    for (size_t i = 0; i < n_states; i++)
        e.key[i] = -1;
    exact_push(&e, 0, lowest ? (double)task->fixed_bytes : 0, -1, -1);
    while (e.n_heap > 0) {
        int32_t state = exact_pop(&e);
        if (e.done[state])
            continue;
        e.done[state] = true;
        if (exact_is_end(task, state)) {
            exact_list(pool, &e, state, out);
            break;
        }
        for (int32_t node = 0; node < task->n_nodes; node++) {
            int64_t bytes;
            int32_t next = exact_run(task, state, node, &bytes);
            double  key = e.key[state];
            if (next < 0 || (!lowest && bytes > args->budget_bytes))
                continue;
            if (!lowest)
                key += task->nodes[node].cost;
            else if ((double)bytes > key)
                key = (double)bytes;
            exact_push(&e, next, key, state, node);
        }
        for (int32_t v = 0; v < task->n_values; v++) {
            if (state >> v & 1)
                exact_push(&e, state & ~(1 << v), e.key[state], state, -1);
        }
    }
    if (out->node) {
        Schedule *s = schedule_new(temp, task);
        int32_t   n_runs[EXACT_BITS] = { 0 };
        for (int32_t i = 0; i < out->n; i++) {
            if (++n_runs[out->node[i]] >= SCHEDULE_MAX_RUNS)
                out->node = NULL;
            if (!out->node)
                break;
        }
        if (out->node) {
            schedule_set(s, out->node, out->n);
            out->peak_bytes = schedule_load(s, 0).peak_bytes;
        }
    }
    pool_free(temp);
}
