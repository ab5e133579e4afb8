/* search.c -- moves over schedules (search.h). */
#include "plan/solvers/search.h"

#include "base/stop.h"

#include <float.h>
#include <string.h>

enum {
    SEARCH_DEPTH = 12, /* of nested recomputation */
    SEARCH_ROOM = 64,  /* runs that one recompute may add; often only an eighth of it */
    SEARCH_LENGTH = 6, /* a list may have this many times the nodes */
    SEARCH_TRIES = 30
};

static const double search_groups = 0.8; /* share of shifts that move groups, if groups are
                                              * enabled */

void search_init(ScheduleSearch *x, Pool *pool, const SolverArgs *args)
{
    *x = (ScheduleSearch){ .task = args->task,
                           .random = args->seed * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u,
                           .groups = args->groups,
                           .cost_limit = DBL_MAX };
    if (x->random == 0)
        x->random = 1;
    x->s = schedule_new(pool, args->task);
    if (args->start.node)
        schedule_set(x->s, args->start.node, args->start.n);
    for (int i = 0; i < 8; i++)
        search_unit(x);
}

static uint64_t search_next(ScheduleSearch *x) /* xorshift64* */
{
    x->random ^= x->random >> 12;
    x->random ^= x->random << 25;
    x->random ^= x->random >> 27;
    return x->random * 0x2545F4914F6CDD1Du;
}

double search_unit(ScheduleSearch *x) { return (double)(search_next(x) >> 11) * 0x1p-53; }

int32_t search_below(ScheduleSearch *x, int32_t n)
{
    return (int32_t)((search_next(x) >> 32) * (uint64_t)n >> 32);
}

int32_t search_position(ScheduleSearch *x)
{
    int32_t p;
    do {
        p = search_below(x, x->s->after);
    } while (!schedule_has(x->s, p));
    return p;
}

int32_t search_slot(const Schedule *s, int32_t position)
{
    return position < s->after ? s->slot_at[position] : -1;
}

static bool search_recompute_node(ScheduleSearch *x, int32_t node, int32_t before, int32_t depth);

/* Is this a view whose root was produced again since, before position p? Reading it would keep the
 * root live since then. */
static bool search_view_is_old(const Schedule *s, int32_t value, int32_t p)
{
    int32_t root = s->task->values[value].view_of;
    return root >= 0 && schedule_production(s, value, p) < schedule_production(s, root, p);
}

/* After a run of a node that produces a root, before a slot: its views are produced again for those
 * who read them next, or the root would have to be kept for them. Where that is impossible it is
 * kept. */
static void search_renew_views(ScheduleSearch *x, int32_t node, int32_t before, int32_t depth)
{
    Schedule       *s = x->s;
    const TaskNode *t = &x->task->nodes[node];
    for (int32_t o = 0; o < t->n_out; o++) {
        const TaskValue *root = &x->task->values[t->out[o]];
        for (int32_t w = 0; w < root->n_views; w++) {
            const TaskValue *view = &x->task->values[root->views[w]];
            int32_t          p = before >= 0 ? s->position[before] : s->after;
            int32_t          made = schedule_production(s, t->out[o], p);
            int32_t          next = search_next_reader(s, root->views[w], made, made);
            if (schedule_production(s, root->views[w], made) >= 0 && next >= 0 &&
                schedule_production(s, t->out[o], next) == made)
                search_recompute_node(x, view->producer, search_slot(s, next), depth + 1);
        }
    }
}

