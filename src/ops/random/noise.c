/* noise.c -- random numbers as nodes: rules. */
#include "ops/random/noise.h"

#include "ops/operator.h"
#include "ops/optimizer/optim.h"
#include "ops/reduce/rows.h"

static Err counters_check(const Node *n, int i)
{
    if (!in_given(n, i) || in_type(n, i) != I32 || shape_count(in_shape(n, i)) != COUNTER_WORDS)
        return fail(E_SHAPE, "%s: the step counters (%d i32) are missing", n->op->name,
                    COUNTER_WORDS);
    return OK;
}

static Err noise_shape(Node *n)
{
    const NoiseAttr *attr = ATTR(n, NoiseAttr);
    TRY(counters_check(n, 0));
    if (n->op == &op_random_ints ? attr->below < 1 : !type_is_float(attr->type))
        return fail(E_SHAPE, "%s: cannot draw %s below %u", n->op->name, type_name(attr->type),
                    attr->below);
    out_set(n, 0, attr->type, attr->shape);
    out_class(n, 0, CLASS_INPUTS);
    return OK;
}

static Cost noise_cost(const Node *n)
{
    return (Cost){ .flops = 60 * (double)shape_count(out_shape(n, 0)), .bytes = node_bytes(n) };
}

OPERATOR(random_normal, .doc = "N(0,1) by step, stream and element",
         .attr_bytes = sizeof(NoiseAttr), .n_in = 1, .n_out = 1, .makes_batch = true,
         .shape = noise_shape, .cost = noise_cost, .cpu = { .run = random_normal_cpu })

OPERATOR(random_uniform, .doc = "U(0,1) by step, stream and element",
         .attr_bytes = sizeof(NoiseAttr), .n_in = 1, .n_out = 1, .makes_batch = true,
         .shape = noise_shape, .cost = noise_cost, .cpu = { .run = random_uniform_cpu })

OPERATOR(random_ints, .doc = "integers below n by step, stream and element",
         .attr_bytes = sizeof(NoiseAttr), .n_in = 1, .n_out = 1, .makes_batch = true,
         .shape = noise_shape, .cost = noise_cost, .cpu = { .run = random_ints_cpu })

static Tensor noise(const OpDef *op, Tensor counters, NoiseAttr attr)
{
    return node_add(counters.graph, op, &attr, TENSORS(counters), NULL);
}

Tensor random_normal(Tensor counters, uint32_t stream, Type type, Shape shape)
{
    return noise(&op_random_normal, counters,
                 (NoiseAttr){ .stream = stream, .type = type, .shape = shape });
}

Tensor random_uniform(Tensor counters, uint32_t stream, Type type, Shape shape)
{
    return noise(&op_random_uniform, counters,
                 (NoiseAttr){ .stream = stream, .type = type, .shape = shape });
}

Tensor random_ints(Tensor counters, uint32_t stream, int32_t below, Shape shape)
{
    return noise(&op_random_ints, counters,
                 (NoiseAttr){ .stream = stream,
                              .type = I32,
                              .shape = shape,
                              .below = below < 1 ? 0 : (uint32_t)below });
}

static Err dropout_shape(Node *n)
{
    TRY(counters_check(n, 1));
    if (!rows_float(n, 1))
        return fail(E_SHAPE, "%s: the input must be floats, not %s", n->op->name,
                    type_name(in_type(n, 0)));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static Tensor drop(const OpDef *op, Tensor x, Tensor counters, uint32_t stream, float rate)
{
    if (!(rate >= 0 && rate < 1))
        return graph_poison(x.graph, E_SHAPE, "%s: a rate of %g is not in [0,1)", op->name,
                            (double)rate);
    if (rate == 0)
        return x;
    return node_add(x.graph, op, &(NoiseAttr){ .stream = stream, .rate = rate },
                    TENSORS(x, counters), NULL);
}

/* The same mask: dx = dropout(dy) with the same counters. */
static void dropout_rule(Grad *g)
{
    NoiseAttr attr = *ATTR(g->node, NoiseAttr);
    grad_give(g, 0, drop(g->node->op, grad_dy(g, 0), grad_in(g, 1), attr.stream, attr.rate));
}

OPERATOR(dropout, .doc = "zeroes a share of the elements; the mask is never stored",
         .attr_bytes = sizeof(NoiseAttr), .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = dropout_shape, .grad = dropout_rule, .cost = noise_cost,
         .cpu = { .run = dropout_cpu })

OPERATOR(drop_samples, .doc = "zeroes whole samples, e.g. conditions for classifier-free guidance",
         .attr_bytes = sizeof(NoiseAttr), .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(0),
         .shape = dropout_shape, .grad = dropout_rule, .cost = noise_cost,
         .cpu = { .run = drop_samples_cpu })

Tensor dropout(Tensor x, Tensor counters, uint32_t stream, float rate)
{
    return drop(&op_dropout, x, counters, stream, rate);
}

Tensor drop_samples(Tensor x, Tensor counters, uint32_t stream, float rate)
{
    return drop(&op_drop_samples, x, counters, stream, rate);
}
