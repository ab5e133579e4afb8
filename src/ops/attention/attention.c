/* attention.c -- attention, attention_stored and their gradients: rules and builders. */
#include "ops/attention/attention.h"

#include "ops/operator.h"
#include "ops/optimizer/optim.h"
#include "ops/reduce/rows.h"

#include <math.h>

int64_t attention_length(Shape s) { return shape_count(s) / (dim(s, 0) * dim(s, -1)); }

/* Every gradient operator ends with y, the log-sum-exp or the probabilities, and dy; only that of
 * attention_stored does without y. */
int attention_kept(const Node *n) { return n->n_in - (n->op == &op_attention_stored_grad ? 2 : 3); }

/* In a gradient operator without bias and dropout, what was kept takes their places. */
bool attention_given(const Node *n, int input)
{
    bool forward = n->op == &op_attention || n->op == &op_attention_stored;
    return input < (forward ? n->n_in : attention_kept(n)) && in_given(n, input);
}

typedef struct AttentionPart { /* q, k or v */
    const char    *name;
    AttentionSlice slice;
    int64_t        heads, width;
} AttentionPart;

static Err attention_check_part(const Node *n, const AttentionPart *part)
{
    Shape   s = in_shape(n, part->slice.source);
    int64_t end = part->slice.column + (part->heads - 1) * part->slice.head_stride + part->width;
    if (part->slice.column < 0 || part->slice.head_stride < part->width || end > dim(s, -1))
        return fail(E_SHAPE, "%s: %s with %lld heads of %lld columns does not fit into %s",
                    n->op->name, part->name, (long long)part->heads, (long long)part->width,
                    shape_text(s));
    return OK;
}

/* Every column of every source belongs to exactly one of q, k, v, so that gradients are
 * complete. */
static Err attention_check_sources(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    const AttentionPart  part[3] = { { "q", a->q, a->heads, a->width },
                                     { "k", a->k, a->kv_heads, a->width },
                                     { "v", a->v, a->kv_heads, a->v_width } };
    int64_t              used[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        int source = part[i].slice.source;
        if (source < 0 || source > 2 || !in_given(n, source))
            return fail(E_SHAPE, "%s: input %d is missing", n->op->name, source);
        if (in_shape(n, source).rank < 3 || !type_is_float(in_type(n, source)))
            return fail(
                E_SHAPE, "%s: input %s of %s must be floats of shape (batch, sequence, channels)",
                n->op->name, shape_text(in_shape(n, source)), type_name(in_type(n, source)));
        if (in_type(n, source) != in_type(n, a->q.source))
            return fail(E_SHAPE, "%s: q is %s, k or v is %s", n->op->name,
                        type_name(in_type(n, a->q.source)), type_name(in_type(n, source)));
        TRY(attention_check_part(n, &part[i]));
        used[source] += part[i].heads * part[i].width;
    }
    for (int i = 0; i < 3; i++)
        if (in_given(n, i) && used[i] != dim(in_shape(n, i), -1))
            return fail(E_SHAPE,
                        "%s: q, k and v use %lld columns of %s; they must use all, each once",
                        n->op->name, (long long)used[i], shape_text(in_shape(n, i)));
    return OK;
}

static Err attention_check_bias(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    if (!attention_given(n, ATTENTION_BIAS))
        return OK;
    Shape   bias = in_shape(n, ATTENTION_BIAS), q = in_shape(n, a->q.source);
    Type    type = in_type(n, ATTENTION_BIAS);
    int64_t lk = attention_length(in_shape(n, a->k.source));
    int64_t full[4] = { dim(q, 0), a->heads, attention_length(q), lk };
    bool    fits = bias.rank == 4 && bias.dim[3] == lk;
    for (int i = 0; i < 3 && fits; i++)
        fits = bias.dim[i] == full[i] || bias.dim[i] == 1;
    if (!fits)
        return fail(E_SHAPE,
                    "%s: a bias of shape %s does not lie along the scores (%lld, %lld, %lld, "
                    "%lld); each of its first three axes may be 1",
                    n->op->name, shape_text(bias), (long long)full[0], (long long)full[1],
                    (long long)full[2], (long long)full[3]);
    if (type != F32 && type != in_type(n, a->q.source))
        return fail(E_SHAPE, "%s: a bias of %s must be fp32 or of the type of q, %s", n->op->name,
                    type_name(type), type_name(in_type(n, a->q.source)));
    return OK;
}

