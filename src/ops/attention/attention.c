/* attention.c -- attention, attention_stored and their gradients: rules and builders. */
#include "ops/attention/attention.h"

#include "ops/operator.h"

#include <math.h>

int64_t attention_length(Shape s)
{
    return shape_count(s) / (dim(s, 0) * dim(s, -1));
}

static Err attention_check_slice(const Node *n, const AttentionAttr *a, AttentionSlice slice,
                                 const char *what)
{
    Shape   s = in_shape(n, slice.source);
    int64_t end = slice.column + (a->heads - 1) * slice.head_stride + a->width;
    if (slice.column < 0 || slice.head_stride < a->width || end > dim(s, -1))
        return fail(E_SHAPE, "%s: %s with %lld heads of %lld columns does not fit into %s",
                    n->op->name, what, (long long)a->heads, (long long)a->width, shape_text(s));
    return OK;
}

/* Every column of every source belongs to exactly one of q, k, v, so that gradients are
 * complete. */
static Err attention_check(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    const AttentionSlice slice[3] = { a->q, a->k, a->v };
    int64_t              used[3] = { 0 };
    if (a->heads < 1 || a->width < 1 || a->width > ATTENTION_MAX_WIDTH)
        return fail(E_SHAPE,
                    "%s: %lld heads of width %lld; both must be at least 1, the width at most %d",
                    n->op->name, (long long)a->heads, (long long)a->width, ATTENTION_MAX_WIDTH);
    for (int i = 0; i < 3; i++) {
        int source = slice[i].source;
        if (source < 0 || source > 2 || !in_given(n, source))
            return fail(E_SHAPE, "%s: input %d is missing", n->op->name, source);
        if (in_shape(n, source).rank < 3 || !type_is_float(in_type(n, source)))
            return fail(
                E_SHAPE, "%s: input %s of %s must be floats of shape (batch, sequence, channels)",
                n->op->name, shape_text(in_shape(n, source)), type_name(in_type(n, source)));
        if (in_type(n, source) != in_type(n, a->q.source))
            return fail(E_SHAPE, "%s: q is %s, k or v is %s", n->op->name,
                        type_name(in_type(n, a->q.source)), type_name(in_type(n, source)));
        TRY(attention_check_slice(n, a, slice[i], i == 0 ? "q" : i == 1 ? "k" : "v"));
        used[source] += a->heads * a->width;
    }
    for (int i = 0; i < 3; i++)
        if (in_given(n, i) && used[i] != dim(in_shape(n, i), -1))
            return fail(E_SHAPE,
                        "%s: q, k and v use %lld columns of %s; they must use all, each once",
                        n->op->name, (long long)used[i], shape_text(in_shape(n, i)));
    Shape q = in_shape(n, a->q.source), k = in_shape(n, a->k.source), v = in_shape(n, a->v.source);
    if (dim(k, 0) != dim(q, 0) || dim(v, 0) != dim(q, 0) ||
        attention_length(k) != attention_length(v))
        return fail(E_SHAPE, "%s: batch or length of q %s, k %s and v %s do not agree", n->op->name,
                    shape_text(q), shape_text(k), shape_text(v));
    if (a->mask_diagonal && (attention_length(q) != attention_length(k) || attention_length(q) < 2))
        return fail(E_SHAPE, "%s: a masked diagonal needs as many keys as queries, at least 2, "
                    "not %lld and %lld", n->op->name, (long long)attention_length(k),
                    (long long)attention_length(q));
    bool learned = in_given(n, ATTENTION_TEMPERATURE);
    if (learned && (shape_count(in_shape(n, ATTENTION_TEMPERATURE)) != 1 ||
                    !type_is_float(in_type(n, ATTENTION_TEMPERATURE))))
        return fail(E_SHAPE, "%s: the temperature must be one number, not %s", n->op->name,
                    shape_text(in_shape(n, ATTENTION_TEMPERATURE)));
    if (!learned && !(isfinite(a->scale) && a->scale != 0))
        return fail(E_SHAPE, "%s: the scale is %g; it must be finite and not 0", n->op->name,
                    (double)a->scale);
    return OK;
}

static Err attention_shape_with(Node *n, bool stored)
{
    TRY(attention_check(n));
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape   q = in_shape(n, a->q.source);
    int64_t lq = attention_length(q), lk = attention_length(in_shape(n, a->k.source));
    Type    type = in_type(n, a->q.source);
    for (int i = 0; i < 3; i++)
        if (in_given(n, i))
            in_class(n, i, CLASS_ATTENTION);
    out_set(n, 0, type, shape_with(q, -1, a->heads * a->width));
    if (stored)
        out_set(n, 1, type, SHAPE(dim(q, 0), a->heads, lq, lk));
    else
        out_set(n, 1, F32, SHAPE(dim(q, 0), a->heads, lq));
    out_class(n, 0, CLASS_ATTENTION);
    out_class(n, 1, CLASS_ATTENTION);
    return OK;
}

