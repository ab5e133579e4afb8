/* embedding.c -- rows of a table and sinusoids of time: rules. */
#include "ops/embedding/embedding.h"

#include "ops/elementwise/basic.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

static Err embedding_shape(Node *n) /* in: table, ids */
{
    Shape table = in_shape(n, 0), y = in_shape(n, 1);
    if (table.rank != 2 || in_type(n, 1) != I32 || !rows_float(n, 1) || y.rank == MAX_RANK)
        return fail(E_SHAPE, "embedding: needs a table (V,C) and i32 ids, not %s %s and %s %s",
                    type_name(in_type(n, 0)), shape_text(table), type_name(in_type(n, 1)),
                    shape_text(y));
    y.dim[y.rank++] = table.dim[1];
    out_set(n, 0, in_type(n, 0), y);
    return OK;
}

static Err embedding_grad_shape(Node *n) /* in: ids, dy; attr: the table's shape */
{
    out_set(n, 0, F32, *ATTR(n, Shape));
    return OK;
}

static void embedding_rule(Grad *g)
{
    Shape table = tensor_shape(grad_in(g, 0));
    grad_give(g, 0,
              node_add(g->graph, &op_embedding_grad, &table, TENSORS(grad_in(g, 1), grad_dy(g, 0)),
                       NULL));
}

static Cost embedding_cost(const Node *n)
{
    return (Cost){ .bytes = 2 * out_bytes(n, 0) + in_bytes(n, 1) };
}

static Cost embedding_grad_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 1), .bytes = node_bytes(n) };
}

OPERATOR(embedding, .doc = "rows of a table by id", .chunk = { CHUNK_SAMPLES, INPUT(1) }, .n_in = 2,
         .n_out = 1, .shape = embedding_shape, .grad = embedding_rule, .cost = embedding_cost,
         .cpu = { .run = embedding_cpu })

OPERATOR_INTERNAL(embedding_grad, .doc = "gradient rows added up by id, in the order of the ids",
                  .attr_bytes = sizeof(Shape), .n_in = 2, .n_out = 1, .shape = embedding_grad_shape,
                  .cost = embedding_grad_cost, .cpu = { .run = embedding_grad_cpu })

Tensor embedding(Tensor table, Tensor ids)
{
    return node_add(table.graph, &op_embedding, NULL, TENSORS(table, ids), NULL);
}

Tensor lookup(Tensor table, Tensor ids)
{
    Shape s = tensor_shape(table);
    if (!tensor_ok(table))
        return table;
    if (s.rank != 1)
        return graph_poison(table.graph, E_SHAPE, "lookup: the table must have one axis, not %s",
                            shape_text(s));
    return reshape(embedding(reshape(table, SHAPE(s.dim[0], 1)), ids), tensor_shape(ids));
}

static Err time_embedding_shape(Node *n)
{
    const TimeAttr *attr = ATTR(n, TimeAttr);
    Shape           t = in_shape(n, 0);
    if (t.rank != 1 || (in_type(n, 0) != F32 && in_type(n, 0) != I32))
        return fail(E_SHAPE, "time_embedding: times must be (B), f32 or i32, not %s %s",
                    type_name(in_type(n, 0)), shape_text(t));
    if (attr->width < 2 || attr->width % 2 || !(attr->longest > 1))
        return fail(E_SHAPE,
                    "time_embedding: width %lld must be even and the longest period %g above 1",
                    (long long)attr->width, (double)attr->longest);
    out_set(n, 0, attr->type, SHAPE(t.dim[0], attr->width));
    return OK;
}

static Cost time_embedding_cost(const Node *n)
{
    return (Cost){ .flops = 100 * (double)shape_count(out_shape(n, 0)), .bytes = node_bytes(n) };
}

OPERATOR(time_embedding, .doc = "[cos | sin] of a time at geometric frequencies",
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(TimeAttr), .n_in = 1,
         .n_out = 1, .shape = time_embedding_shape, .cost = time_embedding_cost,
         .cpu = { .run = time_embedding_cpu })

Tensor time_embedding(Tensor t, int64_t width, float longest)
{
    return node_add(t.graph, &op_time_embedding, &(TimeAttr){ width, longest, t.graph->compute },
                    TENSORS(t), NULL);
}
