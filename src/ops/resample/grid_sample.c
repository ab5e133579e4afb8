/* grid_sample.c -- a map read at given points: rules. */
#include "ops/resample/grid_sample.h"

#include "ops/operator.h"
#include "ops/resample/grid_axis.h"

/* in: x grid */
static Err grid_sample_shape(Node *n)
{
    const GridSampleAttr *attr = ATTR(n, GridSampleAttr);
    Shape                 x = in_shape(n, 0), grid = in_shape(n, 1);
    if (x.rank != 4 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "grid_sample: the input must be floats (N,H,W,C), not %s %s",
                    type_name(in_type(n, 0)), shape_text(x));
    if (grid.rank != 4 || grid.dim[3] != 2 || grid.dim[0] != x.dim[0] ||
        !type_is_float(in_type(n, 1)))
        return fail(E_SHAPE, "grid_sample: the grid must be floats (%lld,P,Q,2), not %s %s",
                    (long long)x.dim[0], type_name(in_type(n, 1)), shape_text(grid));
    if (attr->mode >= GRID_MODES || attr->padding >= GRID_PADDINGS)
        return fail(E_SHAPE, "grid_sample: mode %d or padding %d is out of range", (int)attr->mode,
                    (int)attr->padding);
    /* places are fp32 numbers, lists of points 32-bit ones */
    if (x.dim[1] > 1 << 22 || x.dim[2] > 1 << 22 || x.dim[1] * x.dim[2] > 1 << 30 ||
        grid.dim[1] > 1 << 26 || grid.dim[2] > 1 << 26 || grid.dim[1] * grid.dim[2] > 1 << 26)
        return fail(E_SHAPE, "grid_sample: %s at %s points is too large", shape_text(x),
                    shape_text(grid));
    out_set(n, 0, in_type(n, 0), SHAPE(x.dim[0], grid.dim[1], grid.dim[2], x.dim[3]));
    return OK;
}

/* x is read only for the gradient of the points. */
static void grid_sample_rule(Grad *g)
{
    GridSampleAttr attr = *ATTR(g->node, GridSampleAttr);
    Shape          x = tensor_shape(grad_in(g, 0));
    Tensor         d[2];
    for (int i = 0; i < 2; i++)
        attr.wants[i] = grad_wants(g, i);
    attr.height = x.dim[1];
    attr.width = x.dim[2];
    node_add(g->graph, &op_grid_sample_grad, &attr,
             TENSORS(attr.wants[1] ? grad_in(g, 0) : tensor_none(g->graph), grad_in(g, 1),
                     grad_dy(g, 0)),
             d);
    for (int i = 0; i < 2; i++)
        grad_give(g, i, d[i]);
}

static Cost grid_sample_cost(const Node *n)
{
    int taps = grid_taps(ATTR(n, GridSampleAttr)->mode);
    return (Cost){ .flops = 2.0 * taps * taps * (double)shape_count(out_shape(n, 0)),
                   .bytes = node_bytes(n) };
}

OPERATOR(grid_sample, .doc = "a map read at given points", /* nearest, bilinear or bicubic */
         .chunk = { CHUNK_SAMPLES, INPUT(0) | INPUT(1) }, .attr_bytes = sizeof(GridSampleAttr),
         .n_in = 2, .n_out = 1, .shape = grid_sample_shape, .grad = grid_sample_rule,
         .cost = grid_sample_cost, .cpu = { .run = grid_sample_cpu })

/* in: x or none, grid, dy; out: dx dgrid */
static Err grid_sample_grad_shape(Node *n)
{
    const GridSampleAttr *attr = ATTR(n, GridSampleAttr);
    Shape                 dy = in_shape(n, 2);
    if (attr->wants[0])
        out_set(n, 0, in_type(n, 2), SHAPE(dy.dim[0], attr->height, attr->width, dy.dim[3]));
    if (attr->wants[1])
        out_set(n, 1, in_type(n, 1), in_shape(n, 1));
    return OK;
}

static Cost grid_sample_grad_cost(const Node *n)
{
    int taps = grid_taps(ATTR(n, GridSampleAttr)->mode);
    return (Cost){ .flops = 4.0 * taps * taps * in_count(n, 2), .bytes = 2 * node_bytes(n) };
}

OPERATOR_INTERNAL(grid_sample_grad, .doc = "gradients of grid_sample for the map and the points",
                  .attr_bytes = sizeof(GridSampleAttr), .n_in = 3, .n_out = 2,
                  .shape = grid_sample_grad_shape, .cost = grid_sample_grad_cost,
                  .cpu = { .choose = grid_sample_grad_choose_cpu, .run = grid_sample_grad_cpu })

Tensor grid_sample(Tensor x, Tensor grid, GridSampleAttr attr)
{
    return node_add(x.graph, &op_grid_sample, &attr, TENSORS(x, grid), NULL);
}
