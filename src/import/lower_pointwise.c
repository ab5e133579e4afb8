/* lower_pointwise.c -- elementwise operators of ATen as formulas. */
#include "import/lower.h"

#include <math.h>
#include <string.h>

static Err self_step(Formula *f, const char *name, int *step)
{
    Operand item;
    TRY(arg_item(f->l, name, &item));
    if (!item.set)
        return refuse(f->l, "'%s' is missing", name);
    if (!type_supported(item.type))
        return refuse(f->l, "elements of type %s are not supported", exported_type_name(item.type));
    *step = formula_input(f, item);
    return OK;
}

static Err unary(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    TRY(self_step(&f, "self", &x));
    return formula_give(&f, formula_step(&f, (PointOp)l->def->with, x, -1, -1), 0);
}

/* Operands of arithmetic are converted to the result's kind first, as PyTorch does. */
static Err pair(Formula *f, int *a, int *b)
{
    TRY(self_step(f, "self", a));
    TRY(self_step(f, arg_given(f->l, "other") ? "other" : "exponent", b));
    if (type_floats(out_type_of(f->l, 0))) {
        *a = formula_float(f, *a);
        *b = formula_float(f, *b);
    }
    return OK;
}

static Err scaled(Formula *f, const char *name, int *x)
{
    double alpha;
    TRY(arg_float(f->l, name, 1, &alpha));
    if (alpha != 1)
        *x = F2(f, MUL, *x,
                f->step[*x].integer ? formula_integer(f, int_of(alpha)) : formula_number(f, alpha));
    return OK;
}

static Err binary(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(pair(&f, &a, &b));
    TRY(scaled(&f, "alpha", &b));
    return formula_give(&f, formula_step(&f, (PointOp)l->def->with, a, b, -1), 0);
}

static Err rsub(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(pair(&f, &a, &b));
    TRY(scaled(&f, "alpha", &a));
    return formula_give(&f, F2(&f, SUB, b, a), 0);
}

static Err div_mode(Lower *l)
{
    Formula     f = formula(l);
    int         a = 0, b = 0;
    const char *mode = arg_text(l, "rounding_mode", "");
    TRY(pair(&f, &a, &b));
    if (!strcmp(mode, "floor"))
        return formula_give(&f, F2(&f, FLOOR_DIV, a, b), 0);
    int q = F2(&f, DIV, a, b);
    return formula_give(&f, !strcmp(mode, "trunc") ? F1(&f, TRUNC, q) : q, 0);
}

/* Whole exponents are products, which are faster and exact for negative bases. */
static Err power(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  e;
    TRY(self_step(&f, "self", &x));
    TRY(arg_float(l, "exponent", 1, &e));
    bool whole = !type_floats(out_type_of(l, 0));
    if (!whole)
        x = formula_float(&f, x);
    if (e == 2)
        return formula_give(&f, F1(&f, SQUARE, x), 0);
    if (e == 0.5)
        return formula_give(&f, F1(&f, SQRT, x), 0);
    if (e == -0.5)
        return formula_give(&f, F1(&f, RSQRT, x), 0);
    if (e == -1)
        return formula_give(&f, F1(&f, RECIPROCAL, x), 0);
    if (e == 1)
        return formula_give(&f, x, 0);
    if (e == 3)
        return formula_give(&f, F2(&f, MUL, F1(&f, SQUARE, x), x), 0);
    if (e == 4)
        return formula_give(&f, F1(&f, SQUARE, F1(&f, SQUARE, x)), 0);
    return formula_give(&f, F2(&f, POW, formula_float(&f, x), formula_number(&f, e)), 0);
}

static Err compare(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(self_step(&f, "self", &a));
    TRY(self_step(&f, "other", &b));
    return formula_give(&f, formula_step(&f, (PointOp)l->def->with, a, b, -1), 0);
}

static Err logical(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(self_step(&f, "self", &a));
    TRY(self_step(&f, "other", &b));
    return formula_give(
        &f, formula_step(&f, (PointOp)l->def->with, F1(&f, TO_TRUTH, a), F1(&f, TO_TRUTH, b), -1),
        0);
}

/* ~x of integers is -1 - x. */
static Err bitwise_not(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    TRY(self_step(&f, "self", &x));
    bool truth = f.in[0].type == EX_BOOL;
    return formula_give(&f, truth ? F1(&f, NOT, x) : F2(&f, SUB, formula_integer(&f, -1), x), 0);
}

