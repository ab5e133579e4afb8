/* wire.c -- fuzz target: a wire profile that parses predicts finite times that do not fall with the
 * bytes moved. */
#include "profile/wire.h"

#include <math.h>

static void look(const Wire *wire, Ranks ranks)
{
    double before = 0;
    if (wire_suits(wire, ranks))
        return;
    REQUIRE(wire_held_bytes(wire, ranks) >= 0);
    for (int64_t bytes = 0; bytes < (int64_t)1 << 40; bytes = bytes * 100 + 1) {
        double ns = wire_transfer_ns(wire, ranks, bytes);
        REQUIRE(isfinite(ns) && ns >= before && isfinite(wire_records_ns(wire, ranks, bytes)));
        before = ns;
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool *pool = pool_new(NULL, "fuzz");
    Wire *wire;
    if (wire_parse(pool, "fuzz", (const char *)bytes, n, &wire) == OK) {
        look(wire, (Ranks){ 2, 2 });
        look(wire, (Ranks){ 2, 1 });
        look(wire, (Ranks){ 1024, 8 });
    }
    pool_free(pool);
    return 0;
}
