/* make.h -- generates graphs for tests and benchmarks: a transformer's training step, random
 * layered graphs, small random graphs. */
#ifndef TESTS_PLAN_MAKE_H
#define TESTS_PLAN_MAKE_H

#include "plan/plan.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct Make {
    Pool    *pool;
    PGraph  *graph;
    int32_t  cap_values, cap_nodes;
    uint64_t random;
} Make;

static inline Make make_begin(Pool *pool, uint64_t seed)
{
    Make m = { .pool = pool,
               .graph = NEW(pool, PGraph),
               .random = seed * 2654435761u + 88172645463325252u };
    m.graph->align = 1;
    return m;
}

static inline uint32_t make_random(Make *m, uint32_t n)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (uint32_t)((m->random * 0x2545F4914F6CDD1Du >> 33) % n);
}

static inline int32_t make_value(Make *m, int64_t bytes, bool persistent)
{
    PValue value = { .name = pool_print(m->pool, "v%d", m->graph->n_values),
                     .bytes = bytes,
                     .view_of = -1,
                     .producer = -1,
                     .persistent = persistent };
    VEC_ADD(m->pool, m->graph->values, m->graph->n_values, m->cap_values, value);
    return m->graph->n_values - 1;
}

/* make_node(m, cost, workspace, in, in, ..., -1, out, out, ..., -1) */
static inline int32_t make_node(Make *m, double cost, int64_t workspace, ...)
{
    PNode   node = { .name = pool_print(m->pool, "n%d", m->graph->n_nodes),
                     .cost = cost,
                     .workspace = workspace };
    int32_t list[2][64], n[2] = { 0, 0 };
    va_list args;
    va_start(args, workspace);
    for (int side = 0; side < 2; side++) {
        int32_t v;
        while ((v = va_arg(args, int32_t)) >= 0)
            list[side][n[side]++] = v;
    }
    va_end(args);
    node.in = NEWN(m->pool, int32_t, n[0] + 1);
    node.out = NEWN(m->pool, int32_t, n[1] + 1);
    memcpy(node.in, list[0], sizeof(int32_t) * (size_t)n[0]);
    memcpy(node.out, list[1], sizeof(int32_t) * (size_t)n[1]);
    node.n_in = n[0];
    node.n_out = n[1];
    for (int i = 0; i < n[1]; i++) {
        PValue *out = &m->graph->values[list[1][i]];
        if (out->producer < 0)
            out->producer = m->graph->n_nodes;
        node.once |= out->persistent;
        for (int k = 0; k < n[0]; k++)
            node.once |= list[0][k] == list[1][i];
    }
    VEC_ADD(m->pool, m->graph->nodes, m->graph->n_nodes, m->cap_nodes, node);
    return m->graph->n_nodes - 1;
}

typedef struct MakeBlocks { /* where the blocks are, for plain per-block checkpointing */
    int32_t *forward;       /* [block] first forward node; [n_blocks]: the end */
    int32_t *backward;      /* [block] first backward node */
    int32_t  n_blocks;
} MakeBlocks;

static inline int32_t make_act(Make *m, double cost, int64_t bytes, int32_t a, int32_t b, int32_t c)
{
    int32_t out = make_value(m, bytes, false), in[3] = { a, b, c }, k = 0;
    for (int i = 0; i < 3; i++)
        if (in[i] >= 0)
            in[k++] = in[i];
    make_node(m, cost, 0, -1, out, -1);
    PNode *node = &m->graph->nodes[m->graph->n_nodes - 1];
    node->n_in = k;
    node->in = NEWN(m->pool, int32_t, 4);
    memcpy(node->in, in, sizeof(int32_t) * (size_t)k);
    return out;
}

/* A pre-norm transformer of n_blocks blocks: forward, loss, backward, each weight updated at once.
 * 10 forward, 15 backward and 4 update nodes a block. Bytes in units of tokens * width. */