static Err where(Lower *l)
{
    Formula f = formula(l);
    int     c = 0, a = 0, b = 0;
    TRY(self_step(&f, "condition", &c));
    TRY(self_step(&f, "self", &a));
    TRY(self_step(&f, "other", &b));
    if (type_floats(out_type_of(l, 0))) {
        a = formula_float(&f, a);
        b = formula_float(&f, b);
    }
    return formula_give(&f, F3(&f, SELECT, F1(&f, TO_TRUTH, c), a, b), 0);
}

static Err masked_fill(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, mask = 0, value = 0;
    TRY(self_step(&f, "self", &x));
    TRY(self_step(&f, "mask", &mask));
    TRY(self_step(&f, "value", &value));
    if (type_floats(out_type_of(l, 0))) {
        x = formula_float(&f, x);
        value = formula_float(&f, value);
    } else {
        value = formula_as(&f, value, f.in[0].type == EX_BOOL ? EX_BOOL : EX_I64);
    }
    return formula_give(&f, F3(&f, SELECT, mask, value, x), 0);
}

static Err clamp(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, bound = 0;
    TRY(self_step(&f, "self", &x));
    if (type_floats(out_type_of(l, 0)))
        x = formula_float(&f, x);
    if (arg_given(l, "min")) {
        TRY(self_step(&f, "min", &bound));
        x = F2(&f, CLAMP_MIN, x, bound);
    }
    if (arg_given(l, "max")) {
        TRY(self_step(&f, "max", &bound));
        x = F2(&f, CLAMP_MAX, x, bound);
    }
    return formula_give(&f, x, 0);
}

static Err gelu(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    TRY(self_step(&f, "self", &x));
    bool tanh_form = !strcmp(arg_text(l, "approximate", "none"), "tanh");
    return formula_give(&f, tanh_form ? F1(&f, GELU_TANH, x) : F1(&f, GELU, x), 0);
}

/* log(1 + exp(beta x)) / beta; x itself above the threshold. */
static Err softplus(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  beta, threshold;
    TRY(self_step(&f, "self", &x));
    TRY(arg_float(l, "beta", 1, &beta));
    TRY(arg_float(l, "threshold", 20, &threshold));
    int z = beta == 1 ? x : F2(&f, MUL, x, formula_number(&f, beta));
    int y = F1(&f, SOFTPLUS, z);
    y = beta == 1 ? y : F2(&f, DIV, y, formula_number(&f, beta));
    return formula_give(&f, F3(&f, SELECT, F2(&f, GT, z, formula_number(&f, threshold)), x, y), 0);
}

/* clamp(x / 6 + 1/2, 0, 1), without a gradient at the bounds */
static int hard_gate(Formula *f, int x)
{
    int three = formula_number(f, 3), six = formula_number(f, 6);
    int y = F2(f, DIV, F2(f, ADD, x, three), six);
    int low = F2(f, LE, x, formula_number(f, -3)), high = F2(f, GE, x, three);
    return F3(f, SELECT, low, formula_number(f, 0), F3(f, SELECT, high, formula_number(f, 1), y));
}

static Err hardsigmoid(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    TRY(self_step(&f, "self", &x));
    return formula_give(&f, hard_gate(&f, x), 0);
}

static Err hardswish(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    TRY(self_step(&f, "self", &x));
    return formula_give(&f, F2(&f, MUL, x, hard_gate(&f, x)), 0);
}

static Err hardtanh(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  low, high;
    bool    six = l->def->with;
    TRY(self_step(&f, "self", &x));
    TRY(arg_float(l, "min_val", six ? 0 : -1, &low));
    TRY(arg_float(l, "max_val", six ? 6 : 1, &high));
    int a = formula_number(&f, low), b = formula_number(&f, high);
    int y = F3(&f, SELECT, F2(&f, GE, x, b), b, x);
    return formula_give(&f, F3(&f, SELECT, F2(&f, LE, x, a), a, y), 0);
}

static Err leaky_relu(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  slope;
    TRY(self_step(&f, "self", &x));
    TRY(arg_float(l, "negative_slope", 0.01, &slope));
    int below = F2(&f, MUL, x, formula_number(&f, slope));
    return formula_give(&f, F3(&f, SELECT, F2(&f, GT, x, formula_number(&f, 0)), x, below), 0);
}

/* One weight per channel (axis 1), or one for all. */
static Err prelu(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, shape = 0;
    Operand weight;
    TRY(self_step(&f, "self", &x));
    TRY(arg_item(l, "weight", &weight));
    for (int i = 2; weight.view.rank == 1 && i < f.in[0].view.rank; i++)
        shape++;
    for (; shape; shape--)
        weight.view = view_inserted(weight.view, weight.view.rank, 1);
    int below = F2(&f, MUL, x, formula_input(&f, weight));
    return formula_give(&f, F3(&f, SELECT, F2(&f, GT, x, formula_number(&f, 0)), x, below), 0);
}

