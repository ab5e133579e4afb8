/* resize.c -- other sizes of an image: rules. */
#include "ops/resample/resize.h"

#include "ops/operator.h"

static Err resize_shape(Node *n)
{
    const ResizeAttr *attr = ATTR(n, ResizeAttr);
    Shape x = in_shape(n, 0);
    if (x.rank != 4 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE, "resize: the input must be floats (N,H,W,C), not %s %s",
                    type_name(in_type(n, 0)),
                    shape_text(x));
    if (attr->height < 1 || attr->width < 1 || attr->mode >= RESIZE_MODES)
        return fail(E_SHAPE, "resize: %s cannot become %lld x %lld by mode %d", shape_text(x),
                    (long long)attr->height, (long long)attr->width, (int)attr->mode);
    if (x.dim[1] > INT32_MAX / 4 || x.dim[2] > INT32_MAX / 4 || attr->height > INT32_MAX / 4 ||
        attr->width > INT32_MAX / 4)
        return fail(E_SHAPE, "resize: %s to %lld x %lld is too large", shape_text(x),
                    (long long)attr->height,
                    (long long)attr->width);
    out_set(n, 0, in_type(n, 0), SHAPE(x.dim[0], attr->height, attr->width, x.dim[3]));
    return OK;
}

static void resize_grad(Grad *g)
{
    Shape      x = tensor_shape(grad_in(g, 0));
    ResizeAttr attr = { ATTR(g->node, ResizeAttr)->mode, x.dim[1], x.dim[2] };
    grad_give(g, 0, node_add(g->graph, &op_resize_grad, &attr, TENSORS(grad_dy(g, 0)), NULL));
}

static Cost resize_cost(const Node *n)
{
    static const double taps[] = { 1, 4, 8, 4 };         /* products per output, both axes */
    double in = in_count(n, 0), out = (double)shape_count(out_shape(n, 0)),
           larger = in > out ? in : out;
    return (Cost){ .flops = 2 * taps[ATTR(n, ResizeAttr)->mode] * larger, .bytes = node_bytes(n) };
}

OPERATOR(resize,
    .doc = "an image at another size: nearest, bilinear, bicubic, adaptive average",
    .chunk = { CHUNK_SAMPLES, INPUT(0) },
    .attr_bytes = sizeof(ResizeAttr), .n_in = 1, .n_out = 1,
    .shape = resize_shape, .grad = resize_grad, .cost = resize_cost,
    .cpu = { .choose = resize_choose_cpu, .run = resize_cpu })

/* in: dy alone: a resize is linear; out: dx */
static Err resize_grad_shape(Node *n)
{
    const ResizeAttr *attr = ATTR(n, ResizeAttr);
    Shape dy = in_shape(n, 0);
    out_set(n, 0, in_type(n, 0), SHAPE(dy.dim[0], attr->height, attr->width, dy.dim[3]));
    return OK;
}

OPERATOR_INTERNAL(resize_grad,
    .doc = "gradient of resize: the transposed weights",
    .attr_bytes = sizeof(ResizeAttr), .n_in = 1, .n_out = 1,
    .shape = resize_grad_shape, .cost = resize_cost,
    .cpu = { .choose = resize_grad_choose_cpu, .run = resize_grad_cpu })

Tensor resize(Tensor x, int64_t height, int64_t width, ResizeMode mode)
{
    if (tensor_ok(x) && tensor_shape(x).rank == 4 && tensor_shape(x).dim[1] == height &&
        tensor_shape(x).dim[2] == width)
        return x;                            /* every mode keeps an image of the same size */
    return node_add(x.graph, &op_resize, &(ResizeAttr){ mode, height, width }, TENSORS(x), NULL);
}

Tensor adaptive_avg_pool(Tensor x, int64_t height, int64_t width)
{
    return resize(x, height, width, RESIZE_AREA);
}
