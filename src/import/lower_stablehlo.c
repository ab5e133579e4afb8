/* lower_stablehlo.c -- elementwise operators, views, constants and sums of StableHLO.
 *
 * Tensors of a call are its argument `operands`; attributes have the names of the text. Integers
 * that are constants wrap as their type does (`bits`), so that random numbers of a fixed key are
 * constants too. */
#include "import/lower_stablehlo.h"

#include <math.h>
#include <string.h>

enum { MAX_JOINED_PARTS = 64 };

Err hlo_operand(Lower *l, int i, Operand *item)
{
    const ExportedArg *a = arg(l, "operands");
    *item = (Operand){ 0 };
    if (!a || i >= a->n)
        return refuse(l, "operand %d is missing", i);
    TRY(lower_output(l, a->values[i], item));
    return type_supported(item->type)
               ? OK
               : refuse(l, "elements of type %s are not supported", exported_type_name(item->type));
}

Err hlo_operand_view(Lower *l, int i, View *view)
{
    Operand item;
    TRY(hlo_operand(l, i, &item));
    return item_view(l, &item, view);
}

/* ---- integers ---- */

static int bits_of(const Lower *l)
{
    const ExportedArg *a = arg(l, "bits");
    return a ? (int)a->ints[0].value : 0;
}

static int64_t wrapped(int64_t x, int bits)
{
    int width = bits < 0 ? -bits : bits;
    if (width < 2 || width == 64)
        return x;
    uint64_t low = (uint64_t)x & (((uint64_t)1 << width) - 1);
    bool     minus = bits < 0 && low >> (width - 1);
    return minus ? (int64_t)(low | ~(((uint64_t)1 << width) - 1)) : (int64_t)low;
}

/* The result, wrapped where it is a constant. In the graph integers have 32 bits and a sign. */
static Err give_formula(Lower *l, Formula *f, int result)
{
    Operand      item;
    ExportedType type = out_type_of(l, 0);
    int          bits = bits_of(l);
    TRY(formula_item(f, result, type, &item));
    if (item.host && item.host->integer)
        for (int64_t i = 0; i < item.host->n; i++)
            item.host->i[i] = wrapped(item.host->i[i], bits);
    else if (!item.host && bits >= 32)
        return refuse(l, "unsigned integers that depend on the data are not supported; draw random "
                         "numbers outside of the loss and give them as an argument");
    return give(l, 0, item);
}

static Err steps(Formula *f, int n, int *x)
{
    for (int i = 0; i < n; i++) {
        Operand item;
        TRY(hlo_operand(f->l, i, &item));
        x[i] = formula_input(f, item);
    }
    return OK;
}

/* ---- elementwise ---- */

static Err unary(Lower *l)
{
    Formula f = formula(l);
    int     x;
    TRY(steps(&f, 1, &x));
    return give_formula(l, &f, formula_step(&f, (PointOp)l->def->with, x, -1, -1));
}

static Err binary(Lower *l)
{
    Formula f = formula(l);
    int     x[2];
    TRY(steps(&f, 2, x));
    return give_formula(l, &f, formula_step(&f, (PointOp)l->def->with, x[0], x[1], -1));
}

/* A single constant of this value. */
static bool is_number(const Operand *item, double value)
{
    for (int a = 0; item->host && a < item->view.rank; a++)
        if (item->view.dim[a] != 1 && item->view.stride[a])
            return false;
    return item->host && host_f(item, item->view.offset) == value;
}

/* max(x, 0) is jax.nn.relu, whose gradient at 0 is 0; max(x, -inf) stands in softmax. */
static Err maximum(Lower *l)
{
    Operand item[2];
    for (int i = 0; i < 2; i++)
        TRY(hlo_operand(l, i, &item[i]));
    for (int i = 0; i < 2; i++) {
        if (!type_floats(item[0].type) || item[1 - i].host)
            continue;
        if (is_number(&item[i], -INFINITY) &&
            dims_same(view_dims(&item[0].view), view_dims(&item[1].view)))
            return give(l, 0, item[1 - i]);
        Formula f = formula(l);
        if (is_number(&item[i], 0))
            return formula_give(&f, F1(&f, RELU, formula_input(&f, item[1 - i])), 0);
    }
    return binary(l);
}

