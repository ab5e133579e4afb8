/* split_proof.c -- walks the graphs of two batch sizes, node by node, towards the loss. */
#include "import/split_proof.h"

#include "ir/chunk_rule.h"
#include "ops/arrange/strided.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/unary.h"
#include "ops/loss/loss.h"
#include "ops/ops.h"
#include "ops/pointwise/pointwise.h"

#include <math.h>

#include <string.h>

typedef enum FactKind { FACT_UNKNOWN, FACT_WHOLE, FACT_EACH, FACT_LINEAR, FACT_COUNT } FactKind;

typedef struct Fact {
    FactKind kind;
    int      power; /* of the batch size: WHOLE, as a factor; LINEAR, that of the sum */
    bool     input; /* follows from inputs and constants alone */
} Fact;

typedef struct SplitWalk {
    Pool        *pool;
    SplitSide    side[2];
    Fact        *facts; /* per value */
    const void **data;  /* per value and side: contents of a constant, or NULL */
    const Node  *at;    /* of side 0 */
    const char  *why;
    SplitCount  *counts;
    int32_t      n_counts, cap_counts;
} SplitWalk;

static const Fact whole = { FACT_WHOLE, 0, false };

/* Always false: what a rule returns when it cannot go on. */
static bool stuck(SplitWalk *w, const char *what)
{
    const Node *n = w->at;
    if (!w->why)
        w->why = n->source.file ? pool_print(w->pool, "%s at %s:%d %s", n->op->name, n->source.file,
                                             n->source.line, what)
                                : pool_print(w->pool, "%s %s", n->op->name, what);
    return false;
}

static Shape shape_at(const SplitWalk *w, int side, int32_t value)
{
    return value_at(w->side[side].graph, value)->shape;
}

static bool same_shape(const SplitWalk *w, int32_t value)
{
    return shape_same(shape_at(w, 0, value), shape_at(w, 1, value));
}

/* Do the shapes differ in the number of samples alone, which the first axis longer than one counts? */
static bool sample_shape(const SplitWalk *w, int32_t value)
{
    Shape one[2];
    for (int s = 0; s < 2; s++) {
        Shape x = shape_at(w, s, value);
        if (!chunk_divides(x, w->side[s].batch))
            return false;
        one[s] = chunk_shape(x, w->side[s].batch);
    }
    return shape_same(one[0], one[1]);
}

/* The power p with b = a (batch 1 / batch 0)^p. */
static bool power_of(const SplitWalk *w, double a, double b, int *power)
{
    double ratio = (double)w->side[1].batch / (double)w->side[0].batch;
    for (*power = -2; *power <= 2; ++*power)
        if (fabs(b - a * pow(ratio, *power)) <= 1e-6 * fabs(b) && (a != 0 || !*power))
            return true;
    return false;
}

/* ---- values without a producer ---- */

static void note_constants(SplitWalk *w)
{
    for (int s = 0; s < 2; s++) {
        const Graph *g = w->side[s].graph;
        for (int32_t i = 0; i < g->n_constants; i++)
            w->data[2 * g->constants[i].value + s] = g->constants[i].data;
    }
}

/* A constant's name is made of its contents: other names are other numbers. */
static Fact persistent_fact(const SplitWalk *w, int32_t value)
{
    const Value *a = value_at(w->side[0].graph, value), *b = value_at(w->side[1].graph, value);
    const float *x = w->data[2 * value], *y = w->data[2 * value + 1];
    Fact         fact = whole;
    if (a->type != b->type || !same_shape(w, value))
        return (Fact){ 0 };
    fact.input = !param_of(w->side[0].graph, value);
    if (a->name && b->name && !strcmp(a->name, b->name))
        return fact;
    bool number = shape_count(a->shape) == 1 && a->type == F32 && x && y;
    return number && power_of(w, (double)*x, (double)*y, &fact.power) ? fact : (Fact){ 0 };
}

static bool inputs_only(const SplitWalk *w)
{
    for (int i = 0; i < w->at->n_in; i++)
        if (w->at->in[i] >= 0 && !w->facts[w->at->in[i]].input)
            return false;
    return true;
}

/* ---- programs of pointwise nodes ---- */

static const PointwiseAttr *program_at(const SplitWalk *w, int side)
{
    return ATTR(&w->side[side].graph->nodes[w->at->id], PointwiseAttr);
}

