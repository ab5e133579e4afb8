/* count.c -- one-hot rows and counts: rules. */
#include "ops/index/count.h"

#include "ops/operator.h"

static Err one_hot_shape(Node *n)
{
    const OneHotAttr *at = ATTR(n, OneHotAttr);
    Shape             s = in_shape(n, 0);
    if (in_type(n, 0) != I32 || s.rank == MAX_RANK || at->classes < 1)
        return fail(E_SHAPE, "one_hot: %s %s cannot become rows of %lld", type_name(in_type(n, 0)),
                    shape_text(s), (long long)at->classes);
    s.dim[s.rank++] = at->classes;
    out_set(n, 0, at->type, s);
    return OK;
}

static Cost count_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

OPERATOR(one_hot, .doc = "rows of zeros with a 1 at the id", .chunk = { CHUNK_SAMPLES, INPUT(0) },
         .attr_bytes = sizeof(OneHotAttr), .n_in = 1, .n_out = 1, .shape = one_hot_shape,
         .cost = count_cost, .cpu = { .run = one_hot_cpu })

Tensor one_hot(Tensor ids, int64_t classes, Type type)
{
    return node_add(ids.graph, &op_one_hot, &(OneHotAttr){ classes, type }, TENSORS(ids), NULL);
}

static Err count_shape(Node *n)
{
    const CountAttr *at = ATTR(n, CountAttr);
    if (at->bins < 1 || (type_is_float(in_type(n, 0)) && !(at->low < at->high)) ||
        in_type(n, 0) == U8)
        return fail(E_SHAPE, "count: %s in %lld bins from %g to %g", type_name(in_type(n, 0)),
                    (long long)at->bins, (double)at->low, (double)at->high);
    out_set(n, 0, at->type, SHAPE(at->bins));
    return OK;
}

OPERATOR(count, .doc = "how many values lie in each bin", .attr_bytes = sizeof(CountAttr),
         .n_in = 1, .n_out = 1, .shape = count_shape, .cost = count_cost,
         .cpu = { .choose = count_choose_cpu, .run = count_cpu })

Tensor bincount(Tensor ids, int64_t bins)
{
    if (tensor_ok(ids) && tensor_type(ids) != I32)
        return graph_poison(ids.graph, E_SHAPE, "bincount: ids must be i32, not %s",
                            type_name(tensor_type(ids)));
    return node_add(ids.graph, &op_count, &(CountAttr){ .bins = bins, .type = I32 }, TENSORS(ids),
                    NULL);
}

Tensor histc(Tensor x, int64_t bins, float low, float high)
{
    if (tensor_ok(x) && !type_is_float(tensor_type(x)))
        return graph_poison(x.graph, E_SHAPE, "histc: the input must be floats, not %s",
                            type_name(tensor_type(x)));
    return node_add(x.graph, &op_count, &(CountAttr){ bins, low, high, F32 }, TENSORS(x), NULL);
}
