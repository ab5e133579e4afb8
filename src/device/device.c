/* device.c -- bytes in and out of a device, and the arena, on whichever device it is. */
#include "device/device.h"

#include <string.h>

Err device_write(const Device *device, void *to, const void *from, size_t bytes)
{
    if (device->api)
        return device->api->write(device, to, from, bytes);
    memcpy(to, from, bytes);
    return OK;
}

Err device_read(const Device *device, void *to, const void *from, size_t bytes)
{
    if (device->api)
        return device->api->read(device, to, from, bytes);
    memcpy(to, from, bytes);
    return OK;
}

Err device_wait(const Device *device)
{
    return device->api ? device->api->wait(device) : OK;
}

typedef struct Taken {
    const Device *device;
    void         *base;
} Taken;

static void taken_give(void *arg)
{
    Taken *taken = arg;
    taken->device->api->give(taken->device, taken->base);
}

static void taken_give_host(void *arg)
{
    Taken *taken = arg;
    taken->device->api->give_host(taken->device, taken->base);
}

Err device_host_bytes(Pool *pool, const Device *device, int64_t bytes, void **base)
{
    if (!device->api) {
        *base = pool_alloc(pool, (size_t)(bytes ? bytes : 1), 1);
        return OK;
    }
    Taken *taken = NEW(pool, Taken);
    TRY(device->api->take_host(device, bytes, base));
    *taken = (Taken){ device, *base };
    pool_at_free(pool, taken_give_host, taken);
    return OK;
}

Err arena_new(Pool *pool, const Device *device, int64_t bytes, Arena **out)
{
    if (!device->api)
        return arena_cpu(pool, device, bytes, out);
    Taken *taken = NEW(pool, Taken);
    Arena *arena = NEW(pool, Arena);
    void  *base;
    TRY(device->api->take(device, bytes, &base));
    *taken = (Taken){ device, base };
    pool_at_free(pool, taken_give, taken);
    *arena = (Arena){ device, base, bytes };
    *out = arena;
    return OK;
}
