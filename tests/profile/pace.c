/* pace.c -- the pace of an unprobed processor: measured once, kept, found again; it scales what is shown
 * and nothing that plans are chosen by. */
#include "test.h"

#include "base/clock.h"
#include "base/file.h"
#include "device/memory.h"
#include "fit/fit.h"
#include "profile/devices.h"
#include "profile/pace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static Pool *pool;

static Device *open_device(void)
{
    Device *device = NULL;
    CHECK_OK(
        device_open(pool, "cpu", &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    return device;
}

static void fit_it(const Device *device, FitResult *fit)
{
    const char *const sets[] = { "model.widths=[8]", "model.groups=4", "model.heads=2",
                                 "model.height=8",   "model.width=8",  "batch=2" };
    Recipe           *recipe;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", sets, 6, &recipe));
    CHECK_OK(fit_run(pool, recipe, device,
                     &(FitOptions){ .budget_bytes = 340000, .allow = ALLOW_DEFAULT, .effort = 500 },
                     fit));
    CHECK_OK(fit_write("pace_test/plan.json", recipe, fit));
}

static const char *plan_text(void)
{
    char  *text;
    size_t n;
    CHECK_OK(file_read(pool, "pace_test/plan.json", &text, &n));
    return text;
}

/* A real measurement, unless the machine is busy. */
static void measured(void)
{
    Device *device = open_device();
    Pace    pace;
    CHECK(!device->profile);
    CHECK_OK(pace_measure(pool, device, &pace));
    for (int i = 0; i <= RATE_KINDS; i++)
        CHECK(pace.of[i] >= 0.01 && pace.of[i] <= 100);
    if (pace.mean <= 0)
        SKIP("the machine is too busy to be measured");
    else
        CHECK(pace.mean > 0.01 && pace.mean < 100);
}

static void kept_and_found(void)
{
    const Pace kept = { 0.375, { 0.25, 0.5, 0.375 } };
    Device    *device = open_device();
    CHECK_OK(pace_keep(pool, device, &kept));
    double start = clock_now();
    CHECK_OK(pace_find(pool, device));
    CHECK(clock_now() - start < 0.2); /* read, not measured */
    if (CHECK(device->profile != NULL))
        CHECK_NEAR(device->profile->pace, 0.375, 0);
    for (int i = 0; device->profile && i <= RATE_KINDS; i++)
        CHECK_NEAR(device->profile->pace_of[i], kept.of[i], 0);
    Device *other = open_device();
    other->library = "another one";
    CHECK_OK(pace_find(pool, other));
    CHECK(!other->profile || other->profile->pace != 0.375);
}

static void plans_are_the_same(void)
{
    Device   *plain = open_device(), *paced = open_device();
    FitResult without, with;
    CHECK_OK(pace_find(pool, paced));
    fit_it(plain, &without);
    const char *before = plan_text();
    fit_it(paced, &with);
    CHECK_TEXT(plan_text(), before);
    CHECK_NEAR(with.step_ns, without.step_ns, 0);
    CHECK_NEAR(engine_pace(without.engine), 1, 0);
    /* between the fastest and the slowest kind, by what the model does */
    CHECK(engine_pace(with.engine) > 0.25 && engine_pace(with.engine) < 0.5);
    Profile *other = NEW(pool, Profile);
    *other = *paced->profile;
    for (int i = 0; i <= RATE_KINDS; i++)
        other->pace_of[i] = i == RATE_CONV ? 8 : 0.25;
    paced->profile = other;
    CHECK(engine_pace(with.engine) > 0.5); /* it convolves */
    CHECK_TEXT(engine_time_source(without.engine), "roofline");
    CHECK_TEXT(engine_time_source(with.engine), "roofline scaled to this machine");
}

/* A file of another machine, or a damaged one, is measured again; without a folder nothing is. */
static void what_was_kept_may_be_wrong(void)
{
    char  **names, *path = NULL;
    int     n;
    Device *device = open_device();
    CHECK_OK(folder_list(pool, "pace_test/plimsoll", &names, &n));
    for (int i = 0; i < n; i++)
        if (!strncmp(names[i], "pace-", 5))
            path = pool_print(pool, "pace_test/plimsoll/%s", names[i]);
    if (!CHECK(path != NULL))
        return;
    CHECK_OK(file_write(path, "{\"format\": \"plimsoll-pace-1\", \"pace\": -3}", 40));
    CHECK_OK(pace_find(pool, device)); /* measured again, or nothing is known */
    CHECK(!device->profile || device->profile->pace > 0);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    device = open_device();
    CHECK_OK(pace_find(pool, device));
    CHECK(!device->profile);
}

/* Where little memory is left, nothing is measured: the copy would end the program. */
static void little_memory(void)
{
    struct rlimit before, low;
    Device       *device = open_device();
    const char   *cache = pool_text(pool, getenv("XDG_CACHE_HOME"));
    CHECK_OK(folder_make("pace_test/empty"));
    setenv("XDG_CACHE_HOME", pool_print(pool, "%s/empty", cache), 1);
    MemoryLimits limits;
    REQUIRE(!getrlimit(RLIMIT_AS, &before));
    low = before;
    low.rlim_cur = (rlim_t)1 << 62;
    REQUIRE(!setrlimit(RLIMIT_AS, &low));
    limits = memory_limits();
    low.rlim_cur = (rlim_t)(((int64_t)1 << 62) - limits.address_left + (96 << 20));
    REQUIRE(!setrlimit(RLIMIT_AS, &low));
    CHECK_OK(pace_find(pool, device));
    REQUIRE(!setrlimit(RLIMIT_AS, &before));
    CHECK(!device->profile);
    setenv("XDG_CACHE_HOME", cache, 1);
}

int main(void)
{
    char folder[4096];
    pool = pool_new(NULL, "test");
    REQUIRE(getcwd(folder, sizeof folder) != NULL && system("rm -rf pace_test") == 0);
    CHECK_OK(folder_make("pace_test"));
    setenv("XDG_CACHE_HOME", pool_print(pool, "%s/pace_test", folder), 1);
    setenv("XDG_CONFIG_HOME", pool_print(pool, "%s/pace_test/config", folder), 1);
    RUN(measured);
    RUN(kept_and_found);
    RUN(plans_are_the_same);
    RUN(little_memory);
    RUN(what_was_kept_may_be_wrong);
    pool_free(pool);
    return test_end();
}
