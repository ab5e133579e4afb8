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
#include "ops/pointwise/point_trace.h"
#include "ops/reduce/rows.h"

#include <math.h>
#include <string.h>

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
