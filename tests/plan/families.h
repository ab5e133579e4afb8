/* families.h -- training steps of common kinds of networks, generated: a forward graph of any
 * shape, and its backward graph by rule.
 *
 * Each operator has one output. Its gradient node reads the gradient of the output and, as the
 * operator says, its inputs and its output; it produces one gradient for each input. Gradients of a
 * value with several readers are summed pairwise, in a fixed order. Costs and sizes are random
 * within the range that such layers have; the seed fixes them. */
#ifndef TESTS_PLAN_FAMILIES_H
#define TESTS_PLAN_FAMILIES_H

#include "plan/make.h"

enum { NET_MAX_IN = 12 };
typedef enum Reads { READS_NONE = 0, READS_IN = 1, READS_OUT = 2 } Reads; /* of the gradient */

typedef struct NetOp {
    int32_t in[NET_MAX_IN], n_in; /* ops; none: it reads data, which is persistent */
    int32_t out;                  /* value */
    double  cost;
    int64_t bytes;
    Reads   reads;
} NetOp;

typedef struct Net {
    Make    m;
    NetOp  *ops;
    int32_t n, cap, data;
} Net;

static inline Net net_begin(Pool *pool, uint64_t seed)
{
    Net net = { .m = make_begin(pool, seed) };
    net.data = make_value(&net.m, 64, true);
    for (int i = 0; i < 4; i++)
        make_random(&net.m, 2);
    return net;
}

static inline int32_t net_op_n(Net *net, double cost, int64_t bytes, Reads reads, const int32_t *in,
                               int32_t n)
{
    NetOp   op = { .n_in = n, .cost = cost, .bytes = bytes, .reads = reads };
    int32_t node = make_node(&net->m, cost, 0, -1, -1);
    PNode  *p;
    op.out = make_value(&net->m, bytes, false);
    net->m.graph->values[op.out].producer = node;
    p = &net->m.graph->nodes[node];
    p->in = NEWN(net->m.pool, int32_t, n + 1);
    p->out[0] = op.out;
    p->n_out = 1;
    for (int32_t i = 0; i < n; i++) {
        op.in[i] = in[i];
        p->in[p->n_in++] = net->ops[in[i]].out;
    }
    if (n == 0)
        p->in[p->n_in++] = net->data;
    VEC_ADD(net->m.pool, net->ops, net->n, net->cap, op);
    return net->n - 1;
}

static inline int32_t net_op(Net *net, double cost, int64_t bytes, Reads reads, int32_t a,
                             int32_t b)
{
    int32_t in[2] = { a, b };
    return net_op_n(net, cost, bytes, reads, in, (a >= 0) + (b >= 0 && b != a));
}

/* Loss, then every operator's gradient in reverse. */
static inline PGraph *net_train(Net *net)
{
    Make    *m = &net->m;
    int32_t *grad = NEWN(m->pool, int32_t, net->n + 1);
    for (int32_t i = 0; i < net->n; i++)
        grad[i] = -1;
    int32_t last = net->ops[net->n - 1].out, loss = make_value(m, 8, false);
    make_node(m, 1, 0, last, -1, loss, -1);
    m->graph->values[loss].final = true;
    grad[net->n - 1] = make_act(m, 1, net->ops[net->n - 1].bytes, last, loss, -1);
    for (int32_t i = net->n - 1; i >= 0; i--) {
        const NetOp *op = &net->ops[i];
        int32_t      node;
        if (grad[i] < 0)
            continue;
        node = make_node(m, 2 * op->cost, 0, grad[i], -1, -1);
        PNode *p = &m->graph->nodes[node];
        p->in = NEWN(m->pool, int32_t, op->n_in + 3);
        p->out = NEWN(m->pool, int32_t, op->n_in + 2);
        p->in[0] = grad[i];
        for (int32_t k = 0; k < op->n_in && op->reads & READS_IN; k++)
            p->in[p->n_in++] = net->ops[op->in[k]].out;
        if (op->reads & READS_OUT)
            p->in[p->n_in++] = op->out;
        int32_t made[NET_MAX_IN + 1], n_made = 0;
        for (int32_t k = 0; k < op->n_in; k++)
            made[n_made++] = make_value(m, net->ops[op->in[k]].bytes, false);
        if (n_made == 0)
            made[n_made++] = make_value(m, 8, false); /* a weight's gradient, a final */
        p = &m->graph->nodes[node];
        for (int32_t k = 0; k < n_made; k++) {
            p->out[p->n_out++] = made[k];
            m->graph->values[made[k]].producer = node;
        }
        if (op->n_in == 0)
            m->graph->values[made[0]].final = true;
        for (int32_t k = 0; k < op->n_in; k++) {
            int32_t *g = &grad[op->in[k]];
            *g = *g < 0
                     ? made[k]
                     : make_act(m, 1 + op->cost / 50, net->ops[op->in[k]].bytes, *g, made[k], -1);
        }
    }
    return m->graph;
}

