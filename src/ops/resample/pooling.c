/* pooling.c -- the largest or the mean of each window: rules. */
#include "ops/resample/pooling.h"

#include "ops/elementwise/basic.h"
#include "ops/operator.h"
#include "ops/reduce/reduce.h"
#include "ops/resample/max_pool2d.h"
#include "ops/resample/pooling_window.h"
#include "ops/resample/resize.h"

enum { POOL_LIMIT = 1 << 30 }; /* of every number along an axis */

/* Windows along an axis; 0: none fits. */
static int64_t pool_out(const PoolAttr *attr, int i, int64_t in)
{
    if (attr->adaptive)
        return attr->kernel[i];
    int64_t stride = attr->stride[i], padded = in + attr->pad_lo[i] + attr->pad_hi[i];
    int64_t span = padded - (attr->dilation[i] * (attr->kernel[i] - 1) + 1);
    if (attr->ceil_mode)
        span += stride - 1;
    if (span < 0)
        return 0;
    int64_t out = span / stride + 1;
    return attr->ceil_mode && (out - 1) * stride >= in + attr->pad_lo[i] ? out - 1 : out;
}

static PoolAxis pool_axis(const PoolAttr *attr, int i, int64_t in)
{
    int64_t out = pool_out(attr, i, in);
    if (attr->adaptive) /* kernel: no window is longer */
        return (PoolAxis){ in, out, in / out + 2, 1, 0, 1, in, true };
    return (PoolAxis){ in,
                       out,
                       attr->kernel[i],
                       attr->stride[i],
                       attr->pad_lo[i],
                       attr->dilation[i],
                       in + attr->pad_lo[i] + attr->pad_hi[i],
                       false };
}

PoolAxes pool_axes(const PoolAttr *attr, Shape x)
{
    PoolAxes axes = { .images = x.dim[0], .channels = dim(x, -1) };
    int      absent = 3 - (x.rank - 2);
    for (int i = 0; i < 3; i++)
        axes.at[i] = i < absent ? (PoolAxis){ 1, 1, 1, 1, 0, 1, 1, false }
                                : pool_axis(attr, i - absent, x.dim[1 + i - absent]);
    return axes;
}

static Err pool_check_axis(const PoolAttr *attr, int i, Shape x)
{
    int64_t in = x.dim[1 + i], numbers[] = { attr->kernel[i], attr->stride[i], attr->dilation[i],
                                             attr->pad_lo[i] + 1, attr->pad_hi[i] + 1 };
    if (attr->adaptive) {
        if (attr->kernel[i] < 1 || attr->kernel[i] > POOL_LIMIT || in > POOL_LIMIT)
            return fail(E_SHAPE, "pool: axis %d of %s cannot become %lld values", 1 + i,
                        shape_text(x), (long long)attr->kernel[i]);
        return OK;
    }
    for (int k = 0; k < 5; k++)
        if (numbers[k] < 1 || numbers[k] > POOL_LIMIT || in > POOL_LIMIT)
            return fail(E_SHAPE,
                        "pool: kernel %lld, stride %lld, dilation %lld or padding %lld and %lld of "
                        "axis %d of %s is out of range",
                        (long long)numbers[0], (long long)numbers[1], (long long)numbers[2],
                        (long long)numbers[3] - 1, (long long)numbers[4] - 1, 1 + i, shape_text(x));
    if (pool_out(attr, i, in) < 1)
        return fail(E_SHAPE,
                    "pool: a window of %lld values, %lld apart, does not fit axis %d of %s, padded "
                    "by %lld and %lld",
                    (long long)numbers[0], (long long)numbers[2], 1 + i, shape_text(x),
                    (long long)attr->pad_lo[i], (long long)attr->pad_hi[i]);
    PoolAxis axis = pool_axis(attr, i, in);
    for (int64_t w = 0; w < axis.out; w++) {
        PoolWindow window = pool_window(axis, w);
        if (window.to <= window.from)
            return fail(E_SHAPE, "pool: window %lld along axis %d of %s has only padding",
                        (long long)w, 1 + i, shape_text(x));
    }
    return OK;
}

static Err pool_shape(Node *n)
{
    const PoolAttr *attr = ATTR(n, PoolAttr);
    Shape           x = in_shape(n, 0), y = x;
    if (x.rank < 3 || x.rank > 5 || !type_is_float(in_type(n, 0)))
        return fail(E_SHAPE,
                    "pool: the input must be floats (N,L,C), (N,H,W,C) or (N,D,H,W,C), not %s %s",
                    type_name(in_type(n, 0)), shape_text(x));
    if (attr->kind > POOL_AVG || attr->divisor < 0)
        return fail(E_SHAPE, "pool: kind %d or divisor %lld is out of range", (int)attr->kind,
                    (long long)attr->divisor);
    for (int i = 0; i < x.rank - 2; i++) {
        TRY(pool_check_axis(attr, i, x));
        if (attr->kind == POOL_AVG && !attr->adaptive && attr->dilation[i] != 1)
            return fail(E_SHAPE, "pool: a mean has no dilation, but axis %d has %lld", 1 + i,
                        (long long)attr->dilation[i]);
        y.dim[1 + i] = pool_out(attr, i, x.dim[1 + i]);
    }
    out_set(n, 0, in_type(n, 0), y);
    return OK;
}

