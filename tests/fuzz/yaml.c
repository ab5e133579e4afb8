/* yaml.c -- fuzz target: what parses as YAML is written as JSON, which is also YAML; reading that
 * as JSON and as YAML must give the same tree. */
#include "base/yaml.h"

#include "written.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool       *pool = pool_new(NULL, "fuzz");
    const Json *root, *as_json, *as_yaml;
    if (yaml_parse(pool, "fuzz", (const char *)bytes, n, &root) == OK) {
        Text once = fuzz_written(pool, root);
        REQUIRE(json_parse(pool, "json", once.at, once.n, 0, &as_json) == OK);
        Text twice = fuzz_written(pool, as_json);
        REQUIRE(once.n == twice.n && !memcmp(once.at, twice.at, once.n));
        if (!memchr(once.at, 0x7F, once.n)) { /* valid in JSON, not in recipes */
            REQUIRE(yaml_parse(pool, "yaml", once.at, once.n, &as_yaml) == OK);
            twice = fuzz_written(pool, as_yaml);
            REQUIRE(once.n == twice.n && !memcmp(once.at, twice.at, once.n));
        }
    }
    pool_free(pool);
    return 0;
}