/* Integers: towards zero. */
static Err divide(Lower *l)
{
    Formula f = formula(l);
    int     x[2];
    TRY(steps(&f, 2, x));
    if (type_floats(out_type_of(l, 0)))
        return give_formula(l, &f, F2(&f, DIV, x[0], x[1]));
    int whole = F2(&f, SUB, x[0], F2(&f, FMOD, x[0], x[1]));
    return give_formula(l, &f, F2(&f, FLOOR_DIV, whole, x[1]));
}

/* Whole exponents are products, which are exact for negative bases. */
static Err power(Lower *l)
{
    Formula f = formula(l);
    int     x[2];
    TRY(steps(&f, 2, x));
    if (is_number(&f.in[1], 2))
        return give_formula(l, &f, F1(&f, SQUARE, x[0]));
    if (is_number(&f.in[1], 3))
        return give_formula(l, &f, F2(&f, MUL, F1(&f, SQUARE, x[0]), x[0]));
    if (is_number(&f.in[1], 0.5))
        return give_formula(l, &f, F1(&f, SQRT, x[0]));
    return give_formula(l, &f, F2(&f, POW, formula_float(&f, x[0]), formula_float(&f, x[1])));
}

static Err negated_not(Lower *l)
{
    Formula f = formula(l);
    int     x;
    TRY(steps(&f, 1, &x));
    bool truth = out_type_of(l, 0) == EX_BOOL;
    return give_formula(l, &f, truth ? F1(&f, NOT, x) : F2(&f, SUB, formula_integer(&f, -1), x));
}

/* By the type's width or more: 0. Signed constants are shifted as their bits. */
static Err shift(Lower *l)
{
    Operand    x, by;
    HostArray *to;
    int        bits = bits_of(l), width = bits < 0 ? -bits : bits;
    TRY(hlo_operand(l, 0, &x));
    TRY(hlo_operand(l, 1, &by));
    if (!x.host || !by.host)
        return refuse(l, "shifts of integers that depend on the data are not supported; draw "
                         "random numbers outside of the loss and give them as an argument");
    Dims    dims = view_dims(&x.view);
    Operand out = item_host(l, out_type_of(l, 0), dims, &to);
    View    amounts = view_expanded(by.view, dims);
    int64_t at, n, i = 0;
    for (HostWalk a = host_walk(&x.view), b = host_walk(&amounts);
         host_step(&a, &at) && host_step(&b, &n); i++) {
        uint64_t v = (uint64_t)wrapped(host_i(&x, at), width);
        int64_t  k = host_i(&by, n);
        bool     out_of = k < 0 || k >= width;
        to->i[i] = wrapped(out_of ? 0 : (int64_t)(l->def->with ? v << k : v >> k), bits);
    }
    return give(l, 0, item_compressed(out));
}

static Err compare(Lower *l)
{
    static const struct {
        const char *name;
        PointOp     op;
    } how[] = { { "EQ", POINT_EQ }, { "NE", POINT_NE }, { "LT", POINT_LT },
                { "LE", POINT_LE }, { "GT", POINT_GT }, { "GE", POINT_GE } };
    Formula f = formula(l);
    int     x[2];
    TRY(steps(&f, 2, x));
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        if (!strcmp(how[i].name, arg_text(l, "word", "")))
            return formula_give(&f, formula_step(&f, how[i].op, x[0], x[1], -1), 0);
    return refuse(l, "the comparison %s is not known", arg_text(l, "word", ""));
}

static Err select(Lower *l)
{
    Formula f = formula(l);
    int     x[3];
    TRY(steps(&f, 3, x));
    return formula_give(&f, F3(&f, SELECT, x[0], x[1], x[2]), 0);
}

