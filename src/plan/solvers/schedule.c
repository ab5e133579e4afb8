/* schedule.c -- edits of a list of runs, with exact bytes. See schedule.h. */
#include "plan/solvers/schedule.h"

#include <string.h>

static int32_t makings_before(const Schedule *s, const Makings *m, int32_t position)
{
    int32_t k = m->n - 1;
    while (k >= 0 && s->position[m->slot[k]] >= position)
        k--;
    return k;
}

static bool schedule_takes(const TaskNode *reader, int32_t value)
{
    for (int32_t i = 0; i < reader->n_takes; i++) {
        if (reader->in[i] == value)
            return true;
    }
    return false;
}

/* The common case: made once, bytes never taken over. */
static bool schedule_count_single(Schedule *s, const TaskValue *v, int64_t bytes)
{
    int32_t made = s->position[s->makings[v->maker].slot[0]], first = s->n, last = made;
    for (int32_t r = 0; r < v->n_readers; r++) {
        const Makings *uses = &s->makings[v->readers[r]];
        if (uses->n == 0)
            continue;
        int32_t from = s->position[uses->slot[0]], to = s->position[uses->slot[uses->n - 1]];
        first = from < first ? from : first;
        last  = to > last ? to : last;
    }
    s->begin[made] += bytes;
    if (!v->final)
        s->end[last] += bytes;
    return first > made;
}

/* Add (sign 1) or take back (sign -1) what value contributes to begin and end. False if a reader
 * has no making before it, or reads bytes that were taken over; then nothing sensible was added,
 * and the caller must take back with the same list before any edit. */
static bool schedule_count(Schedule *s, int32_t value, int64_t sign)
{
    const TaskValue *v = &s->task->values[value];
    const Makings   *m = &s->makings[v->maker];
    int64_t bytes = sign * v->bytes;
    if (m->n == 1 && !v->takable)
        return schedule_count_single(s, v, bytes);

    int32_t made[SCHEDULE_MAX_RUNS + 1], last[SCHEDULE_MAX_RUNS + 1], taker[SCHEDULE_MAX_RUNS + 1];
    bool    valid = true;
    for (int32_t k = 0; k < m->n; k++) {
        made[k]  = last[k] = s->position[m->slot[k]];
        taker[k] = -1;
    }
    for (int32_t r = 0; r < v->n_readers; r++) {
        const Makings *uses = &s->makings[v->readers[r]];
        bool takes = v->takable && schedule_takes(&s->task->nodes[v->readers[r]], value);
        for (int32_t u = 0, k = -1; u < uses->n; u++) {
            int32_t position = s->position[uses->slot[u]];
            while (k + 1 < m->n && made[k + 1] < position)
                k++;
            if (k < 0) {
                valid = false;
                continue;
            }
            if (takes) {
                valid &= taker[k] < 0;
                taker[k] = position;
            }
            if (position > last[k])
                last[k] = position;
        }
    }
    for (int32_t k = 0; k < m->n; k++) {
        bool lasts = v->final && k == m->n - 1;
        s->begin[made[k]] += bytes;
        if (taker[k] >= 0) {
            valid &= taker[k] == last[k] && !lasts;
            s->begin[taker[k]] -= bytes;
        } else if (!lasts) {
            s->end[last[k]] += bytes;
        }
    }
    return valid;
}

static bool schedule_count_node(Schedule *s, int32_t node, int64_t sign)
{
    const TaskNode *t = &s->task->nodes[node];
    bool valid = true;
    for (int32_t i = 0; i < t->n_in; i++)
        valid &= schedule_count(s, t->in[i], sign);
    for (int32_t i = 0; i < t->n_out; i++)
        valid &= schedule_count(s, t->out[i], sign);
    return valid;
}

static void schedule_grow(Schedule *s)
{
    int32_t cap = 2 * s->cap;
#define GROW(array) s->array = pool_grow(s->pool, s->array, sizeof *s->array * (size_t)s->cap, \
                                         sizeof *s->array * (size_t)cap)
    GROW(slot_at);
    GROW(node_at);
    GROW(begin);
    GROW(end);
    GROW(workspace);
    GROW(position);
    GROW(free_slots);
#undef GROW
    s->cap = cap;
}

#define SHIFT(array, from, to, count) \
    memmove(&(array)[to], &(array)[from], sizeof *(array) * (size_t)(count))

