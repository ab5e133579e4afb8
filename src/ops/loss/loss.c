/* loss.c -- losses: rules.
 *
 * Inputs of a loss: x, target [, mask][, denominator]; outputs: the loss and, where it counts
 * elements itself, the denominator. A gradient node reads these, x, target and dy. */
#include "ops/loss/loss.h"

#include "ops/operator.h"
#include "ops/reduce/rows.h"

#include <math.h>

static Cost loss_cost(const Node *n)
{
    return (Cost){ .flops = 4 * in_count(n, 0), .bytes = node_bytes(n) };
}

static Cost cross_entropy_cost(const Node *n)
{
    return (Cost){ .flops = 20 * in_count(n, 0), .bytes = node_bytes(n) };
}

static Err loss_same(const Node *n)
{
    if (!shape_same(in_shape(n, 0), in_shape(n, 1)) || !rows_float(n, 2))
        return fail(E_SHAPE, "%s: %s %s against %s %s", n->op->name, type_name(in_type(n, 0)),
                    shape_text(in_shape(n, 0)), type_name(in_type(n, 1)),
                    shape_text(in_shape(n, 1)));
    return OK;
}

static Err loss_scalar(const Node *n, int i) /* an absent or [1] f32 denominator */
{
    if (in_given(n, i) && (in_type(n, i) != F32 || shape_count(in_shape(n, i)) != 1))
        return fail(E_SHAPE, "%s: the denominator must be one f32, not %s %s", n->op->name,
                    type_name(in_type(n, i)), shape_text(in_shape(n, i)));
    return OK;
}

static Err loss_shape(Node *n) /* in: x, target */
{
    TRY(loss_same(n));
    out_set(n, 0, F32, SHAPE(1));
    return OK;
}

static Err masked_shape(Node *n) /* in: x, target, mask, denominator */
{
    TRY(loss_same(n));
    TRY(loss_scalar(n, 3));
    Shape x = in_shape(n, 0), mask = in_shape(n, 2), thin = x.rank ? shape_with(x, -1, 1) : x;
    if (in_type(n, 2) != U8 || x.rank < 1 ||
        !(shape_same(mask, thin) || shape_same(mask, shape_drop(x, -1))))
        return fail(E_SHAPE, "%s: the mask of %s must be u8 %s, not %s %s", n->op->name,
                    shape_text(x), shape_text(thin), type_name(in_type(n, 2)), shape_text(mask));
    out_set(n, 0, F32, SHAPE(1));
    if (!in_given(n, 3))
        out_set(n, 1, F32, SHAPE(1));
    return OK;
}

/* in: x, target, denominator; out: loss, denominator, log-sum-exp */
static Err cross_entropy_shape(Node *n)
{
    Shape x = in_shape(n, 0);
    TRY(loss_scalar(n, 2));
    if (!rows_float(n, 1) || in_type(n, 1) != I32 || x.rank < 1 ||
        shape_count(in_shape(n, 1)) != shape_rows(x))
        return fail(E_SHAPE, "cross_entropy: %s %s against %s %s; give one i32 per row",
                    type_name(in_type(n, 0)), shape_text(x), type_name(in_type(n, 1)),
                    shape_text(in_shape(n, 1)));
    out_set(n, 0, F32, SHAPE(1));
    if (!in_given(n, 2))
        out_set(n, 1, F32, SHAPE(1));
    out_set(n, 2, F32, SHAPE(shape_rows(x)));
    return OK;
}

static Err loss_grad_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static void loss_rule(Grad *g, const OpDef *op)
{
    Tensor in[] = { grad_in(g, 0), grad_in(g, 1), grad_dy(g, 0) };
    grad_give(g, 0, node_add(g->graph, op, g->node->attr, in, 3, NULL));
}

static void mse_rule(Grad *g) { loss_rule(g, &op_mse_loss_grad); }
static void l1_rule(Grad *g) { loss_rule(g, &op_l1_loss_grad); }

static Tensor loss_denominator(Grad *g, int in)
{
    return in_given(g->node, in) ? grad_in(g, in) : grad_out(g, 1);
}

static void masked_rule(Grad *g)
{
    grad_give(g, 0,
              node_add(g->graph, &op_masked_l1_loss_grad, g->node->attr,
                       TENSORS(grad_in(g, 0), grad_in(g, 1), grad_in(g, 2), loss_denominator(g, 3),
                               grad_dy(g, 0)),
                       NULL));
}

static void cross_entropy_rule(Grad *g)
{
    grad_give(g, 0,
              node_add(g->graph, &op_cross_entropy_grad, g->node->attr,
                       TENSORS(grad_in(g, 0), grad_in(g, 1), loss_denominator(g, 2), grad_out(g, 2),
                               grad_dy(g, 0)),
                       NULL));
}

