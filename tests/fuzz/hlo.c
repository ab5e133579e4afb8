/* hlo.c -- fuzz target: the input as StableHLO text. */
#include "import/exported.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool     *pool = pool_new(NULL, "fuzz");
    Exported *program;
    (void)hlo_parse(pool, "fuzz.mlir", pool_textn(pool, (const char *)bytes, n), &program);
    pool_free(pool);
    return 0;
}
