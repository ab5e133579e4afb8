/* min_cut.c -- a lower bound on the cost of any plan, in any order and with any recomputation.
 *
 * Look at the moment when node n runs for the first time. All ancestors of n have run, no
 * descendant has. A value that an ancestor produced and a descendant (or the end) needs is either
 * live now or recomputed later; and to recompute it, the inputs of its producer must be live now or
 * be recomputed too. So for every plan
 *
 *      sum of bytes of K <= budget - what n itself needs,     extra cost >= sum of costs of M
 *
 * where K are the values live now and M the recomputed ancestors. The minimum of this cost is a
 * knapsack over closed sets. With a price on bytes in place of the limit (Lagrange) it is a minimum
 * cut, and every price >= 0 gives a valid bound:
 *
 *      bound(price) = mincut(price) - price * room
 *
 *      S --inf--> value needed later --price * bytes--> its producer --cost--> T
 *                                     producer --inf--> each input of the producer
 *
 * A producer on S's side is recomputed; a cut value arc keeps the value. bound(price) is concave
 * and piecewise linear; the best price is found from the lines that the cuts give. Capacities are
 * whole numbers, rounded down, so the bound holds exactly. Producers that cannot be recomputed
 * (once, or because of an update that has already happened) cannot be on S's side: what only they
 * produce must be live, which also bounds the peak.
 */
#include "plan/proof/proof.h"

#include <math.h>
#include <string.h>

#define MIN_CUT_INFINITE (INT64_MAX / 8)
#define MIN_CUT_COST     1e12 /* cost of one whole step, in units of capacity */
enum { MIN_CUT_PRICES = 24 };

typedef struct Arc {
    int32_t to, next; /* its reverse arc is at index ^ 1 */
    int64_t room;
} Arc;

typedef struct MinCut {
    const Task *task;
    Pool       *pool;
    bool       *before; /* [node] ancestor of n */
    bool       *after;  /* [node] descendant of n */
    bool       *fixed;  /* [node] cannot be recomputed */
    bool       *held;   /* [value] an input of n: live in any case, at no further bytes */
    bool       *needed; /* [value] by a descendant or the end */
    /* flow network: S, T, then values, then nodes */
    int32_t    *first; /* [vertex] arc, or -1 */
    int32_t    *level, *at, *queue, *path;
    Arc        *arcs;
    int64_t    *capacity; /* [arc] */
    int32_t     n_vertices, n_arcs, cap_arcs, cap_capacity;
} MinCut;

enum { MIN_CUT_S, MIN_CUT_T, MIN_CUT_VALUES };

static void min_cut_arc(MinCut *c, int32_t from, int32_t to, int64_t capacity)
{
    Arc     forth = { to, c->first[from], 0 }, back = { from, c->first[to], 0 };
    int32_t n = c->n_arcs;
    VEC_ADD(c->pool, c->arcs, c->n_arcs, c->cap_arcs, forth);
    VEC_ADD(c->pool, c->capacity, n, c->cap_capacity, capacity);
    c->first[from] = c->n_arcs - 1;
    VEC_ADD(c->pool, c->arcs, c->n_arcs, c->cap_arcs, back);
    VEC_ADD(c->pool, c->capacity, n, c->cap_capacity, 0);
    c->first[to] = c->n_arcs - 1;
}

static bool min_cut_levels(MinCut *c)
{
    int32_t head = 0, tail = 0;
    for (int32_t v = 0; v < c->n_vertices; v++) {
        c->level[v] = -1;
        c->at[v] = c->first[v];
    }
    c->level[MIN_CUT_S] = 0;
    c->queue[tail++] = MIN_CUT_S;
    while (head < tail) {
        int32_t v = c->queue[head++];
        for (int32_t a = c->first[v]; a >= 0; a = c->arcs[a].next) {
            int32_t to = c->arcs[a].to;
            if (c->arcs[a].room > 0 && c->level[to] < 0) {
                c->level[to] = c->level[v] + 1;
                c->queue[tail++] = to;
            }
        }
    }
    return c->level[MIN_CUT_T] >= 0;
}

/* Saturates one path of the level graph. Returns its flow; 0: no path is left. */
static int64_t min_cut_push(MinCut *c)
{
    int32_t v = MIN_CUT_S, n = 0;
    while (v != MIN_CUT_T) {
        int32_t a = c->at[v];
        while (a >= 0 && (c->arcs[a].room <= 0 || c->level[c->arcs[a].to] != c->level[v] + 1))
            a = c->arcs[a].next;
        c->at[v] = a;
        if (a >= 0) {
            c->path[n++] = a;
            v = c->arcs[a].to;
        } else if (n > 0) { /* a dead end: back one step */
            v = c->arcs[c->path[--n] ^ 1].to;
            c->at[v] = c->arcs[c->at[v]].next;
        } else {
            return 0;
        }
    }
    int64_t flow = MIN_CUT_INFINITE;
    for (int32_t i = 0; i < n; i++)
        flow = c->arcs[c->path[i]].room < flow ? c->arcs[c->path[i]].room : flow;
    for (int32_t i = 0; i < n; i++) {
        c->arcs[c->path[i]].room -= flow;
        c->arcs[c->path[i] ^ 1].room += flow;
    }
    return flow;
}

