/* s4_carry.c -- S4 states between chunks: shapes, gradient, cost, builders. */
#include "ops/s4/s4_carry.h"

#include "ops/operator.h"

/* Checks the inputs that both operators have; b < 0: there is no B. */
static Err carry_check(const Node *n, const char *op, int inv_dt, int b, int a_real)
{
    Shape x = in_shape(n, 0);
    if (x.rank != 4 || x.dim[3] != 2)
        return fail(E_SHAPE, "%s: the state must be (B,H,N,2), not %s", op, shape_text(x));
    const struct {
        int         at;
        Shape       want;
        const char *name;
    } list[] = {
        { 1, SHAPE(x.dim[0], 1), "keep" },
        { inv_dt, SHAPE(x.dim[1], 1), "inv_dt" },
        { b, SHAPE(1, 1, x.dim[2], 2), "B" },
        { a_real, SHAPE(1, x.dim[2]), "A_real" },
        { a_real + 1, SHAPE(1, x.dim[2]), "A_imag" },
        { a_real + 2, SHAPE(1, 1, x.dim[2], 2), "P" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].at >= 0 &&
            (!shape_same(in_shape(n, list[i].at), list[i].want) || in_type(n, list[i].at) != F32))
            return fail(E_SHAPE, "%s: with state %s, %s must be f32 %s, not %s %s", op,
                        shape_text(x), list[i].name, shape_text(list[i].want),
                        type_name(in_type(n, list[i].at)), shape_text(in_shape(n, list[i].at)));
    return in_type(n, 0) == F32
               ? OK
               : fail(E_SHAPE, "%s: the state is %s; it must be f32 in every precision", op,
                      type_name(in_type(n, 0)));
}

static Err s4_begin_shape(Node *n)
{
    TRY(carry_check(n, "s4_begin", S4_BEGIN_INV_DT, -1, S4_BEGIN_A_REAL));
    Shape x = in_shape(n, 0);
    out_set(n, 0, F32, SHAPE(1, x.dim[0] * x.dim[1], x.dim[2], 2));
    out_set(n, 1, F32, x);
    return OK;
}

static Cost s4_begin_cost(const Node *n)
{
    return (Cost){ .flops = 10 * in_count(n, 0), .bytes = node_bytes(n) };
}

static void s4_begin_grad(Grad *g)
{
    S4BeginAttr attr = { { false } };
    Tensor      d[S4_BEGIN_INPUTS];
    for (int i = S4_BEGIN_INV_DT; i < S4_BEGIN_INPUTS; i++) /* the state is a constant */
        attr.wants[i] = grad_wants(g, i);
    node_add(g->graph, &op_s4_begin_grad, &attr,
             TENSORS(grad_out(g, 1), tensor_none(g->graph), grad_in(g, 2), grad_in(g, 3),
                     grad_in(g, 4), grad_in(g, 5), grad_dy(g, 0)),
             d);
    for (int i = S4_BEGIN_INV_DT; i < S4_BEGIN_INPUTS; i++)
        grad_give(g, i, d[i]);
}

OPERATOR(s4_begin, .doc = "the B whose kernel is the response of an S4 layer to its state",
         .attr_bytes = sizeof(S4BeginAttr), .n_in = S4_BEGIN_INPUTS, .n_out = 2,
         .shape = s4_begin_shape, .grad = s4_begin_grad, .cost = s4_begin_cost,
         .cpu = { .run = s4_begin_cpu })

/* in: as s4_begin, but the state as it was used and no keep, then the gradient of the output; out:
 * the gradients that are wanted, at the indices of the inputs */
static Err s4_begin_grad_shape(Node *n)
{
    for (int i = S4_BEGIN_INV_DT; i < S4_BEGIN_INPUTS; i++)
        if (ATTR(n, S4BeginAttr)->wants[i])
            out_set(n, i, F32, in_shape(n, i));
    return OK;
}

OPERATOR_INTERNAL(s4_begin_grad, .doc = "gradients of s4_begin", .attr_bytes = sizeof(S4BeginAttr),
                  .n_in = S4_BEGIN_INPUTS + 1, .n_out = S4_BEGIN_INPUTS,
                  .shape = s4_begin_grad_shape, .cost = s4_begin_cost,
                  .cpu = { .choose = s4_begin_grad_choose_cpu, .run = s4_begin_grad_cpu })

static Err s4_end_shape(Node *n)
{
    TRY(carry_check(n, "s4_end", S4_END_INV_DT, S4_END_B, S4_END_A_REAL));
    Shape x = in_shape(n, 0), u = in_shape(n, S4_END_U);
    if (u.rank != 3 || u.dim[0] != x.dim[0] || u.dim[2] != x.dim[1] ||
        !type_is_float(in_type(n, S4_END_U)))
        return fail(E_SHAPE, "s4_end: with state %s the input must be (%lld,L,%lld), not %s",
                    shape_text(x), (long long)x.dim[0], (long long)x.dim[1], shape_text(u));
    out_is_input(n, 0, 0);
    return OK;
}

static Cost s4_end_cost(const Node *n)
{
    double pairs = (double)in_shape(n, 0).dim[2];
    return (Cost){ .flops = 18 * pairs * in_count(n, S4_END_U), .bytes = node_bytes(n) };
}

OPERATOR(s4_end, .doc = "an S4 state after a chunk of input", .n_in = S4_END_P + 1, .n_out = 1,
         .once = true, .shape = s4_end_shape, .cost = s4_end_cost,
         .cpu = { .choose = s4_end_choose_cpu, .run = s4_end_cpu })

Tensor s4_begin(Tensor state, Tensor keep, Tensor inv_dt, Tensor a_real, Tensor a_imag, Tensor p)
{
    return node_add(state.graph, &op_s4_begin, &(S4BeginAttr){ { false } },
                    TENSORS(state, keep, inv_dt, a_real, a_imag, p), NULL);
}

void s4_end(Tensor state, Tensor keep, Tensor u, Tensor inv_dt, Tensor b, Tensor a_real,
            Tensor a_imag, Tensor p)
{
    node_add(state.graph, &op_s4_end, NULL, TENSORS(state, keep, u, inv_dt, b, a_real, a_imag, p),
             NULL);
}
