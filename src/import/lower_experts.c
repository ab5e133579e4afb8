/* lower_experts.c -- mixtures of experts: products by group, counts; blocks put back into a map;
 * contractions by axis. */
#include "import/lower.h"

#include "ops/elementwise/basic.h"
#include "ops/index/count.h"
#include "ops/index/gather.h"
#include "ops/index/grouped_mm.h"
#include "ops/ops.h"

/* Matrices (G, K, N) where they lie, or as (G, N, K). */
static Tensor group_matrices(View w, bool *transposed)
{
    int order[VIEW_RANK];
    *transposed = view_is_dense(&w, order) && order[0] == 0 && order[1] == 2 && w.dim[1] > 1;
    return view_tensor(*transposed ? view_permuted(w, (int[]){ 0, 2, 1 }) : w, NULL);
}

static Err grouped_product(Lower *l)
{
    View        x, w, ends;
    GroupedAttr attr;
    bool        own = l->def->with;
    TRY(arg_view(l, own ? "self" : "input", &x));
    TRY(arg_view(l, own ? "mat2" : "weight", &w));
    TRY(arg_view(l, "offs", &ends));
    if (x.rank != 2 || w.rank != 3 || !tensor_ok(ends.base) || arg_given(l, "bias"))
        return refuse(l, "only rows (T,K) by matrices (G,K,N) with offsets are supported");
    Tensor matrices = group_matrices(w, &attr.transposed), rows = view_tensor(x, NULL);
    rows = cast(rows, tensor_type(matrices));
    Tensor y = node_add(l->graph, &op_grouped_mm, &attr,
                        TENSORS(rows, matrices, view_tensor(ends, NULL)), NULL);
    return give_tensor(l, 0, y, NULL);
}

/* As numbers of the result's type. */
static Err give_counts(Lower *l, Tensor counts)
{
    Dims dims = { 1, { shape_count(tensor_shape(counts)) } };
    TRY(graph_check(l->graph));
    Formula f = formula(l);
    int     x = formula_input(&f, item_of(l, view_make(counts, dims, NULL), EX_I32));
    return formula_give(&f, formula_as(&f, x, out_type_of(l, 0)), 0);
}

static Err histogram(Lower *l)
{
    Operand x;
    View    v;
    int64_t bins;
    double  low, high;
    TRY(arg_item(l, "self", &x));
    TRY(arg_int(l, "bins", 100, &bins));
    TRY(arg_float(l, "min", 0, &low));
    TRY(arg_float(l, "max", 0, &high));
    if (low >= high)
        return refuse(l, "its bounds depend on the data; give min and max");
    Formula f = formula(l);
    TRY(formula_item(&f, formula_float(&f, formula_input(&f, x)), EX_F32, &x));
    TRY(item_view(l, &x, &v));
    Tensor flat = view_tensor_as(v, NULL, SHAPE(view_count(&v)));
    return give_counts(l, histc(cast(flat, F32), bins, (float)low, (float)high));
}

/* ---- blocks back into a map ---- */

typedef struct AxisBlocks {                                      /* by axis of the map */
    int64_t k[2], dilation[2], pad[2], stride[2], n[2], size[2]; /* size: padding included */
} AxisBlocks;

static Err blocks_of(Lower *l, Dims dims, AxisBlocks *b)
{
    TRY(arg_fill(l, "kernel_size", 2, 1, b->k));
    TRY(arg_fill(l, "dilation", 2, 1, b->dilation));
    TRY(arg_fill(l, "padding", 2, 0, b->pad));
    TRY(arg_fill(l, "stride", 2, 1, b->stride));
    for (int i = 0; i < 2; i++) {
        b->size[i] = dims.at[2 + i] + 2 * b->pad[i];
        b->n[i] = (b->size[i] - b->dilation[i] * (b->k[i] - 1) - 1) / b->stride[i] + 1;
    }
    return OK;
}

/* Where each element of a block lies, blocks innermost. */
static Operand block_places(Lower *l, const AxisBlocks *b)
{
    HostArray *to;
    int64_t    n = 0;
    Operand    item = item_host(l, EX_I64, (Dims){ 1, { b->k[0] * b->k[1] * b->n[0] * b->n[1] } },
                                &to);
    for (int64_t i = 0; i < b->k[0]; i++)
        for (int64_t j = 0; j < b->k[1]; j++)
            for (int64_t y = 0; y < b->n[0]; y++)
                for (int64_t x = 0; x < b->n[1]; x++)
                    to->i[n++] = (y * b->stride[0] + i * b->dilation[0]) * b->size[1] +
                                 x * b->stride[1] + j * b->dilation[1];
    return item;
}

