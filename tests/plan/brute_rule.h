/* brute_rule.h -- the optimum of a tiny graph by going through all states of the memory rule, with
 * views, taking over, versions and `once`. For tests. It is written from the rule at the top of
 * plan/pgraph.h and shares no code with the planner.
 *
 * A state is: which values are live, which nodes have run, and which version each value holds. */
#ifndef TESTS_PLAN_BRUTE_RULE_H
#define TESTS_PLAN_BRUTE_RULE_H

#include "plan/plan.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum {
    RULE_VALUES = 20,
    RULE_NODES = 10,
    RULE_CHANGING = 16, /* values with versions */
    RULE_GONE = 3,      /* the version of a persistent value whose bytes were taken over */
    RULE_SLOTS = 1 << 18
};

typedef struct RuleState {
    uint32_t live, ran, versions; /* versions: 2 bits for each changing value */
} RuleState;

typedef struct RuleEntry {
    double key;
    int    state;
} RuleEntry;

typedef struct Rule {
    const PGraph *g;
    int64_t       bytes[RULE_VALUES];
    int           changing[RULE_VALUES]; /* its place in versions, or -1 */
    int           n_changing, writers[RULE_VALUES];
    int           reads[RULE_NODES][RULE_VALUES], writes[RULE_NODES][RULE_VALUES];
    bool          too_large;
    RuleState    *state;
    double       *key;
    bool         *done;
    int          *slot, n, n_heap, cap_heap;
    RuleEntry    *heap;
} Rule;

static inline int rule_root(const PGraph *g, int v)
{
    return g->values[v].view_of >= 0 ? g->values[v].view_of : v;
}

/* Which input a node's output takes over, or -1. */
static inline int rule_taken(const PNode *node, int out)
{
    for (int i = 0; i < node->n_inplace; i++)
        if (node->inplace[i][0] == out && node->inplace[i][1] != out)
            return node->inplace[i][1];
    return -1;
}

static inline bool rule_begin(Rule *r, const PGraph *g)
{
    bool taken[RULE_VALUES] = { 0 };
    *r = (Rule){ .g = g };
    if (g->n_values > RULE_VALUES || g->n_nodes > RULE_NODES)
        return false;
    for (int v = 0; v < g->n_values; v++)
        r->bytes[v] = g->values[v].view_of >= 0 ? 0 : g->values[v].bytes;
    for (int n = 0; n < g->n_nodes; n++) { /* in input order: what was written so far */
        const PNode *node = &g->nodes[n];
        for (int v = 0; v < g->n_values; v++)
            r->reads[n][v] = r->writers[v];
        for (int i = 0; i < node->n_out; i++) {
            int in = rule_taken(node, node->out[i]);
            r->writes[n][node->out[i]] = ++r->writers[node->out[i]];
            if (in < 0)
                continue;
            int root = rule_root(g, in);
            taken[root] = true;
            r->bytes[node->out[i]] = g->values[root].persistent ? 0 : r->bytes[root];
        }
    }
    for (int v = 0; v < g->n_values; v++) {
        bool changes = r->writers[v] > 1 ||
                       (g->values[v].persistent && (r->writers[v] > 0 || taken[v]));
        r->changing[v] = changes ? r->n_changing++ : -1;
        if (r->writers[v] >= RULE_GONE)
            return false;
    }
    return r->n_changing <= RULE_CHANGING;
}

static inline int rule_version(const Rule *r, RuleState s, int v)
{
    int c = r->changing[v];
    return c < 0 ? r->writers[v] : (int)(s.versions >> (2 * c) & 3);
}

static inline void rule_set_version(const Rule *r, RuleState *s, int v, int version)
{
    int c = r->changing[v];
    if (c >= 0)
        s->versions = (s->versions & ~(3u << (2 * c))) | (uint32_t)version << (2 * c);
}

static inline bool rule_is_live(const Rule *r, RuleState s, int v)
{
    return r->g->values[v].persistent || (s.live >> v & 1);
}

static inline uint32_t rule_views(const PGraph *g, int root)
{
    uint32_t views = 0;
    for (int v = 0; v < g->n_values; v++)
        views |= g->values[v].view_of == root ? 1u << v : 0;
    return views;
}

static inline int64_t rule_sum(const Rule *r, uint32_t live)
{
    int64_t sum = 0;
    for (int v = 0; v < r->g->n_values; v++)
        sum += (live >> v & 1) || r->g->values[v].persistent ? r->bytes[v] : 0;
    return sum;
}

