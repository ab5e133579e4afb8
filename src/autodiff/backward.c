/* backward.c -- reverse-mode differentiation, node by node. */
#include "autodiff/autodiff.h"

#include "ops/elementwise/basic.h"
#include "ops/ops.h"

typedef struct BackwardWalk {
    Graph   *graph;
    bool    *wants;       /* per value: does a trained parameter flow into it? */
    Tensor  *grad;        /* per value: the sum of its gradients so far, or none */
    bool    *is_param;    /* per value: a trained parameter itself */
    bool    *is_reshaped; /* per value: a trained parameter, reshaped */
    int32_t *first_use;   /* per value: its first reader, the last in reverse */
    int32_t  n_values;    /* forward values; later ones belong to the backward pass */
} BackwardWalk;

static void walk_mark(BackwardWalk *walk)
{
    Graph *graph = walk->graph;
    for (int32_t i = 0; i < graph->n_params; i++)
        if (!graph->params[i].frozen)
            walk->wants[graph->params[i].value] = walk->is_param[graph->params[i].value] = true;
    for (int32_t i = 0; i < walk->n_values; i++) {
        walk->first_use[i] = INT32_MAX;
        walk->grad[i] = tensor_none(graph);
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        Node *node = &graph->nodes[i];
        bool  any = false;
        if (node->phase != PHASE_MICRO || !node->op->grad)
            continue;
        for (int j = 0; j < node->n_in; j++)
            if (node->in[j] >= 0 && i < walk->first_use[node->in[j]])
                walk->first_use[node->in[j]] = i;
        for (int j = 0; j < node->n_in; j++)
            any |= node->in[j] >= 0 && walk->wants[node->in[j]];
        if (node->op == &op_reshape)
            walk->is_reshaped[node->out[0]] = walk->is_param[node->in[0]] ||
                                              walk->is_reshaped[node->in[0]];
        for (int j = 0; any && j < node->n_out; j++)
            if (node->out[j] >= 0 && type_is_float(value_at(graph, node->out[j])->type))
                walk->wants[node->out[j]] = true;
    }
}

/* Adds d to the gradient of a value. Gradients of parameters are kept and summed in fp32. */
static void walk_give(BackwardWalk *walk, int32_t value, Tensor d)
{
    if (walk->is_param[value] && tensor_type(d) != F32)
        d = cast(d, F32);
    Tensor *sum = &walk->grad[value];
    *sum = tensor_ok(*sum) ? add(*sum, d) : d;
}

/* A value's gradient as its producer gets it: in the value's own type. The sum may be wider (a
 * 2-byte value with fp32 readers). Rounding it once here lets the backward pass use the same 2-byte
 * units as the forward pass. The gradient of a parameter keeps its type. */
static Tensor walk_gradient(BackwardWalk *walk, int32_t value)
{
    Tensor sum = value >= 0 ? walk->grad[value] : tensor_none(walk->graph);
    if (!tensor_ok(sum) || walk->is_reshaped[value] ||
        type_bytes(tensor_type(sum)) <= type_bytes(value_at(walk->graph, value)->type))
        return sum;
    return cast(sum, value_at(walk->graph, value)->type);
}

/* The sum so far of an input, where the node may add to it: the node reads the input once, and the
 * sum has its shape. */
static Tensor walk_so_far(const BackwardWalk *walk, const Node *node, int input)
{
    Tensor none = tensor_none(walk->graph),
           sum = node->in[input] >= 0 ? walk->grad[node->in[input]] : none;
    for (int i = 0; i < node->n_in; i++)
        if (i != input && node->in[i] == node->in[input])
            return none;
    if (!tensor_ok(sum) ||
        !shape_same(tensor_shape(sum), value_at(walk->graph, node->in[input])->shape))
        return none;
    return sum;
}

