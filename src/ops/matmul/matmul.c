/* matmul.c -- batched products of two activations: rules and builders. */
#include "ops/matmul/matmul.h"

#include "ops/arrange/strided.h"
#include "ops/elementwise/basic.h"
#include "ops/operator.h"
#include "ops/reduce/rows.h"

enum { SIDE_A, SIDE_B, SIDE_OUT };

static const MatmulSide *side_of(const MatmulAttr *at, int side)
{
    return side == SIDE_A ? &at->a : side == SIDE_B ? &at->b : &at->out;
}

static int64_t side_rows(const MatmulAttr *at, int side)
{
    return side == SIDE_A   ? (at->a_transposed ? at->k : at->m)
           : side == SIDE_B ? (at->b_transposed ? at->n : at->k)
                            : at->m;
}

static int64_t side_columns(const MatmulAttr *at, int side)
{
    return side == SIDE_A   ? (at->a_transposed ? at->m : at->k)
           : side == SIDE_B ? (at->b_transposed ? at->k : at->n)
                            : at->n;
}

/* An operand's matrices, each once, as a view of its tensor. */
static StridedAttr side_view(const MatmulAttr *at, int side)
{
    const MatmulSide *s = side_of(at, side);
    StridedAttr       view = { .offset = s->offset };
    for (int i = 0; i < at->batch_rank; i++)
        if (s->batch_stride[i]) {
            view.dim[view.rank] = at->batch[i];
            view.stride[view.rank++] = s->batch_stride[i];
        }
    view.dim[view.rank] = side_rows(at, side);
    view.stride[view.rank++] = s->row_stride;
    view.dim[view.rank] = side_columns(at, side);
    view.stride[view.rank++] = 1;
    return view;
}

static int64_t view_count(const StridedAttr *view)
{
    int64_t count = 1;
    for (int i = 0; i < view->rank; i++)
        count *= view->dim[i];
    return count;
}

static bool view_inside(const StridedAttr *view, Shape s)
{
    int64_t low = view->offset, high = low;
    for (int i = 0; i < view->rank; i++)
        *(view->stride[i] < 0 ? &low : &high) += (view->dim[i] - 1) * view->stride[i];
    return low >= 0 && high < shape_count(s);
}

static bool view_covers(const StridedAttr *view, Shape s)
{
    return view_count(view) == shape_count(s) && view_inside(view, s) && !strided_overlaps(view);
}

/* Batch axes along which the output is summed. */
static bool matmul_sums(const MatmulAttr *at)
{
    for (int i = 0; i < at->batch_rank; i++)
        if (at->batch[i] > 1 && at->out.batch_stride[i] == 0)
            return true;
    return false;
}

static Err matmul_shape(Node *n) /* in: a, b */
{
    const MatmulAttr *at = ATTR(n, MatmulAttr);
    if (!rows_float(n, 2) || in_type(n, 0) != in_type(n, 1) || !type_is_float(at->type))
        return fail(E_SHAPE, "matmul: %s by %s into %s; both factors must be floats of one type",
                    type_name(in_type(n, 0)), type_name(in_type(n, 1)), type_name(at->type));
    if (at->m < 1 || at->n < 1 || at->k < 1 || at->batch_rank < 0 || at->batch_rank > MATMUL_BATCH)
        return fail(E_SHAPE, "matmul: a product of %lld x %lld x %lld over %d batch axes",
                    (long long)at->m, (long long)at->n, (long long)at->k, at->batch_rank);
    for (int side = SIDE_A; side <= SIDE_OUT; side++) {
        Shape       s = side == SIDE_OUT ? at->shape : in_shape(n, side);
        StridedAttr view = side_view(at, side);
        if (!view_inside(&view, s) || side_of(at, side)->row_stride < 0)
            return fail(E_SHAPE, "matmul: matrices of %lld x %lld do not lie inside %s",
                        (long long)side_rows(at, side), (long long)side_columns(at, side),
                        shape_text(s));
    }
    StridedAttr out = side_view(at, SIDE_OUT);
    if (!view_covers(&out, at->shape))
        return fail(E_SHAPE,
                    "matmul: the products of %lld x %lld do not cover %s, each element "
                    "once",
                    (long long)at->m, (long long)at->n, shape_text(at->shape));
    if (matmul_sums(at) && at->type != F32)
        return fail(E_SHAPE, "matmul: a sum over batches must be f32, not %s", type_name(at->type));
    out_set(n, 0, at->type, at->shape);
    return OK;
}

static Cost matmul_cost(const Node *n)
{
    const MatmulAttr *at = ATTR(n, MatmulAttr);
    double            flops = 2 * (double)at->m * (double)at->n * (double)at->k;
    for (int i = 0; i < at->batch_rank; i++)
        flops *= (double)at->batch[i];
    return (Cost){ .flops = flops, .bytes = node_bytes(n) };
}

/* One operand's gradient: `at` is the product that computes it, in the operand's own layout. Where
 * that does not cover the operand's tensor, the product is written densely and then spread. */
