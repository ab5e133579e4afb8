/* pointwise_grad.c -- the gradient of a pointwise program, as further programs.
 *
 *   1. The reverse steps are written behind a copy of the forward steps (a Trace): each step's
 *      derivative in terms of forward values and of the gradients that arrive.
 *   2. A minimum cut through the forward steps chooses what is read: the cheapest set of operands,
 *      results and inner values, in bytes, from which the forward values that the reverse steps
 *      need can be computed. Inner values of the set become further results of the forward node.
 *   3. Operands whose elements lie in the same order share a node. It runs over the forward space
 *      with its axes in that order, so that stored gradients need no permutation. Gradients of
 *      repeated operands are sums over the axes along which they are repeated.
 */
#include "ops/elementwise/basic.h"
#include "ops/ops.h"
#include "ops/pointwise/pointwise_int.h"
#include "ops/reduce/rows.h"

#include <math.h>
#include <string.h>

enum { NO_STEP = -1 };

/* Leaves of the reverse steps: operand numbers beyond the program's own. */
enum { LEAF_DY = 1000, LEAF_RESULT = 1100, LEAF_TIES = 1200 };

typedef struct Trace {
    Grad                *g;
    const PointwiseAttr *p;
    Pool                *pool;
    PointStep           *step; /* forward steps, then reverse steps */
    int32_t              n, cap;
    int                  adjoint[POINT_STEPS_MAX]; /* of each forward step */
    bool                 useful[POINT_STEPS_MAX];  /* does a wanted operand flow into it? */
    int                  gradient[POINT_INPUTS_MAX];
    bool                 needed[POINT_STEPS_MAX]; /* forward values that reverse steps read */
    Tensor               kept[POINT_STEPS_MAX];   /* of the cut: where the value is stored */
    bool                 in_cut[POINT_STEPS_MAX];
    const int64_t       *kept_stride[POINT_STEPS_MAX]; /* NULL: in the order of the space */
    Tensor               ties[POINT_RESULTS];
} Trace;

static int trace_put(Trace *t, PointStep step)
{
    for (int32_t i = 0; i < t->n; i++)
        if (!memcmp(&t->step[i], &step, sizeof step))
            return i;
    VEC_ADD(t->pool, t->step, t->n, t->cap, step);
    return t->n - 1;
}

static int trace_leaf(Trace *t, int operand)
{
    PointStep s = { .op = POINT_INPUT, .a = (int16_t)operand, .b = -1, .c = -1 };
    return trace_put(t, s);
}

static int trace_number(Trace *t, float value)
{
    PointStep s = { .op = POINT_CONSTANT, .a = -1, .b = -1, .c = -1, .value.f = value };
    return trace_put(t, s);
}

static bool is_number(const Trace *t, int s, float value)
{
    return t->step[s].op == POINT_CONSTANT && !t->step[s].integer && t->step[s].value.f == value;
}

static int trace_op(Trace *t, PointOp op, int a, int b, int c)
{
    bool integer = (op >= POINT_EQ && op <= POINT_GE) || op == POINT_AND || op == POINT_OR;
    if (op == POINT_MUL && is_number(t, a, 1))
        return b;
    if (op == POINT_SUB && t->step[a].op == POINT_CONSTANT && t->step[b].op == POINT_CONSTANT)
        return trace_number(t, t->step[a].value.f - t->step[b].value.f);
    if ((op == POINT_MUL || op == POINT_DIV) && is_number(t, b, 1))
        return a;
    if ((op == POINT_MUL || op == POINT_ADD) && a > b) {
        int first = a;
        a = b;
        b = first;
    }
    PointStep s = {
        .op = (uint8_t)op, .integer = integer, .a = (int16_t)a, .b = (int16_t)b, .c = (int16_t)c
    };
    return trace_put(t, s);
}

#define OP1(op, a)       trace_op(t, POINT_##op, (a), -1, -1)
#define OP2(op, a, b)    trace_op(t, POINT_##op, (a), (b), -1)
#define OP3(op, a, b, c) trace_op(t, POINT_##op, (a), (b), (c))
#define NUM(x)           trace_number(t, (x))

/* d flows to step `to`. */
static void give(Trace *t, int to, int d)
{
    if (!t->useful[to] || d == NO_STEP)
        return;
    int *sum = &t->adjoint[to];
    *sum = *sum == NO_STEP ? d : OP2(ADD, *sum, d);
}

/* One where equal operands share: 0, 1/2 or 1; `below`: the comparison that gives 0. */
static int share(Trace *t, PointOp below, int a, int b)
{
    int loses = trace_op(t, below, a, b, -1), ties = OP2(EQ, a, b);
    return OP3(SELECT, ties, NUM(0.5f), OP3(SELECT, loses, NUM(0), NUM(1)));
}