/* (N, C kh kw, blocks) -> (N, C, H, W): elements that blocks share are added. */
static Err col2im(Lower *l)
{
    View       v, ids, nothing;
    AxisBlocks b;
    Err        err;
    HostArray *array;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_view(l, "self", &v));
    if (v.rank != 3 || dims.rank != 4)
        return refuse(l, "an input with %d axes", v.rank);
    TRY(blocks_of(l, dims, &b));
    int64_t n = dims.at[0], c = dims.at[1], blocks = b.n[0] * b.n[1], k = b.k[0] * b.k[1];
    if (v.dim[1] != c * k || v.dim[2] != blocks)
        return refuse(l, "its blocks do not fit its sizes");
    View    parts = view_copied_reshape(v, (Dims){ 4, { n, c, k, blocks } });
    Tensor  values = view_tensor_as(parts, (int[]){ 2, 3, 0, 1 }, SHAPE(k * blocks, n * c));
    Operand places = block_places(l, &b), zero = item_host(l, EX_F32, (Dims){ 0 }, &array);
    zero.view = view_expanded(zero.view, (Dims){ 2, { b.size[0] * b.size[1], n * c } });
    TRY(item_view(l, &places, &ids));
    TRY(item_view(l, &zero, &nothing));
    Tensor map = cast(view_tensor(nothing, NULL), tensor_type(values));
    map = index_put(map, (Tensor[]){ view_tensor(ids, NULL) }, 1, values, true);
    TRY(graph_check(l->graph));
    View y = view_make(map, (Dims){ 4, { n, c, b.size[0], b.size[1] } }, (int[]){ 2, 3, 0, 1 });
    for (int i = 0; i < 2; i++)
        y = view_sliced(y, 2 + i, b.pad[i], dims.at[2 + i], 1);
    return give_view(l, 0, y);
}

/* ---- contractions ---- */

/* Axes of both operands that are summed over, by place; the others keep their order. */
static Err contracted(Lower *l, const Operand *items, const int *a, const int *b, int n)
{
    Letters in[2] = { { 0 } }, out = { 0 };
    Operand y;
    char    next = 'a';
    for (int side = 0; side < 2; side++) {
        const int *axes = side ? b : a;
        in[side].n = items[side].view.rank;
        for (int i = 0; i < in[side].n; i++) {
            char c = 0;
            for (int k = 0; k < n; k++)
                if (axes[k] == i)
                    c = (char)('p' + k);
            in[side].at[i] = c ? c : next;
            if (!c)
                out.at[out.n++] = next++;
        }
    }
    if (out.n > VIEW_RANK)
        return refuse(l, "a result of %d axes", out.n);
    TRY(einsum_pair(l, items, in, &out, &y));
    return give(l, 0, y);
}

static Err tensor_product(Lower *l)
{
    Operand items[2];
    int     n[2], axis[2][VIEW_RANK];
    TRY(arg_item(l, "self", &items[0]));
    TRY(arg_item(l, "other", &items[1]));
    TRY(arg_axes(l, "dims_self", items[0].view.rank, axis[0], &n[0]));
    TRY(arg_axes(l, "dims_other", items[1].view.rank, axis[1], &n[1]));
    if (n[0] != n[1])
        return refuse(l, "%d axes against %d", n[0], n[1]);
    return contracted(l, items, axis[0], axis[1], n[0]);
}

static Err inner(Lower *l)
{
    Operand items[2];
    TRY(arg_item(l, "self", &items[0]));
    TRY(arg_item(l, "other", &items[1]));
    int last[] = { items[0].view.rank - 1, items[1].view.rank - 1 };
    return contracted(l, items, &last[0], &last[1], 1);
}

/* clang-format off */
const LowerDef lower_experts[] = {
    { "aten._grouped_mm.default", grouped_product, 1, false },
    { "transformers.grouped_mm_fallback.default", grouped_product, 0, false },
    { "aten.histc.default", histogram, 0, false },
    { "aten.col2im.default", col2im, 0, false },
    { "aten.tensordot.default", tensor_product, 0, false }, { "aten.inner.default", inner, 0, false },
    { 0 }
};
/* clang-format on */
