/* test_device.h -- the device a test runs on: the CPU, or the GPU if PLIMSOLL_TEST_DEVICE is "cuda"
 * (`make test-cuda`). */
#ifndef TESTS_TEST_DEVICE_H
#define TESTS_TEST_DEVICE_H

#include "profile/devices.h"

#include <stdlib.h>
#include <string.h>

static inline Err test_device(Pool *pool, const DeviceOptions *options, Device **device)
{
    const char *name = getenv("PLIMSOLL_TEST_DEVICE");
    if (name && !strcmp(name, "cuda"))
        return device_cuda(pool, options, device);
    return device_cpu(pool, options, device);
}

#endif
