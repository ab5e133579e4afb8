/* run_list.c -- edits of a list of runs, with exact bytes (run_list.h). */
#include "plan/solvers/run_list.h"

#include "base/int_math.h"

#include <string.h>

static int32_t productions_before(const Schedule *s, const Productions *m, int32_t position)
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

static void schedule_begin(Schedule *s, int32_t position, int64_t bytes)
{
    s->begin[position] += bytes;
    s->chunks[position / SCHEDULE_CHUNK].stale = true;
}

static void schedule_end(Schedule *s, int32_t position, int64_t bytes)
{
    s->end[position] += bytes;
    s->chunks[position / SCHEDULE_CHUNK].stale = true;
}

/* Adds bytes (or minus them) from every production of a value to its end. */
static void schedule_count(Schedule *s, int32_t value, int64_t bytes)
{
    const Productions *m = &s->productions[s->task->values[value].producer];
    for (int32_t k = 0; k < m->n; k++) {
        int32_t end = s->ends[value].slot[k];
        schedule_begin(s, s->position[m->slot[k]], bytes);
        if (end >= 0)
            schedule_end(s, s->position[end], bytes);
        else if (end != ENDS_NEVER)
            schedule_begin(s, s->position[~end], -bytes);
    }
}

/* The common case: produced once, bytes never taken over. */
static bool schedule_add_single(Schedule *s, int32_t value)
{
    const TaskValue *v = &s->task->values[value];
    int32_t          slot = s->productions[v->producer].slot[0], made = s->position[slot];
    int32_t          first = INT32_MAX, last = made;
    for (int32_t r = 0; r < v->n_readers; r++) {
        const Productions *uses = &s->productions[v->readers[r]];
        if (uses->n == 0)
            continue;
        int32_t from = s->position[uses->slot[0]], to = s->position[uses->slot[uses->n - 1]];
        first = from < first ? from : first;
        if (to > last) {
            last = to;
            slot = uses->slot[uses->n - 1];
        }
    }
    schedule_begin(s, made, v->bytes);
    s->ends[value].slot[0] = v->final ? ENDS_NEVER : slot;
    if (!v->final)
        schedule_end(s, last, v->bytes);
    return first > made;
}

/* Marks the productions of a root that must find it still live, because a view is read beyond them:
 * such a production rewrites the root, and its bytes pass on. */
static void schedule_bridge(const Schedule *s, const TaskValue *root, const int32_t *made,
                            int32_t n_made, bool *bridged)
{
    for (int32_t w = 0; w < root->n_views; w++) {
        const TaskValue   *view = &s->task->values[root->views[w]];
        const Productions *m = &s->productions[view->producer];
        for (int32_t k = 0; k < m->n; k++) {
            int32_t from = s->position[m->slot[k]];
            int32_t to = k + 1 < m->n ? s->position[m->slot[k + 1]] : s->after, last = from;
            if (view->final && k + 1 == m->n)
                last = s->after;
            for (int32_t r = 0; r < view->n_readers; r++) {
                const Productions *uses = &s->productions[view->readers[r]];
                for (int32_t u = 0; u < uses->n; u++) {
                    int32_t position = s->position[uses->slot[u]];
                    last = position < to && position > last ? position : last;
                }
            }
            for (int32_t j = 1; j < n_made; j++)
                bridged[j] |= made[j] > from && made[j] < last;
        }
    }
}

/* Adds what a value contributes to begin and end. False if a reader has no production before it or
 * reads bytes that were taken over. The sums are then meaningless, and the caller must undo the
 * change. */
