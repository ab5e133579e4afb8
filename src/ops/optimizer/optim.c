/* optim.c -- rules of the operators between a gradient and a new weight. */
#include "ops/optimizer/optim.h"

#include "ops/operator.h"

Tensor graph_counters(Graph *graph)
{
    int32_t module = graph->module;
    graph->module = 0;
    Tensor counters = state_add(graph, "run.counters", I32, SHAPE(COUNTER_WORDS), CLASS_INPUTS,
                                false);
    graph->module = module;
    return counters;
}

static Cost sweep_cost(const Node *n) /* a few operations per element */
{
    return (Cost){ .flops = 4 * in_count(n, 1), .bytes = node_bytes(n) };
}

static Err accumulate_shape(Node *n)
{
    if (!shape_same(in_shape(n, 0), in_shape(n, 1)))
        return fail(E_SHAPE, "accumulate: %s and %s differ", shape_text(in_shape(n, 0)),
                    shape_text(in_shape(n, 1)));
    out_is_input(n, 0, 0);
    return OK;
}

OPERATOR_INTERNAL(accumulate, .doc = "sum over micro-batches, in place", .n_in = 3, .n_out = 1,
                  .once = true, .shape = accumulate_shape, .cost = sweep_cost,
                  .cpu = { .run = accumulate_cpu })

Tensor accumulate(Tensor sum, Tensor x, Tensor counters)
{
    return node_add(sum.graph, &op_accumulate, NULL, TENSORS(sum, x, counters), NULL);
}

static Err grad_seed_shape(Node *n)
{
    out_set(n, 0, F32, SHAPE(1));
    return OK;
}

OPERATOR_INTERNAL(grad_seed, .doc = "where the backward pass starts: the loss scale", .n_in = 1,
                  .n_out = 1, .shape = grad_seed_shape, .cost = sweep_cost,
                  .cpu = { .run = grad_seed_cpu })

Tensor grad_seed(Tensor progress)
{
    return node_add(progress.graph, &op_grad_seed, NULL, TENSORS(progress), NULL);
}

static Err grad_norm_shape(Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (in_type(n, i) != F32)
            return fail(E_SHAPE, "grad_norm: gradient %d is %s, not f32", i,
                        type_name(in_type(n, i)));
    out_set(n, 0, F32, SHAPE(1));
    return OK;
}

static Cost grad_norm_cost(const Node *n)
{
    double bytes = node_bytes(n);
    return (Cost){ .flops = bytes / 2, .bytes = bytes };
}

OPERATOR_INTERNAL(grad_norm, .doc = "the L2 norm of all gradients together", .n_in = -1, .n_out = 1,
                  .shape = grad_norm_shape, .cost = grad_norm_cost,
                  .cpu = { .choose = grad_norm_choose_cpu, .run = grad_norm_cpu })

Tensor grad_norm(Graph *graph, const Tensor *grads, int n)
{
    return node_add(graph, &op_grad_norm, NULL, grads, n, NULL);
}

static Err tick_shape(Node *n)
{
    out_is_input(n, 0, 0);
    return OK;
}

static Cost tick_cost(const Node *n) { return (Cost){ .flops = 100, .bytes = node_bytes(n) }; }

OPERATOR_INTERNAL(tick, .doc = "counts the update; clip factor, bias corrections, loss scale",
                  .attr_bytes = sizeof(TickAttr), .n_in = 3, .n_out = 1, .once = true,
                  .shape = tick_shape, .cost = tick_cost, .cpu = { .run = tick_cpu })

Tensor tick(Tensor progress, Tensor norm, Tensor loss, TickAttr attr)
{
    return node_add(progress.graph, &op_tick, &attr, TENSORS(progress, norm, loss), NULL);
}

/* in: p grad m v ema master progress rates; out: p m v ema master */
static Err update_shape(Node *n)
{
    static const int written[] = { 0, 2, 3, 4, 5 };
    for (int i = 0; i < 5; i++)
        if (in_given(n, written[i])) {
            if (!shape_same(in_shape(n, written[i]), in_shape(n, 0)))
                return fail(E_SHAPE, "update: state %d is %s, but the parameter is %s", i,
                            shape_text(in_shape(n, written[i])), shape_text(in_shape(n, 0)));
            out_is_input(n, i, written[i]);
        }
    return OK;
}

static Cost update_cost(const Node *n)
{
    return (Cost){ .flops = 16 * in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR_INTERNAL(adam, .doc = "Adam or AdamW, EMA and rounding to the compute type in one pass",
                  .attr_bytes = sizeof(UpdateAttr), .n_in = 8, .n_out = 5, .once = true,
                  .shape = update_shape, .cost = update_cost, .cpu = { .run = adam_cpu })

OPERATOR_INTERNAL(sgd, .doc = "SGD with momentum, EMA and rounding to the compute type in one pass",
                  .attr_bytes = sizeof(UpdateAttr), .n_in = 8, .n_out = 5, .once = true,
                  .shape = update_shape, .cost = update_cost, .cpu = { .run = sgd_cpu })

static void update(const OpDef *op, UpdateIn in, UpdateAttr attr)
{
    node_add(in.p.graph, op, &attr,
             TENSORS(in.p, in.grad, in.m, in.v, in.ema, in.master, in.progress, in.rates), NULL);
}

void adam(UpdateIn in, UpdateAttr attr) { update(&op_adam, in, attr); }
void sgd(UpdateIn in, UpdateAttr attr) { update(&op_sgd, in, attr); }