/* Steps and results; sizes and scales may differ. */
static bool same_steps(const PointwiseAttr *p, const PointwiseAttr *q)
{
    if (p->n_in != q->n_in || p->n_steps != q->n_steps || p->n_results != q->n_results)
        return false;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *a = &p->step[i], *b = &q->step[i];
        if (a->op != b->op || a->integer != b->integer || a->a != b->a || a->b != b->b ||
            a->c != b->c)
            return false;
    }
    for (int i = 0; i < p->n_results; i++)
        if (p->result[i].step != q->result[i].step || p->result[i].reduce != q->result[i].reduce ||
            p->result[i].type != q->result[i].type)
            return false;
    return true;
}

static bool same_numbers(const PointwiseAttr *p, const PointwiseAttr *q)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].op == POINT_CONSTANT && p->step[i].value.i != q->step[i].value.i)
            return false;
    return true;
}

static bool same_scales(const PointwiseAttr *p, const PointwiseAttr *q)
{
    for (int i = 0; i < p->n_results; i++)
        if (p->result[i].scale != q->result[i].scale)
            return false;
    return true;
}

/* One sample's program, as the chunk rule gives it. */
static bool same_chunk(const PointwiseAttr *p, const PointwiseAttr *q)
{
    bool same = p->rank == q->rank && same_steps(p, q) && same_numbers(p, q) && same_scales(p, q) &&
                !memcmp(p->dim, q->dim, sizeof p->dim);
    for (int i = 0; same && i < p->n_in; i++)
        same = !memcmp(p->stride[i], q->stride[i], sizeof p->stride[i]);
    for (int i = 0; same && i < p->n_results; i++)
        same = p->result[i].axes == q->result[i].axes &&
               shape_same(p->result[i].shape, q->result[i].shape);
    return same;
}

/* The sum over all samples of what is computed for each: the space's first axis longer than one
 * counts them, and is summed over. */
static bool sums_samples(SplitWalk *w, int side)
{
    const PointwiseAttr *p = program_at(w, side);
    const Node          *n = &w->side[side].graph->nodes[w->at->id];
    int                  axis = 0;
    while (axis < p->rank && p->dim[axis] == 1)
        axis++;
    if (axis == p->rank || p->dim[axis] % w->side[side].batch || p->n_results != 1)
        return false;
    for (int i = 0; i < p->n_in; i++) {
        int64_t stride = p->stride[i][axis];
        if (w->facts[n->in[i]].kind != FACT_EACH) {
            if (stride)
                return false;
        } else if (stride * p->dim[axis] != shape_count(in_shape(n, i))) {
            return false; /* not outermost */
        }
    }
    return p->result[0].reduce == POINT_SUM && p->result[0].axes >> axis & 1;
}

static bool pointwise_sum(SplitWalk *w, Fact *out)
{
    const PointwiseAttr *p = program_at(w, 0), *q = program_at(w, 1);
    if (!sums_samples(w, 0) || !sums_samples(w, 1))
        return stuck(w, "combines samples otherwise than by a sum");
    if (!same_steps(p, q) || !same_numbers(p, q) ||
        !power_of(w, (double)p->result[0].scale, (double)q->result[0].scale, &out->power))
        return stuck(w, "has numbers that depend on the batch size");
    out->kind = FACT_LINEAR;
    out->input = inputs_only(w);
    return true;
}

/* a + b: two sums of the same power; or a mean and a number, which is a mean too: its share of every
 * slice is the same. */
static bool add_facts(Fact a, Fact b, Fact *out)
{
    bool swap = a.kind == FACT_WHOLE;
    bool input = a.input && b.input;
    *out = swap ? b : a;
    out->input = input;
    return a.kind == b.kind ? a.power == b.power : (swap ? a : b).power == out->power + 1;
}

/* sum / count: the count is that of the whole micro-batch, before its split. For a sum over samples
 * it is divided by the number of slices, which makes the quotient a mean. */
