/* sym_eval.c -- expressions of sizes: their value for the symbols' values.
 *
 * A value is a fraction as long as everything is exact, and a double otherwise: s0/2 of an odd s0
 * is no whole number and must not become one by rounding on the way.
 */
#include "import/sym_expr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 SymWide;

static double sym_real(SymValue v) { return v.exact ? (double)v.num / (double)v.den : v.real; }

static SymValue sym_as_real(double real) { return (SymValue){ .real = real }; }

static SymValue sym_whole_value(int64_t whole) { return (SymValue){ true, whole, 1, 0 }; }

/* Reduced; a double where it does not fit. */
static SymValue sym_ratio(SymWide num, SymWide den)
{
    SymWide a = num < 0 ? -num : num, b = den < 0 ? -den : den;
    if (b == 0)
        return sym_as_real((double)NAN);
    while (b) {
        SymWide rest = a % b;
        a = b;
        b = rest;
    }
    if (den < 0)
        a = -a;
    num = a ? num / a : num;
    den = a ? den / a : den;
    if (num > INT64_MAX || num < -(SymWide)INT64_MAX || den > INT64_MAX)
        return sym_as_real((double)num / (double)den);
    return (SymValue){ true, (int64_t)num, (int64_t)den, 0 };
}

static SymValue sym_add(SymValue a, SymValue b)
{
    if (!a.exact || !b.exact)
        return sym_as_real(sym_real(a) + sym_real(b));
    if (a.den == 1 && b.den == 1)
        return sym_ratio((SymWide)a.num + b.num, 1);
    return sym_ratio((SymWide)a.num * b.den + (SymWide)b.num * a.den, (SymWide)a.den * b.den);
}

static SymValue sym_mul(SymValue a, SymValue b)
{
    if (!a.exact || !b.exact)
        return sym_as_real(sym_real(a) * sym_real(b));
    return sym_ratio((SymWide)a.num * b.num, (SymWide)a.den * b.den);
}

static SymValue sym_div(SymValue a, SymValue b)
{
    if (!a.exact || !b.exact)
        return sym_as_real(sym_real(a) / sym_real(b));
    return sym_ratio((SymWide)a.num * b.den, (SymWide)a.den * b.num);
}

static SymValue sym_floor(SymValue v)
{
    if (!v.exact)
        return sym_as_real(floor(v.real));
    int64_t whole = v.num / v.den;
    return sym_whole_value(whole - (v.num % v.den < 0));
}

static SymValue sym_negative(SymValue v)
{
    return v.exact ? (SymValue){ true, -v.num, v.den, 0 } : sym_as_real(-v.real);
}

static SymValue sym_ceil(SymValue v) { return sym_negative(sym_floor(sym_negative(v))); }

static int sym_compare(SymValue a, SymValue b)
{
    if (a.exact && b.exact) {
        SymWide x = (SymWide)a.num * b.den, y = (SymWide)b.num * a.den;
        return x < y ? -1 : x > y;
    }
    double x = sym_real(a), y = sym_real(b);
    return x < y ? -1 : x > y;
}

static bool sym_true(SymValue v) { return v.exact ? v.num != 0 : v.real != 0; }

static SymValue sym_pow(SymValue base, SymValue power)
{
    bool     whole = power.exact && power.den == 1 && power.num > -64 && power.num < 64;
    SymValue result = sym_whole_value(1);
    if (!whole)
        return sym_as_real(pow(sym_real(base), sym_real(power)));
    for (int64_t i = 0; i < llabs(power.num); i++)
        result = sym_mul(result, base);
    return power.num < 0 ? sym_div(sym_whole_value(1), result) : result;
}

/* Python's: the sign of the divisor. */
static SymValue sym_mod(SymValue a, SymValue b)
{
    return sym_add(a, sym_negative(sym_mul(b, sym_floor(sym_div(a, b)))));
}

