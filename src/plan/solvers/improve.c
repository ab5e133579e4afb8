/* improve.c -- exact local search at the end of annealing.
 *
 * Annealing ends near an optimum, often one exchange away. All exchanges of two kinds are tried
 * here in a fixed order, and the first that lowers the cost is taken, until none does:
 *
 *   give    one more value is dropped and recomputed; then every second run that the budget no
 *           longer needs is removed, the most expensive first
 *   take    one second run is removed; then values that are idle at the fullest moment are
 *           recomputed, always the one that removes most bytes for its cost, while the total stays
 *           cheaper
 */
#include "plan/solvers/search.h"

#include "base/stop.h"

#include <float.h>
#include <stdlib.h>

enum { EXCHANGE_RECOMPUTES = 4 };

typedef struct SecondRun { /* a second run */
    double  cost;
    int32_t slot, node;
} SecondRun;

typedef struct Exchange {
    ScheduleSearch *x;
    int64_t         budget, edits; /* edits: the count at which to stop */
    double          deadline_s;    /* 0: none */
    bool            late;
    SecondRun      *second_runs;
    int32_t         n_second_runs;
} Exchange;

static bool exchange_done(Exchange *e)
{
    e->late |= stop_late(e->deadline_s);
    return e->late || e->x->s->n_edits >= e->edits;
}

static int exchange_dearest(const void *a, const void *b)
{
    const SecondRun *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return x->slot - y->slot;
}

static void exchange_list(Exchange *e)
{
    const Schedule *s = e->x->s;
    e->n_second_runs = 0;
    for (int32_t p = 0; p < s->after; p++) {
        if (schedule_has(s, p) && s->productions[s->node_at[p]].n > 1)
            e->second_runs[e->n_second_runs++] = (SecondRun){ s->task->nodes[s->node_at[p]].cost,
                                                              s->slot_at[p], s->node_at[p] };
    }
    if (e->n_second_runs > 0)
        qsort(e->second_runs, (size_t)e->n_second_runs, sizeof *e->second_runs, exchange_dearest);
}

/* Slots are reused: is this still the run that was listed? */
static bool exchange_is(const Schedule *s, const SecondRun *second)
{
    int32_t p = s->position[second->slot];
    return p >= 0 && s->node_at[p] == second->node;
}

/* After a recompute: removes what has become needless. True if the cost fell. */
static bool exchange_give(Exchange *e, double cost_before)
{
    Schedule *s = e->x->s;
    Load      load = schedule_load(s, e->budget);
    if (load.excess > 0)
        return false;
    for (int32_t i = 0; i < e->n_second_runs && !exchange_done(e); i++) {
        const SecondRun *second = &e->second_runs[i];
        int32_t          mark = schedule_mark(s);
        double           cost = s->cost;
        if (!exchange_is(s, second) || !search_take_out(e->x, second->slot) || s->cost >= cost ||
            schedule_load(s, e->budget).excess > 0)
            schedule_undo(s, mark);
    }
    return s->cost < cost_before * (1 - 1e-12);
}

/* Tries to drop and recompute a value that the run at p uses, in its idle time after p. */
static bool exchange_give_at(Exchange *e, int32_t p, int32_t value)
{
    Schedule *s = e->x->s;
    int32_t   node = s->task->values[value].producer, next = schedule_next(s, p);
    int32_t   made = schedule_production(s, value, next);
    if (s->task->nodes[node].once || next >= s->after || made < 0 ||
        s->task->values[value].view_of >= 0)
        return false;
    int32_t reader = search_next_reader(s, value, made, next);
    if (reader < 0)
        return false;
    int32_t before = search_slot(s, reader);
    for (int keep = 0; keep < 2; keep++) {
        int32_t mark = schedule_mark(s);
        double  cost = s->cost;
        if (search_recompute_before(e->x, node, before, keep) && exchange_give(e, cost)) {
            schedule_commit(s);
            return true;
        }
        schedule_undo(s, mark);
    }
    return false;
}

