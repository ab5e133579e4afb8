/* sym_expr.c -- fuzz target: the input as an expression of sizes; its value for three sets of
 * symbols, and the symbol solved for. */
#include "import/sym_expr.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const int64_t values[] = { 1, 37, INT64_MAX, INT64_MIN };
    Pool                *pool = pool_new(NULL, "fuzz");
    char                *text = pool_textn(pool, (const char *)bytes, n);
    Symbols              symbols = { 0 };
    const SymNode       *expr = NULL;
    if (sym_parse(pool, &symbols, text, &expr) == OK) {
        SymInt  size = { 0, expr };
        int64_t value;
        double  number;
        sym_solve(&symbols, expr, 12);
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            for (int32_t i = 0; i < symbols.n; i++) {
                symbols.list[i].known = true;
                symbols.list[i].value = values[v];
                REQUIRE(symbol_find(&symbols, symbols.list[i].name) == &symbols.list[i]);
                sym_uses(&symbols, size, &symbols.list[i]);
            }
            (void)sym_eval(&symbols, size, &value);
            (void)sym_eval_number(&symbols, size, &number);
        }
    }
    pool_free(pool);
    return 0;
}