/* Dinic 1970. The flow never reaches MIN_CUT_INFINITE: keeping all values is a finite cut. */
static int64_t min_cut_flow(MinCut *c)
{
    int64_t total = 0, flow;
    for (int32_t a = 0; a < c->n_arcs; a++)
        c->arcs[a].room = c->capacity[a];
    while (min_cut_levels(c)) {
        while ((flow = min_cut_push(c)) > 0)
            total += flow;
    }
    return total;
}

/* Marks what must run before or after n, by data and by the order of updates. */
static void min_cut_relatives(MinCut *c, int32_t n)
{
    const Task *task = c->task;
    c->before[n] = c->after[n] = true;
    for (int32_t m = n; m >= 0; m--) {
        if (!c->before[m])
            continue;
        for (int32_t i = 0; i < task->nodes[m].n_in; i++)
            c->before[task->values[task->nodes[m].in[i]].producer] = true;
        for (int32_t i = 0; i < task->nodes[m].n_before; i++)
            c->before[task->nodes[m].before[i]] = true;
    }
    for (int32_t m = n; m < task->n_nodes; m++) {
        const TaskNode *t = &task->nodes[m];
        for (int32_t i = 0; i < t->n_in; i++)
            c->after[m] |= c->after[task->values[t->in[i]].producer];
        for (int32_t i = 0; i < t->n_before; i++)
            c->after[m] |= c->after[t->before[i]];
    }
    for (int32_t m = 0; m < task->n_nodes; m++) {
        const TaskNode *t = &task->nodes[m];
        c->fixed[m] = t->once;
        for (int32_t i = 0; i < t->n_after; i++) /* the later one has run, or runs now */
            c->fixed[m] |= c->before[t->after[i]];
    }
    c->before[n] = c->after[n] = false;
}

static int32_t min_cut_value_vertex(int32_t value) { return MIN_CUT_VALUES + value; }

static int32_t min_cut_node_vertex(const MinCut *c, int32_t node)
{
    return MIN_CUT_VALUES + c->task->n_values + node;
}

/* Adds the values needed later whose producers are ancestors, and everything that recomputing them
 * could need. Arcs of values come first, so that a new price only changes those. */
static void min_cut_network(MinCut *c, int32_t *n_value_arcs, int32_t *value_of_arc)
{
    const Task *task = c->task;
    double      unit = task->base_cost > 0 ? task->base_cost : 1;
    bool       *seen = NEWN(c->pool, bool, task->n_values + 1);
    int32_t    *list = NEWN(c->pool, int32_t, task->n_values + 1), n = 0;
    for (int32_t v = 0; v < task->n_values; v++) {
        seen[v] = c->needed[v] && c->before[task->values[v].producer];
        if (seen[v])
            list[n++] = v;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t         v = list[i], producer = task->values[v].producer;
        const TaskNode *t = &task->nodes[producer];
        if (!c->held[v]) { /* keeping it has a price */
            value_of_arc[(*n_value_arcs)++] = v;
            min_cut_arc(c, min_cut_value_vertex(v), min_cut_node_vertex(c, producer), 0);
        }
        for (int32_t k = 0; k < t->n_in && !c->fixed[producer]; k++) {
            if (!seen[t->in[k]]) {
                seen[t->in[k]] = true;
                list[n++] = t->in[k];
            }
        }
    }
    bool *made = NEWN(c->pool, bool, task->n_nodes + 1);
    for (int32_t i = 0; i < n; i++) {
        int32_t         v = list[i], producer = task->values[v].producer;
        const TaskNode *t = &task->nodes[producer];
        if (c->needed[v])
            min_cut_arc(c, MIN_CUT_S, min_cut_value_vertex(v), MIN_CUT_INFINITE);
        if (made[producer])
            continue;
        made[producer] = true;
        min_cut_arc(c, min_cut_node_vertex(c, producer), MIN_CUT_T,
                    c->fixed[producer] ? MIN_CUT_INFINITE
                                       : (int64_t)(t->cost / unit * MIN_CUT_COST));
        for (int32_t k = 0; k < t->n_in && !c->fixed[producer]; k++)
            min_cut_arc(c, min_cut_node_vertex(c, producer), min_cut_value_vertex(t->in[k]),
                        MIN_CUT_INFINITE);
    }
}

