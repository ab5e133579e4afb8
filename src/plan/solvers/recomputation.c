/* recomputation.c -- from values to drop to a list of runs (recomputation.h). */
#include "plan/solvers/recomputation.h"

#include <string.h>

enum { RECOMPUTATION_DEPTH = 20000, RECOMPUTATION_LENGTH = 4 };

void recomputation_init(Recomputation *r, Pool *pool, const Task *task)
{
    size_t n_values = (size_t)task->n_values + 1;
    *r = (Recomputation){
        .task = task,
        .pool = pool,
        .window = NEWN(pool, int32_t, n_values),
        .dropped = NEWN(pool, bool, n_values),
        .kept = NEWN(pool, bool, n_values),
        .present = NEWN(pool, bool, n_values),
        .last = NEWN(pool, int32_t, n_values),
        .n_runs = NEWN(pool, int32_t, task->n_nodes + 1),
        .deadline = task_deadlines(pool, task),
    };
    for (int32_t v = 0; v < task->n_values; v++) {
        const TaskValue *value = &task->values[v];
        r->last[v] = value->final           ? task->n_nodes
                     : value->n_readers > 0 ? value->readers[value->n_readers - 1]
                                            : value->producer;
    }
}

bool recomputation_pins(const Recomputation *r, int32_t value, int32_t node)
{
    const TaskValue *v = &r->task->values[value];
    for (int32_t w = 0; w < v->n_views; w++) {
        const TaskValue *view = &r->task->values[v->views[w]];
        if (r->task->nodes[view->producer].once && view->producer <= node &&
            (view->final || (view->n_readers > 0 && view->readers[view->n_readers - 1] > node)))
            return true;
    }
    return false;
}

static void recomputation_drop(Recomputation *r, int32_t value)
{
    const TaskValue *v = &r->task->values[value];
    r->present[value] = false;
    for (int32_t w = 0; w < v->n_views; w++)
        r->present[v->views[w]] = false;
}

static void recomputation_run(Recomputation *r, int32_t node)
{
    const TaskNode *t = &r->task->nodes[node];
    VEC_ADD(r->pool, r->runs, r->n, r->cap, node);
    for (int32_t i = 0; i < t->n_out; i++) {
        if (r->task->values[t->out[i]].takes)
            recomputation_drop(r, t->out[i]); /* it has other bytes now, and views are dead */
    }
    for (int32_t i = 0; i < t->n_out; i++)
        r->present[t->out[i]] = true;
    for (int32_t i = 0; i < t->n_takes; i++)
        recomputation_drop(r, t->in[i]);
}

static bool recomputation_inputs(Recomputation *r, int32_t node, int32_t depth);

/* Recomputes a value: one more run of its producer, after whatever that needs. */
static bool recomputation_produce(Recomputation *r, int32_t value, int32_t depth)
{
    int32_t         node = r->task->values[value].producer;
    const TaskNode *t = &r->task->nodes[node];
    if (t->once || r->deadline[node] < r->now || depth > RECOMPUTATION_DEPTH ||
        r->n > RECOMPUTATION_LENGTH * r->task->n_nodes ||
        ++r->n_runs[node] > SCHEDULE_MAX_RUNS - 2 || !recomputation_inputs(r, node, depth))
        return false;
    recomputation_run(r, node);
    return true;
}

/* Recomputing one input may take over the bytes of another, which is then recomputed once more. */
static bool recomputation_inputs(Recomputation *r, int32_t node, int32_t depth)
{
    const TaskNode *t = &r->task->nodes[node];
    for (int tries = 0; tries < 3; tries++) {
        bool all = true;
        for (int32_t i = 0; i < t->n_in; i++) {
            if (!r->present[t->in[i]]) {
                all = false;
                if (!recomputation_produce(r, t->in[i], depth + 1))
                    return false;
            }
        }
        if (all)
            return true;
    }
    return false;
}

bool recomputation_list(Recomputation *r)
{
    const Task *task = r->task;
    memset(r->present, 0, sizeof *r->present * (size_t)task->n_values);
    memset(r->n_runs, 0, sizeof *r->n_runs * (size_t)task->n_nodes);
    r->n = 0;
    for (int32_t n = 0; n < task->n_nodes; n++) {
        const TaskNode *t = &task->nodes[n];
        r->now = n;
        if (!recomputation_inputs(r, n, 0))
            return false;
        recomputation_run(r, n);
        for (int32_t i = 0; i < t->n_in + t->n_out; i++) {
            int32_t v = i < t->n_in ? t->in[i] : t->out[i - t->n_in];
            if (task->values[v].view_of < 0 &&
                ((r->dropped[v] && r->window[v] == n) || (r->last[v] <= n && !r->kept[v])))
                recomputation_drop(r, v);
        }
    }
    for (int32_t v = 0; v < task->n_values; v++) {
        r->now = task->n_nodes;
        if (task->values[v].final && !r->present[v] && !recomputation_produce(r, v, 0))
            return false;
    }
    return true;
}
