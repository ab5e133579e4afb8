/* moments.c -- a lower bound on the cost of any plan, from several moments at once.
 *
 * As in min_cut.c, a moment is the first run of a node. Take moments n1, n2, ... that each depend
 * on the one before: every plan passes them in this order, whatever else it does. Columns:
 *
 *   K j_v      value v is live at moment j
 *   Y j_m      node m is recomputed between moment j and the next (whole)
 *
 *   interval 0    n1    interval 1    n2    interval 2  ...
 *   -------------- | --------------- | ------------------
 *                 K 1_v      Y 1_m  K 2_v     Y 2_m
 *
 *   K[j+1,v] <= K[j,v] + Y[j,producer]                  what is live was live or is recomputed
 *   1        <= K[j,u] + Y[j,producer of u]             u is read by a node that must run in j
 *   Y[j,m]   <= K[j,u] + Y[j,producer of u]             or by one that is recomputed there
 *   sum of bytes of K[j] + what nj itself needs <= budget
 *
 * A node's dependencies say in which intervals its first run can be: lo to hi - 1. Runs there are
 * not counted, since one may be the first; later ones are. Every plan gives such columns, so the
 * optimum, and any bound on it, holds for every plan. With one moment this is the knapsack of
 * min_cut.c, solved in whole numbers.
 */
#include "plan/proof/proof.h"

typedef struct Moments {
    const Task *task;
    Milp       *milp;
    int32_t    *node; /* [moment] */
    int32_t     n;
    int32_t    *lo, *hi; /* [node] */
    int32_t    *live;    /* [moment * n_values + value] column, or -1: cannot be live */
    int32_t    *again;   /* [moment * n_nodes + node] column, or -1 */
} Moments;

/* The longest chain of candidates under "must run before". before: [node] its ancestors, as
 * bits. */
static int32_t moments_chain(Pool *pool, const Task *task, const bool *candidate, int32_t *chain)
{
    int32_t   n = task->n_nodes, words = (n + 63) / 64, best = -1, count = 0;
    uint64_t *before = NEWN(pool, uint64_t, (int64_t)n * words + 1);
    int32_t  *length = NEWN(pool, int32_t, n + 1), *last = NEWN(pool, int32_t, n + 1);
    for (int32_t m = 0; m < n; m++) {
        const TaskNode *t = &task->nodes[m];
        uint64_t       *set = &before[(int64_t)m * words];
        for (int32_t i = 0; i < t->n_in + t->n_before; i++) {
            int32_t a = i < t->n_in ? task->values[t->in[i]].producer : t->before[i - t->n_in];
            for (int32_t w = 0; w < words; w++)
                set[w] |= before[(int64_t)a * words + w];
            set[a / 64] |= (uint64_t)1 << a % 64;
        }
        last[m] = -1;
        if (!candidate[m])
            continue;
        length[m] = 1;
        for (int32_t a = 0; a < m; a++) {
            if (candidate[a] && (set[a / 64] >> a % 64 & 1) && length[a] + 1 > length[m]) {
                length[m] = length[a] + 1;
                last[m] = a;
            }
        }
        if (best < 0 || length[m] > length[best])
            best = m;
    }
    for (int32_t m = best; m >= 0; m = last[m])
        chain[count++] = m;
    for (int32_t i = 0; i < count / 2; i++) {
        int32_t swap = chain[i];
        chain[i] = chain[count - 1 - i];
        chain[count - 1 - i] = swap;
    }
    return count;
}

/* Finds between which moments each node can run for the first time. */
static void moments_intervals(Moments *x, Pool *pool)
{
    const Task *task = x->task;
    x->lo = NEWN(pool, int32_t, task->n_nodes + 1);
    x->hi = NEWN(pool, int32_t, task->n_nodes + 1);
    for (int32_t m = 0; m < task->n_nodes; m++)
        x->hi[m] = x->n + 1;
    for (int32_t j = 0; j < x->n; j++)
        x->lo[x->node[j]] = x->hi[x->node[j]] = j + 1;
    for (int32_t m = 0; m < task->n_nodes; m++) {
        const TaskNode *t = &task->nodes[m];
        for (int32_t i = 0; i < t->n_in + t->n_before; i++) {
            int32_t a = i < t->n_in ? task->values[t->in[i]].producer : t->before[i - t->n_in];
            x->lo[m] = x->lo[a] > x->lo[m] ? x->lo[a] : x->lo[m];
        }
    }
    for (int32_t m = task->n_nodes - 1; m >= 0; m--) {
        const TaskNode *t = &task->nodes[m];
        for (int32_t i = 0; i < t->n_in + t->n_before; i++) {
            int32_t a = i < t->n_in ? task->values[t->in[i]].producer : t->before[i - t->n_in];
            x->hi[a] = x->hi[m] < x->hi[a] ? x->hi[m] : x->hi[a];
        }
    }
}

static int32_t *moments_live(const Moments *x, int32_t j, int32_t value)
{
    return &x->live[(int64_t)j * x->task->n_values + value];
}

static int32_t *moments_again(const Moments *x, int32_t j, int32_t node)
{
    return &x->again[(int64_t)j * x->task->n_nodes + node];
}