static bool divide_by_count(SplitWalk *w, const PointwiseAttr *p, int step, Fact sum, Fact *out)
{
    while (p->step[step].op == POINT_TO_F32)
        step = p->step[step].a;
    if (p->step[step].op != POINT_INPUT || sum.kind != FACT_LINEAR || sum.power < -1 ||
        sum.power > 0)
        return false;
    SplitCount count = { w->at->in[p->step[step].a], sum.power == 0 };
    for (int32_t i = 0; i < w->n_counts; i++)
        if (w->counts[i].value == count.value && w->counts[i].shared != count.shared)
            return false;
    VEC_ADD(w->pool, w->counts, w->n_counts, w->cap_counts, count);
    *out = (Fact){ FACT_LINEAR, -1, false };
    return true;
}

static bool point_linear(SplitWalk *w, const PointwiseAttr *p, int i, const Fact f[3], Fact *out)
{
    const PointStep *s = &p->step[i];
    switch ((PointOp)s->op) {
    case POINT_ADD:
    case POINT_SUB: return add_facts(f[0], f[1], out);
    case POINT_MUL:
        *out = (Fact){ f[0].kind == FACT_LINEAR || f[1].kind == FACT_LINEAR ? FACT_LINEAR
                                                                            : FACT_WHOLE,
                       f[0].power + f[1].power, f[0].input && f[1].input };
        return f[0].kind == FACT_WHOLE || f[1].kind == FACT_WHOLE;
    case POINT_DIV:
        *out = (Fact){ f[0].kind, f[0].power - f[1].power, f[0].input && f[1].input };
        return f[1].kind == FACT_WHOLE || (f[1].input && divide_by_count(w, p, s->b, f[0], out));
    case POINT_NEG:
    case POINT_TO_F32:
    case POINT_ROUND_BF16:
    case POINT_ROUND_F16:
    case POINT_DETACH: *out = f[0]; return true;
    case POINT_SELECT:
        *out = f[1];
        out->input = f[0].input && f[1].input && f[2].input;
        return f[0].kind == FACT_WHOLE && !f[0].power && f[1].kind == f[2].kind &&
               f[1].power == f[2].power;
    default: return false;
    }
}

static bool point_fact(SplitWalk *w, const PointwiseAttr *p, const PointStep *t, int step,
                       const Fact *facts, Fact *out)
{
    const PointStep *s = &p->step[step];
    int              at[] = { s->a, s->b, s->c }, n = point_op_operands(s->op);
    bool plain = true, input = true, count = false; /* plain: does not depend on the batch size */
    Fact f[3] = { 0 };
    if (s->op == POINT_INPUT) {
        *out = w->facts[w->at->in[s->a]];
        return out->kind != FACT_UNKNOWN && out->kind != FACT_EACH;
    }
    *out = (Fact){ FACT_WHOLE, 0, true };
    if (s->op == POINT_CONSTANT)
        return power_of(w, s->integer ? (double)s->value.i : (double)s->value.f,
                        t->integer ? (double)t->value.i : (double)t->value.f, &out->power);
    for (int i = 0; i < n; i++) {
        f[i] = facts[at[i]];
        plain &= f[i].kind == FACT_WHOLE && !f[i].power;
        input &= f[i].input;
        count |= f[i].kind == FACT_COUNT;
    }
    out->input = input;
    if (plain)
        return true;
    bool divides = s->op == POINT_DIV && !input;
    if ((!count || divides) && point_linear(w, p, step, f, out))
        return true;
    /* Any function of what the inputs alone give is known before the first slice. */
    *out = (Fact){ FACT_COUNT, 0, true };
    return input;
}

/* Of sums and numbers alone: what is linear in the sums. */
static bool pointwise_linear(SplitWalk *w, Fact *out)
{
    const PointwiseAttr *p = program_at(w, 0), *q = program_at(w, 1);
    Fact                 facts[POINT_STEPS_MAX];
    int                  power = 0;
    if (!same_steps(p, q) || p->n_results != 1 || p->result[0].reduce > POINT_SUM)
        return stuck(w, "is not linear in a sum over samples");
    for (int i = 0; i < p->n_steps; i++)
        if (!point_fact(w, p, &q->step[i], i, facts, &facts[i]))
            return stuck(w, p->step[i].op == POINT_DIV
                                ? "divides by a sum over samples"
                                : "computes with a sum over samples what is not linear in it");
    *out = facts[p->result[0].step];
    if (out->kind == FACT_COUNT)
        return true;
    if (!power_of(w, (double)p->result[0].scale, (double)q->result[0].scale, &power))
        return stuck(w, "has numbers that depend on the batch size");
    out->power += power;
    return true;
}