static SymValue sym_round(SymValue v) /* halves to even, as Python's */
{
    SymValue low = sym_floor(v), rest = sym_add(v, sym_negative(low));
    int      order = sym_compare(rest, (SymValue){ true, 1, 2, 0 });
    if (!low.exact)
        return sym_as_real(nearbyint(v.real));
    return order < 0 || (order == 0 && low.num % 2 == 0) ? low : sym_add(low, sym_whole_value(1));
}

static SymValue sym_shift(SymValue v, SymValue by, bool left)
{
    SymValue two = sym_pow(sym_whole_value(2), by);
    return left ? sym_mul(v, two) : sym_floor(sym_div(v, two));
}

/* One argument of a function of any number: the result so far, and the next. */
static SymValue sym_fold(SymKind kind, SymValue sum, SymValue next)
{
    switch (kind) {
    case SYM_ADD: return sym_add(sum, next);
    case SYM_MUL: return sym_mul(sum, next);
    case SYM_MAX: return sym_compare(next, sum) > 0 ? next : sum;
    case SYM_MIN: return sym_compare(next, sum) < 0 ? next : sum;
    case SYM_AND: return sym_whole_value(sym_true(sum) && sym_true(next));
    default: return sym_whole_value(sym_true(sum) || sym_true(next));
    }
}

static SymValue sym_apply(SymKind kind, const SymValue *a)
{
    switch (kind) {
    case SYM_NEG: return sym_negative(a[0]);
    case SYM_POW: return sym_pow(a[0], a[1]);
    case SYM_DIV: return sym_div(a[0], a[1]);
    case SYM_FLOOR_DIV: return sym_floor(sym_div(a[0], a[1]));
    case SYM_CEIL_DIV: return sym_ceil(sym_div(a[0], a[1]));
    case SYM_MOD: return sym_mod(a[0], a[1]);
    case SYM_INDEXING: return sym_mod(sym_floor(sym_div(a[0], a[1])), a[2]);
    case SYM_SHIFT_L: return sym_shift(a[0], a[1], true);
    case SYM_SHIFT_R: return sym_shift(a[0], a[1], false);
    case SYM_FLOOR: return sym_floor(a[0]);
    case SYM_CEIL: return sym_ceil(a[0]);
    case SYM_TRUNC:
        return sym_compare(a[0], sym_whole_value(0)) < 0 ? sym_ceil(a[0]) : sym_floor(a[0]);
    case SYM_ROUND: return sym_round(a[0]);
    case SYM_ABS: return sym_compare(a[0], sym_whole_value(0)) < 0 ? sym_negative(a[0]) : a[0];
    case SYM_SQRT: return sym_as_real(sqrt(sym_real(a[0])));
    case SYM_EXP: return sym_as_real(exp(sym_real(a[0])));
    case SYM_LOG: return sym_as_real(log(sym_real(a[0])));
    case SYM_LOG2: return sym_as_real(log2(sym_real(a[0])));
    case SYM_WHERE: return sym_true(a[0]) ? a[1] : a[2];
    case SYM_NOT: return sym_whole_value(!sym_true(a[0]));
    case SYM_EQ: return sym_whole_value(sym_compare(a[0], a[1]) == 0);
    case SYM_NE: return sym_whole_value(sym_compare(a[0], a[1]) != 0);
    case SYM_LT: return sym_whole_value(sym_compare(a[0], a[1]) < 0);
    case SYM_LE: return sym_whole_value(sym_compare(a[0], a[1]) <= 0);
    case SYM_GT: return sym_whole_value(sym_compare(a[0], a[1]) > 0);
    case SYM_GE: return sym_whole_value(sym_compare(a[0], a[1]) >= 0);
    default: return a[0];
    }
}