static void reverse_pow(Trace *t, const PointStep *s, int y, int d)
{
    int a = s->a, b = s->b;
    if (t->useful[a]) {
        int slope = OP2(MUL, b, OP2(POW, a, OP2(SUB, b, NUM(1))));
        if (t->step[b].op == POINT_CONSTANT)
            give(t, a, OP2(MUL, d, slope));
        else
            give(t, a, OP3(SELECT, OP2(EQ, b, NUM(0)), NUM(0), OP2(MUL, d, slope)));
    }
    if (t->useful[b]) { /* 0 to a power that is not negative: flat */
        int flat = OP2(AND, OP2(EQ, a, NUM(0)), OP2(GE, b, NUM(0)));
        give(t, b, OP3(SELECT, flat, NUM(0), OP2(MUL, d, OP2(MUL, y, OP1(LOG, a)))));
    }
}

static void reverse_binary(Trace *t, const PointStep *s, int y, int d)
{
    int a = s->a, b = s->b;
    switch ((PointOp)s->op) {
    case POINT_ADD:
        give(t, a, d);
        give(t, b, d);
        break;
    case POINT_SUB:
        give(t, a, d);
        if (t->useful[b])
            give(t, b, OP1(NEG, d));
        break;
    case POINT_MUL:
        if (t->useful[a])
            give(t, a, OP2(MUL, d, b));
        if (t->useful[b])
            give(t, b, OP2(MUL, d, a));
        break;
    case POINT_DIV: {
        int over = OP2(DIV, d, b);
        give(t, a, over);
        if (t->useful[b])
            give(t, b, OP1(NEG, OP2(MUL, over, y)));
        break;
    }
    case POINT_REMAINDER:
        give(t, a, d);
        if (t->useful[b])
            give(t, b, OP1(NEG, OP2(MUL, d, OP1(FLOOR, OP2(DIV, a, b)))));
        break;
    case POINT_FMOD:
        give(t, a, d);
        if (t->useful[b])
            give(t, b, OP1(NEG, OP2(MUL, d, OP1(TRUNC, OP2(DIV, a, b)))));
        break;
    case POINT_POW: reverse_pow(t, s, y, d); break;
    case POINT_ATAN2: {
        int over = OP2(DIV, d, OP2(ADD, OP1(SQUARE, a), OP1(SQUARE, b)));
        if (t->useful[a])
            give(t, a, OP2(MUL, over, b));
        if (t->useful[b])
            give(t, b, OP1(NEG, OP2(MUL, over, a)));
        break;
    }
    case POINT_MIN:
    case POINT_MAX: {
        bool max = s->op == POINT_MAX;
        if (t->useful[a])
            give(t, a, OP2(MUL, d, share(t, max ? POINT_LT : POINT_GT, a, b)));
        if (t->useful[b])
            give(t, b, OP2(MUL, d, share(t, max ? POINT_GT : POINT_LT, a, b)));
        break;
    }
    case POINT_CLAMP_MIN:
    case POINT_CLAMP_MAX: {
        int other = trace_op(t, s->op == POINT_CLAMP_MIN ? POINT_LT : POINT_GT, a, b, -1);
        if (t->useful[a])
            give(t, a, OP3(SELECT, other, NUM(0), d));
        if (t->useful[b])
            give(t, b, OP3(SELECT, other, d, NUM(0)));
        break;
    }
    default: break; /* floor_div: flat */
    }
}

