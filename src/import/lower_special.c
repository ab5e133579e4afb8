/* lower_special.c -- further elementwise functions of ATen, as formulas of simpler ones. */
#include "import/lower.h"

#include <float.h>
#include <math.h>

static Err operand(Formula *f, const char *name, int *step)
{
    Operand item;
    TRY(arg_item(f->l, name, &item));
    if (!item.set)
        return refuse(f->l, "'%s' is missing", name);
    *step = formula_float(f, formula_input(f, item));
    return OK;
}

/* ---- of one operand ---- */

typedef enum Special {
    SP_ASINH,
    SP_ACOSH,
    SP_ATANH,
    SP_ERFC,
    SP_LOG10,
    SP_FRAC,
    SP_SINC,
    SP_DEG2RAD,
    SP_RAD2DEG,
    SP_IS_FINITE,
    SP_IS_POSINF,
    SP_IS_NEGINF,
    SP_SIGNBIT,
} Special;

/* sign(x) log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))): exact near zero and for large negative x. */
static int asinh_step(Formula *f, int x)
{
    int one = formula_number(f, 1), s = F1(f, SQUARE, x);
    int root = F2(f, ADD, one, F1(f, SQRT, F2(f, ADD, s, one)));
    int y = F1(f, LOG1P, F2(f, ADD, F1(f, ABS, x), F2(f, DIV, s, root)));
    return F3(f, SELECT, F2(f, LT, x, formula_number(f, 0)), F1(f, NEG, y), y);
}

static int sinc_step(Formula *f, int x)
{
    int zero = formula_number(f, 0), one = formula_number(f, 1), at = F2(f, EQ, x, zero);
    int turn = F2(f, MUL, formula_number(f, M_PI), F3(f, SELECT, at, one, x));
    return F3(f, SELECT, at, one, F2(f, DIV, F1(f, SIN, turn), turn));
}

static int special_step(Formula *f, Special what, int x)
{
    int one = formula_number(f, 1), zero = formula_number(f, 0);
    switch (what) {
    case SP_ASINH: return asinh_step(f, x);
    case SP_ACOSH: return F1(f, LOG, F2(f, ADD, x, F1(f, SQRT, F2(f, SUB, F1(f, SQUARE, x), one))));
    case SP_ATANH:
        return F2(f, MUL, formula_number(f, 0.5),
                  F2(f, SUB, F1(f, LOG1P, x), F1(f, LOG1P, F1(f, NEG, x))));
    case SP_ERFC: return F2(f, SUB, one, F1(f, ERF, x));
    case SP_LOG10: return F2(f, MUL, F1(f, LOG, x), formula_number(f, 1 / M_LN10));
    case SP_FRAC: return F2(f, SUB, x, F1(f, TRUNC, x));
    case SP_SINC: return sinc_step(f, x);
    case SP_DEG2RAD: return F2(f, MUL, x, formula_number(f, M_PI / 180));
    case SP_RAD2DEG: return F2(f, MUL, x, formula_number(f, 180 / M_PI));
    case SP_IS_FINITE: return F1(f, NOT, F2(f, OR, F1(f, IS_NAN, x), F1(f, IS_INF, x)));
    case SP_IS_POSINF: return F2(f, AND, F1(f, IS_INF, x), F2(f, GT, x, zero));
    case SP_IS_NEGINF: return F2(f, AND, F1(f, IS_INF, x), F2(f, LT, x, zero));
    default: return F2(f, LT, x, zero);
    }
}

static Err special(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    TRY(operand(&f, "self", &x));
    return formula_give(&f, special_step(&f, (Special)l->def->with, x), 0);
}

/* ---- of two ---- */

static Err two(Formula *f, int *a, int *b)
{
    TRY(operand(f, "self", a));
    return operand(f, arg_given(f->l, "exponent") ? "exponent" : "other", b);
}

static Err hypotenuse(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(two(&f, &a, &b));
    return formula_give(&f, F1(&f, SQRT, F2(&f, ADD, F1(&f, SQUARE, a), F1(&f, SQUARE, b))), 0);
}

