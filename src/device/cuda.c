/* cuda.c -- the CUDA device, if its plugin and a card are there. */
#include "device/device.h"

#include "device/plugin.h"

#include <dlfcn.h>

typedef Err CudaEntry(Pool *pool, const DeviceOptions *options, Device *device);

Err device_cuda(Pool *pool, const DeviceOptions *options, Device **out)
{
    static const DeviceOptions defaults = { 0 };
    char    why[512];
    Device *device = NEW(pool, Device);
    void   *lib = plugin_load("libplimsoll_cuda.so", why, sizeof why);
    if (!lib)
        return fail(E_DEVICE, "no CUDA here: %s; build with nvcc and the CUDA libraries (make cuda), or use --device cpu",
                    why);
    CudaEntry *entry;
    *(void **)&entry = dlsym(lib, "plimsoll_cuda_open");
    if (!entry)
        return fail(E_DEVICE, "libplimsoll_cuda.so is of another version; build it again with this program");
    TRY(entry(pool, options ? options : &defaults, device));
    *out = device;
    return OK;
}