/* Runs a node again before a slot, and before it whatever it needs that is missing. */
static bool search_recompute_node(ScheduleSearch *x, int32_t node, int32_t before, int32_t depth)
{
    Schedule       *s = x->s;
    const TaskNode *t = &x->task->nodes[node];
    int32_t         mark = schedule_mark(s);
    if (t->once || x->room-- <= 0 || s->cost + t->cost > x->cost_limit ||
        s->n >= SEARCH_LENGTH * x->task->n_nodes + 64)
        return false;
    for (int32_t i = 0; i < t->n_in; i++) {
        bool    taken;
        int32_t p = before >= 0 ? s->position[before] : s->after;
        int32_t last = schedule_last_reader(s, t->in[i], p, &taken);
        if (x->task->values[t->in[i]].view_of >= 0) {
            if (search_view_is_old(s, t->in[i], p))
                search_recompute_node(x, x->task->values[t->in[i]].producer, before, depth + 1);
            continue;
        }
        if (!taken && (last >= p || depth >= SEARCH_DEPTH || search_unit(x) < x->keep))
            continue; /* still live, or kept until now */
        bool made = depth < SEARCH_DEPTH &&
                    search_recompute_node(x, x->task->values[t->in[i]].producer, before, depth + 1);
        if (!made && taken) {
            schedule_undo(s, mark);
            return false;
        }
    }
    if (!schedule_insert(s, node, before)) {
        schedule_undo(s, mark);
        return false;
    }
    search_renew_views(x, node, before, depth);
    return true;
}

/* Does nothing read production k of the node? */
static bool search_useless(const Schedule *s, int32_t node, int32_t k)
{
    const TaskNode    *t = &s->task->nodes[node];
    const Productions *m = &s->productions[node];
    int32_t            from = s->position[m->slot[k]];
    int32_t            to = k + 1 < m->n ? s->position[m->slot[k + 1]] : s->after;
    for (int32_t o = 0; o < t->n_out; o++) {
        const TaskValue *v = &s->task->values[t->out[o]];
        if (v->final && k == m->n - 1)
            return false;
        for (int32_t r = 0; r < v->n_readers; r++) {
            const Productions *uses = &s->productions[v->readers[r]];
            for (int32_t u = 0; u < uses->n; u++) {
                int32_t p = s->position[uses->slot[u]];
                if (p > from && p < to)
                    return false;
            }
        }
    }
    return true;
}

static void search_clean_inputs(ScheduleSearch *x, int32_t node);

/* Removes runs of the node that nothing reads, then those that only served them. */
static void search_clean(ScheduleSearch *x, int32_t node)
{
    Schedule    *s = x->s;
    Productions *m = &s->productions[node];
    for (int32_t k = m->n - 1; k >= 0 && m->n > 1; k--) {
        if (search_useless(s, node, k) && schedule_remove(s, m->slot[k]))
            search_clean_inputs(x, node);
    }
}

static void search_clean_inputs(ScheduleSearch *x, int32_t node)
{
    const TaskNode *t = &x->task->nodes[node];
    for (int32_t i = 0; i < t->n_in; i++) {
        int32_t producer = x->task->values[t->in[i]].producer;
        if (x->s->productions[producer].n > 1)
            search_clean(x, producer);
    }
}

/* Removes runs of the node's views that the recomputation of their root has left unread. */
static void search_clean_views(ScheduleSearch *x, int32_t node)
{
    const TaskNode *t = &x->task->nodes[node];
    for (int32_t o = 0; o < t->n_out; o++) {
        const TaskValue *root = &x->task->values[t->out[o]];
        for (int32_t w = 0; w < root->n_views; w++)
            search_clean(x, x->task->values[root->views[w]].producer);
    }
}

/* Without a second run of the node, its roots live on: views need not be produced again. */
static void search_cancel_views(ScheduleSearch *x, int32_t node)
{
    Schedule       *s = x->s;
    const TaskNode *t = &x->task->nodes[node];
    for (int32_t o = 0; o < t->n_out; o++) {
        const TaskValue *root = &x->task->values[t->out[o]];
        for (int32_t w = 0; w < root->n_views; w++) {
            int32_t            producer = x->task->values[root->views[w]].producer;
            const Productions *m = &s->productions[producer];
            for (int32_t k = m->n - 1; k > 0; k--) {
                int32_t from = s->position[m->slot[k - 1]], to = s->position[m->slot[k]];
                if (x->task->nodes[producer].n_out == 1 &&
                    schedule_production(s, t->out[o], from) ==
                        schedule_production(s, t->out[o], to) &&
                    schedule_remove(s, m->slot[k]))
                    search_clean_inputs(x, producer);
                k = k < m->n ? k : m->n;
            }
        }
    }
}

