/* lower_stablehlo_product.c -- products, convolutions and pooling of StableHLO. */
#include "import/lower_stablehlo.h"

#include "ops/conv/conv.h"
#include "ops/elementwise/basic.h"
#include "ops/resample/pooling.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* ---- dot_general ---- */

typedef struct DotDims {
    int     n_batch, n_sum;
    int64_t batch[2][VIEW_RANK], sum[2][VIEW_RANK];
} DotDims;

static Err dot_dims(Lower *l, const Operand *items, DotDims *d)
{
    int other;
    TRY(arg_ints(l, "batching_dims", d->batch[0], &d->n_batch));
    TRY(arg_ints(l, "batching_dims.rhs", d->batch[1], &other));
    bool good = other == d->n_batch;
    TRY(arg_ints(l, "contracting_dims", d->sum[0], &d->n_sum));
    TRY(arg_ints(l, "contracting_dims.rhs", d->sum[1], &other));
    good &= other == d->n_sum;
    for (int side = 0; good && side < 2; side++) {
        for (int i = 0; i < d->n_batch; i++)
            good &= d->batch[side][i] >= 0 && d->batch[side][i] < items[side].view.rank;
        for (int i = 0; i < d->n_sum; i++)
            good &= d->sum[side][i] >= 0 && d->sum[side][i] < items[side].view.rank;
    }
    return good ? OK : refuse(l, "its axes do not go together");
}

/* Axes of one side that are neither batch nor summed. */
static int free_axes(const DotDims *d, int side, int rank, int *axis)
{
    int n = 0;
    for (int a = 0; a < rank; a++) {
        bool taken = false;
        for (int i = 0; i < d->n_batch; i++)
            taken |= d->batch[side][i] == a;
        for (int i = 0; i < d->n_sum; i++)
            taken |= d->sum[side][i] == a;
        if (!taken)
            axis[n++] = a;
    }
    return n;
}

/* x (..., K...) times a parameter (K..., N...): a dense layer, whatever its axes are called. */
static bool is_dense_layer(const Lower *l, const Operand *items, const DotDims *d)
{
    const View *x = &items[0].view, *w = &items[1].view;
    int         order[VIEW_RANK];
    if (items[0].host || items[1].host || d->n_batch || !d->n_sum || d->n_sum >= w->rank ||
        d->n_sum >= x->rank + 1 || !lower_is_param(l, w) || !view_is_dense(w, order))
        return false;
    for (int i = 0; i < w->rank; i++)
        if (order[i] != i)
            return false;
    for (int i = 0; i < d->n_sum; i++)
        if (d->sum[0][i] != x->rank - d->n_sum + i || d->sum[1][i] != i)
            return false;
    return true;
}

static Err dense_layer(Lower *l, View x, View w, int n_sum)
{
    Dims rows = view_dims(&x), kernel = { .rank = 2, .at = { 1, 1 } };
    Err  err;
    View matrix;
    for (int i = 0; i < w.rank; i++)
        kernel.at[i >= n_sum] *= w.dim[i];
    rows.rank = x.rank - n_sum + 1;
    rows.at[rows.rank - 1] = kernel.at[0];
    Dims out = out_dims(l, 0, &err);
    TRY(err);
    if (!view_reshaped(w, kernel, &matrix))
        return refuse(l, "a parameter in this order of axes");
    return lower_linear(l, view_copied_reshape(x, rows), matrix, out);
}

Err hlo_dot(Lower *l)
{
    Operand items[2], sum;
    DotDims d = { 0 };
    Letters in[2] = { { 0 } }, out = { 0 };
    int     axis[2][VIEW_RANK], n[2];
    for (int i = 0; i < 2; i++)
        TRY(hlo_operand(l, i, &items[i]));
    TRY(dot_dims(l, items, &d));
    if (is_dense_layer(l, items, &d))
        return dense_layer(l, items[0].view, items[1].view, d.n_sum);
    char next = 'a';
    for (int side = 0; side < 2; side++)
        in[side].n = items[side].view.rank;
    for (int i = 0; i < d.n_batch; i++, next++) {
        in[0].at[d.batch[0][i]] = in[1].at[d.batch[1][i]] = next;
        out.at[out.n++] = next;
    }
    for (int i = 0; i < d.n_sum; i++, next++)
        in[0].at[d.sum[0][i]] = in[1].at[d.sum[1][i]] = next;
    for (int side = 0; side < 2; side++) {
        n[side] = free_axes(&d, side, items[side].view.rank, axis[side]);
        for (int i = 0; i < n[side]; i++, next++) {
            if (out.n == VIEW_RANK)
                return refuse(l, "a result with too many axes");
            in[side].at[axis[side][i]] = next;
            out.at[out.n++] = next;
        }
    }
    TRY(einsum_pair(l, items, in, &out, &sum));
    return give(l, 0, sum);
}

/* ---- convolution ---- */

/* "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]": for each group the axis of the two letters and of the
 * numbers. */
typedef struct ConvDims {
    int n;          /* spatial axes */
    int axis[3][5]; /* lhs (b, f, space...), rhs (i, o, space...), out (b, f, space...) */
} ConvDims;

