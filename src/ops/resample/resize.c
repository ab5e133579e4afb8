/* resize.c -- other sizes of an image: rules. */
#include "ops/resample/resize.h"

#include "ops/operator.h"

#include <math.h>

static bool resize_smooth(ResizeMode mode)
{
    return mode == RESIZE_BILINEAR || mode == RESIZE_BICUBIC;
}

static Err resize_shape(Node *n)
{
    const ResizeAttr *attr = ATTR(n, ResizeAttr);
    Shape             x = in_shape(n, 0), y = x;
    if (x.rank < 3 || x.rank > 5 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE,
                    "resize: the input must be floats (N,L,C), (N,H,W,C) or (N,D,H,W,C), not %s %s",
                    type_name(in_type(n, 0)), shape_text(x));
    if (attr->mode >= RESIZE_MODES)
        return fail(E_SHAPE, "resize: there is no mode %d", (int)attr->mode);
    if ((attr->align_corners || attr->antialias) && !resize_smooth(attr->mode))
        return fail(E_SHAPE, "resize: only linear and cubic have align_corners and antialias");
    for (int i = 0; i < x.rank - 2; i++) {
        y.dim[1 + i] = attr->size[i];
        if (attr->size[i] < 1)
            return fail(E_SHAPE, "resize: axis %d of %s cannot become %lld", 1 + i, shape_text(x),
                        (long long)attr->size[i]);
        if (x.dim[1 + i] > INT32_MAX / 4 || attr->size[i] > INT32_MAX / 4)
            return fail(E_SHAPE, "resize: axis %d of %s to %lld is too large", 1 + i, shape_text(x),
                        (long long)attr->size[i]);
        if (!(attr->scale[i] >= 0) || !isfinite(attr->scale[i]))
            return fail(E_SHAPE, "resize: scale %g is out of range", attr->scale[i]);
    }
    out_set(n, 0, in_type(n, 0), y);
    return OK;
}

void resize_axes(const ResizeAttr *attr, Shape in, Shape out, ResizeAxis axes[3])
{
    int first = in.rank == 5 ? 0 : 1;
    for (int i = 0; i < 3; i++)
        axes[i] = (ResizeAxis){ RESIZE_NEAREST, false, false, 1, 1, 0 };
    for (int i = 0; i < in.rank - 2; i++)
        axes[first + i] = (ResizeAxis){ attr->mode,    attr->align_corners, attr->antialias,
                                        in.dim[1 + i], out.dim[1 + i],      attr->scale[i] };
}

static void resize_grad(Grad *g)
{
    ResizeAttr attr = *ATTR(g->node, ResizeAttr);
    for (int i = 0; i < tensor_shape(grad_in(g, 0)).rank - 2; i++)
        attr.size[i] = tensor_shape(grad_in(g, 0)).dim[1 + i];
    grad_give(g, 0, node_add(g->graph, &op_resize_grad, &attr, TENSORS(grad_dy(g, 0)), NULL));
}

static Cost resize_cost(const Node *n)
{
    static const double taps[] = { 1, 4, 8, 4, 1 }; /* products per output, both axes */
    double              in = in_count(n, 0), out = (double)shape_count(out_shape(n, 0)),
           larger = in > out ? in : out;
    return (Cost){ .flops = 2 * taps[ATTR(n, ResizeAttr)->mode] * larger, .bytes = node_bytes(n) };
}

OPERATOR(resize, .doc = "a map at another size: nearest, linear, cubic, adaptive average",
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(ResizeAttr), .n_in = 1,
         .n_out = 1, .shape = resize_shape, .grad = resize_grad, .cost = resize_cost,
         .cpu = { .choose = resize_choose_cpu, .run = resize_cpu })

/* in: dy alone: a resize is linear; out: dx */
static Err resize_grad_shape(Node *n)
{
    Shape dx = in_shape(n, 0);
    for (int i = 0; i < dx.rank - 2; i++)
        dx.dim[1 + i] = ATTR(n, ResizeAttr)->size[i];
    out_set(n, 0, in_type(n, 0), dx);
    return OK;
}

OPERATOR_INTERNAL(resize_grad, .doc = "gradient of resize: the transposed weights",
                  .attr_bytes = sizeof(ResizeAttr), .n_in = 1, .n_out = 1,
                  .shape = resize_grad_shape, .cost = resize_cost,
                  .cpu = { .choose = resize_grad_choose_cpu, .run = resize_grad_cpu })

Tensor resize_op(Tensor x, ResizeAttr attr)
{
    Shape s = tensor_ok(x) ? tensor_shape(x) : SHAPE(1);
    bool  same = s.rank >= 3 && s.rank <= 5;
    for (int i = 0; i < s.rank - 2 && same; i++)
        same = attr.size[i] == s.dim[1 + i] && (attr.scale[i] == 0 || attr.scale[i] == 1);
    if (same)
        return x; /* every mode keeps a map of the same size */
    return node_add(x.graph, &op_resize, &attr, TENSORS(x), NULL);
}

Tensor resize(Tensor x, int64_t height, int64_t width, ResizeMode mode)
{
    if (tensor_ok(x) && tensor_shape(x).rank != 4)
        return graph_poison(x.graph, E_SHAPE, "resize: the input must be (N,H,W,C), not %s",
                            shape_text(tensor_shape(x)));
    return resize_op(x, (ResizeAttr){ .mode = mode, .size = { height, width } });
}

Tensor adaptive_avg_pool(Tensor x, int64_t height, int64_t width)
{
    return resize(x, height, width, RESIZE_AREA);
}
