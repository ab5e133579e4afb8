/* layout_csv.c -- fuzz target: no bytes may upset the CSV reader, and what it accepts can be
 * solved.
 *
 *   clang -fsanitize=fuzzer,address,undefined -Isrc tests/fuzz/layout_csv.c src/layout/<all>.c
 * src/base/<all>.c -lm
 */
#include "layout/layout.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Pool        *pool = pool_new(NULL, "fuzz");
    LayoutFile   file;
    LayoutResult result;
    if (layout_parse(pool, (const char *)bytes, n, &file) == OK) {
        LayoutOptions options = { .max_nodes = 200 };
        Err err = layout_solve(pool, file.buffers, file.n, &options, &result);
        if (err == OK)
            REQUIRE(layout_check(file.buffers, file.n, result.arena_bytes) == OK);
    }
    pool_free(pool);
    return 0;
}
