/* max_pool2d.c -- max pooling: rules. */
#include "ops/resample/max_pool2d.h"

#include "ops/operator.h"

static Err max_pool2d_shape(Node *n)
{
    Shape x = in_shape(n, 0);
    if (x.rank != 4 || x.dim[1] < 2 || x.dim[2] < 2 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE,
                    "max_pool2d: the input must be floats (N,H,W,C), at least 2x2, not %s %s",
                    type_name(in_type(n, 0)), shape_text(x));
    out_set(n, 0, in_type(n, 0), SHAPE(x.dim[0], x.dim[1] / 2, x.dim[2] / 2, x.dim[3]));
    return OK;
}

/* Reads the input and finds the maximum again. An index map would take only a sixteenth of the
 * input's bytes, but the input is nearly always kept anyway: it is the output of a ReLU, whose
 * gradient reads it. */
static void max_pool2d_grad(Grad *g)
{
    grad_give(
        g, 0,
        node_add(g->graph, &op_max_pool2d_grad, NULL, TENSORS(grad_in(g, 0), grad_dy(g, 0)), NULL));
}

static Cost pool_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR(max_pool2d, .doc = "the largest of each 2x2 cell", .chunk = { CHUNK_SAMPLES, INPUT(0) },
         .n_in = 1, .n_out = 1, .shape = max_pool2d_shape, .grad = max_pool2d_grad,
         .cost = pool_cost, .cpu = { .run = max_pool2d_cpu })

/* in: x dy; out: dx */
static Err max_pool2d_grad_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

OPERATOR_INTERNAL(max_pool2d_grad, .doc = "gradient of max_pool2d: to the first of the largest",
                  .n_in = 2, .n_out = 1, .shape = max_pool2d_grad_shape, .cost = pool_cost,
                  .cpu = { .run = max_pool2d_grad_cpu })

Tensor max_pool2d(Tensor x) { return node_add(x.graph, &op_max_pool2d, NULL, TENSORS(x), NULL); }
