/* plugin_cuda_kernels.h -- what libplimsoll_cuda.so exports; device/cuda.c finds them by name. */
#ifndef OPS_PLUGIN_CUDA_KERNELS_H
#define OPS_PLUGIN_CUDA_KERNELS_H

#include "device/device.h"

Err plimsoll_cuda_open(Pool *pool, const DeviceOptions *options, Device *device);
Err plimsoll_cuda_describe(Pool *pool, const DeviceOptions *options, const char *json,
                           Device *device);

#endif
