/* checkmate.c -- recomputation as a mixed integer program, after Checkmate (Jain et al. 2020).
 *
 * Stage t ends with the first run of node t; before that, any earlier node may run once more, in
 * input order. The moments of the program are (stage, node). Columns:
 *
 *   R t_i      node i is recomputed in stage t (whole)
 *   A t_v_j    value v is live in interval j of stage t
 *   U t_k      bytes of all live values at moment (t, k)
 *
 * A value's time is divided where something can change. Interval 0 is the moment of production,
 * interval j ends with reader j, and what is live after the last reader of a stage lives on to the
 * next production:
 *
 *   stage t    production        reader 1      reader 2         stage t+1   production
 *   v         ...| 0 |= interval 1 =====|= interval 2 =|= interval 3 ============| 0 |=== ...
 *
 *   interval 0     <= last interval of the stage before + R[t,producer],  >= R[t,producer]
 *   interval j + 1 <= interval j                    R[t,reader j] <= interval j
 *
 * With R whole the intervals come out whole by themselves. Checkmate's own formulation has one S
 * per stage and products for the frees; intervals need no products and give better bounds. A second
 * run that takes over an input's bytes ends that input and needs its old output gone. A view is live
 * only where its root is.
 */
#include "plan/proof/proof.h"

typedef struct Build {
    const Task *task;
    Stages     *out;
    Milp       *milp;
    int32_t   **interval;    /* [value] column of interval 0 of its producer's stage, then in
                                 * order */
    int32_t   **interval_at; /* [value][stage - producer] where the stage's interval 0 is in
                                 * `interval` */
    double      byte;        /* one byte, in the unit of the rows */
    double      budget;      /* for droppable bytes, in that unit */
} Build;

#define BUDGET_UNITS 1000.0 /* keep the coefficients near one, for any number of bytes */
#define COST_UNITS   10000.0

int64_t stages_terms(const Task *task)
{
    int64_t edges = 0;
    for (int32_t v = 0; v < task->n_values; v++)
        edges += 2 + task->values[v].n_readers;
    return 3 * edges * task->n_nodes / 2;
}

static int32_t build_again(const Build *b, int32_t stage, int32_t node)
{
    return b->out->again[(int64_t)stage * b->task->n_nodes + node];
}

static int32_t build_readers_until(const TaskValue *v, int32_t node)
{
    int32_t n = 0;
    while (n < v->n_readers && v->readers[n] <= node)
        n++;
    return n;
}

static int32_t build_interval(const Build *b, int32_t value, int32_t stage, int32_t j)
{
    const TaskValue *v = &b->task->values[value];
    return b->interval[value][b->interval_at[value][stage - v->producer] + j];
}

static int32_t build_last_interval(const Build *b, int32_t value, int32_t stage)
{
    return build_interval(b, value, stage, 1 + build_readers_until(&b->task->values[value], stage));
}

static void build_columns(Build *b, Pool *pool)
{
    const Task *task = b->task;
    int32_t    *deadline = task_deadlines(pool, task);
    double      unit = b->out->unit;
    for (int32_t t = 0; t < task->n_nodes; t++) {
        for (int32_t i = 0; i < task->n_nodes; i++) {
            bool may = i < t && !task->nodes[i].once && t <= deadline[i] &&
                       task->nodes[i].n_out > 0;
            MilpColumn again = { 'R', t, i, -1, 0, 1, task->nodes[i].cost / unit, true };
            b->out->again[(int64_t)t * task->n_nodes + i] = may ? milp_column(b->milp, again) : -1;
        }
    }
    b->interval = NEWN(pool, int32_t *, task->n_values + 1);
    b->interval_at = NEWN(pool, int32_t *, task->n_values + 1);
    for (int32_t v = 0; v < task->n_values; v++) {
        const TaskValue *value = &task->values[v];
        int32_t          stages = task->n_nodes - value->producer, n = 0;
        b->interval_at[v] = NEWN(pool, int32_t, stages + 1);
        for (int32_t s = 0; s < stages; s++) {
            b->interval_at[v][s] = n;
            n += 2 + build_readers_until(value, value->producer + s);
        }
        b->interval[v] = NEWN(pool, int32_t, n + 1);
        for (int32_t s = 0; s < stages; s++) {
            int32_t stage = value->producer + s, intervals = 2 + build_readers_until(value, stage);
            for (int32_t j = 0; j < intervals; j++) {
                bool held = (s == 0 && j == 0) /* produced here for the first time */
                            || (value->final && stage == task->n_nodes - 1 && j == intervals - 1) ||
                            (j > 0 && j + 1 < intervals && value->readers[j - 1] == stage);
                MilpColumn live = { 'A', stage, v, j, held ? 1 : 0, 1, 0, false };
                b->interval[v][b->interval_at[v][s] + j] = milp_column(b->milp, live);
            }
        }
    }
}