/* max(a, b) + log(1 + exp(-|a - b|)) */
static Err log_add_exp(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(two(&f, &a, &b));
    int away = F1(&f, NEG, F1(&f, ABS, F2(&f, SUB, a, b)));
    return formula_give(&f, F2(&f, ADD, F2(&f, MAX, a, b), F1(&f, SOFTPLUS, away)), 0);
}

/* x log y, and 0 where x is. */
static Err x_log_y(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(two(&f, &a, &b));
    int zero = formula_number(&f, 0), none = F2(&f, EQ, a, zero);
    int safe = F3(&f, SELECT, none, formula_number(&f, 1), b);
    return formula_give(&f, F3(&f, SELECT, none, zero, F2(&f, MUL, a, F1(&f, LOG, safe))), 0);
}

/* The other operand where one is not a number. */
static Err number_extreme(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(two(&f, &a, &b));
    int y = l->def->with ? F2(&f, MIN, a, b) : F2(&f, MAX, a, b);
    y = F3(&f, SELECT, F1(&f, IS_NAN, b), a, y);
    return formula_give(&f, F3(&f, SELECT, F1(&f, IS_NAN, a), b, y), 0);
}

static Err float_power(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(two(&f, &a, &b));
    return formula_give(&f, F2(&f, POW, a, b), 0);
}

static Err load_exponent(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(two(&f, &a, &b));
    return formula_give(&f, F2(&f, MUL, a, F1(&f, EXP2, b)), 0);
}

static Err copy_sign(Lower *l)
{
    Formula f = formula(l);
    int     a = 0, b = 0;
    TRY(two(&f, &a, &b));
    int size = F1(&f, ABS, a), below = F2(&f, LT, b, formula_number(&f, 0));
    return formula_give(&f, F3(&f, SELECT, below, F1(&f, NEG, size), size), 0);
}

static Err heaviside(Lower *l)
{
    Formula f = formula(l);
    int     x = 0, values = 0;
    TRY(operand(&f, "self", &x));
    TRY(operand(&f, "values", &values));
    int zero = formula_number(&f, 0), step = formula_float(&f, F2(&f, GT, x, zero));
    return formula_give(&f, F3(&f, SELECT, F2(&f, EQ, x, zero), values, step), 0);
}

/* ---- with bounds ---- */

static Err nan_to_num(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  nan, high, low;
    TRY(operand(&f, "self", &x));
    TRY(arg_float(l, "nan", 0, &nan));
    TRY(arg_float(l, "posinf", (double)FLT_MAX, &high));
    TRY(arg_float(l, "neginf", -(double)FLT_MAX, &low));
    int infinite = F1(&f, IS_INF, x), above = F2(&f, GT, x, formula_number(&f, 0));
    int bound = F3(&f, SELECT, above, formula_number(&f, high), formula_number(&f, low));
    int y = F3(&f, SELECT, infinite, bound, x);
    return formula_give(&f, F3(&f, SELECT, F1(&f, IS_NAN, x), formula_number(&f, nan), y), 0);
}

static Err logit(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  eps;
    TRY(operand(&f, "self", &x));
    TRY(arg_float(l, "eps", -1, &eps));
    int one = formula_number(&f, 1);
    if (eps >= 0)
        x = F2(&f, CLAMP_MAX, F2(&f, CLAMP_MIN, x, formula_number(&f, eps)),
               formula_number(&f, 1 - eps));
    return formula_give(&f, F1(&f, LOG, F2(&f, DIV, x, F2(&f, SUB, one, x))), 0);
}

/* Soft: towards zero by lambd; hard: as it is; 0 within the bounds. */
static Err shrink(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  width;
    TRY(operand(&f, "self", &x));
    TRY(arg_float(l, "lambd", 0.5, &width));
    int high = formula_number(&f, width), low = formula_number(&f, -width);
    int above = l->def->with ? F2(&f, SUB, x, high) : x;
    int below = l->def->with ? F2(&f, ADD, x, high) : x;
    int y = F3(&f, SELECT, F2(&f, LT, x, low), below, formula_number(&f, 0));
    return formula_give(&f, F3(&f, SELECT, F2(&f, GT, x, high), above, y), 0);
}

