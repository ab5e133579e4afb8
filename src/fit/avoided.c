/* avoided.c -- reads off the forward nodes what their plain form would keep for backward. */
#include "fit/avoided.h"

#include "ops/attention/attention.h"
#include "ops/norm/groupnorm.h"
#include "ops/ops.h"
#include "ops/s4/s4_kernel.h"

#include <stdlib.h>
#include <string.h>

static int64_t avoided_scores(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape q = in_shape(n, a->q.source);
    return dim(q, 0) * a->heads * attention_length(q) * attention_length(in_shape(n, a->k.source)) *
           type_bytes(in_type(n, a->q.source));
}

/* Two sums of B and P with C and Q each, over all poles with their conjugates, one complex number
 * per frequency: (2, 2, H, 2N, L/2+1). */
static int64_t avoided_cauchy(const Node *n)
{
    Shape c = in_shape(n, S4_C);
    return 2 * 2 * c.dim[1] * (2 * c.dim[2]) * (ATTR(n, S4KernelAttr)->length / 2 + 1) * 8;
}

/* SiLU and GELU need their input again, the next layer their output; ReLU does with its output. */
static int64_t avoided_before_act(const Node *n)
{
    NormAct act = ATTR(n, GroupnormAttr)->act;
    return act == NORM_SILU || act == NORM_GELU ? value_at(n->graph, n->out[0])->bytes : 0;
}

/* SPADE's normalised map, which its product with the scale would keep. */
static int64_t avoided_normed(const Node *n)   { return value_at(n->graph, n->out[0])->bytes; }

/* The log-probability of every component, and the mixture's weights over it. */
static int64_t avoided_mixture(const Node *n)  { return shape_count(in_shape(n, 0)) / 3 * 4 * 2; }

/* The gate after its activation. */
static int64_t avoided_gate(const Node *n)     { return value_at(n->graph, n->out[0])->bytes; }

static const struct {
    const OpDef *op;
    int64_t    (*bytes)(const Node *);
    const char  *what, *reason;
} avoided_rules[] = {
    { &op_attention, avoided_scores, "attention scores",
      "softmax(q k^T) is made tile by tile, forward and backward; one number a row is kept" },
    { &op_s4_kernel, avoided_cauchy, "Cauchy matrix",
      "the sums over poles are streamed over the frequencies; nothing of channels x poles x "
      "frequencies is stored" },
    { &op_groupnorm, avoided_before_act, "norm before its activation",
      "the gradient computes it again from the norm's input" },
    { &op_spade, avoided_normed, "normalised map of SPADE",
      "the gradient computes it again from the norm's input" },
    { &op_dml_loss, avoided_mixture, "mixture terms", "rows are done in blocks; the gradient "
                                                      "computes them again" },
    { &op_geglu, avoided_gate, "gate after its activation", "the gradient computes it again from "
                                                            "the input" },
};

static int avoided_order(const void *a, const void *b)
{
    const Avoided *x = a, *y = b;
    int64_t        all_x = x->bytes * x->count, all_y = y->bytes * y->count;
    return all_x != all_y ? (all_x < all_y ? 1 : -1) : strcmp(x->name, y->name);
}

static const char *avoided_where(const Graph *graph, const Node *node)
{
    const char *path = graph->modules[node->module].path;
    return *path ? path : node->op->name;
}

void avoided_find(Pool *pool, const Graph *graph, Avoided **list, int32_t *n)
{
    int32_t cap = 0;
    *list = NULL;
    *n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        for (size_t r = 0; r < sizeof avoided_rules / sizeof *avoided_rules; r++) {
            int64_t bytes =
                node->op == avoided_rules[r].op && node->phase == PHASE_MICRO && !node->backward
                    ? avoided_rules[r].bytes(node)
                    : 0;
            int32_t same = 0;
            if (!bytes)
                continue;
            while (same < *n && !((*list)[same].bytes == bytes &&
                                  (*list)[same].reason == avoided_rules[r].reason))
                same++;
            if (same < *n)
                (*list)[same].count++;
            else
                VEC_ADD(pool, *list, *n, cap, (Avoided){
                    avoided_rules[r].what, avoided_where(graph, node),
                    pool_print(pool, "%s of %s", avoided_rules[r].what, avoided_where(graph, node)),
                    avoided_rules[r].reason, bytes, 1 });
        }
    }
    if (*n)
        qsort(*list, (size_t)*n, sizeof **list, avoided_order);
}