/* d times the derivative, written in terms of the operand x or of the result y. */
static int reverse_unary(Trace *t, PointOp op, int x, int y, int d)
{
    switch (op) {
    case POINT_TO_F32:
    case POINT_ROUND_BF16:
    case POINT_ROUND_F16: return d;
    case POINT_NEG: return OP1(NEG, d);
    case POINT_ABS: return OP2(MUL, d, OP1(SIGN, x));
    case POINT_SQUARE: return OP2(MUL, d, OP2(MUL, NUM(2), x));
    case POINT_SQRT: return OP2(DIV, d, OP2(MUL, NUM(2), y));
    case POINT_RSQRT: return OP2(MUL, OP2(MUL, NUM(-0.5f), d), OP2(MUL, y, OP1(SQUARE, y)));
    case POINT_RECIPROCAL: return OP1(NEG, OP2(MUL, d, OP1(SQUARE, y)));
    case POINT_EXP: return OP2(MUL, d, y);
    case POINT_EXP2: return OP2(MUL, d, OP2(MUL, NUM(0x1.62e430p-1f), y));
    case POINT_EXPM1: return OP2(MUL, d, OP2(ADD, NUM(1), y));
    case POINT_LOG: return OP2(DIV, d, x);
    case POINT_LOG2: return OP2(DIV, d, OP2(MUL, NUM(0x1.62e430p-1f), x));
    case POINT_LOG1P: return OP2(DIV, d, OP2(ADD, NUM(1), x));
    case POINT_SIN: return OP2(MUL, d, OP1(COS, x));
    case POINT_COS: return OP1(NEG, OP2(MUL, d, OP1(SIN, x)));
    case POINT_TAN: return OP2(MUL, d, OP2(ADD, NUM(1), OP1(SQUARE, y)));
    case POINT_ASIN: return OP2(MUL, d, OP1(RSQRT, OP2(SUB, NUM(1), OP1(SQUARE, x))));
    case POINT_ACOS: return OP1(NEG, OP2(MUL, d, OP1(RSQRT, OP2(SUB, NUM(1), OP1(SQUARE, x)))));
    case POINT_ATAN: return OP2(DIV, d, OP2(ADD, NUM(1), OP1(SQUARE, x)));
    case POINT_SINH: return OP2(MUL, d, OP1(COSH, x));
    case POINT_COSH: return OP2(MUL, d, OP1(SINH, x));
    case POINT_TANH: return OP2(MUL, d, OP2(SUB, NUM(1), OP1(SQUARE, y)));
    case POINT_SIGMOID: return OP2(MUL, d, OP2(MUL, y, OP2(SUB, NUM(1), y)));
    case POINT_LOG_SIGMOID: return OP2(MUL, d, OP1(SIGMOID, OP1(NEG, x)));
    case POINT_SOFTPLUS: return OP2(MUL, d, OP1(SIGMOID, x));
    case POINT_RELU: return OP3(SELECT, OP2(GT, y, NUM(0)), d, NUM(0));
    case POINT_SILU: return OP2(MUL, d, OP1(SILU_SLOPE, x));
    case POINT_GELU: return OP2(MUL, d, OP1(GELU_SLOPE, x));
    case POINT_GELU_TANH: return OP2(MUL, d, OP1(GELU_TANH_SLOPE, x));
    case POINT_MISH: return OP2(MUL, d, OP1(MISH_SLOPE, x));
    case POINT_ERF: /* 2 / sqrt(pi) exp(-x^2) */
        return OP2(MUL, d, OP2(MUL, NUM(1.1283791671f), OP1(EXP, OP1(NEG, OP1(SQUARE, x)))));
    default: return NO_STEP; /* flat, or not to be differentiated */
    }
}

static void reverse_step(Trace *t, int y)
{
    PointStep s = t->step[y];
    int       d = t->adjoint[y];
    if (s.op == POINT_SELECT) {
        if (t->useful[s.b])
            give(t, s.b, OP3(SELECT, s.a, d, NUM(0)));
        if (t->useful[s.c])
            give(t, s.c, OP3(SELECT, s.a, NUM(0), d));
    } else if (point_op_operands(s.op) == 2)
        reverse_binary(t, &s, y, d);
    else if (point_op_operands(s.op) == 1)
        give(t, s.a, reverse_unary(t, s.op, s.a, y, d));
}

static int rounded(Trace *t, int x, Type type)
{
    return type == BF16 ? OP1(ROUND_BF16, x) : type == F16 ? OP1(ROUND_F16, x) : x;
}

/* Which elements are the largest or smallest: the result is read back as it was rounded. */
static int extreme_mask(Trace *t, int r)
{
    const PointResult *result = &t->p->result[r];
    return OP2(EQ, rounded(t, result->step, result->type), trace_leaf(t, LEAF_RESULT + r));
}

static bool result_gets(const Trace *t, int r) /* a gradient that goes on */
{
    return tensor_ok(grad_dy(t->g, r)) && t->useful[t->p->result[r].step];
}

static void trace_seed(Trace *t, int r)
{
    const PointResult *result = &t->p->result[r];
    if (!result_gets(t, r))
        return;
    int d = trace_leaf(t, LEAF_DY + r);
    if (result->reduce == POINT_SUM)
        d = OP2(MUL, d, NUM(result->scale));
    else if (result->reduce != POINT_STORED)
        d = OP3(SELECT, extreme_mask(t, r), OP2(DIV, d, trace_leaf(t, LEAF_TIES + r)), NUM(0));
    give(t, result->step, d);
}

/* Steps whose derivative is zero or not wanted stop the flow. */
static bool stops(PointOp op)
{
    switch (op) {
    case POINT_FLOOR_DIV:
    case POINT_SIGN:
    case POINT_FLOOR:
    case POINT_CEIL:
    case POINT_ROUND:
    case POINT_TRUNC:
    case POINT_DETACH:
    case POINT_SILU_SLOPE:
    case POINT_GELU_SLOPE:
    case POINT_GELU_TANH_SLOPE:
    case POINT_MISH_SLOPE: return true;
    default: return false;
    }
}

static void trace_useful(Trace *t)
{
    const PointwiseAttr *p = t->p;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *s = &p->step[i];
        int              n = point_op_operands(s->op);
        if (s->integer || stops(s->op))
            continue;
        if (s->op == POINT_INPUT)
            t->useful[i] = grad_wants(t->g, s->a);
        else if (s->op == POINT_SELECT)
            t->useful[i] = t->useful[s->b] || t->useful[s->c];
        else
            t->useful[i] = (n > 0 && t->useful[s->a]) || (n > 1 && t->useful[s->b]);
    }
}

