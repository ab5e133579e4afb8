/* pointwise.c -- programs over points: building, checking, cost, chunks, in place. */
#include "ops/pointwise/pointwise.h"

#include "ops/operator.h"
#include "ops/pointwise/pointwise_int.h"

#include <math.h>
#include <string.h>

typedef struct PointOpInfo {
    const char *name;
    int         operands;
    char        kind;
} PointOpInfo;

static const PointOpInfo op_infos[POINT_OP_COUNT] = {
#define X(name, n, kind) { #name, n, kind },
    POINT_OP_LIST(X)
#undef X
};

const char *point_op_name(PointOp op)
{
    return (unsigned)op < POINT_OP_COUNT ? op_infos[op].name : "no operation";
}

int point_op_operands(PointOp op) { return op_infos[op].operands; }

/* Arithmetic of one point, in units of an addition. */
static double op_flops(PointOp op)
{
    switch (op) {
    case POINT_INPUT:
    case POINT_CONSTANT:
    case POINT_DETACH: return 0;
    case POINT_DIV:
    case POINT_SQRT:
    case POINT_RSQRT:
    case POINT_RECIPROCAL:
    case POINT_FLOOR_DIV:
    case POINT_REMAINDER:
    case POINT_FMOD: return 4;
    case POINT_EXP:
    case POINT_EXP2:
    case POINT_EXPM1:
    case POINT_LOG:
    case POINT_LOG2:
    case POINT_LOG1P:
    case POINT_SIGMOID:
    case POINT_SILU:
    case POINT_TANH:
    case POINT_ERF:
    case POINT_SINH:
    case POINT_COSH: return 12;
    case POINT_SIN:
    case POINT_COS:
    case POINT_TAN:
    case POINT_ASIN:
    case POINT_ACOS:
    case POINT_ATAN:
    case POINT_ATAN2:
    case POINT_GELU:
    case POINT_GELU_TANH:
    case POINT_SOFTPLUS:
    case POINT_LOG_SIGMOID:
    case POINT_SILU_SLOPE:
    case POINT_GELU_SLOPE:
    case POINT_GELU_TANH_SLOPE: return 20;
    case POINT_POW:
    case POINT_MISH:
    case POINT_MISH_SLOPE: return 30;
    default: return 1;
    }
}

/* ---- building ---- */

PointProgram point_begin(int rank, const int64_t *dim)
{
    PointProgram p;
    memset(&p, 0, sizeof p); /* padding too: programs are compared byte by byte */
    p.max_inputs = POINT_INPUTS;
    p.max_steps = POINT_STEPS;
    if (rank < 0 || rank > POINT_RANK) {
        p.wrong = "a space has 0 to 8 axes";
        return p;
    }
    p.attr.rank = rank;
    for (int i = 0; i < rank; i++)
        p.attr.dim[i] = dim[i];
    return p;
}

static bool point_ok(PointProgram *p, int step)
{
    bool ok = step >= 0 && step < p->attr.n_steps;
    if (!ok && !p->full && !p->wrong)
        p->wrong = "a step reads one that is not there";
    return ok;
}

/* An equal step, or a new one. */
static int point_put(PointProgram *p, PointStep step)
{
    for (int i = 0; i < p->attr.n_steps; i++)
        if (!memcmp(&p->step[i], &step, sizeof step))
            return i;
    if (p->attr.n_steps >= p->max_steps) {
        p->full = true;
        return 0;
    }
    p->step[p->attr.n_steps] = step;
    return p->attr.n_steps++;
}

static PointStep step_of(PointOp op, bool integer, int a, int b, int c)
{
    PointStep step;
    memset(&step, 0, sizeof step);
    step.op = (uint8_t)op;
    step.integer = integer;
    step.a = (int16_t)a;
    step.b = (int16_t)b;
    step.c = (int16_t)c;
    return step;
}

int point_input(PointProgram *p, Tensor x, const int64_t *stride)
{
    int64_t of[POINT_RANK] = { 0 };
    p->graph = x.graph;
    for (int i = 0; i < p->attr.rank; i++)
        of[i] = p->attr.dim[i] > 1 ? stride[i] : 0;
    int at = 0;
    while (at < p->attr.n_in &&
           (p->in[at].id != x.id || memcmp(p->attr.stride[at], of, sizeof of) != 0))
        at++;
    if (at == p->attr.n_in) {
        if (at >= p->max_inputs) {
            p->full = true;
            return 0;
        }
        p->in[at] = x;
        memcpy(p->attr.stride[at], of, sizeof of);
        p->attr.n_in++;
    }
    return point_put(p, step_of(POINT_INPUT, !type_is_float(tensor_type(x)), at, -1, -1));
}

