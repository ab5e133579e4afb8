/* groups.c -- moves a run together with the runs that tie it to its place.
 *
 *   advance   a run moves before one that is some places earlier, with everything in between that
 *             it needs
 *   delay     a run moves behind one that is some places later, with everything in between that
 *             needs it
 *
 *   before    a  b  c  d  e  f         f needs d, d needs b
 *   advance   b  d  f  a  c  e         f to the front
 *
 * A single run can only move between its inputs and its readers. In a graph of wide branches,
 * another order of the branches means moving many runs at once, and moving only some of them would
 * exceed the budget.
 */
#include "plan/solvers/search.h"

enum {
    GROUP_MAX = 24, /* runs that move together, at most */
    GROUP_FAR = 48, /* places to move, at most; short moves are more frequent */
    GROUP_PRICE = 1 /* edits charged for each run of a refused group: in a chain every
                              * group is refused, and finding that out takes time */
};

typedef struct RunGroup {
    int32_t slot[GROUP_MAX];
    int32_t node[GROUP_MAX];
    int32_t n;
    bool    full; /* there would be more */
} RunGroup;

static bool group_has(const RunGroup *g, int32_t slot)
{
    for (int32_t i = 0; i < g->n; i++) {
        if (g->slot[i] == slot)
            return true;
    }
    return false;
}

static void group_add(RunGroup *g, const Schedule *s, int32_t slot)
{
    if (group_has(g, slot))
        return;
    g->full |= g->n == GROUP_MAX;
    if (g->full)
        return;
    g->node[g->n] = s->node_at[s->position[slot]];
    g->slot[g->n++] = slot;
}

static void group_sort(RunGroup *g, const Schedule *s) /* by position */
{
    for (int32_t i = 1; i < g->n; i++) {
        int32_t slot = g->slot[i], node = g->node[i], k = i;
        for (; k > 0 && s->position[g->slot[k - 1]] > s->position[slot]; k--) {
            g->slot[k] = g->slot[k - 1];
            g->node[k] = g->node[k - 1];
        }
        g->slot[k] = slot;
        g->node[k] = node;
    }
}

/* Adds what the runs of the group read, if it is produced at or after `from`. */
static void group_needs(RunGroup *g, const Schedule *s, int32_t from)
{
    for (int32_t k = 0; k < g->n && !g->full; k++) {
        const TaskNode *t = &s->task->nodes[g->node[k]];
        for (int32_t i = 0; i < t->n_in; i++) {
            int32_t made = schedule_production(s, t->in[i], s->position[g->slot[k]]);
            if (made >= from)
                group_add(g, s, s->slot_at[made]);
        }
    }
}

/* Adds the runs between p and `to` that read what the run at p produces. */
static void group_readers(RunGroup *g, const Schedule *s, int32_t p, int32_t to)
{
    int32_t            node = s->node_at[p];
    const TaskNode    *t = &s->task->nodes[node];
    const Productions *m = &s->productions[node];
    for (int32_t k = m->n - 1; k >= 0 && s->position[m->slot[k]] > p; k--)
        to = s->position[m->slot[k]] < to ? s->position[m->slot[k]] : to;
    for (int32_t o = 0; o < t->n_out; o++) {
        const TaskValue *v = &s->task->values[t->out[o]];
        for (int32_t r = 0; r < v->n_readers; r++) {
            const Productions *uses = &s->productions[v->readers[r]];
            for (int32_t u = 0; u < uses->n; u++) {
                int32_t q = s->position[uses->slot[u]];
                if (q > p && q < to)
                    group_add(g, s, uses->slot[u]);
            }
        }
    }
}

static bool group_in_vain(const RunGroup *g, Schedule *s)
{
    s->n_edits += GROUP_PRICE * g->n;
    return false;
}

static bool search_advance(ScheduleSearch *x, int32_t p, int32_t far)
{
    Schedule *s = x->s;
    RunGroup  g = { .n = 0 };
    int32_t   from = p;
    for (int32_t q = p; far > 0 && q >= 0; far--) {
        from = q;
        q = schedule_previous(s, q);
    }
    group_add(&g, s, s->slot_at[p]);
    group_needs(&g, s, from);
    group_sort(&g, s);
    int32_t first = 0; /* runs that are already in front need not move */
    while (first < g.n && g.slot[first] == s->slot_at[from]) {
        from = schedule_next(s, from);
        first++;
    }
    if (g.full || first == g.n)
        return group_in_vain(&g, s);
    int32_t before = s->slot_at[from];
    for (int32_t k = first; k < g.n; k++) {
        if (!schedule_insert(s, g.node[k], before) || !schedule_remove(s, g.slot[k]))
            return false;
    }
    return true;
}

static bool search_delay(ScheduleSearch *x, int32_t p, int32_t far)
{
    Schedule *s = x->s;
    RunGroup  g = { .n = 0 };
    int32_t   to = p;
    for (; far > 0 && to < s->after; far--)
        to = schedule_next(s, to);
    group_add(&g, s, s->slot_at[p]);
    for (int32_t k = 0; k < g.n && !g.full; k++)
        group_readers(&g, s, s->position[g.slot[k]], to);
    group_sort(&g, s);
    int32_t last = schedule_previous(s, to), n = g.n; /* nor those already behind */
    while (g.n > 0 && g.slot[g.n - 1] == s->slot_at[last]) {
        to = last;
        last = schedule_previous(s, last);
        g.n--;
    }
    if (g.full || g.n == 0) {
        g.n = n;
        return group_in_vain(&g, s);
    }
    int32_t before = search_slot(s, to);
    for (int32_t k = 0; k < g.n; k++) {
        if (!schedule_insert(s, g.node[k], before))
            return false;
    }
    for (int32_t k = g.n - 1; k >= 0; k--) { /* readers first */
        if (!schedule_remove(s, g.slot[k]))
            return false;
    }
    return true;
}

bool search_group(ScheduleSearch *x, int32_t p)
{
    double  unit = search_unit(x);
    int32_t far = 2 + (int32_t)(GROUP_FAR * unit * unit);
    return search_below(x, 2) ? search_advance(x, p, far) : search_delay(x, p, far);
}
