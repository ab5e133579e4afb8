/* inverse.c -- inverses and determinants: rules. */
#include "ops/matmul/inverse.h"

#include "ops/elementwise/basic.h"
#include "ops/matmul/matmul.h"
#include "ops/operator.h"

static Err inverse_shape(Node *n)
{
    Shape x = in_shape(n, 0);
    if (x.rank != 3 || x.dim[1] != x.dim[2] || in_type(n, 0) != F32)
        return fail(E_SHAPE, "inverse: %s %s is not f32 (B,N,N)", type_name(in_type(n, 0)),
                    shape_text(x));
    out_set(n, 0, F32, x);
    out_set(n, 1, F32, SHAPE(x.dim[0]));
    out_set(n, 2, F32, SHAPE(x.dim[0]));
    return OK;
}

static MatmulAttr product_of(Shape s, bool a_transposed, bool b_transposed, float alpha)
{
    int64_t    n = s.dim[1];
    MatmulSide side = { { n * n }, n, 0 };
    return (MatmulAttr){ .m = n,
                         .n = n,
                         .k = n,
                         .a_transposed = a_transposed,
                         .b_transposed = b_transposed,
                         .batch_rank = 1,
                         .batch = { s.dim[0] },
                         .a = side,
                         .b = side,
                         .out = side,
                         .alpha = alpha,
                         .shape = s,
                         .type = F32 };
}

/* y = inverse(x): dx = -y^T dy y^T, and of log|det x| y^T. */
static void inverse_rule(Grad *g)
{
    Tensor y = grad_out(g, 0), dx = tensor_none(g->graph);
    Shape  s = tensor_shape(y);
    if (tensor_ok(grad_dy(g, 0))) {
        Tensor half = matmul_op(y, grad_dy(g, 0), product_of(s, true, false, -1));
        dx = matmul_op(half, y, product_of(s, false, true, 1));
    }
    if (tensor_ok(grad_dy(g, 1))) {
        Tensor d = node_add(g->graph, &op_log_det_grad, NULL, TENSORS(y, grad_dy(g, 1)), NULL);
        dx = tensor_ok(dx) ? add(dx, d) : d;
    }
    if (tensor_ok(dx))
        grad_give(g, 0, dx);
}

static Cost inverse_cost(const Node *n)
{
    return (Cost){ .flops = 2 * in_count(n, 0) * (double)in_shape(n, 0).dim[1],
                   .bytes = node_bytes(n) };
}

OPERATOR(inverse, .doc = "inverses of square matrices, and their determinants",
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .n_in = 1, .n_out = 3, .shape = inverse_shape,
         .grad = inverse_rule, .cost = inverse_cost,
         .cpu = { .choose = inverse_choose_cpu, .run = inverse_cpu })

static Err log_det_grad_shape(Node *n) /* in: y, dlog */
{
    out_set(n, 0, F32, in_shape(n, 0));
    return OK;
}

static Cost log_det_grad_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR_INTERNAL(log_det_grad, .doc = "inverses, transposed, times the gradients of log|det|",
                  .n_in = 2, .n_out = 1, .shape = log_det_grad_shape, .cost = log_det_grad_cost,
                  .cpu = { .run = log_det_grad_cpu })

Tensor inverse(Tensor x, Tensor *log_abs, Tensor *sign)
{
    Tensor out[3];
    node_add(x.graph, &op_inverse, NULL, TENSORS(x), out);
    if (log_abs)
        *log_abs = out[1];
    if (sign)
        *sign = out[2];
    return out[0];
}
