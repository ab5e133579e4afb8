/* device.c -- copies to and from any device, and its arena. */
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

Err device_wait(const Device *device) { return device->api ? device->api->wait(device) : OK; }

typedef struct DeviceMemory {
    const Device *device;
    void         *base;
} DeviceMemory;

static void device_memory_free(void *arg)
{
    DeviceMemory *memory = arg;
    memory->device->api->free(memory->device, memory->base);
}

static void device_memory_free_host(void *arg)
{
    DeviceMemory *memory = arg;
    memory->device->api->free_host(memory->device, memory->base);
}

Err device_host_bytes(Pool *pool, const Device *device, int64_t bytes, void **base)
{
    if (!device->api) {
        *base = pool_alloc(pool, (size_t)(bytes ? bytes : 1), 1);
        return OK;
    }
    DeviceMemory *memory = NEW(pool, DeviceMemory);
    TRY(device->api->alloc_host(device, bytes, base));
    *memory = (DeviceMemory){ device, *base };
    pool_at_free(pool, device_memory_free_host, memory);
    return OK;
}

Err arena_new(Pool *pool, const Device *device, int64_t bytes, Arena **out)
{
    if (!device->api)
        return arena_cpu(pool, device, bytes, out);
    DeviceMemory *memory = NEW(pool, DeviceMemory);
    Arena        *arena = NEW(pool, Arena);
    void         *base;
    TRY(device->api->alloc(device, bytes, &base));
    *memory = (DeviceMemory){ device, base };
    pool_at_free(pool, device_memory_free, memory);
    *arena = (Arena){ device, base, bytes };
    *out = arena;
    return OK;
}
