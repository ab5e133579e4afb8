/* order.c -- another order in which each node runs once, with smaller live sums.
 *
 * For large irregular graphs, whose input order keeps much for long. A node goes to just before its
 * first reader, or to just after the last of its inputs, whenever that makes
 *
 *      the sum over values of bytes x runs between production and last reader
 *
 * smaller. All nodes in turn, in a few rounds. The sum is not the peak, but the peak follows it.
 */
#include "plan/solvers/search.h"

enum { ORDER_ROUNDS = 8 };

/* The last position before `skip`'s own at which the value is in use, by others than `skip`. */
static int32_t order_last_use(const Schedule *s, int32_t value, int32_t skip)
{
    const TaskValue *v = &s->task->values[value];
    int32_t          last = s->position[s->productions[v->producer].slot[0]];
    if (v->final)
        return s->after;
    for (int32_t r = 0; r < v->n_readers; r++) {
        int32_t p = s->position[s->productions[v->readers[r]].slot[0]];
        last = v->readers[r] != skip && p > last ? p : last;
    }
    return last;
}

/* What the inputs' live ranges grow by if the node moves from p to q; negative: they shrink. */
static double order_inputs(const Schedule *s, const TaskNode *t, int32_t node, int32_t p, int32_t q)
{
    double grown = 0;
    for (int32_t i = 0; i < t->n_in; i++) {
        int32_t last = order_last_use(s, t->in[i], node);
        int32_t from = last > p ? last : p, to = last > q ? last : q;
        grown += (double)s->task->values[t->in[i]].bytes * (to - from);
    }
    return grown;
}

/* The first run that reads what the node produces; -1: none. */
static int32_t order_first_reader(const Schedule *s, const TaskNode *t)
{
    int32_t first = -1;
    for (int32_t o = 0; o < t->n_out; o++) {
        const TaskValue *v = &s->task->values[t->out[o]];
        for (int32_t r = 0; r < v->n_readers; r++) {
            int32_t p = s->position[s->productions[v->readers[r]].slot[0]];
            first = first < 0 || p < first ? p : first;
        }
    }
    return first;
}

static int32_t order_last_input(const Schedule *s, const TaskNode *t)
{
    int32_t last = -1;
    for (int32_t i = 0; i < t->n_in; i++) {
        int32_t p = schedule_production(s, t->in[i], s->after);
        last = p > last ? p : last;
    }
    return last;
}

static bool order_shift(Schedule *s, int32_t node, int32_t to)
{
    int32_t mark = schedule_mark(s), slot = s->productions[node].slot[0];
    bool    done = schedule_insert(s, node, search_slot(s, to)) && schedule_remove(s, slot);
    if (!done)
        schedule_undo(s, mark);
    schedule_commit(s);
    return done;
}

/* Moves one node if that pays. */
static bool order_improve(Schedule *s, int32_t node)
{
    const TaskNode *t = &s->task->nodes[node];
    int32_t         p = s->position[s->productions[node].slot[0]];
    int32_t         reader = order_first_reader(s, t), input = order_last_input(s, t);
    int64_t         made = 0;
    for (int32_t o = 0; o < t->n_out; o++)
        made += s->task->values[t->out[o]].bytes;
    if (reader > schedule_next(s, p) &&
        order_inputs(s, t, node, p, reader) < (double)made * (reader - p))
        return order_shift(s, node, reader);
    if (input >= 0 && schedule_next(s, input) < p &&
        order_inputs(s, t, node, p, input + 1) + (double)made * (p - input - 1) < 0)
        return order_shift(s, node, schedule_next(s, input));
    return false;
}

void solve_order(Pool *pool, const SolverArgs *args, RunList *out)
{
    const Task    *task = args->task;
    Pool          *temp = pool_new(NULL, "order");
    ScheduleSearch x;
    bool           moved = true;
    *out = (RunList){ 0 };
    search_init(&x, temp, args);
    for (int round = 0; round < ORDER_ROUNDS && moved && !out->cut; round++) {
        moved = false;
        for (int32_t k = 0; k < task->n_nodes && !out->cut; k++) {
            moved |= order_improve(x.s, round % 2 ? k : task->n_nodes - 1 - k);
            out->cut = search_late(args, k);
        }
        Load load = schedule_load(x.s, 0);
        if (out->node && load.peak_bytes >= out->peak_bytes)
            break;
        search_keep(pool, &x, load, out);
    }
    pool_free(temp);
}