static inline double net_between(Net *net, uint32_t low, uint32_t high)
{
    return low + make_random(&net->m, high - low + 1);
}

/* Convolutions with a rectifier each, halved in size now and then. */
static inline PGraph *family_vgg(Pool *pool, int32_t size, uint64_t seed)
{
    Net     net = net_begin(pool, seed);
    int64_t bytes = 800;
    int32_t x = net_op(&net, 40, bytes, READS_NONE, -1, -1);
    for (int32_t i = 1; i < size; i++) {
        x = net_op(&net, net_between(&net, 80, 200), bytes, READS_IN, x, -1);
        x = net_op(&net, net_between(&net, 2, 6), bytes, READS_OUT, x, -1);
        if (make_random(&net.m, 3) == 0 && bytes > 60)
            x = net_op(&net, 5, bytes = bytes / 4 + 10, READS_IN, x, -1);
    }
    return net_train(&net);
}

/* Residual blocks: two convolutions with norm and rectifier, and a skip connection. */
static inline PGraph *family_resnet(Pool *pool, int32_t size, uint64_t seed)
{
    Net     net = net_begin(pool, seed);
    int64_t bytes = 600;
    int32_t x = net_op(&net, 60, bytes, READS_NONE, -1, -1);
    for (int32_t i = 0; i < size; i++) {
        int32_t y = x;
        if (i % 3 == 2) {
            bytes = bytes / 2 + (int64_t)net_between(&net, 0, 9);
            x = net_op(&net, 20, bytes, READS_IN, x, -1);
        }
        for (int k = 0; k < 2; k++) {
            y = net_op(&net, net_between(&net, 60, 120), bytes, READS_IN, y, -1);
            y = net_op(&net, net_between(&net, 4, 9), bytes, READS_IN, y, -1);
            if (k == 0)
                y = net_op(&net, 3, bytes, READS_OUT, y, -1);
        }
        y = net_op(&net, 3, bytes, READS_NONE, x, y);
        x = net_op(&net, 3, bytes, READS_OUT, y, -1);
    }
    return net_train(&net);
}

/* Depthwise and pointwise convolutions, each with norm and rectifier; wide inside. */
static inline PGraph *family_mobilenet(Pool *pool, int32_t size, uint64_t seed)
{
    Net     net = net_begin(pool, seed);
    int64_t bytes = 900;
    int32_t x = net_op(&net, 50, bytes, READS_NONE, -1, -1);
    for (int32_t i = 0; i < size; i++) {
        for (int k = 0; k < 2; k++) {
            if (k == 0 && make_random(&net.m, 3) == 0 && bytes > 100)
                bytes /= 2;
            double cost = k ? net_between(&net, 100, 300) : net_between(&net, 10, 30);
            x = net_op(&net, cost, bytes, READS_IN, x, -1);
            x = net_op(&net, net_between(&net, 5, 12), bytes, READS_IN, x, -1);
            x = net_op(&net, net_between(&net, 2, 5), bytes, READS_OUT, x, -1);
        }
    }
    return net_train(&net);
}

/* Down, across, up; the map of every level is kept for the way up. */
static inline PGraph *family_unet(Pool *pool, int32_t size, uint64_t seed)
{
    Net     net = net_begin(pool, seed);
    int32_t skip[32], levels = size < 30 ? size : 30;
    int64_t bytes[32];
    int32_t x = net_op(&net, 40, 1024, READS_NONE, -1, -1);
    for (int32_t l = 0; l < levels; l++) {
        bytes[l] = (1024 >> l) + 20;
        for (int k = 0; k < 2; k++) {
            x = net_op(&net, net_between(&net, 60, 160), bytes[l], READS_IN, x, -1);
            x = net_op(&net, net_between(&net, 3, 8), bytes[l], READS_OUT, x, -1);
        }
        skip[l] = x;
        if (l + 1 < levels)
            x = net_op(&net, 5, (1024 >> (l + 1)) + 20, READS_IN, x, -1);
    }
    for (int32_t l = levels - 2; l >= 0; l--) {
        x = net_op(&net, 30, bytes[l], READS_IN, x, -1);
        x = net_op(&net, 6, 2 * bytes[l], READS_NONE, skip[l], x);
        x = net_op(&net, net_between(&net, 100, 240), bytes[l], READS_IN, x, -1);
        x = net_op(&net, 4, bytes[l], READS_OUT, x, -1);
    }
    return net_train(&net);
}