static bool exchange_gives(Exchange *e)
{
    Schedule *s = e->x->s;
    for (int32_t p = 0; p < s->after && !exchange_done(e); p++) {
        if (!schedule_has(s, p))
            continue;
        const TaskNode *t = &s->task->nodes[s->node_at[p]];
        for (int32_t i = 0; i < t->n_in + t->n_out; i++) {
            if (exchange_give_at(e, p, i < t->n_in ? t->in[i] : t->out[i - t->n_in]))
                return true;
        }
    }
    return false;
}

/* The recompute that removes most bytes above the budget for its cost, while below cost_limit. */
static bool exchange_best_recompute(Exchange *e, Load load, double cost_limit)
{
    Schedule *s = e->x->s;
    int32_t   best_node = -1, best_slot = -1, peak = load.peak_position;
    double    best = 0, cost = s->cost;
    bool      best_keep = false;
    for (int32_t r = 0; r < peak && !exchange_done(e); r++) {
        if (!schedule_has(s, r) || s->task->nodes[s->node_at[r]].once)
            continue;
        const TaskNode *t = &s->task->nodes[s->node_at[r]];
        int32_t         node = s->node_at[r];
        for (int32_t o = 0; o < t->n_out; o++) {
            int32_t next = search_next_reader(s, t->out[o], r, peak);
            if (next < 0 || s->task->values[t->out[o]].view_of >= 0)
                continue;
            int32_t before = search_slot(s, next), slot = s->slot_at[r];
            for (int keep = 0; keep < 2; keep++) {
                int32_t mark = schedule_mark(s);
                if (search_recompute_before(e->x, node, before, keep) && s->cost < cost_limit) {
                    double less = load.excess - schedule_load(s, e->budget).excess;
                    double gain = less / (s->cost - cost + DBL_MIN);
                    if (less > 0 && gain > best) {
                        best = gain;
                        best_node = node;
                        best_slot = before;
                        best_keep = keep;
                    }
                }
                schedule_undo(s, mark);
            }
            r = s->position[slot]; /* chunks may have been split */
            peak = schedule_load(s, e->budget).peak_position;
        }
    }
    return best_node >= 0 && search_recompute_before(e->x, best_node, best_slot, best_keep);
}

static bool exchange_takes(Exchange *e)
{
    Schedule *s = e->x->s;
    for (int32_t i = 0; i < e->n_second_runs && !exchange_done(e); i++) {
        int32_t mark = schedule_mark(s);
        double  cost = s->cost;
        if (exchange_is(s, &e->second_runs[i]) && search_take_out(e->x, e->second_runs[i].slot)) {
            for (int32_t k = 0; k < EXCHANGE_RECOMPUTES; k++) {
                Load load = schedule_load(s, e->budget);
                if (load.excess <= 0) {
                    if (s->cost >= cost * (1 - 1e-12))
                        break;
                    schedule_commit(s);
                    return true;
                }
                if (!exchange_best_recompute(e, load, cost))
                    break;
            }
        }
        schedule_undo(s, mark);
    }
    return false;
}

bool search_exchange(ScheduleSearch *x, const SolverArgs *args, int64_t edits)
{
    Pool    *temp = pool_new(NULL, "exchange");
    Exchange e = { .x = x,
                   .budget = args->budget_bytes,
                   .edits = x->s->n_edits + edits,
                   .deadline_s = args->deadline_s,
                   .second_runs = NEWN(temp, SecondRun, 8 * x->task->n_nodes + 1024) };
    bool     better = true;
    x->cost_limit = DBL_MAX;
    while (better && !exchange_done(&e)) {
        exchange_list(&e);
        better = e.n_second_runs > 0 && (exchange_gives(&e) || exchange_takes(&e));
    }
    pool_free(temp);
    return !e.late;
}