static void walk_node(BackwardWalk *walk, int32_t id)
{
    Graph *graph = walk->graph;
    Node   node = graph->nodes[id]; /* a copy: adding nodes may move the array */
    Grad   g = { .graph = graph, .node = &node };
    Tensor none = tensor_none(graph);
    bool   any = false, asked = false;

    if (node.phase != PHASE_MICRO || !node.op->grad)
        return;
    g.dy = NEWN(graph->pool, Tensor, node.n_out);
    g.dx = NEWN(graph->pool, Tensor, node.n_in);
    g.parts = NEWN(graph->pool, Tensor, node.n_in);
    g.wants = NEWN(graph->pool, bool, node.n_in);
    g.so_far = NEWN(graph->pool, Tensor, node.n_in);
    g.summed = NEWN(graph->pool, bool, node.n_in);
    for (int i = 0; i < node.n_out; i++)
        any |= node.out[i] >= 0 && tensor_ok(walk->grad[node.out[i]]);
    for (int i = 0; i < node.n_in; i++) {
        g.dx[i] = none;
        g.parts[i] = node.in[i] >= 0 ? walk->grad[node.in[i]] : none;
        g.wants[i] = node.in[i] >= 0 && walk->wants[node.in[i]];
        asked |= g.wants[i];
        g.so_far[i] = g.wants[i] ? walk_so_far(walk, &node, i) : none;
    }
    if (!any || !asked) /* no gradient arrives, or no input wants one */
        return;
    graph->module = node.module;
    graph->source = node.source;
    graph->chunk = node.chunk;
    for (int i = 0; i < node.n_out; i++)
        g.dy[i] = walk_gradient(walk, node.out[i]);
    node.op->grad(&g);
    for (int i = 0; i < node.n_in; i++)
        if (tensor_ok(g.dx[i]) && g.summed[i])
            walk->grad[node.in[i]] = g.dx[i];
        else if (tensor_ok(g.dx[i]))
            walk_give(walk, node.in[i], g.dx[i]);
    graph->chunk = 0;
}

/* After node id: parameters that will get no further gradient. */
static void walk_finish_params(BackwardWalk *walk, int32_t id, const FinalGrad *final_grad)
{
    Graph *graph = walk->graph;
    for (int32_t i = 0; i < graph->n_params; i++) {
        int32_t value = graph->params[i].value;
        if (walk->first_use[value] != id || !walk->is_param[value] || !tensor_ok(walk->grad[value]))
            continue;
        /* Only the complete gradient has the class; partial sums are activations. */
        Tensor grad = walk->grad[value];
        if (final_grad)
            grad = final_grad->call(final_grad->arg, i, grad);
        else
            tensor_class(grad, CLASS_GRADIENTS);
        graph->params[i].grad = grad.id;
        graph->params[i].trained = true;
    }
}

Err autodiff_backward(Graph *graph, Tensor loss, Tensor seed, const FinalGrad *final_grad)
{
    TRY(graph_check(graph));
    BackwardWalk walk = {
        .graph = graph,
        .n_values = graph->n_values,
        .wants = NEWN(graph->pool, bool, graph->n_values),
        .grad = NEWN(graph->pool, Tensor, graph->n_values),
        .is_param = NEWN(graph->pool, bool, graph->n_values),
        .is_reshaped = NEWN(graph->pool, bool, graph->n_values),
        .first_use = NEWN(graph->pool, int32_t, graph->n_values),
    };
    int32_t n_forward = graph->n_nodes, module = graph->module;
    Source  source = graph->source;

    walk_mark(&walk);
    if (!walk.wants[loss.id])
        return fail(E_SHAPE,
                    "no trained parameter has a path to the loss, so nothing can be trained");
    graph->backward = true;
    walk.grad[loss.id] = seed;
    for (int32_t id = n_forward - 1; id >= 0 && !graph->error; id--) {
        walk_node(&walk, id);
        walk_finish_params(&walk, id, final_grad);
    }
    graph->backward = false;
    graph->module = module;
    graph->source = source;
    return graph_check(graph);
}