/* Can the node's first run be at moment j or in interval j, so that its outputs are free there? */
static bool moments_free(const Moments *x, int32_t j, int32_t node)
{
    return j < x->hi[node] || x->node[j - 1] == node;
}

/* Can the node not be recomputed in interval j? */
static bool moments_barred(const Moments *x, int32_t j, int32_t node)
{
    const TaskNode *t = &x->task->nodes[node];
    bool            barred = t->once || t->n_out == 0;
    for (int32_t i = 0; i < t->n_after && !barred; i++)
        barred = x->hi[t->after[i]] <= j;
    return barred;
}

static void moments_columns(Moments *x, Pool *pool, double unit)
{
    const Task *task = x->task;
    x->live = NEWN(pool, int32_t, (int64_t)(x->n + 1) * task->n_values + 1);
    x->again = NEWN(pool, int32_t, (int64_t)(x->n + 1) * task->n_nodes + 1);
    for (int32_t j = 1; j <= x->n; j++) {
        const TaskNode *now = &task->nodes[x->node[j - 1]];
        for (int32_t v = 0; v < task->n_values; v++) {
            MilpColumn live = { 'K', j, v, -1, 0, 1, 0, false };
            bool       can = x->lo[task->values[v].producer] < j;
            for (int32_t i = 0; i < now->n_in; i++)
                live.low = now->in[i] == v ? 1 : live.low;
            *moments_live(x, j, v) = can ? milp_column(x->milp, live) : -1;
        }
        for (int32_t m = 0; m < task->n_nodes; m++) {
            MilpColumn again = { 'Y', j, m, -1, 0, 1, task->nodes[m].cost / unit, true };
            bool       can = j >= x->hi[m] && !moments_barred(x, j, m);
            *moments_again(x, j, m) = can ? milp_column(x->milp, again) : -1;
        }
    }
}

/* Adds the row user <= K[j,v] + Y[j,producer]; user -1: the constant 1. */
static void moments_needs(Moments *x, int32_t j, int32_t value, int32_t user)
{
    int32_t producer = x->task->values[value].producer, live = *moments_live(x, j, value);
    int32_t again = *moments_again(x, j, producer);
    if (moments_free(x, j, producer))
        return;
    milp_row(x->milp, user < 0 ? 1 : 0, MILP_FREE);
    if (live >= 0)
        milp_term(x->milp, live, 1);
    if (again >= 0)
        milp_term(x->milp, again, 1);
    if (user >= 0)
        milp_term(x->milp, user, -1);
}

static void moments_rows(Moments *x, int64_t budget)
{
    const Task *task = x->task;
    double      byte = 1000.0 / (double)(budget > 0 ? budget : 1);
    for (int32_t j = 1; j <= x->n; j++) {
        const TaskNode *now = &task->nodes[x->node[j - 1]];
        int64_t         room = budget - task->fixed_bytes - now->workspace;
        for (int32_t i = 0; i < now->n_out; i++)
            room -= task->values[now->out[i]].bytes;
        for (int32_t i = 0; i < now->n_takes; i++)
            room += task->values[now->in[i]].bytes;
        milp_row(x->milp, -MILP_FREE, (double)room * byte);
        for (int32_t v = 0; v < task->n_values; v++) {
            if (*moments_live(x, j, v) >= 0 && task->values[v].bytes > 0)
                milp_term(x->milp, *moments_live(x, j, v), (double)task->values[v].bytes * byte);
        }
        for (int32_t v = 0; v < task->n_values; v++) {
            if (j < x->n && *moments_live(x, j + 1, v) >= 0)
                moments_needs(x, j, v, *moments_live(x, j + 1, v));
            if (j == x->n && task->values[v].final)
                moments_needs(x, j, v, -1);
        }
        for (int32_t m = 0; m < task->n_nodes; m++) {
            int32_t again = *moments_again(x, j, m);
            bool    here = x->lo[m] == j && x->hi[m] == j + 1; /* its first run must be here */
            for (int32_t i = 0; i < task->nodes[m].n_in; i++) {
                if (here)
                    moments_needs(x, j, task->nodes[m].in[i], -1);
                else if (again >= 0)
                    moments_needs(x, j, task->nodes[m].in[i], again);
            }
        }
    }
}

int32_t moments_build(Pool *pool, const Task *task, int64_t budget_bytes, const bool *candidate,
                      int32_t best, int32_t max_moments, double unit, Milp *milp)
{
    Moments x = { .task = task, .milp = milp, .node = NEWN(pool, int32_t, task->n_nodes + 1) };
    int32_t n = moments_chain(pool, task, candidate, x.node);
    *milp = (Milp){ .pool = pool };
    if (n > max_moments) { /* too many: keep some, with the best
                                                             * one */
        for (int32_t i = 0; i < max_moments; i++) {
            int32_t from = (int32_t)((int64_t)n * i / max_moments),
                    to = (int32_t)((int64_t)n * (i + 1) / max_moments);
            int32_t pick = (from + to) / 2;
            for (int32_t k = from; k < to; k++)
                pick = x.node[k] == best ? k : pick;
            x.node[i] = x.node[pick];
        }
        n = max_moments;
    }
    x.n = n;
    if (n == 0)
        return 0;
    moments_intervals(&x, pool);
    moments_columns(&x, pool, unit);
    moments_rows(&x, budget_bytes);
    return n;
}