/* The largest is found again from x. A mean's gradient needs only x's shape. */
static void pool_grad(Grad *g)
{
    PoolAttr attr = *ATTR(g->node, PoolAttr);
    Tensor   x = grad_in(g, 0);
    Shape    s = tensor_shape(x);
    if (attr.kind == POOL_MAX) {
        grad_give(g, 0, node_add(g->graph, &op_pool_grad, &attr, TENSORS(x, grad_dy(g, 0)), NULL));
        return;
    }
    PoolMeanGradAttr mean = { .of = attr };
    for (int i = 0; i < s.rank - 2; i++)
        mean.in[i] = s.dim[1 + i];
    grad_give(g, 0, node_add(g->graph, &op_pool_mean_grad, &mean, TENSORS(grad_dy(g, 0)), NULL));
}

static Cost pool_cost(const Node *n)
{
    const PoolAttr *attr = ATTR(n, PoolAttr);
    double          taps = 0; /* per output; rows are reduced first, then columns */
    for (int i = 0; i < in_shape(n, 0).rank - 2; i++)
        taps += attr->adaptive ? (double)in_shape(n, 0).dim[1 + i] / (double)attr->kernel[i]
                               : (double)attr->kernel[i];
    return (Cost){ .flops = taps * (double)shape_count(out_shape(n, 0)), .bytes = node_bytes(n) };
}

static int64_t pool_map_bytes(const Node *n)
{
    return ATTR(n, PoolAttr)->kind == POOL_MAX ? 8 * shape_count(out_shape(n, 0)) : 0;
}

OPERATOR(pool, .doc = "the largest or the mean of each window",
         .never_stored = { "map of indices of the largest",
                           "the gradient finds them again from the input", pool_map_bytes },
         .chunk = { CHUNK_SAMPLES, INPUT(0) }, .attr_bytes = sizeof(PoolAttr), .n_in = 1,
         .n_out = 1, .shape = pool_shape, .grad = pool_grad, .cost = pool_cost,
         .cpu = { .choose = pool_choose_cpu, .run = pool_cpu })

/* in: x dy; out: dx */
static Err pool_grad_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}

static Cost pool_grad_cost(const Node *n)
{
    PoolAxes axes = pool_axes(ATTR(n, PoolAttr), in_shape(n, 0));
    return (Cost){ .flops = 4 * (double)pool_taps(&axes) * in_count(n, 1), .bytes = node_bytes(n) };
}

OPERATOR_INTERNAL(pool_grad, .doc = "gradient of the largest: to the first of the largest",
                  .attr_bytes = sizeof(PoolAttr), .n_in = 2, .n_out = 1, .shape = pool_grad_shape,
                  .cost = pool_grad_cost,
                  .cpu = { .choose = pool_grad_choose_cpu, .run = pool_grad_cpu })

/* in: dy; out: dx */
static Err pool_mean_grad_shape(Node *n)
{
    Shape dx = in_shape(n, 0);
    for (int i = 0; i < dx.rank - 2; i++)
        dx.dim[1 + i] = ATTR(n, PoolMeanGradAttr)->in[i];
    out_set(n, 0, in_type(n, 0), dx);
    return OK;
}

static Cost pool_mean_grad_cost(const Node *n)
{
    PoolAxes axes = pool_axes(&ATTR(n, PoolMeanGradAttr)->of, out_shape(n, 0));
    double   taps = 0;
    for (int i = 0; i < 3; i++)
        taps += (double)axes.at[i].kernel;
    return (Cost){ .flops = 2 * taps * in_count(n, 0), .bytes = node_bytes(n) };
}

OPERATOR_INTERNAL(pool_mean_grad, .doc = "gradient of the means of windows",
                  .attr_bytes = sizeof(PoolMeanGradAttr), .n_in = 1, .n_out = 1,
                  .shape = pool_mean_grad_shape, .cost = pool_mean_grad_cost,
                  .cpu = { .choose = pool_mean_grad_choose_cpu, .run = pool_mean_grad_cpu })

/* Cells of 2x2 have kernels of their own. */
static bool pool_is_cells(const PoolAttr *attr, Shape x)
{
    if (attr->kind != POOL_MAX || x.rank != 4)
        return false;
    for (int i = 0; i < 2; i++)
        if (attr->kernel[i] != 2 || attr->stride[i] != 2 || attr->dilation[i] != 1 ||
            attr->pad_lo[i] || attr->pad_hi[i] || x.dim[1 + i] < 2 ||
            (attr->ceil_mode && x.dim[1 + i] % 2))
            return false;
    return true;
}

Tensor pool_op(Tensor x, PoolAttr attr)
{
    attr.adaptive = false;
    if (tensor_ok(x) && pool_is_cells(&attr, tensor_shape(x)))
        return max_pool2d(x);
    return node_add(x.graph, &op_pool, &attr, TENSORS(x), NULL);
}

Tensor adaptive_pool(Tensor x, const int64_t *out_dims, PoolKind kind)
{
    PoolAttr   attr = { .kind = kind, .adaptive = true };
    ResizeAttr area = { .mode = RESIZE_AREA };
    Shape      s = tensor_ok(x) ? tensor_shape(x) : SHAPE(1);
    bool       all = true, same = true;
    for (int i = 0; i < s.rank - 2 && i < 3; i++) {
        attr.kernel[i] = area.size[i] = out_dims[i];
        all = all && out_dims[i] == 1;
        same = same && out_dims[i] == s.dim[1 + i];
    }
    if (s.rank < 3 || s.rank > 5)
        return node_add(x.graph, &op_pool, &attr, TENSORS(x), NULL); /* which says so */
    if (same)
        return x;
    if (kind == POOL_AVG && all) { /* a plain mean, by slices that all threads share */
        Shape one = s;
        for (int i = 1; i < s.rank - 1; i++)
            one.dim[i] = 1;
        return reshape(mean_axes(x, 1, s.rank - 2), one);
    }
    return kind == POOL_AVG ? resize_op(x, area)
                            : node_add(x.graph, &op_pool, &attr, TENSORS(x), NULL);
}
