/* layout_csv.c -- fuzz target: the CSV reader accepts or refuses any bytes, and the checker accepts
 * every layout solved for what it reads. */
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
        Err           err = layout_solve(pool, file.buffers, file.n, &options, &result);
        if (err == OK)
            REQUIRE(layout_check(file.buffers, file.n, result.arena_bytes) == OK);
    }
    pool_free(pool);
    return 0;
}