static Err attention_check_dropout(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    if (!(a->dropout >= 0 && a->dropout < 1))
        return fail(E_SHAPE, "%s: a dropout of %g is not in [0,1)", n->op->name,
                    (double)a->dropout);
    if (a->dropout > 0 &&
        (!attention_given(n, ATTENTION_COUNTERS) || in_type(n, ATTENTION_COUNTERS) != I32 ||
         shape_count(in_shape(n, ATTENTION_COUNTERS)) != COUNTER_WORDS))
        return fail(E_SHAPE, "%s: the step counters (%d i32) are missing", n->op->name,
                    COUNTER_WORDS);
    return OK;
}

static Err attention_check(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    if (a->heads < 1 || a->width < 1 || a->width > ATTENTION_MAX_WIDTH || a->v_width < 1 ||
        a->v_width > ATTENTION_MAX_WIDTH)
        return fail(E_SHAPE,
                    "%s: %lld heads of width %lld, values of width %lld; all must be at least 1, "
                    "the widths at most %d",
                    n->op->name, (long long)a->heads, (long long)a->width, (long long)a->v_width,
                    ATTENTION_MAX_WIDTH);
    if (a->kv_heads < 1 || a->heads % a->kv_heads)
        return fail(E_SHAPE, "%s: %lld heads cannot share %lld heads of keys; give a divisor",
                    n->op->name, (long long)a->heads, (long long)a->kv_heads);
    TRY(attention_check_sources(n));
    Shape q = in_shape(n, a->q.source), k = in_shape(n, a->k.source), v = in_shape(n, a->v.source);
    if (dim(k, 0) != dim(q, 0) || dim(v, 0) != dim(q, 0) ||
        attention_length(k) != attention_length(v))
        return fail(E_SHAPE, "%s: batch or length of q %s, k %s and v %s do not agree", n->op->name,
                    shape_text(q), shape_text(k), shape_text(v));
    if (a->mask_diagonal && (attention_length(q) != attention_length(k) || attention_length(q) < 2))
        return fail(E_SHAPE,
                    "%s: a masked diagonal needs as many keys as queries, at least 2, "
                    "not %lld and %lld",
                    n->op->name, (long long)attention_length(k), (long long)attention_length(q));
    bool learned = in_given(n, ATTENTION_TEMPERATURE);
    if (learned && (shape_count(in_shape(n, ATTENTION_TEMPERATURE)) != 1 ||
                    !type_is_float(in_type(n, ATTENTION_TEMPERATURE))))
        return fail(E_SHAPE, "%s: the temperature must be one number, not %s", n->op->name,
                    shape_text(in_shape(n, ATTENTION_TEMPERATURE)));
    if (!learned && !(isfinite(a->scale) && a->scale != 0))
        return fail(E_SHAPE, "%s: the scale is %g; it must be finite and not 0", n->op->name,
                    (double)a->scale);
    TRY(attention_check_bias(n));
    return attention_check_dropout(n);
}

static Err attention_shape_with(Node *n, bool stored)
{
    TRY(attention_check(n));
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, a->q.source);
    int64_t              lq = attention_length(q), lk = attention_length(in_shape(n, a->k.source));
    Type                 type = in_type(n, a->q.source);
    for (int i = 0; i < 3; i++)
        if (in_given(n, i))
            in_class(n, i, CLASS_ATTENTION);
    out_set(n, 0, type, shape_with(q, -1, a->heads * a->v_width));
    if (stored)
        out_set(n, 1, type, SHAPE(dim(q, 0), a->heads, lq, lk));
    else
        out_set(n, 1, F32, SHAPE(dim(q, 0), a->heads, lq));
    out_class(n, 0, CLASS_ATTENTION);
    out_class(n, 1, CLASS_ATTENTION);
    return OK;
}

/* clang-format off */
static Err attention_shape(Node *n)        { return attention_shape_with(n, false); }
static Err attention_stored_shape(Node *n) { return attention_shape_with(n, true); }
/* clang-format on */

/* The scores that are not masked by position, of one head. */
static double attention_pairs(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    double               lq = (double)attention_length(in_shape(n, a->q.source));
    double               lk = (double)attention_length(in_shape(n, a->k.source));
    if (!a->causal)
        return lq * lk;
    double rows = lq < lk ? lq : lk; /* the first rows see 1, 2, 3, ... keys */
    return rows * (rows + 1) / 2 + (lq - rows) * lk;
}