/* Adds the row column <= other + second; -1: left out. */
static void build_at_most(Build *b, int32_t column, int32_t other, int32_t second)
{
    milp_row(b->milp, -MILP_FREE, 0);
    milp_term(b->milp, column, 1);
    if (other >= 0)
        milp_term(b->milp, other, -1);
    if (second >= 0)
        milp_term(b->milp, second, -1);
}

/* Adds the row column <= 1 - run; run -1: it always runs in this stage. */
static void build_ends(Build *b, int32_t column, int32_t run)
{
    milp_row(b->milp, -MILP_FREE, run >= 0 ? 1 : 0);
    milp_term(b->milp, column, 1);
    if (run >= 0)
        milp_term(b->milp, run, 1);
}

static bool build_takes(const TaskNode *node, int32_t value)
{
    for (int32_t i = 0; i < node->n_takes; i++) {
        if (node->in[i] == value)
            return true;
    }
    return false;
}

static void build_value(Build *b, int32_t v)
{
    const Task      *task = b->task;
    const TaskValue *value = &task->values[v];
    for (int32_t t = value->producer; t < task->n_nodes; t++) {
        int32_t made = build_again(b, t, value->producer), first = build_interval(b, v, t, 0);
        if (t > value->producer) {
            int32_t before = build_last_interval(b, v, t - 1);
            build_at_most(b, first, before, made);
            if (made >= 0)
                build_at_most(b, made, first, -1);
            if (made >= 0 && value->takes)
                build_ends(b, before, made);
        }
        build_at_most(b, build_interval(b, v, t, 1), first, -1);
        for (int32_t j = 1; j <= build_readers_until(value, t); j++) {
            int32_t reader = value->readers[j - 1], interval = build_interval(b, v, t, j);
            int32_t run = build_again(b, t, reader), next = build_interval(b, v, t, j + 1);
            build_at_most(b, next, interval, -1);
            if (run >= 0)
                build_at_most(b, run, interval, -1);
            if (build_takes(&task->nodes[reader], v) && (run >= 0 || reader == t))
                build_ends(b, next, run);
        }
    }
}

static int32_t build_reader_index(const TaskValue *v, int32_t node)
{
    int32_t j = 0;
    while (v->readers[j] != node)
        j++;
    return j + 1;
}

/* Where a view is live, its root is. Who produces or reads the view reads the root, too: each
 * interval of the view ends in an interval of the root with the same reader. After its last reader
 * the view spans a possible production of the root in the next stage. */
static void build_view(Build *b, int32_t v)
{
    const Task      *task = b->task;
    const TaskValue *view = &task->values[v], *root = &task->values[view->view_of];
    int32_t made = root->producer == view->producer ? 0 : build_reader_index(root, view->producer);
    for (int32_t t = view->producer; t < task->n_nodes; t++) {
        int32_t n = build_readers_until(view, t), last = build_interval(b, v, t, n + 1);
        build_at_most(b, build_interval(b, v, t, 0), build_interval(b, view->view_of, t, made), -1);
        for (int32_t j = 1; j <= n; j++)
            build_at_most(
                b, build_interval(b, v, t, j),
                build_interval(b, view->view_of, t, build_reader_index(root, view->readers[j - 1])),
                -1);
        build_at_most(b, last, build_last_interval(b, view->view_of, t), -1);
        if (t + 1 < task->n_nodes)
            build_at_most(b, last, build_interval(b, view->view_of, t + 1, made), -1);
    }
}