int32_t search_next_reader(const Schedule *s, int32_t value, int32_t r, int32_t p)
{
    const TaskValue   *v = &s->task->values[value];
    const Productions *m = &s->productions[v->producer];
    int32_t            to = s->after;
    for (int32_t k = m->n - 1; k >= 0; k--) {
        int32_t q = s->position[m->slot[k]];
        if (q > r)
            to = q;
    }
    if (to <= p)
        return -1;
    int32_t next = to;
    for (int32_t i = 0; i < v->n_readers; i++) {
        const Productions *uses = &s->productions[v->readers[i]];
        for (int32_t u = 0; u < uses->n; u++) {
            int32_t q = s->position[uses->slot[u]];
            if (q == p)
                return -1;
            if (q > p && q < next)
                next = q;
        }
    }
    return next < to || (v->final && to == s->after) ? next : -1;
}

bool search_recompute_before(ScheduleSearch *x, int32_t node, int32_t before, bool keep)
{
    x->keep = keep;
    x->room = SEARCH_ROOM;
    if (!search_recompute_node(x, node, before, 0))
        return false;
    search_clean(x, node);
    search_clean_views(x, node);
    return true;
}

bool search_take_out(ScheduleSearch *x, int32_t slot)
{
    int32_t node = x->s->node_at[x->s->position[slot]];
    if (x->s->productions[node].n < 2 || !schedule_remove(x->s, slot))
        return false;
    search_clean_inputs(x, node);
    search_cancel_views(x, node);
    return true;
}

static bool search_recompute(ScheduleSearch *x, int32_t p)
{
    Schedule *s = x->s;
    for (int32_t tries = 0; tries < SEARCH_TRIES && p > 0; tries++) {
        int32_t r = search_below(x, p);
        if (!schedule_has(s, r))
            continue;
        int32_t         node = s->node_at[r];
        const TaskNode *t = &x->task->nodes[node];
        if (t->once || t->n_out == 0)
            continue;
        int32_t value = t->out[t->n_out > 1 ? search_below(x, t->n_out) : 0];
        if (x->task->values[value].view_of >= 0)
            continue; /* has no bytes */
        int32_t next = search_next_reader(s, value, r, p);
        x->room = SEARCH_ROOM >> search_below(x, 4);
        if (next < 0 || !search_recompute_node(x, node, search_slot(s, next), 0))
            continue;
        search_clean(x, node);
        search_clean_views(x, node);
        return true;
    }
    return false;
}

static bool search_cancel(ScheduleSearch *x)
{
    Schedule *s = x->s;
    if (s->n == x->task->n_nodes)
        return false;
    for (int32_t tries = 0; tries < 2 * SEARCH_TRIES; tries++) {
        if (search_take_out(x, s->slot_at[search_position(x)]))
            return true;
    }
    return false;
}

/* Where to: just before the first reader, just after the last input, or a few places away. A
 * position, or -1: nowhere. */
static int32_t search_shift_target(ScheduleSearch *x, int32_t p)
{
    const Schedule *s = x->s;
    const TaskNode *t = &x->task->nodes[s->node_at[p]];
    int32_t         kind = search_below(x, 4), target;
    if (kind == 0) {
        target = s->after;
        for (int32_t o = 0; o < t->n_out; o++) {
            int32_t next = search_next_reader(s, t->out[o], p, p);
            if (next >= 0 && next < target)
                target = next;
        }
    } else if (kind == 1) {
        target = -1;
        for (int32_t i = 0; i < t->n_in; i++) {
            int32_t made = schedule_production(s, t->in[i], p);
            target = made > target ? made : target;
        }
        target = target >= 0 ? schedule_next(s, target) : 0;
        target = schedule_has(s, target) ? target : schedule_next(s, target);
    } else {
        int32_t far = 1 + search_below(x, 8) + (kind == 2);
        for (target = p; far > 0 && target >= 0 && target < s->after; far--)
            target = kind == 2 ? schedule_next(s, target) : schedule_previous(s, target);
    }
    return target;
}