static Err attention_shape(Node *n)        { return attention_shape_with(n, false); }
static Err attention_stored_shape(Node *n) { return attention_shape_with(n, true); }

/* Operations of one matrix product over all scores: 2 B heads Lq Lk width. */
static double attention_flops(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape q = in_shape(n, a->q.source);
    return 2.0 * (double)(dim(q, 0) * a->heads * a->width) * (double)attention_length(q) *
           (double)attention_length(in_shape(n, a->k.source));
}

static Cost attention_cost(const Node *n)
{
    return (Cost){ .flops = 2 * attention_flops(n), .bytes = node_bytes(n) };
}

static Cost attention_grad_cost(const Node *n)
{
    return (Cost){ .flops = 5 * attention_flops(n), .bytes = node_bytes(n) };
}

static Cost attention_stored_grad_cost(const Node *n)
{
    return (Cost){ .flops = 6 * attention_flops(n), .bytes = node_bytes(n) };
}

/* Inputs: those of the forward operator, then what it kept, then dy. Outputs: one gradient per
 * forward input, packed like that input. */
static Err attention_grad_shape(Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    for (int i = 0; i < 3; i++)
        if (a->wants[i])
            out_set(n, i, in_type(n, i), in_shape(n, i));
    if (a->wants[ATTENTION_TEMPERATURE])
        out_set(n, ATTENTION_TEMPERATURE, F32, in_shape(n, ATTENTION_TEMPERATURE));
    return OK;
}

static void attention_grad_with(Grad *g, const OpDef *op)
{
    AttentionAttr attr = *ATTR(g->node, AttentionAttr);
    Tensor        in[ATTENTION_INPUTS + 3], d[ATTENTION_INPUTS];
    int           n_in = 0;
    if (tensor_ok(grad_dy(g, 1))) {
        graph_poison(g->graph, E_SHAPE, "%s: only its first output can be differentiated",
                     g->node->op->name);
        return;
    }
    for (int i = 0; i < ATTENTION_INPUTS; i++) {
        in[n_in++] = grad_in(g, i);
        attr.wants[i] = grad_wants(g, i);
    }
    if (op->n_in == ATTENTION_INPUTS + 3)        /* attention_stored's gradient does not read y */
        in[n_in++] = grad_out(g, 0);
    in[n_in++] = grad_out(g, 1);
    in[n_in++] = grad_dy(g, 0);
    node_add(g->graph, op, &attr, in, n_in, d);
    for (int i = 0; i < ATTENTION_INPUTS; i++)
        grad_give(g, i, d[i]);
}

static void attention_grad(Grad *g)        { attention_grad_with(g, &op_attention_grad); }
static void attention_stored_grad(Grad *g) { attention_grad_with(g, &op_attention_stored_grad); }

/* The scores of all heads, which a plain softmax(q k^T) v would store. */
static int64_t attention_scores_bytes(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape q = in_shape(n, a->q.source);
    return dim(q, 0) * a->heads * attention_length(q) * attention_length(in_shape(n, a->k.source)) *
           type_bytes(in_type(n, a->q.source));
}

OPERATOR(attention, .doc = "softmax(scale q k^T) v, tile by tile; also the log-sum-exp of each row",
         .never_stored = { "attention scores",
                           "softmax(q k^T) is computed tile by tile, forward and backward; "
                           "one number per row is kept",
                           attention_scores_bytes },
         .chunk = { CHUNK_SAMPLES, INPUT(0) | INPUT(1) | INPUT(2) },
         .attr_bytes = sizeof(AttentionAttr), .n_in = ATTENTION_INPUTS, .n_out = 2,
         .shape = attention_shape, .grad = attention_grad, .cost = attention_cost,
         .cpu = { .choose = attention_choose, .run = attention_cpu })

OPERATOR_INTERNAL(attention_grad,
    .doc = "gradients of attention; recomputes the scores tile by tile",
    .attr_bytes = sizeof(AttentionAttr), .n_in = ATTENTION_INPUTS + 3, .n_out = ATTENTION_INPUTS,
    .shape = attention_grad_shape, .cost = attention_grad_cost,
    .cpu = { .choose = attention_grad_choose, .run = attention_grad_cpu })