static bool loss_mean_chunk(const ChunkCall *c)
{
    ((LossAttr *)c->attr)->scale /= (float)c->n;
    return true;
}

OPERATOR(mse_loss, .doc = "mean of squared differences",
         .chunk = { CHUNK_MEAN_LOSS, INPUT(0) | INPUT(1), loss_mean_chunk },
         .attr_bytes = sizeof(LossAttr), .n_in = 2, .n_out = 1, .shape = loss_shape,
         .grad = mse_rule, .cost = loss_cost,
         .cpu = { .choose = loss_choose_cpu, .run = mse_loss_cpu })

OPERATOR_INTERNAL(mse_loss_grad, .doc = "gradient of mse_loss", .attr_bytes = sizeof(LossAttr),
                  .n_in = 3, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = loss_grad_shape,
                  .cost = loss_cost, .cpu = { .run = mse_loss_grad_cpu })

OPERATOR(l1_loss, .doc = "mean of absolute differences",
         .chunk = { CHUNK_MEAN_LOSS, INPUT(0) | INPUT(1), loss_mean_chunk },
         .attr_bytes = sizeof(LossAttr), .n_in = 2, .n_out = 1, .shape = loss_shape,
         .grad = l1_rule, .cost = loss_cost,
         .cpu = { .choose = loss_choose_cpu, .run = l1_loss_cpu })

OPERATOR_INTERNAL(l1_loss_grad, .doc = "gradient of l1_loss", .attr_bytes = sizeof(LossAttr),
                  .n_in = 3, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = loss_grad_shape,
                  .cost = loss_cost, .cpu = { .run = l1_loss_grad_cpu })

OPERATOR(masked_l1_loss, .doc = "mean of absolute differences where a mask is set",
         .chunk = { CHUNK_COUNTED_LOSS, INPUT(0) | INPUT(1) | INPUT(2) },
         .attr_bytes = sizeof(LossAttr), .n_in = 4, .n_out = 2, .shape = masked_shape,
         .grad = masked_rule, .cost = loss_cost,
         .cpu = { .choose = loss_choose_cpu, .run = masked_l1_loss_cpu })

OPERATOR_INTERNAL(masked_l1_loss_grad, .doc = "gradient of masked_l1_loss",
                  .attr_bytes = sizeof(LossAttr), .n_in = 5, .n_out = 1, .inplace = IN_PLACE_OF(0),
                  .shape = loss_grad_shape, .cost = loss_cost,
                  .cpu = { .run = masked_l1_loss_grad_cpu })

OPERATOR(cross_entropy, .doc = "mean of -log softmax at the target; -100 does not count",
         .chunk = { CHUNK_COUNTED_LOSS, INPUT(0) | INPUT(1) }, .attr_bytes = sizeof(LossAttr),
         .n_in = 3, .n_out = 3, .shape = cross_entropy_shape, .grad = cross_entropy_rule,
         .cost = cross_entropy_cost,
         .cpu = { .choose = cross_entropy_choose_cpu, .run = cross_entropy_cpu })

OPERATOR_INTERNAL(cross_entropy_grad, .doc = "gradient of cross_entropy",
                  .attr_bytes = sizeof(LossAttr), .n_in = 5, .n_out = 1, .inplace = IN_PLACE_OF(0),
                  .shape = loss_grad_shape, .cost = cross_entropy_cost,
                  .cpu = { .run = cross_entropy_grad_cpu })

static Tensor loss_add(const OpDef *op, float scale, const Tensor *in, int n)
{
    if (!isfinite(scale))
        return graph_poison(in->graph, E_SHAPE, "%s: the scale %g is not finite", op->name,
                            (double)scale);
    return node_add(in->graph, op, &(LossAttr){ .scale = scale }, in, n, NULL);
}

Tensor mse_loss(Tensor x, Tensor target, float scale)
{
    return loss_add(&op_mse_loss, scale, TENSORS(x, target));
}
Tensor l1_loss(Tensor x, Tensor target, float scale)
{
    return loss_add(&op_l1_loss, scale, TENSORS(x, target));
}

Tensor masked_l1_loss(Tensor x, Tensor target, Tensor mask, Tensor denominator, float scale)
{
    return loss_add(&op_masked_l1_loss, scale, TENSORS(x, target, mask, denominator));
}

Tensor cross_entropy(Tensor x, Tensor target, Tensor denominator, float scale)
{
    return loss_add(&op_cross_entropy, scale, TENSORS(x, target, denominator));
}