static bool schedule_add(Schedule *s, int32_t value)
{
    const TaskValue   *v = &s->task->values[value];
    const Productions *m = &s->productions[v->producer];
    if (m->n == 1 && !v->takable)
        return schedule_add_single(s, value);

    Ends   *ends = &s->ends[value];
    int32_t made[SCHEDULE_MAX_RUNS + 1], last[SCHEDULE_MAX_RUNS + 1];
    int32_t taker[SCHEDULE_MAX_RUNS + 1];
    bool    bridged[SCHEDULE_MAX_RUNS + 2] = { 0 }, valid = true;
    for (int32_t k = 0; k < m->n; k++) {
        ends->slot[k] = m->slot[k];
        made[k] = last[k] = s->position[m->slot[k]];
        taker[k] = -1;
    }
    for (int32_t r = 0; r < v->n_readers; r++) {
        const Productions *uses = &s->productions[v->readers[r]];
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
                taker[k] = uses->slot[u];
            }
            if (position > last[k]) {
                last[k] = position;
                ends->slot[k] = uses->slot[u];
            }
        }
    }
    if (v->n_views > 0)
        schedule_bridge(s, v, made, m->n, bridged);
    for (int32_t k = 0; k < m->n; k++) {
        bool lasts = v->final && k == m->n - 1;
        if (taker[k] >= 0) {
            valid &= taker[k] == ends->slot[k] && !lasts && !bridged[k + 1];
            ends->slot[k] = ~taker[k];
        } else if (bridged[k + 1]) {
            valid &= !v->takes; /* the next production has other bytes */
            ends->slot[k] = ~m->slot[k + 1];
        } else if (lasts) {
            ends->slot[k] = ENDS_NEVER;
        }
    }
    schedule_count(s, value, v->bytes);
    return valid;
}

/* What one edit does to a value that the node reads. Bytes that the node takes over, and roots with
 * views, whose productions depend on each other, are counted again as a whole, and so are the
 * outputs. Of any other input only the end of one production can change. */
static bool schedule_recounts(const Schedule *s, const TaskNode *t, int32_t i)
{
    return i < t->n_takes || s->task->values[t->in[i]].n_views > 0;
}

/* A run that was just opened reads a value. False, with nothing changed: nothing has produced it by
 * then, or its bytes were taken over. */
static bool schedule_read(Schedule *s, int32_t value, int32_t slot)
{
    const Productions *m = &s->productions[s->task->values[value].producer];
    int64_t            bytes = s->task->values[value].bytes;
    int32_t            p = s->position[slot], k = productions_before(s, m, p);
    if (k < 0)
        return false;
    int32_t end = s->ends[value].slot[k];
    if (end < 0)
        return end == ENDS_NEVER || s->position[~end] > p;
    if (s->position[end] < p) {
        schedule_end(s, s->position[end], -bytes);
        schedule_end(s, p, bytes);
        s->ends[value].slot[k] = slot;
    }
    return true;
}

/* A run that will be closed no longer reads a value. */
static void schedule_unread(Schedule *s, int32_t value, int32_t slot)
{
    const TaskValue   *v = &s->task->values[value];
    const Productions *m = &s->productions[v->producer];
    int32_t            p = s->position[slot], k = productions_before(s, m, p);
    if (k < 0 || s->ends[value].slot[k] != slot)
        return;
    int32_t end = m->slot[k], last = s->position[end];
    for (int32_t r = 0; r < v->n_readers; r++) {
        const Productions *uses = &s->productions[v->readers[r]];
        for (int32_t u = 0; u < uses->n && s->position[uses->slot[u]] < p; u++) {
            if (s->position[uses->slot[u]] > last) {
                end = uses->slot[u];
                last = s->position[end];
            }
        }
    }
    schedule_end(s, p, -v->bytes);
    schedule_end(s, last, v->bytes);
    s->ends[value].slot[k] = end;
}

/* Subtracts what is counted again as a whole; after an edit schedule_add_all adds it. */
static void schedule_take_back(Schedule *s, int32_t node)
{
    const TaskNode *t = &s->task->nodes[node];
    for (int32_t i = 0; i < t->n_in; i++) {
        if (schedule_recounts(s, t, i))
            schedule_count(s, t->in[i], -s->task->values[t->in[i]].bytes);
    }
    for (int32_t i = 0; i < t->n_out; i++)
        schedule_count(s, t->out[i], -s->task->values[t->out[i]].bytes);
}

static bool schedule_add_all(Schedule *s, int32_t node)
{
    const TaskNode *t = &s->task->nodes[node];
    bool            valid = true;
    for (int32_t i = 0; i < t->n_in; i++) {
        if (schedule_recounts(s, t, i))
            valid &= schedule_add(s, t->in[i]);
    }
    for (int32_t i = 0; i < t->n_out; i++)
        valid &= schedule_add(s, t->out[i]);
    return valid;
}