/* ---- nodes ---- */

static bool any_fact(const SplitWalk *w, FactKind kind)
{
    for (int i = 0; i < w->at->n_in; i++)
        if (w->at->in[i] >= 0 && w->facts[w->at->in[i]].kind == kind)
            return true;
    return false;
}

static bool give_fact(SplitWalk *w, Fact fact)
{
    for (int i = 0; i < w->at->n_out; i++)
        if (w->at->out[i] >= 0 &&
            value_at(w->side[0].graph, w->at->out[i])->producer == w->at->id) {
            w->facts[w->at->out[i]] = fact;
            if (fact.kind == FACT_EACH ? !sample_shape(w, w->at->out[i])
                                       : !same_shape(w, w->at->out[i]))
                return stuck(w, "gives a tensor whose first axis does not count the samples");
        }
    return true;
}

/* Calls that only arrange elements are given sizes, which may well depend on the batch. */
static bool arranges(const OpDef *op)
{
    return op == &op_reshape || op == &op_strided || op == &op_permute || op == &op_slice ||
           op == &op_split || op == &op_concat || op == &op_shift;
}

/* Their attributes are int64_t and Shape; an int is followed by padding, whose content is by
 * chance. */
static bool same_sizes(const char *a, const char *b, int n)
{
    for (int i = 0; i < n; i += 8)
        if (memcmp(a + i, b + i, 4))
            return false;
    return true;
}

/* An attribute follows from the operands' shapes, which are compared, and from the call's numbers. */
static bool same_attr(const SplitWalk *w, const void *a, const void *b)
{
    const OpDef *op = w->at->op;
    int32_t      i = w->at->id;
    if (op == &op_pointwise)
        return same_chunk(a, b);
    if (arranges(op))
        return same_sizes(a, b, op->attr_bytes);
    return (i < w->side[0].n_numbers ? w->side[0].numbers[i] : 0) ==
           (i < w->side[1].n_numbers ? w->side[1].numbers[i] : 0);
}

/* Elements of random tensors are numbered across the slices of a micro-batch. */
static bool random_node(SplitWalk *w)
{
    const Node *n = w->at;
    bool        made = n->op->makes_batch;
    if (!made && w->facts[n->in[0]].kind != FACT_EACH)
        return stuck(w, "drops numbers that all samples share");
    if (made && !sample_shape(w, n->out[0]))
        return stuck(w, "draws numbers that all samples share");
    return give_fact(w, (Fact){ FACT_EACH, 0, false });
}

static bool feed_node(SplitWalk *w)
{
    const FeedAttr *feed = ATTR(w->at, FeedAttr);
    return give_fact(w, (Fact){ feed->whole ? FACT_WHOLE : FACT_EACH, 0, true });
}

/* The rule of a node for single samples. Dropout of attention numbers its elements as a whole
 * tensor's dropout does, so that it does not stand in the way here. */
static bool sample_rule(SplitWalk *w, int side, ChunkRule *rule)
{
    Node          n = w->side[side].graph->nodes[w->at->id];
    AttentionAttr attention;
    if (n.op == &op_attention || n.op == &op_attention_stored) {
        attention = *ATTR(&n, AttentionAttr);
        attention.dropout = 0;
        n.attr = &attention;
    }
    return chunk_rule(w->pool, &n, w->side[side].batch, false, rule);
}

static bool each_node(SplitWalk *w)
{
    ChunkRule rule[2] = { 0 };
    for (int s = 0; s < 2; s++)
        if (!sample_rule(w, s, &rule[s]))
            return stuck(w, "may combine samples");
    if (rule[0].inputs != rule[1].inputs ||
        (w->at->op->attr_bytes && !same_attr(w, rule[0].attr, rule[1].attr)))
        return stuck(w, "has sizes or numbers that depend on the batch size");
    for (int i = 0; i < w->at->n_in; i++) {
        bool sliced = rule[0].inputs >> i & 1;
        Fact fact = w->at->in[i] >= 0 ? w->facts[w->at->in[i]] : whole;
        if (sliced && fact.kind == FACT_WHOLE)
            return stuck(w, "reads a constant that differs among the samples");
        if (!sliced && (fact.kind != FACT_WHOLE || fact.power))
            return stuck(w, "reads other samples");
    }
    bool sums = rule[0].sums;
    return give_fact(w, (Fact){ sums ? FACT_LINEAR : FACT_EACH, sums ? -1 : 0, inputs_only(w) });
}