static void matmul_give(Grad *g, int side, MatmulAttr at, Tensor a, Tensor b)
{
    const MatmulAttr *forward = ATTR(g->node, MatmulAttr);
    Tensor            x = grad_in(g, side);
    StridedAttr       view = side_view(forward, side);
    Type              type = rows_grad_type(x);
    bool              covers = view_covers(&view, tensor_shape(x));
    at.shape = tensor_shape(x);
    if (!covers) {
        int64_t step = at.m * at.n;
        at.shape = SHAPE(view_count(&view));
        at.out = (MatmulSide){ .row_stride = at.n };
        for (int i = at.batch_rank - 1; i >= 0; i--)
            if (side_of(forward, side)->batch_stride[i]) {
                at.out.batch_stride[i] = step;
                step *= at.batch[i];
            }
    }
    at.type = matmul_sums(&at) ? F32 : covers ? type : tensor_type(x);
    Tensor d = node_add(g->graph, &op_matmul, &at, TENSORS(a, b), NULL);
    if (!covers) {
        StridedGradAttr back = { .view = view, .x = tensor_shape(x) };
        back.sums = strided_overlaps(&view);
        back.type = back.sums ? type : at.type;
        d = node_add(g->graph, &op_strided_grad, &back, TENSORS(d), NULL);
    }
    grad_give(g, side, tensor_ok(d) ? cast(d, type) : d);
}

static void matmul_rule(Grad *g)
{
    MatmulAttr at = *ATTR(g->node, MatmulAttr), d = at;
    Tensor     a = grad_in(g, 0), b = grad_in(g, 1), dy = cast(grad_dy(g, 0), tensor_type(a));
    if (grad_wants(g, 0) && !at.a_transposed) { /* dA = dY B^T */
        d.m = at.m, d.n = at.k, d.k = at.n;
        d.a = at.out, d.b = at.b, d.out = at.a;
        d.a_transposed = false, d.b_transposed = !at.b_transposed;
        matmul_give(g, 0, d, dy, b);
    } else if (grad_wants(g, 0)) { /* dA^T = B dY^T */
        d.m = at.k, d.n = at.m, d.k = at.n;
        d.a = at.b, d.b = at.out, d.out = at.a;
        d.a_transposed = at.b_transposed, d.b_transposed = true;
        matmul_give(g, 0, d, b, dy);
    }
    d = at;
    if (grad_wants(g, 1) && !at.b_transposed) { /* dB = A^T dY */
        d.m = at.k, d.n = at.n, d.k = at.m;
        d.a = at.a, d.b = at.out, d.out = at.b;
        d.a_transposed = !at.a_transposed, d.b_transposed = false;
        matmul_give(g, 1, d, a, dy);
    } else if (grad_wants(g, 1)) { /* dB^T = dY^T A */
        d.m = at.n, d.n = at.k, d.k = at.m;
        d.a = at.out, d.b = at.a, d.out = at.b;
        d.a_transposed = true, d.b_transposed = at.a_transposed;
        matmul_give(g, 1, d, dy, a);
    }
}

/* Does this batch axis divide a tensor into contiguous samples of which each holds its matrices? */
static bool side_by_sample(const MatmulAttr *at, int side, Shape s)
{
    StridedAttr view = side_view(at, side);
    int64_t     row = shape_count(s) / s.dim[0];
    if (s.dim[0] != at->batch[0] || view.stride[0] != row)
        return false;
    view.dim[0] = 1;
    return view_inside(&view, SHAPE(row));
}

static bool matmul_chunk(const ChunkCall *c)
{
    MatmulAttr *at = c->attr;
    if (c->axis != 0 || at->batch_rank < 1 || at->batch[0] % c->n || at->batch[0] < 2 ||
        !side_by_sample(at, SIDE_A, in_shape(c->node, 0)) ||
        !side_by_sample(at, SIDE_OUT, at->shape))
        return false;
    if (at->b.batch_stride[0]) {
        if (!side_by_sample(at, SIDE_B, in_shape(c->node, 1)))
            return false;
        *c->inputs |= INPUT(1);
    }
    at->batch[0] /= c->n;
    at->shape = chunk_shape(at->shape, c->n);
    return true;
}

OPERATOR(matmul, .doc = "products of two activations, matrix by matrix",
         .chunk = { CHUNK_CUSTOM, INPUT(0), matmul_chunk }, .attr_bytes = sizeof(MatmulAttr),
         .n_in = 2, .n_out = 1, .shape = matmul_shape, .grad = matmul_rule, .cost = matmul_cost,
         .cpu = { matmul_choose, matmul_prepare, matmul_cpu })

Tensor matmul_op(Tensor a, Tensor b, MatmulAttr attr)
{
    return node_add(a.graph, &op_matmul, &attr, TENSORS(a, b), NULL);
}

