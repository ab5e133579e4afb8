/* sym_expr.c -- expressions of sizes: their grammar, by recursive descent. */
#include "import/sym_expr.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Evaluation goes down as deep as an expression has nodes: a + b + c leans to the left. */
enum { SYM_DEPTH_MAX = 200, SYM_NODES_MAX = 4000 };

/* clang-format off */
/*        head in the file       what it does   arguments, -1: any number of them */
#define SYM_LIST(X)                      \
    X("Add",               ADD,      -1) \
    X("Mul",               MUL,      -1) \
    X("Max",               MAX,      -1) \
    X("Min",               MIN,      -1) \
    X("And",               AND,      -1) \
    X("Or",                OR,       -1) \
    X("Pow",               POW,       2) \
    X("PowByNatural",      POW,       2) \
    X("FloatPow",          POW,       2) \
    X("FloorDiv",          FLOOR_DIV, 2) \
    X("CeilDiv",           CEIL_DIV,  2) \
    X("CleanDiv",          FLOOR_DIV, 2) \
    X("IntTrueDiv",        DIV,       2) \
    X("FloatTrueDiv",      DIV,       2) \
    X("Mod",               MOD,       2) \
    X("PythonMod",         MOD,       2) \
    X("ModularIndexing",   INDEXING,  3) \
    X("LShift",            SHIFT_L,   2) \
    X("RShift",            SHIFT_R,   2) \
    X("floor",             FLOOR,     1) \
    X("ceiling",           CEIL,      1) \
    X("FloorToInt",        FLOOR,     1) \
    X("CeilToInt",         CEIL,      1) \
    X("TruncToInt",        TRUNC,     1) \
    X("TruncToFloat",      TRUNC,     1) \
    X("RoundToInt",        ROUND,     1) \
    X("Abs",               ABS,       1) \
    X("OpaqueUnaryFn_sqrt", SQRT,     1) \
    X("sqrt",              SQRT,      1) \
    X("OpaqueUnaryFn_exp", EXP,       1) \
    X("OpaqueUnaryFn_log", LOG,       1) \
    X("OpaqueUnaryFn_log2", LOG2,     1) \
    X("log",               LOG,       1) \
    X("exp",               EXP,       1) \
    X("ToFloat",           IDENTITY,  1) \
    X("Identity",          IDENTITY,  1) \
    X("Where",             WHERE,     3) \
    X("Not",               NOT,       1) \
    X("Eq",                EQ,        2) \
    X("Equality",          EQ,        2) \
    X("Ne",                NE,        2) \
    X("Unequality",        NE,        2) \
    X("Lt",                LT,        2) \
    X("StrictLessThan",    LT,        2) \
    X("Le",                LE,        2) \
    X("LessThan",          LE,        2) \
    X("Gt",                GT,        2) \
    X("StrictGreaterThan", GT,        2) \
    X("Ge",                GE,        2) \
    X("GreaterThan",       GE,        2)
/* clang-format on */

typedef struct SymIn {
    Pool       *pool;
    Symbols    *symbols;
    const char *text, *at;
    int         depth, n_nodes;
} SymIn;

static Err sym_or(SymIn *in, const SymNode **out);

static Err sym_wrong(const SymIn *in, const char *what)
{
    return fail(E_FORMAT, "the size '%.200s' cannot be read: %s at character %d", in->text, what,
                (int)(in->at - in->text) + 1);
}

static void sym_skip(SymIn *in)
{
    while (*in->at == ' ' || *in->at == '\t' || *in->at == '\n')
        in->at++;
}

static bool sym_next(SymIn *in, const char *word)
{
    size_t n = strlen(word);
    sym_skip(in);
    if (strncmp(in->at, word, n) != 0)
        return false;
    in->at += n;
    return true;
}