/* Attention and an inner layer, equal blocks. */
static inline PGraph *family_transformer(Pool *pool, int32_t size, uint64_t seed)
{
    Net    net = net_begin(pool, seed);
    double c[6];
    for (int i = 0; i < 6; i++)
        c[i] = net_between(&net, 50, 300);
    int32_t x = net_op(&net, 10, 100, READS_NONE, -1, -1);
    for (int32_t b = 0; b < size; b++) {
        int32_t y = net_op(&net, 6, 100, READS_IN, x, -1);
        y = net_op(&net, c[0], 300, READS_IN, y, -1);
        y = net_op(&net, c[1], 100, READS_IN | READS_OUT, y, -1);
        y = net_op(&net, c[2], 100, READS_IN, y, -1);
        x = net_op(&net, 5, 100, READS_NONE, x, y);
        y = net_op(&net, 6, 100, READS_IN, x, -1);
        y = net_op(&net, c[3], 400, READS_IN, y, -1);
        y = net_op(&net, 20, 400, READS_IN, y, -1);
        y = net_op(&net, c[4], 100, READS_IN, y, -1);
        x = net_op(&net, 5, 100, READS_NONE, x, y);
    }
    return net_train(&net);
}

/* A random block, repeated. */
static inline PGraph *family_blocks(Pool *pool, int32_t size, uint64_t seed)
{
    enum { INNER = 6 };
    Net     net = net_begin(pool, seed);
    double  cost[INNER];
    int64_t bytes[INNER];
    int32_t from[INNER][2], x = net_op(&net, 10, 120, READS_NONE, -1, -1);
    Reads   reads[INNER];
    for (int i = 0; i < INNER; i++) {
        cost[i] = net_between(&net, 5, 200);
        bytes[i] = i == INNER - 1 ? 120 : (int64_t)net_between(&net, 40, 400);
        from[i][0] = i;
        from[i][1] = (int32_t)make_random(&net.m, (uint32_t)i + 1);
        reads[i] = (Reads)(1 + make_random(&net.m, 3));
    }
    for (int32_t b = 0; b < size; b++) {
        int32_t v[INNER + 1] = { x };
        for (int i = 0; i < INNER; i++)
            v[i + 1] = net_op(&net, cost[i], bytes[i], reads[i], v[from[i][0]], v[from[i][1]]);
        x = v[INNER];
    }
    return net_train(&net);
}

/* A recurrence: each step reads the state before it and its own input. */
static inline PGraph *family_recurrence(Pool *pool, int32_t size, uint64_t seed)
{
    Net     net = net_begin(pool, seed);
    double  gate = net_between(&net, 60, 140), mix = net_between(&net, 5, 30);
    int32_t h = net_op(&net, 5, 200, READS_NONE, -1, -1), outs = -1;
    for (int32_t t = 0; t < size; t++) {
        int32_t x = net_op(&net, 8, 60, READS_NONE, -1, -1);
        int32_t g = net_op(&net, gate, 400, READS_IN, h, x);
        h = net_op(&net, mix, 200, READS_IN | READS_OUT, g, h);
        int32_t y = net_op(&net, 12, 80, READS_IN, h, -1);
        outs = outs < 0 ? y : net_op(&net, 2, 80, READS_NONE, outs, y);
    }
    return net_train(&net);
}

/* Each element is predicted from all others. */
static inline PGraph *family_leave_one_out(Pool *pool, int32_t size, uint64_t seed)
{
    Net     net = net_begin(pool, seed);
    int32_t item[NET_MAX_IN], loss = -1, n = size < NET_MAX_IN ? size : NET_MAX_IN;
    for (int32_t i = 0; i < n; i++) {
        item[i] = net_op(&net, net_between(&net, 40, 90), 150, READS_NONE, -1, -1);
        item[i] = net_op(&net, net_between(&net, 60, 160), 100, READS_IN, item[i], -1);
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t others[NET_MAX_IN], k = 0;
        for (int32_t j = 0; j < n; j++)
            if (j != i)
                others[k++] = item[j];
        int32_t c = net_op_n(&net, 50, 300, READS_IN, others, k);
        c = net_op(&net, net_between(&net, 30, 90), 200, READS_IN, c, item[i]);
        c = net_op(&net, 4, 20, READS_IN, c, -1);
        loss = loss < 0 ? c : net_op(&net, 1, 20, READS_NONE, loss, c);
    }
    return net_train(&net);
}

/* Not a training step: layers of random width, edges to the next few. */
static inline PGraph *family_layered(Pool *pool, int32_t size, uint64_t seed)
{
    return make_layered(pool, size, seed);
}

typedef struct Family {
    const char *name;
    PGraph *(*build)(Pool *, int32_t size, uint64_t seed);
    int32_t small, medium; /* sizes: about 25 to 40 nodes; about 100 to 300 */
} Family;

/* clang-format off */
static const Family families[] = {
    { "vgg", family_vgg, 5, 30 },                  { "resnet", family_resnet, 2, 14 },
    { "mobilenet", family_mobilenet, 2, 14 },      { "unet", family_unet, 2, 6 },
    { "transformer", family_transformer, 1, 8 },   { "blocks", family_blocks, 2, 16 },
    { "recurrence", family_recurrence, 2, 16 },    { "leave-one-out", family_leave_one_out, 2, 10 },
    { "layered", family_layered, 28, 120 },
};
/* clang-format on */
enum { N_FAMILIES = sizeof families / sizeof *families };

#endif
