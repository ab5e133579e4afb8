/* probe.c -- the probe of rates at tiny sizes: every number is there, is above zero and has an
 * origin. */
#include "profile/devices.h"
#include "profile/probe.h"

#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static int    tells;
static double told;

static void tell(void *arg, double done, const char *text)
{
    CHECK(!arg && *text && done >= told && done <= 1.0);
    told = done;
    tells++;
}

static void tiny(const char *backend, int threads)
{
    Pool    *pool = pool_new(NULL, "test");
    Device  *device;
    Profile *profile = NEW(pool, Profile), *again;
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = threads, .backend = backend }, &device));
    ProbeOptions options = {
        .bandwidth_bytes = 1 << 16, .largest_flops = 1e6, .seconds = 1e-4, .progress = tell
    };
    tells = 0;
    told = 0;
    CHECK_OK(probe_rates(pool, device, &options, profile));
    CHECK(tells > 6);
    CHECK_INT(profile->bandwidth[profile->n_bandwidth - 1].threads, threads);
    CHECK_INT(profile->n_bandwidth, threads == 1 ? 1 : threads == 3 ? 3 : 2); /* 1, 2, 3 */
    int classes = 0;
    for (int32_t i = 0; i < profile->n_rates; i++) {
        CHECK(profile->rates[i].flops_per_s > 0 && isfinite(profile->rates[i].flops_per_s));
        CHECK(strstr(profile->rates[i].origin, "measured on") != NULL);
        classes += profile->rates[i].kind == RATE_MATMUL && !strcmp(profile->rates[i].type, "bf16");
    }
    CHECK_INT(classes, 2); /* 32^3 and 64^3; 128^3 exceeds largest_flops */
    profile->total_bytes = profile->usable_bytes = 1;
    profile->memory_origin = "not asked";
    profile_ready(pool, profile);
    CHECK_OK(profile_write(profile, "probe-test.json"));
    CHECK_OK(profile_read(pool, "probe-test.json", &again));
    CHECK_INT(again->n_rates, profile->n_rates);
    CHECK_TEXT(again->library, device->library);
    unlink("probe-test.json");
    pool_free(pool);
}

static void own(void) { tiny("builtin", 1); }
static void best(void) { tiny(NULL, 2); }
static void threefold(void) { tiny("builtin", 3); }

int main(void)
{
    RUN(own);
    RUN(best);
    RUN(threefold);
    return test_end();
}