Tensor bmm(Tensor a, Tensor b)
{
    Shape sa = tensor_shape(a), sb = tensor_shape(b);
    if (tensor_ok(a) && tensor_ok(b) && (sa.rank != 3 || sb.rank != 3 || sa.dim[0] != sb.dim[0]))
        return graph_poison(a.graph, E_SHAPE, "bmm: %s and %s are not batches of matrices",
                            shape_text(sa), shape_text(sb));
    return matmul(a, b);
}

/* The batch axes of both shapes, broadcast together; neighbours that can be merged are. */
static bool matmul_batch(MatmulAttr *at, Shape a, Shape b, Shape *whole)
{
    int     rank = a.rank > b.rank ? a.rank : b.rank;
    int64_t da[MAX_RANK], db[MAX_RANK];
    *whole = (Shape){ .rank = rank };
    for (int i = 0; i < rank; i++) {
        int ia = i - rank + a.rank, ib = i - rank + b.rank;
        da[i] = ia < 0 ? 1 : a.dim[ia];
        db[i] = ib < 0 ? 1 : b.dim[ib];
        if (da[i] != db[i] && da[i] != 1 && db[i] != 1)
            return false;
        whole->dim[i] = da[i] > db[i] ? da[i] : db[i];
    }
    int64_t step_a = 1, step_b = 1, step_out = 1;
    int64_t batch[MAX_RANK], sa[MAX_RANK], sb[MAX_RANK], so[MAX_RANK]; /* from the innermost on */
    int     n = 0;
    for (int i = rank - 1; i >= 0; i--) {
        if (whole->dim[i] == 1)
            continue;
        int64_t ta = da[i] == 1 ? 0 : step_a, tb = db[i] == 1 ? 0 : step_b;
        if (n && ta == sa[n - 1] * batch[n - 1] && tb == sb[n - 1] * batch[n - 1])
            batch[n - 1] *= whole->dim[i];
        else {
            batch[n] = whole->dim[i];
            sa[n] = ta, sb[n] = tb, so[n++] = step_out;
        }
        step_a *= da[i], step_b *= db[i], step_out *= whole->dim[i];
    }
    at->batch_rank = n;
    for (int i = 0; i < n && n <= MATMUL_BATCH; i++) {
        at->batch[n - 1 - i] = batch[i];
        at->a.batch_stride[n - 1 - i] = sa[i] * at->m * at->k;
        at->b.batch_stride[n - 1 - i] = sb[i] * at->k * at->n;
        at->out.batch_stride[n - 1 - i] = so[i] * at->m * at->n;
    }
    return true;
}

Tensor matmul(Tensor a, Tensor b)
{
    if (!tensor_ok(a) || !tensor_ok(b))
        return tensor_ok(a) ? b : a;
    Shape      sa = tensor_shape(a), sb = tensor_shape(b), whole;
    MatmulAttr at = { .alpha = 1, .type = tensor_type(a) };
    bool       row = sa.rank == 1, column = sb.rank == 1;
    if (sa.rank < 1 || sb.rank < 1 || dim(sa, -1) != dim(sb, column ? -1 : -2))
        return graph_poison(a.graph, E_SHAPE, "matmul: %s and %s do not share their inner axis",
                            shape_text(sa), shape_text(sb));
    at.m = row ? 1 : dim(sa, -2);
    at.k = dim(sa, -1);
    at.n = column ? 1 : dim(sb, -1);
    at.b_transposed = column;
    sa.rank = row ? 0 : sa.rank - 2;
    sb.rank = column ? 0 : sb.rank - 2;
    if (sb.rank == 0) /* one matrix for all rows */
        for (; sa.rank; sa.rank--)
            at.m *= sa.dim[sa.rank - 1];
    at.a.row_stride = at.k;
    at.b.row_stride = column ? at.k : at.n;
    at.out.row_stride = at.n;
    if (!matmul_batch(&at, sa, sb, &whole))
        return graph_poison(a.graph, E_SHAPE, "matmul: the leading axes of %s and %s differ",
                            shape_text(tensor_shape(a)), shape_text(tensor_shape(b)));
    if (at.batch_rank > MATMUL_BATCH)
        return graph_poison(a.graph, E_SHAPE,
                            "matmul: %s by %s repeats along more than %d batch axes",
                            shape_text(tensor_shape(a)), shape_text(tensor_shape(b)), MATMUL_BATCH);
    if (sb.rank == 0 && tensor_shape(a).rank > 2) {
        whole = tensor_shape(a);
        whole.rank -= 2;
    }
    int rows = row ? 0 : 1;
    if (whole.rank + rows + !column > MAX_RANK)
        return graph_poison(a.graph, E_SHAPE, "matmul: the product of %s and %s has too many axes",
                            shape_text(tensor_shape(a)), shape_text(tensor_shape(b)));
    at.shape = whole;
    if (rows)
        at.shape.dim[at.shape.rank++] = dim(tensor_shape(a), -2);
    if (!column)
        at.shape.dim[at.shape.rank++] = at.n;
    if (at.shape.rank == 0)
        at.shape = SHAPE(1);
    return matmul_op(a, b, at);
}
