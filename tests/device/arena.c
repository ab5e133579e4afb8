/* Tests of arena_cpu: an arena beyond what the machine gives is refused before it is allocated, with the budget
 * that would do where there is one. */
#include "device/device.h"

#include "profile/devices.h"
#include "test.h"

#include <string.h>

static Pool *pool;

static Err refused(int64_t left)
{
    Arena  *arena;
    Device *device;
    TRY(device_open(pool, "cpu", NULL, &device));
    device->memory_bytes = left;
    return arena_new(pool, device, (int64_t)64 << 20, &arena);
}

static void names_a_budget_that_does(void)
{
    CHECK_INT(refused((int64_t)80 << 20), E_BUDGET);
    CHECK(strstr(err_text(), "use --budget 5") != NULL);
    CHECK_INT(refused((int64_t)8 << 20), E_BUDGET); /* less than the program itself takes */
    CHECK(strstr(err_text(), "--budget") == NULL);
    CHECK(strstr(err_text(), "close other programs") != NULL);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(names_a_budget_that_does);
    pool_free(pool);
    return test_end();
}