/* Grows the arrays for more chunks and more runs. */
static void schedule_grow(Schedule *s, int32_t n_chunks, int32_t n_slots)
{
#define GROW(array, old, new)                                                                      \
    s->array = pool_grow(s->pool, s->array, sizeof *s->array * (size_t)(old),                      \
                         sizeof *s->array * (size_t)(new))
    if (n_chunks > s->cap_chunks) {
        int32_t cap = 2 * n_chunks, old = s->cap_chunks * SCHEDULE_CHUNK, new = cap *SCHEDULE_CHUNK;
        GROW(chunks, s->cap_chunks, cap);
        GROW(slot_at, old, new);
        GROW(node_at, old, new);
        GROW(begin, old, new);
        GROW(end, old, new);
        GROW(load, old, new);
        s->cap_chunks = cap;
    }
    if (n_slots > s->cap_slots) {
        int32_t cap = 2 * n_slots;
        GROW(position, s->cap_slots, cap);
        GROW(free_slots, s->cap_slots, cap);
        s->cap_slots = cap;
    }
#undef GROW
}

/* Moves `count` runs from one position to another, with their bytes. */
static void schedule_move(Schedule *s, int32_t from, int32_t to, int32_t count)
{
    size_t n = (size_t)count;
    memmove(&s->slot_at[to], &s->slot_at[from], sizeof *s->slot_at * n);
    memmove(&s->node_at[to], &s->node_at[from], sizeof *s->node_at * n);
    memmove(&s->begin[to], &s->begin[from], sizeof *s->begin * n);
    memmove(&s->end[to], &s->end[from], sizeof *s->end * n);
}

static void schedule_renumber(Schedule *s, int32_t from, int32_t to)
{
    for (int32_t p = from; p < to; p++)
        s->position[s->slot_at[p]] = p;
}

/* Splits a full chunk into two half-full ones; later chunks move up. Rare: a chunk must fill up
 * first. */
static void schedule_split(Schedule *s, int32_t c)
{
    enum { HALF = SCHEDULE_CHUNK / 2 };
    schedule_grow(s, s->n_chunks + 1, 0);
    int32_t later = s->n_chunks - c - 1, next = (c + 1) * SCHEDULE_CHUNK;
    schedule_move(s, next, next + SCHEDULE_CHUNK, later * SCHEDULE_CHUNK);
    memmove(&s->load[next + SCHEDULE_CHUNK], &s->load[next],
            sizeof *s->load * (size_t)(later * SCHEDULE_CHUNK));
    memmove(&s->chunks[c + 2], &s->chunks[c + 1], sizeof *s->chunks * (size_t)later);
    schedule_move(s, next - HALF, next, HALF);
    s->chunks[c] = (RunChunk){ .n = SCHEDULE_CHUNK - HALF, .stale = true };
    s->chunks[c + 1] = (RunChunk){ .n = HALF, .stale = true };
    s->n_chunks++;
    s->after = s->n_chunks * SCHEDULE_CHUNK;
    for (int32_t k = c + 1; k < s->n_chunks; k++)
        schedule_renumber(s, k * SCHEDULE_CHUNK, k * SCHEDULE_CHUNK + s->chunks[k].n);
}

static int32_t schedule_place(const Schedule *s, int32_t before)
{
    int32_t last = s->n_chunks - 1;
    return before >= 0 ? s->position[before] : last * SCHEDULE_CHUNK + s->chunks[last].n;
}