static SymNode *sym_new(SymIn *in, SymKind kind, int32_t n)
{
    SymNode *node = NEW(in->pool, SymNode);
    in->n_nodes++;
    node->kind = kind;
    node->n = n;
    if (n && kind != SYM_SYMBOL)
        node->args = NEWN(in->pool, const SymNode *, n);
    return node;
}

static const SymNode *sym_two(SymIn *in, SymKind kind, const SymNode *a, const SymNode *b)
{
    SymNode *node = sym_new(in, kind, 2);
    node->args[0] = a;
    node->args[1] = b;
    return node;
}

static const SymNode *sym_one(SymIn *in, SymKind kind, const SymNode *a)
{
    SymNode *node = sym_new(in, kind, 1);
    node->args[0] = a;
    return node;
}

static const SymNode *sym_constant(SymIn *in, SymValue value)
{
    SymNode *node = sym_new(in, SYM_NUMBER, 0);
    node->number = value;
    return node;
}

static const SymNode *sym_symbol(SymIn *in, const char *name, size_t n)
{
    Symbols *s = in->symbols;
    for (int32_t i = 0; i < s->n; i++)
        if (strlen(s->list[i].name) == n && !memcmp(s->list[i].name, name, n))
            return sym_new(in, SYM_SYMBOL, i);
    VEC_ADD(in->pool, s->list, s->n, s->cap,
            (Symbol){ .name = pool_textn(in->pool, name, n), .low = INT64_MIN, .high = INT64_MAX });
    return sym_new(in, SYM_SYMBOL, s->n - 1);
}

/* 12, 0.5, 1e-3: whole numbers are exact. */
static Err sym_digits(SymIn *in, const SymNode **out)
{
    const char *p = in->at;
    int64_t     whole = 0;
    bool        overflow = false;
    for (; isdigit((unsigned char)*p); p++)
        overflow |= __builtin_mul_overflow(whole, 10, &whole) ||
                    __builtin_add_overflow(whole, *p - '0', &whole);
    if (*p == '.' || *p == 'e' || *p == 'E') {
        char  *end;
        double real = strtod(in->at, &end);
        if (end == in->at || !isfinite(real))
            return sym_wrong(in, "a number that is none");
        in->at = end;
        *out = sym_constant(in, (SymValue){ .real = real });
        return OK;
    }
    if (overflow)
        return sym_wrong(in, "a number above 2^63");
    in->at = p;
    *out = sym_constant(in, (SymValue){ true, whole, 1, 0 });
    return OK;
}

static Err sym_quoted(SymIn *in, const char **text, size_t *n)
{
    char quote = *in->at;
    if (quote != '\'' && quote != '"')
        return sym_wrong(in, "a name in quotes is missing");
    const char *end = strchr(in->at + 1, quote);
    if (!end)
        return sym_wrong(in, "a quote is not closed");
    *text = in->at + 1;
    *n = (size_t)(end - *text);
    in->at = end + 1;
    return OK;
}

/* The rest of Symbol('s77', positive=True, ...) or Float('0.5', precision=53) after its text. */
static Err sym_assumptions(SymIn *in)
{
    while (sym_next(in, ",")) {
        sym_skip(in);
        while (isalnum((unsigned char)*in->at) || *in->at == '_' || *in->at == '=' ||
               *in->at == '-' || *in->at == ' ')
            in->at++;
    }
    return sym_next(in, ")") ? OK : sym_wrong(in, "')' is missing");
}

static Err sym_named(SymIn *in, bool symbol, const SymNode **out)
{
    const char *text = NULL;
    size_t      n = 0;
    sym_skip(in);
    TRY(sym_quoted(in, &text, &n));
    if (!n)
        return sym_wrong(in, "an empty name");
    if (symbol) {
        *out = sym_symbol(in, text, n);
    } else {
        char  *end;
        double real = strtod(text, &end);
        if (end != text + n || !isfinite(real))
            return sym_wrong(in, "a number that is none");
        *out = sym_constant(in, (SymValue){ .real = real });
    }
    return sym_assumptions(in);
}