/* Runs a node; false: it cannot run. */
static inline bool rule_run(const Rule *r, RuleState *s, int n, int64_t *peak)
{
    const PGraph *g = r->g;
    const PNode  *node = &g->nodes[n];
    int64_t       old = 0;
    if (node->once && (s->ran >> n & 1))
        return false;
    for (int i = 0; i < node->n_in; i++) {
        int v = node->in[i], root = rule_root(g, v);
        if (!rule_is_live(r, *s, v) || !rule_is_live(r, *s, root))
            return false;
        if ((r->changing[v] >= 0 && rule_version(r, *s, v) != r->reads[n][v]) ||
            (r->changing[root] >= 0 && rule_version(r, *s, root) != r->reads[n][root]))
            return false;
    }
    for (int i = 0; i < node->n_out; i++) { /* bytes that change hands */
        int out = node->out[i], in = rule_taken(node, out), root;
        if (in < 0)
            continue;
        root = rule_root(g, in);
        if (s->live >> out & 1) {
            old += r->bytes[out];
            s->live &= ~(rule_views(g, out) | 1u << out);
        }
        s->live &= ~(rule_views(g, root) | 1u << root);
        if (g->values[root].persistent)
            rule_set_version(r, s, root, RULE_GONE);
    }
    for (int i = 0; i < node->n_out; i++) {
        int out = node->out[i];
        if (!g->values[out].persistent)
            s->live |= 1u << out;
        if (r->changing[out] >= 0 && rule_version(r, *s, out) > r->writes[n][out] &&
            rule_version(r, *s, out) != RULE_GONE)
            return false; /* a later version was written */
        rule_set_version(r, s, out, r->writes[n][out]);
    }
    for (int i = 0; i < node->n_out; i++) {
        int out = node->out[i], root = rule_root(g, out);
        if (!rule_is_live(r, *s, root) ||
            (root != out && r->changing[root] >= 0 && rule_version(r, *s, root) == RULE_GONE))
            return false;
    }
    s->ran |= 1u << n;
    *peak = rule_sum(r, s->live) + old + node->workspace;
    return true;
}

static inline bool rule_is_end(const Rule *r, RuleState s)
{
    const PGraph *g = r->g;
    if (s.ran != (1u << g->n_nodes) - 1)
        return false;
    for (int v = 0; v < g->n_values; v++) {
        int version = rule_version(r, s, v);
        int root = rule_root(g, v);
        if (g->values[v].final && (!rule_is_live(r, s, v) || !rule_is_live(r, s, root) ||
                                   rule_version(r, s, root) != r->writers[root]))
            return false;
        if ((g->values[v].final || (g->values[v].persistent && version != RULE_GONE)) &&
            version != r->writers[v])
            return false;
    }
    return true;
}

static inline void rule_push(Rule *r, RuleState s, double key)
{
    uint64_t h = ((uint64_t)s.live << 32 ^ (uint64_t)s.ran << 17 ^ s.versions) *
                 0x9E3779B97F4A7C15u;
    uint64_t at = (h >> 33) % RULE_SLOTS;
    int      i;
    while (r->slot[at] && memcmp(&r->state[r->slot[at] - 1], &s, sizeof s) != 0)
        at = (at + 1) % RULE_SLOTS;
    if (!r->slot[at]) {
        if (r->n == RULE_SLOTS / 2) {
            r->too_large = true;
            return;
        }
        r->state[r->n] = s;
        r->key[r->n] = DBL_MAX;
        r->done[r->n] = false;
        r->slot[at] = ++r->n;
    }
    int id = r->slot[at] - 1;
    if (r->done[id] || r->key[id] <= key)
        return;
    r->key[id] = key;
    if (r->n_heap == r->cap_heap)
        r->heap = realloc(r->heap, sizeof *r->heap * (size_t)(r->cap_heap = 2 * r->cap_heap + 64));
    for (i = r->n_heap++; i > 0 && r->heap[(i - 1) / 2].key > key; i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = (RuleEntry){ key, id };
}

static inline int rule_pop(Rule *r)
{
    int       top = r->heap[0].state, i = 0, child;
    RuleEntry last = r->heap[--r->n_heap];
    while ((child = 2 * i + 1) < r->n_heap) {
        child += child + 1 < r->n_heap && r->heap[child + 1].key < r->heap[child].key;
        if (r->heap[child].key >= last.key)
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = last;
    return top;
}

/* The smallest cost within the budget, or with budget -1 the smallest peak. DBL_MAX: impossible;
 * -1: too many states. */
static inline double rule_optimum(const PGraph *g, int64_t budget)
{
    static int slot[RULE_SLOTS]; /* not zeroed by the kernel page by page in every call */
    Rule       r;
    double     best = DBL_MAX;
    if (!rule_begin(&r, g))
        return -1;
    memset(slot, 0, sizeof slot);
    r.slot = slot;
    r.state = malloc(sizeof *r.state * RULE_SLOTS / 2);
    r.key = malloc(sizeof *r.key * RULE_SLOTS / 2);
    r.done = malloc(sizeof *r.done * RULE_SLOTS / 2);
    rule_push(&r, (RuleState){ 0 }, budget < 0 ? (double)rule_sum(&r, 0) : 0);
    while (r.n_heap > 0 && !r.too_large) {
        int       id = rule_pop(&r);
        RuleState s = r.state[id];
        double    key = r.key[id];
        if (r.done[id])
            continue;
        r.done[id] = true;
        if (rule_is_end(&r, s)) {
            best = key;
            break;
        }
        for (int n = 0; n < g->n_nodes; n++) {
            RuleState next = s;
            int64_t   peak;
            if (!rule_run(&r, &next, n, &peak) || (budget >= 0 && peak > budget))
                continue;
            rule_push(&r, next,
                      budget >= 0          ? key + g->nodes[n].cost
                      : (double)peak > key ? (double)peak
                                           : key);
        }
        for (int v = 0; v < g->n_values; v++) {
            RuleState next = s;
            if (!(s.live >> v & 1) || (s.live & rule_views(g, v)))
                continue;
            next.live &= ~(1u << v);
            rule_push(&r, next, key);
        }
    }
    free(r.state);
    free(r.key);
    free(r.done);
    free(r.heap);
    return r.too_large ? -1 : best;
}

#endif