/* Forward values that reverse step s reads. */
static void mark_needed(Trace *t, int s, bool *seen)
{
    int n = point_op_operands(t->step[s].op),
        reads[] = { t->step[s].a, t->step[s].b, t->step[s].c };
    if (seen[s])
        return;
    seen[s] = true;
    for (int i = 0; i < n; i++)
        if (reads[i] < t->p->n_steps)
            t->needed[reads[i]] = true;
        else
            mark_needed(t, reads[i], seen);
}

static void trace_reverse(Trace *t)
{
    const PointwiseAttr *p = t->p;
    trace_useful(t);
    for (int i = 0; i < p->n_steps; i++) {
        VEC_ADD(t->pool, t->step, t->n, t->cap, p->step[i]);
        t->adjoint[i] = NO_STEP;
    }
    for (int r = 0; r < p->n_results; r++)
        trace_seed(t, r);
    for (int i = 0; i < p->n_in; i++)
        t->gradient[i] = NO_STEP;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const PointStep *s = &p->step[i];
        if (t->adjoint[i] == NO_STEP)
            continue;
        if (s->op != POINT_INPUT) {
            reverse_step(t, i);
            continue;
        }
        int *sum = &t->gradient[s->a]; /* an operand may be read by several steps */
        *sum = *sum == NO_STEP ? t->adjoint[i] : OP2(ADD, *sum, t->adjoint[i]);
    }
    bool *seen = NEWN(t->pool, bool, t->n);
    for (int i = 0; i < p->n_in; i++)
        if (t->gradient[i] != NO_STEP)
            mark_needed(t, t->gradient[i], seen);
}

/* ---- the cut ---- */

/* What storing a forward value would take. */
typedef struct Storage {
    Type type[POINT_STEPS_MAX];  /* in which the value may be stored */
    bool whole[POINT_STEPS_MAX]; /* it differs along all axes: it has an element for each point */
    int32_t value[POINT_STEPS_MAX]; /* it is stored already: an operand or a result */
    int64_t cost[POINT_STEPS_MAX];
} Storage;

static const int64_t NEVER = INT64_MAX / 4;

/* The type that the value would have in PyTorch: that of its operands. Numbers do not count. */
static Type step_type(const Trace *t, int i, const int *type)
{
    const PointStep *s = &t->p->step[i];
    int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c }, found = -1;
    if (s->op == POINT_ROUND_BF16)
        return BF16;
    if (s->op == POINT_ROUND_F16)
        return F16;
    if (s->op == POINT_TO_F32)
        return F32;
    for (int k = s->op == POINT_SELECT; k < n; k++) {
        if (t->p->step[reads[k]].integer || type[reads[k]] < 0)
            continue;
        found = found < 0 || found == type[reads[k]] ? type[reads[k]] : F32;
    }
    return found < 0 ? TYPE_COUNT : (Type)found;
}

static bool operand_is_number(const PointwiseAttr *p, int i)
{
    for (int a = 0; a < p->rank; a++)
        if (p->stride[i][a] > 0)
            return false;
    return true;
}

/* Do its values fit a byte? Truth values, and bytes themselves. */
static bool step_fits_byte(const Trace *t, int i, const bool *fits)
{
    const PointStep *s = &t->p->step[i];
    switch ((PointOp)s->op) {
    case POINT_INPUT: return in_type(t->g->node, s->a) == U8;
    case POINT_CONSTANT: return s->value.i >= 0 && s->value.i <= 255;
    case POINT_AND:
    case POINT_OR:
    case POINT_XOR: return fits[s->a] && fits[s->b];
    case POINT_SELECT: return fits[s->b] && fits[s->c];
    case POINT_DETACH: return fits[s->a];
    case POINT_EQ:
    case POINT_NE:
    case POINT_LT:
    case POINT_LE:
    case POINT_GT:
    case POINT_GE:
    case POINT_NOT:
    case POINT_TO_TRUTH:
    case POINT_IS_NAN:
    case POINT_IS_INF: return true;
    default: return false;
    }
}

/* Values from which a largest element is found again must be those of the forward pass, to the
 * bit: they are not rounded. */
static void mark_exact(const Trace *t, bool *exact)
{
    for (int r = 0; r < t->p->n_results; r++)
        if (t->p->result[r].reduce > POINT_SUM && result_gets(t, r))
            exact[t->p->result[r].step] = true;
    for (int i = t->p->n_steps - 1; i >= 0; i--) {
        const PointStep *s = &t->p->step[i];
        int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c };
        for (int k = 0; exact[i] && k < n; k++)
            exact[reads[k]] = true;
    }
}

/* Values that backward nodes read already cost nothing more. Those that were added last read what
 * is nearest. */
