/* lower_matrix.c -- functions of matrices and vectors, as products and sums of simpler calls. */
#include "import/lower.h"

#include <math.h>
#include <string.h>

/* sum(a b); of complex numbers, lower_complex.c conjugates the first. */
static Err vector_product(Lower *l)
{
    Operand a, b, y;
    TRY(arg_item(l, "self", &a));
    TRY(arg_item(l, "other", &b));
    Formula f = formula(l);
    int     product = F2(&f, MUL, formula_input(&f, a), formula_input(&f, b));
    TRY(formula_reduce(&f, product, POINT_SUM, 1, 1, out_type_of(l, 0), &y));
    return give(l, 0, y);
}

/* y[n, o] = sum over i and j of x1[n, i] w[o, i, j] x2[n, j], plus a bias. */
static Err bilinear(Lower *l)
{
    View    x, z, w, half;
    Operand y, bias;
    Err     err;
    TRY(arg_view(l, "input1", &x));
    TRY(arg_view(l, "input2", &z));
    TRY(arg_view(l, "weight", &w));
    TRY(arg_item(l, "bias", &bias));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    if (w.rank != 3 || x.rank < 1 || z.rank != x.rank)
        return refuse(l, "inputs with %d and %d axes", x.rank, z.rank);
    int64_t out = w.dim[0], in = w.dim[1], other = w.dim[2], n = view_count(&x) / in;
    x = view_copied_reshape(x, (Dims){ 2, { n, in } });
    z = view_copied_reshape(z, (Dims){ 2, { n, other } });
    w = view_copied_reshape(view_permuted(w, (int[]){ 1, 0, 2 }), (Dims){ 2, { in, out * other } });
    TRY(lower_matmul(l, x, w, &half));
    half = view_copied_reshape(half, (Dims){ 3, { n, out, other } });
    Formula f = formula(l);
    int     a = formula_input(&f, item_of(l, half, EX_F32));
    int     b = formula_input(&f, item_of(l, view_inserted(z, 1, 1), EX_F32));
    TRY(formula_reduce(&f, F2(&f, MUL, a, b), POINT_SUM, 1u << 2, 1, out_type_of(l, 0), &y));
    if (bias.set) {
        Formula g = formula(l);
        int     sum = F2(&g, ADD, formula_input(&g, y), formula_input(&g, bias));
        TRY(formula_item(&g, sum, out_type_of(l, 0), &y));
    }
    TRY(lower_reshape(l, y, dims, &y));
    return give(l, 0, y);
}

/* Every element of a times the whole of b. */
static Err kronecker(Lower *l)
{
    Operand a, b, y;
    Err     err;
    TRY(arg_item(l, "self", &a));
    TRY(arg_item(l, "other", &b));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    int rank = dims.rank;
    if (2 * rank > VIEW_RANK)
        return refuse(l, "tensors with %d axes", rank);
    while (a.view.rank < rank)
        a.view = view_inserted(a.view, 0, 1);
    while (b.view.rank < rank)
        b.view = view_inserted(b.view, 0, 1);
    for (int i = 0; i < rank; i++) { /* axes of a and b in turn */
        a.view = view_inserted(a.view, 2 * i + 1, 1);
        b.view = view_inserted(b.view, 2 * i, 1);
    }
    Formula f = formula(l);
    int     product = F2(&f, MUL, formula_input(&f, a), formula_input(&f, b));
    TRY(formula_item(&f, product, out_type_of(l, 0), &y));
    TRY(lower_reshape(l, y, dims, &y));
    return give(l, 0, y);
}

/* The sum of the diagonal. */
static Err trace(Lower *l)
{
    Operand x, y;
    TRY(arg_item(l, "self", &x));
    View v = x.view;
    if (v.rank != 2)
        return refuse(l, "a tensor of %d axes", v.rank);
    int64_t n = v.dim[0] < v.dim[1] ? v.dim[0] : v.dim[1];
    v.rank = 1;
    v.dim[0] = n;
    v.stride[0] += v.stride[1];
    Formula f = formula(l);
    TRY(formula_reduce(&f, formula_input(&f, item_with(x, v)), POINT_SUM, 1, 1, out_type_of(l, 0),
                       &y));
    return give(l, 0, y);
}

