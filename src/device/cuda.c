/* cuda.c -- opens the CUDA device through its plugin, if there is one. */
#include "device/device.h"

#include "device/plugin.h"

#include <dlfcn.h>

typedef Err CudaOpen(Pool *pool, const DeviceOptions *options, Device *device);
typedef Err CudaDescribe(Pool *pool, const DeviceOptions *options, const char *json,
                         Device *device);

static Err cuda_entry(const char *name, void **entry)
{
    char  why[512];
    void *lib = plugin_load("libplimsoll_cuda.so", why, sizeof why);
    if (!lib)
        return fail(E_DEVICE,
                    "no CUDA here: %s; build with nvcc and the CUDA libraries (make cuda), or use "
                    "--device cpu",
                    why);
    *entry = dlsym(lib, name);
    if (!*entry)
        return fail(E_DEVICE,
                    "libplimsoll_cuda.so is of another version; build it again with this program");
    return OK;
}

Err device_cuda(Pool *pool, const DeviceOptions *options, Device **out)
{
    static const DeviceOptions defaults = { 0 };
    Device                    *device = NEW(pool, Device);
    CudaOpen                  *entry;
    TRY(cuda_entry("plimsoll_cuda_open", (void **)&entry));
    TRY(entry(pool, options ? options : &defaults, device));
    *out = device;
    return OK;
}

Err device_cuda_kernels(Pool *pool, const DeviceOptions *options, const char *json, Device *device)
{
    CudaDescribe *entry;
    TRY(cuda_entry("plimsoll_cuda_describe", (void **)&entry));
    return entry(pool, options, json, device);
}