/* What changes between two moments: interval j of a value is followed by interval j + 1. */
static void build_step(Build *b, int32_t value, int32_t stage, int32_t j)
{
    double bytes = (double)b->task->values[value].bytes * b->byte;
    milp_term(b->milp, build_interval(b, value, stage, j), bytes);
    milp_term(b->milp, build_interval(b, value, stage, j + 1), -bytes);
}

/* The bytes at moment (stage, k), from those at the moment before, the run of `last`. */
static void build_bytes_at(Build *b, int32_t stage, int32_t k, int32_t before)
{
    const Task     *task = b->task;
    const TaskNode *node = &task->nodes[k];
    int32_t         last = k > 0 ? k - 1 : stage - 1, from = k > 0 ? stage : stage - 1;
    milp_row(b->milp, 0, 0);
    milp_term(b->milp, b->milp->n_columns - 1, 1);
    if (before >= 0)
        milp_term(b->milp, before, -1);
    for (int32_t i = 0; last >= 0 && i < task->nodes[last].n_in; i++) {
        int32_t v = task->nodes[last].in[i];
        build_step(b, v, from, build_readers_until(&task->values[v], last));
    }
    for (int32_t i = 0; last >= 0 && i < task->nodes[last].n_out; i++)
        build_step(b, task->nodes[last].out[i], from, 0);
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t v = node->out[i];
        double  bytes = (double)task->values[v].bytes * b->byte;
        milp_term(b->milp, build_interval(b, v, stage, 0), -bytes);
        if (stage > k)
            milp_term(b->milp, build_last_interval(b, v, stage - 1), bytes);
    }
}

static void build_bytes(Build *b)
{
    const Task *task = b->task;
    int32_t     before = -1;
    for (int32_t t = 0; t < task->n_nodes; t++) {
        for (int32_t k = 0; k <= t; k++) {
            const TaskNode *node = &task->nodes[k];
            int32_t         run = build_again(b, t, k);
            double          extra = (double)node->workspace * b->byte; /* while it runs */
            for (int32_t i = 0; i < node->n_takes; i++)
                extra -= (double)task->values[node->in[i]].bytes * b->byte;
            MilpColumn bytes = { 'U', t, k, -1, 0, b->budget, 0, false };
            if (k == t || (run >= 0 && extra < 0))
                bytes.high -= extra;
            int32_t now = milp_column(b->milp, bytes);
            build_bytes_at(b, t, k, before);
            if (run >= 0 && extra != 0) {
                milp_row(b->milp, -MILP_FREE, b->budget);
                milp_term(b->milp, now, 1);
                milp_term(b->milp, run, extra);
            }
            before = now;
        }
    }
}

void stages_build(Pool *pool, const Task *task, int64_t budget_bytes, Stages *out)
{
    double room = (double)(budget_bytes - task->fixed_bytes);
    Build  b = { .task = task,
                 .out = out,
                 .milp = &out->milp,
                 .byte = room > 0 ? BUDGET_UNITS / room : 1,
                 .budget = room > 0 ? BUDGET_UNITS : 0 };
    *out = (Stages){ .milp = { .pool = pool },
                     .unit = task->base_cost > 0 ? task->base_cost / COST_UNITS : 1 };
    out->again = NEWN(pool, int32_t, (int64_t)task->n_nodes * task->n_nodes + 1);
    build_columns(&b, pool);
    for (int32_t v = 0; v < task->n_values; v++) {
        build_value(&b, v);
        if (task->values[v].view_of >= 0)
            build_view(&b, v);
    }
    build_bytes(&b);
}

void stages_list(Pool *pool, const Task *task, const Stages *stages, const double *x, RunList *list)
{
    int32_t cap = 0;
    *list = (RunList){ 0 };
    for (int32_t t = 0; t < task->n_nodes; t++) {
        for (int32_t i = 0; i <= t; i++) {
            int32_t column = stages->again[(int64_t)t * task->n_nodes + i];
            if (i < t && (column < 0 || x[column] < 0.5))
                continue;
            VEC_ADD(pool, list->node, list->n, cap, i);
            list->cost += task->nodes[i].cost;
        }
    }
}
