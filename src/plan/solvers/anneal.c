/* anneal.c -- the cheapest schedule within a budget, by simulated annealing (Kirkpatrick et al.
 * 1983).
 *
 * The energy is the extra cost plus a price for bytes above the budget. The price is not fixed: it
 * rises while the schedule is above the budget and falls while it is within, so that the search
 * keeps crossing the budget, where the cheapest schedules are (strategic oscillation, Glover 1989).
 * The best schedule within the budget is kept. Temperatures are shares of the cost of the whole
 * step.
 */
#include "plan/solvers/search.h"

#include <math.h>

enum { ANNEAL_EXCHANGE = 4000 }; /* nodes; a larger graph has too many exchanges */

static const struct {
    double hot, cold;  /* temperature at the beginning and at the end */
    double hot_node;   /* at least this share of a mean node: moves in small graphs change
                              * much; */
    double max_node;   /* at most this share: one move in a large graph changes little */
    double price;      /* initial price of the sum of bytes above the budget, in budgets */
    double careful;    /* the same for a careful run, which does not leave the budget first:
                              * where the budget is tight it would not find its way back */
    double price_step; /* factor every price_turns turns */
    int    price_turns;
    double give_up; /* in temperatures: a larger rise is never accepted in practice */
} anneal = { 1e-3, 1e-5, 0.3, 2, 0.01, 1, 1.03, 64, 12 };

/* Probabilities of the moves, above the budget and within it, in the order of MoveKind. */
static const double anneal_mix[2][MOVE_KINDS] = { { 0.60, 0.15, 0.10, 0.15 },
                                                  { 0.15, 0.30, 0.25, 0.30 } };

static MoveKind anneal_kind(ScheduleSearch *x, bool within)
{
    double r = search_unit(x);
    int    kind = 0;
    while (kind < MOVE_KINDS - 1 && r >= anneal_mix[within][kind])
        r -= anneal_mix[within][kind++];
    return (MoveKind)kind;
}

void solve_anneal(Pool *pool, const SolverArgs *args, RunList *out)
{
    Pool   *temp = pool_new(NULL, "anneal");
    int64_t budget = args->budget_bytes;
    double  unit = args->task->base_cost > 0 ? args->task->base_cost : 1;
    double  node = 1.0 / args->task->n_nodes;
    double  hot = fmin(fmax(anneal.hot, anneal.hot_node * node), anneal.max_node * node);
    double  cold = fmin(anneal.cold, hot / 100);
    hot = args->heat > 0 ? fmax(hot * args->heat, cold) : hot;
    double         price = args->careful ? anneal.careful : anneal.price, cooling = log(cold / hot);
    double         per_byte = 1 / (double)(budget > 0 ? budget : 1);
    ScheduleSearch x;
    search_init(&x, temp, args);
    Load now = schedule_load(x.s, budget);
    *out = (RunList){ 0 };
    if (now.excess <= 0)
        search_keep(pool, &x, now, out);
    int64_t effort = args->effort - args->effort / 8; /* the rest is for improve.c */
    for (int64_t turn = 0; turn + x.s->n_edits < effort; turn++) {
        double  spent = (double)(turn + x.s->n_edits) / (double)effort;
        double  heat = hot * exp(cooling * spent);
        double  cost = x.s->cost, above = price * now.excess * per_byte * unit;
        int32_t mark = schedule_mark(x.s);
        int32_t where = now.excess > 0 && search_unit(&x) < 0.7 ? now.peak_position
                                                                : search_position(&x);
        x.cost_limit = cost + above + anneal.give_up * heat * unit;
        if (search_late(args, turn)) {
            out->cut = true;
            break;
        }
        if (search_move(&x, anneal_kind(&x, now.excess <= 0), where, budget)) {
            Load   then = schedule_load(x.s, budget);
            double rise = x.s->cost - cost + price * then.excess * per_byte * unit - above;
            if (rise <= 0 || search_unit(&x) < exp(-rise / (heat * unit))) {
                schedule_commit(x.s);
                now = then;
                if (now.excess <= 0 && (!out->node || x.s->cost < out->cost * (1 - 1e-12)))
                    search_keep(pool, &x, now, out);
            } else {
                schedule_undo(x.s, mark);
            }
        } else {
            schedule_undo(x.s, mark);
        }
        if (out->node && out->n == args->task->n_nodes)
            break; /* each node runs once: no schedule is cheaper */
        if (turn % anneal.price_turns == 0)
            price = fmin(1e4, fmax(1e-4, now.excess > 0 ? price * anneal.price_step
                                                        : price / anneal.price_step));
    }
    if (out->node) {
        schedule_set(x.s, out->node, out->n);
        out->cut |= !search_polish(&x, args);
        if (args->task->n_nodes <= ANNEAL_EXCHANGE)
            out->cut |= !search_exchange(&x, args, args->effort - effort);
        search_keep(pool, &x, schedule_load(x.s, budget), out);
    }
    pool_free(temp);
}