static Err threshold(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  bound, value;
    TRY(operand(&f, "self", &x));
    TRY(arg_float(l, "threshold", 0, &bound));
    TRY(arg_float(l, "value", 0, &value));
    int above = F2(&f, GT, x, formula_number(&f, bound));
    return formula_give(&f, F3(&f, SELECT, above, x, formula_number(&f, value)), 0);
}

/* The slope of negative numbers is drawn in training, unless its bounds are equal. */
static Err random_relu(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  low, high;
    TRY(operand(&f, "self", &x));
    TRY(arg_float(l, "lower", 0.125, &low));
    TRY(arg_float(l, "upper", 1.0 / 3, &high));
    if (arg_bool(l, "training", false) && low != high)
        return refuse(l, "slopes that are drawn are not supported; use leaky_relu");
    int below = F2(&f, MUL, x, formula_number(&f, (low + high) / 2));
    return formula_give(&f, F3(&f, SELECT, F2(&f, GT, x, formula_number(&f, 0)), x, below), 0);
}

static Err round_decimals(Lower *l)
{
    Formula f = formula(l);
    int     x = 0;
    double  decimals;
    TRY(operand(&f, "self", &x));
    TRY(arg_float(l, "decimals", 0, &decimals));
    int unit = formula_number(&f, pow(10, decimals));
    return formula_give(&f, F2(&f, DIV, F1(&f, ROUND, F2(&f, MUL, x, unit)), unit), 0);
}

#define SPECIAL(name, what)                                                                        \
    {                                                                                              \
        "aten." name ".default", special, SP_##what, false                                         \
    }

/* clang-format off */
const LowerDef lower_specials[] = {
    SPECIAL("asinh", ASINH), SPECIAL("arcsinh", ASINH), SPECIAL("acosh", ACOSH),
    SPECIAL("arccosh", ACOSH), SPECIAL("atanh", ATANH), SPECIAL("arctanh", ATANH),
    SPECIAL("erfc", ERFC), SPECIAL("special_erfc", ERFC), SPECIAL("log10", LOG10),
    SPECIAL("frac", FRAC), SPECIAL("sinc", SINC), SPECIAL("special_sinc", SINC),
    SPECIAL("deg2rad", DEG2RAD), SPECIAL("rad2deg", RAD2DEG), SPECIAL("isfinite", IS_FINITE),
    SPECIAL("isposinf", IS_POSINF), SPECIAL("isneginf", IS_NEGINF), SPECIAL("signbit", SIGNBIT),
    { "aten.hypot.default", hypotenuse, 0, false },
    { "aten.logaddexp.default", log_add_exp, 0, false },
    { "aten.xlogy.Tensor", x_log_y, 0, false },
    { "aten.xlogy.Scalar_Other", x_log_y, 0, false },
    { "aten.special_xlogy.default", x_log_y, 0, false },
    { "aten.fmax.default", number_extreme, 0, false },
    { "aten.fmin.default", number_extreme, 1, false },
    { "aten.float_power.Tensor_Scalar", float_power, 0, false },
    { "aten.float_power.Tensor_Tensor", float_power, 0, false },
    { "aten.ldexp.Tensor", load_exponent, 0, false },
    { "aten.copysign.Tensor", copy_sign, 0, false },
    { "aten.copysign.Scalar", copy_sign, 0, false },
    { "aten.heaviside.default", heaviside, 0, false },
    { "aten.nan_to_num.default", nan_to_num, 0, false },
    { "aten.logit.default", logit, 0, false }, { "aten.special_logit.default", logit, 0, false },
    { "aten.softshrink.default", shrink, 1, false },
    { "aten.hardshrink.default", shrink, 0, false },
    { "aten.threshold.default", threshold, 0, false },
    { "aten.rrelu.default", random_relu, 0, false },
    { "aten.round.decimals", round_decimals, 0, false },
    { 0 }
};
/* clang-format on */