int point_constant(PointProgram *p, float value)
{
    PointStep step = step_of(POINT_CONSTANT, false, -1, -1, -1);
    step.value.f = value;
    return point_put(p, step);
}

int point_integer(PointProgram *p, int32_t value)
{
    PointStep step = step_of(POINT_CONSTANT, true, -1, -1, -1);
    step.value.i = value;
    return point_put(p, step);
}

static int point_to_float(PointProgram *p, int a)
{
    const PointStep *s = &p->step[a];
    if (!s->integer)
        return a;
    if (s->op == POINT_CONSTANT)
        return point_constant(p, (float)s->value.i);
    return point_put(p, step_of(POINT_TO_F32, false, a, -1, -1));
}

static int point_to_truth(PointProgram *p, int a)
{
    return p->step[a].integer ? a : point_put(p, step_of(POINT_TO_TRUTH, true, a, -1, -1));
}

/* a to a constant power, as PyTorch computes it; -1: no special form. */
static int point_power(PointProgram *p, int a, float b)
{
    if (b == 0)
        return point_constant(p, 1);
    if (b == 1)
        return a;
    if (b == 2)
        return point_put(p, step_of(POINT_SQUARE, false, a, -1, -1));
    if (b == 3)
        return point_step(p, POINT_MUL, point_power(p, a, 2), a, -1);
    if (b == 0.5f)
        return point_put(p, step_of(POINT_SQRT, false, a, -1, -1));
    if (b == -0.5f)
        return point_put(p, step_of(POINT_RSQRT, false, a, -1, -1));
    if (b == -1)
        return point_put(p, step_of(POINT_RECIPROCAL, false, a, -1, -1));
    return -1;
}

static bool commutes(PointOp op)
{
    return op == POINT_ADD || op == POINT_MUL || op == POINT_EQ || op == POINT_NE ||
           op == POINT_AND || op == POINT_OR || op == POINT_XOR;
}

static bool wants_bits(PointOp op) /* operands must be integers */
{
    return op == POINT_AND || op == POINT_OR || op == POINT_XOR || op == POINT_SHIFT_LEFT ||
           op == POINT_SHIFT_RIGHT;
}

/* Kinds of operands that an operation takes as they are: conversions are steps of their own. */
static bool takes_any_kind(PointOp op)
{
    return op == POINT_TO_F32 || op == POINT_TO_I32 || op == POINT_TO_TRUTH || op == POINT_DETACH;
}

static int point_unary(PointProgram *p, PointOp op, int a)
{
    bool integer = p->step[a].integer;
    if (op == POINT_NOT)
        return integer ? point_put(p, step_of(op, true, a, -1, -1))
                       : point_step(p, POINT_EQ, a, point_constant(p, 0), -1);
    if (integer && op == POINT_TO_I32)
        return a;
    if (integer && (op == POINT_IS_NAN || op == POINT_IS_INF))
        return point_integer(p, 0);
    char kind = op_infos[op].kind;
    if (integer && !takes_any_kind(op) && kind == 'f')
        a = point_to_float(p, a), integer = false;
    return point_put(p, step_of(op, kind == 'i' || (kind == 's' && integer), a, -1, -1));
}

static int point_binary(PointProgram *p, PointOp op, int a, int b)
{
    bool ia = p->step[a].integer, ib = p->step[b].integer;
    char kind = op_infos[op].kind;
    if (wants_bits(op)) {
        if (!ia || !ib) {
            p->wrong = "bits of floats are not to be combined; compare first";
            return 0;
        }
    } else if (ia != ib || kind == 'f') {
        a = point_to_float(p, a);
        b = point_to_float(p, b);
        ia = false;
    }
    const PointStep *exponent = &p->step[b];
    if (op == POINT_POW && exponent->op == POINT_CONSTANT) {
        int power = point_power(p, a, exponent->value.f);
        if (power >= 0)
            return power;
    }
    if (commutes(op) && a > b) {
        int first = a;
        a = b;
        b = first;
    }
    return point_put(p, step_of(op, kind == 'i' || (kind == 's' && ia), a, b, -1));
}

