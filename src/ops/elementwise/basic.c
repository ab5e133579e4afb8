/* basic.c -- feed, reshape, add: rules. */
#include "ops/elementwise/basic.h"

#include "ops/operator.h"

#include <stdio.h>

static Err feed_shape(Node *n)
{
    out_set(n, 0, ATTR(n, FeedAttr)->type, ATTR(n, FeedAttr)->shape);
    out_class(n, 0, CLASS_INPUTS);
    return OK;
}

static Cost move_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }

OPERATOR(feed, .doc = "what the data loader gives for one micro-batch",
         .attr_bytes = sizeof(FeedAttr), .n_in = 0, .n_out = 1, .shape = feed_shape,
         .makes_batch = true, .cost = move_cost, .cpu = { .run = feed_cpu })

Tensor feed_as(Graph *graph, const FeedAttr *attr)
{
    return tensor_name(node_add(graph, &op_feed, attr, NULL, 0, NULL), attr->name);
}

Tensor feed(Graph *graph, const char *name, Type type, Shape shape)
{
    FeedAttr attr = { .type = type, .shape = shape };
    snprintf(attr.name, sizeof attr.name, "%s", name);
    return feed_as(graph, &attr);
}

static Err reshape_shape(Node *n)
{
    out_view(n, 0, in_type(n, 0), ATTR(n, ReshapeAttr)->shape);
    return OK;
}

static void reshape_grad(Grad *g)
{
    grad_give(g, 0, reshape(grad_dy(g, 0), tensor_shape(grad_in(g, 0))));
}

static Cost no_cost(const Node *n)
{
    (void)n;
    return (Cost){ 0 };
}

static bool reshape_chunk(const ChunkCall *c)
{
    Shape *shape = &((ReshapeAttr *)c->attr)->shape;
    bool   can = chunk_divides(*shape, c->n);
    if (can)
        *shape = chunk_shape(*shape, c->n);
    return can;
}

OPERATOR(reshape, .doc = "the same bytes under another shape",
         .chunk = { CHUNK_CUSTOM, INPUT(0), reshape_chunk }, .attr_bytes = sizeof(ReshapeAttr),
         .n_in = 1, .n_out = 1, .view = true, .shape = reshape_shape, .grad = reshape_grad,
         .cost = no_cost)

Tensor reshape(Tensor x, Shape shape)
{
    if (!tensor_ok(x))
        return x;
    int64_t have = shape_count(tensor_shape(x)), known = 1;
    int     open = -1;
    for (int i = 0; i < shape.rank; i++)
        if (shape.dim[i] == -1 && open < 0)
            open = i;
        else
            known *= shape.dim[i];
    if (open >= 0 && known > 0)
        shape.dim[open] = have / known;
    if (shape_count(shape) != have)
        return graph_poison(x.graph, E_SHAPE, "reshape: %s has %lld elements, %s cannot hold them",
                            shape_text(tensor_shape(x)), (long long)have, shape_text(shape));
    if (shape_same(shape, tensor_shape(x)))
        return x;
    return node_add(x.graph, &op_reshape, &(ReshapeAttr){ shape }, TENSORS(x), NULL);
}

static Err add_shape(Node *n)
{
    if (!shape_same(in_shape(n, 0), in_shape(n, 1)))
        return fail(E_SHAPE, "add: %s and %s differ", shape_text(in_shape(n, 0)),
                    shape_text(in_shape(n, 1)));
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static void add_grad(Grad *g)
{
    Tensor dy = grad_dy(g, 0);
    Type   other = tensor_type(grad_in(g, 1));
    grad_give(g, 0, dy);
    /* a value that is fp32 in every precision has fp32 gradients */
    grad_give(g, 1, grad_wants(g, 1) && other == F32 ? cast(dy, F32) : dy);
}

static Cost add_cost(const Node *n)
{
    return (Cost){ .flops = in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR(add, .doc = "a + b, element by element", .chunk = { CHUNK_ELEMENTS, ALL_INPUTS },
         .n_in = 2, .n_out = 1, .inplace = IN_PLACE_OF(0), .shape = add_shape, .grad = add_grad,
         .cost = add_cost, .cpu = { .run = add_cpu })

Tensor add(Tensor a, Tensor b) { return node_add(a.graph, &op_add, NULL, TENSORS(a, b), NULL); }

static Err cast_shape(Node *n)
{
    if (!type_is_float(in_type(n, 0)) || !type_is_float(ATTR(n, CastAttr)->type))
        return fail(E_SHAPE, "cast: %s cannot be rounded to %s; both must be floats",
                    type_name(in_type(n, 0)), type_name(ATTR(n, CastAttr)->type));
    out_set(n, 0, ATTR(n, CastAttr)->type, in_shape(n, 0));
    return OK;
}

static void cast_grad(Grad *g) { grad_give(g, 0, cast(grad_dy(g, 0), tensor_type(grad_in(g, 0)))); }

OPERATOR(cast, .doc = "the same values, rounded to another type",
         .chunk = { CHUNK_ELEMENTS, ALL_INPUTS }, .attr_bytes = sizeof(CastAttr), .n_in = 1,
         .n_out = 1, .shape = cast_shape, .grad = cast_grad, .cost = move_cost,
         .cpu = { .run = cast_cpu })

Tensor cast(Tensor x, Type type)
{
    return tensor_type(x) == type
               ? x
               : node_add(x.graph, &op_cast, &(CastAttr){ type }, TENSORS(x), NULL);
}

static Err assign_shape(Node *n)
{
    if (!shape_same(in_shape(n, 0), in_shape(n, 1)) || in_type(n, 0) != in_type(n, 1))
        return fail(E_SHAPE, "assign: the state is %s %s, the value %s %s",
                    type_name(in_type(n, 0)), shape_text(in_shape(n, 0)), type_name(in_type(n, 1)),
                    shape_text(in_shape(n, 1)));
    out_is_input(n, 0, 0);
    return OK;
}

OPERATOR_INTERNAL(assign, .doc = "a persistent value takes the contents of another", .n_in = 2,
                  .n_out = 1, .once = true, .shape = assign_shape, .cost = move_cost,
                  .cpu = { .run = assign_cpu })

void assign(Tensor state, Tensor x)
{
    node_add(state.graph, &op_assign, NULL, TENSORS(state, x), NULL);
}