/* scale (max(0, x) + min(0, alpha (exp(x input_scale) - 1))) */
static Err elu(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  alpha, scale, inner;
    bool    self = l->def->with == 1; /* selu's constants */
    TRY(self_step(&f, "self", &x));
    TRY(arg_float(l, "alpha", self ? 1.6732632423543772 : 1, &alpha));
    TRY(arg_float(l, "scale", self ? 1.0507009873554805 : 1, &scale));
    TRY(arg_float(l, "input_scale", l->def->with == 2 ? 1 / alpha : 1, &inner));
    int z = inner == 1 ? x : F2(&f, MUL, x, formula_number(&f, inner));
    int below = F2(&f, MUL, F1(&f, EXPM1, z), formula_number(&f, alpha));
    int y = F3(&f, SELECT, F2(&f, GT, x, formula_number(&f, 0)), x, below);
    return formula_give(&f, scale == 1 ? y : F2(&f, MUL, y, formula_number(&f, scale)), 0);
}

static Err addcmul(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, a = 0, b = 0;
    TRY(self_step(&f, "self", &x));
    TRY(self_step(&f, "tensor1", &a));
    TRY(self_step(&f, "tensor2", &b));
    int y = l->def->with ? F2(&f, DIV, a, b) : F2(&f, MUL, a, b);
    TRY(scaled(&f, "value", &y));
    return formula_give(&f, F2(&f, ADD, x, y), 0);
}

static Err lerp(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, end = 0, weight = 0;
    TRY(self_step(&f, "self", &x));
    TRY(self_step(&f, "end", &end));
    TRY(self_step(&f, "weight", &weight));
    return formula_give(&f, F2(&f, ADD, x, F2(&f, MUL, weight, F2(&f, SUB, end, x))), 0);
}

/* ---- casts and copies ---- */

/* The same elements: no node. A cast within a kind of numbers that is stored alike is none either;
 * a cast to fewer bits rounds. */
Err lower_cast(Lower *l, Operand item)
{
    ExportedType type = out_type_of(l, 0);
    if (!item.set || !type_supported(type) || !type_supported(item.type))
        return refuse(l, "a cast from %s to %s is not supported", exported_type_name(item.type),
                      exported_type_name(type));
    bool floats = type_floats(type) && type_floats(item.type);
    bool wholes = !type_floats(type) && !type_floats(item.type) && type != EX_BOOL;
    bool alike = type == item.type ||
                 (item.host ? floats || wholes
                            : wholes && store_type(l, type) == view_type(&item.view));
    /* fp32 that the graph keeps in fewer bits stays as it is; another kind is a rounding. */
    if (!alike && !item.host && floats)
        alike = (type == EX_F32 || type == EX_F64) && l->graph->compute != F32 &&
                view_type(&item.view) == l->graph->compute && item.type != EX_BF16 &&
                item.type != EX_F16;
    if (alike) {
        if (item.host && type_floats(type) && type != item.type && type != EX_F64) {
            Formula f = formula(l);
            return formula_give(&f, formula_input(&f, item), 0);
        }
        return give(l, 0, item);
    }
    Formula f = formula(l);
    int     x = formula_input(&f, item);
    return formula_give(&f, formula_as(&f, x, type), 0);
}

static Err cast_to(Lower *l)
{
    Operand item;
    TRY(arg_item(l, arg_given(l, "self") ? "self" : "input", &item));
    return lower_cast(l, item);
}

static Err same(Lower *l)
{
    Operand item;
    TRY(arg_item(l, "self", &item));
    return give(l, 0, item);
}

static Err detach(Lower *l)
{
    Operand item;
    TRY(arg_item(l, "self", &item));
    if (item.host || !type_floats(item.type))
        return give(l, 0, item);
    Formula f = formula(l);
    return formula_give(&f, F1(&f, DETACH, formula_input(&f, item)), 0);
}

/* self takes src's elements: the same as an expanded cast. */
static Err copy(Lower *l)
{
    Operand self, src;
    TRY(arg_item(l, "self", &self));
    TRY(arg_item(l, l->def->with ? "value" : "src", &src));
    src.view = view_expanded(src.view, view_dims(&self.view));
    Formula f = formula(l);
    int     x = formula_input(&f, src);
    bool    plain = type_floats(src.type) == type_floats(self.type) && src.type != EX_BOOL;
    if (plain && (src.host || view_type(&src.view) == store_type(l, self.type)))
        return give(l, 0, src);
    return formula_give(&f, formula_as(&f, x, self.type), 0);
}

