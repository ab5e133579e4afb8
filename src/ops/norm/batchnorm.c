/* batchnorm.c -- batch norm, its running statistics, its form for inference: rules. */
#include "ops/norm/batchnorm.h"

#include "ops/norm/groupnorm.h"
#include "ops/operator.h"

#include <math.h>

/* x weight bias, then n_vectors F32 vectors of C. */
static Err batchnorm_check(const Node *n, const char *word, int n_vectors)
{
    const BatchnormAttr *attr = ATTR(n, BatchnormAttr);
    Shape                x = in_shape(n, 0), channels = SHAPE(dim(x, -1));
    if (x.rank < 2 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "%s: the input must be floats (...,C), not %s %s", word,
                    type_name(in_type(n, 0)), shape_text(x));
    if (!(attr->eps >= 0) || !isfinite(attr->eps))
        return fail(E_SHAPE, "%s: eps %g is out of range", word, (double)attr->eps);
    for (int i = 1; i < 3 + n_vectors; i++) {
        if (i < 3 && !in_given(n, i))
            continue;
        Type want = i < 3 ? norm_affine_type(n, 1) : F32;
        if (!shape_same(in_shape(n, i), channels) || in_type(n, i) != want || !type_is_float(want))
            return fail(E_SHAPE, "%s: vector %d is %s %s, but the input has %lld channels", word, i,
                        type_name(in_type(n, i)), shape_text(in_shape(n, i)),
                        (long long)channels.dim[0]);
    }
    return OK;
}

static Err batchnorm_shape(Node *n)
{
    TRY(batchnorm_check(n, "batchnorm", 0));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    out_set(n, 1, F32, SHAPE(dim(in_shape(n, 0), -1), 2));
    return OK;
}

static void batchnorm_grad(Grad *g)
{
    BatchnormAttr attr = *ATTR(g->node, BatchnormAttr);
    Tensor        d[3];
    if (!tensor_ok(grad_dy(g, 0)))
        return;
    for (int i = 0; i < 3; i++)
        attr.wants[i] = grad_wants(g, i);
    node_add(g->graph, &op_batchnorm_grad, &attr,
             TENSORS(grad_in(g, 0), grad_out(g, 1), grad_in(g, 1),
                     attr.relu ? grad_in(g, 2) : tensor_none(g->graph), grad_dy(g, 0)),
             d);
    for (int i = 0; i < 3; i++)
        grad_give(g, i, d[i]);
}

static Cost batchnorm_cost(const Node *n)
{
    return (Cost){ .flops = 9 * in_count(n, 0), .bytes = node_bytes(n) + in_bytes(n, 0) };
}

OPERATOR(batchnorm,
         .doc = "weight * (x - mean) / sqrt(var + eps) + bias over the batch, ReLU after it",
         .attr_bytes = sizeof(BatchnormAttr), .n_in = 3, .n_out = 2, .inplace = IN_PLACE_OF(0),
         .shape = batchnorm_shape, .grad = batchnorm_grad, .cost = batchnorm_cost,
         .cpu = { .choose = batchnorm_choose_cpu, .run = batchnorm_cpu })

static Err batchnorm_grads_set(Node *n, int dy)
{
    const bool *wants = ATTR(n, BatchnormAttr)->wants;
    if (!shape_same(in_shape(n, 0), in_shape(n, dy)))
        return fail(E_SHAPE, "%s: %s and %s differ", n->op->name, shape_text(in_shape(n, 0)),
                    shape_text(in_shape(n, dy)));
    if (wants[0])
        out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    for (int i = 1; i < 3; i++)
        if (wants[i])
            out_set(n, i, F32, SHAPE(dim(in_shape(n, 0), -1)));
    return OK;
}

/* in: x statistics weight bias dy; out: dx dweight dbias. dx may take dy's bytes, so that only two
 * of the three maps are ever in memory. */
static Err batchnorm_grad_shape(Node *n) { return batchnorm_grads_set(n, 4); }

static Cost batchnorm_grad_cost(const Node *n)
{
    return (Cost){ .flops = 16 * in_count(n, 0), .bytes = node_bytes(n) + 2 * in_bytes(n, 0) };
}

OPERATOR_INTERNAL(batchnorm_grad, .doc = "gradients of batchnorm, from its input and statistics",
                  .attr_bytes = sizeof(BatchnormAttr), .n_in = 5, .n_out = 3,
                  .inplace = IN_PLACE_OF(4), .shape = batchnorm_grad_shape,
                  .cost = batchnorm_grad_cost,
                  .cpu = { .choose = batchnorm_grad_choose_cpu, .run = batchnorm_grad_cpu })