static int32_t schedule_open(Schedule *s, int32_t node, int32_t before)
{
    Productions *m = &s->productions[node];
    int32_t      p = schedule_place(s, before), slot, k;
    bool         full = p == s->after || s->chunks[p / SCHEDULE_CHUNK].n == SCHEDULE_CHUNK;
    if (full) {
        schedule_split(s, p == s->after ? s->n_chunks - 1 : p / SCHEDULE_CHUNK);
        p = schedule_place(s, before);
    }
    schedule_grow(s, 0, s->n_slots + 1);
    RunChunk *chunk = &s->chunks[p / SCHEDULE_CHUNK];
    int32_t   rest = chunk->n - p % SCHEDULE_CHUNK;
    schedule_move(s, p, p + 1, rest);
    slot = s->n_free > 0 ? s->free_slots[--s->n_free] : s->n_slots++;
    s->slot_at[p] = slot;
    s->node_at[p] = node;
    s->begin[p] = s->end[p] = 0;
    schedule_renumber(s, p, p + rest + 1);
    chunk->n++;
    chunk->stale = true;
    for (k = m->n++; k > 0 && s->position[m->slot[k - 1]] > p; k--)
        m->slot[k] = m->slot[k - 1];
    m->slot[k] = slot;
    s->cost += s->task->nodes[node].cost;
    s->n_edits++;
    s->n++;
    return slot;
}

static void schedule_close(Schedule *s, int32_t slot)
{
    int32_t      p = s->position[slot], node = s->node_at[p], k = 0;
    Productions *m = &s->productions[node];
    RunChunk    *chunk = &s->chunks[p / SCHEDULE_CHUNK];
    int32_t      rest = chunk->n - p % SCHEDULE_CHUNK - 1;
    while (m->slot[k] != slot)
        k++;
    for (m->n--; k < m->n; k++)
        m->slot[k] = m->slot[k + 1];
    schedule_move(s, p + 1, p, rest);
    schedule_renumber(s, p, p + rest);
    chunk->n--;
    chunk->stale = true;
    s->position[slot] = -1;
    s->free_slots[s->n_free++] = slot;
    s->cost -= s->task->nodes[node].cost;
    s->n_edits++;
    s->n--;
}

/* A run of the node before a slot, with its bytes. *slot: its own. False: the list is not valid with
 * it, and schedule_take_out must follow. */
static bool schedule_put_in(Schedule *s, int32_t node, int32_t before, int32_t *slot)
{
    const TaskNode *t = &s->task->nodes[node];
    schedule_take_back(s, node);
    *slot = schedule_open(s, node, before);
    bool valid = schedule_add_all(s, node);
    for (int32_t i = 0; i < t->n_in; i++) {
        if (!schedule_recounts(s, t, i))
            valid &= schedule_read(s, t->in[i], *slot);
    }
    return valid;
}

/* The reverse. False: the list is not valid without the run, and schedule_put_in must follow. */
static bool schedule_take_out(Schedule *s, int32_t slot)
{
    int32_t         node = s->node_at[s->position[slot]];
    const TaskNode *t = &s->task->nodes[node];
    for (int32_t i = 0; i < t->n_in; i++) {
        if (!schedule_recounts(s, t, i))
            schedule_unread(s, t->in[i], slot);
    }
    schedule_take_back(s, node);
    schedule_close(s, slot);
    return schedule_add_all(s, node);
}

/* The order that data does not show: every run of x before every run of y. */
static bool schedule_pairs_hold(const Schedule *s, int32_t node, int32_t p)
{
    const TaskNode *t = &s->task->nodes[node];
    for (int32_t i = 0; i < t->n_after; i++) {
        const Productions *m = &s->productions[t->after[i]];
        if (m->n > 0 && s->position[m->slot[0]] < p)
            return false;
    }
    for (int32_t i = 0; i < t->n_before; i++) {
        const Productions *m = &s->productions[t->before[i]];
        if (m->n > 0 && s->position[m->slot[m->n - 1]] >= p)
            return false;
    }
    return true;
}

static void schedule_note(Schedule *s, int32_t node, int32_t slot, bool inserted)
{
    Edit edit = { node, slot, inserted };
    VEC_ADD(s->pool, s->journal, s->n_journal, s->cap_journal, edit);
}

int32_t schedule_next(const Schedule *s, int32_t position)
{
    int32_t c = position / SCHEDULE_CHUNK;
    if (position + 1 < c * SCHEDULE_CHUNK + s->chunks[c].n)
        return position + 1;
    do {
        c++;
    } while (c < s->n_chunks && s->chunks[c].n == 0);
    return c * SCHEDULE_CHUNK;
}