static Err sym_whole(SymIn *in, int64_t *value)
{
    bool           minus = sym_next(in, "-");
    const SymNode *node = NULL;
    sym_skip(in);
    if (!isdigit((unsigned char)*in->at))
        return sym_wrong(in, "a whole number is missing");
    TRY(sym_digits(in, &node));
    if (!node->number.exact)
        return sym_wrong(in, "a whole number is missing");
    *value = minus ? -node->number.num : node->number.num;
    return OK;
}

/* Integer(2), Rational(1, 2) */
static Err sym_fraction(SymIn *in, bool rational, const SymNode **out)
{
    int64_t num, den = 1;
    TRY(sym_whole(in, &num));
    if (rational && (!sym_next(in, ",")))
        return sym_wrong(in, "a denominator is missing");
    if (rational)
        TRY(sym_whole(in, &den));
    if (den <= 0)
        return sym_wrong(in, "a denominator that is not above 0");
    *out = sym_constant(in, (SymValue){ true, num, den, 0 });
    return sym_next(in, ")") ? OK : sym_wrong(in, "')' is missing");
}

static Err sym_call(SymIn *in, const char *head, size_t n_head, const SymNode **out)
{
    static const struct {
        const char *head;
        SymKind     kind;
        int         n;
    } known[] = {
#define X(head, kind, n) { head, SYM_##kind, n },
        SYM_LIST(X)
#undef X
    };
    size_t k = 0, n_known = sizeof known / sizeof *known;
    while (k < n_known && (strlen(known[k].head) != n_head || memcmp(known[k].head, head, n_head)))
        k++;
    if (k == n_known)
        return fail(E_FORMAT, "the size '%.200s' uses '%.*s', which is not known", in->text,
                    n_head > 60 ? 60 : (int)n_head, head);
    const SymNode **args = NULL;
    int32_t         n = 0, cap = 0;
    if (!sym_next(in, ")")) {
        do {
            const SymNode *arg = NULL;
            sym_skip(in);
            const char *word = in->at;
            while (isalpha((unsigned char)*word))
                word++;
            if (word > in->at && *word == '=' && word[1] != '=') { /* evaluate=False */
                in->at = word + 1;
                while (isalnum((unsigned char)*in->at))
                    in->at++;
                continue;
            }
            TRY(sym_or(in, &arg));
            VEC_ADD(in->pool, args, n, cap, arg);
        } while (sym_next(in, ","));
        if (!sym_next(in, ")"))
            return sym_wrong(in, "',' or ')' is missing");
    }
    if (known[k].n >= 0 ? n != known[k].n : n < 1)
        return sym_wrong(in, "the wrong number of arguments");
    SymNode *node = sym_new(in, known[k].kind, 0);
    node->n = n;
    node->args = args;
    *out = node;
    return OK;
}

static Err sym_atom(SymIn *in, const SymNode **out)
{
    sym_skip(in);
    const char *word = in->at;
    if (isdigit((unsigned char)*word))
        return sym_digits(in, out);
    if (sym_next(in, "(")) {
        TRY(sym_or(in, out));
        return sym_next(in, ")") ? OK : sym_wrong(in, "')' is missing");
    }
    while (isalnum((unsigned char)*in->at) || *in->at == '_')
        in->at++;
    size_t n = (size_t)(in->at - word);
    if (!n)
        return sym_wrong(in, "a number, a symbol or a function is missing");
#define IS(text) (n == sizeof(text) - 1 && !memcmp(word, text, n))
    if (sym_next(in, "(")) {
        if (IS("Symbol") || IS("Float") || IS("Dummy"))
            return sym_named(in, !IS("Float"), out);
        if (IS("Integer") || IS("Rational"))
            return sym_fraction(in, IS("Rational"), out);
        return sym_call(in, word, n, out);
    }
    if (IS("true") || IS("True") || IS("false") || IS("False"))
        *out = sym_constant(in, (SymValue){ true, *word == 't' || *word == 'T', 1, 0 });
    else
        *out = sym_symbol(in, word, n);
#undef IS
    return OK;
}