int point_step(PointProgram *p, PointOp op, int a, int b, int c)
{
    int n = (unsigned)op < POINT_OP_COUNT ? op_infos[op].operands : 0;
    if (n == 0) {
        p->wrong = "no operation of that number takes operands";
        return 0;
    }
    if (!point_ok(p, a) || (n > 1 && !point_ok(p, b)) || (n > 2 && !point_ok(p, c)))
        return 0;
    if (n == 1)
        return point_unary(p, op, a);
    if (n == 2)
        return point_binary(p, op, a, b);
    a = point_to_truth(p, a);
    if (p->step[b].integer != p->step[c].integer) {
        b = point_to_float(p, b);
        c = point_to_float(p, c);
    }
    return point_put(p, step_of(op, p->step[b].integer, a, b, c));
}

void point_reduce(PointProgram *p, int step, PointReduce how, uint32_t axes, float scale, Type type,
                  Shape shape)
{
    if (!point_ok(p, step))
        return;
    if (p->attr.n_results >= POINT_RESULTS) {
        p->full = true;
        return;
    }
    PointResult *r = &p->attr.result[p->attr.n_results++];
    r->step = (int16_t)step;
    r->reduce = (uint8_t)how;
    r->axes = axes;
    r->scale = scale;
    r->type = type;
    r->shape.rank = shape.rank;
    for (int i = 0; i < shape.rank; i++)
        r->shape.dim[i] = shape.dim[i];
}

void point_store(PointProgram *p, int step, Type type, Shape shape)
{
    point_reduce(p, step, POINT_STORED, 0, 1, type, shape);
}

/* Is operand i the outermost along the first axis, so that a slice of it is contiguous? */
static bool leads(const PointwiseAttr *p, int i, int axis)
{
    for (int a = 0; a < p->rank; a++)
        if (p->stride[i][a] > p->stride[i][axis])
            return false;
    return p->stride[i][axis] > 0;
}

static int leading_axis(const PointwiseAttr *p)
{
    int axis = 0;
    while (axis < p->rank && p->dim[axis] == 1)
        axis++;
    return axis < p->rank ? axis : -1;
}

/* Without the steps and operands that no result needs. Operand 0 is one that chunks can slice, if
 * there is one: the chunk rule begins with it. */
static void point_compact(const PointProgram *from, PointwiseAttr *to, PointStep *step, Tensor *in)
{
    const PointwiseAttr *p = &from->attr;
    bool                 live[POINT_STEPS_MAX] = { false }, used[POINT_INPUTS_MAX] = { false };
    int16_t              at[POINT_STEPS_MAX];
    int                  place[POINT_INPUTS_MAX], first = -1, axis = leading_axis(p);
    memset(to, 0, sizeof *to);
    to->step = step;
    to->rank = p->rank;
    memcpy(to->dim, p->dim, sizeof to->dim);
    to->n_results = p->n_results;
    memcpy(to->result, p->result, sizeof to->result);
    for (int i = 0; i < p->n_results; i++)
        live[p->result[i].step] = true;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const PointStep *s = &from->step[i];
        int              n = op_infos[s->op].operands;
        if (!live[i])
            continue;
        if (s->op == POINT_INPUT)
            used[s->a] = true;
        if (n > 0)
            live[s->a] = true;
        if (n > 1)
            live[s->b] = true;
        if (n > 2)
            live[s->c] = true;
    }
    for (int i = 0; i < p->n_in; i++)
        if (used[i] && axis >= 0 && leads(p, i, axis) && first < 0)
            first = i;
    for (int i = 0; i < p->n_in && first < 0; i++)
        first = used[i] ? i : first;
    if (first < 0)
        first = 0, used[0] = true; /* constants alone: a node has an operand all the same */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->n_in; i++)
            if (used[i] && (i == first) == !pass) {
                place[i] = to->n_in;
                in[to->n_in] = from->in[i];
                memcpy(to->stride[to->n_in++], p->stride[i], sizeof *to->stride);
            }
    for (int i = 0; i < p->n_steps; i++) {
        if (!live[i])
            continue;
        PointStep s = from->step[i];
        int       n = op_infos[s.op].operands;
        if (s.op == POINT_INPUT)
            s.a = (int16_t)place[s.a];
        if (n > 0)
            s.a = at[s.a];
        if (n > 1)
            s.b = at[s.b];
        if (n > 2)
            s.c = at[s.c];
        at[i] = (int16_t)to->n_steps;
        step[to->n_steps++] = s;
    }
    for (int i = 0; i < to->n_results; i++)
        to->result[i].step = at[to->result[i].step];
}