static inline PGraph *make_transformer(Pool *pool, int32_t n_blocks, int64_t unit,
                                       MakeBlocks *blocks)
{
    Make m = make_begin(pool, 1);
    int32_t(*w)[4] = pool_alloc(pool, (size_t)n_blocks, sizeof *w);
    int32_t(*a)[10] = pool_alloc(pool, (size_t)n_blocks, sizeof *a);
    static const double mm[4] = { 300, 100, 400, 400 }; /* qkv, proj, fc1, fc2 */
    blocks->forward = NEWN(pool, int32_t, n_blocks + 1);
    blocks->backward = NEWN(pool, int32_t, n_blocks + 1);
    blocks->n_blocks = n_blocks;
    int32_t input = make_value(&m, unit, true);
    int32_t x = make_act(&m, 10, unit, input, -1, -1);
    for (int32_t b = 0; b < n_blocks; b++) {
        for (int i = 0; i < 4; i++)
            w[b][i] = make_value(&m, unit / 8, true);
        blocks->forward[b] = m.graph->n_nodes;
        a[b][0] = x;
        a[b][1] = make_act(&m, 6, unit, x, -1, -1);                    /* norm */
        a[b][2] = make_act(&m, mm[0], 3 * unit, a[b][1], w[b][0], -1); /* qkv */
        a[b][3] = make_act(&m, 150, unit, a[b][2], -1, -1);            /* attention */
        a[b][4] = make_act(&m, mm[1], unit, a[b][3], w[b][1], -1);     /* projection */
        a[b][5] = make_act(&m, 5, unit, x, a[b][4], -1);               /* residual */
        a[b][6] = make_act(&m, 6, unit, a[b][5], -1, -1);              /* norm */
        a[b][7] = make_act(&m, mm[2], 4 * unit, a[b][6], w[b][2], -1); /* fc1 */
        a[b][8] = make_act(&m, 20, 4 * unit, a[b][7], -1, -1);         /* gelu */
        a[b][9] = make_act(&m, mm[3], unit, a[b][8], w[b][3], -1);     /* fc2 */
        x = make_act(&m, 5, unit, a[b][5], a[b][9], -1);               /* residual */
    }
    blocks->forward[n_blocks] = m.graph->n_nodes;
    /* loss and its gradient */
    int32_t d = make_act(&m, 50, unit, x, -1, -1);
    for (int32_t b = n_blocks - 1; b >= 0; b--) {
        int32_t dw[4], g;
        blocks->backward[b] = m.graph->n_nodes;
        g = make_act(&m, mm[3], 4 * unit, d, w[b][3], -1);
        dw[3] = make_act(&m, mm[3], unit / 8, d, a[b][8], -1);
        g = make_act(&m, 30, 4 * unit, g, a[b][7], -1);
        dw[2] = make_act(&m, mm[2], unit / 8, g, a[b][6], -1);
        g = make_act(&m, mm[2], unit, g, w[b][2], -1);
        g = make_act(&m, 12, unit, g, a[b][5], -1);
        d = make_act(&m, 5, unit, d, g, -1);
        g = make_act(&m, mm[1], unit, d, w[b][1], -1);
        dw[1] = make_act(&m, mm[1], unit / 8, d, a[b][3], -1);
        g = make_act(&m, 350, 3 * unit, g, a[b][2], a[b][3]);
        dw[0] = make_act(&m, mm[0], unit / 8, g, a[b][1], -1);
        g = make_act(&m, mm[0], unit, g, w[b][0], -1);
        g = make_act(&m, 12, unit, g, a[b][0], -1);
        d = make_act(&m, 5, unit, d, g, -1);
        for (int i = 0; i < 4; i++)
            make_node(&m, 8, 0, w[b][i], dw[i], -1, w[b][i], -1);
    }
    return m.graph;
}

/* Plain per-block checkpointing: the first k blocks keep only their input and are recomputed as a
 * whole before their backward pass. */
static inline Err make_per_block(Pool *pool, const PGraph *graph, const MakeBlocks *blocks,
                                 int32_t k, Plan **plan)
{
    int32_t *runs = NEWN(pool, int32_t, 2 * graph->n_nodes), n = 0, block = blocks->n_blocks - 1;
    for (int32_t node = 0; node < graph->n_nodes; node++) {
        if (block >= 0 && node == blocks->backward[block]) {
            if (block < k) /* except its last nodes, which nothing reads again */
                for (int32_t f = blocks->forward[block]; f < blocks->forward[block + 1] - 2; f++)
                    runs[n++] = f;
            block--;
        }
        runs[n++] = node;
    }
    return plan_from_runs(pool, graph, runs, n, plan);
}

/* A random layered graph after Moccasin's RL instances: edges to the next few layers. */
static inline PGraph *make_layered(Pool *pool, int32_t n, uint64_t seed)
{
    Make m = make_begin(pool, seed);
    for (int32_t i = 0; i < n; i++) {
        int32_t in[3] = { -1, -1, -1 };
        for (int k = 0; k < 3 && i > 0; k++) {
            int32_t back = (int32_t)make_random(&m, 100) < 70 ? 12 : n;
            int32_t v = i - 1 - (int32_t)make_random(&m, (uint32_t)(i < back ? i : back));
            bool    again = false;
            for (int j = 0; j < k; j++)
                again |= in[j] == v;
            if (!again && (k == 0 || make_random(&m, 2)))
                in[k] = v;
        }
        make_act(&m, make_random(&m, 900), 100 + make_random(&m, 1900), in[0], in[1], in[2]);
    }
    return m.graph;
}

#endif