/* Operations of one matrix product over all scores: 2 B heads Lq Lk width, of the mean width. */
static double attention_flops(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    int64_t              rows = dim(in_shape(n, a->q.source), 0) * a->heads;
    return (double)(rows * (a->width + a->v_width)) * attention_pairs(n);
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

static Cost attention_bias_grad_cost(const Node *n)
{
    return (Cost){ .flops = 2 * attention_flops(n), .bytes = node_bytes(n) };
}

/* Inputs: those of the forward operator, then what it kept, then dy. Outputs: one gradient per
 * plain forward input, packed like that input. */
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

static Err attention_bias_grad_shape(Node *n)
{
    out_set(n, 0, ATTR(n, AttentionAttr)->bias_type, in_shape(n, ATTENTION_BIAS));
    return OK;
}

static void attention_grad_with(Grad *g, const OpDef *op)
{
    AttentionAttr attr = *ATTR(g->node, AttentionAttr);
    Tensor        in[ATTENTION_INPUTS + 3], d[ATTENTION_PLAIN_INPUTS];
    int           n_in = 0, n_forward = g->node->n_in;
    bool          any = false;
    if (tensor_ok(grad_dy(g, 1))) {
        graph_poison(g->graph, E_SHAPE, "%s: only its first output can be differentiated",
                     g->node->op->name);
        return;
    }
    for (int i = 0; i < n_forward; i++)
        in[n_in++] = grad_in(g, i);
    for (int i = 0; i < ATTENTION_PLAIN_INPUTS; i++) {
        attr.wants[i] = grad_wants(g, i);
        any |= attr.wants[i];
    }
    in[n_in++] = grad_out(g, 0);
    in[n_in++] = grad_out(g, 1);
    in[n_in++] = grad_dy(g, 0);
    if (n_forward > ATTENTION_BIAS && grad_wants(g, ATTENTION_BIAS)) {
        attr.bias_type = rows_grad_type(grad_in(g, ATTENTION_BIAS));
        grad_give(g, ATTENTION_BIAS,
                  node_add(g->graph, &op_attention_bias_grad, &attr, in, n_in, NULL));
    }
    if (!any)
        return;
    if (op == &op_attention_stored_grad) { /* does not read y */
        in[n_forward] = in[n_forward + 1];
        in[n_forward + 1] = in[n_forward + 2];
        n_in--;
    }
    node_add(g->graph, op, &attr, in, n_in, d);
    for (int i = 0; i < ATTENTION_PLAIN_INPUTS; i++)
        grad_give(g, i, d[i]);
}

static void attention_grad(Grad *g) { attention_grad_with(g, &op_attention_grad); }
static void attention_stored_grad(Grad *g) { attention_grad_with(g, &op_attention_stored_grad); }

/* The scores of all heads, which a plain softmax(q k^T) v would store. */
static int64_t attention_scores_bytes(const Node *n)
{
    const AttentionAttr *a = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, a->q.source);
    return dim(q, 0) * a->heads * attention_length(q) * attention_length(in_shape(n, a->k.source)) *
           type_bytes(in_type(n, a->q.source));
}

/* A bias of its own for every sample is sliced along. Dropout numbers its elements across the
 * samples of a step, and a chunk does not know its place. */
static bool attention_chunk(const ChunkCall *c)
{
    if (ATTR(c->node, AttentionAttr)->dropout > 0)
        return false;
    if (!attention_given(c->node, ATTENTION_BIAS) || in_shape(c->node, ATTENTION_BIAS).dim[0] == 1)
        return true;
    *c->inputs |= INPUT(ATTENTION_BIAS);
    return chunk_divides(in_shape(c->node, ATTENTION_BIAS), c->n);
}

OPERATOR(attention,
         .doc = "softmax(scale q k^T + bias) v, tile by tile; also the log-sum-exp of each row",
         .never_stored = { "attention scores",
                           "softmax(q k^T) is computed tile by tile, forward and backward; "
                           "one number per row is kept",
                           attention_scores_bytes },
         .chunk = { CHUNK_SAMPLES, INPUT(0) | INPUT(1) | INPUT(2), attention_chunk },
         .algorithm = "tiles", .attr_bytes = sizeof(AttentionAttr), .n_in = -ATTENTION_PLAIN_INPUTS,
         .n_out = 2, .shape = attention_shape, .grad = attention_grad, .cost = attention_cost,
         .cpu = { .choose = attention_choose, .run = attention_cpu })

