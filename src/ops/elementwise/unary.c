/* unary.c -- functions of one number: rules. */
#include "ops/elementwise/unary.h"

#include "ops/linear/column_sums.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

#include <math.h>

static Err unary_shape(Node *n)
{
    if (!rows_float(n, n->n_in))
        return fail(E_SHAPE, "%s: the input must be floats, not %s", n->op->name,
                    type_name(in_type(n, 0)));
    out_set(n, 0, in_type(n, n->n_in - 1), in_shape(n, 0)); /* a gradient has dy's type */
    return OK;
}

static void unary_grad(Grad *g, const OpDef *op, UnaryReads reads)
{
    Tensor kept = reads == READS_OUTPUT ? grad_out(g, 0) : grad_in(g, 0);
    grad_give(g, 0, node_add(g->graph, op, NULL, TENSORS(kept, grad_dy(g, 0)), NULL));
}

static Cost unary_cost(const Node *n, double flops)
{
    flops += n->n_out > n->op->n_out; /* partial column sums: one addition more */
    return (Cost){ .flops = flops * in_count(n, 0), .bytes = node_bytes(n) };
}

static int64_t unary_partial_sums(const Node *n) { return col_sums_count(out_shape(n, 0)); }

#define X(fn, reads, flops)                                                                        \
    static void fn##_rule(Grad *g) { unary_grad(g, &op_##fn##_grad, reads); }                      \
    static Cost fn##_cost(const Node *n) { return unary_cost(n, flops); }
UNARY_LIST(X)
#undef X

#define UNARY(fn)                                                                                  \
    .n_in = 1, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = unary_shape, .grad = fn##_rule,     \
    .cost = fn##_cost, .cpu = { .run = fn##_cpu }, .chunk = { CHUNK_ELEMENTS, ALL_INPUTS }
#define UNARY_GRAD(fn)                                                                             \
    .doc = "gradient of " #fn, .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(1),                   \
    .shape = unary_shape, .cost = fn##_cost, .cpu = { .run = fn##_grad_cpu },                      \
    .partial_sums = unary_partial_sums

OPERATOR(silu, .doc = "x sigmoid(x)", UNARY(silu))
OPERATOR(relu, .doc = "max(x, 0)", UNARY(relu))
OPERATOR(tanh, .doc = "hyperbolic tangent", UNARY(tanh))
OPERATOR(sigmoid, .doc = "1 / (1 + exp(-x))", UNARY(sigmoid))
OPERATOR(gelu, .doc = "x Phi(x), exact", UNARY(gelu))
OPERATOR(gelu_tanh, .doc = "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2", UNARY(gelu_tanh))
OPERATOR(softplus, .doc = "log(1 + exp(x))", UNARY(softplus))
OPERATOR(exp, .doc = "exp(x)", UNARY(exp))
OPERATOR_INTERNAL(silu_grad, UNARY_GRAD(silu))
OPERATOR_INTERNAL(relu_grad, UNARY_GRAD(relu))
OPERATOR_INTERNAL(tanh_grad, UNARY_GRAD(tanh))
OPERATOR_INTERNAL(sigmoid_grad, UNARY_GRAD(sigmoid))
OPERATOR_INTERNAL(gelu_grad, UNARY_GRAD(gelu))
OPERATOR_INTERNAL(gelu_tanh_grad, UNARY_GRAD(gelu_tanh))
OPERATOR_INTERNAL(softplus_grad, UNARY_GRAD(softplus))
OPERATOR_INTERNAL(exp_grad, UNARY_GRAD(exp))

static Tensor unary(const OpDef *op, Tensor x)
{
    return node_add(x.graph, op, NULL, TENSORS(x), NULL);
}

/* clang-format off */
Tensor silu(Tensor x)      { return unary(&op_silu, x); }
Tensor relu(Tensor x)      { return unary(&op_relu, x); }
Tensor tanh_of(Tensor x)   { return unary(&op_tanh, x); }
Tensor sigmoid(Tensor x)   { return unary(&op_sigmoid, x); }
Tensor gelu(Tensor x)      { return unary(&op_gelu, x); }
Tensor gelu_tanh(Tensor x) { return unary(&op_gelu_tanh, x); }
Tensor softplus(Tensor x)  { return unary(&op_softplus, x); }
Tensor exp_of(Tensor x)    { return unary(&op_exp, x); }
/* clang-format on */

static void affine_rule(Grad *g)
{
    grad_give(g, 0, affine(grad_dy(g, 0), ATTR(g->node, AffineAttr)->scale, 0));
}

static Cost affine_cost(const Node *n) { return unary_cost(n, 2); }

OPERATOR(affine, .doc = "scale x + offset, both fixed numbers",
         .chunk = { CHUNK_ELEMENTS, ALL_INPUTS }, .attr_bytes = sizeof(AffineAttr), .n_in = 1,
         .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = unary_shape, .grad = affine_rule,
         .cost = affine_cost, .cpu = { .run = affine_cpu })

Tensor affine(Tensor x, float scale, float offset)
{
    if (!isfinite(scale) || !isfinite(offset))
        return graph_poison(x.graph, E_SHAPE, "affine: %g x + %g is not finite", (double)scale,
                            (double)offset);
    if (scale == 1 && offset == 0)
        return x;
    return node_add(x.graph, &op_affine, &(AffineAttr){ scale, offset }, TENSORS(x), NULL);
}