static Err clamp(Lower *l)
{
    Formula f = formula(l);
    int     x[3];
    TRY(steps(&f, 3, x));
    return formula_give(&f, F2(&f, CLAMP_MAX, F2(&f, CLAMP_MIN, x[1], x[0]), x[2]), 0);
}

static Err convert(Lower *l)
{
    Operand item;
    TRY(hlo_operand(l, 0, &item));
    if (item.host && !type_floats(out_type_of(l, 0))) {
        Formula f = formula(l);
        return give_formula(l, &f, formula_as(&f, formula_input(&f, item), out_type_of(l, 0)));
    }
    if (bits_of(l) >= 32 && item.type != EX_BOOL)
        return refuse(l, "unsigned integers that depend on the data are not supported");
    return lower_cast(l, item);
}

/* 1 - erf(x) */
static Err erfc_of(Lower *l)
{
    Formula f = formula(l);
    int     x;
    TRY(steps(&f, 1, &x));
    return formula_give(&f, F2(&f, SUB, formula_number(&f, 1), F1(&f, ERF, x)), 0);
}

static Err is_finite(Lower *l)
{
    Formula f = formula(l);
    int     x;
    TRY(steps(&f, 1, &x));
    return formula_give(&f, F1(&f, NOT, F2(&f, OR, F1(&f, IS_NAN, x), F1(&f, IS_INF, x))), 0);
}

static double erf_inverse(double y)
{
    double x = 0;
    if (fabs(y) >= 1)
        return y > 0 ? INFINITY : y < 0 ? -INFINITY : 0;
    double w = log1p(-y * y), a = 2 / (3.14159265358979323846 * 0.147) + w / 2; /* Winitzki */
    x = copysign(sqrt(sqrt(a * a - w / 0.147) - a), y);
    for (int i = 0; i < 4; i++) /* Newton */
        x -= (erf(x) - y) / (1.12837916709551257390 * exp(-x * x));
    return x;
}

/* Constants only: erf_inv makes normal numbers of a fixed key; bits as a float. */
static Err host_only(Lower *l)
{
    Operand    x;
    HostArray *to;
    int64_t    at, i = 0;
    TRY(hlo_operand(l, 0, &x));
    if (!x.host || (l->def->with && (out_type_of(l, 0) != EX_F32 || !x.host->integer)))
        return refuse(l, "it is supported for constants only; draw random numbers outside of the "
                         "loss and give them as an argument");
    Operand out = item_host(l, out_type_of(l, 0), view_dims(&x.view), &to);
    for (HostWalk w = host_walk(&x.view); host_step(&w, &at); i++) {
        uint32_t bits = (uint32_t)host_i(&x, at);
        float    f;
        memcpy(&f, &bits, sizeof f);
        to->f[i] = l->def->with ? (double)f : (double)(float)erf_inverse(host_f(&x, at));
    }
    return give(l, 0, item_compressed(out));
}

/* ---- constants and views ---- */

static Err constant(Lower *l)
{
    const ExportedArg *value = arg(l, "value");
    HostArray         *to;
    Err                err;
    Dims               dims = out_dims(l, 0, &err);
    TRY(err);
    if (!value || !value->n)
        return refuse(l, "its elements are not in the text");
    bool    splat = value->n == 1;
    Operand out = item_host(l, out_type_of(l, 0), splat ? (Dims){ 0 } : dims, &to);
    for (int32_t i = 0; i < value->n; i++)
        if (to->integer)
            to->i[i] = value->kind == ARG_INTS ? value->ints[i].value : int_of(value->floats[i]);
        else
            to->f[i] = value->kind == ARG_FLOATS ? value->floats[i] : (double)value->ints[i].value;
    out.view = view_expanded(out.view, dims);
    return give(l, 0, splat ? out : item_compressed(out));
}

static Err iota(Lower *l)
{
    Err  err;
    int  axis;
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_axis(l, "dim", dims.rank, 0, &axis));
    Operand at = lower_positions(l, dims.rank, axis, dims.at[axis]);
    at.view = view_expanded(at.view, dims);
    Formula f = formula(l);
    return formula_give(&f, formula_input(&f, at), 0);
}