static void schedule_open(Schedule *s, int32_t node, int32_t p)
{
    Makings *m = &s->makings[node];
    int32_t  rest = s->n - p, slot, k;
    if (s->n + 1 >= s->cap)
        schedule_grow(s);
    SHIFT(s->slot_at, p, p + 1, rest);
    SHIFT(s->node_at, p, p + 1, rest);
    SHIFT(s->begin, p, p + 1, rest);
    SHIFT(s->end, p, p + 1, rest);
    SHIFT(s->workspace, p, p + 1, rest);
    for (int32_t i = 0; i < s->n_slots; i++)
        s->position[i] += s->position[i] >= p;
    slot = s->n_free > 0 ? s->free_slots[--s->n_free] : s->n_slots++;
    s->position[slot] = p;
    s->slot_at[p]   = slot;
    s->node_at[p]   = node;
    s->begin[p]     = s->end[p] = 0;
    s->workspace[p] = s->task->nodes[node].workspace;
    for (k = m->n++; k > 0 && s->position[m->slot[k - 1]] > p; k--)
        m->slot[k] = m->slot[k - 1];
    m->slot[k] = slot;
    s->cost += s->task->nodes[node].cost;
    s->n_edits++;
    s->n++;
}

static void schedule_close(Schedule *s, int32_t p)
{
    int32_t  node = s->node_at[p], slot = s->slot_at[p], rest = s->n - p - 1, k = 0;
    Makings *m = &s->makings[node];
    while (m->slot[k] != slot)
        k++;
    for (m->n--; k < m->n; k++)
        m->slot[k] = m->slot[k + 1];
    SHIFT(s->slot_at, p + 1, p, rest);
    SHIFT(s->node_at, p + 1, p, rest);
    SHIFT(s->begin, p + 1, p, rest);
    SHIFT(s->end, p + 1, p, rest);
    SHIFT(s->workspace, p + 1, p, rest);
    s->position[slot] = -1;
    s->free_slots[s->n_free++] = slot;
    for (int32_t i = 0; i < s->n_slots; i++)
        s->position[i] -= s->position[i] > p;
    s->cost -= s->task->nodes[node].cost;
    s->n_edits++;
    s->n--;
}

/* The pairs that data does not show: every run of x before every run of y. */
static bool schedule_pairs_hold(const Schedule *s, int32_t node, int32_t p)
{
    const TaskNode *t = &s->task->nodes[node];
    for (int32_t i = 0; i < t->n_after; i++) {
        const Makings *m = &s->makings[t->after[i]];
        if (m->n > 0 && s->position[m->slot[0]] < p)
            return false;
    }
    for (int32_t i = 0; i < t->n_before; i++) {
        const Makings *m = &s->makings[t->before[i]];
        if (m->n > 0 && s->position[m->slot[m->n - 1]] >= p)
            return false;
    }
    return true;
}

static void schedule_note(Schedule *s, int32_t node, int32_t position, bool inserted)
{
    Edit edit = { node, position, inserted };
    VEC_ADD(s->pool, s->journal, s->n_journal, s->cap_journal, edit);
}

bool schedule_insert(Schedule *s, int32_t node, int32_t p)
{
    Makings *m = &s->makings[node];
    if (m->n == SCHEDULE_MAX_RUNS || !schedule_pairs_hold(s, node, p))
        return false;
    schedule_count_node(s, node, -1);
    schedule_open(s, node, p);
    if (schedule_count_node(s, node, 1)) {
        schedule_note(s, node, p, true);
        return true;
    }
    schedule_count_node(s, node, -1);
    schedule_close(s, p);
    schedule_count_node(s, node, 1);
    return false;
}

bool schedule_remove(Schedule *s, int32_t p)
{
    int32_t node = s->node_at[p];
    schedule_count_node(s, node, -1);
    schedule_close(s, p);
    if (schedule_count_node(s, node, 1)) {
        schedule_note(s, node, p, false);
        return true;
    }
    schedule_count_node(s, node, -1);
    schedule_open(s, node, p);
    schedule_count_node(s, node, 1);
    return false;
}

int32_t schedule_mark(const Schedule *s) { return s->n_journal; }

void schedule_commit(Schedule *s) { s->n_journal = 0; }

