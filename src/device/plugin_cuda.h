/* plugin_cuda.h -- a CUDA Device, put together from what the later rooms bring.
 *
 * The plugin's entry points (ops/plugin_cuda_kernels.c) pass the vendor libraries of linalg/ and the
 * kernels of ops/ down to here, so that device/ knows neither. */
#ifndef DEVICE_PLUGIN_CUDA_H
#define DEVICE_PLUGIN_CUDA_H

#include "device/cuda.h"
#include "device/device.h"

typedef struct CudaParts {
    const struct Kernel *const *kernels;                 /* by operator id */
    /* Makes the libraries' handles, or what plans without a GPU from its description. */
    Err (*libraries_open)(CudaHandle *handle);
    Err (*libraries_describe)(CudaHandle *handle, const char *json);
    const char *(*versions)(void);                       /* written into plans */
    const Backend *(*backend)(const CudaHandle *handle);
} CudaParts;

Err cuda_device_open(Pool *pool, const DeviceOptions *options, const CudaParts *parts,
                     Device *device);
Err cuda_device_describe(Pool *pool, const DeviceOptions *options, const char *json,
                         const CudaParts *parts, Device *device);

#endif