Tensor point_end(const PointProgram *p, Tensor *out)
{
    PointwiseAttr attr;
    Tensor        in[POINT_INPUTS_MAX], poisoned = { p->graph, TENSOR_POISONED };
    bool          bad = !p->graph || p->full || p->wrong || !p->attr.n_results;
    for (int i = 0; i < p->attr.n_in; i++)
        bad |= !tensor_ok(p->in[i]);
    if (!bad) {
        PointStep step[POINT_STEPS_MAX];
        point_compact(p, &attr, step, in);
        return pointwise(&attr, in, out);
    }
    for (int i = 0; out && i < p->attr.n_results; i++)
        out[i] = poisoned;
    if (!p->graph)
        return poisoned;
    if (p->full)
        return graph_poison(p->graph, E_SHAPE,
                            "pointwise: the program has more than %d steps, %d operands or %d "
                            "results; make it two",
                            p->max_steps, p->max_inputs, POINT_RESULTS);
    if (p->wrong || !p->attr.n_results)
        return graph_poison(p->graph, E_SHAPE, "pointwise: %s",
                            p->wrong ? p->wrong : "the program has no result");
    return poisoned; /* of an operand, whose cause is known */
}

/* A program whose unused bytes are zero, whoever made it; its steps live as long as the graph. */
static void point_clean(Pool *pool, PointwiseAttr *to, const PointwiseAttr *from)
{
    PointStep *step = NEWN(pool, PointStep, from->n_steps);
    memset(to, 0, sizeof *to);
    to->rank = from->rank;
    to->n_in = from->n_in;
    to->n_results = from->n_results;
    to->n_steps = from->n_steps;
    for (int a = 0; a < from->rank && a < POINT_RANK; a++)
        to->dim[a] = from->dim[a];
    for (int i = 0; i < from->n_in && i < POINT_INPUTS_MAX; i++)
        for (int a = 0; a < from->rank && a < POINT_RANK; a++)
            to->stride[i][a] = from->dim[a] > 1 ? from->stride[i][a] : 0;
    for (int i = 0; i < from->n_results && i < POINT_RESULTS; i++) {
        const PointResult *r = &from->result[i];
        PointResult       *t = &to->result[i];
        t->step = r->step;
        t->reduce = r->reduce;
        t->axes = r->axes;
        t->scale = r->scale;
        t->type = r->type;
        t->shape.rank = r->shape.rank;
        for (int a = 0; a < r->shape.rank && a < MAX_RANK; a++)
            t->shape.dim[a] = r->shape.dim[a];
    }
    memcpy(step, from->step, (size_t)from->n_steps * sizeof *step);
    to->step = step;
}

Tensor pointwise(const PointwiseAttr *program, const Tensor *in, Tensor *out)
{
    PointwiseAttr attr;
    Tensor        all[POINT_RESULTS];
    if (program->n_in < 1 || program->n_in > POINT_INPUTS_MAX || program->n_results < 1 ||
        program->n_results > POINT_RESULTS || program->n_steps < 1 ||
        program->n_steps > POINT_STEPS_MAX || program->rank < 0 || program->rank > POINT_RANK)
        return graph_poison(in[0].graph, E_SHAPE,
                            "pointwise: a program of %d operands, %d results, %d steps and %d axes "
                            "is outside the limits",
                            program->n_in, program->n_results, program->n_steps, program->rank);
    point_clean(in[0].graph->pool, &attr, program);
    Tensor y = node_add(in[0].graph, &op_pointwise, &attr, in, attr.n_in, all);
    for (int i = 0; out && i < program->n_results; i++)
        out[i] = tensor_ok(y) ? all[i] : y;
    return y;
}

/* ---- checking ---- */