OPERATOR_INTERNAL(attention_grad,
                  .doc = "gradients of attention; recomputes the scores tile by tile",
                  .algorithm = "tiles", .attr_bytes = sizeof(AttentionAttr),
                  .n_in = -(ATTENTION_PLAIN_INPUTS + 3), .n_out = ATTENTION_PLAIN_INPUTS,
                  .shape = attention_grad_shape, .cost = attention_grad_cost,
                  .cpu = { .choose = attention_grad_choose, .run = attention_grad_cpu })

OPERATOR_INTERNAL(attention_bias_grad,
                  .doc = "gradient of the bias of attention, summed over the axes it was repeated "
                         "along",
                  .attr_bytes = sizeof(AttentionAttr), .n_in = ATTENTION_INPUTS + 3, .n_out = 1,
                  .shape = attention_bias_grad_shape, .cost = attention_bias_grad_cost,
                  .cpu = { .choose = attention_bias_grad_choose, .run = attention_bias_grad_cpu })

OPERATOR(attention_stored, .doc = "softmax(scale q k^T + bias) v; also the probabilities",
         .chunk = { CHUNK_SAMPLES, INPUT(0) | INPUT(1) | INPUT(2), attention_chunk },
         .algorithm = "stored scores", .attr_bytes = sizeof(AttentionAttr),
         .n_in = -ATTENTION_PLAIN_INPUTS, .n_out = 2, .shape = attention_stored_shape,
         .grad = attention_stored_grad, .cost = attention_cost, .kin = &op_attention,
         .cpu = { .choose = attention_stored_choose, .run = attention_stored_cpu })

OPERATOR_INTERNAL(
    attention_stored_grad, .doc = "gradients of attention from its stored probabilities",
    .algorithm = "stored scores", .attr_bytes = sizeof(AttentionAttr),
    .n_in = -(ATTENTION_PLAIN_INPUTS + 2), .n_out = ATTENTION_PLAIN_INPUTS,
    .shape = attention_grad_shape, .cost = attention_stored_grad_cost, .kin = &op_attention_grad,
    .cpu = { .choose = attention_stored_grad_choose, .run = attention_stored_grad_cpu })

/* ---- builders ---- */

static const AttentionOptions attention_defaults;

static AttentionAttr attention_begin(int heads, const AttentionOptions *options)
{
    return (AttentionAttr){ .heads = heads,
                            .kv_heads = options->kv_heads ? options->kv_heads : heads,
                            .v_width = options->v_width };
}

/* The width of one head of q and k, if a tensor holds q_heads of them and v_heads of values, which
 * are as wide unless v_width is given. Returns 0 and poisons the graph if the columns do not
 * divide; if t is poisoned already, the first cause is kept. */
static int64_t attention_width(Tensor t, int64_t heads, int64_t v_heads, const AttentionAttr *a)
{
    Shape   s = tensor_shape(t);
    int64_t columns = s.rank >= 3 ? dim(s, -1) : 0, total = heads;
    if (a->v_width > 0)
        columns -= v_heads * a->v_width;
    else
        total += v_heads;
    if (a->heads >= 1 && heads >= 1 && v_heads >= 0 && columns >= 1 && columns % total == 0)
        return columns / total;
    graph_poison(t.graph, E_SHAPE, "attention: %s does not divide into %lld heads of %s",
                 shape_text(s), (long long)a->heads,
                 heads > a->kv_heads && v_heads ? "q, k and v"
                 : v_heads                      ? "k and v"
                                                : "equal width");
    return 0;
}

/* [q|k|v][head][width], from a column on; the next column. */
static int64_t attention_place(AttentionSlice *slice, int source, int64_t column, int64_t heads,
                               int64_t width)
{
    *slice = (AttentionSlice){ source, column, width };
    return column + heads * width;
}

/* [head][...]: a slice in the columns of one head. */
static AttentionSlice attention_in_head(int source, int64_t column, int64_t columns)
{
    return (AttentionSlice){ source, column, columns };
}