static bool read_already(const Graph *graph, int32_t value)
{
    enum { LOOK_BACK = 400 };
    int32_t root = value_at(graph, value)->root;
    for (int32_t i = graph->n_nodes - 1, k = 0; i >= 0 && k < LOOK_BACK; i--, k++) {
        const Node *n = &graph->nodes[i];
        if (!n->backward)
            return false;
        for (int j = 0; j < n->n_in && !n->op->view; j++)
            if (n->in[j] >= 0 && value_at(graph, n->in[j])->root == root)
                return true;
    }
    return false;
}

static int64_t value_cost(const Graph *graph, int32_t id)
{
    const Value *value = value_at(graph, id);
    return value->persistent || read_already(graph, id) ? 0 : value->bytes * 16;
}

static void storage_types(const Trace *t, Storage *s)
{
    const PointwiseAttr *p = t->p;
    int                  type[POINT_STEPS_MAX];
    bool                 fits[POINT_STEPS_MAX], exact[POINT_STEPS_MAX] = { false };
    mark_exact(t, exact);
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        fits[i] = step->integer && step_fits_byte(t, i, fits);
        type[i] = -1;
        if (step->integer) {
            s->type[i] = fits[i] ? U8 : I32;
            continue;
        }
        if (step->op == POINT_INPUT)
            type[i] = operand_is_number(p, step->a) ? -1 : (int)in_type(t->g->node, step->a);
        else {
            Type of = step_type(t, i, type);
            type[i] = of == TYPE_COUNT ? -1 : (int)of;
        }
        s->type[i] = type[i] < 0 ? F32 : (Type)type[i];
        if (exact[i] && step->op != POINT_INPUT && step->op != POINT_ROUND_BF16 &&
            step->op != POINT_ROUND_F16)
            s->type[i] = F32;
    }
}

static void storage_extents(const Trace *t, Storage *s)
{
    const PointwiseAttr *p = t->p;
    uint32_t             axes[POINT_STEPS_MAX], all = 0;
    for (int a = 0; a < p->rank && a < POINT_RANK; a++)
        all |= (uint32_t)(p->dim[a] > 1) << a;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        int              n = point_op_operands(step->op), reads[] = { step->a, step->b, step->c };
        axes[i] = 0;
        for (int a = 0; step->op == POINT_INPUT && a < p->rank && a < POINT_RANK; a++)
            axes[i] |= (uint32_t)(p->stride[step->a][a] > 0) << a;
        for (int k = 0; k < n; k++)
            axes[i] |= axes[reads[k]];
        s->whole[i] = axes[i] == all && step->op != POINT_CONSTANT;
    }
}

/* May the stored form of a result stand for its step? */
static bool result_serves(Type stored, Type may_be)
{
    return stored == may_be || stored == F32 || stored == I32;
}

static void storage_costs(const Trace *t, Storage *s, bool may_add)
{
    const PointwiseAttr *p = t->p;
    const Graph         *graph = t->g->graph;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        s->value[i] = TENSOR_NONE;
        s->cost[i] = NEVER;
        if (step->op == POINT_INPUT)
            s->value[i] = t->g->node->in[step->a];
        else if (may_add && s->whole[i] && step->op != POINT_DETACH) /* written, and one more */
            s->cost[i] = point_count(p) * type_bytes(s->type[i]) * 17 + 1;
    }
    for (int r = 0; r < p->n_results; r++) {
        const PointResult *result = &p->result[r];
        if (result->reduce == POINT_STORED && s->value[result->step] == TENSOR_NONE &&
            result_serves(result->type, s->type[result->step]))
            s->value[result->step] = t->g->node->out[r];
    }
    for (int i = 0; i < p->n_steps; i++)
        if (s->value[i] >= 0)
            s->cost[i] = value_cost(graph, s->value[i]);
}

/* Maximum flow by shortest paths. Step i is an edge from 2i to 2i + 1, with its cost as capacity;
 * edges between steps have none. */
typedef struct Flow {
    int      n, source, sink; /* vertices */
    int64_t *left;            /* n x n: residual capacities */
    int     *from;
} Flow;

static bool flow_path(Flow *f)
{
    int queue[2 * POINT_STEPS_MAX + 2], head = 0, tail = 0;
    for (int i = 0; i < f->n; i++)
        f->from[i] = -1;
    queue[tail++] = f->source;
    f->from[f->source] = f->source;
    while (head < tail && f->from[f->sink] < 0) {
        int u = queue[head++];
        for (int v = 0; v < f->n; v++)
            if (f->from[v] < 0 && f->left[(size_t)u * (size_t)f->n + (size_t)v] > 0) {
                f->from[v] = u;
                queue[tail++] = v;
            }
    }
    return f->from[f->sink] >= 0;
}

#define LEFT(u, v) f->left[(size_t)(u) * (size_t)f->n + (size_t)(v)]

static void flow_run(Flow *f)
{
    while (flow_path(f)) {
        int64_t most = NEVER;
        for (int v = f->sink; v != f->source; v = f->from[v])
            most = LEFT(f->from[v], v) < most ? LEFT(f->from[v], v) : most;
        if (most >= NEVER) /* cannot be: operands have a finite cost */
            return;
        for (int v = f->sink; v != f->source; v = f->from[v]) {
            LEFT(f->from[v], v) -= most;
            LEFT(v, f->from[v]) += most;
        }
    }
}