/* Bytes that the current cut keeps. */
static int64_t min_cut_kept_bytes(const MinCut *c, const int32_t *value_of_arc,
                                  int32_t n_value_arcs)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < n_value_arcs; i++) {
        int32_t v = value_of_arc[i], producer = c->task->values[v].producer;
        if (c->level[min_cut_value_vertex(v)] >= 0 &&
            c->level[min_cut_node_vertex(c, producer)] < 0)
            bytes += c->task->values[v].bytes;
    }
    return bytes;
}

/* The largest bound over prices. Each cut is a line in the price, cost + price * (kept - room); the
 * maximum is where a rising line meets a falling one. */
static double min_cut_best(MinCut *c, int64_t room, const int32_t *value_of_arc,
                           int32_t n_value_arcs)
{
    double  best = 0, up_cost = 0, down_cost = 0, up = 0, down = 0, price;
    int64_t all = 0, forced = 0;
    for (int32_t i = 0; i < n_value_arcs; i++) {
        const TaskValue *v = &c->task->values[value_of_arc[i]];
        all += v->bytes;
        forced += c->fixed[v->producer] && c->needed[value_of_arc[i]] ? v->bytes : 0;
    }
    if (all <= room || forced > room)
        return 0;
    price = MIN_CUT_COST / (double)all;
    for (int32_t i = 0; i < MIN_CUT_PRICES; i++) {
        for (int32_t a = 0; a < n_value_arcs; a++)
            c->capacity[2 * a] = (int64_t)fmin((double)c->task->values[value_of_arc[a]].bytes *
                                                   price,
                                               (double)MIN_CUT_INFINITE / 4096);
        double  flow = (double)min_cut_flow(c), bound = flow - price * (double)room;
        int64_t kept = min_cut_kept_bytes(c, value_of_arc, n_value_arcs);
        double  slope = (double)(kept - room), cost = flow - price * (double)kept;
        if (bound > best * (1 + 1e-9) || i == 0)
            best = fmax(best, bound);
        if (slope > 0) { /* too many bytes are kept: raise the price */
            up = slope;
            up_cost = cost;
        } else {
            down = slope;
            down_cost = cost;
        }
        double next = up > 0 && down < 0 ? (down_cost - up_cost) / (up - down)
                      : up > 0           ? price * 16
                                         : price / 16;
        if (slope == 0 || !(next > 0) || fabs(next - price) <= 1e-9 * price)
            break;
        price = next;
    }
    return best;
}

MinCutBound min_cut_bound(Pool *pool, const Task *task, int32_t n, int64_t budget_bytes)
{
    Pool           *temp = pool_new(pool, "cut");
    const TaskNode *t = &task->nodes[n];
    size_t          n_nodes = (size_t)task->n_nodes + 1, n_values = (size_t)task->n_values + 1;
    MinCutBound     out = { 0, task->fixed_bytes + t->workspace };
    MinCut          c = {
                 .task = task,
                 .pool = temp,
                 .n_vertices = MIN_CUT_VALUES + task->n_values + task->n_nodes,
                 .before = NEWN(temp, bool, n_nodes),
                 .after = NEWN(temp, bool, n_nodes),
                 .fixed = NEWN(temp, bool, n_nodes),
                 .held = NEWN(temp, bool, n_values),
                 .needed = NEWN(temp, bool, n_values),
    };
    c.first = NEWN(temp, int32_t, c.n_vertices + 1);
    c.level = NEWN(temp, int32_t, c.n_vertices + 1);
    c.at = NEWN(temp, int32_t, c.n_vertices + 1);
    c.queue = NEWN(temp, int32_t, c.n_vertices + 1);
    c.path = NEWN(temp, int32_t, c.n_vertices + 1);
    memset(c.first, -1, sizeof *c.first * (size_t)c.n_vertices);
    min_cut_relatives(&c, n);
    for (int32_t i = 0; i < t->n_in; i++) {
        c.held[t->in[i]] = true;
        out.bytes += i < t->n_takes ? 0 : task->values[t->in[i]].bytes;
    }
    for (int32_t i = 0; i < t->n_out; i++)
        out.bytes += task->values[t->out[i]].bytes;
    int64_t room = budget_bytes - out.bytes;
    for (int32_t v = 0; v < task->n_values; v++) {
        const TaskValue *value = &task->values[v];
        c.needed[v] = value->final;
        for (int32_t r = 0; r < value->n_readers; r++)
            c.needed[v] |= c.after[value->readers[r]];
        if (c.needed[v] && c.before[value->producer] && c.fixed[value->producer] && !c.held[v])
            out.bytes += value->bytes;
    }
    if (budget_bytes > 0 && room >= 0) {
        int32_t *value_of_arc = NEWN(temp, int32_t, n_values), n_value_arcs = 0;
        min_cut_network(&c, &n_value_arcs, value_of_arc);
        out.cost = min_cut_best(&c, room, value_of_arc, n_value_arcs) / MIN_CUT_COST *
                   task->base_cost;
    }
    pool_free(temp);
    return out;
}