/* Reads of step `at`: earlier steps of the right kind. */
static Err check_step(const PointwiseAttr *p, const Node *n, int at)
{
    const PointStep *s = &p->step[at];
    if (s->op >= POINT_OP_COUNT)
        return fail(E_SHAPE, "pointwise: step %d has no operation (%d)", at, s->op);
    const PointOpInfo *info = &op_infos[s->op];
    int                reads[] = { s->a, s->b, s->c };
    if (s->op == POINT_INPUT) {
        if (s->a < 0 || s->a >= p->n_in)
            return fail(E_SHAPE, "pointwise: step %d reads operand %d of %d", at, s->a, p->n_in);
        if (s->integer == type_is_float(in_type(n, s->a)))
            return fail(E_SHAPE, "pointwise: step %d takes operand %d for %s, but it is %s", at,
                        s->a, s->integer ? "integers" : "floats", type_name(in_type(n, s->a)));
        return OK;
    }
    bool integer[3] = { false };
    for (int i = 0; i < info->operands; i++) {
        if (reads[i] < 0 || reads[i] >= at)
            return fail(E_SHAPE, "pointwise: step %d (%s) reads step %d, which is not before it",
                        at, info->name, reads[i]);
        integer[i] = p->step[reads[i]].integer;
    }
    bool want = info->kind == 'i' || (info->kind == 's' && integer[s->op == POINT_SELECT]);
    if (s->op != POINT_CONSTANT && s->integer != want)
        return fail(E_SHAPE, "pointwise: step %d (%s) gives %s, not %s", at, info->name,
                    want ? "integers" : "floats", want ? "floats" : "integers");
    bool fits = true;
    if (s->op == POINT_SELECT)
        fits = integer[0] && integer[1] == integer[2];
    else if (wants_bits(s->op) || s->op == POINT_NOT)
        fits = integer[0] && (info->operands < 2 || integer[1]);
    else if (info->operands == 2)
        fits = integer[0] == integer[1] && (info->kind != 'f' || !integer[0]);
    else if (info->operands == 1 && !takes_any_kind(s->op))
        fits = info->kind == 's' || !integer[0];
    if (!fits)
        return fail(E_SHAPE, "pointwise: step %d (%s) has operands of the wrong kind", at,
                    info->name);
    return OK;
}

static const char *space_text(const PointwiseAttr *p) /* as a shape, if it has not too many axes */
{
    return p->rank <= MAX_RANK ? shape_text(shape_of(p->dim, p->rank)) : "more than six axes";
}

/* An operand is a whole tensor: along the axes that are not repeated, its strides are those of a
 * permutation. */
static Err check_operand(const PointwiseAttr *p, const Node *n, int i)
{
    int64_t count = shape_count(in_shape(n, i)), seen = 1;
    bool    done[POINT_RANK] = { false };
    for (int round = 0; round < p->rank; round++) {
        int next = -1;
        for (int a = 0; a < p->rank; a++) {
            if (p->stride[i][a] < 0)
                return fail(E_SHAPE, "pointwise: operand %d has a stride of %lld", i,
                            (long long)p->stride[i][a]);
            if (!done[a] && p->stride[i][a] > 0 &&
                (next < 0 || p->stride[i][a] < p->stride[i][next]))
                next = a;
        }
        if (next < 0 || seen < 0)
            break;
        done[next] = true;
        seen = p->stride[i][next] == seen && seen <= count ? seen * p->dim[next] : -1;
    }
    if (seen != count)
        return fail(E_SHAPE,
                    "pointwise: the strides of operand %d over %s do not show each element of %s; "
                    "give a whole tensor, permuted or repeated",
                    i, space_text(p), shape_text(in_shape(n, i)));
    return OK;
}

static Err check_result(const PointwiseAttr *p, int64_t points, int i)
{
    const PointResult *r = &p->result[i];
    if (r->step < 0 || r->step >= p->n_steps)
        return fail(E_SHAPE, "pointwise: result %d is step %d of %d", i, r->step, p->n_steps);
    bool integer = p->step[r->step].integer;
    if (r->reduce > POINT_AMIN || (r->reduce == POINT_STORED && r->axes) || r->axes >> p->rank)
        return fail(E_SHAPE, "pointwise: result %d is reduced over axes that the space has not", i);
    if (r->type >= TYPE_COUNT || integer == (bool)type_is_float(r->type) ||
        (integer && r->reduce == POINT_SUM && r->type != I32))
        return fail(E_SHAPE, "pointwise: result %d, of %s, cannot be stored as %s", i,
                    integer ? "integers" : "floats",
                    r->type < TYPE_COUNT ? type_name(r->type) : "that");
    if (!isfinite(r->scale) || ((r->reduce != POINT_SUM || integer) && r->scale != 1))
        return fail(E_SHAPE, "pointwise: result %d cannot be scaled by %g", i, (double)r->scale);
    for (int a = 0; a < p->rank; a++)
        if (r->axes >> a & 1)
            points /= p->dim[a];
    if (r->shape.rank < 0 || r->shape.rank > MAX_RANK || !shape_filled(r->shape) ||
        shape_count(r->shape) != points)
        return fail(E_SHAPE, "pointwise: result %d has %lld elements and cannot be %s", i,
                    (long long)points,
                    r->shape.rank >= 0 && r->shape.rank <= MAX_RANK ? shape_text(r->shape)
                                                                    : "of that rank");
    return OK;
}