void schedule_undo(Schedule *s, int32_t mark)
{
    while (s->n_journal > mark) {
        Edit e = s->journal[--s->n_journal];
        schedule_count_node(s, e.node, -1);
        if (e.inserted)
            schedule_close(s, e.position);
        else
            schedule_open(s, e.node, e.position);
        schedule_count_node(s, e.node, 1);
    }
}

Schedule *schedule_new(Pool *pool, const Task *task)
{
    Schedule *s = NEW(pool, Schedule);
    s->task = task;
    s->pool = pool;
    s->cap  = 2 * task->n_nodes + 64;
    s->slot_at    = NEWN(pool, int32_t, s->cap);
    s->node_at    = NEWN(pool, int32_t, s->cap);
    s->begin      = NEWN(pool, int64_t, s->cap);
    s->end        = NEWN(pool, int64_t, s->cap);
    s->workspace  = NEWN(pool, int64_t, s->cap);
    s->position   = NEWN(pool, int32_t, s->cap);
    s->free_slots = NEWN(pool, int32_t, s->cap);
    s->makings    = NEWN(pool, Makings, task->n_nodes + 1);
    Pool    *scratch = pool_new(NULL, "schedule_new");
    int32_t *list = NEWN(scratch, int32_t, task->n_nodes + 1);
    for (int32_t t = 0; t < task->n_nodes; t++)
        list[t] = t;
    schedule_set(s, list, task->n_nodes);
    pool_free(scratch);
    return s;
}

void schedule_set(Schedule *s, const int32_t *list, int32_t n)
{
    const Task *task = s->task;
    while (s->cap < n + 2)
        schedule_grow(s);
    for (int32_t t = 0; t < task->n_nodes; t++)
        s->makings[t].n = 0;
    s->n = s->n_slots = n;
    s->n_free = s->n_journal = 0;
    s->cost = 0;
    for (int32_t p = 0; p < n; p++) {
        Makings *m = &s->makings[list[p]];
        REQUIRE(m->n < SCHEDULE_MAX_RUNS);
        m->slot[m->n++] = p;
        s->slot_at[p] = s->position[p] = p;
        s->node_at[p] = list[p];
        s->begin[p] = s->end[p] = 0;
        s->workspace[p] = task->nodes[list[p]].workspace;
        s->cost += task->nodes[list[p]].cost;
    }
    for (int32_t v = 0; v < task->n_values; v++)
        REQUIRE(schedule_count(s, v, 1));
}

Load schedule_load(const Schedule *s, int64_t budget)
{
    int64_t live = s->task->fixed_bytes, over = 0;
    Load    load = { .peak_bytes = live, .peak_position = 0 };
    for (int32_t p = 0; p < s->n; p++) {
        live += s->begin[p];
        int64_t now = live + s->workspace[p], above = now - budget;
        if (now > load.peak_bytes) {
            load.peak_bytes    = now;
            load.peak_position = p;
        }
        over += above > 0 ? above : 0;
        live -= s->end[p];
    }
    load.excess = (double)over;
    return load;
}

int32_t schedule_making(const Schedule *s, int32_t value, int32_t position)
{
    const Makings *m = &s->makings[s->task->values[value].maker];
    int32_t k = makings_before(s, m, position);
    return k < 0 ? -1 : s->position[m->slot[k]];
}

int32_t schedule_last_reader(const Schedule *s, int32_t value, int32_t position, bool *taken)
{
    const TaskValue *v = &s->task->values[value];
    const Makings   *m = &s->makings[v->maker];
    int32_t k = makings_before(s, m, position);
    *taken = false;
    if (k < 0)
        return -1;
    int32_t from = s->position[m->slot[k]];
    int32_t to = k + 1 < m->n ? s->position[m->slot[k + 1]] : s->n;
    int32_t last = from;
    if (v->final && k == m->n - 1)
        last = s->n - 1;
    for (int32_t r = 0; r < v->n_readers; r++) {
        const TaskNode *reader = &s->task->nodes[v->readers[r]];
        const Makings  *uses = &s->makings[v->readers[r]];
        for (int32_t u = 0; u < uses->n; u++) {
            int32_t p = s->position[uses->slot[u]];
            if (p <= from || p >= to)
                continue;
            last = p > last ? p : last;
            for (int32_t i = 0; i < reader->n_takes && p < position; i++)
                *taken |= reader->in[i] == value;
        }
    }
    return last;
}
