/* Tests of import/sym_expr and sym_eval: both forms of expressions, their values, and texts that
 * are none. tests/py/test_exported.py compares some 3,000 with sympy. */
#include "import/sym_expr.h"

#include "test.h"

static Pool *pool;

/* The value for s0 = 3, s1 = 8; the symbol u0 is not known. */
static Err value_of(const char *text, int64_t *value)
{
    Symbols        symbols = { 0 };
    const SymNode *expr = NULL;
    TRY(sym_parse(pool, &symbols, text, &expr));
    for (int32_t i = 0; i < symbols.n; i++) {
        Symbol *s = &symbols.list[i];
        s->known = s->name[0] == 's';
        s->value = !strcmp(s->name, "s0") ? 3 : 8;
    }
    return sym_eval(&symbols, (SymInt){ 0, expr }, value);
}

static void is(const char *text, int64_t want)
{
    int64_t value = -999;
    CHECK_OK(value_of(text, &value));
    if (!CHECK_INT(value, want))
        fprintf(stderr, "  of: %s\n", text);
}

static void is_none(const char *text, const char *part)
{
    int64_t value;
    CHECK_INT(value_of(text, &value), E_FORMAT);
    if (!CHECK(strstr(err_text(), part) != NULL))
        fprintf(stderr, "  of: %s\n  said: %s\n", text, err_text());
}

static void python_form(void)
{
    is("2*s0 + 1", 7);
    is("s0 - s1 - 1", -6);
    is("((s1//s0))", 2);
    is("-s1//s0", -3);
    is("-s1 % 3", 1);
    is("s0**2*s1", 72);
    is("-s0**2", -9);
    is("2**s0**2", 512);
    is("Mod(s1, s0)", 2);
    is("ModularIndexing(s1*10, 8, 7)", 3);
    is("Max(1, s0, s1)", 8);
    is("Eq(s0, 3) & (s1 < 9)", 1);
    is("s1/2 + s1/2", 8);
    is("s0/2 + s0/2", 3); /* exact on the way */
}

static void sympy_form(void)
{
    is("Symbol('s0', positive=True, integer=True)", 3);
    is("Add(Integer(-1), Mul(Integer(2), Symbol('s1', integer=True)))", 15);
    is("Mul(Rational(1, 4), Symbol('s1'))", 2);
    is("FloorDiv(Add(Symbol('s1'), Integer(-1)), Symbol('s0'))", 2);
    is("CeilToInt(IntTrueDiv(Symbol('s1'), Symbol('s0')))", 3);
    is("TruncToInt(IntTrueDiv(Mul(Integer(-1), Symbol('s1')), Symbol('s0')))", -2);
    is("PowByNatural(Symbol('s0'), Integer(2))", 9);
    is("Where(StrictLessThan(Symbol('s0'), Integer(4)), Symbol('s1'), Integer(0))", 8);
    is("Mul(Integer(2), Add(Symbol('s0'), Integer(1)), evaluate=False)", 8);
    is("RShift(LShift(Symbol('s0'), Integer(4)), Integer(1))", 24);
    is("RoundToInt(Float('2.5', precision=53))", 2);
}

static void no_values(void)
{
    is_none("s0/2", "no whole number");
    is_none("s0/0", "out of range");
    is_none("s1**60", "out of range");
    is_none("u0 + 1", "depends on u0");
    is_none("", "missing");
    is_none("s0 +", "missing");
    is_none("(s0", "')' is missing");
    is_none("s0 s1", "follows the expression");
    is_none("Mod(s0)", "wrong number of arguments");
    is_none("Evil(s0)", "uses 'Evil', which is not known");
    is_none("Symbol('s0", "not closed");
    is_none("99999999999999999999", "above 2^63");
    is_none("Rational(1, 0)", "denominator");
    char deep[5001];
    memset(deep, '(', 5000);
    deep[5000] = '\0';
    is_none(deep, "too long");
    memset(deep, '-', 5000);
    is_none(deep, "too long");
}

/* A chain of 100,000 sums is refused, not followed down the stack. */
static void long_sum(void)
{
    enum { N = 100000 };
    char *text = pool_alloc(pool, 2 * N + 2, 1);
    for (int i = 0; i < N; i++)
        memcpy(text + 2 * i, "1+", 2);
    text[2 * N] = '1';
    is_none(text, "too long");
}

static void solving(void)
{
    Symbols        symbols = { 0 };
    const SymNode *expr = NULL, *sum = NULL;
    CHECK_OK(sym_parse(pool, &symbols, "2*s5 + 4", &expr));
    sym_solve(&symbols, expr, 5); /* no whole number */
    CHECK(!symbols.list[0].known);
    sym_solve(&symbols, expr, 20);
    CHECK(symbols.list[0].known);
    CHECK_INT(symbols.list[0].hint, 8);
    CHECK_OK(sym_parse(pool, &symbols, "s6 + s7", &sum));
    sym_solve(&symbols, sum, 20); /* two unknowns */
    CHECK(!symbol_find(&symbols, "s6")->known);
    CHECK(sym_uses(&symbols, (SymInt){ 0, sum }, symbol_find(&symbols, "s7")));
    CHECK(!sym_uses(&symbols, (SymInt){ 0, sum }, symbol_find(&symbols, "s5")));
    CHECK(!symbol_find(&symbols, "s8"));
    double number = 0;
    CHECK_OK(sym_parse(pool, &symbols, "1/s5", &sum));
    CHECK_OK(sym_eval_number(&symbols, (SymInt){ 0, sum }, &number));
    CHECK_NEAR(number, 0.125, 0);
}

int main(void)
{
    pool = pool_new(NULL, "sym test");
    RUN(python_form);
    RUN(sympy_form);
    RUN(no_values);
    RUN(long_sum);
    RUN(solving);
    pool_free(pool);
    return test_end();
}
