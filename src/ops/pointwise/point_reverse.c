/* point_reverse.c -- each step's derivative, in terms of forward values and arriving gradients. */
#include "ops/pointwise/point_trace.h"

#include <math.h>
#include <string.h>

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

int extreme_mask(Trace *t, int r)
{
    const PointResult *result = &t->p->result[r];
    return OP2(EQ, rounded(t, result->step, result->type), trace_leaf(t, LEAF_RESULT + r));
}

bool result_gets(const Trace *t, int r)
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

void trace_reverse(Trace *t)
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