/* Vertices from which the sink can still be reached. */
static void flow_sink_side(const Flow *f, bool *reaches)
{
    int stack[2 * POINT_STEPS_MAX + 2], top = 0;
    stack[top++] = f->sink;
    reaches[f->sink] = true;
    while (top) {
        int v = stack[--top];
        for (int u = 0; u < f->n; u++)
            if (!reaches[u] && LEFT(u, v) > 0) {
                reaches[u] = true;
                stack[top++] = u;
            }
    }
}

/* Of several cheapest cuts, the one nearest to the gradient: as little as possible is recomputed. */
static void trace_cut(Trace *t, const Storage *s, bool *cut)
{
    const PointwiseAttr *p = t->p;
    int                  n = 2 * p->n_steps + 2;
    Flow  flow = { .n = n, .source = n - 2, .sink = n - 1, .from = NEWN(t->pool, int, n) };
    Flow *f = &flow;
    bool *reaches = NEWN(t->pool, bool, n);
    f->left = NEWN(t->pool, int64_t, (int64_t)n * n);
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *step = &p->step[i];
        int              m = point_op_operands(step->op), reads[] = { step->a, step->b, step->c };
        LEFT(2 * i, 2 * i + 1) = s->cost[i];
        for (int k = 0; k < m; k++)
            LEFT(2 * reads[k] + 1, 2 * i) = NEVER;
        if (step->op == POINT_INPUT)
            LEFT(f->source, 2 * i) = NEVER;
        if (t->needed[i])
            LEFT(2 * i + 1, f->sink) = NEVER;
    }
    flow_run(f);
    flow_sink_side(f, reaches);
    for (int i = 0; i < p->n_steps; i++)
        cut[i] = reaches[2 * i + 1] && !reaches[2 * i] && t->step[i].op != POINT_CONSTANT;
}

/* A shape for an inner value: that of a result or operand that has it, else the space's. */
static Shape inner_shape(const Trace *t)
{
    const PointwiseAttr *p = t->p;
    for (int r = 0; r < p->n_results; r++)
        if (p->result[r].reduce == POINT_STORED)
            return p->result[r].shape;
    Shape shape = { .rank = p->rank < MAX_RANK ? p->rank : MAX_RANK };
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = 1;
    for (int a = 0; a < p->rank; a++) { /* surplus axes are joined with the first */
        int at = a - (p->rank - shape.rank);
        shape.dim[at < 0 ? 0 : at] *= p->dim[a];
    }
    if (shape.rank == 0)
        shape = SHAPE(1);
    return shape;
}

/* An inner value becomes a further result of the forward node. */
static Tensor keep_inner(Trace *t, int step, Type type)
{
    Graph         *graph = t->g->graph;
    Node          *node = &graph->nodes[t->g->node->id];
    PointwiseAttr *p = node->attr;
    Phase          phase = graph->phase;
    Shape          shape = inner_shape(t);
    int            r = p->n_results++;
    p->result[r].step = (int16_t)step;
    p->result[r].scale = 1;
    p->result[r].type = type;
    p->result[r].shape.rank = shape.rank;
    for (int i = 0; i < shape.rank; i++)
        p->result[r].shape.dim[i] = shape.dim[i];
    out_set(node, r, type, shape);
    graph->phase = phase;
    return (Tensor){ graph, node->out[r] };
}

static void trace_keep(Trace *t)
{
    const PointwiseAttr *p = t->p;
    Storage             *s = NEW(t->pool, Storage);
    int                  n_added = 0;
    storage_types(t, s);
    storage_extents(t, s);
    storage_costs(t, s, true);
    trace_cut(t, s, t->in_cut);
    for (int i = 0; i < p->n_steps; i++)
        n_added += t->in_cut[i] && s->value[i] < 0;
    if (p->n_results + n_added > POINT_RESULTS) { /* no room: what is there must do */
        storage_costs(t, s, false);
        trace_cut(t, s, t->in_cut);
    }
    for (int i = 0; i < p->n_steps; i++) {
        if (!t->in_cut[i])
            continue;
        if (p->step[i].op == POINT_INPUT)
            t->kept_stride[i] = p->stride[p->step[i].a];
        t->kept[i] = s->value[i] >= 0 ? (Tensor){ t->g->graph, s->value[i] }
                                      : keep_inner(t, i, s->type[i]);
    }
}

/* ---- the nodes ---- */

typedef struct Order { /* axis a of the gradient's space is axis[a] of the forward space */
    int axis[POINT_RANK];
} Order;

typedef struct Emit {
    Trace       *t;
    PointProgram p;
    Order        order;
    int         *at; /* per step of the trace: its step in p, or NO_STEP */
} Emit;

