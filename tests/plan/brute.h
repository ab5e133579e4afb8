/* brute.h -- small random graphs, and their optima by going through all states. For tests. */
#ifndef TESTS_PLAN_BRUTE_H
#define TESTS_PLAN_BRUTE_H

#include "plan/make.h"

#include <float.h>

/* The cheapest schedule within a budget over all states (live values, nodes run): exact for graphs
 * of at most 8 nodes and 10 values, single writers, no views, no inplace. DBL_MAX: impossible. */
static inline double brute(const PGraph *g, int64_t budget)
{
    int      nv = g->n_values, nn = g->n_nodes, states = 1 << (nv + nn);
    double  *cost = malloc(sizeof *cost * (size_t)states), best = DBL_MAX;
    uint8_t *done = calloc((size_t)states, 1);
    int      start = 0, must = 0;
    int     *queue = malloc(sizeof *queue * (size_t)states);
    for (int i = 0; i < states; i++)
        cost[i] = DBL_MAX;
    for (int v = 0; v < nv; v++) {
        start |= g->values[v].persistent << v;
        must |= (g->values[v].final || g->values[v].persistent) << v;
    }
    cost[start] = 0;
    /* Costs are whole numbers here: buckets of equal cost, label correcting. */
    int n_queue = 0;
    queue[n_queue++] = start;
    while (n_queue > 0) {
        int pick = 0;
        for (int i = 1; i < n_queue; i++)
            if (cost[queue[i]] < cost[queue[pick]])
                pick = i;
        int state = queue[pick];
        queue[pick] = queue[--n_queue];
        if (done[state])
            continue;
        done[state] = 1;
        int live = state & ((1 << nv) - 1), ran = state >> nv;
        if (ran == (1 << nn) - 1 && (live & must) == must) {
            best = cost[state];
            break;
        }
        for (int move = 0; move < nn + nv; move++) {
            int    next;
            double add = 0;
            if (move < nn) {
                const PNode *node = &g->nodes[move];
                int          in = 0, out = 0;
                int64_t      bytes = node->workspace;
                for (int i = 0; i < node->n_in; i++)
                    in |= 1 << node->in[i];
                for (int i = 0; i < node->n_out; i++)
                    out |= 1 << node->out[i];
                if ((live & in) != in || (node->once && (ran >> move & 1)))
                    continue;
                for (int v = 0; v < nv; v++)
                    bytes += ((live | out) >> v & 1) ? g->values[v].bytes : 0;
                if (bytes > budget)
                    continue;
                next = live | out | (ran | 1 << move) << nv;
                add = node->cost;
            } else {
                int v = move - nn;
                if (!(live >> v & 1) || g->values[v].persistent)
                    continue;
                next = state & ~(1 << v);
            }
            if (cost[state] + add < cost[next]) {
                cost[next] = cost[state] + add;
                if (n_queue < states)
                    queue[n_queue++] = next;
            }
        }
    }
    free(cost);
    free(done);
    free(queue);
    return best;
}

static inline PGraph *tiny(Pool *pool, uint64_t seed)
{
    Make    m = make_begin(pool, seed);
    int32_t nodes = 3 + (int32_t)make_random(&m, 6),
            given = make_value(&m, 1 + make_random(&m, 5), true);
    for (int32_t n = 0; n < nodes && m.graph->n_values < 10; n++) {
        int32_t a = (int32_t)make_random(&m, (uint32_t)m.graph->n_values);
        int32_t b = (int32_t)make_random(&m, (uint32_t)m.graph->n_values);
        int32_t out = make_value(&m, make_random(&m, 20), false);
        int32_t node = a == b ? make_node(&m, 1 + make_random(&m, 9), make_random(&m, 4), a, -1,
                                          out, -1)
                              : make_node(&m, 1 + make_random(&m, 9), 0, a, b, -1, out, -1);
        if (make_random(&m, 4) == 0 && m.graph->n_values < 10) { /* a second output */
            int32_t second = make_value(&m, make_random(&m, 9), false);
            PNode  *p = &m.graph->nodes[node];
            p->out = NEWN(pool, int32_t, 2);
            p->out[0] = out;
            p->out[1] = second;
            p->n_out = 2;
            m.graph->values[second].producer = node;
        }
        m.graph->nodes[node].once = make_random(&m, 6) == 0;
        m.graph->values[out].final = make_random(&m, 5) == 0;
    }
    (void)given;
    return m.graph;
}

/* The same over plans that keep the input order of first runs and run a node at most once between
 * two of them: for each moment (stage, node), the smallest cost of every set of live values. */
static inline double brute_order(const PGraph *g, int64_t budget)
{
    int     nv = g->n_values, nn = g->n_nodes, sets = 1 << nv, start = 0, must = 0;
    double *cost = malloc(sizeof *cost * (size_t)sets), *next = malloc(sizeof *next * (size_t)sets);
    for (int v = 0; v < nv; v++) {
        start |= g->values[v].persistent << v;
        must |= (g->values[v].final || g->values[v].persistent) << v;
    }
    for (int s = 0; s < sets; s++)
        cost[s] = s == start ? 0 : DBL_MAX;
    for (int moment = 0; moment < nn * nn; moment++) {
        int t = moment / nn, k = moment % nn, in = 0, out = 0;
        if (k > t)
            continue;
        const PNode *node = &g->nodes[k];
        for (int i = 0; i < node->n_in; i++)
            in |= 1 << node->in[i];
        for (int i = 0; i < node->n_out; i++)
            out |= 1 << node->out[i];
        for (int s = 0; s < sets; s++)
            next[s] = k < t ? cost[s] : DBL_MAX;
        for (int s = 0; s < sets; s++) {
            int64_t bytes = node->workspace;
            for (int v = 0; v < nv; v++)
                bytes += ((s | out) >> v & 1) ? g->values[v].bytes : 0;
            if (cost[s] < DBL_MAX && (s & in) == in && bytes <= budget && !(k < t && node->once) &&
                cost[s] + node->cost < next[s | out])
                next[s | out] = cost[s] + node->cost;
        }
        for (int v = 0; v < nv; v++) { /* any value may be dropped now */
            for (int s = 0; s < sets && !g->values[v].persistent; s++) {
                if ((s >> v & 1) && next[s] < next[s & ~(1 << v)])
                    next[s & ~(1 << v)] = next[s];
            }
        }
        double *swap = cost;
        cost = next;
        next = swap;
    }
    double best = DBL_MAX;
    for (int s = 0; s < sets; s++)
        best = (s & must) == must && cost[s] < best ? cost[s] : best;
    free(cost);
    free(next);
    return best;
}

#endif
