/* qsample.c -- the forward process of diffusion: rules. */
#include "ops/random/qsample.h"

#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err q_sample_shape(Node *n) /* in: x0, noise, abar, t */
{
    Shape x = in_shape(n, 0), abar = in_shape(n, 2);
    if (!shape_same(x, in_shape(n, 1)) || !rows_float(n, 2))
        return fail(E_SHAPE, "q_sample: %s and its noise %s differ", shape_text(x),
                    shape_text(in_shape(n, 1)));
    if (abar.rank != 1 || in_type(n, 2) != F32 || in_type(n, 3) != I32 ||
        x.dim[0] % shape_count(in_shape(n, 3)))
        return fail(E_SHAPE, "q_sample: times %s %s and a table %s %s do not fit %s",
                    type_name(in_type(n, 3)), shape_text(in_shape(n, 3)), type_name(in_type(n, 2)),
                    shape_text(abar), shape_text(x));
    out_set(n, 0, in_type(n, 0), x);
    return OK;
}

static Cost q_sample_cost(const Node *n)
{
    return (Cost){ .flops = 3 * in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR(q_sample, .doc = "samples with the noise of time t",
         .chunk = { CHUNK_SAMPLES, INPUT(0) | INPUT(1) | INPUT(3) }, .n_in = 4, .n_out = 1,
         .inplace = IN_PLACE_OF(0), .shape = q_sample_shape, .cost = q_sample_cost,
         .cpu = { .run = q_sample_cpu })

Tensor q_sample(Tensor x0, Tensor noise, Tensor abar, Tensor t)
{
    return node_add(x0.graph, &op_q_sample, NULL, TENSORS(x0, noise, abar, t), NULL);
}