static Err broadcast_in_dim(Lower *l)
{
    Operand item;
    Err     err;
    int64_t to[VIEW_RANK];
    int     n;
    Dims    dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(hlo_operand(l, 0, &item));
    TRY(arg_ints(l, "dims", to, &n));
    View v = { .base = item.view.base, .offset = item.view.offset, .rank = dims.rank };
    memcpy(v.dim, dims.at, sizeof v.dim);
    if (n != item.view.rank)
        return refuse(l, "%d axes are placed, and there are %d", n, item.view.rank);
    for (int a = 0; a < n; a++) {
        if (to[a] < 0 || to[a] >= dims.rank ||
            (item.view.dim[a] != 1 && item.view.dim[a] != dims.at[to[a]]))
            return refuse(l, "axis %d cannot be broadcast", a);
        v.stride[to[a]] = item.view.dim[a] == 1 ? 0 : item.view.stride[a];
    }
    return give(l, 0, item_with(item, v));
}

static Err reshape_of(Lower *l)
{
    Operand item, out;
    Err     err;
    Dims    dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(hlo_operand(l, 0, &item));
    TRY(lower_reshape(l, item, dims, &out));
    return give(l, 0, out);
}

static Err transpose(Lower *l)
{
    Operand item;
    int64_t to[VIEW_RANK];
    int     n, axis[VIEW_RANK];
    TRY(hlo_operand(l, 0, &item));
    TRY(arg_ints(l, "dims", to, &n));
    if (n != item.view.rank)
        return refuse(l, "%d axes are permuted, and there are %d", n, item.view.rank);
    for (int a = 0; a < n; a++) {
        if (to[a] < 0 || to[a] >= n)
            return refuse(l, "axis %lld of %d", (long long)to[a], n);
        axis[a] = (int)to[a];
    }
    return give(l, 0, item_with(item, view_permuted(item.view, axis)));
}

static Err slice_of(Lower *l)
{
    Operand item;
    int64_t start[VIEW_RANK], limit[VIEW_RANK], stride[VIEW_RANK];
    int     n, m, k;
    TRY(hlo_operand(l, 0, &item));
    TRY(arg_ints(l, "start", start, &n));
    TRY(arg_ints(l, "limit", limit, &m));
    TRY(arg_ints(l, "stride", stride, &k));
    if (n != item.view.rank || m != n || k != n)
        return refuse(l, "a slice of %d axes of %d", n, item.view.rank);
    for (int a = 0; a < n; a++) {
        if (start[a] < 0 || limit[a] < start[a] || limit[a] > item.view.dim[a] || stride[a] < 1)
            return refuse(l, "a slice outside of its axis");
        item.view = view_sliced(item.view, a, start[a],
                                (limit[a] - start[a] + stride[a] - 1) / stride[a], stride[a]);
    }
    return give(l, 0, item);
}

/* At constant places, which are clamped so that the slice lies inside. */
static Err dynamic_slice(Lower *l)
{
    Operand item, index;
    int64_t size[VIEW_RANK], from;
    int     n;
    TRY(hlo_operand(l, 0, &item));
    TRY(arg_ints(l, "sizes", size, &n));
    if (n != item.view.rank)
        return refuse(l, "a slice of %d axes of %d", n, item.view.rank);
    for (int a = 0; a < n; a++) {
        TRY(hlo_operand(l, a + 1, &index));
        TRY(item_int(&index, &from));
        int64_t last = item.view.dim[a] - size[a];
        if (size[a] < 0 || last < 0)
            return refuse(l, "a slice outside of its axis");
        from = from > last ? last : from < 0 ? 0 : from;
        item.view = view_sliced(item.view, a, from, size[a], 1);
    }
    return give(l, 0, item);
}