/* Targets that do not count are taken care of when the graph is built (lower_target_count). */
static bool entropy_node(SplitWalk *w)
{
    if (w->facts[w->at->in[0]].kind != FACT_EACH || w->facts[w->at->in[1]].kind != FACT_EACH)
        return stuck(w, "compares samples with something that all samples share");
    w->facts[w->at->out[0]] = (Fact){ FACT_LINEAR, -1, false };
    return true;
}

/* A sum over targets, divided by a number that all share. */
static bool mixture_node(SplitWalk *w)
{
    Fact count = w->at->in[2] >= 0 ? w->facts[w->at->in[2]] : (Fact){ FACT_UNKNOWN, 0, false };
    if (w->facts[w->at->in[0]].kind != FACT_EACH || w->facts[w->at->in[1]].kind != FACT_EACH ||
        count.kind != FACT_WHOLE || count.power)
        return stuck(w, "compares samples with something that all samples share");
    w->facts[w->at->out[0]] = (Fact){ FACT_LINEAR, 0, false };
    return true;
}

/* Numbers that all samples share, repeated for each: the leading axis counts samples, and nothing is
 * read along it. */
static bool spread_view(const SplitWalk *w)
{
    StridedAttr at[2];
    for (int s = 0; s < 2; s++) {
        at[s] = *ATTR(&w->side[s].graph->nodes[w->at->id], StridedAttr);
        if (at[s].rank < 1 || at[s].stride[0] || at[s].dim[0] % w->side[s].batch ||
            !chunk_divides(at[s].shape, w->side[s].batch))
            return false;
        at[s].dim[0] /= w->side[s].batch;
        at[s].shape = chunk_shape(at[s].shape, w->side[s].batch);
    }
    return same_sizes((const char *)&at[0], (const char *)&at[1], (int)sizeof at[0]);
}

static bool spread_program(SplitWalk *w)
{
    const PointwiseAttr *p = program_at(w, 0), *q = program_at(w, 1);
    if (p->n_results != 1 || p->result[0].reduce != POINT_STORED || !same_steps(p, q) ||
        !same_numbers(p, q) || p->rank < 1 || !sample_shape(w, w->at->out[0]))
        return false;
    for (int i = 0; i < p->n_in; i++)
        if (p->stride[i][0] || q->stride[i][0])
            return false;
    return p->dim[0] % w->side[0].batch == 0 && q->dim[0] % w->side[1].batch == 0;
}

static bool spreads(SplitWalk *w)
{
    const Node *n = w->at;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && w->facts[n->in[i]].power)
            return false;
    return !same_shape(w, n->out[0]) && ((n->op == &op_strided && spread_view(w)) ||
                                         (n->op == &op_pointwise && spread_program(w)));
}

/* Only numbers that do not depend on the batch. */
static bool whole_node(SplitWalk *w)
{
    const Node *n = w->at, *m = &w->side[1].graph->nodes[n->id];
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && w->facts[n->in[i]].power)
            return stuck(w, "computes with a number that depends on the batch size");
    if (n->op->attr_bytes && !same_attr(w, n->attr, m->attr))
        return stuck(w, "has sizes or numbers that depend on the batch size");
    return give_fact(w, (Fact){ FACT_WHOLE, 0, inputs_only(w) });
}

static bool passes_sums(const Node *n)
{
    return n->op == &op_reshape || n->op == &op_cast ||
           (n->op == &op_affine && ATTR(n, AffineAttr)->offset == 0);
}

static bool is_random(const OpDef *op)
{
    return op == &op_random_normal || op == &op_random_uniform || op == &op_random_ints ||
           op == &op_dropout || op == &op_drop_samples;
}