static Err conv_dims(Lower *l, ConvDims *d)
{
    static const char *const letters[] = { "bf", "io", "bf" };
    const char              *p = arg_text(l, "dim_numbers", "");
    for (int g = 0; g < 3; g++) {
        int at = 0, n = 0;
        p += strcspn(p, "[");
        for (p += *p == '['; *p && *p != ']'; p++) {
            const char *letter = strchr(letters[g], *p);
            if (isdigit((unsigned char)*p) && *p - '0' < 3 && at < 5) {
                d->axis[g][2 + *p - '0'] = at++;
                n++;
            } else if (isalpha((unsigned char)*p)) {
                if (!letter || at >= 5)
                    return refuse(l, "this arrangement of axes is not supported");
                d->axis[g][letter - letters[g]] = at++;
            }
        }
        if (n < 1 || n > 3 || at != n + 2 || (g && n != d->n))
            return refuse(l, "%d spatial axes are not supported", n);
        d->n = n;
    }
    return OK;
}

/* A dilated input is a transposed convolution: its strides are the dilation, its kernel reversed. */
static Err all_ones(Lower *l, const char *name, int n)
{
    int64_t list[VIEW_RANK];
    TRY(arg_fill(l, name, n, 1, list));
    for (int i = 0; i < n; i++)
        if (list[i] != 1)
            return refuse(l, "a dilated input (ConvTranspose) is not supported");
    return OK;
}

Err hlo_convolution(Lower *l)
{
    View     x, w;
    ConvDims d = { 0 };
    ConvAttr at = { .stride = { 1, 1, 1 }, .dilation = { 1, 1, 1 } };
    int64_t  pad[VIEW_RANK], groups, reverse[VIEW_RANK];
    int      have, order[VIEW_RANK], worder[VIEW_RANK], back[VIEW_RANK];
    TRY(conv_dims(l, &d));
    TRY(hlo_operand_view(l, 0, &x));
    TRY(hlo_operand_view(l, 1, &w));
    if (x.rank != d.n + 2 || w.rank != d.n + 2)
        return refuse(l, "an input with %d axes", x.rank);
    TRY(arg_fill(l, "stride", d.n, 1, &at.stride[3 - d.n]));
    TRY(arg_fill(l, "rhs_dilate", d.n, 1, &at.dilation[3 - d.n]));
    TRY(all_ones(l, "lhs_dilate", d.n));
    TRY(arg_ints(l, "pad", pad, &have));
    TRY(arg_int(l, "batch_group_count", 1, &groups));
    TRY(arg_fill(l, "reverse", d.n, 0, reverse));
    if (groups != 1 || (have && have != 2 * d.n) || reverse[0])
        return refuse(l, "groups of the batch or reversed kernels are not supported");
    TRY(arg_int(l, "feature_group_count", 1, &at.groups));
    for (int i = 0; i < d.n && have; i++) {
        at.pad_lo[3 - d.n + i] = pad[2 * i];
        at.pad_hi[3 - d.n + i] = pad[2 * i + 1];
        if (pad[2 * i] < 0)
            return refuse(l, "a negative padding is not supported");
    }
    order[0] = d.axis[0][0];
    order[d.n + 1] = d.axis[0][1];
    back[0] = d.axis[2][0];
    back[d.n + 1] = d.axis[2][1];
    for (int i = 0; i < d.n; i++) {
        order[1 + i] = d.axis[0][2 + i];
        worder[i] = d.axis[1][2 + i];
        back[1 + i] = d.axis[2][2 + i];
    }
    worder[d.n] = d.axis[1][0];
    worder[d.n + 1] = d.axis[1][1];
    Tensor tw = view_tensor(w, worder), tx = cast(view_tensor(x, order), tensor_type(tw));
    Tensor none = tensor_none(l->graph);
    return give_tensor(l, 0, d.n == 1 ? conv1d_op(tx, tw, none, at) : conv_op(tx, tw, none, at),
                       back);
}

/* ---- reduce_window ---- */

/* Pooling: windows over all axes but the first and the last, channels last. A sum is an average
 * times the window's count. */
Err hlo_window(Lower *l)
{
    View        x;
    int64_t     size[VIEW_RANK], stride[VIEW_RANK], pad[VIEW_RANK] = { 0 }, count = 1;
    int         n, have;
    const char *body = arg_text(l, "body", "");
    bool        most = !strcmp(body, "stablehlo.maximum");
    if (!most && strcmp(body, "stablehlo.add") != 0)
        return refuse(l, "only sums and largest elements of windows are supported");
    TRY(hlo_operand_view(l, 0, &x));
    TRY(arg_ints(l, "window_dimensions", size, &n));
    TRY(arg_fill(l, "window_strides", x.rank, 1, stride));
    TRY(arg_ints(l, "padding", pad, &have));
    TRY(all_ones(l, "base_dilations", x.rank));
    TRY(all_ones(l, "window_dilations", x.rank));
    PoolAttr at = { .kind = most ? POOL_MAX : POOL_AVG, .count_padding = true };
    if (n != x.rank || n < 3 || n > 5 || size[0] != 1 || size[n - 1] != 1 ||
        (have && have != 2 * n) || stride[0] != 1 || stride[n - 1] != 1)
        return refuse(l, "only windows over the axes between the first and the last are supported");
    for (int i = 0; i < n - 2; i++) {
        at.kernel[i] = size[i + 1];
        at.stride[i] = stride[i + 1];
        at.dilation[i] = 1;
        at.pad_lo[i] = pad[2 * i + 2];
        at.pad_hi[i] = pad[2 * i + 3];
        count *= size[i + 1];
    }
    at.divisor = most ? 0 : 1;
    (void)count;
    return give_tensor(l, 0, pool_op(view_tensor(x, NULL), at), NULL);
}