/* The root of the sum of squares over two axes. */
static Err matrix_norm(Lower *l)
{
    Operand  x, y;
    int      axes[VIEW_RANK], n = 0;
    uint32_t both = 0;
    TRY(arg_item(l, "self", &x));
    int rank = x.view.rank;
    if (arg_given(l, "dim"))
        TRY(arg_axes(l, "dim", rank, axes, &n));
    if (strcmp(arg_text(l, "ord", "fro"), "fro") != 0 || rank < 2 || (n && n != 2))
        return refuse(l, "only the Frobenius norm over two axes is supported");
    for (int i = 0; i < 2; i++)
        both |= 1u << (n ? axes[i] : rank - 1 - i);
    Formula f = formula(l);
    TRY(formula_reduce(&f, F1(&f, SQUARE, formula_input(&f, x)), POINT_SUM, both, 1, EX_F32, &y));
    for (int a = 0; a < rank && arg_bool(l, "keepdim", false); a++)
        if (both >> a & 1)
            y.view = view_inserted(y.view, a, 1);
    Formula g = formula(l);
    return formula_give(&g, formula_root(&g, formula_input(&g, y)), 0);
}

/* a1 b2 - a2 b1, and so on around. */
static Err cross_product(Lower *l)
{
    Operand a, b, part[3], y;
    int     axis;
    TRY(arg_item(l, "self", &a));
    TRY(arg_item(l, "other", &b));
    int rank = a.view.rank > b.view.rank ? a.view.rank : b.view.rank;
    TRY(arg_axis(l, "dim", rank, -1, &axis));
    while (a.view.rank < rank)
        a.view = view_inserted(a.view, 0, 1);
    while (b.view.rank < rank)
        b.view = view_inserted(b.view, 0, 1);
    if (a.view.dim[axis] != 3 || b.view.dim[axis] != 3)
        return refuse(l, "vectors of %lld and %lld numbers", (long long)a.view.dim[axis],
                      (long long)b.view.dim[axis]);
    for (int i = 0; i < 3; i++) {
        int     k = (i + 1) % 3, m = (i + 2) % 3, s[4];
        Formula f = formula(l);
        s[0] = formula_input(&f, item_with(a, view_sliced(a.view, axis, k, 1, 1)));
        s[1] = formula_input(&f, item_with(b, view_sliced(b.view, axis, m, 1, 1)));
        s[2] = formula_input(&f, item_with(a, view_sliced(a.view, axis, m, 1, 1)));
        s[3] = formula_input(&f, item_with(b, view_sliced(b.view, axis, k, 1, 1)));
        int y0 = F2(&f, SUB, F2(&f, MUL, s[0], s[1]), F2(&f, MUL, s[2], s[3]));
        TRY(formula_item(&f, y0, out_type_of(l, 0), &part[i]));
    }
    TRY(lower_join(l, part, 3, axis, &y));
    return give(l, 0, y);
}

/* ---- points of an affine map ---- */

/* Places of the pixels' centers from -1 to 1, and a 1: (points, axes + 1), the last axis of the
 * map first. With aligned corners, -1 and 1 are the centers of the outermost pixels. */
static Operand pixel_places(Lower *l, const int64_t *size, int n, bool aligned)
{
    HostArray *to;
    int64_t    points = 1;
    for (int i = 0; i < n; i++)
        points *= size[i];
    Operand item = item_host(l, EX_F32, (Dims){ 2, { points, n + 1 } }, &to);
    for (int64_t p = 0; p < points; p++) {
        int64_t rest = p;
        for (int i = n - 1; i >= 0; rest /= size[i--]) {
            double at = (double)(rest % size[i]), extent = (double)size[i];
            double place = !aligned      ? (2 * at + 1) / extent - 1
                           : size[i] > 1 ? 2 * at / (extent - 1) - 1
                                         : 0;
            to->f[p * (n + 1) + n - 1 - i] = place;
        }
        to->f[p * (n + 1) + n] = 1;
    }
    return item;
}

/* theta (N, axes, axes + 1) -> the places that each pixel of the result reads. */
static Err affine_grid(Lower *l)
{
    View theta, places, y;
    Err  err;
    TRY(arg_view(l, "theta", &theta));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    int n = dims.rank - 2;
    if (theta.rank != 3 || n < 2 || n > 3 || theta.dim[2] != n + 1)
        return refuse(l, "a map of %d axes", n);
    Operand table = pixel_places(l, dims.at + 1, n, arg_bool(l, "align_corners", false));
    TRY(item_view(l, &table, &places));
    TRY(lower_matmul(l, places, view_permuted(theta, (int[]){ 0, 2, 1 }), &y));
    return give_view(l, 0, view_copied_reshape(y, dims));
}

/* clang-format off */
const LowerDef lower_matrices[] = {
    { "aten.vdot.default", vector_product, 0, false }, { "aten.bilinear.default", bilinear, 0, false },
    { "aten.kron.default", kronecker, 0, false }, { "aten.trace.default", trace, 0, false },
    { "aten.linalg_matrix_norm.str_ord", matrix_norm, 0, false },
    { "aten.linalg_cross.default", cross_product, 0, false }, { "aten.cross.default", cross_product, 0, false },
    { "aten.affine_grid_generator.default", affine_grid, 0, false },
    { 0 }
};
/* clang-format on */