static bool search_shift(ScheduleSearch *x, int32_t p)
{
    Schedule *s = x->s;
    int32_t   target = search_shift_target(x, p), slot = s->slot_at[p];
    if (target < 0 || target == p || target == schedule_next(s, p))
        return false;
    return schedule_insert(s, s->node_at[p], search_slot(s, target)) && schedule_remove(s, slot);
}

/* Every second group begins where the load is high, if a run is still at that position (chunks may
 * have split). */
static bool search_order(ScheduleSearch *x, int32_t position)
{
    if (search_unit(x) >= search_groups)
        return search_shift(x, search_position(x));
    bool here = search_below(x, 2) && position < x->s->after && schedule_has(x->s, position);
    return search_group(x, here ? position : search_position(x));
}

bool search_move(ScheduleSearch *x, MoveKind kind, int32_t position, int64_t budget_bytes)
{
    double r = search_unit(x);
    x->keep = r < 0.3 ? 0 : r < 0.5 ? 1 : search_unit(x);
    switch (kind) {
    case MOVE_RECOMPUTE: return search_recompute(x, position);
    case MOVE_CANCEL: return search_cancel(x);
    case MOVE_SWAP: {
        if (!search_cancel(x))
            return false;
        Load load = schedule_load(x->s, budget_bytes);
        return search_recompute(x, load.excess > 0 ? load.peak_position : search_position(x));
    }
    default: return x->groups ? search_order(x, position) : search_shift(x, search_position(x));
    }
}

static double search_cost(const Task *task, const int32_t *node, int32_t n)
{
    double cost = 0; /* summed anew: the schedule's running sum drifts in the last bits */
    for (int32_t p = 0; p < n; p++)
        cost += task->nodes[node[p]].cost;
    return cost;
}

void search_keep(Pool *pool, const ScheduleSearch *x, Load load, RunList *best)
{
    const Schedule *s = x->s;
    if (!best->node)
        best->node = NEWN(pool, int32_t, SEARCH_LENGTH * x->task->n_nodes + 64 + 2 * SEARCH_ROOM);
    schedule_list(s, best->node);
    best->n = s->n;
    best->cost = search_cost(x->task, best->node, s->n);
    best->peak_bytes = load.peak_bytes;
}

static bool run_list_better(const RunList *a, const RunList *b, int64_t budget_bytes)
{
    bool cheaper = a->cost < b->cost, lower = a->peak_bytes < b->peak_bytes;
    if (budget_bytes == LOWEST)
        return lower || (a->peak_bytes == b->peak_bytes && cheaper);
    return cheaper || (a->cost <= b->cost && lower) || b->peak_bytes > budget_bytes;
}

bool run_list_keep(Pool *pool, RunList *best, const RunList *list, int64_t budget_bytes)
{
    if (!list->node || (budget_bytes != LOWEST && list->peak_bytes > budget_bytes) ||
        (best->node && !run_list_better(list, best, budget_bytes)))
        return false;
    int32_t *copy = NEWN(pool, int32_t, list->n + 1);
    memcpy(copy, list->node, sizeof *copy * (size_t)list->n);
    bool cut = best->cut;
    *best = *list;
    best->node = copy;
    best->cut |= cut;
    return true;
}

bool search_late(const SolverArgs *args, int64_t turn)
{
    return (turn & 63) == 0 && stop_late(args->deadline_s);
}

bool search_polish(ScheduleSearch *x, const SolverArgs *args)
{
    Schedule *s = x->s;
    for (int32_t p = s->after - 1; p >= 0; p--) {
        if (!schedule_has(s, p) || s->productions[s->node_at[p]].n < 2)
            continue;
        if (search_late(args, 0))
            return false;
        int32_t mark = schedule_mark(s);
        double  cost = s->cost;
        if (search_take_out(x, s->slot_at[p]) && s->cost < cost &&
            schedule_load(s, args->budget_bytes).excess <= 0) {
            schedule_commit(s);
            continue;
        }
        schedule_undo(s, mark);
    }
    return true;
}