static Tensor attention_build(const Tensor source[3], AttentionAttr *a,
                              const AttentionOptions *options)
{
    Graph *graph = source[0].graph;
    Tensor none = tensor_none(graph);
    Tensor in[ATTENTION_INPUTS] = { source[0], source[1], source[2], none, none, none };
    bool   more = options->bias.graph || options->dropout != 0;
    a->mask_diagonal = options->mask_diagonal;
    a->causal = options->causal;
    a->scale = options->scale != 0 ? options->scale : (float)(1 / sqrt((double)a->width));
    a->dropout = options->dropout;
    a->stream = options->stream;
    if (options->temperature.graph)
        in[ATTENTION_TEMPERATURE] = options->temperature;
    if (options->bias.graph)
        in[ATTENTION_BIAS] = options->bias;
    if (options->dropout != 0)
        in[ATTENTION_COUNTERS] = options->counters.graph ? options->counters
                                                         : graph_counters(graph);
    return node_add(graph,
                    options->stored || graph->build->stored_attention ? &op_attention_stored
                                                                      : &op_attention,
                    a, in, more ? ATTENTION_INPUTS : ATTENTION_PLAIN_INPUTS, NULL);
}

/* A tensor by head has as many heads of keys as of queries. */
static bool attention_refuse_by_head(Graph *graph, const AttentionAttr *a,
                                     const AttentionOptions *options)
{
    if (!options->by_head || a->kv_heads == a->heads)
        return false;
    graph_poison(graph, E_SHAPE,
                 "attention: q, k and v packed by head need as many heads of keys as of queries, "
                 "not %lld and %lld",
                 (long long)a->kv_heads, (long long)a->heads);
    return true;
}

Tensor attention_qkv(Tensor qkv, int heads, const AttentionOptions *options)
{
    options = options ? options : &attention_defaults;
    AttentionAttr a = attention_begin(heads, options);
    Tensor        none = tensor_none(qkv.graph);
    a.width = attention_width(qkv, a.heads + a.kv_heads, a.kv_heads, &a);
    a.v_width = a.v_width ? a.v_width : a.width;
    if (attention_refuse_by_head(qkv.graph, &a, options))
        return (Tensor){ qkv.graph, TENSOR_POISONED };
    if (options->by_head) {
        int64_t columns = 2 * a.width + a.v_width;
        a.q = attention_in_head(0, 0, columns);
        a.k = attention_in_head(0, a.width, columns);
        a.v = attention_in_head(0, 2 * a.width, columns);
    } else {
        int64_t at = attention_place(&a.q, 0, 0, a.heads, a.width);
        at = attention_place(&a.k, 0, at, a.kv_heads, a.width);
        attention_place(&a.v, 0, at, a.kv_heads, a.v_width);
    }
    return attention_build((const Tensor[3]){ qkv, none, none }, &a, options);
}

Tensor attention_q_kv(Tensor q, Tensor kv, int heads, const AttentionOptions *options)
{
    options = options ? options : &attention_defaults;
    AttentionAttr a = attention_begin(heads, options);
    a.width = attention_width(kv, a.kv_heads, a.kv_heads, &a) ? attention_width(q, a.heads, 0, &a)
                                                              : 0;
    a.v_width = a.v_width ? a.v_width : a.width;
    attention_place(&a.q, 0, 0, a.heads, a.width);
    if (options->by_head) {
        a.k = attention_in_head(1, 0, a.width + a.v_width);
        a.v = attention_in_head(1, a.width, a.width + a.v_width);
    } else {
        int64_t at = attention_place(&a.k, 1, 0, a.kv_heads, a.width);
        attention_place(&a.v, 1, at, a.kv_heads, a.v_width);
    }
    return attention_build((const Tensor[3]){ q, kv, tensor_none(q.graph) }, &a, options);
}

Tensor attention(Tensor q, Tensor k, Tensor v, int heads, const AttentionOptions *options)
{
    options = options ? options : &attention_defaults;
    AttentionAttr a = attention_begin(heads, options);
    a.width = attention_width(q, a.heads, 0, &a);
    a.v_width = a.v_width ? a.v_width : a.width;
    attention_place(&a.q, 0, 0, a.heads, a.width);
    attention_place(&a.k, 1, 0, a.kv_heads, a.width);
    attention_place(&a.v, 2, 0, a.kv_heads, a.v_width);
    return attention_build((const Tensor[3]){ q, k, v }, &a, options);
}
