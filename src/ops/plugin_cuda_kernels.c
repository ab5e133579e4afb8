/* plugin_cuda_kernels.c -- the CUDA plugin's entry points and its table of kernels. */
#include "device/plugin_cuda.h"
#include "linalg/plugin_cuda_linalg.h"
#include "ops/ops.h"
#include "ops/plugin_cuda_kernels.h"

static const Kernel *const kernels[OP_COUNT] = {
#define CUDA_KERNEL(op) [OP_ID_##op] = &cuda_kernel_##op,
#include "ops/cuda_kernels.def"
#undef CUDA_KERNEL
};

static const CudaParts parts = { .kernels = kernels,
                                 .libraries_open = cuda_libraries_open,
                                 .libraries_describe = cuda_libraries_describe,
                                 .versions = cuda_libraries_versions,
                                 .backend = cuda_backend };

Err plimsoll_cuda_open(Pool *pool, const DeviceOptions *options, Device *device)
{
    return cuda_device_open(pool, options, &parts, device);
}

Err plimsoll_cuda_describe(Pool *pool, const DeviceOptions *options, const char *json,
                           Device *device)
{
    return cuda_device_describe(pool, options, json, &parts, device);
}
