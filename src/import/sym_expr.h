/* sym_expr.h -- expressions of sizes, as torch.export writes them. Not for other rooms.
 *
 * Two forms are read by one grammar: Python's (`2*s0 + 1`, `((s0//8))`, `Max(1, s0)`; up to 2.5)
 * and sympy's srepr (`Mul(Integer(2), Symbol('s77', integer=True))`; from 2.6 on).
 */
#ifndef IMPORT_SYM_EXPR_H
#define IMPORT_SYM_EXPR_H

#include "import/exported.h"

typedef enum SymKind {
    SYM_NUMBER,
    SYM_SYMBOL,
    SYM_ADD,
    SYM_MUL,
    SYM_MAX,
    SYM_MIN,
    SYM_AND,
    SYM_OR,
    SYM_NEG,
    SYM_POW,
    SYM_DIV,
    SYM_FLOOR_DIV,
    SYM_CEIL_DIV,
    SYM_MOD,
    SYM_INDEXING,
    SYM_SHIFT_L,
    SYM_SHIFT_R,
    SYM_FLOOR,
    SYM_CEIL,
    SYM_TRUNC,
    SYM_ROUND,
    SYM_ABS,
    SYM_SQRT,
    SYM_EXP,
    SYM_LOG,
    SYM_LOG2,
    SYM_IDENTITY,
    SYM_WHERE,
    SYM_NOT,
    SYM_EQ,
    SYM_NE,
    SYM_LT,
    SYM_LE,
    SYM_GT,
    SYM_GE
} SymKind;

typedef struct SymValue {
    bool    exact;
    int64_t num, den; /* exact: a reduced fraction, den above 0 */
    double  real;     /* else */
} SymValue;

struct SymNode {
    SymKind         kind;
    int32_t         n; /* arguments; of a symbol: its index */
    const SymNode **args;
    SymValue        number;
};

/* Symbols that are new are added, without an example value. E_FORMAT says what is wrong. */
Err sym_parse(Pool *pool, Symbols *symbols, const char *text, const SymNode **out);

/* The symbol if the expression is one, else NULL. */
Symbol *sym_alone(const Symbols *symbols, const SymNode *expr);
/* Finds the example value of the only symbol without one, so that the expression has `hint`. */
void    sym_solve(Symbols *symbols, const SymNode *expr, int64_t hint);

#endif
