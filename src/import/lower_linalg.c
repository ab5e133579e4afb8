/* lower_linalg.c -- inverses, determinants and solutions of square systems. */
#include "import/lower.h"

#include "ops/elementwise/basic.h"
#include "ops/matmul/inverse.h"

#include <math.h>

typedef struct Inverted { /* of matrices (..., N, N) */
    Operand inverse, log_abs, sign;
} Inverted;

static Err invert(Lower *l, Operand item, Inverted *y)
{
    View   v;
    Tensor log_abs, sign;
    int    rank = item.view.rank;
    if (rank < 2 || item.view.dim[rank - 1] != item.view.dim[rank - 2])
        return refuse(l, "not square matrices");
    TRY(item_view(l, &item, &v));
    Dims    dims = view_dims(&v), batch = dims;
    int64_t n = v.dim[rank - 1];
    batch.rank -= 2;
    Tensor x = view_tensor_as(v, NULL, SHAPE(dims_count(batch), n, n));
    Tensor t = inverse(cast(x, F32), &log_abs, &sign);
    TRY(graph_check(l->graph));
    *y = (Inverted){ item_of(l, view_make(t, dims, NULL), EX_F32),
                     item_of(l, view_make(log_abs, batch, NULL), EX_F32),
                     item_of(l, view_make(sign, batch, NULL), EX_F32) };
    return OK;
}

static Err matrices_of(Lower *l, Operand *item)
{
    return arg_item(l, arg_given(l, "A") ? "A" : arg_given(l, "input") ? "input" : "self", item);
}

static Err invert_argument(Lower *l, Inverted *y)
{
    Operand x;
    TRY(matrices_of(l, &x));
    return invert(l, x, y);
}

static Err give_float(Lower *l, int i, Operand item)
{
    if (i >= l->call->n_out || l->call->out[i] < 0)
        return OK;
    Formula f = formula(l);
    return formula_give(&f, formula_input(&f, item), i);
}

/* Whether it went wrong: never, as far as the file knows. */
static Err give_info(Lower *l, int i)
{
    Err        err;
    HostArray *none;
    if (i >= l->call->n_out || l->call->out[i] < 0)
        return OK;
    Dims dims = out_dims(l, i, &err);
    TRY(err);
    return give(l, i, item_host(l, out_type_of(l, i), dims, &none));
}

static Err inverse_of(Lower *l)
{
    Inverted y;
    TRY(invert_argument(l, &y));
    TRY(give_float(l, 0, y.inverse));
    return give_info(l, 1);
}

/* sign exp(log_abs); its derivative reads both. */
static Err determinant(Lower *l)
{
    Inverted y;
    TRY(invert_argument(l, &y));
    Formula f = formula(l);
    int     size = F1(&f, EXP, formula_input(&f, y.log_abs));
    return formula_give(&f, F2(&f, MUL, formula_input(&f, y.sign), size), 0);
}

static Err sign_and_log(Lower *l)
{
    Inverted y;
    TRY(invert_argument(l, &y));
    TRY(give_float(l, 0, y.sign));
    return give_float(l, 1, y.log_abs);
}

/* NaN where the determinant is negative. */
static Err log_determinant(Lower *l)
{
    Inverted y;
    TRY(invert_argument(l, &y));
    Formula f = formula(l);
    int     negative = F2(&f, LT, formula_input(&f, y.sign), formula_number(&f, 0));
    return formula_give(
        &f, F3(&f, SELECT, negative, formula_number(&f, NAN), formula_input(&f, y.log_abs)), 0);
}

/* inverse(a) b, or b inverse(a); a vector b is a column. */
static Err give_solution(Lower *l, Operand a, Operand b, bool left)
{
    Inverted y;
    View     m, v, out;
    bool     vector = b.view.rank == 1 || (a.view.rank - 1 == b.view.rank && b.view.rank > 1);
    TRY(invert(l, a, &y));
    TRY(item_view(l, &y.inverse, &m));
    TRY(item_view(l, &b, &v));
    if (vector)
        v = view_inserted(v, v.rank, 1);
    if (left)
        TRY(lower_matmul(l, m, v, &out));
    else
        TRY(lower_matmul(l, v, m, &out));
    if (vector)
        out = view_dropped(out, out.rank - 1);
    return give_view(l, 0, out);
}

static Err solve(Lower *l)
{
    Operand a, b;
    TRY(matrices_of(l, &a));
    TRY(arg_item(l, "B", &b));
    TRY(give_solution(l, a, b, arg_bool(l, "left", true)));
    return give_info(l, 1);
}

/* Only one side of the diagonal counts; the diagonal may stand for ones. */
static Err solve_triangular(Lower *l)
{
    Operand a, b;
    TRY(arg_item(l, "self", &a));
    TRY(arg_item(l, "B", &b));
    int rank = a.view.rank;
    if (rank < 2)
        return refuse(l, "not square matrices");
    Formula f = formula(l);
    int     x = formula_input(&f, a);
    int     row = formula_input(&f, lower_positions(l, rank, rank - 2, a.view.dim[rank - 2]));
    int     column = formula_input(&f, lower_positions(l, rank, rank - 1, a.view.dim[rank - 1]));
    int     keep = arg_bool(l, "upper", false) ? F2(&f, GE, column, row) : F2(&f, LE, column, row);
    x = F3(&f, SELECT, keep, x, formula_number(&f, 0));
    if (arg_bool(l, "unitriangular", false))
        x = F3(&f, SELECT, F2(&f, EQ, column, row), formula_number(&f, 1), x);
    TRY(formula_item(&f, x, a.type, &a));
    return give_solution(l, a, b, arg_bool(l, "left", true));
}

/* Squared as often as its bits say; of a negative power, of the inverse. */
static Err power_of(Lower *l)
{
    Operand  item;
    Inverted y;
    View     x, out = { 0 };
    int64_t  n;
    bool     some = false;
    TRY(arg_item(l, "self", &item));
    TRY(arg_int(l, "n", 1, &n));
    if (n == 0 || n > 1 << 20 || n < -(1 << 20))
        return refuse(l, "the power %lld is not supported", (long long)n);
    if (n < 0) {
        TRY(invert(l, item, &y));
        item = y.inverse;
        n = -n;
    }
    TRY(item_view(l, &item, &x));
    for (; n; n /= 2) {
        if (n & 1 && some)
            TRY(lower_matmul(l, out, x, &out));
        else if (n & 1)
            out = x;
        some = some || n & 1;
        if (n > 1)
            TRY(lower_matmul(l, x, x, &x));
    }
    return give_view(l, 0, out);
}

/* clang-format off */
const LowerDef lower_linalg[] = {
    { "aten.linalg_inv.default", inverse_of, 0, false }, { "aten.inverse.default", inverse_of, 0, false },
    { "aten.linalg_inv_ex.default", inverse_of, 0, false },
    { "aten.linalg_det.default", determinant, 0, false }, { "aten.det.default", determinant, 0, false },
    { "aten.linalg_slogdet.default", sign_and_log, 0, false }, { "aten.slogdet.default", sign_and_log, 0, false },
    { "aten.logdet.default", log_determinant, 0, false },
    { "aten.linalg_solve.default", solve, 0, false }, { "aten.linalg_solve_ex.default", solve, 0, false },
    { "aten.linalg_solve_triangular.default", solve_triangular, 0, false },
    { "aten.linalg_matrix_power.default", power_of, 0, false }, { "aten.matrix_power.default", power_of, 0, false },
    { 0 }
};
/* clang-format on */