int32_t schedule_previous(const Schedule *s, int32_t position)
{
    int32_t c = position / SCHEDULE_CHUNK;
    if (position % SCHEDULE_CHUNK > 0)
        return position - 1;
    do {
        c--;
    } while (c >= 0 && s->chunks[c].n == 0);
    return c < 0 ? -1 : c * SCHEDULE_CHUNK + s->chunks[c].n - 1;
}

bool schedule_insert(Schedule *s, int32_t node, int32_t before)
{
    int32_t p = before >= 0 ? s->position[before] : s->after, slot;
    if (s->productions[node].n == SCHEDULE_MAX_RUNS || !schedule_pairs_hold(s, node, p))
        return false;
    if (schedule_put_in(s, node, before, &slot)) {
        schedule_note(s, node, slot, true);
        return true;
    }
    schedule_take_out(s, slot);
    return false;
}

bool schedule_remove(Schedule *s, int32_t slot)
{
    int32_t p = s->position[slot], node = s->node_at[p], next = schedule_next(s, p);
    int32_t before = next < s->after ? s->slot_at[next] : -1;
    if (schedule_take_out(s, slot)) {
        schedule_note(s, node, before, false);
        return true;
    }
    schedule_put_in(s, node, before, &slot);
    return false;
}

int32_t schedule_mark(const Schedule *s) { return s->n_journal; }

void schedule_commit(Schedule *s) { s->n_journal = 0; }

/* Freed slots are reused last first, so undoing gives every run its old slot back, and the slots in
 * the journal remain valid. */
void schedule_undo(Schedule *s, int32_t mark)
{
    while (s->n_journal > mark) {
        Edit    e = s->journal[--s->n_journal];
        int32_t slot;
        if (e.inserted)
            schedule_take_out(s, e.slot);
        else
            schedule_put_in(s, e.node, e.slot, &slot);
    }
}

Schedule *schedule_new(Pool *pool, const Task *task)
{
    Schedule *s = NEW(pool, Schedule);
    s->task = task;
    s->pool = pool;
    s->productions = NEWN(pool, Productions, task->n_nodes + 1);
    s->ends = NEWN(pool, Ends, task->n_values + 1);
    s->workspace = NEWN(pool, int64_t, task->n_nodes + 1);
    for (int32_t t = 0; t < task->n_nodes; t++)
        s->workspace[t] = task->nodes[t].workspace;
    Pool    *temp = pool_new(NULL, "schedule_new");
    int32_t *list = NEWN(temp, int32_t, task->n_nodes + 1);
    for (int32_t t = 0; t < task->n_nodes; t++)
        list[t] = t;
    schedule_set(s, list, task->n_nodes);
    pool_free(temp);
    return s;
}

void schedule_set(Schedule *s, const int32_t *list, int32_t n)
{
    enum {
        FILL = SCHEDULE_CHUNK * 5 / 8
    }; /* of each chunk, so that few must split
                                                      * soon */
    const Task *task = s->task;
    s->n_chunks = n / FILL + 1;
    schedule_grow(s, s->n_chunks, n + 1);
    for (int32_t t = 0; t < task->n_nodes; t++)
        s->productions[t].n = 0;
    for (int32_t c = 0; c < s->n_chunks; c++)
        s->chunks[c] = (RunChunk){ .stale = true };
    s->after = s->n_chunks * SCHEDULE_CHUNK;
    s->n = s->n_slots = n;
    s->n_free = s->n_journal = 0;
    s->cost = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t      p = i / FILL * SCHEDULE_CHUNK + i % FILL;
        Productions *m = &s->productions[list[i]];
        REQUIRE(m->n < SCHEDULE_MAX_RUNS);
        m->slot[m->n++] = i;
        s->chunks[p / SCHEDULE_CHUNK].n++;
        s->slot_at[p] = i;
        s->position[i] = p;
        s->node_at[p] = list[i];
        s->begin[p] = s->end[p] = 0;
        s->cost += task->nodes[list[i]].cost;
    }
    for (int32_t v = 0; v < task->n_values; v++)
        REQUIRE(schedule_add(s, v));
}