/* Strides of a tensor stored in the order of the forward space, without the axes reduced. */
static void result_strides(const PointwiseAttr *p, uint32_t reduced, int64_t *stride)
{
    int64_t next = 1;
    for (int a = p->rank - 1; a >= 0; a--) {
        bool gone = reduced >> a & 1;
        stride[a] = gone ? 0 : next;
        next *= gone ? 1 : p->dim[a];
    }
}

static int emit_input(Emit *e, Tensor x, const int64_t *stride)
{
    int64_t own[POINT_RANK] = { 0 };
    for (int a = 0; a < e->t->p->rank; a++)
        own[a] = stride[e->order.axis[a]];
    return point_input(&e->p, x, own);
}

static int emit_leaf(Emit *e, int operand)
{
    const Trace *t = e->t;
    int64_t      stride[POINT_RANK];
    int          r = operand % 100;
    result_strides(t->p, t->p->result[r].axes, stride);
    Tensor x = operand >= LEAF_TIES     ? t->ties[r]
               : operand >= LEAF_RESULT ? grad_out(t->g, r)
                                        : grad_dy(t->g, r);
    return emit_input(e, x, stride);
}

static int emit_step(Emit *e, int s)
{
    Trace    *t = e->t;
    PointStep step = t->step[s];
    int      *at = &e->at[s], n = point_op_operands(step.op);
    if (*at != NO_STEP)
        return *at;
    if (s < t->p->n_steps && t->in_cut[s]) {
        int64_t stride[POINT_RANK];
        result_strides(t->p, 0, stride);
        *at = emit_input(e, t->kept[s], t->kept_stride[s] ? t->kept_stride[s] : stride);
    } else if (step.op == POINT_INPUT) {
        *at = step.a < LEAF_DY ? emit_input(e, grad_in(t->g, step.a), t->p->stride[step.a])
                               : emit_leaf(e, step.a);
    } else if (step.op == POINT_CONSTANT) {
        *at = step.integer ? point_integer(&e->p, step.value.i)
                           : point_constant(&e->p, step.value.f);
    } else {
        int a = emit_step(e, step.a), b = n > 1 ? emit_step(e, step.b) : -1,
            c = n > 2 ? emit_step(e, step.c) : -1;
        *at = point_step(&e->p, step.op, a, b, c);
    }
    return *at;
}

static Emit *emit_begin(Trace *t, const Order *order)
{
    Emit   *e = NEW(t->pool, Emit);
    int64_t dim[POINT_RANK] = { 0 };
    for (int a = 0; a < t->p->rank; a++)
        dim[a] = t->p->dim[order->axis[a]];
    e->t = t;
    e->order = *order;
    e->p = point_begin(t->p->rank, dim);
    e->p.max_inputs = POINT_INPUTS_MAX;
    e->p.max_steps = POINT_STEPS_MAX;
    e->at = NEWN(t->pool, int, t->n);
    for (int32_t i = 0; i < t->n; i++)
        e->at[i] = NO_STEP;
    return e;
}

static Order plain_order(void)
{
    Order order;
    for (int a = 0; a < POINT_RANK; a++)
        order.axis[a] = a;
    return order;
}

/* How many elements share the largest or smallest value. */
static void trace_ties(Trace *t)
{
    Order order = plain_order();
    for (int r = 0; r < t->p->n_results; r++) {
        const PointResult *result = &t->p->result[r];
        if (result->reduce <= POINT_SUM || !result_gets(t, r))
            continue;
        Emit *e = emit_begin(t, &order);
        int   mask = emit_step(e, extreme_mask(t, r));
        point_reduce(&e->p, point_step(&e->p, POINT_TO_F32, mask, -1, -1), POINT_SUM, result->axes,
                     1, F32, result->shape);
        t->ties[r] = point_end(&e->p, NULL);
    }
}

/* Axes of an operand in the order in which its elements lie, outermost first; returns how many. */
static int operand_axes(const PointwiseAttr *p, int i, int *axes)
{
    int n = 0;
    for (int a = 0; a < p->rank; a++) {
        int at = n;
        if (p->stride[i][a] == 0)
            continue;
        for (; at > 0 && p->stride[i][axes[at - 1]] < p->stride[i][a]; at--)
            axes[at] = axes[at - 1];
        axes[at] = a;
        n++;
    }
    return n;
}

static bool order_fits(const Order *order, int rank, const int *axes, int n)
{
    int next = 0;
    for (int a = 0; a < rank && next < n; a++)
        next += order->axis[a] == axes[next];
    return next == n;
}

/* The operand's axes in its order, at the places that they have in the forward space. */
static Order order_for(const PointwiseAttr *p, int i)
{
    int   axes[POINT_RANK], next = 0;
    Order order = plain_order();
    operand_axes(p, i, axes);
    for (int a = 0; a < p->rank; a++)
        if (p->stride[i][a] > 0)
            order.axis[a] = axes[next++];
    return order;
}

static bool repeated(const PointwiseAttr *p, int i)
{
    for (int a = 0; a < p->rank; a++)
        if (p->dim[a] > 1 && p->stride[i][a] == 0)
            return true;
    return false;
}

