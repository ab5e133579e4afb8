/* linear.c -- rules of the linear layer. */
#include "ops/linear/linear.h"

#include "ops/elementwise/basic.h"
#include "ops/operator.h"

static int64_t linear_out(const Node *n, int w) /* width of y; w: the weight's input */
{
    return dim(in_shape(n, w), ATTR(n, LinearAttr)->in_out ? 1 : 0);
}

static int64_t linear_in(const Node *n, int w)
{
    return dim(in_shape(n, w), ATTR(n, LinearAttr)->in_out ? 0 : 1);
}

/* in: x w bias [summand] */
static Err linear_shape(Node *n)
{
    Shape x = in_shape(n, 0), w = in_shape(n, 1);
    if (x.rank < 1 || w.rank != 2 || linear_in(n, 1) != dim(x, -1))
        return fail(E_SHAPE, "linear: weight %s does not take the last axis of %s", shape_text(w),
                    shape_text(x));
    if (in_type(n, 0) != in_type(n, 1))
        return fail(E_SHAPE, "linear: input is %s, weight %s", type_name(in_type(n, 0)),
                    type_name(in_type(n, 1)));
    if (in_given(n, 2) && shape_count(in_shape(n, 2)) != linear_out(n, 1))
        return fail(E_SHAPE, "linear: bias %s does not match %lld outputs",
                    shape_text(in_shape(n, 2)), (long long)linear_out(n, 1));
    Shape y = shape_with(x, -1, linear_out(n, 1));
    if (in_given(n, 3) && (in_type(n, 3) != in_type(n, 0) || !shape_same(in_shape(n, 3), y)))
        return fail(E_SHAPE, "linear: %s %s cannot be added to %s %s", type_name(in_type(n, 0)),
                    shape_text(y), type_name(in_type(n, 3)), shape_text(in_shape(n, 3)));
    out_set(n, 0, in_type(n, 0), y);
    return OK;
}

/* Input 0 has a row per dot product; the other width comes from input 1. */
static Cost linear_cost(const Node *n)
{
    double other = n->op == &op_linear_grad_w
                       ? (double)dim(in_shape(n, 1), -1)
                       : (double)shape_count(in_shape(n, 1)) / (double)dim(in_shape(n, 0), -1);
    return (Cost){ .flops = 2 * in_count(n, 0) * other, .bytes = node_bytes(n) };
}

static void linear_grad(Grad *g)
{
    LinearAttr attr = *ATTR(g->node, LinearAttr);
    Tensor     x = grad_in(g, 0), w = grad_in(g, 1), dy = grad_dy(g, 0);
    bias_give(g, 2, dy);
    if (g->node->n_in > 3)
        grad_give(g, 3, dy);
    if (grad_wants(g, 1)) /* before dx, so that x can be freed early */
        grad_give_sum(g, 1,
                      node_add(g->graph, &op_linear_grad_w, &attr,
                               TENSORS(x, dy, grad_so_far(g, 1, F32)), NULL));
    if (grad_wants(g, 0)) {
        Tensor in[] = { dy, w, grad_so_far(g, 0, tensor_type(dy)) };
        grad_give_sum(
            g, 0, node_add(g->graph, &op_linear_grad_x, &attr, in, tensor_ok(in[2]) ? 3 : 2, NULL));
    }
}

OPERATOR(linear, .doc = "y = x W + b over the last axis, optionally added to a summand",
         .chunk = { CHUNK_ROWS, INPUT(0) | INPUT(3) }, .attr_bytes = sizeof(LinearAttr), .n_in = -3,
         .n_out = 1, .shape = linear_shape, .grad = linear_grad, .cost = linear_cost,
         .cpu = { linear_choose_linalg, linear_prepare_linalg, linear_cpu })

/* in: dy w [the sum so far]; out: dx, added to that sum */
static Err linear_grad_x_shape(Node *n)
{
    Shape dx = shape_with(in_shape(n, 0), -1, linear_in(n, 1));
    if (in_given(n, 2) && (in_type(n, 2) != in_type(n, 0) || !shape_same(in_shape(n, 2), dx)))
        return fail(E_SHAPE, "linear_grad_x: a sum of %s %s cannot take a gradient of %s %s",
                    type_name(in_type(n, 2)), shape_text(in_shape(n, 2)), type_name(in_type(n, 0)),
                    shape_text(dx));
    out_set(n, 0, in_type(n, 0), dx);
    return OK;
}

OPERATOR_INTERNAL(linear_grad_x, .doc = "dx = dy W^T, added to the sum so far",
                  .attr_bytes = sizeof(LinearAttr), .n_in = -2, .n_out = 1,
                  .inplace = IN_PLACE_OF(2), .shape = linear_grad_x_shape, .cost = linear_cost,
                  .cpu = { linear_choose_linalg, linear_prepare_linalg, linear_grad_x_cpu })

/* in: x dy, and the sum so far or none; out: dW, added to that sum */
static Err linear_grad_w_shape(Node *n)
{
    int64_t in = dim(in_shape(n, 0), -1), out = dim(in_shape(n, 1), -1);
    bool    in_out = ATTR(n, LinearAttr)->in_out;
    out_set(n, 0, F32, in_out ? SHAPE(in, out) : SHAPE(out, in));
    return OK;
}

OPERATOR_INTERNAL(linear_grad_w,
                  .doc = "dW = x^T dy, summed over all rows, fp32, added to the sum so far",
                  .attr_bytes = sizeof(LinearAttr), .n_in = 3, .n_out = 1,
                  .inplace = IN_PLACE_OF(2), .shape = linear_grad_w_shape, .cost = linear_cost,
                  .cpu = { linear_choose_linalg, linear_prepare_linalg, linear_grad_w_cpu })

Tensor linear_op(Tensor x, Tensor w, Tensor bias, LinearAttr attr)
{
    if (tensor_ok(x) && tensor_ok(w))
        x = cast(x, tensor_type(w));
    return node_add(x.graph, &op_linear, &attr, TENSORS(x, w, bias), NULL);
}

Tensor linear_onto(Tensor x, Tensor w, Tensor bias, Tensor onto, LinearAttr attr)
{
    if (!tensor_ok(x) || !tensor_ok(w) || !tensor_ok(onto) || tensor_type(onto) != tensor_type(w))
        return add(onto, linear_op(x, w, bias, attr));
    return node_add(x.graph, &op_linear, &attr, TENSORS(cast(x, tensor_type(w)), w, bias, onto),
                    NULL);
}

/* in: dy, and the sum so far or none */
static Err bias_grad_shape(Node *n)
{
    out_set(n, 0, F32, SHAPE(dim(in_shape(n, 0), -1)));
    return OK;
}

static Cost bias_grad_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR_INTERNAL(bias_grad, .doc = "sum over all axes but the last, fp32, added to the sum so far",
                  .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(1), .shape = bias_grad_shape,
                  .cost = bias_grad_cost, .cpu = { bias_grad_choose_cpu, NULL, bias_grad_cpu })

void bias_give(Grad *g, int i, Tensor dy)
{
    Tensor before = grad_so_far(g, i, F32);
    if (!grad_wants(g, i))
        return;
    dy = node_partial_sums(dy);
    Shape shape = tensor_shape(grad_in(g, i));
    if (shape.rank == 1)
        grad_give_sum(g, i, node_add(g->graph, &op_bias_grad, NULL, TENSORS(dy, before), NULL));
    else /* another shape: reshaped after the sum */
        grad_give(g, i,
                  reshape(node_add(g->graph, &op_bias_grad, NULL,
                                   TENSORS(dy, tensor_none(g->graph)), NULL),
                          shape));
}
