/* profile.c -- fuzz target: a device profile that parses predicts finite times above zero that do
 * not decrease with the bytes moved. */
#include "profile/profile.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool    *pool = pool_new(NULL, "fuzz");
    Profile *profile;
    if (profile_parse(pool, "fuzz", (const char *)bytes, n, &profile) == OK)
        for (int32_t i = 0; i < profile->n_ops; i++) {
            double before = 0;
            for (double bytes_moved = 1; bytes_moved < 1e12; bytes_moved *= 100) {
                TimeBasis basis;
                OpTime    call = profile->ops[i];
                call.key = ~call.key;
                call.flops = 0;
                call.bytes = bytes_moved;
                double ns = profile_ns(profile, &call, &basis);
                REQUIRE(basis == TIME_MEASURED ||
                        (isfinite(ns) && ns > 0 && ns >= before * (1 - 1e-9)));
                before = basis == TIME_MEASURED ? 0 : ns;
            }
        }
    pool_free(pool);
    return 0;
}
