/* grad.c -- what a gradient rule may ask and give (ir/op.h); called by autodiff/. */
#include "ir/op.h"

/* clang-format off */
Tensor grad_in(const Grad *g, int i)  { return (Tensor){ g->graph, g->node->in[i] }; }
Tensor grad_out(const Grad *g, int i) { return (Tensor){ g->graph, g->node->out[i] }; }
Tensor grad_dy(const Grad *g, int i)  { return g->dy[i]; }
/* clang-format on */

bool grad_wants(const Grad *g, int i)
{
    return i < g->node->n_in && g->node->in[i] >= 0 && g->wants[i];
}

void grad_give(Grad *g, int i, Tensor d)
{
    REQUIRE(i < g->node->n_in);
    if (d.id == TENSOR_NONE || !grad_wants(g, i))
        return;
    if (d.id >= 0 && !shape_same(tensor_shape(d), tensor_shape(grad_in(g, i)))) {
        graph_poison(g->graph, E_SHAPE, "%s: the gradient of input %d is %s, but the input is %s",
                     g->node->op->name, i, shape_text(tensor_shape(d)),
                     shape_text(tensor_shape(grad_in(g, i))));
        return;
    }
    g->dx[i] = d;
}

Tensor grad_so_far(const Grad *g, int i, Type type)
{
    if (!grad_wants(g, i) || !tensor_ok(g->so_far[i]) || tensor_type(g->so_far[i]) != type)
        return tensor_none(g->graph);
    return g->so_far[i];
}

void grad_give_sum(Grad *g, int i, Tensor sum)
{
    bool any = tensor_ok(grad_so_far(g, i, tensor_type(sum)));
    grad_give(g, i, sum);
    g->summed[i] = any;
}

Tensor grad_parts(const Grad *g, int i) { return g->parts[i]; }

void grad_give_parts(Grad *g, int i, Tensor parts)
{
    grad_give(g, i, parts);
    g->summed[i] = true;
}