static Err pointwise_shape(Node *n)
{
    const PointwiseAttr *p = ATTR(n, PointwiseAttr);
    int64_t              points = 1;
    for (int a = 0; a < p->rank; a++)
        if (p->dim[a] < 1 || __builtin_mul_overflow(points, p->dim[a], &points))
            return fail(E_SHAPE, "pointwise: a space cannot have the extents %s", space_text(p));
    if (p->n_in != n->n_in)
        return fail(E_SHAPE, "pointwise: the program has %d operands, but %d were given", p->n_in,
                    n->n_in);
    for (int i = 0; i < p->n_in; i++)
        TRY(check_operand(p, n, i));
    for (int i = 0; i < p->n_steps; i++)
        TRY(check_step(p, n, i));
    for (int i = 0; i < p->n_results; i++)
        TRY(check_result(p, points, i));
    for (int i = 0; i < p->n_results; i++)
        out_set(n, i, p->result[i].type, p->result[i].shape);
    return OK;
}

/* ---- cost, in place, chunks ---- */

static Cost pointwise_cost(const Node *n)
{
    const PointwiseAttr *p = ATTR(n, PointwiseAttr);
    double               flops = 0;
    for (int i = 0; i < p->n_steps; i++)
        flops += op_flops(p->step[i].op);
    for (int i = 0; i < p->n_results; i++)
        flops += p->result[i].reduce != POINT_STORED;
    return (Cost){ .flops = (flops > 1 ? flops : 1) * (double)point_count(p),
                   .bytes = node_bytes(n) };
}

/* Result 0 is stored at the same place as the operand: each point is read before it is written. */
static bool pointwise_may_take(const Node *n, int input)
{
    const PointwiseAttr *p = ATTR(n, PointwiseAttr);
    int64_t              stride = 1;
    if (p->result[0].reduce != POINT_STORED || in_type(n, input) != p->result[0].type)
        return false;
    for (int a = p->rank - 1; a >= 0; a--) {
        if (p->dim[a] > 1 && p->stride[input][a] != stride)
            return false;
        stride *= p->dim[a];
    }
    return true;
}

/* Along the first axis, where every result has it outermost. Operands that have it outermost too
 * are sliced; those that are repeated along it are given whole. */
static bool pointwise_chunk(const ChunkCall *c)
{
    PointwiseAttr *p = c->attr;
    int            axis = leading_axis(p);
    if (axis < 0 || p->dim[axis] % c->n || !leads(p, 0, axis))
        return false;
    for (int i = 0; i < p->n_in; i++) {
        if (p->stride[i][axis] == 0)
            continue;
        if (!leads(p, i, axis) || !chunk_divides(in_shape(c->node, i), c->n))
            return false;
        *c->inputs |= INPUT(i);
    }
    for (int i = 0; i < p->n_results; i++) {
        PointResult *r = &p->result[i];
        if (r->axes >> axis & 1 || !chunk_divides(r->shape, c->n))
            return false;
        r->shape = chunk_shape(r->shape, c->n);
    }
    p->dim[axis] /= c->n;
    if (p->dim[axis] == 1)
        for (int i = 0; i < p->n_in; i++)
            p->stride[i][axis] = 0;
    return true;
}

OPERATOR(pointwise, .doc = "an elementwise program, and sums of its results",
         .chunk = { CHUNK_CUSTOM, INPUT(0), pointwise_chunk }, .attr_bytes = sizeof(PointwiseAttr),
         .n_in = -1, .n_out = POINT_RESULTS, .may_take = pointwise_may_take,
         .shape = pointwise_shape, .grad = pointwise_rule, .cost = pointwise_cost,
         .cpu = { .choose = pointwise_choose_cpu,
                  .prepare = pointwise_prepare_cpu,
                  .run = pointwise_cpu })