static Err zero(Lower *l)
{
    Operand self, nil = item_integer(l, 0);
    TRY(arg_item(l, "self", &self));
    HostArray *array;
    nil = item_host(l, self.type, (Dims){ 0 }, &array);
    nil.view = view_expanded(nil.view, view_dims(&self.view));
    return give(l, 0, nil);
}

#define UNARY(name, op)                                                                            \
    {                                                                                              \
        "aten." name ".default", unary, POINT_##op, false                                          \
    }
#define BINARY(name, op)                                                                           \
    {                                                                                              \
        "aten." name, binary, POINT_##op, false                                                    \
    }
#define COMPARE(name, op)                                                                          \
    { "aten." name ".Tensor", compare, POINT_##op, false },                                        \
    {                                                                                              \
        "aten." name ".Scalar", compare, POINT_##op, false                                         \
    }
#define BITS(name, op)                                                                             \
    { "aten." name ".Tensor", compare, POINT_##op, false },                                        \
    {                                                                                              \
        "aten." name ".Scalar", compare, POINT_##op, false                                         \
    }

/* clang-format off */
const LowerDef lower_pointwise[] = {
    UNARY("relu", RELU), UNARY("silu", SILU), UNARY("sigmoid", SIGMOID), UNARY("tanh", TANH),
    UNARY("mish", MISH), UNARY("log_sigmoid", LOG_SIGMOID), UNARY("exp", EXP), UNARY("exp2", EXP2),
    UNARY("expm1", EXPM1), UNARY("log", LOG), UNARY("log2", LOG2), UNARY("log1p", LOG1P),
    UNARY("sin", SIN), UNARY("cos", COS), UNARY("tan", TAN), UNARY("asin", ASIN),
    UNARY("acos", ACOS), UNARY("atan", ATAN), UNARY("sinh", SINH), UNARY("cosh", COSH),
    UNARY("erf", ERF), UNARY("sqrt", SQRT), UNARY("rsqrt", RSQRT), UNARY("reciprocal", RECIPROCAL),
    UNARY("square", SQUARE), UNARY("neg", NEG), UNARY("abs", ABS), UNARY("sign", SIGN),
    UNARY("sgn", SIGN), UNARY("floor", FLOOR), UNARY("ceil", CEIL), UNARY("round", ROUND),
    UNARY("trunc", TRUNC), UNARY("isnan", IS_NAN), UNARY("isinf", IS_INF),
    UNARY("logical_not", NOT), UNARY("absolute", ABS), UNARY("negative", NEG), UNARY("fix", TRUNC),
    UNARY("arcsin", ASIN), UNARY("arccos", ACOS), UNARY("arctan", ATAN),
    UNARY("special_expit", SIGMOID), UNARY("special_erf", ERF), UNARY("special_exp2", EXP2),
    UNARY("special_expm1", EXPM1), UNARY("special_log1p", LOG1P),
    { "aten.bitwise_not.default", bitwise_not, 0, false },
    BINARY("add.Tensor", ADD), BINARY("add.Scalar", ADD), BINARY("sub.Tensor", SUB),
    BINARY("sub.Scalar", SUB), BINARY("mul.Tensor", MUL), BINARY("mul.Scalar", MUL),
    BINARY("div.Tensor", DIV), BINARY("div.Scalar", DIV), BINARY("true_divide.Tensor", DIV),
    BINARY("multiply.Tensor", MUL), BINARY("subtract.Tensor", SUB), BINARY("divide.Tensor", DIV),
    BINARY("maximum.default", MAX), BINARY("minimum.default", MIN), BINARY("max.other", MAX), BINARY("min.other", MIN),
    BINARY("multiply.Scalar", MUL), BINARY("subtract.Scalar", SUB), BINARY("divide.Scalar", DIV),
    BINARY("true_divide.Scalar", DIV), BINARY("arctan2.default", ATAN2),
    BINARY("atan2.default", ATAN2), BINARY("remainder.Tensor", REMAINDER),
    BINARY("remainder.Scalar", REMAINDER), BINARY("fmod.Tensor", FMOD),
    BINARY("fmod.Scalar", FMOD), BINARY("floor_divide.default", FLOOR_DIV),
    BINARY("floor_divide.Scalar", FLOOR_DIV), BINARY("pow.Tensor_Tensor", POW),
    BINARY("pow.Scalar", POW),
    { "aten.pow.Tensor_Scalar", power, 0, false },
    { "aten.rsub.Scalar", rsub, 0, false }, { "aten.rsub.Tensor", rsub, 0, false },
    { "aten.div.Tensor_mode", div_mode, 0, false }, { "aten.div.Scalar_mode", div_mode, 0, false },
    COMPARE("eq", EQ), COMPARE("ne", NE), COMPARE("lt", LT), COMPARE("le", LE), COMPARE("gt", GT),
    COMPARE("ge", GE), COMPARE("greater", GT), COMPARE("greater_equal", GE), COMPARE("less", LT),
    COMPARE("less_equal", LE), COMPARE("not_equal", NE),
    BITS("bitwise_and", AND), BITS("bitwise_or", OR), BITS("bitwise_xor", XOR),
    BITS("__and__", AND), BITS("__or__", OR), BITS("__xor__", XOR),
    { "aten.bitwise_left_shift.Tensor_Scalar", compare, POINT_SHIFT_LEFT, false },
    { "aten.bitwise_right_shift.Tensor_Scalar", compare, POINT_SHIFT_RIGHT, false },
    { "aten.bitwise_left_shift.Tensor", compare, POINT_SHIFT_LEFT, false },
    { "aten.bitwise_right_shift.Tensor", compare, POINT_SHIFT_RIGHT, false },
    BITS("__lshift__", SHIFT_LEFT), BITS("__rshift__", SHIFT_RIGHT),
    { "aten.logical_and.default", logical, POINT_AND, false },
    { "aten.logical_or.default", logical, POINT_OR, false },
    { "aten.logical_xor.default", logical, POINT_XOR, false },
    { "aten.where.self", where, 0, false }, { "aten.where.ScalarSelf", where, 0, false },
    { "aten.where.ScalarOther", where, 0, false }, { "aten.where.Scalar", where, 0, false },
    { "aten.masked_fill.Scalar", masked_fill, 0, false },
    { "aten.masked_fill.Tensor", masked_fill, 0, false },
    { "aten.clamp.default", clamp, 0, false }, { "aten.clamp.Tensor", clamp, 0, false },
    { "aten.clip.default", clamp, 0, false }, { "aten.clip.Tensor", clamp, 0, false },
    { "aten.divide.Tensor_mode", div_mode, 0, false }, { "aten.divide.Scalar_mode", div_mode, 0, false },
    { "aten.clamp_min.default", clamp, 0, false }, { "aten.clamp_min.Tensor", clamp, 0, false },
    { "aten.clamp_max.default", clamp, 0, false }, { "aten.clamp_max.Tensor", clamp, 0, false },
    { "aten.gelu.default", gelu, 0, false }, { "aten.softplus.default", softplus, 0, false },
    { "aten.hardsigmoid.default", hardsigmoid, 0, false },
    { "aten.hardswish.default", hardswish, 0, false },
    { "aten.hardtanh.default", hardtanh, 0, false }, { "aten.relu6.default", hardtanh, 1, false },
    { "aten.leaky_relu.default", leaky_relu, 0, false },
    { "aten.prelu.default", prelu, 0, false }, { "aten._prelu_kernel.default", prelu, 0, false },
    { "aten.elu.default", elu, 0, false }, { "aten.selu.default", elu, 1, false },
    { "aten.celu.default", elu, 2, false },
    { "aten.addcmul.default", addcmul, 0, false }, { "aten.addcdiv.default", addcmul, 1, false },
    { "aten.lerp.Scalar", lerp, 0, false }, { "aten.lerp.Tensor", lerp, 0, false },
    { "aten.to.dtype", cast_to, 0, false }, { "aten.to.dtype_layout", cast_to, 0, false },
    { "aten.to.device", cast_to, 0, false }, { "aten.to.other", cast_to, 0, false },
    { "aten._to_copy.default", cast_to, 0, false }, { "aten.type_as.default", cast_to, 0, false },
    { "aten.float.default", cast_to, 0, false }, { "aten.to.prim_Device", cast_to, 0, false },
    { "aten.clone.default", same, 0, false }, { "aten.lift_fresh_copy.default", same, 0, false },
    { "aten.lift_fresh.default", same, 0, false }, { "aten.contiguous.default", same, 0, false },
    { "aten.alias.default", same, 0, true }, { "aten.positive.default", same, 0, true },
    { "aten.detach.default", detach, 0, true }, { "aten.detach_.default", detach, 0, true },
    { "aten.copy.default", copy, 0, false },
    { "aten.fill.Scalar", copy, 1, false }, { "aten.fill.Tensor", copy, 1, false },
    { "aten.zero.default", zero, 0, false },
    { 0 }
};
/* clang-format on */