static bool walk_node(SplitWalk *w)
{
    const Node *n = w->at;
    Fact        fact;
    if (n->op == &op_feed)
        return feed_node(w);
    if (is_random(n->op))
        return random_node(w);
    if (n->op == &op_batchnorm_track)
        return true;
    if (any_fact(w, FACT_UNKNOWN))
        return stuck(w, "reads a constant that depends on the batch size");
    /* Batch norm mixes samples, and is split only where --allow batchnorm-split says so. */
    if ((n->op == &op_batchnorm || n->op == &op_batchnorm_eval) &&
        w->facts[n->in[0]].kind == FACT_EACH) {
        w->facts[n->out[0]] = (Fact){ FACT_EACH, 0, false };
        return true;
    }
    if (any_fact(w, FACT_LINEAR) || any_fact(w, FACT_COUNT)) {
        if (any_fact(w, FACT_EACH))
            return stuck(w, "gives every sample a sum over all of them");
        if (passes_sums(n))
            return give_fact(w, w->facts[n->in[0]]);
        if (n->op != &op_pointwise)
            return stuck(w, "computes with a sum over samples");
        return pointwise_linear(w, &fact) && give_fact(w, fact);
    }
    if (!any_fact(w, FACT_EACH) && spreads(w))
        return give_fact(w, (Fact){ FACT_EACH, 0, inputs_only(w) });
    if (!any_fact(w, FACT_EACH))
        return n->op == &op_pointwise && n->n_out == 1
                   ? pointwise_linear(w, &fact) && give_fact(w, fact)
                   : whole_node(w);
    if (n->op == &op_cross_entropy)
        return entropy_node(w);
    if (n->op == &op_dml_loss)
        return mixture_node(w);
    ChunkRule rule;
    if (n->op == &op_pointwise && !sample_rule(w, 0, &rule))
        return pointwise_sum(w, &fact) && give_fact(w, fact);
    return each_node(w);
}

/* Are they the same calls with the same operands? */
static bool same_form(const Graph *a, const Graph *b)
{
    if (a->n_nodes != b->n_nodes || a->n_values != b->n_values)
        return false;
    for (int32_t i = 0; i < a->n_nodes; i++) {
        const Node *n = &a->nodes[i], *m = &b->nodes[i];
        if (n->op != m->op || n->n_in != m->n_in || n->n_out != m->n_out ||
            memcmp(n->in, m->in, (size_t)n->n_in * sizeof *n->in) ||
            memcmp(n->out, m->out, (size_t)n->n_out * sizeof *n->out))
            return false;
    }
    return true;
}

/* The nodes that the loss depends on; others, and their mixing of samples, do not matter. */
static bool *needed_nodes(Pool *pool, const Graph *graph, int32_t loss)
{
    bool *value = NEWN(pool, bool, graph->n_values + 1),
         *node = NEWN(pool, bool, graph->n_nodes + 1);
    value[loss] = true;
    for (int32_t i = graph->n_nodes - 1; i >= 0; i--) {
        const Node *n = &graph->nodes[i];
        for (int j = 0; j < n->n_out; j++)
            node[i] |= n->out[j] >= 0 && value[n->out[j]];
        for (int j = 0; node[i] && j < n->n_in; j++)
            if (n->in[j] >= 0)
                value[n->in[j]] = true;
    }
    return node;
}

SplitProof split_prove(Pool *pool, const SplitSide side[2])
{
    const Graph *g = side[0].graph;
    SplitWalk    w = { .pool = pool,
                       .side = { side[0], side[1] },
                       .facts = NEWN(pool, Fact, g->n_values + 1),
                       .data = NEWN(pool, const void *, 2 * g->n_values + 2) };
    if (!same_form(g, side[1].graph) || side[0].loss.id != side[1].loss.id)
        return (SplitProof){ .why = "the program's form depends on the batch size" };
    note_constants(&w);
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->values[v].producer < 0)
            w.facts[v] = persistent_fact(&w, v);
    const bool *needed = needed_nodes(pool, g, side[0].loss.id);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        w.at = &g->nodes[i];
        if (needed[i] && !walk_node(&w))
            return (SplitProof){ .why = w.why };
    }
    Fact loss = w.facts[side[0].loss.id];
    if (loss.kind != FACT_WHOLE && (loss.kind != FACT_LINEAR || loss.power < -1 || loss.power > 0))
        return (SplitProof){ .why = "the loss is neither a mean nor a sum over samples" };
    return (SplitProof){ .sum = loss.kind == FACT_LINEAR && loss.power == 0,
                         .counts = w.counts,
                         .n_counts = w.n_counts };
}
