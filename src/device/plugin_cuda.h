/* plugin_cuda.h -- makes a CUDA Device from parts that later rooms provide.
 *
 * The plugin's entry points (ops/plugin_cuda_kernels.c) pass the vendor libraries of linalg/ and
 * the kernels of ops/ down to here, so that device/ knows neither. */
#ifndef DEVICE_PLUGIN_CUDA_H
#define DEVICE_PLUGIN_CUDA_H

#include "device/cuda.h"
#include "device/device.h"

typedef struct CudaParts {
    const struct Kernel *const *kernels; /* by operator id */
    /* Make the libraries' handles; or, without a GPU, prepare to plan from its description. */
    Err (*libraries_open)(CudaHandle *handle);
    Err (*libraries_describe)(CudaHandle *handle, const char *json);
    const char *(*versions)(void); /* written into plans */
    const Backend *(*backend)(const CudaHandle *handle);
    const struct QueueApi *transfers;
} CudaParts;

Err  cuda_device_open(Pool *pool, const DeviceOptions *options, const CudaParts *parts,
                      Device *device);
/* From now on the host waits for no work of the GPU, and frees nothing: the process is about to end. */
void cuda_device_give_up(void);
Err  cuda_device_describe(Pool *pool, const DeviceOptions *options, const char *json,
                          const CudaParts *parts, Device *device);

#endif