Tensor batchnorm(Tensor x, Tensor weight, Tensor bias, float eps, bool relu, Tensor *statistics)
{
    Tensor out[2];
    node_add(x.graph, &op_batchnorm, &(BatchnormAttr){ .eps = eps, .relu = relu },
             TENSORS(x, weight, bias), out);
    if (statistics)
        *statistics = out[1];
    return out[0];
}

/* in: statistics mean var batches; out: mean var batches */
static Err batchnorm_track_shape(Node *n)
{
    const BatchnormAttr *attr = ATTR(n, BatchnormAttr);
    Shape                channels = SHAPE(in_shape(n, 0).dim[0]);
    for (int i = 1; i <= 2; i++)
        if (!shape_same(in_shape(n, i), channels) || in_type(n, i) != F32)
            return fail(E_SHAPE, "batchnorm_track: running %s is %s %s; f32 %s is needed",
                        i == 1 ? "mean" : "var", type_name(in_type(n, i)),
                        shape_text(in_shape(n, i)), shape_text(channels));
    if (shape_count(in_shape(n, 3)) != 1 || in_type(n, 3) != I32)
        return fail(E_SHAPE, "batchnorm_track: the count of batches must be one i32");
    if (!(attr->momentum >= 0 && attr->momentum <= 1) && attr->momentum != BATCHNORM_CUMULATIVE)
        return fail(E_SHAPE, "batchnorm_track: momentum %g is not in 0..1", (double)attr->momentum);
    if (attr->count < 2)
        return fail(E_SHAPE,
                    "batchnorm_track: %lld value per channel has no variance; use a larger batch",
                    (long long)attr->count);
    for (int i = 0; i < 3; i++)
        out_is_input(n, i, i + 1);
    return OK;
}

static Cost batchnorm_track_cost(const Node *n)
{
    return (Cost){ .flops = 8 * in_count(n, 1), .bytes = node_bytes(n) };
}

OPERATOR(batchnorm_track, .doc = "running mean and variance move towards those of the batch",
         .attr_bytes = sizeof(BatchnormAttr), .n_in = 4, .n_out = 3, .once = true,
         .shape = batchnorm_track_shape, .cost = batchnorm_track_cost,
         .cpu = { .run = batchnorm_track_cpu })

void batchnorm_track(Tensor x, Tensor statistics, Tensor mean, Tensor var, Tensor batches,
                     float eps, float momentum)
{
    int64_t       count = tensor_ok(x) ? shape_rows(tensor_shape(x)) : 0;
    BatchnormAttr attr = { .eps = eps, .momentum = momentum, .count = count };
    node_add(x.graph, &op_batchnorm_track, &attr, TENSORS(statistics, mean, var, batches), NULL);
}

/* in: x weight bias mean var */
static Err batchnorm_eval_shape(Node *n)
{
    TRY(batchnorm_check(n, "batchnorm_eval", 2));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static void batchnorm_eval_grad(Grad *g)
{
    BatchnormAttr attr = *ATTR(g->node, BatchnormAttr);
    Tensor        d[3];
    for (int i = 0; i < 3; i++)
        attr.wants[i] = grad_wants(g, i);
    node_add(g->graph, &op_batchnorm_eval_grad, &attr,
             TENSORS(grad_in(g, 0), grad_in(g, 1),
                     attr.relu ? grad_in(g, 2) : tensor_none(g->graph), grad_in(g, 3),
                     grad_in(g, 4), grad_dy(g, 0)),
             d);
    for (int i = 0; i < 3; i++)
        grad_give(g, i, d[i]);
}

static Cost batchnorm_eval_cost(const Node *n)
{
    return (Cost){ .flops = 5 * in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR(batchnorm_eval, .doc = "batch norm with the running statistics, ReLU after it",
         .attr_bytes = sizeof(BatchnormAttr), .n_in = 5, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = batchnorm_eval_shape, .grad = batchnorm_eval_grad, .cost = batchnorm_eval_cost,
         .cpu = { .choose = batchnorm_eval_choose_cpu, .run = batchnorm_eval_cpu })

/* in: x weight bias mean var dy; out: dx dweight dbias */
static Err batchnorm_eval_grad_shape(Node *n) { return batchnorm_grads_set(n, 5); }

OPERATOR_INTERNAL(batchnorm_eval_grad, .doc = "gradients of batchnorm_eval",
                  .attr_bytes = sizeof(BatchnormAttr), .n_in = 6, .n_out = 3,
                  .inplace = IN_PLACE_OF(5), .shape = batchnorm_eval_grad_shape,
                  .cost = batchnorm_grad_cost,
                  .cpu = { .choose = batchnorm_eval_grad_choose_cpu,
                           .run = batchnorm_eval_grad_cpu })

Tensor batchnorm_eval(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor var, float eps,
                      bool relu)
{
    return node_add(x.graph, &op_batchnorm_eval, &(BatchnormAttr){ .eps = eps, .relu = relu },
                    TENSORS(x, weight, bias, mean, var), NULL);
}
