/* json.c -- fuzz target: what parses as JSON is written, parsed and written again, to the same
 * text. */
#include "base/json.h"

#include "written.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool       *pool = pool_new(NULL, "fuzz");
    const Json *root, *again;
    json_parse(pool, "fuzz", (const char *)bytes, n, JSON_ALLOW_NAN, &again);
    if (json_parse(pool, "fuzz", (const char *)bytes, n, 0, &root) == OK) {
        Text once = fuzz_written(pool, root);
        REQUIRE(json_parse(pool, "again", once.at, once.n, 0, &again) == OK);
        Text twice = fuzz_written(pool, again);
        REQUIRE(once.n == twice.n && !memcmp(once.at, twice.at, once.n));
        for (uint32_t i = 0; root->kind == JSON_OBJECT && i < root->n; i++)
            REQUIRE(json_get(root, root->members[i].key) == &root->members[i].value);
    }
    pool_free(pool);
    return 0;
}
