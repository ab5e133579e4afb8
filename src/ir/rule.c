/* rule.c -- what shape and cost rules may ask of a node and set on its outputs (ir/op.h). */
#include "ir/op.h"

#include "ir/graph_int.h"

#include <string.h>

void out_set(Node *n, int i, Type type, Shape shape)
{
    REQUIRE(i < n->n_out && n->out[i] == TENSOR_NONE);
    n->out[i] = value_new(n->graph, NULL, type, shape, CLASS_ACTIVATIONS, n->id);
}

Tensor node_partial_sums(Tensor x)
{
    if (!tensor_ok(x) || value_at(x.graph, x.id)->producer < 0)
        return x;
    Node   *n = &x.graph->nodes[value_at(x.graph, x.id)->producer];
    int     last = n->op->n_out;
    int64_t count = n->op->partial_sums && n->out[0] == x.id ? n->op->partial_sums(n) : 0;
    if (!count)
        return x;
    if (n->n_out == last) {
        int32_t *out = NEWN(x.graph->pool, int32_t, last + 1);
        memcpy(out, n->out, (size_t)last * sizeof *out);
        out[last] = TENSOR_NONE;
        n->out = out;
        n->n_out++;
        out_set(n, last, F32, SHAPE(count, dim(tensor_shape(x), -1)));
    }
    return (Tensor){ x.graph, n->out[last] };
}

float *call_partial_sums(const Call *call)
{
    const Node *n = call->node;
    return n->n_out > n->op->n_out ? call->out[n->op->n_out] : NULL;
}

void out_is_input(Node *n, int i, int input)
{
    REQUIRE(i < n->n_out && value_at(n->graph, n->in[input])->persistent);
    n->out[i] = n->in[input];
    n->once = true;
}

void out_view(Node *n, int64_t offset_bytes, Type type, Shape shape)
{
    Value  *seen = value_at(n->graph, n->in[0]);
    int32_t root = seen->root;
    int64_t offset = seen->offset + offset_bytes;
    Class   mem_class = seen->mem_class;
    bool    persistent = seen->persistent;
    int32_t id = value_new(n->graph, NULL, type, shape, mem_class, n->id);
    Value  *view = value_at(n->graph, id);
    view->root = root;
    view->offset = offset;
    view->persistent = persistent;
    n->out[0] = id;
}

void out_class(Node *n, int i, Class mem_class)
{
    value_at(n->graph, n->out[i])->mem_class = mem_class;
}

void in_class(Node *n, int i, Class mem_class)
{
    Value *value = value_at(n->graph, n->in[i]);
    Value *root = value_at(n->graph, value->root);
    if (root->mem_class == CLASS_ACTIVATIONS)
        root->mem_class = value->mem_class = mem_class;
}

/* clang-format off */
Shape  in_shape(const Node *n, int i)  { return value_at(n->graph, n->in[i])->shape; }
Type   in_type(const Node *n, int i)   { return value_at(n->graph, n->in[i])->type; }
Shape  out_shape(const Node *n, int i) { return value_at(n->graph, n->out[i])->shape; }
Type   out_type(const Node *n, int i)  { return value_at(n->graph, n->out[i])->type; }
bool   in_given(const Node *n, int i)  { return i < n->n_in && n->in[i] >= 0; }
/* clang-format on */
double in_bytes(const Node *n, int i)
{
    return in_given(n, i) ? (double)value_at(n->graph, n->in[i])->bytes : 0;
}
double in_count(const Node *n, int i)
{
    return in_given(n, i) ? (double)shape_count(in_shape(n, i)) : 0;
}

double out_bytes(const Node *n, int i)
{
    return n->out[i] >= 0 ? (double)value_at(n->graph, n->out[i])->bytes : 0;
}

double node_bytes(const Node *n)
{
    double bytes = 0;
    for (int i = 0; i < n->n_in; i++)
        bytes += in_bytes(n, i);
    for (int i = 0; i < n->n_out; i++)
        bytes += out_bytes(n, i);
    return bytes;
}

int chunk_axis(Shape s)
{
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] > 1)
            return i;
    return -1;
}

bool chunk_divides(Shape s, int64_t n)
{
    int axis = chunk_axis(s);
    return axis >= 0 && s.dim[axis] % n == 0;
}

Shape chunk_shape(Shape s, int64_t n)
{
    s.dim[chunk_axis(s)] /= n;
    return s;
}
