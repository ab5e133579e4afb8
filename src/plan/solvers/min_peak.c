/* min_peak.c -- the schedule with the smallest peak, at any cost. It does not know the budget.
 *
 * Annealing on the bytes above a bar. Whenever the peak falls to the bar, the bar is lowered by a
 * fraction of its distance to the structural bound. The highest moment alone would hide all others,
 * so bytes just below the bar also count, with a small weight.
 */
#include "plan/solvers/search.h"

#include <math.h>

static const struct {
    double hot, cold;   /* temperature, as a share of the bar */
    double hot_node;    /* or at least this, divided by the number of nodes */
    double cost_weight; /* weight of extra cost: one whole step, as a share of the bar */
    double sum_weight;  /* weight of the sum over runs of bytes above `near` */
    double near;        /* as a share of the bar */
    int    lower;       /* the bar falls by 1/lower of its distance to the bound */
    double give_up;
} tuning = { 1e-3, 3e-5, 0.3, 1e-4, 0.05, 0.9, 50, 12 };

static const double min_mix[MOVE_KINDS] = { 0.40, 0.15, 0.10, 0.35 };

static MoveKind min_kind(ScheduleSearch *x)
{
    double r = search_unit(x);
    int    kind = 0;
    while (kind < MOVE_KINDS - 1 && r >= min_mix[kind])
        r -= min_mix[kind++];
    return (MoveKind)kind;
}

static bool min_better(const RunList *out, const Schedule *s, Load load)
{
    return !out->node || load.peak_bytes < out->peak_bytes ||
           (load.peak_bytes == out->peak_bytes && s->cost < out->cost * (1 - 1e-12));
}

static int64_t min_bar(int64_t peak, int64_t bound)
{
    int64_t bar = peak - 1 - (peak - bound) / tuning.lower;
    return bar > bound ? bar : bound;
}

static Load min_load(Schedule *s, int64_t bar)
{
    return schedule_load(s, (int64_t)(tuning.near * (double)bar));
}

void solve_min_peak(Pool *pool, const SolverArgs *args, RunList *out)
{
    int64_t bound = plan_bound_bytes(args->task->graph);
    Pool   *temp = pool_new(NULL, "min_peak");
    double  unit = args->task->base_cost > 0 ? args->task->base_cost : 1;
    double  hot = fmax(tuning.hot, tuning.hot_node / args->task->n_nodes);
    hot = args->heat > 0 ? fmax(hot * args->heat, tuning.cold) : hot;
    double         cooling = log(tuning.cold / hot);
    ScheduleSearch x;
    *out = (RunList){ 0 };
    search_init(&x, temp, args);
    Load now = schedule_load(x.s, 0);
    if (min_better(out, x.s, now))
        search_keep(pool, &x, now, out);
    int64_t bar = min_bar(now.peak_bytes, bound);
    now = min_load(x.s, bar);
    for (int64_t turn = 0; turn + x.s->n_edits < args->effort && out->peak_bytes > bound; turn++) {
        double  heat = hot * exp(cooling * (double)(turn + x.s->n_edits) / (double)args->effort);
        double  over = (double)(now.peak_bytes - bar) / (double)(bar + 1), cost = x.s->cost;
        int32_t mark = schedule_mark(x.s);
        int32_t where = search_unit(&x) < 0.7 ? now.peak_position : search_position(&x);
        x.cost_limit = cost + unit * (over + tuning.give_up * heat) / tuning.cost_weight;
        if (search_late(args, turn)) {
            out->cut = true;
            break;
        }
        if (!search_move(&x, min_kind(&x), where, bar)) {
            schedule_undo(x.s, mark);
            continue;
        }
        Load   then = min_load(x.s, bar);
        double rise = fmax(0, (double)(then.peak_bytes - bar) / (double)(bar + 1)) - over +
                      tuning.sum_weight * (then.excess - now.excess) / (double)(bar + 1) +
                      tuning.cost_weight * (x.s->cost - cost) / unit;
        if (rise > 0 && search_unit(&x) >= exp(-rise / heat)) {
            schedule_undo(x.s, mark);
            continue;
        }
        schedule_commit(x.s);
        now = then;
        if (min_better(out, x.s, now))
            search_keep(pool, &x, now, out);
        if (now.peak_bytes <= bar) {
            bar = min_bar(now.peak_bytes, bound);
            now = min_load(x.s, bar);
        }
    }
    pool_free(temp);
}