OPERATOR(attention_stored,
    .doc = "softmax(scale q k^T) v; also the probabilities",
    .chunk = { CHUNK_SAMPLES, INPUT(0) | INPUT(1) | INPUT(2) },
    .attr_bytes = sizeof(AttentionAttr), .n_in = ATTENTION_INPUTS, .n_out = 2,
    .shape = attention_stored_shape, .grad = attention_stored_grad, .cost = attention_cost,
    .kin = &op_attention,
    .cpu = { .choose = attention_stored_choose, .run = attention_stored_cpu })

OPERATOR_INTERNAL(attention_stored_grad,
    .doc = "gradients of attention from its stored probabilities",
    .attr_bytes = sizeof(AttentionAttr), .n_in = ATTENTION_INPUTS + 2, .n_out = ATTENTION_INPUTS,
    .shape = attention_grad_shape, .cost = attention_stored_grad_cost,
    .kin = &op_attention_grad,
    .cpu = { .choose = attention_stored_grad_choose, .run = attention_stored_grad_cpu })

/* The width of one head when n of q, k, v share the columns of t. Returns 0 and poisons the graph
 * if the columns do not divide; if t is poisoned already, the first cause is kept. */
static int64_t attention_width(Tensor t, int n, int heads)
{
    Shape s = tensor_shape(t);
    if (s.rank >= 3 && heads >= 1 && dim(s, -1) % ((int64_t)n * heads) == 0)
        return dim(s, -1) / (n * heads);
    graph_poison(t.graph, E_SHAPE, "attention: %s does not divide into %d heads of %s",
                 shape_text(s), heads,
                 n == 3 ? "q, k and v" : n == 2 ? "k and v" : "equal width");
    return 0;
}

/* The i-th of n slices that share one source. */
static AttentionSlice attention_slice(int source, int i, int n, const AttentionAttr *a,
                                      bool by_head)
{
    return by_head ? (AttentionSlice){ source, i * a->width, n * a->width }
                   : (AttentionSlice){ source, i * a->heads * a->width, a->width };
}

static Tensor attention_build(const Tensor source[3], AttentionAttr *a,
                              const AttentionOptions *options)
{
    Graph *graph = source[0].graph;
    Tensor in[ATTENTION_INPUTS] = { source[0], source[1], source[2], tensor_none(graph) };
    a->mask_diagonal = options->mask_diagonal;
    a->scale = options->scale != 0 ? options->scale : (float)(1 / sqrt((double)a->width));
    if (options->temperature.graph)
        in[ATTENTION_TEMPERATURE] = options->temperature;
    return node_add(graph,
                    options->stored || graph->build->stored_attention ? &op_attention_stored
                                                                      : &op_attention,
                    a, in, ATTENTION_INPUTS, NULL);
}

static const AttentionOptions attention_defaults;

Tensor attention_qkv(Tensor qkv, int heads, const AttentionOptions *options)
{
    options = options ? options : &attention_defaults;
    AttentionAttr a = { .heads = heads };
    Tensor        none = tensor_none(qkv.graph);
    a.width = attention_width(qkv, 3, heads);
    a.q = attention_slice(0, 0, 3, &a, options->by_head);
    a.k = attention_slice(0, 1, 3, &a, options->by_head);
    a.v = attention_slice(0, 2, 3, &a, options->by_head);
    return attention_build((const Tensor[3]){ qkv, none, none }, &a, options);
}

Tensor attention_q_kv(Tensor q, Tensor kv, int heads, const AttentionOptions *options)
{
    options = options ? options : &attention_defaults;
    AttentionAttr a = { .heads = heads };
    a.width = attention_width(kv, 2, heads) ? attention_width(q, 1, heads) : 0;
    a.q = attention_slice(0, 0, 1, &a, false);
    a.k = attention_slice(1, 0, 2, &a, options->by_head);
    a.v = attention_slice(1, 1, 2, &a, options->by_head);
    return attention_build((const Tensor[3]){ q, kv, tensor_none(q.graph) }, &a, options);
}

Tensor attention(Tensor q, Tensor k, Tensor v, int heads, const AttentionOptions *options)
{
    options = options ? options : &attention_defaults;
    AttentionAttr a = { .heads = heads };
    a.width = attention_width(q, 1, heads);
    a.q = attention_slice(0, 0, 1, &a, false);
    a.k = attention_slice(1, 0, 1, &a, false);
    a.v = attention_slice(2, 0, 1, &a, false);
    return attention_build((const Tensor[3]){ q, k, v }, &a, options);
}