/* The depth is bounded by the parser's. */
static Err sym_value(const Symbols *symbols, const SymNode *node, SymValue *out)
{
    if (node->kind == SYM_NUMBER) {
        *out = node->number.exact ? sym_ratio(node->number.num, node->number.den) : node->number;
        return OK;
    }
    if (node->kind == SYM_SYMBOL) {
        const Symbol *symbol = &symbols->list[node->n];
        if (!symbol->known)
            return fail(E_FORMAT, "a size depends on %s, which only the data tell", symbol->name);
        *out = sym_ratio(symbol->value, 1);
        return OK;
    }
    if (node->kind <= SYM_OR) {
        TRY(sym_value(symbols, node->args[0], out));
        for (int32_t i = 1; i < node->n; i++) {
            SymValue next;
            TRY(sym_value(symbols, node->args[i], &next));
            *out = sym_fold(node->kind, *out, next);
        }
        return OK;
    }
    SymValue args[3] = { { 0 } };
    for (int32_t i = 0; i < node->n && i < 3; i++)
        TRY(sym_value(symbols, node->args[i], &args[i]));
    *out = sym_apply(node->kind, args);
    return OK;
}

Err sym_eval_number(const Symbols *symbols, SymInt size, double *number)
{
    SymValue v = sym_whole_value(size.value);
    if (size.expr)
        TRY(sym_value(symbols, size.expr, &v));
    *number = sym_real(v);
    return OK;
}

Err sym_eval(const Symbols *symbols, SymInt size, int64_t *value)
{
    SymValue v;
    *value = size.value;
    if (!size.expr)
        return OK;
    TRY(sym_value(symbols, size.expr, &v));
    if (!v.exact && v.real == nearbyint(v.real) && fabs(v.real) <= 0x1p53)
        v = sym_whole_value((int64_t)v.real);
    if (!v.exact || v.den != 1)
        return fail(E_FORMAT, "a size would be %.17g, which is %s", sym_real(v),
                    v.exact || fabs(v.real) <= 0x1p53 ? "no whole number" : "out of range");
    *value = v.num;
    return OK;
}

Symbol *symbol_find(const Symbols *symbols, const char *name)
{
    for (int32_t i = 0; i < symbols->n; i++)
        if (!strcmp(symbols->list[i].name, name))
            return &symbols->list[i];
    return NULL;
}

Symbol *sym_alone(const Symbols *symbols, const SymNode *expr)
{
    return expr->kind == SYM_SYMBOL ? &symbols->list[expr->n] : NULL;
}

static void sym_mark(const SymNode *expr, int32_t symbol, bool *uses)
{
    if (expr->kind == SYM_SYMBOL)
        *uses |= expr->n == symbol;
    else
        for (int32_t i = 0; i < expr->n; i++)
            sym_mark(expr->args[i], symbol, uses);
}

bool sym_uses(const Symbols *symbols, SymInt size, const Symbol *symbol)
{
    bool uses = false;
    if (size.expr)
        sym_mark(size.expr, (int32_t)(symbol - symbols->list), &uses);
    return uses;
}

void sym_solve(Symbols *symbols, const SymNode *expr, int64_t hint)
{
    Symbol *unknown = NULL;
    SymInt  size = { 0, expr };
    int64_t at[2];
    for (int32_t i = 0; i < symbols->n; i++)
        if (!symbols->list[i].known && sym_uses(symbols, size, &symbols->list[i])) {
            if (unknown)
                return;
            unknown = &symbols->list[i];
        }
    if (!unknown)
        return;
    unknown->known = true;
    /* expressions of sizes are nearly always a multiple of the symbol and a rest */
    for (int i = 0; i < 2; i++) {
        unknown->value = i + 1;
        if (sym_eval(symbols, size, &at[i]))
            at[i] = at[0]; /* no solution below */
    }
    int64_t slope, rest;
    if (!__builtin_sub_overflow(at[1], at[0], &slope) && slope &&
        !__builtin_sub_overflow(hint, at[0], &rest) && rest % slope == 0) {
        unknown->value = unknown->hint = rest / slope + 1;
        int64_t check;
        if (sym_eval(symbols, size, &check) == OK && check == hint)
            return;
    }
    unknown->known = false;
    unknown->value = unknown->hint = 0;
}