static Err concatenate(Lower *l)
{
    const ExportedArg *a = arg(l, "operands");
    Operand            items[MAX_JOINED_PARTS], out;
    int                axis, n = 0;
    if (!a || a->n > MAX_JOINED_PARTS)
        return refuse(l, "more than %d parts", MAX_JOINED_PARTS);
    for (int32_t i = 0; i < a->n; i++) {
        TRY(hlo_operand(l, i, &items[n]));
        n += view_count(&items[n].view) != 0;
    }
    if (!n)
        return refuse(l, "nothing is joined");
    TRY(arg_axis(l, "dim", items[0].view.rank, 0, &axis));
    TRY(lower_join(l, items, n, axis, &out));
    return give(l, 0, out);
}

/* ComplexPair of the padding's value beside the operand; a negative padding leaves out elements. */
static Err pad_of(Lower *l)
{
    Operand x, value, fill;
    int64_t edge[2][VIEW_RANK], inner[VIEW_RANK];
    int     n, m, k;
    TRY(hlo_operand(l, 0, &x));
    TRY(hlo_operand(l, 1, &value));
    TRY(arg_ints(l, "low", edge[0], &n));
    TRY(arg_ints(l, "high", edge[1], &m));
    TRY(arg_ints(l, "interior", inner, &k));
    if (n != x.view.rank || m != n || k != n)
        return refuse(l, "a padding of %d axes of %d", n, x.view.rank);
    for (int a = 0; a < n; a++) {
        if (inner[a])
            return refuse(l, "padding between elements is not supported");
        int64_t less[2] = { edge[0][a] < 0 ? -edge[0][a] : 0, edge[1][a] < 0 ? -edge[1][a] : 0 };
        if (less[0] + less[1] > x.view.dim[a])
            return refuse(l, "a padding that leaves nothing");
        x.view = view_sliced(x.view, a, less[0], x.view.dim[a] - less[0] - less[1], 1);
        Operand parts[3];
        int     count = 0;
        for (int side = 0; side < 2; side++) {
            Dims dims = view_dims(&x.view);
            dims.at[a] = edge[side][a];
            fill = item_with(value, view_expanded(value.view, dims));
            if (side == 1)
                parts[count++] = x;
            if (edge[side][a] > 0)
                parts[count++] = fill;
        }
        if (count > 1)
            TRY(lower_join(l, parts, count, a, &x));
    }
    return give(l, 0, x);
}

/* ---- sums ---- */

static Err reduce(Lower *l)
{
    static const struct {
        const char *body;
        PointReduce how;
        double      start;
    } kinds[] = { { "stablehlo.add", POINT_SUM, 0 },
                  { "stablehlo.maximum", POINT_AMAX, -INFINITY },
                  { "stablehlo.minimum", POINT_AMIN, INFINITY },
                  { "stablehlo.or", POINT_AMAX, 0 },
                  { "stablehlo.and", POINT_AMIN, 1 } };
    Operand     x, start, y;
    int64_t     axis[VIEW_RANK];
    int         n;
    uint32_t    axes = 0;
    const char *body = arg_text(l, "body", "");
    size_t      k = 0;
    while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].body, body) != 0)
        k++;
    const ExportedArg *given = arg(l, "operands");
    if (k == sizeof kinds / sizeof *kinds || !given || given->n != 2)
        return refuse(l, "only sums, largest and smallest elements, any and all are supported");
    TRY(hlo_operand(l, 0, &x));
    TRY(hlo_operand(l, 1, &start));
    TRY(arg_ints(l, "dimensions", axis, &n));
    for (int i = 0; i < n; i++) {
        if (axis[i] < 0 || axis[i] >= x.view.rank)
            return refuse(l, "axis %lld of %d", (long long)axis[i], x.view.rank);
        axes |= 1u << axis[i];
    }
    bool truth = x.type == EX_BOOL;
    bool extreme = kinds[k].how != POINT_SUM && !truth && !type_floats(x.type);
    if (k >= 3 && !truth)
        return refuse(l, "and, or of numbers are not supported");
    if (!extreme && !is_number(&start, kinds[k].start))
        return refuse(l, "it starts from another number than its neutral one");
    if (!axes)
        return give(l, 0, x);
    Formula f = formula(l);
    TRY(formula_reduce(&f, formula_input(&f, x), kinds[k].how, axes, 1, out_type_of(l, 0), &y));
    return give(l, 0, y);
}