/* The gradient is the one that arrived, under the operand's shape: no node is needed. */
static bool give_unchanged(Trace *t, int i)
{
    const PointwiseAttr *p = t->p;
    PointStep            s = t->step[t->gradient[i]];
    int                  axes[POINT_RANK];
    Order                plain = plain_order();
    if (s.op != POINT_INPUT || s.a < LEAF_DY || s.a >= LEAF_RESULT || repeated(p, i) ||
        !order_fits(&plain, p->rank, axes, operand_axes(p, i, axes)) ||
        p->result[s.a - LEAF_DY].reduce != POINT_STORED)
        return false;
    Tensor dy = grad_dy(t->g, s.a - LEAF_DY), x = grad_in(t->g, i);
    if (!shape_same(tensor_shape(dy), tensor_shape(x)))
        dy = reshape(dy, tensor_shape(x));
    grad_give(t->g, i, dy);
    return true;
}

typedef struct GradMember { /* an operand whose gradient a node computes */
    int    operand;
    Tensor so_far; /* a sum that it is added to, or none */
} GradMember;

static void emit_member(Emit *e, const GradMember *m)
{
    const PointwiseAttr *p = e->t->p;
    Tensor               x = grad_in(e->t->g, m->operand);
    int                  d = emit_step(e, e->t->gradient[m->operand]);
    uint32_t             reduced = 0;
    for (int a = 0; a < p->rank; a++) {
        int from = e->order.axis[a];
        if (p->dim[from] > 1 && p->stride[m->operand][from] == 0)
            reduced |= 1u << a;
    }
    if (tensor_ok(m->so_far))
        d = point_step(&e->p, POINT_ADD, d, emit_input(e, m->so_far, p->stride[m->operand]), -1);
    if (reduced)
        point_reduce(&e->p, d, POINT_SUM, reduced, 1, rows_grad_type(x), tensor_shape(x));
    else
        point_store(&e->p, d, rows_grad_type(x), tensor_shape(x));
}

/* One node for these operands; where the program gets too long, two. */
static void emit_group(Trace *t, const Order *order, GradMember *member, int n)
{
    Tensor out[POINT_RESULTS];
    Emit  *e = emit_begin(t, order);
    for (int i = 0; i < n && n <= POINT_RESULTS; i++)
        emit_member(e, &member[i]);
    if (n > POINT_RESULTS || (e->p.full && n > 1)) {
        emit_group(t, order, member, n / 2);
        emit_group(t, order, member + n / 2, n - n / 2);
        return;
    }
    if (e->p.full && tensor_ok(member->so_far)) {
        member->so_far = tensor_none(t->g->graph);
        emit_group(t, order, member, n);
        return;
    }
    if (e->p.full) {
        graph_poison(
            t->g->graph, E_SHAPE,
            "pointwise: the gradient of a program of %d steps and %d operands does not fit "
            "%d steps and %d operands; make it two programs",
            t->p->n_steps, t->p->n_in, POINT_STEPS_MAX, POINT_INPUTS_MAX);
        return;
    }
    point_end(&e->p, out);
    for (int i = 0; i < n; i++)
        if (tensor_ok(member[i].so_far))
            grad_give_sum(t->g, member[i].operand, out[i]);
        else
            grad_give(t->g, member[i].operand, out[i]);
}

/* Stored gradients first: they decide the order of axes, and result 0 may take an operand's
 * bytes. */
static void trace_emit(Trace *t)
{
    const PointwiseAttr *p = t->p;
    Order                orders[POINT_INPUTS_MAX];
    GradMember           members[POINT_INPUTS_MAX][POINT_INPUTS_MAX];
    int                  sizes[POINT_INPUTS_MAX] = { 0 }, n_orders = 0, axes[POINT_RANK];
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->n_in; i++) {
            if (t->gradient[i] == NO_STEP || repeated(p, i) != pass || give_unchanged(t, i))
                continue;
            int n = operand_axes(p, i, axes), at = 0;
            while (at < n_orders && !order_fits(&orders[at], p->rank, axes, n))
                at++;
            if (at == n_orders)
                orders[n_orders++] = order_for(p, i);
            Type type = rows_grad_type(grad_in(t->g, i));
            members[at][sizes[at]++] = (GradMember){ i, pass ? tensor_none(t->g->graph)
                                                             : grad_so_far(t->g, i, type) };
        }
    for (int i = 0; i < n_orders; i++)
        emit_group(t, &orders[i], members[i], sizes[i]);
}

void pointwise_rule(Grad *g)
{
    Pool  *pool = pool_new(g->graph->pool, "pointwise gradient");
    Trace *t = NEW(pool, Trace);
    t->g = g;
    t->p = ATTR(g->node, PointwiseAttr);
    t->pool = pool;
    trace_reverse(t);
    trace_keep(t);
    trace_ties(t);
    trace_emit(t);
    pool_free(pool);
}