/* Unary minus binds less than a power: -2**2 is -4. */
static Err sym_unary(SymIn *in, const SymNode **out)
{
    if (in->depth == SYM_DEPTH_MAX || in->n_nodes > SYM_NODES_MAX)
        return sym_wrong(in, "it is too long");
    in->depth++;
    if (sym_next(in, "-")) {
        TRY(sym_unary(in, out));
        *out = sym_one(in, SYM_NEG, *out);
    } else if (sym_next(in, "+")) {
        TRY(sym_unary(in, out));
    } else if (sym_next(in, "~")) {
        TRY(sym_unary(in, out));
        *out = sym_one(in, SYM_NOT, *out);
    } else {
        TRY(sym_atom(in, out));
        if (sym_next(in, "**")) {
            const SymNode *power = NULL;
            TRY(sym_unary(in, &power));
            *out = sym_two(in, SYM_POW, *out, power);
        }
    }
    in->depth--;
    return OK;
}

typedef struct SymOperator {
    const char *word;
    SymKind     kind;
} SymOperator;

typedef struct SymLevel { /* operators of one strength, the longest first; they bind to the left */
    SymOperator list[6];
} SymLevel;

static const SymLevel sym_levels[] = {
    { { { "|", SYM_OR } } },
    { { { "&", SYM_AND } } },
    { { { "==", SYM_EQ },
        { "!=", SYM_NE },
        { "<=", SYM_LE },
        { ">=", SYM_GE },
        { "<", SYM_LT },
        { ">", SYM_GT } } },
    { { { "<<", SYM_SHIFT_L }, { ">>", SYM_SHIFT_R } } },
    { { { "+", SYM_ADD }, { "-", SYM_NEG } } },
    { { { "//", SYM_FLOOR_DIV }, { "*", SYM_MUL }, { "/", SYM_DIV }, { "%", SYM_MOD } } },
};

static const SymOperator *sym_operator(SymIn *in, const SymLevel *level)
{
    sym_skip(in);
    for (int i = 0; i < 6 && level->list[i].word; i++) {
        const SymOperator *op = &level->list[i];
        size_t             n = strlen(op->word);
        if (strncmp(in->at, op->word, n) != 0)
            continue;
        if (n == 1 && (*op->word == '<' || *op->word == '>') && in->at[1] == *op->word)
            continue; /* a shift */
        in->at += n;
        return op;
    }
    return NULL;
}

static Err sym_binary(SymIn *in, size_t level, const SymNode **out)
{
    if (level == sizeof sym_levels / sizeof *sym_levels)
        return sym_unary(in, out);
    TRY(sym_binary(in, level + 1, out));
    for (const SymOperator *op; (op = sym_operator(in, &sym_levels[level]));) {
        const SymNode *right = NULL;
        TRY(sym_binary(in, level + 1, &right));
        if (op->kind == SYM_NEG)
            *out = sym_two(in, SYM_ADD, *out, sym_one(in, SYM_NEG, right));
        else
            *out = sym_two(in, op->kind, *out, right);
    }
    return OK;
}

static Err sym_or(SymIn *in, const SymNode **out)
{
    if (in->depth == SYM_DEPTH_MAX)
        return sym_wrong(in, "it is too long");
    in->depth++;
    TRY(sym_binary(in, 0, out));
    in->depth--;
    return OK;
}

Err sym_parse(Pool *pool, Symbols *symbols, const char *text, const SymNode **out)
{
    SymIn in = { pool, symbols, text, text, 0, 0 };
    TRY(sym_or(&in, out));
    sym_skip(&in);
    return *in.at ? sym_wrong(&in, "something follows the expression") : OK;
}