static Err same(Lower *l)
{
    for (int i = 0; i < l->call->n_out; i++) {
        Operand item;
        TRY(hlo_operand(l, i, &item));
        TRY(give(l, i, item));
    }
    return OK;
}

#define UNARY(name, op)                                                                            \
    {                                                                                              \
        name, unary, POINT_##op, false                                                             \
    }
#define BINARY(name, op)                                                                           \
    {                                                                                              \
        "stablehlo." name, binary, POINT_##op, false                                               \
    }

/* clang-format off */
const LowerDef lower_stablehlo[] = {
    UNARY("stablehlo.abs", ABS), UNARY("stablehlo.ceil", CEIL), UNARY("stablehlo.cosine", COS),
    UNARY("stablehlo.exponential", EXP), UNARY("stablehlo.exponential_minus_one", EXPM1),
    UNARY("stablehlo.floor", FLOOR), UNARY("stablehlo.log", LOG),
    UNARY("stablehlo.log_plus_one", LOG1P), UNARY("stablehlo.logistic", SIGMOID),
    UNARY("stablehlo.negate", NEG), UNARY("stablehlo.round_nearest_even", ROUND),
    UNARY("stablehlo.rsqrt", RSQRT), UNARY("stablehlo.sign", SIGN), UNARY("stablehlo.sine", SIN),
    UNARY("stablehlo.sqrt", SQRT), UNARY("stablehlo.tan", TAN), UNARY("stablehlo.tanh", TANH),
    UNARY("chlo.erf", ERF), UNARY("chlo.square", SQUARE), UNARY("chlo.tan", TAN),
    UNARY("chlo.sinh", SINH), UNARY("chlo.cosh", COSH), UNARY("chlo.asin", ASIN),
    UNARY("chlo.acos", ACOS), UNARY("chlo.atan", ATAN),
    BINARY("add", ADD), BINARY("subtract", SUB), BINARY("multiply", MUL), BINARY("minimum", MIN),
    BINARY("atan2", ATAN2), BINARY("remainder", FMOD), BINARY("and", AND), BINARY("or", OR),
    BINARY("xor", XOR),
    { "stablehlo.maximum", maximum, POINT_MAX, false }, { "stablehlo.divide", divide, 0, false },
    { "stablehlo.power", power, 0, false }, { "stablehlo.not", negated_not, 0, false },
    { "stablehlo.shift_left", shift, 1, false },
    { "stablehlo.shift_right_logical", shift, 0, false },
    { "stablehlo.compare", compare, 0, false }, { "stablehlo.select", select, 0, false },
    { "stablehlo.clamp", clamp, 0, false }, { "stablehlo.convert", convert, 0, false },
    { "stablehlo.is_finite", is_finite, 0, false },
    { "chlo.erfc", erfc_of, 0, false }, { "chlo.erf_inv", host_only, 0, false },
    { "stablehlo.bitcast_convert", host_only, 1, false },
    { "stablehlo.constant", constant, 0, false }, { "stablehlo.iota", iota, 0, false },
    { "stablehlo.broadcast_in_dim", broadcast_in_dim, 0, false },
    { "stablehlo.reshape", reshape_of, 0, false }, { "stablehlo.transpose", transpose, 0, false },
    { "stablehlo.slice", slice_of, 0, false },
    { "stablehlo.dynamic_slice", dynamic_slice, 0, false },
    { "stablehlo.concatenate", concatenate, 0, false }, { "stablehlo.pad", pad_of, 0, false },
    { "stablehlo.reduce", reduce, 0, false },
    { "stablehlo.optimization_barrier", same, 0, false },
    { "stablehlo.custom_call @Sharding", same, 0, false },
    { "stablehlo.dot_general", hlo_dot, 0, false },
    { "stablehlo.convolution", hlo_convolution, 0, false },
    { "stablehlo.gather", hlo_gather, 0, false },
    { "stablehlo.reduce_window", hlo_window, 0, false },
    { 0 }
};
/* clang-format on */