void schedule_list(const Schedule *s, int32_t *list)
{
    int32_t n = 0;
    for (int32_t c = 0; c < s->n_chunks; c++) {
        memcpy(&list[n], &s->node_at[c * SCHEDULE_CHUNK], sizeof *list * (size_t)s->chunks[c].n);
        n += s->chunks[c].n;
    }
}

/* Brings a chunk up to date after edits. */
static void chunk_sum(Schedule *s, int32_t c)
{
    RunChunk *chunk = &s->chunks[c];
    int64_t   live = 0, high = INT64_MIN / 2;
    for (int32_t p = c * SCHEDULE_CHUNK; p < c * SCHEDULE_CHUNK + chunk->n; p++) {
        live += s->begin[p];
        s->load[p] = live + s->workspace[s->node_at[p]];
        high = s->load[p] > high ? s->load[p] : high;
        live -= s->end[p];
    }
    *chunk = (RunChunk){ .n = chunk->n, .net = live, .high = high, .over_room = INT64_MAX };
}

/* The sum over the runs of a chunk of their bytes beyond `room`, which is what the budget leaves
 * above the bytes live before the chunk. Most edits leave most chunks as they were, and their room
 * too. */
static int64_t chunk_over(const Schedule *s, int32_t c, int64_t room)
{
    RunChunk      *chunk = &s->chunks[c];
    const int64_t *load = &s->load[c * SCHEDULE_CHUNK];
    if (chunk->over_room == room)
        return chunk->over;
    int64_t over = 0;
    for (int32_t i = 0; i < chunk->n; i++)
        over += load[i] > room ? load[i] - room : 0;
    chunk->over = over;
    chunk->over_room = room;
    return over;
}

static int32_t chunk_highest(const Schedule *s, int32_t c)
{
    int32_t p = c * SCHEDULE_CHUNK;
    while (s->load[p] != s->chunks[c].high)
        p++;
    return p;
}

/* The sum over all runs of bytes above the budget. */
static double schedule_excess(const Schedule *s, int64_t budget)
{
    int64_t room = budget - s->task->fixed_bytes, over = 0;
    for (int32_t c = 0; c < s->n_chunks; c++) {
        if (s->chunks[c].high > room)
            over += chunk_over(s, c, room);
        room -= s->chunks[c].net;
    }
    return (double)over;
}

Load schedule_load(Schedule *s, int64_t budget)
{
    int64_t live = s->task->fixed_bytes, peak = live;
    int32_t highest = -1;
    Load    load = { 0 };
    for (int32_t c = 0; c < s->n_chunks; c++) {
        if (s->chunks[c].stale)
            chunk_sum(s, c);
    }
    for (int32_t c = 0; c < s->n_chunks; c++) {
        highest = live + s->chunks[c].high > peak ? c : highest;
        peak = int_max(peak, live + s->chunks[c].high);
        live += s->chunks[c].net;
    }
    load.peak_bytes = peak;
    if (highest >= 0)
        load.peak_position = chunk_highest(s, highest);
    if (peak > budget)
        load.excess = schedule_excess(s, budget);
    return load;
}

int32_t schedule_production(const Schedule *s, int32_t value, int32_t position)
{
    const Productions *m = &s->productions[s->task->values[value].producer];
    int32_t            k = productions_before(s, m, position);
    return k < 0 ? -1 : s->position[m->slot[k]];
}

int32_t schedule_last_reader(const Schedule *s, int32_t value, int32_t position, bool *taken)
{
    const TaskValue   *v = &s->task->values[value];
    const Productions *m = &s->productions[v->producer];
    int32_t            k = productions_before(s, m, position);
    *taken = false;
    if (k < 0)
        return -1;
    int32_t from = s->position[m->slot[k]];
    int32_t to = k + 1 < m->n ? s->position[m->slot[k + 1]] : s->after;
    int32_t last = from;
    if (v->final && k == m->n - 1)
        last = s->after - 1;
    for (int32_t r = 0; r < v->n_readers; r++) {
        const TaskNode    *reader = &s->task->nodes[v->readers[r]];
        const Productions *uses = &s->productions[v->readers[r]];
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
